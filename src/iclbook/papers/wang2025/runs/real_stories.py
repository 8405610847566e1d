"""Language models on real stories, at the size of wang2025 (section 6.3), and a larger size of the study on stories of exact likelihood, for a GPU.

Taken from the published code: width 512, 8 heads, 256 tokens, AdamW, 0.001 throughout, weight decay 0.01, batches of 64, gradients clipped at 1. Ours: no
dropout (there 0.1), stories drawn with replacement, splits by hash, and the number of steps, which is not stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from ....profiles import check_profile
from ....tasks.stories import NOTHING, Stories
from ....tasks.story_folder import StoryFolder
from ....training.optimisers import Cosine
from ....training.study import Study
from .language import CONTINUED, GD, SCORED, WAYS, OnStories, Sizes, model_study

#: Models of table 3; the Transformer with heads of full width, as in the published code, and with standard ones.
MODELS: Mapping[str, Mapping[str, Any]] = {
    "gd": GD["gd"],
    "gd-ff": GD["gd-ff"],
    "tf": {"split": False},
    "tf-split": {"split": True},
}
#: More blocks, on stories of exact likelihood.
DEEPER: Mapping[str, Mapping[str, Any]] = {
    f"{name}-{k}": {**MODELS[name], "n_blocks": k} for name in ("gd-ff", "tf-split") for k in (2, 4)
}
#: Longest beginning, in tokens.
BEGINNING = 128


@lru_cache(maxsize=4)
def first_halves(task: StoryFolder, n: int) -> Tensor:
    """Stories of the test cut at half their length, at most :data:`BEGINNING` tokens, ``(S + 1, n)``, nothing behind the cut."""
    tokens = task.held_out(n, CONTINUED).clone()
    for column in tokens.T:
        column[min(max(int((column >= 0).sum()) // 2, 1), BEGINNING) :] = NOTHING
    return tokens


@dataclass(frozen=True)
class OnFolder(OnStories):
    """Observes the loss on stories for validation, ``nll (n, 1)``: real tokens are of one kind; and how the model ends stories of the test."""

    task: StoryFolder

    def held_out(self) -> dict[str, Tensor]:
        """Stories, and beginnings of others."""
        tokens = self.task.held_out(self.n, SCORED)
        kinds = torch.where(tokens >= 0, 0, NOTHING)
        return {"tokens": tokens, "kinds": kinds, "beginnings": first_halves(self.task, self.endings)}

    def __call__(self, model: nn.Module, held_out: dict[str, Tensor]) -> dict[str, Tensor]:
        """As for stories of exact likelihood, with kinds summed."""
        found = super().__call__(model, held_out)
        return found | {"nll": found["nll"].sum(-1, keepdim=True)}


SIZES = {
    "paper": Sizes(512, 8, 20_000, 64, 1, 512, 200, (24, 1250, 2500, 5000, 10_000)),
    "smoke": Sizes(32, 4, 60, 8, 1, 16, 4, (24, 30), 0.01),
}
#: Tokens that are read.
CONTEXT = {"paper": 256, "smoke": 64}


def real_studies(
    folder: str,
    profile: str = "paper",
    coding: str | None = None,
    words: int = 10_000,
    sizes: Sizes | None = None,
) -> dict[str, Study]:
    """Table 3's models on the stories of a folder, by their names there; one seed, as published.

    Args:
        folder, coding, words: as for :class:`iclbook.tasks.story_folder.StoryFolder`.
        profile: whose sizes, unless ``sizes`` are given.

    Raises:
        UserError: what the folder's readers refuse.
    """
    s = SIZES[check_profile(profile)] if sizes is None else sizes
    observe = OnFolder(StoryFolder(folder, CONTEXT[profile], words, coding), s.scored, s.endings)
    return {
        model: model_study(f"stories_{model.replace('-', '_')}", {model: kwargs}, s, observe)
        for model, kwargs in MODELS.items()
    }


def large_studies(seeds: int = 3) -> dict[str, Study]:
    """The paper's width, batches of 64 and 20,000 steps on stories of exact likelihood, by the names of studies; their longest story says how many tokens
    are read. Rates fall as in :mod:`iclbook.papers.wang2025.runs.language`."""
    s = replace(SIZES["paper"], seeds=seeds)
    observe = OnStories(Stories(), 256, 200, WAYS)
    every = [
        model_study(f"large_{model.replace('-', '_')}", {model: kwargs}, s, observe, Cosine())
        for model, kwargs in {**MODELS, **DEEPER}.items()
    ]
    return {study.name: study for study in every}
