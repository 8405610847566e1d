"""How a language model continues a beginning: beam search by log-probabilities, as the published code of wang2025 does it, or sampling.

Models have ``start(rows)`` and ``advance(state, token, t)`` (:mod:`iclbook.models.language`); the end of a story is token 0, nothing is -1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .. import random

END, NOTHING = 0, -1
#: Purpose of the random words of sampling.
SAMPLING = 32


@torch.no_grad()
def beam(model: nn.Module, beginnings: Tensor, beams: int = 3, coded: bool = False) -> Tensor:
    """Continue ``beginnings (T, n)`` (:data:`NOTHING` where they stop) to the end or to S + 1 tokens: the best beam of each, ``(S + 1, n)``.

    Args:
        beams: kept at each step.
        coded: add logits instead of log-probabilities and go on behind the end, as the published code does; what stands behind it is cut off.
    """
    n, size = beginnings.shape[1], model.context + 1
    state = model.start(n * beams)
    said = torch.full((size, n, beams), NOTHING, device=beginnings.device)
    said[0] = beginnings[0][:, None]
    score = torch.zeros(n, beams, device=said.device, dtype=model.embed.dtype)
    score[:, 1:] = -torch.inf  # all beams are alike until the first choice
    ended = torch.zeros(n, beams, dtype=torch.bool, device=said.device)
    own = torch.arange(beams, device=said.device).expand(n, beams)
    for t in range(size - 1):
        logits = model.advance(state, said[t].clamp_min(0).flatten(), t).unflatten(0, (n, beams))
        gain = logits if coded else torch.log_softmax(logits, -1)
        gain = torch.where(ended[..., None], _stay(gain), gain)
        total, best = (score[..., None] + gain).flatten(1).topk(beams, -1)
        parent, token = best // gain.shape[-1], best % gain.shape[-1]
        token = token.masked_fill(ended.gather(1, parent), NOTHING)
        if t + 1 < len(beginnings):
            given = (beginnings[t + 1] >= 0)[:, None]
            parent, token = (
                torch.where(given, own, parent),
                torch.where(given, beginnings[t + 1][:, None], token),
            )
            total = torch.where(given, score, total)
        score = total
        _reorder(state, said, ended, parent, t)
        said[t + 1] = token
        ended |= torch.zeros_like(ended) if coded else token == END
        if ended.all():
            break
    return cut(said.gather(2, score.argmax(1)[None, :, None].expand(size, n, 1))[..., 0])


def _stay(gain: Tensor) -> Tensor:
    """Gains of a beam that has ended: one way on, at no cost."""
    still = torch.full_like(gain, -torch.inf)
    still[..., 0] = 0.0
    return still


def _reorder(state: dict[str, Tensor], said: Tensor, ended: Tensor, parent: Tensor, t: int) -> None:
    """Put every beam's parent in its place."""
    n, beams = parent.shape
    if bool((parent == torch.arange(beams, device=parent.device)).all()):
        return
    rows = (parent + beams * torch.arange(n, device=parent.device)[:, None]).flatten()
    for name, part in state.items():
        if part.dim() == 4:  # (rows, K, S, d'): what has been read
            part[:, :, : t + 1] = part[rows, :, : t + 1]
        else:
            state[name] = part[rows]
    said[: t + 1] = said[: t + 1].gather(2, parent.expand(t + 1, n, beams))
    ended.copy_(ended.gather(1, parent))


@torch.no_grad()
def sampled(model: nn.Module, beginnings: Tensor, seed: int = 0) -> Tensor:
    """Continue ``beginnings (T, n)`` by drawing from the model at temperature 1; arguments and result as for :func:`beam`."""
    n, size = beginnings.shape[1], model.context + 1
    state = model.start(n)
    said = torch.full((size, n), NOTHING, device=beginnings.device)
    said[0] = beginnings[0]
    for t in range(size - 1):
        p = torch.softmax(model.advance(state, said[t].clamp_min(0), t).double(), -1)
        words = random.words(
            random.keys([seed], said.device), torch.tensor([t], device=said.device), SAMPLING, (n,)
        )
        chosen = (p.cumsum(-1)[:, :-1] < random.uniform(words[0, 0], p.dtype)[:, None]).sum(-1)
        if t + 1 < len(beginnings):
            chosen = torch.where(beginnings[t + 1] >= 0, beginnings[t + 1], chosen)
        said[t + 1] = chosen
    return cut(said)


def cut(tokens: Tensor) -> Tensor:
    """Nothing behind the first end of stories ``(T, n)``."""
    behind = (tokens == END).long().cumsum(0) - (tokens == END).long() > 0
    return tokens.masked_fill(behind, NOTHING)
