"""Two laws of agarwal2025 on other models: attention settles before values, and routing by advantage (equation 23).

Attention and values are compared as functions on the same prompts, not as parameters: attention rows, and what each row averages as the answer sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ....draw import torch_rng
from ....models import Attention
from ....models.attention import ACTIVATIONS
from ....project import check_profile
from ....statistics import Estimate
from ....store import Results
from ....training.computation import Computation
from .landscape import Landscape
from .models import FIRST, MODELS, REGRESSION, prompts
from .waits import ACCURACY, Resting, leave

Array = np.ndarray
#: The way is that until the loss has fallen by this share of what it is at the origin.
FALLEN = 0.25
#: Times of the way at which both are looked at; the integrator's own steps are too few.
TIMES = 201
#: Rate of queries and keys against that of values, in the control.
EXCHANGED = 10.0
#: Model -> initial size.
LEAD_SIZES = {"heads": 0.3, "chain": 0.1, "known": 0.1}


def quicker_routing(landscape: Landscape, factor: float) -> Landscape:
    """The landscape with gradients of the parameters that make scores multiplied by ``factor``."""
    rates = np.where(landscape.routing, factor, 1.0)

    def evaluate(theta: Array) -> tuple[float, Array]:
        value, gradient = landscape.evaluate(theta)
        return value, rates * gradient

    return replace(landscape, evaluate=evaluate, hessian=None)


def halfway(times: Array, states: Array) -> float:
    """Time at which ``states (T, n)`` have come half the way, in mean absolute distance, from the first to the last; interpolated."""
    left = np.abs(states - states[-1]).mean(1)
    left = left / left[0]
    above = int(np.flatnonzero(left > 0.5)[-1])
    part = (left[above] - 0.5) / (left[above] - left[above + 1])
    return float(times[above] + part * (times[above + 1] - times[above]))


def lead(landscape: Landscape, start: Array) -> float:
    """Logarithm of the time at which attention is half-way over that of values, along gradient flow from ``start`` until :data:`FALLEN` of the loss is gone;
    not a number if the model rests before."""
    try:
        flow = leave(landscape, start, FALLEN, between=True).resampled(TIMES)
    except Resting:
        return float("nan")
    attention, values = landscape.look(flow.states)
    return float(np.log(halfway(flow.times, attention) / halfway(flow.times, values)))


def leads(model: str, draws: Sequence[int]) -> dict[str, Array]:
    """Leads ``(D,)`` of a model on each draw of prompts and of a direction: with ``equal`` rates, and with ``quicker`` routing."""
    found: list[tuple[float, float]] = []
    for draw in draws:
        landscape = MODELS[model](draw)
        start = LEAD_SIZES[model] * landscape.start(draw)
        found.append((lead(landscape, start), lead(quicker_routing(landscape, EXCHANGED), start)))
    equal, quicker = np.array(found).T
    return {"equal": equal, "quicker": quicker}


def lead_computations(profile: str) -> dict[str, Computation]:
    """The leads of every model at a profile, over the draws that decide. A model may rest. A lead is a small difference of
    two times, and as much less exact than they."""
    draws = 400 if check_profile(profile) == "paper" else 2
    models = tuple(LEAD_SIZES)
    found = Computation("crossing", "leads", leads, models, FIRST, draws, 100 * ACCURACY, models)
    return {found.name: found}


@dataclass(frozen=True)
class Leads:
    """Of one model: leads ``(draws,)`` with equal rates and with quicker routing, and how many draws were passed over, from which the model came to rest
    before it had taken the way."""

    equal: Array
    quicker: Array
    passed_over: int


def kept_leads(followed: Results) -> dict[str, Leads]:
    """Leads of each model on the draws from which it can take that way at both rates."""
    found = {}
    for name in LEAD_SIZES:
        both = np.stack([followed[f"{name}/equal"], followed[f"{name}/quicker"]])
        went = np.isfinite(both).all(0)
        found[name] = Leads(*both[:, went], int((~went).sum()))
    return found


def timing_values(found: Mapping[str, Leads]) -> dict[str, object]:
    """Mean logarithms of attention's time over that of values: at equal rates, with quicker queries and keys, and by how much that brings attention forward."""
    values: dict[str, object] = {"timing/passed_over": sum(of.passed_over for of in found.values())}
    for name, of in found.items():
        values[f"timing/{name}"] = Estimate.mean(of.equal)
        values[f"timing/{name}_quicker"] = Estimate.mean(of.quicker)
        values[f"timing/{name}_gain"] = Estimate.mean(of.equal - of.quicker)
    return values


KINDS = ("softmax", "affine", "square", "linear")


def deviation(activation: str, seed: int) -> float:
    """Largest deviation of ``dL/ds_i = a_i (b_i - sum_j a_j b_j)`` from autograd, as a share of the largest gradient, on a random head with this activation.

    Compatibility ``b = u . v`` is taken from the values and from the gradient ``u`` in what attention puts out.
    """
    generator = torch_rng(seed)
    model = Attention(2, 2, activation=activation).double()
    model.initialise(generator)
    batch = prompts(REGRESSION, seed)
    circuits = model.circuits()
    folded = torch.einsum("hed,db->heb", circuits["kq"][:, :, :2], batch.query)
    scores = torch.einsum("heb,leb->hlb", folded, batch.context).detach().requires_grad_()
    weights = ACTIVATIONS[activation](scores)
    values = torch.einsum("hnd,ldb->hnlb", circuits["ov"], batch.context).detach()[:, 0]  # (H, L, B)
    answer = (weights * values).sum((0, 1))
    loss = ((answer - batch.target[0]) ** 2).mean()
    by_score, by_answer = torch.autograd.grad(loss, [scores, answer])
    compatibility = by_answer * values
    mean = (weights * compatibility).sum(1, keepdim=True)
    law = (weights * (compatibility - mean)).detach()
    return float((law - by_score).abs().max() / by_score.abs().max())


def routing_values(draws: int) -> dict[str, float]:
    """Least deviation over the draws, of each activation that is not softmax."""
    every = range(FIRST, FIRST + draws)
    return {f"routing/{kind}": min(deviation(kind, seed) for seed in every) for kind in KINDS[1:]}
