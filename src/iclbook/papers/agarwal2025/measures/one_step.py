"""Figure 1 of agarwal2025 as a real step of a toy run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..runs.toy import Ensemble, descend
from ..theory import Weights, advantage, compatibility, every_gradient, forward, updates, upstream
from .toy import share_of


@dataclass(frozen=True)
class OneStep:
    """One step of one run, at the helped pair (i, j), ``A_ij > 0``, with the largest ``alpha_ij |u_i|``; vectors are ``(2,)``. ``dloss`` and ``dadvantage`` are
    pairs: when ``v_j`` alone moves, and when all weights take the step."""

    i: int
    j: int
    v: np.ndarray
    dv: np.ndarray
    u_bar: np.ndarray
    u_i: np.ndarray
    g: np.ndarray
    dg: np.ndarray
    alpha: float
    dloss: tuple[float, float]
    dadvantage: tuple[float, float]


def one_step(run: Ensemble, r: int, step: int, rate: float, bias: bool = False) -> OneStep:
    """The step at this rate from these weights; ``bias``: whether the bias takes it too."""
    w = Weights(*[p[r] for p in run.weights[step]])
    x, y = run.x[r], run.y[r]
    f = forward(x, w)
    u = upstream(f.p, y, w.W_O)
    a = advantage(f.alpha, compatibility(u, f.v))
    i, j = np.unravel_index(int((f.alpha * u.norm(dim=-1)[:, None] * (a > 0)).argmax()), f.alpha.shape)
    dv = updates.value_step(f.alpha, u, rate)
    v = f.v.clone()
    v[j] += dv[j]
    g = f.alpha @ v
    logits = g @ w.W_O.mT + w.b
    own_u = upstream(logits.softmax(-1), y, w.W_O)
    _, d = every_gradient(x, y, w)
    later = descend(w, d, rate, bias)
    h = forward(x, later)
    later_u = upstream(h.p, y, later.W_O)
    grown = [
        float(advantage(alpha, compatibility(t, values))[i, j] - a[i, j])
        for alpha, t, values in ((f.alpha, own_u, v), (h.alpha, later_u, h.v))
    ]
    before = f.logits.log_softmax(-1)[i, y[i]]
    changed = [float(before - o.log_softmax(-1)[i, y[i]]) for o in (logits, h.logits)]
    return OneStep(
        int(i),
        int(j),
        f.v[j].numpy(),
        dv[j].numpy(),
        (f.alpha.mT @ u)[j].numpy(),
        u[i].numpy(),
        f.g[i].numpy(),
        (g - f.g)[i].numpy(),
        float(f.alpha[i, j]),
        (changed[0], changed[1]),
        (grown[0], grown[1]),
    )


def one_step_values(run: Ensemble, rate: float, trained: Ensemble, trained_rate: float) -> dict[str, float]:
    """Figure 1's claims: shares over all runs, each at its own steepest step. ``trained``: the runs whose bias is trained, and their rate."""
    every = [one_step(run, k, steepest(run, k), rate) for k in range(run.loss.shape[1])]
    whole = [
        one_step(trained, k, steepest(trained, k), trained_rate, True) for k in range(trained.loss.shape[1])
    ]
    return {
        **share_of([s.dloss[0] < 0 for s in every], "fig1/loss_own", "fig1/loss_own_se"),
        **share_of([s.dadvantage[0] > 0 for s in every], "fig1/reinforced_own", "fig1/reinforced_own_se"),
        **share_of([s.dloss[1] < 0 for s in every], "fig1/loss_all", "fig1/loss_all_se"),
        **share_of([s.dadvantage[1] > 0 for s in every], "fig1/reinforced_all", "fig1/reinforced_all_se"),
        **share_of([s.dloss[1] < 0 for s in whole], "fig1/loss_bias", "fig1/loss_bias_se"),
        **share_of([s.dadvantage[1] > 0 for s in whole], "fig1/reinforced_bias", "fig1/reinforced_bias_se"),
    }


def steepest(run: Ensemble, r: int) -> int:
    """The step before the largest fall of the loss."""
    return int(np.argmax(-np.diff(run.loss[:, r])))
