"""The task, its exact loss, and the construction that solves it (recall2025, Section 2, Figures 2 and 3, appendix A.2)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor

from ....draw import numpy_rng
from ....models import RecallTransformer
from ....tasks import AssociativeRecall
from ..theory.population import Population

Array = np.ndarray
Values = dict[str, object]


def task_sizes() -> Values:
    """Faults of generated sequences, orders 2 to 4: length, vocabulary, pairs shown, and the answer after the query's permutation."""
    wrong = 0
    for n in (2, 3, 4):
        task = AssociativeRecall(n, 4)
        queries, maps = task.sample(20, numpy_rng(n))
        tokens = task.sequences(queries, maps)
        wrong += int(tokens.shape[1] != math.factorial(n + 1) + n) + int(tokens.max() >= task.vocabulary)
        for b, row in enumerate(tokens[:, :-n].reshape(20, -1, n + 1)):
            pairs = {tuple(p[:-1]): p[-1] for p in row}
            wrong += int(len(pairs) != task.n_permutations)
            wrong += int(pairs[tuple(tokens[b, -n:])] != n + maps[b, queries[b]])
    return {"task/wrong": wrong}


def enumerated(pop: Population, theta: Array) -> tuple[float, Array]:
    """Loss and autograd gradient of the transformer that reads the tokens, averaged over every query and every map."""
    task = pop.task
    model = RecallTransformer(task.order, task.n_responses, pop.n_heads, pop.gamma, pop.matrix)
    w, beta = pop.split(theta)
    with torch.no_grad():
        model.w.copy_(torch.tensor(w))
        model.beta.copy_(torch.tensor(beta))
    queries, maps = task.enumerate()
    right = torch.tensor(task.order + maps[np.arange(len(queries)), queries])
    p = model(torch.tensor(task.sequences(queries, maps))).gather(1, right[:, None])[:, 0]
    loss = (-p.log() if pop.loss == "ce" else 1 - p).mean()
    loss.backward()
    return loss.item(), pop.join(model.w.grad.numpy(), model.beta.grad.numpy())


def against_enumeration(seed: int = 0, draws: int = 5) -> Values:
    """Largest deviations of the population's loss and gradient from :func:`enumerated`, orders 2 and 3, at random parameters."""
    rng, value, slope = numpy_rng(seed), [], []
    for order, n_responses, loss in itertools.product((2, 3), (2, 3), ("dp", "ce")):
        if n_responses**6 * 6 > 5000 and order == 3:
            continue
        pop = Population(AssociativeRecall(order, n_responses), order, order, 0.4, loss=loss)
        for _ in range(draws):
            theta = rng.normal(size=pop.size)
            brute, gradient = enumerated(pop, theta)
            value.append(abs(float(pop.value(theta)) - brute))
            slope.append(float(np.abs(pop.gradient(theta) - gradient).max()))
    return {"task/loss_deviation": max(value), "task/gradient_deviation": max(slope)}


def construction(order: int = 3, sizes: tuple[float, ...] = (2.0, 5.0, 10.0, 20.0, 30.0, 40.0)) -> dict[str, Array]:
    """Dot-product loss of A.2's construction in the full model against its scale ``c``, with beta above (``super``) and below (``sub``) the diagonal.

    The loss is that of 256 sampled sequences. Where a wrong key's response happens to be right it costs nothing, which changes the loss by a factor and not
    its exponent.
    """
    tokens, right = _sampled(order, 256, 1)
    losses: dict[str, list[float]] = {"super": [], "sub": []}
    for (name, found), c in itertools.product(losses.items(), sizes):
        diagonal = 1 if name == "super" else -1
        model = RecallTransformer(order, 2, order, a0=False, a2=False, a3=False, diagonal=diagonal)
        model.construct(c)
        with torch.no_grad():
            found.append(1 - model(tokens).gather(1, right[:, None]).mean().item())
    return {"c": np.array(sizes), **{name: np.array(found) for name, found in losses.items()}}


def _sampled(order: int, batch: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sequences ``(B, l)`` with two responses, and their answers ``(B,)``."""
    task = AssociativeRecall(order, 2)
    queries, maps = task.sample(batch, numpy_rng(seed))
    right = torch.tensor(order + maps[np.arange(batch), queries])
    return torch.tensor(task.sequences(queries, maps)), right


def construction_values(built: dict[str, Array], order: int = 3) -> Values:
    """Losses of the construction, and the exponent of its loss in c beside ``-(1 - 1/k)``, which the runner-up key explains.

    Near the beginning a head that looks h tokens back finds too few and spreads over what there is. At token ``k - 1`` that is all of the first k tokens
    for the last head. Where these hold the query's last ``k - 1`` tokens at their places, the score is ``c (k - 1 + 1/k)``, against ``c k`` at the right key.
    """
    c, log_loss = built["c"], np.log(built["super"])
    return {
        "full/loss_last": float(built["super"][-1]),
        "full/loss_sub": float(built["sub"][-1]),
        "full/falling": bool((np.diff(built["super"]) < 0).all()),
        "full/rate": float((log_loss[-1] - log_loss[-2]) / (c[-1] - c[-2])),
        "full/rate_predicted": -(1 - 1 / order),
    }


def solution_matrix(order: int = 3, n_responses: int = 2, c: float = 1.0, gamma: float = 0.5) -> Array:
    """``Q^T K = c (B x I~)`` of Figure 3, from a model whose free matrix holds the construction."""
    lifted = {"a0": False, "a1": False, "a2": False, "a3": False}
    model = RecallTransformer(order, n_responses, order, gamma, "printed", **lifted)
    model.construct(c)
    return model.matrix().detach().numpy()


def figure_three(matrix: Array, order: int = 3) -> Values:
    """Figure 3's matrix has blocks on the super-diagonal only, and its scores are those of beta above the diagonal (largest difference)."""
    tokens, _ = _sampled(order, 32, 4)
    scores = []
    for a1 in (False, True):
        model = RecallTransformer(order, 2, order, a0=False, a1=a1, a2=False, a3=False)
        model.construct(5.0)
        with torch.no_grad():
            scores.append(model.scores(tokens))
    width = order + 2
    blocks = np.abs(matrix).reshape(order + 1, width, order + 1, width).max((1, 3)) > 0
    return {
        "fig3/blocks": bool((blocks == np.eye(order + 1, k=1, dtype=bool)).all()),
        "fig3/scores": float((scores[0] - scores[1]).abs().max()),
    }


def simplifications_equal(c: float = 40.0) -> Values:
    """Scores on the responses of the full model and of the simplified one at the construction: largest relative difference."""
    tokens, _ = _sampled(3, 64, 2)
    full, simple = RecallTransformer(3, 2, 3, a0=False, a2=False, a3=False), RecallTransformer(3, 2, 3)
    for model in (full, simple):
        model.construct(c)
    with torch.no_grad():
        a, b = full.scores(tokens)[:, full.responses], simple.scores(tokens)
    return {"simplified/difference": relative(a.numpy(), b.numpy())}


def relative(got: Array, want: Array) -> float:
    """Largest difference over the largest entry of what is wanted."""
    return float(np.abs(got - want).max() / np.abs(want).max())
