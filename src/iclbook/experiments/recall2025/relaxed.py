"""The dynamics when simplifications A0 to A3 are lifted (recall2025, appendix A.2 and A.6, "Generalizations of the simple model")."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch

from ...models import RecallTransformer
from ...tasks import AssociativeRecall
from ...theory import recall2025 as theory
from ...training import Flow, gradient_flow
from .first_jump import R

ORDER = 3


def exact_loss(model: RecallTransformer, tokens: torch.Tensor) -> torch.Tensor:
    """Population dot-product loss: with A1 the scores do not depend on the map f, so the mean over f is closed; ``tokens`` hold every query once."""
    s = model.response_weights(tokens)  # (n!, n!)
    right = s.diagonal()
    return 1 - (right + (s.sum(-1) - right) / model.n_responses).mean()


def flow_of(model: RecallTransformer, betas: tuple[float, ...], until: float) -> tuple[Flow, np.ndarray]:
    """Exact gradient flow of a model with A1 from ``w = 0`` and these beta: the flow and its losses ``(T,)``."""
    task = AssociativeRecall(model.order, model.n_responses)
    queries = np.arange(task.n_permutations)
    tokens = torch.tensor(task.sequences(queries, np.zeros((len(queries), len(queries)), dtype=int)))
    cut = model.w.numel()

    def load(theta: np.ndarray) -> None:
        with torch.no_grad():
            model.w.copy_(torch.tensor(theta[:cut].reshape(model.w.shape)))
            model.beta.copy_(torch.tensor(theta[cut:]))

    def gradient(theta: np.ndarray) -> np.ndarray:
        load(theta)
        grads = torch.autograd.grad(exact_loss(model, tokens), [model.w, model.beta])
        return np.concatenate([g.numpy().ravel() for g in grads])

    flow = gradient_flow(
        gradient, np.concatenate([np.zeros(cut), betas]), until, method="RK45", rtol=1e-6, atol=1e-10
    )
    losses = []
    with torch.no_grad():
        for theta in flow.states:
            load(theta)
            losses.append(exact_loss(model, tokens).item())
    return flow, np.array(losses)


def lifted(
    betas: tuple[float, ...] = (0.3, 0.1, 0.03), patience: float = 30.0
) -> dict[str, dict[str, object]]:
    """All eight ways to keep or lift A0, A2 and A3 on a task of order three with three heads.

    Returns:
        name -> times and losses of the flow, the times at which the loss passes below the middle of the plateaus 0, 1 and 1, 2 (inf if never), and the
        share of first-layer attention that the first two heads put on their own offset at the end.
    """
    task = AssociativeRecall(ORDER, R)
    middles = [(task.plateau_dp(m) + task.plateau_dp(m + 1)) / 2 for m in (0, 1)]
    until = patience * theory.jump_limit(ORDER, R) / betas[0]
    far = 40  # a head that sees every earlier token starts from an attention this much weaker, and is waited for longer
    found = {}
    for a0, a2, a3 in product((True, False), repeat=3):
        model = RecallTransformer(ORDER, R, ORDER, a0=a0, a2=a2, a3=a3)
        flow, losses = flow_of(model, betas, until if a0 else far * until)
        times = []
        for middle in middles:
            below = np.flatnonzero(losses < middle)
            times.append(float(flow.times[below[0]]) if len(below) else np.inf)
        attention = torch.softmax(model.w.detach(), -1)
        own = [float(attention[h, h if a0 else h + 1]) for h in (0, 1)]
        name = "".join(f" A{i}" for i, kept in ((0, a0), (2, a2), (3, a3)) if not kept).strip() or "none"
        found[name] = {
            "times": flow.times,
            "loss": losses,
            "jumps": times,
            "own": own,
            "end": float(losses[-1]),
        }
    return found


def free_matrix(
    seeds: int, steps: int, a0: bool, scale: float = 0.1, rate: float = 3e-3, batch: int = 64
) -> dict[str, np.ndarray]:
    """The whole two-layer model (A1, A2, A3 lifted, and A0 unless kept) with a free ``Q^T K``, trained by Adam on the dot-product loss.

    Returns:
        ``steps (T,)`` and ``loss (T, seeds)``, the mean over the hundred steps before each record.
    """
    task = AssociativeRecall(ORDER, 2)
    every, losses = 100, []
    for seed in range(seeds):
        model = RecallTransformer(ORDER, 2, ORDER, a0=a0, a1=False, a2=False, a3=False)
        model.initialise(torch.Generator().manual_seed(seed), scale)
        rng, optimiser, row, total = (
            np.random.default_rng(seed),
            torch.optim.Adam(model.parameters(), rate),
            [],
            0.0,
        )
        for step in range(1, steps + 1):
            queries, maps = task.sample(batch, rng)
            tokens = torch.tensor(task.sequences(queries, maps))
            right = torch.tensor(ORDER + maps[np.arange(batch), queries])
            loss = 1 - model(tokens).gather(1, right[:, None]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item()
            if step % every == 0:
                row.append(total / every)
                total = 0.0
        losses.append(row)
    return {"steps": np.arange(every, steps + 1, every), "loss": np.array(losses).T}


def verdict_values(found: dict[str, dict[str, object]], separate: float = 1.2) -> dict[str, float]:
    """What the claims about the simplifications record: second over first jump with one lifted (0 if one is missing), and counts of variants with two."""

    def ratio(name: str) -> float:
        first, second = found[name]["jumps"]
        return second / first if np.isfinite(second) else 0.0

    keep = {name: ratio(name) > separate for name in found if name != "none"}
    return {
        **{f"full/{name}": ratio(name) for name in ("A0", "A2", "A3")},
        "full/single": sum(kept for name, kept in keep.items() if " " not in name),
        "full/joint": sum(kept for name, kept in keep.items() if " " in name),
        "full/lost": sum(not np.isfinite(run["jumps"][0]) for run in found.values()),
    }
