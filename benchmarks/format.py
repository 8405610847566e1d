"""Tables and numbers as the page writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, first column to the left, the others to the right."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(x: float) -> str:
    """Three significant digits, thousands marked: 2,750 or 9.31."""
    if x == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(x))))
    return f"{round(x, 2 - math.floor(math.log10(abs(x)))):,.{digits}f}"


def span(s: dict[str, float]) -> str:
    """Median with least and largest."""
    return f"{number(s['median'])} ({number(s['min'])} to {number(s['max'])})"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds)} s"
