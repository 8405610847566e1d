"""Nagy 2026, Appendix A: sums over any number of channels (MN1 to MN3), their norm axioms, and k layers, by induction.

The solver proves the first case and the step from d to d + 1; the principle of induction joins them (in the Coq files it is part of the
proof). In the step the sums over the first d channels are variables about which only the induction hypothesis is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .formula import both, eq, implies, le, lt, sq
from .proposition import ELSEWHERE, OURS, SENTENCE, STATEMENT, Proposition


@dataclass(frozen=True)
class Induction:
    """A statement for every d, as its first case and its step.

    Attributes:
        formal: the statement over all d as text.
        assumes: its hypotheses as text.
        base: the first case.
        step: from d to d + 1.
        violation: draws channels (n points, d) and returns by how much the statement is missed, relative; an independent check.
    """

    id: str
    where: str
    words: str
    assumes: tuple[str, ...]
    formal: str
    base: Proposition
    step: Proposition
    violation: Callable[[np.random.Generator, int, int], np.ndarray]
    role: str = STATEMENT

    @property
    def of(self) -> str:
        """The theorem it belongs to."""
        return self.id.partition("/")[0]


def _case(id: str, variables: tuple[str, ...], conclusion, *hypotheses, definitions=None) -> Proposition:
    return Proposition(id, "", "", variables, conclusion, hypotheses, definitions or {}, OURS)


def _empty(id: str, variables: tuple[str, ...], conclusion) -> Proposition:
    """The first case: every sum is empty, so every variable is 0."""
    zero = [lambda v, name=name: eq(getattr(v, name), 0) for name in variables]
    return _case(f"{id} base", variables, conclusion, *zero)


def _negative_energy(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.maximum(0, -np.sum(rng.normal(size=(n, d)) ** 2, axis=1))


def _expansion(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    g = rng.normal(size=(n, d))
    after = g * rng.uniform(-1, 1, size=(n, d))
    return np.maximum(0, np.sum(after**2, 1) / np.sum(g**2, 1) - 1)


def _energy_difference(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    kappa, g = rng.normal(size=(2, n, d))
    u = -kappa * g
    right = np.sum((kappa * g) ** 2, 1)
    return np.abs(np.sum(u**2, 1) - right) / (1 + right)


def _cauchy_schwarz(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    g, h = rng.normal(size=(2, n, d))
    return np.maximum(0, np.sum(g * h, 1) ** 2 / (np.sum(g**2, 1) * np.sum(h**2, 1)) - 1)


def _definite(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    g = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)
    return (np.sum(g**2, 1) == 0) != (g == 0).all(1)


def _layers(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    a, w_star, e = rng.uniform(0.1, 2, n), rng.normal(size=n), rng.normal(size=n)
    eta = rng.uniform(0, 2, n) / a
    w = w_star + e
    for _ in range(d):
        w = w - eta * (a * w - a * w_star)
    return np.abs((w - w_star) ** 2 - (1 - eta * a) ** (2 * d) * e**2)


def _decay(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    h = rng.uniform(0.01, 3, n)
    return np.maximum(0, (1 / (1 + h)) ** d * (1 + d * h) - 1)


INDUCTIONS = (
    Induction(
        "MN1",
        "Theorem MN1",
        "If every g_k² ≥ 0, then the total Frobenius gradient energy is non-negative",
        ("g_k² ≥ 0 for all k < d",),
        "Σ_{k<d} g_k² ≥ 0",
        _empty("MN1", ("S",), lambda v: le(0, v.S)),
        _case("MN1 step", ("S", "E"), lambda v: le(0, v.S + v.E), lambda v: le(0, v.S), lambda v: le(0, v.E)),
        _negative_energy,
    ),
    Induction(
        "MN1/always",
        "Theorem MN1",
        "Its hypothesis g_k² ≥ 0 always holds for real channels: the sum is non-negative without it",
        (),
        "Σ_{k<d} g_k² ≥ 0",
        _empty("MN1/always", ("S",), lambda v: le(0, v.S)),
        _case("MN1/always step", ("S", "g"), lambda v: le(0, v.S + sq(v.g)), lambda v: le(0, v.S)),
        _negative_energy,
        OURS,
    ),
    Induction(
        "MN1/definite",
        "Theorem MN1",
        "A valid norm is zero only at zero",
        (),
        "Σ_{k<d} g_k² = 0 exactly when every g_k = 0",
        _empty("MN1/definite", ("S",), lambda v: eq(v.S, 0)),
        _case(
            "MN1/definite step",
            ("S", "g"),
            lambda v: implies(eq(v.S + sq(v.g), 0), both(eq(v.S, 0), eq(v.g, 0))),
            lambda v: le(0, v.S),
        ),
        _definite,
        SENTENCE,
    ),
    Induction(
        "MN1/cauchy-schwarz",
        "Theorem MN1",
        "The square root of the energy obeys the triangle inequality (Cauchy–Schwarz)",
        (),
        "(Σ g_k h_k)² ≤ Σ g_k² Σ h_k²",
        _empty("MN1/cauchy-schwarz", ("S", "T", "U"), lambda v: le(sq(v.U), v.S * v.T)),
        _case(
            "MN1/cauchy-schwarz step",
            ("S", "T", "U", "g", "h"),
            lambda v: le(sq(v.U + v.g * v.h), (v.S + sq(v.g)) * (v.T + sq(v.h))),
            lambda v: le(0, v.S),
            lambda v: le(0, v.T),
            lambda v: le(sq(v.U), v.S * v.T),
        ),
        _cauchy_schwarz,
        OURS,
    ),
    Induction(
        "MN2",
        "Theorem MN2",
        "If every eigen-channel's gradient energy contracts, the total contracts in any dimension",
        ("g'_k² ≤ g_k² for all k < d",),
        "Σ_{k<d} g'_k² ≤ Σ_{k<d} g_k²",
        _empty("MN2", ("S", "S'"), lambda v: le(getattr(v, "S'"), v.S)),
        _case(
            "MN2 step",
            ("S", "S'", "g", "g'"),
            lambda v: le(getattr(v, "S'") + sq(getattr(v, "g'")), v.S + sq(v.g)),
            lambda v: le(getattr(v, "S'"), v.S),
            lambda v: le(sq(getattr(v, "g'")), sq(v.g)),
        ),
        _expansion,
    ),
    Induction(
        "MN3",
        "Theorem MN3",
        "When each channel runs u_k = −κ_k g_k, the update energy is the sum of the squared steps",
        ("u_k = −κ_k g_k for all k < d",),
        "Σ_{k<d} u_k² = Σ_{k<d} (κ_k g_k)²",
        _empty("MN3", ("S", "T"), lambda v: eq(v.S, v.T)),
        _case(
            "MN3 step",
            ("S", "T", "kappa", "g"),
            lambda v: eq(v.S + sq(v.u), v.T + sq(v.kappa * v.g)),
            lambda v: eq(v.S, v.T),
            definitions={"u": lambda v: -(v.kappa * v.g)},
        ),
        _energy_difference,
    ),
    Induction(
        "C/k-layers",
        "Section 6",
        "The usual k-step formula e_k² = (ρ²)^k e₀² (informal in the document)",
        ("e_{k+1} = e_k − η a e_k",),
        "e_k² = ((1 − ηa)²)^k e₀² for every k",
        _case(
            "C/k-layers base",
            ("e", "P", "E_0"),
            lambda v: eq(sq(v.e), v.P * v.E_0),
            lambda v: eq(v.P, 1),
            lambda v: eq(v.E_0, sq(v.e)),
        ),
        _case(
            "C/k-layers step",
            ("eta", "a", "e", "P", "E_0"),
            lambda v: eq(sq(v.e - v.eta * v.a * v.e), v.P * sq(1 - v.eta * v.a) * v.E_0),
            lambda v: eq(sq(v.e), v.P * v.E_0),
        ),
        _layers,
        ELSEWHERE,
    ),
    Induction(
        "A7/limit",
        "Theorem A7",
        "Iterating at a fixed rate ρ² < 1 drives the squared error to zero: (ρ²)^k ≤ 1/(1 + k h) with h = 1/ρ² − 1",
        ("ρ²(1 + h) = 1", "h > 0"),
        "(ρ²)^k (1 + k h) ≤ 1 for every k",
        _case(
            "A7/limit base",
            ("P", "h", "k"),
            lambda v: le(v.P * (1 + v.k * v.h), 1),
            lambda v: eq(v.P, 1),
            lambda v: eq(v.k, 0),
        ),
        _case(
            "A7/limit step",
            ("P", "rho2", "h", "k"),
            lambda v: le(v.P * v.rho2 * (1 + (v.k + 1) * v.h), 1),
            lambda v: lt(0, v.h),
            lambda v: le(0, v.k),
            lambda v: le(0, v.P),
            lambda v: eq(v.rho2 * (1 + v.h), 1),
            lambda v: le(v.P * (1 + v.k * v.h), 1),
        ),
        _decay,
        SENTENCE,
    ),
)

#: What a norm must do and the energy, without the square root, does not; one channel is enough.
PROPOSITIONS = (
    Proposition(
        "MN1/homogeneous",
        "Theorem MN1",
        "Frobenius energy is a valid norm, so twice the vector has twice the energy (c > 0)",
        ("c", "g"),
        lambda v: eq(sq(v.c * v.g), v.c * sq(v.g)),
        (lambda v: lt(0, v.c),),
        role=SENTENCE,
    ),
    Proposition(
        "MN1/triangle",
        "Theorem MN1",
        "Frobenius energy is a valid norm, so it obeys the triangle inequality",
        ("g", "h"),
        lambda v: le(sq(v.g + v.h), sq(v.g) + sq(v.h)),
        role=SENTENCE,
    ),
    Proposition(
        "MN1/root-homogeneous",
        "Theorem MN1",
        "Repaired: the square root r of the energy is homogeneous (c ≥ 0)",
        ("c", "r", "t", "g"),
        lambda v: eq(v.t, v.c * v.r),
        (
            lambda v: le(0, v.c),
            lambda v: le(0, v.r),
            lambda v: le(0, v.t),
            lambda v: eq(sq(v.r), sq(v.g)),
            lambda v: eq(sq(v.t), sq(v.c * v.g)),
        ),
        role=OURS,
        given={
            "g": lambda v: abs(v.r),
            "t": lambda v: abs(v.c * v.r),
        },
    ),
    Proposition(
        "MN1/root-triangle",
        "Theorem MN1",
        "Repaired: with S = Σg², T = Σh², U = Σgh and U² ≤ ST, the roots obey the triangle inequality",
        ("r", "t", "m", "U"),
        lambda v: le(v.m, v.r + v.t),
        (
            lambda v: le(0, v.r),
            lambda v: le(0, v.t),
            lambda v: le(0, v.m),
            lambda v: le(sq(v.U), sq(v.r) * sq(v.t)),
            lambda v: eq(sq(v.m), sq(v.r) + 2 * v.U + sq(v.t)),
        ),
        role=OURS,
        given={"m": lambda v: abs(v.r**2 + 2 * v.U + v.t**2) ** 0.5},
    ),
)
