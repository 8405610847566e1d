"""Table 1, figures 6 to 8 and the fair trial of agarwal2025, from the trained runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from .... import random
from ....claims import printed
from ....statistics import bootstrap_error, ratio_error, share_error, standard_error, widened_error
from ....store import Results
from ....tasks.sticky_chain import StickyChain
from ....training import FullBatch
from ....training.study import Study
from ..runs.full_batch import INIT_SCALE, runs_of
from ..runs.studies import ARMS
from .sequences import bayes_losses, data, filtered_losses, logits


@dataclass
class Curves:
    """Measurements of one arm: ``steps`` ``(T,)`` and ``name -> (T, seeds)``, seeds in the order of ``seeds``."""

    steps: np.ndarray
    seeds: tuple[int, ...]
    values: dict[str, np.ndarray]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[name]

    def only(self, seeds: Iterable[int]) -> Curves:
        """The same for these seeds."""
        chosen = [self.seeds.index(s) for s in seeds]
        return Curves(self.steps, tuple(seeds), {k: v[:, chosen] for k, v in self.values.items()})


def arms(study: Study, results: Results) -> dict[str, Curves]:
    """Every arm of a study, by name."""
    found = {}
    for group in study.groups:
        own = results.group(group.name)
        for arm, runs in runs_of(group, ARMS).items():
            seeds = tuple(group.runs[r].seed for r in runs)
            values = {k: v[:, runs] for k, v in own.items() if v.ndim > 1 and len(v) == len(own["steps"])}
            found[group.name if group.blocks else arm] = Curves(own["steps"], seeds, values)
    return found


def joined(parts: Iterable[Curves]) -> Curves:
    """The same arm over the seeds of several studies; a seed met twice counts once."""
    first, *rest = parts
    seeds, values = list(first.seeds), {k: [v] for k, v in first.values.items()}
    for part in rest:
        new = [s for s in part.seeds if s not in seeds]
        for name in list(values):
            if name in part.values and new:
                values[name].append(part.only(new).values[name])
            elif name not in part.values:
                del values[name]
        seeds += new
    return Curves(first.steps, tuple(seeds), {k: np.concatenate(v, 1) for k, v in values.items()})


def gather(study: Mapping[str, Study], stored: Mapping[str, Results], leaving: str) -> dict[str, Curves]:
    """Every arm on chains of this kind from initial weights of the published size, over the seeds of all studies that trained it."""
    parts: dict[str, list[Curves]] = {}
    for name in stored:
        published = study[name].groups[0].runs[0].init_scale == INIT_SCALE
        whole = isinstance(study[name].data, FullBatch)
        if published and whole and chain_of(study[name]).leaving == leaving:
            for arm, curve in arms(study[name], stored[name]).items():
                parts.setdefault(arm, []).append(curve)
    return {arm: joined(curves) for arm, curves in parts.items()}


def steps_to(curve: Curves, level: np.ndarray) -> np.ndarray:
    """First step at which each seed's loss is down to ``level`` ``(seeds,)``, interpolated between records; the last step where it never is."""
    found = []
    for loss, target in zip(curve["nll"].T, level, strict=True):
        below = np.flatnonzero(loss <= target)
        if not len(below) or below[0] == 0:
            found.append(float(curve.steps[-1] if not len(below) else 0))
            continue
        b = below[0]
        part = (loss[b - 1] - target) / (loss[b - 1] - loss[b])
        found.append(float(curve.steps[b - 1] + part * (curve.steps[b] - curve.steps[b - 1])))
    return np.array(found)


def curve_values(pairs: Mapping[str, tuple[Curves, Curves]], after: int) -> dict[str, float]:
    """Figures 6 to 8: share of seeds in which the EM-like schedule is ahead, the lesser of the chains."""
    loss, entropy, accuracy = [], [], []  # (seeds,) for each chain
    for em, sgd in pairs.values():
        late = em.steps >= after
        loss.append((em["nll"][late] < sgd["nll"][late]).all(0))
        entropy.append(em["entropy"][-1] < sgd["entropy"][-1])
        accuracy.append(em["accuracy"][-1] > sgd["accuracy"][-1])
    return {
        "fig6-8/loss": float(min(seeds.mean() for seeds in loss)),
        "fig6-8/loss_se": least_share_error(loss),
        "fig6-8/entropy": float(min(seeds.mean() for seeds in entropy)),
        "fig6-8/entropy_se": least_share_error(entropy),
        "fig6-8/accuracy": float(min(seeds.mean() for seeds in accuracy)),
        "fig6-8/accuracy_se": least_share_error(accuracy),
    }


def least_share_error(chains: list[np.ndarray]) -> float:
    """Standard error of the least of several shares of runs; of equal ones the largest error."""
    least = min(runs.mean() for runs in chains)
    return max(share_error(int(runs.sum()), len(runs)) for runs in chains if runs.mean() == least)


def learned_values(em: Curves, sgd: Curves, chain: StickyChain) -> dict[str, object]:
    """How much of what can be learned each has, ``(ln n - loss) / (ln n - floor)``, means over seeds with each seed's own Bayes floor; and how much SGD's
    final loss varies. The same of the entropies that Table 1 prints, EM-like and SGD, with its own minimum."""
    top, says = math.log(chain.n), printed("agarwal2025")
    floor = top - np.array(bayes_losses(chain, em.seeds))  # (seeds,), nats that can be learned
    by_em, by_sgd = (top - curve["nll"][-1] for curve in (em, sgd.only(em.seeds)))
    return {
        "chain/floor": float(top - floor.mean()),
        "chain/learned_em": float(by_em.mean() / floor.mean()),
        "chain/learned_em_se": ratio_error(by_em, floor),
        "chain/learned_sgd": float(by_sgd.mean() / floor.mean()),
        "chain/learned_sgd_se": ratio_error(by_sgd, floor),
        "chain/learned_printed": [
            (top - says[f"table1/entropy_{arm}"]) / (top - chain.entropy_rate) for arm in ("em", "sgd")
        ],
        "chain/spread_sgd": float(sgd["nll"][-1].std(ddof=1)),
    }


# -- the chain and its floor ----------------------------------------------------------------------------------------------


def rate_values() -> dict[str, float]:
    """Entropy rate of every reading of the chain, in nats and bits."""
    code, nearer, farther, modulo = (
        StickyChain(kind).entropy_rate for kind in ("code", "nearer", "farther", "modulo")
    )
    return {
        "rate/code_nats": code,
        "rate/nearer_nats": nearer,
        "rate/farther_nats": farther,
        "rate/modulo_nats": modulo,
        "rate/code_bits": code / math.log(2),
        "rate/nearer_bits": nearer / math.log(2),
        "rate/farther_bits": farther / math.log(2),
        "rate/modulo_bits": modulo / math.log(2),
    }


def floor_excess(chain: StickyChain, sequences: int) -> list[float]:
    """Best loss from the noisy inputs minus best loss from the clean state, on the same sequences: ``(sequences,)`` nats."""
    every, best = [], []
    clear, transition = dataclasses.replace(chain, noise=0.0), chain.transition
    for seed in range(sequences):
        numbers = random.drawn(chain, seed, 9, ())
        seq, true = chain.sequence(*numbers), clear.sequence(*numbers)
        state = (true.x[:, None] - true.means).square().sum(-1).argmin(1).numpy()
        best.append(-np.log(transition[state, seq.y.numpy()]).mean())
        every.append(seq)
    return np.subtract(filtered_losses(chain, every), best).tolist()


def by_hand(chain: StickyChain, seed: int, sharp: float = 2.0) -> float:
    """Loss, minus the Bayes floor of the same sequence, of a head of section 7.2's sizes whose weights are written down: queries and keys measure
    squared distance between symbols' means within their 7-dimensional span, values name the symbol, the output holds the log transition matrix."""
    seq = data(chain, seed).train
    means = seq.means.double()
    centre = means.mean(0)
    _, _, basis = torch.linalg.svd(means - centre)
    span = basis[: chain.n - 1]  # (7, 20); differences of means lie in it
    W_Q = torch.zeros(10, chain.d, dtype=torch.float64)
    W_Q[: chain.n - 1] = span * math.sqrt(sharp * math.sqrt(10) / 10)
    names = torch.linalg.pinv(means.mT)  # (n, 20): maps a mean to its symbol's unit vector
    W_V = torch.zeros(15, chain.d, dtype=torch.float64)
    W_V[: chain.n] = names
    W_O = torch.zeros(chain.n, 15, dtype=torch.float64)
    W_O[:, : chain.n] = torch.from_numpy(np.log(chain.transition)).mT
    made = logits(seq.x.double(), W_Q, W_Q, W_V, W_O)
    return float(torch.nn.functional.cross_entropy(made, seq.y)) - bayes_losses(chain, (seed,))[0]


def floor_values(chain: StickyChain, sequences: int) -> dict[str, float]:
    """The Bayes floor's claims."""
    excess = floor_excess(chain, sequences)
    return {
        "floor/excess": float(np.mean(excess)),
        "floor/excess_se": float(standard_error(excess)),
    }


# -- the fair trial -------------------------------------------------------------------------------------------------------


def fair_values(em: Curves, sgd: Curves, others: Mapping[str, Curves]) -> dict[str, object]:
    """The schedule against everything else at the same number of steps, paired by seed."""
    seeds = others["uniform0.1"].seeds
    em, sgd = em.only(seeds), sgd.only(seeds)
    end, level = em["nll"][-1], sgd["nll"][-1]
    behind = {name: end - others[name]["nll"][-1] for name in ("uniform0.1", "o10", "qk10", "adam0.001")}
    pace = {rate: steps_to(others[f"uniform{rate:g}"], level).mean() * rate for rate in (0.02, 0.1)}
    steps, last = steps_to(em, level), 0.01 * sgd.steps[-1]
    turns = others["alternating"]
    half = int(np.argmin(np.abs(turns.steps - turns.steps[-1] / 2)))
    return {
        "fair/seeds": len(seeds),
        "fair/vs_uniform0.1": float(behind["uniform0.1"].mean()),
        "fair/vs_uniform0.1_se": widened_error(behind["uniform0.1"]),
        "fair/vs_o10": float(behind["o10"].mean()),
        "fair/vs_o10_se": widened_error(behind["o10"]),
        "fair/vs_qk10": float(behind["qk10"].mean()),
        "fair/vs_qk10_se": widened_error(behind["qk10"]),
        "fair/vs_adam0.001": float(behind["adam0.001"].mean()),
        "fair/vs_adam0.001_se": widened_error(behind["adam0.001"]),
        "fair/flow_law": [float(p / (sgd.steps[-1] * 0.01)) for p in pace.values()],
        "fair/equal_rate": float(last / steps.mean()),
        "fair/equal_rate_se": ratio_error(np.full(len(steps), last), steps),
        "manual/below_sgd": float((turns["nll"][-1] - level).mean()),
        "manual/below_sgd_se": widened_error(turns["nll"][-1] - level),
        "manual/matched": float((turns["nll"][half] - level).mean()),
        "manual/matched_se": widened_error(turns["nll"][half] - level),
        "manual/difference": float((turns["nll"][-1] - end).mean()),
    }


def gap_values(chain: StickyChain, every: Mapping[str, Curves], fresh: Results) -> dict[str, float]:
    """The printed gap of 0.17: what weights by hand reach, the lowest held-out loss of any arm at any time, and that of a head trained on fresh sequences,
    all above the floor (means over seeds)."""
    seeds = next(iter(every.values())).seeds
    best = min(float(curve["held_out"].mean(1).min()) for curve in every.values())
    floor = float(np.mean(held_out_floor(chain, seeds)))
    constructed = [by_hand(chain, seed) for seed in seeds]
    return {
        "gap/constructed": float(np.mean(constructed)),
        "gap/constructed_se": float(standard_error(constructed)),
        "gap/trained": best - floor,
        "gap/fresh": float(fresh["runs/gap"][-1].mean()),
    }


def held_out_floor(chain: StickyChain, seeds: tuple[int, ...]) -> list[float]:
    """Bayes loss on each seed's held-out sequence."""
    return list(bayes_losses(chain, seeds, held_out=True))


def training_floor(chain: StickyChain, seeds: tuple[int, ...]) -> float:
    """Bayes loss on the training sequences, mean."""
    return float(np.mean(bayes_losses(chain, seeds)))


# -- gradient sizes -------------------------------------------------------------------------------------------------------


def early_ratios(sgd: Curves, until: int = 100) -> dict[str, float]:
    """Size of the value gradient over those of routing in the first steps: medians over seeds and records, of the matrices' norms and of their entries
    (root mean square), since the matrices differ in size."""
    q, k, v, o = np.moveaxis(sgd["norms"][sgd.steps <= until], -1, 0)  # (records, seeds) each
    over_qk, over_o = v / np.maximum(q, k), v / o
    middle_qk, middle_o = np.median(over_qk), np.median(over_o)  # in the precision that runs are stored in
    return {
        "sizes/v_over_qk": float(middle_qk),
        "sizes/v_over_qk_se": bootstrap_error(np.median, over_qk.T),
        "sizes/v_over_o": float(middle_o),
        "sizes/v_over_o_se": bootstrap_error(np.median, over_o.T),
        # a root mean square over entries: W_V is (15, 20), W_Q and W_K are (10, 20), W_O is (8, 15)
        "sizes/entry_v_over_qk": float(middle_qk * math.sqrt(10 / 15)),
        "sizes/entry_v_over_o": float(middle_o * math.sqrt(8 / 20)),
    }


def chain_of(study: Study) -> StickyChain:
    """The chain of a study."""
    return study.data.task.chain
