"""Runs whose weights are kept (agarwal2025): trajectories of values (Figure 9), how alike SGD and the schedule end (sections 5.3, 7.2, 9.4), and how fast
attention and values move (sections 6.3 and 10.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...draw import numpy_rng
from ...drawing import style
from ...statistics import Estimate, bootstrap_error, share_error
from ...store import Results
from ...tasks.sticky_chain import StickyChain
from ...training.study import Study
from . import gradients as closed
from .causal import causal_pass, predict
from .chain_runs import runs_of, sampled_positions, unpack, value_paths
from .gradients import Weights
from .runs import ARMS
from .table_1 import COLOUR, NAME, Curves, data, paired

#: The ways to train whose weights are kept, in the order of recorded lists.
KEPT = ("sgd", "em", "uniform1")
#: Attention or values have settled when they are within this share of the way from start to end.
SETTLED = 0.1
#: Queries whose attention rows are compared between records.
QUERIES = 100
#: The first steps, which section 7.2 speaks of as "early in training".
EARLY = 100


@dataclass(frozen=True)
class Followed:
    """One run: its ``chain``, ``seed`` and the ``sizes`` of its model, recorded ``steps``, and its weights ``flat (records, 820)``."""

    chain: StickyChain
    seed: int
    sizes: dict[str, int]
    steps: np.ndarray
    flat: np.ndarray

    def weights(self, record: int) -> Weights:
        """Weights at a record, float64."""
        return unpack(self.flat[record], self.sizes)

    def inputs(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of its own sequence, float64."""
        seq = data(self.chain, self.seed).train
        return seq.x.double(), seq.y

    def values(self, records: Sequence[int] | slice = slice(None)) -> np.ndarray:
        """Its sampled values ``(records, 200, d_v)``."""
        return value_paths(self.chain, self.seed, self.flat[records], self.sizes)


def followed(study: Study, results: Results, arm: str) -> list[Followed]:
    """Every seed's run of one arm."""
    (group,) = study.groups
    own, sizes, chain = results.group(group.name), dict(group.kwargs), study.data.task.chain
    runs = runs_of(group, ARMS)[arm]
    return [Followed(chain, group.runs[r].seed, sizes, own["steps"], own["weights"][:, r]) for r in runs]


# -- Figure 9 -------------------------------------------------------------------------------------------------------------


def trajectory_values(study: Study, results: Results) -> dict[str, float | Estimate]:
    """EM against SGD on the 200 sampled values of each seed: lengths, alignment, straightness, and how focused attention is at the end."""
    (group,) = study.groups
    own, runs = results.group(group.name), runs_of(group, ARMS)
    sgd, em = runs["sgd"], runs["em"]
    straight = own["straight"].mean(1)
    aligned, straighter = own["pc1"][em] - own["pc1"][sgd], straight[em] - straight[sgd]
    return {
        "fig9/longer": least_of_shares(own["length"][em] > own["length"][sgd]),
        "fig9/aligned": Estimate(float(aligned.min()), bootstrap_error(np.min, aligned)),
        "fig9/straight": Estimate(float(straighter.min()), bootstrap_error(np.min, straighter)),
        "fig9/focus_em": Estimate.mean(own["spread"][-1, em]),
        "fig9/focus_sgd": Estimate.mean(own["spread"][-1, sgd]),
        "fig9/ratio": float((own["length"][em].mean(1) / own["length"][sgd].mean(1)).mean()),
    }


def least_of_shares(happens: np.ndarray) -> Estimate:
    """The least share over seeds ``(seeds, samples)``; its error is that of other seeds (bootstrap) and of other samples in the least one."""
    hits = happens.sum(1)
    seeds = bootstrap_error(np.min, hits / happens.shape[1])
    samples = share_error(int(hits.min()), happens.shape[1])
    return Estimate(float(happens.mean(1).min()), float(np.hypot(seeds, samples)))


def projected(runs: Sequence[Followed]) -> tuple[list[np.ndarray], float]:
    """Sampled values of several runs of one seed on the first two principal components of all their starts and ends: ``(records, 200, 2)`` each, and the
    share of variance that these two hold."""
    paths = [run.values() for run in runs]
    ends = np.concatenate([p[i] for p in paths for i in (0, -1)])
    centre = ends.mean(0)
    _, size, axes = np.linalg.svd(ends - centre, full_matrices=False)
    return [(p - centre) @ axes[:2].T for p in paths], float((size[:2] ** 2).sum() / (size**2).sum())


def plot_value_arrows(em: np.ndarray, sgd: np.ndarray, share: float) -> Figure:
    """Figure 9: start to end of 200 values ``(records, 200, 2)`` on the first two principal axes; EM-like blue, SGD red, as printed."""
    fig, axes = style.figure(2, aspect=0.85, sharex=True, sharey=True)
    ends = np.concatenate([em[0], em[-1], sgd[-1]])
    look = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.005, "alpha": 0.75}
    for ax, paths, arm in ((axes[0], em, "em"), (axes[1], sgd, "sgd")):
        ax.quiver(*paths[0].T, *(paths[-1] - paths[0]).T, color=COLOUR[arm], **look)
        ax.plot(*paths[0].T, ".", color=style.INK, ms=1.5)
        ax.set(title=NAME[arm], xlabel="principal axis 1")
        ax.set(xlim=(ends[:, 0].min(), ends[:, 0].max()), ylim=(ends[:, 1].min(), ends[:, 1].max()))
        ax.margins(0.05)
    axes[0].set_ylabel("principal axis 2")
    axes[1].text(0.98, 0.02, f"{share:.0%} of variance", transform=axes[1].transAxes, ha="right", fontsize=8)
    return fig


# -- do SGD and the schedule find the same? -------------------------------------------------------------------------------


def kl_values(
    em: Curves, chain: StickyChain, runs: Sequence[Followed], sgd: Sequence[Followed]
) -> dict[str, float | Estimate]:
    """KL(EM || SGD) of the predictive distributions over what EM's predictions know, KL(EM || uniform): at the end, where SGD is behind, and at equal loss.

    Args:
        runs, sgd: of both ways to train, with their weights; ``runs`` also for the control: predictions of a seed's run against those of the other seeds' on
            its sequence.
    """
    kl = em["kl"][-1]
    known = math.log(chain.n) - em["entropy"][-1]
    equal = np.array([at_equal_loss(*pair) for pair in zip(runs, sgd, strict=True)])
    return {
        "kl/mean": float(kl.mean()),
        "kl/end": Estimate.mean(kl / known),
        "kl/share": Estimate.mean(equal),
        "kl/other_seed": other_seed(runs),
    }


def at_equal_loss(em: Followed, sgd: Followed) -> float:
    """KL(EM || SGD) over KL(EM || uniform), SGD at its end and EM at the record whose loss is nearest to SGD's."""
    x, y = em.inputs()

    def logs(run: Followed, record: int) -> Tensor:
        return predict(x, *run.weights(record)[:4]).logits.log_softmax(-1)

    last = logs(sgd, -1)
    found = [logs(em, record) for record in range(len(em.steps))]
    losses = torch.stack([-p[torch.arange(len(y)), y].mean() for p in [*found, last]])
    own = found[int((losses[:-1] - losses[-1]).abs().argmin())]
    return divergence(own, last) / divergence(own, torch.full_like(own, -math.log(own.shape[1])))


def divergence(p: Tensor, q: Tensor) -> float:
    """KL(p || q) of log probabilities ``(T, n)``, nats, mean over positions."""
    return float((p.exp() * (p - q)).sum(1).mean())


def other_seed(runs: Sequence[Followed]) -> float:
    """KL of a run's final predictions against those of another seed's run on the same sequence, over what the first knows: mean over pairs."""
    found = []
    for at, own in enumerate(runs):
        x, _ = own.inputs()
        logs = [predict(x, *run.weights(-1)[:4]).logits.log_softmax(-1) for run in runs]
        first = logs.pop(at)
        known = divergence(first, torch.full_like(first, -math.log(first.shape[1])))
        found += [divergence(first, other) / known for other in logs]
    return float(np.mean(found))


def silhouette(points: np.ndarray, labels: np.ndarray) -> float:
    """Mean silhouette of points ``(n, d)`` with labels ``(n,)`` (Rousseeuw 1987): 1 for tight clusters far apart, 0 for none; a point alone counts 0."""
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    kinds, member = np.unique(labels, return_inverse=True)
    within = np.eye(len(kinds))[member]  # (n, kinds)
    counts = within.sum(0)
    own = counts[member]
    sums = distance @ within  # (n, kinds)
    inside = sums[np.arange(len(points)), member] / np.maximum(own - 1, 1)
    nearest = np.where(within > 0, np.inf, sums / counts).min(1)
    return float(np.where(own > 1, (nearest - inside) / np.maximum(nearest, inside), 0.0).mean())


def clusters(run: Followed) -> tuple[float, float, float]:
    """Silhouette of the sampled values by the symbol that each input shows: at the start, at the end, and at the end with shuffled symbols."""
    seq = data(run.chain, run.seed).train
    symbols = (seq.x[:, None] - seq.means).square().sum(-1).argmin(1).numpy()
    labels = symbols[sampled_positions(len(symbols))]
    first, last = run.values([0, -1])
    mixed = numpy_rng(0).permutation(labels)
    return silhouette(first, labels), silhouette(last, labels), silhouette(last, mixed)


def cluster_values(study: Study, results: Results) -> dict[str, list[float]]:
    """Section 9.4 (2): means over seeds for the paper's two ways to train; a larger rate for everything would learn its sequence by heart."""
    found = np.array([[clusters(run) for run in followed(study, results, arm)] for arm in KEPT[:2]])
    start, end, mixed = found.transpose(2, 0, 1)  # (arms, seeds) each
    ends, growth = [paired(own) for own in end], [paired(own) for own in end - start]
    return {
        "clusters/start": start.mean(1).tolist(),
        "clusters/end": [own.value for own in ends],
        "clusters/end_se": [own.error for own in ends],
        "clusters/growth": [own.value for own in growth],
        "clusters/growth_se": [own.error for own in growth],
        "clusters/shuffled": mixed.mean(1).tolist(),
    }


def activation_ratio(runs: Sequence[Followed]) -> dict[str, float]:
    """Root mean square of dL/dv over the larger of those of dL/dq and dL/dk, at the first and the last early record: median over runs."""
    ratios: list[float] = []
    for run in runs:
        x, y = run.inputs()
        for record in (0, int(np.flatnonzero(run.steps <= EARLY)[-1])):
            found = causal_pass(x, y, run.weights(record))
            q, k, v = (float(d.square().mean().sqrt()) for d in (found.dq, found.dk, found.dv))
            ratios.append(v / max(q, k))
    return {"sizes/activation_v_over_qk": float(np.median(ratios))}


# -- time scales of attention and values ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeScale:
    """Attention or values along a run: the way ``left (records,)`` to the last state, when it has ``settled``, and its speed at the end over the largest
    and over the mean."""

    left: np.ndarray
    settled: float
    speed: float
    mean_speed: float

    @classmethod
    def of(cls, states: np.ndarray, steps: np.ndarray) -> TimeScale:
        """Of states ``(records, ..., d)``, compared by the mean 1-norm of the rows."""
        left = way_left(states)
        return cls(left, settles(left, steps), *speed_left(states, steps))


Scales = Sequence[Mapping[str, TimeScale]]


def attention_rows(run: Followed, records: Sequence[int] | None = None) -> np.ndarray:
    """Attention of 100 queries from the second half of the sequence at these records (or at all), ``(records, 100, T)``."""
    x, _ = run.inputs()
    T = len(x)
    later = np.arange(T // 2, T)
    queries = np.sort(numpy_rng(0).choice(later, min(QUERIES, T // 2), replace=False))
    seen = torch.arange(T) <= torch.as_tensor(queries)[:, None]
    rows = []
    for record in range(len(run.steps)) if records is None else records:
        w = run.weights(record)
        s = closed.scores(x[queries] @ w.W_Q.mT, x @ w.W_K.mT)
        rows.append(s.masked_fill(~seen, -torch.inf).softmax(-1).float().numpy())
    return np.array(rows)


def way_left(states: np.ndarray) -> np.ndarray:
    """Distance to the last state over that of the first, ``(records,)``."""
    gap = np.abs(states - states[-1]).sum(-1)
    gap = gap.reshape(len(gap), -1).mean(1)
    return gap / gap[0]


def speed_left(states: np.ndarray, steps: np.ndarray) -> tuple[float, float]:
    """Speed over the last tenth of the records against the largest over any such stretch, and against the mean; near zero where something has settled."""
    stretch = max(1, len(steps) // 10)
    moved = np.abs(states[stretch:] - states[:-stretch]).sum(-1)
    speed = moved.reshape(len(moved), -1).mean(1) / (steps[stretch:] - steps[:-stretch])
    return float(speed[-1] / speed.max()), float(speed[-1] / speed.mean())


def settles(left: np.ndarray, steps: np.ndarray) -> float:
    """First step from which the way left stays at or below :data:`SETTLED`, interpolated."""
    above = np.flatnonzero(left > SETTLED)[-1]
    part = (left[above] - SETTLED) / (left[above] - left[above + 1])
    return float(steps[above] + part * (steps[above + 1] - steps[above]))


def time_scales(run: Followed) -> dict[str, TimeScale]:
    """Of attention and of values along a run."""
    states = {"attention": attention_rows(run), "values": run.values()}
    return {name: TimeScale.of(own, run.steps) for name, own in states.items()}


def frame_values(em: Scales, sgd: Scales, far: Scales) -> dict[str, object]:
    """When attention and values have settled, mean over seeds, and in the longest runs how much later values do and how fast attention still moves."""
    arms = {"em": em, "sgd": sgd, "far": far}
    found: dict[str, object] = {
        f"frame/{arm}_{what}": float(np.mean([s[what].settled for s in scales]))
        for arm, scales in arms.items()
        for what in ("attention", "values")
    }
    later = np.array([s["values"].settled - s["attention"].settled for s in far])
    speeds = [[s[what].mean_speed for s in far] for what in ("attention", "values")]
    return found | {
        "frame/far": paired(later),
        "frame/far_speed": paired(np.array([s["attention"].speed for s in far])),
        "frame/far_mean_speed": np.mean(speeds, 1).tolist(),
    }


def early_moves(run: Followed) -> tuple[float, float]:
    """How far attention and values have moved from their start at the last record of the first :data:`EARLY` steps, each relative to its own size there:
    mean 1-norm of the change of a query's attention, whose own is 1, and mean norm of the change of a value over the mean norm of values."""
    record = int(np.flatnonzero(run.steps <= EARLY)[-1])
    rows, values = attention_rows(run, (0, record)), run.values([0, record])
    attention = np.abs(rows[1] - rows[0]).sum(-1).mean()
    moved = np.linalg.norm(values[1] - values[0], axis=-1).mean()
    return float(attention), float(moved / np.linalg.norm(values[0], axis=-1).mean())


def speed_values(study: Study, results: Results) -> dict[str, Estimate]:
    """Section 10.3's "fast routing, slow values": relative move of attention over that of values, early, means over seeds."""
    moves = {arm: np.array([early_moves(run) for run in followed(study, results, arm)]).T for arm in KEPT[:2]}
    return {f"speeds/{arm}": Estimate.ratio(*own) for arm, own in moves.items()}


def plot_time_scales(runs: Mapping[str, Scales], steps: np.ndarray) -> Figure:
    """Way left of attention less that of values, every seed and their median, one panel an arm."""
    fig, axes = style.figure(len(runs), height=2.6, sharey=True)
    for ax, (name, scales) in zip(axes, runs.items(), strict=True):
        behind = np.array([own["attention"].left - own["values"].left for own in scales])
        ax.plot(steps, behind.T, color=style.PALETTE[0], lw=0.8, alpha=0.5)
        ax.plot(steps, np.median(behind, 0), color=style.PALETTE[0], lw=2.4)
        ax.axhline(0, color=style.INK, lw=0.9)
        ax.set(title=name, xlabel="step")
    axes[0].set_ylabel("way left, attention\nless values")
    middle = axes[len(axes) // 2]
    middle.text(0.5, 0.97, "above 0: attention lags", transform=middle.transAxes, ha="center", va="top", fontsize=8)
    return fig
