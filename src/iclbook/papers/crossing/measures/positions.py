"""Does a Transformer attend to stories by a kernel of positions, as the language model of functional descent must (wang2025, section 6.3)?

Heads see scores up to a constant a row, so rows are centred over the places that they can see. Half of the held-out stories give the mean score of every pair
of places; on the other half it is read how much of the scores that mean leaves, and what the model loses when it has nothing else to attend by.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ....models.language import normed
from ....models.transformer_language import TransformerLanguage
from ....statistics import ratio_error, standard_error
from ....store import Results
from ....tasks.stories import NOTHING, Kind
from ....training.history import KEPT
from ...wang2025.measures.language_models import Languages
from ...wang2025.runs.language import SIZES, TASKS, scored_stories
from ..runs.language import position_studies

Array = np.ndarray
#: Fewest stories that must reach a place before a mean is taken there.
LEAST = 8
#: Stories that are read at once: their scores stay in a core's cache.
TOGETHER = 8


def centred(scores: Tensor) -> Tensor:
    """Scores ``(..., T, T)`` less their row's mean over the places up to the asking one; 0 after it."""
    seen = torch.ones(scores.shape[-2:], dtype=scores.dtype, device=scores.device).tril()
    return (scores - (scores * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)) * seen


def by_length(tokens: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Stories ``(S + 1, n)``, the longest first and :data:`TOGETHER` at a time: which they are ``(B,)``, and their tokens ``(T + 1, B)`` up to the longest
    one's end. Attention does not look ahead, so what lies behind a story's end changes nothing."""
    length = (tokens != NOTHING).sum(0)
    for some in length.argsort(descending=True, stable=True).split(TOGETHER):
        yield some, tokens[: length[some[0]], some]


def streams(model: TransformerLanguage, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The stream ahead of the first block on stories ``(T, B)``, and the normalised inputs of its heads, ``(B, T, d')`` each."""
    h = model.embed[tokens.T.clamp_min(0)] + model.positions[: len(tokens)]
    h = normed(h, model.gain_embed)
    return h, normed(h, model.gain_attention[0])


def of_heads(x: Tensor, matrices: Tensor) -> Tensor:
    """``(B, M, T, dh)``: what the heads' matrices ``(M, dh, d')`` make of inputs ``(B, T, d')``, all in one product."""
    return (x @ matrices.flatten(0, 1).T).unflatten(-1, matrices.shape[:2]).transpose(1, 2)


def scores_on(model: TransformerLanguage, x: Tensor) -> Tensor:
    """Centred scores ``(B, M, T, T)`` of the first block for inputs ``(B, T, d')``."""
    q, key = (of_heads(x, w[0]) for w in (model.W_Q, model.W_K))
    return centred(q / math.sqrt(model.head_width) @ key.transpose(-1, -2))


def weights_of(scores: Tensor) -> Tensor:
    """Attention ``(..., T, T)`` by scores."""
    after = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return torch.softmax(scores.masked_fill(after, -torch.inf), -1)


def table_of(model: TransformerLanguage, tokens: Tensor) -> Tensor:
    """Mean centred scores ``(M, T, T)`` over stories ``(S + 1, n)``, at the T first places that :data:`LEAST` of them reach. A story reaches the places
    whose next token it has."""
    reached = (tokens[1:] != NOTHING).sum(1)
    table = torch.zeros(model.n_heads, len(reached), len(reached), dtype=model.embed.dtype)
    for _, part in by_length(tokens):
        there = (part[1:] != NOTHING).T.to(table.dtype)
        n = there.shape[1]
        _, x = streams(model, part[:-1])
        table[:, :n, :n] += (scores_on(model, x) * there[:, None, :, None]).sum(0)
    n = int((reached >= LEAST).sum())
    return table[:, :n, :n] / reached[:n, None]


def left_by(model: TransformerLanguage, table: Tensor, tokens: Tensor) -> tuple[Array, Array]:
    """Squares of the centred scores of each story ``(n,)`` at the table's places: what the table leaves, and all."""
    left, every = (torch.zeros(tokens.shape[1], dtype=table.dtype) for _ in range(2))
    for some, part in by_length(tokens):
        part = part[: table.shape[-1] + 1]
        there = (part[1:] != NOTHING).T.to(table.dtype)
        n = there.shape[1]
        scores = scores_on(model, streams(model, part[:-1])[1])
        for squares, apart in ((left, scores - table[:, :n, :n]), (every, scores)):
            squares[some] = (apart.square().sum(-1) * there[:, None]).sum((1, 2))
    return left.numpy(), every.numpy()


def losses_by(model: TransformerLanguage, tables: Mapping[str, Tensor], tokens: Tensor) -> dict[str, Tensor]:
    """Losses (nats) of the tokens of stories ``(S + 1, n)`` behind the first, ``(S, n)``, 0 where there is none: of the model's ``own``, and with each of the
    tables in place of the scores at its places."""
    found = {name: torch.zeros(tokens[1:].shape, dtype=model.embed.dtype) for name in ("own", *tables)}
    weights = {name: weights_of(table) for name, table in tables.items()}
    for some, part in by_length(tokens):
        there = (part[1:] != NOTHING).T  # (B, T)
        h, x = streams(model, part[:-1])
        values = of_heads(x, model.W_V[0])
        by = {"own": weights_of(scores_on(model, x)) @ values}
        for name, weight in weights.items():
            n = min(len(part) - 1, weight.shape[-1])
            by[name] = torch.cat([weight[:, :n, :n] @ values[:, :, :n], by["own"][:, :, n:]], 2)
        for name, mixed in by.items():
            out = h + mixed.transpose(1, 2).flatten(2) @ model.W_O[0].flatten(0, 1)
            logits = model._read(model._fed(out[there], 0))
            own = torch.zeros(there.shape, dtype=logits.dtype)
            own[there] = nn.functional.cross_entropy(logits, part[1:].T[there], reduction="none")
            found[name][: len(part) - 1, some] = own.T
    return found


def _model(study: Any, weights: dict[str, Tensor]) -> TransformerLanguage:
    model = TransformerLanguage(**dict(study.groups[0].kwargs))
    if len(model.W_V) != 1:
        raise ValueError(f"losses by a table are those of one block, not of {len(model.W_V)}")
    model.load_state_dict(weights)
    return model.eval().requires_grad_(False)


@torch.no_grad()
def read(results: Results, profile: str) -> dict[str, Array]:
    """For every run: squares that positions leave of the scores and all squares ``(R, n)``, the same without the model's position embeddings, and excess
    losses ``(R, n)`` of the model, by the table alone, and by equal weights."""
    study = position_studies(profile)["language_positions"]
    (group,) = study.groups
    tokens, _, kinds = scored_stories(TASKS[profile], SIZES[profile].scored)
    half = tokens.shape[1] // 2
    above = Languages(None, profile).above
    kept = {name: torch.from_numpy(results[f"{group.name}/{KEPT}{name}"][-1]) for name in group.keep}
    each: list[dict[str, Array]] = []
    for r in range(len(group.runs)):
        weights = {name: value[r] for name, value in kept.items()}
        model, blind = (
            _model(study, own) for own in (weights, weights | {"positions": 0 * weights["positions"]})
        )
        found: dict[str, Array] = {}
        table, of_blind = (table_of(one, tokens[:, :half]) for one in (model, blind))
        found["left"], found["all"] = left_by(model, table, tokens[:, half:])
        found["blind_left"], found["blind_all"] = left_by(blind, of_blind, tokens[:, half:])
        for name, nll in losses_by(model, {"table": table, "equal": 0 * table}, tokens[:, half:]).items():
            of_kinds = [(nll * (kinds[1:, half:] == kind)).sum(0) for kind in Kind]
            found[name] = _excess(above, torch.stack(of_kinds, 1).numpy(), half)
        each.append(found)
    return {name: np.stack([found[name] for found in each]) for name in each[0]}


def _excess(above: Any, nll: Array, first: int) -> Array:
    """Excess loss over all tokens of the stories from ``first`` on."""
    full = np.concatenate([np.zeros((first, nll.shape[-1])), nll])
    return above(full).sum(-1)[first:]


def share(above: Array, below: Array) -> tuple[float, float]:
    """Ratio of two sums over runs and stories ``(R, n)``, and its standard error: over stories and, where there are several, over runs."""
    errors = [ratio_error(above.mean(0), below.mean(0))]
    if len(above) > 1:
        errors.append(float(standard_error(above.mean(1) / below.mean(1))))
    return float(above.mean() / below.mean()), float(np.hypot.reduce(errors))


def position_values(found: dict[str, Array], profile: str) -> dict[str, float]:
    """What positions explain of the scores, and what it costs to attend by nothing else."""
    words = Languages(None, profile).single_words().sum(-1)[-found["own"].shape[1] :]
    way = words - found["own"]
    left, left_error = share(found["left"], found["all"])
    cost, cost_error = share(found["table"] - found["own"], way)
    return {
        "positions/share": 1 - left,
        "positions/share_se": left_error,
        "positions/blind": 1 - share(found["blind_left"], found["blind_all"])[0],
        "positions/cost": cost,
        "positions/cost_se": cost_error,
        "positions/equal": share(found["equal"] - found["own"], way)[0],
        "positions/lost": float((found["table"] - found["own"]).mean()),
    }
