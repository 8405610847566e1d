"""First-order gradients and updates of one attention head: equations 1 to 43 of agarwal2025, and the same for long causal sequences.

Vectors are rows here: ``x`` is ``(..., T, d_x)``, ``q`` and ``k`` are ``(..., T, d_k)``, ``v``, ``g`` and ``u`` are ``(..., T, d_v)``, logits are
``(..., T, C)`` and ``alpha`` is ``(..., T, T)`` with the query first, as in the paper. Leading axes are runs.

The gradients of a long causal sequence are taken a block of queries at a time, and no ``(T, T)`` array is ever held. One pass is enough: the baseline of
equation 12 is ``E_{alpha_i}[b] = u_i . g_i = error_i . logits_i``, a single number, so the advantage of a whole block is one matrix product.
"""

import math
from collections import namedtuple

import torch
from torch import Tensor

#: Queries of a block: with fewer, calls take longer than what they save by scores that stay in a core's cache.
BLOCK = 256
#: While no score can exceed this, subtracting a bound on it instead of the row's largest score cannot underflow, and saves a pass.
SAFE = 40.0

#: ``W_Q``, ``W_K`` ``(..., d_k, d_x)``, ``W_V`` ``(..., d_v, d_x)``, ``W_O`` ``(..., C, d_v)`` and the output bias ``b`` ``(..., C)``.
Weights = namedtuple("Weights", "W_Q W_K W_V W_O b")
#: All quantities of equations 1 to 8.
Forward = namedtuple("Forward", "q k v s alpha g logits p")
#: ``logits`` ``(T, C)``, and ``spread`` ``(T,)``: each query's entropy of attention over the largest possible (NaN for the first).
Predictions = namedtuple("Predictions", "logits spread")


def random_weights(
    gen: torch.Generator, d_x: int, d_k: int, d_v: int, n: int, scale: float, bias: float = 0.0
) -> Weights:
    """Weights with entries N(0, scale^2); the output bias N(0, bias^2)."""
    shapes = ((d_k, d_x), (d_k, d_x), (d_v, d_x), (n, d_v))
    matrices = [scale * torch.randn(s, generator=gen, dtype=torch.float64) for s in shapes]
    return Weights(*matrices, bias * torch.randn(n, generator=gen, dtype=torch.float64))


def causal_mask(T: int, device: torch.device | None = None) -> Tensor:
    """``(T, T)``: query i sees keys j <= i."""
    return torch.ones(T, T, dtype=torch.bool, device=device).tril()


def attend(s: Tensor, v: Tensor, W_O: Tensor, b: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
    """``alpha, g, logits, p`` from scores and values (equations 5 to 8)."""
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf)
    alpha = s.softmax(-1)
    g = alpha @ v
    logits = g @ W_O.mT + b[..., None, :]
    return alpha, g, logits, logits.softmax(-1)


def scores(q: Tensor, k: Tensor) -> Tensor:
    """``s_ij = q_i . k_j / sqrt(d_k)`` (equation 4)."""
    return q @ k.mT / math.sqrt(q.shape[-1])


def forward(x: Tensor, w: Weights, mask: Tensor | None = None) -> Forward:
    """Equations 1 to 8; ``mask`` ``(T, T)`` is true where query i sees key j (every key where it is ``None``)."""
    q, k, v = x @ w.W_Q.mT, x @ w.W_K.mT, x @ w.W_V.mT
    s = scores(q, k)
    return Forward(q, k, v, s, *attend(s, v, w.W_O, w.b, mask))


def losses(logits: Tensor, y: Tensor) -> Tensor:
    """``L_i = -log p_{i, y_i}`` ``(..., T)`` from logits ``(..., T, C)``; equation 9 is their sum."""
    return -logits.log_softmax(-1).gather(-1, y.expand(logits.shape[:-1])[..., None])[..., 0]


def logit_gradient(p: Tensor, y: Tensor) -> Tensor:
    """``dL/dlogits_i = p_i - e_{y_i}`` (equation 13)."""
    return p - torch.nn.functional.one_hot(y, p.shape[-1]).to(p)


def upstream(p: Tensor, y: Tensor, W_O: Tensor) -> Tensor:
    """``u_i = dL/dg_i = W_O^T (p_i - e_{y_i})`` (equations 10 and 14)."""
    return logit_gradient(p, y) @ W_O


def value_gradient(alpha: Tensor, u: Tensor) -> Tensor:
    """``dL/dv_j = sum_i alpha_ij u_i`` (equations 15, 16 and 37)."""
    return alpha.mT @ u


def compatibility(u: Tensor, v: Tensor) -> Tensor:
    """``b_ij = u_i . v_j = dL/d alpha_ij`` (equations 11 and 17)."""
    return u @ v.mT


def baseline(alpha: Tensor, b: Tensor) -> Tensor:
    """``E_{alpha_i}[b] = sum_j alpha_ij b_ij`` ``(..., T)`` (equation 12). Since ``b_ij = u_i . v_j`` it is ``u_i . g_i``."""
    return (alpha * b).sum(-1)


def softmax_jacobian(alpha: Tensor) -> Tensor:
    """``d alpha_ij / d s_ik = alpha_ij (delta_jk - alpha_ik)`` (equation 18), ``(..., T, T, T)`` indexed i, j, k."""
    return torch.diag_embed(alpha) - alpha[..., :, None] * alpha[..., None, :]


def advantage(alpha: Tensor, b: Tensor) -> Tensor:
    """``A_ij = -(b_ij - E_{alpha_i}[b])`` (section 3.4), positive where more attention would lower the loss."""
    return baseline(alpha, b)[..., None] - b


def score_gradient(alpha: Tensor, b: Tensor) -> Tensor:
    """``dL/ds_ik = alpha_ik (b_ik - E_{alpha_i}[b])`` (equations 22 and 23)."""
    return -alpha * advantage(alpha, b)


def value_projection_gradient(u: Tensor, alpha: Tensor, x: Tensor) -> Tensor:
    """``dL/dW_V = U A X^T`` (equation 32) with the paper's columns as rows."""
    return u.mT @ alpha @ x


def every_gradient(
    x: Tensor, y: Tensor, w: Weights, mask: Tensor | None = None, known: Forward | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses ``(..., T)`` and every gradient of their SUM (equation 9) by the closed forms: of ``logits, g, v, alpha, s, q, k, W_Q, W_K, W_V`` as printed, and of
    ``W_O, b``, which the paper leaves out. That of ``alpha`` takes the weights ``alpha_ij`` as free numbers; where the mask hides a key it means nothing.
    ``known``: :func:`forward` of these."""
    f = forward(x, w, mask) if known is None else known
    scale = math.sqrt(f.q.shape[-1])
    dl, u = logit_gradient(f.p, y), upstream(f.p, y, w.W_O)
    b = compatibility(u, f.v)
    ds = score_gradient(f.alpha, b)
    dq = ds @ f.k / scale  # sum_k dL/ds_ik k_k / sqrt(d_k): equations 24, 25 and 28
    dk = ds.mT @ f.q / scale  # sum_i dL/ds_ij q_i / sqrt(d_k): equations 26, 27 and 28
    found = {"logits": dl, "g": u, "v": value_gradient(f.alpha, u), "alpha": b, "s": ds, "q": dq, "k": dk}
    found["W_Q"], found["W_K"] = dq.mT @ x, dk.mT @ x  # sum_i dL/dq_i x_i^T and the like: equations 29 to 31
    found["W_V"] = value_projection_gradient(u, f.alpha, x)
    found["W_O"], found["b"] = dl.mT @ f.g, dl.sum(-2)
    return losses(f.logits, y), found


def value_step(alpha: Tensor, u: Tensor, rate: float) -> Tensor:
    """``Delta v_j = -rate sum_i alpha_ij u_i`` for free values (equations 33 and 38)."""
    return -rate * value_gradient(alpha, u)


def context_change(alpha: Tensor, u: Tensor, rate: float) -> Tensor:
    """``Delta g_i = alpha_ij Delta v_j`` ``(..., i, j, d_v)`` when only ``v_j`` steps (equation 39). Exact, as contexts are linear in values."""
    return alpha[..., None] * value_step(alpha, u, rate)[..., None, :, :]


def loss_change(alpha: Tensor, u: Tensor, rate: float) -> Tensor:
    """``Delta L_i = u_i . Delta g_i`` ``(..., i, j)`` to first order when only ``v_j`` steps (equation 41)."""
    return alpha * (u @ value_step(alpha, u, rate).mT)


def dominant_loss(alpha: Tensor, u: Tensor, rate: float) -> Tensor:
    """``-rate alpha_ij^2 |u_i|^2``: equation 41 with every other query neglected (equation 43; 42 is the same of 39)."""
    return -rate * alpha**2 * (u**2).sum(-1)[..., None]


def score_step_of_weights(dq: Tensor, dk: Tensor, q: Tensor, k: Tensor, x: Tensor) -> Tensor:
    """Change of the scores by steps on ``W_Q`` and ``W_K`` (equations 29, 30), to first order in the rate and for a rate of 1."""
    gram = -x @ x.mT
    return scores(gram @ dq, k) + scores(q, gram @ dk)


def _block_weights(q: Tensor, k: Tensor, start: int, stop: int, shift: Tensor | None) -> Tensor:
    """Unnormalised attention ``(stop - start, stop)`` of a block of (scaled) queries, from scores less ``shift`` ``(T, 1)`` or, without it, the largest."""
    if shift is None:
        e = q[start:stop] @ k[:stop].T
        # before the largest is sought: a hidden key's score could push all others to zero
        e[:, start:].masked_fill_(~causal_mask(stop - start, e.device), -torch.inf)
        e -= e.amax(1, keepdim=True)
    else:
        e = torch.cat([q[start:stop], -shift[start:stop]], 1) @ _ones(k[:stop]).T
    e.exp_()
    e[:, start:].tril_()
    return e


def _ones(a: Tensor) -> Tensor:
    """A column of ones beside ``a``."""
    return torch.cat([a, a.new_ones(len(a), 1)], 1)


def causal_step(x: Tensor, target: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> tuple[Tensor, ...]:
    """Mean cross-entropy of a causal head (equation 9 over T) and its gradients in W_Q, W_K, W_V and W_O, by equations 13, 16, 23 and 28 to 32; of inputs ``x``
    ``(T, d_x)`` and one-hot targets ``(T, C)``."""
    T = len(x)
    scale = 1 / math.sqrt(len(W_Q))
    q, k, v = x @ W_Q.T * scale, x @ W_K.T, x @ W_V.T
    bound = q.norm(dim=1, keepdim=True) * k.norm(dim=1).max()  # (T, 1), on each query's scores
    shift = None if bound.device.type != "cpu" or not float(bound.max()) < SAFE else bound
    brings = _ones(v @ W_O.T)  # what a key adds to a query's logits and to its normaliser
    dq, dk, used = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(target)
    total = x.new_zeros(())
    for start in range(0, T, BLOCK):
        stop = min(start + BLOCK, T)
        e = _block_weights(q, k, start, stop, shift)
        summed = e @ brings[:stop]  # (block, C + 1): unnormalised logits and normaliser
        z = summed[:, -1:]
        logits = summed[:, :-1] / z
        logs = logits.log_softmax(-1)
        total -= (logs * target[start:stop]).sum()
        error = (logs.exp() - target[start:stop]) / T  # equation 13
        # b_ij = u_i . v_j = error_i . (W_O v_j) and E b = error_i . logits_i, so (b_ij - E b) / z_i is one product
        against = torch.cat([error, -(error * logits).sum(1, keepdim=True)], 1) / z
        ds = (against @ brings[:stop].T).mul_(e)  # (block, stop), equation 23
        torch.mm(ds, k[:stop], out=dq[start:stop])
        dk[:stop].addmm_(ds.T, q[start:stop])
        used[:stop].addmm_(e.T, against[:, :-1])  # sum_i alpha_ij error_i: equation 16 before W_O
    return total / T, dq.T @ x * scale, dk.T @ x, W_O.T @ (used.T @ x), used.T @ v


def causal_predict(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Predictions:
    """Logits of a causal head without a bias, and the entropy of its attention over the log of the number of visible keys."""
    T = len(x)
    q, k = x @ W_Q.T / math.sqrt(len(W_Q)), x @ W_K.T
    v1, logits, spread = _ones(x @ W_V.T), x.new_empty(T, len(W_O)), x.new_empty(T)
    for start in range(0, T, BLOCK):
        stop = min(start + BLOCK, T)
        e = _block_weights(q, k, start, stop, None)
        summed = e @ v1[:stop]
        logits[start:stop] = summed[:, :-1] / summed[:, -1:] @ W_O.T
        alpha = e / summed[:, -1:]
        visible = torch.arange(start + 1, stop + 1, device=x.device).to(x)
        spread[start:stop] = -torch.xlogy(alpha, alpha).sum(1) / visible.log()
    spread[0] = torch.nan
    return Predictions(logits, spread)
