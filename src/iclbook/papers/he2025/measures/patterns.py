"""What trained circuits look like in he2025: Figures 1, 2.1 to 2.3, 2.6 and 2.8, Key Findings 1, 2 and 4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....models import Attention
from ....statistics import prediction
from ....store import Results
from ....training.study import Study
from .. import theory
from .circuits import Heads, read_heads, spread
from .sampling import extremes_error, jackknife, run_sd

Records = dict[str, Any]


def _runs_of_both(results: Results, name: str) -> int:
    return int((~read_heads(results.group(name)).one_sided).sum())


def run_records(results: Results, study: Study) -> Records:
    """What the isotropic runs are, and how many of two, three and four heads end with both signs."""
    return {
        "runs/both_signs": [_runs_of_both(results, f"h{h}") for h in (2, 3, 4)],
        "runs/both_signs_coded": [_runs_of_both(results, f"code_h{h}") for h in (2, 3, 4)],
        "runs/steps": int(results["h2/steps"][-1]),
        "runs/seeds": results["h2/kq"].shape[1],
        "runs/models": len({key.split("/")[0] for key in results.arrays}),
        "runs/minutes": results.provenance["seconds"] / 60,
        "runs/device": {"cpu": "processor core", "cuda": "GPU"}[results.provenance["device"]],
        "runs/rate": study.groups[0].runs[0].rate,
        "runs/batch": study.batch_size,
        "noise/variance": study.data.noise_var,
    }


@dataclass(frozen=True)
class Example:
    """An untrained two-head model on random prompts.

    Attributes:
        kq, ov: ``(H, D, D)`` circuits, all rows of OV among them.
        context: ``(L, D, B)`` tokens.
        query: ``(d, B)``.
    """

    kq: Tensor
    ov: Tensor
    context: Tensor
    query: Tensor

    @property
    def query_token(self) -> Tensor:
        """``(D, B)``, its response 0."""
        return torch.cat([self.query, torch.zeros_like(self.query[:1])])

    def predict(self, kq: Tensor, ov: Tensor) -> Tensor:
        """The paper's matrix form with all of KQ and OV ``(B,)``: every output of the query's column, of which the last is read."""
        weights = torch.softmax(torch.einsum("ldb,hde,eb->hlb", self.context, kq, self.query_token), 1)
        return torch.einsum("hde,leb,hlb->db", ov, self.context, weights)[-1]

    def change(self, kq_columns: slice, ov_rows: slice, dice: torch.Generator) -> float:
        """Largest change of a prediction when these columns of KQ and rows of OV are drawn anew."""
        kq, ov = self.kq.clone(), self.ov.clone()
        for circuit, at in ((kq, (slice(None), slice(None), kq_columns)), (ov, (slice(None), ov_rows))):
            circuit[at] = torch.randn(circuit[at].shape, generator=dice, dtype=circuit.dtype)
        return (self.predict(kq, ov) - self.predict(self.kq, self.ov)).abs().max().item()


def example(d: int, L: int, dice: torch.Generator, prompts: int = 256) -> Example:
    """Two heads as PyTorch initialises them."""
    model = Attention(d, n_heads=2)
    model.initialise(torch.Generator().manual_seed(0))
    context = torch.randn(L, d + 1, prompts, generator=dice).double()
    query = torch.randn(d, prompts, generator=dice).double()
    ov = (model.output @ model.value).detach().double()
    return Example(model.circuits()["kq"].detach().double(), ov, context, query)


def effective_entries(example: Example, dice: torch.Generator) -> Records:
    """Figure 1."""
    d = len(example.query)
    return {
        "fig1/ineffective_change": example.change(slice(d, None), slice(0, d), dice),
        "fig1/effective_change": example.change(slice(0, d), slice(d, None), dice),
    }


def one_head(text: Heads, code: Heads) -> Records:
    """Figure 2.1, a value per run."""

    def first(h: Heads, values: np.ndarray) -> list[float]:
        return h.settled(values)[:, 0].tolist()

    return {
        "fig2.1/text/kq_deviation": first(text, text.kq_deviation),
        "fig2.1/text/ov_deviation": first(text, text.ov_deviation),
        "fig2.1/text/omega_mu": first(text, text.omega * text.mu),
        "fig2.1/code/kq_deviation": first(code, code.kq_deviation),
        "fig2.1/code/ov_deviation": first(code, code.ov_deviation),
        "fig2.1/code/omega_mu": first(code, code.omega * code.mu),
    }


def two_heads(text: Heads, code: Heads) -> Records:
    """Figure 2.2, a value per run (and head)."""
    (omega, mu), (omega_code, mu_code) = ((h.settled(h.omega), h.settled(h.mu)) for h in (text, code))
    return {
        "fig2.2/text/omega_product": omega.prod(-1).tolist(),
        "fig2.2/text/omega_mu": (omega * mu).ravel().tolist(),
        "fig2.2/text/omega_spread": spread(np.abs(omega)).tolist(),
        "fig2.2/text/mu_spread": spread(np.abs(mu)).tolist(),
        "fig2.2/code/omega_product": omega_code.prod(-1).tolist(),
        "fig2.2/code/omega_mu": (omega_code * mu_code).ravel().tolist(),
        "fig2.2/code/omega_spread": spread(np.abs(omega_code)).tolist(),
        "fig2.2/code/mu_spread": spread(np.abs(mu_code)).tolist(),
    }


def asymmetry(h: Heads, values: np.ndarray) -> list[float]:
    """Largest ``|sum| / mean | |`` of the heads' values ``(T, R, H)`` after the first tenth of training, a value per run."""
    late = h.steps >= 0.1 * h.steps[-1]
    return (np.abs(values.sum(-1)) / np.abs(values).mean(-1))[late].max(0).tolist()


def mirror(text: Heads, code: Heads) -> Records:
    """Figure 2.3."""
    return {
        "fig2.3/text/omega_asymmetry": asymmetry(text, text.omega),
        "fig2.3/text/mu_asymmetry": asymmetry(text, text.mu),
        "fig2.3/code/omega_asymmetry": asymmetry(code, code.omega),
        "fig2.3/code/mu_asymmetry": asymmetry(code, code.mu),
    }


def pattern_share(h: Heads) -> list[float]:
    """Share of training after which both patterns are kept to the end, a value per run; 1 where they never are."""
    first = theory.first_kept(h.steps, h.patterned(0.2))  # (R,), twice the final bound: single iterates
    return (np.nan_to_num(first, nan=h.steps[-1]) / h.steps[-1]).tolist()


def early(text: Heads, code: Heads) -> Records:
    """Figure 2.6."""
    return {
        "fig2.6/text/pattern_share": pattern_share(text),
        "fig2.6/code/pattern_share": pattern_share(code),
    }


def finding_1(text: Mapping[int, Heads], code: Mapping[int, Heads]) -> Records:
    """Key Finding 1: deviations of the worst active head and run of each head count; signs of all active heads."""

    def worst(by_h: Mapping[int, Heads], of: str) -> list[np.ndarray]:
        return [h.settled(h.worst(getattr(h, of))) for h in by_h.values()]  # each (R,)

    def sign_share(by_h: Mapping[int, Heads]) -> float:
        matched = [(h.omega[-1] * h.mu[-1] > 0)[h.active] for h in by_h.values()]
        return float(np.concatenate(matched).mean())

    kq, ov = worst(text, "kq_deviation"), worst(text, "ov_deviation")
    kq_code, ov_code = worst(code, "kq_deviation"), worst(code, "ov_deviation")
    return {
        "kf1/kq_deviation": [float(runs.max()) for runs in kq],
        "kf1/kq_deviation_sd": [run_sd(runs) for runs in kq],
        "kf1/ov_deviation": [float(runs.max()) for runs in ov],
        "kf1/ov_deviation_sd": [run_sd(runs) for runs in ov],
        "kf1/sign_share": sign_share(text),
        "kf1/code/kq_deviation": [float(runs.max()) for runs in kq_code],
        "kf1/code/kq_deviation_sd": [run_sd(runs) for runs in kq_code],
        "kf1/code/ov_deviation": [float(runs.max()) for runs in ov_code],
        "kf1/code/ov_deviation_sd": [run_sd(runs) for runs in ov_code],
        "kf1/code/sign_share": sign_share(code),
    }


def finding_2(text: Mapping[int, Heads], code: Mapping[int, Heads]) -> Records:
    """Key Finding 2: the worst run of each head count."""

    def spreads(by_h: Mapping[int, Heads]) -> list[np.ndarray]:
        return [theory.scale_spread(h.settled(h.omega), h.settled(h.mu)) for h in by_h.values()]  # each (R,)

    def sums(by_h: Mapping[int, Heads]) -> list[np.ndarray]:
        return [theory.zero_sum(h.settled(h.mu)) for h in by_h.values()]

    omega, mu, omega_code, mu_code = spreads(text), sums(text), spreads(code), sums(code)
    return {
        "kf2/omega_spread": [float(runs.max()) for runs in omega],
        "kf2/omega_spread_sd": [run_sd(runs) for runs in omega],
        "kf2/zero_sum": [float(runs.max()) for runs in mu],
        "kf2/zero_sum_sd": [run_sd(runs) for runs in mu],
        "kf2/code/omega_spread": [float(runs.max()) for runs in omega_code],
        "kf2/code/omega_spread_sd": [run_sd(runs) for runs in omega_code],
        "kf2/code/zero_sum": [float(runs.max()) for runs in mu_code],
        "kf2/code/zero_sum_sd": [run_sd(runs) for runs in mu_code],
    }


def peak(h: Heads) -> np.ndarray:
    """Largest gamma along training over the settled one ``(R,)``."""
    return h.gamma.max(0) / h.settled(h.gamma)


def fall(h: Heads) -> np.ndarray:
    """Largest fall of the sum of positive mu below its running maximum, over where it settles.

    Of the runs that end with a positive head; another has no sum that could fall.
    """
    rise, end = h.positive_mu, h.settled(h.positive_mu)
    some = end > 0
    return (np.maximum.accumulate(rise) - rise).max(0)[some] / end[some]


def _spread_of_means(values: list[np.ndarray]) -> tuple[float, float]:
    """Largest over smallest mean ``(R,)`` of each head count, less 1, and its standard error."""
    means = [runs.mean() for runs in values]
    return float(max(means) / min(means) - 1), extremes_error(values)


def limits(text: Mapping[int, Heads], code: Mapping[int, Heads]) -> Records:
    """Figure 2.8: courses of every run of two, three and four heads, and how far apart their limits are."""
    peaks, falls = ([f(h) for h in text.values()] for f in (peak, fall))
    peaks_code, falls_code = ([f(h) for h in code.values()] for f in (peak, fall))
    gamma, gamma_code = ([h.settled(h.gamma) for h in by_h.values()] for by_h in (text, code))  # each (R,)
    mu, mu_code = ([h.settled(h.positive_mu) for h in by_h.values()] for by_h in (text, code))
    spreads = [_spread_of_means(values) for values in (gamma, mu, gamma_code, mu_code)]
    return {
        "fig2.8/text/peak_over_final": np.concatenate(peaks).tolist(),
        "fig2.8/text/peak_over_final_sd": run_sd(*peaks),
        "fig2.8/text/mu_fall": np.concatenate(falls).tolist(),
        "fig2.8/text/mu_fall_sd": run_sd(*falls),
        "fig2.8/code/peak_over_final": np.concatenate(peaks_code).tolist(),
        "fig2.8/code/peak_over_final_sd": run_sd(*peaks_code),
        "fig2.8/code/mu_fall": np.concatenate(falls_code).tolist(),
        "fig2.8/code/mu_fall_sd": run_sd(*falls_code),
        "fig2.8/text/gamma_spread": spreads[0][0],
        "fig2.8/text/gamma_spread_se": spreads[0][1],
        "fig2.8/text/mu_spread": spreads[1][0],
        "fig2.8/text/mu_spread_se": spreads[1][1],
        "fig2.8/code/gamma_spread": spreads[2][0],
        "fig2.8/code/gamma_spread_se": spreads[2][1],
        "fig2.8/code/mu_spread": spreads[3][0],
        "fig2.8/code/mu_spread_se": spreads[3][1],
        "fig2.8/text/gammas": [float(runs.mean()) for runs in gamma],
    }


def finding_4(by_h: Mapping[int, Heads], census: Heads) -> Records:
    """Key Finding 4: the latest pattern and the courses of all runs, and gamma over the two-sided runs of two heads in the census."""
    shares = [pattern_share(h) for h in by_h.values()]
    peaks, falls = ([f(h) for h in by_h.values()] for f in (peak, fall))
    worst = max(shares, key=max)
    gammas = census.gamma[-1][~theory.one_sided(census.omega[-1], census.mu[-1])]
    values: Records = {
        "kf4/pattern_share": max(worst),
        "kf4/pattern_share_sd": run_sd(worst),
        "kf4/peak_over_final": np.concatenate(peaks).tolist(),
        "kf4/peak_over_final_sd": run_sd(*peaks),
        "kf4/mu_fall": np.concatenate(falls).tolist(),
        "kf4/mu_fall_sd": run_sd(*falls),
    }
    if len(gammas):  # else nothing to measure
        values["kf4/gamma_cv"] = float(gammas.std() / gammas.mean())
        values["kf4/gamma_cv_se"] = jackknife(lambda g: float(g.std() / g.mean()), gammas)
    return values


def eight_heads(eight: Heads, two: Heads, error: np.ndarray, error_of_two: np.ndarray) -> Records:
    """Eight heads of one seed against two; errors ``(n,)`` by length."""
    omega, mu = eight.settled(eight.omega)[0], eight.settled(eight.mu)[0]  # (8,)
    return {
        "eight/omega_spread": float(theory.scale_spread(omega, mu)),
        "eight/spike": float(np.abs(omega).max() / two.settled(two.gamma).mean()),
        "eight/error_gap": float(np.abs(error / error_of_two - 1).max()),
    }


def scales(text: Heads, code: Heads) -> Records:
    """Where two heads settle under either reading of the scores, a value per run; their mean, and how far from it one printed run is expected."""

    def half(runs: np.ndarray, rounding: float) -> float:
        """Half of the prediction interval of one more run, and half a unit of the last printed digit."""
        return (prediction(runs, of=1).high - float(runs.mean()) if len(runs) > 1 else 0.0) + rounding

    (gamma, mu), (gamma_code, mu_code) = (
        (h.settled(h.gamma), h.settled(h.positive_mu)) for h in (text, code)
    )
    return {
        "scale/text/gammas": gamma.tolist(),
        "scale/text/gamma": float(gamma.mean()),
        "scale/text/gamma_half": half(gamma, 0.005),
        "scale/text/mus": mu.tolist(),
        "scale/text/mu": float(mu.mean()),
        "scale/text/mu_half": half(mu, 0.05),
        "scale/code/gammas": gamma_code.tolist(),
        "scale/code/gamma": float(gamma_code.mean()),
        "scale/code/gamma_half": half(gamma_code, 0.005),
        "scale/code/mus": mu_code.tolist(),
        "scale/code/mu": float(mu_code.mean()),
        "scale/code/mu_half": half(mu_code, 0.05),
    }
