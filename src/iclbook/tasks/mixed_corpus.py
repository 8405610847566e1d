"""A corpus for small language models: text, repeated blocks, lists of keys and values, and lines of in-context regression in digits.

Every row is of one kind and 64 tokens long. Digits are tokens of their own (0 to 9), followed by the symbols, an arrow and a new line. All choices are whole
numbers from random words, so that any processor draws the same corpus.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from .. import random
from .batch import Batch

DIGITS, SYMBOLS = 10, 80
ARROW, LINE = DIGITS + SYMBOLS, DIGITS + SYMBOLS + 1
VOCABULARY = DIGITS + SYMBOLS + 2
#: Rows of each kind in 20: text, repeated blocks, keys and values; the rest are lines of regression.
TEXT, BLOCKS, KEYS = 7, 7, 3
#: Tokens of a line ``x > y ;`` and lines of a regression document.
LINE_TOKENS, DOCUMENT_LINES = 4, 5
#: Lengths of repeated blocks.
SHORTEST, LONGEST = 4, 24
#: Pairs of a list, and how many of them are asked for again.
PAIRS, ASKED = 8, 4
#: The text: classes of symbols that decide what follows the next symbol, successors of each, and purpose of the words that draw them.
CLASSES, SUCCESSORS, TABLE = 4, 6, 23


@lru_cache(maxsize=1)
def laws() -> tuple[tuple[int, int], ...]:
    """Pairs ``(a, b)`` with a in -1 .. 2 for which at least five digits x have a digit ``a x + b``."""
    every = [(a, b) for a in (-1, 0, 1, 2) for b in range(-10, 15)]
    return tuple(ab for ab in every if len(domain(*ab)) >= DOCUMENT_LINES)


def domain(a: int, b: int) -> list[int]:
    """Digits x for which ``a x + b`` is a digit."""
    return [x for x in range(DIGITS) if 0 <= a * x + b < DIGITS]


@lru_cache(maxsize=4)
def law_table(device: str) -> Tensor:
    """:func:`laws` on a device, ``(n, 2)``."""
    return torch.tensor(laws(), device=device)


def regression_lines(words: Tensor, reserved: bool) -> tuple[Tensor, Tensor]:
    """x and y, ``(5, ...)`` each, of five lines ``y = a x + b`` with different x. Of the words ``(11, ...)`` one chooses the law and ten order the digits x.

    No training document begins as a probe (``reserved``) does: where the sum of the first two x is a multiple of 5, documents have them ascending and probes
    descending.
    """
    ab = law_table(str(words.device))[random.below(len(laws()), words[0])]
    a, b = ab[..., 0], ab[..., 1]
    digit = torch.arange(DIGITS, device=words.device).reshape(-1, *[1] * a.dim())
    y = a * digit + b
    inside = (y >= 0) & (y < DIGITS)
    if reserved:
        x = _reserved_first(words[1:], inside)
    else:  # digits outside of the domain come last in the order
        x = torch.where(inside, words[1:], words[1:] + (1 << 33)).argsort(dim=0, stable=True)[:DOCUMENT_LINES]
        swap = ((x[0] + x[1]) % 5 == 0) & (x[0] > x[1])
        x = torch.cat([torch.where(swap, x[:2].flip(0), x[:2]), x[2:]])
    return x, a * x + b


def _reserved_first(words: Tensor, inside: Tensor) -> Tensor:
    """Five different digits of the domain, the first two a reserved pair: descending, with a sum that is a multiple of 5."""
    every = [(p, q) for p in range(DIGITS) for q in range(p) if (p + q) % 5 == 0]
    pairs = torch.tensor(every, device=words.device)  # (n, 2)
    able = inside[pairs[:, 0]] & inside[pairs[:, 1]]  # (n, ...)
    # the words of the pair's two digits decide among the possible pairs
    rank = (words[pairs[:, 0]] * 31 + words[pairs[:, 1]] * 17) % 4294967291
    chosen = pairs[torch.where(able, rank, rank + (1 << 33)).argmin(0)]  # (..., 2)
    p, q = chosen[..., 0], chosen[..., 1]
    digit = torch.arange(DIGITS, device=words.device).reshape(-1, *[1] * p.dim())
    rest = inside & (digit != p) & (digit != q)
    order = torch.where(rest, words, words + (1 << 33)).argsort(dim=0, stable=True)
    return torch.cat([p[None], q[None], order[: DOCUMENT_LINES - 2]])


@lru_cache(maxsize=4)
def text_table(device: str = "cpu") -> tuple[Tensor, Tensor]:
    """The law of the text: what follows two symbols depends on the class of the first (its number modulo 4) and on the second. Successors ``(CLASSES, SYMBOLS,
    SUCCESSORS)`` as symbols 0 .. 79, more often the first ones (Zipf), and the upper edges of their shares of 2**32, the same for all, ``(SUCCESSORS,)``."""
    draw = random.words(random.keys([0]), torch.tensor([0]), TABLE, (CLASSES, SYMBOLS, SUCCESSORS))[0, 0]
    # the square of a uniform number prefers low symbols, as words of a language are of unequal frequency
    share = draw >> 16
    successors = (share * share * SYMBOLS) >> 32
    weight = [60 // (i + 1) for i in range(SUCCESSORS)]
    edges = torch.tensor(weight).cumsum(0) * 2**32 // sum(weight)
    return successors.to(device), edges.to(device)


@dataclass(frozen=True)
class MixedCorpus:
    """Rows of tokens for a language model.

    Args:
        regression: lines of regression; without, the control's lines: the same x, and as y the answers of a law drawn anew for every line at a place drawn
            anew, so that single tokens keep their frequencies and no context tells anything.
        length: tokens of a row, of which all but the last are context.
    """

    regression: bool = True
    length: int = 64

    #: No standard normals are needed.
    normals = 0

    @property
    def documents(self) -> int:
        """Documents of the longer kinds in a row."""
        return -(-self.length // (DOCUMENT_LINES * LINE_TOKENS))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Random words for the kind, the text, a block, lists and lines of a row."""
        lines = self.documents * (11 + 12 * DOCUMENT_LINES)
        return 2, self.length, SYMBOLS, self.documents * (SYMBOLS + PAIRS + PAIRS), lines

    @property
    def words(self) -> int:
        """Random words of a row."""
        return sum(self.sizes)

    def batch(self, normals: Tensor, words: Tensor) -> Batch:
        """Tokens ``(..., length - 1, B)`` and those that follow them, from words ``(..., words, B)``; pure. There is no query."""
        rows = self.rows(words)
        return Batch(rows[..., :-1, :], rows[..., :0, :], rows[..., 1:, :])

    def rows(self, words: Tensor) -> Tensor:
        """Rows ``(..., length, B)``."""
        kind, text, blocks, lists, lines = words.movedim(-2, 0).split(self.sizes)
        which = random.below(20, kind[0])
        choices = [self.text(text), self.repeated(blocks, kind[1]), self.lists(lists), self.lines(lines)]
        index = sum(which >= bound for bound in (TEXT, TEXT + BLOCKS, TEXT + BLOCKS + KEYS))  # (..., B)
        stacked = torch.stack(choices)  # (4, length, ..., B)
        row = stacked.gather(0, index.expand(1, self.length, *index.shape))[0]
        return row.movedim(0, -2)

    def text(self, words: Tensor) -> Tensor:
        """Text of the law of :func:`text_table`, ``(length, ...)``."""
        successors, edges = text_table(str(words.device))
        before = random.below(SYMBOLS, words[0])
        now = random.below(SYMBOLS, words[1])
        row = [before, now]
        place = torch.searchsorted(edges, words[2:].contiguous(), right=True)
        for t in range(self.length - 2):
            before, now = now, successors[before % CLASSES, now, place[t]]
            row.append(now)
        return torch.stack(row) + DIGITS

    def repeated(self, words: Tensor, size: Tensor) -> Tensor:
        """A block of different symbols, repeated to the end of the row, ``(length, ...)``."""
        order = random.order(words, 0)  # (SYMBOLS, ...)
        m = SHORTEST + random.below(LONGEST - SHORTEST + 1, size)  # (...)
        t = torch.arange(self.length, device=words.device).reshape(-1, *[1] * m.dim())
        return order.gather(0, t % m) + DIGITS

    def lists(self, words: Tensor) -> Tensor:
        """Eight pairs of key and value, a line, and four of the keys again with their values, ``(length, ...)``."""
        words = words.unflatten(0, (self.documents, -1)).transpose(0, 1)
        keys = random.order(words[:SYMBOLS], 0)[:PAIRS] + DIGITS  # (PAIRS, documents, ...)
        values = random.below(SYMBOLS, words[SYMBOLS : SYMBOLS + PAIRS]) + DIGITS
        asked = random.order(words[SYMBOLS + PAIRS :], 0)[:ASKED]
        again = torch.stack([keys.gather(0, asked), values.gather(0, asked)], 1).flatten(0, 1)
        line = torch.full_like(keys[:1], LINE)
        document = torch.cat([torch.stack([keys, values], 1).flatten(0, 1), line, again, line])
        return document.transpose(0, 1).flatten(0, 1)[: self.length]

    def lines(self, words: Tensor) -> Tensor:
        """Documents of five lines ``x > y``, ``(length, ...)``."""
        words = words.unflatten(0, (self.documents, -1)).transpose(0, 1)  # (11 + 60, documents, ...)
        x, y = regression_lines(words[:11], reserved=False)
        if not self.regression:
            other = words[11:].unflatten(0, (12, DOCUMENT_LINES))
            place = random.below(DOCUMENT_LINES, other[11])  # (5, documents, ...)
            y = regression_lines(other[:11], reserved=False)[1].gather(0, place[None])[0]
        arrow, line = torch.full_like(x, ARROW), torch.full_like(x, LINE)
        return torch.stack([x, arrow, y, line], 1).flatten(0, 1).transpose(0, 1).flatten(0, 1)[: self.length]
