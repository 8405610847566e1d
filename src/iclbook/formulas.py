"""Formulas in the texts of ledgers and tables: TeX between two dollars, as in ``$\\omega = 1/\\sqrt{d}$``.

Pages show a formula by MathJax (:func:`html`, :func:`markdown`); terminals, tooltips and spoken names in letters, ω = 1/√d (:func:`plain`). Numbers outside
formulas are written as everywhere (:mod:`.numbers`); code stands between backticks.
"""

import re
from collections.abc import Callable
from functools import cache
from html import escape

from .numbers import MINUS, raised, tidied


def pieces(text: str) -> list[tuple[bool, str]]:
    """A text as (whether it is a formula, its text), in order. An odd number of dollars, an empty formula, and braces in one that do not match or are more
    than 100, are a ValueError."""
    parts = text.split("$")
    if len(parts) % 2 == 0:
        raise ValueError("an odd number of dollars: a formula stands between two")
    found = [(index % 2 == 1, " ".join(part.split()) if index % 2 else part) for index, part in enumerate(parts)]
    for is_formula, part in found:
        if is_formula and r"\|" in part:
            raise ValueError(rf"${part}$: write \Vert for a norm, as a bar ends the cell of a table")
        if is_formula and (not part or part.count("{") != part.count("}") or part.count("{") > 100):
            raise ValueError(rf"${part}$ is no formula: TeX, such as $\omega = 1/\sqrt{{d}}$")
    return [piece for piece in found if piece[1]]


def html(text: str) -> str:
    """A text as HTML, its formulas for MathJax."""
    return _mapped(
        text,
        lambda formula: rf'<span class="math notranslate nohighlight">\({escape(formula, quote=False)}\)</span>',
        lambda words: escape(tidied(words)),
        lambda code: f"<code>{escape(code)}</code>",
    )


def markdown(text: str, escaped: Callable[[str], str]) -> str:
    """A text as MyST Markdown; ``escaped`` makes Markdown show a text as it is, without spaces at its ends, which are kept here. A bar in a formula would end
    the cell of a table."""

    def words(part: str) -> str:
        return re.sub(r"\S(?:.*\S)?", lambda core: escaped(tidied(core[0])), part)

    def formula(part: str) -> str:
        return f"${part}$".replace("|", r"\vert ")

    return _mapped(" ".join(text.split()), formula, words, lambda code: f"`{code}`")


def plain(text: str) -> str:
    """A text in letters alone: for terminals, names that are spoken and tooltips."""
    return _mapped(text, _letters, tidied, str)


def _mapped(text: str, formula: Callable[[str], str], words: Callable[[str], str], code: Callable[[str], str]) -> str:
    """A text whose formulas, words and code (between backticks) are written by these functions."""
    written = []
    for is_formula, part in pieces(text):
        if is_formula:
            written.append(formula(part))
        else:
            halves = re.split(r"`([^`]+)`", part)
            written += [code(half) if index % 2 else words(half) for index, half in enumerate(halves)]
    return "".join(written)


@cache
def _letters(formula: str) -> str:
    """A formula in letters: powers that are whole numbers or a transpose raised, other powers of several signs and scripts of
    more than letters and digits in brackets."""
    from pylatexenc.latex2text import LatexNodes2Text

    formula = re.sub(r"\^(?:([\dT])|\{(-?\d+)\})", lambda power: f"{{{raised(power[1] or power[2])}}}", formula)
    formula = re.sub(r"\^\{([^{}\\]{2,})\}", r"^(\1)", formula)
    formula = re.sub(r"([_^])\{(?=[^{}]*[^\w{}\\])([^{}]*)\}", r"\1(\2)", formula)
    formula = re.sub(r"(\\[A-Za-z]+) ", r"\1{} ", formula)  # or the blank is the command's end
    letters = re.sub(r"√\((\w)\)", r"√\1", LatexNodes2Text(strict_latex_spaces=True).latex_to_text(f"${formula}$"))
    return " ".join(letters.replace("^*", "*").replace("ϵ", "ε").replace("-", MINUS).split())
