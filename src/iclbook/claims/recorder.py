"""The notebook's side of a claim: record a number, show a verdict, end with the counts."""

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UserError, say
from ..files import check_kernels
from ..project import check_profile, find_root, mixed_checkouts
from ..statistics import Estimate
from .ledger import Ledger, load_ledger
from .record import Record
from .references import load_reference, tolerances_of
from .render import closing_html, counts_line, lines_text, strip_html, verdict_html
from .verdicts import Verdict, judge, verdict


class Recorder:
    """Records what a chapter measures and shows the verdicts that follow from it.

    Use::

        record = Recorder("he2025", profile)
        record("fig2.2/text/mu_spread", 0.02)    # shows nothing; prose reads it with {glue:text}`fig2.2/text/mu_spread`
        record.all(measure(runs))                # every value of a mapping
        record.verdict("he2025/fig2.2")          # a badge, computed from what was recorded so far
        record.table()                           # counts, and the claims that no badge shows

    Works in any Jupyter kernel; in a plain Python program verdicts are printed, a line each. A key that the ledger does not name, a second
    value of a key, and a badge before its values are a UserError.
    """

    def __init__(self, paper: str, profile: str) -> None:
        self.profile = check_profile(profile)
        check_kernels()  # before any is loaded
        if (mixed := mixed_checkouts()) and not _headless():
            warnings.warn(str(mixed), stacklevel=2)
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
        """Judge a claim by what was recorded so far and display its line; the verdict is returned for use in code, and Jupyter does not echo it. The paper's key may be
        left out of the id."""
        return self._judge([claim_id])[0]

    def verdicts(self, *names: str) -> None:
        """One strip with the lines of several claims, each named without the paper's key."""
        self._judge(names)

    def _judge(self, names: Sequence[str]) -> list[Verdict]:
        claim_ids = [name if "/" in name else f"{self.ledger.paper}/{name}" for name in names]
        by = tolerances_of({key: record.value for key, record in self.records.items()}, self.reference)
        claims = [self.ledger.claim(claim_id) for claim_id in claim_ids]
        verdicts = [verdict(claim, self.records, self.profile, by) for claim in claims]
        pages = [verdict_html(c, result, c.id not in self._shown) for c, result in zip(claims, verdicts, strict=True)]
        self._shown |= {claim.id: result.word for claim, result in zip(claims, verdicts, strict=True)}
        self._show(strip_html(pages), lines_text(list(zip(claims, verdicts, strict=True))))
        return verdicts

    def table(self) -> None:
        """Display the chapter's counts, and the claims that it has not shown. A badge that was shown too early is refused."""
        verdicts = judge(self.ledger, self.records, self.profile, self.reference)
        early = [claim_id for claim_id, word in self._shown.items() if verdicts[claim_id].word != word]
        if early:
            what = f"{early[0]} was shown as {self._shown[early[0]]!r} and is {verdicts[early[0]].word!r}"
            raise UserError(what, "Show its badge after everything that its parts name is recorded.")
        rows = [(claim, verdicts[claim.id]) for claim in self.ledger.claims]
        others = [row for row in rows if row[0].id not in self._shown]
        self._show(closing_html(rows, self._shown), f"{lines_text(others)}\n{counts_line(rows)}".lstrip())

    def _show(self, html: str, text: str) -> None:
        if _shell() is None:
            return say(text)
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
