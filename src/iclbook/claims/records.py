"""What a notebook records and shows: numbers, how they travel in its executed copy, and the verdicts that follow from them.

Each record is one display output that no front end draws. Its data types carry the prefix ``application/papermill.record/``,
which MyST-NB's ``{glue:text}`` reads for prose and ``iclbook check`` for regression.
"""

import ast
import json
import math
import os
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import reading
from ..numbers import numbers
from ..project import cell_outputs, check_profile, find_root
from ..reference_values import Value, load_reference, yardstick
from ..statistics import Estimate
from .ledger import Ledger, load_ledger
from .render import closing_html, strip_html, table_text, verdict_html, verdict_text
from .verdicts import Verdict, judge, verdict

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
    def make(cls, key: str, value: Any, fmt: str | None = None) -> "Record":
        """Check a value and write its text.

        Args:
            value: bool, int, float, str or a flat list of up to 64 numbers; numpy and torch scalars and vectors are converted.
            fmt: a format specification such as ``.1f`` or ``.0%``; three significant digits otherwise.
        """
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
    """Every record of an executed notebook, in order; one that is missing, truncated or holds a damaged record is a UserError."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path} is not there", f"Run `iclbook run {path.stem}` first.")
    with reading(path, f"Run `iclbook run {path.stem}` again."):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        outputs = [output.get("data", {}) for output in cell_outputs(notebook)]
        found = {}
        for data in (data for data in outputs if VALUE_MIME in data):
            body, text = json.loads("".join(data[VALUE_MIME])), ast.literal_eval("".join(data[TEXT_MIME]))
            key = "".join(body["key"])  # a text, or it is damaged
            found[key] = Record(key, _plain(key, body["value"]), "".join(text))
    return found


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


# -- the notebook's side: record a number, show a verdict, end with the counts -----------------------------------------


class Recorder:
    """Records what a chapter measures and shows the verdicts that follow from it.

    Use::

        record = Recorder("he2025", profile)
        record("fig2.2/text/mu_spread", 0.02)    # shows nothing; prose reads it with {glue:text}`fig2.2/text/mu_spread`
        record.all(measure(runs))                # every value of a mapping
        record.verdict("he2025/fig2.2")          # a badge, computed from what was recorded so far
        record.table()                           # counts, and the claims that no badge shows

    Works in any Jupyter kernel; in a plain Python program it records and judges without displaying. A key that the ledger does not name, a second
    value of a key, and a badge before its values are a UserError.
    """

    def __init__(self, paper: str, profile: str) -> None:
        self.profile = check_profile(profile)
        self.ledger: Ledger = load_ledger(paper)
        self.reference = load_reference(self.ledger.chapter_name, profile, find_root())
        self.records: dict[str, Record] = {}
        self._shown: dict[str, str] = {}  # claim id -> the word of its badge
        self._styled = False

    def __call__(self, key: str, value: Any) -> None:
        """Record ``value`` under ``key``; prose shows it in the format that the ledger names, or with three significant digits.

        Args:
            key: unique in the notebook; named by a part of a claim or listed under ``values`` in the ledger.
            value: bool, int, float, str or a flat list of up to 64 numbers (numpy and torch values are converted); of an
                :class:`~iclbook.statistics.Estimate` the value, and its standard error under ``KEY_se``.
        """
        if isinstance(value, Estimate):
            self(f"{key}_se", value.error)
            value = value.value
        self.ledger.require_key(key)
        record = Record.make(key, value, self.ledger.formats.get(key))
        shell = _shell()
        # In a live session a cell may be run again; a headless run executes each cell once, so a repeat is a mistake.
        if key in self.records and (shell is None or _headless()):
            raise UserError(f"key {key!r} is recorded twice", "Give each recorded value its own key.")
        self.records[key] = record
        if shell is not None:
            _display(*record.output())

    def all(self, values: Mapping[str, Any]) -> None:
        """Record every value of a mapping from keys, as measurements return them."""
        for key, value in values.items():
            self(key, value)

    def verdict(self, claim_id: str) -> Verdict:
        """Judge a claim by what was recorded so far and display its line; the verdict is returned for use in code, and Jupyter does not echo it."""
        return self._judge([claim_id])[0]

    def verdicts(self, *names: str) -> None:
        """One strip with the lines of several claims, each named without the paper's key."""
        self._judge([f"{self.ledger.paper}/{name}" for name in names])

    def _judge(self, claim_ids: Sequence[str]) -> list[Verdict]:
        by = yardstick(self.records, self.reference)
        claims = [self.ledger.claim(claim_id) for claim_id in claim_ids]
        found = [verdict(claim, self.records, self.profile, by) for claim in claims]
        pages = [verdict_html(c, result, c.id not in self._shown) for c, result in zip(claims, found, strict=True)]
        self._shown |= {claim.id: result.word for claim, result in zip(claims, found, strict=True)}
        self._show(strip_html(pages), "\n".join(map(verdict_text, claims, found)))
        return found

    def table(self) -> None:
        """Display the chapter's counts, and the claims that it has not shown; a terminal gets all of them in a table. A badge that was shown too early is refused."""
        found = judge(self.ledger, self.records, self.profile, self.reference)
        early = [claim_id for claim_id, word in self._shown.items() if found[claim_id].word != word]
        if early:
            told = f"{early[0]} was shown as {self._shown[early[0]]!r} and is {found[early[0]].word!r}"
            raise UserError(told, "Show its badge after everything that its parts name is recorded.")
        rows = [(claim, found[claim.id]) for claim in self.ledger.claims]
        self._show(closing_html(rows, self._shown), table_text(rows))

    def _show(self, html: str, text: str) -> None:
        if _shell() is None:
            return
        sheet = find_root() / "book" / "assets" / "verdicts.css"
        if not self._styled and not _headless() and sheet.is_file():  # a live notebook has no link to it as a page has
            html = f"<style>{sheet.read_text(encoding='utf-8')}</style>{html}"
            self._styled = True
        _display({"text/html": html, "text/plain": text}, {})


def _headless() -> bool:
    return os.environ.get("ICLBOOK_HEADLESS") == "1"


def _shell() -> Any:
    """The Jupyter kernel's shell, or None in a plain program or a terminal."""
    try:
        from IPython import get_ipython
    except ImportError:  # a machine that only trains
        return None
    shell = get_ipython()
    return shell if shell is not None and getattr(shell, "kernel", None) is not None else None


def _display(data: dict[str, str], metadata: dict[str, Any]) -> None:
    from IPython.display import display

    display(data, raw=True, metadata=metadata)
