"""What holds exactly in recall2025: the model against enumeration, the lemmas as printed and as they hold."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch.autograd.functional import jacobian
from torch.func import functional_call

from ....models import RecallTransformer
from ....tasks import AssociativeRecall
from ..theory import Population, lemma_c2, mean_delta

Values = dict[str, float | list[float]]


def _model(pop: Population, theta: np.ndarray) -> RecallTransformer:
    """The transformer on tokens with the parameters ``theta`` of the population."""
    model = RecallTransformer(pop.task.order, pop.task.n_responses, pop.n_heads, pop.gamma, pop.matrix)
    w, beta = pop.split(theta)
    with torch.no_grad():
        model.w.copy_(torch.tensor(w))
        model.beta.copy_(torch.tensor(beta))
    return model


def enumerated(pop: Population, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """Loss and autograd gradient, averaged over every query and every map, of the transformer that reads the tokens."""
    task, model = pop.task, _model(pop, theta)
    queries, maps = task.enumerate()
    tokens = torch.tensor(task.sequences(queries, maps))
    right = torch.tensor(task.order + maps[np.arange(len(queries)), queries])
    p = model(tokens).gather(1, right[:, None])[:, 0]
    loss = (-p.log() if pop.loss == "ce" else 1 - p).mean()
    loss.backward()
    return loss.item(), pop.join(model.w.grad.numpy(), model.beta.grad.numpy())


def against_enumeration(seed: int = 0, draws: int = 5) -> Values:
    """Population loss, gradient and Lemma C.3 against brute force over all queries and maps: largest deviations."""
    rng, value, slope = np.random.default_rng(seed), [], []
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


def task_sizes() -> Values:
    """Length, vocabulary and completeness of the sequences that the generator makes."""
    wrong = 0
    for n in (2, 3, 4):
        task = AssociativeRecall(n, 4)
        queries, maps = task.sample(20, np.random.default_rng(n))
        tokens = task.sequences(queries, maps)
        wrong += int(tokens.shape[1] != (np.prod(range(1, n + 2)) + n))
        shown = tokens[:, :-n].reshape(20, -1, n + 1)
        for b in range(20):
            pairs = {tuple(p[:-1]): p[-1] for p in shown[b]}
            wrong += int(len(pairs) != task.n_permutations)
            wrong += int(pairs[tuple(tokens[b, -n:])] != n + maps[b, queries[b]])
        wrong += int(tokens.max() >= task.vocabulary)
    return {"task/wrong": wrong}


def construction(
    order: int = 3, sizes: tuple[float, ...] = (2.0, 5.0, 10.0, 20.0, 30.0, 40.0)
) -> dict[str, np.ndarray]:
    """Dot-product loss of appendix A.2's construction in the full model as c grows, with beta above and below the diagonal.

    The loss is that of sampled sequences; one in which a wrong key's response happens to be the right one costs nothing, so it varies with them by a
    factor, not in its exponent.
    """
    task = AssociativeRecall(order, 2)
    queries, maps = task.sample(256, np.random.default_rng(1))
    tokens = torch.tensor(task.sequences(queries, maps))
    right = torch.tensor(order + maps[np.arange(256), queries])
    losses: dict[str, list[float]] = {"super": [], "sub": []}
    for name, diagonal in (("super", 1), ("sub", -1)):
        for c in sizes:
            model = RecallTransformer(order, 2, order, a0=False, a2=False, a3=False, diagonal=diagonal)
            model.construct(c)
            with torch.no_grad():
                losses[name].append(1 - model(tokens).gather(1, right[:, None]).mean().item())
    return {"c": np.array(sizes), **{k: np.array(v) for k, v in losses.items()}}


def construction_values(built: dict[str, np.ndarray], order: int = 3) -> Values:
    """What the claims about the construction record, and the rate at which its loss falls with the one that the runner-up key explains.

    Near the beginning a head that looks h tokens back finds nothing there and spreads its attention over what it has. At the token number
    ``order - 1`` that is all of the first ``order`` tokens for the last head: where they hold the query's last ``order - 1`` tokens at their places,
    the score is ``c (order - 1 + 1 / order)`` against ``c order`` at the right key.
    """
    c, log_loss = built["c"], np.log(built["super"])
    return {
        "full/loss_last": float(built["super"][-1]),
        "full/loss_sub": float(built["sub"][-1]),
        "full/falling": bool((np.diff(built["super"]) < 0).all()),
        "full/rate": float((log_loss[-1] - log_loss[-2]) / (c[-1] - c[-2])),
        "full/rate_predicted": -(1 - 1 / order),
    }


def solution_matrix(order: int = 3, n_responses: int = 2, c: float = 1.0, gamma: float = 0.5) -> np.ndarray:
    """``Q^T K = c (B x I~)`` of Figure 3, taken from a model whose free matrix holds the construction."""
    model = RecallTransformer(
        order, n_responses, order, gamma, "printed", a0=False, a1=False, a2=False, a3=False
    )
    model.construct(c)
    return model.matrix().detach().numpy()


def figure_three(matrix: np.ndarray, order: int = 3) -> Values:
    """Figure 3 against the model that is used: blocks on the super-diagonal only, and the same scores as with beta above the diagonal."""
    free = RecallTransformer(order, 2, order, a0=False, a1=False, a2=False, a3=False)
    held = RecallTransformer(order, 2, order, a0=False, a2=False, a3=False)
    task = AssociativeRecall(order, 2)
    tokens = torch.tensor(task.sequences(*task.sample(32, np.random.default_rng(4))))
    for model in (free, held):
        model.construct(5.0)
    with torch.no_grad():
        apart = float((free.scores(tokens) - held.scores(tokens)).abs().max())
    width = task.vocabulary
    blocks = np.abs(matrix).reshape(order + 1, width, order + 1, width).max((1, 3)) > 0
    return {
        "fig3/blocks": bool((blocks == np.eye(order + 1, k=1, dtype=bool)).all()),
        "fig3/scores": apart,
    }


def simplifications_equal(c: float = 40.0) -> Values:
    """Scores on the responses of the full model and of the simplified one, at the construction: largest relative difference."""
    task = AssociativeRecall(3, 2)
    queries, maps = task.sample(64, np.random.default_rng(2))
    tokens = torch.tensor(task.sequences(queries, maps))
    full = RecallTransformer(3, 2, 3, a0=False, a2=False, a3=False)
    simple = RecallTransformer(3, 2, 3)
    for model in (full, simple):
        model.construct(c)
    with torch.no_grad():
        a, b = full.scores(tokens)[:, full.responses], simple.scores(tokens)
    return {"simplified/difference": relative(a.numpy(), b.numpy())}


def relative(got: np.ndarray, want: np.ndarray) -> float:
    """Largest difference over the largest entry of what is wanted."""
    return float(np.abs(got - want).max() / np.abs(want).max())


def lemma_c1(seed: int = 0, draws: int = 20) -> Values:
    """Largest relative error of Lemma C.1's gradients of w and beta against autograd, for the matrix as printed and as the proof uses it."""
    rng, worst = np.random.default_rng(seed), {"printed": 0.0, "lemma": 0.0}
    for matrix in worst:
        for order in (2, 3):
            pop = Population(AssociativeRecall(order, 2), order, order, 0.5, matrix)
            for _ in range(draws):
                theta = rng.normal(size=pop.size)
                _, exact = enumerated(pop, theta)
                beta = pop.split(theta)[1]
                a, by_score = pop.attention(theta), pop._score_gradient(pop.weights(theta))
                # (1 + gamma) 1{match} - <e, I~ R>, with I~ R taken from the matrix in use
                read = pop.kappa * np.einsum("thi,hi->th", pop.match, a) - pop.gamma
                inner = (1 + pop.gamma) * pop.match - pop.gamma - read[:, :, None]
                grad = beta[:, None] ** 2 * a * np.einsum("t,thi->hi", by_score, inner)
                by_beta = 2 * beta * (by_score @ read)
                for got, want in zip((grad, by_beta), pop.split(exact), strict=True):
                    worst[matrix] = max(worst[matrix], relative(got, want))
    return {"lemmaC1/printed": worst["printed"], "lemmaC1/lemma": worst["lemma"]}


def lemma_c2_errors(seed: int = 0, draws: int = 20) -> Values:
    """Largest relative error of lemma C.2: equation 11, and equation 12 as printed (with and without delta) and with equation 6's prefactor."""
    rng = np.random.default_rng(seed)
    worst = {"eq11": 0.0, "eq12": 0.0, "eq12_delta0": 0.0, "eq12_own": 0.0, "eq6": 0.0}
    for order in (2, 3, 4):
        pop = Population(AssociativeRecall(order, 3), order, order, 0.5)
        for _ in range(draws):
            alpha, beta, delta = rng.normal(size=(3, order))
            for name, shift, printed in (
                ("eq6", delta, False),
                ("eq12", delta, True),
                ("eq12_delta0", 0 * delta, True),
            ):
                theta = pop.join(alpha[:, None] * np.eye(order) + shift[:, None], beta)
                by_score = pop._score_gradient(pop.weights(theta))
                w, b = pop.split(pop.gradient(theta))
                for h in range(order):
                    gb, gw = lemma_c2(h, alpha, beta, shift, by_score, pop.match, pop.kappa, printed)
                    worst["eq11"] = max(worst["eq11"], abs(gb - b[h]) / np.abs(b).max())
                    scale = np.abs(w).max()
                    worst[name] = max(worst[name], float(np.abs(gw - w[h]).max() / scale))
                    if name == "eq12_delta0":
                        worst["eq12_own"] = max(worst["eq12_own"], float(abs(gw[h] - w[h, h]) / scale))
    return {
        "lemmaC2/eq11": worst["eq11"],
        "lemmaC2/eq12": worst["eq12"],
        "lemmaC2/eq12_delta0": worst["eq12_delta0"],
        "lemmaC2/eq12_own": worst["eq12_own"],
        "lemmaC2/eq6": worst["eq6"],
    }


def lemma_c3(gammas: tuple[float, ...] = (0.0, 0.3, 1.0, 3.0)) -> Values:
    """E Delta_{1,i} of lemma C.3 against brute force over all queries and maps, and as a check that the loss's slope in gamma_1 is E Delta_{1,1}."""
    deviation = []
    for order, n_responses in ((2, 2), (2, 3), (2, 5), (3, 2), (3, 3)):
        task = AssociativeRecall(order, n_responses)
        if n_responses**task.n_permutations * task.n_permutations > 5000:
            continue
        queries, maps = task.enumerate()
        same = maps == maps[np.arange(len(queries)), queries][:, None]  # (N, n!)
        perms = task.permutations
        for g in gammas:
            wanted = perms[queries][:, -1]  # (N,): q_{k-1}
            hit = wanted[:, None, None] == perms[None, :, ::-1]  # (N, n!, W)
            e = np.exp(g * hit[:, :, 0])
            s = e / e.sum(1, keepdims=True)
            p = (s * same).sum(1)
            brute = [
                -np.mean((s * (same & hit[:, :, i])).sum(1) - p * (s * hit[:, :, i]).sum(1))
                for i in range(order)
            ]
            own, other = mean_delta(np.array(g), order, n_responses)
            closed = [own] + [other] * (order - 1)
            deviation.append(float(np.abs(np.subtract(brute, closed)).max()))
    return {"lemmaC3/deviation": max(deviation)}


def lemma_d(seed: int = 0) -> Values:
    """Lemmas D.1 and D.2 against the Jacobian of the first layer, row by row.

    D.1 as printed normalises ``w_0 .. w_t``, which is what the causal softmax does; D.2 is the window.
    """
    return {"lemmaD1/error": _first_layer_error(False, seed), "lemmaD2/error": _first_layer_error(True, seed)}


def _first_layer_error(window: bool, seed: int) -> float:
    """Largest deviation of the closed derivative of a first layer in w, for all earlier tokens or for a window, from its Jacobian."""
    model = RecallTransformer(2, 2, 2, a0=window, a2=window)
    model.initialise(torch.Generator().manual_seed(seed))
    x = torch.eye(model.length, dtype=torch.float64)  # tokens all different: the attention itself
    weights = model.w.detach()

    def layer(w: torch.Tensor) -> torch.Tensor:
        return functional_call(_FirstLayer(model), {"model.w": w}, ()) @ x

    slopes, r = jacobian(layer, weights), layer(weights)  # (K, l, l, K, W), (K, l, l)
    low, worst = int(window), 0.0
    for h in range(2):
        for t in range(model.order if window else 0, model.length):
            offsets = range(low, low + (2 if window else t + 1))
            e = {i: torch.exp(weights[h, i - low]) for i in offsets}
            total = sum(e.values())
            for i in offsets:
                closed = e[i] / total * (x[t - i] - r[h, t])
                worst = max(worst, float((slopes[h, t, :, h, i - low] - closed).abs().max()))
    return worst


class _FirstLayer(torch.nn.Module):
    def __init__(self, model: RecallTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self) -> torch.Tensor:
        return self.model.first_layer()
