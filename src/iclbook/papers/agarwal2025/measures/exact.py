"""Closed forms of agarwal2025 against autograd, and what its first-order updates miss."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ....models.single_head import SingleHead
from ....random import generator
from ..theory import causal, updates
from ..theory import gradients as closed
from .cases import Case, random_case, relative

#: Step sizes over which exponents are fitted.
STEP_SIZES = np.geomspace(1e-4, 1e-2, 5)


def autograd(case: Case) -> dict[str, Tensor]:
    """The gradients of the summed loss (equation 9) by autograd, named as by :func:`closed.every_gradient`."""
    x, y, w, mask = case
    w = closed.Weights(*[p.clone().requires_grad_() for p in w])
    f = closed.forward(x, w, mask)
    nodes = {"logits": f.logits, "g": f.g, "v": f.v, "alpha": f.alpha, "s": f.s, "q": f.q, "k": f.k}
    nodes |= w._asdict()
    loss = torch.nn.functional.cross_entropy(f.logits, y, reduction="sum")
    return dict(zip(nodes, torch.autograd.grad(loss, list(nodes.values())), strict=True))


def gradient_error(index: int) -> float:
    """Largest relative error of any closed form on one random case."""
    case = random_case(index)
    _, found = closed.every_gradient(*case)
    return max(relative(found[name], truth) for name, truth in autograd(case).items())


def closed_forms(n: int = 240) -> dict[str, float]:
    """Equations 13 to 32 on ``n`` random cases, and equation 18 by itself."""
    jacobian = 0.0
    for index in range(20):
        s = random_case(index).x
        truth = torch.stack([torch.autograd.functional.jacobian(lambda r: r.softmax(-1), row) for row in s])
        jacobian = max(jacobian, relative(closed.softmax_jacobian(s.softmax(-1)), truth))
    return {
        "eq/gradients": max(gradient_error(index) for index in range(n)),
        "eq/sizes": len(
            {tuple(part.shape for part in (*random_case(i).w, random_case(i).x)) for i in range(n)}
        ),
        "eq/jacobian": jacobian,
        "eq/blocked": max(blocked_error(T, scale) for T in (5, 96, 97, 250) for scale in (0.1, 0.5, 0.8)),
    }


def blocked_error(T: int, scale: float) -> float:
    """The evaluation by blocks against autograd through the plain causal model, float64."""
    gen = generator(T, 8)
    x, y = torch.randn(T, 20, generator=gen, dtype=torch.float64), torch.randint(0, 8, (T,), generator=gen)
    model = SingleHead().double()
    model.initialise(gen, scale)
    logits = model(x)
    loss = torch.nn.functional.cross_entropy(logits, y)
    weights = [model.W_Q, model.W_K, model.W_V, model.W_O]
    truth = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        found = causal.step(x, torch.nn.functional.one_hot(y, 8).double(), *weights)
        seen = causal.predict(x, *weights).logits
    errors = [relative(a, b) for a, b in zip(found[1:], truth, strict=True)]
    return max(*errors, abs(float(found.loss - loss.detach())), relative(seen, logits.detach()))


def orientation(n: int = 100) -> dict[str, float]:
    """Equation 32 with ``A`` as defined."""
    right = []
    for index in range(n):
        case = random_case(index)
        truth = autograd(case)["W_V"]
        f = closed.forward(case.x, case.w, case.mask)
        u = closed.upstream(f.p, case.y, case.w.W_O)
        right.append(relative(closed.value_projection_gradient(u, f.alpha, case.x), truth))
    return {"eq/orientation": max(right)}


# -- first-order updates --------------------------------------------------------------------------------------------------


def _exponent(missed: list[float]) -> float:
    return float(np.polyfit(np.log(STEP_SIZES), np.log(np.abs(missed)), 1)[0])


def _loss(case: Case, v: Tensor, s: Tensor) -> Tensor:
    """Losses ``(T,)`` from free values and scores."""
    *_, logits, _ = closed.attend(s, v, case.w.W_O, case.w.b, case.mask)
    return closed.losses(logits, case.y)


def first_order(n: int = 40) -> dict[str, float | list[float]]:
    """What first order misses: medians over ``n`` cases of the exponents in the step size; equations 39 and 42, 43 where they are exact."""
    kinds: dict[str, list[float]] = {name: [] for name in ("v", "s", "q", "k", "one")}
    context = []
    for index in range(n):
        case = random_case(index)
        f = closed.forward(case.x, case.w, case.mask)
        _, d = closed.every_gradient(*case)
        u = d["g"]
        missed: dict[str, list[float]] = {name: [] for name in kinds}
        j = index % len(case.x)
        for rate in STEP_SIZES:
            moved = {
                "v": _loss(case, f.v - rate * d["v"], f.s),
                "s": _loss(case, f.v, f.s - rate * d["s"]),
                "q": _loss(case, f.v, closed.scores(f.q - rate * d["q"], f.k)),
                "k": _loss(case, f.v, closed.scores(f.q, f.k - rate * d["k"])),
            }
            before = _loss(case, f.v, f.s)
            for name, after in moved.items():
                missed[name].append(float((after - before).sum() + rate * (d[name] ** 2).sum()))
            v = f.v.clone()
            v[j] += updates.value_step(f.alpha, u, rate)[j]
            change = _loss(case, v, f.s) - before
            predicted = updates.loss_change(f.alpha, u, rate)[:, j]
            missed["one"].append(float((change - predicted).abs().max()))
            if rate == STEP_SIZES[-1]:
                most = int((d["v"] ** 2).sum(-1).argmax())
                v = f.v.clone()
                v[most] -= d["v"][most]
                moved_g = closed.attend(f.s, v, case.w.W_O, case.w.b, case.mask)[1] - f.g
                context.append(relative(updates.context_change(f.alpha, u, 1.0)[:, most], moved_g))
        for name, values in missed.items():
            if min(map(abs, values)) > 1e-13:  # else rounding is all that is left
                kinds[name].append(_exponent(values))
    return {
        "eq/second_order": [float(np.median(kinds[name])) for name in "vsqk"],
        "eq/loss_change": float(np.median(kinds["one"])),
        "eq/context": max(context),
        "eq/dominant_limit": _dominant_limit(),
    }


def _dominant_limit(T: int = 6, d: int = 4) -> float:
    """Equations 42 and 43 against 39 and 41 where each value has a single user."""
    gen = generator(0, 9)
    alpha = torch.eye(T, dtype=torch.float64)[torch.randperm(T, generator=gen)]
    u = torch.randn(T, d, generator=gen, dtype=torch.float64)
    contexts = relative(updates.dominant_context(alpha, u, 0.1), updates.context_change(alpha, u, 0.1))
    return max(contexts, relative(updates.dominant_loss(alpha, u, 0.1), updates.loss_change(alpha, u, 0.1)))


def readings_of_updates(n: int = 100) -> dict[str, float]:
    """Equations 33 to 36 as changes of free v, s, q, k, as what follows from free q and k, and as what a step on the weights does."""
    free, follow, weights = [], [], []
    for index in range(n):
        case = random_case(index)
        truth, (_, d) = autograd(case), closed.every_gradient(*case)
        f = closed.forward(case.x, case.w, case.mask)
        u = d["g"]
        printed = {
            "v": updates.value_step(f.alpha, u, 1.0),
            "s": updates.score_step(f.alpha, d["alpha"], 1.0),
            "q": -d["q"],
            "k": -d["k"],
        }
        free.append(max(relative(step, -truth[name]) for name, step in printed.items()))
        see = torch.ones_like(f.s, dtype=torch.bool) if case.mask is None else case.mask
        moved = closed.scores(printed["q"], f.k) + closed.scores(f.q, printed["k"])
        follow.append(relative(moved * see, printed["s"]))
        by_weights = updates.score_step_of_weights(d["q"], d["k"], f.q, f.k, case.x, 1.0) * see
        weights.append(relative(case.x @ -truth["W_V"].mT, printed["v"]))
        weights.append(relative(by_weights, printed["s"]))
    return {
        "updates/free": max(free),
        "updates/follow": min(follow),
        "updates/weights": min(weights),
    }


def dominant_query(n: int = 400, ratio: float = 10.0) -> dict[str, float | np.ndarray]:
    """Relative error of equation 43 over all pairs (i, j) of ``n`` heads under the printed condition.

    Also ``lead``, ``alpha_ij`` over the largest other, ``rho``, the quantity of our own condition, and the ``error`` of every pair, ``(pairs,)``, for drawing.
    """
    rows = []
    for index in range(n):
        case = random_case(index, largest=40)
        f = closed.forward(case.x, case.w, case.mask)
        u = closed.upstream(f.p, case.y, case.w.W_O)
        exact, rough = updates.loss_change(f.alpha, u, 1.0), updates.dominant_loss(f.alpha, u, 1.0)
        T = len(case.x)
        others = f.alpha[None].masked_fill(torch.eye(T, dtype=torch.bool)[:, :, None], 0.0).amax(1)  # (i, j)
        size = u.norm(dim=-1)
        seen = (f.alpha > 1e-6) & (others > 1e-6) & (size > 1e-3 * size.max())[:, None]  # not rounding alone
        error = ((exact - rough) / rough).abs()
        rows.append(torch.stack([f.alpha / others, updates.neglected(f.alpha, u), error], -1)[seen])
    lead, bound, error = torch.cat(rows).numpy().T
    return {
        "dominant/printed": float(error[lead >= ratio].max()),
        "lead": lead,
        "rho": bound,
        "error": error,
    }
