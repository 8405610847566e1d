"""Tables of a chapter: rows of text as HTML that scrolls in its own box, and as plain text where there is no page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..errors import UserError
from ..formulas import html, plain
from ..numbers import number

#: Words that are marked as good or bad wherever they fill a cell; symbol and word, so that colour only repeats them.
GOOD = ("proved", "follows")
BAD = ("refuted", "needs hypothesis", "vacuous", "does not follow")


class Table:
    """Rows as a table; the last expression of a cell shows it.

    Args:
        rows: one mapping for each row; what a column lacks stays empty.
        columns: key of each column and its heading; both may hold formulas, as in a ledger (:mod:`iclbook.formulas`).
        label: what the table holds, for screen readers and as the line to click on when it is folded.
        folded: show the label alone until it is clicked on.

    Raises:
        UserError: no rows, or a column that no row has.
    """

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], label: str, folded: bool = False
    ) -> None:
        if not rows:
            raise UserError(f"the table {label!r} has no rows", "Pass at least one.")
        unknown = [key for key in columns if not any(key in row for row in rows)]
        if unknown:
            raise UserError(
                f"no row of the table {label!r} has {', '.join(unknown)}", f"Choose among: {', '.join(rows[0])}."
            )
        self.rows, self.columns, self.label, self.folded = list(rows), dict(columns), label, folded

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{html(name)}</th>' for name in self.columns.values())
        body = "".join(
            "<tr>"
            + "".join(
                f'<td data-label="{escape(plain(name), quote=True)}">{_cell(row.get(key, ""))}</td>'
                for key, name in self.columns.items()
            )
            + "</tr>"
            for row in self.rows
        )
        table = (
            f'<div class="iclbook-scroll" role="region" aria-label="{escape(self.label, quote=True)}" tabindex="0">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )
        if not self.folded:
            return table
        return f"<details><summary>{escape(self.label)}</summary>{table}</details>"

    def __repr__(self) -> str:
        lines = [
            "; ".join(plain(f"{name}: {row.get(key, '')}") for key, name in self.columns.items()) for row in self.rows
        ]
        return "\n".join([self.label, *lines])


def _cell(value: Any) -> str:
    text = number(value) if isinstance(value, int | float) else html(str(value))
    if text in GOOD:
        return f'<span class="iclbook-holds">\u2713 {text}</span>'
    if text in BAD:
        return f'<span class="iclbook-fails" style="white-space: normal">\u2717 {text}</span>'
    return text
