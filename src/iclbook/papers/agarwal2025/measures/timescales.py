"""How fast attention and values move, early and late, in the runs whose weights are kept (agarwal2025, sections 5.3, 6.3 and 10.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ....statistics import ratio_error, widened_error
from ....store import Results
from ....training.study import Study
from ..runs.shown import value_paths
from ..theory import gradients as closed
from .follow import Followed, followed

Scales = list[dict[str, Any]]
#: Attention or values have settled when they are within this share of the way from start to end.
SETTLED = 0.1
#: Queries whose attention rows are compared between records.
QUERIES = 100
#: The first steps, which section 7.2 speaks of as "early in training".
EARLY = 100


def attention_rows(run: Followed, records: Sequence[int] | None = None) -> np.ndarray:
    """Attention of 100 queries from the second half of the sequence at these records (or at all), ``(records, 100, T)``."""
    x, _ = run.inputs()
    T = len(x)
    queries = np.sort(
        np.random.default_rng(0).choice(np.arange(T // 2, T), min(QUERIES, T // 2), replace=False)
    )
    seen = torch.arange(T) <= torch.as_tensor(queries)[:, None]
    rows = []
    for record in range(len(run.steps)) if records is None else records:
        w = run.weights(record)
        s = closed.scores(x[queries] @ w.W_Q.mT, x @ w.W_K.mT)
        rows.append(s.masked_fill(~seen, -torch.inf).softmax(-1).float().numpy())
    return np.array(rows)


def way_left(states: np.ndarray) -> np.ndarray:
    """Distance to the last state over that of the first, ``(records,)``; states ``(records, ..., d)`` are compared by the mean 1-norm of the rows."""
    gap = np.abs(states - states[-1]).sum(-1)
    gap = gap.reshape(len(gap), -1).mean(1)
    return gap / gap[0]


def speed_left(states: np.ndarray, steps: np.ndarray) -> tuple[float, float]:
    """Speed over the last tenth of the records against the largest over any such stretch, and against the mean; near zero where something has settled."""
    stretch = max(1, len(steps) // 10)
    moved = np.abs(states[stretch:] - states[:-stretch]).sum(-1)
    speed = moved.reshape(len(moved), -1).mean(1) / (steps[stretch:] - steps[:-stretch])
    return float(speed[-1] / speed.max()), float(speed[-1] / speed.mean())


def settles(left: np.ndarray, steps: np.ndarray) -> float:
    """First step from which the way left stays at or below :data:`SETTLED`, interpolated."""
    above = np.flatnonzero(left > SETTLED)[-1]
    part = (left[above] - SETTLED) / (left[above] - left[above + 1])
    return float(steps[above] + part * (steps[above + 1] - steps[above]))


def time_scales(run: Followed) -> dict[str, np.ndarray | float | tuple[float, float]]:
    """Way left of attention and of values along a run, when each has settled, and the speeds left at the end."""
    rows, paths = attention_rows(run), value_paths(run.chain, run.seed, run.flat, run.sizes)
    attention, values = way_left(rows), way_left(paths)
    return {
        "attention": attention,
        "values": values,
        "attention_at": settles(attention, run.steps),
        "values_at": settles(values, run.steps),
        "attention_speed": speed_left(rows, run.steps),
        "values_speed": speed_left(paths, run.steps),
    }


def frame_values(em: Scales, sgd: Scales, far: Scales) -> dict[str, object]:
    """Section 6.3's claims, from :func:`time_scales` of every run. A run that moves evenly to its end "settles" a tenth before it, whatever moves; so the speed
    that attention has left says whether a run can decide: a long one at the largest uniform rate, ``far``."""
    later = [
        float(s["values_at"]) - float(s["attention_at"]) for s in far
    ]  # steps by which values settle later
    last, mean = np.array([[s["attention_speed"], s["values_speed"]] for s in far]).transpose(2, 0, 1)

    def at(scales: Scales, what: str) -> float:
        return float(np.mean([s[f"{what}_at"] for s in scales]))

    return {
        "frame/em_attention": at(em, "attention"),
        "frame/em_values": at(em, "values"),
        "frame/sgd_attention": at(sgd, "attention"),
        "frame/sgd_values": at(sgd, "values"),
        "frame/far_attention": at(far, "attention"),
        "frame/far_values": at(far, "values"),
        "frame/far": float(np.mean(later)),
        "frame/far_se": widened_error(later),
        "frame/far_speed": float(last[:, 0].mean()),
        "frame/far_speed_se": widened_error(last[:, 0]),
        "frame/far_mean_speed": mean.mean(0).tolist(),
    }


def early_moves(run: Followed) -> tuple[float, float]:
    """How far attention and values have moved from their start at the last record of the first :data:`EARLY` steps, each relative to its own size there:
    mean 1-norm of the change of a query's attention, whose own is 1, and mean norm of the change of a value over the mean norm of values."""
    record = int(np.flatnonzero(run.steps <= EARLY)[-1])
    rows = attention_rows(run, (0, record))
    paths = value_paths(run.chain, run.seed, run.flat[[0, record]], run.sizes)
    attention = np.abs(rows[1] - rows[0]).sum(-1).mean()
    moved = np.linalg.norm(paths[1] - paths[0], axis=-1).mean()
    return float(attention), float(moved / np.linalg.norm(paths[0], axis=-1).mean())


def speed_values(study: Study, results: Results) -> dict[str, float]:
    """Section 10.3's "fast routing, slow values": relative move of attention over that of values, early, means over seeds."""
    sgd, em = (
        np.array([early_moves(run) for run in followed(study, results, arm)]).T for arm in ("sgd", "em")
    )
    return {
        "speeds/sgd": float(sgd[0].mean() / sgd[1].mean()),
        "speeds/sgd_se": ratio_error(*sgd),
        "speeds/em": float(em[0].mean() / em[1].mean()),
        "speeds/em_se": ratio_error(*em),
    }
