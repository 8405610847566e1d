"""The matrix of laws and models, each cell a verdict that leads to its claim."""

from __future__ import annotations

from html import escape

from ....claims import Recorder, judge
from ....claims.render import SYMBOLS
from ....formulas import html, plain


def matrix(record: Recorder) -> str:
    """HTML of a table with a row for each law and a cell for each claim of the ledger: symbol, model, link to the claim, sentence as its title. What comes
    before the comma of a claim's ``where`` is its law."""
    found = judge(record.ledger, record.records, record.profile, record.reference)
    rows: dict[str, list[str]] = {}
    for claim in record.ledger.claims:
        law, _, model = (part.strip() for part in claim.where.partition(","))
        verdict = found[claim.id]
        symbol, name = SYMBOLS[verdict.word]
        rows.setdefault(law, []).append(
            f'<a class="iclbook-badge iclbook-badge-{name}" href="#{claim.anchor}" title="{escape(plain(claim.says))}">'
            f'<span aria-hidden="true">{symbol}</span> {html(model)}: {escape(verdict.label)}</a>'
        )
    body = "".join(
        f'<tr><th scope="row">{html(law)}</th><td>{" ".join(cells)}</td></tr>' for law, cells in rows.items()
    )
    return (
        '<table class="iclbook-crossing"><thead><tr><th scope="col">Law</th><th scope="col">On which model does it hold?'
        f"</th></tr></thead><tbody>{body}</tbody></table>"
    )
