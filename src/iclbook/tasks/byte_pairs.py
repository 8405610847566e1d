"""Texts as numbers: GPT-2's byte pairs from local files (Radford et al. 2019; Sennrich et al. 2016), or the most frequent words.

Both have ``size`` (numbers run from 0 to size - 1), ``end`` (which of them ends a story), ``encode(text)``, ``decode(numbers)`` and ``digest()``.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from ..errors import UserError
from .story_files import MARK

#: Unicode's white space beyond ASCII.
_SPACES = frozenset(
    map(chr, (0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000))
)
#: GPT-2's pieces of a text, of characters that :func:`_ascii` has made ASCII: its \p{L} and \p{N} are letters and digits then.
_PIECES = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII)
_WORDS = re.compile(r"\w+(?:'\w+)?|[^\w\s]")
#: What stands for a word that is not among the most frequent.
UNKNOWN = "<unk>"


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    """An ASCII character of the same kind: a letter, a number, white space or another."""
    if character in _SPACES:
        return "\t"
    return {"L": "a", "N": "0"}.get(unicodedata.category(character)[0], "!")


def pieces(text: str) -> list[str]:
    """What byte pairs never cross: a word with the space before it, a number, signs, white space."""
    plain = text if text.isascii() else "".join(c if c.isascii() else _kind(c) for c in text)
    return [text[found.start() : found.end()] for found in _PIECES.finditer(plain)]


def byte_letters() -> dict[int, str]:
    """How GPT-2's files write bytes: printable ones as themselves, the others as characters from 256 on."""
    shown = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    hidden = [b for b in range(256) if b not in shown]
    return {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}


class BytePairs:
    """Byte pair encoding: each piece begins as bytes; the pair of neighbours that stands first among the merges is joined, until none is left.

    Args:
        numbers: of each token, in the letters of :func:`byte_letters`; the mark that ends a story gets the next number if it has none.
        merges: pairs, the first ones first.

    Raises:
        UserError: numbers with gaps, bytes without a token, merges that lead to no token.
    """

    def __init__(self, numbers: dict[str, int], merges: Sequence[tuple[str, str]]) -> None:
        numbers = numbers if MARK in numbers else numbers | {MARK: len(numbers)}
        letters = byte_letters()
        missing = [t for t in (*letters.values(), *(a + b for a, b in merges)) if t not in numbers]
        if missing or sorted(numbers.values()) != list(range(len(numbers))):
            said = f"no token {missing[0]!r}" if missing else "numbers with gaps"
            raise UserError(f"the vocabulary has {said}", "Take vocab.json and merges.txt of one tokenizer.")
        self.size, self.end = len(numbers), numbers[MARK]
        self._numbers, self._rank = numbers, {pair: i for i, pair in enumerate(merges)}
        self._letters, self._bytes = letters, {letter: b for b, letter in letters.items()}
        self._tokens = {number: token for token, number in numbers.items()}
        self._known: dict[str, list[int]] = {}

    def _joined(self, piece: str) -> list[int]:
        """Numbers of a piece."""
        parts = [self._letters[b] for b in piece.encode()]
        while len(parts) > 1:
            ranks = [self._rank.get(pair, len(self._rank)) for pair in pairwise(parts)]
            best = min(ranks)
            if best == len(self._rank):
                break
            kept, i = [], 0
            while i < len(parts):
                join = i < len(ranks) and ranks[i] == best
                kept.append(parts[i] + parts[i + 1] if join else parts[i])
                i += 1 + join
            parts = kept
        return [self._numbers[part] for part in parts]

    def encode(self, text: str) -> list[int]:
        """Numbers of a text; the mark within it is text like any other."""
        found: list[int] = []
        for piece in pieces(text):
            if piece not in self._known:
                if len(self._known) >= 1 << 17:
                    self._known.clear()
                self._known[piece] = self._joined(piece)
            found += self._known[piece]
        return found

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of numbers, without ends of stories; bytes that are no character become U+FFFD."""
        letters = "".join(self._tokens[n] for n in numbers if n != self.end)
        return bytes(self._bytes[letter] for letter in letters).decode(errors="replace")

    def digest(self) -> str:
        """Equal for equal encodings."""
        return _digest([sorted(self._numbers.items()), [*self._rank]])


class FrequentWords:
    """Words and signs, each one token. A text that comes back has single spaces between words, and :data:`UNKNOWN` for the others.

    Args:
        words: known ones.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [MARK, UNKNOWN, *words]
        self._numbers = {word: i for i, word in enumerate(self._words)}
        self.size, self.end = len(self._words), 0

    @classmethod
    def of(cls, texts: Iterable[str], size: int) -> FrequentWords:
        """The most frequent words of texts, at most ``size`` tokens; of equally frequent ones the first by alphabet."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(_WORDS.findall(text))
        return cls(sorted(counts, key=lambda word: (-counts[word], word))[: max(size - 2, 0)])

    def encode(self, text: str) -> list[int]:
        """Numbers of a text."""
        return [self._numbers.get(word, 1) for word in _WORDS.findall(text)]

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of numbers, without ends of stories: a sign that closes stands at the word before it."""
        text = " ".join(self._words[n] for n in numbers if n != self.end)
        return re.sub(r" ([.,;:!?)])", r"\1", text)

    def digest(self) -> str:
        """Equal for equal encodings."""
        return _digest(self._words)


def _digest(of: object) -> str:
    return hashlib.sha256(json.dumps(of).encode()).hexdigest()[:16]


def has_byte_pairs(folder: Path) -> bool:
    """Whether a folder holds one of the two files."""
    return any((folder / name).exists() for name in ("vocab.json", "merges.txt"))


def read_byte_pairs(folder: Path) -> BytePairs:
    """Byte pairs of ``vocab.json`` and ``merges.txt`` in a folder.

    Raises:
        UserError: a file that is missing or damaged.
    """
    path = folder / "vocab.json"
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(numbers, dict) or not all(type(n) is int for n in numbers.values()):
            raise ValueError("not a mapping to whole numbers")
        path = folder / "merges.txt"
        lines = path.read_text(encoding="utf-8").split("\n")
        merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        if any(len(pair) != 2 for pair in merges):
            raise ValueError("a line without two tokens")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})", "Give both files of GPT-2.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged ({error})", "Fetch the file anew.") from error
    return BytePairs(numbers, merges)
