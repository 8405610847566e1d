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
from scipy.special import ndtr, stdtr

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
from .numbers import number
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
    decided = {k: [pair for pair in each if pair.decided] for k, each in pairs.items()}
    lines = [line for k in every for line in _outcome(k, every[k], pairs[k], root)]
    lines += [line for each in decided.values() for line in _differing([pair for pair in each if pair.differs])]
    lines += _foreseen([pair for each in decided.values() for pair in each])
    return "\n".join([*lines, *_ahead(root), *_calibration([one for found in every.values() for one in found])])


def _outcome(draw: int, found: Sequence[Replica], pairs: Sequence[Pair], root: Path) -> list[str]:
    """What came out at a draw: verdicts, values, studies and late rules, counted."""
    decided = [pair for pair in pairs if pair.decided]
    fresh, differ = sum(bool(pair.moved) for pair in decided), sum(pair.differs for pair in decided)
    moved = sum(replica.is_drawn(key) for replica in found for key in replica.first.records)
    values = sum(len(replica.first.records) for replica in found)
    there = {replica.ledger.chapter_name for replica in found}
    waiting = [
        f"[{render.plain_markdown(ledger.title)}](../notebooks/{ledger.chapter_name}.py)"
        for ledger in sorted(all_ledgers(root), key=lambda ledger: ledger.chapter_name)
        if ledger.chapter_name in set(chapters(root)) - there
    ]
    lines = [
        f"**Draw {draw}. Of {fresh} decided verdicts that rest on a value that moved, {fresh - differ} come out the same, {differ} {'differs' if differ == 1 else 'differ'}.** "
        f"{moved:,} of {values:,} values moved by more than rounding. The other {len(decided) - fresh} decided verdicts rest on nothing random, or on counts that "
        "are the same at both draws.",
        "",
    ]
    if wrong := sorted(claim for replica in found for claim in replica.unfounded()):
        lines += [f"Stored verdicts that do not follow from the values stored beside them: {', '.join(wrong)}.", ""]
    if waiting:
        lines += [f"Not drawn anew yet: {', '.join(waiting)}.", ""]
    late = sum((pair.late() for pair in pairs), Counter())
    devices, older = Counter(), []
    for path in root.glob(f"references/replication/{draw}/provenance/paper/*.json"):
        with reading(path, "Restore it from git."):
            of = json.loads(path.read_text(encoding="utf-8"))
            devices.update(one["device"] for one in of.values())
            older += [
                f"{path.stem}/{n}"
                for n, one in of.items()
                if one.get("code", "") not in ("", _code(path.stem, n, root))
            ]
    return [
        *lines,
        f"{devices.total()} studies were made anew, {devices['cuda']} of them on a GPU."
        + (f" Code that has changed since made {', '.join(older)}." if older else "")
        + f" {late.total()} rules that were written or changed after a first run judge a value that moved; on fresh numbers {late[True]} of them come out as before.",
        "",
    ]


def _differing(pairs: Sequence[Pair]) -> list[str]:
    """A line for every verdict that came out otherwise: both words, and the parts that turned with both values and margins."""
    if not pairs:
        return []
    lines = ["## Verdicts that changed", ""]
    written = partial(formulas.markdown, escaped=render.plain_markdown)
    for pair in pairs:
        link = f"../{pair.ledger.chapter.removesuffix('.py')}.html#{pair.claim.anchor}"
        says = f'{written(pair.claim.short)} (<a href="{link}">{written(pair.claim.where)}</a>)'
        turned = [
            f"  - {written(a.name if a.reading is None else f'{a.name} ({a.reading})')}: {_valued(a)}, then {_valued(b)}"
            for a, b in pair.parts()
            if a.holds != b.holds or a.close != b.close
        ]
        words = f"{render.sight(pair.first)} in the book, {render.sight(pair.second)} drawn anew"
        lines += [f"- {words}: {says}", *turned]
    return [*lines, ""]


def _valued(part: PartResult) -> str:
    known = part.sampled and part.margin is not None and math.isfinite(part.margin)
    margin = f", margin {number(part.margin, 2)}" if known else ""
    return f"{render.plain_markdown(part.text)} ({'holds' if part.holds else 'fails'}{margin})"


def _foreseen(pairs: Sequence[Pair]) -> list[str]:
    """How many verdicts the book's margins and errors expected to come out otherwise, and how many did, by the probability of each."""
    same = [same_word(pair.claim, pair.first, "paper", pair.draws, i) for i, pair in enumerate(pairs)]
    chance, differs = np.array([each.mean() for each in same]), np.array([pair.differs for pair in pairs])
    return [
        "## How many were expected to change?",
        "",
        "The margins and errors of a verdict's parts say how likely another draw, judged alone, gives the same word. Each part moves by its errors at both draws; what "
        f"has no error stays. By what stood in the book before, {_between(same)} of {len(pairs)} verdicts should differ (the interval holds 95 %); {differs.sum()} do.",
        "",
        "| Probability of the same word | Verdicts | Expected to change | Changed |",
        "|---|---|---|---|",
        *(
            f"| {number(low, 2)} to {number(high, 2)} | {inside.sum()} | {number(float((1 - chance[inside]).sum()), 2)} | {differs[inside].sum()} |"
            for low, high in itertools.pairwise(CHANCES)
            for inside in [(chance >= low) & (chance < high if high < 1 else chance <= high)]
        ),
        "",
        f"Under {sum(bool(pair.turned()) for pair in pairs if not pair.differs)} of the verdicts that came out the same a part turned; the fold of each names it.",
        "",
    ]


def _ahead(root: Path) -> list[str]:
    """How many verdicts of the book, which pool the draws, a further draw alone should contradict."""
    same = []
    for ledger in all_ledgers(root):
        reference = load_reference(ledger.chapter_name, "paper", root)
        records = {key: Record.make(key, value) for key, value in reference.records.items()} if reference else {}
        verdicts = judge(ledger, records, "paper", reference)
        decided = [claim for claim in ledger.claims if verdicts[claim.id].word not in (TOO_CLOSE, *SILENT)]
        same += [same_word(c, verdicts[c.id], "paper", 1 + len(reference.draws), i) for i, c in enumerate(decided)]
    return [
        f"Of the {len(same)} verdicts that all draws together decide, the next draw alone should contradict {_between(same)}. This is computed before it is made.",
        "",
    ]


def _between(same: Sequence[np.ndarray]) -> str:
    """Mean and the interval that holds 95 % of the number of verdicts that differ, from imagined draws."""
    counts = np.sum([~each for each in same], axis=0)
    low, high = np.quantile(counts, (0.025, 0.975))
    return f"{number(float(counts.mean()), 2)} ({low:.0f} to {high:.0f})"


def _calibration(found: Sequence) -> list[str]:
    """Deviations between the draws in joint standard errors: a picture, and the share beyond 1, 2 and 3 for each chapter."""
    by_chapter: dict[str, dict[str, np.ndarray]] = {}
    for r in found:
        of = by_chapter.setdefault(r.ledger.title, {})
        of.update({key: np.concatenate([of.get(key, np.empty(0)), z]) for key, z in r.deviations().items()})
    every = np.concatenate([z for of in by_chapter.values() for z in of.values()] or [np.empty(0)])
    few = ", ".join(f"{number(200 * stdtr(6, -k), 2)} %" for k in BEYOND)
    heads = "".join(f" | Beyond {k} ({number(100 * share, 2)} %)" for k, share in BEYOND.items())
    lines = [
        "## Do errors say how far values move?",
        "",
        f"{len(every)} recorded numbers have a standard error and moved. Their difference, in units of the joint error, should be a "
        "standard normal number. Brackets: shares of a normal distribution. Most errors come from a few runs and are uncertain themselves: of four runs at each "
        f"draw, Student's distribution leaves {few} beyond 1, 2 and 3. Numbers of one training move together, so a whole chapter may lie near or far.",
        "",
        histogram(every),
        "",
        f"| Chapter | Numbers{heads} | Largest differences (records) |",
        f"|---|---|{'---|' * len(BEYOND)}---|",
    ]
    for title, of in by_chapter.items():
        z = np.concatenate([*of.values()]) if of else np.empty(0)
        shares = " | ".join(f"{number(100 * np.mean(np.abs(z) > k), 2)} %" if len(z) else "" for k in BEYOND)
        far = sorted(of, key=lambda key: -np.abs(of[key]).max())[:3]
        largest = ", ".join(f"`{key}` {number(float(of[key][np.abs(of[key]).argmax()]), 2)}" for key in far)
        lines.append(f"| {render.plain_markdown(title)} | {len(z)} | {shares} | {largest} |")
    return lines


def histogram(z: np.ndarray, reach: float = 4.125) -> str:
    """A picture of deviations beside what a standard normal law gives; those farther out stand in the outermost bars."""
    edges = np.linspace(-reach, reach, 34)

    def frame() -> Figure:
        fig, ax = style.figure(height=2.6)
        ax.hist(np.clip(z, -reach, reach), edges, color=style.PALETTE[4], label="differences between the two draws")
        expected = len(z) * np.diff(ndtr(edges))
        style.theory_line(ax, (edges[1:] + edges[:-1]) / 2, expected, "what errors of the right size give")
        ax.set(xlabel="joint standard errors", ylabel="recorded numbers")
        ax.legend()
        return fig

    with plt.rc_context(style.RC):
        picture = picture_html(draw(frame, {}), "Deviations in joint standard errors, beside a normal law")
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
