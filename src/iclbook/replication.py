"""The book beside another draw of itself: rules that were frozen before, verdicts that came out otherwise, whether errors say how far values move; and the page
*Replication*, which tells it.

Below ``references/replication``:

- ``rules.json`` freezes the rules: a digest of what judges each claim.
- ``DRAW/verdicts.json`` has every verdict that the draws before DRAW decide and, as predicted before it was made, how likely DRAW alone contradicts it or leaves it
  undecided. The verdict by DRAW alone is added once, when it is judged, and stays whatever rules become.
- ``DRAW/PROFILE/CHAPTER.json`` are the values of a draw (:mod:`iclbook.draw`), as ``iclbook check --draw DRAW --update`` leaves them.
"""

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.special import betaincinv, ndtr, stdtr

from . import formulas
from .claims import Claim, Ledger, Record, Verdict, all_ledgers, judge, render
from .claims.references import Reference, agrees, pooled, read_reference, reference_path, tolerance
from .claims.repeats import imagined
from .claims.verdicts import OPEN, SILENT, TOO_CLOSE, PartResult
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
    """Write the digest of every claim's rules: from then on a draw judges by these or not at all. Predictions of what was not judged yet are made anew."""
    found = {claim.id: claim.rules_digest for ledger in all_ledgers(root) for claim in ledger.claims}
    write_whole(root / RULES, json.dumps(found, indent=1) + "\n")
    for path in (root / RULES).parent.glob("*/verdicts.json"):
        if not any("alone" in entry for entry in entries(int(path.parent.name), root).values()):
            path.unlink()


def require_frozen(ledgers: Iterable[Ledger], root: Path) -> None:
    """Refuse to judge another draw by rules that were written after they were frozen."""
    with reading(root / RULES, "Restore it from git."):
        known = dict(json.loads((root / RULES).read_text(encoding="utf-8"))) if (root / RULES).is_file() else {}
    changed = [claim.id for ledger in ledgers for claim in ledger.claims if known.get(claim.id) != claim.rules_digest]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        hint = "Freeze them first, `python -m iclbook.replication`, and commit that before anything is drawn."
        raise UserError(f"the rules of {', '.join(changed[:3])}{more} are not the frozen ones", hint)


#: Claim id -> the verdict before a draw; ``contradicted`` and ``undecided``, the predicted probabilities, where there was a prediction; ``alone``, the verdict by that
#: draw alone, and ``moved``, whether a value that it rests on moved, once it is judged.
Entries = dict[str, dict[str, Any]]


def _entries_path(draw: int, root: Path) -> Path:
    return root / "references" / "replication" / str(draw) / "verdicts.json"


def entries(draw: int, root: Path) -> Entries:
    """What was predicted and found at a draw; empty where nothing was written down."""
    path = _entries_path(draw, root)
    if not path.is_file():
        return {}
    with reading(path, "Restore it from git."):
        found = {claim: dict(entry) for claim, entry in dict(json.loads(path.read_text(encoding="utf-8"))).items()}
        if not all(isinstance(entry["before"], str) for entry in found.values()):
            raise ValueError("a verdict is not a word")
        return found


def _write_entries(draw: int, found: Entries, root: Path) -> None:
    lines = ",\n".join(f" {json.dumps(claim)}: {json.dumps(entry)}" for claim, entry in found.items())  # a line a claim
    write_whole(_entries_path(draw, root), f"{{\n{lines}\n}}\n")


def predict(draw: int, root: Path) -> None:
    """Write down, before a draw is made, what the draws before it decide and how likely it alone contradicts each verdict or leaves it undecided."""
    ledgers = all_ledgers(root)
    require_frozen(ledgers, root)
    if not entries(draw, root):
        _write_entries(draw, _predicted(draw, ledgers, root), root)


def _predicted(draw: int, ledgers: Sequence[Ledger], root: Path) -> Entries:
    found = {}
    for ledger in ledgers:
        reference = _before(ledger, draw, root) or Reference({})
        records = {key: Record.make(key, value) for key, value in reference.records.items()}
        verdicts = judge(ledger, records, "paper", reference)
        for i, claim in enumerate(ledger.claims):
            word = verdicts[claim.id].word
            if word not in (TOO_CLOSE, *SILENT):
                contradicted, undecided = imagined(claim, verdicts[claim.id], "paper", i)
                found[claim.id] = {"before": word, "contradicted": contradicted, "undecided": undecided}
    return found


def keep_verdicts(draw: int, ledger: Ledger, root: Path) -> None:
    """Add what a draw alone says of a chapter's claims; what was added before stays."""
    found, now = entries(draw, root), next(r for r in replicas(draw, root) if r.ledger.paper == ledger.paper)
    for pair in now.pairs():
        if "alone" not in found.get(pair.claim.id, {"alone": ""}):
            found[pair.claim.id] |= {"alone": pair.second.word, "moved": bool(pair.moved)}
    _write_entries(draw, found, root)


@dataclass(frozen=True)
class Pair:
    """A claim's verdicts: the book's before a draw, which pool the draws made before it, and that draw's own.

    Attributes:
        moved: every part that rests on a value that moved by more than rounding, by its name with its reading.
    """

    ledger: Ledger
    claim: Claim
    first: Verdict
    second: Verdict
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
                pairs.append(Pair(self.ledger, claim, *own, moved))
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
        """Key -> difference of the draw and the mean of those before in units of their joint standard error, of every value that carries one and that moved.

        A share of 0 or 1 that comes out the same has an error all the same, for what so few trials can show; it says nothing here.
        """
        found, before = {}, {**self.first.records, **pooled(self.first)}
        for key in filter(self.is_drawn, before):
            draws, names = (before, self.second.records), (key, f"{key}_se")
            four = [np.atleast_1d(values.get(name, np.nan)) for name in names for values in draws]
            if names[1] not in before or len({x.shape for x in four}) > 1:
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


def _before(ledger: Ledger, draw: int, root: Path) -> Reference | None:
    """The book's reference of a chapter with the records of the draws before one; None where there is none yet."""
    numbers = (0, *(k for k in drawn(root) if 0 < k < draw))
    paths = [reference_path(ledger.chapter_name, "paper", root, draw=k) for k in numbers]
    if not paths[0].is_file():
        return None
    first, *others = (read_reference(path, root) for path in paths if path.is_file())
    return replace(first, draws=tuple(each.records for each in others))


def replicas(draw: int, root: Path) -> list[Replica]:
    """Chapters that were run at a draw, beside the book's reference and its draws before."""
    found = []
    for ledger in all_ledgers(root):
        first, path = _before(ledger, draw, root), reference_path(ledger.chapter_name, "paper", root, draw=draw)
        if first is not None and path.is_file():
            found.append(Replica(ledger, first, read_reference(path, root)))
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
CHANCES = (0, 0.5, 0.8, 0.95, 1)
HEADS = ("Draw", "Verdicts", "Contradicted", "Undecided by it alone", "Rest on values that moved", "Chapters")


def markdown(profile: str, root: Path) -> str:
    """The page's body in MyST Markdown."""
    every = {k: replicas(k, root) for k in drawn(root)}
    if not any(every.values()):
        return "Nothing has been drawn anew yet."
    told = {k: {claim: e for claim, e in entries(k, root).items() if e.get("alone", OPEN) not in SILENT} for k in every}
    pairs = {k: {pair.claim.id: pair for replica in found for pair in replica.pairs()} for k, found in every.items()}
    ahead, ledgers = 1 + max(every), all_ledgers(root)
    foreseen = entries(ahead, root) or _predicted(ahead, ledgers, root)
    lines = [f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    lines += [_row(f"{k}", told[k], len(every[k])) for k in every]
    lines += [
        _row(f"{ahead}, predicted", foreseen, len(ledgers)),
        "",
        "*Verdicts*: those that the draws before it decide. *Contradicted*: the draw alone decides otherwise. *Undecided by it alone*: its own errors, which are larger than those "
        "of the mean, leave the verdict open. Brackets: the number predicted, with an interval of 95 % as if parts moved independently; parts that share a training do not.",
        "",
    ]
    lines += [line for k in every for line in _about(k, every[k], len(told[k].keys() - pairs[k].keys()), root)]
    return "\n".join([*lines, *_differing(told, pairs, ledgers), *_calibration(every, told, pairs)])


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


def _about(draw: int, found: Sequence[Replica], changed: int, root: Path) -> list[str]:
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
        f"{changed} of its claims have other rules by now; the table keeps their verdicts of that time."
        if changed
        else "",
        f"Not drawn anew yet: {', '.join(waiting)}." if waiting else "",
        f"Code that has changed since made {', '.join(older)}." if older else "",
        f"Stored verdicts that do not follow from the values stored beside them: {', '.join(wrong)}." if wrong else "",
    ]
    return [" ".join(filter(None, sentences)), ""]


def _differing(
    told: Mapping[int, Entries], pairs: Mapping[int, dict[str, Pair]], ledgers: Sequence[Ledger]
) -> list[str]:
    """A line for every verdict that came out otherwise: both words, how likely that was, and the parts that turned with both values and margins."""
    lines, written = [], partial(formulas.markdown, escaped=render.plain_markdown)
    claims = {claim.id: (ledger, claim) for ledger in ledgers for claim in ledger.claims}
    differing = ((k, claim, e) for k, found in told.items() for claim, e in found.items() if e["alone"] != e["before"])
    for k, claim_id, e in differing:
        before, alone = (render.sight(Verdict(e[when])) for when in ("before", "alone"))
        says, pair = claim_id, pairs[k].get(claim_id)
        if claim_id in claims:
            ledger, claim = claims[claim_id]
            link = f"../{ledger.chapter.removesuffix('.py')}.html#{claim.anchor}"
            says = f'{written(claim.short)} (<a href="{link}">{written(claim.where)}</a>)'
        chance = f" The probability was {number(e['contradicted'] + e['undecided'], 2)}." if "undecided" in e else ""
        since = "" if pair else " Its rule has changed since."
        lines.append(f"- {before} before, {alone} by draw {k} alone: {says}.{chance}{since}")
        lines += [
            f"  - {written(a.name if a.reading is None else f'{a.name} ({a.reading})')}: {_valued(a)}, then {_valued(b)}"
            for a, b in (pair.parts() if pair else ())
            if a.holds != b.holds or a.close != b.close
        ]
    return ["## Verdicts that differ", "", *lines, ""] if lines else []


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
    beyond = ", ".join(f"{_share(z, k)} beyond {k}" for k in BEYOND)
    normal = ", ".join(f"{number(100 * share, 2)} %" for share in BEYOND.values())
    few = ", ".join(f"{number(200 * stdtr(6, -k), 2)} %" for k in BEYOND)
    predicted = [e for found in told.values() for e in found.values() if "undecided" in e]
    chance = np.array([1 - e["contradicted"] - e["undecided"] for e in predicted])
    differs = np.array([e["alone"] != e["before"] for e in predicted], bool)
    parts = [both for of in pairs.values() for p in of.values() for both in p.parts() if both[0].full_name in p.moved]
    without = [a.holds != b.holds for a, b in parts if not a.sampled]
    stayed = [p for of in pairs.values() for p in of.values() if p.decided and not p.differs]
    lines = [
        "## Do errors and probabilities come true?",
        "",
        f"Histogram: {len(z):,} comparisons of a number with its mean over the draws before, in units of the joint standard error. They should be standard normal: {beyond} errors "
        f"({normal}). Points: the share of verdicts that kept their word, with a 95 % interval, against its probability; verdicts that no error moves are left out. Probabilities that "
        f"come true lie on the line. Without an error are {len(without)} parts on a value that moved, such as counts and extremes; {sum(without)} of them turned. "
        f"Under {sum(bool(p.turned()) for p in stayed)} of the verdicts that came out the same a part turned, which their folds name.",
        "",
        pictures(z, chance[chance < 1], differs[chance < 1]),
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
        "Brackets: shares of a normal distribution. Most errors come from a few runs and are uncertain themselves: of four runs at each draw, Student's distribution "
        f"leaves {few} beyond 1, 2 and 3. Numbers of one training move together, so a whole chapter may lie near or far.",
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


def pictures(z: np.ndarray, chance: np.ndarray, differs: np.ndarray, reach: float = 4.125) -> str:
    """Deviations beside what a standard normal law gives, those farther out in the outermost bars; and verdicts that stayed against their probability."""
    edges = np.linspace(-reach, reach, 34)

    def frame() -> Figure:
        fig, (left, right) = style.figure(2, height=2.6)
        left.hist(np.clip(z, -reach, reach), edges, color=style.PALETTE[4], label="a draw and those before")
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
        predict(draw_number(), find_root()) if draw_number() else freeze(find_root())
