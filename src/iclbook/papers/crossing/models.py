"""Losses of the papers' models, small, each on a finite set of its own paper's prompts, as functions of one vector of parameters."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ... import random
from ...draw import numpy_rng
from ...models import Attention, ReducedAttention
from ...models.functional_gd import FunctionalGD
from ...models.kernels import embedded
from ...models.single_head import SingleHead
from ...models.spectral_attention import SpectralAttention
from ...models.trained_tf import TrainedStep
from ...tasks import AssociativeRecall, Batch, LinearRegression, MultiTaskRegression
from ...tasks.categorical import Anchors
from ...tasks.sticky_chain import StickyChain
from ...training import cross_entropy, squared_error
from ...training.landscape import Family, Landscape
from ..recall2025.theory import Population

Array = np.ndarray


def _images(batch: Batch, *signs: tuple[Tensor | int, ...]) -> Batch:
    """Prompts, each once for each of these factors on context, query and target."""
    parts = zip(batch, zip(*signs, strict=True), strict=True)
    return Batch(*(torch.cat([part * sign for sign in each], -1) for part, each in parts))


def antithetic(batch: Batch) -> Batch:
    """Prompts of regression, each four times: as it is, query and answer negated, all answers negated, both. What is odd in query or weights averages to zero."""
    flip = torch.ones(batch.context.shape[1], 1)
    flip[-len(batch.target) :] = -1
    return _images(batch, (1, 1, 1), (1, -1, -1), (flip, 1, -1), (flip, -1, 1))


def mirrored(batch: Batch) -> Batch:
    """Prompts of categories, ``context (N, d + 1, B)`` with the category last, each twice: as it is, and all covariates negated. Means of covariates then tell nothing."""
    flip = -torch.ones(batch.context.shape[1], 1)
    flip[-1] = 1
    return _images(batch, (1, 1, 1), (flip, -1, 1))


# -- the models ------------------------------------------------------------------------------------------------------------

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


def sequence(draw: int) -> Batch:
    """One sequence of the sticky chain, as agarwal2025 trains on one: inputs ``(T - 1, d)`` and one-hot targets ``(T - 1, n)``."""
    seq = CHAIN.sequence(*random.drawn(CHAIN, draw, PROMPTS, (), dtype=torch.float64))
    return Batch(seq.x, seq.x[:0], nn.functional.one_hot(seq.y, CHAIN.n).to(seq.x))


def next_symbol(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over positions of ``-log p_{i, y_i}``."""
    return -(model(batch.context).log_softmax(-1) * batch.target).sum(-1).mean()


def read_out(model: nn.Module, batch: Batch) -> Tensor:
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


def _regression(
    model: nn.Module, task: Any = REGRESSION, count: int = 32, stiff: bool = False
) -> Callable[[int], Landscape]:
    family = Family(model, squared_error, stiff=stiff)
    return lambda draw: family(antithetic(prompts(task, draw, count)))


def _categories(model: nn.Module, held: tuple[str, ...] = (), **options: Any) -> Callable[[int], Landscape]:
    """A model whose ``embed`` is held has the embeddings that its data were drawn from."""
    family = Family(model, cross_entropy, held, **options)

    def landscape(draw: int) -> Landscape:
        task = replace(CATEGORIES, embed_seed=draw)
        return family(mirrored(prompts(task, draw)), *([task.embedding.double()] if "embed" in held else []))

    return landscape


def _recall(draw: int) -> Landscape:
    """The exact population loss; only the sizes of beta are drawn, and ``w = 0``: beta of a head that begins by looking elsewhere, by more than beta, dies out."""
    population = Population(AssociativeRecall(order=3, n_responses=4), n_heads=2, window=3)

    def evaluate(theta: Array) -> tuple[float, Array]:
        return float(population.value(theta)), population.gradient(theta)

    def start(seed: int) -> Array:
        beta = np.abs(numpy_rng(seed).standard_normal(population.n_heads))
        return np.concatenate([np.zeros(population.size - len(beta)), beta])

    return Landscape(start, evaluate)


@cache
def heads_of(n_heads: int) -> Family:
    """Landscapes of that many softmax heads."""
    return Family(Attention(2, n_heads), squared_error, values=read_out)


#: As ``heads_of(2)``, for batches of 128 prompts: a family records its operations for one shape of batch.
_FEW = Family(Attention(2, 2), squared_error)
_CHAIN = Family(SingleHead(CHAIN.d, 3, 3, CHAIN.n), next_symbol, values=_symbol_values)
#: Model -> ``landscape(draw)``. A draw is one of prompts and, with categories, of embeddings.
MODELS: dict[str, Callable[[int], Landscape]] = {
    "reduced": _regression(ReducedAttention(2)),
    "heads": lambda draw: heads_of(2)(antithetic(prompts(REGRESSION, draw))),
    "linear": _regression(Attention(2, 2, activation="linear")),
    "tasks": _regression(Attention(2, 2, n_tasks=2), TASKS),
    "layer": _regression(SpectralAttention(2, width=4, n_heads=1), count=4, stiff=True),
    "recall": _recall,
    "chain": lambda draw: _CHAIN(sequence(draw)),
    "descent": _categories(FunctionalGD(5, 3, kernel="softmax"), held=("rate", "log_gamma")),
    "known": _categories(TrainedStep(2, 5, 3), held=("embed",), values=_class_values),
    "trained": _categories(TrainedStep(2, 5, 3)),
    "few": lambda draw: _FEW(prompts(REGRESSION, draw, 128)),
}


def heads_and_slope(batch: Batch, theta: Array) -> tuple[float, Array]:
    """Loss of softmax heads on prompts, as arrays, and its gradient in closed form, of ``theta (n,)``: query, key, value and output, ``(H, D, D)`` each.

    With weights ``a_l = softmax_l(z_l . KQ x_q)``, values ``v_l = OV z_l``, a head's answer ``o = sum_l a_l v_l`` and the loss ``mean (sum_h o - y_q)^2``,
    whose slope in an answer is ``u = 2 (sum_h o - y_q) / B``:
    ``dL/dOV = sum u a_l z_l``, ``dL/dKQ = sum u a_l (v_l - o) z_l x_q^T``.
    """
    context, asked, target = batch
    d, width = len(asked), context.shape[1]
    query, key, value, output = theta.reshape(4, -1, width, width)
    rows = output[:, -1]
    kq = key.transpose(0, 2, 1) @ query
    scores = np.einsum("hdb,ldb->hlb", kq[..., :d] @ asked, context)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    ov = np.einsum("ha,had->hd", rows, value)
    values = np.einsum("hd,ldb->hlb", ov, context)
    answers = (weights * values).sum(1)
    off = answers.sum(0) - target[0]
    weights *= 2 / len(off) * off  # each times the slope in an answer
    to_ov = np.einsum("hlb,ldb->hd", weights, context)
    to_kq = np.zeros_like(kq)
    seen = np.einsum("hlb,ldb->hdb", weights * (values - answers[:, None]), context)
    to_kq[..., :d] = seen @ asked.T
    slopes = np.zeros((4, *kq.shape))
    slopes[0], slopes[1] = key @ to_kq, query @ to_kq.transpose(0, 2, 1)
    slopes[2] = rows[..., None] * to_ov[:, None]
    slopes[3, :, -1] = np.einsum("had,hd->ha", value, to_ov)
    return float((off**2).mean()), slopes.ravel()


def softmax_heads(n_heads: int, draw: int, count: int = 32) -> Landscape:
    """The landscape of so many softmax heads on symmetric prompts, with their gradient in closed form."""
    batch = antithetic(prompts(REGRESSION, draw, count))
    arrays = Batch(*(np.ascontiguousarray(part) for part in batch))
    return replace(heads_of(n_heads)(batch), evaluate=partial(heads_and_slope, arrays))


def residual_layer(normed: bool, draw: int, width: int = 4) -> Landscape:
    """Answer ``r . (s_q + O V sum_l a_l h_l)``, ``a = softmax_l(K h_l . Q h_q)``, on a stream ``s = E z``, E held; ``h`` is s or its layer norm. Parameters r, O, V, K, Q."""
    context, asked, target = (part.numpy() for part in antithetic(prompts(REGRESSION, draw)))
    embed = numpy_rng((draw, 13)).standard_normal((width, context.shape[1])) / np.sqrt(context.shape[1])
    stream = np.einsum("wd,ldb->lwb", embed, context)
    last = embed[:, : len(asked)] @ asked
    norm = lambda s: (s - s.mean(-2, keepdims=True)) / np.sqrt(s.var(-2, keepdims=True) + 1e-5)  # noqa: E731
    read, query = (norm(stream), norm(last)) if normed else (stream, last)

    def evaluate(theta: Array) -> tuple[float, Array]:
        r = theta[:width]
        out, value, key, ask = theta[width:].reshape(4, width, width)
        row = r @ out
        scores = np.einsum("wb,lwb->lb", key.T @ (ask @ query), read)
        weights = np.exp(scores - scores.max(0))
        weights /= weights.sum(0)
        mixed = np.einsum("lb,lwb->wb", weights, read)
        found = row @ value
        answer = found @ mixed
        off = answer + r @ last - target[0]
        u = 2 / len(off) * off
        slope_found, slope_r = mixed @ u, last @ u
        slope_row = value @ slope_found
        to_scores = weights * (np.einsum("w,lwb->lb", found, read) - answer) * u
        to_kq = np.einsum("lb,lwb->wb", to_scores, read) @ query.T
        slopes = [np.outer(r, slope_row), np.outer(row, slope_found), ask @ to_kq.T, key @ to_kq]
        return float((off**2).mean()), np.concatenate([slope_r + out @ slope_row, *(s.ravel() for s in slopes)])

    return Landscape(lambda seed: numpy_rng(seed).standard_normal(width + 4 * width**2), evaluate)
