"""The dynamics when simplifications A0 to A3 are lifted (recall2025, appendix A.2 and A.6, "Generalizations of the simple model")."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap

from ....models import RecallTransformer
from ....tasks import AssociativeRecall
from ....training import Flow, gradient_flow
from .. import theory
from ..theory.relaxed import gradient_of
from .first_jump import R
from .stages import ACTIVE, Values

ORDER = 3
Run = dict[str, np.ndarray]


def exact_loss(s: torch.Tensor, n_responses: int) -> torch.Tensor:
    """Population dot-product loss of the weights ``(n!, n!)`` that every query gives the responses: with A1 they do not depend on the map f, so the mean over
    f is closed."""
    right = s.diagonal()
    return 1 - (right + (s.sum(-1) - right) / n_responses).mean()


def every_query(model: RecallTransformer) -> torch.Tensor:
    """Tokens ``(n!, l)`` of one sequence for every query."""
    task = AssociativeRecall(model.order, model.n_responses)
    queries = np.arange(task.n_permutations)
    return torch.tensor(task.sequences(queries, np.zeros((len(queries), len(queries)), dtype=int)))


def flow_of(
    model: RecallTransformer,
    betas: tuple[float, ...],
    until: float,
    event: Callable[[RecallTransformer], float] | None = None,
) -> Flow:
    """Exact gradient flow of a model with A1 from ``w = 0`` and these beta, ended where ``event`` passes zero if one is given."""

    def watch(theta: np.ndarray) -> float:
        load(model, theta)
        return event(model)

    return gradient_flow(
        gradient_of(model, every_query(model).numpy()),
        np.concatenate([np.zeros(model.w.numel()), betas]),
        until,
        events=[watch] if event else [],
        stop_at=0 if event else None,
        method="RK45",
        rtol=1e-6,
        atol=1e-10,
    )


def load(model: RecallTransformer, theta: np.ndarray) -> None:
    """Put the parameters ``(w, beta)`` of a flow into the model."""
    cut = model.w.numel()
    with torch.no_grad():
        model.w.copy_(torch.tensor(theta[:cut].reshape(model.w.shape)))
        model.beta.copy_(torch.tensor(theta[cut:]))


class _Watched(nn.Module):
    """What is seen of a model at one time, as one row: loss, mass, accuracy, then advantage and beta of the heads."""

    def __init__(self, model: RecallTransformer) -> None:
        super().__init__()
        self.model, self.tokens = model, every_query(model)

    def forward(self) -> torch.Tensor:
        s = self.model.response_weights(self.tokens)
        mass, right = s.sum(-1), s.diagonal()
        seen = [exact_loss(s, self.model.n_responses), mass.mean(), (right / mass).mean()]
        return torch.cat([torch.stack(seen), self.model.advantage(), self.model.beta])


def watched(model: RecallTransformer, flow: Flow) -> Run:
    """Along a flow, means over the queries.

    Returns:
        ``times (T,)``; ``loss (T,)``; ``mass (T,)``, second-layer attention on the responses; ``accuracy (T,)``, the share of it on the right one;
        ``normalised (T,)``, the loss of the output divided by its sum, as A.6 proposes; ``advantage (T, K)`` of the heads; ``beta (T, K)``.
    """
    cut, k, module = model.w.numel(), model.n_heads, _Watched(model)
    w, beta = (
        torch.tensor(flow.states[:, :cut]).unflatten(1, model.w.shape),
        torch.tensor(flow.states[:, cut:]),
    )

    def row(w: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        return functional_call(module, {"model.w": w, "model.beta": beta}, ())

    with torch.no_grad():
        table = vmap(row)(w, beta).numpy()
    return {
        "times": flow.times,
        "loss": table[:, 0],
        "mass": table[:, 1],
        "accuracy": table[:, 2],
        "normalised": (1 - 1 / model.n_responses) * (1 - table[:, 2]),
        "advantage": table[:, 3 : 3 + k],
        "beta": table[:, 3 + k :],
    }


def passing(times: np.ndarray, values: np.ndarray, level: float) -> float:
    """First time at which rising ``values`` reach ``level``, between records by a straight line; inf if never."""
    above = np.flatnonzero(values >= level)
    if not len(above) or not above[0]:
        return float(times[0]) if len(above) else np.inf
    i = above[0]
    part = (level - values[i - 1]) / (values[i] - values[i - 1])
    return float(times[i - 1] + part * (times[i] - times[i - 1]))


#: Initial beta of the heads, small and with the largest at 1/2.
SMALL, LARGE = (0.3, 0.1, 0.03), (0.5, 0.5 / 3, 0.05)


#: What is lifted -> whether A0, A2 and A3 are kept.
VARIANTS = {
    "".join(f" A{i}" for i, kept in zip((0, 2, 3), every, strict=True) if not kept).strip() or "none": every
    for every in product((True, False), repeat=3)
}


def variant(name: str, betas: tuple[float, ...] = SMALL, gamma: float = 0.0, wait: float = 30.0) -> Run:
    """One way to keep or lift A0, A2 and A3 on a task of order three with three heads, from these beta.

    Returns:
        what ``watched`` says, and ``jumps (2,)``, the times at which the normalised loss passes the middles between plateaus 0, 1 and 1, 2,
        and ``active (3,)``, those at which the heads become active; inf if never.
    """
    task, (a0, a2, a3) = AssociativeRecall(ORDER, R), VARIANTS[name]
    middles = [(task.plateau_dp(m) + task.plateau_dp(m + 1)) / 2 for m in (0, 1)]
    until = wait * theory.jump_limit(ORDER, R) / SMALL[0]
    far = 40  # a head that sees every earlier token starts from an attention this much weaker, and is waited for longer
    model = RecallTransformer(ORDER, R, ORDER, gamma, a0=a0, a2=a2, a3=a3)
    run = watched(model, flow_of(model, betas, until if a0 else far * until))
    run["jumps"] = np.array([passing(run["times"], -run["normalised"], -m) for m in middles])
    run["active"] = np.array([passing(run["times"], a, ACTIVE) for a in run["advantage"].T])
    return run


def lifted(betas: tuple[float, ...] = SMALL, gamma: float = 0.0) -> dict[str, Run]:
    """All eight variants, by what is lifted."""
    return {name: variant(name, betas, gamma) for name in VARIANTS}


def normalised_difference(seed: int = 0) -> float:
    """A.6's way without A3, a value matrix that reads responses only and an output divided by its sum, against A3: largest difference of the weights."""
    kept = RecallTransformer(ORDER, R, ORDER)
    free = RecallTransformer(ORDER, R, ORDER, a3=False)
    kept.initialise(torch.Generator().manual_seed(seed))
    free.load_state_dict(kept.state_dict())
    tokens = every_query(kept)
    with torch.no_grad():
        s = free.response_weights(tokens)
        return float((s / s.sum(-1, keepdim=True) - kept.response_weights(tokens)).abs().max())


def time_scale_without_window(epsilons: tuple[float, ...] = (0.1, 0.03, 0.01)) -> Values:
    """A0 lifted: time at which the only head becomes active from ``beta_1 = eps``, and its exponent in eps over the last two."""
    times = []
    for eps in epsilons:
        model = RecallTransformer(ORDER, R, ORDER, a0=False)
        until = 1000 * theory.jump_limit(ORDER, R) / eps
        flow = flow_of(model, (eps, 0.0, 0.0), until, lambda m: float(m.advantage()[0].detach()) - ACTIVE)
        times.append(flow.first())
    slope = np.log(times[-1] / times[-2]) / np.log(epsilons[-1] / epsilons[-2])
    return {"noA0/exponent": float(slope)}


#: Keys of how many variants keep two jumps of the loss, and two activations, apart: with one simplification lifted (of 3), with more (of 4).
READING_KEYS = {
    "gamma_zero": ("full/single", "full/joint"),
    "gamma_half": ("full/single/gamma_half", "full/joint/gamma_half"),
    "gamma_one": ("full/single/gamma_one", "full/joint/gamma_one"),
    "large": ("full/single/large", "full/joint/large"),
}
#: Initial beta and gamma of each reading; the chapter draws the first.
READINGS = {
    "gamma_zero": (SMALL, 0.0),
    "gamma_half": (SMALL, 0.5),
    "gamma_one": (SMALL, 1.0),
    "large": (LARGE, 0.0),
}
FIRST_READING, *OTHER_READINGS = READINGS
SINGLE = ("A0", "A2", "A3")


def second_over_first(run: Run, kind: str) -> float:
    """Second over first of the ``jumps`` or of the activations (``active``) of a run; 0 if one is missing."""
    first, second = run[kind][:2]
    return float(second / first) if np.isfinite(second) else 0.0


def kept_apart(found: dict[str, Run], reading: str, separate: float = 1.2) -> Values:
    """Of the variants, how many keep [jumps, activations] apart under one of :data:`READINGS`."""
    single, joint = READING_KEYS[reading]
    more = [name for name in found if name not in ("none", *SINGLE)]

    def apart(names: tuple[str, ...] | list[str]) -> list[int]:
        return [
            sum(second_over_first(found[name], kind) > separate for name in names)
            for kind in ("jumps", "active")
        ]

    return {single: apart(SINGLE), joint: apart(more)}


def verdict_values(found: dict[str, Run]) -> Values:
    """What the claims about the simplifications record at gamma = 0 from small beta."""
    return {
        "full/A0/jumps": second_over_first(found["A0"], "jumps"),
        "full/A0/active": second_over_first(found["A0"], "active"),
        "full/A3/jumps": second_over_first(found["A3"], "jumps"),
        "full/A3/active": second_over_first(found["A3"], "active"),
        "full/lost": sum(not np.isfinite(run["jumps"][0]) for run in found.values()),
        "full/A0/longer": float(found["A0"]["jumps"][0] / found["none"]["jumps"][0]),
        "idle/kept": int(np.isfinite(found["none"]["active"]).sum()),
        **_without_a3(found["A3"]),
    }


def _without_a3(run: Run) -> Values:
    """What the claims about A3 alone record: which is learned first, and whether the heads become active one after another."""
    half = {k: passing(run["times"], run[k], (run[k][0] + 1) / 2) for k in ("mass", "accuracy")}
    order = run["active"]
    return {
        "a3/matching_first": half["accuracy"] / half["mass"],
        "a3/mass_start": float(run["mass"][0]),
        "a3/mass_at_half": float(np.interp(half["accuracy"], run["times"], run["mass"])),
        "a3/active": int(np.isfinite(order).sum()),
        "a3/in_order": bool((np.diff(order) > 0).all()),
        "a3/last_over_first": float(order[-1] / order[0]) if np.isfinite(order[-1]) else 0.0,
    }
