"""A recorded value: its key, its value and its text, and how it travels in an executed notebook.

Each record is one display output that no front end draws. Its data types carry the prefix ``application/papermill.record/``,
which MyST-NB's ``{glue:text}`` reads for prose and ``iclbook check`` for regression.
"""

import ast
import json
import math
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import reading
from ..numbers import numbers
from ..project import cell_outputs
from .references import Value

PREFIX = "application/papermill.record/"
TEXT_MIME = PREFIX + "text/plain"
VALUE_MIME = PREFIX + "application/vnd.iclbook.record+json"
LONGEST_LIST = 64


@dataclass(frozen=True)
class Record:
    """A value under its key."""

    key: str
    value: Value
    text: str

    @classmethod
    def make(cls, key: str, value: Any, fmt: str | None = None) -> "Record":
        """Check a value and write its text."""
        plain = _plain(key, value)
        try:
            if isinstance(plain, str):
                return cls(key, plain, format(plain, fmt or ""))
            return cls(key, plain, numbers(plain if isinstance(plain, list) else [plain], form=fmt))
        except ValueError as problem:
            what = f"{key}: format {fmt!r} does not fit {plain!r} ({problem})"
            raise UserError(what, "Use one such as '.2f'.") from None

    def output(self) -> tuple[dict[str, str], dict[str, Any]]:
        """Data and metadata of the display output that carries this record."""
        value = json.dumps({"key": self.key, "value": self.value}, allow_nan=False)
        # The value travels as text: the notebook format allows structured data only under two-part type names.
        # The text travels as a quoted literal: MyST-NB evaluates it, and would read a bare "500,000" as the tuple (500, 0).
        data = {TEXT_MIME: repr(self.text), VALUE_MIME: value}
        return data, {"scrapbook": {"name": self.key, "mime_prefix": PREFIX}}


def read_records(path: Path | str) -> dict[str, Record]:
    """Records of an executed notebook, in order; a notebook that is missing, truncated or holds a damaged record is a UserError."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path} is not there", f"Run `iclbook run {path.stem}` first.")
    with reading(path, f"Run `iclbook run {path.stem}` again."):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        outputs = [output.get("data", {}) for output in cell_outputs(notebook)]
        records = {}
        for data in (data for data in outputs if VALUE_MIME in data):
            body, text = json.loads("".join(data[VALUE_MIME])), ast.literal_eval("".join(data[TEXT_MIME]))
            key = "".join(body["key"])  # a text, or it is damaged
            records[key] = Record(key, _plain(key, body["value"]), "".join(text))
    return records


def _plain(key: str, value: Any) -> Value:
    """A value as JSON holds it."""
    if hasattr(value, "tolist"):  # numpy scalars and arrays, torch tensors
        value = value.tolist()
    if isinstance(value, str):
        return value
    several = isinstance(value, list | tuple)
    items = [item.tolist() if hasattr(item, "tolist") else item for item in (value if several else [value])]
    if not 1 <= len(items) <= LONGEST_LIST or not all(isinstance(item, bool | int | float) for item in items):
        hint = f"Record a number, truth value, text or flat list of 1 to {LONGEST_LIST} numbers."
        raise UserError(f"{key}: cannot record {reprlib.repr(value)}", hint)
    if wrong := [item for item in items if not math.isfinite(item)]:
        hint = "Find out where it comes from; it cannot be recorded."
        raise UserError(f"{key}: {wrong[0]} is not a finite number", hint)
    return items if several else items[0]
