"""Section 9.2: error, contraction rate rho_2 and spectral alignment along the training of the unmasked layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure

from ...drawing import style
from ...statistics import Estimate
from ...store import Results
from ...training import Study
from .arithmetic import printed_numbers
from .common import best_gain, by_setting, cross, expected_error, named_ticks, on_probes, strip
from .studies import SPECTRUM

#: Steps that the paper's table shows, and what it prints there.
STEPS = (0, 5_000, 10_000, 18_000)
PRINTED = {"error": (27.1, 6.5, 5.4, 5.8), "slope": (0.999, 0.924, 0.911, 0.912), "gain": printed_numbers("9.2/climbs")}
#: What counts as near: one value of one run scatters by 5 %, times 2.8; over 15 factors that is 0.01 of rho_2.
NEAR_ERROR, NEAR_RHO = 0.14, 0.01
#: Examples of a prompt.
LENGTH = 16


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
class Trajectory:
    """One setting along training; readings are ``(T, seeds)``.

    Attributes:
        steps: ``(T,)``.
        readings: ``error`` with 16 examples; rho_2 by ``slope`` and by ``ends``; alignment of the ``gain`` and of the norm of the ``key``.
        gains: ``(seeds, d)`` at the end.
    """

    steps: np.ndarray
    readings: dict[str, np.ndarray]
    gains: np.ndarray

    def at(self, reading: str, step: int) -> np.ndarray:
        """``(seeds,)`` at the recorded step next to this share of 20,000 (at the paper profile: at this step)."""
        wanted = step / 20_000 * self.steps[-1]
        return self.readings[reading][int(np.abs(self.steps - wanted).argmin())]

    def means(self, reading: str) -> np.ndarray:
        """Means over seeds at the steps of the paper's table."""
        return np.array([self.at(reading, step).mean() for step in STEPS])


def trajectories(study: Study, results: Results) -> dict[str, Trajectory]:
    """Trajectories of all settings at every recorded step."""
    found = {}
    curves, gains, keys = (by_setting(study, results, name) for name in ("curve_n16", "gain", "key"))
    for (group, setting), curve in curves.items():
        gain, key = gains[group, setting], keys[group, setting]
        readings = {
            "error": curve[..., -1],
            "slope": rho_by_slope(curve),
            "ends": rho_by_ends(curve, study.data.variance),
            "gain": spectral_alignment(gain, SPECTRUM),
            "key": spectral_alignment(np.sqrt((key**2).sum(-2)), SPECTRUM),  # over heads
        }
        found[f"{group.split('-')[0]}, {setting}"] = Trajectory(results[f"{group}/steps"], readings, gain[-1])
    return found


def nearest(settings: dict[str, Trajectory]) -> str:
    """The setting whose errors and rho_2 after step 0 are all together nearest to the printed ones, in units of what counts as near."""

    def distance(name: str) -> float:
        error, rho = (settings[name].means(reading)[1:] for reading in ("error", "slope"))
        return max(
            *np.abs(error / PRINTED["error"][1:] - 1) / NEAR_ERROR, *np.abs(rho - PRINTED["slope"][1:]) / NEAR_RHO
        )

    return min(settings, key=distance)


def with_adam(settings: dict[str, Trajectory]) -> dict[str, Trajectory]:
    """The settings that the figures show, one for each kind of attention: Adam."""
    return {name: trajectory for name, trajectory in settings.items() if "Adam" in name}


def records(settings: dict[str, Trajectory], study: Study) -> dict:
    """Records that decide the claims on section 9.2, and its printed numbers; ``without_gain``: seeds under Adam whose gain of the first, largest variance is below a
    tenth of the best, and by how much the worst of them ends above the mean error of its setting."""
    near = nearest(settings)
    found = _best_layer() | {
        "9.2/best_on_probes": on_probes(study.groups[0].observe.probes),
        "9.2/seeds": len(settings[near].gains),
        "9.2/settings": len(settings),
        "9.2/nearest": near,
        "9.2/mse_18k": float(settings[near].means("error")[-1]),
    }
    for reading in ("slope", "ends"):
        found[f"9.2/{reading}/rho2_18k"] = float(settings[near].means(reading)[-1])
        for name, trajectory in with_adam(settings).items():
            key, rho = f"9.2/{reading}/{name.split(',')[0]}", trajectory.readings[reading]
            found[f"{key}/fall"] = Estimate.mean(trajectory.at(reading, 18_000) - rho[0])
            found[f"{key}/late_fall"] = Estimate.mean(rho[-1] - trajectory.at(reading, 10_000))
    for reading in ("gain", "key"):
        start, *_, end = np.transpose([trajectory.means(reading) for trajectory in settings.values()])
        found[f"9.2/{reading}/rising"] = int((end > start).sum())
    least = best_gain(SPECTRUM, LENGTH)[0] / 10
    without = [
        t.readings["error"][-1, t.gains[:, 0] < least] / t.readings["error"][-1].mean()
        for t in with_adam(settings).values()
    ]
    errors = np.concatenate(without)
    return found | {"9.2/without_gain": len(errors), "9.2/without_gain_excess": errors.max(initial=1.0) - 1}


def _best_layer() -> dict[str, float]:
    """The table's column "Theory" for the best single layer of linear attention: alignment, error, and rho_2 in both readings; and what of the
    spectrum its rho_2 of 0.450 might be: the rate of D2, the least mean rate, the least factor of the expected loss, the largest share."""
    best = best_gain(SPECTRUM, LENGTH)
    curve = np.array([expected_error(SPECTRUM, n, best) for n in range(1, LENGTH + 1)])
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


def figure(settings: dict[str, Trajectory]) -> Figure:
    """Section 9.2: error, rho_2 and alignment against the step, means over seeds by kind of attention, of the alignment nine seeds of ten too; crosses: printed."""
    fig, axes = style.figure(3, height=3.1)
    titles = ("error, 16 examples", r"$\rho_2$ (fall per example)", "spectral alignment (gain)")
    for ax, (reading, printed), title in zip(axes, PRINTED.items(), titles, strict=True):
        for colour, (name, trajectory) in zip(style.PALETTE, with_adam(settings).items(), strict=False):
            steps, values = trajectory.steps / 1000, trajectory.readings[reading]
            if reading == "gain":
                ax.fill_between(steps, *np.quantile(values, (0.05, 0.95), 1), color=colour, alpha=0.2, lw=0)
            ax.plot(steps, values.mean(1), color=colour, lw=1.8, label=name)
        cross(ax, np.array(STEPS) / 20_000 * steps[-1], printed, "printed")
        ax.set(xlabel="step (thousands)", title=title)
    axes[0].set_yscale("log")
    axes[0].set_yticks([5, 10, 20], ["5", "10", "20"])
    axes[0].minorticks_off()
    axes[0].set_ylim(3.6, None)
    axes[2].axhline(0, color=style.INK, lw=0.8)
    axes[2].set_ylim(-1, 1)
    kinds = [name.split(",")[0] for name in with_adam(settings)]
    names = zip((*kinds, "printed"), (*style.PALETTE[: len(kinds)], style.COLOURS["paper"]), strict=True)
    places = (
        ((0.35, 4.2), (0.75, 4.2), (0.35, 7.6)),
        ((0.72, 0.922), (0.72, 0.89), (0.35, 0.934)),
        ((0.35, -0.75), (0.75, -0.75), (0.5, 0.38)),
    )
    for (name, colour), at in zip(names, zip(*places, strict=True), strict=False):
        for ax, (share, height) in zip(axes, at, strict=True):
            ax.text(share * steps[-1], height, name, color=colour, fontsize=9, ha="center", va="center")
    return fig


def gains_figure(settings: dict[str, Trajectory]) -> Figure:
    """Trained gain of the covariates of each variance, every seed, beside the best one-layer gain and the inverse spectrum."""
    fig, ax = style.figure(height=3.2)
    lam, first = np.unique(SPECTRUM, return_index=True)
    best = best_gain(SPECTRUM, LENGTH)[first]
    x = np.arange(len(lam))
    for i, (name, trajectory) in enumerate(with_adam(settings).items()):
        colour = style.PALETTE[i]
        for j, variance in enumerate(lam):
            gains = trajectory.gains[:, np.equal(SPECTRUM, variance)].ravel()
            strip(ax, j + (-0.18, 0.18)[i % 2], gains, colour, "os"[i % 2], name if j == 0 else None)
        ax.text(
            2 + (-0.05, 0.05)[i % 2], 0.54, name.split(",")[0], color=colour, ha=("right", "left")[i % 2], fontsize=9
        )
    ax.hlines(best, x - 0.4, x + 0.4, lw=1.6, color=style.COLOURS["theory"], label="best one-layer gain", zorder=3)
    ax.text(-0.42, best[0] + 0.03, "best one-layer gain", va="bottom", fontsize=9)
    ax.text(-0.42, 0.2, "short bars:\nmeans", va="bottom", fontsize=9)
    inverse, top = best[-1] * lam[-1] / lam, 1.15
    inside = inverse <= top
    ax.plot(x[inside], inverse[inside], "x", label="∝ inverse spectrum", color=style.INK, ms=8, mew=1.6, zorder=4)
    ax.text(2, inverse[2] + 0.04, "∝ inverse spectrum", ha="center", va="bottom", fontsize=9)
    for place in x[~inside]:
        ax.annotate(f"× at {inverse[place]:.0f} ↑", (place, top - 0.03), ha="center", va="top", fontsize=9)
    ax.set(xlabel="variance λ of the covariate", ylabel="gain", ylim=(-0.12, top))
    named_ticks(ax, [f"{v:g}" for v in lam])
    return fig
