"""Nagy 2026: which of the thirty statements say the same under other names, are special cases of one another, or assume nothing.

A statement is first reduced to its *core*: hypotheses that the proof does without are dropped, and names whose definition it does without are freed. Two
cores are equal if a renaming of variables turns one into the other; one is a case of another if it does so once some variables stand for squares. That is
tested at random fractions, where different polynomials differ but for a chance below 1e-9 (Schwartz and Zippel).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product
from typing import Any

from .checking import PROPOSITIONS, THIRTY, ask
from .formula import Atom, Junction
from .proposition import STATEMENT, Proposition
from .smt import PROVED

#: Points at which two polynomials are compared, and the size of the numbers there.
POINTS, RANGE = 3, 10**6


def core(p: Proposition) -> Proposition:
    """A proved statement without the hypotheses and definitions that its proof does without, dropped one after the other in their order."""
    for text in p.hypothesis_texts():
        weaker = p.without(p.hypothesis_texts().index(text))
        if ask(weaker).word == PROVED:
            p = weaker
    for name in tuple(p.definitions):
        freer = p.freed(name)
        if ask(freer).word == PROVED:
            p = freer
    return p


def _points(n: int) -> list[tuple[Fraction, ...]]:
    drawn = random.Random(2026)
    return [tuple(Fraction(drawn.randrange(1, RANGE)) for _ in range(n)) for _ in range(POINTS)]


def _signature(node: Any) -> Any:
    """What a formula built with fractions compares: its order, and the difference of its sides, for equations up to the sign; of an identity, whose sides
    do not differ, a side."""
    if isinstance(node, Atom):
        gap = Fraction(node.left - node.right)
        same = abs(Fraction(node.left)) if gap == 0 else None
        return node.symbol, abs(gap) if node.symbol in "=≠" else gap, same
    if isinstance(node, Junction):
        return node.word, tuple(_signature(part) for part in node.parts)
    return node.names, _signature(node.decide)


def _said(p: Proposition, values: dict[str, Fraction]) -> tuple:
    """Signatures of the hypotheses, in whatever order, and of the conclusion."""
    v = p.defined(dict.fromkeys(p.variables, Fraction(1)) | values)
    return sorted(map(_signature, (h(v) for h in p.hypotheses)), key=str), _signature(p.conclusion(v))


@lru_cache(maxsize=64)
def _free(p: Proposition) -> tuple[str, ...]:
    """The variables with which hypotheses or conclusion change."""
    (point, *_) = _points(len(p.variables))
    values = dict(zip(p.variables, point, strict=True))
    said = _said(p, values)
    return tuple(name for name in p.variables if _said(p, values | {name: values[name] + 1}) != said)


@lru_cache(maxsize=64)
def _said_at_points(p: Proposition) -> tuple[list[dict[str, Fraction]], list[tuple]]:
    """The points, as values of the variables that matter, and what the statement says there."""
    names = _free(p)
    points = [dict(zip(names, x, strict=True)) for x in _points(len(names))]
    return points, [_said(p, values) for values in points]


def is_case(special: Proposition, general: Proposition, squares: bool = True) -> bool:
    """Whether ``special`` is ``general`` with variables renamed and, with ``squares``, some of them squares."""
    if len(special.hypotheses) != len(general.hypotheses):
        return False
    names, places = _free(special), _free(general)
    if len(names) != len(places):
        return False
    points, said = _said_at_points(special)
    powers = list(product((1, 2), repeat=len(names))) if squares else [(1,) * len(names)]

    def agree(order: Sequence[str], power: Sequence[int]) -> bool:
        ways = [[values[name] ** k for name, k in zip(order, power, strict=True)] for values in points]
        put = (dict(zip(places, way, strict=True)) for way in ways)
        return all(_said(general, at) == found for at, found in zip(put, said, strict=True))

    return any(agree(order, power) for order in permutations(names) for power in powers)


@lru_cache(maxsize=1)
def cores() -> tuple[Proposition, ...]:
    """Cores of the numbered statements that are about numbers; those on sums of any length are by induction and stand for themselves."""
    return tuple(core(p) for p in PROPOSITIONS if p.id in THIRTY and p.role == STATEMENT)


def equal_pairs(every: Sequence[Proposition]) -> list[tuple[str, str]]:
    """Pairs that are equal up to renaming."""
    return [
        (p.id.split()[0], q.id.split()[0])
        for i, p in enumerate(every)
        for q in every[i + 1 :]
        if is_case(q, p, False)
    ]


def cases(every: Sequence[Proposition]) -> list[tuple[str, str]]:
    """Special case and general statement, where squares are put for variables."""
    return [
        (p.id.split()[0], q.id.split()[0])
        for p in every
        for q in every
        if p is not q and is_case(p, q) and not is_case(p, q, False)
    ]


def alike_records(every: Sequence[Proposition] | None = None) -> dict[str, int | str]:
    """How many of the thirty are different statements, which are equal or cases of others, and which assume nothing."""
    every = cores() if every is None else every
    equal, special = equal_pairs(every), cases(every)
    bare = [p.id.split()[0] for p in every if not p.hypotheses]
    repeated = {q for _, q in equal} | {p for p, _ in special}
    return {
        "theory/distinct": len(THIRTY) - len(repeated),
        "theory/equal": "; ".join(f"{p} = {q}" for p, q in equal) or "none",
        "theory/cases": "; ".join(f"{p} of {q}" for p, q in special) or "none",
        "theory/bare": len(bare),
        "theory/bare_list": ", ".join(bare) or "none",
    }
