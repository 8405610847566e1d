"""Which step do trained heads take? Signed pairs (he2025, key findings 2 and 3) away from home, and functional descent with a kernel (wang2025, equations 2-3).

One step from zero answers ``rate * sum_i k(x_i, x_q) y_i``. Kernel width and rate are fitted on half of the prompts, and what the answers leave unexplained
is read on the other half, as a share of the answers' own mean square.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from ....models import Attention
from ....models.attention import ACTIVATIONS
from ....models.kernels import KERNELS, kernel_values, relate
from ....models.spectral_attention import SpectralAttention
from ....project import check_profile
from ....statistics import Estimate, standard_error, widened_error
from ....store import Results
from ....tasks import Batch, LinearRegression
from ....tasks.linear_regression import AffineRegression
from ....tasks.spectral_regression import SpectralRegression
from ....training import Run, Sgd
from ....training.study import Group, Study
from ...he2025.circuits import settled, zero_sum
from .models import prompts

Array = np.ndarray
PROMPTS = 4096
#: Prompts that many runs answer at once: what their heads weigh stays in a core's cache.
TOGETHER = 64
#: Groups of he2025 and their activation.
GROUPS = {"h1": "softmax", "h2": "softmax", "linear": "linear"}
#: Range of the kernels' parameter gamma, logarithmic.
GAMMAS = (-6.0, 2.0)


#: What a step answers, ``(PROMPTS,)``; with a kernel that has a width, ``step(log gamma, prompts)``, a function that answers some of the prompts.
Step = Array | Callable[[float, slice], Array]


def answers(kq: Array, ov: Array, batch: Batch, activation: str) -> Array:
    """Answers ``(R, B)`` of the heads of many runs, with circuits ``(R, H, D, >= d)`` and ``(R, H, 1, D)``: :func:`iclbook.models.attend` for all at once."""
    d = len(batch.query)
    kq, ov = (torch.from_numpy(np.asarray(part, float)) for part in (kq, ov))
    found = []
    for tokens, queries in zip(
        batch.context.movedim(-1, 0).split(TOGETHER), batch.query.T.split(TOGETHER), strict=True
    ):  # (B, L, D), (B, d)
        folded = (queries @ kq[..., :d].flatten(0, 2).T).unflatten(1, (-1, kq.shape[-2]))  # (B, R H, D)
        weights = ACTIVATIONS[activation](tokens @ folded.mT)  # (B, L, R H)
        values = tokens @ ov[:, :, 0].flatten(0, 1).T
        found.append((weights * values).sum(1).unflatten(1, kq.shape[:2]).sum(2))
    return torch.cat(found).T.numpy()


def steps(batch: Batch, kernels: Sequence[str] = (*KERNELS, "centred")) -> dict[str, Step]:
    """For each kernel ``sum_i k(x_i, x_q) y_i`` ``(PROMPTS,)``; ``centred`` is the linear kernel on centred covariates."""
    x, y, query = batch.context[:, :-1].movedim(-1, 0), batch.context[:, -1].T, batch.query.T

    def of(kernel: str) -> Step:
        if kernel == "centred":
            relation = relate("inner", query[:, None], x - x.mean(1, keepdim=True))[:, 0]
        else:
            relation = relate(KERNELS[kernel], query[:, None], x)[:, 0]  # (B, L)
        if kernel in ("linear", "centred"):
            return (relation * y).sum(-1).numpy()
        return lambda gamma, some: (
            (kernel_values(kernel, relation[some], float(np.exp(gamma))) * y[some]).sum(-1).numpy()
        )

    return {kernel: of(kernel) for kernel in kernels}


def unexplained(answers: Array, step: Step) -> Array:
    """What each prompt ``(R, PROMPTS / 2)`` that did not choose the best step adds to the share of the mean square of answers ``(R, PROMPTS)`` that it leaves:
    the mean over them is the share."""
    half = answers.shape[1] // 2
    fit, read = answers[:, :half], answers[:, half:]
    made = np.stack(_best_steps(fit, step)) if callable(step) else np.broadcast_to(step, answers.shape)
    rate = np.array([_rate(*pair) for pair in zip(fit, made[:, :half], strict=True)])
    return (read - rate[:, None] * made[:, half:]) ** 2 / (read**2).mean(1, keepdims=True)


def _rate(answer: Array, made: Array) -> float:
    """The best rate of a step."""
    return float(made @ answer / (made @ made))


def _best_steps(fit: Array, step: Callable[[float, slice], Array]) -> list[Array]:
    """For each of the answers ``(R, n)`` to the first prompts, the step whose width fits them best, on all prompts."""
    first = slice(0, fit.shape[1])

    def left(answer: Array, made: Array) -> float:
        return float(((answer - _rate(answer, made) * made) ** 2).mean() / (answer**2).mean())

    grid = np.linspace(*GAMMAS, 17)
    on_grid = [step(gamma, first) for gamma in grid]
    found = []
    for answer in fit:
        best = grid[np.argmin([left(answer, made) for made in on_grid])]
        bounds = best - 0.5, best + 0.5
        width = minimize_scalar(lambda g, a=answer: left(a, step(g, first)), bounds=bounds, method="bounded")
        found.append(step(float(width.x), slice(None)))
    return found


def shares(results: Results, groups: dict[str, str], task: LinearRegression) -> dict[str, dict[str, Array]]:
    """``{group: {kernel: (runs,)}}`` of the trained heads of groups of he2025, at the end; groups are given with their activation."""
    batch = prompts(task, 0, PROMPTS)
    every = steps(batch)
    found = {}
    for group, activation in groups.items():
        answered = answers(*(results[f"{group}/{name}"][-1] for name in ("kq", "ov")), batch, activation)
        found[group] = {kernel: unexplained(answered, step).mean(1) for kernel, step in every.items()}
    return found


def best(by: dict[str, Array]) -> list[str]:
    """The paper's kernels by what they leave, the best first."""
    return sorted(KERNELS, key=lambda kernel: by[kernel].mean())


def kernel_values_of(found: dict[str, dict[str, Array]]) -> dict[str, object]:
    """What the best of the paper's kernels leaves of one head, two heads and linear attention, and what the next best leaves."""
    values: dict[str, object] = {}
    for name, group in (("one", "h1"), ("two", "h2"), ("linear", "linear")):
        first, second = best(found[group])[:2]
        left = found[group][first]
        values |= {
            f"kernel/{name}": Estimate(float(left.mean()), widened_error(left)),
            f"kernel/{name}_next": float(found[group][second].mean()),
        }
    best_of_two = best(found["h2"])[0]
    return values | {"kernel/two_best": best_of_two, "kernel/two_centred": float(found["h2"]["centred"].mean())}


# -- signed pairs ------------------------------------------------------------------------------------------------------------

#: Task of each study: prompts of nagy2026 with equal eigenvalues, and he2025's with twice the covariates, a quarter of the context, as they are, or with
#: labels that have a mean of their own.
TASKS: Mapping[str, LinearRegression | SpectralRegression] = {
    "pairs_embedded": SpectralRegression((1.0,) * 4),
    "pairs_wide": LinearRegression(d=10),
    "pairs_short": LinearRegression(L=10),
    "pairs_descent": LinearRegression(),
    "pairs_affine": AffineRegression(),
}
#: What share of the steps of the others a study takes: autograd is slower than he2025's gradient in C.
SHORTER = {"pairs_affine": 1 / 2}
#: Rate of plain stochastic gradient descent; of 0.01 to 0.3 the one that settled soonest in 4,000 steps of seeds 100 and 101.
DESCENT_RATE = 0.03


@dataclass(frozen=True)
class OnHeads:
    """Observes what each head of a :class:`SpectralAttention` compares and adds, in the coordinates of the tokens."""

    def held_out(self) -> None:
        """Nothing."""

    def __call__(self, model: nn.Module, held_out: None) -> dict[str, Tensor]:
        """``kq`` ``(H, d + 1, d)``, ``ov`` ``(H, 1, d + 1)``, and ``direct`` ``(d,)``: what reaches the answer past the attention."""
        kq, ov, direct = model.heads()
        return {"kq": kq, "ov": ov[:, None], "direct": direct}


def pair_studies(profile: str) -> dict[str, Study]:
    """The studies of signed pairs at a profile, by name; batches and steps are those of he2025's census of seeds."""
    seeds, steps = (24, 40_000) if check_profile(profile) == "paper" else (2, 40)
    runs = tuple(Run(seed) for seed in range(seeds))
    groups: dict[str, tuple[Group, ...]] = {
        "pairs_embedded": tuple(
            Group(kind, SpectralAttention, {"d": 4, "activation": kind}, runs, observe=OnHeads())
            for kind in ("softmax", "linear")
        ),
        "pairs_wide": (Group("softmax", Attention, {"d": 10, "n_heads": 2}, runs),),
        "pairs_short": (Group("softmax", Attention, {"d": 5, "n_heads": 2}, runs),),
        "pairs_descent": (
            Group(
                "softmax",
                Attention,
                {"d": 5, "n_heads": 2},
                tuple(Run(seed, rate=DESCENT_RATE) for seed in range(seeds)),
                Sgd(),
            ),
        ),
        "pairs_affine": (Group("softmax", Attention, {"d": 5, "n_heads": 2}, runs),),
    }

    def study(name: str, steps: int) -> Study:
        marks = (1, *range(9 * steps // 10, steps + 1, steps // 100 or 1))  # settled values are means over the end
        return Study("crossing", name, TASKS[name], groups[name], steps, 64, marks)

    return {name: study(name, round(steps * SHORTER.get(name, 1))) for name in TASKS}


#: What is measured -> study and group.
MODELS = {
    "embedded": ("pairs_embedded", "softmax"),
    "linear": ("pairs_embedded", "linear"),
    "wide": ("pairs_wide", "softmax"),
    "short": ("pairs_short", "softmax"),
    "descent": ("pairs_descent", "softmax"),
    "affine": ("pairs_affine", "softmax"),
}


@dataclass(frozen=True)
class Pairs:
    """Of the trained runs of one model.

    Attributes:
        omega, mu: ``(R, H)`` mean diagonal of each head's KQ, and its output of a label.
        sums: ``(R,)`` abs(sum mu) over sum abs(mu).
        debiased, vanilla: :func:`unexplained` by the best step with covariates centred and as they are.
    """

    omega: Array
    mu: Array
    sums: Array
    debiased: Array
    vanilla: Array

    @property
    def both(self) -> Array:
        """``(R,)`` runs whose heads compare with both signs."""
        return (self.omega > 0).any(1) & (self.omega < 0).any(1)

    @property
    def taken(self) -> Array:
        """``(R,)`` share of what the plain step leaves that the debiased step takes away."""
        return 1 - self.debiased.mean(1) / self.vanilla.mean(1)

    def mean_taken(self, runs: Array | slice) -> Estimate:
        """Mean of :attr:`taken` over these runs, with the errors of the runs and of the prompts, which all of them answer."""
        shares, plain = self.taken[runs], self.vanilla[runs]
        pulls = (self.debiased[runs] - (1 - shares)[:, None] * plain) / plain.mean(1, keepdims=True)
        over_runs = float(standard_error(shares)) if len(shares) > 1 else 0.0
        return Estimate(float(shares.mean()), float(np.hypot(over_runs, standard_error(pulls.mean(0)))))


def pairs(results: Mapping[str, Results]) -> dict[str, Pairs]:
    """All models, from the results of the studies by name."""
    return {name: _of(results[study], study, group) for name, (study, group) in MODELS.items()}


def _of(results: Results, study: str, group: str) -> Pairs:
    task = TASKS[study]
    kq, ov = (results[f"{group}/{name}"].astype(float) for name in ("kq", "ov"))
    omega = np.trace(kq[..., : task.d, : task.d], axis1=-2, axis2=-1) / task.d
    omega, mu = (settled(results[f"{group}/steps"], values) for values in (omega, ov[..., 0, -1]))
    batch = prompts(task, 0, PROMPTS)
    answered = answers(kq[-1], ov[-1], batch, group)
    if f"{group}/direct" in results.arrays:
        answered += results[f"{group}/direct"][-1] @ batch.query.numpy()
    if isinstance(task, AffineRegression):  # what the heads' sum passes on of the labels' mean is no step
        answered -= mu.sum(1)[:, None] * batch.context[:, -1].mean(0).numpy()
    debiased, vanilla = (unexplained(answered, step) for step in steps(batch, ("centred", "linear")).values())
    return Pairs(omega, mu, zero_sum(mu), debiased, vanilla)


def pair_values(found: Mapping[str, Pairs]) -> dict[str, object]:
    """``sum``: abs(sum mu) over sum abs(mu); ``both``: how many runs have heads that compare with both signs, and ``both_sum``, the largest sum among them (1, as
    of heads of one sign, where there are none); ``taken``: what a debiased step takes away of what the plain step leaves, in those runs; ``one_sign/taken``:
    the most that it takes in any other run (0 where there are none); ``output``: sum of mu, in the runs with both signs if there are two."""
    away = ("wide", "short", "descent", "affine")
    others = np.concatenate([found[name].taken[~found[name].both] for name in away[:-1]])
    values: dict[str, object] = {
        "pairs/runs": len(found["embedded"].sums),
        "pairs/embedded/sum": Estimate.mean(found["embedded"].sums),
        "pairs/linear/sum": float(found["linear"].sums.mean()),
        "pairs/one_sign/taken": float(others.max()) if len(others) else 0.0,
    }
    for name, of in found.items():
        values[f"pairs/{name}/taken"] = of.mean_taken(of.both if of.both.any() and name != "linear" else slice(None))
        if name in away:
            values[f"pairs/{name}/both"] = int(of.both.sum())
            if name != "affine":  # where outputs need not cancel
                values[f"pairs/{name}/both_sum"] = float(of.sums[of.both].max()) if of.both.any() else 1.0
        else:
            values[f"pairs/{name}/left"] = float(of.debiased.mean())
    for name in ("affine", "descent"):
        signed = found[name].both if found[name].both.sum() > 1 else slice(None)
        values[f"pairs/{name}/output"] = Estimate.mean(found[name].mu.sum(1)[signed])
    return values
