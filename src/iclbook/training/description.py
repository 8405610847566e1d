"""Descriptions of studies as plain values: equal descriptions mean equal numbers, and JSON holds them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np
import torch

from ..errors import UserError


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it.

    A dataclass is a mapping from the names of its fields that are not at their default, and under ``is`` the name of its class; a class or function is its
    name (which code it is, the digest of its source tells); an array is the digest of its content. Fields with ``compare=False`` decide no
    number and are left out.

    Raises:
        UserError: a value of another kind, such as an object whose text would be its address.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, functools.partial):
        return [plain(value.func), plain(value.args), plain(value.keywords)]
    if isinstance(value, np.ndarray | torch.Tensor):
        array = np.ascontiguousarray(torch.as_tensor(value).cpu().numpy())
        return f"{array.dtype}{list(array.shape)} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return value.__name__
    raise UserError(
        f"a {type(value).__name__} cannot be described",
        "Use plain values, dataclasses of them, or functions.",
    )


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass by its fields."""
    found: dict[str, Any] = {"is": type(value).__name__}
    for field in dataclasses.fields(value):
        if not field.compare:
            continue
        own = getattr(value, field.name)
        factory = field.default_factory
        default = field.default if factory is dataclasses.MISSING else factory()
        if default is dataclasses.MISSING or plain(own) != plain(default):
            found[field.name] = plain(own)
    return found
