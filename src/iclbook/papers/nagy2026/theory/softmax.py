"""Nagy 2026, section 5: softmax attention as a preconditioned step (B1 to B7), for two examples where examples enter."""

from __future__ import annotations

from typing import Any

from .formula import Exists, abs_le, both, either, eq, le, lt, ne, sq
from .proposition import ELSEWHERE, OURS, READING, SENTENCE, Proposition


def _prediction(v: Any) -> Any:
    return v.p * v.y_1 + (1 - v.p) * v.y_2


_WEIGHT = (lambda v: le(0, v.p), lambda v: le(v.p, 1))
_TARGETS = lambda v: le(v.y_1, v.y_2)  # noqa: E731
_UNDER = (lambda v: lt(0, v.u), lambda v: le(v.u, v.v), lambda v: le(v.v, 1))
_OVER = (lambda v: le(1, v.v), lambda v: le(v.v, v.u), lambda v: le(v.u, 2))
#: Curvature and cross term of two examples: uniform attention, and attention p, 1 - p.
EXAMPLES = {
    "a": lambda v: (sq(v.x_1) + sq(v.x_2)) / 2,
    "b": lambda v: (v.x_1 * v.y_1 + v.x_2 * v.y_2) / 2,
    "a_p": lambda v: v.p * sq(v.x_1) + (1 - v.p) * sq(v.x_2),
    "b_p": lambda v: v.p * v.x_1 * v.y_1 + (1 - v.p) * v.x_2 * v.y_2,
}
_OWN = {**EXAMPLES, "g": lambda v: v.a * v.w - v.b, "g_p": lambda v: v.a_p * v.w - v.b_p}
_LINE = {
    "y_1": lambda v: v.m * v.x_1 + v.c,
    "y_2": lambda v: v.m * v.x_2 + v.c,
    **EXAMPLES,
}
_TUNING = (
    lambda v: lt(0, v.x_1),
    lambda v: lt(v.x_1, v.x_2),
    lambda v: lt(0, v.eta),
    lambda v: le(v.eta * v.a, 2),
    lambda v: ne(v.eta * v.a, 1),
)


def _smaller(v: Any) -> Any:
    return le(sq(1 - v.v), sq(1 - v.u))


def _strictly_smaller(v: Any) -> Any:
    return lt(sq(1 - v.v), sq(1 - v.u))


def _straddles(v: Any) -> Any:
    """1/eta lies between the squared inputs."""
    return le((v.eta * sq(v.x_1) - 1) * (v.eta * sq(v.x_2) - 1), 0)


def _tunable(v: Any) -> Any:
    """Some attention puts the step product at 1; the product is affine in p, so the two ends decide."""

    def body(p: Any) -> Any:
        return both(le(0, p), le(p, 1), eq(v.eta * (p * sq(v.x_1) + (1 - p) * sq(v.x_2)), 1))

    return Exists(("p",), body, _straddles(v))


def _energies(v: Any) -> Any:
    return le(sq(v.a) * sq(v.e), sq(v.a_p) * sq(v.e))


PROPOSITIONS = (
    Proposition(
        "B1",
        "Theorem B1",
        "With p ∈ [0, 1] and y₁ ≤ y₂: p y₁ + (1 − p) y₂ ≥ y₁",
        ("p", "y_1", "y_2"),
        lambda v: le(v.y_1, _prediction(v)),
        (*_WEIGHT, _TARGETS),
    ),
    Proposition(
        "B2",
        "Theorem B2",
        "With p ∈ [0, 1] and y₁ ≤ y₂: p y₁ + (1 − p) y₂ ≤ y₂",
        ("p", "y_1", "y_2"),
        lambda v: le(_prediction(v), v.y_2),
        (*_WEIGHT, _TARGETS),
    ),
    Proposition(
        "5.2/average",
        "Section 5.2",
        "a_p is a convex average and lies in [min x², max x²]",
        ("p", "x_1", "x_2"),
        lambda v: both(le(sq(v.x_1), v.a_p), le(v.a_p, sq(v.x_2))),
        (*_WEIGHT, lambda v: le(sq(v.x_1), sq(v.x_2))),
        {"a_p": EXAMPLES["a_p"]},
        ELSEWHERE,
    ),
    Proposition(
        "5.2/line",
        "Section 5.2",
        "All pairs lie on one line, so b_p/a_p = b/a for every weighting (the regime of the probes with y = a x + b)",
        ("m", "c", "x_1", "x_2", "p"),
        lambda v: eq(v.b_p * v.a, v.b * v.a_p),
        (*_WEIGHT, lambda v: lt(0, v.a_p)),
        _LINE,
        ELSEWHERE,
        repair=lambda v: eq(v.c, 0),
        given={},
    ),
    Proposition(
        "5.2/closer",
        "Section 5.2",
        "The factor is strictly smaller whenever the reweighting brings the step product closer to 1",
        ("u", "v"),
        _strictly_smaller,
        (lambda v: abs_le(1 - v.v, 1 - v.u), lambda v: ne(1 - v.v, 1 - v.u), lambda v: ne(1 - v.v, v.u - 1)),
        role=ELSEWHERE,
    ),
    Proposition(
        "B3", "Theorem B3", "If 0 < u ≤ v ≤ 1, then (1 − v)² ≤ (1 − u)²", ("u", "v"), _smaller, _UNDER
    ),
    Proposition(
        "B3/strict",
        "Theorem B3",
        "The softmax contraction factor is smaller, yielding faster convergence (read strictly)",
        ("u", "v"),
        _strictly_smaller,
        _UNDER,
        role=READING,
        repair=lambda v: lt(v.u, v.v),
    ),
    Proposition(
        "B4", "Theorem B4", "If 1 ≤ v ≤ u ≤ 2, then (1 − v)² ≤ (1 − u)²", ("u", "v"), _smaller, _OVER
    ),
    Proposition(
        "B4/strict",
        "Theorem B4",
        "This also accelerates convergence (read strictly)",
        ("u", "v"),
        _strictly_smaller,
        _OVER,
        role=READING,
        repair=lambda v: lt(v.v, v.u),
    ),
    Proposition(
        "5.2/general",
        "Section 5.2",
        "|1 − v| ≤ |1 − u| implies (1 − v)² ≤ (1 − u)² for all u, v",
        ("u", "v"),
        _smaller,
        (lambda v: abs_le(1 - v.v, 1 - v.u),),
        role=ELSEWHERE,
    ),
    Proposition(
        "B5",
        "Lemma B5",
        "If a ≥ 0 and a_p ≥ a, then a² ≤ a_p²",
        ("a", "a_p"),
        lambda v: le(sq(v.a), sq(v.a_p)),
        (lambda v: le(0, v.a), lambda v: le(v.a, v.a_p)),
    ),
    Proposition(
        "B6",
        "Theorem B6",
        "g_p² = a_p² e² is at least g² = a² e² when a_p ≥ a (Lemma B5, so a ≥ 0) and e² ≥ 0",
        ("a", "a_p", "e"),
        _energies,
        (lambda v: le(0, v.a), lambda v: le(v.a, v.a_p)),
    ),
    Proposition(
        "B6/sentence",
        "Theorem B6",
        "Were a ≥ 0 not assumed (section 5.3 and Lemma B5 do assume it)",
        ("a", "a_p", "e"),
        _energies,
        (lambda v: le(v.a, v.a_p),),
        role=OURS,
        repair=lambda v: either(le(0, v.a + v.a_p), eq(v.a, v.a_p), eq(v.e, 0)),
    ),
    Proposition(
        "B6/own-optimum",
        "Theorem B6",
        "Softmax-concentrating attention amplifies the descent signal: b_p − a_p w against b − a w, two examples",
        ("x_1", "y_1", "x_2", "y_2", "p", "w"),
        lambda v: le(sq(v.g), sq(v.g_p)),
        (*_WEIGHT, lambda v: le(v.a, v.a_p)),
        _OWN,
        SENTENCE,
        repair=lambda v: eq(v.y_1 * v.x_2, v.y_2 * v.x_1),
    ),
    Proposition(
        "B7",
        "Theorem B7",
        "At the optimal step product v = 1 the contraction factor (1 − v)² = 0",
        ("v",),
        lambda v: eq(sq(1 - v.v), 0),
        (lambda v: eq(v.v, 1),),
        given={"v": lambda v: 1 + 0 * v.v},
    ),
    Proposition(
        "B7/newton",
        "Theorem B7",
        "The preconditioned step reaches the weighted least-squares optimum in exactly one step",
        ("eta", "a_p", "w", "w_star"),
        lambda v: eq(v.w - v.eta * (v.a_p * v.w - v.b_p), v.w_star),
        (lambda v: eq(v.eta * v.a_p, 1),),
        {"b_p": lambda v: v.a_p * v.w_star},
        SENTENCE,
        given={"eta": lambda v: 1 / v.a_p},
    ),
    Proposition(
        "B7/tuning",
        "Theorem B7",
        "Even when the linear step undershoots or overshoots (ηa ≠ 1), the attention reweighting can tune η a_p = 1",
        ("x_1", "x_2", "eta"),
        _tunable,
        _TUNING,
        {"a": EXAMPLES["a"]},
        READING,
        repair=_straddles,
    ),
    Proposition(
        "B7/tuning-sometimes",
        "Theorem B7",
        "… can tune η a_p = 1 for some inputs and some step size with ηa ≠ 1",
        (),
        lambda v: Exists(
            ("x_1", "x_2", "eta", "p"),
            lambda x, y, eta, p: both(
                lt(0, x),
                lt(x, y),
                lt(0, eta),
                ne(eta * (sq(x) + sq(y)), 2),
                le(0, p),
                le(p, 1),
                eq(eta * (p * sq(x) + (1 - p) * sq(y)), 1),
            ),
            # witness: x = 1, y = 2, eta = 1/4, p = 0
            both(ne(5, 8), eq(4, 4)),
        ),
        role=READING,
    ),
    Proposition(
        "B7/isotropic",
        "Theorem B7",
        "Where all x² are equal, no attention changes the curvature",
        ("x_1", "x_2", "p"),
        lambda v: eq(v.a_p, v.a),
        (lambda v: eq(sq(v.x_1), sq(v.x_2)),),
        {"a": EXAMPLES["a"], "a_p": EXAMPLES["a_p"]},
        OURS,
        given={"x_2": lambda v: -v.x_1},
    ),
)
