"""The dynamics when simplifications A0, A2 and A3 are lifted (recall2025, appendix A.2, and A.6 "Generalizations of the simple model")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations, product

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ....draw import torch_rng
from ....models import RecallTransformer
from ....tasks import AssociativeRecall
from ....training import Flow, gradient_flow
from ....training.computation import Computation
from ....training.flow import first_crossings
from ..theory.closed_forms import jump_limit
from ..theory.population import OwnQueries, Population
from .construction import Values
from .stages import ACTIVE, HEADS, ORDER, R, patience, small

Array = np.ndarray
Run = dict[str, Array]
#: Order of the task on which simplifications are lifted one by one and jointly, with as many heads.
LIFTED_ORDER = 3
#: Jumps are apart if each comes at least this many times later than the one before.
SEPARATE = 1.2


# -- the lifted models -------------------------------------------------------------------------------------------------------


def gradient_of(model: RecallTransformer, tokens: Array) -> Callable[[Array], Array]:
    """Gradient of the population loss ``1 - mean(right + (sum - right) / n_responses)`` in the flat parameters ``(w, beta)``, in closed form.

    With ``A_h`` the first layer's attention from the keys t, ``a_h`` that from the last token, and ``M_b`` the products of the tokens of sequence b through
    the symbols' matrix, a key's score is ``sum_h beta_h^2 (A_h c_bh)_t``. Under A2 ``c_bh`` is the row of ``M_b`` that belongs to the token h before the
    end; with A2 lifted, ``c_b1`` is that of the last token and ``c_bh = M_b^T a_{h-1}``.

    Args:
        model: with A1 and beta above the diagonal; its parameters are not read.
        tokens: ``(n!, l)``, one sequence for each query, in the order of the responses that answer them.
    """
    n_heads, length, lifted = model.n_heads, model.length, not model.a2
    keys = model.responses.numpy() if model.a3 else np.arange(length)
    rows = np.append(keys, length - 1)
    low, width = (1, n_heads) if model.a0 else (0, length)
    offset = rows[:, None] - np.arange(length)
    seen = (offset >= low) & (offset < low + width)
    sees, column = seen.any(1)[:, None], np.where(seen, offset - low, 0)
    pairs = model.block.numpy()[tokens[:, :, None], tokens[:, None, :]]  # (B, l, l), the matrices M
    back = length - 1 if lifted else length - np.arange(1, n_heads + 1)
    fixed = pairs[:, np.atleast_1d(back)].swapaxes(0, 1)  # (heads, B, l): what does not depend on attention
    wanted = np.zeros((len(tokens), len(keys)))  # derivative of the loss in each key's weight
    responses = np.flatnonzero(np.isin(keys, model.responses.numpy()))
    wanted[:, responses] = 1 / model.n_responses
    wanted[np.arange(len(tokens)), responses] = 1
    wanted /= -len(tokens)

    def gradient(theta: Array) -> Array:
        w, beta = theta[:-n_heads].reshape(n_heads, width), theta[-n_heads:]
        every = _softmax(np.where(seen, w[:, column], -np.inf), sees)  # (K, rows, l)
        attention, last = every[:, :-1], every[:-1, -1]
        asked = np.concatenate([fixed, (last @ pairs).swapaxes(0, 1)]) if lifted else fixed  # (K, B, l)
        parts = asked @ attention.swapaxes(1, 2)  # (K, B, keys)
        s = _softmax(np.tensordot(beta**2, parts, 1))
        by_score = s * (wanted - (s * wanted).sum(1, keepdims=True))
        by_beta = 2 * beta * (parts * by_score).sum((1, 2))
        by_every = np.zeros_like(every)
        by_every[:, :-1] = (beta**2)[:, None, None] * (by_score.T @ asked)
        if lifted:
            by_asked = (by_score @ attention[1:]) * (beta[1:] ** 2)[:, None, None]  # (K - 1, B, l)
            by_every[:-1, -1] = (pairs @ by_asked.transpose(1, 2, 0)).sum(0).T
        moved = every * (by_every - (every * by_every).sum(2, keepdims=True))
        by_w = [np.bincount(column.ravel(), part.ravel(), width) for part in moved]
        return np.concatenate([*by_w, by_beta])

    return gradient


def _softmax(scores: Array, sees: Array | bool = True) -> Array:
    """Over the last axis; a row that ``sees`` nothing has weights of zero."""
    weights = np.exp(scores - np.where(sees, scores.max(-1, keepdims=True), 0.0))
    return weights / np.where(sees, weights.sum(-1, keepdims=True), 1.0)


def exact_loss(s: Tensor, n_responses: int) -> Tensor:
    """Population dot-product loss of the weights ``(n!, n!)`` that every query gives the responses; with A1 they do not depend on the map f."""
    right = s.diagonal()
    return 1 - (right + (s.sum(-1) - right) / n_responses).mean()


def every_query(model: RecallTransformer) -> Tensor:
    """Tokens ``(n!, l)`` of one sequence for every query."""
    task = AssociativeRecall(model.order, model.n_responses)
    n = task.n_permutations
    return torch.tensor(task.sequences(np.arange(n), np.zeros((n, n), dtype=int)))


def flow_of(
    model: RecallTransformer,
    betas: tuple[float, ...],
    until: float,
    event: Callable[[RecallTransformer], float] | None = None,
) -> Flow:
    """Exact gradient flow of a model with A1 from ``w = 0`` and these beta, ended where ``event`` passes zero if one is given."""

    def watch(theta: Array) -> float:
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


def load(model: RecallTransformer, theta: Array) -> None:
    """Put the parameters ``(w, beta)`` of a flow into the model."""
    cut = model.w.numel()
    with torch.no_grad():
        model.w.copy_(torch.tensor(theta[:cut].reshape(model.w.shape)))
        model.beta.copy_(torch.tensor(theta[cut:]))


class _Watched(nn.Module):
    """Loss, attention on responses, accuracy among them, then advantage and beta of the heads, as one row."""

    def __init__(self, model: RecallTransformer) -> None:
        super().__init__()
        self.model, self.tokens = model, every_query(model)

    def forward(self) -> Tensor:
        s = self.model.response_weights(self.tokens)
        mass, right = s.sum(-1), s.diagonal()
        seen = [exact_loss(s, self.model.n_responses), mass.mean(), (right / mass).mean()]
        return torch.cat([torch.stack(seen), self.model.advantage(), self.model.beta])


def watched(model: RecallTransformer, flow: Flow) -> Run:
    """Along a flow, means over the queries: ``times``, ``loss``, ``mass`` (second-layer attention on the responses), ``accuracy`` (the share of it on the right
    one) and ``normalised`` (the loss of the output divided by its sum, A.6), each ``(T,)``; ``advantage`` and ``beta`` of the heads ``(T, K)``."""
    cut, k, module = model.w.numel(), model.n_heads, _Watched(model)
    states = torch.tensor(flow.states)

    def row(w: Tensor, beta: Tensor) -> Tensor:
        return functional_call(module, {"model.w": w, "model.beta": beta}, ())

    with torch.no_grad():
        table = vmap(row)(states[:, :cut].unflatten(1, model.w.shape), states[:, cut:]).numpy()
    return {
        "times": flow.times,
        "loss": table[:, 0],
        "mass": table[:, 1],
        "accuracy": table[:, 2],
        "normalised": (1 - 1 / model.n_responses) * (1 - table[:, 2]),
        "advantage": table[:, 3 : 3 + k],
        "beta": table[:, 3 + k :],
    }


def passing(times: Array, values: Array, level: float) -> float:
    """First time at which rising ``values`` reach ``level``, between records by a straight line; inf if never."""
    above = np.flatnonzero(values >= level)
    if not len(above) or not above[0]:
        return float(times[0]) if len(above) else np.inf
    i = above[0]
    part = (level - values[i - 1]) / (values[i] - values[i - 1])
    return float(times[i - 1] + part * (times[i] - times[i - 1]))


# -- A0, A2 and A3 lifted, one by one and jointly ----------------------------------------------------------------------------

#: Initial beta of the heads, small and with the largest at 1/2.
SMALL, LARGE = (0.3, 0.1, 0.03), (0.5, 0.5 / 3, 0.05)
#: What is lifted -> whether A0, A2 and A3 are kept.
VARIANTS = {
    "".join(f" A{i}" for i, kept in zip((0, 2, 3), every, strict=True) if not kept).strip() or "none": every
    for every in product((True, False), repeat=3)
}
#: Initial beta and gamma of each reading; the chapter draws the first.
READINGS = {"gamma_zero": (SMALL, 0.0), "gamma_half": (SMALL, 0.5), "gamma_one": (SMALL, 1.0), "large": (LARGE, 0.0)}
FIRST_READING, *OTHER_READINGS = READINGS
SINGLE = ("A0", "A2", "A3")


def variant(name: str, betas: tuple[float, ...] = SMALL, gamma: float = 0.0, order: int = LIFTED_ORDER) -> Run:
    """One of :data:`VARIANTS` with a head for each of these beta: what :func:`watched` gives, and ``jumps (order - 1,)``, times at which the normalised loss
    passes the middles between successive plateaus, and ``active (K,)``, times at which the heads become active; inf if never."""
    task, (a0, a2, a3) = AssociativeRecall(order, R), VARIANTS[name]
    middles = [(task.plateau_dp(m) + task.plateau_dp(m + 1)) / 2 for m in range(order - 1)]
    until = 30 * jump_limit(order, R) / SMALL[0]
    far = 40  # a head that sees every earlier token starts from an attention this much weaker, and is waited for longer
    model = RecallTransformer(order, R, len(betas), gamma, a0=a0, a2=a2, a3=a3)
    run = watched(model, flow_of(model, betas, until if a0 else far * until))
    run["jumps"] = np.array([passing(run["times"], -run["normalised"], -m) for m in middles])
    run["active"] = np.array([passing(run["times"], a, ACTIVE) for a in run["advantage"].T])
    return run


def lifted() -> dict[str, Run]:
    """All eight variants at the reading that the chapter draws."""
    return {name: variant(name, *READINGS[FIRST_READING]) for name in VARIANTS}


def jumping(reading: str, variants: Sequence[int]) -> dict[str, Array]:
    """Of these variants, by number, ``jumps (M, 2)`` and ``active (M, 3)`` as :func:`variant` finds them; not a number for never."""
    runs = [variant(list(VARIANTS)[number], *READINGS[reading]) for number in variants]
    every = {kind: np.array([run[kind] for run in runs]) for kind in ("jumps", "active")}
    return {kind: np.where(np.isfinite(times), times, np.nan) for kind, times in every.items()}


#: The readings beside the first; heads may never become active. Flows are followed to a tenth of the accuracy that is asked of two machines.
LIFTED = Computation(
    "recall2025", "lifted", jumping, tuple(OTHER_READINGS), 0, len(VARIANTS), 1e-5, tuple(OTHER_READINGS)
)


def kept_lifted(results: Mapping[str, Array], reading: str) -> dict[str, Run]:
    """The stored times of a reading, by the name of the variant; inf for never."""
    kept = {kind: results[f"{reading}/{kind}"] for kind in ("jumps", "active")}
    return {
        name: {kind: np.where(np.isnan(times[i]), np.inf, times[i]) for kind, times in kept.items()}
        for i, name in enumerate(VARIANTS)
    }


def second_over_first(run: Run, kind: str) -> float:
    """Second over first of the ``jumps`` or of the activations (``active``) of a run; 0 if one is missing."""
    first, second = run[kind][:2]
    return float(second / first) if np.isfinite(second) else 0.0


def kept_apart(found: Mapping[str, Run], reading: str) -> Values:
    """How many variants keep their [jumps, activations] apart under a reading: with one simplification lifted (of 3), and with more (of 4)."""
    suffix = "" if reading == FIRST_READING else f"/{reading}"
    groups = {"single": SINGLE, "joint": [name for name in found if name not in ("none", *SINGLE)]}
    return {
        f"full/{group}{suffix}": [
            sum(second_over_first(found[name], kind) > SEPARATE for name in names) for kind in ("jumps", "active")
        ]
        for group, names in groups.items()
    }


def lifted_values(found: Mapping[str, Run]) -> Values:
    """At gamma = 0 from small beta: A0 and A3 lifted alone, the head that stays idle under A3, and what is learned first without it."""
    alone, order = found["A3"], found["A3"]["active"]
    half = {k: passing(alone["times"], alone[k], (alone[k][0] + 1) / 2) for k in ("mass", "accuracy")}
    values: Values = {f"full/A3/{kind}": second_over_first(found["A3"], kind) for kind in ("jumps", "active")}
    return values | {
        "full/lost": sum(not np.isfinite(run["jumps"][0]) for run in found.values()),
        "full/A0/longer": float(found["A0"]["jumps"][0] / found["none"]["jumps"][0]),
        "idle/kept": int(np.isfinite(found["none"]["active"]).sum()),
        "a3/matching_first": half["accuracy"] / half["mass"],
        "a3/mass_start": float(alone["mass"][0]),
        "a3/mass_at_half": float(np.interp(half["accuracy"], alone["times"], alone["mass"])),
        "a3/active": int(np.isfinite(order).sum()),
        "a3/in_order": bool((np.diff(order) > 0).all()),
        "a3/last_over_first": float(order[-1] / order[0]) if np.isfinite(order[-1]) else 0.0,
    }


def normalised_difference(seed: int = 0) -> float:
    """A.6's way without A3, a value matrix that reads responses only and an output divided by its sum, against A3: largest difference of the weights."""
    kept = RecallTransformer(LIFTED_ORDER, R, LIFTED_ORDER)
    free = RecallTransformer(LIFTED_ORDER, R, LIFTED_ORDER, a3=False)
    kept.initialise(torch_rng(seed))
    free.load_state_dict(kept.state_dict())
    tokens = every_query(kept)
    with torch.no_grad():
        s = free.response_weights(tokens)
        return float((s / s.sum(-1, keepdim=True) - kept.response_weights(tokens)).abs().max())


def without_window(epsilons: tuple[float, float] = (0.03, 0.01)) -> Values:
    """A0 alone lifted at the paper's size, order four and three heads: least ratio of successive jumps of the loss and of successive activations; the exponent
    in eps of the time at which the only head becomes active from ``beta_1 = eps``; and how far its other scores are apart then, over its own."""
    run, times = variant("A0", order=ORDER), []
    for eps in epsilons:
        model = RecallTransformer(ORDER, R, HEADS, a0=False)
        active = lambda m: float(m.advantage()[0].detach()) - ACTIVE  # noqa: E731
        flow = flow_of(model, (eps, 0.0, 0.0), 1000 * jump_limit(ORDER, R) / eps, active)
        times.append(flow.first())
        scores = flow.states[-1, : model.w.shape[1]]  # of the first head for the offsets 0, 1, ...
        spread = float(np.ptp(np.delete(scores, 1)) / abs(scores[1]))
    values: Values = {f"full/A0/{kind}": float(apart(run[kind][None])[0]) for kind in ("jumps", "active")}
    exponent = float(np.log(times[1] / times[0]) / np.log(epsilons[1] / epsilons[0]))
    return values | {"noA0/exponent": exponent, "noA0/spread": spread}


# -- A2 lifted at the paper's size: order four, three heads, all six orders of beta ------------------------------------------

RANKS = np.array(list(permutations(range(HEADS))))  # of each head, 0 for the largest beta


def race(pop: Population, scale: float = 0.02, ratio: float = 4.0) -> tuple[Array, Array]:
    """From ``beta = scale / ratio^rank``, w = 0, for the six orders of rank: times ``(6, K)`` at which the heads become active, and at which the loss passes the
    middles between plateaus; inf for what has not happened long after all heads would have jumped."""
    middles = [(pop.task.plateau_dp(m) + pop.task.plateau_dp(m + 1)) / 2 for m in range(HEADS)]
    betas = scale / ratio**RANKS

    def marks(theta: Array) -> Array:
        return np.concatenate([pop.advantage(theta) - ACTIVE, middles - pop.value(theta)[:, None]], -1)

    times = first_crossings(pop.gradient, marks, small(pop, betas), patience(pop, betas), 1e-6, 1e-12)
    return times[:, :HEADS], times[:, HEADS:]


def apart(jumps: Array) -> Array:
    """Least ratio of successive jumps ``(N, K) -> (N,)``; 0 where one is missing."""
    done = np.isfinite(jumps).all(-1)
    with np.errstate(invalid="ignore"):
        return np.where(done, (jumps[:, 1:] / jumps[:, :-1]).min(-1), 0.0)


def ordered(active: Array) -> Array:
    """Whether all heads become active, in the order of beta, ``(6, K) -> (6,)``."""
    return np.isfinite(active).all(-1) & (np.argsort(active, -1) == np.argsort(RANKS, -1)).all(-1)


def falling_and_rising(
    scale: float = 0.02, ratio: float = 4.0, points: int = 600
) -> dict[str, tuple[Population, Flow]]:
    """Flows with A2 lifted from beta falling and rising by ``ratio`` from head to head, for the chapter's figure."""
    pop, flows = OwnQueries(AssociativeRecall(ORDER, R), HEADS, ORDER), {}
    until = 5.0 * jump_limit(ORDER, R) / scale
    for name, ranks in (("falling", RANKS[0]), ("rising", RANKS[-1])):
        start = small(pop, scale / ratio**ranks)
        flows[name] = pop, gradient_flow(pop.gradient, start, until, np.linspace(0, until, points), rtol=1e-7)
    return flows


def a2_values() -> Values:
    """Of six orders of beta, in how many the jumps stay apart and the heads follow beta, with A2 kept and lifted; and the falling and rising order alone."""
    task = AssociativeRecall(ORDER, R)
    kept, lifted = (race(kind(task, HEADS, ORDER)) for kind in (Population, OwnQueries))
    return {
        "a2/kept_apart": int((apart(kept[1]) > SEPARATE).sum()),
        "a2/kept_ordered": int(ordered(kept[0]).sum()),
        "a2/apart": int((apart(lifted[1]) > SEPARATE).sum()),
        "a2/ordered": int(ordered(lifted[0]).sum()),
        "a2/falling_apart": float(apart(lifted[1])[0]),
        "a2/falling_active": int(np.isfinite(lifted[0][0]).sum()),
        "a2/rising_ordered": bool(ordered(lifted[0])[-1]),
        "a2/rising_apart": float(apart(lifted[1])[-1]),
    }
