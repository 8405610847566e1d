"""Verdicts as badges and lines: HTML for pages, plain text for terminals.

A badge is a symbol and a word, so that it does not rely on colour; colours come from the book's style sheet
(``book/assets/verdicts.css``), which has a light and a dark set.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence

from ..formulas import html, plain
from ..numbers import number
from . import verdicts as v
from .ledger import Claim
from .verdicts import PartResult, Verdict

Row = tuple[Claim, Verdict]

#: Of each verdict the symbol, the CSS class of its colour, and the word in sight, one vocabulary for all pages and terminals; the verdict itself stands in the fold.
LOOKS = {
    v.REPRODUCED: ("\u2714", "reproduced", "holds"),  # heavy check mark
    v.REDUCED: ("\u2713", "reduced", "holds"),  # check mark
    v.PARTLY: ("\u25d0", "partly", "partly"),  # half circle
    v.NOT_REPRODUCED: ("\u2718", "not-reproduced", "fails"),  # heavy ballot x
    v.NOT_REDUCED: ("\u2717", "not-reduced", "fails"),  # ballot x
    v.INCONSISTENT: ("\u2260", "inconsistent", "fails"),  # not equal
    v.TOO_CLOSE: ("\u2248", "too-close", "undecided"),  # almost equal
    v.OUT_OF_REACH: ("\u2298", "out-of-reach", "untested"),  # circled slash
    v.NOT_YET_TESTED: ("\u2026", "untested", "untested"),  # ellipsis
    v.YES: ("\u2714", "reproduced", "yes"),
    v.YES_REDUCED: ("\u2713", "reduced", "yes"),
    v.DEPENDS: ("\u25d0", "partly", "it depends"),
    v.NO: ("\u2718", "not-reproduced", "no"),
    v.OPEN: ("\u2026", "untested", "undecided"),
}

#: Place for a claim's premises, which pages fill (:mod:`iclbook.book.premises`): a chapter that runs does not know the verdicts of the others.
PLACE = "<!--{} {}-->"

#: A claim with more parts than this says how many hold.
UNFOLDED = 3


def mark(word: str, in_one_reading: bool = False) -> str:
    """Inline HTML of a badge: the symbol and the word in sight, and whether it is that of one reading only."""
    symbol, name, shown = LOOKS[word]
    return (
        f'<span class="iclbook-badge iclbook-badge-{name}">'
        f'<span class="iclbook-symbol" aria-hidden="true">{symbol}</span>&nbsp;{shown}{", in one reading" * in_one_reading}</span>'
    )


def sight(verdict: Verdict) -> str:
    """The badge of a claim."""
    return mark(verdict.word, verdict.in_one_reading and verdict.word != v.DEPENDS)


def verdict_html(claim: Claim, verdict: Verdict, anchor: bool = True) -> str:
    """One line that unfolds: the word in sight and the short form; folded: where, what is claimed, the verdict, the paper's and the measured values, the parts."""
    place = f' id="{claim.anchor}"' if anchor else ""
    line = f'{sight(verdict)} <span class="iclbook-line">{html(claim.short)}{_reading(verdict)}</span>'
    remarks = filter(None, (claim.paper and f"Paper: {claim.paper}", _measured(verdict), verdict.remark))
    sentences = ". ".join([f"<strong>{html(verdict.label)}</strong>", *map(html, remarks)])
    says = (
        f'<span class="iclbook-where">{html(claim.where)}:</span> <span class="iclbook-says">{html(claim.says)}</span>'
    )
    note = f'<div class="iclbook-claimed">{says}</div><div class="iclbook-note">{sentences}{PLACE.format("open", claim.id)}</div>'
    items = "".join(f"<li>{_part_html(part)}</li>" for part in verdict.parts)
    parts = f'<ul class="iclbook-parts">{items}</ul>' if items else ""
    return (
        f'<details class="iclbook-verdict"{place}><summary>{line}</summary>'
        f"{note}{parts}{PLACE.format('premises', claim.id)}</details>"
    )


def strip_html(verdicts: Iterable[str]) -> str:
    """Verdicts that stand together, one line each."""
    return f'<div class="iclbook-strip">{"".join(verdicts)}</div>'


def _measured(verdict: Verdict) -> str:
    """``Here: ...``: what holds and fails with the failing values; of a claim that holds, how many parts do where they are many."""
    considered = [part for part in verdict.parts if part.reading in (None, verdict.reading)]
    if verdict.sides or not considered or not all(part.holds for part in considered):
        return verdict.sides and f"Here: {verdict.sides}"
    return f"Here: all {len(considered)} parts hold" if len(considered) > UNFOLDED else ""


def _reading(of: PartResult | Verdict) -> str:
    """The reading of a part, and that by which a claim holds while another fails."""
    named = of.reading and (isinstance(of, PartResult) or of.in_one_reading)
    return f' <span class="iclbook-reading">[{html(of.reading)}]</span>' if named else ""


def _part_html(part: PartResult) -> str:
    mark, word = ("\u2713", "holds") if part.holds else ("\u2717", "fails")
    return (
        f'<span class="iclbook-{word}">{mark} {word}</span> {html(part.name)}{_reading(part)}: '
        f"<strong>{html(part.text)}</strong>, rule: {html(part.rule_text)} "
        f'<span class="iclbook-because">({html(part.because)}{"; late rule" if part.late else ""})</span>'
    )


def verdict_text(claim: Claim, verdict: Verdict) -> str:
    """A verdict with its parts in plain text."""
    lines = [f"{LOOKS[verdict.word][0]} {verdict.label}: {claim.id} ({claim.where})"]
    if verdict.note:
        lines.append(f"    {verdict.note}")
    for part in verdict.parts:
        word = "holds" if part.holds else "fails"
        lines.append(f"    {word} {part.full_name}: {part.text}, rule: {part.rule_text}")
    return plain("\n".join(lines))


def lines_text(rows: Sequence[Row]) -> str:
    """``holds      fig2.1     One head: KQ is a multiple of I``: a line a claim, for terminals."""
    items = [claim.id.partition("/")[2] for claim, _ in rows]
    width = max(map(len, items), default=0)
    return "\n".join(
        f"{LOOKS[verdict.word][2]:<10} {item:<{width}}  {plain(claim.short)}"
        for item, (claim, verdict) in zip(items, rows, strict=True)
    )


def counts(rows: Iterable[Row], questions: bool = False) -> dict[str, list]:
    """The words in sight that claims, or questions, have, in the scoreboard's order: of each the first verdict that it stands for, whose colours it has, and
    the number."""
    totals = Counter(verdict.word for claim, verdict in rows if claim.is_question == questions)
    found: dict[str, list] = {}
    for word in v.ANSWER_WORDS if questions else v.WORDS:
        if totals[word]:
            found.setdefault(LOOKS[word][2], [word, 0])[1] += totals[word]
    return found


def marks(rows: Iterable[Row], questions: bool) -> str:
    """The words in sight, each with how many claims, or questions, have it."""
    return " ".join(f"{mark(word)}&nbsp;{total}" for word, total in counts(rows, questions).values())


def counts_line(rows: Iterable[Row]) -> str:
    """``47 claims: holds 33, partly 3, ...; 12 questions: yes 8, ...``; what does not occur is left out."""
    rows, phrases = list(rows), []
    for questions, what in ((False, "claim"), (True, "question")):
        found = counts(rows, questions)
        total = sum(count for _, count in found.values())
        shown = ", ".join(f"{word} {number(count)}" for word, (_, count) in found.items())
        if total:
            phrases.append(f"{total} {what}{'' if total == 1 else 's'}{': ' if shown else ''}{shown}")
    return "; ".join(phrases) or "0 claims"


def rules_line(rows: Sequence[Row]) -> str:
    """Cautions about the verdicts: late rules, verdicts of one reading or too close, the smallest margin that decides one."""
    parts = [part for claim, _ in rows for part in claim.parts]
    late = sum(part.late for part in parts)
    lines = [f"Of {len(parts)} rules {late} were written or changed after a first run; they are marked."]
    one = sum(verdict.in_one_reading for _, verdict in rows)
    lines += [f"{one} hold in one reading and not in another."] if one else []
    margins = [
        (part.margin, claim.where)
        for claim, verdict in rows
        if verdict.word not in (v.TOO_CLOSE, *v.SILENT)
        for part in verdict.parts
        if part.sampled and part.margin is not None and part.margin > 1
    ]
    if margins:
        smallest, where = min(margins)
        lines.append(f"The narrowest decided margin is {number(smallest, 3)} times its uncertainty ({where}).")
    return " ".join(lines)


def closing_html(rows: Sequence[Row], shown: Container[str]) -> str:
    """The end of a chapter: the counts, how much care the rules ask for, and the claims whose badge stands nowhere on the page (``shown`` are ids of the others); folded, a list of all with a link to each."""
    line = html(f"{counts_line(rows)}. {rules_line(rows)}")
    listed = "".join(
        f'<li>{mark(verdict.word)} <a href="#{claim.anchor}">{html(claim.where)}</a>: {html(claim.short)}</li>'
        for claim, verdict in rows
    )
    every = f'<details class="iclbook-every"><summary>List them</summary><ul>{listed}</ul></details>' if listed else ""
    others = [verdict_html(claim, verdict) for claim, verdict in rows if claim.id not in shown]
    if others:
        count = f"{len(others)} claim{'s' * (len(others) > 1)} with no place in the text"
        line += f"</p><details><summary>{count}</summary>{strip_html(others)}</details><p>"
    return f'<div class="iclbook-claims"><p>{line}</p>{every}</div>'.replace("<p></p>", "")


def plain_markdown(text: str) -> str:
    """``text`` so that Markdown shows it as it is, in one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~^&@])", r"\\\1", " ".join(text.split()))
