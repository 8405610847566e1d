"""Every rung of the ladder as one function: ``steps(n)`` takes n optimiser steps of all runs and returns when they are done."""

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import torch

from iclbook.models import Attention
from iclbook.tasks import LinearRegression
from iclbook.training import Group, Run, Trainer
from iclbook.training import trainer as trainer_module
from iclbook.training.on_gpu import OneLaunch

from .plain_loop import PlainLoop
from .work import BATCH, CONTEXT, D_COVARIATE, NOISE_VAR, RATE, STEPS, Case

TASK = LinearRegression(D_COVARIATE, CONTEXT, NOISE_VAR)


def task(case: Case) -> LinearRegression:
    """The prompts of a case."""
    return LinearRegression(case.d, case.L, NOISE_VAR)


class StepByStep(Trainer):
    """The trainer without graph replay: on a GPU every operation is launched from Python."""

    GRAPHS = False


class Traced(Trainer):
    """The trainer without steps in C, as models that have none are trained: torch traces and compiles the step."""

    def _choose(self, compile: bool | None, compile_from: int | None) -> None:
        with patch.object(trainer_module, "steps_in_c", lambda *_: None):
            super()._choose(compile, compile_from)


def trainer(case: Case, kind: type[Trainer] = Trainer) -> Trainer:
    """The trainer for ``case``; each run has a data stream of its own, unless the contender is ``shared``."""
    stream = 0 if case.contender == "shared" else None
    group = Group(
        "runs",
        Attention,
        {"d": case.d, "n_heads": case.n_heads, "score_scale": "code"},
        [Run(seed, RATE, stream=stream) for seed in range(case.runs)],
    )
    compiled = case.contender in ("compiled", "traced", "shared", "graph compiled", "kernel")
    return kind(task(case), [group], STEPS, BATCH, record=(), device=case.device, compile=compiled)


def plain_loops(case: Case) -> list[PlainLoop]:
    """One plain loop per run."""
    model = Attention(case.d, case.n_heads, score_scale="code")
    loops = []
    for seed in range(case.runs):
        generator = torch.Generator(device=case.device).manual_seed(seed)
        model.initialise(torch.Generator().manual_seed(seed))
        params = {name: p.detach() for name, p in model.named_parameters()}
        loops.append(PlainLoop(task(case), params, BATCH, generator, RATE, case.scale))
    if case.contender == "plain compiled":
        compiled = torch.compile(loops[0].loss)
        loops[0].loss = compiled  # one run is enough: the others would run the same code
        loops = loops[:1] * case.runs
    return loops


def apart(case: Case, steps: int = 100) -> dict[str, float]:
    """Largest distances of losses and parameters, as shares of the largest, between a contender after so many steps and the steps in C on a CPU."""
    ends = []
    for kind, where in ((OneLaunch, case), (Trainer, replace(case, contender="compiled", device="cpu"))):
        ours = trainer(where, kind)
        ours.train(progress=False, until=steps)
        params = torch.cat([p.cpu().flatten() for p in ours.ensembles[0].params.values()])
        ends.append({"losses": ours.ensembles[0].loss_sum.cpu(), "parameters": params})
    return {k: float((x - ends[1][k]).abs().max() / ends[1][k].abs().max()) for k, x in ends[0].items()}


def build(case: Case) -> tuple[Callable[[int], None], int]:
    """``steps(n)`` and the unit that ``n`` must be a multiple of."""
    if case.contender.startswith("jax"):
        from . import jax_peer  # optional: only where jax is installed

        return jax_peer.build(case)
    wait = torch.cuda.synchronize if case.device == "cuda" else lambda: None
    if case.contender.startswith("plain"):
        loops = plain_loops(case)

        def one_at_a_time(n: int) -> None:
            for loop in loops:
                for _ in range(n):
                    loop.step()
            wait()

        return one_at_a_time, 1
    ours = trainer(case, {"eager": StepByStep, "traced": Traced, "kernel": OneLaunch}.get(case.contender, Trainer))
    assert case.contender != "kernel" or ours._launched, "this GPU has no room for a run"

    def together(n: int) -> None:
        ours.train(progress=False, until=ours.done + n)
        wait()

    return together, Trainer.CUDA_BLOCK if case.device == "cuda" else 1
