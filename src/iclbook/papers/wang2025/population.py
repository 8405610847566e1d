"""Theorem 2's model (appendix I): equation 52 with ``B_l`` and ``T_l``, its loss on sampled prompts, gradients prompt by prompt.

Shapes: covariates ``x (P, N + 1, d)`` (query last), categories ``y (P, N + 1)``, ``B (L, d, d)``, ``T (L, d', d')``, embeddings ``w (d', C)`` or one for
each prompt ``(P, d', C)``.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ...draw import torch_rng
from ...models.kernels import kernel_values


def functions(
    b: Tensor,
    t: Tensor,
    x: Tensor,
    y: Tensor,
    w: Tensor,
    s: Tensor | None = None,
    activation: str = "softmax",
    at_query: bool = False,
) -> Tensor:
    """``F_L`` ``(..., N + 1, d')``, or with ``at_query`` that of the query alone, ``(..., 1, d')``: ``F <- F + [T_l (Gamma - Xi(F)) + S_l F] h(X^T B_l X)``,
    keys ``1..N``, h the activation (equations 51, 52): ``softmax``, ``linear``, or ``exponential``, the RBF kernel of covariates of one length.

    ``S_l`` ``(L, d', d')`` is the block of ``W_V`` that assumption 2 sets to zero, from F to F. All arguments may have leading axes, which broadcast;
    ``y`` are categories, or one-hot ``(..., N + 1, C)``.
    """
    n = x.shape[-2] - 1
    hot = torch.nn.functional.one_hot(y, w.shape[-1]).to(x) if y.dtype == torch.long else y
    values = hot[..., :n, :] @ w.mT  # (..., N, d')
    f = x.new_zeros(1, w.shape[-2])  # alike at every position
    for layer in range(b.shape[-3]):
        readers = x[..., n:, :] if at_query and layer == b.shape[-3] - 1 else x  # nothing reads the last F of a key
        # (..., N + 1, N): of key i for query j, by x_i^T B x_j
        weights = kernel_values(activation, readers @ b[..., layer, :, :].mT @ x[..., :n, :].mT, 1.0)
        update = (values - torch.softmax(f[..., :n, :] @ w, dim=-1) @ w.mT) @ t[..., layer, :, :].mT
        if s is not None:
            update = update + f[..., :n, :] @ s[..., layer, :, :].mT
        f = f[..., -readers.shape[-2] :, :] + weights @ update
    return f


def loss(
    b: Tensor, t: Tensor, s: Tensor | None, x: Tensor, hot: Tensor, w: Tensor, activation: str = "softmax"
) -> Tensor:
    """``-log p(y_{N+1})`` of prompts, ``(...)``; ``hot (..., N + 1, C)`` are one-hot categories."""
    f = functions(b, t, x, hot, w, s, activation, at_query=True)
    return -(hot[..., -1, :] * torch.log_softmax((f @ w)[..., 0, :], dim=-1)).sum(-1)


def gradients(
    b: Tensor, t: Tensor, x: Tensor, y: Tensor, w: Tensor, activation: str = "softmax"
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the loss of every prompt at ``S = 0``: with respect to B ``(P, L, d, d)``, T and S ``(P, L, d', d')``."""
    hot = torch.nn.functional.one_hot(y, w.shape[-1]).to(x)
    slope = torch.func.grad(partial(loss, activation=activation), argnums=(0, 1, 2))
    own = 0 if w.dim() == 3 else None
    return torch.func.vmap(slope, (None, None, None, 0, 0, own))(b, t, torch.zeros_like(t), x, hot, w)


def scaled(scalars: Tensor, n: int) -> Tensor:
    """``s_l I`` of scalars ``(L,)``: ``(L, n, n)``."""
    return scalars[:, None, None] * torch.eye(n, dtype=scalars.dtype)


def exact_loss(x: Tensor, w: Tensor, sharpness: float = 0.3, gain: float = 1.0) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean loss as a function of B and T for covariates uniform on the prompts ``x (P, N + 1, d)`` and labels of assumption 4 (as in :func:`prompts`, with
    categories 0 and 1 at the two anchors); nothing is sampled: all ``C^(N + 1)`` labels count with their probabilities."""
    categories = w.shape[-1]
    labels = torch.cartesian_prod(*[torch.arange(categories)] * x.shape[1])  # (C^(N + 1), N + 1)
    latent = torch.exp(sharpness * (x @ x[:, :2].mT - 1)) @ w[:, :2].T  # (P, N + 1, d'), by inner products
    each = torch.log_softmax(gain * latent @ w, dim=-1)  # (P, N + 1, C)
    chance = each[:, torch.arange(x.shape[1]), labels].sum(-1).exp()  # (P, C^(N + 1))
    hot = torch.nn.functional.one_hot(labels, categories).to(x)
    return lambda b, t: (loss(b, t, None, x[:, None], hot, w) * chance).sum(1).mean()


def exact_flow(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> tuple[float, float]:
    """Part of the exact gradient in B at ``B_l = b_l I``, ``T_l = t_l I`` that is no multiple of I, relative to its norm, on the law of :func:`exact_loss`.

    And ``1 - (-dL/dt) / sum_l |grad_l|^2`` along ``dB_l/dt = -tr(grad_l)/d I``: 0 where equation 58 holds with equality, positive where the loss falls more
    slowly.
    """
    mean, at, held = exact_loss(x, w), scaled(b, x.shape[-1]), scaled(t, len(w))
    gradient = torch.func.grad(mean)(at, held)
    scale = scaled(gradient.diagonal(dim1=-2, dim2=-1).mean(-1), x.shape[-1])
    slope = torch.func.grad(lambda time: mean(at - time * scale, held))(x.new_zeros(()))  # dL/dt along equation 57
    return float((gradient - scale).norm() / gradient.norm()), float(1 + slope / (gradient**2).sum())


def prompts(
    n_prompts: int,
    n: int,
    d: int,
    w: Tensor,
    seed: int,
    rotate_embedding: bool = False,
    law: str = "sphere",
    group: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Prompts ``x (P, N + 1, d)``, ``y (P, N + 1)`` long, ``w (d', C)`` or ``(P, d', C)`` that satisfy assumptions 3 and 4: ``x`` of a law,
    ``f_*(x) = sum_m w_{c_m} exp(3 (x^T a_m - 1))`` with the prompt's first two covariates as anchors ``a_m``, so that it is a function of ``X^T x`` (53).

    Args:
        rotate_embedding: multiply ``W_e`` by a random rotation for each prompt (an O(d')-invariant law of W_e).
        law: ``sphere`` or ``cube``, uniform on the unit sphere or ``[-1, 1]^d``, or ``skewed``, correlated, skewed and of unequal variances: no symmetry.
        group: multiply each prompt's covariates by a random element of this finite group ``(G, d, d)``.
    """
    source = torch_rng(seed)
    x = torch.randn(n_prompts, n + 1, d, generator=source, dtype=w.dtype)
    if law == "sphere":
        x = x / x.norm(dim=-1, keepdim=True)
    else:
        uniform = torch.rand(x.shape, generator=source, dtype=w.dtype)
        skewed, spread = -uniform.log() - 1, torch.linspace(0.5, 2, d, dtype=w.dtype) / math.sqrt(d)
        x = 2 * uniform - 1 if law == "cube" else (skewed + 0.5 * skewed.roll(1, -1)) * spread
    if group is not None:
        element = torch.randint(0, len(group), (n_prompts,), generator=source)
        x = x @ group[element].mT
    if rotate_embedding:
        gauss = torch.randn(n_prompts, w.shape[0], w.shape[0], generator=source, dtype=w.dtype)
        q, r = torch.linalg.qr(gauss)
        w = q * torch.diagonal(r, dim1=-2, dim2=-1).sign()[:, None] @ w
    each = w if w.dim() == 3 else w.expand(n_prompts, *w.shape)
    chosen = torch.rand(n_prompts, w.shape[-1], generator=source).topk(2, dim=-1).indices  # (P, 2)
    kernel = torch.exp(3 * (x @ x[:, :2].mT - 1))  # (P, N + 1, 2)
    f = kernel @ torch.gather(each.mT, 1, chosen[..., None].expand(-1, -1, each.shape[1]))  # (P, N + 1, d')
    p = torch.softmax(3 * f @ each, dim=-1)
    y = torch.multinomial(p.flatten(0, 1), 1, generator=source).reshape(n_prompts, n + 1)
    return x, y, w
