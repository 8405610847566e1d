"""The ladder: small language models of the Pythia shape, trained on the mixed corpus and on its twin without a law, probed at steps on a log scale.

The paper's evidence on development (sections 8.4 and 8.5) is about checkpoints of published models, which are not at hand; the ladder stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ... import random
from ...models.language_model import LanguageModel
from ...tasks import Batch
from ...tasks.mixed_corpus import VOCABULARY, MixedCorpus
from ...training import Adam, Group, Run
from ...training.groups import Cosine
from ...training.study import Study
from . import prompts, readout
from .prompts import CORPUS

#: Layers, width and heads of every size, smallest first; parallel residual and untied as in Pythia. Rotary positions turn whole heads: a quarter of a head
#: of 16 numbers has two frequencies, too few to find the previous token (a trial of 3,000 steps with a quarter never learned to copy).
SIZES = ((2, 32, 2), (3, 48, 3), (4, 64, 4), (6, 64, 4), (6, 96, 6))
#: Rows of 64 tokens in a step, and the tokens of a step.
BATCH_SIZE = 32
TOKENS_A_STEP = BATCH_SIZE * 64
#: 16.8 million tokens in all.
STEPS = 8192
#: Compiling takes a minute or two for a study and saves a third of every step.
COMPILE_FROM_STEPS = 2000
#: Purpose of the words of held-out text.
HELD_OUT_TEXT = 25
#: Lengths of the repeated blocks of probe P2.
BLOCK_LENGTHS = (10, 20)


def next_token_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Mean surprisal (nats) of every next token; context and target ``(T, B)``."""
    logits = model(batch.context.T)  # (B, T, V)
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch.target.T.flatten())


@dataclass(frozen=True)
class Probing:
    """All probes at once, as raw arrays (:mod:`.readout`), for prompts that no training has seen.

    Attributes:
        lines, blocks, lists, patterns, rows: prompts of each kind (sections 8.4, 8.2, 8.5.3, 9.3), and rows of held-out corpus.
        ablated, truncated: prompts that ablations of heads and truncations of the embedding use.
    """

    lines: int = 128
    blocks: int = 48
    lists: int = 64
    patterns: int = 60
    rows: int = 64
    ablated: int = 28
    truncated: int = 24

    def held_out(self) -> dict[str, Any]:
        """The prompts."""
        true, shuffled = (prompts.lines(CORPUS, self.lines, order=order) for order in ("true", "shuffled"))
        corpus = MixedCorpus()
        words = random.words(random.keys([prompts.SEED]), torch.tensor([0]), HELD_OUT_TEXT, (corpus.words, self.rows))[
            0, 0
        ]
        _, text, _, _, lines = words.split(corpus.sizes)
        return {
            "lines": true.tokens,
            "shuffled": shuffled.tokens,
            "prior": prompts.prior(CORPUS),
            "digits": torch.tensor(CORPUS.digits),
            "blocks": tuple(prompts.blocks(CORPUS, self.blocks, m) for m in BLOCK_LENGTHS),
            "recall": prompts.recall(CORPUS, self.lists),
            "patterns": prompts.patterns(CORPUS, self.patterns),
            "ablated": prompts.patterns(CORPUS, self.ablated),
            "text": corpus.text(text),
            "document": corpus.lines(lines),
        }

    def __call__(self, model: LanguageModel, held_out: dict[str, Any]) -> dict[str, Tensor]:
        """Arrays of one model; shapes as in :mod:`.readout`."""
        digits = held_out["digits"]
        found = {
            "lines_estimate": readout.estimates(model, held_out["lines"], digits),
            "shuffled_estimate": readout.estimates(model, held_out["shuffled"], digits),
            "prior_estimate": readout.estimates(model, held_out["prior"], digits),
        }
        for m, (tokens, target) in zip(BLOCK_LENGTHS, held_out["blocks"], strict=True):
            found[f"block{m}_surprisal"] = readout.surprisals(model, tokens, target)
            found[f"block{m}_margin"] = readout.answers(model, tokens, target)[1]
        found["recall_logp"], found["recall_margin"] = readout.answers(model, *held_out["recall"])
        patterns, ablated = held_out["patterns"], held_out["ablated"]
        found["pattern_loss"], found["alone_loss"] = readout.pattern_losses(model, patterns)
        found["sink"], found["match"], found["sink_all"] = readout.attention_shares(model, patterns)
        found["intact_loss"] = readout.pattern_losses(model, ablated)[0].mean()
        found["ablated_loss"] = readout.ablations(model, ablated)
        found["ablated_mean_loss"] = readout.ablations(model, ablated, mean=True)
        found["ablated_layer_loss"] = readout.layer_ablations(model, ablated)
        found |= _truncations(model, *(part[: self.truncated] for part in held_out["blocks"][0]))
        for name in ("text", "document"):
            rows = held_out[name]
            found[f"{name}_loss"] = next_token_loss(model, Batch(rows[:-1], rows[:0], rows[1:]))
        return found


def _truncations(model: LanguageModel, tokens: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Margins with the embedding cut off, the paper's way and both controls, ``(K, n)`` each, and its singular values ``(w,)``."""
    found = {"singular": readout.singular_values(model.embed)}
    for drop in ("last", "first", "random"):
        embeds = readout.truncations(model.embed, drop)
        found[f"truncated_{drop}"] = readout.truncated(model, tokens, target, embeds, both=False)
    return found


def checkpoints(steps: int) -> tuple[int, ...]:
    """0, the powers of 2, from 128 on also half-way between them, and the last step."""
    powers = [2**i for i in range(steps.bit_length())]
    return tuple(sorted({0, steps, *(p for p in powers + [3 * p // 2 for p in powers if p >= 128] if p < steps)}))


def size_name(size: tuple[int, int, int]) -> str:
    """Of a group: layers and width."""
    return f"l{size[0]}w{size[1]}"


def ladder(
    name: str,
    sizes: Sequence[tuple[int, int, int]],
    seeds: Sequence[int],
    steps: int,
    probing: Probing,
    regression: bool = True,
    rate: float = 3e-3,
    batch_size: int = BATCH_SIZE,
) -> Study:
    """A study of some sizes; all runs of a seed see the same corpus, whatever their size."""
    groups = [
        Group(
            size_name(size),
            LanguageModel,
            {
                "vocabulary": VOCABULARY,
                "width": size[1],
                "n_layers": size[0],
                "n_heads": size[2],
                "hidden": 4 * size[1],
                "parallel": True,
            },
            tuple(Run(seed, rate=rate) for seed in seeds),
            Adam(0.9, 0.95),
            next_token_loss,
            Cosine(rise=0.01),
            observe=probing,
        )
        for size in sizes
    ]
    corpus = MixedCorpus(regression=regression)
    record = checkpoints(steps)
    return Study("nagy2026", name, corpus, groups, steps, batch_size, record, compile_from=COMPILE_FROM_STEPS)


def ladder_studies(profile: str) -> list[Study]:
    """The studies of a profile. Runs of one seed start from the same numbers with and without regression, so that twins are pairs."""
    if profile == "smoke":
        few = Probing(lines=48, blocks=16, lists=16, patterns=12, rows=16, ablated=8)
        small = ((2, 16, 2), (2, 24, 2))
        return [
            ladder("ladder_small", small, (0, 1), 12, few),
            ladder("ladder_large", ((3, 24, 2),), (0,), 12, few),
            ladder("ladder_twin", small, (0, 1), 12, few, regression=False),
        ]
    probing = Probing()
    return [
        ladder("ladder_small", SIZES[:3], (0, 1, 2), STEPS, probing),
        ladder("ladder_large", SIZES[3:], (0,), STEPS, probing),
        ladder("ladder_twin", SIZES[:3], (0, 1, 2), STEPS, probing, regression=False),
    ]
