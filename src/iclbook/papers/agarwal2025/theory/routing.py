"""Content-based routing (agarwal2025, section 9): effective weights of recurrences, and the conjectured gradients beside the exact ones.

Weights ``w (..., T, T)`` run over the reader i (second axis from the end) and the position read j (last axis); leading axes are channels, which
attention does not have. Compatibilities ``b_ij = dL/dw_ij`` have the same shape, Jacobians ``dw (..., T, T, P)`` one entry for each parameter; a function that
contracts one with numbers of the weights' shape, as reverse-mode differentiation does, stands for it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Jacobian = Tensor | Callable[[Tensor], Tensor]


def causal(n: int, like: Tensor) -> Tensor:
    """``(n, n)`` ones where ``j <= i``."""
    return torch.ones(n, n, dtype=like.dtype, device=like.device).tril()


def ssm_weights(delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``w_ij = C_i (prod_{k=j+1}^{i} exp(A Delta_k)) Delta_j B_j`` for each channel (section 9.2), with the empty product for ``j = i``.

    Args:
        delta: ``(W, T)`` step sizes.
        a: ``(W, N)`` rates.
        b, c: ``(N, T)`` input and output projections.

    Returns:
        ``(W, T, T)``, zero above the diagonal.
    """
    clock = delta.cumsum(1)
    elapsed = (clock[:, :, None] - clock[:, None, :]).tril()  # (W, i, j): sum of Delta over k = j+1 .. i
    decay = torch.exp(a[:, :, None, None] * elapsed[:, None])  # (W, N, T, T)
    return torch.einsum("ni,wnij,wj,nj->wij", c, decay, delta, b) * causal(delta.shape[1], delta)


def lstm_weights(i: Tensor, f: Tensor) -> Tensor:
    """``w_ij = (prod_{k=j+1}^{i} f_k) i_j``: the cell is ``c_i = sum_j w_ij g_j``, since equations 51 and 52 gate ``c_t = f_t c_{t-1} + i_t g_t``.

    Args:
        i, f: input and forget gates ``(W, T)``.

    Returns:
        ``(W, T, T)``, zero above the diagonal.
    """
    n = i.shape[1]
    logs = torch.log(f).cumsum(1)
    kept = torch.exp((logs[:, :, None] - logs[:, None, :]).tril())
    return kept * i[:, None, :] * causal(n, i)


def normalised(w: Tensor) -> Tensor:
    """Rows divided by their sums."""
    return w / w.sum(-1, keepdim=True)


def expectation(w: Tensor, b: Tensor) -> Tensor:
    """``E_{w_i}[b] = sum_j w_ij b_ij`` ``(..., T)`` (equation 12 with w for alpha; a mean only where rows sum to 1)."""
    return (w * b).sum(-1)


def chain(b: Tensor, dw: Jacobian) -> Tensor:
    """``sum_ij b_ij dw_ij / dtheta`` ``(P,)``: exact for any mechanism whose values do not depend on theta."""
    return torch.tensordot(b, dw, b.dim()) if isinstance(dw, Tensor) else dw(b)


def advantage_form(w: Tensor, b: Tensor, dw: Jacobian) -> Tensor:
    """``sum_ij (b_ij - E_{w_i}[b]) dw_ij / dtheta``: exact where every row of w sums to a constant."""
    return chain(b - expectation(w, b)[..., None], dw)


def conjecture_9_2(w: Tensor, b: Tensor, dw: Jacobian) -> Tensor:
    """``sum_ij w_ij (b_ij - E_{w_i}[b]) dw_ij / dtheta``, as Conjecture 9.2 prints it."""
    return chain(w * (b - expectation(w, b)[..., None]), dw)


def score_form(w: Tensor, b: Tensor, ds: Jacobian) -> Tensor:
    """``sum_ij w_ij (b_ij - E_{w_i}[b]) ds_ij / dtheta``: the printed form with scores in place of weights, exact for softmax (equation 23)."""
    return conjecture_9_2(w, b, ds)


def baseline_cost(w: Tensor, b: Tensor, dw: Jacobian) -> Tensor:
    """``sum_i E_{w_i}[b] dW_i / dtheta`` with ``W_i = sum_j w_ij``: what subtracting the baseline takes from the gradient."""
    return chain(expectation(w, b)[..., None].expand_as(w), dw)


def conjecture_9_3(w: Tensor, u: Tensor, x: Tensor) -> Tensor:
    """``sum_ij w_ij u_i dv_j / dW`` for ``v_j = W x_j`` (Conjecture 9.3): ``(V, D)``.

    Args:
        w: ``(T, T)``, or ``(V, T, T)`` with weights of its own for each channel.
        u: ``(V, T)`` upstream gradients dL/do_i.
        x: ``(D, T)`` inputs.
    """
    w = w if w.dim() == 3 else w.expand(u.shape[0], *w.shape)
    return torch.einsum("vij,vi,dj->vd", w, u, x)
