"""The page *Replication*: verdicts that were predicted and found at every draw, those that differ, and whether errors and probabilities come true."""

import base64
import itertools
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.special import betaincinv, ndtr, stdtr

from .. import formulas
from ..claims import Ledger, Verdict, all_ledgers, render
from ..claims.references import load_reference
from ..claims.verdicts import OPEN, SILENT, TOO_CLOSE, PartResult
from ..drawing import style
from ..files import reading
from ..inputs import chapters
from ..numbers import duration, number
from ..replication import Entries, Pair, Replica, drawn, entries, made_by, predicted, replicas
from ..sliders.panel import draw, picture_html
from ..statistics import student
from .figures import themed

#: Joint errors beyond which deviations are counted, and the share of a normal law there.
BEYOND = {k: math.erfc(k / math.sqrt(2)) for k in (1, 2, 3)}
#: Classes of the probability that a verdict comes out the same.
CHANCES = (0, 0.5, 0.8, 0.95, 1)
#: Papers that a draw had judged before its predictions were corrected.
CORRECTED = {2: ("agarwal2025", "recall2025")}
HEADS = ("Draw", "Verdicts", "Contradicted", "Undecided by it alone", "Rest on values that moved", "Chapters")


def markdown(profile: str, root: Path) -> str:
    """The page's body in MyST Markdown."""
    every = {k: replicas(k, root) for k in drawn(root)}
    if not any(every.values()):
        return "Nothing has been drawn anew yet."
    told = {k: {claim: e for claim, e in entries(k, root).items() if e.get("alone", OPEN) not in SILENT} for k in every}
    pairs = {
        k: {pair.claim.id: pair for replica in found for pair in replica.pairs() if _judged_so(pair, told[k])}
        for k, found in every.items()
    }
    ahead, ledgers = 1 + max(every), all_ledgers(root)
    foreseen = entries(ahead, root) or predicted(ahead, ledgers, root)
    lines = [f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    lines += [_row(f"{k}", told[k], len(every[k])) for k in every]
    lines += [
        _row(f"{ahead}, predicted", foreseen, len(ledgers)),
        "",
        "*Verdicts*: those that the draws before it had decided. *Contradicted*: the draw alone decides otherwise. *Undecided by it alone*: its own errors, which are larger than "
        "those of the mean, leave the verdict open, or a part without an error turned. Brackets: the number predicted, with a 95 % interval that takes parts as independent; "
        "parts of one training move together, so it is too narrow.",
        "",
    ]
    lines += [line for k in every for line in _about(k, every[k], told[k], len(told[k].keys() - pairs[k].keys()), root)]
    pooled = {}
    for ledger in ledgers:
        reference = load_reference(ledger.chapter_name, profile, root)
        pooled |= reference.verdicts if reference else {}
    return "\n".join([*lines, *_calibration(every, told, pairs), *_differing(told, pairs, ledgers, pooled)])


def _judged_so(pair: Pair, told: Entries) -> bool:
    """Whether a draw that was updated under a later rule still gives the verdict that was kept."""
    return pair.claim.id not in told or told[pair.claim.id]["alone"] == pair.second.word


def _row(draw: str, found: Entries, chapters: int) -> str:
    """What was predicted and what came out at a draw: verdicts, counted."""
    counts = Counter(
        TOO_CLOSE if e["alone"] == TOO_CLOSE else e["alone"] != e["before"] for e in found.values() if "alone" in e
    )
    of = {"contradicted": counts[True], "undecided": counts[TOO_CLOSE]}
    cells = [f"**{n}** {_interval(kind, found)}" if counts else _interval(kind, found) for kind, n in of.items()]
    moved = sum(e["moved"] for e in found.values()) if counts else ""
    return f"| {' | '.join(map(str, (draw, len(found), *cells, moved, chapters)))} |"


def _interval(kind: str, found: Entries) -> str:
    """The number of verdicts that were predicted to be contradicted or left undecided, with the interval that holds 95 %: a sum of independent trials."""
    odds = [e[kind] for e in found.values() if kind in e]
    if not odds:
        return "(not predicted)"
    law = np.ones(1)
    for p in odds:
        law = np.convolve(law, (1 - p, p))
    low, high = np.searchsorted(np.cumsum(law), (0.025, 0.975))
    return f"({number(sum(odds), 2)}; {low} to {high})"


def _about(draw: int, found: Sequence[Replica], told: Entries, changed: int, root: Path) -> list[str]:
    """What a draw is made of, and what is wrong with it."""
    there = {replica.ledger.chapter_name for replica in found}
    waiting = [
        f"[{render.plain_markdown(ledger.title)}](../notebooks/{ledger.chapter_name}.py)"
        for ledger in sorted(all_ledgers(root), key=lambda ledger: ledger.chapter_name)
        if ledger.chapter_name in set(chapters(root)) - there
    ]
    devices, seconds, older = Counter(), 0.0, []
    for path in sorted(root.glob(f"references/replication/{draw}/provenance/paper/*.json")):
        with reading(path, "Restore it from git."):
            of = json.loads(path.read_text(encoding="utf-8"))
            devices.update(one["device"] for one in of.values())
            seconds += sum(float(one["seconds"]) for one in of.values() if one["device"] == "cpu")
            older += [
                f"{path.stem}/{n}"
                for n, one in of.items()
                if one.get("code", "") not in ("", made_by(path.stem, n, root))
            ]
    early = CORRECTED.get(draw, ())
    others = {claim: e for claim, e in told.items() if claim.split("/")[0] not in early}
    left = sum(e["alone"] == TOO_CLOSE for e in others.values())
    wrong = sorted(claim for replica in found for claim in replica.unfounded())
    sentences = [
        f"Draw {draw}: {devices.total()} studies were made anew, {devices['cuda'] or 'none'} of them on a GPU, the others in {duration(seconds)} of a core.",
        f"Its predictions were corrected once, when {' and '.join(f'{{cite:t}}`{paper}`' for paper in early)} had been judged; of the {len(others)} verdicts of the other chapters the draw left "
        f"{left} undecided {_interval('undecided', others)}."
        if early
        else "",
        f"The rules of {changed} claims have changed since; the table keeps their verdicts of that time."
        if changed > 1
        else "",
        "The rule of one claim has changed since; the table keeps its verdict of that time." if changed == 1 else "",
        f"Not drawn anew yet: {', '.join(waiting)}." if waiting else "",
        f"Code that has changed since made {', '.join(older)}." if older else "",
        f"Stored verdicts that do not follow from the values stored beside them: {', '.join(wrong)}." if wrong else "",
    ]
    return [" ".join(filter(None, sentences)), ""]


def _differing(
    told: Mapping[int, Entries],
    pairs: Mapping[int, dict[str, Pair]],
    ledgers: Sequence[Ledger],
    pooled: Mapping[str, str],
) -> list[str]:
    """A line for every verdict that came out otherwise: both words, how likely that was, the verdict of all draws ``pooled`` where it is another, and the parts that
    turned with both values and margins. In a fold: those whose rule has changed since."""
    lines, older, kept, written = [], [], [], partial(formulas.markdown, escaped=render.plain_markdown)
    claims = {claim.id: (ledger, claim) for ledger in ledgers for claim in ledger.claims}
    differing = ((k, claim, e) for k, found in told.items() for claim, e in found.items() if e["alone"] != e["before"])
    for k, claim_id, e in differing:
        before, alone = (render.sight(Verdict(e[when])) for when in ("before", "alone"))
        says, pair = claim_id, pairs[k].get(claim_id)
        if claim_id in claims:
            ledger, claim = claims[claim_id]
            link = f"../{ledger.chapter.removesuffix('.py')}.html#{claim.anchor}"
            says = f'{written(claim.short)} (<a href="{link}">{written(claim.where)}</a>)'
        chance = ""
        if "undecided" in e:
            chance = f" The predicted probability of a change was {number(e['contradicted'] + e['undecided'], 2)}."
        now = pooled.get(claim_id, e["before"])
        kept += [now == e["before"]] if pair else []
        end = "" if now == e["before"] or not pair else f" All draws together: {render.sight(Verdict(now))}."
        (lines if pair else older).append(f"- {before} before, {alone} by draw {k} alone: {says}.{chance}{end}")
        lines += [
            f"  - {written(a.name if a.reading is None else f'{a.name} ({a.reading})')}: {_valued(a)}, then {_valued(b)}"
            for a, b in (pair.parts() if pair else ())
            if a.holds != b.holds or a.close != b.close
        ]
    fold = '<details class="iclbook-fold"><summary>And {} by rules that have changed since</summary>'
    revised = "Rules under verdicts that differed are the first to be revised."
    lines += ["", fold.format(len(older)), "", revised, "", *older, "", "</details>"] if older else []
    intro = (
        f"All draws together change {kept.count(False) or 'none'} of these {len(kept)}. *Margin*: distance to the bound over twice the error; below 1 it leaves a part undecided.\n"
        if kept
        else ""
    )
    return ["## Verdicts that differ", "", intro, *lines, ""] if lines else []


def _valued(part: PartResult) -> str:
    known = part.sampled and part.margin is not None and math.isfinite(part.margin)
    margin = f", margin {number(part.margin, 2)}" if known else ""
    return f"{render.plain_markdown(part.text)} ({'holds' if part.holds else 'fails'}{margin})"


def _calibration(
    every: Mapping[int, Sequence[Replica]], told: Mapping[int, Entries], pairs: Mapping[int, dict[str, Pair]]
) -> list[str]:
    """Deviations of a draw from those before in joint standard errors, and verdicts by the probability that they stay: pictures, and a table in a fold."""
    by_chapter: dict[str, dict[str, np.ndarray]] = {}
    for r in (r for found in every.values() for r in found):
        of = by_chapter.setdefault(r.ledger.title, {})
        of.update({key: np.concatenate([of.get(key, np.empty(0)), z]) for key, z in r.deviations().items()})
    z = np.concatenate([z for of in by_chapter.values() for z in of.values()] or [np.empty(0)])
    beyond = ", ".join(f"{_share(z, k)} {'lie ' if k == 1 else ''}beyond {k}" for k in BEYOND)
    normal = ", ".join(f"{number(100 * share, 2)} %" for share in BEYOND.values())
    few = ", ".join(f"{number(200 * stdtr(6, -k * student(4)), 2)} %" for k in BEYOND)
    predicted = [e for found in told.values() for e in found.values() if "undecided" in e]
    chance = np.array([1 - e["contradicted"] - e["undecided"] for e in predicted])
    differs = np.array([e["alone"] != e["before"] for e in predicted], bool)
    parts = [both for of in pairs.values() for p in of.values() for both in p.parts() if both[0].full_name in p.moved]
    without = [a.holds != b.holds for a, b in parts if not a.sampled]
    stayed = [p for of in pairs.values() for p in of.values() if p.decided and not p.differs]
    certain = chance == 1
    foretold = (
        f"Of {(~certain).sum()} verdicts whose probability of the same word is below 1, {number(float((1 - chance).sum()), 2)} were to change and {differs[~certain].sum()} did; of the "
        f"{certain.sum()} where it is 1, which the picture leaves out, {differs[certain].sum() or 'none'}: a part without an error is predicted to stay. "
        if len(chance)
        else ""
    )
    caption = (
        f"{len(z):,} numbers beside their mean over the draws before: their difference in joint standard errors should be nearly a standard normal number. {beyond} errors "
        f"(normal: {normal}). Points: the share of verdicts that kept their word, with a 95 % interval, against its probability."
    )
    lines = [
        "## Do errors and probabilities come true?",
        "",
        f"{foretold}{len(without)} parts have no error although their value moved, such as counts and extremes; {sum(without)} of them turned. In "
        f"{sum(bool(p.turned()) for p in stayed)} verdicts that stayed the same some part turned; their folds name it.",
        "",
        pictures(z, chance[chance < 1], differs[chance < 1], caption),
        "",
        '<details class="iclbook-fold"><summary>By chapter</summary>',
        "",
        f"| Chapter | Comparisons{''.join(f' | Beyond {k} ({number(100 * share, 2)} %)' for k, share in BEYOND.items())} | Largest differences (records) |",
        f"|---|---|{'---|' * len(BEYOND)}---|",
    ]
    for title, of in by_chapter.items():
        z = np.concatenate([*of.values()]) if of else np.empty(0)
        far = sorted(of, key=lambda key: -np.abs(of[key]).max())[:3]
        largest = ", ".join(f"`{key}` {number(float(of[key][np.abs(of[key]).argmax()]), 2)}" for key in far)
        shares = " | ".join(_share(z, k) for k in BEYOND)
        lines.append(f"| {render.plain_markdown(title)} | {len(z)} | {shares} | {largest} |")
    return [
        *lines,
        "",
        "Brackets: shares of a normal distribution. Errors of few runs are widened by Student's distribution so that 95 % lie within 2; of four runs at each draw "
        f"{few} should lie beyond 1, 2 and 3. But errors over runs miss what is the same in all runs of a study. These see the same prompts, and on categories "
        "the same embeddings: a sum of heads that nearly cancel differs by many of its errors, and so do matrices learned with other embeddings. Numbers of one training move "
        "together, so a whole chapter may lie near or far.",
        "",
        "</details>",
        "",
    ]


def _share(z: np.ndarray, k: float) -> str:
    return f"{number(100 * np.mean(np.abs(z) > k), 2)} %" if len(z) else ""


def _classes(chance: np.ndarray) -> list[tuple[float, float, np.ndarray]]:
    """Classes of probability: bounds, and which verdicts lie inside."""
    pairs = itertools.pairwise(CHANCES)
    return [(low, high, (chance >= low) & (chance < high if high < 1 else chance <= high)) for low, high in pairs]


def pictures(z: np.ndarray, chance: np.ndarray, differs: np.ndarray, caption: str, reach: float = 4.125) -> str:
    """Deviations beside what a standard normal law gives, those farther out in the outermost bars; and verdicts that stayed against their probability."""
    edges = np.linspace(-reach, reach, 34)

    def deviations() -> Figure:
        fig, ax = style.figure(width=style.WIDTH / 2, height=2.6)
        ax.hist(np.clip(z, -reach, reach), edges, color=style.PALETTE[4], label="a draw and those before")
        expected = len(z) * np.diff(ndtr(edges))
        style.theory_line(ax, (edges[1:] + edges[:-1]) / 2, expected, "errors of the right size")
        ax.set(xlabel="difference in joint standard errors", ylabel="recorded numbers")
        ax.set_ylim(top=1.4 * max(ax.get_ylim()[1], 1))
        ax.legend(loc="upper left")
        return fig

    def shares() -> Figure:
        fig, ax = style.figure(width=style.WIDTH / 2, height=2.6)
        style.theory_line(ax, (0, 1), (0, 1), "probabilities that come true")
        for inside in (inside for *_, inside in _classes(chance) if inside.any()):
            # the interval of Jeffreys: that of a share of so few
            stay, n = (~differs[inside]).sum(), inside.sum()
            low, high = betaincinv(stay + 0.5, n - stay + 0.5, (0.025, 0.975))
            ax.plot([chance[inside].mean()] * 2, [low, high], color=style.PALETTE[0])
            ax.plot(chance[inside].mean(), stay / n, "o", color=style.PALETTE[0])
        ax.set(xlabel="probability of the same word", ylabel="share that stays", xlim=(0, 1.03), ylim=(0, 1.25))
        ax.legend(loc="upper left")
        return fig

    names = {
        "Deviations in joint standard errors beside a normal law": deviations,
        "Share of verdicts that stay against their probability": shares,
    }
    panels = ""
    for name, frame in names.items():
        with plt.rc_context(style.RC):
            drawn = draw(frame, {})
        dark = {"dark": f"data:image/png;base64,{base64.b64encode(drawn.others['dark']).decode()}"}
        image = picture_html(drawn, name).replace("<img", '<img class="dark-light"', 1)
        panels += f'<div style="flex: 1 1 20rem">{themed(image, dark)}</div>'
    return f'<figure class="iclbook-figure"><div style="display: flex; flex-wrap: wrap">{panels}</div><figcaption>{caption}</figcaption></figure>'
