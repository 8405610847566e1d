"""What is measured without training: Figure 1, the construction, and section 5's attention (nagy2026)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..theory import probe, reweighting, von_oswald
from .shared import under

#: Dimensions at which the construction is compared with a gradient step.
DIMENSIONS = [1, 2, 3, 5, 8, 16, 32, 64]


#: Section 6: layers -> what a single-step rate of 0.9 compounds to, as printed.
PRINTED_COMPOUNDED = {2: 0.81, 5: 0.59, 10: 0.35}


def spectrum() -> np.ndarray:
    """Eigenvalues of the probe's design: those of the recipe whose spectrum comes nearest to the printed one, rising."""
    _, eigenvalues = probe.spectra(42)
    near = np.abs(
        np.log(eigenvalues[:, [0, -1]] / [probe.PRINTED["smallest"], probe.PRINTED["largest"]])
    ).sum(1)
    return eigenvalues[int(near.argmin())]


def figure_1(eigenvalues: np.ndarray) -> dict:
    """What decides fig1 and q-fig1b, at ``eta* = 2 / (lambda_1 + lambda_5)`` and over as many steps as the paper."""
    steps, powers = probe.PRINTED["steps"], np.arange(probe.PRINTED["steps"] + 1)
    scalar = max(
        np.abs(probe.scalar_descent(a, 1.0, steps) - (1 - a) ** (2 * powers)).max()
        for a in probe.PRINTED["curvatures"]
    )
    eta = probe.balanced_step(eigenvalues)
    factors = probe.factors(eigenvalues, eta)
    errors = probe.channel_errors(probe.design(eigenvalues, probe.PRINTED["n"]), eta, steps)
    small = probe.factors(eigenvalues, 1 / eigenvalues[-1])
    return {
        "fig1/a_gap": float(scalar),
        "fig1/b_gap": float(np.abs(errors - factors ** powers[:, None]).max()),
        "fig1/largest_rank": _rank(factors, -1),
        "fig1/smallest_rank": _rank(factors, 0),
        "fig1/compounded_gap": max(abs(0.9**k - printed) for k, printed in PRINTED_COMPOUNDED.items()),
        "q-fig1b/ends_ratio": float(factors[-1] / factors[0]),
        "q-fig1b/rank_at_inverse": _rank(small, -1),
    }


def _rank(factors: np.ndarray, channel: int) -> int:
    """1 for the channel that contracts fastest; equal factors (to rounding) share the later rank."""
    return int((factors <= factors[channel] * (1 + 1e-9)).sum())


def construction_records() -> dict:
    """What decides claim linear-attention."""
    gaps = von_oswald.largest_gap(DIMENSIONS)
    return {
        "linear-attention/one_layer": gaps["one_layer"],
        "linear-attention/four_layers": gaps["four_layers"],
        "linear-attention/library": von_oswald.trained_layer_gap(DIMENSIONS),
    }


#: Keys of what section 5 claims.
SOFTMAX_KEYS = (
    "softmax-precond/step_gap", "softmax-precond/inside", "softmax-precond/linear_outside", "softmax-precond/linear_outside_se",
    "softmax-precond/faster", "softmax-precond/slower_at_newton", "softmax-precond/realisable_gap", "softmax-precond/bias",
    "softmax-precond/bias_se", "softmax-precond/limit_gap", "softmax-precond/amplified", "softmax-precond/plain_residual",
    "softmax-precond/plain_residual_se",
)  # fmt: skip


def reweighting_records(**sizes: Any) -> dict:
    """What decides claim softmax-precond; ``sizes`` as of :func:`reweighting.measure`."""
    return under(SOFTMAX_KEYS, reweighting.measure(**sizes))


def generator_records() -> dict:
    """What decides q-spectrum."""
    found = probe.search()
    recipe, eigenvalues = found["nearest"]
    tried, matching = probe.lists(42)
    return {
        "q-spectrum/tried": found["tried"],
        "q-spectrum/found": len(found["found"]),
        "q-spectrum/lists_tried": tried,
        "q-spectrum/lists_found": matching,
        "q-spectrum/chance": found["chance"],
        "q-spectrum/chance_se": found["chance_se"],
        "q-spectrum/recipe": str(recipe),
        "q-spectrum/smallest": float(eigenvalues[0]),
        "q-spectrum/largest": float(eigenvalues[-1]),
    }
