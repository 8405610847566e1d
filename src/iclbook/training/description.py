"""Descriptions of studies as plain values (equal ones mean equal numbers, and JSON holds them), and how what they describe is stored."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import torch

from .. import store
from ..errors import UserError

#: What the provenance says of each group that was added to results that were there.
ADDED = ("seconds", "device", "torch", "commit")


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
        return _plain_fields(value)
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
        f"a {type(value).__name__} cannot be described", "Use plain values, dataclasses of them, or functions."
    )


def _plain_fields(value: Any) -> dict[str, Any]:
    """A dataclass by its fields."""
    found: dict[str, Any] = {"is": type(value).__name__}
    for each in dataclasses.fields(value):
        if not each.compare:
            continue
        own = getattr(value, each.name)
        factory = each.default_factory
        default = each.default if factory is dataclasses.MISSING else factory()
        if default is dataclasses.MISSING or plain(own) != plain(default):
            found[each.name] = plain(own)
    return found


def others(study: Any, profile: str, missing: Sequence[str]) -> store.Results | None:
    """The stored results of the groups of a study or computation that are not ``missing``; ``None`` where none is missing."""
    if not missing:
        return None
    there = study.of_groups([name for name in study.group_names if name not in missing])
    return store.load(study.paper, profile, study.name, there.describe(), there.source())


def keep(
    study: Any,
    profile: str,
    arrays: dict[str, np.ndarray],
    about: dict[str, Any],
    beside: store.Results | None = None,
    states: dict[str, np.ndarray] | None = None,
) -> store.Results:
    """Store the arrays of a study or computation, or of some of its groups beside those that are there."""
    where = study.paper, profile, study.name
    every, sums = arrays, {}
    if beside is not None:
        every = {**beside.arrays, **arrays}
        states = store.load_states(*where) | (states or {})
        sums = {group: beside.provenance["files"][group] for group in {k.split("/")[0] for k in beside.arrays}}
        new = {name: {k: about[k] for k in ADDED} for name in sorted({key.split("/")[0] for key in arrays})}
        added = beside.provenance.get("added", {}) | new
        about = beside.provenance | {k: about[k] for k in ("config", "source")} | {"added": added}
    store.save(*where, arrays, about, may_diverge=study.may_diverge, states=states, beside=sums)
    return store.Results(every, about)
