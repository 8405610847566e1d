"""Read-outs of a model by the probes: arrays for every prompt and layer, without any statistics; and truncations of its embedding (section 8.3)."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ... import random
from ...models.language_model import LanguageModel
from .prompts import Patterns


def estimates(model: LanguageModel, tokens: Tensor, digits: Tensor) -> Tensor:
    """Expected digit ``yhat_l = sum_d d softmax(lens(h_l))_d`` over the digit tokens at the last token (section 8.4): ``(n, L + 1)``."""
    logits = model.lens(model.trace(tokens).hidden[:, :, -1])[..., digits]  # (L + 1, n, 10)
    scale = torch.arange(10, device=logits.device, dtype=logits.dtype)
    return (torch.softmax(logits, -1) * scale).sum(-1).T


def surprisals(model: LanguageModel, tokens: Tensor, target: Tensor) -> Tensor:
    """Surprisal (nats) of the right token at the last one, read at every layer (section 8.2, e_l): ``(n, L + 1)``."""
    logp = torch.log_softmax(model.lens(model.trace(tokens).hidden[:, :, -1]), -1)  # (L + 1, n, V)
    return -logp.gather(-1, target.expand(len(logp), -1)[..., None])[..., 0].T


def margins(logits: Tensor, target: Tensor) -> Tensor:
    """By how much the right token's logit exceeds the largest other one, ``(n, V) -> (n,)``: positive where the answer is right."""
    right = logits.gather(-1, target[:, None])
    others = logits.scatter(-1, target[:, None], -torch.inf)
    return right[:, 0] - others.amax(-1)


def answers(model: LanguageModel, tokens: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Log probability and margin of the right token after the last one, ``(n,)`` each."""
    logits = model.lens(model.stream(tokens)[:, -1])
    return torch.log_softmax(logits, -1).gather(-1, target[:, None])[:, 0], margins(logits, target)


def truncated(model: LanguageModel, tokens: Tensor, target: Tensor, embeds: Tensor) -> Tensor:
    """Margins ``(K, n)`` with each of the embeddings ``(K, V, w)`` (section 8.3)."""
    every = (model.lens(model.stream(tokens, embed=embed)[:, -1]) for embed in embeds)
    return torch.stack([margins(logits, target) for logits in every])


# -- pattern completion (sections 9.3 and 9.4) -------------------------------------------------------------------------


def _loss(model: LanguageModel, stream: Tensor, prompts: Patterns) -> Tensor:
    """Surprisal of B at the places that are read, ``(n,)``."""
    last = stream.gather(1, prompts.read[:, None, None].expand(-1, 1, stream.shape[-1]))[:, 0]
    return -torch.log_softmax(model.lens(last), -1).gather(-1, prompts.target[:, None])[:, 0]


def pattern_losses(model: LanguageModel, prompts: Patterns) -> tuple[Tensor, Tensor]:
    """Surprisal of B with the prompt, and after a single A, ``(n,)`` each; the difference is the "ICL effect"."""
    alone = prompts._replace(tokens=prompts.tokens[:, :1], read=torch.zeros_like(prompts.read))
    return tuple(_loss(model, model.stream(p.tokens), p) for p in (prompts, alone))


def attention_shares(model: LanguageModel, prompts: Patterns) -> tuple[Tensor, Tensor, Tensor]:
    """Where heads look.

    Returns:
        The last token's attention to the first ("sink fraction") and to all earlier B ("pattern match"), and the attention to the first of all tokens
        behind it, as means over prompts, ``(L, H)`` each.
    """
    attention = model.trace(prompts.tokens).attention  # (L, n, H, T, T)
    n, T = prompts.tokens.shape
    row = prompts.read[None, :, None, None, None].expand(*attention.shape[:1], n, attention.shape[2], 1, T)
    last = attention.gather(3, row)[:, :, :, 0]  # (L, n, H, T)
    return last[..., 0].mean(1), last[..., 1::2].sum(-1).mean(1), attention[:, :, :, 1:, 0].mean((1, 3))


def ablations(model: LanguageModel, prompts: Patterns, together: Sequence[Sequence[int]]) -> Tensor:
    """Mean loss without the heads of each set in ``together``, in each layer, ``(L, len(together))``: their output before the output map is 0."""

    def loss(layer: int, heads: Sequence[int]) -> Tensor:
        def edit(at: int, values: Tensor) -> Tensor:
            return values.index_fill(1, torch.tensor(heads, device=values.device), 0) if at == layer else values

        return _loss(model, model.stream(prompts.tokens, edit), prompts).mean()

    return torch.stack([torch.stack([loss(layer, heads) for heads in together]) for layer in range(model.n_layers)])


# -- the embedding's spectrum and its truncations (sections 8.2 and 8.3) ------------------------------------------------------------------

#: Shares of the width at which embeddings are cut off: a span of 0.996 for wide models, as printed.
SHARES = (0.004, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: Which directions are cut off; purpose of the random basis.
DROPS, BASIS = ("last", "random"), 26
#: Thresholds tau of the rank, relative to the largest singular value; the paper leaves tau to its companion.
THRESHOLDS = (0.01, 0.05, 0.1)


def kept(width: int) -> list[int]:
    """Directions that stay at each of :data:`SHARES`, 1 or more."""
    return [max(1, round(share * width)) for share in SHARES]


def truncations(embed: Tensor, drop: str = "last") -> Tensor:
    """Embeddings ``(K, V, w)`` that keep fewer directions of ``embed`` ``(V, w)``: without its ``last`` singular directions (the paper's), or without
    directions of a ``random`` basis (the control)."""
    w = embed.shape[1]
    if drop == "random":
        source = random.normals(random.keys([0]), torch.tensor([w]), BASIS, (w, w))[0, 0].to(embed)
        basis = torch.linalg.qr(source).Q.T  # (w, w)
    else:
        basis = torch.linalg.svd(embed, full_matrices=False).Vh  # (min(V, w), w)
    return torch.stack([embed @ basis[:k].transpose(0, 1) @ basis[:k] for k in kept(w)])


def singular_values(embed: Tensor) -> Tensor:
    """Singular values of the embedding ``(V, w)`` less its mean over tokens, descending, ``(min(V, w),)``."""
    return torch.linalg.svdvals(embed - embed.mean(0))


def rank_tau(values: np.ndarray, tau: float) -> int:
    """Singular values above ``tau`` times the largest."""
    return int((values > tau * values[0]).sum())


def effective_rank(values: np.ndarray) -> float:
    """exp of the entropy of the shares ``s_i / sum s`` (Roy and Vetterli 2007)."""
    share = values / values.sum()
    share = share[share > 0]
    return float(np.exp(-(share * np.log(share)).sum()))


def emergence_gap(accuracy: np.ndarray, width: int, rank: int) -> float:
    """Mean accuracy ``(K,)`` of truncations that keep ``rank`` directions or more, less that of those that keep fewer (section 8.3); NaN if one side is empty."""
    enough = np.array(kept(width)) >= rank
    if enough.all() or not enough.any():
        return float("nan")
    return float(accuracy[enough].mean() - accuracy[~enough].mean())
