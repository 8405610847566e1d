"""How sure the values over seeds are: standard errors of stochastic training (recall2025, Figures 1 and 4, and the whole model)."""

from __future__ import annotations

import numpy as np

from ....statistics import bootstrap_error, share_error


def share_errors(shares: dict[str, float], seeds: int) -> dict[str, float]:
    """Standard error of each share of independent seeds, under its name with ``_se``."""
    return {f"{name}_se": share_error(round(share * seeds), seeds) for name, share in shares.items()}


def largest_final_loss(losses: list[np.ndarray]) -> dict[str, float]:
    """The largest loss at the last record of several models, each ``(T, seeds)``, with its standard error: seeds are drawn again, alike in all models."""
    last = np.stack([loss[-1] for loss in losses], -1)  # (seeds, models)
    return {"full/free_loss": float(last.max()), "full/free_loss_se": bootstrap_error(np.max, last)}
