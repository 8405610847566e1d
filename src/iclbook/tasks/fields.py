"""Arguments of tasks: of the kind that the task says, and finite."""

from __future__ import annotations

import dataclasses
import math
import numbers
import reprlib
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from ..errors import UserError

#: Whole numbers beyond this fit no tensor and no generator.
LARGEST = 2**63


def check_fields(task: Any) -> None:
    """Compare the fields of a dataclass with their annotations.

    Raises:
        UserError: a field of another type, or a number that is not finite.
    """
    hints = get_type_hints(type(task))
    for field in dataclasses.fields(task):
        value = getattr(task, field.name)
        if not _fits(value, hints[field.name]):
            raise UserError(
                f"{type(task).__name__}: {field.name}={reprlib.repr(value)}",
                f"Give {field.name} as {field.type}, finite.",
            )


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the annotated type; a whole number is also a float, a bool is neither."""
    if get_origin(hint) is UnionType:
        return any(_fits(value, one) for one in get_args(hint))
    if get_origin(hint) is tuple:  # tuple[kind, ...]
        return isinstance(value, tuple) and all(_fits(part, get_args(hint)[0]) for part in value)
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if hint is int:
        return isinstance(value, numbers.Integral) and abs(value) < LARGEST
    if hint is float:
        return isinstance(value, numbers.Real) and abs(value) < LARGEST and math.isfinite(value)
    return isinstance(value, NoneType if hint is None else hint)
