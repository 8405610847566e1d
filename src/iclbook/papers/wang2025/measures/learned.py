"""GD against Trained TF on the data of appendix E (figures 3, 4, 5): accuracy and NLL against contexts, blocks and steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from ....claims import printed
from ....statistics import standard_error, t_of_mean
from ....store import Results
from ..runs.sizes import SIZES
from ..runs.specs import Scores, scores

#: How a notebook or a test hands in results: ``get(study) -> Results``.
Get = Callable[[str], Results]
#: An NLL counts as reached within this of the value at the largest number of contexts (nats).
REACHED = 0.05
#: Number of contexts that stands for "at none of the numbers tried".
NEVER = 10**9


def t_of_runs(differences: np.ndarray) -> float:
    """Mean of paired differences ``(R,)`` over its standard error; 0 for a single run or runs without spread."""
    return float(t_of_mean(differences)) if np.ptp(differences) > 0 else 0.0


def error_of_runs(differences: np.ndarray) -> float:
    """Standard error of the mean of paired differences ``(R,)``; 0 for the single run that the smoke profile has of costly models."""
    return float(standard_error(differences)) if len(differences) > 1 else 0.0


def paired(differences: np.ndarray, **keys: str) -> dict[str, float]:
    """Statistics of paired differences over runs ``(R,)`` under the keys given for them: ``mean``; ``t``, mean over standard error; ``se``, standard error."""
    every = {
        "mean": float(np.mean(differences)),
        "t": t_of_runs(differences),
        "se": error_of_runs(differences),
    }
    return {key: every[name] for name, key in keys.items()}


@dataclass(frozen=True)
class Sweep:
    """Early-stopped scores against the number of contexts: ``accuracy[model]``, ``nll[model]``, ``train[model]`` of shape ``(len(L), R)``.

    ``train`` is the mean minibatch loss over the recorded stretch that ends at the best validation record, where ``accuracy`` and ``nll`` are taken.
    """

    L: tuple[int, ...]
    accuracy: dict[str, np.ndarray]
    nll: dict[str, np.ndarray]
    train: dict[str, np.ndarray]


def _sweep(L: tuple[int, ...], models: dict[str, Callable[[int], tuple[Results, str]]]) -> Sweep:
    accuracy, nll, train = {}, {}, {}
    for model, where in models.items():
        found = [where(n) for n in L]
        kept = [scores(results, group) for results, group in found]
        accuracy[model] = np.stack([s.stopped("accuracy") for s in kept])
        nll[model] = np.stack([s.stopped("nll") for s in kept])
        train[model] = np.stack(
            [
                np.take_along_axis(results[f"{group}/loss"], s.best[None], axis=0)[0].astype(float)
                for (results, group), s in zip(found, kept, strict=True)
            ]
        )
    return Sweep(L, accuracy, nll, train)


def one_block(get: Get, profile: str) -> Sweep:
    """Figure 3."""
    s = SIZES[profile]
    return _sweep(
        s.L,
        {
            "GD softmax": lambda n: (get(f"gd_inner_L{n}"), "softmax"),
            "GD RBF": lambda n: (get(f"gd_squared_L{n}"), "rbf"),
            "GD linear": lambda n: (get(f"gd_inner_L{n}"), "linear"),
            "GD softmax, scalar alpha": lambda n: (get(f"gd_inner_L{n}"), "softmax-scalar"),
            "TF softmax": lambda n: (get(f"tf_L{n}"), "softmax"),
            "TF RBF": lambda n: (get(f"tf_L{n}"), "rbf"),
        },
    )


def two_blocks(get: Get, profile: str) -> Sweep:
    """Figure 5, left."""
    return _sweep(
        SIZES[profile].deep_L,
        {"GD": lambda n: (get(f"two_gd_L{n}"), "gd"), "TF": lambda n: (get(f"two_tf_L{n}"), "tf")},
    )


def reached(L: tuple[int, ...], nll: np.ndarray, target: float) -> int:
    """The smallest number of contexts from which on the mean NLL stays within :data:`REACHED` of the target; :data:`NEVER` if none.

    A number of contexts of the grid: the true one lies above the grid's point before it.
    """
    below = nll.mean(1) <= target + REACHED
    index = next((i for i in range(len(L)) if below[i:].all()), None)
    return NEVER if index is None else int(L[index])


def figure3(sweep: Sweep) -> dict[str, Any]:
    """What decides figure 3, and the question of the gap."""
    accuracy, nll = sweep.accuracy, sweep.nll
    softmax, linear = accuracy["GD softmax"], accuracy["GD linear"]

    def reach(model: str, kernel: str) -> int:
        return reached(sweep.L, nll[f"{model} {kernel}"], nll[f"GD {kernel}"][-1].mean())

    return {
        "fig3/seeds": softmax.shape[1],
        "fig3/L": list(sweep.L),
        "fig3/softmax_accuracy": softmax.mean(1).tolist(),
        "fig3/softmax_accuracy_tf": accuracy["TF softmax"].mean(1).tolist(),
        **paired(
            (softmax - accuracy["TF softmax"])[-1],
            mean="fig3/softmax_accuracy_gap",
            t="fig3/softmax_accuracy_gap_t",
            se="fig3/softmax_accuracy_gap_se",
        ),
        **paired(
            (nll["TF softmax"] - nll["GD softmax"])[-1],
            mean="fig3/softmax_nll_gap",
            t="fig3/softmax_nll_gap_t",
            se="fig3/softmax_nll_gap_se",
        ),
        "fig3/softmax_reach": reach("GD", "softmax"),
        "fig3/softmax_reach_tf": reach("TF", "softmax"),
        **paired(
            (accuracy["GD RBF"] - accuracy["TF RBF"])[-1],
            mean="fig3/rbf_accuracy_gap",
            t="fig3/rbf_accuracy_gap_t",
            se="fig3/rbf_accuracy_gap_se",
        ),
        **paired(
            (nll["TF RBF"] - nll["GD RBF"])[-1],
            mean="fig3/rbf_nll_gap",
            t="fig3/rbf_nll_gap_t",
            se="fig3/rbf_nll_gap_se",
        ),
        "fig3/rbf_reach": reach("GD", "RBF"),
        "fig3/rbf_reach_tf": reach("TF", "RBF"),
        "fig3/linear_accuracy": float(linear[-1].mean()),
        **paired((softmax - linear)[-1], mean="fig3/linear_behind", se="fig3/linear_behind_se"),
    }


def wide_pair(get: Get) -> dict[str, Any]:
    """One block with the published code's N = 125: accuracy and NLL of GD and of Trained TF (which is given more contexts)."""
    both = scores(get("wide_gd"), "softmax-1"), scores(get("wide_tf"), "softmax")
    return {
        "fig3/wide_accuracy": [float(one.stopped("accuracy").mean()) for one in both],
        "fig3/wide_nll": [float(one.stopped("nll").mean()) for one in both],
    }


def fits(get: Get, profile: str) -> dict[tuple[str, int], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Two blocks along training: ``(model, L) -> steps, training NLL, test NLL`` (means over runs)."""
    found = {}
    for L in SIZES[profile].deep_L:
        for model, study in (("GD", f"two_gd_L{L}"), ("TF", f"two_tf_L{L}")):
            g = get(study).group(model.lower())
            found[model, L] = (g["steps"][1:], g["loss"][1:].mean(1), g["nll_test"][1:].mean(1))
    return found


def gap(sweep: Sweep, deep: Sweep) -> dict[str, Any]:
    """Is the gap of Trained TF data (it fits its contexts better than new ones) or optimisation (it does not fit them)?"""

    def unfitted(s: Sweep, tf: str, gd: str) -> float:
        return float(s.train[tf][-1].mean() - s.train[gd][-1].mean())

    one, two = sweep.nll["TF softmax"] - sweep.train["TF softmax"], deep.nll["TF"] - deep.train["TF"]
    return {
        "q-gap/one_unfitted_large": unfitted(sweep, "TF softmax", "GD softmax"),
        **paired(one[0], mean="q-gap/one_overfit_small", se="q-gap/one_overfit_small_se"),
        **paired(one[-1], mean="q-gap/one_overfit_large", se="q-gap/one_overfit_large_se"),
        **paired(
            behind(sweep.nll["TF softmax"], sweep.nll["GD softmax"])[-1],
            mean="q-gap/one_test_large",
            t="q-gap/one_test_large_t",
        ),
        "q-gap/two_unfitted_large": unfitted(deep, "TF", "GD"),
        **paired(two[0], mean="q-gap/two_overfit_small"),
        **paired(two[-1], mean="q-gap/two_overfit_large"),
        **paired(
            behind(deep.nll["TF"], deep.nll["GD"])[-1],
            mean="q-gap/two_test_large",
            t="q-gap/two_test_large_t",
        ),
    }


def behind(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """``first - second`` ``(..., R)`` over the runs that both have: runs of one number start from one seed and share minibatches."""
    runs = min(first.shape[-1], second.shape[-1])
    return first[..., :runs] - second[..., :runs]


def figure5(sweep: Sweep) -> dict[str, Any]:
    """What decides figure 5, left."""
    gd, tf = sweep.nll["GD"], sweep.nll["TF"]
    between = behind(tf, gd)
    return {
        "fig5/L": list(sweep.L),
        "fig5/seeds": [gd.shape[1], tf.shape[1]],
        "fig5/gd_nll": gd.mean(1).tolist(),
        "fig5/tf_nll": tf.mean(1).tolist(),
        **paired(between[0], mean="fig5/first_gap", se="fig5/first_gap_se"),
        **paired(between[-1], mean="fig5/last_gap", t="fig5/last_gap_t"),
        **paired(gd[0] - gd[-1], mean="fig5/gd_cost", se="fig5/gd_cost_se"),
    }


def courses(get: Get, profile: str) -> dict[str, dict[int, Scores]]:
    """Figure 4: scores along training for each number of blocks, ``N = 10`` and the wide contexts of the published code."""
    s = SIZES[profile]
    narrow = {k: scores(get("deep_gd"), f"softmax-{k}") for k in s.depths}
    wide = {1: scores(get("wide_gd"), "softmax-1")}
    wide |= {k: scores(get("wide_deep"), f"softmax-{k}") for k in s.wide_depths if k > 1}
    return {"narrow": narrow, "wide": wide}


def figure4(found: dict[str, dict[int, Scores]]) -> dict[str, Any]:
    """Figure 4: scores by number of blocks at both context sizes, and what the second block and deeper models gain (paired by seed).

    ``at_end`` is the share of the runs that are best at their last record, which have not converged.
    """
    narrow, wide = found["narrow"], found["wide"]

    def means(by: dict[int, Scores], what: str) -> list[float]:
        return [float(s.stopped(what).mean()) for s in by.values()]

    def late_gain(by: dict[int, Scores]) -> float:
        return float(
            by[2].stopped("nll").mean() - min(s.stopped("nll").mean() for k, s in by.items() if k >= 2)
        )

    def gain(by: dict[int, Scores], what: str, block: int = 2) -> np.ndarray:
        return behind(by[block].stopped(what), by[block - 1].stopped(what))

    return {
        "fig4/narrow_accuracy": means(narrow, "accuracy"),
        "fig4/narrow_nll": means(narrow, "nll"),
        "fig4/narrow_late_gain": late_gain(narrow),
        "fig4/narrow_seeds": [len(s.best) for s in narrow.values()],
        **paired(gain(narrow, "accuracy"), mean="fig4/narrow_gain", se="fig4/narrow_gain_se"),
        **paired(-gain(narrow, "nll"), mean="fig4/narrow_nll_gain", se="fig4/narrow_nll_gain_se"),
        **paired(-gain(narrow, "nll", 3), mean="fig4/narrow_third_gain", se="fig4/narrow_third_gain_se"),
        "fig4/wide_accuracy": means(wide, "accuracy"),
        "fig4/wide_nll": means(wide, "nll"),
        "fig4/wide_late_gain": late_gain(wide),
        "fig4/wide_seeds": [len(s.best) for s in wide.values()],
        "fig4/wide_at_end": float(np.mean([(s.best == len(s.steps) - 1).mean() for s in wide.values()])),
        **paired(gain(wide, "accuracy"), mean="fig4/wide_gain"),
        **paired(-gain(wide, "nll"), mean="fig4/wide_nll_gain"),
    }


def another_draw(value: float, draws: np.ndarray) -> float:
    """Two-sided p value of ``value`` as one more draw from a normal law of which ``draws (n,)`` are known, n at least 2."""
    n = len(draws)
    t = abs(value - draws.mean()) / (draws.std(ddof=1) * np.sqrt(1 + 1 / n))
    return float(2 * stats.t.sf(t, n - 1))


def over_draws(get: Get, profile: str) -> dict[str, Any]:
    """N = 10 or 125: accuracy of one block over draws of W_e, and the p value of the authors' accuracy and NLL as one more draw.

    With ``n`` draws a further one is ``mean + t sd sqrt(1 + 1/n)``, t of Student's law with ``n - 1`` degrees of freedom.
    """
    s, says = SIZES[profile], printed("wang2025")
    accuracy, nll = says["authors/accuracy"][0], says["authors/nll"][0]

    def means(first: Scores, reading: str) -> dict[str, np.ndarray]:
        runs = [first, *(scores(get(f"draw{i}_{reading}"), "softmax-1") for i in range(1, s.draws))]
        return {what: np.array([one.stopped(what).mean() for one in runs]) for what in ("accuracy", "nll")}

    narrow = means(scores(get(f"gd_inner_L{s.L[1]}"), "softmax"), "narrow")
    wide = means(scores(get("wide_gd"), "softmax-1"), "wide")
    return {
        "q-contexts/narrow_accuracy": narrow["accuracy"].tolist(),
        "q-contexts/narrow_accuracy_p": another_draw(accuracy, narrow["accuracy"]),
        "q-contexts/narrow_nll_p": another_draw(nll, narrow["nll"]),
        "q-contexts/wide_accuracy": wide["accuracy"].tolist(),
        "q-contexts/wide_accuracy_p": another_draw(accuracy, wide["accuracy"]),
        "q-contexts/wide_nll_p": another_draw(nll, wide["nll"]),
    }


def alpha(get: Get, profile: str, sweep: Sweep) -> dict[str, Any]:
    """Vector against scalar alpha, trained: one block at the largest L, two blocks at figure 4's L."""
    one = sweep.nll["GD softmax, scalar alpha"][-1] - sweep.nll["GD softmax"][-1]
    results = get("deep_gd")
    two = scores(results, "scalar-2").stopped("nll") - scores(results, "softmax-2").stopped("nll")
    return {
        **paired(one, mean="q-alpha/one_block", t="q-alpha/one_block_t", se="q-alpha/one_block_se"),
        **paired(two, mean="q-alpha/two_blocks", se="q-alpha/two_blocks_se"),
    }


def heads(get: Get) -> dict[str, Any]:
    """Appendix H trained: test NLL with 1, 2, 4 heads without P_m, and of 4 heads against those with P_m."""
    results = get("heads")
    plain = {m: scores(results, f"heads-{m}").stopped("nll") for m in (1, 2, 4)}
    mixed = scores(results, "heads-4-mixed").stopped("nll")
    return {
        "multi-kernel/nll": [float(nll.mean()) for nll in plain.values()],
        **paired(plain[4] - mixed, mean="q-params/without_mixing"),
    }
