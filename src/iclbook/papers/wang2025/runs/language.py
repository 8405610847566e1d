"""Which language models are trained at each profile (wang2025, section 6.3), on stories of exact likelihood in place of TinyStories.

Taken from the published code: AdamW, 0.001, weight decay 0.01, gradients clipped at 1. Ours: a cosine down to a tenth, no dropout (stories are fresh, none is
met twice), width 128 in place of 512, and 4,000 steps of 16 stories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ....models.decoding import beam, sampled
from ....models.gd_language import GDLanguage
from ....models.transformer_language import TransformerLanguage
from ....profiles import check_profile
from ....tasks.stories import NOTHING, Kind, Stories
from ....training import Group, Run
from ....training.groups import next_token
from ....training.optimisers import AdamW, Cosine, Schedule
from ....training.study import Study

#: Seeds of held-out stories: one set is scored, beginnings of another are continued.
SCORED, CONTINUED = 0, 1
#: Stories scored at a time.
CHUNK = 64
#: Token embeddings of the published code's Transformer start from N(0, 1), 50 times the standard deviation of the other weights.
AS_CODED = 50.0
#: Endings are written once a model is better than this (nats a token), which single-word frequencies are not; before, there is nothing to read.
READABLE = 4.0


@lru_cache(maxsize=4)
def scored_stories(task: Stories, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Held-out stories ``(S + 1, n)``, exact log probabilities and kinds of their tokens."""
    tokens = task.held_out(n, SCORED)
    logs, kinds = task.scored(tokens)
    return tokens, torch.from_numpy(logs), torch.from_numpy(kinds)


@lru_cache(maxsize=4)
def beginnings(task: Stories, n: int) -> Tensor:
    """Held-out stories cut in the midst of the sentence that holds their middle, ``(S + 1, n)``, nothing behind the cut."""
    tokens = task.held_out(n, CONTINUED).clone()
    closing = [task.grammar.index[token] for token in (".", '"') if token in task.grammar.index]
    for column in tokens.T:
        place = int((column >= 0).sum()) // 2
        while int(column[place - 1]) in closing:
            place += 1
        column[place:] = NOTHING
    return tokens


@dataclass(frozen=True)
class OnStories:
    """Observes the loss on held-out stories by kind of token, and how the model ends other stories.

    Attributes:
        task: the stories.
        n: stories that are scored.
        endings: beginnings that are continued.
        ways: how: ``beam``, ``coded`` (beams as in the published code), ``sampled``.
    """

    task: Stories
    n: int
    endings: int
    ways: tuple[str, ...] = ("beam",)

    def held_out(self) -> dict[str, Tensor]:
        """Stories with the kinds of their tokens, and beginnings."""
        tokens, _, kinds = scored_stories(self.task, self.n)
        return {"tokens": tokens, "kinds": kinds, "beginnings": beginnings(self.task, self.endings)}

    def __call__(self, model: nn.Module, held_out: dict[str, Tensor]) -> dict[str, Tensor]:
        """``nll (n, 4)``: loss of each story summed over the tokens of each kind, the first token left out. ``ending_<way> (S + 1, endings)``: whole
        stories as continued, once the mean loss is below :data:`READABLE`; before, nothing."""
        parts = zip(held_out["tokens"].split(CHUNK, 1), held_out["kinds"].split(CHUNK, 1), strict=True)
        found = {"nll": torch.cat([losses(model, *part) for part in parts])}
        readable = bool(found["nll"].sum() / (held_out["kinds"][1:] >= 0).sum() < READABLE)
        write = {"beam": beam, "coded": _as_coded, "sampled": sampled}
        for way in self.ways:
            start = held_out["beginnings"]
            found[f"ending_{way}"] = write[way](model, start) if readable else torch.full_like(start, NOTHING)
        return found

    def of_runs(
        self, ensemble: Any, params: Mapping[str, Tensor], seen: Any, held_out: Any
    ) -> dict[str, Tensor]:
        """One run after another: how long an ending is follows from its words."""
        each = []
        for r in range(len(ensemble.runs)):
            own = {f"model.{name}": p[r] for name, p in params.items()}
            each.append(functional_call(_Observing(ensemble.model, self), own, (held_out,)))
        return {name: torch.stack([found[name] for found in each]) for name in each[0]}


class _Observing(nn.Module):
    """An observation as a module, which is what functional_call can re-parametrise."""

    def __init__(self, model: nn.Module, observe: OnStories) -> None:
        super().__init__()
        self.model, self._observe = model, observe

    def forward(self, held_out: dict[str, Tensor]) -> dict[str, Tensor]:
        """What is observed."""
        return self._observe(self.model, held_out)


def _as_coded(model: nn.Module, start: Tensor) -> Tensor:
    return beam(model, start, coded=True)


def losses(model: nn.Module, tokens: Tensor, kinds: Tensor) -> Tensor:
    """Losses (nats) of stories ``(S + 1, n)`` summed over tokens of each kind, ``(n, 4)``; the first token is given."""
    here, following = tokens[:-1].clamp_min(0), tokens[1:].clamp_min(0)
    logits = model(here)
    nll = nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten(), reduction="none")
    nll = nll.unflatten(0, following.shape)
    return torch.stack([(nll * (kinds[1:] == kind)).sum(0) for kind in Kind], 1)


@dataclass(frozen=True)
class Sizes:
    """Of models and their training, and of what is held out."""

    width: int
    n_heads: int
    steps: int
    batch_size: int
    seeds: int
    scored: int
    endings: int
    record: tuple[int, ...]
    rate: float = 1e-3


TASKS = {"paper": Stories(), "smoke": Stories(words=4, short=True)}
SIZES = {
    # 24 is what a replay repeats; curves at 1/4, 1/2 and 1 of training say whether they still fall
    "paper": Sizes(128, 8, 4000, 16, 3, 256, 200, (24, 250, 500, 1000, 2000, 3000)),
    "smoke": Sizes(32, 4, 60, 8, 1, 32, 12, (24, 30), 0.01),
}
#: Width of a GD model with about as many weights as one with feed-forward.
WIDER = {"paper": 156, "smoke": 40}
WAYS = ("beam", "coded", "sampled")
#: The models of figure 14, as they are called there, and what makes them.
GD = {
    "gd": {},
    "gd-ff": {"feed_forward": True},
    "linear": {"kernel": "linear"},
    "linear-ff": {"kernel": "linear", "feed_forward": True},
    "rbf": {"kernel": "rbf"},
    "rbf-ff": {"kernel": "rbf", "feed_forward": True},
}


def model_study(
    name: str,
    models: Mapping[str, Mapping[str, Any]],
    s: Sizes,
    observe: OnStories,
    schedule: Schedule | None = None,
) -> Study:
    """A study of models by name, those called ``tf...`` Transformers; all runs see the same stories."""
    task = observe.task
    sizes = {
        "vocabulary": task.vocabulary,
        "context": task.context,
        "width": s.width,
        "n_heads": s.n_heads,
    }
    groups = tuple(
        Group(
            model,
            TransformerLanguage if model.startswith("tf") else GDLanguage,
            {**sizes, **kwargs},
            tuple(Run(seed, rate=s.rate, stream=0) for seed in range(s.seeds)),
            AdamW(clip=1.0),
            next_token,
            schedule,
            observe,
        )
        for model, kwargs in models.items()
    )
    return Study("wang2025", name, task, groups, s.steps, s.batch_size, s.record, compile_from=None)


def language_studies(profile: str) -> dict[str, Study]:
    """The language models at a profile: those of table 3, the other kernels, what each part is worth, equal counts, and two blocks."""
    s = SIZES[check_profile(profile)]
    one = replace(s, seeds=1)
    observe = OnStories(TASKS[profile], s.scored, s.endings, WAYS)
    beams = replace(observe, ways=("beam",))
    split, full = {"split": True}, {"split": False}
    headline = {"gd": GD["gd"], "gd-ff": GD["gd-ff"], "tf": full, "tf-split": split}
    ablated = {
        "gd-no-mixing": {"mixing": False},
        "gd-ff-sum": {"feed_forward": True, "averaged": False},
        "tf-split-no-ff": {**split, "feed_forward": False},
        "tf-split-coded": {**split, "embed_scale": AS_CODED},
    }
    kernels = {name: GD[name] for name in ("linear", "linear-ff", "rbf", "rbf-ff")}
    # GD+FF has as many weights beside the embeddings as the first, the Transformer with standard heads about as many as the second
    counts = {
        "tf-split-wide": {**split, "hidden": 6 * s.width + s.width // 32},
        "gd-wide": {"width": WIDER[profile]},
    }
    depth = {"gd-ff-2": {"feed_forward": True, "n_blocks": 2}, "tf-split-2": {**split, "n_blocks": 2}}
    rest = {"kernels": kernels, "ablations": ablated, "counts": counts, "depth": depth}
    every = [
        model_study(f"language_{name.replace('-', '_')}", {name: kw}, s, observe, Cosine())
        for name, kw in headline.items()
    ]
    every += [model_study(f"language_{name}", models, one, beams, Cosine()) for name, models in rest.items()]
    every.append(model_study("language_flat_rate", {"gd-ff-flat": GD["gd-ff"]}, one, beams))
    return {study.name: study for study in every}
