"""Nagy 2026, sections 6 and 7: depth compounds (C1 to C4), the lift to several channels (D1 to D3) and Figure 1b against D2."""

from __future__ import annotations

from typing import Any

from .formula import both, either, eq, iff, implies, le, lt, ne, sq
from .proposition import ELSEWHERE, OURS, READING, SENTENCE, Proposition

_SUM = {"s": lambda v: v.a_1 + v.a_2}
_RATE = (lambda v: le(0, v.rho2), lambda v: le(v.rho2, 1))
_CHANNELS = (lambda v: le(0, v.a_1), lambda v: le(0, v.a_2))
_POSITIVE = (lambda v: lt(0, v.a_1), lambda v: lt(0, v.a_2))


def _residual(eta: Any, a: Any) -> Any:
    return sq(1 - eta * a)


def _no_better(v: Any) -> Any:
    """At every step size the worse of two channels contracts no better than the balanced rate ((a2 - a1)/(a2 + a1))^2."""
    return either(
        le(sq(v.a_2 - v.a_1), _residual(v.eta, v.a_1) * sq(v.s)),
        le(sq(v.a_2 - v.a_1), _residual(v.eta, v.a_2) * sq(v.s)),
    )


PROPOSITIONS = (
    Proposition(
        "C1",
        "Theorem C1",
        "For ρ² ∈ [0, 1], (ρ²)² ≤ ρ²",
        ("rho2",),
        lambda v: le(sq(v.rho2), v.rho2),
        _RATE,
    ),
    Proposition(
        "C2",
        "Theorem C2",
        "For 0 < ρ² < 1, (ρ²)² < ρ²",
        ("rho2",),
        lambda v: lt(sq(v.rho2), v.rho2),
        (lambda v: lt(0, v.rho2), lambda v: lt(v.rho2, 1)),
    ),
    Proposition(
        "C2/always",
        "Theorem C2",
        "More layers always help unless ρ² = 0 or ρ² = 1 (within Lemma A6's ρ² ≤ 1)",
        ("rho2",),
        lambda v: lt(sq(v.rho2), v.rho2),
        (*_RATE, lambda v: ne(v.rho2, 0), lambda v: ne(v.rho2, 1)),
        role=SENTENCE,
    ),
    Proposition(
        "C3",
        "Theorem C3",
        "If e₂² = ρ₂² e₀² with ρ₂² ≤ 1, then e₂² ≤ e₀²",
        ("rho2_two", "e_0"),
        lambda v: le(v.E_2, sq(v.e_0)),
        (lambda v: le(v.rho2_two, 1),),
        {"E_2": lambda v: v.rho2_two * sq(v.e_0)},
    ),
    Proposition(
        "C4",
        "Theorem C4",
        "e₃² ≤ e₂² and e₂² ≤ e₀² give e₃² ≤ e₀²",
        ("e_0", "e_2", "e_3"),
        lambda v: le(sq(v.e_3), sq(v.e_0)),
        (lambda v: le(sq(v.e_3), sq(v.e_2)), lambda v: le(sq(v.e_2), sq(v.e_0))),
    ),
    Proposition(
        "D1",
        "Theorem D1",
        "If L_tot = L₁ + L₂ and each channel descends, then L'_tot ≤ L_tot",
        ("L_1", "L_2", "L_1'", "L_2'"),
        lambda v: le(getattr(v, "L_1'") + getattr(v, "L_2'"), v.L_1 + v.L_2),
        (lambda v: le(getattr(v, "L_1'"), v.L_1), lambda v: le(getattr(v, "L_2'"), v.L_2)),
    ),
    Proposition(
        "D2",
        "Theorem D2",
        "If u + v = 2, then (1 − u)² ≤ (1 − v)², and the reverse: equality",
        ("u", "v"),
        lambda v: eq(sq(1 - v.u), sq(1 - v.v)),
        (lambda v: eq(v.u + v.v, 2),),
        given={"u": lambda v: 2 - v.v},
    ),
    Proposition(
        "D2/factor",
        "Section 7",
        "The balanced factor is ((a₂ − a₁)/(a₂ + a₁))²",
        ("eta", "a_1", "a_2"),
        lambda v: both(
            eq(_residual(v.eta, v.a_1) * sq(v.s), sq(v.a_2 - v.a_1)),
            eq(_residual(v.eta, v.a_2) * sq(v.s), sq(v.a_2 - v.a_1)),
        ),
        (lambda v: eq(v.eta * v.s, 2),),
        _SUM,
        SENTENCE,
        given={"eta": lambda v: 2 / (v.a_1 + v.a_2)},
    ),
    Proposition(
        "D2/kappa",
        "Section 7",
        "… which equals ((κ − 1)/(κ + 1))² with κ = a₂/a₁",
        ("a_1", "kappa"),
        lambda v: eq(sq(v.a_2 - v.a_1) * sq(v.kappa + 1), sq(v.kappa - 1) * sq(v.a_2 + v.a_1)),
        definitions={"a_2": lambda v: v.kappa * v.a_1},
        role=SENTENCE,
    ),
    Proposition(
        "D2/optimal",
        "Theorem D2",
        "The optimal step η = 2/(a₁ + a₂): no step size contracts the worse channel more",
        ("eta", "a_1", "a_2"),
        _no_better,
        (*_CHANNELS, lambda v: lt(0, v.s)),
        _SUM,
        SENTENCE,
    ),
    Proposition(
        "D2/optimal-any-sign",
        "Theorem D2",
        "The same for any two curvatures with a₁ + a₂ ≠ 0",
        ("eta", "a_1", "a_2"),
        _no_better,
        (lambda v: ne(v.s, 0),),
        _SUM,
        OURS,
        repair=lambda v: le(0, v.a_1 * v.a_2),
        repair_for_all=("eta",),
    ),
    Proposition(
        "D2/balanced-is-optimal",
        "Theorem D2",
        "The converse: a step that balances the two channels is the optimal one",
        ("eta", "a_1", "a_2"),
        lambda v: eq(v.eta * v.s, 2),
        (*_POSITIVE, lambda v: eq(_residual(v.eta, v.a_1), _residual(v.eta, v.a_2))),
        _SUM,
        OURS,
        repair=lambda v: both(ne(v.eta, 0), ne(v.a_1, v.a_2)),
        given={"eta": lambda v: 2 / (v.a_1 + v.a_2)},
    ),
    Proposition(
        "D2/unique",
        "Theorem D2",
        "Any other step size is strictly worse in one channel",
        ("eta", "a_1", "a_2"),
        lambda v: either(
            lt(sq(v.a_2 - v.a_1), _residual(v.eta, v.a_1) * sq(v.s)),
            lt(sq(v.a_2 - v.a_1), _residual(v.eta, v.a_2) * sq(v.s)),
        ),
        (*_POSITIVE, lambda v: ne(v.eta * v.s, 2)),
        _SUM,
        OURS,
    ),
    Proposition(
        "D2/middle",
        "Section 7",
        "Only the two extreme channels matter: one between them contracts at least as much at the balanced step",
        ("eta", "a_1", "lam", "a_2"),
        lambda v: le(_residual(v.eta, v.lam) * sq(v.s), sq(v.a_2 - v.a_1)),
        (
            *_POSITIVE,
            lambda v: le(v.a_1, v.lam),
            lambda v: le(v.lam, v.a_2),
            lambda v: eq(v.eta * v.s, 2),
        ),
        _SUM,
        ELSEWHERE,
        given={"eta": lambda v: 2 / (v.a_1 + v.a_2)},
    ),
    Proposition(
        "D3",
        "Theorem D3",
        "For a₁, a₂ ≥ 0, (a₂ − a₁)² ≤ (a₂ + a₁)²",
        ("a_1", "a_2"),
        lambda v: le(sq(v.a_2 - v.a_1), sq(v.a_2 + v.a_1)),
        _CHANNELS,
    ),
    Proposition(
        "D3/equivalently",
        "Theorem D3",
        "Equivalently, 4 a₁ a₂ ≥ 0",
        ("a_1", "a_2"),
        lambda v: iff(le(sq(v.a_2 - v.a_1), sq(v.a_2 + v.a_1)), le(0, 4 * v.a_1 * v.a_2)),
        role=SENTENCE,
    ),
    Proposition(
        "D3/spread",
        "Theorem D3",
        "Strict convergence requires a positive lower eigenvalue and a non-degenerate spread (a₁ ≠ a₂)",
        ("a_1", "a_2"),
        lambda v: implies(
            lt(sq(v.a_2 - v.a_1), sq(v.s)),
            both(lt(0, v.a_1), ne(v.a_1, v.a_2)),
        ),
        (lambda v: le(0, v.a_1), lambda v: le(v.a_1, v.a_2)),
        _SUM,
        READING,
        repair=lambda v: either(ne(v.a_1, v.a_2), eq(v.a_1, 0)),
    ),
    Proposition(
        "D3/strict",
        "Theorem D3",
        "Strict convergence exactly when the lower eigenvalue is positive",
        ("a_1", "a_2"),
        lambda v: iff(lt(sq(v.a_2 - v.a_1), sq(v.s)), lt(0, v.a_1)),
        (lambda v: le(0, v.a_1), lambda v: le(v.a_1, v.a_2)),
        _SUM,
        READING,
    ),
    Proposition(
        "fig1b",
        "Figure 1b, section 8.1",
        "At η* = 2/(λ_min + λ_max) the largest eigenvalue converges fastest, the smallest is the bottleneck",
        ("eta", "a_1", "a_2"),
        lambda v: lt(_residual(v.eta, v.a_2), _residual(v.eta, v.a_1)),
        (lambda v: lt(0, v.a_1), lambda v: lt(v.a_1, v.a_2), lambda v: eq(v.eta * v.s, 2)),
        _SUM,
        ELSEWHERE,
        given={"eta": lambda v: 2 / (v.a_1 + v.a_2)},
    ),
    Proposition(
        "fig1b/any-step",
        "Figure 1b, section 8.1",
        "At a step size η > 0 the largest eigenvalue converges fastest",
        ("eta", "a_1", "a_2"),
        lambda v: lt(_residual(v.eta, v.a_2), _residual(v.eta, v.a_1)),
        (lambda v: lt(0, v.a_1), lambda v: lt(v.a_1, v.a_2), lambda v: lt(0, v.eta)),
        _SUM,
        OURS,
        repair=lambda v: lt(v.eta * v.s, 2),
    ),
)
