"""Which predictor heads of he2025 with other activations compute (Ablation Study): their effective rate, and predictions beside those of gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....statistics import standard_error
from ....store import Results
from .. import theory
from .circuits import Heads
from .predictor import attended, unexplained
from .sampling import run_sd

Records = dict[str, Any]
#: ``C_f`` of the activations that the paper tests at C = 1: the slope of f at 0, over f(0).
SLOPES = {"softmax": 1.0, "square": 2.0, "tanh": 1.0}
#: Their groups in the isotropic study.
GROUPS = {"softmax": "h2", "square": "square", "tanh": "tanh"}


@dataclass(frozen=True)
class Steps:
    """Two trained heads beside gradient descent on common prompts, each ``(R,)``.

    Attributes:
        excess, excess_error: mean squared error less that of debiased gradient descent at its best rate, and its standard error over prompts.
        debiased, vanilla: share of the prediction's variance that a multiple of such a step leaves unexplained.
    """

    excess: np.ndarray
    excess_error: np.ndarray
    debiased: np.ndarray
    vanilla: np.ndarray


def gd_steps(prompts: theory.Prompts) -> tuple[np.ndarray, np.ndarray]:
    """Debiased and vanilla gradient descent at rate 1, ``(B,)`` each."""
    return tuple(
        step(1.0, prompts.x, prompts.y, prompts.x_q) for step in (theory.debiased_gd, theory.vanilla_gd)
    )


def compare(results: Results, name: str, prompts: theory.Prompts, best: float) -> Steps:
    """The runs of a two-head model (``h2``, or named by its activation) beside debiased gradient descent of rate ``best``."""
    return _beside(results, name, prompts, best, *gd_steps(prompts))


def _beside(
    results: Results,
    name: str,
    prompts: theory.Prompts,
    best: float,
    debiased: np.ndarray,
    vanilla: np.ndarray,
) -> Steps:
    of_step = (best * debiased - prompts.y_q) ** 2
    kq, ov = (results[f"{name}/{k}"][-1] for k in ("kq", "ov"))
    rows = []
    for yhat in attended(kq, ov, prompts, "softmax" if name == "h2" else name):
        apart = (yhat - prompts.y_q) ** 2 - of_step  # prompt by prompt: what both find hard cancels
        rows.append(
            (apart.mean(), standard_error(apart), unexplained(yhat, debiased), unexplained(yhat, vanilla))
        )
    return Steps(*np.array(rows).T)


def compare_all(results: Results, prompts: theory.Prompts, best: float) -> dict[str, Steps]:
    """All three activations."""
    steps = gd_steps(prompts)
    return {name: _beside(results, group, prompts, best, *steps) for name, group in GROUPS.items()}


def rates(heads: Heads, slope: float) -> np.ndarray:
    """``C_f <omega, mu>`` of every run ``(R,)``: the paper's effective rate ``2 C_f |omega| |mu|`` of a pair."""
    return slope * heads.settled(theory.effective_rate(heads.omega, heads.mu))


def step_records(found: Mapping[str, Steps], heads: Mapping[str, Heads], star: float) -> Records:
    """Softmax, square and tanh, a value a run; ``star`` is the rate of Theorem 1."""
    rate = {name: rates(heads[name], slope) for name, slope in SLOPES.items()}
    soft, square, tanh = (found[name] for name in SLOPES)
    return {
        "activation/eta_star": star,
        "activation/softmax/rate": rate["softmax"].tolist(),
        "activation/square/rate": rate["square"].tolist(),
        "activation/square/rate_sd": run_sd(rate["square"]),
        "activation/tanh/rate": rate["tanh"].tolist(),
        "activation/tanh/rate_sd": run_sd(rate["tanh"]),
        "activation/softmax/excess": soft.excess.tolist(),
        "activation/square/excess": square.excess.tolist(),
        "activation/square/excess_se": square.excess_error.tolist(),
        "activation/tanh/excess": tanh.excess.tolist(),
        "activation/tanh/excess_se": tanh.excess_error.tolist(),
        "activation/debiased": [float(steps.debiased.max()) for steps in (soft, square, tanh)],
        "activation/vanilla": [float(steps.vanilla.max()) for steps in (soft, square, tanh)],
    }
