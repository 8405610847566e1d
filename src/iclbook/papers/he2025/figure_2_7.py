"""How runs end, and when each pattern appears: Figure 2.7, Stages I and II of gradient descent, and where its flow leads (He et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ...claims import printed
from ...drawing import style
from ...sliders import Slider, show
from ...statistics import Estimate
from ...store import Results
from . import circuits, dynamics
from .circuits import Heads, Records, median_error
from .dynamics import COUNTS, PATTERNS, RATE, RUNS, Trajectory
from .loss import Array, coupling, manifold_flow_gamma, stage_one_terms

# -- outcome frequencies: Figure 2.7 ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Descent:
    """Runs of gradient descent on the approximate loss: omega + mu at the ``start``, ``omega`` and ``mu`` at the end, ``(R, H)`` each, and by pattern the step
    from which on it holds, ``times (R,)``, not a number where it never does."""

    start: Array
    omega: Array
    mu: Array
    times: dict[str, Array]


def read_descent(results: Results) -> dict[int, Descent]:
    """By number of heads, from the results of :func:`.dynamics.descend`."""
    found = {}
    for h in COUNTS:
        own = {name: values.astype(float) for name, values in results.group(f"h{h}").items()}
        found[h] = Descent(own["start"], own["omega"], own["mu"], {name: own[name] for name in PATTERNS})
    return found


Ends = dict[str, dict[int, dict[str, float]]]


def endings(adam: Mapping[int, Heads], descent: Mapping[int, Descent]) -> Ends:
    """How the runs of either way of training end, by number of heads."""
    return {
        "Adam, full model": {h: circuits.endings(a.omega[-1], a.mu[-1]) for h, a in adam.items()},
        "gradient descent, approximate loss": {h: circuits.endings(t.omega, t.mu) for h, t in descent.items()},
    }


def _shares(by_h: Mapping[int, dict[str, float]], name: str, counts: tuple[int, ...], runs: int) -> Estimate:
    """Shares of the runs that end so, a value a head count."""
    found = [Estimate.share(round(by_h[h][name] * runs), runs) for h in counts]
    return Estimate([by_h[h][name] for h in counts], [share.error for share in found])


def ending_records(adam: Mapping[int, Heads], descent: Mapping[int, Descent]) -> Records:
    """Runs without a head of one sign, and with a dummy head (three heads or more), by head count; and what decides it for two heads."""
    by_adam, by_gd = endings(adam, descent).values()
    # the same for every number of heads
    ((runs, steps),) = {(a.mu.shape[1], int(a.steps[-1])) for a in adam.values()}
    more = COUNTS[1:]
    # where the linear growth from the saddle at 0 points
    same = np.abs(np.sign(descent[2].start).sum(-1)) == 2
    one_sided = circuits.one_sided(descent[2].omega, descent[2].mu)
    return {
        "census/runs": runs,
        "census/steps": steps,
        "census/gd_runs": RUNS,
        "census/adam_one_sided": _shares(by_adam, "one_sided", COUNTS, runs),
        "census/adam_two_sided": [by_adam[h]["two_sided"] for h in COUNTS],
        "census/adam_dummy": _shares(by_adam, "with_dummy", more, runs),
        "census/gd_one_sided": _shares(by_gd, "one_sided", COUNTS, RUNS),
        "census/gd_dummy": _shares(by_gd, "with_dummy", more, RUNS),
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
        values |= {"fig2.7/decay": left[dummies], "fig2.7/decay_of_others": left[~dummies]}
    return values


def plot_endings(ends: Ends) -> Figure:
    """Shares of runs that end with heads of one sign only and with a dummy head, by head count, for each way of training."""
    fig, axes = style.figure(len(ends), height=2.6, sharey=True)
    kinds = (("one_sided", "heads of one sign only", "positive"), ("with_dummy", "a dummy head", "dummy"))
    for ax, (name, by_h) in zip(axes, ends.items(), strict=True):
        places = np.arange(len(by_h))
        for offset, (key, label, kind) in zip((-0.2, 0.2), kinds, strict=True):
            shares = [100 * found[key] for found in by_h.values()]
            bars = ax.bar(places + offset, shares, 0.38, color=style.COLOURS[kind], label=label)
            ax.bar_label(bars, fmt="%.1f", fontsize=8, padding=1)
        ax.set_xticks(places, [f"H = {h}" for h in by_h])
        ax.set_title(name)
        ax.margins(y=0.18)
    axes[0].set_ylabel("runs that end with ... (%)")
    axes[-1].legend(fontsize=8)
    return fig


# -- Stages I and II ----------------------------------------------------------------------------------------------------

Times = dict[int, dict[str, Array]]


def stage_times(descent: Mapping[int, Descent]) -> Times:
    """When each pattern appears for good in the two-sided runs, by number of heads."""
    times = {}
    for h, runs in descent.items():
        keep = ~circuits.one_sided(runs.omega, runs.mu)
        times[h] = {name: steps[keep] for name, steps in runs.times.items()}
    return times


def stage_records(times: Times) -> Records:
    """Both stages, as shares of all two-sided runs. A pattern that never appears has no time (not a number) and comes before nothing."""
    sign, equal = (np.concatenate([t[k] for t in times.values()]) for k in ("sign", "homogeneous"))

    def ratios(late: str, early: str) -> Estimate:
        """Median over the runs, by head count, of one time over another."""
        each = [t[late] / np.maximum(t[early], 1) for t in times.values()]
        each = [of[np.isfinite(of)] for of in each]
        return Estimate([float(np.median(of)) for of in each], [median_error(of) for of in each])

    return {
        "stage/sign_first": Estimate.share(int((sign <= equal).sum()), len(equal)),
        "stage/homogeneous_share": Estimate.share(int(np.isfinite(equal).sum()), len(equal)),
        "stage/zero_over_sign": ratios("zero_sum", "sign"),
        "stage/equal_over_zero": ratios("homogeneous", "zero_sum"),
    }


def high_order(d: int, L: int, s2: float) -> Records:
    """Stage I: norm of the high-order terms over that of the sign-matching terms of the displayed updates, at all starts of the descent; the largest."""
    worst = 0.0
    for h in COUNTS:
        omega, mu = dynamics.sample_initial(RUNS, h, dynamics.SCALE, seed=h)
        terms = stage_one_terms(omega, mu, d, L, s2)
        high, low = (
            np.hypot(*(np.linalg.norm(terms[f"{of}_{kind}"], axis=-1) for of in ("omega", "mu")))
            for kind in ("high", "sign")
        )
        worst = max(worst, float((coupling(d, L, s2) * high / low).max()))
    return {"stage/high_order": worst}


#: Patterns by the names that the figures give them.
STAGES = {"sign": "signs match", "zero_sum": "zero sum", "homogeneous": "equal |ω|"}


def plot_stage_times(times: Times) -> Figure:
    """Distribution over runs of the time at which each pattern appears for good, by head count."""
    fig, axes = style.figure(len(times), height=2.7, sharey=True)
    for ax, (h, found) in zip(axes, times.items(), strict=True):
        data = [RATE * np.maximum(found[k][np.isfinite(found[k])], 1) for k in STAGES]
        look = {"whis": (5, 95), "showfliers": False, "patch_artist": True, "widths": 0.6}
        parts = ax.boxplot(data, tick_labels=list(STAGES.values()), **look)
        for box, colour in zip(parts["boxes"], style.PALETTE, strict=False):
            box.set(facecolor=colour, alpha=0.7)
        for line in parts["medians"]:
            line.set_color(style.INK)
        ax.set_yscale("log")
        ax.set_title(f"H = {h} ({len(found['sign'])} runs)")
        ax.tick_params(axis="x", labelsize=8)
    axes[0].set_ylabel("time (rate × steps)")
    return fig


def stage_paths(scales: list[float], d: int, L: int, noise_var: float) -> dict[float, Trajectory]:
    """Gradient descent of four heads from one start direction at every scale: scale -> its run."""
    starts = [dynamics.sample_initial(1, 4, scale, seed=11) for scale in scales]
    omega0, mu0 = (np.concatenate(parts) for parts in zip(*starts, strict=True))
    marks = dynamics.log_steps(20_000, 150)
    together = dynamics.simulate(omega0, mu0, RATE, 20_000, marks, d=d, L=L, noise_var=noise_var)
    return {scale: together.run(r) for r, scale in enumerate(scales)}


def plot_stages(path: Trajectory) -> Figure:
    """omega and mu of one run of gradient descent on the approximate loss against time (rate times steps), and when each pattern appears for good."""
    fig, (left, right) = style.figure(2, height=2.9)
    time = RATE * np.maximum(path.steps, 0.5)
    for k in range(path.omega.shape[-1]):
        kind = "positive" if path.omega[-1, 0, k] > 0 else "negative"
        left.plot(time, path.omega[:, 0, k], color=style.COLOURS[kind])
        right.plot(time, path.mu[:, 0, k], color=style.COLOURS[kind])
    for ax, label, bounds in ((left, "ω of each head", (-1.0, 1.0)), (right, "μ of each head", (-2.6, 2.6))):
        ax.set_xscale("log")
        ax.set(xlabel="time (rate × steps)", ylabel=label, ylim=bounds)
    for (kind, at), height in zip(
        dynamics.stage_times(path.steps, path.omega, path.mu).items(), (0.02, 0.1, 0.18), strict=True
    ):
        if np.isfinite(at[0]):
            when = RATE * max(float(at[0]), 0.5)
            left.axvline(when, color=style.INK, lw=0.8, ls=":")
            right.axvline(when, color=style.INK, lw=0.8, ls=":")
            left.text(when, height, f" {STAGES[kind]}", transform=left.get_xaxis_transform(), fontsize=8)
    return fig


def show_stages(d: int, L: int, noise_var: float, few: bool) -> None:
    """Slider: both stages from some initial scales, which are descended together, or from any other in a live notebook."""
    scales = [0.03, 1.0] if few else [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0]
    known = stage_paths(scales, d, L, noise_var)

    def frame(scale: float) -> Figure:
        return plot_stages((known if scale in known else stage_paths([scale], d, L, noise_var))[scale])

    show(
        frame,
        [Slider("scale", "initial scale", scales, live=(0.001, 1.0, 0.1), log=True)],
        start={"scale": 0.03},
        title="Gradient descent on the approximate loss, four heads, one start direction",
        description="Try: the smallest start: the stages draw apart.",
        alt=lambda scale: f"omega and mu of four heads against time, from initial scale {scale}.",
    )


# -- gradient flow in the valley ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairFlow:
    """Gradient flow of a pair on the approximate loss: ``times`` and ``gamma``, and from ``late`` on the ``closed`` form of the valley."""

    times: Array
    gamma: Array
    late: Array
    closed: Array


def flow_of_pair(d: int, L: int, noise_var: float) -> PairFlow:
    """From gamma = 0.25, mu = 1.6, to time 10^7; the closed form starts at time 1000."""
    times = np.concatenate([[0.0], np.geomspace(1, 1e7, 60)])
    path = dynamics.flow([0.25, -0.25], [1.6, -1.6], times, d, L, noise_var)
    gamma = np.abs(path.omega).mean(-1).ravel()
    start = np.searchsorted(times, 1e3)
    closed = manifold_flow_gamma(times[start:] - times[start], gamma[start], d, L, noise_var)
    return PairFlow(times, gamma, times[start:], closed)


def flow_records(found: PairFlow) -> Records:
    """Where gradient flow leads: the power law over its last decade, and that decade against the closed form."""
    last = found.times >= 1e6
    slope = np.polyfit(np.log(found.times[last]), np.log(found.gamma[last]), 1)[0]
    return {
        "gdlimit/slope": float(slope),
        "gdlimit/closed_form": float(np.abs(found.gamma[last] / found.closed[-last.sum() :] - 1).max()),
    }


def plot_flow(found: PairFlow) -> Figure:
    """gamma along gradient flow on the approximate loss, with the closed form of the valley."""
    fig, ax = style.figure(aspect=0.45)
    ax.loglog(found.times[1:], found.gamma[1:], color=style.COLOURS["measured"], label="gradient flow")
    style.theory_line(ax, found.late, found.closed, "closed form of the valley")
    paper = printed("he2025")["fig2.8/gamma"]
    style.paper_line(ax, paper, f"paper: {paper:g}")
    style.log_ticks(ax, "y", (0.03, 0.05, 0.1, paper, 0.2, 0.3))
    ax.set(xlabel="time (rate × steps)", ylabel="γ")
    ax.legend(fontsize=8)
    return fig
