"""Ends of runs, and times at which each pattern appears: Figure 2.7, Stages I and II of gradient descent, and where its flow leads (He et al. 2025)."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from ...drawing import style
from ...drawing.figure_data import Table
from ...statistics import Estimate, median_error
from ...store import Results
from . import circuits, dynamics
from .circuits import Heads, Records, typical
from .dynamics import COUNTS, PATTERNS, RATE
from .loss import Array, coupling, manifold_flow_gamma, stage_one_terms
from .predictors import loglog_slope

# -- outcome frequencies: Figure 2.7 ------------------------------------------------------------------------------------

#: Arrays of runs by number of heads and name, such as those of :func:`.dynamics.descend`.
ByCount = Mapping[int, Mapping[str, Array]]


def read_descent(results: Results) -> ByCount:
    """Gradient descent on the approximate loss, in double precision."""
    return {h: {name: of.astype(float) for name, of in results.group(f"h{h}").items()} for h in COUNTS}


def endings(adam: Mapping[int, Heads], descent: ByCount) -> dict[str, ByCount]:
    """Which runs of either way of training end ``one_sided`` and with a ``dummy`` head ``(R,)``."""

    def ends(omega: Array, mu: Array) -> dict[str, Array]:
        assert np.isfinite([omega, mu]).all(), "a run diverged; no share would count it"
        return {"one_sided": circuits.one_sided(omega, mu), "dummy": (~circuits.active_heads(omega, mu)).any(-1)}

    return {
        "Adam, full model": {h: ends(a.omega[-1], a.mu[-1]) for h, a in adam.items()},
        "gradient descent, approximate loss": {h: ends(of["omega"], of["mu"]) for h, of in descent.items()},
    }


def ending_records(adam: Mapping[int, Heads], descent: ByCount) -> Records:
    """Runs without a head of one sign, and with a dummy head (three heads or more), by head count."""
    by_adam, by_gd = endings(adam, descent).values()
    values: Records = {
        "census/runs": adam[2].mu.shape[1],
        "census/steps": int(adam[2].steps[-1]),
        "census/gd_runs": len(by_gd[2]["one_sided"]),
        "census/adam_two_sided": [float((~by_adam[h]["one_sided"]).mean()) for h in COUNTS],
    }
    for way, by_h in (("adam", by_adam), ("gd", by_gd)):
        for end, counts in (("one_sided", COUNTS), ("dummy", COUNTS[1:])):
            runs = [by_h[h][end] for h in counts]
            values[f"census/{way}_{end}"] = Estimate.stack(Estimate.share(of) for of in runs)
    return values


def starts_decide(adam: Mapping[int, Heads], descent: ByCount) -> dict[str, tuple[float, float]]:
    """Of two heads the shares of one-sided endings where something is true of the start, and where it is not."""
    by_adam, by_gd = (by_h[2]["one_sided"] for by_h in endings(adam, descent).values())
    two, early = adam[2], int(np.searchsorted(adam[2].steps, 24))
    splits = {
        # where the linear growth from the saddle at 0 points
        r"Gradient descent: $\omega + \mu$ starts with one sign in both heads": (by_gd, descent[2]["start"], 2),
        r"Adam: $\omega + \mu$ has opposite signs after 24 steps": (by_adam, two.omega[early] + two.mu[early], 0),
        r"Adam: $\mu$ starts with opposite signs": (by_adam, two.mu[0], 0),
    }
    found = {}
    for name, (alone, of, total) in splits.items():
        so = np.abs(np.sign(of).sum(-1)) == total
        found[name] = tuple(float(alone[which].mean()) if which.any() else 0.0 for which in (so, ~so))
    return found


def table_of_starts(adam: Mapping[int, Heads], descent: ByCount) -> Table:
    """:func:`starts_decide`, a row each."""
    columns = {"start": "two heads", "so": "one sign at the end, if so", "not": "if not"}
    found = starts_decide(adam, descent).items()
    rows = [{"start": name, "so": f"{so:.0%}", "not": f"{other:.0%}"} for name, (so, other) in found]
    return Table(rows, columns, "Share of runs that end with heads of one sign, by their start")


def dummy_records(four: Heads, seed_sweep: Heads) -> Records:
    """Figure 2.7: how often four heads end with a dummy head, and how far its mu decays, beside those of the others: medians over heads."""
    dummies = ~four.active  # (R, 4)
    ends = np.concatenate([dummies, ~seed_sweep.active]).any(-1)
    values: Records = {"fig2.7/dummy_share": Estimate.share(ends)}
    left = np.abs(four.settled(four.mu)) / np.abs(four.mu).max(0)  # (R, 4)
    if dummies.any():  # without a dummy head there is nothing to measure, and the claim stays untested
        values |= {"fig2.7/left": typical(left[dummies]), "fig2.7/left_of_others": float(np.median(left[~dummies]))}
    return values


def plot_endings(ends: Mapping[str, ByCount]) -> Figure:
    """Shares of runs that end with heads of one sign only and with a dummy head, by head count, for each way of training."""
    fig, axes = style.figure(len(ends), height=2.6, sharey=True)
    kinds = (("one_sided", "heads of one sign only", "theory"), ("dummy", "a dummy head", "dummy"))
    for ax, (name, by_h) in zip(axes, ends.items(), strict=True):
        places = np.arange(len(by_h))
        for offset, (key, label, kind) in zip((-0.2, 0.2), kinds, strict=True):
            shares = [100 * found[key].mean() for found in by_h.values()]
            bars = ax.bar(places + offset, shares, 0.38, color=style.COLOURS[kind], label=label)
            ax.bar_label(bars, fmt="%.1f", fontsize=8, padding=1)
        ax.set_xticks(places, [f"H = {h}" for h in by_h])
        ax.set_title(name)
        ax.margins(y=0.18)
    axes[0].set_ylabel("runs that end with ... (%)")
    axes[-1].legend(fontsize=8)
    return fig


# -- Stages I and II ----------------------------------------------------------------------------------------------------


def stage_times(descent: ByCount) -> ByCount:
    """When each pattern appears for good in the two-sided runs, by number of heads."""
    keep = {h: ~circuits.one_sided(of["omega"], of["mu"]) for h, of in descent.items()}
    return {h: {name: of[name][keep[h]] for name in PATTERNS} for h, of in descent.items()}


def stage_records(times: ByCount) -> Records:
    """Both stages, as shares of all two-sided runs. A pattern that never appears has no time (not a number) and comes before nothing."""
    sign, equal = (np.concatenate([t[k] for t in times.values()]) for k in ("sign", "homogeneous"))

    def ratios(late: str, early: str) -> Estimate:
        """Median over the runs, by head count, of one time over another."""
        each = [t[late] / np.maximum(t[early], 1) for t in times.values()]
        each = [of[np.isfinite(of)] for of in each]
        return Estimate([float(np.median(of)) for of in each], [median_error(of) for of in each])

    return {
        "stage/sign_first": Estimate.share(sign <= equal),
        "stage/homogeneous_share": Estimate.share(np.isfinite(equal)),
        "stage/zero_over_sign": ratios("zero_sum", "sign"),
        "stage/equal_over_zero": ratios("homogeneous", "zero_sum"),
    }


def high_order(descent: ByCount, d: int, L: int, s2: float) -> Records:
    """Stage I: norm of the high-order terms over that of the sign-matching terms of the displayed updates, at the typical start of the descent."""
    ratios = []
    for h, of in descent.items():
        starts = dynamics.sample_initial(len(of["start"]), h, dynamics.SCALE, seed=h)
        terms = stage_one_terms(*starts, d, L, s2)
        both = (np.concatenate([terms[f"omega_{kind}"], terms[f"mu_{kind}"]], -1) for kind in ("high", "sign"))
        high, low = (np.linalg.norm(of, axis=-1) for of in both)
        ratios.append(coupling(d, L, s2) * high / low)
    return {"stage/high_terms": typical(*ratios)}


#: Patterns by the names that the figures give them.
STAGES = {"sign": "signs match", "zero_sum": "zero sum", "homogeneous": "equal |ω|"}


def plot_stage_times(times: ByCount) -> Figure:
    """Distribution over runs of the time at which each pattern appears for good, by head count."""
    fig, ax = style.figure(height=3.0)
    for n, (h, found) in enumerate(times.items()):
        for place, stage in enumerate(STAGES):
            x = place + 0.22 * (n - 1)
            ends = RATE * np.maximum(found[stage][np.isfinite(found[stage])], 1)
            least, low, middle, high, most = np.quantile(ends, (0.05, 0.25, 0.5, 0.75, 0.95))
            ax.plot([x, x], [least, most], color=style.COLOURS[h], lw=1.2)
            ax.plot([x, x], [low, high], color=style.COLOURS[h], lw=7, solid_capstyle="butt")
            ax.plot(x, middle, "_", color=style.GROUND, ms=9, mew=1.6)
        ax.text(x, 1.2 * most, f"H = {h}", color=style.COLOURS[h], ha="right", fontsize=9)
    ax.set(yscale="log", ylabel="time (rate × steps)", xlim=(-0.5, 2.5), ylim=(0.03, 700))
    ax.set_xticks(range(len(STAGES)), STAGES.values())
    ax.grid(axis="x", visible=False)
    return fig


def plot_stages(scale: float, d: int, L: int, noise_var: float) -> Figure:
    """omega and mu of four heads along gradient descent on the approximate loss, against time (rate times steps), and when each pattern appears for good."""
    starts = (scale * values for values in dynamics.sample_initial(1, 4, 1.0, seed=11))
    paths = dynamics.simulate(*starts, RATE, dynamics.log_steps(20_000, 150), d=d, L=L, noise_var=noise_var)
    fig, axes = style.figure(2, height=3.1)
    time, omega, mu = RATE * np.maximum(paths.steps, 0.5), paths.omega[:, 0], paths.mu[:, 0]
    for ax, values, label in zip(axes, (omega, mu), ("ω of each head", "μ of each head"), strict=True):
        for head in np.argsort(omega[-1]):
            kind = "positive" if omega[-1, head] > 0 else "negative"
            ax.plot(time, values[:, head], color=style.COLOURS[kind], label=f"{kind} head")
        ax.set(xscale="log", xlabel="time (rate × steps)", ylabel=label)
        ax.margins(y=0.25)
        ax.set_xlim(time[0] / 1.2, 1.2 * time[-1])
        for stage, at in dynamics.stage_times(paths.steps, omega, mu).items():
            ax.axvline(RATE * at, color=style.INK, lw=0.8, ls=":")
            look = {"ha": "right" if stage == "zero_sum" else "left", "transform": ax.get_xaxis_transform()}
            style.write(ax, RATE * at, 0.12 if stage == "sign" else 0.04, f" {STAGES[stage]} ", fontsize=8, **look)
        for kind, height in (("positive", 0.78), ("negative", 0.22)):
            look = {"color": style.COLOURS[kind], "transform": ax.get_xaxis_transform()}
            style.write(ax, time[0], height, f"{kind} heads", **look)
    return fig


# -- gradient flow along the manifold ------------------------------------------------------------------------------------


def flow_of_pair(d: int, L: int, noise_var: float) -> dict[str, Array]:
    """Gradient flow of a pair on the approximate loss from gamma = 0.25, mu = 1.6, and from time 1000 on (``late``) the ``closed`` form on the solution manifold."""
    times = np.concatenate([[0.0], np.geomspace(1, 1e7, 60)])
    gamma = np.abs(dynamics.flow([0.25, -0.25], [1.6, -1.6], times, d, L, noise_var).omega).mean(-1).ravel()
    start = np.searchsorted(times, 1e3)
    closed = manifold_flow_gamma(times[start:] - times[start], gamma[start], d, L, noise_var)
    return {"times": times, "gamma": gamma, "late": times[start:], "closed": closed}


def flow_records(found: dict[str, Array]) -> Records:
    """Where gradient flow leads: the power law over its last decade, and that decade against the closed form."""
    last = found["times"] >= 1e6
    gamma, closed = found["gamma"][last], found["closed"][found["late"] >= 1e6]
    return {
        "gdlimit/slope": loglog_slope(found["times"][last], gamma),
        "gdlimit/closed_form": float(np.abs(gamma / closed - 1).max()),
    }
