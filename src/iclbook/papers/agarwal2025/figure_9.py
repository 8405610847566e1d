"""Runs whose weights are kept (agarwal2025): trajectories of values (Figure 9), how alike SGD and the schedule end, and what comes to rest first."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.spatial.distance import cdist
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, one_hot

from ...draw import numpy_rng
from ...drawing import style
from ...statistics import Estimate, share_error
from ...store import Results
from ...tasks.sticky_chain import StickyChain
from ...training import Study
from . import closed_forms as closed
from .chain_runs import MATRICES, data, runs_of, sampled_positions, unpack, value_paths
from .figures_6_to_8 import COLOUR, NAME, Curves
from .runs import ARMS


class Followed(NamedTuple):
    """One run: at the recorded ``steps`` its weights ``w``, stacked, float64, and its ``loss`` (on fresh sequences: the mean since the previous record)."""

    chain: StickyChain
    seed: int
    steps: np.ndarray
    w: closed.Weights
    loss: np.ndarray

    def at(self, records: int | list[int]) -> closed.Weights:
        """Weights at a record, or at several."""
        return closed.Weights(*(part[records] for part in self.w))

    def inputs(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of its own sequence, float64."""
        seq = data(self.chain, self.seed).train
        return seq.x.double(), seq.y


def followed(study: Study, results: Results, arm: str = "", group_name: str = "runs") -> list[Followed]:
    """Runs of all seeds of one arm of a group, or all of its runs."""
    (group,) = [g for g in study.groups if g.name == group_name]
    own, chain = results.group(group_name), getattr(study.data, "task", study.data).chain
    if "weights" not in own:
        own["weights"] = np.concatenate([own[name].reshape(*own[name].shape[:2], -1) for name in MATRICES], 2)
    runs = runs_of(group, ARMS)[arm] if arm else range(len(group.runs))
    seeds, weights, losses = [run.data_seed for run in group.runs], own["weights"], own.get("nll", own["loss"])
    return [Followed(chain, seeds[r], own["steps"], unpack(weights[:, r]), losses[:, r]) for r in runs]


def trajectory_values(study: Study, results: Results) -> dict[str, float | Estimate]:
    """EM against SGD on the 200 sampled values of each seed: lengths, alignment, straightness, and how focused attention is at the end."""
    (group,) = study.groups
    own, runs = results.group(group.name), runs_of(group, ARMS)
    sgd, em, straight, length = runs["sgd"], runs["em"], own["straight"].mean(1), own["length"]
    hits, samples = (length[em] > length[sgd]).sum(1), length.shape[1]
    return {
        "fig9/longer": Estimate.of(np.min, hits / samples).widened(share_error(int(hits.min()), samples)),
        "fig9/aligned_apart": Estimate.mean(own["pc1"][em] - own["pc1"][sgd]),
        "fig9/straight_apart": Estimate.mean(straight[em] - straight[sgd]),
        "fig9/focus_em": Estimate.mean(own["spread"][-1, em]),
        "fig9/focus_sgd": Estimate.mean(own["spread"][-1, sgd]),
        "fig9/ratio": float((length[em].mean(1) / length[sgd].mean(1)).mean()),
    }


def plot_value_arrows(em: Followed, sgd: Followed) -> Figure:
    """Figure 9: start to end of 200 values of two runs of a seed on the first two principal components of all starts and ends (printed: EM-like blue, SGD red; here as in the chapter's other figures)."""
    ends = [value_paths(run.chain, run.seed, run.at([0, -1])) for run in (em, sgd)]  # (2, 200, d_v) each
    every = np.concatenate(ends).reshape(-1, ends[0].shape[-1])
    centre = every.mean(0)
    _, size, components = np.linalg.svd(every - centre, full_matrices=False)
    shown = [(own - centre) @ components[:2].T for own in ends]
    drawn, share = np.concatenate([*shown[0], shown[1][1]]), size**2 / (size**2).sum()
    fig, axes = style.figure(2, aspect=0.85, sharex=True, sharey=True)
    look = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.005, "alpha": 0.75}
    for ax, (start, end), arm in zip(axes, shown, ("em", "sgd"), strict=True):
        ax.quiver(*start.T, *(end - start).T, color=COLOUR[arm], **look)
        ax.plot(*start.T, ".", color=style.INK, ms=2.5)
        ax.set(title=NAME[arm], xlabel=f"principal axis 1 ({share[0]:.0%} of variance)")
        ax.set(xlim=(drawn[:, 0].min(), drawn[:, 0].max()), ylim=(drawn[:, 1].min(), drawn[:, 1].max()))
        ax.text(0.02, 0.02, "dots: before training", transform=ax.transAxes)
    axes[0].set_ylabel(f"principal axis 2 ({share[1]:.0%})")
    return fig


def kl_values(
    em: Curves, sgd: Curves, runs: Sequence[Followed], onward: Sequence[Sequence[Followed]]
) -> dict[str, object]:
    """KL(EM || SGD) over KL(EM || uniform), and how much less diffuse EM's attention is: at equal steps, and of ``runs`` against SGD trained ``onward`` to their loss."""
    kl, known = em["kl"][-1], math.log(8) - em["entropy"][-1]
    shares, spreads = np.array([[at_equal_loss(*pair) for pair in zip(runs, sgds, strict=True)] for sgds in onward]).T
    return {
        "kl/mean": float(kl.mean()),
        "kl/end": Estimate.mean(kl / known),
        "kl/share": shares.mean(0).tolist(),
        "kl/log_ratio": Estimate.mean(np.log(shares[:, 0] / shares[:, 1])),
        "kl/diffuse": Estimate.mean(em["spread"][-1] - sgd["spread"][-1]),
        "kl/diffuse_at_equal_loss": Estimate.mean(spreads[:, 0]),
    }


def at_equal_loss(em: Followed, sgd: Followed) -> tuple[float, float]:
    """KL(EM || SGD) over KL(EM || uniform), EM at its end and SGD at the record of the nearest loss, and the relative entropy of EM's attention minus SGD's."""
    at = int(np.abs(sgd.loss - em.loss[-1]).argmin())
    last, near = (closed.causal_predict(em.inputs()[0], *w[:4]) for w in (em.at(-1), sgd.at(at)))
    own, other, uniform = (logits.log_softmax(-1) for logits in (last.logits, near.logits, 0 * last.logits))
    kl, known = (kl_div(q, own, reduction="batchmean", log_target=True) for q in (other, uniform))  # of EM from q
    return float(kl / known), float(last.spread[1:].mean() - near.spread[1:].mean())


def silhouette(points: np.ndarray, labels: np.ndarray) -> float:
    """Mean silhouette of points ``(n, d)`` with labels ``(n,)`` (Rousseeuw 1987): 1 for tight clusters far apart, 0 for none; a point alone counts 0."""
    within = (labels[:, None] == np.unique(labels)).astype(float)  # (n, kinds)
    counts = within.sum(0)
    own, sums = within @ counts, cdist(points, points) @ within  # (n,), (n, kinds)
    inside = (sums * within).sum(1) / np.maximum(own - 1, 1)
    nearest = np.where(within > 0, np.inf, sums / counts).min(1)
    return float(np.where(own > 1, (nearest - inside) / np.maximum(nearest, inside), 0.0).mean())


def symbols_shown(run: Followed) -> Tensor:
    """The symbol whose mean is nearest to each input ``(T,)``."""
    seq = data(run.chain, run.seed).train
    return (seq.x[:, None] - seq.means).square().sum(-1).argmin(1)


def cluster_values(runs: Mapping[str, Sequence[Followed]]) -> dict[str, list[float] | Estimate]:
    """Section 9.4 (2), means over seeds: silhouette of the sampled values by their inputs' symbols at the start, at the end, and there with shuffled symbols."""
    found = []
    for run in (*runs["sgd"], *runs["em"]):
        symbols = symbols_shown(run).numpy()
        labels = symbols[sampled_positions(len(symbols))]
        first, last = value_paths(run.chain, run.seed, run.at([0, -1]))
        kinds = (first, labels), (last, labels), (last, numpy_rng(0).permutation(labels))
        found.append([silhouette(*points) for points in kinds])
    start, end, mixed = np.transpose(found).reshape(3, 2, -1)  # (arms, seeds) each
    return {
        "clusters/start": start.mean(1).tolist(),
        "clusters/end": Estimate.mean(end),
        "clusters/growth": Estimate.mean(end - start),
        "clusters/shuffled": mixed.mean(1).tolist(),
    }


def activation_ratios(runs: Sequence[Followed]) -> dict[str, float]:
    """Root mean square of dL/dv over those of dL/dq and of dL/dk, at the first and the last early record: medians over runs."""
    sizes = []
    for run in runs:
        x, y = run.inputs()
        for record in (0, int(np.flatnonzero(run.steps <= 100)[-1])):  # "early in training" (section 7.2)
            _, d = closed.every_gradient(x, y, run.at(record), closed.causal_mask(len(x)))
            sizes.append([float(d[name].square().mean().sqrt()) for name in "qkv"])
    q, k, v = np.transpose(sizes)
    return {f"sizes/activation_v_over_{name}": float(np.median(v / of)) for name, of in (("q", q), ("k", k))}


def attention_by_symbol(run: Followed, record: int) -> np.ndarray:
    """Mean attention ``(n, n)`` of queries that show a symbol (row) on the keys that show another, over that of uniform attention."""
    x, _ = run.inputs()
    mask = closed.causal_mask(len(x))
    shown = one_hot(symbols_shown(run), run.chain.n).double()  # (T, n)
    uniform = mask.double() / mask.sum(1, keepdim=True)
    read, chance = (shown.mT @ (of @ shown) for of in (closed.forward(x, run.at(record), mask).alpha, uniform))
    return (read / chance).numpy()


def loss_by_symbol_alone(chain: StickyChain, seed: int) -> float:
    """Held-out loss of a linear softmax classifier with a bias that sees the present input only, fitted to a seed's training sequence."""
    seq = data(chain, seed)
    inputs = [torch.cat([of.x, of.x.new_ones(len(of.x), 1)], 1).double() for of in (seq.train, seq.held_out)]
    W = torch.zeros(chain.n, chain.d + 1, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([W], max_iter=200, line_search_fn="strong_wolfe", tolerance_grad=1e-9)

    def fitted() -> Tensor:
        search.zero_grad()
        loss = cross_entropy(inputs[0] @ W.mT, seq.train.y)
        loss.backward()
        return loss

    search.step(fitted)
    return float(cross_entropy(inputs[1] @ W.detach().mT, seq.held_out.y))


def learned_map_values(em: Curves, runs: Sequence[Followed]) -> dict[str, object]:
    """Held-out loss of the schedule minus that of the present symbol alone; attention on the query's own symbol before and after, and how the maps' logs correlate and grow."""
    alone = [loss_by_symbol_alone(run.chain, run.seed) for run in runs]
    before, after = (np.array([attention_by_symbol(run, record) for run in runs]) for record in (0, -1))  # (R, n, n)
    logs = [np.log(of).reshape(len(runs), -1) for of in (before, after)]
    return {
        "map/behind": Estimate.mean(em.only([run.seed for run in runs])["held_out"][-1] - alone),
        "map/own_before": np.trace(before, axis1=1, axis2=2) / before.shape[1],
        "map/own_after": np.trace(after, axis1=1, axis2=2) / after.shape[1],
        "map/alike": [float(np.corrcoef(*both)[0, 1]) for both in zip(*logs, strict=True)],
        "map/grown": logs[1].std(1) / logs[0].std(1),
    }


def plot_attention_maps(runs: Sequence[Followed], onward: Sequence[Followed], seeds: Sequence[int]) -> Figure:
    """Maps of :func:`attention_by_symbol` of some seeds (rows), on a logarithmic scale: before training, after the schedule, and SGD at the same loss."""
    fig, axes = style.figure(3, len(seeds), height=2.3 * len(seeds), squeeze=False)
    near = [int(np.abs(onward[r].loss - runs[r].loss[-1]).argmin()) for r in seeds]
    states = [((runs[r], 0), (runs[r], -1), (onward[r], at)) for r, at in zip(seeds, near, strict=True)]
    maps = np.log2([[attention_by_symbol(*state) for state in of_seed] for of_seed in states])  # (seeds, 3, n, n)
    names = ("start", "schedule", "SGD")
    for ax, of, (r, name) in zip(axes.flat, np.concatenate(maps), product(seeds, names), strict=True):
        image = style.heatmap(ax, of, np.abs(maps).max(), title=f"seed {runs[r].seed}: {name}")
        ax.set(xlabel="symbol read", ylabel="symbol asked")
    look = {"location": "bottom", "shrink": 0.7, "aspect": 30, "label": "attention over uniform"}
    bar = fig.colorbar(image, ax=list(axes.flat), **look)
    bar.set_ticks(range(-3, 4), labels=["1/8", "1/4", "1/2", "1", "2", "4", "8"])
    bar.outline.set_visible(False)
    return fig


def equalised(run: Followed, record: int) -> tuple[float, float]:
    """Root mean square of ``b_ij - E_{alpha_i}[b]`` over that of ``b_ij``, both weighted by attention; and the norm of dL/ds."""
    x, y = run.inputs()
    mask = closed.causal_mask(len(x))
    found = closed.forward(x, run.at(record), mask)
    d = closed.every_gradient(x, y, run.at(record), mask, found)[1]
    apart, size = ((found.alpha * of**2).sum() for of in (closed.advantage(found.alpha, d["alpha"]), d["alpha"]))
    return float((apart / size).sqrt()), float(d["s"].norm())


def freezing_values(every: Mapping[str, Sequence[Followed]]) -> dict[str, Estimate]:
    """Sections 6.1 and 6.3, means over runs: at the end how far compatibility is from equal, and the norm of dL/ds over its largest at four records."""
    found = {}
    for setting, runs in every.items():
        last = len(runs[0].steps) - 1
        rows = [[equalised(run, record) for record in (0, last // 3, 2 * last // 3, last)] for run in runs]
        apart, slope = np.moveaxis(rows, -1, 0)  # (R, 4) each
        found[f"freezing/{setting}/apart"] = Estimate.mean(apart[:, -1])
        found[f"freezing/{setting}/slope"] = Estimate.mean(slope[:, -1] / slope.max(1))
    return found


def attention_rows(run: Followed) -> np.ndarray:
    """Attention of 100 queries from the second half of the sequence, ``(records, 100, T)``."""
    x, _ = run.inputs()
    T = len(x)
    queries = np.sort(numpy_rng(0).choice(np.arange(T // 2, T), min(100, T // 2), replace=False))
    seen = torch.arange(T) <= torch.as_tensor(queries)[:, None]
    s = closed.scores(x[queries] @ run.w.W_Q.mT, x @ run.w.W_K.mT)
    return s.masked_fill(~seen, -torch.inf).softmax(-1).float().numpy()


def way_left(states: np.ndarray) -> np.ndarray:
    """Distance to the last state over that of the first, ``(records, R)``, of states ``(records, R, ..., d)``: mean 1-norm of the rows."""
    gap = np.abs(states - states[-1]).sum(-1).reshape(*states.shape[:2], -1).mean(2)
    return gap / gap[0]


def head_left(runs: Sequence[Followed], gap: np.ndarray) -> dict[str, np.ndarray]:
    """Way left ``(records, R)`` of attention, values and calibration: the root of ``gap (records, R)``, as a loss is of second order in the distance to its end."""
    return {
        "attention": way_left(np.stack([attention_rows(run) for run in runs], 1)),
        "values": way_left(np.stack([value_paths(run.chain, run.seed, run.w) for run in runs], 1)),
        "calibration": np.sqrt(way_left(gap[..., None])),
    }


def frame_values(left: Mapping[str, np.ndarray], steps: np.ndarray, prefix: str) -> dict[str, Estimate]:
    """Lead of attention over values and over the error on the way to its end, mean over training and paired by run."""
    mean = {name: np.trapezoid(own, steps, axis=0) / np.ptp(steps) for name, own in left.items()}
    attention = mean.pop("attention")
    return {f"{prefix}/before_{name}": Estimate.mean(attention - of) for name, of in mean.items()}


def plot_way_left(panels: Mapping[str, tuple[np.ndarray, Mapping[str, np.ndarray]]]) -> Figure:
    """Way left ``(records, R)`` of attention, values and calibration at the ``steps`` of each panel: every run and the mean."""
    fig, axes = style.figure(len(panels), height=2.8, sharey=True)
    looks = (COLOUR["attention"], "-"), (COLOUR["values"], (0, (4, 1.5))), (style.INK, (0, (1, 1.2)))
    for ax, (title, (steps, left)) in zip(axes, panels.items(), strict=True):
        for (colour, dash), (name, own) in zip(looks, left.items(), strict=True):
            ax.plot(steps, own, color=colour, lw=0.7, alpha=0.4)
            label = "calibration" if name == "error" else name  # of the entropy: one name in both panels
            ax.plot(steps, own.mean(1), color=colour, ls=dash, lw=2.2, label=label)
        ax.plot([], [], color=style.COLOURS["dummy"], lw=0.7, label="one seed")
        ax.set(title=title, xlabel="step", ylim=(0, 1.2))
        ax.legend()
    axes[0].set_ylabel("distance left (share)")
    return fig
