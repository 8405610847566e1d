"""What the papers compute alike, to rounding, each from its own paper's functions; and pairs that look alike and are not."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from iclbook.models.attention import Attention, attend
from iclbook.models.kernels import kernel_values, key_factor, relate
from iclbook.models.recall_transformer import RecallTransformer
from iclbook.papers.agarwal2025 import closed_forms
from iclbook.papers.he2025.predictors import softmax_predictor
from iclbook.papers.wang2025.descent import functional_descent
from iclbook.tasks.associative_recall import AssociativeRecall
from iclbook.theory import construct, debiased_gd, layer_answers, sample_prompts, scores, vanilla_gd

D, L, RATE, OMEGA, MU = 5, 12, 0.8, 0.4, 1.7
#: Rounding, and what is clearly another answer.
SAME, OTHER = 1e-13, 0.02
PROMPTS = sample_prompts(6, D, L, 0.1, seed=3)
TENSORS = [torch.from_numpy(part) for part in (PROMPTS.x, PROMPTS.y, PROMPTS.x_q)]


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Largest difference, relative to the largest answer."""
    return float(np.abs(one - other).max() / np.abs(other).max())


def functional_step(kernel: str, rate: float, gamma: float, x=TENSORS[0], y=TENSORS[1], q=TENSORS[2]):
    """wang2025: one step from zero with real responses (appendix G), ``x (B, N, d)``, ``y (B, N)``, ``q (B, d)``; the query's function."""
    found = []
    for keys, values, query in zip(x, y, q, strict=True):
        relation = relate("inner", torch.cat([keys, query[None]]), keys)  # (N + 1, N)
        kappa = key_factor(kernel, len(keys)) * kernel_values(kernel, relation, gamma).T
        values = values[:, None]
        steps = functional_descent([kappa], values, values, [rate], expect=lambda w, f: f, mean=False)
        found.append(float(steps[-1][-1, 0]))
    return np.array(found)


def constructed_layer(rate: float) -> np.ndarray:
    """nagy2026: von Oswald's layer from zero, whose loss is a sum where he2025's is a mean."""
    layer = construct(D, 1, rate / L)
    zero = np.zeros((1, D))
    answers = [
        layer_answers(layer, zero, x, y[:, None], q[None])
        for x, y, q in zip(PROMPTS.x, PROMPTS.y, PROMPTS.x_q, strict=True)
    ]
    return np.array(answers).ravel()


def trained_layer(rate: float, activation: str = "linear") -> np.ndarray:
    """The attention that this book trains, with circuits set: KQ reads covariates, OV the response."""
    kq, ov = torch.zeros(1, D + 1, D + 1).double(), torch.zeros(1, 1, D + 1).double()
    kq[0, :D, :D], ov[0, 0, D] = torch.eye(D), rate
    context = torch.cat([TENSORS[0], TENSORS[1][..., None]], -1).permute(1, 2, 0)  # (L, D + 1, B)
    return attend(kq, ov, context, TENSORS[2].T, activation)[0].numpy()


STEP = vanilla_gd(RATE, PROMPTS.x, PROMPTS.y, PROMPTS.x_q)


@pytest.mark.parametrize("same", [functional_step("linear", RATE, 1.0), constructed_layer(RATE), trained_layer(RATE)])
def test_one_step_of_descent_has_four_names(same):
    assert distance(same, STEP) < SAME


def test_the_debiased_step_is_one_with_the_linear_kernel_on_centred_keys():
    debiased = debiased_gd(RATE, PROMPTS.x, PROMPTS.y, PROMPTS.x_q)
    centred = TENSORS[0] - TENSORS[0].mean(1, keepdim=True)
    assert distance(functional_step("linear", RATE, 1.0, x=centred), debiased) < SAME
    assert distance(functional_step("linear", RATE, 1.0), debiased) > OTHER


def test_two_opposite_heads_only_come_near_it():
    """Odd in the scale: the distance falls as its square."""
    debiased = debiased_gd(RATE, PROMPTS.x, PROMPTS.y, PROMPTS.x_q)

    def gap(scale: float) -> float:
        mu = RATE / (2 * scale)
        pair = softmax_predictor([scale, -scale], [mu, -mu], PROMPTS.x, PROMPTS.y, PROMPTS.x_q)
        return distance(pair, debiased)

    assert gap(0.13) > 1e-3, "at the scale that is learned they differ"
    assert gap(0.02) / gap(0.01) == pytest.approx(4, rel=0.02)


HEAD = softmax_predictor([OMEGA], [MU], PROMPTS.x, PROMPTS.y, PROMPTS.x_q)


def test_one_head_is_a_normalised_step():
    assert distance(functional_step("softmax", MU, OMEGA), HEAD) < SAME
    assert distance(functional_step("softmax", MU, 1.5 * OMEGA), HEAD) > OTHER
    assert distance(functional_step("exponential", MU, OMEGA), HEAD) > OTHER


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_the_head_that_recalls_is_the_same_head(gamma):
    """Keys are what the first layer gathers at each response, the query asks for the last tokens, values are responses."""
    task, heads = AssociativeRecall(3, 2), 3
    model = RecallTransformer(3, 2, heads, gamma=gamma)
    model.initialise(torch.Generator().manual_seed(5))
    tokens = torch.from_numpy(task.sequences(*task.sample(1, np.random.default_rng(6))))[0]
    symbols = torch.nn.functional.one_hot(tokens, model.vocabulary).double()
    with torch.no_grad():
        answer = model(tokens[None])[0].numpy()  # probabilities of the vocabulary
        keys = (model.first_layer()[:, model.responses] @ symbols).transpose(0, 1).flatten(1)  # (n!, K S)
        asked = symbols[[len(tokens) - h for h in range(1, heads + 1)]] @ model.block
        query = (model.beta[:, None] ** 2 * asked).flatten()
    values = symbols[model.responses]  # (n!, S)

    def he(x_q: np.ndarray) -> np.ndarray:
        return np.array([softmax_predictor([1.0], [1.0], keys.numpy(), y, x_q) for y in values.T.numpy()])

    wide = [part[None].expand(len(values.T), *part.shape) for part in (keys, query)]
    assert distance(he(query.numpy()), answer) < SAME
    assert distance(functional_step("softmax", 1.0, 1.0, wide[0], values.T, wide[1]), answer) < SAME
    assert distance(he(np.roll(query.numpy(), model.vocabulary)), answer) > OTHER, "heads in another order"


def test_responsibilities_weigh_the_gradient_of_ov():
    """agarwal2025's equation 32 with one asking position a prompt is autograd's gradient of he2025's loss in OV, and in V where O is apart."""
    context = torch.cat([TENSORS[0], TENSORS[1][..., None]], -1)  # (B, L, D + 1)
    target = torch.from_numpy(PROMPTS.y_q)
    omegas = (0.3, -0.5)
    kq = torch.stack([torch.diag(torch.tensor([o] * D + [0.0], dtype=torch.float64)) for o in omegas]).double()
    model = Attention(D, 2).double()
    model.initialise(torch.Generator().manual_seed(1))
    with torch.no_grad():
        model.query.copy_(kq)
        model.key.copy_(torch.eye(D + 1).expand(2, -1, -1))
    ov = model.circuits()["ov"].detach().requires_grad_()
    answer = attend(kq, ov, context.permute(1, 2, 0), TENSORS[2].T)[0]
    (by_autograd,) = torch.autograd.grad(((answer - target) ** 2).sum(), ov)
    loss = ((model(context.permute(1, 2, 0), TENSORS[2].T)[0] - target) ** 2).sum()
    (in_v,) = torch.autograd.grad(loss, model.value)
    u = 2 * (answer.detach() - target)[:, None, None]  # (B, 1, 1): the gradient at each answer
    for head, omega in enumerate(omegas):
        alpha = torch.from_numpy(softmax(omega * scores(PROMPTS.x, PROMPTS.x_q), -1))[:, None]  # (B, 1, L)
        own = closed_forms.value_projection_gradient(u, alpha, context).sum(0)  # (1, D + 1)
        assert distance(own.numpy(), by_autograd[head].numpy()) < SAME
        through_o = u * model.output[head, -1].detach()  # (B, 1, D + 1)
        own = closed_forms.value_projection_gradient(through_o, alpha, context).sum(0)
        assert distance(own.numpy(), in_v[head].numpy()) < SAME
        even = torch.full_like(alpha, 1 / L)
        wrong = closed_forms.value_projection_gradient(u, even, context).sum(0)
        assert distance(wrong.numpy(), by_autograd[head].numpy()) > OTHER
