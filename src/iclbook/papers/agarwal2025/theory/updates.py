"""First-order effects of one gradient step, equations 33 to 43 of agarwal2025; shapes as in :mod:`.gradients`."""

from __future__ import annotations

from torch import Tensor

from . import gradients as g


def value_step(alpha: Tensor, u: Tensor, rate: float) -> Tensor:
    """Equations 33 and 38: ``Delta v_j = -rate sum_i alpha_ij u_i`` for free values."""
    return -rate * g.value_gradient(alpha, u)


def score_step(alpha: Tensor, b: Tensor, rate: float) -> Tensor:
    """Equation 34 for free scores."""
    return -rate * g.score_gradient(alpha, b)


def context_change(alpha: Tensor, u: Tensor, rate: float) -> Tensor:
    """Equation 39: ``(..., i, j, d_v)``, change of ``g_i`` when only ``v_j`` steps. Exact, as contexts are linear in values."""
    return alpha[..., None] * value_step(alpha, u, rate)[..., None, :, :]


def loss_change(alpha: Tensor, u: Tensor, rate: float) -> Tensor:
    """Equation 41: ``(..., i, j)``, first-order change of ``L_i`` when only ``v_j`` steps."""
    return alpha * (u @ value_step(alpha, u, rate).mT)


def dominant_context(alpha: Tensor, u: Tensor, rate: float) -> Tensor:
    """Equation 42: equation 39 with every other query neglected."""
    return -rate * alpha[..., None] ** 2 * u[..., :, None, :]


def dominant_loss(alpha: Tensor, u: Tensor, rate: float) -> Tensor:
    """Equation 43: equation 41 with every other query neglected."""
    return -rate * alpha**2 * (u**2).sum(-1)[..., None]


def neglected(alpha: Tensor, u: Tensor) -> Tensor:
    """``rho_ij = sum_{r != i} alpha_rj |u_r| / (alpha_ij |u_i|)``: by Cauchy and Schwarz a bound on the relative error of equations 42 and 43."""
    weight = alpha * u.norm(dim=-1)[..., None]
    return weight.sum(-2, keepdim=True) / weight - 1


def score_step_of_weights(dq: Tensor, dk: Tensor, q: Tensor, k: Tensor, x: Tensor, rate: float) -> Tensor:
    """What steps on ``W_Q`` and ``W_K`` (equations 29, 30) do to the scores, to first order in the rate."""
    gram = x @ x.mT
    return g.scores(-rate * gram @ dq, k) + g.scores(q, -rate * gram @ dk)
