"""Lemmas C.1 to D.2 and the table of A.2 (recall2025) as printed and as they hold, against enumeration and automatic differentiation."""

from itertools import product

import numpy as np
import torch
from torch import Tensor

from ...draw import numpy_rng, torch_rng
from ...models import RecallTransformer
from ...tasks import AssociativeRecall
from .construction import enumerated, relative
from .stages import Values
from .theory import Array, Population, mean_delta, score_weight


def lemma_c1(seed: int = 0, draws: int = 20) -> Values:
    """Largest relative error of lemma C.1's gradients in w and beta against autograd, with the matrix that A.2 prints and with the one of the proof."""
    rng, worst = numpy_rng(seed), {"printed": 0.0, "lemma": 0.0}
    for matrix, order, _ in product(worst, (2, 3), range(draws)):
        pop = Population(AssociativeRecall(order, 2), order, order, 0.5, matrix)
        theta = rng.normal(size=pop.size)
        beta = pop.split(theta)[1]
        a, by_score = pop.attention(theta), pop._score_gradient(pop.weights(theta))
        # (1 + gamma) 1{match} - <e, I~ R>, with I~ R taken from the matrix in use
        read = pop.kappa * np.einsum("thi,hi->th", pop.match, a) - pop.gamma
        inner = (1 + pop.gamma) * pop.match - pop.gamma - read[:, :, None]
        by_w = beta[:, None] ** 2 * a * np.einsum("t,thi->hi", by_score, inner)
        by_beta = 2 * beta * (by_score @ read)
        _, exact = enumerated(pop, theta)
        for got, want in zip((by_w, by_beta), pop.split(exact), strict=True):
            worst[matrix] = max(worst[matrix], relative(got, want))
    return {f"lemmaC1/{matrix}": error for matrix, error in worst.items()}


def lemma_c2(pop: Population, alpha: Array, beta: Array, delta: Array, printed: bool) -> tuple[Array, Array]:
    """Gradients in w ``(K, W)`` and beta ``(K,)`` of lemma C.2 at ``w^h = alpha_h e_h + delta_h 1`` (equations 11, 12), with equation 12's prefactor ``e^{alpha + delta}`` for
    every i (``printed``), or ``e^alpha`` for i = h and 1 for the others (equation 6)."""
    own = np.eye(len(alpha), pop.window, dtype=bool)
    weights = pop.weights(pop.join(alpha[:, None] * own + delta[:, None], beta))
    sums = np.einsum("t,thi->hi", pop._score_gradient(weights), pop.match)  # Delta_{h, i}
    total = np.exp(alpha) + pop.window - 1
    lead = np.expm1(alpha) / total * np.diagonal(sums)
    prefactor = np.exp(alpha + delta)[:, None] if printed else np.where(own, np.exp(alpha)[:, None], 1.0)
    by_w = (pop.kappa * beta**2 / total)[:, None] * prefactor * (sums - lead[:, None])
    return by_w, 2 * beta * pop.kappa * lead


def lemma_c2_errors(seed: int = 0, draws: int = 20) -> Values:
    """Largest relative error of equation 11, of equation 12 as printed (any delta, and delta = 0), and of equation 6."""
    rng = numpy_rng(seed)
    worst = dict.fromkeys(("eq11", "eq12", "eq12_delta0", "eq6"), 0.0)
    for order in (2, 3, 4):
        pop = Population(AssociativeRecall(order, 3), order, order, 0.5)
        for _ in range(draws):
            alpha, beta, delta = rng.normal(size=(3, order))
            for name, shift in (("eq6", delta), ("eq12", delta), ("eq12_delta0", 0 * delta)):
                theta = pop.join(alpha[:, None] * np.eye(order) + shift[:, None], beta)
                found, wanted = lemma_c2(pop, alpha, beta, shift, name != "eq6"), pop.split(pop.gradient(theta))
                for key, got, want in zip((name, "eq11"), found, wanted, strict=True):
                    worst[key] = max(worst[key], relative(got, want))
    return {f"lemmaC2/{name}": error for name, error in worst.items()}


def lemma_c3(gammas: tuple[float, ...] = (0.0, 0.3, 1.0, 3.0)) -> Values:
    """``E Delta_{1,i}`` of lemma C.3, at given gamma_1, against brute force over all queries and maps: largest deviation."""
    worst = 0.0
    for order, n_responses in ((2, 2), (2, 3), (2, 5), (3, 2), (3, 3)):
        task = AssociativeRecall(order, n_responses)
        queries, maps = task.enumerate()
        same = maps == maps[np.arange(len(queries)), queries][:, None]  # (N, n!)
        wanted = task.permutations[queries][:, -1]  # (N,): q_{k-1}
        hit = wanted[:, None, None] == task.permutations[None, :, ::-1]  # (N, n!, W)
        for g in gammas:
            e = np.exp(g * hit[:, :, 0])
            s = e / e.sum(1, keepdims=True)
            p = (s * same).sum(1)
            own, other = mean_delta(np.array(g), order, n_responses)
            for i in range(order):
                brute = -np.mean((s * (same & hit[:, :, i])).sum(1) - p * (s * hit[:, :, i]).sum(1))
                worst = max(worst, float(abs(brute - (other if i else own))))
    return {"lemmaC3/deviation": worst}


def lemma_d(seed: int = 0) -> Values:
    """Lemma D.1 (all earlier tokens) and lemma D.2 (a window) against the derivatives of the first layer in w: largest deviation."""
    values: Values = {}
    for name, window in (("lemmaD1", False), ("lemmaD2", True)):
        model = RecallTransformer(2, 2, 2, a0=window, a2=window)
        model.initialise(torch_rng(seed))
        first = model.order if window else 0  # with a window, from where it is full
        values[f"{name}/error"] = _first_layer_error(model.w, model.first_layer(), int(window), first)
    return values


def _first_layer_error(w: Tensor, attention: Tensor, low: int, first: int = 0) -> float:
    """``d r_t / d w_i = e^{w_i} / (sum of the e^w that t sees) (x_{t-i} - r_t)`` of each head, for tokens that are all different, so that the attention
    ``(K, l, l)`` is what the layer puts out; against autograd, from token ``first`` on. Scores ``w (K, W)`` belong to the offsets from ``low`` on."""
    x, worst = torch.eye(attention.shape[-1], dtype=attention.dtype), 0.0
    for head, rows in enumerate(attention):
        for t in range(first, len(rows)):
            slopes = torch.stack([torch.autograd.grad(r, w, retain_graph=True)[0][head] for r in rows[t]])  # (l, W)
            seen = min(w.shape[1], t + 1 - low)
            closed = torch.softmax(w[head, :seen], 0) * (x[t - low - torch.arange(seen)] - rows[t]).T
            worst = max(worst, (slopes[:, :seen] - closed).abs().max().item())
    return worst


# -- errata: what is printed in two ways -------------------------------------------------------------------------------------


def lemma_d1_matrix(above: float, length: int = 6, seed: int = 0) -> float:
    """Lemma D.1 against the derivatives of ``softmax(A)`` where A holds ``above`` in place of the tokens to come: largest deviation."""
    w = torch.randn(1, length, dtype=torch.float64, generator=torch_rng(seed)).requires_grad_()
    offset = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    return _first_layer_error(w, torch.softmax(torch.where(offset >= 0, w[:, offset.clamp(min=0)], above), -1), 0)


def lemma_c3_weight(seed: int = 0, draws: int = 10) -> Values:
    """Largest relative error of lemma C.3's ``E Delta_{1,1}`` with ``e^(alpha - 1)`` (``printed``) and ``e^alpha - 1`` (``eq13``) in gamma_1, by equation 5."""
    rng, worst = numpy_rng(seed), {"printed": 0.0, "eq13": 0.0}
    pop = Population(AssociativeRecall(4, 3), 4, 4, 0.5)
    for _ in range(draws):
        alpha, beta = rng.uniform(0.5, 2.0, 2)
        w = np.zeros((4, 4))
        w[0, 0] = alpha
        by_beta = pop.split(pop.gradient(pop.join(w, np.array([beta, 0.0, 0.0, 0.0]))))[1][0]
        total = np.expm1(alpha) + 4
        exact = by_beta / (2 * beta * np.expm1(alpha) / total * pop.kappa)
        printed = pop.kappa * beta**2 * np.exp(alpha - 1) / total
        for name, weight in (("printed", printed), ("eq13", score_weight(alpha, beta, 4, pop.kappa))):
            worst[name] = max(worst[name], float(abs(mean_delta(weight, 4, 3)[0] / exact - 1)))
    return {f"lemmaC3/weight_{name}": error for name, error in worst.items()}


def table(seed: int = 0) -> Values:
    """Scores that A.2's table sums, against the models' own, relative: the original column with ``R_{t-1}`` (``printed``) and ``R_{l-1}`` (``last``), and the simplified."""
    task = AssociativeRecall(3, 2)
    tokens = torch.tensor(task.sequences(*task.sample(1, numpy_rng(seed))))
    original = RecallTransformer(3, 2, 3, a0=False, a1=False, a2=False, a3=False)
    simple = RecallTransformer(3, 2, 3, 0.4)
    for model in (original, simple):
        model.initialise(torch_rng(seed))
    x = torch.nn.functional.one_hot(tokens[0], task.vocabulary).double()  # (l, S)
    with torch.no_grad():
        layers = torch.cat([x[None], original.first_layer() @ x])  # (K + 1, l, S): R^0 .. R^K
        blocks = original.matrix().unflatten(0, (4, -1)).unflatten(2, (4, -1))  # (K + 1, S, K + 1, S)
        worth = torch.einsum("hus,hsgd,gtd->ut", layers, blocks, layers)  # [R_u]^T Q^T K R_t
        scores = original.scores(tokens)[0]
        t, size = torch.arange(1, len(scores)), scores.abs().max()
        asked = simple.beta[:, None] ** 2 * (x[[-1, -2, -3]] @ simple.block)  # (K, S): of x_{l-h}
        summed = torch.einsum("hs,hts->t", asked, simple.first_layer() @ x)[simple.responses]
        kept = simple.scores(tokens)[0]
        return {
            "table/printed": float((worth[t - 1, t] - scores[t]).abs().max() / size),
            "table/last": float((worth[-1, t] - scores[t]).abs().max() / size),
            "table/simplified": float((summed - kept).abs().max() / kept.abs().max()),
        }


def loss_gradients(seed: int = 0) -> Values:
    """Deviations from autograd: of A.3's gradients of both losses in p, and of the dot-product loss's in the scores (lemma C.1), with its sum's from zero (equation 10)."""
    scores = torch.randn(24, dtype=torch.float64, generator=torch_rng(seed)).requires_grad_()
    responses = torch.nn.functional.one_hot(torch.arange(24) % 4).double()  # the first is right
    s = torch.softmax(scores, 0)
    p, right = responses.T @ s, responses[0]
    dot, cross = 1 - p @ right, -(right @ p.log())
    slopes = [torch.autograd.grad(loss, p, retain_graph=True)[0] for loss in (dot, cross)]
    apart = [(slopes[0] + right).abs().max(), (slopes[1] * (p @ right) + right).abs().max()]
    (by_score,) = torch.autograd.grad(dot, scores)
    same = responses @ right
    closed = -s.detach() * (same - s.detach() @ same)
    return {
        "losses/gradients": float(max(apart)),
        "lemmaC1/eq10": float(max((closed - by_score).abs().max(), by_score.sum().abs())),
    }


def lemma_values() -> Values:
    """Errors of the lemmas, and of every form that is printed in two ways."""
    exact = lemma_c1() | lemma_c2_errors() | lemma_c3() | lemma_d()
    return exact | {"lemmaD1/zeros": lemma_d1_matrix(0.0)} | lemma_c3_weight() | table()
