"""Section 8.2 of agarwal2025 on short chains: LayerNorm on values, attention dropout, the learning rate. Plain autograd."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from ....errors import UserError
from ....models.single_head import SingleHead
from ....random import INIT, generator
from ....statistics import bootstrap_error, share_error
from ....tasks.sticky_chain import StickyChain
from ..runs.full_batch import data
from ..theory.causal import predict

#: Unstated: shares of attention weights dropped, and the uniform rate. Of 1, 0.5 and 0.3 the last is the first at which no run's loss ever rises above
#: its start: at 1 a run with dropout overflows on some processors and not on others.
DROPOUTS, RATE = (0.2, 0.5), 0.3


def _model(seed: int, value_norm: bool = False) -> SingleHead:
    model = SingleHead(value_norm=value_norm)
    model.initialise(generator(seed, INIT), 0.1)
    return model


def _loss(model: SingleHead, x: Tensor, y: Tensor, keep: Tensor | None = None) -> Tensor:
    return torch.nn.functional.cross_entropy(model(x, keep), y)


def _step(model: SingleHead, x: Tensor, y: Tensor, rate: float, keep: Tensor | None = None) -> float:
    loss = _loss(model, x, y, keep)
    grads = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for p, g in zip(model.parameters(), grads, strict=True):
            p -= rate * g
    return float(loss.detach())


def train(
    chain: StickyChain, seed: int, steps: int, dropout: float = 0.0, value_norm: bool = False
) -> SingleHead:
    """A head trained by gradient descent on one short sequence; dropout is scaled so that the mean context is unchanged.

    Raises:
        UserError: the loss is no longer finite.
    """
    seq, model, gen = data(chain, seed).train, _model(seed, value_norm), generator(seed, 9)
    T = len(seq.x)
    for done in range(steps):
        keep = (torch.rand(T, T, generator=gen) >= dropout) / (1 - dropout) if dropout else None
        if not np.isfinite(_step(model, seq.x, seq.y, RATE, keep)):
            raise UserError(
                f"regularisation: seed {seed} with dropout {dropout:g} diverged at step {done}",
                f"Lower RATE, which is {RATE:g}.",
            )
    return model


@torch.no_grad()
def _usage_evenness(model: SingleHead, x: Tensor) -> float:
    """Entropy of the column sums of attention over that of equal sums."""
    usage = model.attention(x).sum(0) / len(x)
    return float(-torch.xlogy(usage, usage).sum() / np.log(len(x)))


@torch.no_grad()
def _spread(model: SingleHead, x: Tensor) -> float:
    return float(predict(x, model.W_Q, model.W_K, model.W_V, model.W_O).spread[1:].mean())


@torch.no_grad()
def _norm_spread(model: SingleHead, x: Tensor) -> float:
    """Standard deviation of the norms of the values over their mean, float64: single precision would leave its own rounding where they are all alike."""
    sizes = deepcopy(model).double().values(x).norm(dim=-1)
    return float(sizes.std() / sizes.mean())


def _directions_moved(seed: int, x: Tensor, y: Tensor, value_norm: bool) -> Tensor:
    """Change of the values' directions ``(T, d_v)`` in one small step from the common start."""
    model = _model(seed, value_norm).double()
    with torch.no_grad():
        before = torch.nn.functional.normalize(model.values(x), dim=-1)
    _step(model, x, y, 1e-4)
    with torch.no_grad():
        return torch.nn.functional.normalize(model.values(x), dim=-1) - before


def measure(seeds: Sequence[int], T: int = 200, steps: int = 300) -> dict[str, object]:
    """Section 8.2's claims, over seeds."""
    chain = StickyChain("code", T=T)
    norms, cosines, even, spread = [], [], [], []
    for seed in seeds:
        seq = data(chain, seed).train
        plain, normed = train(chain, seed, steps), train(chain, seed, steps, value_norm=True)
        dropped = [train(chain, seed, steps, dropout=share) for share in DROPOUTS]
        x = seq.x.double()
        norms.append(_norm_spread(normed, x) / _norm_spread(plain, x))
        moved = [_directions_moved(seed, x, seq.y, flag) for flag in (False, True)]
        cosines.append(torch.nn.functional.cosine_similarity(*moved, dim=-1))
        even.append([_usage_evenness(model, seq.x) > _usage_evenness(plain, seq.x) for model in dropped])
        spread.append([_spread(model, seq.x) > _spread(plain, seq.x) for model in dropped])
    return {
        "reg/seeds": len(seeds),
        "reg/norm_spread": float(np.median(norms)),
        "reg/direction": float(torch.cat(cosines).median()),
        "reg/direction_se": bootstrap_error(np.median, torch.stack(cosines).numpy()),
        "reg/dropout_even": np.mean(even, 0).tolist(),
        "reg/dropout_even_se": _errors(even),
        "reg/dropout_spread": np.mean(spread, 0).tolist(),
        "reg/dropout_spread_se": _errors(spread),
    }


def _errors(happens: list[list[bool]]) -> list[float]:
    """Standard error of the share of seeds at each dropout rate; ``happens`` has one list of rates for each seed."""
    return [share_error(int(hits), len(happens)) for hits in np.sum(happens, 0)]
