"""What the multi-task claims of he2025 (Figures 3.2 to 3.5) measure on settled two-task heads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .circuits import MultiHeads

#: Feature groups (own to task 1, shared, own to task 2) that each task uses, and the one it must not use.
USED, UNUSED = ((0, 1), (1, 2)), (2, 0)
#: A head serves a task when its mu there is above this share of the run's largest.
SERVES = 0.1

Values = dict[str, list[float]]


def pattern(by_h: Mapping[int, MultiHeads]) -> dict[str, list[np.ndarray]]:
    """The global pattern: everything beside the diagonals over the diagonals, the worst active head of each run ``(R,)``, by head count."""
    return {
        name: [np.where(h.active, getattr(h, name), 0.0).max(-1) for h in by_h.values()]
        for name in ("kq_deviation", "ov_deviation")
    }


def one_head(heads: MultiHeads) -> Values:
    """Figure 3.2: shared features weigh more than own ones, both tasks alike; a value per run."""
    omega, mu = heads.by_group()[:, 0], heads.mu[:, 0]  # (R, 3), (R, 2)
    own = omega[:, [0, 2]].mean(-1)
    return {
        "shared_over_own": (omega[:, 1] / own).tolist(),
        "omega_own": (
            own * np.sign(mu[:, 0])
        ).tolist(),  # omega and mu of one head may both be negative: same predictor
        "mu_difference": (np.abs(mu[:, 0] - mu[:, 1]) / np.abs(mu).mean(-1)).tolist(),
    }


def two_heads(heads: MultiHeads, single: MultiHeads) -> Values:
    """Figure 3.3: opposite heads, shared features above own ones, both small against one head; a value per run."""
    omega = heads.by_group()  # (R, 2, 3)
    positive = np.take_along_axis(omega, omega.mean(-1).argmax(1)[:, None, None], 1)[:, 0]  # (R, 3)
    own = positive[:, [0, 2]].mean(-1)
    return {
        "asymmetry": (np.abs(omega.sum(1)).mean(-1) / np.abs(omega).mean((1, 2))).tolist(),
        "shared_over_own": (positive[:, 1] / own).tolist(),
        "omega_own": own.tolist(),
        "over_single": (positive[:, 1] / np.abs(single.by_group()[:, 0, 1])).tolist(),
    }


def three_heads(heads: MultiHeads) -> Values:
    """Figure 3.5: heads that serve both tasks with opposite signs (a count per run), and the sums of mu omega."""
    size = np.abs(heads.mu)  # (R, 3, 2)
    serves = size.min(-1) > SERVES * size.max((1, 2))[:, None]
    sums = heads.transfer()  # (R, 2, 3)
    return {
        "opposite_heads": (serves & (heads.mu.prod(-1) < 0)).sum(-1).tolist(),
        "sum_on": np.concatenate([sums[:, n, USED[n]].ravel() for n in (0, 1)]).tolist(),
        "sum_off": np.concatenate([sums[:, n, UNUSED[n]] for n in (0, 1)]).tolist(),
    }


def four_heads(heads: MultiHeads) -> Values:
    """Figure 3.4: one head of each sign for each task, with the task's support in KQ; worst head, or a value per run and cell."""
    size = np.abs(heads.mu)  # (R, 4, 2)
    task = size.argmax(-1)  # (R, 4)
    omega = np.abs(heads.by_group())  # (R, 4, 3)
    own = np.where(task == 0, omega[..., 0], omega[..., 2])
    off = np.where(task == 0, omega[..., 2], omega[..., 0])
    sign = np.sign(np.take_along_axis(heads.mu, task[..., None], -1)[..., 0])
    cells = [((task == n) & (sign == s)).sum(-1) for n in (0, 1) for s in (1, -1)]  # each (R,)
    sums = heads.transfer()
    return {
        "mu_leak": (size.min(-1) / size.max(-1)).max(-1).tolist(),
        "support_leak": (off / ((omega[..., 1] + own) / 2)).max(-1).tolist(),
        "heads_per_cell": np.ravel(cells).tolist(),
        "mu_omega": np.concatenate([sums[:, n, USED[n]].mean(-1) for n in (0, 1)]).tolist(),
    }
