"""Sections 8, 9.3 and 9.4 on published models: what ``iclbook probe`` wrote in a reader's folder, as the values that the ledger's rules ask for.

A row is recorded once the files of all its models are there; until then it is out of reach. The rules were written before anybody here had the weights.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ...claims import load_ledger
from ...drawing.figure_data import Table
from ...errors import UserError
from ...files import open_npz
from ...statistics import Estimate, bootstrap_error
from .probe_statistics import alignment
from .readout import DROPS, THRESHOLDS

#: Names the folder with the results of probes (`iclbook run gradient_descent --probes FOLDER`).
SWITCH = "ICLBOOK_PROBES"
#: Models of sections 8.2 and 8.4 (finding 4), of figure 2's panel, and of section 9.4.
ALIGNED, RATED = ("gpt2", "pythia-410m", "pythia-1b"), ("gpt2", "pythia-160m", "pythia-410m")
PANEL = ("qwen2.5-0.5b", "distilgpt2", "gpt-neo-125m", "gpt2", "gpt2-medium", "gpt2-large")
PANEL += ("pythia-70m", "pythia-160m", "pythia-410m", "pythia-1b", "tinyllama-1.1b")
SIZED = ("pythia-70m", "pythia-160m", "gpt2-medium", "pythia-410m", "gpt2-large", "pythia-1b")
#: Checkpoints of Pythia-160M, 410M and 1B in section 8.4; on Pythia-160M, sinks at three of them.
GROWING, STEPS = (("pythia-160m", "pythia-410m", "pythia-1b"), (1, 8, 64, 256, 1000, 4000, 16000, 64000, 143000))
SINK_STEPS = (64, 1000, 16000)
#: Section 8.5: the model of figure 6 and how many checkpoints show its peak; Pythia's in the table beside it; the seven sizes of figure 7 and the features
#: of step 4,000 among which it reports the best.
AGEING, CHECKPOINTS, YOUNG = "olmo-2-0425-1b", 10, ("pythia-1.4b", "pythia-1b", "pythia-160m")
FORECAST = tuple(f"pythia-{size}" for size in ("14m", "31m", "70m", "160m", "410m", "1b", "1.4b"))
FEATURES = ("reduction", "slope", "signs", "depth_rank")

Found = Mapping[tuple[str, str, str], "Probed"]


class Probed(NamedTuple):
    """One file: the values that the probe printed, and its raw arrays."""

    values: Mapping[str, float]
    arrays: Mapping[str, np.ndarray]


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


def _of(found: Found, models: Sequence[str], probe: str, name: str) -> list[float]:
    """A value of a probe for each of these models."""
    return [found[model, "", probe].values[name] for model in models]


def _reductions(found: Found, model: str, name: str = "reduction", steps: Sequence[int] = STEPS) -> list[float]:
    """A value of section 8.4 at checkpoints of a Pythia model."""
    return [found[model, f"step{step}", "alignment"].values[name] for step in steps]


def _with_error(probed: Probed, name: str) -> tuple[float, float]:
    """A statistic of the alignment and its standard error over prompts."""
    both = np.column_stack([probed.arrays["estimate_true"], probed.arrays["target"]]).astype(float)
    return probed.values[name], bootstrap_error(lambda b: getattr(alignment(b[:, :-1], b[:, -1]), name), both)


def _alignment(found: Found) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in ("slope", "signs", "r2"):
        pairs = [_with_error(found[model, "", "alignment"], name) for model in ALIGNED]
        values[f"probes/alignment/{name}"] = Estimate(*np.transpose(pairs))
    values["probes/alignment/falls"] = [1 - left for left in _of(found, ALIGNED, "alignment", "remaining")]
    values["probes/alignment/noise"] = _of(found, ALIGNED, "alignment", "p_signs_noise")
    return values


def _rates(found: Found) -> dict[str, Any]:
    pairs = zip(*(_of(found, RATED, "alignment", name) for name in ("rho_pred", "rho_obs")), strict=True)
    return {
        "probes/rates/apart": [abs(predicted - observed) / observed for predicted, observed in pairs],
        "probes/rates/contracting": _of(found, RATED, "alignment", "contracting"),
    }


def _induction(found: Found) -> dict[str, Any]:
    r2, rho = (np.array(_of(found, PANEL, "induction", name)) for name in ("r210", "rho10"))
    size = [len(found[model, "", "truncation"].arrays["singular"]) for model in PANEL]
    fits = np.stack([np.divide(_of(found, PANEL, "truncation", "rank_tau0.1"), size), rho**2])[:, r2 >= 0.5]
    varied = fits.shape[1] > 2 and np.ptp(fits, axis=1).all()
    return {
        "probes/induction/r2": float(r2.mean()),
        "probes/induction/density": float(np.corrcoef(fits)[0, 1]) if varied else 0.0,
    }


def _truncation(found: Found) -> dict[str, Any]:
    accuracy = dict(zip(PANEL, _of(found, PANEL, "induction", "accuracy10"), strict=True))
    gaps = []
    for model in sorted(PANEL, key=accuracy.get, reverse=True)[:2]:
        values = found[model, "", "truncation"].values
        tau = min((t for t in THRESHOLDS if f"gap_last_tau{t:g}" in values), default=THRESHOLDS[0])
        gaps.append([values[f"gap_{drop}_tau{tau:g}"] for drop in DROPS])
    return {
        "probes/truncation/gap": [last for last, _ in gaps],
        "probes/truncation/above_random": [last - other for last, other in gaps],
    }


def _emergence(found: Found) -> dict[str, Any]:
    every = [_reductions(found, model) for model in GROWING]
    at = STEPS.index
    return {
        "probes/emergence/plateau": [max(map(abs, one[: at(8) + 1])) for one in every],
        "probes/emergence/valley": [min(one[: at(256) + 1]) for one in every],
        "probes/emergence/at_4k": [one[at(4000)] for one in every],
        "probes/emergence/peak": [max(one[at(1000) :]) for one in every],
    }


def _sinks(found: Found) -> dict[str, Any]:
    steps = zip(("early", "middle", "late"), SINK_STEPS, strict=True)
    ratios = {name: found["pythia-160m", f"step{step}", "sinks"].values["late_over_early_3"] for name, step in steps}
    return {f"probes/sinks/{name}": ratio for name, ratio in ratios.items()}


def _life(found: Found) -> dict[str, Any]:
    tokens = {r: re.search(r"tokens(\d+)B", r) for model, r, probe in found if (model, probe) == (AGEING, "alignment")}
    checkpoints = sorted((r for r, named in tokens.items() if named), key=lambda r: int(tokens[r][1]))
    if len(checkpoints) < CHECKPOINTS:
        raise KeyError(AGEING)
    aligned = [found[AGEING, r, "alignment"].values for r in checkpoints]
    peak = int(np.argmax([a["reduction"] for a in aligned]))
    changes = [
        found[AGEING, checkpoints[-1], probe].values[name] - found[AGEING, checkpoints[peak], probe].values[name]
        for probe, name in (("induction", "accuracy10"), ("recall", "accuracy"), ("recall", "logp"))
    ]
    young = [_reductions(found, model) for model in YOUNG]
    return {
        "probes/life/decay": 1 - aligned[-1]["reduction"] / aligned[peak]["reduction"],
        "probes/life/signs": 1 - aligned[-1]["signs"] / aligned[peak]["signs"],
        "probes/life/held_out": changes,
        "probes/life/pythia": [1 - falls[-1] / max(falls) for falls in young],
    }


def _forecast(found: Found) -> dict[str, Any]:
    features = [[_reductions(found, model, name, (4000,))[0] for model in FORECAST] for name in FEATURES]
    final = [_reductions(found, model, steps=STEPS[-1:])[0] for model in FORECAST]
    held_out = [
        [found[model, f"step{STEPS[-1]}", probe].values[name] for model in FORECAST]
        for probe, name in (("induction", "accuracy10"), ("recall", "logp"))
    ]
    least = [min(stats.pearsonr(feature, target).pvalue for feature in features) for target in held_out]
    within = stats.spearmanr(features[0], final).statistic
    return {"probes/forecast/within": float(within), "probes/forecast/p": list(map(float, least))}


def _circuit(found: Found) -> dict[str, Any]:
    probed = found["gpt2", "", "patterns"]
    lost, sink = probed.arrays["ablated_layer"] - probed.arrays["intact"], probed.arrays["sink"]
    return {
        "probes/circuit/effect": probed.values["icl_effect"],
        "probes/circuit/late_less_early": float(lost[-2:].min() - lost[:5].max()),
        "probes/circuit/sinks": float(sink[len(sink) // 2 :].mean() - sink[:2].mean()),
    }


def _sizes(found: Found) -> dict[str, Any]:
    return {"probes/sizes/late_over_early": _of(found, SIZED, "sinks", "late_over_early_2")}


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
    found, values = read(Path(named)), {}
    every = (_alignment, _rates, _induction, _truncation, _emergence, _sinks, _circuit, _sizes, _life, _forecast)
    for row in every:
        try:
            values |= row(found)
        except KeyError:  # a model that was not probed
            continue
    return values
