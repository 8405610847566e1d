"""Losses of the papers' models, small, each on a finite set of its own paper's prompts, as functions of one vector of parameters: value and gradient, in double
precision."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

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

Array = np.ndarray
#: ``loss(model, batch)``, a number; ``values(model, batch)``, what attention averages, ``(..., keys, ...)``: values as the answer sees them.
OnBatch = Callable[[nn.Module, Batch], Tensor]
#: Names of parameters that make scores.
ROUTING = ("query", "key", "W_Q", "W_K")


@dataclass(frozen=True)
class Landscape:
    """A loss as a function of parameters.

    Attributes:
        start: ``start(seed)``: parameters ``(n,)`` at scale 1, to be multiplied by a scale; standard normal for a module (:class:`Family`).
        evaluate: ``evaluate(theta) -> (loss, gradient)``, float64.
        look: ``look(states (T, n)) -> (attention (T, ...), values (T, ...))`` on the prompts, flat, where the model has both.
        routing: ``(n,)``, which parameters make scores; none where the model has no queries and keys of its own.
        hessian: ``hessian(theta) -> (n, n)``, second derivatives of a loss whose valleys are so narrow that its flow is stiff.
    """

    start: Callable[[int], Array]
    evaluate: Callable[[Array], tuple[float, Array]]
    look: Callable[[Array], tuple[Array, Array]] | None = None
    routing: Array | None = None
    hessian: Callable[[Array], Array] | None = None

    def value(self, theta: Array) -> float:
        """Loss at ``theta (n,)``."""
        return self.evaluate(theta)[0]

    def gradient(self, theta: Array) -> Array:
        """Its gradient ``(n,)``."""
        return self.evaluate(theta)[1]


class Softmaxes(TorchFunctionMode):
    """While it is active, keeps the ``weights`` of every softmax that a model takes, in the order of the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in (torch.softmax, Tensor.softmax):
            self.weights.append(out)
        return out


class _Applied(nn.Module):
    """``function(model, batch)`` as a module, whose parameters can be exchanged."""

    def __init__(self, model: nn.Module, function: Callable[[nn.Module, Batch], Any]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, batch: Batch) -> Any:
        return self.function(self.model, batch)


class Family:
    """Landscapes of one module's parameters, one for each batch of a shape.

    The operations of loss and gradient are recorded when they are first asked for, and repeated without Python between them: a small model's loss and gradient
    in a fifth of the time, bit for bit. The module must take the same operations on all batches of this shape.

    Args:
        model: its parameters named in ``held`` do not move.
        loss, values: of the model on a batch; ``values`` where its attention is to be looked at.
        stiff: whether its landscapes have a hessian.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: OnBatch,
        held: tuple[str, ...] = (),
        values: OnBatch | None = None,
        stiff: bool = False,
    ) -> None:
        def seen(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
            with Softmaxes() as softmaxes:
                loss(model, batch)
            return softmaxes.weights[0].flatten(), values(model, batch).flatten()

        model.double().requires_grad_(False)
        self.shapes = {name: p.shape for name, p in model.named_parameters() if name not in held}
        self.held = {name: p for name, p in model.named_parameters() if name in held}
        self.sizes = [shape.numel() for shape in self.shapes.values()]
        self.routing = np.concatenate([np.full(s.numel(), name in ROUTING) for name, s in self.shapes.items()])
        self.stiff, self.sees = stiff, values is not None
        self._loss, self._seen = _Applied(model, loss), _Applied(model, seen)
        self._repeat: Callable[..., tuple[Tensor, Tensor]] | None = None

    def __call__(self, batch: Batch, *held: Tensor) -> Landscape:
        """The landscape on a batch in double precision, with other values of what is held."""
        inputs = (*batch, *(held or self.held.values()))
        return Landscape(
            lambda seed: numpy_rng(seed).standard_normal(sum(self.sizes)),
            partial(self.evaluate, inputs),
            partial(self.look, inputs) if self.sees else None,
            self.routing,
            partial(self.hessian, inputs) if self.stiff else None,
        )

    def _at(self, applied: _Applied, flat: Tensor, inputs: tuple[Tensor, ...]) -> Any:
        """What a function gives with parameters ``flat (n,)``; inputs are the batch's three parts, then what is held."""
        parts = zip(self.shapes.items(), flat.split(self.sizes), strict=True)
        named = {f"model.{name}": part.view(shape) for (name, shape), part in parts}
        named |= {f"model.{name}": p for name, p in zip(self.held, inputs[3:], strict=True)}
        return torch.func.functional_call(applied, named, (Batch(*inputs[:3]),))

    @torch.enable_grad()
    def slope(self, flat: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and gradient at ``flat (n,)``, by automatic differentiation."""
        flat = flat.detach().requires_grad_()
        value = self._at(self._loss, flat, inputs)
        (slope,) = torch.autograd.grad(value, flat, materialize_grads=True)
        return value.detach(), slope

    @torch.no_grad()
    def evaluate(self, inputs: tuple[Tensor, ...], theta: Array) -> tuple[float, Array]:
        """The same at ``theta (n,)``, from the record."""
        every = (_flat(theta), *inputs)
        if self._repeat is None:
            flat = make_fx(lambda *these: self.slope(*these))(*every)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # what follows it sums in another order
                self._repeat = torch.jit.trace(lambda *these: flat(*these), every, check_trace=False)
        value, slope = self._repeat(*every)
        return float(value), slope.numpy()

    def hessian(self, inputs: tuple[Tensor, ...], theta: Array) -> Array:
        """Second derivatives ``(n, n)`` at ``theta (n,)``."""
        flat = _flat(theta).requires_grad_()
        (gradient,) = torch.autograd.grad(self._at(self._loss, flat, inputs), flat, create_graph=True)
        every = torch.eye(len(gradient), dtype=gradient.dtype)
        (rows,) = torch.autograd.grad(gradient, flat, every, is_grads_batched=True, materialize_grads=True)
        return rows.numpy()

    @torch.no_grad()
    def look(self, inputs: tuple[Tensor, ...], states: Array) -> tuple[Array, Array]:
        """Attention and values at ``states (T, n)``, flat."""
        attention, averaged = torch.func.vmap(lambda flat: self._at(self._seen, flat, inputs))(_flat(states))
        return attention.numpy(), averaged.numpy()


def _flat(theta: Array) -> Tensor:
    return torch.from_numpy(np.array(theta, dtype=float))


def antithetic(batch: Batch, n_tasks: int = 1) -> Batch:
    """Every prompt four times: as it is, query and answer negated, all answers negated, both. Regression's own symmetries, which random prompts have
    on average only: whatever is odd in the query or in the weights of the task then averages to exactly zero.

    Args:
        batch: of regression, ``context (L, d + N, B)``, ``query (d, B)``, ``target (N, B)``.
        n_tasks: N, answers in a token.
    """
    flip = torch.ones(batch.context.shape[1], 1, dtype=batch.context.dtype)
    flip[-n_tasks:] = -1
    contexts = [batch.context, batch.context, batch.context * flip, batch.context * flip]
    queries = [batch.query, -batch.query, batch.query, -batch.query]
    targets = [batch.target, -batch.target, -batch.target, batch.target]
    return Batch(torch.cat(contexts, -1), torch.cat(queries, -1), torch.cat(targets, -1))


def mirrored(batch: Batch) -> Batch:
    """Every prompt of categories twice: as it is, and all covariates negated, a symmetry of their distribution. Means of covariates then tell nothing.

    Args:
        batch: ``context (N, d + 1, B)`` with the category last, ``query (d, B)``, ``target (1, B)``.
    """
    flip = -torch.ones(batch.context.shape[1], 1, dtype=batch.context.dtype)
    flip[-1] = 1
    contexts, queries = [batch.context, batch.context * flip], [batch.query, -batch.query]
    return Batch(torch.cat(contexts, -1), torch.cat(queries, -1), batch.target.repeat(1, 2))


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


def _regression(
    model: nn.Module, task: Any = REGRESSION, count: int = 32, whole: bool = True, **options: Any
) -> Callable[[int], Landscape]:
    family = Family(model, squared_error, **options)

    def landscape(draw: int) -> Landscape:
        batch = prompts(task, draw, count)
        return family(antithetic(batch, task.n_tasks) if whole else batch)

    return landscape


def _categories(model: nn.Module, known: bool = False, **options: Any) -> Callable[[int], Landscape]:
    """``known``: the model holds the embeddings that its data were drawn from."""
    family = Family(model, cross_entropy, **options)

    def landscape(draw: int) -> Landscape:
        task = replace(CATEGORIES, embed_seed=draw)
        return family(mirrored(prompts(task, draw)), *([task.embedding.double()] if known else []))

    return landscape


def _recall(draw: int) -> Landscape:
    """The exact population loss; there is nothing to draw but the sizes of beta. Attention begins even, ``w = 0``, as the paper has it: beta of a head that
    begins by looking elsewhere, by more than beta itself, dies out, and it never leaves."""
    population = Population(AssociativeRecall(order=3, n_responses=4), n_heads=2, window=3)

    def evaluate(theta: Array) -> tuple[float, Array]:
        return float(population.value(theta)), population.gradient(theta)

    def start(seed: int) -> Array:
        beta = np.abs(numpy_rng(seed).standard_normal(population.n_heads))
        return np.concatenate([np.zeros(population.size - len(beta)), beta])

    return Landscape(start, evaluate)


@cache
def heads_of(n_heads: int) -> Callable[[int], Landscape]:
    """``landscape(draw)`` of that many softmax heads on symmetric prompts."""
    return _regression(Attention(2, n_heads), values=_read_out)


_CHAIN = Family(SingleHead(CHAIN.d, 3, 3, CHAIN.n), next_symbol, values=_symbol_values)
#: Model -> ``landscape(draw)``. A draw is one of prompts and, with categories, of embeddings.
MODELS: dict[str, Callable[[int], Landscape]] = {
    "reduced": _regression(ReducedAttention(2)),
    "heads": heads_of(2),
    "linear": _regression(Attention(2, 2, activation="linear")),
    "tasks": _regression(Attention(2, 2, n_tasks=2), TASKS),
    "layer": _regression(SpectralAttention(2, width=4, n_heads=1), count=4, stiff=True),
    "recall": _recall,
    "chain": lambda draw: _CHAIN(sequence(draw)),
    "descent": _categories(FunctionalGD(5, 3, kernel="softmax"), held=("rate", "log_gamma")),
    "known": _categories(TrainedStep(2, 5, 3), known=True, held=("embed",), values=_class_values),
    "trained": _categories(TrainedStep(2, 5, 3)),
    "few": _regression(Attention(2, 2), count=128, whole=False),
}


def heads_and_slope(batch: Batch, theta: Array) -> tuple[float, Array]:
    """Loss of softmax heads on prompts and its gradient in closed form ``(n,)``, of parameters ``theta (n,)``: query, key, value and output ``(H, D, D)`` each,
    in this order.

    With weights ``a_l = softmax_l(z_l . KQ x_q)``, values ``v_l = OV z_l``, a head's answer ``o = sum_l a_l v_l`` and the loss ``mean (sum_h o - y_q)^2``,
    whose slope in an answer is ``u = 2 (sum_h o - y_q) / B``:
    ``dL/dOV = sum u a_l z_l``, ``dL/dKQ = sum u a_l (v_l - o) z_l x_q^T``.

    Args:
        batch: arrays ``context (L, D, B)``, ``query (d, B)``, ``target (1, B)``, float64.
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
    batch = Batch(*(np.ascontiguousarray(part) for part in antithetic(prompts(REGRESSION, draw, count))))
    landscape = replace(heads_of(n_heads)(draw), evaluate=partial(heads_and_slope, batch))
    return landscape if count == 32 else replace(landscape, look=None)  # which looks at 32 prompts
