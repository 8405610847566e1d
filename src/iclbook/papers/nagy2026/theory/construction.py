"""Nagy 2026, Appendix A: gains of the attention layer (V1 to V3) and two channels (M1 to M3)."""

from __future__ import annotations

from typing import Any

from .formula import Exists, both, eq, implies, le, lt, ne, opposite, sq
from .proposition import OURS, READING, SENTENCE, Proposition

_GAIN = {"kappa": lambda v: v.v_o * v.q_k}
_UPDATES = {"u_1": lambda v: -(v.kappa_1 * v.g_1), "u_2": lambda v: -(v.kappa_2 * v.g_2)}
_DIFFER = lambda v: lt(v.lam_1, v.lam_2)  # noqa: E731
_NEWTON_1 = lambda v: eq(v.kappa * v.lam_1, 1)  # noqa: E731
_STEP = {
    "g": lambda v: v.a * v.w - v.b,
    "w_next": lambda v: v.w - v.eta * v.g,
    "g_next": lambda v: v.a * v.w_next - v.b,
}


def _residual(gain: Any, curvature: Any) -> Any:
    return sq(1 - gain * curvature)


def _loss(v: Any, w: Any) -> Any:
    return v.a * sq(w) - 2 * v.b * w


def _one_gain_for(v: Any) -> Any:
    """Fixed weights are Newton for both curvatures: v_o q_k a_1 = 1 and v_o q_k a_2 = 1."""
    return Exists(
        ("v_o", "q_k"),
        lambda v_o, q_k: both(eq(v_o * q_k * v.a_1, 1), eq(v_o * q_k * v.a_2, 1)),
        both(eq(v.a_1, v.a_2), ne(v.a_1, 0)),
    )


PROPOSITIONS = (
    Proposition(
        "V1",
        "Theorem V1",
        "The constructed update equals the negative scaled gradient: κ(b − a w) = −(κ ∇L), ∇L = a w − b",
        ("v_o", "q_k", "a", "b", "w"),
        lambda v: eq(v.kappa * (v.b - v.a * v.w), -(v.kappa * v.g)),
        definitions={**_GAIN, "g": _STEP["g"]},
    ),
    Proposition(
        "V2",
        "Theorem V2",
        "If v_o, q_k > 0, then κ = v_o q_k > 0",
        ("v_o", "q_k"),
        lambda v: lt(0, v.kappa),
        (lambda v: lt(0, v.v_o), lambda v: lt(0, v.q_k)),
        _GAIN,
    ),
    Proposition(
        "V2/window",
        "Theorem V2",
        "A positive gain yields a stability-window-eligible step, read as: 0 < κ a ≤ 2",
        ("v_o", "q_k", "a"),
        lambda v: both(lt(0, v.kappa * v.a), le(v.kappa * v.a, 2)),
        (lambda v: lt(0, v.v_o), lambda v: lt(0, v.q_k), lambda v: lt(0, v.a)),
        _GAIN,
        READING,
        repair=lambda v: le(v.kappa * v.a, 2),
    ),
    Proposition(
        "V2/eligible",
        "Theorem V2",
        "… read as: positive, so that small enough gains of that sign are in the window (κ a ≤ 2 given)",
        ("v_o", "q_k", "a", "w", "b"),
        lambda v: le(_loss(v, v.w - v.kappa * (v.a * v.w - v.b)), _loss(v, v.w)),
        (
            lambda v: lt(0, v.v_o),
            lambda v: lt(0, v.q_k),
            lambda v: le(v.kappa * v.a, 2),
        ),
        _GAIN,
        READING,
    ),
    Proposition(
        "V3",
        "Theorem V3",
        "With the condition of B7 (η a_p = 1) and κ = η, the composite gain satisfies κ a_p = 1",
        ("v_o", "q_k", "eta", "a_p"),
        lambda v: eq(v.kappa * v.a_p, 1),
        (lambda v: eq(v.kappa, v.eta), lambda v: eq(v.eta * v.a_p, 1)),
        _GAIN,
        given={"eta": lambda v: v.v_o * v.q_k, "a_p": lambda v: 1 / (v.v_o * v.q_k)},
    ),
    Proposition(
        "V3/exists",
        "Theorem V3",
        "There exists a gain choice with κ a_p = 1, for a_p ≥ 0 as section 5.2 defines it",
        ("a_p",),
        lambda v: Exists(("v_o", "q_k"), lambda v_o, q_k: eq(v_o * q_k * v.a_p, 1), ne(v.a_p, 0)),
        (lambda v: le(0, v.a_p),),
        role=READING,
        repair=lambda v: ne(v.a_p, 0),
    ),
    Proposition(
        "V3/exists-positive",
        "Theorem V3",
        "There exists a gain choice with κ a_p = 1, for a_p > 0 (as 1/a_p presupposes), and it reaches the optimum",
        ("a_p",),
        lambda v: Exists(("v_o", "q_k"), lambda v_o, q_k: eq(v_o * q_k * v.a_p, 1), ne(v.a_p, 0)),
        (lambda v: lt(0, v.a_p),),
        role=READING,
    ),
    Proposition(
        "V3/newton",
        "Theorem V3",
        "The constructed forward pass reaches the weighted optimum in a single step",
        ("v_o", "q_k", "a_p", "w", "w_star"),
        lambda v: eq(v.w + v.kappa * (v.b_p - v.a_p * v.w), v.w_star),
        (lambda v: eq(v.kappa * v.a_p, 1),),
        {**_GAIN, "b_p": lambda v: v.a_p * v.w_star},
        SENTENCE,
        given={"a_p": lambda v: 1 / (v.v_o * v.q_k)},
    ),
    Proposition(
        "V3/attainable",
        "Theorem V3",
        "The Newton property is architecturally attainable, read as: one choice of weights for two prompts",
        ("a_1", "a_2"),
        _one_gain_for,
        (lambda v: lt(0, v.a_1), lambda v: lt(0, v.a_2)),
        role=READING,
        repair=lambda v: eq(v.a_1, v.a_2),
    ),
    Proposition(
        "M1",
        "Theorem M1",
        "With u_i = −κ_i g_i the energy is u₁² + u₂² = κ₁² g₁² + κ₂² g₂²",
        ("kappa_1", "g_1", "kappa_2", "g_2"),
        lambda v: eq(sq(v.u_1) + sq(v.u_2), sq(v.kappa_1) * sq(v.g_1) + sq(v.kappa_2) * sq(v.g_2)),
        definitions=_UPDATES,
    ),
    Proposition(
        "M2",
        "Theorem M2",
        "If each channel's gradient energy contracts, the total contracts",
        ("g_1", "g_2", "g_1'", "g_2'"),
        lambda v: le(sq(getattr(v, "g_1'")) + sq(getattr(v, "g_2'")), sq(v.g_1) + sq(v.g_2)),
        (
            lambda v: le(sq(getattr(v, "g_1'")), sq(v.g_1)),
            lambda v: le(sq(getattr(v, "g_2'")), sq(v.g_2)),
        ),
    ),
    Proposition(
        "M2/guaranteed",
        "Theorem M2",
        "g_next² ≤ g² is guaranteed by A5: a step that does not increase the loss does not increase g² (a ≥ 0)",
        ("a", "b", "w", "eta"),
        lambda v: implies(le(_loss(v, v.w_next), _loss(v, v.w)), le(sq(v.g_next), sq(v.g))),
        (lambda v: le(0, v.a),),
        _STEP,
        SENTENCE,
    ),
    Proposition(
        "M3",
        "Theorem M3",
        "With κ = 1/λ₁ and λ₁ < λ₂, channel 2 keeps (1 − κλ₂)² > 0",
        ("kappa", "lam_1", "lam_2"),
        lambda v: lt(0, _residual(v.kappa, v.lam_2)),
        (_DIFFER, _NEWTON_1),
        given={"kappa": lambda v: 1 / v.lam_1},
    ),
    Proposition(
        "M3/no-gain",
        "Theorem M3",
        "No single scalar gain can zero the contraction in both channels simultaneously",
        ("kappa", "lam_1", "lam_2"),
        lambda v: opposite(both(eq(_residual(v.kappa, v.lam_1), 0), eq(_residual(v.kappa, v.lam_2), 0))),
        (_DIFFER,),
        role=SENTENCE,
    ),
    Proposition(
        "M3/residual",
        "Theorem M3",
        "… leaves channel 2 with residual contraction, read as (1 − κλ₂)² ≤ 1, for 0 < λ₁",
        ("kappa", "lam_1", "lam_2"),
        lambda v: le(_residual(v.kappa, v.lam_2), 1),
        (lambda v: lt(0, v.lam_1), _DIFFER, _NEWTON_1),
        role=READING,
        repair=lambda v: le(v.lam_2, 2 * v.lam_1),
        given={"kappa": lambda v: 1 / v.lam_1},
    ),
    Proposition(
        "M3/two-layers",
        "Theorem M3",
        "Two layers with one scalar gain each, κ₁ = 1/λ₁ and κ₂ = 1/λ₂, zero both channels",
        ("kappa_1", "kappa_2", "lam_1", "lam_2"),
        lambda v: both(
            eq(_residual(v.kappa_1, v.lam_1) * _residual(v.kappa_2, v.lam_1), 0),
            eq(_residual(v.kappa_1, v.lam_2) * _residual(v.kappa_2, v.lam_2), 0),
        ),
        (lambda v: eq(v.kappa_1 * v.lam_1, 1), lambda v: eq(v.kappa_2 * v.lam_2, 1)),
        role=OURS,
        given={"kappa_1": lambda v: 1 / v.lam_1, "kappa_2": lambda v: 1 / v.lam_2},
    ),
)
