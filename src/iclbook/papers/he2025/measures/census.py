"""How runs of he2025 end and in which order patterns appear: the census (Figure 2.7) and the two stages of gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....statistics import share_error
from ....store import Results
from .. import theory
from ..runs.descent import COUNTS, PATTERNS, RATE, RUNS
from ..theory import Trajectory
from .circuits import Heads
from .sampling import median_error

Records = dict[str, Any]
Ends = dict[str, dict[int, dict[str, float]]]


@dataclass(frozen=True)
class Descent:
    """Runs of gradient descent on the approximate loss: omega + mu at the ``start``, ``omega`` and ``mu`` at the end, ``(R, H)`` each, and by pattern the step
    from which on it holds, ``times (R,)``, not a number where it never does."""

    start: np.ndarray
    omega: np.ndarray
    mu: np.ndarray
    times: dict[str, np.ndarray]


def read_descent(results: Results) -> dict[int, Descent]:
    """By number of heads, from the results of :mod:`..runs.descent`."""
    found = {}
    for h in COUNTS:
        own = {name: values.astype(float) for name, values in results.group(f"h{h}").items()}
        found[h] = Descent(own["start"], own["omega"], own["mu"], {name: own[name] for name in PATTERNS})
    return found


def stage_paths(scales: list[float], d: int, L: int, noise_var: float) -> dict[float, Trajectory]:
    """Gradient descent of four heads from one start direction at every scale: scale -> its run."""
    starts = [theory.draw_initial(1, 4, scale, seed=11) for scale in scales]
    omega0, mu0 = (np.concatenate(parts) for parts in zip(*starts, strict=True))
    marks = theory.log_steps(20_000, 150)
    together = theory.simulate(omega0, mu0, RATE, 20_000, marks, d=d, L=L, noise_var=noise_var)
    return {scale: together.run(r) for r, scale in enumerate(scales)}


def endings(adam: Mapping[int, Heads], descent: Mapping[int, Descent]) -> Ends:
    """How the runs of either way of training end, by number of heads."""
    ends = {
        "Adam, full model": {h: theory.endings(a.omega[-1], a.mu[-1]) for h, a in adam.items()},
        "gradient descent, approximate loss": {h: theory.endings(t.omega, t.mu) for h, t in descent.items()},
    }
    # a run that diverged would be left out of the shares without a word
    assert not any(shares["diverged"] for by_h in ends.values() for shares in by_h.values())
    return ends


def _error(share: float, runs: int) -> float:
    return share_error(round(share * runs), runs)


def ending_records(adam: Mapping[int, Heads], descent: Mapping[int, Descent]) -> Records:
    """The census: runs without a head of one sign (H = 2, 3, 4) or with a dummy head (H = 3, 4), and what decides it for two heads."""
    by_adam, by_gd = endings(adam, descent).values()
    ((runs, steps),) = {
        (a.mu.shape[1], int(a.steps[-1])) for a in adam.values()
    }  # the same for every number of heads
    adam_one, gd_one = ([by_h[h]["one_sided"] for h in (2, 3, 4)] for by_h in (by_adam, by_gd))
    adam_dummy, gd_dummy = ([by_h[h]["with_dummy"] for h in (3, 4)] for by_h in (by_adam, by_gd))
    # where the linear growth from the saddle at 0 points
    same = np.abs(np.sign(descent[2].start).sum(-1)) == 2
    one_sided = theory.one_sided(descent[2].omega, descent[2].mu)
    return {
        "census/runs": runs,
        "census/steps": steps,
        "census/gd_runs": RUNS,
        "census/adam_one_sided": adam_one,
        "census/adam_two_sided": [by_adam[h]["two_sided"] for h in (2, 3, 4)],
        "census/adam_one_sided_se": [_error(share, runs) for share in adam_one],
        "census/adam_dummy": adam_dummy,
        "census/adam_dummy_se": [_error(share, runs) for share in adam_dummy],
        "census/gd_one_sided": gd_one,
        "census/gd_one_sided_se": [_error(share, RUNS) for share in gd_one],
        "census/gd_dummy": gd_dummy,
        "census/gd_dummy_se": [_error(share, RUNS) for share in gd_dummy],
        "census/same_start": float(one_sided[same].mean()),
        "census/mixed_start": float(one_sided[~same].mean()),
    }


def dummy_records(four: Heads, census: Heads) -> Records:
    """Figure 2.7: how often four heads end with a dummy head, and how far its mu decays beside those of the others; that one does occur needs no error."""
    dummies = ~four.active  # (R, 4)
    share = float(np.concatenate([dummies, ~census.active]).any(-1).mean())
    values: Records = {"fig2.7/dummy_share": share}
    left = np.abs(four.settled(four.mu)) / np.abs(four.mu).max(0)  # (R, 4)
    if dummies.any():  # without a dummy head there is nothing to measure, and the claim stays untested
        values["fig2.7/decay"] = left[dummies].tolist()
        values["fig2.7/decay_of_others"] = left[~dummies].tolist()
    return values


Times = dict[int, dict[str, np.ndarray]]


def stage_times(descent: Mapping[int, Descent]) -> Times:
    """When each pattern appears for good in the two-sided runs, by number of heads."""
    times = {}
    for h, runs in descent.items():
        keep = ~theory.one_sided(runs.omega, runs.mu)
        times[h] = {name: steps[keep] for name, steps in runs.times.items()}
    return times


def in_order(order: Callable, *patterns: np.ndarray) -> np.ndarray:
    """In which runs ``(R,)`` these patterns appear, and in this order; the time of one that never appears is NaN."""
    seen = np.isfinite(patterns).all(0)
    return seen & order(*patterns)


def stage_records(times: Times) -> Records:
    """Both stages, as shares of all two-sided runs."""
    when = {k: np.concatenate([t[k] for t in times.values()]) for k in PATTERNS}
    found = np.isfinite(when["sign"]) & np.isfinite(when["zero_sum"])
    ratio = when["zero_sum"][found] / np.maximum(when["sign"][found], 1)
    sign_first = in_order(np.less_equal, when["sign"], when["homogeneous"])
    zero_first = in_order(np.less_equal, when["zero_sum"], when["homogeneous"])
    homogeneous = np.isfinite(when["homogeneous"])
    after = in_order(np.greater, times[2]["zero_sum"], times[2]["homogeneous"])
    return {
        "stage/sign_first": float(sign_first.sum() / len(found)),
        "stage/sign_first_se": share_error(int(sign_first.sum()), len(found)),
        "stage/zero_first": float(zero_first.sum() / len(found)),
        "stage/zero_first_se": share_error(int(zero_first.sum()), len(found)),
        "stage/homogeneous_share": float(np.mean(homogeneous)),
        "stage/homogeneous_share_se": share_error(int(homogeneous.sum()), len(found)),
        "stage/zero_over_sign": float(np.median(ratio)),
        "stage/zero_over_sign_se": median_error(ratio),
        "stage/zero_after_equal": float(after.sum() / len(after)),
    }


def flow_of_pair(d: int, L: int, noise_var: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Gradient flow of a pair on the approximate loss: times and gamma, and from 1000 on the closed form of the valley."""
    times = np.concatenate([[0.0], np.geomspace(1, 1e7, 60)])
    path = theory.flow([0.25, -0.25], [1.6, -1.6], times, d, L, noise_var)
    gamma = np.abs(path.omega).mean(-1).ravel()
    start = np.searchsorted(times, 1e3)
    closed = theory.manifold_flow_gamma(times[start:] - times[start], gamma[start], d, L, noise_var)
    return times, gamma, times[start:], closed


def flow_records(times: np.ndarray, gamma: np.ndarray, closed: np.ndarray) -> Records:
    """Where gradient flow leads: the power law at its end, and the last decade against the closed form."""
    last = times >= 1e6
    return {
        "gdlimit/slope": theory.power_law(times, gamma, 1e6),
        "gdlimit/closed_form": float(np.abs(gamma[last] / closed[-last.sum() :] - 1).max()),
    }
