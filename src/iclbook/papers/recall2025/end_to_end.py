"""The whole two-layer model with a free second layer, trained end to end from random weights: its stages and heads (recall2025, contribution iii)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor, nn

from ... import random
from ...draw import numpy_rng
from ...models import RecallTransformer
from ...project import check_profile
from ...statistics import Estimate
from ...store import Results
from ...tasks import AssociativeRecall, Batch
from ...training import Group, Momentum, Run, Study, gradient_flow
from ...training.history import KEPT
from .stages import Values, first_passage, middles
from .theory import Array, Population, jump_limit

Arrays = dict[str, Array]
#: Initial scales with the window kept.
SCALES = {"window": 0.1, "small": 0.01}
#: Steps between two records, and held-out sequences at each, the same at all; what these are for, among the purposes of :mod:`iclbook.random`.
EVERY, HELD_OUT, PURPOSE = 20, 512, 50


def losses(model: RecallTransformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Dot-product loss of a model with A1, A2 and A3 lifted, and that of its output over the responses' sum; thrice as fast as the model's own code for all cases."""
    tokens, right = batch.context.T, batch.target.T  # (B, l), (B, 1)
    w, symbols, length = model.w, model.vocabulary, model.length
    place = torch.arange(length, device=w.device)
    offset = place[:, None] - place[None, :]  # (l, l)
    low = 1 if model.a0 else 0
    window = torch.arange(low, low + w.shape[-1], device=w.device)
    picks = (offset.flatten() == window[:, None]).to(w.dtype)  # (width, l l)
    seen = picks.sum(0).unflatten(0, (length, length)) > 0
    raw = (w @ picks).unflatten(-1, (length, length)).masked_fill(~seen, -1e300)
    attention = torch.softmax(raw, -1) * seen.any(-1)[:, None]  # (K, l, l)
    x = (tokens[..., None] == torch.arange(symbols, device=w.device)).to(w.dtype)  # (B, l, S)
    last = attention[:, -1] @ x  # (B, K, S)
    asked = (torch.cat([x[:, -1:], last], 1).flatten(1) @ model.beta).unflatten(-1, (-1, symbols))
    worth = asked @ x.mT  # (B, K + 1, l): what each token is worth to each block of the query
    # the heads' averages of worth, as one product over heads and places together
    averaged = worth[:, 1:].flatten(1) @ attention.permute(0, 2, 1).flatten(0, 1)  # (B, l)
    s = torch.softmax(worth[:, 0] + averaged, -1)
    found = (s * (tokens == right)).sum(-1)  # (B,)
    responses = (s * (tokens >= model.order)).sum(-1)
    return 1 - found.mean(), 1 - (found / responses).mean()


def dot_product_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The first of :func:`losses`."""
    return losses(model, batch)[0]


@dataclass(frozen=True)
class OnSequences:
    """Observes both losses on sequences that no run trains on."""

    task: AssociativeRecall

    def held_out(self) -> tuple[Tensor, ...]:
        """The sequences."""
        return tuple(self.task.batch(*random.drawn(self.task, 0, PURPOSE, (HELD_OUT,))))

    def __call__(self, model: nn.Module, held_out: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """``held_loss`` and ``normalised``."""
        loss, normalised = losses(model, Batch(*held_out))
        return {"held_loss": loss, "normalised": normalised}


def studies(profile: str) -> dict[str, Study]:
    """SGD with momentum, as in section 3: order four with the window kept, from two scales, and with everything lifted (of order three at the small profile)."""
    paper = check_profile(profile) == "paper"
    kept, lifted = ((30, 900), (12, 6000)) if paper else ((2, 40), (2, 80))  # seeds and steps
    rows = (
        ("free_window", 4, True, {"large": SCALES["window"], "small": SCALES["small"]}, *kept),
        ("free_lifted", 4 if paper else 3, False, {"lifted": SCALES["small"]}, *lifted),
    )
    studies = {}
    for name, order, a0, scales, seeds, steps in rows:
        task = AssociativeRecall(order, 4)
        kwargs = {"order": order, "n_responses": 4, "n_heads": order, "a0": a0, "a1": False, "a2": False, "a3": False}
        how = {"observe": OnSequences(task), "keep": ("w",), "keep_at": (0, steps)}
        groups = []
        for label, scale in scales.items():
            runs = tuple(Run(seed, rate=0.3, init_scale=scale) for seed in range(seeds))
            groups.append(Group(label, RecallTransformer, kwargs, runs, Momentum(0.9), dot_product_loss, **how))
        marks = (1, *range(EVERY, steps + 1, EVERY))
        studies[name] = Study("recall2025", name, task, tuple(groups), steps, 64, marks, dtype="float64")
    return studies


def trained(results: Mapping[str, Results]) -> dict[str, Arrays]:
    """Arrays of each kind of training: ``steps (T,)``, ``held_loss`` and ``normalised (T, S)`` on held-out sequences, ``kept w (2, S, K, width)`` before and after."""
    window = results["free_window"]
    lifted = results["free_lifted"].group("lifted")
    return {"window": window.group("large"), "small": window.group("small"), "lifted": lifted}


def task_of(run: Arrays) -> AssociativeRecall:
    """The task of a training: four responses, and an order equal to the number of heads, since there is a head for each symbol."""
    return AssociativeRecall(run[f"{KEPT}w"].shape[-2], 4)


#: A loss rests at a plateau if it falls there at most a tenth as fast as at the jumps on both of its sides.
SLOWER = 0.1
#: A head singles out an offset that holds this share of its attention.
SINGLED = 0.5


def rests(steps: Array, normalised: Array, task: AssociativeRecall) -> Array:
    """Whether a loss ``(T,)`` rests at each inner plateau ``(order - 2,)``: its least speed there against those at the two middles beside it."""
    jumps = first_passage(steps, -normalised[:, None], -middles(task, task.order - 1))
    speed = -np.diff(normalised) / np.diff(steps)  # (T - 1,)
    places = np.minimum(np.searchsorted(steps, jumps, "right") - 1, len(speed) - 1)
    slow = [speed[i : j + 1].min() <= SLOWER * min(speed[i], speed[j]) for i, j in pairwise(places)]
    return np.array(slow) & np.isfinite(jumps[1:])


def attention_by_offset(w: Array) -> Array:
    """Attention ``(..., K, K)`` of the heads to the offsets 1 to K, from scores ``(..., K, width)`` that begin with the token itself unless the window is K."""
    order, first = w.shape[-2], int(w.shape[-1] > w.shape[-2])
    return softmax(w, -1)[..., first : first + order]


def offsets_found(w: Array) -> Array:
    """Number of offsets that are singled out by some head, ``(S, K, width) -> (S,)``."""
    return (attention_by_offset(w) >= SINGLED).any(-2).sum(-1)


def simplified(w: Array, scale: float) -> Array:
    """Plateaus at which the simplified model rests, ``(S, order - 2)``, from first-layer scores ``w (S, K, K)`` and ``beta = scale |N(0, 1)|``, a flow a seed."""
    order, rng = w.shape[-1], numpy_rng(0)
    task = AssociativeRecall(order, 4)
    pop, last = Population(task, order, order), middles(task, order - 1)[-1]
    found = []
    for scores, beta in zip(w, scale * np.abs(rng.normal(size=w.shape[:2])), strict=True):
        start, until = pop.join(scores, beta), 40 * jump_limit(order, 4) / scale
        end = [lambda x: pop.value(x) - last]
        own = gradient_flow(pop.gradient, start, until, events=end, stop_at=0, rtol=1e-6).times
        own = np.append(own, 1.05 * own[-1])  # the integrator's own steps are short where the loss jumps, and too few
        times = np.interp(np.arange(0, len(own) - 0.9, 0.125), np.arange(len(own)), own)
        flow = gradient_flow(pop.gradient, start, times[-1], times, rtol=1e-6)
        found.append(rests(flow.times, pop.value(flow.states), task))
    return np.array(found)


def shares_of(rested: Array) -> Estimate:
    """Share of seeds at each plateau, ``(S, order - 2) -> (order - 2,)``."""
    return Estimate.stack(Estimate.share(int(hits), len(rested)) for hits in rested.sum(0))


def free_values(runs: Mapping[str, Arrays]) -> Values:
    """For each kind of training: shares of plateaus and seeds at which the loss rests, and at each plateau this share less the simplified model's from the same scores;
    shares of seeds that learn, and in which all offsets but one find a head; and how many times later the small scale jumps."""
    window, task = runs["window"], task_of(runs["window"])
    middle = float(middles(task, 1)[0])
    first = [first_passage(run["steps"], -run["normalised"], -middle) for run in (runs["small"], window)]
    values: Values = {
        "full/seeds": [run["held_loss"].shape[1] for run in runs.values()],
        "free/first_later": Estimate.ratio(*np.minimum(first, window["steps"][-1])),
    }
    usual = {name: shares_of(simplified(runs[name][f"{KEPT}w"][0], scale)) for name, scale in SCALES.items()}
    at_start = []
    for name, run in runs.items():
        task = task_of(run)
        calm = np.array([rests(run["steps"], loss, task) for loss in run["normalised"].T])  # (S, order - 2)
        if name == "window":
            values["free/rests_each"] = calm.mean(0)
            values["free/simplified_each"] = usual[name]
        other = usual.get(name, usual["small"])
        if calm.shape[1:] == other.value.shape:
            values[f"free/rests_less_{name}"] = shares_of(calm) - other
        before, after = offsets_found(run[f"{KEPT}w"]) >= task.order - 1  # (S,) each
        at_start.append(before.mean())
        learned = run["held_loss"][-1] < task.plateau_dp(0) / 10
        for key, hits in (("rests", calm), ("learned", learned), ("found", after)):
            if (key, name) != ("rests", "window"):  # recorded at each plateau
                values[f"free/{key}_{name}"] = Estimate.share(hits)
    return values | {"free/found_start": max(at_start)}
