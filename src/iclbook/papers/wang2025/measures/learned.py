"""GD against Trained TF on the data of appendix E (figures 3, 4, 5): accuracy and NLL against contexts, blocks and steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from ....statistics import Interval, interval, standard_error, t_of_mean
from ....store import Results
from ..runs.specs import Scores, scores
from ..runs.studies import SIZES
from .bounds import AUTHORS_ACCURACY, AUTHORS_NLL

#: How a notebook or a test hands in results: ``get(study) -> Results``.
Get = Callable[[str], Results]
#: An NLL counts as reached within this of the value at the largest number of contexts (nats).
REACHED = 0.05
#: Number of contexts that stands for "at none of the numbers tried".
NEVER = 10**9
#: Half width of an interval that cannot be computed.
OPEN = 1e6


def t_of_runs(differences: np.ndarray) -> float:
    """Mean of paired differences ``(R,)`` over its standard error; 0 for a single run or runs without spread."""
    return float(t_of_mean(differences)) if np.ptp(differences) > 0 else 0.0


def interval_of_runs(differences: np.ndarray) -> Interval:
    """95% confidence interval of the mean of paired differences ``(R,)``, by Student's t over runs.

    One run has no interval: its ends are :data:`OPEN` away, so that no rule about an end can hold.
    """
    if len(differences) > 1:
        return interval(differences)
    mean = float(np.mean(differences))
    return Interval(mean, mean - OPEN, mean + OPEN)


def error_of_runs(differences: np.ndarray) -> float:
    """Standard error of the mean of paired differences ``(R,)``; 0 for the single run that the smoke profile has of costly models."""
    return float(standard_error(differences)) if len(differences) > 1 else 0.0


def paired(key: str, differences: np.ndarray, *which: str) -> dict[str, float]:
    """Mean of paired differences over runs as ``key``; as ``key_low``, ``key_high``, ``key_t``, ``key_se`` what ``which`` names: ends of its 95% interval,
    mean over standard error, standard error."""
    mean, low, high = interval_of_runs(differences)
    every = {"low": low, "high": high, "t": t_of_runs(differences), "se": error_of_runs(differences)}
    return {key: mean} | {f"{key}_{name}": every[name] for name in which}


@dataclass(frozen=True)
class Sweep:
    """Early-stopped scores against the number of contexts: ``accuracy[model]``, ``nll[model]``, ``train[model]`` of shape ``(len(L), R)``.

    ``train`` is the mean minibatch loss over the recorded stretch that ends at the best validation record, where ``accuracy`` and ``nll`` are taken.
    """

    L: tuple[int, ...]
    accuracy: dict[str, np.ndarray]
    nll: dict[str, np.ndarray]
    train: dict[str, np.ndarray]


def _sweep(L: tuple[int, ...], models: dict[str, Callable[[int], tuple[Results, str]]]) -> Sweep:
    accuracy, nll, train = {}, {}, {}
    for model, where in models.items():
        found = [where(n) for n in L]
        kept = [scores(results, group) for results, group in found]
        accuracy[model] = np.stack([s.stopped("accuracy") for s in kept])
        nll[model] = np.stack([s.stopped("nll") for s in kept])
        train[model] = np.stack(
            [
                np.take_along_axis(results[f"{group}/loss"], s.best[None], axis=0)[0].astype(float)
                for (results, group), s in zip(found, kept, strict=True)
            ]
        )
    return Sweep(L, accuracy, nll, train)


def one_block(get: Get, profile: str) -> Sweep:
    """Figure 3."""
    s = SIZES[profile]
    return _sweep(
        s.L,
        {
            "GD softmax": lambda n: (get(f"gd_inner_L{n}"), "softmax"),
            "GD RBF": lambda n: (get(f"gd_squared_L{n}"), "rbf"),
            "GD linear": lambda n: (get(f"gd_inner_L{n}"), "linear"),
            "GD softmax, scalar alpha": lambda n: (get(f"gd_inner_L{n}"), "softmax-scalar"),
            "TF softmax": lambda n: (get(f"tf_L{n}"), "softmax"),
            "TF RBF": lambda n: (get(f"tf_L{n}"), "rbf"),
        },
    )


def two_blocks(get: Get, profile: str) -> Sweep:
    """Figure 5, left."""
    return _sweep(
        SIZES[profile].deep_L,
        {"GD": lambda n: (get(f"two_gd_L{n}"), "gd"), "TF": lambda n: (get(f"two_tf_L{n}"), "tf")},
    )


def reached(L: tuple[int, ...], nll: np.ndarray, target: float) -> int:
    """The smallest number of contexts from which on the mean NLL stays within :data:`REACHED` of the target; :data:`NEVER` if none.

    A number of contexts of the grid: the true one lies above the grid's point before it.
    """
    below = nll.mean(1) <= target + REACHED
    index = next((i for i in range(len(L)) if below[i:].all()), None)
    return NEVER if index is None else int(L[index])


def figure3(sweep: Sweep) -> dict[str, Any]:
    """What decides figure 3, and the question of the gap."""
    values: dict[str, Any] = {"fig3/seeds": sweep.nll["GD softmax"].shape[1], "fig3/L": list(sweep.L)}
    for kernel in ("softmax", "RBF"):
        gd, tf = f"GD {kernel}", f"TF {kernel}"
        key = kernel.lower()
        values |= {
            f"fig3/{key}_accuracy": [float(x) for x in sweep.accuracy[gd].mean(1)],
            f"fig3/{key}_accuracy_tf": [float(x) for x in sweep.accuracy[tf].mean(1)],
        }
        values |= paired(f"fig3/{key}_accuracy_gap", (sweep.accuracy[gd] - sweep.accuracy[tf])[-1], "t", "se")
        values |= paired(f"fig3/{key}_nll_gap", (sweep.nll[tf] - sweep.nll[gd])[-1], "t", "se")
        target = sweep.nll[gd][-1].mean()
        values[f"fig3/{key}_reach"] = reached(sweep.L, sweep.nll[gd], target)
        values[f"fig3/{key}_reach_tf"] = reached(sweep.L, sweep.nll[tf], target)
    softmax, linear = (sweep.accuracy[f"GD {kind}"][-1] for kind in ("softmax", "linear"))
    values["fig3/linear_accuracy"] = float(linear.mean())
    values["fig3/linear_behind"] = float(softmax.mean() - linear.mean())
    values["fig3/linear_behind_se"] = error_of_runs(softmax - linear)
    return values


def wide_pair(get: Get) -> dict[str, Any]:
    """One block with the published code's N = 125: accuracy and NLL of GD and of Trained TF (which is given more contexts)."""
    gd, tf = scores(get("wide_gd"), "softmax-1"), scores(get("wide_tf"), "softmax")
    return {
        f"fig3/wide_{what}": [float(one.stopped(what).mean()) for one in (gd, tf)]
        for what in ("accuracy", "nll")
    }


def fits(get: Get, profile: str) -> dict[tuple[str, int], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Two blocks along training: ``(model, L) -> steps, training NLL, test NLL`` (means over runs)."""
    found = {}
    for L in SIZES[profile].deep_L:
        for model, study in (("GD", f"two_gd_L{L}"), ("TF", f"two_tf_L{L}")):
            g = get(study).group(model.lower())
            found[model, L] = (g["steps"][1:], g["loss"][1:].mean(1), g["nll_test"][1:].mean(1))
    return found


def gap(sweep: Sweep, deep: Sweep) -> dict[str, Any]:
    """Is the gap of Trained TF data (it fits its contexts better than new ones) or optimisation (it does not fit them)?"""
    values: dict[str, Any] = {}
    for name, s, tf, gd in (("one", sweep, "TF softmax", "GD softmax"), ("two", deep, "TF", "GD")):
        values |= {
            f"q-gap/{name}_unfitted_large": float(s.train[tf][-1].mean() - s.train[gd][-1].mean()),
        }
        runs = min(s.nll[tf].shape[1], s.nll[gd].shape[1])
        for key, differences, end in (
            ("overfit_small", (s.nll[tf] - s.train[tf])[0], "low"),
            ("overfit_large", (s.nll[tf] - s.train[tf])[-1], "high"),
            ("test_large", s.nll[tf][-1, :runs] - s.nll[gd][-1, :runs], "t"),
        ):
            values |= paired(f"q-gap/{name}_{key}", differences, end)
    return values


def figure5(sweep: Sweep) -> dict[str, Any]:
    """What decides figure 5, left."""
    gd, tf = sweep.nll["GD"], sweep.nll["TF"]
    runs = min(gd.shape[1], tf.shape[1])  # runs of one number start from one seed and share minibatches
    values = {
        "fig5/L": list(sweep.L),
        "fig5/seeds": [gd.shape[1], tf.shape[1]],
        "fig5/gd_nll": [float(x) for x in gd.mean(1)],
        "fig5/tf_nll": [float(x) for x in tf.mean(1)],
    }
    for key, differences, end in (
        ("first_gap", tf[0, :runs] - gd[0, :runs], "low"),
        ("last_gap", tf[-1, :runs] - gd[-1, :runs], "t"),
        ("gd_cost", gd[0] - gd[-1], "high"),
    ):
        values |= paired(f"fig5/{key}", differences, end)
    return values


def courses(get: Get, profile: str) -> dict[str, dict[int, Scores]]:
    """Figure 4: scores along training for each number of blocks, ``N = 10`` and the wide contexts of the published code."""
    s = SIZES[profile]
    narrow = {k: scores(get("deep_gd"), f"softmax-{k}") for k in s.depths}
    wide = {1: scores(get("wide_gd"), "softmax-1")}
    wide |= {k: scores(get("wide_deep"), f"softmax-{k}") for k in s.wide_depths if k > 1}
    return {"narrow": narrow, "wide": wide}


def figure4(found: dict[str, dict[int, Scores]]) -> dict[str, Any]:
    """Figure 4: scores by number of blocks at both context sizes, and what the second block and deeper models gain (paired by seed).

    ``at_end`` is the share of the runs that are best at their last record, which have not converged.
    """
    values: dict[str, Any] = {}
    for reading, by in found.items():
        accuracy = {k: s.stopped("accuracy") for k, s in by.items()}
        nll = {k: s.stopped("nll") for k, s in by.items()}
        runs = min(len(accuracy[1]), len(accuracy[2]))  # runs of one number start from one seed
        key = f"fig4/{reading}"
        values |= {
            f"{key}_accuracy": [float(a.mean()) for a in accuracy.values()],
            f"{key}_nll": [float(n.mean()) for n in nll.values()],
            f"{key}_late_gain": float(nll[2].mean() - min(n.mean() for k, n in nll.items() if k >= 2)),
            f"{key}_seeds": [len(a) for a in accuracy.values()],
            f"{key}_at_end": float(np.mean([(s.best == len(s.steps) - 1).mean() for s in by.values()])),
        }
        values |= paired(f"{key}_gain", accuracy[2][:runs] - accuracy[1][:runs], "low")
        values |= paired(f"{key}_nll_gain", nll[1][:runs] - nll[2][:runs], "low")
    return values


def another_draw(value: float, draws: np.ndarray) -> float:
    """Two-sided p value of ``value`` as one more draw from a normal law of which ``draws (n,)`` are known, n at least 2."""
    n = len(draws)
    t = abs(value - draws.mean()) / (draws.std(ddof=1) * np.sqrt(1 + 1 / n))
    return float(2 * stats.t.sf(t, n - 1))


def over_draws(get: Get, profile: str) -> dict[str, Any]:
    """N = 10 or 125: accuracy and NLL of one block over draws of W_e, and the p value of the authors' number as one more draw.

    With ``n`` draws a further one is ``mean + t sd sqrt(1 + 1/n)``, t of Student's law with ``n - 1`` degrees of freedom.
    """
    s, values = SIZES[profile], {}
    for reading, first in (
        ("narrow", (f"gd_inner_L{s.L[1]}", "softmax")),
        ("wide", ("wide_gd", "softmax-1")),
    ):
        runs = [scores(get(first[0]), first[1])]
        runs += [scores(get(f"draw{i}_{reading}"), "softmax-1") for i in range(1, s.draws)]
        for what, printed in (("accuracy", AUTHORS_ACCURACY[0]), ("nll", AUTHORS_NLL[0])):
            means = np.array([one.stopped(what).mean() for one in runs])
            values |= {
                f"q-contexts/{reading}_{what}": [float(m) for m in means],
                f"q-contexts/{reading}_{what}_p": another_draw(printed, means),
            }
    return values


def alpha(get: Get, profile: str, sweep: Sweep) -> dict[str, Any]:
    """Vector against scalar alpha, trained: one block at the largest L, two blocks at figure 4's L."""
    one = sweep.nll["GD softmax, scalar alpha"][-1] - sweep.nll["GD softmax"][-1]
    results = get("deep_gd")
    two = scores(results, "scalar-2").stopped("nll") - scores(results, "softmax-2").stopped("nll")
    return paired("q-alpha/one_block", one, "t", "se") | paired("q-alpha/two_blocks", two, "t", "se")


def heads(get: Get) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Appendix H trained: test NLL with 1, 2, 4 heads, without and with P_m."""
    results = get("heads")
    nll = {
        f"{m}{suffix}": scores(results, f"heads-{m}{suffix}").stopped("nll")
        for m in (1, 2, 4)
        for suffix in ("", "-mixed")
    }
    return {
        "multi-kernel/nll": [float(nll[f"{m}"].mean()) for m in (1, 2, 4)],
        "q-params/without_mixing": float(nll["4"].mean() - nll["4-mixed"].mean()),
        "q-params/without_mixing_se": error_of_runs(nll["4"] - nll["4-mixed"]),
    }, nll
