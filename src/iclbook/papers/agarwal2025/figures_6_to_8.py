"""Table 1 and Figures 6 to 8 of agarwal2025: the EM-like schedule against SGD on the sticky chain."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from ... import claims
from ...draw import numpy_rng
from ...drawing import style
from ...drawing.figure_data import Table
from ...statistics import Estimate, prediction, share_error
from ...store import Results
from ...tasks.sticky_chain import StickyChain
from ...training import FullBatch, Study
from .chain_runs import INIT_SCALE, data, runs_of
from .runs import ARMS


@dataclass
class Curves:
    """Measurements of one arm: ``steps`` ``(T,)`` and ``name -> (T, seeds)``, seeds in the order of ``seeds``."""

    steps: np.ndarray
    seeds: tuple[int, ...]
    values: dict[str, np.ndarray]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[name]

    def only(self, seeds: Iterable[int]) -> "Curves":
        """Curves of these seeds."""
        chosen = [self.seeds.index(s) for s in seeds]
        return Curves(self.steps, tuple(seeds), {k: v[:, chosen] for k, v in self.values.items()})


def joined(first: Curves, second: Curves) -> Curves:
    """One arm over the seeds of two studies."""
    assert not set(first.seeds) & set(second.seeds), "a seed of two studies"
    values = {name: np.concatenate([own, second[name]], 1) for name, own in first.values.items()}
    return Curves(first.steps, first.seeds + second.seeds, values)


def gather(
    studies: Mapping[str, Study], stored: Mapping[str, Results], leaving: str, init_scale: float = INIT_SCALE
) -> dict[str, Curves]:
    """Arms on sequences of a run's own, from chains of this kind, over the seeds of all studies that trained it from initial weights of this size."""
    found: dict[str, Curves] = {}
    for name, results in stored.items():
        source, groups = studies[name].data, studies[name].groups
        own_sequences = isinstance(source, FullBatch) and source.task.chain.leaving == leaving
        if not own_sequences or groups[0].runs[0].init_scale != init_scale:
            continue
        for group in groups:
            own = results.group(group.name)
            for arm, runs in runs_of(group, ARMS).items():
                seeds, key = tuple(group.runs[r].seed for r in runs), group.name if group.blocks else arm
                measured = ("nll", "entropy", "accuracy", "spread", "kl", "held_out", "norms")
                part = Curves(own["steps"], seeds, {kind: own[kind][:, runs] for kind in measured})
                found[key] = joined(found[key], part) if key in found else part
    assert found["em"].seeds == found["sgd"].seeds, "runs are paired by seed"
    return found


def steps_to(curve: Curves, level: np.ndarray) -> np.ndarray:
    """First step at which each seed's loss is down to ``level`` ``(seeds,)``, interpolated between records; the last step where it never is."""
    loss, steps, seeds = curve["nll"], curve.steps, np.arange(len(level))
    reached = loss <= level
    b = np.maximum(reached.argmax(0), 1)  # the record by which it is
    part = (loss[b - 1, seeds] - level) / (loss[b - 1, seeds] - loss[b, seeds])
    between = steps[b - 1] + part * (steps[b] - steps[b - 1])
    return np.where(reached[0], 0, np.where(reached.any(0), between, steps[-1]))


@lru_cache(maxsize=16)
def bayes_losses(chain: StickyChain, seeds: tuple[int, ...], held_out: bool = False) -> np.ndarray:
    """Loss in nats of the best possible prediction on each seed's own training sequence, or on the one held out."""
    own = [data(chain, seed) for seed in seeds]
    return np.array([chain.bayes_loss(of.held_out if held_out else of.train) for of in own])


def learned_values(em: Curves, sgd: Curves, chain: StickyChain) -> dict[str, object]:
    """Share learned of what can be, ``(ln n - loss) / (ln n - floor)`` with each seed's own Bayes floor; and of the entropies that Table 1 prints."""
    top, says = math.log(chain.n), claims.printed("agarwal2025")
    floor = top - bayes_losses(chain, em.seeds)  # (seeds,), nats that can be learned
    printed = [(top - says[f"table1/entropy_{arm}"]) / (top - chain.entropy_rate) for arm in ("em", "sgd")]
    return {
        "chain/floor": float(top - floor.mean()),
        "chain/learned_em": Estimate.ratio(top - em["nll"][-1], floor),
        "chain/learned_sgd": Estimate.ratio(top - sgd["nll"][-1], floor),
        "chain/learned_printed": printed,
        "chain/spread_sgd": float(sgd["nll"][-1].std(ddof=1)),
    }


#: Recorded name of each printed metric, and its title.
METRICS = {"loss": "nll", "entropy": "entropy", "accuracy": "accuracy"}
TITLES = {"loss": "loss (nats)", "accuracy": "accuracy", "entropy": "entropy (nats)"}
#: Rows of Table 1: metric and arm, with the row of the other arm.
ROWS = {f"{m}_{arm}": f"{m}_{other}" for m in METRICS for arm, other in (("em", "sgd"), ("sgd", "em"))} | {
    "steps": "steps_sgd"
}


def printed_table() -> dict[str, tuple[float, float]]:
    """Printed values of Table 1: mean and standard deviation over seeds of each metric, and of the schedule's steps to SGD's final loss."""
    says = claims.printed("agarwal2025")
    return {n: (says[f"table1/{n}"], says.get(f"table1/{n}_sd", 0.0)) for n in (*ROWS, "steps_sgd")}


def table(em: Curves, sgd: Curves) -> dict[str, Any]:
    """Table 1's numbers, each with its ``_sd`` and the half-width ``_width`` of the interval in which a mean of five seeds is expected; and ``spreads``, printed
    standard deviations over ours, with the bounds of such ratios (F test of normal samples)."""
    printed, five = printed_table(), int(claims.printed("agarwal2025")["table1/seeds"])
    steps, difference = steps_to(em, sgd["nll"][-1]), em["nll"][-1] - sgd["nll"][-1]
    ends = {f"{m}_{arm}": c[name][-1] for m, name in METRICS.items() for arm, c in (("em", em), ("sgd", sgd))}
    found: dict[str, Any] = {}
    for name, values in (ends | {"steps": steps}).items():
        expected = prediction(values, five)
        found[name] = expected.mean
        found[f"{name}_sd"], found[f"{name}_width"] = float(values.std(ddof=1)), expected.high - expected.mean
    tail = 0.025 / len(ends)  # Bonferroni: all of them together are inside in 95 of 100 repetitions
    low, high = stats.f.ppf((tail, 1 - tail), five - 1, len(em.seeds) - 1) ** 0.5
    return found | {
        "speedup": Estimate.ratio(np.full(len(steps), sgd.steps[-1]), steps),
        "difference": Estimate.mean(difference),
        "p_share": p_share(difference, five),
        "spreads": [printed[name][1] / found[f"{name}_sd"] for name in ends],
        "spread_low": float(low),
        "spread_high": float(high),
        "seeds": len(em.seeds),
    }


def p_share(differences: np.ndarray, five: int, draws: int = 4000) -> Estimate:
    """Share of draws of ``five`` of the paired differences ``(seeds,)`` whose t-test has at most the printed p, with the error of as many draws as share no seed."""
    drawn = differences[numpy_rng(0).random((draws, len(differences))).argsort(1)[:, :five]]
    share = float((stats.ttest_1samp(drawn, 0, axis=1).pvalue <= claims.printed("agarwal2025")["table1/p"]).mean())
    apart = max(1, len(differences) // five)
    return Estimate(share, share_error(round(share * apart), apart))


def table_values(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Table 1's claims from :func:`table` of each chain; and in bits, as section 7.2 says, the entropy rate and SGD's predictive entropy."""
    published, code = StickyChain("code").entropy_rate, tables["code"]
    values = {f"table1/{chain}/minimum": published for chain in tables}
    values["table1/text/minimum"] = StickyChain("nearer").entropy_rate
    values["units/rate_bits"] = published / math.log(2)
    error = code["entropy_sgd_sd"] / math.sqrt(code["seeds"])
    values["units/sgd_bits"] = Estimate(code["entropy_sgd"], error) * (1 / math.log(2))
    for chain, found in tables.items():
        left_out = ("seeds", *(["p_share"] if chain == "small" else []))  # five seeds are one draw
        kept = {name: value for name, value in found.items() if name not in left_out and not name.endswith("_sd")}
        values |= {f"table1/{chain}/{name}": value for name, value in kept.items()}
    return values


def table_beside_ours(found: Mapping[str, Any], chain: str, folded: bool = False) -> Table:
    """Table 1 beside ours on a chain, the interval in which a mean of five seeds is expected, and whether the printed numbers of this and of the other arm lie in it."""
    printed, rows = printed_table(), []
    for key, other in ROWS.items():
        mean, sd = printed[key]
        metric, _, arm = key.partition("_")
        digits = ".0f" if key == "steps" else ".3f"
        own, width = found[key], found[f"{key}_width"]
        row = {
            "at the end": f"{TITLES[metric]}, {NAME[arm]}" if arm else "steps to SGD's loss",
            "printed": f"{mean:{digits}} \u00b1 {sd:{digits}}",
            f"ours, {found['seeds']} seeds": f"{own:{digits}} \u00b1 {found[f'{key}_sd']:{digits}}",
            "a mean of 5 seeds": f"{own - width:{digits}} to {own + width:{digits}}",
            "printed is": "inside" if abs(own - mean) <= width else "outside",
            "printed for the other arm is": "inside" if abs(printed[other][0] - mean) <= width else "outside",
        }
        rows.append(row)
    return Table(rows, {heading: heading for heading in rows[0]}, f"Table 1 beside ours, on {chain}", folded)


#: Of this chapter: the schedule, one rate for everything (SGD's or a larger one), the values, and attention with the contexts.
COLOUR = {"em": style.COLOURS["schedule"], "sgd": style.COLOURS["sgd"]}
COLOUR |= {"values": style.COLOURS["measured"], "attention": style.PALETTE[3]}
NAME = {"em": "schedule", "sgd": "SGD"}
DASH = {"em": "-", "sgd": (0, (4, 1.5))}


def curve_values(pairs: Mapping[str, tuple[Curves, Curves]]) -> dict[str, Estimate]:
    """Figures 6 to 8: the EM-like schedule minus SGD, mean over a training (the area between the curves) by seed; one value a chain."""

    def apart(em: Curves, sgd: Curves, name: str) -> Estimate:
        return Estimate.mean(np.trapezoid(em[name] - sgd[name], em.steps, axis=0) / np.ptp(em.steps))

    areas = {metric: [apart(*both, name) for both in pairs.values()] for metric, name in METRICS.items()}
    return {f"fig6-8/{metric}_apart": Estimate.stack(of) for metric, of in areas.items()}


def plot_curves(em: Curves, sgd: Curves, floor: float) -> Figure:
    """Figures 6 to 8 side by side: mean and range over seeds; the printed ends as diamonds with their standard deviations."""
    fig, axes = style.figure(3, height=3.0)
    printed, look = printed_table(), {"fmt": "D", "color": style.COLOURS["paper"], "ms": 4.5, "capsize": 2}
    for ax, (metric, title) in zip(axes, TITLES.items(), strict=True):
        for arm, curve in (("em", em), ("sgd", sgd)):
            values, colour = curve[METRICS[metric]], COLOUR[arm]
            ax.fill_between(curve.steps, values.min(1), values.max(1), fc=colour, ec=colour, alpha=0.15, lw=1)
            ax.plot(curve.steps, values.mean(1), color=colour, ls=DASH[arm])
            ax.errorbar(curve.steps[-1] * 1.03, *printed[f"{metric}_{arm}"], **look)
            beside = {"textcoords": "offset points", "fontsize": 8.5, "color": colour, "va": "center"}
            ax.annotate(
                NAME[arm],
                (curve.steps[-1] * 1.03, printed[f"{metric}_{arm}"][0]),
                (6, 0),
                annotation_clip=False,
                **beside,
            )
        ax.set(xlabel="step", title=title)
    steps, sd = printed["steps"]  # of the schedule to SGD's printed loss
    level = printed["loss_sgd"][0]
    axes[0].errorbar(steps, level, xerr=sd, **look)
    axes[0].plot((steps, sgd.steps[-1] * 1.03), (level, level), color=style.COLOURS["paper"], lw=0.8)
    name = {"ha": "center", "va": "bottom", "fontsize": 8, "color": style.COLOURS["paper"]}
    name["arrowprops"] = {"arrowstyle": "-", "color": style.COLOURS["paper"], "lw": 0.8, "shrinkB": 3}
    axes[0].annotate("SGD's loss reached", (steps, level), (steps + 90, level + 0.04), **name)
    axes[0].axhline(floor, color=style.INK, ls=(0, (1, 1.6)), lw=1.3, label="Bayes floor")
    axes[0].set_ylim(top=level + 0.065)
    axes[0].plot([], [], color=style.INK, label="mean over seeds")
    axes[0].fill_between([], [], color=style.INK, alpha=0.15, label="range over seeds")
    axes[0].plot([], [], "D", color=style.COLOURS["paper"], label="printed")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return fig
