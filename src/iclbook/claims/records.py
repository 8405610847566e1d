"""Numbers that a notebook records, and how they travel in its executed copy.

Each record is one display output that no front end draws. Its data types carry the prefix ``application/papermill.record/``,
which MyST-NB's ``{glue:text}`` reads for prose and ``iclbook check`` for regression.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError, one_line
from ..numbers import numbers
from .rules import Value

PREFIX = "application/papermill.record/"
TEXT_MIME = PREFIX + "text/plain"
VALUE_MIME = PREFIX + "application/vnd.iclbook.record+json"
LONGEST_LIST = 64


@dataclass(frozen=True)
class Record:
    """A value under its key.

    Attributes:
        value: exactly what was measured.
        text: the value as prose and tables show it, rounded.
    """

    key: str
    value: Value
    text: str

    @classmethod
    def make(cls, key: str, value: Any, fmt: str | None = None) -> Record:
        """Check a value and write its text.

        Args:
            value: bool, int, float, str or a flat list of up to 64 numbers; numpy and torch scalars and vectors are converted.
            fmt: a format specification such as ``.1f`` or ``.0%``; three significant digits otherwise.

        Raises:
            UserError: another kind of value, a non-finite number, a bad format.
        """
        plain = _plain(key, value)
        try:
            text = _text(plain, fmt)
        except ValueError as problem:
            raise UserError(
                f"{key}: format {fmt!r} does not fit {plain!r} ({problem})", "Use one such as '.2f'."
            ) from None
        return cls(key, plain, text)

    def output(self) -> tuple[dict[str, str], dict[str, Any]]:
        """Data and metadata of the display output that carries this record."""
        value = json.dumps({"key": self.key, "value": self.value}, allow_nan=False)
        # The value travels as text: the notebook format allows structured data only under two-part type names.
        # The text travels as a quoted literal: MyST-NB evaluates it, and would read a bare "500,000" as the tuple (500, 0).
        data = {TEXT_MIME: repr(self.text), VALUE_MIME: value}
        return data, {"scrapbook": {"name": self.key, "mime_prefix": PREFIX}}


def read_records(path: Path | str) -> dict[str, Record]:
    """Every record of an executed notebook, in order.

    Raises:
        UserError: the notebook is missing, truncated or holds a damaged record.
    """
    path = Path(path)
    mend = f"Run `iclbook run {path.stem}` again."
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        outputs = [output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", [])]
        carried = [data for data in outputs if VALUE_MIME in data]
    except FileNotFoundError:
        raise UserError(f"{path} is not there", f"Run `iclbook run {path.stem}` first.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise UserError(f"{path} is not a readable notebook ({_short(problem)})", mend) from None
    records: dict[str, Record] = {}
    for data in carried:
        try:
            record = _carried(data)
        except (ValueError, SyntaxError, LookupError, TypeError, AttributeError, RecursionError, MemoryError,
                OverflowError, UserError) as problem:  # fmt: skip
            raise UserError(f"{path} holds a damaged record ({_short(problem)})", mend) from None
        records[record.key] = record
    return records


def _carried(data: Mapping) -> Record:
    """The record in an output's data.

    Raises:
        Exception: what is damaged, in whatever words Python has for it.
    """
    body = json.loads(_joined(data[VALUE_MIME]))
    key, value = body["key"], body["value"]
    text = ast.literal_eval(_joined(data[TEXT_MIME]))
    if not all(isinstance(item, str) for item in (key, text)):
        raise TypeError("key and text are texts")
    value = _plain(key, value)
    for number in value if isinstance(value, list) else [value]:
        if isinstance(number, int):
            float(number)  # overflows where no rule could judge it
    return Record(key, value, text)


def _short(problem: Exception) -> str:
    return one_line(problem)[:200] or type(problem).__name__


def _joined(text: str | list[str] | Mapping) -> str:
    if isinstance(text, Mapping):
        return json.dumps(text)
    return text if isinstance(text, str) else "".join(text)


def _plain(key: str, value: Any) -> Value:
    if hasattr(value, "tolist"):  # numpy scalars and arrays, torch tensors
        value = value.tolist()
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, list):
        if not 1 <= len(value) <= LONGEST_LIST:
            raise UserError(
                f"{key}: a list of {len(value)}", f"Record 1 to {LONGEST_LIST} numbers, or a summary of them."
            )
        items = [item.tolist() if hasattr(item, "tolist") else item for item in value]
        for item in items:
            if isinstance(item, str) or not isinstance(item, bool | int | float):
                raise UserError(f"{key}: {item!r} in a list", "A recorded list is flat and holds numbers.")
            _finite(key, item)
        return items
    if isinstance(value, str):
        return value
    if not isinstance(value, bool | int | float):
        raise UserError(
            f"{key}: cannot record a {type(value).__name__}", "Record a number, truth value, text or flat list."
        )
    _finite(key, value)
    return value


def _finite(key: str, value: float) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(
            f"{key}: {value} is not a finite number", "Find out where it comes from; it cannot be recorded."
        )


def _text(value: Value, fmt: str | None) -> str:
    if isinstance(value, str):
        return value if fmt is None else format(value, fmt)
    return numbers(value if isinstance(value, list) else [value], form=fmt)
