"""Stories in files: TinyStoriesV2-GPT4-*.txt and the Children-Stories collection, indexed in place and divided by a hash of each story.

Only places are kept in memory; a story is read when it is asked for. Stories are sorted by their hash, equal ones count once: neither the order nor the
names of the files, nor which other stories there are, decide to which split a story belongs.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import re
from array import array
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..errors import UserError

#: Ends a story in TinyStories' files.
MARK = "<|endoftext|>"
#: The column with the stories in the Children-Stories collection.
COLUMN = "text"
#: Of so many stories one is for validation and one for the test.
ONE_IN = 20
SPLITS = ("validation", "test", "train")
#: Files of a vocabulary, which may lie beside the stories.
OTHERS = frozenset({"vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "config.json"})
_WANTED = (
    "Give a folder with TinyStoriesV2-GPT4-*.txt, or with json, jsonl or parquet files of a `text` column."
)
#: Of JSON: texts, braces, and quotes that no other quote closes.
_PIECES = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}"]', re.DOTALL)


class Marked:
    """A text file in which each story ends with the mark; one without a mark at its end counts as well."""

    def __init__(self, path: Path) -> None:
        self.path, self.data = path, _bytes(path)

    def places(self) -> Iterator[tuple[int, int]]:
        """Where each story begins and ends, in bytes."""
        mark, start = MARK.encode(), 0
        if self.data.find(mark) < 0:
            raise UserError(f"{self.path} holds no {MARK}, which ends each story", _WANTED)
        while (end := self.data.find(mark, start)) >= 0:
            yield start, end
            start = end + len(mark)
        yield start, len(self.data)

    def read(self, start: int, end: int) -> str:
        """A story."""
        try:
            return self.data[start:end].decode().replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            _damaged(self.path, start + error.start, error)


class Rows:
    """A file of JSON objects, as one list or one a line, with a column of stories."""

    def __init__(self, path: Path) -> None:
        self.path, self.data = path, _bytes(path)

    def places(self) -> Iterator[tuple[int, int]]:
        """Where each object begins and ends, in bytes; between them stand white space, commas and the list's brackets alone."""
        depth = start = end = opened = 0
        for found in _PIECES.finditer(self.data):
            first, length = self.data[found.start()], found.end() - found.start()
            if first == ord('"') and (length == 1 or not depth):
                _damaged(self.path, found.start())
            if first == ord("{"):
                if not depth:
                    start = found.start()
                    opened += self._gap(end, start)
                depth += 1
            elif first == ord("}"):
                depth -= 1
                if depth < 0:
                    _damaged(self.path, found.start())
                if not depth:
                    end = found.end()
                    yield start, end
        if depth or opened + self._gap(end, len(self.data)):
            _damaged(self.path, len(self.data))

    def _gap(self, start: int, end: int) -> int:
        """How many more brackets open than close there; nothing else stands there but commas."""
        gap = self.data[start:end]
        if gap.strip(b" \t\r\n,[]\xef\xbb\xbf"):
            _damaged(self.path, start)
        return gap.count(b"[") - gap.count(b"]")

    def read(self, start: int, end: int) -> str:
        """The story of an object."""
        try:
            row = json.loads(self.data[start:end])
        except (ValueError, RecursionError) as error:
            _damaged(self.path, start, error)
        return _text_of(row, self.path, start)


class Columns:
    """A parquet file with a column of stories."""

    def __init__(self, path: Path) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError as error:
            raise UserError(
                f"{path} can only be read with pyarrow",
                "Install it (pip install pyarrow) or convert to jsonl.",
            ) from error
        try:
            self.path, self.data = path, parquet.read_table(str(path), columns=[COLUMN])
        except (ArrowException, OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read ({error})", "Fetch the file anew.") from error
        if COLUMN not in self.data.column_names:
            raise UserError(f"{path} has no column `{COLUMN}`", _WANTED)

    def places(self) -> Iterator[tuple[int, int]]:
        """The rows."""
        return ((row, row + 1) for row in range(self.data.num_rows))

    def read(self, start: int, end: int) -> str:
        """The story of a row."""
        return _text_of({COLUMN: self.data.column(COLUMN)[start].as_py()}, self.path, start)


KINDS = {".txt": Marked, ".json": Rows, ".jsonl": Rows, ".parquet": Columns}


def _bytes(path: Path) -> Any:
    """A file's bytes, which the system reads when they are asked for."""
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise UserError(f"{path} is empty", "Fetch the file anew, or remove it.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})", "Make the file readable.") from error


def _damaged(path: Path, place: int, error: Exception | None = None) -> NoReturn:
    raise UserError(f"{path} is damaged at byte {place}", "Fetch the file anew.") from error


def _text_of(row: Any, path: Path, place: int) -> str:
    """The text of a row, without halves of surrogate pairs."""
    if not isinstance(row, dict) or not isinstance(row.get(COLUMN), str):
        raise UserError(f"{path} has a row without text in its column `{COLUMN}` (at {place})", _WANTED)
    return row[COLUMN].encode("utf-8", "replace").decode()


class Shelf:
    """The stories of a folder.

    Attributes:
        hashes: ``(n,)``, the first 8 bytes of the SHA-256 of each story, rising.

    Raises:
        UserError: no folder, no stories, a damaged file.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}", _WANTED)
        paths = [p for p in sorted(folder.iterdir()) if p.suffix.lower() in KINDS and p.name not in OTHERS]
        self._files = [KINDS[p.suffix.lower()](p) for p in paths]
        hashes, places = array("Q"), array("q")
        for number, file in enumerate(self._files):
            for start, end in file.places():
                story = file.read(start, end).strip()
                if story:
                    hashes.append(int.from_bytes(hashlib.sha256(story.encode()).digest()[:8], "big"))
                    places.extend((number, start, end))
        if not hashes:
            raise UserError(f"{folder} holds no stories", _WANTED)
        self.hashes, first = np.unique(np.frombuffer(hashes, np.uint64), return_index=True)
        self._places = np.frombuffer(places, np.int64).reshape(-1, 3)[first]

    def __len__(self) -> int:
        return len(self.hashes)

    def __getitem__(self, row: int) -> str:
        """A story, without white space around it."""
        number, start, end = self._places[row].tolist()
        return self._files[number].read(start, end).strip()

    def split(self, name: str) -> np.ndarray:
        """Rows of the stories for validation, test or training."""
        part = np.minimum(self.hashes % ONE_IN, len(SPLITS) - 1)
        return np.flatnonzero(part == SPLITS.index(name))

    def digest(self) -> str:
        """Equal for equal sets of stories."""
        return hashlib.sha256(self.hashes.astype(">u8").tobytes()).hexdigest()[:16]


@lru_cache(maxsize=4)
def shelf(folder: str) -> Shelf:
    """The stories of a folder, indexed once a process."""
    return Shelf(Path(folder))
