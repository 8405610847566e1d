"""Formulas in the texts of ledgers: written as one types them, set as formulas on pages.

Between two dollars a text holds a formula in plain notation: ``$omega = 1/sqrt(d)$``, ``$mu_gamma$``, ``$t^(-1/6)$``, ``$H >= 2$``. A page shows it as TeX
(:func:`html`, :func:`markdown`), a terminal and a spoken name as plain letters: ω = 1/√d (:func:`plain`). There is no backslash in a ledger, so a text reads
well wherever it turns up. Numbers outside formulas are written as everywhere (:mod:`.numbers`); code stands between backticks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

from .numbers import MINUS, number, tidied

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "eps": "ε", "eta": "η", "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "xi": "ξ", "pi": "π",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Sigma": "Σ",
    "Omega": "Ω",
}  # fmt: skip
#: Words of a formula: as TeX, and as letters.
WORDS = {name: (rf"\{'epsilon' if name == 'eps' else name} ", letter) for name, letter in GREEK.items()} | {
    "lam": (r"\lambda ", "λ"),
    "O~": (r"\tilde{O}", "Õ"),
    "s2": (r"\sigma^2", "σ²"),
    "yhat": (r"\hat{y}", "ŷ"),
    "xbar": (r"\bar{x}", "x̄"),
    "sum": (r"\sum ", "Σ"),
    "times": (r"\cdot ", "·"),
    "in": (r"\in ", "∈"),
    "given": (r"\mid ", "|"),
}
#: Signs of a formula: as TeX, and as letters.
SIGNS = {
    "<=": (r"\le ", "≤"),
    ">=": (r"\ge ", "≥"),
    "->": (r"\to ", "→"),
    "+-": (r"\pm ", "±"),
    "..": (r"\ldots ", "…"),
    "||": (r"\Vert ", "‖"),
    "|": (r"\vert ", "|"),
    "-": ("-", "−"),
    "~": (r"\sim ", "~"),
    "*": (r"\cdot ", "·"),
    "%": (r"\%", "%"),
    "#": (r"\#", "#"),
    "&": (r"\&", "&"),
    "<": (r"\lt ", "<"),
    ">": (r"\gt ", ">"),
}
#: Words of a formula that are prose.
PROSE = {
    *("exactly", "when", "and", "or", "not", "for", "all", "some"),
    *("implies", "iff", "where", "if", "then", "there", "are", "with"),
}
FUNCTIONS = {"exp", "log", "ln", "sinh", "cosh", "tanh", "min", "max"}
_SUPERSCRIPTS = str.maketrans("0123456789-+T", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᵀ")
_RAISED = {letter: digit for digit, letter in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_LOWERED = {letter: digit for digit, letter in enumerate("₀₁₂₃₄₅₆₇₈₉")}
_TOKEN = re.compile(
    r"(?P<number>(?:\d[\d,]*\d|\d)?(?:\.\d+|\d)(?:e-?\d+)?)|(?P<sqrt>sqrt\()|(?P<abs>abs\()"
    r"|(?P<raised>\^)|(?P<below>_)|(?P<star>(?<=[\w)}])\*)|(?P<side>(?<=\w)[+-](?=[,;:|)]|$))|(?P<word>O~|[A-Za-z]+\d?)|(?P<sign>" + "|".join(map(re.escape, SIGNS)) + r")|(?P<other>.)",
    re.DOTALL,
)  # fmt: skip


def pieces(text: str) -> list[tuple[bool, str]]:
    """A text as (whether it is a formula, its text), in order. An odd number of dollars, an empty formula, a backslash or brackets that do not match in one
    are a ValueError."""
    parts = text.split("$")
    if len(parts) % 2 == 0:
        raise ValueError("an odd number of dollars: a formula stands between two")
    found = [(index % 2 == 1, " ".join(part.split()) if index % 2 else part) for index, part in enumerate(parts)]
    for is_formula, part in found:
        if is_formula and (not part or "\\" in part or any(part.count(a) != part.count(b) for a, b in ("()", "{}"))):
            raise ValueError(f"${part}$ is no formula: plain notation without backslashes, such as $omega = 1/sqrt(d)$")
    return [piece for piece in found if piece[1]]


def html(text: str) -> str:
    """A text as HTML, its formulas for MathJax."""
    return _mapped(
        text,
        lambda formula: rf'<span class="math notranslate nohighlight">\({escape(tex(formula), quote=False)}\)</span>',
        lambda words: escape(tidied(words)),
        lambda code: f"<code>{escape(code)}</code>",
    )


def markdown(text: str, escaped: Callable[[str], str]) -> str:
    """A text as MyST Markdown; ``escaped`` makes Markdown show a text as it is, without spaces at its ends, which are kept here."""

    def words(part: str) -> str:
        return re.sub(r"\S(?:.*\S)?", lambda core: escaped(tidied(core[0])), part)

    return _mapped(" ".join(text.split()), lambda formula: f"${tex(formula)}$", words, lambda code: f"`{code}`")


def plain(text: str) -> str:
    """A text in letters alone: for terminals, names that are spoken and tooltips."""
    return _mapped(text, lambda formula: _Reader(formula, 1).read(), tidied, str)


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


def tex(formula: str) -> str:
    """A formula as TeX; a prime and a power share one exponent, as MathJax refuses two."""
    return re.sub(r"'(_\{[^{}]*\})?\^\{([^{}]*)\}", r"\1^{\\prime \2}", _Reader(formula, 0).read().strip())


class _Reader:
    """Reads a formula once, from left to right; ``form`` 0 writes TeX, 1 letters."""

    def __init__(self, text: str, form: int) -> None:
        self.text, self.form, self.at = text, form, 0

    def read(self, end: str = "") -> str:
        """What comes up to the bracket that ends this part, which is passed over."""
        written = []
        while self.at < len(self.text):
            if end and self.text[self.at] == end:
                self.at += 1
                break
            written.append(self._next())
        return "".join(written)

    def _next(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        self.at = match.end()
        kind, token = match.lastgroup, match[0]
        if kind in ("raised", "below"):
            return self._script(token)
        if kind == "abs":
            inside = self.read(")")
            return (rf"\lvert {inside}\rvert ", f"|{inside}|")[self.form]
        if kind == "sqrt":
            inside = self.read(")")
            return (rf"\sqrt{{{inside}}}", f"√{inside}" if len(inside) == 1 else f"√({inside})")[self.form]
        if kind == "number":
            return self._number(token)
        if not self.form and token in _RAISED:
            return f"^{{{_RAISED[token]}}}"
        if not self.form and token in _LOWERED:
            return f"_{{{_LOWERED[token]}}}"
        if kind == "word":
            return self._word(token)
        if kind in ("star", "side"):
            return (f"^{{{token}}}", SIGNS.get(token, (0, token))[1] if kind == "side" else token)[self.form]
        if kind == "sign":
            return SIGNS[token][self.form]
        if token in "({":
            inside = self.read({"(": ")", "{": "}"}[token])
            return f"({inside})" if token == "(" else inside
        if token == "." and re.match(r"[A-Za-z]", self.text[self.at :]):
            return (r"\cdot ", "·")[self.form]
        return token

    def _number(self, token: str) -> str:
        plain, _, power = token.partition("e")
        plain = tidied(plain)
        if self.form:
            return number(float(token), 12) if power else plain
        plain = plain.replace(",", "{,}")
        if not power:
            return plain
        return rf"10^{{{int(power)}}}" if plain == "1" else rf"{plain} \times 10^{{{int(power)}}}"

    def _word(self, token: str) -> str:
        if token in WORDS:
            return WORDS[token][self.form]
        if token == "x" and re.search(r"[\w)] x$", self.text[: self.at]) and re.match(r" [\w(]", self.text[self.at :]):
            return (r"\times ", "×")[self.form]  # between two sizes, as in d x d
        if self.form or len(token) == 1:
            return token
        if token in PROSE:
            return rf"\text{{ {token} }}"
        if token in FUNCTIONS:
            return rf"\{token} "
        return rf"\mathrm{{{token}}}" if not (len(token) == 2 and token.islower()) else token

    def _script(self, sign: str) -> str:
        rest = self.text[self.at :]
        if rest[:1] in ("(", "{"):
            self.at += 1
            inside = self.read({"(": ")", "{": "}"}[rest[0]])
        else:
            match = re.match(r"\*|[+-](?!\w)|-?\d+\.\d+|-?[A-Za-z0-9]+", rest)
            self.at += match.end() if match else 0
            token = match[0] if match else ""
            names = re.fullmatch(r"[*+-]|-?(?:[a-z]{1,2}|[\d.]*[a-zA-Z]?|[A-Z]\d)", token) or token in WORDS
            inside = _Reader(token, self.form).read() if names or self.form else rf"\mathrm{{{token}}}"
        if not self.form:
            return f"{sign}{{{inside.strip()}}}"
        flat = inside.replace("−", "-")
        if sign == "^" and flat and not flat.strip("0123456789-+T"):
            return flat.translate(_SUPERSCRIPTS)
        return f"{sign}{inside}" if inside.replace(MINUS, "").isalnum() or inside == "*" else f"{sign}({inside})"
