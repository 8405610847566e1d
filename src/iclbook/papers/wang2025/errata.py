"""Equations of the paper that do not say what they are used for, each as printed and as meant, on random numbers in float64."""

from typing import Any

import torch

from ...draw import torch_rng
from . import descent, population
from .construction import CLASSES, WIDTH, N, normal, off, problem

RATES = (2.0, 1.5, 1.0)


def categories_from_zero() -> dict[str, Any]:
    """Equations 11, 13, 18 and 40, categories 0 to C beside sums from 1: gradient in b against autograd, with one random vector more and without."""
    source = torch_rng(0)
    _, y, w = problem(source, 20)
    more = torch.cat([normal(source, WIDTH, 1), w], dim=1)
    f = normal(source, N, WIDTH)
    truth = torch.func.grad(lambda b: descent.cross_entropy(w, f + b, y))(torch.zeros_like(f[0]))
    above = torch.exp(f @ w) @ w.T
    meant, printed = (
        off((above / torch.exp(f @ below).sum(-1, keepdim=True) - w[:, y].T).mean(0), truth) for below in (w, more)
    )
    return {"eq11/from_one": meant, "eq11/printed": printed}


def indices_of_the_update() -> dict[str, Any]:
    """Equation 26 with the summed i on its left (one number for all i), and section 3.2.1's expectation of the asking position: against autograd on A."""
    psi, y, w = problem(torch_rng(0), 20)
    kappa, truth = psi[:N] @ psi.T, descent.parameter_descent([psi], y, w, RATES)[-1]
    meant, values = descent.functional_descent([kappa], y, w, RATES)[-1], w[:, y].T
    equation, head = torch.zeros(2, N + 1, WIDTH, dtype=torch.float64)
    for rate in RATES:
        alike = rate / N * kappa[:, -1] @ (values - descent.expectation(w, equation[:N]))
        equation = equation + alike
        own = values[None] - descent.expectation(w, head)[:, None]  # (N + 1, N, d')
        head = head + rate / N * torch.einsum("ij,jid->jd", kappa, own)
    return {"eq26/mended": off(meant, truth), "eq26/printed": off(equation, truth), "eq26/head": off(head, truth)}


def equation_39(points: int = 50) -> dict[str, Any]:
    """Equation 39 as a softmax against equation 1; as printed, ``sum_c w_c exp[w_c^T f / sum_c' w_c'^T f]``: no weights of sum one, 0/0 at f = 0."""
    source = torch_rng(1)
    w, f = normal(source, WIDTH, CLASSES), normal(source, points, WIDTH)
    p = torch.stack([torch.exp(w.T @ x) / torch.exp(w.T @ x).sum() for x in f])
    printed, at_start = (torch.exp(at @ w / (at @ w).sum(-1, keepdim=True)) for at in (f, torch.zeros_like(f)))
    masses = printed.sum(-1)
    return {
        "eq39/meant": float((descent.expectation(w, f) - p @ w.T).abs().max()),
        "eq39/mass": float(((masses - 1).abs() / masses).min()),
        "eq39/start": bool(torch.isfinite(at_start).all()),
    }


def increments() -> dict[str, Any]:
    """Equation 49 sums ``Delta f_{i,k'}`` to k, not k - 1: an implicit step with equation 3's increments; ``own``: with appendix G's, as meant."""
    source = torch_rng(0)
    psi, _, w = problem(source, 20)
    y = normal(source, N, WIDTH)
    kappa, eye = psi[:N] @ psi.T, torch.eye(N, dtype=torch.float64)
    truth = descent.parameter_descent([psi], y, w, RATES, loss=descent.squared_loss)[-1]
    own, increment = torch.zeros_like(truth), [torch.zeros_like(truth)]
    implicit = torch.zeros_like(truth)
    for rate in RATES:
        increment.append(rate / N * kappa.T @ (y - sum(increment)[:N]))
        own = own + increment[-1]
        pull = rate / N * kappa[:, :N]
        after = torch.linalg.solve(eye + pull, implicit[:N] + pull @ y)  # f at the keys after the step
        implicit = implicit + rate / N * kappa.T @ (y - after)
    return {"eq49/own": off(own, truth), "eq49/printed": off(implicit, truth)}


def equations_54_to_56(t: float = 1.5) -> dict[str, Any]:
    """Equation 54 without F_l and with I + T_l, against (52): how far the printed form and the right one are from two GD steps (softmax activation)."""
    source = torch_rng(0)
    x, w = normal(source, N + 1, 4), normal(source, WIDTH, CLASSES)
    y = torch.randint(0, CLASSES, (N,), generator=source)
    kappa = torch.softmax(x @ x[:N].T, dim=-1)  # (N + 1, N)
    truth = descent.functional_descent([kappa.T], y, w, (t, t), mean=False)[-1]
    b, step = (torch.eye(n, dtype=w.dtype).repeat(2, 1, 1) for n in (4, WIDTH))
    printed = torch.zeros(N + 1, WIDTH, dtype=w.dtype)
    for _ in range(2):
        printed = (1 + t) * kappa @ (w[:, y].T - descent.expectation(w, printed[:N]))
    return {
        "eq54/corrected": off(population.functions(b, t * step, x, y, w), truth),
        "eq54/printed": off(printed, truth),
    }


def scalar_flow(d: int = 4) -> dict[str, Any]:
    """Equation 57 sets the change of a matrix to a number: what of one step from ``s I`` is no multiple of I, as printed and times I."""
    eye, change = torch.eye(d, dtype=torch.float64), -normal(torch_rng(0), d, d).trace() / d
    steps = {"printed": 0.5 * eye + 0.1 * change, "mended": 0.5 * eye + 0.1 * change * eye}
    return {f"eq57/{name}": float((s - s.trace() / d * eye).norm() / s.norm()) for name, s in steps.items()}


def expectation_of_appendix_i(points: int = 20) -> dict[str, Any]:
    """The function xi(f) of appendix I lacks the embedding in its sum: as printed it is a number, the same for every f; with it, it is equation 7."""
    source = torch_rng(0)
    w, f = normal(source, WIDTH, CLASSES), normal(source, points, WIDTH)
    share = torch.exp(f @ w) / torch.exp(f @ w).mean(-1, keepdim=True)  # exp over 1/C sum exp
    truth = descent.expectation(w, f)
    return {
        "xi/mended": off((share[:, None] * w).mean(-1), truth),
        "xi/printed": off(share.mean(-1, keepdim=True).expand_as(truth), truth),
    }


def sign_of_the_loss() -> dict[str, Any]:
    """Section 5's population loss has no minus: what a gradient step on it, and on appendix I's, gains in likelihood (nats)."""
    source = torch_rng(0)
    _, y, w = problem(source, 20)
    f = normal(source, N, WIDTH)
    slope = torch.func.grad(descent.cross_entropy, argnums=1)(w, f, y)
    after = {"appendix": f - 1e-3 * slope, "section": f + 1e-3 * slope}
    start = descent.cross_entropy(w, f, y)
    return {f"loss-sign/{name}_gain": float(start - descent.cross_entropy(w, at, y)) for name, at in after.items()}


def records() -> dict[str, Any]:
    """Records of every slip."""
    return (
        categories_from_zero()
        | indices_of_the_update()
        | equation_39()
        | increments()
        | equations_54_to_56()
        | scalar_flow()
        | expectation_of_appendix_i()
        | sign_of_the_loss()
    )
