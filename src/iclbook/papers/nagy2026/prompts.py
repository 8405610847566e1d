"""The prompts of all probes, as tokens of any vocabulary. What the paper leaves open is a number here.

All choices are whole numbers from counted random words, so that any machine draws the same prompts.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ... import random
from ...tasks.mixed_corpus import ARROW, DIGITS, DOCUMENT_LINES, LINE, SYMBOLS, regression_lines

#: Purpose of the words of prompts; the seed is the paper's, 42.
PROMPTS, SEED = 24, 42
#: Pairs of a prompt for associative recall, unstated.
PAIRS = 8
#: "3 to 6 repetitions" (section 9.3).
FEWEST, MOST = 3, 6


@dataclass(frozen=True)
class Alphabet:
    """Spelling of prompts in a vocabulary.

    Attributes:
        digits: tokens of the digits 0 to 9.
        arrow, line: tokens between x and y, and after y.
        symbols: tokens that random blocks are drawn from.
    """

    digits: tuple[int, ...]
    arrow: tuple[int, ...]
    line: tuple[int, ...]
    symbols: tuple[int, ...]


#: Of the ladder's corpus (:mod:`iclbook.tasks.mixed_corpus`).
CORPUS = Alphabet(tuple(range(DIGITS)), (ARROW,), (LINE,), tuple(range(DIGITS, DIGITS + SYMBOLS)))


class Lines(NamedTuple):
    """In-context regression.

    Attributes:
        tokens: ``(n, T)`` prompts "x > y ; ... x_q >".
        target: ``(n,)`` the answer ``y* = a x_q + b``.
        x: ``(n, k)`` of the context.
    """

    tokens: Tensor
    target: Tensor
    x: Tensor


def words(n: int, count: int, part: int) -> Tensor:
    """Random words ``(count, n)`` of one kind of prompt."""
    return random.words(random.keys([SEED]), torch.tensor([part]), PROMPTS, (count, n))[0, 0]


def lines(alphabet: Alphabet, n: int, shuffled: bool = False) -> Lines:
    """Prompts of four lines and a query that is not among them (section 8.4; their number and the laws of a, b, x are unstated).

    Args:
        shuffled: the context's y in another order (a control: the same digits without a law).
    """
    k = DOCUMENT_LINES - 1
    x, y = regression_lines(words(n, 1 + DIGITS, 0), reserved=True)  # (k + 1, n)
    said = y[:-1].gather(0, random.order(words(n, k, 1), 0)) if shuffled else y[:-1]
    digits, arrow, line = torch.tensor(alphabet.digits), _repeat(alphabet.arrow, n), _repeat(alphabet.line, n)
    parts = []
    for i in range(k):
        parts += [digits[x[i]][:, None], arrow, digits[said[i]][:, None], line]
    parts += [digits[x[-1]][:, None], arrow]
    return Lines(torch.cat(parts, 1), y[-1], x[:-1].T)


def _repeat(tokens: tuple[int, ...], n: int) -> Tensor:
    return torch.tensor(tokens).expand(n, -1)


def blocks(alphabet: Alphabet, n: int, m: int) -> tuple[Tensor, Tensor]:
    """A random block of m different symbols, repeated, without its last token (section 8.2; m is unstated): ``(n, 2 m - 1)`` and that token ``(n,)``."""
    block = _different(alphabet, n, m, 100 + m)
    return torch.cat([block, block[:, :-1]], 1), block[:, -1]


def _different(alphabet: Alphabet, n: int, m: int, part: int) -> Tensor:
    """Different symbols ``(n, m)``; of a large vocabulary, by Floyd's draws without replacement."""
    symbols, size = torch.tensor(alphabet.symbols), len(alphabet.symbols)
    drawn = words(n, m, part)
    chosen: list[Tensor] = []
    for i in range(m):
        top = size - m + i
        new = random.below(top + 1, drawn[i])
        taken = torch.stack([new == old for old in chosen]).any(0) if chosen else torch.zeros(n, dtype=bool)
        chosen.append(torch.where(taken, top, new))
    order = random.order(words(n, m, part + 50_000), 0)
    return symbols[torch.stack(chosen).gather(0, order)].T


def recall(alphabet: Alphabet, n: int) -> tuple[Tensor, Tensor]:
    """Pairs of key and value, a line, and one of the keys (section 8.5.3): ``(n, 2 PAIRS + line + 1)`` and its value ``(n,)``."""
    keys = _different(alphabet, n, PAIRS, 200)
    symbols = torch.tensor(alphabet.symbols)
    values = symbols[random.below(len(symbols), words(n, PAIRS, 201))].T
    asked = random.below(PAIRS, words(n, 1, 202)).T  # (n, 1)
    lists = torch.stack([keys, values], 2).flatten(1)
    return torch.cat([lists, _repeat(alphabet.line, n), keys.gather(1, asked)], 1), values.gather(1, asked)[:, 0]


class Patterns(NamedTuple):
    """Prompts "A B A B ... A" of six repetitions; a causal model at an earlier A is a model with fewer.

    Attributes:
        tokens: ``(n, 13)``.
        read: ``(n,)`` place of the A that ends a prompt: 6, 8, 10 or 12 after 3 to 6 repetitions.
        target: ``(n,)`` B.
    """

    tokens: Tensor
    read: Tensor
    target: Tensor


def patterns(alphabet: Alphabet, n: int) -> Patterns:
    """Pattern completion (section 9.3): two random tokens, as many prompts of each number of repetitions."""
    a, b = _different(alphabet, n, 2, 300).T
    repetitions = FEWEST + torch.arange(n) % (MOST - FEWEST + 1)
    tokens = torch.stack([a, b] * MOST + [a], 1)
    return Patterns(tokens, 2 * repetitions, b)
