"""Figures of the chapter on he2025; each function draws one and shows what its caption in the chapter says."""

from .circuits import activations, circuit_rows, circuits, circuits_at, multitask, preconditioners, settled
from .closed_forms import (
    approximation,
    bayes_ratio,
    flow,
    pair,
    single_head,
    stage_times,
    stages,
    theorem_one,
)
from .curves import (
    activation_dynamics,
    census,
    dynamics,
    error_by_length,
    estimators,
    limits,
    linear_attention,
    noise_level,
)
from .frames import show_circuits, show_pair, show_stages
from .in_page import prompt, reduced_flow

__all__ = [
    "activation_dynamics",
    "activations",
    "approximation",
    "bayes_ratio",
    "census",
    "circuit_rows",
    "circuits",
    "circuits_at",
    "dynamics",
    "error_by_length",
    "estimators",
    "flow",
    "limits",
    "linear_attention",
    "multitask",
    "noise_level",
    "pair",
    "preconditioners",
    "prompt",
    "reduced_flow",
    "settled",
    "show_circuits",
    "show_pair",
    "show_stages",
    "single_head",
    "stage_times",
    "stages",
    "theorem_one",
]
