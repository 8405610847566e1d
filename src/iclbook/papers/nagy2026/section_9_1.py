"""Section 9.1: heads restricted to bands of the spectrum. What masks allow in one step (Theorem M3), and what they do to trained models."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

from ...draw import numpy_rng
from ...drawing import style
from ...sliders import Slider, show
from ...statistics import Estimate, standard_error
from ...store import Results
from ...training import Study
from .arithmetic import printed_numbers
from .common import by_setting, legend_above
from .studies import SPECTRUM

#: The paper's error for each mask, and its changes against no mask in per cent.
MASK_ERRORS = dict(zip(("none", "spectral", "random", "redundant"), printed_numbers("9.1/changes"), strict=True))
MASKED = ("spectral", "random", "redundant")
PRINTED_CHANGE = {mask: 100 * (MASK_ERRORS[mask] / MASK_ERRORS["none"] - 1) for mask in MASKED}
#: Optimiser and rate at which each kind of attention is judged: what the paper leaves open and this book's other sections use.
JUDGED = "Adam 0.001"


@dataclass(frozen=True)
class MaskRuns:
    """Final errors of section 9.1 in one setting, of what the paper leaves open: mask -> means ``(seeds, blocks)``, the same prompts in each block for all."""

    blocks: dict[str, np.ndarray]

    def change(self, mask: str, against: str = "none") -> np.ndarray:
        """Error less that under another mask, of the same seed's without masks, in per cent: ``(seeds,)``; positive is worse."""
        errors = {name: blocks.mean(1) for name, blocks in self.blocks.items()}
        return 100 * (errors[mask] - errors[against]) / errors["none"]

    def mean_change(self, mask: str, against: str = "none") -> Estimate:
        """Mean of :meth:`change` over seeds. Its variance is that over seeds and that of :meth:`prompt_error`, added."""
        return Estimate.mean(self.change(mask, against)).widened(self.prompt_error(mask, against))

    def prompt_error(self, mask: str, against: str = "none") -> float:
        """Standard error of that mean because all seeds share the prompts, in per cent.

        It is read off the deviations of blocks of prompts from the change, ``(e_k - e'_k - change * b_k) / b``, to first order.
        """
        base, change = self.blocks["none"], self.change(mask, against)[:, None]
        apart = 100 * (self.blocks[mask] - self.blocks[against]) - change * base
        return float(standard_error((apart / base.mean(1, keepdims=True)).mean(0)))


def mask_runs(study: Study, results: Results, more: Results) -> dict[str, MaskRuns]:
    """Section 9.1's errors by setting; ``more`` are further seeds of softmax attention."""
    found: dict[str, dict[str, np.ndarray]] = defaultdict(dict)
    for (group, setting), errors in by_setting(study, results, "error").items():
        mask, activation, _ = group.split("-")
        found[f"{activation}, {setting}"][mask] = errors[-1]
    judged = found[f"softmax, {JUDGED}"]
    for mask, errors in judged.items():
        judged[mask] = np.concatenate([errors, more[f"{mask}/error"][-1]])
    return {setting: MaskRuns(blocks) for setting, blocks in found.items()}


def records(runs: dict[str, MaskRuns], study: Study) -> dict:
    """Records that decide the claims on section 9.1."""
    prompts = study.groups[0].observe.blocks * study.groups[0].observe.size
    spreads = {mask: np.median([run.change(mask).std(ddof=1) for run in runs.values()]) for mask in MASKED}
    shared = np.median([run.prompt_error("spectral") for run in runs.values()])
    found = {
        "9.1/settings": len(runs),
        "9.1/seeds": min(len(run.blocks["none"]) for run in runs.values()),
        "9.1/seeds_judged": len(runs[f"softmax, {JUDGED}"].blocks["none"]),
        "9.1/prompts": prompts,
        "9.1/of_8192": float(shared * np.sqrt(prompts / 8192)),
        "q-unstated/one_seed": [PRINTED_CHANGE[mask] / float(spreads[mask]) for mask in MASKED],
    }
    for kind in ("softmax", "linear"):
        run = runs[f"{kind}, {JUDGED}"]
        found |= {f"9.1/{kind}/{mask}_change": run.mean_change(mask) for mask in MASKED}
        leads = [run.mean_change("spectral", other) for other in ("random", "redundant")]
        found[f"9.1/{kind}/spectral_lead"] = Estimate.stack(leads)
    return found


def figure(runs: dict[str, MaskRuns]) -> Figure:
    """Section 9.1: mean change of the error by each mask with two standard errors over seeds and prompts, by setting; the last row: printed."""
    fig, axes = style.figure(2, height=3.6, sharex=True)
    for ax, attention in zip(axes, ("softmax", "linear"), strict=True):
        of = {name.removeprefix(f"{attention}, "): run for name, run in runs.items() if name.startswith(attention)}
        names = [*of, "printed"]
        for j, (mask, marker) in enumerate(zip(MASKED, "sD^", strict=True)):
            place, colour = np.arange(len(names)) + (j - 1) * 0.24, style.PALETTE[(0, 1, 3)[j]]
            values, errors = np.array([(m.value, m.error) for m in (run.mean_change(mask) for run in of.values())]).T
            ax.errorbar(values, place[:-1], xerr=2 * errors, fmt="none", color=colour)
            ax.plot(values, place[:-1], marker, ms=5.5, color=colour, label=f"{mask} mask")
            ax.plot([PRINTED_CHANGE[mask]], place[-1:], "x", ms=7, mew=1.8, color=colour)
        ax.axvline(0, color=style.INK, lw=0.8)
        ax.axhline(len(of) - 0.5, color=style.GRID, lw=0.8)
        ax.set_yticks(range(len(names)), names)
        ax.get_yticklabels()[-1].set_color(style.COLOURS["paper"])
        ax.grid(axis="y", visible=False)
        ax.text(0, -0.7, "← helps    hurts →", ha="center", fontsize=9)
        ax.set(xlabel="change of the error (%)", title=f"{attention} attention", ylim=(len(of) + 0.5, -1.2))
    legend_above(fig, axes[0], 3, fontsize=9)
    return fig


# -- what masks allow in one step ------------------------------------------------------------------------------------------------------


def visible(d: int, n_heads: int, mask: str) -> np.ndarray:
    """Which channels each head sees: zeros and ones ``(H, d)``; bands of ``d / H`` neighbours, the same drawn at random, or the first band."""
    if mask == "none":
        return np.ones((n_heads, d))
    order = numpy_rng(0).permutation(d) if mask == "random" else np.arange(d)
    bands = order.reshape(n_heads, -1)
    seen = np.zeros((n_heads, d))
    for h in range(n_heads):
        seen[h, bands[0 if mask == "redundant" else h]] = 1
    return seen


def best_residual(eigenvalues: Sequence[float], seen: np.ndarray) -> np.ndarray:
    """Squared error left in each channel, ``(d,)``, after one step with the gains that make the worst channel as good as can be.

    A channel's step is the sum of the gains of the heads that see it: residual ``(1 - lambda_i sum_h seen_hi kappa_h)^2``. With one gain for
    all this is the balanced step of Theorem D2; with a head for each distinct eigenvalue it is 0 (Newton). Groups of channels that share no
    head are independent, so each is solved on its own.
    """
    lam, n_heads = np.asarray(eigenvalues, dtype=float), len(seen)
    residual = np.ones(len(lam))
    n_groups, group = connected_components(seen.T @ seen)
    for channels in (np.flatnonzero(group == g) for g in range(n_groups)):
        rows, ones = lam[channels, None] * seen[:, channels].T, np.ones(len(channels))
        bound = linprog(  # least t with |1 - row . kappa| <= t
            c=np.r_[np.zeros(n_heads), 1],
            A_ub=np.vstack([np.c_[-rows, -ones], np.c_[rows, -ones]]),
            b_ub=np.r_[-ones, ones],
            bounds=[(None, None)] * n_heads + [(0, None)],
        )
        residual[channels] = (1 - rows @ bound.x[:-1]) ** 2
    return residual


def gains_frame(n_heads: int, mask: str) -> Figure:
    """Best that heads with one gain each can do in one step on section 9.1's spectrum, when each sees the channels that its mask leaves."""
    seen = visible(len(SPECTRUM), n_heads, mask)
    residual, names = best_residual(SPECTRUM, seen), [f"{v:g}" for v in SPECTRUM]
    fig, (left, right) = style.figure(2, height=2.8, width_ratios=(1, 1.25))
    left.imshow(seen, cmap=style.strength(style.COLOURS["measured"]), vmin=0, vmax=1.4, aspect="auto")
    left.grid(False)
    left.set_xticks(range(len(SPECTRUM)), names, fontsize=8)
    left.set_yticks(range(n_heads), [f"head {h + 1}" for h in range(n_heads)], fontsize=8)
    left.set(xlabel="λ of the channel", title="what each head sees")
    right.bar(range(len(SPECTRUM)), residual, color=style.COLOURS["measured"])
    right.set_xticks(range(len(SPECTRUM)), names, fontsize=8)
    right.set(xlabel="λ of the channel", ylabel="squared error left", ylim=(0, 1.08))
    for channel in np.flatnonzero(residual < 5e-4):
        right.text(channel, 0.02, "0", ha="center", fontsize=9)
    right.set_title(f"the worst channel keeps {residual.max():.0%}")
    return fig


def show_gains(few: bool) -> None:
    """Show the reach of heads with one gain each, for some numbers of heads and masks."""
    show(
        gains_frame,
        [
            Slider("n_heads", "heads", [1, 4] if few else [1, 2, 4]),
            Slider("mask", "mask", list(MASK_ERRORS)[: 2 if few else 4]),
        ],
        start={"n_heads": 4, "mask": list(MASK_ERRORS)[1 if few else 2]},
        title="One gain for each head: the best that one step can do",
        description="Under a random mask some heads see two λ, and one gain cannot serve both. Try: the spectral mask, a head for each λ: one step leaves no error.",
        alt=lambda n_heads, mask: (
            f"Channels seen by {n_heads} heads under the {mask} mask, and the squared error left in each channel."
        ),
    )
