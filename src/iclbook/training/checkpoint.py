"""Checkpoints: a reader sees the old file or the new one, never half of one, and no bit of it changed."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError
from ..files import write_whole
from .ensemble import Ensemble

#: The first bytes of every checkpoint; the digest of all that follows comes next.
MAGIC = b"iclbook checkpoint 2\n"
MEND = "Delete it, or train with --fresh."


def save(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` (tensors, numbers, strings, lists, dicts) to ``path`` atomically, behind its SHA-256.

    Raises:
        UserError: the folder cannot be written or the disk is full; the previous checkpoint, if any, is untouched.
    """
    buffer = io.BytesIO()
    torch.save(content, buffer)
    body = buffer.getvalue()
    try:
        write_whole(path, MAGIC + hashlib.sha256(body).digest() + body)
    except UserError as error:
        raise UserError(
            error.problem.replace("cannot write", "cannot write the checkpoint"), error.mend
        ) from error


def load(path: Path, config: str) -> dict[str, Any] | None:
    """Content of the checkpoint made from the same ``config`` text; ``None`` when there is none.

    Raises:
        UserError: the file is damaged, or was made from another configuration.
    """
    if not path.exists():
        return None
    try:
        raw = path.read_bytes()
        start = len(MAGIC) + hashlib.sha256().digest_size
        body = raw[start:]
        if raw[:start] != MAGIC + hashlib.sha256(body).digest():
            raise ValueError("its checksum differs")
        content = torch.load(io.BytesIO(body), weights_only=True, map_location="cpu")
        made_from = content["config"]
    except Exception as error:
        raise damaged(path, error) from error
    if made_from != config:
        raise UserError(f"the checkpoint {path} was made from another configuration", MEND)
    return content


def damaged(path: Path, error: Exception) -> UserError:
    """The one line for a checkpoint that cannot be resumed."""
    return UserError(f"the checkpoint {path} is damaged ({type(error).__name__})", MEND)


def leaves(tree: Any) -> list[Tensor]:
    """All tensors of nested lists and dicts, in a fixed order."""
    if isinstance(tree, Tensor):
        return [tree]
    items = tree.values() if isinstance(tree, dict) else tree
    return [leaf for item in items for leaf in leaves(item)]


def shapes(content: dict[str, Any]) -> list[list]:
    """Shape and kind of every tensor in a checkpoint."""
    names = [name for name in ("tensors", "losses", "observed", "kept", "states") if name in content]
    return [[*x.shape, str(x.dtype)] for name in names for x in leaves(content[name])]


def check(
    content: dict[str, Any],
    tensors: Sequence[Tensor],
    steps: int,
    record: Sequence[int],
    ensembles: Sequence[Ensemble],
) -> None:
    """Refuse a checkpoint whose arrays are not those of its own table, or of the trainer with these tensors, with a ValueError."""
    if content["shapes"] != shapes(content):
        raise ValueError("shapes differ from the table")
    if shapes({"tensors": content["tensors"]}) != shapes({"tensors": tensors}):
        raise ValueError("parameters of other shapes")
    if type(content["done"]) is not int or not 0 <= content["done"] <= steps:
        raise ValueError("a step that is none")
    rows = sum(step <= content["done"] for step in record)
    for e, losses, observed in zip(ensembles, content["losses"], content["observed"], strict=True):
        runs = {len(x) for x in losses} | {len(v) for c in observed for v in c.values()}
        names = {frozenset(c) for c in observed}
        if not rows == len(losses) == len(observed) or runs != {len(e.runs)} or len(names) != 1:
            raise ValueError("records are missing")
    for e, kept in zip(ensembles, content["kept"], strict=True):
        due = sum(step <= content["done"] for step in e.group.keep_at)
        if len(kept) != due or any(set(c) != set(e.group.keep) for c in kept):
            raise ValueError("kept parameters are missing")


def tensors(rows: list[list[dict[str, np.ndarray]]]) -> list[list[dict[str, Tensor]]]:
    """Records as a checkpoint holds them."""
    return [[{k: torch.from_numpy(v) for k, v in c.items()} for c in cs] for cs in rows]


def arrays(rows: list[list[dict[str, Tensor]]]) -> list[list[dict[str, np.ndarray]]]:
    """Records of a checkpoint."""
    return [[{k: v.numpy() for k, v in c.items()} for c in cs] for cs in rows]
