"""The task, its exact loss, and the construction that solves it (recall2025, Section 2, Figures 2 and 3, appendix A.2)."""

import math
from itertools import product

import numpy as np
import torch
from torch import Tensor

from ...draw import numpy_rng
from ...models import RecallTransformer
from ...tasks import AssociativeRecall
from .stages import Values
from .theory import Array, Population

#: What the construction of Section 2.2 lifts; its second layer has the shape of the solution.
LIFTED = {"a0": False, "a2": False, "a3": False}


def task_sizes() -> Values:
    """Faults of generated sequences, orders 2 to 4: length, vocabulary, pairs shown, and the answer after the query's permutation."""
    wrong = 0
    for n in (2, 3, 4):
        task = AssociativeRecall(n, 4)
        queries, maps = task.sample(20, numpy_rng(n))
        tokens = task.sequences(queries, maps)
        shown = tokens[:, :-n].reshape(20, -1, n + 1)
        asked = (shown[..., :-1] == tokens[:, None, -n:]).all(-1)  # (20, n!)
        wrong += int(tokens.shape[1] != math.factorial(n + 1) + n) + int(tokens.max() >= task.vocabulary)
        wrong += sum(len(np.unique(pairs[:, :-1], axis=0)) != task.n_permutations for pairs in shown)
        wrong += int((asked.sum(1) != 1).sum() + (shown[asked, -1] != n + maps[np.arange(20), queries]).sum())
    return {"task/wrong": wrong}


def enumerated(pop: Population, theta: Array) -> tuple[float, Array]:
    """Loss and autograd gradient of the transformer that reads the tokens, averaged over every query and every map."""
    task = pop.task
    model = RecallTransformer(task.order, task.n_responses, pop.n_heads, pop.gamma, pop.matrix)
    torch.nn.utils.vector_to_parameters(torch.tensor(theta), model.parameters())
    queries, maps = task.enumerate()
    right = torch.tensor(task.order + maps[np.arange(len(queries)), queries])
    p = model(torch.tensor(task.sequences(queries, maps))).gather(1, right[:, None])[:, 0]
    loss = (-p.log() if pop.loss == "ce" else 1 - p).mean()
    loss.backward()
    return loss.item(), pop.join(model.w.grad.numpy(), model.beta.grad.numpy())


def against_enumeration(draws: int = 5) -> Values:
    """Largest deviations of the population's loss and gradient from :func:`enumerated`, orders 2 and 3, at random parameters."""
    rng, value, slope = numpy_rng(0), [], []
    for order, n_responses, loss, _ in product((2, 3), (2, 3), ("dp", "ce"), range(draws)):
        pop = Population(AssociativeRecall(order, n_responses), order, order, 0.4, loss=loss)
        theta = rng.normal(size=pop.size)
        brute, gradient = enumerated(pop, theta)
        value.append(abs(pop.value(theta) - brute))
        slope.append(np.abs(pop.gradient(theta) - gradient).max())
    return {"task/loss_deviation": max(value), "task/gradient_deviation": max(slope)}


def constructed(c: float, **options: object) -> RecallTransformer:
    """A.2's construction at scale c, order three, two responses."""
    model = RecallTransformer(3, 2, 3, **options).requires_grad_(False)
    model.construct(c)
    return model


def _sampled(batch: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sequences ``(B, l)`` of that task, and their answers ``(B,)``."""
    task = AssociativeRecall(3, 2)
    queries, maps = task.sample(batch, numpy_rng(seed))
    right = torch.tensor(task.order + maps[np.arange(batch), queries])
    return torch.tensor(task.sequences(queries, maps)), right


def construction(sizes: tuple[float, ...] = (2.0, 5.0, 10.0, 20.0, 30.0, 40.0)) -> dict[str, Array]:
    """Dot-product loss of A.2's construction in the full model, on 256 sequences, against its scale ``c``, with beta above (``super``) and below (``sub``) the diagonal."""
    tokens, right = _sampled(256, 1)
    found = {"c": np.array(sizes)}
    for name, diagonal in (("super", 1), ("sub", -1)):
        models = (constructed(c, **LIFTED, diagonal=diagonal) for c in sizes)
        found[name] = np.array([1 - model(tokens).gather(1, right[:, None]).mean().item() for model in models])
    return found


def construction_values(built: dict[str, Array]) -> Values:
    """Losses of the construction, and the exponent of its loss in c beside ``-(1 - 1/k)``: at token ``k - 1`` the last head spreads over the first k tokens, and where
    these hold the query's last ``k - 1`` at their places the score is ``c (k - 1 + 1/k)``, against ``c k`` at the right key."""
    c, log_loss = built["c"], np.log(built["super"])
    return {
        "full/loss_last": built["super"][-1],
        "full/loss_sub": built["sub"][-1],
        "full/falling": (np.diff(built["super"]) < 0).all(),
        "full/rate": (log_loss[-1] - log_loss[-2]) / (c[-1] - c[-2]),
        "full/rate_predicted": -(1 - 1 / 3),
    }


def solution_matrix() -> Array:
    """``Q^T K = c (B x I~)`` of Figure 3 at c = 1 and gamma = 1/2, from a model whose free matrix holds the construction."""
    return constructed(1.0, gamma=0.5, matrix="printed", **LIFTED, a1=False).matrix().numpy()


def figure_three(matrix: Array) -> Values:
    """Figure 3's matrix has blocks on the super-diagonal only, and its scores are those of beta above the diagonal (largest difference)."""
    tokens, _ = _sampled(32, 4)
    free, kept = (constructed(5.0, **LIFTED, a1=a1).scores(tokens) for a1 in (False, True))
    blocks = np.abs(matrix).reshape(4, 5, 4, 5).max((1, 3)) > 0
    return {"fig3/blocks": (blocks == np.eye(4, k=1, dtype=bool)).all(), "fig3/scores": (free - kept).abs().max()}


def simplifications_equal(c: float = 40.0) -> Values:
    """Scores on the responses of the full model and of the simplified one at the construction: largest relative difference."""
    tokens, _ = _sampled(64, 2)
    full, simple = constructed(c, **LIFTED), constructed(c)
    kept = full.scores(tokens)[:, full.responses]
    return {"simplified/difference": relative(kept.numpy(), simple.scores(tokens).numpy())}


def relative(got: Array, want: Array) -> float:
    """Largest difference over the largest entry of what is wanted."""
    return float(np.abs(got - want).max() / np.abs(want).max())
