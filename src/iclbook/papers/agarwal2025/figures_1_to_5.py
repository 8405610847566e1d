"""Figures 1 to 5 of agarwal2025: the toy simulation of section 7.1 at one setting, and one step of it."""

from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...draw import numpy_rng
from ...drawing import style
from ...statistics import Estimate, standard_error
from . import closed_forms as closed
from .figures_6_to_8 import COLOUR
from .toy_runs import RATES, SCALES, TASK, UNIFORM, Ensemble, descend, ends, sharp_and_smooth

#: Readings of equation 7: its bias stays at 0, or is trained.
READINGS = ("frozen", "trained")


def grid(swept: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Over initial scales and rates, of a :func:`.toy_runs.sweep`: shares of runs that sharpen, whose loss decays smoothly, and of both; ``start`` ``(scales, 1)``,
    mean effective positions before training."""
    sharp, smooth = sharp_and_smooth(swept)
    start = swept["start"].mean(0)[:, None]
    return {"share": sharp.mean(0), "smooth": smooth.mean(0), "both": (sharp & smooth).mean(0), "start": start}


def chosen_setting(found: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Scale and rate at which most runs sharpen along a loss that decays smoothly, among settings that start near uniform; the first of equals."""
    both = np.where(found["start"] >= UNIFORM * TASK.T, found["both"], -1.0)
    a, b = np.unravel_index(int(both.argmax()), both.shape)
    return SCALES[a], RATES[b]


def grid_values(grids: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, object]:
    """The setting chosen for each reading, and the largest share of runs that sharpen at the rate of section 7.2 from a scale below 1."""
    scales, rates = zip(*map(chosen_setting, grids.values()), strict=True)
    sharpen = [float(found["share"][:-1, 0].max()) for found in grids.values()]
    return {"toy/scale": [*scales], "toy/rate": [*rates], "toy/stated_rate": sharpen}


def plot_settings(found: Mapping[str, np.ndarray]) -> Figure:
    """Shares of seeds over initial scale and rate: sharp attention, smooth loss, both; a frame at the setting that is chosen."""
    fig, axes = style.figure(3, height=3.2, sharey=True)
    scale, rate = chosen_setting(found)
    names = {"share": "attention sharpens", "smooth": "loss decays smoothly", "both": "both in one run"}
    for ax, (name, title) in zip(axes, names.items(), strict=True):
        rows, columns = ([f"{value:g}" for value in of] for of in (SCALES, RATES))
        style.heatmap(ax, found[name], 1.0, title=title, annotate=".0%", row_labels=rows, col_labels=columns)
        for text in ax.texts:
            text.set(text=text.get_text().rstrip("%"), fontsize=8)
        corner = RATES.index(rate) - 0.5, SCALES.index(scale) - 0.5
        frame = ax.add_patch(Rectangle(corner, 1, 1, fill=False, ec=style.INK, lw=2))
        ax.set_xlabel("learning rate")
        ax.tick_params(axis="x", labelsize=8, labelrotation=90)
    axes[0].set_ylabel("initial scale")
    fig.legend([frame], ["our setting; numbers: % of seeds"], loc="outside upper center")
    return fig


def steepest_steps(run: Ensemble, rate: float, bias: bool) -> dict[str, np.ndarray]:
    """The step before the largest fall of each run's loss, at the pair (i, j) with ``A_ij > 0`` and the largest ``alpha_ij |u_i|``; changes ``dloss`` of the query and
    ``dadvantage`` of the pair, ``(R, 2)``, are those when ``v_j`` alone moves, and when all weights (with ``bias`` the bias, too) take the step at this rate."""
    steepest = np.argmax(-np.diff(run.loss, axis=0), 0)
    every = [[p[r] for p in run.weights[step]] for r, step in enumerate(steepest)]
    w, x, y = closed.Weights(*map(torch.stack, zip(*every, strict=True))), run.x, run.y
    f = closed.forward(x, w)
    u = closed.upstream(f.p, y, w.W_O)
    a = closed.advantage(f.alpha, closed.compatibility(u, f.v))
    most = (f.alpha * u.norm(dim=-1)[..., None] * (a > 0)).flatten(1).argmax(1)
    i, j, at = most // x.shape[1], most % x.shape[1], torch.arange(len(x))
    dv = closed.value_step(f.alpha, u, rate)
    v = f.v.clone()
    v[at, j] += dv[at, j]
    own = closed.Forward(f.q, f.k, v, f.s, *closed.attend(f.s, v, w.W_O, w.b))
    later = descend(w, closed.every_gradient(x, y, w)[1], rate, bias)
    changed, grown = [], []
    for moved, W_O in ((own, w.W_O), (closed.forward(x, later), later.W_O)):
        changed.append((closed.losses(moved.logits, y) - closed.losses(f.logits, y))[at, i])
        b = closed.compatibility(closed.upstream(moved.p, y, W_O), moved.v)
        grown.append((closed.advantage(moved.alpha, b) - a)[at, i, j])
    found = {"alpha": f.alpha[at, i, j], "dloss": torch.stack(changed, -1), "dadvantage": torch.stack(grown, -1)}
    found |= {"v": f.v[at, j], "dv": dv[at, j], "u_bar": closed.value_gradient(f.alpha, u)[at, j]}
    found |= {"u_i": u[at, i], "g": f.g[at, i], "dg": (own.g - f.g)[at, i]}
    return {name: part.numpy() for name, part in found.items()}


def one_step_values(steps: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Estimate]:
    """Figure 1: shares of runs in which the value moves against its user's error, and in which the step lowers the query's loss and raises the pair's advantage."""
    frozen, trained = (steps[reading] for reading in READINGS)
    found = {"fig1/against": Estimate.share((frozen["dv"] * frozen["u_i"]).sum(-1) < 0)}
    for name, step, column in (("own", frozen, 0), ("all", frozen, 1), ("bias", trained, 1)):
        found[f"fig1/loss_{name}"] = Estimate.share(step["dloss"][:, column] < 0)
        found[f"fig1/reinforced_{name}"] = Estimate.share(step["dadvantage"][:, column] > 0)
    return found


def _arrow(ax: Axes, along: np.ndarray, colour: str, label: str, start: np.ndarray | float = 0.0) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "lw": 2.2, "shrinkA": 0, "shrinkB": 0}
    ends = np.stack([np.zeros(2), along]) + start
    ax.annotate("", ends[1], ends[0], arrowprops=look)
    ax.plot(*ends.T, alpha=0, label=label)  # so that the limits include both ends
    text = {"textcoords": "offset points", "va": "center", "fontsize": 9, "color": colour}
    ax.annotate(label, np.array([0.2, 0.8]) @ ends, (9, 0), **text)


def plot_one_step(steps: Mapping[str, np.ndarray], r: int) -> Figure:
    """Figure 1 of one run: value, context and error; then the signal and both changes on one scale, drawn beside each other, since they lie along one line."""
    fig, axes = style.figure(2, aspect=0.85)
    step = {name: part[r] for name, part in steps.items()}
    _arrow(axes[0], step["v"], COLOUR["values"], "value $v_j$")
    _arrow(axes[0], step["g"], COLOUR["attention"], "context $g_i$")
    _arrow(axes[0], step["u_i"], style.INK, "error $u_i$")
    axes[0].set_title("where they are")
    scale = np.linalg.norm(step["u_bar"]) / np.linalg.norm(step["dv"])
    _arrow(axes[1], step["u_bar"], style.COLOURS["debiased"], r"signal $\bar u_j$")
    aside = 0.12 * step["u_bar"][::-1] * (1, -1)
    _arrow(axes[1], step["dv"] * scale, COLOUR["values"], rf"$\Delta v_j$ (×{scale:.0f})", aside)
    _arrow(axes[1], step["dg"] * scale, COLOUR["attention"], rf"$\Delta g_i$ (×{scale:.0f})", 2 * aside)
    axes[1].set_title(rf"one step, $\alpha_{{ij}}$ = {step['alpha']:.2f}")
    for ax in axes:
        ax.set(xlabel="value coordinate 1", ylabel="value coordinate 2")
        ax.set_aspect("equal", adjustable="datalim")
        ax.margins(0.15)
    return fig


def typical(run: Ensemble) -> int:
    """The run whose final loss and final effective number of positions are together closest (in ranks) to their medians over the runs that sharpen."""
    among = np.flatnonzero(np.logical_and(*sharp_and_smooth(ends(run))))
    among = among if len(among) else np.arange(run.loss.shape[1])
    ranks = [np.abs(v[-1, among].argsort().argsort() / len(among) - 0.5) for v in (run.loss, run.positions)]
    return int(among[np.argmin(ranks[0] + ranks[1])])


def figure_values(runs: Mapping[str, Ensemble]) -> dict[str, object]:
    """Figures 2 to 5 for each reading: shares of the runs that sharpen, have a smooth loss, and both; medians of :func:`gains`; and :func:`ranks`."""
    found: dict[str, object] = {"fig4/window": [], "fig5/pc1": []}
    for reading, run in runs.items():
        sharp, smooth = sharp_and_smooth(ends(run))
        falls = (run.positions[-1] < run.positions[0]) & (run.loss[-1] < run.loss[0])
        (gain, window), (own, shuffled) = gains(run), ranks(run)
        found |= {
            f"fig2-3/{reading}_falls": Estimate.share(falls),
            f"fig2-3/{reading}": Estimate.share(sharp),
            f"fig2-3/{reading}_mass": Estimate.of(np.median, top_two(run)),
            f"fig2-3/{reading}_both": Estimate.share(falls & smooth),
            f"fig4/{reading}": Estimate.share(smooth),
            f"fig4/{reading}_gain": Estimate.of(np.median, gain),
            f"fig5/{reading}": Estimate.mean(own).widened(standard_error(shuffled)),  # the error of the difference
            f"fig5/{reading}_shuffled": float(shuffled.mean()),
        }
        found["fig4/window"].append(float(np.median(window)))
        found["fig5/pc1"].append(float(np.median(first_shares(displacements(run)))))
    return found


def top_two(run: Ensemble) -> np.ndarray:
    """Attention on a query's two heaviest keys at the end, mean over queries ``(R,)``: 0.4 if it is uniform, 1 if it is all there."""
    alpha = closed.forward(run.x, run.weights[-1]).alpha  # (R, T, T)
    return alpha.topk(2, dim=-1).values.sum(-1).mean(-1).numpy()


def gains(run: Ensemble) -> tuple[np.ndarray, np.ndarray]:
    """Gains of every run that sharpens: the shares of its fall in loss and of the steps while specialisation goes from a tenth to nine tenths of its way."""
    sharp, _ = sharp_and_smooth(ends(run))
    loss, positions = run.loss[:, sharp], run.positions[:, sharp]
    way, which = (positions[0] - positions) / (positions[0] - positions[-1]), np.arange(loss.shape[1])
    first, last = (np.argmax(way >= part, 0) for part in (0.1, 0.9))
    return (loss[first, which] - loss[last, which]) / (loss[0] - loss[-1]), (last - first) / (len(loss) - 1)


def displacements(run: Ensemble) -> np.ndarray:
    """From where to where each value has moved, ``(R, T, 2)``."""
    return (run.x @ (run.weights[-1].W_V - run.weights[0].W_V).mT).numpy()


def first_shares(moves: np.ndarray) -> np.ndarray:
    """Share of the first principal component in displacements ``(..., T, 2)``."""
    z = moves[..., 0] + 1j * moves[..., 1]  # the two eigenvalues of their Gram matrix differ by |sum z_j^2|
    return (1 + np.abs((z**2).sum(-1)) / (np.abs(z) ** 2).sum(-1)) / 2


def ranks(run: Ensemble, draws: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Share of ``draws`` motions of a run's own lengths in independent directions that are less aligned than its own, ``(R,)``: uniform on [0, 1] where values do
    not move together. The second array is the control: motions put together from ``T`` different runs."""
    rng, moves = numpy_rng(0), displacements(run)
    R, T, _ = moves.shape
    # value j comes from the run j places further on, so that no two values of a motion share a run
    shuffled = np.stack([moves[(np.arange(R) + j) % R, j] for j in range(T)], 1)

    def rank(own: np.ndarray, aligned: float) -> float:
        lengths = (own**2).sum(-1)  # (T,) squared
        angles = torch.from_numpy(2 * rng.uniform(0, 2 * np.pi, (draws, T)))  # of squared complex motions
        drawn = np.hypot(angles.cos().numpy() @ lengths, angles.sin().numpy() @ lengths) / lengths.sum()
        return (drawn < aligned).mean()

    own, control = (np.array(list(map(rank, part, 2 * first_shares(part) - 1))) for part in (moves, shuffled))
    return own, control


def _attention(ax: Axes, run: Ensemble, r: int, step: int, title: str) -> None:
    alpha = closed.forward(run.x, run.weights[step]).alpha[r].numpy()
    labels = [str(n + 1) for n in range(TASK.T)]
    style.heatmap(ax, alpha, 1.0, title=title, annotate=".2f", row_labels=labels, col_labels=labels)
    ax.set(xlabel="key j", ylabel="query i")


def plot_attention(run: Ensemble, r: int) -> Figure:
    """Figures 2 and 3: attention of one run before and after training."""
    fig, axes = style.figure(2, height=3.1)
    _attention(axes[0], run, r, 0, "before training")
    _attention(axes[1], run, r, len(run.weights) - 1, f"after {len(run.weights) - 1} steps")
    return fig


def plot_loss(run: Ensemble, r: int) -> Figure:
    """Figure 4 over all seeds, and the effective number of attended positions on the same steps."""
    fig, axes = style.figure(2, aspect=0.8)
    grey, steps = style.COLOURS["dummy"], np.arange(len(run.loss))
    titles = {"loss": "cross-entropy, summed (nats)", "attended positions": "exp(entropy of attention)"}
    for ax, values, (title, label) in zip(axes, (run.loss, run.positions), titles.items(), strict=True):
        low, middle, high = np.nanquantile(values, (0.1, 0.5, 0.9), axis=1)
        ax.fill_between(steps, low, high, color=grey, alpha=0.3, lw=0, label="80 % of seeds")
        ax.plot(steps, middle, color=grey, ls=(0, (4, 2)), label="median")
        ax.plot(steps, values[:, r], color=style.COLOURS["measured"], label="smooth run")
        ax.set(title=title, xlabel="step", ylabel=label, ylim=(0, None))
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def plot_values(run: Ensemble, r: int) -> Figure:
    """Figure 5: the values' paths on their two principal axes, and the share of the first in every run's displacements."""
    paths = np.array([(run.x[r] @ w.W_V[r].mT).numpy() for w in run.weights])  # (STEPS + 1, T, 2)
    ends_ = paths[[0, -1]].reshape(-1, 2)
    centre = ends_.mean(0)
    shown = (paths - centre) @ np.linalg.svd(ends_ - centre)[2].T
    fig, axes = style.figure(2, aspect=0.8, width_ratios=(1.2, 1))
    ax = axes[0]
    colour = COLOUR["values"]
    for j in range(TASK.T):
        ax.plot(*shown[:, j].T, color=colour, lw=1.5)
        ax.plot(*shown[0, j], "o", mfc=style.GROUND, mec=colour, ms=6)
        ax.plot(*shown[-1, j], "o", color=colour, ms=7)
        ax.annotate(f"$v_{j + 1}$", shown[-1, j], textcoords="offset points", xytext=(6, 4), fontsize=11)
    ax.plot([], [], "o", mfc=style.GROUND, mec=colour, label="start")
    ax.plot([], [], "o", color=colour, label="end")
    ax.set(xlabel="principal axis 1", ylabel="principal axis 2", title="smooth run")
    ax.margins(0.12)
    ax.legend(fontsize=8)
    shares = first_shares(displacements(run))
    axes[1].hist(shares, np.linspace(0.5, 1, 26), color=style.COLOURS["measured"])
    top = axes[1].get_ylim()[1]
    for value, name, height in ((shares[r], "smooth run", 0.52), (np.median(shares), "median", 0.72)):
        axes[1].axvline(value, color=style.INK, lw=1, ls=(0, (1, 1.6)))
        axes[1].text(value - 0.008, height * top, name, ha="right", fontsize=8)
    axes[1].set(xlabel="share of the first component", ylabel="runs", title="displacements, all seeds")
    return fig


def plot_attention_at(run: Ensemble, step: int, scale: float, others: Mapping[float, np.ndarray]) -> Figure:
    """Attention and loss at one step of a single toy run, for the slider; grey: its loss from every initial scale."""
    fig, axes = style.figure(2, height=2.9, width_ratios=(1, 1.3))
    _attention(axes[0], run, 0, step, f"attention, step {step}")
    ax = axes[1]
    for dash, (other, loss) in zip((":", "-.", "--", "-"), sorted(others.items()), strict=False):
        ax.plot(loss, color=style.COLOURS["dummy"], ls=dash, lw=1.2, label=f"{other:g}")
    ax.legend(title="initial scale", loc="upper right")
    own = run.loss[:, 0]
    ax.plot(own, color=style.COLOURS["dummy"], lw=1)
    ax.plot(own[: step + 1], color=style.COLOURS["measured"], lw=2.2)
    ax.plot(step, own[step], "o", color=style.COLOURS["measured"], ms=7)
    ax.set(xlabel="step", ylabel="summed loss (nats)", ylim=(0, None), title=f"initial scale {scale:g}")
    return fig
