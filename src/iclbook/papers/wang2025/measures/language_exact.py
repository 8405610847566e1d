"""What figure 7 says of the GD language model, checked on its tensors: equation 3 with positions as covariates, and weights that see no token."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ....models.gd_language import KERNELS, GDLanguage
from ....models.language import normed
from ....models.transformer_language import TransformerLanguage

V, S, WIDTH, HEADS = 13, 9, 8, 3
#: Weights of the checks: large enough for attention to be far from uniform.
SCALE = 20.0


def model(kernel: str) -> GDLanguage:
    """One block in float64."""
    return _drawn(GDLanguage(V, S, WIDTH, n_heads=HEADS, kernel=kernel))


def _drawn(model: Any) -> Any:
    model = model.double().requires_grad_(False)
    model.initialise(torch.Generator().manual_seed(0), SCALE)
    return model


def story(seed: int = 1) -> Tensor:
    """Tokens ``(S, 1)``."""
    return torch.randint(V, (S, 1), generator=torch.Generator().manual_seed(seed))


def function(model: Any, tokens: Tensor) -> Tensor:
    """What attention of one block adds at the last position ``(d',)``, before anything nonlinear: of a GD model, f."""
    if isinstance(model, TransformerLanguage):
        h = normed(model.embed[tokens] + model.positions[: len(tokens), None], model.gain_embed)
        return model._attended(normed(h, model.gain_attention[0]), 0)[-1, 0]
    e = normed(model.embed, model.gain_embed)[tokens] - model._expected(model.embed, True)
    return model._step((model.attention() @ e.flatten(1)).unflatten(-1, e.shape[1:]), 0)[-1, 0]


def example_by_example(model: GDLanguage, tokens: Tensor) -> Tensor:
    """Equation 3 for one step from f = 0 with M heads (appendix H), kernels of ``Lambda_m p`` and ``P_m``, one example after another ``(d',)``."""
    p = normed(model.positions, model.gain_positions)
    query, mean, n = p[len(tokens)], model.embed.mean(0), len(tokens)
    f = torch.zeros(WIDTH, dtype=p.dtype)
    for m in range(HEADS):
        square = model.lam[m] ** 2
        inner = [float((square * query * p[i]).sum()) / math.sqrt(WIDTH) for i in range(n)]
        if model.kernel == "softmax":
            total = sum(math.exp(x) for x in inner)
            kappa = [math.exp(x) / total for x in inner]
        elif model.kernel == "rbf":
            far = [float((square * (query - p[i]) ** 2).sum()) / math.sqrt(WIDTH) for i in range(n)]
            kappa = [math.exp(-float(model.gain_gamma[m]) * x) for x in far]
        else:
            kappa = inner
        for i, token in enumerate(tokens[:, 0].tolist()):
            w = normed(model.embed[token], model.gain_embed)
            f = f + kappa[i] / n * (w - mean) @ model.mix[0, m]
    return f


def interaction(model: Any) -> float:
    """How far the effect of two changed tokens is from the sum of their effects, relative to one of them."""
    y = story()
    one, two, both = y.clone(), y.clone(), y.clone()
    one[2], both[2] = (y[2] + 1) % V, (y[2] + 1) % V
    two[5], both[5] = (y[5] + 1) % V, (y[5] + 1) % V
    start, a, b, ab = (function(model, x) for x in (y, one, two, both))
    return float((ab - a - b + start).abs().max() / (a - start).abs().max())


def figure7() -> dict[str, Any]:
    """``language/formula``, ``language/additive`` (softmax, linear, RBF) and ``language/additive_tf``."""
    apart = []
    for kernel in KERNELS:
        own = function(model(kernel), story())
        apart.append(float((example_by_example(model(kernel), story()) - own).abs().max() / own.abs().max()))
    tf = _drawn(TransformerLanguage(V, S, WIDTH, n_heads=HEADS, split=False))
    return {
        "language/formula": apart,
        "language/additive": [interaction(model(kernel)) for kernel in KERNELS],
        "language/additive_tf": interaction(tf),
    }
