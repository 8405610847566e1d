"""The dynamics when simplifications A0, A2 and A3 are lifted (recall2025, appendix A.2, and A.6 "Generalizations of the simple model")."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor

from ...draw import torch_rng
from ...models import RecallTransformer
from ...tasks import AssociativeRecall, Batch
from ...training import Computation, Flow, first_crossings, gradient_flow
from ...training.landscape import Family
from .stages import ACTIVE, HEADS, ORDER, RANKS, R, Values, first_passage, middles, ordered, patience, small
from .theory import Array, OwnQueries, Population, jump_limit

Run = dict[str, Array]
#: Order of the task on which simplifications are lifted one by one and jointly, with as many heads.
LIFTED_ORDER = 3
#: Jumps are apart if each comes at least this many times later than the one before.
SEPARATE = 1.2


# -- the lifted models -------------------------------------------------------------------------------------------------------


def exact_loss(s: Tensor, n_responses: int) -> Tensor:
    """Population dot-product loss of the weights ``(n!, n!)`` that every query gives the responses; with A1 they do not depend on the map f."""
    right = s.diagonal()
    return 1 - (right + (s.sum(-1) - right) / n_responses).mean()


def every_query(model: RecallTransformer) -> Tensor:
    """Tokens ``(n!, l)`` of one sequence for every query."""
    task = AssociativeRecall(model.order, model.n_responses)
    n = task.n_permutations
    return torch.tensor(task.sequences(np.arange(n), np.zeros((n, n), dtype=int)))


def load(model: RecallTransformer, theta: Array) -> None:
    """Put the parameters ``(w, beta)`` of a flow into the model."""
    torch.nn.utils.vector_to_parameters(torch.tensor(theta), [model.w, model.beta])


def flow_of(model: RecallTransformer, betas: Sequence[float], until: float, to_activation: bool = False) -> Flow:
    """Exact gradient flow of a model with A1 from ``w = 0`` and these beta; ``to_activation`` ends it where the first head becomes active."""

    def active(theta: Array) -> float:
        load(model, theta)
        return model.advantage()[0].item() - ACTIVE

    def loss(model: RecallTransformer, batch: Batch) -> Tensor:
        return exact_loss(model.response_weights(batch.context), model.n_responses)

    tokens, start = every_query(model), np.concatenate([np.zeros(model.w.numel()), betas])
    landscape = Family(model, loss)(Batch(tokens, tokens[:0], tokens[:0]))
    how = {"method": "RK45", "rtol": 1e-6, "atol": 1e-10}
    how |= {"events": [active], "stop_at": 0} if to_activation else {}
    return gradient_flow(landscape.gradient, start, until, **how)


@torch.no_grad()
def watched(model: RecallTransformer, flow: Flow) -> Run:
    """Along a flow, means over the queries ``(T,)``: ``loss``, ``mass`` (second-layer attention on the responses), ``accuracy`` (the share of it on the right one), and
    ``normalised`` (the loss of the output over its sum, A.6); ``advantage`` and ``beta`` of the heads ``(T, K)``."""
    tokens, rows = every_query(model), []
    for theta in flow.states:
        load(model, theta)
        s = model.response_weights(tokens)
        mass, right = s.sum(-1), s.diagonal()
        means = exact_loss(s, model.n_responses), mass.mean(), (right / mass).mean()
        rows.append((*means, model.advantage(), model.beta.clone()))
    names = ("loss", "mass", "accuracy", "advantage", "beta")
    run = {name: torch.stack(each).numpy() for name, each in zip(names, zip(*rows, strict=True), strict=True)}
    normalised = (1 - 1 / model.n_responses) * (1 - run["accuracy"])
    return run | {"times": flow.times, "normalised": normalised}


# -- A0, A2 and A3 lifted, one by one and jointly ----------------------------------------------------------------------------

#: Initial beta of the heads, small and with the largest at 1/2.
SMALL, LARGE = (0.3, 0.1, 0.03), (0.5, 0.5 / 3, 0.05)
#: What is lifted -> whether A0, A2 and A3 are kept.
VARIANTS = {
    "".join(f" A{i}" for i, kept in zip((0, 2, 3), every, strict=True) if not kept).strip() or "none": every
    for every in product((True, False), repeat=3)
}
#: Initial beta and gamma of each reading beside the one that the chapter draws, small beta and gamma = 0.
READINGS = {"gamma_half": (SMALL, 0.5), "gamma_one": (SMALL, 1.0), "large": (LARGE, 0.0)}
SINGLE = ("A0", "A2", "A3")


def variant(name: str, betas: tuple[float, ...] = SMALL, gamma: float = 0.0, order: int = LIFTED_ORDER) -> Run:
    """One of :data:`VARIANTS` with a head for each of these beta: what :func:`watched` gives, and ``jumps (order - 1,)``, times at which the normalised loss
    passes the middles between successive plateaus, and ``active (K,)``, times at which the heads become active; inf if never."""
    task, (a0, a2, a3) = AssociativeRecall(order, R), VARIANTS[name]
    until = 30 * jump_limit(order, R) / SMALL[0]
    far = 40  # a head that sees every earlier token starts from an attention this much weaker, and is waited for longer
    model = RecallTransformer(order, R, len(betas), gamma, a0=a0, a2=a2, a3=a3)
    run = watched(model, flow_of(model, betas, until if a0 else far * until))
    run["jumps"] = first_passage(run["times"], -run["normalised"][:, None], -middles(task, order - 1))
    run["active"] = first_passage(run["times"], run["advantage"], ACTIVE)
    return run


def lifted() -> dict[str, Run]:
    """The eight variants at the reading that the chapter draws."""
    return {name: variant(name) for name in VARIANTS}


def jumping(reading: str, variants: Sequence[int]) -> dict[str, Array]:
    """Outcome of these variants, by number: ``jumps (M, 2)`` and ``active (M, 3)`` as :func:`variant` finds them; not a number for never."""
    runs = [variant(list(VARIANTS)[number], *READINGS[reading]) for number in variants]
    every = {kind: np.array([run[kind] for run in runs]) for kind in ("jumps", "active")}
    return {kind: np.where(np.isfinite(times), times, np.nan) for kind, times in every.items()}


#: Heads may never become active. Flows are followed to a tenth of the accuracy that is asked of two machines.
LIFTED = Computation("recall2025", "lifted", jumping, tuple(READINGS), 0, len(VARIANTS), 1e-5, tuple(READINGS))


def kept_lifted(results: Mapping[str, Array], reading: str) -> dict[str, Run]:
    """The stored times ``(K,)`` of a reading, by the name of the variant; NaN is "never"."""
    kept = {kind: results[f"{reading}/{kind}"] for kind in ("jumps", "active")}
    return {name: {kind: times[i] for kind, times in kept.items()} for i, name in enumerate(VARIANTS)}


def kept_apart(found: Mapping[str, Run], suffix: str = "") -> Values:
    """Number of variants that keep their [jumps, activations] apart: with one simplification lifted (of 3), and with more (of 4)."""
    groups = {"single": SINGLE, "joint": [name for name in found if name not in ("none", *SINGLE)]}
    return {
        f"full/{group}{suffix}": [
            sum(apart(found[name][kind][:2]) > SEPARATE for name in names) for kind in ("jumps", "active")
        ]
        for group, names in groups.items()
    }


def lifted_values(found: Mapping[str, Run]) -> Values:
    """At gamma = 0 from small beta: A0 and A3 lifted alone, the head that stays idle under A3, and what is learned first without it."""
    alone = found["A3"]
    times, order = alone["times"], alone["active"]
    half = {k: first_passage(times, alone[k], (alone[k][0] + 1) / 2) for k in ("mass", "accuracy")}
    return {
        "full/A3/jumps": apart(alone["jumps"]),
        "full/A3/active": apart(order[:2]),
        "full/lost": sum(not np.isfinite(run["jumps"][0]) for run in found.values()),
        "full/A0/longer": found["A0"]["jumps"][0] / found["none"]["jumps"][0],
        "idle/kept": np.isfinite(found["none"]["active"]).sum(),
        "a3/matching_first": half["accuracy"] / half["mass"],
        "a3/mass_start": alone["mass"][0],
        "a3/mass_at_half": np.interp(half["accuracy"], times, alone["mass"]),
        "a3/active": np.isfinite(order).sum(),
        "a3/in_order": (np.diff(order) > 0).all(),
        "a3/last_over_first": order[-1] / order[0] if np.isfinite(order[-1]) else 0.0,
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
    """A0 alone lifted at the paper's size: ratios of jumps and activations, the first activation's exponent in eps, and that head's spread of other scores over its own."""
    run, times = variant("A0", order=ORDER), []
    for eps in epsilons:
        model = RecallTransformer(ORDER, R, HEADS, a0=False)
        flow = flow_of(model, (eps, 0.0, 0.0), 1000 * jump_limit(ORDER, R) / eps, to_activation=True)
        times.append(flow.first())
    scores = flow.states[-1, : model.w.shape[1]]  # of the first head for the offsets 0, 1, ...
    return {
        "full/A0/jumps": apart(run["jumps"]),
        "full/A0/active": apart(run["active"]),
        "noA0/exponent": np.log(times[1] / times[0]) / np.log(epsilons[1] / epsilons[0]),
        "noA0/spread": np.ptp(np.delete(scores, 1)) / abs(scores[1]),
    }


def apart(jumps: Array) -> Array:
    """Least ratio of successive jumps ``(..., K) -> (...)``; 0 where one is missing."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(jumps).all(-1), (jumps[..., 1:] / jumps[..., :-1]).min(-1), 0.0)


# -- A2 lifted at the paper's size: order four, three heads, all six orders of beta ------------------------------------------

#: The largest initial beta, and by what beta falls from rank to rank.
SCALE, RATIO = 0.02, 4.0


def race(pop: Population) -> tuple[Array, Array]:
    """Times ``(6, K)`` for the six orders of beta at which heads become active, and at which the loss passes the middles between plateaus; inf for never."""
    levels, betas = middles(pop.task, HEADS), SCALE / RATIO**RANKS

    def marks(theta: Array) -> Array:
        return np.concatenate([pop.advantage(theta) - ACTIVE, levels - pop.value(theta)[:, None]], -1)

    times = first_crossings(pop.gradient, marks, small(pop, betas), patience(pop, betas), 1e-6, 1e-12)
    return times[:, :HEADS], times[:, HEADS:]


def falling_and_rising() -> dict[str, tuple[Population, Flow]]:
    """Flows with A2 lifted from beta falling and rising from head to head, for the chapter's figure."""
    pop, flows = OwnQueries(AssociativeRecall(ORDER, R), HEADS, ORDER), {}
    until = 5.0 * jump_limit(ORDER, R) / SCALE
    for name, ranks in (("falling", RANKS[0]), ("rising", RANKS[-1])):
        start = small(pop, SCALE / RATIO**ranks)
        flows[name] = pop, gradient_flow(pop.gradient, start, until, np.linspace(0, until, 600), rtol=1e-7)
    return flows


def a2_values() -> Values:
    """Counts of six orders of beta in which the jumps stay apart and the heads follow beta, with A2 kept and lifted; and the falling and rising order alone."""
    task = AssociativeRecall(ORDER, R)
    (kept_active, kept_jumps), (active, jumps) = (race(kind(task, HEADS, ORDER)) for kind in (Population, OwnQueries))
    ratios, follows = apart(jumps), ordered(active)
    return {
        "a2/kept_apart": (apart(kept_jumps) > SEPARATE).sum(),
        "a2/kept_ordered": ordered(kept_active).sum(),
        "a2/apart": (ratios > SEPARATE).sum(),
        "a2/ordered": follows.sum(),
        "a2/falling_apart": ratios[0],
        "a2/falling_active": np.isfinite(active[0]).sum(),
        "a2/rising_ordered": follows[-1],
        "a2/rising_apart": ratios[-1],
    }
