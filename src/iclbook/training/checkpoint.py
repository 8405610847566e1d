"""Atomic checkpoints: a reader sees the old file or the new one, never half of one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ..errors import UserError


def save(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` (tensors, numbers, strings, lists, dicts) to ``path`` atomically.

    Raises:
        UserError: the folder cannot be written or the disk is full; the previous checkpoint, if any, is untouched.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
        with suppress(OSError):
            temporary.unlink()
        raise UserError(
            f"cannot write the checkpoint {path} ({error})", "Free space there or make it writable."
        ) from error


def load(path: Path, config: str) -> dict[str, Any] | None:
    """Content of the checkpoint made from the same ``config`` text; ``None`` when there is none.

    Raises:
        UserError: the file is damaged, or was made from another configuration.
    """
    if not path.exists():
        return None
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
        made_from = content["config"]
    except Exception as error:
        raise UserError(
            f"the checkpoint {path} is damaged ({type(error).__name__})", "Delete it, or train with --fresh."
        ) from error
    if made_from != config:
        raise UserError(
            f"the checkpoint {path} was made from another configuration", "Delete it, or train with --fresh."
        )
    return content
