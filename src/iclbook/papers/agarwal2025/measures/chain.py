"""Table 1, figures 6 to 8 and the fair trial of agarwal2025, from the trained runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats

from .... import random
from ....statistics import bootstrap_error, interval, ratio_error, share_error, standard_error
from ....store import Results
from ....tasks.sticky_chain import LEAVING, StickyChain
from ....training import FullBatch
from ....training.study import Study
from ..runs.full_batch import INIT_SCALE, bayes_losses, data, runs_of
from ..runs.studies import ARMS
from ..theory.causal import predict

#: Printed beside ours in figures: mean and standard deviation over 5 seeds.
PRINTED = {
    "loss": {"em": (1.970, 0.034), "sgd": (2.058, 0.007)},
    "entropy": {"em": (1.998, 0.035), "sgd": (2.077, 0.001)},
    "accuracy": {"em": (0.244, 0.016), "sgd": (0.200, 0.009)},
}
#: Printed steps of the schedule to SGD's final loss.
PRINTED_STEPS = (430, 143)
#: Printed means are over so many seeds.
PRINTED_SEEDS = 5
#: Recorded name of each printed metric.
METRICS = {"loss": "nll", "entropy": "entropy", "accuracy": "accuracy"}


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


# -- Table 1 --------------------------------------------------------------------------------------------------------------


def table(em: Curves, sgd: Curves, paper_seeds: Iterable[int]) -> dict[str, float]:
    """Table 1's numbers over all seeds; the t-test on the document's five."""
    steps = steps_to(em, sgd["nll"][-1])
    five = tuple(s for s in paper_seeds if s in em.seeds)
    found = {"steps": float(steps.mean()), "steps_sd": float(steps.std(ddof=1))}
    found["speedup"], found["seeds"] = float(sgd.steps[-1] / steps.mean()), len(em.seeds)
    found["speedup_se"] = ratio_error(np.full(len(steps), sgd.steps[-1]), steps)
    found["p"] = float(stats.ttest_rel(em.only(five)["nll"][-1], sgd.only(five)["nll"][-1]).pvalue)
    for metric, name in METRICS.items():
        for arm, curve in (("em", em), ("sgd", sgd)):
            found[f"{metric}_{arm}"] = float(curve[name][-1].mean())
            found[f"{metric}_{arm}_sd"] = float(curve[name][-1].std(ddof=1))
    return found


def table_values(label: str, chain: StickyChain, found: dict[str, float]) -> dict[str, float]:
    """Table 1's claims for one chain."""
    names = [f"{m}_{a}" for m in METRICS for a in ("em", "sgd")] + ["steps"]
    printed = {f"{m}_{a}": PRINTED[m][a][1] for m in METRICS for a in ("em", "sgd")} | {
        "steps": PRINTED_STEPS[1]
    }
    values = {f"table1/{label}/{key}": found[key] for key in [*names, "speedup", "speedup_se", "p"]}
    for key in names:
        values[f"table1/{label}/{key}_width"] = welch(printed[key], found[f"{key}_sd"], int(found["seeds"]))
    return values | {f"table1/{label}/minimum": chain.entropy_rate}


def welch(printed: float, own: float, seeds: int) -> float:
    """2.8 standard deviations of the difference of two means, from both spreads: theirs over 5 seeds, ours over ``seeds``."""
    return 2.8 * math.sqrt(printed**2 / PRINTED_SEEDS + own**2 / seeds)


def unit_values(found: dict[str, float]) -> dict[str, float]:
    """Section 7.2's "bits", and the standard errors of SGD's entropy and loss by themselves (Table 1's widths hold the printed spread too)."""
    root = math.sqrt(found["seeds"])
    return {
        "units/rate_bits": StickyChain("code").entropy_rate / math.log(2),
        "units/sgd_bits": found["entropy_sgd"] / math.log(2),
        "units/sgd_bits_se": found["entropy_sgd_sd"] / root / math.log(2),
        "table1/code/loss_sgd_se": found["loss_sgd_sd"] / root,
    }


def curve_values(pairs: Mapping[str, tuple[Curves, Curves]], after: int) -> dict[str, float]:
    """Figures 6 to 8: share of seeds in which the EM-like schedule is ahead, the lesser of the chains."""
    ahead: dict[str, list[np.ndarray]] = {"fig6-8/loss": [], "fig6-8/entropy": [], "fig6-8/accuracy": []}
    for em, sgd in pairs.values():
        late = em.steps >= after
        ahead["fig6-8/loss"].append((em["nll"][late] < sgd["nll"][late]).all(0))
        ahead["fig6-8/entropy"].append(em["entropy"][-1] < sgd["entropy"][-1])
        ahead["fig6-8/accuracy"].append(em["accuracy"][-1] > sgd["accuracy"][-1])
    found = {key: float(min(seeds.mean() for seeds in chains)) for key, chains in ahead.items()}
    return found | {f"{key}_se": least_share_error(chains) for key, chains in ahead.items()}


def least_share_error(chains: Iterable[np.ndarray]) -> float:
    """Standard error of the least of several shares of runs; of equal ones the largest error."""
    chains = list(chains)
    least = min(runs.mean() for runs in chains)
    return max(share_error(int(runs.sum()), len(runs)) for runs in chains if runs.mean() == least)


def learned(em: Curves, sgd: Curves, chain: StickyChain, floor: float) -> dict[str, float]:
    """How much of what can be learned each has: ``(ln n - loss) / (ln n - floor)``, means over seeds; and how much SGD's final loss varies."""
    top = math.log(chain.n)
    share = {
        name: float((top - curve["nll"][-1].mean()) / (top - floor))
        for name, curve in (("em", em), ("sgd", sgd))
    }
    return {f"chain/learned_{name}": s for name, s in share.items()} | {
        "chain/spread_sgd": float(sgd["nll"][-1].std(ddof=1))
    }


def kl_values(em: Curves, chain: StickyChain) -> dict[str, float]:
    """KL(EM || SGD) of the predictive distributions at the end, nats."""
    kl = em["kl"][-1]
    known = math.log(chain.n) - em["entropy"][-1]
    return {"kl/mean": float(kl.mean()), "kl/share": float((kl / known).mean())}


# -- the chain and its floor ----------------------------------------------------------------------------------------------


def rate_values() -> dict[str, float]:
    """Entropy rate of every reading of the chain, in nats and bits."""
    rates = {kind: StickyChain(kind).entropy_rate for kind in LEAVING}
    nats = {f"rate/{kind}_nats": rate for kind, rate in rates.items()}
    return nats | {f"rate/{kind}_bits": rate / math.log(2) for kind, rate in rates.items()}


def filter_error(T: int = 6) -> float:
    """The forward filter against the sum over all paths of a short sequence of three symbols."""
    chain = StickyChain("code", T=T, n=3, d=2)
    seq = chain.sequence(*random.drawn(chain, 0, 9, (), dtype=torch.float64))
    x, means = seq.x.numpy(), seq.means.numpy()
    emission = np.exp(-((x[:, None] - means) ** 2).sum(-1) / 2)  # (T - 1, n)
    filtered, worst = chain.bayes_predictive(seq), 0.0
    for t in range(T - 1):
        paths = (
            np.array(np.meshgrid(*[range(3)] * (t + 2), indexing="ij")).reshape(t + 2, -1).T
        )  # states y_0 .. y_{t+1}
        weight = chain.stationary[paths[:, 0]]
        for step in range(t + 1):
            weight = (
                weight * emission[step, paths[:, step]] * chain.transition[paths[:, step], paths[:, step + 1]]
            )
        joint = np.bincount(paths[:, -1], weight, 3)
        worst = max(worst, float(np.abs(joint / joint.sum() - filtered[t]).max()))
    return worst


def floor_excess(chain: StickyChain, sequences: int) -> list[float]:
    """Best loss from the noisy inputs minus best loss from the clean state, on the same sequences: ``(sequences,)`` nats."""
    found = []
    clear = dataclasses.replace(chain, noise=0.0)
    for seed in range(sequences):
        numbers = random.drawn(chain, seed, 9, ())
        seq, true = chain.sequence(*numbers), clear.sequence(*numbers)
        state = (true.x[:, None] - true.means).square().sum(-1).argmin(1).numpy()
        best = -np.log(chain.transition[state, seq.y.numpy()]).mean()
        found.append(chain.bayes_loss(seq) - float(best))
    return found


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
    logits = predict(seq.x.double(), W_Q, W_Q, W_V, W_O).logits
    return float(torch.nn.functional.cross_entropy(logits, seq.y)) - chain.bayes_loss(seq)


def floor_values(chain: StickyChain, sequences: int) -> dict[str, float]:
    """The Bayes floor's claims."""
    excess = floor_excess(chain, sequences)
    return {
        "floor/brute": filter_error(),
        "floor/excess": float(np.mean(excess)),
        "floor/excess_se": float(standard_error(excess)),
    }


# -- the fair trial -------------------------------------------------------------------------------------------------------


def fair_values(em: Curves, sgd: Curves, others: Mapping[str, Curves]) -> dict[str, object]:
    """The schedule against everything else at the same number of steps, paired by seed."""
    seeds = others["uniform0.1"].seeds
    em, sgd = em.only(seeds), sgd.only(seeds)
    found: dict[str, object] = {"fair/seeds": len(seeds)}
    end = em["nll"][-1]
    for name in ("uniform0.1", "o10", "qk10", "adam0.001"):
        difference = end - others[name]["nll"][-1]
        found[f"fair/vs_{name}"] = float(difference.mean())
        found[f"fair/interval_{name}"] = _ends(difference)
    level = sgd["nll"][-1]
    pace = {rate: steps_to(others[f"uniform{rate:g}"], level).mean() * rate for rate in (0.02, 0.1)}
    found["fair/flow_law"] = [float(p / (sgd.steps[-1] * 0.01)) for p in pace.values()]
    steps, last = steps_to(em, level), 0.01 * sgd.steps[-1]
    found["fair/equal_rate"] = float(last / steps.mean())
    found["fair/equal_rate_se"] = ratio_error(np.full(len(steps), last), steps)
    turns = others["alternating"]
    half = int(np.argmin(np.abs(turns.steps - turns.steps[-1] / 2)))
    found["manual/below_sgd"] = _ends(turns["nll"][-1] - level)
    found["manual/matched"] = _ends(turns["nll"][half] - level)
    found["manual/difference"] = float((turns["nll"][-1] - end).mean())
    return found


def _ends(differences: np.ndarray) -> list[float]:
    """Ends of the 95 % interval of a mean difference paired by seed, summed in the precision that runs are stored in."""
    return list(interval(differences, dtype=differences.dtype)[1:])


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
    return [chain.bayes_loss(data(chain, seed).held_out) for seed in seeds]


def training_floor(chain: StickyChain, seeds: tuple[int, ...]) -> float:
    """Bayes loss on the training sequences, mean."""
    return float(np.mean(bayes_losses(chain, seeds)))


# -- gradient sizes -------------------------------------------------------------------------------------------------------


def early_ratios(sgd: Curves, until: int = 100) -> dict[str, float]:
    """Size of the value gradient over those of routing in the first steps: medians over seeds and records, of the matrices' norms and of their entries
    (root mean square), since the matrices differ in size."""
    q, k, v, o = np.moveaxis(sgd["norms"][sgd.steps <= until], -1, 0)  # (records, seeds) each
    found = {}
    for name, ratio, entry in (
        ("v_over_qk", v / np.maximum(q, k), math.sqrt(10 / 15)),
        ("v_over_o", v / o, math.sqrt(8 / 20)),
    ):
        error = bootstrap_error(np.median, ratio.T)
        found |= {f"sizes/{name}": float(np.median(ratio)), f"sizes/{name}_se": error}
        found |= {
            f"sizes/entry_{name}": float(np.median(ratio) * entry),
            f"sizes/entry_{name}_se": error * entry,
        }
    return found


def chain_of(study: Study) -> StickyChain:
    """The chain of a study."""
    return study.data.task.chain
