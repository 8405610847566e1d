"""The page *Replication*: every verdict at another draw beside the book's, and whether errors say how far values move. Nothing on it is typed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import formulas
from ..claims import PartResult, all_ledgers, render
from ..inputs import chapters
from ..numbers import number
from ..replication import Pair, frozen, replicas

#: The draw that the page compares with the book.
DRAW = 1
#: Joint errors beyond which deviations are counted, and the share of a normal law there.
BEYOND = {k: math.erfc(k / math.sqrt(2)) for k in (1, 2, 3)}
#: Margins that are told apart when asking whether they foresee which parts come out otherwise.
MARGINS = (1, 2, 5, 20)


def markdown(profile: str, root: Path) -> str:
    """The page's body in MyST Markdown."""
    found, rules = replicas(DRAW, root), frozen(root)
    if not found:
        return "Nothing has been drawn anew yet."
    pairs = [pair for replica in found for pair in replica.pairs(rules)]
    decided = [pair for pair in pairs if pair.decided]
    differ = [pair for pair in decided if pair.differs]
    rests = [
        pair for replica in found for pair in replica.pairs(rules) if pair.decided and replica.rests_on_chance(pair)
    ]
    moved = sum(replica.is_drawn(key) for replica in found for key in replica.first.records)
    values = sum(len(replica.first.records) for replica in found)
    there = {replica.ledger.chapter_name for replica in found}
    waiting = [
        f"[{render.plain_markdown(ledger.title)}](../notebooks/{ledger.chapter_name}.py)"
        for ledger in sorted(all_ledgers(root), key=lambda ledger: ledger.chapter_name)
        if ledger.chapter_name in set(chapters(root)) - there
    ]
    lines = [
        f"**Of {len(decided)} decided verdicts {len(decided) - len(differ)} come out the same word, {len(differ)} another.** "
        f"{len(rests)} of them rest on a value that moved by more than rounding ({moved} of {values} values did); the others rest on nothing random, or on "
        "counts that came out alike.",
        "",
    ]
    if waiting:
        lines += [f"Not drawn anew yet: {', '.join(waiting)}.", ""]
    lines += [_late(pairs), "", *_differing(differ), *_foreseen(pairs), *_calibration(found)]
    return "\n".join(lines)


def _late(pairs: Sequence[Pair]) -> str:
    late = [(before, after) for pair in pairs for before, after in pair.parts() if before.late]
    same = sum(before.holds == after.holds for before, after in late)
    return (
        f"{len(late)} rules were written or changed after a first run had been seen. On fresh numbers {same} of them come out as before; "
        "each verdict's fold says so of its own."
    )


def _differing(pairs: Sequence[Pair]) -> list[str]:
    """A line for every verdict that came out otherwise: both words, and the parts that turned with both values and margins."""
    if not pairs:
        return []
    lines = [
        "## What came out otherwise",
        "",
        "| What it says | The book | Drawn anew | Parts that turned |",
        "|---|---|---|---|",
    ]
    for pair in pairs:
        link = f"../{pair.ledger.chapter.removesuffix('.py')}.html#{pair.claim.anchor}"
        says = f'{formulas.markdown(pair.claim.says, render.plain_markdown)} (<a href="{link}">{render.plain_markdown(pair.claim.where)}</a>)'
        turned = [
            f"{render.plain_markdown(a.name)}: {_valued(a)}, then {_valued(b)}"
            for a, b in pair.parts()
            if a.holds != b.holds or a.close != b.close
        ]
        words = (render.badge(pair.first.word), render.badge(pair.second.word))
        lines.append(f"| {says.replace('|', '&#124;')} | {' | '.join(words)} | {'; '.join(turned)} |")
    return [*lines, ""]


def _valued(part: PartResult) -> str:
    margin = "" if part.margin is None or math.isinf(part.margin) else f", margin {number(part.margin, 2)}"
    return f"{render.plain_markdown(part.text)} ({'holds' if part.holds else 'fails'}{margin})"


def _foreseen(pairs: Sequence[Pair]) -> list[str]:
    """Whether margins foresee which parts come out otherwise: how many did, by margin at the book's draw."""
    parts = [
        (before.margin, before.holds != after.holds)
        for pair in pairs
        for before, after in pair.parts()
        if before.sampled and before.margin is not None
    ]
    lines = [
        "## Do margins foresee it?",
        "",
        "A margin is the distance from the other outcome in units of two standard errors (and rounding). Below 1 a part is called undecided.",
        "",
        "| Margin in the book | Parts | Came out otherwise |",
        "|---|---|---|",
    ]
    for low, high in zip((0, *MARGINS), (*MARGINS, math.inf), strict=True):
        inside = [turned for margin, turned in parts if low < margin <= high or (margin == low == 0)]
        name = f"above {low}" if math.isinf(high) else f"{low} to {high}"
        lines.append(f"| {name} | {len(inside)} | {sum(inside)} |")
    return [*lines, ""]


def _calibration(found: Sequence) -> list[str]:
    """Deviations between the draws in joint standard errors: a picture, and the share beyond 1, 2 and 3 for each chapter."""
    by_chapter = {r.ledger.title: r.deviations() for r in found}
    every = np.concatenate([z for of in by_chapter.values() for z in of.values()] or [np.empty(0)])
    heads = "".join(f" | Beyond {k} ({number(100 * share, 2)} %)" for k, share in BEYOND.items())
    lines = [
        "## Do errors say how far values move?",
        "",
        f"{len(every)} recorded numbers have a standard error and are not the same at both draws. Their difference, in units of the joint error, should be a "
        "standard normal number. Shares in brackets are a normal law's; numbers of one training move together, so that a chapter may be lucky as a whole.",
        "",
        histogram(every),
        "",
        f"| Chapter | Numbers{heads} | The farthest |",
        f"|---|---|{'---|' * len(BEYOND)}---|",
    ]
    for title, of in by_chapter.items():
        z = np.concatenate([*of.values()]) if of else np.empty(0)
        shares = " | ".join(f"{number(100 * np.mean(np.abs(z) > k), 2)} %" if len(z) else "" for k in BEYOND)
        far = sorted(of, key=lambda key: -np.abs(of[key]).max())[:3]
        told = ", ".join(f"`{key}` {number(float(of[key][np.abs(of[key]).argmax()]), 2)}" for key in far)
        lines.append(f"| {render.plain_markdown(title)} | {len(z)} | {shares} | {told} |")
    return lines


def histogram(z: np.ndarray, bins: int = 33, reach: float = 4.125) -> str:
    """Deviations as bars in SVG beside a standard normal law's; those farther out stand in the outermost bars."""
    counts, edges = np.histogram(np.clip(z, -reach, reach), bins, (-reach, reach))
    expected = len(z) * np.diff([math.erf(e / math.sqrt(2)) / 2 for e in edges])
    top = max(counts.max(initial=1), expected.max(initial=1))
    width, height = 640, 220

    def at(x: float, y: float) -> str:
        return f"{round(width * (x + reach) / (2 * reach), 1)},{round(height * (1 - y / top), 1)}"

    bars = "".join(
        f'<rect x="{at(edge, 0).split(",")[0]}" y="{at(edge, n).split(",")[1]}" width="{round(width / bins - 1, 1)}" height="{round(height * n / top, 1)}"/>'
        for edge, n in zip(edges, counts, strict=False)
    )
    middles = (edges[1:] + edges[:-1]) / 2
    curve = " ".join(at(x, y) for x, y in zip(middles, expected, strict=True))
    ticks = "".join(f'<text x="{at(k, 0).split(",")[0]}" y="{height + 18}">{number(k)}</text>' for k in range(-4, 5))
    return (
        f'<figure><svg class="iclbook-deviations" viewBox="0 0 {width} {height + 24}" role="img" aria-label="Deviations in joint standard errors, beside a normal law">'
        f'<g fill="currentColor" opacity="0.35">{bars}</g><polyline points="{curve}" fill="none" stroke="currentColor" stroke-width="2"/>'
        f'<g fill="currentColor" font-size="14" text-anchor="middle">{ticks}</g></svg><figcaption>Differences between the two draws, in joint standard errors (bars), '
        "and what errors of the right size give (line).</figcaption></figure>"
    )


def fold_lines(root: Path) -> dict[str, str]:
    """Claim id -> what its verdict's fold says of the other draw, in HTML; nothing of what was not drawn anew."""
    rules, told = frozen(root), {}
    for pair in (pair for replica in replicas(DRAW, root) for pair in replica.pairs(rules)):
        if not pair.decided:
            continue
        late = Counter(before.holds == after.holds for before, after in pair.parts() if before.late)
        words = "the same verdict" if not pair.differs else f"<em>{pair.second.word}</em>"
        rule = f"; {late[True]} of {late.total()} late rules come out as before" if late else ""
        told[pair.claim.id] = f'<div class="iclbook-ties">Drawn anew: {words}{rule}</div>'
    return told
