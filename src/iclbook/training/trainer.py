"""The trainer: steps groups of runs together on shared data streams, records, checkpoints, resumes."""

import gc
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from .. import native, random, store
from ..errors import UserError
from ..random import jittered, moved_batch, replica_errors
from ..tasks import Batch
from ..workers import deferred_interrupt, progress_bar
from . import history
from .data import Stream
from .ensemble import Ensemble, can_compile, compile_method, pick_device, placed, steps_in_c
from .groups import Group
from .history import SEGMENT, History

#: Below this many steps torch's compiler costs more than it saves (about 15 s per group on one core, against stepping a single run without).
COMPILE_FROM_STEPS = 4_000
#: As many on a GPU, where a captured graph needs no compiler: nagy2026's ablation_d4, 2,000 steps of ten groups, took 213 s compiled on an H100 and its
#: ablation_d16, uncompiled, 63 s, both beside other trainings.
COMPILE_ON_GPU_FROM_STEPS = 20_000


class Trainer:
    """Trains all runs of all groups, one optimiser step at a time for all of them.

    Args:
        data: a kind of :mod:`iclbook.training.data`, or a task, of which every step draws a fresh batch.
        groups: runs with equal data seeds see equal batches, which are drawn once.
        steps, batch_size: optimiser steps, and prompts a step, B.
        record: steps at which losses and observations are kept; 0 and the last are always kept.
        device: ``auto``, ``cpu`` or ``cuda``.
        compile: ``True``, ``False``, or ``None`` for "where it pays and a compiler is there": steps in C for groups that have them
            (:func:`iclbook.training.ensemble.steps_in_c`), whatever their number, and otherwise torch's compiler.
        compile_from: number of steps from which torch's compiler pays, on a GPU no fewer than :data:`COMPILE_ON_GPU_FROM_STEPS`; ``None`` for never.
        label: names the training where a run diverges, such as ``"he2025/seeds"``.
    """

    #: Steps whose data are drawn at once and, on a GPU, captured in one graph. On a CPU one step's numbers stay in cache.
    CUDA_BLOCK = 16
    #: Whether a block on a GPU is captured; otherwise every operation is launched from Python.
    GRAPHS = True

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
        label: str = "the training",
        compile_from: int | None = COMPILE_FROM_STEPS,
    ) -> None:
        self.data = data if hasattr(data, "fixed") else Stream(data)  # of a task: fresh batches
        self.steps, self.batch_size = steps, batch_size
        self.device, self.dtype, self.label = pick_device(device), dtype, label
        record = history.log_and_linear_steps(steps) if record is None else record
        self.record = sorted({0, steps, *(int(s) for s in record if 0 <= s <= steps)})
        self.streams = sorted({run.data_seed for group in groups for run in group.runs})
        self.ensembles = [Ensemble(g, steps, self.streams, self.device, dtype) for g in groups]
        assert {step for g in groups for step in g.keep_at} <= {*self.record}, "parameters are kept at recorded steps"
        watched = dict.fromkeys(g.observe for g in groups)  # groups that are observed alike share their held-out data
        self._held_out = {observe: placed(observe.held_out(), self.device, dtype) for observe in watched}
        self._fixed = placed(tuple(self.data.fixed(self.streams)), self.device, dtype)
        self._keys = random.keys(self.streams, self.device)
        self._block = self.CUDA_BLOCK if self.device.type == "cuda" else 1
        self._ahead = torch.arange(1, self._block + 1, device=self.device)
        self._t = torch.zeros((), device=self.device, dtype=dtype)
        self._jitter = replica_errors(self.device)
        self._choose(compile, compile_from)
        self.done = 0
        #: States kept on the way, from which segments can be trained again (on a CPU only: a GPU takes steps in blocks, which a stop would cut).
        self.states: dict[str, Tensor] = {}
        self._starts = {end - SEGMENT for end in history.segment_ends(self.record)} if self._block == 1 else set()
        self._records: list[list[History]] = [[] for _ in groups]

    def _choose(self, compile: bool | None, compile_from: int | None) -> None:
        """Steps in C, by torch's compiler, or operation by operation."""
        on_cpu = self.device.type == "cpu"
        self._in_c = None
        if compile is not False and self._jitter is None:
            self._in_c = steps_in_c(self.data, self.ensembles, self._keys, self.batch_size, self.dtype)
        least = 0 if on_cpu else COMPILE_ON_GPU_FROM_STEPS
        pays = compile_from is not None and self.steps >= max(compile_from, least) and can_compile(self.device)
        self.compiled = self._in_c is not None or (pays if compile is None else compile)
        traced = self.compiled and not self._in_c
        # where a captured graph finds a block's numbers
        self._numbers = () if on_cpu else tuple(x.clone() for x in self._draw(self._keys, self._ahead))
        self._graph: torch.cuda.CUDAGraph | None = None
        self._one_step = compile_method(self._step_all) if traced else self._step_all
        drawn_in_c = self.dtype is torch.float32 and native.can_draw(self._keys)
        self._fresh = compile_method(self._draw) if traced and not drawn_in_c else self._draw

    # -- one step -----------------------------------------------------------------------------------------------------

    def _draw(self, keys: Tensor, steps: Tensor) -> tuple[Tensor, ...]:
        """The numbers of streams with keys ``(S, 2)`` at steps ``(K,)``: tensors ``(S, K, ...)``."""
        return tuple(self.data.draw(keys, steps, self.batch_size, self.dtype))

    def _batch(self, numbers: list[Tensor], fixed: tuple[Tensor, ...]) -> Batch:
        """One step's batch of all streams; of a perturbed replica, with rounding errors."""
        if self._jitter is None:
            return self.data.batch(tuple(numbers), fixed)
        return Batch(*moved_batch(lambda *moved: self.data.batch(moved, fixed), numbers, self._jitter))

    def _step_all(
        self, numbers: list, fixed: tuple, params: list, states: list, rates: list, t: Tensor
    ) -> tuple[list, list, list]:
        """New parameters and states of all groups, and losses before the step."""
        batch = self._batch(numbers, fixed)
        params = [self._moved(p) for p in params]
        new = []
        for ensemble, p, s, r in zip(self.ensembles, params, states, rates, strict=True):
            new.append(ensemble.step(p, s, ensemble.seen(batch), r, t))
        return tuple(map(list, zip(*new, strict=True)))

    def _moved(self, params: dict[str, Tensor]) -> dict[str, Tensor]:
        """The parameters of one group, of a perturbed replica moved by a rounding unit."""
        if self._jitter is None:
            return params
        return {k: jittered(v, self._jitter) for k, v in params.items()}

    def _advance(self, numbers: Sequence[Tensor], k: int) -> None:
        """One step on the k-th of several steps' numbers; results are copied into the same storage, as a captured graph needs."""
        params, states, rates = ([getattr(e, what) for e in self.ensembles] for what in ("params", "state", "rates"))
        *moved, losses = self._one_step([x[:, k] for x in numbers], self._fixed, params, states, rates, self._t)
        torch._foreach_copy_(tree_leaves([params, states]), tree_leaves(moved))
        torch._foreach_add_([e.loss_sum for e in self.ensembles], losses)

    @torch.no_grad()
    def _run(self, n: int) -> None:
        """``n`` steps, at most one block; a full block on a GPU is one graph replay."""
        steps = self.done + self._ahead
        if self.device.type == "cpu":
            self._t += 1
            if self._in_c:
                self._in_c(self.done + 1, self._t)
            else:
                self._advance(self._fresh(self._keys, steps), 0)
        else:
            if self._numbers:  # none where all data are fixed
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
            self._advance(self._numbers, k)

    def _capture(self) -> None:
        """Record one block of steps as a CUDA graph: in steady state no Python runs per step."""
        kept = [x.clone() for x in self._tensors()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # warm-up: compile and allocate outside the capture
            self._take(3)
        torch.cuda.current_stream().wait_stream(side)
        gc.collect()  # an earlier training's graph that is found as garbage meanwhile would end this capture
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._take(self._block)
        torch._foreach_copy_(self._tensors(), kept)

    # -- recording ----------------------------------------------------------------------------------------------------

    def _seen(self) -> Batch:
        """Batch that the runs saw last; of a block on a GPU its first step, and before training what they will see first."""
        drawn = self._numbers
        if self.device.type == "cpu":
            drawn = self._fresh(self._keys, torch.tensor([max(self.done, 1)]))
        return self.data.batch(tuple(x[:, 0] for x in drawn), self._fixed)

    @torch.no_grad()
    def _keep(self, steps_since: int) -> None:
        seen = self._seen()
        for ensemble, records in zip(self.ensembles, self._records, strict=True):
            group, total = ensemble.group, ensemble.loss_sum
            mean = total / steps_since if steps_since else torch.full_like(total, torch.nan)
            held_out = self._held_out[group.observe]
            # a perturbed replica is measured at moved parameters: measuring rounds, too
            values = ensemble.observed(self._moved(ensemble.params), ensemble.seen(seen), held_out)
            names = group.keep if self.done in group.keep_at else ()
            kept = {name: ensemble.params[name].half() for name in names}
            # what is observed may be the parameters themselves, hence the copy
            row = tree_map(lambda x: x.cpu().numpy()[None].copy(), (torch.tensor(self.done), mean, values, kept))
            records.append(History(*row))
            total.zero_()
            if not group.may_diverge:
                store.check_finite(self.label, history.pack({group.name: records[-1]}))

    def history(self) -> dict[str, History]:
        """Records so far, by group name."""
        return {e.group.name: history.joined(r, axis=0) for e, r in zip(self.ensembles, self._records, strict=True)}

    def parameters(self) -> dict[str, dict[str, Any]]:
        """Current parameters, by group and name, each ``(R, ...)``."""
        return {e.group.name: {k: v.cpu().numpy().copy() for k, v in e.params.items()} for e in self.ensembles}

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _describe(self, about: str) -> str:
        """Configuration that a checkpoint must have been made from, as JSON."""
        groups = [store.plain(e.group) for e in self.ensembles]
        sizes = [self.batch_size, self.steps, self.record, str(self.dtype), self.device.type]
        return json.dumps([store.plain(self.data), groups, sizes, about])

    def _tensors(self) -> list[Tensor]:
        return [*(x for e in self.ensembles for x in e.leaves()), self._t]

    def _save(self, path: Path, config: str) -> None:
        content = {"config": config, "done": self.done, "states": self.states}
        content |= {"tensors": [x.cpu() for x in self._tensors()]}
        records = [[vars(r) for r in records] for records in self._records]
        history.save_checkpoint(path, content | {"records": tree_map_only(np.ndarray, torch.from_numpy, records)})

    @torch.no_grad()
    def _restore(self, path: Path, config: str, fresh: bool) -> None:
        """Go on from a checkpoint, if there is one; with ``fresh`` one that cannot be resumed is deleted."""
        try:
            content = history.load_checkpoint(path, config)
        except UserError:
            if not fresh:
                raise
            return path.unlink(missing_ok=True)
        if content is not None:
            torch._foreach_copy_(self._tensors(), content["tensors"])
            kept_records = tree_map_only(Tensor, Tensor.numpy, content["records"])
            self._records = [[History(**r) for r in records] for records in kept_records]
            self.states, self.done = content["states"], content["done"]

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

        ``about`` is kept in the checkpoint. A checkpoint made with another ``about`` is refused.
        With ``fresh``, a checkpoint that cannot be resumed is deleted instead of refused.
        Ctrl-C and SIGTERM finish the step under way, write the checkpoint and raise KeyboardInterrupt; the next call goes on from there.

        Raises:
            UserError: damaged or foreign checkpoint, unwritable folder, or a recorded number that is not finite.
        """
        config = "" if checkpoint is None else self._describe(about)
        if checkpoint is not None:
            self._restore(checkpoint, config, fresh)
        if not self.done and not self._records[0]:
            self._keep(0)
        end = self.steps if until is None else min(until, self.steps)
        due = [s for s in self.record if s > self.done]
        last, saved = max(s for s in self.record if s <= self.done), time.monotonic()
        with deferred_interrupt() as interrupted, progress_bar(progress, self.steps, self.done) as update:
            while self.done < end:
                if self.done in self._starts:
                    self.states |= history.segment_states(self.ensembles, self.record, self.done)
                stops = [s for s in (due[0], *self._starts, end) if s > self.done]
                n = min(self._block, min(stops) - self.done)
                self._run(n)
                update(n)
                if self.done == due[0]:
                    self._keep(self.done - last)
                    last = due.pop(0)
                stop = interrupted.is_set()
                if checkpoint is not None and (stop or time.monotonic() - saved > every_s):
                    self._save(checkpoint, config)
                    saved = time.monotonic()
                if stop:
                    raise KeyboardInterrupt
        if checkpoint is not None and self.done < self.steps:
            self._save(checkpoint, config)
        return self.history()

    def train_segment(self, states: dict[str, np.ndarray], end: int) -> dict[str, History]:
        """Train a new trainer of the first run of each group from kept states to the record at step ``end``: the record there alone."""
        self.done = end - SEGMENT
        with torch.no_grad():
            for e in self.ensembles:
                for j, target in enumerate(e.leaves()):
                    target.copy_(torch.from_numpy(states[f"{e.group.name}/{self.done}/{j}"]))
            self._t.fill_(self.done)
        return self.train(progress=False, until=end)
