"""Equations that do not say what they are used for, each as printed and mended, on random numbers in float64 (wang2025, sections 3, 5, appendices B, D, G, I)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..theory import descent

#: Examples, width of an embedding, categories, steps of descent.
N, WIDTH, CLASSES = 10, 5, 25
RATES = (2.0, 1.5, 1.0)


def _problem(seed: int) -> tuple[Tensor, Tensor, Tensor, torch.Generator]:
    """Random features ``(N + 1, 20)`` (the query last), labels, embeddings, and where more numbers come from."""
    source = torch.Generator().manual_seed(seed)
    psi = torch.randn(N + 1, 20, generator=source, dtype=torch.float64) / 20**0.5
    w = torch.randn(WIDTH, CLASSES, generator=source, dtype=torch.float64)
    return psi, torch.randint(0, CLASSES, (N,), generator=source), w, source


def _off(found: Tensor, truth: Tensor) -> float:
    """Largest difference over the largest entry of the truth."""
    return float((found - truth).abs().max() / truth.abs().max())


def categories_from_zero(seed: int = 0) -> dict[str, Any]:
    """Equations 11, 13, 18 and 40 let categories run from 0 to C beside sums from 1 to C: one vector more below the fraction than above.

    The gradient in b against autograd, with the printed denominator (the vector more is as random as the others) and with the C categories.
    """
    _, y, w, source = _problem(seed)
    more = torch.cat([torch.randn(WIDTH, 1, generator=source, dtype=torch.float64), w], dim=1)
    f = torch.randn(N, WIDTH, generator=source, dtype=torch.float64)
    b = torch.zeros(WIDTH, dtype=torch.float64, requires_grad=True)
    (truth,) = torch.autograd.grad(descent.cross_entropy(w, f + b, y), b)
    weights = torch.exp(f @ w)

    def gradient(below: Tensor) -> Tensor:
        return -(w[:, y].T - weights @ w.T / below.sum(-1, keepdim=True)).mean(0)

    return {
        "eq11/from_one": _off(gradient(weights), truth),
        "eq11/printed": _off(gradient(torch.exp(f @ more)), truth),
    }


def indices_of_the_update(seed: int = 0) -> dict[str, Any]:
    """Equation 26 has the summed index i on its left, section 3.2.1's head the expectation of the position that asks: each against autograd on A, and j.

    As printed, the right side of equation 26 is one number for all i: that of the j it leaves free, here the query.
    """
    psi, y, w, _ = _problem(seed)
    kappa, truth = psi[:N] @ psi.T, descent.parameter_descent([psi], y, w, RATES)[-1]
    mended, equation, head = (torch.zeros(N + 1, WIDTH, dtype=torch.float64) for _ in range(3))
    values = w[:, y].T
    for rate in RATES:
        mended = mended + rate / N * kappa.T @ (values - descent.expectation(w, mended[:N]))
        alike = rate / N * kappa[:, -1] @ (values - descent.expectation(w, equation[:N]))
        equation = equation + alike
        own = values[None] - descent.expectation(w, head)[:, None]  # (N + 1, N, d')
        head = head + rate / N * torch.einsum("ij,jid->jd", kappa, own)
    return {
        "eq26/mended": _off(mended, truth),
        "eq26/printed": _off(equation, truth),
        "eq26/head": _off(head, truth),
    }


def increments(seed: int = 0) -> dict[str, Any]:
    """Equation 49 sums ``Delta f_{i,k'}`` up to k where section 3.1 ends at k - 1: three steps of it against autograd on A.

    With equation 3's increments the last one is that of the step itself, so the step is implicit. ``own``: with appendix G's own
    ``Delta f_{i,0} = 0``, which numbers an increment by the step that it leads to.
    """
    psi, _, w, source = _problem(seed)
    y = torch.randn(N, WIDTH, generator=source, dtype=torch.float64)
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
    return {"eq49/own": _off(own, truth), "eq49/printed": _off(implicit, truth)}


def scalar_flow(d: int = 4, seed: int = 0) -> dict[str, Any]:
    """Equation 57 sets the change of a matrix to a number: what of one step from ``s I`` is no multiple of I, as printed (the number is added to every
    entry) and times I."""
    source = torch.Generator().manual_seed(seed)
    gradient = torch.randn(d, d, generator=source, dtype=torch.float64)
    eye = torch.eye(d, dtype=torch.float64)
    change = -gradient.trace() / d

    def left(s: Tensor) -> float:
        return float((s - s.trace() / d * eye).norm() / s.norm())

    return {
        "eq57/printed": left(0.5 * eye + 0.1 * change),
        "eq57/mended": left(0.5 * eye + 0.1 * change * eye),
    }


def expectation_of_appendix_i(points: int = 20, seed: int = 0) -> dict[str, Any]:
    """The function xi(f) of appendix I lacks the embedding in its sum: as printed it is a number, the same for every f; mended, it is equation 7."""
    source = torch.Generator().manual_seed(seed)
    w = torch.randn(WIDTH, CLASSES, generator=source, dtype=torch.float64)
    f = torch.randn(points, WIDTH, generator=source, dtype=torch.float64)
    share = torch.exp(f @ w) / torch.exp(f @ w).mean(-1, keepdim=True)  # exp over 1/C sum exp
    truth = descent.expectation(w, f)
    return {
        "xi/mended": _off((share[:, None] * w).mean(-1), truth),
        "xi/printed": _off(share.mean(-1, keepdim=True).expand_as(truth), truth),
    }


def sign_of_the_loss(seed: int = 0) -> dict[str, Any]:
    """Section 5's population loss has no minus: what a gradient step on it, and on appendix I's, gains in likelihood (nats)."""
    _, y, w, source = _problem(seed)
    f = torch.randn(N, WIDTH, generator=source, dtype=torch.float64, requires_grad=True)
    appendix = descent.cross_entropy(w, f, y)
    section = torch.log_softmax(f @ w, dim=-1).gather(-1, y[:, None]).mean()

    def gained(loss: Tensor) -> float:
        (slope,) = torch.autograd.grad(loss, f, retain_graph=True)
        return float((appendix - descent.cross_entropy(w, f - 1e-3 * slope, y)).detach())

    return {
        "loss-sign/appendix_gain": gained(appendix),
        "loss-sign/section_gain": gained(section),
    }


def records() -> dict[str, Any]:
    """All of them."""
    return {
        **categories_from_zero(),
        **indices_of_the_update(),
        **increments(),
        **scalar_flow(),
        **expectation_of_appendix_i(),
        **sign_of_the_loss(),
    }
