"""Beyond one task and softmax in he2025: covariates that are not isotropic (Figure 3.1) and other activations (Figures 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....store import Results
from .. import theory
from .circuits import Heads, read_heads, settled
from .sampling import extremes_error, jackknife, run_sd

Records = dict[str, Any]
Array = np.ndarray


@dataclass(frozen=True)
class Preconditioners:
    """Two heads on covariates of covariance Sigma.

    Attributes:
        blocks: ``(R, 2, d, d)`` settled KQ blocks.
        rows: ``(R, 2, d + 1)`` settled rows of OV.
        linear: ``(R, d, d)`` settled preconditioner of the trained linear head, mu KQ.
        inverse, optimum: ``(d, d)`` of Sigma, and the best preconditioner of linear attention.
    """

    blocks: Array
    rows: Array
    linear: Array
    inverse: Array
    optimum: Array

    @property
    def split(self) -> Array:
        """``(R,)`` runs that end with a head of each sign."""
        return np.sign(self.rows[..., -1]).sum(1) == 0


def preconditioners(results: Results, sigma: Array, L: int, noise_var: float) -> Preconditioners:
    """Of two softmax heads and of one linear head."""
    d = len(sigma)
    blocks = settled(results["h2/steps"], results["h2/kq"])[..., :d, :d]
    rows = settled(results["h2/steps"], results["h2/ov"])[:, :, 0]
    linear = (
        results["linear/ov"][..., 0, 0, d, None, None] * results["linear/kq"][..., 0, :d, :d]
    )  # (T, R, d, d)
    optimum = theory.best_preconditioner(sigma, L, noise_var)
    return Preconditioners(
        blocks, rows, settled(results["linear/steps"], linear), np.linalg.inv(sigma), optimum
    )


def preconditioner_records(found: Preconditioners) -> Records:
    """Figure 3.1: how many runs split into a head of each sign, and the shape of the blocks of those that do."""
    split = found.split
    apart = np.linalg.norm(found.linear - found.optimum, axis=(1, 2)) / np.linalg.norm(found.optimum)
    values: Records = {
        "fig3.1/runs": len(split),
        "fig3.1/both_runs": int(split.sum()),
        "fig3.1/both_share": float(split.mean()),
        "fig3.1/linear": apart.tolist(),
        "fig3.1/linear_sd": run_sd(apart),
    }
    if not split.any():  # nothing to measure
        return values
    blocks, ov = found.blocks[split], found.rows[split]
    d = blocks.shape[-1]

    def distances(shape: Array) -> list[float]:
        return [theory.shape_distance(block, shape) for block in blocks.reshape(-1, d, d)]

    to_inverse = distances(found.inverse)
    sums = np.linalg.norm(blocks.sum(1), axis=(1, 2)) / np.linalg.norm(blocks[:, 0], axis=(1, 2))
    beside = np.linalg.norm(ov[..., :d], axis=-1) / np.abs(ov[..., d])
    return values | {
        "fig3.1/to_inverse": to_inverse,
        "fig3.1/to_optimal": distances(found.optimum),
        "fig3.1/to_identity": distances(np.eye(d)),
        "fig3.1/to_inverse_worst": max(to_inverse),
        "fig3.1/opposite": sums.tolist(),
        "fig3.1/ov_deviation": beside.ravel().tolist(),
    }


# -- other activations ------------------------------------------------------------------------------------------------

ACTIVATIONS = ("affine", "square", "tanh")


def read_activations(results: Results, scale: float) -> dict[str, Heads]:
    """Heads of each activation other than softmax."""
    return {name: read_heads(results.group(name), scale) for name in ACTIVATIONS}


def _product(h: Heads) -> list[float]:
    return h.settled(h.omega).prod(-1).tolist()


def _same_sign(h: Heads) -> list[float]:
    return (h.settled(h.omega) * h.settled(h.mu)).ravel().tolist()


def _kq(h: Heads) -> list[float]:
    return h.settled(h.kq_deviation).ravel().tolist()


def _ov(h: Heads) -> list[float]:
    return h.settled(h.ov_deviation).ravel().tolist()


def activation_records(text: Mapping[str, Heads], code: Mapping[str, Heads]) -> Records:
    """Figure 4.2, the pattern: a value per run (and head), for C = 1 and that of the published code."""
    return {
        "fig4.2/text/affine/omega_product": _product(text["affine"]),
        "fig4.2/text/affine/omega_mu": _same_sign(text["affine"]),
        "fig4.2/text/affine/kq_deviation": _kq(text["affine"]),
        "fig4.2/text/affine/ov_deviation": _ov(text["affine"]),
        "fig4.2/text/square/omega_product": _product(text["square"]),
        "fig4.2/text/square/omega_mu": _same_sign(text["square"]),
        "fig4.2/text/square/kq_deviation": _kq(text["square"]),
        "fig4.2/text/square/ov_deviation": _ov(text["square"]),
        "fig4.2/text/tanh/omega_product": _product(text["tanh"]),
        "fig4.2/text/tanh/omega_mu": _same_sign(text["tanh"]),
        "fig4.2/text/tanh/kq_deviation": _kq(text["tanh"]),
        "fig4.2/text/tanh/ov_deviation": _ov(text["tanh"]),
        "fig4.2/code/affine/omega_product": _product(code["affine"]),
        "fig4.2/code/affine/omega_mu": _same_sign(code["affine"]),
        "fig4.2/code/affine/kq_deviation": _kq(code["affine"]),
        "fig4.2/code/affine/ov_deviation": _ov(code["affine"]),
        "fig4.2/code/square/omega_product": _product(code["square"]),
        "fig4.2/code/square/omega_mu": _same_sign(code["square"]),
        "fig4.2/code/square/kq_deviation": _kq(code["square"]),
        "fig4.2/code/square/ov_deviation": _ov(code["square"]),
        "fig4.2/code/tanh/omega_product": _product(code["tanh"]),
        "fig4.2/code/tanh/omega_mu": _same_sign(code["tanh"]),
        "fig4.2/code/tanh/kq_deviation": _kq(code["tanh"]),
        "fig4.2/code/tanh/ov_deviation": _ov(code["tanh"]),
    }


def small_records(c03: Heads, c01: Heads) -> Records:
    """The same of 1 + Cx for C = 0.3 and 0.1."""
    return {
        "fig4.2/c0.3/affine/omega_product": _product(c03),
        "fig4.2/c0.3/affine/omega_mu": _same_sign(c03),
        "fig4.2/c0.3/affine/kq_deviation": _kq(c03),
        "fig4.2/c0.3/affine/ov_deviation": _ov(c03),
        "fig4.2/c0.1/affine/omega_product": _product(c01),
        "fig4.2/c0.1/affine/omega_mu": _same_sign(c01),
        "fig4.2/c0.1/affine/kq_deviation": _kq(c01),
        "fig4.2/c0.1/affine/ov_deviation": _ov(c01),
    }


def _range_of_gamma(by_name: Mapping[str, Heads], softmax: Heads) -> tuple[float, float]:
    """Largest over smallest settled gamma of the activations and softmax, means over runs; with its standard error."""
    gammas = [h.settled(h.gamma) for h in (*by_name.values(), softmax)]
    means = [runs.mean() for runs in gammas]
    return float(max(means) / min(means)), extremes_error(gammas)


def gamma_records(
    text: Mapping[str, Heads],
    softmax: Heads,
    code: Mapping[str, Heads],
    softmax_code: Heads,
    c03: Heads,
    c01: Heads,
) -> Records:
    """Figure 4.2, the values; with a smaller C of 1 + Cx beside the others at C = 1."""
    ratio, error = _range_of_gamma(text, softmax)
    ratio_code, error_code = _range_of_gamma(code, softmax_code)
    ratio_03, error_03 = _range_of_gamma({**text, "affine": c03}, softmax)
    ratio_01, error_01 = _range_of_gamma({**text, "affine": c01}, softmax)
    return {
        "fig4.2/text/gamma_ratio": ratio,
        "fig4.2/text/gamma_ratio_se": error,
        "fig4.2/code/gamma_ratio": ratio_code,
        "fig4.2/code/gamma_ratio_se": error_code,
        "fig4.2/c0.3/gamma_ratio": ratio_03,
        "fig4.2/c0.3/gamma_ratio_se": error_03,
        "fig4.2/c0.1/gamma_ratio": ratio_01,
        "fig4.2/c0.1/gamma_ratio_se": error_01,
    }


def formed(*by_c: Heads) -> Records:
    """Runs of two heads that end as a pair of the pattern's form, for each C of 1 + Cx."""

    def runs(h: Heads) -> int:
        off = np.maximum(h.settled(h.kq_deviation), h.settled(h.ov_deviation)).max(-1)  # (R,)
        return int(((off < 0.1) & (h.settled(h.omega).prod(-1) < 0)).sum())  # the ledger's bounds

    return {"fig4.2/affine/formed": [runs(h) for h in by_c]}


def worst_losses(*losses: np.ndarray) -> Records:
    """Largest mean training losses ``(T, R)`` of 1 + Cx between two records, for each C; at step 0 there is none yet."""
    return {"fig4.2/affine/worst_loss": [float(of[1:].max()) for of in losses]}


def course_distance(
    h: Heads, softmax: Heads, kept: Array | None = None, of_softmax: Array | None = None
) -> float:
    """Root mean square difference of log gamma, of the mean over the runs ``kept``, to that of softmax along training."""

    def course(of: Heads, runs: Array | None) -> Array:
        return np.log((of.gamma if runs is None else of.gamma[:, runs]).mean(1)[1:])

    found = np.interp(softmax.steps[1:], h.steps[1:], course(h, kept))
    return float(np.sqrt(np.mean((found - course(softmax, of_softmax)) ** 2)))


def nearer(by_name: Mapping[str, Heads], softmax: Heads, kept: Mapping[str, Array] | None = None) -> float:
    """The distance of tanh's course to softmax's over that of the nearer polynomial; ``kept``: runs of a model, where not all."""
    kept = kept or {}
    affine, square, tanh = (
        course_distance(by_name[name], softmax, kept.get(name), kept.get("softmax")) for name in ACTIVATIONS
    )
    return tanh / min(affine, square)


def nearer_error(by_name: Mapping[str, Heads], softmax: Heads) -> float:
    """Its standard error over the runs of all four models, which are not paired: each in turn is left without one run."""
    errors = [
        jackknife(lambda kept, name=name: nearer(by_name, softmax, {name: kept}), np.arange(h.mu.shape[1]))
        for name, h in {**by_name, "softmax": softmax}.items()
    ]
    return float(np.linalg.norm(errors))


def dynamics_records(
    text: Mapping[str, Heads], softmax: Heads, code: Mapping[str, Heads], softmax_code: Heads
) -> Records:
    """Figure 4.2, the dynamics."""

    def peak(h: Heads) -> Array:
        return h.gamma.max(0) / h.settled(h.gamma)

    tanh, tanh_code = peak(text["tanh"]), peak(code["tanh"])
    return {
        "fig4.2/text/tanh_peak": tanh.tolist(),
        "fig4.2/text/tanh_peak_sd": run_sd(tanh),
        "fig4.2/text/tanh_distance": nearer(text, softmax),
        "fig4.2/text/tanh_distance_se": nearer_error(text, softmax),
        "fig4.2/code/tanh_peak": tanh_code.tolist(),
        "fig4.2/code/tanh_peak_sd": run_sd(tanh_code),
        "fig4.2/code/tanh_distance": nearer(code, softmax_code),
        "fig4.2/code/tanh_distance_se": nearer_error(code, softmax_code),
    }
