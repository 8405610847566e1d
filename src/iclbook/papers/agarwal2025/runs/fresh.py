"""The head of section 7.2 of agarwal2025 on a fresh sequence at every step: what it can learn when data are not what limits it."""

from __future__ import annotations

import torch

from ....random import INIT, generator
from ....tasks.sticky_chain import StickyChain
from ....training import Adam
from ..measures.cases import random_weights
from ..theory.causal import predict, step
from .full_batch import INIT_SCALE, MATRICES, data


def gap(chain: StickyChain, seed: int, steps: int, T: int = 300, rate: float = 3e-3) -> float:
    """Loss on the seed's held-out sequence minus its Bayes floor, nats, after Adam on ``steps`` fresh sequences of length ``T`` with the same means."""
    own = data(chain, seed)
    short = StickyChain(chain.leaving, chain.stay, T, chain.n, chain.d, chain.noise)
    gen, adam = generator(seed, 10), Adam()
    drawn = random_weights(generator(seed, INIT), chain.d, 10, 15, chain.n, INIT_SCALE)[:4]
    params = {name: p.float() for name, p in zip(MATRICES, drawn, strict=True)}
    state, rates = adam.init(params), dict.fromkeys(MATRICES, rate)
    for t in range(1, steps + 1):
        seq = short.sequence(torch.randn(short.normals, generator=gen), own.train.means)
        target = torch.nn.functional.one_hot(seq.y, chain.n).to(seq.x)
        got = step(seq.x, target, *params.values())
        grads = {name: getattr(got, name) for name in MATRICES}
        params, state = adam.update(params, grads, state, rates, torch.tensor(float(t)))
    logits = predict(own.held_out.x, *params.values()).logits
    return float(torch.nn.functional.cross_entropy(logits, own.held_out.y)) - chain.bayes_loss(own.held_out)
