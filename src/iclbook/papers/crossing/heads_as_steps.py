"""Which step do trained heads take? Signed pairs (he2025, key findings 2 and 3) away from home, and functional descent with a kernel (wang2025, equations 2-3).

One step from zero answers ``rate * sum_i k(x_i, x_q) y_i``. Width and rate are fitted on half of the prompts; the rest tells the share of the mean square that is left.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from ...models import Attention, attend
from ...models.kernels import KERNELS, kernel_values, relate
from ...models.spectral_attention import SpectralAttention
from ...project import check_profile
from ...statistics import Estimate, standard_error
from ...store import Results
from ...tasks import Batch, LinearRegression
from ...tasks.linear_regression import AffineRegression
from ...tasks.spectral_regression import SpectralRegression
from ...training import Group, Observation, Run, Sgd, Study
from ..he2025.circuits import settled, zero_sum
from .models import Array, prompts

PROMPTS = 4096
#: Groups of he2025 and their activation.
GROUPS = {"h1": "softmax", "h2": "softmax", "linear": "linear"}
#: Range of the kernels' parameter gamma, logarithmic.
GAMMAS = (-6.0, 2.0)
#: ``step(log gamma, n, mirrored)``: what a step with a kernel, or with its mirror image ``k(-x_i, x_q)``, answers to the first n prompts, or to all, ``(PROMPTS,)``.
Step = Callable[..., Array]


def answers(kq: Array, ov: Array, batch: Batch, activation: str) -> Array:
    """Answers ``(R, B)`` of the heads of many runs, with circuits ``(R, H, D, >= d)`` and ``(R, H, 1, D)``."""
    runs = zip(*(torch.from_numpy(np.asarray(part, float)) for part in (kq, ov)), strict=True)
    return torch.cat([attend(*circuits, batch.context, batch.query, activation) for circuits in runs]).numpy()


def steps(batch: Batch, kernels: Sequence[str] = (*KERNELS, "centred")) -> dict[str, Step]:
    """For each kernel the :data:`Step` that answers ``sum_i k(x_i, x_q) y_i``; ``centred`` is the linear kernel on centred covariates."""
    x, y, query = batch.context[:, :-1].movedim(-1, 0), batch.context[:, -1].T, batch.query.T

    def of(kernel: str) -> Step:
        keys, kernel = (x - x.mean(1, keepdim=True), "linear") if kernel == "centred" else (x, kernel)
        relations = [relate(KERNELS[kernel], query[:, None], sign * keys)[:, 0] for sign in (1, -1)]  # (B, L) each

        @cache
        def step(log_gamma: float, n: int | None = None, mirrored: bool = False) -> Array:
            return (kernel_values(kernel, relations[mirrored][:n], float(np.exp(log_gamma))) * y[:n]).sum(-1).numpy()

        return step

    return {kernel: of(kernel) for kernel in kernels}


def unexplained(answers: Array, step: Step) -> Array:
    """What each prompt of the second half adds, ``(R, PROMPTS / 2)``, to the share of the answers ``(R, PROMPTS)`` that is left by the best step on the first half."""
    half, found = answers.shape[1] // 2, []
    for answer in answers:
        fit, read = answer[:half], answer[half:]
        made = _best_step(fit, step)
        found.append((read - _rate(fit, made[:half]) * made[half:]) ** 2 / (read**2).mean())
    return np.array(found)


def _rate(answer: Array, made: Array) -> float:
    """The best rate of a step."""
    return float(made @ answer / (made @ made))


def _best_step(fit: Array, step: Step) -> Array:
    """The step, on all prompts, whose width fits these answers ``(n,)`` to the first best; with its kernel's mirror image where that fits better on the grid."""

    def left(log_gamma: float, mirrored: bool) -> float:
        made = step(float(log_gamma), len(fit), mirrored)
        return float(((fit - _rate(fit, made) * made) ** 2).mean() / (fit**2).mean())

    near, mirrored = min(product(np.linspace(*GAMMAS, 17), (False, True)), key=lambda how: left(*how))
    best = minimize_scalar(left, args=(mirrored,), bounds=(near - 0.5, near + 0.5), method="bounded")
    return step(float(best.x), None, mirrored)


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
    """Share that its kernel (of two heads the best of the paper's) leaves of one head, two heads and linear attention, and what the best other one leaves, and the centred one."""
    two = best(found["h2"])[0]
    values: dict[str, object] = {"kernel/two_best": two}
    values |= {
        f"kernel/{name}_centred": found[group]["centred"].mean()
        for name, group in (("two", "h2"), ("linear", "linear"))
    }
    for name, group, kernel in (("one", "h1", "softmax"), ("two", "h2", two), ("linear", "linear", "linear")):
        second = next(other for other in best(found[group]) if other != kernel)
        values[f"kernel/{name}_or_mirror"] = Estimate.mean(found[group][kernel])
        values[f"kernel/{name}_second"] = found[group][second].mean()
    return values


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
#: Rate of plain stochastic gradient descent; of 0.01 to 0.3 the one that settled soonest in 4,000 steps of seeds 100 and 101.
DESCENT_RATE = 0.03


@dataclass(frozen=True)
class OnHeads(Observation):
    """Observes what each head of a :class:`SpectralAttention` compares and adds, in the coordinates of the tokens."""

    def __call__(self, model: nn.Module, held_out: None) -> dict[str, Tensor]:
        """``kq`` ``(H, d + 1, d)``, ``ov`` ``(H, 1, d + 1)``, and ``direct`` ``(d,)``: what reaches the answer past the attention."""
        kq, ov, direct = model.heads()
        return {"kq": kq, "ov": ov[:, None], "direct": direct}


def pair_studies(profile: str) -> dict[str, Study]:
    """The studies of signed pairs at a profile, by name; batches and steps are those of he2025's seed sweep."""
    seeds, most = (24, 40_000) if check_profile(profile) == "paper" else (2, 40)
    runs, studies = tuple(Run(seed) for seed in range(seeds)), {}
    for name, task in TASKS.items():
        steps = most // 2 if name == "pairs_affine" else most  # autograd is slower than he2025's gradient in C
        groups = [Group("softmax", Attention, {"d": task.d, "n_heads": 2}, runs)]
        if name == "pairs_embedded":
            kwargs = {kind: {"d": task.d, "activation": kind} for kind in ("softmax", "linear")}
            groups = [Group(kind, SpectralAttention, kwargs[kind], runs, observe=OnHeads()) for kind in kwargs]
        elif name == "pairs_descent":
            slow = tuple(replace(run, rate=DESCENT_RATE) for run in runs)
            groups = [replace(groups[0], runs=slow, optimiser=Sgd())]
        marks = (1, *range(9 * steps // 10, steps + 1, steps // 100 or 1))  # settled values are means over the end
        studies[name] = Study("crossing", name, task, tuple(groups), steps, 64, marks)
    return studies


#: What is measured -> study and group.
MODELS = {name: (f"pairs_{name}", "softmax") for name in ("embedded", "wide", "short", "descent", "affine")}
MODELS["linear"] = "pairs_embedded", "linear"


class Pairs(NamedTuple):
    """Of R runs each head's mean diagonal of KQ and output of a label ``(R, H)``; what a step with centred covariates, and with plain ones, leaves :func:`unexplained`."""

    omega: Array
    mu: Array
    debiased: Array
    vanilla: Array

    @property
    def sums(self) -> Array:
        """``(R,)`` abs(sum mu) over sum abs(mu)."""
        return zero_sum(self.mu)

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
        return Estimate.runs(shares).widened(standard_error(pulls.mean(0)))


def pairs(results: Mapping[str, Results]) -> dict[str, Pairs]:
    """Pairs of all models, from the results of the studies by name."""
    return {name: pairs_of(results[study], study, group) for name, (study, group) in MODELS.items()}


def pairs_of(results: Results, study: str, group: str) -> Pairs:
    """The runs of one group of a study."""
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
    return Pairs(omega, mu, debiased, vanilla)


def pair_values(found: Mapping[str, Pairs]) -> dict[str, object]:
    """``both_share``: of runs with heads of both signs; in these (if there are two, else in all) means of ``sum``, abs(sum mu) over sum abs(mu), and of ``taken`` and
    ``output``, sum mu; ``one_sign/taken``: the most that is taken in any other run."""
    others = np.concatenate([found[name].taken[~found[name].both] for name in ("wide", "short", "descent")])
    values: dict[str, object] = {
        "pairs/runs": len(found["embedded"].sums),
        "pairs/embedded/sum": Estimate.mean(found["embedded"].sums),
        "pairs/linear/sum": found["linear"].sums.mean(),
        "pairs/one_sign/taken": others.max() if len(others) else 0.0,
    }
    for name, of in found.items():
        signed = of.both if of.both.any() and name != "linear" else slice(None)
        values[f"pairs/{name}/taken"] = of.mean_taken(signed)
        if name in ("embedded", "linear"):
            values[f"pairs/{name}/left"] = of.debiased.mean()
            continue
        values[f"pairs/{name}/both_share"] = Estimate.share(of.both)
        values[f"pairs/{name}/both_mean"] = Estimate.mean(of.sums[of.both if of.both.sum() > 1 else slice(None)])
    for name in ("affine", "descent"):
        signed = found[name].both if found[name].both.sum() > 1 else slice(None)
        values[f"pairs/{name}/output"] = Estimate.mean(found[name].mu.sum(1)[signed])
    return values
