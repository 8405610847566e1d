"""Does a Transformer attend to stories by a kernel of positions, as the language model of functional descent must (wang2025, section 6.3)?

Heads see scores up to a constant a row, so rows are centred over the places that they can see. Half of the held-out stories give the mean score of every pair
of places; on the other half it is read how much of the scores that mean leaves, and what the model loses when it has nothing else to attend by.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....models.language import normed
from ....models.transformer_language import TransformerLanguage
from ....statistics import ratio_error, standard_error
from ....store import Results
from ....tasks.stories import NOTHING
from ....training.history import KEPT
from ...wang2025.measures.language_models import Languages
from ...wang2025.runs.language import SIZES, TASKS, losses, scored_stories
from ..runs.language import position_studies

Array = np.ndarray
#: Fewest stories that must reach a place before a mean is taken there.
LEAST = 8


class ByTable(TransformerLanguage):
    """A Transformer of one block whose scores are read from a table ``(M, T, T)`` at its first T places."""

    table: Tensor

    def scores(self, x: Tensor, k: int) -> Tensor:
        """As of a Transformer; the table does not ask what the tokens are."""
        own = super().scores(x, k)
        n = min(len(x), self.table.shape[-1])
        own[..., :n, :n] = self.table[:, :n, :n]
        return own


def centred(scores: Tensor) -> Tensor:
    """Scores ``(..., T, T)`` less their row's mean over the places up to the asking one; 0 after it."""
    seen = torch.ones(scores.shape[-2:], dtype=scores.dtype, device=scores.device).tril()
    return (scores - (scores * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)) * seen


def scores_on(model: TransformerLanguage, tokens: Tensor) -> Tensor:
    """Centred scores of the first block on stories ``(S, n)``: ``(n, M, S, S)``."""
    h = normed(model.embed[tokens.clamp_min(0)] + model.positions[: len(tokens), None], model.gain_embed)
    return centred(model.scores(normed(h, model.gain_attention[0]), 0))


def table_of(scores: Tensor, there: Tensor) -> Tensor:
    """Mean scores ``(M, T, T)`` over stories ``(n, M, S, S)``, at the T first places that :data:`LEAST` of them reach; ``there (S, n)`` says which."""
    reached = there.sum(1)
    n = int((reached >= LEAST).sum())
    weight = there[:n].T.to(scores.dtype)[:, None, :, None]  # (n, 1, T, 1)
    return (scores[:, :, :n, :n] * weight).sum(0) / reached[:n, None]


def left_by(table: Tensor, scores: Tensor, there: Tensor) -> tuple[Array, Array]:
    """Squares of the centred scores of each story ``(n,)``: what the table leaves, and all."""
    n = table.shape[-1]
    scores, weight = scores[:, :, :n, :n], there[:n].T.to(scores.dtype)[:, None, :, None]
    return tuple(((part**2) * weight).sum((1, 2, 3)).numpy() for part in (scores - table, scores))


def _model(kind: type[TransformerLanguage], study: Any, weights: dict[str, Tensor]) -> TransformerLanguage:
    model = kind(**dict(study.groups[0].kwargs))
    model.load_state_dict(weights)
    return model.eval().requires_grad_(False)


def read(results: Results, profile: str) -> dict[str, Array]:
    """For every run: squares that positions leave of the scores and all squares ``(R, n)``, the same without the model's position embeddings, and excess
    losses ``(R, n)`` of the model, by the table alone, and by equal weights."""
    study = position_studies(profile)["language_positions"]
    (group,) = study.groups
    tokens, _, kinds = scored_stories(TASKS[profile], SIZES[profile].scored)
    half = tokens.shape[1] // 2
    there = tokens[1:] != NOTHING  # the next token is scored
    above = Languages(None, profile).above
    kept = {name: torch.from_numpy(results[f"{group.name}/{KEPT}{name}"][-1]) for name in group.keep}
    each: list[dict[str, Array]] = []
    for r in range(len(group.runs)):
        weights = {name: value[r] for name, value in kept.items()}
        model = _model(TransformerLanguage, study, weights)
        blind = _model(TransformerLanguage, study, weights | {"positions": 0 * weights["positions"]})
        tables = []
        found: dict[str, Array] = {}
        for name, one in (("", model), ("blind_", blind)):
            scores = scores_on(one, tokens[:-1])
            tables.append(table_of(scores[:half], there[:, :half]))
            found[f"{name}left"], found[f"{name}all"] = left_by(tables[-1], scores[half:], there[:, half:])
        by = {"own": model}
        for name, table in (("table", tables[0]), ("equal", 0 * tables[0])):
            by[name] = _model(ByTable, study, weights)
            by[name].table = table
        for name, one in by.items():
            nll = losses(one, tokens[:, half:], kinds[:, half:]).numpy()
            found[name] = _excess(above, nll, half)
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
