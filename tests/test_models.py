"""The models against the printed matrices, and the reduced model against the closed-form loss."""

import math

import numpy as np
import pytest
import torch
from naive import code_scale, full_forward
from torch import Tensor

from iclbook.models import ACTIVATIONS, Attention, ReducedAttention
from iclbook.models.module import attended
from iclbook.papers.he2025 import predictors

B = 16  # prompts
NORMALISED = [name for name in ACTIVATIONS if name != "linear"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def attention(n_heads: int = 2, n_tasks: int = 1, d: int = 4, seed: int = 0, **kwargs) -> Attention:
    """A float64 model with parameters large enough for the softmax to be far from uniform."""
    model = Attention(d, n_heads, n_tasks, **kwargs).double()
    model.initialise(generator(seed), scale=2.0)
    return model.requires_grad_(False)


def prompts(model: Attention, L: int = 7, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Context ``(L, D, B)`` and query ``(d, B)``."""
    g = generator(seed)
    d = model.width - model.n_tasks
    draw = {"dtype": torch.float64, "generator": g}
    return torch.randn(L, model.width, B, **draw), torch.randn(d, B, **draw)


def parameters(model: Attention) -> dict[str, Tensor]:
    return dict(model.named_parameters())


# -- against the printed definition -----------------------------------------------------------------------------------


@pytest.mark.parametrize("score_scale", ["none", "code"])
@pytest.mark.parametrize("n_tasks", [1, 2])
@pytest.mark.parametrize("n_heads", [1, 2, 4])
def test_attention_is_the_printed_transformer(n_heads, n_tasks, score_scale):
    model = attention(n_heads, n_tasks, score_scale=score_scale)
    context, query = prompts(model)
    scale = code_scale(4 + n_tasks) if score_scale == "code" else 1.0
    expected = full_forward(parameters(model), context.permute(2, 0, 1), query.T, n_tasks, scale)
    torch.testing.assert_close(model(context, query), expected.T, rtol=0, atol=1e-12)


def test_linear_attention_is_the_matrix_formula():
    """(1/L) sum_h OV^(h) Z Z^T KQ^(h) z_q, every matrix written out."""
    for n_tasks in (1, 2):
        model = attention(3, n_tasks, activation="linear")
        context, query = prompts(model, L=7)
        z = context.permute(2, 1, 0)  # (B, D, L)
        zq = torch.cat([query, torch.zeros(n_tasks, B, dtype=torch.float64)]).T[..., None]  # (B, D, 1)
        total = torch.zeros_like(zq)
        for q, k, v, o in zip(model.query, model.key, model.value, model.output, strict=True):
            total += (o @ v) @ z @ z.transpose(1, 2) @ (k.T @ q) @ zq / 7
        torch.testing.assert_close(model(context, query), total[:, -n_tasks:, 0].T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NORMALISED)
def test_other_activations_are_normalised_functions_of_the_score(name):
    f = {
        "softmax": np.exp,
        "affine": lambda s: 1 + s,
        "square": lambda s: (1 + s) ** 2,
        "tanh": lambda s: 1 + np.tanh(s),
    }[name]
    scores = 0.4 * torch.randn(3, 7, B, dtype=torch.float64, generator=generator())
    weights = ACTIVATIONS[name](scores)
    torch.testing.assert_close(weights.sum(-2), torch.ones(3, B, dtype=torch.float64), rtol=0, atol=1e-12)
    values = f(scores.numpy())
    np.testing.assert_allclose(weights, values / values.sum(-2, keepdims=True), rtol=1e-12)


# -- the reduced model ------------------------------------------------------------------------------------------------


def reduced(omega, mu) -> ReducedAttention:
    model = ReducedAttention(len(omega)).double()
    model.load_state_dict({k: torch.tensor(v, dtype=torch.float64) for k, v in (("omega", omega), ("mu", mu))})
    return model.requires_grad_(False)


@pytest.mark.parametrize("score_scale", ["none", "code"])
def test_the_reduced_model_is_attention_with_the_documents_circuits(score_scale):
    omega, mu, d = (0.45, 0.13, -0.3, 0.0), (2.0, 3.5, -2.2, 1.0), 4
    full = Attention(d, 4, score_scale=score_scale).double().requires_grad_(False)
    for h in range(4):
        full.key[h] = torch.eye(d + 1)
        full.query[h, :d, :d] = omega[h] / full.scale * torch.eye(d, dtype=torch.float64)
        full.value[h] = torch.eye(d + 1)
        full.output[h, d, d] = mu[h]
    context, query = prompts(full)
    small = reduced(omega, mu)
    torch.testing.assert_close(small(context, query), full(context, query), rtol=0, atol=1e-12)
    by_hand = predictors.softmax_predictor(
        omega, mu, context[:, :d].permute(2, 0, 1).numpy(), context[:, d].T.numpy(), query.T.numpy()
    )
    np.testing.assert_allclose(small(context, query)[0], by_hand, rtol=0, atol=1e-12)
    assert small.circuits().keys() == {"omega", "mu"}


# -- initial parameters -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_initial_parameters_follow_pytorchs_default(scale):
    d, n_heads = 5, 400
    model = Attention(d, n_heads)
    model.initialise(generator(3), scale)
    width = d + 1
    fan_in = {"query": width, "key": width, "value": width, "output": n_heads * width}
    for name, p in model.named_parameters():
        p = p.detach().double().flatten()
        bound = scale / math.sqrt(fan_in[name])
        assert p.abs().max() <= bound * (1 + 1e-6)
        assert p.abs().max() > 0.99 * bound
        # uniform: mean 0, second moment bound^2/3, fourth bound^4/5
        for power, expected in ((1, 0.0), (2, bound**2 / 3), (4, bound**4 / 5)):
            sample = p**power
            z = (sample.mean() - expected) / (sample.std() / math.sqrt(len(p)))
            assert abs(z) < 5, (name, power)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_along_the_batch_is_attention_by_matrices(causal, monkeypatch):
    parts = [torch.randn(2, 3, 5, B, dtype=torch.float64, generator=generator(i)) for i in range(3)]
    bias = torch.full((5, 5), -torch.inf if causal else 0.0, dtype=torch.float64).triu(1)[..., None]
    found = []
    for compiled in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda compiled=compiled: compiled)
        leaves = [part.clone().requires_grad_() for part in parts]
        mixed, weights = attended(*leaves, bias)
        slopes = torch.autograd.grad((mixed**3).sum() + (weights**2).sum(), leaves)
        found.append((mixed, weights, *slopes))
    torch.testing.assert_close(*found)
    assert not causal or found[1][1].sum((0, -1)).triu(1).abs().max() == 0
