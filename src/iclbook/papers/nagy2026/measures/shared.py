"""What the measures of trained models share: errors by setting, and how far a printed number is from what the seeds give (nagy2026)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....statistics import prediction
from ....store import Results
from ....training import Adam
from ....training.study import Study
from ..runs.specs import Probes
from ..theory import arithmetic
from ..theory import one_layer as theory


def printed(item: str) -> tuple[float, ...]:
    """The printed numbers that an item of the table of printed numbers is recomputed from."""
    (inputs,) = [i.inputs for i in arithmetic.ITEMS if i.id.removeprefix("arithmetic/") == item]
    return tuple(float(number) for number in inputs)


def under(keys: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name under the keys that they are recorded by, each of which ends in a name.

    Raises:
        ValueError: a key without value, or a value without key.
    """
    named = {key.rpartition("/")[2]: key for key in keys}
    if named.keys() != values.keys():
        raise ValueError(f"keys of {sorted(named)}, values of {sorted(values)}")
    return {named[name]: value for name, value in values.items()}


def rates_of(study: Study, group: str) -> list[float]:
    """Learning rates of a group, in the order of its runs."""
    spec = next(g for g in study.groups if g.name == group)
    return list(dict.fromkeys(run.rate for run in spec.runs))


def by_rate(study: Study, results: Results, group: str, name: str) -> np.ndarray:
    """An array ``(T, R, ...)`` of a group as ``(T, rates, seeds, ...)``."""
    array = results[f"{group}/{name}"]
    return array.reshape(array.shape[0], len(rates_of(study, group)), -1, *array.shape[2:])


def label(optimiser: object, rate: float) -> str:
    """``Adam 0.001``."""
    return f"{'Adam' if isinstance(optimiser, Adam) else 'SGD'} {rate:g}"


def final_errors(
    study: Study, results: Results, group: str, probe: str = "n16", step: int = -1
) -> np.ndarray:
    """Error ``(rates, seeds)`` with the whole context, at a recorded index."""
    return by_rate(study, results, group, f"curve_{probe}")[step, ..., -1].astype(float)


def on_probes(probes: Probes, name: str = "n16") -> tuple[float, float]:
    """Error of the best single layer of linear attention on the very prompts that the trained models are measured on: mean and standard error."""
    context, query, target = (array.double().numpy() for array in probes.draw()[name])
    lam = np.asarray(probes.task.eigenvalues)
    scale = np.sqrt(lam)[:, None] if probes.task.balanced else 1.0
    length, d = context.shape[0], probes.task.d
    moment = (context[:, d:] * context[:, :d] / scale).mean(0)
    best = theory.best_gain(np.ones(d) if probes.task.balanced else lam, length)
    squared = (target[0] - (best[:, None] * moment * query / scale).sum(0)) ** 2
    return float(squared.mean()), float(squared.std(ddof=1) / np.sqrt(len(squared)))


def common_error(study: Study, name: str = "n16") -> float:
    """Relative standard error that all runs of a study share, being measured on the same prompts; that of the best single layer."""
    mean, error = on_probes(study.groups[0].observe.probes, name)
    return error / mean


def z_of(printed: float, values: np.ndarray, common: float = 0.0) -> np.ndarray:
    """Distance of a printed number from the mean of each row of ``values`` ``(settings, seeds)``, in standard deviations: ``(settings,)``.

    ``common`` is the relative standard error that all seeds share because they are measured on the same prompts.
    """
    spread = np.hypot(values.std(-1, ddof=1), common * values.mean(-1))
    return np.abs(printed - values.mean(-1)) / spread


def nearest_z(printed: float, values: np.ndarray, common: float = 0.0) -> float:
    """:func:`z_of` the nearest row."""
    return float(z_of(printed, values, common).min())


def apart(printed: float, values: np.ndarray, of: int = 1, common: float = 0.0, level: float = 0.95) -> float:
    """Distance of a printed mean of ``of`` seeds from the mean of ours ``(seeds,)``, in half-widths of the prediction interval: above 1 it is outside.

    ``common`` is the relative standard error that all our seeds share because they are measured on the same prompts.
    """
    expected = prediction(values, of, level)
    half = np.hypot((expected.high - expected.low) / 2, 1.96 * common * expected.mean)
    return float(abs(printed - expected.mean) / half)


def inside(printed: float, values: np.ndarray) -> bool:
    """Whether a printed number lies within everything measured."""
    return bool(values.min() <= printed <= values.max())
