"""Small misprints of recall2025 against what they should say: the matrix of D.1's proof, gamma_1 of lemma C.3, the table of A.2."""

from __future__ import annotations

import numpy as np
import torch
from torch.autograd.functional import jacobian

from ....models import RecallTransformer
from ....tasks import AssociativeRecall
from ..theory import Population, mean_delta, score_weight
from .exact import Values


def lemma_d1_matrix(above: float, length: int = 6, seed: int = 0) -> float:
    """Lemma D.1 against the Jacobian of ``softmax(A) x`` where A holds ``above`` in place of the tokens to come: largest deviation."""
    w = torch.randn(length, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    offset = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    x = torch.eye(length, dtype=torch.float64)

    def layer(w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.where(offset >= 0, w[offset.clamp(min=0)], above), -1) @ x

    slopes, r, worst = jacobian(layer, w), layer(w), 0.0  # (l, l, l), (l, l)
    for t in range(length):
        for i in range(t + 1):
            closed = torch.exp(w[i]) / torch.exp(w[: t + 1]).sum() * (x[t - i] - r[t])
            worst = max(worst, float((slopes[t, :, i] - closed).abs().max()))
    return worst


def lemma_c3_weight(seed: int = 0, draws: int = 10) -> dict[str, float]:
    """Lemma C.3 with ``gamma_1`` as it prints it, ``e^(alpha - 1)`` for ``e^alpha - 1``, and with equation 13's, against ``E Delta_{1,1}`` from the
    population's gradient in beta (equation 5): largest relative error."""
    rng, worst = np.random.default_rng(seed), {"printed": 0.0, "eq13": 0.0}
    pop = Population(AssociativeRecall(4, 3), 4, 4, 0.5)
    for _ in range(draws):
        alpha, beta = rng.uniform(0.5, 2.0, 2)
        w = np.zeros((4, 4))
        w[0, 0] = alpha
        by_beta = pop.split(pop.gradient(pop.join(w, np.array([beta, 0.0, 0.0, 0.0]))))[1][0]
        total = np.expm1(alpha) + 4
        exact = by_beta / (2 * beta * np.expm1(alpha) / total * pop.kappa)
        weights = {
            "printed": pop.kappa * beta**2 * np.exp(alpha - 1) / total,
            "eq13": score_weight(alpha, beta, 4, pop.kappa),
        }
        for name, weight in weights.items():
            worst[name] = max(worst[name], float(abs(mean_delta(weight, 4, 3)[0] / exact - 1)))
    return worst


def table(seed: int = 0) -> dict[str, float]:
    """The scores of A.2's table, summed as it writes them, against the models': the original with ``R_{t-1}`` as printed and with ``R_{l-1}`` (from t = 1
    on: ``R_{-1}`` does not exist), and the simplified. Largest deviations, relative to the largest score."""
    task = AssociativeRecall(3, 2)
    queries, maps = task.sample(1, np.random.default_rng(seed))
    tokens = torch.tensor(task.sequences(queries, maps))
    original = RecallTransformer(3, 2, 3, a0=False, a1=False, a2=False, a3=False)
    simple = RecallTransformer(3, 2, 3, 0.4)
    for model in (original, simple):
        model.initialise(torch.Generator().manual_seed(seed))
    x = torch.nn.functional.one_hot(tokens[0], task.vocabulary).double()  # (l, S)
    with torch.no_grad():
        layers = torch.cat([x[None], original.first_layer() @ x])  # (K + 1, l, S): R^0 .. R^K
        blocks = original.matrix().unflatten(0, (4, -1)).unflatten(2, (4, -1))  # (K + 1, S, K + 1, S)
        worth = torch.einsum("hus,hsgd,gtd->ut", layers, blocks, layers)  # [R_u]^T Q^T K R_t
        scores = original.scores(tokens)[0]
        t, size = torch.arange(1, len(scores)), scores.abs().max()
        heads = simple.first_layer() @ x
        asked = simple.beta[:, None] ** 2 * (x[[-1, -2, -3]] @ simple.block)  # (K, S): of x_{l-h}
        summed = torch.einsum("hs,hts->t", asked, heads)[simple.responses]
        kept = simple.scores(tokens)[0]
        return {
            "printed": float((worth[t - 1, t] - scores[t]).abs().max() / size),
            "last": float((worth[-1, t] - scores[t]).abs().max() / size),
            "simplified": float((summed - kept).abs().max() / kept.abs().max()),
        }


def misprint_values() -> Values:
    """What the questions about these misprints record."""
    weight, rows = lemma_c3_weight(), table()
    return {
        "lemmaD1/zeros": lemma_d1_matrix(0.0),
        "lemmaC3/weight_printed": weight["printed"],
        "lemmaC3/weight_eq13": weight["eq13"],
        "table/printed": rows["printed"],
        "table/last": rows["last"],
        "table/simplified": rows["simplified"],
    }
