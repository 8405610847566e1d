"""Loss of softmax heads (:class:`iclbook.models.Attention` with one task) on prompts, and its gradient in closed form."""

from __future__ import annotations

import numpy as np

from ....tasks import Batch

Array = np.ndarray


class SoftmaxHeads:
    """``evaluate(theta) -> (loss, gradient (n,))`` of parameters ``theta (n,)``: query, key, value and output ``(H, D, D)`` each, in this order.

    With weights ``a_l = softmax_l(z_l . KQ x_q)``, values ``v_l = OV z_l``, a head's answer ``o = sum_l a_l v_l`` and the loss ``mean (sum_h o - y_q)^2``,
    whose slope in an answer is ``u = 2 (sum_h o - y_q) / B``:
    ``dL/dOV = sum u a_l z_l``, ``dL/dKQ = sum u a_l (v_l - o) z_l x_q^T``.

    Args:
        batch: ``context (L, D, B)``, ``query (d, B)``, ``target (1, B)``, float64.
    """

    def __init__(self, batch: Batch) -> None:
        self.context, self.query, self.target = (part.contiguous().numpy() for part in batch)
        self.width = self.context.shape[1]

    def evaluate(self, theta: Array) -> tuple[float, Array]:
        """Loss and gradient."""
        query, key, value, output = theta.reshape(4, -1, self.width, self.width)
        d, rows = len(self.query), output[:, -1]
        kq = key.transpose(0, 2, 1) @ query
        scores = np.einsum("hdb,ldb->hlb", kq[..., :d] @ self.query, self.context)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        ov = np.einsum("ha,had->hd", rows, value)
        values = np.einsum("hd,ldb->hlb", ov, self.context)
        answers = (weights * values).sum(1)
        off = answers.sum(0) - self.target[0]
        weights *= 2 / len(off) * off  # each times the slope in an answer
        to_ov = np.einsum("hlb,ldb->hd", weights, self.context)
        to_kq = np.zeros_like(kq)
        seen = np.einsum("hlb,ldb->hdb", weights * (values - answers[:, None]), self.context)
        to_kq[..., :d] = seen @ self.query.T
        slopes = np.zeros((4, *kq.shape))
        slopes[0], slopes[1] = key @ to_kq, query @ to_kq.transpose(0, 2, 1)
        slopes[2] = rows[..., None] * to_ov[:, None]
        slopes[3, :, -1] = np.einsum("had,hd->ha", value, to_ov)
        return float((off**2).mean()), slopes.ravel()
