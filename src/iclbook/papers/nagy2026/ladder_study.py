"""The ladder: small language models of the Pythia shape, trained on the mixed corpus and on the same corpus without regression, probed at steps on a log scale.

The paper's evidence on development (sections 8.4 and 8.5) is about checkpoints of published models, which are not at hand; the ladder stands in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...models.language_model import LanguageModel
from ...tasks import Batch
from ...tasks.mixed_corpus import VOCABULARY, MixedCorpus
from ...training import Adam, Cosine, Group, Run, Study
from . import prompts, readout
from .prompts import CORPUS

#: Layers, width and heads of every size, smallest first; parallel residual and untied as in Pythia. Rotary positions turn whole heads: a quarter of a head
#: of 16 numbers has two frequencies, too few to find the previous token (a trial of 3,000 steps with a quarter never learned to copy).
SIZES = ((2, 32, 2), (3, 48, 3), (4, 64, 4), (6, 64, 4), (6, 96, 6))
#: Rows of 64 tokens in a step; 16.8 million tokens in all.
BATCH_SIZE, STEPS = 32, 8192
#: Compiling takes a minute or two for a study and saves a third of every step.
COMPILE_FROM_STEPS = 2000
#: Regression prompts, and the same with the context's y in another order; length of the repeated blocks.
LINES, BLOCK_LENGTH = ("lines", "shuffled"), 10


def next_token_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Mean surprisal (nats) of every next token; context and target ``(T, B)``."""
    logits = model(batch.context.T)  # (B, T, V)
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch.target.T.flatten())


@dataclass(frozen=True)
class Probing:
    """Estimates on regression prompts, copying of repeated blocks, and truncations of the embedding, as raw arrays (:mod:`.readout`), for prompts that no
    training has seen.

    Attributes:
        lines, blocks: prompts of each kind (sections 8.4 and 8.2).
        truncated: blocks that truncations of the embedding use.
    """

    lines: int = 128
    blocks: int = 48
    truncated: int = 24

    def held_out(self) -> dict[str, Any]:
        """The prompts."""
        return {
            **{name: prompts.lines(CORPUS, self.lines, shuffled=name == "shuffled").tokens for name in LINES},
            "blocks": prompts.blocks(CORPUS, self.blocks, BLOCK_LENGTH),
            "digits": torch.tensor(CORPUS.digits),
        }

    def __call__(self, model: LanguageModel, held_out: dict[str, Any]) -> dict[str, Tensor]:
        """Arrays of one model; shapes as in :mod:`.readout`."""
        digits, blocks = held_out["digits"], held_out["blocks"]
        few = [part[: self.truncated] for part in blocks]
        return {
            **{f"{name}_estimate": readout.estimates(model, held_out[name], digits) for name in LINES},
            "block10_surprisal": readout.surprisals(model, *blocks),
            "block10_margin": readout.answers(model, *blocks)[1],
            "singular": readout.singular_values(model.embed),
            **{
                f"truncated_{drop}": readout.truncated(model, *few, readout.truncations(model.embed, drop))
                for drop in readout.DROPS
            },
        }


def checkpoints(steps: int) -> tuple[int, ...]:
    """0, the powers of 2, from 128 on also half-way between them, and the last step."""
    powers = [2**i for i in range(steps.bit_length())]
    return tuple(sorted({0, steps, *(p for p in powers + [3 * p // 2 for p in powers if p >= 128] if p < steps)}))


def ladder(
    name: str,
    sizes: Sequence[tuple[int, int, int]],
    seeds: Sequence[int],
    steps: int,
    probing: Probing,
    regression: bool = True,
) -> Study:
    """A study of some sizes; all runs of a seed see the same corpus, whatever their size. Groups are named by layers and width."""
    groups = [
        Group(
            f"l{n_layers}w{width}",
            LanguageModel,
            {
                "vocabulary": VOCABULARY,
                "width": width,
                "n_layers": n_layers,
                "n_heads": n_heads,
                "hidden": 4 * width,
                "parallel": True,
            },
            tuple(Run(seed, rate=3e-3) for seed in seeds),
            Adam(0.9, 0.95),
            next_token_loss,
            Cosine(rise=0.01),
            observe=probing,
        )
        for n_layers, width, n_heads in sizes
    ]
    corpus, record = MixedCorpus(regression=regression), checkpoints(steps)
    return Study("nagy2026", name, corpus, groups, steps, BATCH_SIZE, record, compile_from=COMPILE_FROM_STEPS)


def ladder_studies(profile: str) -> list[Study]:
    """The studies of a profile. Runs of one seed start from the same numbers with and without regression, so that a model and its control are a pair."""
    small, large, seeds, steps, probing = SIZES[:3], SIZES[3:], (0, 1, 2), STEPS, Probing()
    if profile == "smoke":
        small, large, seeds, steps = ((2, 16, 2), (2, 24, 2)), ((3, 24, 2),), (0, 1), 4
        probing = Probing(lines=48, blocks=8)
    return [
        ladder("ladder_small", small, seeds, steps, probing),
        ladder("ladder_large", large, (0,), steps, probing),
        ladder("ladder_twin", small, seeds, steps, probing, regression=False),
    ]
