"""The book beside another draw of itself: rules that were frozen before, verdicts that came out otherwise, whether errors say how far values move; and the page
*Replication*, which tells it.

``references/replication/rules.json`` freezes the rules: a digest of what judges each claim. ``references/replication/DRAW/PROFILE/CHAPTER.json`` are the values and
verdicts of a draw (:mod:`iclbook.draw`), as ``iclbook check --draw DRAW --update`` leaves them, with the digests they were judged by: a claim whose rules have
changed since does not count there.
"""

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.special import betaincinv, ndtr, stdtr

from . import formulas
from .claims import Claim, Ledger, Record, Verdict, all_ledgers, judge, render
from .claims.references import Reference, agrees, load_reference, read_reference, reference_path, tolerance
from .claims.repeats import same_word
from .claims.verdicts import SILENT, TOO_CLOSE, PartResult
from .draw import number as draw_number
from .drawing import style
from .errors import UserError
from .files import reading, write_whole
from .inputs import chapters
from .numbers import duration, number
from .project import ends_in_one_line, find_root
from .sliders.panel import draw, picture_html
from .sources import short
from .store import folder, read_provenance

#: Where the frozen rules lie, below the book's root.
RULES = Path("references") / "replication" / "rules.json"


def freeze(root: Path) -> None:
    """Write the digest of every claim's rules: from then on a draw judges by these or not at all."""
    found = {claim.id: claim.rules_digest for ledger in all_ledgers(root) for claim in ledger.claims}
    write_whole(root / RULES, json.dumps(found, indent=1) + "\n")


def require_frozen(ledgers: Iterable[Ledger], root: Path) -> None:
    """Refuse to judge another draw by rules that were written after they were frozen."""
    with reading(root / RULES, "Restore it from git."):
        known = dict(json.loads((root / RULES).read_text(encoding="utf-8"))) if (root / RULES).is_file() else {}
    changed = [claim.id for ledger in ledgers for claim in ledger.claims if known.get(claim.id) != claim.rules_digest]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        hint = "Freeze them first, `python -m iclbook.replication`, and commit that before anything is drawn."
        raise UserError(f"the rules of {', '.join(changed[:3])}{more} are not the frozen ones", hint)


@dataclass(frozen=True)
class Pair:
    """A claim's verdicts: the book's before a draw, which pool the draws made before it, and that draw's own.

    Attributes:
        draws: number of draws behind the first.
        moved: every part that rests on a value that moved by more than rounding, by its name with its reading.
    """

    ledger: Ledger
    claim: Claim
    first: Verdict
    second: Verdict
    draws: int
    moved: frozenset[str]

    @property
    def decided(self) -> bool:
        """Whether the book decides it and the other draw can contradict it: not what is too close to call, out of reach or untested."""
        return self.first.word not in (TOO_CLOSE, *SILENT) and self.second.word not in SILENT

    @property
    def differs(self) -> bool:
        """Whether the other draw gives another word."""
        return self.decided and self.first.word != self.second.word

    def parts(self) -> list[tuple[PartResult, PartResult]]:
        """The parts that were recorded at both draws."""
        after = {part.full_name: part for part in self.second.parts}
        return [(part, after[part.full_name]) for part in self.first.parts if part.full_name in after]

    def turned(self) -> list[tuple[PartResult, PartResult]]:
        """The parts that hold at one draw and fail at the other."""
        return [(before, after) for before, after in self.parts() if before.holds != after.holds]

    def outcome(self) -> str:
        """The other draw's verdict in HTML: the same, with the parts or the reading that differ under it, or another word."""
        if self.differs:
            return f"<em>{self.second.word}</em>"
        names = [formulas.html(before.full_name) for before, _ in self.turned()]
        if self.second.reading not in (self.first.reading, None):
            names.append(f"decided by the reading {formulas.html(self.second.reading)}")
        return f"the same verdict; what differs: {', '.join(names)}" if names else "the same verdict"

    def late(self) -> Counter[bool]:
        """Counts of late parts on a moved value that come out as before (True) and that do not."""
        late = [pair for pair in self.parts() if pair[0].late and pair[0].full_name in self.moved]
        return Counter(before.holds == after.holds for before, after in late)


@dataclass(frozen=True)
class Replica:
    """A chapter's reference, with the records of the draws before, and that of a draw."""

    ledger: Ledger
    first: Reference
    second: Reference

    def pairs(self) -> list[Pair]:
        """Claims whose rules are those of the other draw, judged twice with the same tolerances."""
        # the draw by its own values alone
        both = [{k: Record.make(k, value) for k, value in r.records.items()} for r in (self.first, self.second)]
        by = self.first, replace(self.first, draws=())
        verdicts = [judge(self.ledger, *each) for each in zip(both, ("paper", "paper"), by, strict=True)]
        pairs = []
        for claim in self.ledger.claims:
            if self.second.rules.get(claim.id) == claim.rules_digest:
                parts = [part for part in claim.parts if any(map(self.is_drawn, part.with_error(both[0]).keys))]
                moved = frozenset(part.full_name for part in parts)
                own = (found[claim.id] for found in verdicts)
                pairs.append(Pair(self.ledger, claim, *own, 1 + len(self.first.draws), moved))
        return pairs

    def unfounded(self) -> list[str]:
        """Claims whose stored verdict at the other draw is not what the values stored beside it give, or that lost the digest of their rules."""
        records = {key: Record.make(key, value) for key, value in self.second.records.items()}
        now, then, rules = judge(self.ledger, records, "paper", self.second), self.second.verdicts, self.second.rules
        found = [c.id for c in self.ledger.claims if c.id in then and c.id not in rules]
        same = [c.id for c in self.ledger.claims if c.id in then and rules.get(c.id) == c.rules_digest]
        return found + [each for each in same if then[each] not in (now[each].word, *SILENT)]

    def is_drawn(self, key: str) -> bool:
        """Whether a value that both draws recorded moved by more than rounding, and so rests on something random."""
        before, after = self.first.records.get(key), self.second.records.get(key)
        if None in (before, after):
            return False
        return not agrees(after, before, tolerance(before, self.first.spread.get(key, 0.0)))

    def deviations(self) -> dict[str, np.ndarray]:
        """Key -> difference of the two draws in units of their joint standard error, of every value that carries one at both and that moved.

        A share of 0 or 1 that comes out the same has an error all the same, for what so few trials can show; it says nothing here.
        """
        found = {}
        for key in self.first.records:
            draws, names = (self.first.records, self.second.records), (key, f"{key}_se")
            four = [np.atleast_1d(values.get(name, np.nan)) for name in names for values in draws]
            if names[1] not in self.first.records or len({x.shape for x in four}) > 1:
                continue
            moved, joint = four[1] - four[0], np.hypot(*four[2:])
            kept = np.isfinite(moved) & (joint > 0) & (moved != 0)
            if kept.any():
                found[key] = moved[kept] / joint[kept]
        return found


def drawn(root: Path) -> list[int]:
    """Numbers of the draws beside the book's whose references are there."""
    folders = (root / "references" / "replication").glob("*/paper")
    return sorted(int(path.parent.name) for path in folders if path.parent.name.isdigit())


def replicas(draw: int, root: Path) -> list[Replica]:
    """Chapters that were run at a draw, beside the book's reference and its draws before."""
    found = []
    for ledger in all_ledgers(root):
        numbers = (0, *(k for k in drawn(root) if 0 < k < draw), draw)
        paths = [reference_path(ledger.chapter_name, "paper", root, draw=k) for k in numbers]
        if paths[0].is_file() and paths[-1].is_file():
            first, *before, last = (read_reference(path, root) for path in paths if path.is_file())
            first = replace(first, draws=tuple(each.records for each in before))
            found.append(Replica(ledger, first, last))
    return found


def _code(paper: str, study: str, root: Path) -> str:
    """Digest of the code that made the book's own results of a study; empty where there are none."""
    there = (folder(paper, "paper", root) / f"{study}.json").is_file()
    return short(read_provenance(paper, "paper", study, root)["source"]) if there else ""


def keep_provenance(paper: str, profile: str, root: Path) -> None:
    """Keep where a paper's studies of this draw come from, ``{study: ...}`` with the checksums of their arrays, which stay in ``draws/``."""
    names = sorted(path.stem for path in folder(paper, profile, root).glob("*.json"))
    made = {name: read_provenance(paper, profile, name, root) for name in names}
    entries = ("device", "seconds", "python", "torch", "numpy", "files")  # the configuration is the book's
    kept = {name: {key: about[key] for key in entries} for name, about in made.items()}
    kept = {name: about | {"code": short(made[name]["source"])} for name, about in kept.items()}
    path = root / "references" / "replication" / str(draw_number()) / "provenance" / profile / f"{paper}.json"
    write_whole(path, json.dumps(kept, indent=1) + "\n")


# -- the page --------------------------------------------------------------------------------------------------------

#: Joint errors beyond which deviations are counted, and the share of a normal law there.
BEYOND = {k: math.erfc(k / math.sqrt(2)) for k in (1, 2, 3)}
#: Classes of the probability that a verdict comes out the same.
CHANCES = (0, 0.5, 0.9, 0.99, 1)


def markdown(profile: str, root: Path) -> str:
    """The page's body in MyST Markdown."""
    every = {k: replicas(k, root) for k in drawn(root)}
    if not any(every.values()):
        return "Nothing has been drawn anew yet."
    pairs = {k: [pair for replica in found for pair in replica.pairs()] for k, found in every.items()}
    foreseen = {k: _foreseen([pair for pair in each if pair.decided]) for k, each in pairs.items()}
    heads = "Draw | Expected to differ | Differ | Undecided | Verdicts | On values that moved | Chapters | Values that moved | Late rules that come out as before"
    lines = [f"| {heads} |", f"|{'---|' * len(heads.split(' | '))}"]
    lines += [_row(k, every[k], pairs[k], foreseen[k]) for k in every]
    lines += [
        _ahead(1 + max(every), root),
        "",
        "A row counts the verdicts that all draws before it decide. *Undecided*: how many of those that differ are merely undecided by that draw alone; it contradicts the others. "
        "The last row is a prediction.",
        "",
    ]
    lines += [line for k in every for line in _about(k, every[k], root)]
    both = [each for found in foreseen.values() for each in found]
    replicated = [one for found in every.values() for one in found]
    return "\n".join(
        [*lines, *_differing(foreseen), *_calibration(replicated, both, [p for of in pairs.values() for p in of])]
    )


#: Decided verdicts, each with whether imagined draws give the same word.
Foreseen = list[tuple[Pair, np.ndarray]]


def _foreseen(decided: Sequence[Pair]) -> Foreseen:
    return [(pair, same_word(pair.claim, pair.first, "paper", pair.draws, i)) for i, pair in enumerate(decided)]


def _row(draw: int, found: Sequence[Replica], pairs: Sequence[Pair], foreseen: Foreseen) -> str:
    """What came out at a draw: verdicts, values and late rules, counted."""
    moved = sum(replica.is_drawn(key) for replica in found for key in replica.first.records)
    late = sum((pair.late() for pair in pairs), Counter())
    cells = [
        str(draw),
        _between([same for _, same in foreseen]),
        f"**{sum(pair.differs for pair, _ in foreseen)}**",
        str(sum(pair.differs and pair.second.word == TOO_CLOSE for pair, _ in foreseen)),
        str(len(foreseen)),
        str(sum(bool(pair.moved) for pair, _ in foreseen)),
        str(len(found)),
        f"{moved:,} of {sum(len(replica.first.records) for replica in found):,}",
        f"{late[True]} of {late.total()}",
    ]
    return f"| {' | '.join(cells)} |"


def _ahead(draw: int, root: Path) -> str:
    """How many verdicts of the book, which pool the draws, a further draw alone should contradict."""
    same, ledgers = [], all_ledgers(root)
    for ledger in ledgers:
        reference = load_reference(ledger.chapter_name, "paper", root)
        records = {key: Record.make(key, value) for key, value in reference.records.items()} if reference else {}
        verdicts = judge(ledger, records, "paper", reference)
        decided = [claim for claim in ledger.claims if verdicts[claim.id].word not in (TOO_CLOSE, *SILENT)]
        same += [same_word(c, verdicts[c.id], "paper", 1 + len(reference.draws), i) for i, c in enumerate(decided)]
    return f"| the next | {_between(same)} | | | {len(same)} | | {len(ledgers)} | | |"


def _between(same: Sequence[np.ndarray]) -> str:
    """Mean and the interval that holds 95 % of the number of verdicts that differ, from imagined draws."""
    counts = np.sum([~each for each in same], axis=0)
    low, high = np.quantile(counts, (0.025, 0.975))
    return f"{number(float(counts.mean()), 2)} ({low:.0f} to {high:.0f})"


def _about(draw: int, found: Sequence[Replica], root: Path) -> list[str]:
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
                if one.get("code", "") not in ("", _code(path.stem, n, root))
            ]
    wrong = sorted(claim for replica in found for claim in replica.unfounded())
    sentences = [
        f"Draw {draw}: {devices.total()} studies were made anew, {devices['cuda'] or 'none'} of them on a GPU, the others in {duration(seconds)} of a core.",
        f"Not drawn anew yet: {', '.join(waiting)}." if waiting else "",
        f"Code that has changed since made {', '.join(older)}." if older else "",
        f"Stored verdicts that do not follow from the values stored beside them: {', '.join(wrong)}." if wrong else "",
    ]
    return [" ".join(filter(None, sentences)), ""]


def _differing(foreseen: dict[int, Foreseen]) -> list[str]:
    """A line for every verdict that came out otherwise: both words, how likely the same was, and the parts that turned with both values and margins."""
    lines = []
    written = partial(formulas.markdown, escaped=render.plain_markdown)
    for k, found in foreseen.items():
        for pair, same in (each for each in found if each[0].differs):
            link = f"../{pair.ledger.chapter.removesuffix('.py')}.html#{pair.claim.anchor}"
            says = f'{written(pair.claim.short)} (<a href="{link}">{written(pair.claim.where)}</a>)'
            turned = [
                f"  - {written(a.name if a.reading is None else f'{a.name} ({a.reading})')}: {_valued(a)}, then {_valued(b)}"
                for a, b in pair.parts()
                if a.holds != b.holds or a.close != b.close
            ]
            words = f"{render.sight(pair.first)} before, {render.sight(pair.second)} by draw {k} alone"
            chance = f"The same word had a probability of {number(float(same.mean()), 2)}."
            lines += [f"- {words}: {says}. {chance}", *turned]
    return ["## Verdicts that differ", "", *lines, ""] if lines else []


def _valued(part: PartResult) -> str:
    known = part.sampled and part.margin is not None and math.isfinite(part.margin)
    margin = f", margin {number(part.margin, 2)}" if known else ""
    return f"{render.plain_markdown(part.text)} ({'holds' if part.holds else 'fails'}{margin})"


def _calibration(found: Sequence[Replica], foreseen: Foreseen, pairs: Sequence[Pair]) -> list[str]:
    """Deviations between the draws in joint standard errors, and verdicts by the probability that they stay: pictures, and tables in a fold."""
    by_chapter: dict[str, dict[str, np.ndarray]] = {}
    for r in found:
        of = by_chapter.setdefault(r.ledger.title, {})
        of.update({key: np.concatenate([of.get(key, np.empty(0)), z]) for key, z in r.deviations().items()})
    every = np.concatenate([z for of in by_chapter.values() for z in of.values()] or [np.empty(0)])
    few = ", ".join(f"{number(200 * stdtr(6, -k), 2)} %" for k in BEYOND)
    chance = np.array([same.mean() for _, same in foreseen])
    differs = np.array([pair.differs for pair, _ in foreseen])
    without = [
        both for pair in pairs for both in pair.parts() if both[0].full_name in pair.moved and not both[0].sampled
    ]
    lines = [
        "## Do errors and probabilities come true?",
        "",
        f"Left: {len(every):,} recorded numbers have a standard error and moved; their difference in units of the joint error should be a standard normal number. "
        "Right: the share of verdicts that kept their word, with a 95 % interval, against the probability that they had; probabilities that come true lie on the line. "
        f"{len(without)} parts rest on a value that moved and has no error, such as a count or an extreme; {sum(a.holds != b.holds for a, b in without)} of them turned.",
        "",
        pictures(every, chance, differs),
        "",
        '<details class="iclbook-fold"><summary>By chapter, and by probability</summary>',
        "",
        f"| Chapter | Numbers{''.join(f' | Beyond {k} ({number(100 * share, 2)} %)' for k, share in BEYOND.items())} | Largest differences (records) |",
        f"|---|---|{'---|' * len(BEYOND)}---|",
    ]
    for title, of in by_chapter.items():
        z = np.concatenate([*of.values()]) if of else np.empty(0)
        shares = " | ".join(f"{number(100 * np.mean(np.abs(z) > k), 2)} %" if len(z) else "" for k in BEYOND)
        far = sorted(of, key=lambda key: -np.abs(of[key]).max())[:3]
        largest = ", ".join(f"`{key}` {number(float(of[key][np.abs(of[key]).argmax()]), 2)}" for key in far)
        lines.append(f"| {render.plain_markdown(title)} | {len(z)} | {shares} | {largest} |")
    return [
        *lines,
        "",
        "Brackets: shares of a normal distribution. Most errors come from a few runs and are uncertain themselves: of four runs at each draw, Student's distribution "
        f"leaves {few} beyond 1, 2 and 3. Numbers of one training move together, so a whole chapter may lie near or far.",
        "",
        "| Probability of the same word | Verdicts | Expected to differ | Differ |",
        "|---|---|---|---|",
        *(
            f"| {number(low, 2)} to {number(high, 2)} | {inside.sum()} | {number(float((1 - chance[inside]).sum()), 2)} | {differs[inside].sum()} |"
            for low, high, inside in _classes(chance)
        ),
        "",
        "Each part is imagined anew, moved by its errors at both draws; what has no error stays. Under "
        f"{sum(bool(pair.turned()) for pair, _ in foreseen if not pair.differs)} of the verdicts that came out the same a part turned; the fold of each names it.",
        "",
        "</details>",
        "",
    ]


def _classes(chance: np.ndarray) -> list[tuple[float, float, np.ndarray]]:
    """Classes of probability: bounds, and which verdicts lie inside."""
    pairs = itertools.pairwise(CHANCES)
    return [(low, high, (chance >= low) & (chance < high if high < 1 else chance <= high)) for low, high in pairs]


def pictures(z: np.ndarray, chance: np.ndarray, differs: np.ndarray, reach: float = 4.125) -> str:
    """Deviations beside what a standard normal law gives, those farther out in the outermost bars; and verdicts that stayed against their probability."""
    edges = np.linspace(-reach, reach, 34)

    def frame() -> Figure:
        fig, (left, right) = style.figure(2, height=2.6)
        left.hist(np.clip(z, -reach, reach), edges, color=style.PALETTE[4], label="between two draws")
        expected = len(z) * np.diff(ndtr(edges))
        style.theory_line(left, (edges[1:] + edges[:-1]) / 2, expected, "errors of the right size")
        left.set(xlabel="difference in joint standard errors", ylabel="recorded numbers")
        left.set_ylim(top=1.3 * max(left.get_ylim()[1], 1))
        left.legend(loc="upper left")
        style.theory_line(right, (0, 1), (0, 1), "probabilities that come true")
        for inside in (inside for *_, inside in _classes(chance) if inside.any()):
            # the interval of Jeffreys: that of a share of so few
            stay, n = (~differs[inside]).sum(), inside.sum()
            low, high = betaincinv(stay + 0.5, n - stay + 0.5, (0.025, 0.975))
            right.plot([chance[inside].mean()] * 2, [low, high], color=style.PALETTE[0])
            right.plot(chance[inside].mean(), stay / n, "o", color=style.PALETTE[0])
        right.set(xlabel="probability of the same word", ylabel="share that stays", xlim=(0, 1.03), ylim=(0, 1.03))
        right.legend(loc="upper left")
        return fig

    name = "Deviations in joint standard errors beside a normal law; and the share of verdicts that stay against their probability"
    with plt.rc_context(style.RC):
        picture = picture_html(draw(frame, {}), name)
    return f"<figure>{picture}</figure>"


def fold_lines(root: Path) -> dict[str, str]:
    """Claim id -> what its verdict's fold says of other draws, in HTML; nothing of what rests on no value that moved."""
    lines: dict[str, str] = {}
    for pair in (pair for k in drawn(root) for replica in replicas(k, root) for pair in replica.pairs()):
        if not (pair.decided and pair.moved):
            continue
        late = pair.late()
        rule = f"; {late[True]} of {late.total()} late rules come out as before" if late else ""
        line = f'<div class="iclbook-premises">Drawn anew: {pair.outcome()}{rule}</div>'
        lines[pair.claim.id] = lines.get(pair.claim.id, "") + line
    return lines


if __name__ == "__main__":
    with ends_in_one_line():
        freeze(find_root())
