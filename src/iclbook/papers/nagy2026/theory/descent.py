"""Nagy 2026, sections 1 to 4: attention is a gradient step (A1 to A7) and the two ring identities."""

from __future__ import annotations

from typing import Any

from .formula import both, either, eq, iff, le, lt, ne, sq
from .proposition import ELSEWHERE, OURS, READING, SENTENCE, Proposition


def loss(v: Any, w: Any) -> Any:
    """L(w) = a w^2 - 2 b w + c of section 1."""
    return v.a * sq(w) - 2 * v.b * w + v.c


def _gradient(v: Any) -> Any:
    return v.a * v.w - v.b


def _step(v: Any) -> Any:
    return v.w - v.eta * v.g


STEP = {"g": _gradient, "w_next": _step}
ERROR = {
    "b": lambda v: v.a * v.w_star,
    "e": lambda v: v.w - v.w_star,
    "g": _gradient,
    "e_next": lambda v: v.w - v.eta * v.g - v.w_star,
}
_WINDOW = (lambda v: lt(0, v.eta), lambda v: le(v.eta * v.a, 2))


def factor(v: Any) -> Any:
    """The squared contraction factor (1 - eta a)^2."""
    return sq(1 - v.eta * v.a)


PROPOSITIONS = (
    Proposition(
        "1/gradient",
        "Section 1, Theorem V1",
        "∇L = a w − b (V1), taken literally: L(w + h) − L(w) has the linear term g h (section 1 moves a factor 2 into η)",
        ("a", "b", "c", "w", "h"),
        lambda v: eq(loss(v, v.w + v.h) - loss(v, v.w), v.g * v.h + v.a * sq(v.h)),
        definitions={"g": _gradient},
        role=READING,
    ),
    Proposition(
        "1/gradient-half",
        "Section 1",
        "“where we absorb the factor of 2 into the step size”: the linear term is 2 g h",
        ("a", "b", "c", "w", "h"),
        lambda v: eq(loss(v, v.w + v.h) - loss(v, v.w), 2 * v.g * v.h + v.a * sq(v.h)),
        definitions={"g": _gradient},
        role=OURS,
    ),
    Proposition(
        "1/optimum",
        "Section 1",
        "Gram curvature a ≥ 0; the least-squares optimum is w* = b/a: a w* = b has one solution",
        ("a", "w", "w_star"),
        lambda v: iff(eq(v.a * v.w, v.a * v.w_star), eq(v.w, v.w_star)),
        (lambda v: le(0, v.a),),
        role=ELSEWHERE,
        repair=lambda v: ne(v.a, 0),
        repair_for_all=("w", "w_star"),
    ),
    Proposition(
        "A1",
        "Theorem A1",
        "With g = a w − b and step size η > 0, the linear-attention update equals the negative gradient step",
        ("eta", "a", "b", "w"),
        lambda v: eq(v.eta * (v.b - v.a * v.w), -(v.eta * v.g)),
        (lambda v: lt(0, v.eta),),
        {"g": _gradient},
    ),
    Proposition(
        "A2",
        "Theorem A2",
        "For a > 0, with e = w − w* and a w* = b, the gradient is the curvature times the error",
        ("a", "w", "w_star"),
        lambda v: eq(v.g, v.a * v.e),
        (lambda v: lt(0, v.a),),
        {"b": ERROR["b"], "e": ERROR["e"], "g": _gradient},
    ),
    Proposition(
        "A2/vanishes",
        "Theorem A2",
        "The gradient vanishes exactly at w*",
        ("a", "w", "w_star"),
        lambda v: iff(eq(v.g, 0), eq(v.w, v.w_star)),
        (lambda v: lt(0, v.a),),
        {"b": ERROR["b"], "g": _gradient},
        SENTENCE,
    ),
    Proposition(
        "loss-decrease",
        "Section 3 (loss_decrease_identity)",
        "L(w) − L(w_next) = [η(2 − ηa)] g²",
        ("eta", "a", "b", "c", "w"),
        lambda v: eq(loss(v, v.w) - loss(v, v.w_next), v.eta * (2 - v.eta * v.a) * sq(v.g)),
        definitions=STEP,
        role=ELSEWHERE,
    ),
    Proposition(
        "A3",
        "Lemma A3",
        "If η > 0 and ηa ≤ 2, then η(2 − ηa) ≥ 0",
        ("eta", "a"),
        lambda v: le(0, v.eta * (2 - v.eta * v.a)),
        _WINDOW,
    ),
    Proposition(
        "A4",
        "Lemma A4",
        "g² ≥ 0",
        ("a", "b", "w"),
        lambda v: le(0, sq(v.g)),
        definitions={"g": _gradient},
    ),
    Proposition(
        "A5",
        "Theorem A5",
        "If L(w) − L(w_next) = etafac · gsq with etafac ≥ 0 and gsq ≥ 0, then L(w_next) ≤ L(w)",
        ("L", "etafac", "gsq"),
        lambda v: le(v.L_next, v.L),
        (lambda v: le(0, v.etafac), lambda v: le(0, v.gsq)),
        {"L_next": lambda v: v.L - v.etafac * v.gsq},
    ),
    Proposition(
        "A5/window",
        "Theorem A5",
        "The forward pass is a monotone descent step throughout 0 < η ≤ 2/a: the loss does not increase",
        ("eta", "a", "b", "c", "w"),
        lambda v: le(loss(v, v.w_next), loss(v, v.w)),
        (lambda v: lt(0, v.a), *_WINDOW),
        STEP,
        SENTENCE,
    ),
    Proposition(
        "A5/strict",
        "Theorem A5",
        "… a descent step throughout 0 < η ≤ 2/a, read strictly: the loss falls where g ≠ 0",
        ("eta", "a", "b", "c", "w"),
        lambda v: lt(loss(v, v.w_next), loss(v, v.w)),
        (lambda v: lt(0, v.a), *_WINDOW, lambda v: ne(v.g, 0)),
        STEP,
        READING,
        repair=lambda v: lt(v.eta * v.a, 2),
    ),
    Proposition(
        "error-recursion",
        "Section 4 (error_recursion_identity)",
        "e_next = (1 − ηa) e, so e_next² = (1 − ηa)² e²",
        ("eta", "a", "w", "w_star"),
        lambda v: both(
            eq(v.e_next, (1 - v.eta * v.a) * v.e),
            eq(sq(v.e_next), factor(v) * sq(v.e)),
        ),
        definitions=ERROR,
        role=ELSEWHERE,
    ),
    Proposition(
        "A6",
        "Lemma A6",
        "If 0 ≤ ηa ≤ 2, then (1 − ηa)² ≤ 1",
        ("eta", "a"),
        lambda v: le(factor(v), 1),
        (lambda v: le(0, v.eta * v.a), lambda v: le(v.eta * v.a, 2)),
    ),
    Proposition(
        "A7",
        "Theorem A7",
        "If e_next² = ρ² e² with ρ² = (1 − ηa)² ≤ 1, then e_next² ≤ e²",
        ("eta", "a", "e"),
        lambda v: le(v.E_next, sq(v.e)),
        (lambda v: le(v.rho2, 1),),
        {"rho2": factor, "E_next": lambda v: v.rho2 * sq(v.e)},
    ),
    Proposition(
        "A7/equivalence",
        "Theorem A7",
        "A strictly contractive rate, 0 < ρ² < 1 (equivalently 0 < ηa < 2)",
        ("eta", "a"),
        lambda v: iff(both(lt(0, v.rho2), lt(v.rho2, 1)), both(lt(0, v.eta * v.a), lt(v.eta * v.a, 2))),
        definitions={"rho2": factor},
        role=SENTENCE,
        repair=lambda v: ne(v.eta * v.a, 1),
    ),
    Proposition(
        "A7/window",
        "Theorem A7",
        "Repaired: ρ² < 1 exactly when 0 < ηa < 2",
        ("eta", "a"),
        lambda v: iff(lt(v.rho2, 1), both(lt(0, v.eta * v.a), lt(v.eta * v.a, 2))),
        definitions={"rho2": factor},
        role=OURS,
    ),
    Proposition(
        "A7/boundary",
        "Theorem A7",
        "The boundary cases are ρ² = 1 (ηa ∈ {0, 2})",
        ("eta", "a"),
        lambda v: iff(eq(v.rho2, 1), either(eq(v.eta * v.a, 0), eq(v.eta * v.a, 2))),
        definitions={"rho2": factor},
        role=SENTENCE,
    ),
)
