"""The models of nagy2026's controlled experiments against literal implementations in torch.nn and plain loops."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from iclbook.models.deep_attention import DeepAttention
from iclbook.models.spectral_attention import MASKS, SpectralAttention

F64 = torch.float64


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randomised(model: nn.Module, seed: int = 0) -> nn.Module:
    """Every parameter away from its start, in float64: gains that are not 1, biases that are not small."""
    model.initialise(seeded(seed), 1.5)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name != "visible":
                p.add_(0.3 * torch.randn(p.shape, generator=seeded(seed + 1)))
    return model.double()


def prompts(d: int, n: int, batch: int, rows: int = 0, seed: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    g = seeded(seed)
    context = torch.randn(n, d + 1, batch, dtype=F64, generator=g)
    query = torch.randn(d, batch, dtype=F64, generator=g)
    uniform = torch.rand(n + 1, rows, batch, dtype=F64, generator=g)
    return torch.cat([context, uniform[:-1]], 1), torch.cat([query, uniform[-1]])


# -- several layers -----------------------------------------------------------------------------------------------------


def torch_layers(model: DeepAttention) -> tuple[nn.Linear, list[tuple[nn.Module, nn.MultiheadAttention]], nn.Linear]:
    """The same weights in torch.nn's own modules: embedding, (norm, attention) for each layer, read-out."""
    width = model.width
    embed, read = nn.Linear(model.d + 1, width).double(), nn.Linear(width, 1).double()
    layers = []
    with torch.no_grad():
        embed.weight.copy_(model.embed)
        embed.bias.copy_(model.embed_bias)
        read.weight.copy_(model.read[None])
        read.bias.copy_(model.read_bias)
        for i in range(model.n_layers):
            attention = nn.MultiheadAttention(width, model.n_heads, batch_first=True).double()
            attention.in_proj_weight.copy_(torch.cat([model.query[i], model.key[i], model.value[i]]))
            attention.in_proj_bias.copy_(torch.cat([model.query_bias[i], model.key_bias[i], model.value_bias[i]]))
            attention.out_proj.weight.copy_(model.output[i])
            attention.out_proj.bias.copy_(model.output_bias[i])
            norm = nn.Identity()
            if model.layer_norm:
                norm = nn.LayerNorm(width).double()
                norm.weight.copy_(model.gain[i])
                norm.bias.copy_(model.shift[i])
            layers.append((norm, attention))
    return embed, layers, read


def torch_forward(model: DeepAttention, context: torch.Tensor, query: torch.Tensor):
    """Prediction ``(1, B)`` and the query's attention ``(H, T, B)`` by layer: every row of every layer, dropout where there are rows."""
    d = model.d
    embed, layers, read = torch_layers(model)
    last = torch.cat([query[:d], torch.zeros_like(query[:1])])[None]
    state = embed(torch.cat([context[:, : d + 1], last]).permute(2, 0, 1))  # (B, T, width)
    if model.has_sink:
        state = torch.cat([model.sink.expand(len(state), 1, -1), state], dim=1)
    dropped = None
    if model.dropout and len(query) > d:
        rows = torch.cat([context[:, d + 1 :], query[None, d:]]).permute(2, 0, 1)  # (B, T, rows)
        dropped = (rows >= model.dropout).double() / (1 - model.dropout)
    attended = []
    for i, (norm, attention) in enumerate(layers):
        x = norm(state)
        update, weights = attention(x, x, x, average_attn_weights=False)
        attended.append(weights[:, :, -1].permute(1, 2, 0))
        if model.has_scale:
            update = model.scale[i] * update
        if dropped is not None:
            factor = torch.ones_like(update)  # a sink is never dropped
            factor[:, int(model.has_sink) :] = dropped[..., i * model.width : (i + 1) * model.width]
            update = update * factor
        state = state + update
    return read(state)[:, -1].T, attended


@pytest.mark.parametrize(("norm", "sink", "scale"), list(itertools.product((True, False), repeat=3)))
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_deep_attention_equals_torch_modules(norm, sink, scale, dropout):
    model = randomised(DeepAttention(3, 8, 2, 3, layer_norm=norm, sink=sink, layer_scale=scale, dropout=dropout))
    context, query = prompts(3, 6, 7, rows=3 * 8 + 2 if dropout else 0)
    with torch.no_grad():
        expected, attended = torch_forward(model, context, query)
        predicted, weights = model._run(context, query)
    torch.testing.assert_close(predicted, expected, rtol=1e-11, atol=1e-12)
    for mine, theirs in zip(weights, attended, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("printed", "layers", "kwargs"),
    [
        (8801, 2, {"width": 32, "n_layers": 2}),
        (9989, 4, {"width": 24, "n_layers": 4, "sink": True, "layer_scale": True, "orthogonality": 0.01}),
    ],
)
def test_parameters_are_exactly_as_printed(printed, layers, kwargs):
    """Counted in the module, and in torch.nn's modules for the same architecture."""
    model = DeepAttention(4, dropout=0.1, **kwargs)
    assert sum(p.numel() for p in model.parameters()) == printed
    width = kwargs["width"]
    parts = [nn.Linear(5, width), nn.Linear(width, 1)]
    parts += [m for _ in range(layers) for m in (nn.LayerNorm(width), nn.MultiheadAttention(width, 2))]
    counted = sum(p.numel() for m in parts for p in m.parameters())
    assert printed == counted + (width + layers if "sink" in kwargs else 0)


def test_orthogonality_penalty_by_brute_force():
    model = randomised(DeepAttention(2, 12, 3, 2, orthogonality=0.7))
    total, terms = 0.0, 0
    for stack in (model.query, model.key, model.value):
        for layer in stack.detach().numpy():
            heads = [layer[4 * h : 4 * h + 4] for h in range(3)]
            for a, b in itertools.combinations(heads, 2):
                total += sum((u @ v) ** 2 for u in a for v in b)
                terms += 1
    assert terms == 18
    assert model.penalty().item() == pytest.approx(0.7 * total / terms, rel=1e-12)
    assert DeepAttention(2, 12, 3, 2).penalty() == 0
    assert DeepAttention(2, 12, 1, 2, orthogonality=1.0).penalty() == 0


# -- one layer ----------------------------------------------------------------------------------------------------------


def loop_forward(model: SpectralAttention, context: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Head by head, token by token, prompt by prompt; the masks written out by hand."""
    p = {k: v.detach().numpy() for k, v in model.named_parameters()}
    d, n, width = model.d, len(context), model.width // model.n_heads
    answers = []
    for b in range(query.shape[1]):
        asked = p["embed"] @ np.append(query[:, b], 0)
        stream = asked.copy()
        for h in range(model.n_heads):
            keep = np.zeros(d + 1)
            band = d // model.n_heads
            if model.mask == "none":
                keep[:] = 1
            elif model.mask == "spectral":
                keep[h * band : (h + 1) * band] = 1
            elif model.mask == "redundant":
                keep[:band] = 1
            else:
                keep[:d] = p["visible"][h]
            scores, values = [], []
            for token in context[:, :, b]:
                key = p["key"][h] @ (p["embed"] @ (keep * token))
                scores.append(key @ (p["query"][h] @ asked) / math.sqrt(width))
                values.append(p["output"][h] @ (p["value"][h] @ (p["embed"] @ token)))
            s = np.array(scores)
            weights = np.exp(s) / np.exp(s).sum() if model.activation == "softmax" else s / n
            stream += weights @ np.array(values)
        answers.append(p["read"] @ stream)
    return np.array(answers)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_spectral_attention_equals_a_loop_and_its_curve_equals_forwards(mask, activation):
    model = randomised(SpectralAttention(6, 12, 3, mask, activation))
    context, query = prompts(6, 5, 4)
    target = torch.randn(1, 4, dtype=F64, generator=seeded(1))
    np.testing.assert_allclose(
        model(context, query)[0].detach(), loop_forward(model, context.numpy(), query.numpy()), rtol=1e-11
    )
    curve = model.curve(context, query, target)
    apart = torch.stack([((model(context[:n], query) - target) ** 2).mean() for n in range(1, 6)])
    torch.testing.assert_close(curve, apart, rtol=1e-11, atol=1e-13)
    measured = model.measured_on({"p": (context, query, target)})
    torch.testing.assert_close(measured["curve_p"], apart, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("mask", ["spectral", "random", "redundant"])
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_gain_is_the_derivative_of_the_prediction(mask, activation):
    """Coefficient of ``y_l x_l,i x_q,i / L`` by finite differences at small prompts, where masked keys read no responses."""
    model = randomised(SpectralAttention(4, 8, 2, mask, activation))
    n, h, gain = 3, 1e-2, model.circuits()["gain"]
    for i in range(4):
        signs = list(itertools.product((1, -1), repeat=3))
        context, query = torch.zeros(n, 5, 8, dtype=F64), torch.zeros(4, 8, dtype=F64)
        for b, (s_y, s_x, s_q) in enumerate(signs):  # every token, so that softmax's subtracted mean is of second order
            context[0, 4, b], context[0, i, b], query[i, b] = s_y * h, s_x * h, s_q * h
        weights = torch.tensor([math.prod(s) for s in signs], dtype=F64)
        slope = (model(context, query)[0] @ weights) / (8 * h**3)
        share = 1 / n if activation == "linear" else 1 / n - 1 / n**2  # softmax scores count less their mean
        assert slope.item() == pytest.approx(share * gain[i].item(), rel=1e-2, abs=1e-5)
