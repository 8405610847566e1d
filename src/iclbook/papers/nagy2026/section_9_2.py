"""Section 9.2: error, contraction rate rho_2 and spectral alignment along the training of the unmasked layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure

from ...drawing import style
from ...statistics import Estimate
from ...store import Results
from ...training.study import Study
from .common import (
    best_gain,
    by_rate,
    cross,
    expected_error,
    label,
    legend_above,
    named_ticks,
    on_probes,
    printed_numbers,
    rates_of,
    strip,
)
from .studies import SPECTRUM

#: Steps that the paper's table shows, and what it prints there.
STEPS = (0, 5_000, 10_000, 18_000)
PRINTED = {
    "rho2": (0.999, 0.924, 0.911, 0.912),
    "alignment": printed_numbers("9.2/climbs"),
    "error": (27.1, 6.5, 5.4, 5.8),
}
#: What counts as near: one value of one run scatters by 5 %, times 2.8; over 15 factors that is 0.01 of rho_2.
NEAR_ERROR, NEAR_RHO = 0.14, 0.01


def spectral_alignment(importance: np.ndarray, eigenvalues: Sequence[float]) -> np.ndarray:
    """Pearson correlation of ``importance`` ``(..., d)`` with the inverse spectrum ("spectral alignment", section 9.2)."""
    target = 1 / np.asarray(eigenvalues, dtype=float)
    target = target - target.mean()
    centred = importance - importance.mean(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return (centred * target).sum(-1) / np.sqrt((centred**2).sum(-1) * (target**2).sum())


def rho_by_slope(curve: np.ndarray) -> np.ndarray:
    """ "Geometric contraction rate" of an error curve ``(..., L)`` over 1 to L examples: exp of the least-squares slope of its logarithm.

    The paper does not say what rho_2 contracts. This reading was chosen because, with the errors that it prints, it gives the rho_2 that it
    prints; so that it does is no evidence.
    """
    steps = np.arange(curve.shape[-1]) - (curve.shape[-1] - 1) / 2
    return np.exp((np.log(curve) * steps).sum(-1) / (steps**2).sum())


def rho_by_ends(curve: np.ndarray, start: float) -> np.ndarray:
    """Mean factor per example from no example (error ``start``, the variance of the target) to all: ``(e_L / start)^(1/L)``."""
    return (curve[..., -1] / start) ** (1 / curve.shape[-1])


@dataclass(frozen=True)
class Dynamics:
    """Section 9.2 along training, each ``(T, seeds)`` by setting; ``best`` is the best single layer on the same prompts, with standard error."""

    steps: np.ndarray
    error: dict[str, np.ndarray]
    rho: dict[str, np.ndarray]
    rho_ends: dict[str, np.ndarray]
    alignment: dict[str, dict[str, np.ndarray]]
    gain: dict[str, np.ndarray]
    best: tuple[float, float]

    def at(self, values: np.ndarray, step: int) -> np.ndarray:
        """``(seeds,)`` at the recorded step next to this share of 20,000 (at the paper profile: at this step)."""
        wanted = step / 20_000 * self.steps[-1]
        return values[int(np.abs(self.steps - wanted).argmin())]


def dynamics(study: Study, results: Results) -> Dynamics:
    """Error, rho_2 and alignment of every setting at every recorded step."""
    found: dict[str, dict] = {"error": {}, "rho": {}, "ends": {}, "gain": {}, "key": {}, "last": {}}
    for spec in study.groups:
        arrays = {n: by_rate(study, results, spec.name, n).astype(float) for n in ("curve_n16", "gain", "key")}
        for i, rate in enumerate(rates_of(study, spec.name)):
            name = f"{spec.name.split('-')[0]}, {label(spec.optimiser, rate)}"
            curve, gain, key = (array[:, i] for array in arrays.values())
            found["error"][name] = curve[..., -1]
            found["rho"][name] = rho_by_slope(curve)
            found["ends"][name] = rho_by_ends(curve, study.data.variance)
            found["gain"][name] = spectral_alignment(gain, SPECTRUM)
            found["key"][name] = spectral_alignment(np.sqrt((key**2).sum(-2)), SPECTRUM)  # over heads
            found["last"][name] = gain[-1]
    steps = results[f"{study.groups[0].name}/steps"]
    by_importance = {"gain": found["gain"], "key": found["key"]}
    best = on_probes(study.groups[0].observe.probes)
    return Dynamics(steps, found["error"], found["rho"], found["ends"], by_importance, found["last"], best)


def nearest(d: Dynamics) -> str:
    """The setting whose errors and rho_2 after step 0 are all together nearest to the printed ones, in units of what counts as near."""

    def distance(name: str) -> float:
        rows = zip(STEPS[1:], PRINTED["error"][1:], PRINTED["rho2"][1:], strict=True)
        return max(
            off
            for step, error, rho in rows
            for off in (
                abs(d.at(d.error[name], step).mean() / error - 1) / NEAR_ERROR,
                abs(d.at(d.rho[name], step).mean() - rho) / NEAR_RHO,
            )
        )

    return min(d.error, key=distance)


def shown(d: Dynamics) -> list[str]:
    """The settings that the figures show, one for each kind of attention: Adam."""
    return [name for name in d.error if "Adam" in name]


def records(d: Dynamics, length: int = 16) -> dict:
    """What decides the claims on section 9.2, and its printed numbers."""
    near = nearest(d)
    found = _best_layer(length) | {
        "9.2/best_on_probes": Estimate(*d.best),
        "9.2/seeds": next(iter(d.error.values())).shape[1],
        "9.2/settings": len(d.error),
        "9.2/nearest": near,
        "9.2/mse_18k": float(d.at(d.error[near], 18_000).mean()),
    }
    for reading, rho in (("slope", d.rho), ("ends", d.rho_ends)):
        found[f"9.2/{reading}/rho2_18k"] = float(d.at(rho[near], 18_000).mean())
        for name in shown(d):
            key, course = f"9.2/{reading}/{name.split(',')[0]}", rho[name]
            found[f"{key}/fall"] = Estimate.mean(d.at(course, 18_000) - course[0])
            found[f"{key}/late_fall"] = Estimate.mean(course[-1] - d.at(course, 10_000))
    for reading, alignment in d.alignment.items():
        rises = [d.at(a, 18_000).mean() - a[0].mean() for a in alignment.values()]
        found[f"9.2/{reading}/rising"] = sum(bool(rise > 0) for rise in rises)
    return found


def _best_layer(length: int) -> dict[str, float]:
    """The table's column "Theory" for the best single layer of linear attention: alignment, error, and rho_2 in both readings; and what of the
    spectrum its rho_2 of 0.450 might be: the rate of D2, the least mean rate, the least factor of the expected loss, the largest share."""
    best = best_gain(SPECTRUM, length)
    curve = np.array([expected_error(SPECTRUM, n, best) for n in range(1, length + 1)])
    lam = [Fraction(str(x)) for x in SPECTRUM]
    first, second, third = (sum(x**k for x in lam) for k in (1, 2, 3))
    return {
        "9.2/best_alignment": float(spectral_alignment(best, SPECTRUM)),
        "9.2/best_error": float(curve[-1]),
        "9.2/best_rho_slope": float(rho_by_slope(curve)),
        "9.2/best_rho_ends": float(rho_by_ends(curve, sum(SPECTRUM))),
        "theory0450/balanced_rate": float(((lam[0] - lam[-1]) / (lam[0] + lam[-1])) ** 2),
        "theory0450/best_mean_rate": float(1 - first**2 / (len(lam) * second)),
        "theory0450/best_loss_rate": float(1 - second**2 / (first * third)),
        "theory0450/largest_share": float(lam[0] / first),
    }


#: Heads of the columns of :func:`rows`.
COLUMNS = {
    "setting": "setting",
    "error": "error at 0, 5k, 10k, 18k steps",
    "slope": "ρ₂ (slope) there",
    "ends": "ρ₂ (ends), 18k",
    "gain": "alignment of gains, 0 to 18k",
    "key": "of keys",
}


def rows(d: Dynamics) -> list[dict[str, str]]:
    """A table: setting, errors and rho_2 along training, rho_2 by ends, and both alignments at 18,000 steps."""

    def course(values: np.ndarray, spec: str) -> str:
        return " ".join(format(d.at(values, step).mean(), spec) for step in STEPS)

    def ends(values: np.ndarray) -> str:
        return f"{values[0].mean():+.2f} to {d.at(values, 18_000).mean():+.2f}"

    first = {
        "setting": "the paper (one seed)",
        "error": " ".join(f"{e:.1f}" for e in PRINTED["error"]),
        "slope": " ".join(f"{r:.3f}" for r in PRINTED["rho2"]),
        "gain": f"{PRINTED['alignment'][0]:+.2f} to {PRINTED['alignment'][-1]:+.2f}",
    }
    return [first] + [
        {
            "setting": name,
            "error": course(d.error[name], ".1f"),
            "slope": course(d.rho[name], ".3f"),
            "ends": f"{d.at(d.rho_ends[name], 18_000).mean():.3f}",
            "gain": ends(d.alignment["gain"][name]),
            "key": ends(d.alignment["key"][name]),
        }
        for name in d.error
    ]


def figure(d: Dynamics) -> Figure:
    """Section 9.2: error, rho_2 and alignment against the step, means over seeds by kind of attention, of the alignment nine seeds of ten too; crosses: printed."""
    fig, axes = style.figure(3, height=3.1)
    panels = [
        (d.error, PRINTED["error"], "error, 16 examples"),
        (d.rho, PRINTED["rho2"], r"$\rho_2$ (fall per example)"),
        (d.alignment["gain"], PRINTED["alignment"], "spectral alignment (gain)"),
    ]
    steps = d.steps / 1000
    for ax, (by_setting, printed, title) in zip(axes, panels, strict=True):
        for i, name in enumerate(shown(d)):
            values, colour = by_setting[name], style.PALETTE[i]
            if ax is axes[2]:
                ax.fill_between(steps, *np.quantile(values, (0.05, 0.95), 1), color=colour, alpha=0.2, lw=0)
            ax.plot(steps, values.mean(1), color=colour, lw=1.8, label=name)
        cross(ax, np.array(STEPS) / 20_000 * steps[-1], printed, "printed")
        ax.set(xlabel="step (thousands)", title=title)
    axes[0].set_yscale("log")
    axes[0].set_yticks([5, 10, 20], ["5", "10", "20"])
    axes[0].minorticks_off()
    legend_above(fig, axes[0], 4)
    axes[2].axhline(0, color=style.INK, lw=0.8)
    axes[2].set_ylim(-1, 1)
    return fig


def gains_figure(eigenvalues: tuple[float, ...], gains: Mapping[str, np.ndarray], best: np.ndarray) -> Figure:
    """Trained gain of each covariate, every seed (setting -> ``(seeds, d)``), beside the best one-layer gain and the inverse spectrum."""
    fig, ax = style.figure(height=3.2)
    x = np.arange(len(eigenvalues))
    for i, (name, values) in enumerate(gains.items()):
        for j in x:
            place = j + (i - (len(gains) - 1) / 2) * 0.72 / len(gains)
            strip(ax, place, values[:, j], style.PALETTE[i], "osD^vP"[i], name if j == 0 else None)
    ax.hlines(best, x - 0.4, x + 0.4, lw=1.6, color=style.COLOURS["theory"], label="best one-layer gain", zorder=3)
    inverse, top = 1 / np.asarray(eigenvalues) * best[0] * eigenvalues[0], 1.02
    inside = inverse <= top
    look = {"color": style.INK, "ms": 7, "mew": 1.6, "zorder": 4}
    ax.plot(x[inside], inverse[inside], "x", label="∝ inverse spectrum", **look)
    for place, value in zip(x[~inside], inverse[~inside], strict=True):
        ax.annotate(f"× ↑\n{value:.0f}", (place, top), ha="center", va="top", fontsize=8)
    ax.set(xlabel="variance λ of the covariate", ylabel="gain", ylim=(-0.12, top))
    named_ticks(ax, [f"{v:g}" for v in eigenvalues])
    legend_above(fig, ax, 4, markerscale=1.5)
    return fig
