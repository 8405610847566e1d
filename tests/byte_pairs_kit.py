"""A small vocabulary of byte pairs, and its files."""

from __future__ import annotations

import json

from iclbook.tasks.byte_pairs import byte_letters
from iclbook.tasks.story_files import MARK


def encoding():
    """Bytes and three merges; the end of a story is not the first number."""
    letters = list(byte_letters().values())
    tokens = [*letters, "th", "the", "\u0120the", MARK]
    merges = [("t", "h"), ("th", "e"), ("\u0120", "the")]
    return {token: i for i, token in enumerate(tokens)}, merges


def write_encoding(folder):
    numbers, merges = encoding()
    (folder / "vocab.json").write_text(json.dumps(numbers))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines))
