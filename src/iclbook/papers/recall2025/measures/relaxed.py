"""The dynamics when simplifications A0 to A3 are lifted (recall2025, appendix A.2 and A.6, "Generalizations of the simple model")."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from torch import nn

from ....models import RecallTransformer
from ....tasks import AssociativeRecall
from ....training import Flow, gradient_flow
from .. import theory
from .first_jump import R
from .stages import ACTIVE, Values

ORDER = 3
Run = dict[str, np.ndarray]


def exact_loss(model: RecallTransformer, tokens: torch.Tensor) -> torch.Tensor:
    """Population dot-product loss: with A1 the scores do not depend on the map f, so the mean over f is closed; ``tokens`` hold every query once."""
    s = model.response_weights(tokens)  # (n!, n!)
    right = s.diagonal()
    return 1 - (right + (s.sum(-1) - right) / model.n_responses).mean()


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
    tokens, cut = every_query(model), model.w.numel()

    def gradient(theta: np.ndarray) -> np.ndarray:
        load(model, theta)
        grads = torch.autograd.grad(exact_loss(model, tokens), [model.w, model.beta])
        return np.concatenate([g.numpy().ravel() for g in grads])

    def watch(theta: np.ndarray) -> float:
        load(model, theta)
        return event(model)

    return gradient_flow(
        gradient,
        np.concatenate([np.zeros(cut), betas]),
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


def watched(model: RecallTransformer, flow: Flow) -> Run:
    """Along a flow, means over the queries.

    Returns:
        ``times (T,)``; ``loss (T,)``; ``mass (T,)``, second-layer attention on the responses; ``accuracy (T,)``, the share of it on the right one;
        ``normalised (T,)``, the loss of the output divided by its sum, as A.6 proposes; ``advantage (T, K)`` of the heads; ``beta (T, K)``.
    """
    tokens, rows = every_query(model), []
    with torch.no_grad():
        for theta in flow.states:
            load(model, theta)
            s = model.response_weights(tokens)
            mass, right = s.sum(-1), s.diagonal()
            rows.append(
                np.concatenate(
                    [
                        [exact_loss(model, tokens), mass.mean(), (right / mass).mean()],
                        model.advantage().numpy(),
                        model.beta.numpy(),
                    ]
                )
            )
    table, k = np.array(rows), model.n_heads
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


def lifted(betas: tuple[float, ...] = (0.3, 0.1, 0.03), wait: float = 30.0) -> dict[str, Run]:
    """All eight ways to keep or lift A0, A2 and A3 on a task of order three with three heads.

    Returns:
        name -> what ``watched`` says, and ``jumps (2,)``, the times at which the normalised loss passes the middles between plateaus 0, 1 and 1, 2,
        and ``active (3,)``, those at which the heads become active; inf if never.
    """
    task = AssociativeRecall(ORDER, R)
    middles = [(task.plateau_dp(m) + task.plateau_dp(m + 1)) / 2 for m in (0, 1)]
    until = wait * theory.jump_limit(ORDER, R) / betas[0]
    far = 40  # a head that sees every earlier token starts from an attention this much weaker, and is waited for longer
    found = {}
    for a0, a2, a3 in product((True, False), repeat=3):
        model = RecallTransformer(ORDER, R, ORDER, a0=a0, a2=a2, a3=a3)
        run = watched(model, flow_of(model, betas, until if a0 else far * until))
        run["jumps"] = np.array([passing(run["times"], -run["normalised"], -m) for m in middles])
        run["active"] = np.array([passing(run["times"], a, ACTIVE) for a in run["advantage"].T])
        name = "".join(f" A{i}" for i, kept in ((0, a0), (2, a2), (3, a3)) if not kept).strip() or "none"
        found[name] = run
    return found


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


def verdict_values(found: dict[str, Run], separate: float = 1.2) -> Values:
    """What the claims about the simplifications record: second over first jump and activation with one lifted (0 if one is missing), and counts."""

    def ratio(name: str, kind: str) -> float:
        first, second = found[name][kind][:2]
        return float(second / first) if np.isfinite(second) else 0.0

    def apart(kind: str, names: list[str]) -> int:
        return sum(ratio(name, kind) > separate for name in names)

    single = ["A0", "A2", "A3"]
    joint = [name for name in found if name not in ("none", *single)]
    return {
        "full/A0/jumps": ratio("A0", "jumps"),
        "full/A0/active": ratio("A0", "active"),
        "full/A2/jumps": ratio("A2", "jumps"),
        "full/A2/active": ratio("A2", "active"),
        "full/A3/jumps": ratio("A3", "jumps"),
        "full/A3/active": ratio("A3", "active"),
        "full/single_jumps": apart("jumps", single),
        "full/single_active": apart("active", single),
        "full/joint_jumps": apart("jumps", joint),
        "full/joint_active": apart("active", joint),
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


def free_matrix(
    seeds: int, steps: int, a0: bool, scale: float = 0.1, rate: float = 3e-3, batch: int = 64
) -> dict[str, np.ndarray]:
    """The whole two-layer model (A1, A2, A3 lifted, and A0 unless kept) with a free ``Q^T K``, trained by Adam on the dot-product loss.

    Returns:
        ``steps (T,)`` and ``loss (T, seeds)``, the mean over the hundred steps up to each record.
    """
    task = AssociativeRecall(ORDER, 2)
    models = [RecallTransformer(ORDER, 2, ORDER, a0=a0, a1=False, a2=False, a3=False) for _ in range(seeds)]
    for seed, model in enumerate(models):
        model.initialise(torch.Generator().manual_seed(seed), scale)
    w, beta = (
        torch.stack([getattr(m, name).detach() for m in models]).requires_grad_() for name in ("w", "beta")
    )
    optimiser = torch.optim.Adam([w, beta], rate)  # works entry by entry: as many optimisers as seeds
    every, kept, total = 100, [], torch.zeros(seeds, dtype=torch.float64)
    rngs, rows = [np.random.default_rng(seed) for seed in range(seeds)], np.arange(batch)
    for step in range(1, steps + 1):
        drawn = [task.sample(batch, rng) for rng in rngs]
        tokens = torch.tensor(np.stack([task.sequences(q, maps) for q, maps in drawn]))  # (seeds, B, l)
        right = torch.tensor(np.stack([ORDER + maps[rows, q] for q, maps in drawn]))  # (seeds, B)
        losses = free_losses(models[0], w, beta, tokens, right)
        optimiser.zero_grad()
        losses.sum().backward()
        optimiser.step()
        total += losses.detach()
        if step % every == 0:
            kept.append((total / every).numpy())
            total = torch.zeros_like(total)
    return {"steps": np.arange(every, steps + 1, every), "loss": np.array(kept)}


def free_losses(
    like: RecallTransformer, w: torch.Tensor, beta: torch.Tensor, tokens: torch.Tensor, right: torch.Tensor
) -> torch.Tensor:
    """Dot-product losses ``(seeds,)`` of models with A1, A2 and A3 lifted, all in one pass; the model's own code costs three times as much.

    Args:
        like: a model of their kind.
        w, beta: parameters ``(seeds, K, width)`` and ``(seeds, (K + 1) S, (K + 1) S)``.
        tokens: ``(seeds, B, l)``.
        right: the token to predict ``(seeds, B)``.
    """
    symbols, length = like.vocabulary, like.length
    offset = torch.arange(length)[:, None] - torch.arange(length)[None, :]  # (l, l)
    low = 1 if like.a0 else 0
    place = torch.arange(low, low + w.shape[-1])
    picks = (offset.flatten() == place[:, None]).to(w.dtype)  # (width, l l)
    seen = picks.sum(0).unflatten(0, (length, length)) > 0
    raw = (w @ picks).unflatten(-1, (length, length)).masked_fill(~seen, -1e300)
    attention = torch.softmax(raw, -1) * seen.any(-1)[:, None]  # (seeds, K, l, l)
    x = nn.functional.one_hot(tokens, symbols).to(w.dtype)  # (seeds, B, l, S)
    last = attention[:, None, :, -1] @ x  # (seeds, B, K, S)
    asked = (torch.cat([x[:, :, -1:], last], 2).flatten(2) @ beta).unflatten(-1, (-1, symbols))
    worth = asked @ x.mT  # (seeds, B, K + 1, l): what each token is worth to each block of the query
    # the heads' averages of worth, as one product over heads and places together
    averaged = worth[:, :, 1:].flatten(2) @ attention.permute(0, 1, 3, 2).flatten(1, 2)  # (seeds, B, l)
    s = torch.softmax(worth[:, :, 0] + averaged, -1)
    return 1 - (s * (tokens == right[..., None])).sum(-1).mean(-1)
