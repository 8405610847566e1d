"""What the toy simulation of agarwal2025, section 7.1, shows: over initial scales and rates, and at the settings that are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from ....statistics import bootstrap_error, share_error, standard_error
from ..runs.toy import RATES, SCALES, TASK, UNIFORM, Ensemble, ends, is_sharp, is_smooth


def grid(swept: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Over initial scales and rates ``(scales, rates)``, of what :func:`sweep` returns: shares of runs that sharpen (``share``), whose loss decays smoothly
    (``smooth``), and of both in one run (``both``); ``start``, mean effective positions before training. ``sharp``: which seeds sharpen, ``(seeds, scales,
    rates)``."""
    sharp, calm = is_sharp(swept), is_smooth(swept)
    start = np.repeat(swept["start"].mean(0)[:, None], len(RATES), 1)
    found = {"share": sharp.mean(0), "smooth": calm.mean(0), "both": (sharp & calm).mean(0), "start": start}
    return found | {"sharp": sharp}


def chosen_setting(found: dict[str, np.ndarray]) -> tuple[float, float]:
    """Scale and rate at which most runs sharpen along a loss that decays smoothly, as figures 2 to 4 show together, among settings that start near uniform;
    the first of equals. A rule, not an eye."""
    share = np.where(found["start"] >= UNIFORM * TASK.T, found["both"], -1.0)
    a, b = np.unravel_index(int(share.argmax()), share.shape)
    return SCALES[a], RATES[b]


def typical(run: Ensemble) -> int:
    """The run whose final loss and final effective number of positions are together closest (in ranks) to their medians over the runs that sharpen."""
    among = np.flatnonzero(is_sharp(ends(run)) & is_smooth(ends(run)))
    among = among if len(among) else np.arange(run.loss.shape[1])
    ranks = [np.abs(v[-1, among].argsort().argsort() / len(among) - 0.5) for v in (run.loss, run.positions)]
    return int(among[np.argmin(ranks[0] + ranks[1])])


def smallest_scale(share: np.ndarray) -> float:
    """Smallest initial scale at which half of the runs sharpen, of shares ``(scales,)``; the largest of the grid where none is enough."""
    half = (share >= 0.5).nonzero()[0]
    return SCALES[half[0]] if len(half) else SCALES[-1]


def grid_values(frozen: dict[str, np.ndarray], trained: dict[str, np.ndarray]) -> dict[str, object]:
    """The settings that are chosen, and what the question about the initial scale records: at the chosen rate, over the seeds of the grid."""
    settings = chosen_setting(frozen), chosen_setting(trained)
    (sharp, sharp_trained), below = (
        [
            found["sharp"][..., RATES.index(rate)]
            for found, (_, rate) in zip((frozen, trained), settings, strict=True)
        ],
        SCALES.index(1.0),
    )
    return {
        "toy/seeds": len(sharp),
        "toy/scale": [scale for scale, _ in settings],
        "toy/rate": [rate for _, rate in settings],
        "scale/frozen": smallest_scale(sharp.mean(0)),
        "scale/frozen_se": bootstrap_error(lambda kept: smallest_scale(kept.mean(0)), sharp),
        "scale/trained": smallest_scale(sharp_trained.mean(0)),
        "scale/trained_se": bootstrap_error(lambda kept: smallest_scale(kept.mean(0)), sharp_trained),
        "scale/shares_frozen": sharp.mean(0).tolist(),
        "scale/shares_trained": sharp_trained.mean(0).tolist(),
        "toy/stated_rate": [float(found["share"][:below, 0].max()) for found in (frozen, trained)],
    }


#: Keys of each number of :func:`at_setting` for the two readings of equation 7: its bias frozen at 0, and trained.
KEYS = {
    "sharp": ("fig2-3/frozen", "fig2-3/trained"),
    "sharp_se": ("fig2-3/frozen_se", "fig2-3/trained_se"),
    "both": ("fig2-3/frozen_both", "fig2-3/trained_both"),
    "both_se": ("fig2-3/frozen_both_se", "fig2-3/trained_both_se"),
    "smooth": ("fig4/frozen", "fig4/trained"),
    "smooth_se": ("fig4/frozen_se", "fig4/trained_se"),
    "gain": ("fig4/frozen_gain", "fig4/trained_gain"),
    "gain_se": ("fig4/frozen_gain_se", "fig4/trained_gain_se"),
    "rank": ("fig5/frozen", "fig5/trained"),
    "rank_se": ("fig5/frozen_se", "fig5/trained_se"),
    "shuffled": ("fig5/frozen_shuffled", "fig5/trained_shuffled"),
}


def figure_values(frozen: Ensemble, trained: Ensemble) -> dict[str, object]:
    """Figures 2 to 5 at the ONE setting that was chosen for each reading, over seeds that had no part in the choice."""
    every = [at_setting(run) for run in (frozen, trained)]
    found: dict[str, object] = {
        key: own[name] for name, keys in KEYS.items() for key, own in zip(keys, every, strict=True)
    }
    return found | {
        "fig4/window": [own["window"] for own in every],
        "fig5/pc1": [own["pc1"] for own in every],
    }


def at_setting(run: Ensemble) -> dict[str, float]:
    """Shares of the runs that sharpen, do so along a smooth loss, and have a smooth loss; medians of :func:`gains`; and :func:`ranks`."""
    sharp, calm = is_sharp(ends(run)), is_smooth(ends(run))
    gain, window = gains(run)
    own, shuffled = ranks(run)
    return {
        **share_of(sharp, "sharp", "sharp_se"),
        **share_of(sharp & calm, "both", "both_se"),
        **share_of(calm, "smooth", "smooth_se"),
        **_middle(gain, "gain", "gain_se"),
        "window": float(np.median(window)) if len(window) else float("nan"),
        "rank": float(own.mean()),
        "shuffled": float(shuffled.mean()),
        "rank_se": float(np.hypot(standard_error(own), standard_error(shuffled))),  # of the difference
        "pc1": float(np.median(first_shares(run))),
    }


def share_of(happens: Sequence[bool] | np.ndarray, key: str, error: str) -> dict[str, float]:
    """Share of the runs in which something happens, and its standard error."""
    return {key: float(np.mean(happens)), error: share_error(int(np.sum(happens)), len(happens))}


def _middle(values: np.ndarray, key: str, error: str) -> dict[str, float]:
    """Median over runs and its standard error; not a number where no run counts."""
    if not len(values):
        return {key: float("nan"), error: float("nan")}
    return {key: float(np.median(values)), error: bootstrap_error(np.median, values)}


def gains(run: Ensemble) -> tuple[np.ndarray, np.ndarray]:
    """In the runs that sharpen: share of the fall that comes while specialisation goes from a tenth to nine tenths of its way, and the share of the steps
    which that takes, ``(runs,)`` each."""
    gain, window = [], []
    for r in np.flatnonzero(is_sharp(ends(run))):
        way = (run.positions[0, r] - run.positions[:, r]) / (run.positions[0, r] - run.positions[-1, r])
        first, last = np.argmax(way >= 0.1), np.argmax(way >= 0.9)
        fall = run.loss[0, r] - run.loss[-1, r]
        gain.append((run.loss[first, r] - run.loss[last, r]) / fall)
        window.append((last - first) / (len(run.loss) - 1))
    return np.array(gain), np.array(window)


def value_paths(run: Ensemble, r: int) -> np.ndarray:
    """Values of run ``r`` along training, ``(STEPS + 1, T, d_v)``."""
    return np.array([(run.x[r] @ w.W_V[r].mT).numpy() for w in run.weights])


def displacements(run: Ensemble) -> np.ndarray:
    """From where to where each value has moved, ``(R, T, 2)``."""
    return (run.x @ (run.weights[-1].W_V - run.weights[0].W_V).mT).numpy()


def first_shares(run: Ensemble) -> np.ndarray:
    """Share of the first principal component in the values' displacements of every run ``(R,)``."""
    return _first(displacements(run))


def _first(moves: np.ndarray) -> np.ndarray:
    """Of displacements ``(..., T, 2)``: with them as complex numbers ``z_j``, the two eigenvalues of their Gram matrix differ by ``|sum z_j^2|``."""
    z = moves[..., 0] + 1j * moves[..., 1]
    return (1 + np.abs((z**2).sum(-1)) / (np.abs(z) ** 2).sum(-1)) / 2


def ranks(run: Ensemble, draws: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Figure 5 as a distribution: share of ``draws`` motions of a run's own lengths in independent directions that are less aligned than its own, ``(R,)``.

    Uniform on [0, 1] where values do not move together. The second array is the control: motions put together from ``T`` different runs.
    """
    moves = displacements(run)
    rng = np.random.default_rng(0)
    R, T, _ = moves.shape
    # value j comes from the run j places further on, so that no two values of a motion share a run
    shuffled = np.stack([moves[(np.arange(R) + j) % R, j] for j in range(T)], 1)
    found = []
    for own in (moves, shuffled):
        squares, aligned = (own**2).sum(-1), 2 * _first(own) - 1  # (R, T), (R,)
        less = []
        for l2, own_share in zip(squares, aligned, strict=True):
            angles = torch.from_numpy(2 * rng.uniform(0, 2 * np.pi, (draws, T)))  # of squared complex motions
            drawn = np.hypot(angles.cos().numpy() @ l2, angles.sin().numpy() @ l2) / l2.sum()
            less.append((drawn < own_share).mean())
        found.append(np.array(less))
    return found[0], found[1]
