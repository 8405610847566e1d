"""The matrix of laws and models, each cell a verdict that leads to its claim."""

from __future__ import annotations

from html import escape

from ....claims import Claim, Recorder, judge
from ....claims.render import SYMBOLS
from ....formulas import html, plain


def matrix(record: Recorder) -> str:
    """HTML of a table with a row for each model, those of which most laws are asked first, and a column for each law. A cell holds the symbols of its claims, each with a link to the claim and the
    sentence as its title; one that was not asked holds a dot. A claim's ``where`` names its law, its model and, where there are several, what it asks."""
    found = judge(record.ledger, record.records, record.profile, record.reference)
    cells: dict[tuple[str, str], list[str]] = {}
    for claim in record.ledger.claims:
        law, model, asked = _place(claim)
        verdict = found[claim.id]
        symbol, name = SYMBOLS[verdict.word]
        cells.setdefault((law, model), []).append(
            f'<a class="iclbook-badge iclbook-badge-{name}" href="#{claim.anchor}" '
            f'title="{escape(plain(claim.says))} {escape(verdict.label)}">'
            f'<span aria-hidden="true">{symbol}</span><span class="iclbook-unseen"> {escape(verdict.label)}</span>'
            + (f"&nbsp;{html(asked)}" if asked else "")
            + "</a>"
        )
    laws, models = (list(dict.fromkeys(place[side] for place in cells)) for side in (0, 1))
    models.sort(key=lambda model: -sum(place[1] == model for place in cells))
    empty = '<span class="iclbook-not-asked" title="not asked">&middot;</span>'
    rows = (
        f'<tr><th scope="row">{html(model)}</th>'
        + "".join(f'<td data-label="{law}">{" ".join(cells.get((law, model), [empty]))}</td>' for law in laws)
        + "</tr>"
        for model in models
    )
    heads = "".join(f'<th scope="col">{html(law)}</th>' for law in laws)
    return (
        '<div class="iclbook-scroll iclbook-crossing"><table><thead><tr><th scope="col">Model</th>'
        f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _place(claim: Claim) -> tuple[str, str, str]:
    """Law, model and what is asked of them."""
    law, model, *asked = (part.strip() for part in claim.where.split(",", 2))
    return law, model, "".join(asked)
