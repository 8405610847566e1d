"""Figure 1 of agarwal2025 as a real step of a toy run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..runs.toy import Ensemble, descend
from ..theory import Weights, advantage, compatibility, every_gradient, forward, losses, updates, upstream
from .toy import share_of


@dataclass(frozen=True)
class OneStep:
    """One step of one run, at the helped pair (i, j), ``A_ij > 0``, with the largest ``alpha_ij |u_i|``; vectors are ``(2,)``. ``dloss`` and ``dadvantage`` are
    pairs: when ``v_j`` alone moves, and when all weights take the step. Of several runs, everything has a leading axis ``(R, ...)``."""

    i: np.ndarray
    j: np.ndarray
    v: np.ndarray
    dv: np.ndarray
    u_bar: np.ndarray
    u_i: np.ndarray
    g: np.ndarray
    dg: np.ndarray
    alpha: np.ndarray
    dloss: np.ndarray
    dadvantage: np.ndarray


def steps_of(run: Ensemble, runs: Sequence[int], steps: Sequence[int], rate: float, bias: bool) -> OneStep:
    """A step at this rate of each of these runs, from its weights at its entry of ``steps``; ``bias``: whether the bias takes it too."""
    every = [[p[r] for p in run.weights[step]] for r, step in zip(runs, steps, strict=True)]
    w = Weights(*map(torch.stack, zip(*every, strict=True)))
    x, y = run.x[list(runs)], run.y[list(runs)]
    f = forward(x, w)
    u = upstream(f.p, y, w.W_O)
    a = advantage(f.alpha, compatibility(u, f.v))
    most = (f.alpha * u.norm(dim=-1)[..., None] * (a > 0)).flatten(1).argmax(1)
    i, j, at = most // x.shape[1], most % x.shape[1], torch.arange(len(x))
    dv = updates.value_step(f.alpha, u, rate)
    v = f.v.clone()
    v[at, j] += dv[at, j]
    g = f.alpha @ v
    logits = g @ w.W_O.mT + w.b[:, None]
    own_u = upstream(logits.softmax(-1), y, w.W_O)
    _, d = every_gradient(x, y, w)
    later = descend(w, d, rate, bias)
    h = forward(x, later)
    later_u = upstream(h.p, y, later.W_O)
    grown = [
        (advantage(alpha, compatibility(t, values)) - a)[at, i, j]
        for alpha, t, values in ((f.alpha, own_u, v), (h.alpha, later_u, h.v))
    ]
    changed = [(losses(o, y) - losses(f.logits, y))[at, i] for o in (logits, h.logits)]
    found = (i, j, f.v[at, j], dv[at, j], (f.alpha.mT @ u)[at, j], u[at, i], f.g[at, i], (g - f.g)[at, i])
    pairs = torch.stack(changed, -1), torch.stack(grown, -1)
    return OneStep(*(t.numpy() for t in (*found, f.alpha[at, i, j], *pairs)))


def one_step(run: Ensemble, r: int, step: int, rate: float, bias: bool = False) -> OneStep:
    """The step of one run at this rate from these weights; ``bias``: whether the bias takes it too."""
    return OneStep(*(part[0] for part in vars(steps_of(run, [r], [step], rate, bias)).values()))


def one_step_values(run: Ensemble, rate: float, trained: Ensemble, trained_rate: float) -> dict[str, float]:
    """Figure 1's claims: shares over all runs, each at its own steepest step. ``trained``: the runs whose bias is trained, and their rate."""
    every, whole = (
        steps_of(of, range(count), [steepest(of, r) for r in range(count)], at_rate, bias)
        for of, at_rate, bias in ((run, rate, False), (trained, trained_rate, True))
        for count in (of.loss.shape[1],)
    )
    return {
        **share_of(every.dloss[:, 0] < 0, "fig1/loss_own", "fig1/loss_own_se"),
        **share_of(every.dadvantage[:, 0] > 0, "fig1/reinforced_own", "fig1/reinforced_own_se"),
        **share_of(every.dloss[:, 1] < 0, "fig1/loss_all", "fig1/loss_all_se"),
        **share_of(every.dadvantage[:, 1] > 0, "fig1/reinforced_all", "fig1/reinforced_all_se"),
        **share_of(whole.dloss[:, 1] < 0, "fig1/loss_bias", "fig1/loss_bias_se"),
        **share_of(whole.dadvantage[:, 1] > 0, "fig1/reinforced_bias", "fig1/reinforced_bias_se"),
    }


def steepest(run: Ensemble, r: int) -> int:
    """The step before the largest fall of the loss."""
    return int(np.argmax(-np.diff(run.loss[:, r])))
