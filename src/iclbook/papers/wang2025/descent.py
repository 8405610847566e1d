"""Gradient descent on (A, b) and on the function it defines (wang2025, sections 2.2 and appendix B, G, H).

Shapes: features ``psi (N + 1, m)`` (the query last), labels ``y (N,)`` long, embeddings ``w (d', C)``, functions ``f (N + 1, d')``.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def expectation(w: Tensor, f: Tensor) -> Tensor:
    """``E(w_e | f) = W_e softmax(W_e^T f)`` (equations 6, 7), ``(..., d')`` from ``f (..., d')``."""
    return torch.softmax(f @ w, dim=-1) @ w.T


def cross_entropy(w: Tensor, f: Tensor, y: Tensor) -> Tensor:
    """The context's loss (10), the mean over its N examples of ``-log p(y_i)``; ``f (N, d')``."""
    return -torch.log_softmax(f @ w, dim=-1).gather(-1, y[:, None]).mean()


def squared_loss(w: Tensor, f: Tensor, y: Tensor) -> Tensor:
    """Appendix G with ``sigma = 1``: mean of ``|y_i - f_i|^2 / 2``; ``y (N, d')`` real, ``w`` unused."""
    return ((y - f) ** 2).sum(-1).mean() / 2


def interaction(f: Callable[[Tensor], Tensor], y: Tensor, places: Sequence[int], n_classes: int) -> float:
    """Distance of the effect of two changed labels on ``f(y)`` from the sum of their effects, relative to the first of them."""

    def changed(*at: int) -> Tensor:
        labels = y.clone()
        labels[list(at)] = (labels[list(at)] + 1) % n_classes
        return f(labels)

    start, a, b, both = changed(), changed(places[0]), changed(places[1]), changed(*places)
    return float((both - a - b + start).abs().max() / (a - start).abs().max())


def parameter_descent(
    psis: Sequence[Tensor],
    y: Tensor,
    w: Tensor,
    rates: Sequence[float],
    loss: Callable[[Tensor, Tensor, Tensor], Tensor] = cross_entropy,
    mixes: Sequence[Tensor] | None = None,
    bias: bool = False,
) -> list[Tensor]:
    """Functions ``f (N + 1, d')`` of ``f(x) = sum_m P_m A_m psi_m(x) + b`` after each gradient step on ``A_m`` (and b) from zero, by autograd; without
    ``mixes`` every ``P_m`` is the identity."""
    a, b = [w.new_zeros(len(w), psi.shape[1]) for psi in psis], w.new_zeros(len(w))
    mixes = [torch.eye(len(w), dtype=w.dtype)] * len(psis) if mixes is None else mixes

    def function(a: Sequence[Tensor], b: Tensor) -> Tensor:
        return sum(psi @ a_m.T @ p.T for psi, a_m, p in zip(psis, a, mixes, strict=True)) + b

    steps, slope = [], torch.func.grad(lambda at: loss(w, function(*at)[: len(y)], y))
    for rate in rates:
        in_a, in_b = slope((a, b))
        a, b = [a_m - rate * g for a_m, g in zip(a, in_a, strict=True)], b - rate * bias * in_b
        steps.append(function(a, b))
    return steps


def functional_descent(
    kernels: Sequence[Tensor],
    y: Tensor,
    w: Tensor,
    rates: Sequence[float],
    mixes: Sequence[Tensor] | None = None,
    bias: float = 0.0,
    expect: Callable[[Tensor, Tensor], Tensor] = expectation,
    mean: bool = True,
) -> list[Tensor]:
    """Functional gradient descent without parameters: equation 3 with kernels ``kappa_m (..., N, N + 1)``, ``kappa(x_i, x_j)``, of one query or more, and labels ``(..., N)``;
    functions ``(..., N + 1, d')`` after each step. For real y (appendix G) pass ``y (..., N, d')`` and ``expect=lambda w, f: f``.

    Args:
        mixes: ``P_m`` applied to each head's update, as appendix H prints (``f = sum_m P_m f_m``).
        bias: factor of the bias term: 0 without one, 1/N, or 1 as equation 14 prints it.
        expect: how ``E(w_e | f)`` is computed.
        mean: the factor 1/N.
    """
    values = y if y.is_floating_point() else w.T[y]  # (..., N, d')
    n, width = values.shape[-2:]
    f = torch.zeros(*values.shape[:-2], kernels[0].shape[-1], width, dtype=w.dtype)
    mixes = [torch.eye(width, dtype=w.dtype)] * len(kernels) if mixes is None else mixes
    steps = []
    for rate in rates:
        residual = values - expect(w, f[..., :n, :])  # (..., N, d')
        scale = rate / n if mean else rate
        update = sum(scale * kappa.mT @ residual @ p.T for kappa, p in zip(kernels, mixes, strict=True))
        f = f + update + rate * bias * residual.sum(-2, keepdim=True)
        steps.append(f)
    return steps
