"""Stories with exact likelihood: the stand-in for TinyStories (wang2025, section 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from .. import random
from ..errors import UserError
from .batch import Batch
from .fields import check_fields
from .story_grammar import END, Grammar, Kind, split_template
from .story_words import CLASSES, FORMS, GRAPH, REGISTERS, SHORT_GRAPH, TEMPLATES

#: Target of places after the end of a story: no loss there.
NOTHING = -1
#: Random words of a story, more than it has choices.
WORDS = 160
#: Stories that are held out come from streams of their own: no training step is so late, and no purpose of training is this.
HELD_OUT = 31


@lru_cache(maxsize=8)
def grammar(words: int | None = None, short: bool = False) -> Grammar:
    """The grammar with at most so many words of each class, and with the short plot or the whole one."""
    classes = {name: group[:words] for name, group in CLASSES.items()}
    forms = {
        form: (register, {name: table[name] for name in classes["name"]})
        for form, (register, table) in FORMS.items()
    }
    graph = SHORT_GRAPH if short else GRAPH
    templates = {kind: TEMPLATES[kind] for kind in graph}
    items = {i for texts in templates.values() for t in texts for i in split_template(t)[2]}
    used = {name for name in REGISTERS if any(i.endswith(("+" + name, "@" + name)) for i in items)}
    used |= {forms[i[1:]][0] for i in items if i[0] == "@" and i[1:] in forms}
    registers = {name: REGISTERS[name] for name in REGISTERS if name in used}
    classes = {name: group for name, group in classes.items() if name in registers.values()}
    return Grammar("open", graph, templates, classes, registers, forms)


@dataclass(frozen=True)
class Stories:
    """A stream of fresh stories, a pure function of data seed and step: a kind of data of the trainer (:mod:`iclbook.training.data`).

    A batch has tokens ``context (S, B)``, no query, and ``target (S, B)``: the next token, :data:`NOTHING` behind the story's end.

    Args:
        words: at most so many words of each class; all of them when ``None``.
        short: the short plot.

    Raises:
        UserError: fewer than 3 words of a class.
    """

    words: int | None = None
    short: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.words is not None and self.words < 3:
            raise UserError(f"words={self.words}", "A story needs 3 words of a class or more.")

    @property
    def grammar(self) -> Grammar:
        """What may be said."""
        return grammar(self.words, self.short)

    @property
    def vocabulary(self) -> int:
        """V."""
        return len(self.grammar.vocabulary)

    @property
    def context(self) -> int:
        """S, the most tokens that are read: one less than the longest story has."""
        return longest(self.grammar) - 1

    def fixed(self, seeds: Sequence[int]) -> tuple[Tensor, ...]:
        """Nothing."""
        return ()

    def draw(self, keys: Tensor, steps: Tensor, batch_size: int, dtype: torch.dtype) -> tuple[Tensor]:
        """Stories ``(seeds, steps, S + 1, batch_size)`` as token numbers, :data:`NOTHING` behind their ends."""
        drawn = random.words(keys, steps, random.DATA, (batch_size, WORDS)).cpu()
        return (self.tokens(drawn.flatten(0, 2)).unflatten(1, drawn.shape[:3]).movedim(0, 2).to(keys.device),)

    def batch(self, numbers: tuple[Tensor, ...], fixed: tuple[Tensor, ...]) -> Batch:
        """The stories' tokens and what follows each."""
        (tokens,) = numbers
        here = tokens[..., :-1, :]
        return Batch(here.clamp_min(0), here[..., :0, :], tokens[..., 1:, :])

    def tokens(self, words: Tensor) -> Tensor:
        """Stories ``(S + 1, n)`` of random words ``(n, WORDS)``."""
        index, size = self.grammar.index, self.context + 1
        rows = np.full((len(words), size), NOTHING)
        for row, own in zip(rows, words.tolist(), strict=True):
            story = self.grammar.draw(iter(own))
            row[: len(story)] = [index[token] for token in story]
        return torch.from_numpy(rows).T

    def held_out(self, n: int, seed: int = 0) -> Tensor:
        """``n`` stories ``(S + 1, n)`` that no training sees; the first of a larger set."""
        keys = random.keys([seed])
        drawn = [random.words(keys, torch.tensor([i]), HELD_OUT, (WORDS,))[0] for i in range(n)]
        return self.tokens(torch.cat(drawn))

    def text(self, tokens: Tensor | np.ndarray) -> list[str]:
        """Words of one row of numbers, up to its end."""
        vocabulary, found = self.grammar.vocabulary, []
        for number in tokens.tolist():
            if number == NOTHING:
                break
            found.append(vocabulary[number])
            if number == 0:
                break
        return found

    def scored(self, tokens: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Exact log probabilities (nats, 0 behind the end) and kinds of the tokens of stories ``(S + 1, n)``, each of that shape."""
        logs, kinds = np.zeros(tuple(tokens.shape)), np.full(tuple(tokens.shape), NOTHING)
        for column in range(tokens.shape[1]):
            for place, step in enumerate(self.grammar.read(self.text(tokens[:, column]))):
                logs[place, column] = np.log(float(step.probability))
                kinds[place, column] = step.kind
        return logs, kinds


def longest(of: Grammar) -> int:
    """Tokens of the longest story, its end included: the longest way through the plot graph.

    Raises:
        UserError: a plot that may go on for ever.
    """

    def from_kind(kind: str, seen: tuple[str, ...]) -> int:
        if kind == END:
            return 1
        if kind in seen:
            raise UserError(f"the plot returns to {kind}", "Take a plot graph without cycles.")
        own = max(len(split_template(text)[2]) for text in of.templates[kind])
        return own + max(from_kind(follower, (*seen, kind)) for follower in of.graph[kind])

    return from_kind(of.start, ())


__all__ = ["END", "HELD_OUT", "NOTHING", "Kind", "Stories", "grammar", "longest"]
