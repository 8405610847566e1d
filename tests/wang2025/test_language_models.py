"""The language models of wang2025: against plain loops, their counts at the published sizes, and attention that sees no token."""

import math

import pytest
import torch

from iclbook.models.language import KERNELS, GDLanguage, TransformerLanguage
from iclbook.papers.wang2025 import descent

V, S, D, M, B = 11, 7, 8, 2, 3
GD = [
    {"kernel": kernel, "n_blocks": k, "feed_forward": ff} for kernel in KERNELS for k in (1, 2) for ff in (False, True)
]
MODELS = [(GDLanguage, kwargs) for kwargs in [*GD, {"mixing": False}]] + [
    (TransformerLanguage, {"split": split, "n_blocks": k, "feed_forward": ff})
    for split in (True, False)
    for k in (1, 2)
    for ff in (True, False)
]


def made(kind, seed=0, **kwargs):
    """A float64 model with weights large enough for attention to be far from uniform."""
    model = kind(V, S, D, n_heads=M, **kwargs).double().requires_grad_(False)
    model.initialise(torch.Generator().manual_seed(seed), scale=20.0)
    return model


def stories(seed=1):
    return torch.randint(V, (S, B), generator=torch.Generator().manual_seed(seed))


def layer_norm(x, gain):
    x = x - x.mean()
    return gain * x / torch.sqrt((x**2).mean() + 1e-5)


def by_loops(m, y):
    """Logits ``(S, V)`` of one story, each sum written out (the specification's equations)."""
    e = torch.stack([layer_norm(w, m.gain_embed) for w in m.embed])
    p = torch.stack([layer_norm(x, m.gain_positions) for x in m.positions])
    f = torch.zeros(S + 1, D, dtype=torch.float64)  # f[i] asks for token i (0 is the first)
    for k in range(m.n_blocks):
        v = [
            e[y[i]] - sum(a * w for a, w in zip(torch.softmax(m.embed @ f[i], 0), m.embed, strict=False))
            for i in range(S)
        ]
        new = f.clone()
        for t in range(1, S + 1):
            for h in range(m.n_heads):
                inner = [(m.lam[h] * p[t]) @ (m.lam[h] * p[i]) / math.sqrt(D) for i in range(t)]
                if m.kernel == "softmax":
                    a = torch.softmax(torch.stack(inner), 0)
                elif m.kernel == "linear":
                    a = inner
                else:
                    far = [((m.lam[h] * (p[t] - p[i])) ** 2).sum() / math.sqrt(D) for i in range(t)]
                    a = [torch.exp(-m.gain_gamma[h] * r) for r in far]
                mean = sum(a[i] * v[i] for i in range(t)) / t
                new[t] += m.mix[k, h].T @ mean if m.mixing else m.gain_mix[k, h] * mean
            if m.feed_forward:
                x = m.W_1[k] @ layer_norm(new[t], m.gain_hidden[k])
                new[t] += m.W_2[k] @ torch.nn.functional.gelu(x)
        f = new
    return torch.stack([e @ layer_norm(f[t], m.gain_out) for t in range(1, S + 1)])


@pytest.mark.parametrize("kwargs", [kwargs for kind, kwargs in MODELS if kind is GDLanguage])
def test_gd_is_what_the_equations_say(kwargs):
    model, y = made(GDLanguage, **kwargs), stories()
    torch.testing.assert_close(model(y)[:, 0], by_loops(model, y[:, 0]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("kind", "kwargs"), MODELS)
def test_no_model_sees_the_future(kind, kwargs):
    model, y = made(kind, **kwargs), stories()
    other = y.clone()
    other[4:] = (other[4:] + 1) % V
    torch.testing.assert_close(model(y)[:4], model(other)[:4], rtol=0, atol=1e-12)
    assert (model(y)[4:] - model(other)[4:]).abs().amax((1, 2)).min() > 1e-3


def gd_step(model, y):
    """f of one block before anything nonlinear."""
    kept = []
    model._read = lambda f: kept.append(f) or f
    model._fed = lambda f, k: f
    model(y)
    return kept[0]


def transformer_step(model, y):
    kept = []
    inner = type(model)._attended
    model._attended = lambda x, k: kept.append(inner(model, x, k)) or kept[0]
    model(y)
    return kept[0]


@pytest.mark.parametrize("kernel", KERNELS)
def test_attention_of_one_gd_block_sees_positions_alone(kernel):
    """The theorem of the chapter: the weights take no token, so what the tokens of a story do to f adds up. A Transformer's do not."""
    gd, tf = made(GDLanguage, kernel=kernel), made(TransformerLanguage)
    assert descent.interaction(lambda y: gd_step(gd, y)[-1], stories()[:, :1], (1, 3), V) < 1e-12
    assert descent.interaction(lambda y: transformer_step(tf, y)[-1], stories()[:, :1], (1, 3), V) > 1e-2


def counted(kind, vocabulary=50_257, **kwargs):
    with torch.device("meta"):
        model = kind(vocabulary, 256, 512, **kwargs)
    return model.count() - model.embedding_count(), model.count()


@pytest.mark.parametrize(
    ("kind", "kwargs", "expected"),
    [
        (GDLanguage, {}, (2_102_784, 27_965_952)),
        (GDLanguage, {"feed_forward": True}, (4_200_448, 30_063_616)),
        (TransformerLanguage, {"split": False}, (10_487_808, 36_350_464)),
        (TransformerLanguage, {"split": True}, (3_147_776, 29_010_432)),
    ],
)
def test_counts_at_the_published_sizes(kind, kwargs, expected):
    assert counted(kind, **kwargs) == expected


def test_a_padding_token_adds_one_embedding():
    assert counted(GDLanguage, 50_258)[1] - counted(GDLanguage)[1] == 512
