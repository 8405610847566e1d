"""The papers' models, small, each on a finite set of its own paper's prompts, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .... import random
from ....draw import numpy_rng
from ....models import Attention, ReducedAttention
from ....models.functional_gd import FunctionalGD
from ....models.kernels import embedded
from ....models.single_head import SingleHead
from ....models.spectral_attention import SpectralAttention
from ....models.trained_tf import TrainedStep
from ....tasks import AssociativeRecall, Batch, LinearRegression, MultiTaskRegression
from ....tasks.categorical import Anchors
from ....tasks.sticky_chain import StickyChain
from ....training.groups import cross_entropy, squared_error
from ...recall2025.theory.population import Population
from .landscape import Landscape, Look, Recording, antithetic, mirrored, of_module

#: What the prompts of a draw are for; among the purposes of :mod:`iclbook.random`.
PROMPTS = 40
#: First of the draws that decide; rules were tried on those before.
FIRST = 100
REGRESSION = LinearRegression(d=2, L=12, noise_var=0.0)
TASKS = MultiTaskRegression(d=2, L=12, supports=((0,), (1,)), noise_var=0.0, target_noise_var=0.0, beta_var=0.5)
CATEGORIES = Anchors(N=8, d=2, n_classes=5, width=3, n_anchors=3)
CHAIN = StickyChain("code", T=60, n=4, d=5)


def prompts(task: Any, draw: int, count: int = 32) -> Batch:
    """A draw of ``count`` prompts of a task, in double precision."""
    return task.batch(*random.drawn(task, draw, PROMPTS, (count,), dtype=torch.float64))


def _regression(
    model: Callable[[], nn.Module],
    task: Any = REGRESSION,
    count: int = 32,
    whole: bool = True,
    values: Look | None = None,
) -> Callable[[int], Landscape]:
    recording = Recording()

    def landscape(draw: int) -> Landscape:
        batch = prompts(task, draw, count)
        batch = antithetic(batch, task.n_tasks) if whole else batch
        return of_module(model().double(), batch, squared_error, values=values, recording=recording)

    return landscape


def _categories(
    model: Callable[[], nn.Module], held: tuple[str, ...] = (), values: Look | None = None
) -> Callable[[int], Landscape]:
    recording = Recording()

    def landscape(draw: int) -> Landscape:
        task, built = replace(CATEGORIES, embed_seed=draw), model().double()
        with torch.no_grad():
            built.embed.copy_(task.embedding)  # the model knows what its data were drawn from
        return of_module(built, mirrored(prompts(task, draw, 32)), cross_entropy, held, values, recording)

    return landscape


def _read_out(model: nn.Module, batch: Batch) -> Tensor:
    """``OV z_l`` ``(H, N, L, B)`` of :class:`Attention`."""
    return torch.einsum("hnd,ldb->hnlb", model.circuits()["ov"], batch.context)


def _class_values(model: nn.Module, batch: Batch) -> Tensor:
    """``W_e^T P W_V e_i`` ``(B, N, C)`` of :class:`TrainedStep`."""
    tokens = batch.context.movedim(-1, 0)
    w = model.embed - model.embed.mean(1, keepdim=True)
    e = torch.cat([tokens[..., : model.d], embedded(w, tokens[..., -1].long())], -1)
    return e @ (model.P[-model.width :] @ model.W_V[:, : e.shape[-1]]).T @ model.embed


def _symbol_values(model: nn.Module, batch: Batch) -> Tensor:
    """``W_O W_V x_j`` ``(T, C)`` of :class:`SingleHead`."""
    return model.values(batch.context) @ model.W_O.T


def _next_symbol(model: nn.Module, batch: Batch) -> Tensor:
    return nn.functional.cross_entropy(model(batch.context), batch.target)


_CHAIN_RECORDING = Recording()


def _chain(draw: int) -> Landscape:
    """One sequence of the sticky chain, as agarwal2025 trains on one."""
    seq = CHAIN.sequence(*random.drawn(CHAIN, draw, PROMPTS, (), dtype=torch.float64))
    model = SingleHead(CHAIN.d, 3, 3, CHAIN.n).double()
    batch = Batch(seq.x, seq.x[:0], seq.y)
    return of_module(model, batch, _next_symbol, values=_symbol_values, recording=_CHAIN_RECORDING)


def _recall(draw: int) -> Landscape:
    """The exact population loss; there is nothing to draw but the sizes of beta. Attention begins even, ``w = 0``, as the paper has it: beta of a head that
    begins by looking elsewhere, by more than beta itself, dies out, and it never leaves."""
    population = Population(AssociativeRecall(order=3, n_responses=4), n_heads=2, window=3)

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        return float(population.value(theta)), population.gradient(theta)

    def start(seed: int) -> np.ndarray:
        beta = np.abs(numpy_rng(seed).standard_normal(population.n_heads))
        return np.concatenate([np.zeros(population.size - len(beta)), beta])

    return Landscape(start, evaluate)


def heads_of(n_heads: int) -> Callable[[int], Landscape]:
    """``landscape(draw)`` of that many softmax heads on regression."""
    return _regression(lambda: Attention(2, n_heads), values=_read_out)


#: Model -> ``landscape(draw)``. A draw is one of prompts and, with categories, of embeddings.
MODELS: dict[str, Callable[[int], Landscape]] = {
    "reduced": _regression(lambda: ReducedAttention(2)),
    "heads": heads_of(2),
    "linear": _regression(lambda: Attention(2, 2, activation="linear")),
    "tasks": _regression(lambda: Attention(2, 2, n_tasks=2), TASKS),
    "layer": _regression(lambda: SpectralAttention(2, width=4, n_heads=1), count=4),
    "recall": _recall,
    "chain": _chain,
    "descent": _categories(lambda: FunctionalGD(5, 3, kernel="softmax"), ("rate", "log_gamma")),
    "known": _categories(lambda: TrainedStep(2, 5, 3), ("embed",), _class_values),
    "trained": _categories(lambda: TrainedStep(2, 5, 3)),
    "few": _regression(lambda: Attention(2, 2), count=128, whole=False),
}


class SoftmaxHeads:
    """Loss of softmax heads on prompts and its gradient in closed form: ``evaluate(theta) -> (loss, gradient (n,))`` of parameters ``theta (n,)``: query, key, value and output ``(H, D, D)`` each, in this order.

    With weights ``a_l = softmax_l(z_l . KQ x_q)``, values ``v_l = OV z_l``, a head's answer ``o = sum_l a_l v_l`` and the loss ``mean (sum_h o - y_q)^2``,
    whose slope in an answer is ``u = 2 (sum_h o - y_q) / B``:
    ``dL/dOV = sum u a_l z_l``, ``dL/dKQ = sum u a_l (v_l - o) z_l x_q^T``.

    Args:
        batch: ``context (L, D, B)``, ``query (d, B)``, ``target (1, B)``, float64.
    """

    def __init__(self, batch: Batch) -> None:
        self.context, self.query, self.target = (np.ascontiguousarray(part) for part in batch)
        self.width = self.context.shape[1]

    def evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
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


def softmax_heads(n_heads: int, draw: int) -> Landscape:
    """The landscape of so many softmax heads on symmetric prompts, with their gradient in closed form."""
    batch = antithetic(prompts(REGRESSION, draw))
    return replace(heads_of(n_heads)(draw), evaluate=SoftmaxHeads(batch).evaluate)
