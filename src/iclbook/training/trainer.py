"""The trainer: steps groups of runs together on shared data streams, records, checkpoints, resumes."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import random
from ..errors import UserError
from ..native import counter
from ..rounding import current, jittered, moved_batch
from ..tasks import Batch
from . import checkpoint as checkpoints
from . import parts, stretches
from .data import as_data
from .description import plain
from .devices import can_compile, compile_method, pick_device
from .ensemble import Ensemble, placed
from .fused import Fused
from .groups import Group, Observation
from .history import History, log_and_linear_steps
from .interrupts import interruptible
from .progress import shown

#: Below this many steps torch's compiler costs more than it saves (about 15 s per group on one core, against stepping a single run without).
COMPILE_FROM_STEPS = 4_000


class Trainer:
    """Trains all runs of all groups, one optimiser step at a time for all of them.

    Args:
        data: a kind of :mod:`iclbook.training.data`, or a task, of which every step draws a fresh batch.
        groups: the groups; runs with equal data seeds see equal batches, which are drawn once.
        steps: optimiser steps.
        batch_size: prompts per step, B.
        record: steps at which losses and observations are kept; 0 and the last are always kept.
        device: ``auto``, ``cpu`` or ``cuda``.
        compile: ``True``, ``False``, or ``None`` for "where it pays and a compiler is there": steps in C for groups that have them
            (:mod:`iclbook.training.fused`), whatever their number, and otherwise torch's compiler.
        compile_from: number of steps from which torch's compiler pays; ``None`` for never.
        dtype: of parameters and data.
        label: begins the message of a run that diverges, such as ``"he2025/seeds: "``.

    Raises:
        UserError: sizes below 1, or what the groups and the device refuse.
    """

    #: Steps whose data are drawn at once and, on a GPU, captured in one graph. On a CPU one step's numbers stay in cache.
    CUDA_BLOCK = 16
    #: Whether a block on a GPU is captured; otherwise every operation is launched from Python.
    GRAPHS = True
    #: Whether groups that C code can step go through it (:mod:`iclbook.training.fused`); otherwise all are compiled by torch.
    FUSED = True

    def __init__(
        self,
        data: Any,
        groups: Sequence[Group],
        steps: int,
        batch_size: int = 256,
        record: Sequence[int] | None = None,
        device: str = "auto",
        compile: bool | None = None,
        dtype: torch.dtype = torch.float32,
        label: str = "",
        compile_from: int | None = COMPILE_FROM_STEPS,
    ) -> None:
        if steps < 1 or batch_size < 1:
            raise UserError(f"steps={steps}, batch_size={batch_size}", "Both must be 1 or more.")
        self.data, self.steps, self.batch_size = as_data(data), steps, batch_size
        self.device, self.dtype, self.label = pick_device(device), dtype, label
        record = log_and_linear_steps(steps) if record is None else record
        self.record = sorted({0, steps, *(int(s) for s in record if 0 <= s <= steps)})
        self.streams = sorted({run.data_seed for group in groups for run in group.runs})
        if never := {step for g in groups for step in g.keep_at} - set(self.record):
            raise UserError(f"parameters to keep at steps {sorted(never)}", "Keep them at recorded steps.")
        watched: dict[Observation, Any] = {}
        self.ensembles = [Ensemble(g, steps, self.streams, self.device, dtype, watched) for g in groups]
        self._fixed = placed(tuple(self.data.fixed(self.streams)), self.device, dtype)
        self._keys = random.keys(self.streams, self.device)
        self._block = self.CUDA_BLOCK if self.device.type == "cuda" else 1
        self._ahead = torch.arange(1, self._block + 1, device=self.device)
        self._t = torch.zeros((), device=self.device, dtype=dtype)
        self._jitter = current(self.device)
        self._choose(compile, compile_from)
        self.done = 0
        #: States kept on the way, see :mod:`iclbook.training.stretches` (on a CPU only: a GPU takes steps in blocks, which a stop would cut).
        self.states: dict[str, np.ndarray] = {}
        ends = stretches.ends(self.record) if self._block == 1 else ()
        self._starts = {end - stretches.STRETCH for end in ends}
        self._about: Any = ""
        self._losses: list[list[np.ndarray]] = [[] for _ in groups]
        self._observed: list[list[dict[str, np.ndarray]]] = [[] for _ in groups]
        self._kept: list[list[dict[str, np.ndarray]]] = [[] for _ in groups]

    def _choose(self, compile: bool | None, compile_from: int | None) -> None:
        """Steps in C, by torch's compiler, or operation by operation; and in how many parts."""
        on_cpu = self.device.type == "cpu"
        self._fused = None
        if compile is not False and self.FUSED and self._jitter is None:
            self._fused = Fused.of(self.data, self.ensembles, self._keys, self.batch_size, self.dtype)
        pays = compile_from is not None and self.steps >= compile_from and can_compile(self.device)
        self.compiled = self._fused is not None or (pays if compile is None else compile)
        traced = self.compiled and not self._fused
        numbers = self._draw(self._keys, self._ahead)
        self._parts = [parts.whole(self.ensembles, self._keys)]
        if traced and on_cpu and not self._fixed:
            self._parts = parts.cut(self.ensembles, self._keys, sum(x[0].nbytes for x in numbers))
        # where a captured graph finds a block's numbers
        self._numbers = () if on_cpu else tuple(x.clone() for x in numbers)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._one_step = compile_method(self._step_all) if traced else self._step_all
        in_c = self.dtype is torch.float32 and counter.can_draw(self._keys)
        self._fresh = compile_method(self._draw) if traced and not in_c else self._draw

    # -- one step -----------------------------------------------------------------------------------------------------

    def _draw(self, keys: Tensor, steps: Tensor) -> tuple[Tensor, ...]:
        """The numbers of streams with keys ``(S, 2)`` at steps ``(K,)``: tensors ``(S, K, ...)``."""
        return tuple(self.data.draw(keys, steps, self.batch_size, self.dtype))

    def _batch(self, numbers: list[Tensor], fixed: tuple[Tensor, ...]) -> Batch:
        """One step's batch of all streams; of a twin, with rounding errors."""
        if self._jitter is None:
            return self.data.batch(tuple(numbers), fixed)
        if not numbers:
            return Batch(*(jittered(part, self._jitter) for part in self.data.batch((), fixed)))
        return Batch(*moved_batch(lambda *moved: self.data.batch(moved, fixed), numbers, self._jitter))

    def _step_all(
        self, numbers: list, fixed: tuple, params: list, states: list, rates: list, t: Tensor
    ) -> tuple[list, list, list]:
        batch = self._batch(numbers, fixed)
        params = [self._moved(p) for p in params]
        new = []
        for ensemble, p, s, r in zip(self.ensembles, params, states, rates, strict=True):
            new.append(ensemble.step(p, s, ensemble.seen(batch), r, t))
        return tuple(map(list, zip(*new, strict=True)))

    def _moved(self, params: dict[str, Tensor]) -> dict[str, Tensor]:
        """The parameters of one group, of a twin moved by a rounding unit."""
        if self._jitter is None:
            return params
        return {k: jittered(v, self._jitter) for k, v in params.items()}

    def _advance(self, part: parts.Part, numbers: Sequence[Tensor], k: int) -> None:
        """One step of some runs on the k-th slice of drawn numbers; results are copied into the same storage, as a captured graph needs."""
        now = part.params, part.state, part.rates
        params, states, losses = self._one_step([x[:, k] for x in numbers], self._fixed, *now, self._t)
        torch._foreach_copy_(part.moving(), checkpoints.leaves([params, states]))
        torch._foreach_add_(part.losses, losses)

    @torch.no_grad()
    def _run(self, n: int) -> None:
        """``n`` steps, at most one block; a full block on a GPU is one graph replay."""
        steps = self.done + self._ahead
        if self.device.type == "cpu":
            self._t += 1
            if self._fused:
                self._fused.step(self.done + 1, self._t)
            else:
                for part in self._parts:
                    self._advance(part, self._fresh(part.keys, steps), 0)
        else:
            torch._foreach_copy_(self._numbers, self._fresh(self._keys, steps))
            if self.GRAPHS and n == self._block:
                if self._graph is None:
                    self._capture()
                self._graph.replay()
            else:
                self._take(n)
        self.done += n

    def _take(self, n: int) -> None:
        """The first ``n`` steps of the block whose numbers are in place."""
        for k in range(n):
            self._t += 1
            self._advance(self._parts[0], self._numbers, k)

    def _capture(self) -> None:
        """Record one block of steps as a CUDA graph: in steady state no Python runs per step."""
        kept = [x.clone() for x in self._tensors()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # warm-up: compile and allocate outside the capture
            self._take(3)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._take(self._block)
        torch._foreach_copy_(self._tensors(), kept)

    # -- recording ----------------------------------------------------------------------------------------------------

    def _seen(self) -> Batch:
        """What the runs saw last; of a block on a GPU its first step, and before training what they are to see first."""
        drawn = [self._numbers]
        if self.device.type == "cpu":
            step = torch.tensor([max(self.done, 1)])
            drawn = [self._fresh(part.keys, step) for part in self._parts]
        return self.data.batch(tuple(torch.cat(x)[:, 0] for x in zip(*drawn, strict=True)), self._fixed)

    @torch.no_grad()
    def _keep(self, steps_since: int) -> None:
        seen = self._seen()
        for i, ensemble in enumerate(self.ensembles):
            total = ensemble.loss_sum
            mean = total / steps_since if steps_since else torch.full_like(total, torch.nan)
            self._losses[i].append(mean.cpu().numpy())
            total.zero_()
            # kept parameters are the parameters themselves, hence the copy; of a twin those of moved parameters: measuring rounds, too
            found = ensemble.observed(self._moved(ensemble.params), ensemble.seen(seen))
            self._observed[i].append({k: v.cpu().numpy().copy() for k, v in found.items()})
            if self.done in ensemble.group.keep_at:
                self._kept[i].append({k: v.cpu().numpy() for k, v in ensemble.kept().items()})
            if not ensemble.group.may_diverge:
                self._refuse_what_is_not_finite(
                    ensemble.group, {**self._observed[i][-1], "loss": self._losses[i][-1]}
                )

    def _refuse_what_is_not_finite(self, group: Group, recorded: dict[str, np.ndarray]) -> None:
        for name, array in recorded.items():
            bad = ~np.isfinite(array)
            if bad.any() and (name != "loss" or self.done):
                run = group.runs[int(np.argwhere(bad)[0][0])]
                raise UserError(
                    f"{self.label}{name} of group {group.name}, seed {run.seed} (rate {run.rate:g}), is not finite at step {self.done}",
                    "Lower the rate, or say may_diverge of that group if diverging is a result.",
                )

    def history(self) -> dict[str, History]:
        """Records so far, by group name."""
        steps = np.array([s for s in self.record if s <= self.done])
        out = {}
        for i, ensemble in enumerate(self.ensembles):
            names = self._observed[i][0]
            circuits = {name: np.stack([c[name] for c in self._observed[i]]) for name in names}
            kept = {k: np.stack([c[k] for c in self._kept[i]]) for k in ensemble.group.keep if self._kept[i]}
            out[ensemble.group.name] = History(steps, np.stack(self._losses[i]), circuits, kept)
        return out

    def parameters(self) -> dict[str, dict[str, np.ndarray]]:
        """Current parameters, by group and name, each ``(R, ...)``."""
        return {
            e.group.name: {k: v.cpu().numpy().copy() for k, v in e.params.items()} for e in self.ensembles
        }

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _describe(self) -> str:
        """What a checkpoint must have been made from, as JSON."""
        groups = [plain(e.group) for e in self.ensembles]
        sizes = [self.batch_size, self.steps, self.record, str(self.dtype), self.device.type]
        return json.dumps([plain(self.data), groups, sizes, self._about])

    def leaves(self, group: int) -> list[Tensor]:
        """Parameters, optimiser state and sum of losses since the last record of one group, each with the runs first."""
        e = self.ensembles[group]
        return checkpoints.leaves([e.params, e.state, e.loss_sum])

    def run_on(self, start: int, end: int, since: int) -> dict[str, History]:
        """Train from step ``start``, whose state was put in place, to ``end``: the record there alone, losses over the last ``since`` steps."""
        self._t.fill_(start)
        self.done = start
        while self.done < end:
            self._run(min(self._block, end - self.done))
        self._keep(since)
        return {
            e.group.name: History(
                np.array([end]), np.stack(losses), {k: v[None] for k, v in seen[-1].items()}
            )
            for e, losses, seen in zip(self.ensembles, self._losses, self._observed, strict=True)
        }

    def _tensors(self) -> list[Tensor]:
        each = [[e.params for e in self.ensembles], [e.state for e in self.ensembles]]
        return checkpoints.leaves([*each, [e.loss_sum for e in self.ensembles], [self._t]])

    def _save(self, path: Path) -> None:
        content = {
            "states": {k: torch.from_numpy(v) for k, v in self.states.items()},
            "config": self._describe(),
            "done": self.done,
            "tensors": [x.cpu() for x in self._tensors()],
            "losses": [[torch.from_numpy(x) for x in xs] for xs in self._losses],
            "observed": checkpoints.tensors(self._observed),
            "kept": checkpoints.tensors(self._kept),
        }
        checkpoints.save(path, content | {"shapes": checkpoints.shapes(content)})

    def _restore(self, path: Path, fresh: bool) -> bool:
        """Go on from a checkpoint, if there is one; with ``fresh`` one that cannot be resumed is deleted."""
        try:
            content = checkpoints.load(path, self._describe())
            if content is None:
                return False
            try:
                checkpoints.check(content, self._tensors(), self.steps, self.record, self.ensembles)
            except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
                raise checkpoints.damaged(path, error) from error
        except UserError:
            if not fresh:
                raise
            path.unlink(missing_ok=True)
            return False
        with torch.no_grad():
            for target, value in zip(self._tensors(), content["tensors"], strict=True):
                target.copy_(value)
        self._losses = [[x.numpy() for x in xs] for xs in content["losses"]]
        self._observed, self._kept = (checkpoints.arrays(content[part]) for part in ("observed", "kept"))
        self.states = {k: v.numpy() for k, v in content["states"].items()}
        self.done = content["done"]
        return True

    # -- the loop -----------------------------------------------------------------------------------------------------

    def train(
        self,
        checkpoint: Path | None = None,
        every_s: float = 60.0,
        progress: bool = True,
        until: int | None = None,
        about: str = "",
        fresh: bool = False,
    ) -> dict[str, History]:
        """Train to the end (or to step ``until``), resuming from ``checkpoint`` when it exists.

        ``about`` is kept in the checkpoint, which is refused by a trainer that is told another one: what else must not change.
        With ``fresh``, a checkpoint that cannot be resumed is deleted instead of refused.
        Ctrl-C finishes the step under way, writes the checkpoint and raises KeyboardInterrupt; the next call goes on from there.

        Raises:
            UserError: damaged or foreign checkpoint, unwritable folder, or a recorded number that is not finite.
        """
        self._about = about
        resumed = checkpoint is not None and self._restore(checkpoint, fresh)
        if not resumed and not self._losses[0]:
            self._keep(0)
        end = self.steps if until is None else min(until, self.steps)
        marks = [s for s in self.record if s > self.done]
        last_mark, saved = max(s for s in self.record if s <= self.done), time.monotonic()
        with interruptible() as interrupted, shown(progress, self.steps, self.done) as bar:
            while self.done < end:
                if self.done in self._starts:
                    self.states |= stretches.states(self)
                stops = [s for s in (marks[0], *self._starts, end) if s > self.done]
                n = min(self._block, min(stops) - self.done)
                self._run(n)
                bar.update(n)
                if self.done == marks[0]:
                    self._keep(self.done - last_mark)
                    last_mark = marks.pop(0)
                due = interrupted.is_set() or time.monotonic() - saved > every_s
                if due and checkpoint is not None:
                    self._save(checkpoint)
                    saved = time.monotonic()
                if interrupted.is_set():
                    raise KeyboardInterrupt
        if checkpoint is not None and self.done < self.steps:
            self._save(checkpoint)
        return self.history()
