"""Nagy 2026: a statement written once and used four times, as text, for the solver, in exact fractions and in floating point.

A builder is a function of ``v``, whose attributes are the variables. Called with ``Text`` it prints the statement, with variables of the
solver it is what the solver decides, with ``Fraction`` it verifies a counterexample without the solver, with arrays it is evaluated at
many points. So what the page shows is what was checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

_GREEK = {"eta": "η", "kappa": "κ", "lam": "λ", "rho2": "ρ²", "w_star": "w*", "rho2_two": "ρ₂²"}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def label(name: str) -> str:
    """How a variable is printed: ``kappa_1`` as κ₁."""
    if name in _GREEK:
        return _GREEK[name]
    stem, _, rest = name.partition("_")
    stem = _GREEK.get(stem, stem)
    number = rest.rstrip("'")
    if number.isdigit():
        return f"{stem}{number.translate(_SUBSCRIPTS)}{rest[len(number) :]}"
    return f"{stem}_{rest}" if rest else stem


def _operation(symbol: str, strength: int, right: int) -> tuple[Callable, Callable]:
    """An operation of two texts, either of which may be a number, as method of the left and of the right one.

    ``strength`` is how tightly it binds, ``right`` how tightly what stands right of it must bind to need no brackets.
    """

    def join(a: Any, b: Any) -> Text:
        a, b = (x if isinstance(x, Text) else Text(str(x)) for x in (a, b))
        return Text(f"{a.bound(strength)}{symbol}{b.bound(right)}", strength)

    return join, lambda b, a: join(a, b)


class Text:
    """A polynomial as text; ``strength`` is how tightly its last operation binds (1 sum, 2 product, 3 power, 4 name)."""

    def __init__(self, text: str, strength: int = 4) -> None:
        # a name that ends in a square, such as ρ², binds like a power: its square is (ρ²)²
        self.text, self.strength = text, 3 if strength == 4 and text.endswith("²") else strength

    def bound(self, strength: int) -> str:
        """In brackets if it binds less tightly."""
        return self.text if self.strength >= strength else f"({self.text})"

    __add__, __radd__ = _operation(" + ", 1, 1)
    __sub__, __rsub__ = _operation(" − ", 1, 2)
    __mul__, __rmul__ = _operation("·", 2, 2)
    __truediv__, __rtruediv__ = _operation("/", 2, 3)

    def __neg__(self) -> Text:
        return Text(f"−{self.bound(2)}", 1)

    def squared(self) -> Text:
        """Its square."""
        return Text(f"{self.bound(4)}²", 3)

    def __str__(self) -> str:
        return self.text


def sq(x: Any) -> Any:
    """x squared."""
    return x.squared() if isinstance(x, Text) else x * x


@dataclass(frozen=True)
class Atom:
    """``left`` compared with ``right``; ``symbol`` is one of = ≠ ≤ <."""

    symbol: str
    left: Any
    right: Any


@dataclass(frozen=True)
class Junction:
    """``word`` is and, or, not, implies or iff."""

    word: str
    parts: tuple


@dataclass(frozen=True)
class Exists:
    """There are values of ``names`` with ``body(*values)``; ``decide`` is the exact answer without a solver, a truth value."""

    names: tuple[str, ...]
    body: Callable[..., Any]
    decide: Any


def abs_le(x: Any, y: Any) -> Atom | Junction:
    """abs(x) ≤ abs(y), by cases; as text with bars."""
    if isinstance(x, Text):
        return Atom("≤", Text(f"|{x}|"), Text(f"|{y}|"))
    positive = Junction("and", (Atom("≤", 0, y), Atom("≤", -y, x), Atom("≤", x, y)))
    negative = Junction("and", (Atom("<", y, 0), Atom("≤", y, x), Atom("≤", x, -y)))
    return Junction("or", (positive, negative))


def text(node: Any) -> str:
    """The statement in words and signs; ``node`` was built with ``Text``."""
    if isinstance(node, Atom):
        return f"{node.left} {node.symbol} {node.right}"
    if isinstance(node, Exists):
        return f"there are {', '.join(map(label, node.names))} with {text(node.body(*(Text(label(n)) for n in node.names)))}"
    parts = [text(p) if isinstance(p, Atom) else f"({text(p)})" for p in node.parts]
    if node.word == "not":
        return f"not ({text(node.parts[0])})"
    joint = {"and": " and ", "or": " or ", "implies": " implies ", "iff": " exactly when "}[node.word]
    return joint.join(parts)


def holds(node: Any, slack: float = 0.0, lenient: bool = True) -> Any:
    """The truth of the statement at the numbers it was built with.

    Args:
        node: built with ``Fraction`` (then exact), float or arrays of shape (n,).
        slack: how far floating point may miss, relative to 1 + the size of both sides; 0 for fractions.
        lenient: whether a strict inequality that rounding cannot tell from equality counts as true.

    Returns:
        bool, or an array of bool of shape (n,).
    """
    if isinstance(node, Atom):
        gap = node.left - node.right
        width = slack * (1 + abs(node.left) + abs(node.right)) if slack else 0
        truth = {
            "=": abs(gap) <= width,
            "≠": gap != 0,
            "≤": gap <= width,
            "<": gap < (width if lenient else -width),
        }
        return truth[node.symbol]
    if isinstance(node, Exists):
        return holds(node.decide, slack, lenient)
    parts = [holds(p, slack, lenient) for p in node.parts]
    if node.word == "not":
        return np.logical_not(holds(node.parts[0]))
    if node.word == "and":
        return np.logical_and.reduce(parts)
    if node.word == "or":
        return np.logical_or.reduce(parts)
    if node.word == "implies":
        return np.logical_or(np.logical_not(holds(node.parts[0])), parts[1])
    exact = [holds(p) for p in node.parts]
    return np.equal(exact[0], exact[1])


def true_in_fractions(node: Any) -> bool:
    """Exact truth, refusing anything that is not a fraction or an integer.

    Raises:
        TypeError: a floating-point number got in.
    """
    for value in _leaves(node):
        if not isinstance(value, Fraction | int):
            raise TypeError(f"{value!r} is not exact")
    return bool(holds(node))


def _leaves(node: Any) -> list:
    if isinstance(node, Atom):
        return [node.left, node.right]
    if isinstance(node, Exists):
        return _leaves(node.decide)
    return [leaf for part in node.parts for leaf in _leaves(part)]


def reversed_conclusion(node: Any) -> Any:
    """A mutation that should be false: the order turned round, or the sign of an equation's right side flipped."""
    if not isinstance(node, Atom):
        return Junction("not", (node,))
    if node.symbol == "=":
        flipped = not (isinstance(node.right, int) and node.right == 0)
        return Atom("=", node.left, -node.right) if flipped else Atom("≠", node.left, node.right)
    return {
        "≠": Atom("=", node.left, node.right),
        "≤": Atom("<", node.right, node.left),
        "<": Atom("≤", node.right, node.left),
    }[node.symbol]
