"""The schedule of agarwal2025 against other ways to train at the same number of steps, the gap to the minimum, and the sizes of gradients (section 7.2)."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from matplotlib.figure import Figure

from ... import random
from ...drawing import style
from ...random import INIT, generator
from ...statistics import Estimate, bootstrap_error
from ...store import Results
from ...tasks.sticky_chain import LEAVING, StickyChain
from .chain_runs import MATRICES, SHAPES, data
from .closed_forms import causal_predict, causal_step, random_weights
from .figures_6_to_8 import COLOUR, Curves, bayes_losses, steps_to

#: A run has diverged when its loss is above this many times that of its start.
LOST = 10.0


def chain_values(chain: StickyChain, sequences: int) -> dict[str, float | Estimate]:
    """Entropy rate of every reading of the chain; and the best loss from noisy inputs minus that from the clean state, on the same sequences, nats."""
    rates = {f"rate/{kind}_nats": StickyChain(kind).entropy_rate for kind in LEAVING}
    excess, clear = [], replace(chain, noise=0.0)
    for seed in range(sequences):
        numbers = random.drawn(chain, seed, random.PURPOSES["floor of a chain"], ())
        excess.append(chain.bayes_loss(chain.sequence(*numbers)) - clear.bayes_loss(clear.sequence(*numbers)))
    return rates | {"rate/code_bits": rates["rate/code_nats"] / math.log(2), "floor/excess": Estimate.mean(excess)}


def by_hand(chain: StickyChain, seed: int, sharp: float = 2.0) -> float:
    """Loss above the Bayes floor of a head whose weights are written down: queries and keys measure squared distance between symbols' means."""
    seq = data(chain, seed).train
    means = seq.means.double()
    _, _, basis = torch.linalg.svd(means - means.mean(0))
    W_Q, _, W_V, W_O = (torch.zeros(shape, dtype=torch.float64) for shape in SHAPES)
    W_Q[: chain.n - 1] = basis[: chain.n - 1] * math.sqrt(sharp * math.sqrt(10) / 10)  # the span of differences
    W_V[: chain.n] = torch.linalg.pinv(means.mT)  # (n, 20): maps a mean to its symbol's unit vector
    W_O[:, : chain.n] = torch.from_numpy(np.log(chain.transition)).mT
    logits = causal_predict(seq.x.double(), W_Q, W_Q, W_V, W_O).logits
    return float(torch.nn.functional.cross_entropy(logits, seq.y)) - bayes_losses(chain, (seed,))[0]


def summed_loss(chain: StickyChain, seed: int, steps: int) -> np.ndarray:
    """Mean loss along SGD at 0.01 on the SUM over positions, as equation 9 is printed; up to the first above :data:`LOST` times that of the start."""
    own = data(chain, seed)
    x, target = own.train.x.double(), own.target.double()
    weights = random_weights(generator(seed, INIT), chain.d, 10, 15, chain.n, 0.1)[:4]
    losses: list[float] = []
    for _ in range(steps):
        loss, *slopes = causal_step(x, target, *weights)
        losses.append(float(loss))
        if not losses[-1] <= LOST * losses[0]:  # what a run does after it has diverged is decided by rounding
            break
        weights = [p - 0.01 * len(x) * slope for p, slope in zip(weights, slopes, strict=True)]
    return np.array(losses)


ARM_NAMES = {
    "sgd": "rate 0.01 (SGD)",
    "em": "schedule: 10x $W_V$",
    "o10": "10x $W_O$",
    "qk10": "10x $W_Q$, $W_K$",
    "alternating": "alternating EM",
    "uniform0.02": "rate 0.02",
    "uniform0.1": "rate 0.1",
    "uniform1": "rate 1",
    "adam0.001": "Adam 0.001",
}
#: What the schedule is compared with.
RIVALS = ("uniform0.1", "o10", "qk10", "adam0.001")


def fair_values(em: Curves, sgd: Curves, others: Mapping[str, Curves]) -> dict[str, object]:
    """The schedule against everything else at equally many steps by seed: final held-out loss against each rival, and speeds on the trained sequence."""
    half, turns = np.abs(em.steps - em.steps[-1] / 2).argmin(), others["alternating"]
    sooner = em["nll"][half] - sgd["nll"][-1]
    ahead = {name: em.only(others[name].seeds)["held_out"][-1] - others[name]["held_out"][-1] for name in RIVALS}
    em, sgd = em.only(turns.seeds), sgd.only(turns.seeds)
    level = sgd["nll"][-1]
    pace = [steps_to(others[f"uniform{rate:g}"].only(turns.seeds), level).mean() * rate for rate in (0.02, 0.1)]
    steps, last = steps_to(em, level), 0.01 * sgd.steps[-1]
    by_heart = [others[name][kind][-1].mean() for name in ("uniform1", "adam0.001") for kind in ("nll", "held_out")]
    return {f"fair/vs_{name}": Estimate.mean(difference) for name, difference in ahead.items()} | {
        "fair/seeds": [len(difference) for difference in ahead.values()],
        "fair/by_heart": by_heart,
        "fair/flow_law": [float(p / last) for p in pace],
        "fair/equal_rate": Estimate.ratio(np.full(len(steps), last), steps),
        "manual/below_sgd": Estimate.mean(turns["nll"][-1] - level),
        "manual/matched": Estimate.mean(sooner),
        "manual/speedup": Estimate.ratio(np.full(len(steps), sgd.steps[-1]), 2 * steps_to(turns, level)),
        "manual/difference": float((turns["nll"][-1] - em["nll"][-1]).mean()),
    }


def gap_values(chain: StickyChain, every: Mapping[str, Curves], fresh: Results) -> dict[str, object]:
    """Gaps to the floor, means over seeds: of weights by hand, of the lowest held-out loss of any arm at any time, and of a head trained on fresh sequences."""
    seeds = next(iter(every.values())).seeds
    best = min(float(curve["held_out"].mean(1).min()) for curve in every.values())
    return {
        "gap/constructed": Estimate.mean([by_hand(chain, seed) for seed in seeds]),
        "gap/trained": best - float(bayes_losses(chain, seeds, held_out=True).mean()),
        "gap/fresh": float(fresh["runs/gap"][-1].mean()),
    }


def plot_fair_trial(every: Mapping[str, Curves], floor: float, held_out_floor: float) -> Figure:
    """Training loss along the steps, and lowest held-out loss, of every arm on the same seeds; dotted: the Bayes floors."""
    fig, (left, right) = style.figure(2, height=3.6, width_ratios=(1.25, 1))
    best = {name: float(every[name]["held_out"].mean(1).min()) for name in ARM_NAMES if name in every}
    lowest = min(float(every[name]["nll"].mean(1).min()) for name in best)
    for n, name in enumerate(sorted(best, key=best.__getitem__, reverse=True)):
        one_rate = name == "sgd" or name.startswith("uniform")
        colour = COLOUR["sgd"] if one_rate else COLOUR["em"] if name in ("em", "alternating") else style.PALETTE[6]
        look = {"color": colour, "lw": 2.6 if name == "em" else 1.3}
        if name in ("sgd", "em", "o10", "uniform0.1", "uniform1"):  # their ends lie apart
            dash = (0, (1, 1.6)) if name == "o10" else "-"  # it lies on the schedule, which is thicker
            left.plot(every[name].steps, every[name]["nll"].mean(1), label=ARM_NAMES[name], ls=dash, **look)
        right.plot([held_out_floor, best[name]], [-n, -n], **look)
        right.plot(best[name], -n, "o", color=colour, ms=5.5)
        beside = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "fontsize": 8.5, "color": colour}
        right.annotate(ARM_NAMES[name], (best[name], -n), **beside)
    look = {"color": style.INK, "ls": (0, (1, 1.6)), "lw": 1.3}
    left.axhline(floor, **look)
    left.text(500, floor - 0.01, "Bayes floor", va="top", fontsize=8.5)
    right.axvline(held_out_floor, **look)
    right.text(held_out_floor + 0.01, 0.45, "Bayes floor", fontsize=8.5)
    left.set(xlabel="step", ylabel="training loss (nats)", xlim=(0, every["em"].steps[-1]))
    left.set_ylim(0.97 * min(floor, lowest), 2.11)
    style.name_ends(left, 0.075)
    right.set(xlabel="lowest held-out loss (nats)", yticks=[], xlim=(None, held_out_floor + 0.42), ylim=(None, 1))
    return fig


def early_ratios(sgd: Curves, until: int = 100) -> dict[str, float | Estimate]:
    """Value gradient over those of routing in the first steps, medians over seeds and records: of norms, and of root mean squares of the matrices' entries."""
    q, k, v, o = np.moveaxis(sgd["norms"][sgd.steps <= until], -1, 0)  # (records, seeds) each
    found: dict[str, float | Estimate] = {}
    # numbers of entries over those of W_V, (15, 20): W_Q and W_K are (10, 20), W_O is (8, 15)
    for name, ratio, entries in (("qk", v / np.maximum(q, k), 10 / 15), ("o", v / o, 8 / 20)):
        middle = np.median(ratio)  # in the precision that runs are stored in
        found[f"sizes/v_over_{name}"] = Estimate(float(middle), bootstrap_error(np.median, ratio.T))
        found[f"sizes/entry_v_over_{name}"] = float(middle * math.sqrt(entries))
    return found


def plot_gradient_sizes(sgd: Curves) -> Figure:
    """Size of the gradient of W_V over those of the other three matrices along SGD: median and range over seeds, step by step."""
    fig, axes = style.figure(3, height=2.7, sharey=True)
    norms = dict(zip(MATRICES, np.moveaxis(sgd["norms"], -1, 0), strict=True))  # (records, seeds) each
    for ax, name in zip(axes, ("W_Q", "W_K", "W_O"), strict=True):
        ratio = norms["W_V"] / norms[name]
        ax.plot(sgd.steps, np.median(ratio, 1), color=COLOUR["sgd"], lw=2, label="median over seeds")
        ax.fill_between(sgd.steps, ratio.min(1), ratio.max(1), color=COLOUR["sgd"], alpha=0.2, lw=0, label="range")
        ax.axhline(1, color=style.INK, lw=0.9, label="equal")
        ax.set(xlabel="step of SGD", title=f"$W_V$ over ${name}$")
    axes[0].set_ylabel("ratio of norms")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig
