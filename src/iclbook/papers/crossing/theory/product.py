"""The simplest loss that waits: a product of p factors should be one. Its gradient flow is known up to one integral."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

Array = np.ndarray


def loss(x: Array) -> Array:
    """``(1 - x1 x2 ... xp)^2 / 2`` of factors ``x (..., p)``."""
    return (1 - np.prod(x, axis=-1)) ** 2 / 2


def gradient(x: Array) -> Array:
    """Its gradient ``(p,)`` at ``x (p,)``."""
    others = np.array([np.delete(x, i).prod() for i in range(len(x))])
    return -(1 - np.prod(x)) * others


def wait(start: Array, left: float = 0.5) -> float:
    """Time after which gradient flow from positive ``start (p,)`` has left the share ``left`` of the loss at zero.

    The flow conserves ``xi^2 - xj^2``, so ``xi^2 = starti^2 + s`` with one number s, and ``ds/dt = 2 P (1 - P)`` for the product P. With equal factors this is
    ``dx/dt = x^(p-1) (1 - x^p)``. The wait is the integral of ``ds / (2 P (1 - P))``, taken in the logarithm of the least square.

    Raises:
        ValueError: a start that is not positive, or that is there already.
    """
    squares = np.asarray(start, dtype=float) ** 2
    goal = 1 - np.sqrt(left)
    if np.min(start) <= 0 or np.prod(start) >= goal:
        raise ValueError(f"no wait from {start}: factors must be positive and their product below {goal:.3g}")
    above = squares - squares.min()

    def product(log: float) -> float:
        return float(np.sqrt(above + np.exp(log)).prod())

    first = np.log(squares.min())
    last = brentq(lambda log: product(log) - goal, first, 0.0, xtol=1e-15, rtol=1e-14)
    found, _ = quad(
        lambda log: np.exp(log) / (2 * product(log) * (1 - product(log))),
        first,
        last,
        epsrel=1e-11,
        epsabs=0,
        limit=400,
    )
    return float(found)


def constant(direction: Array, size: float = 1e-7) -> float:
    """What the law leaves open for starts along ``direction (p,)``: c in ``T = log(1 / eps) + c`` for two factors and in ``T = c eps^-(p - 2)`` for more."""
    direction = np.asarray(direction, dtype=float)
    found = wait(size * direction)
    return found + np.log(size) if len(direction) == 2 else found * size ** (len(direction) - 2)


def law(degree: int, size: float, direction: Array) -> float:
    """The wait that the degree predicts from ``size * direction``: exact for small sizes."""
    c = constant(direction)
    return c - np.log(size) if degree == 2 else c * size ** (2 - degree)
