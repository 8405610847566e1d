"""Sections 8, 9.3 and 9.4 on published models: what ``iclbook probe`` wrote in a reader's folder, as the values that the ledger's rules ask for.

A row is recorded once the files of all its models are there; until then it is out of reach. The rules were written before anybody here had the weights.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ...claims import load_ledger
from ...drawing.figure_data import Table
from ...errors import UserError
from ...files import open_npz
from . import pretrained_values as values_of
from .pretrained_values import Found, Probed

#: Names the folder with the results of probes (`iclbook run gradient_descent --probes FOLDER`).
SWITCH = "ICLBOOK_PROBES"

Call = tuple[str, str, str]


class Row(NamedTuple):
    """Rows of the ledger that rest on the same calls.

    Attributes:
        name: how the plan names them.
        calls: (model, revision, probe) each; of figure 6 without those whose revisions the results name themselves.
        values: what is recorded of the results.
    """

    name: str
    calls: tuple[Call, ...]
    values: Callable[[Found], dict[str, Any]]


def _calls(models: Iterable[str], *probes: str, steps: Iterable[int | None] = (None,)) -> tuple[Call, ...]:
    revisions = ["" if step is None else f"step{step}" for step in steps]
    return tuple((model, revision, probe) for model in models for revision in revisions for probe in probes)


_LAST = values_of.STEPS[-1:]
ROWS = (
    Row("predictions L1 and L4", _calls(values_of.ALIGNED, "alignment"), values_of.alignment_values),
    Row("figure 2", _calls(values_of.PANEL, "induction", "truncation"), values_of.induction),
    Row("section 8.3", _calls(values_of.PANEL, "induction", "truncation"), values_of.truncation),
    Row("figure 3", _calls(values_of.GROWING, "alignment", steps=values_of.STEPS), values_of.emergence),
    Row("figure 4", _calls(["pythia-160m"], "sinks", steps=values_of.SINK_STEPS), values_of.sinks),
    Row("figure 5", _calls(values_of.RATED, "alignment"), values_of.rates),
    Row("figure 6", _calls(values_of.YOUNG, "alignment", steps=values_of.STEPS), values_of.life),
    Row(
        "figure 7",
        _calls(values_of.FORECAST, "alignment", steps=(4000, *_LAST))
        + _calls(values_of.FORECAST, "induction", "recall", steps=_LAST),
        values_of.forecast,
    ),
    Row("section 9.3", _calls(["gpt2"], "patterns"), values_of.circuit),
    Row("section 9.4", _calls(values_of.SIZED, "sinks"), values_of.sizes),
)
#: Names of all models.
MODELS = tuple(dict.fromkeys([values_of.AGEING, *(model for row in ROWS for model, _, _ in row.calls)]))


def read(folder: Path) -> dict[tuple[str, str, str], Probed]:
    """Results in a folder: (model, revision, probe) -> what was measured.

    Raises:
        UserError: no such folder, a file that is no result of a probe, two of the same.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}", "Name one that holds what `iclbook probe` wrote.")
    found: dict[tuple[str, str, str], Probed] = {}
    for path in sorted(folder.glob("*.npz")):
        try:
            with open_npz(path.read_bytes()) as stored:
                about = json.loads(str(stored["about"]))
                key = (about["model"]["name"], about["model"]["revision"] or "", about["probe"])
                arrays = {name: stored[name] for name in stored.files if name != "about"}
                probed = Probed({k: float(v) for k, v in about["values"].items()}, arrays)
        except Exception as problem:
            raise UserError(
                f"{path} is no result of a probe ({problem})", "Probe the model again, or remove it."
            ) from None
        if key in found:
            raise UserError(f"{path} repeats another file: {' '.join(filter(None, key))}", "Remove one of them.")
        found[key] = probed
    return found


def needed(row: Row, found: Found) -> list[Call]:
    """The calls of a row, those that follow from what is there included: of figure 6 the checkpoints of OLMo 2, by the names of their revisions."""
    if row.values is not values_of.life:
        return list(row.calls)
    named = values_of.ages(found)
    others = [f"{values_of.ANY_AGE} ({i + 1})" for i in range(len(named), values_of.CHECKPOINTS)]
    ends = values_of.peak_and_end(found, named) if not others else ("at the peak", "at the end")
    held_out = [(values_of.AGEING, end, probe) for end in ends for probe in ("induction", "recall")]
    return [*row.calls, *((values_of.AGEING, name, "alignment") for name in [*named, *others]), *held_out]


#: Lines that say where the weights are.
FETCHING = (
    "",
    "Fetch a model with: hf download OWNER/NAME --revision REVISION --local-dir NAME/REVISION (REVISION where a call has one).",
    "OWNER: EleutherAI (pythia, gpt-neo), openai-community (gpt2), distilbert, Qwen, TinyLlama, allenai (olmo).",
    "The paper does not say which TinyLlama: any of 1.1 billion parameters, with --name tinyllama-1.1b.",
    "",
)


def plan(folder: Path | None = None) -> list[str]:
    """Lines: how much of each row a folder with results holds, and the calls that are still needed."""
    found = read(folder) if folder is not None and folder.is_dir() else {}
    lines, calls = [], {}
    for row in ROWS:
        every = needed(row, found)
        missing = [call for call in every if call not in found]
        some = "; ".join(" ".join(filter(None, call)) for call in missing[:2])
        more = f"; and {len(missing) - 2} more" if len(missing) > 2 else ""
        lines.append(
            f"{row.name}: {len(every) - len(missing)} of {len(every)} there" + f", missing {some}{more}" * bool(missing)
        )
        calls |= dict.fromkeys(missing)
    if calls:
        lines += FETCHING
    for model, revision, probe in calls:
        option = f" --revision {revision}" if revision else ""
        file = "-".join(filter(None, (model, revision, probe)))
        lines.append(f"iclbook probe --model {model}{option} --probe {probe} --out {folder or 'probes'}/{file}.npz")
    return lines


def table() -> Table:
    """The rows that published models would decide: the printed values, and parts with their rules."""
    rows = [
        {"where": c.where, "paper": c.paper, "asks": "; ".join(f"{p.name} {p.rule.text}" for p in c.parts)}
        for c in load_ledger("nagy2026").claims
        if any(p.key.startswith("probes/") for p in c.parts)
    ]
    columns = {"where": "where", "paper": "printed", "asks": "what decides it"}
    return Table(rows, columns, "Published models: what is printed, and what decides it", folded=True)


def records(folder: Path | None = None) -> dict[str, Any]:
    """``probes/...``: the rows whose models are all there; nothing without a folder."""
    named = folder or os.environ.get(SWITCH)
    if not named:
        return {}
    found = read(Path(named))
    ready = [row for row in ROWS if all(call in found for call in needed(row, found))]
    return {key: value for row in ready for key, value in row.values(found).items()}
