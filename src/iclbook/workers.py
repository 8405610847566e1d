"""Parts of a study in processes of their own: one thread each, pinned code paths, how far they are, and again when one is killed."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from tqdm.auto import tqdm

from .book import orphans
from .errors import UserError, one_line
from .machines import environment, usable_cores

#: How often a call is begun whose process was killed.
TRIES = 3
#: Seconds between two messages of a process.
PULSE = 0.5

Tell = Callable[[int, int], None]


# -- in the process that computes --------------------------------------------------------------------------------------


def answer() -> None:
    """Do the call that comes on standard input; send how far it is, and what came out, on standard output."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the call prints must not mix with messages
    lock = threading.Lock()
    latest: list[tuple[int, int]] = [(0, 0)]

    def send(kind: str, content: Any) -> None:
        with lock:
            pickle.dump((kind, content), out)
            out.flush()

    def pulse() -> None:
        while not over.wait(PULSE):
            send("at", latest[0])

    over = threading.Event()
    beating = threading.Thread(target=pulse, daemon=True)
    beating.start()
    try:
        kind, content = "done", _computed(sys.stdin.buffer, latest)
    except KeyboardInterrupt:
        kind, content = "stopped", None
    except Exception as problem:
        kind, content = "failed", _portable(problem)
    over.set()
    beating.join()
    send("at", latest[0])
    send(kind, content)


def _computed(source: BinaryIO, latest: list[tuple[int, int]]) -> Any:
    about, far, call = pickle.load(source)
    try:
        function, arguments = pickle.loads(call)
    except (ImportError, AttributeError) as problem:
        raise UserError(
            f"the code of the worker lacks what this one asks for ({one_line(problem)})", _SAME
        ) from problem
    _require_same(about, versions(arguments))
    own = [_own(a) if far and _is_out_of_reach(a) else a for a in arguments]
    from .training.progress import told_to

    with told_to(lambda *at: latest.__setitem__(0, at)):
        result = function(*own)
    for path in own:
        if isinstance(path, Path) and path not in arguments:  # nobody else would remove it
            path.unlink(missing_ok=True)
    return result


_SAME = "Give every worker the same checkout and the same packages."


def versions(arguments: Any) -> dict[str, str]:
    """What must not differ between the process that asks and the one that computes."""
    import numpy as np
    import torch

    code = next((a.source() for a in arguments if hasattr(a, "source")), "")
    return {"torch": torch.__version__, "numpy": np.__version__, "the digest of the training code": code}


def _require_same(here: Mapping[str, str], there: Mapping[str, str]) -> None:
    for what, version in here.items():
        if there[what] != version:
            raise UserError(f"{what} is {version} here and {there[what]} in a worker", _SAME)


def _is_out_of_reach(value: Any) -> bool:
    """Whether this is a checkpoint in a folder that is not there, as on a machine that shares no files with ours."""
    return isinstance(value, Path) and not value.parent.is_dir()


def _own(path: Path) -> Path:
    """The file of the same name in a folder of this machine."""
    return Path(tempfile.gettempdir()) / f"iclbook-{os.getuid()}" / path.name


def _portable(problem: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(problem))
        return problem
    except Exception:
        return RuntimeError(f"{type(problem).__name__}: {problem}")


# -- in the process that asks ------------------------------------------------------------------------------------------


class Stopped(Exception):
    """The call was not wanted any more; its checkpoint is written."""


def packed(function: Callable[..., Any], arguments: tuple[Any, ...], far: bool = False) -> bytes:
    """A call as bytes; with ``far``, checkpoints lie in a folder of the worker's machine where our own cannot be reached from there."""
    return pickle.dumps((versions(arguments), far, pickle.dumps((function, arguments))))


def call(request: bytes, tell: Tell, wanted: Callable[[], bool]) -> tuple[str, Any]:
    """Have a process of its own do a packed call, again if it is killed: a training goes on from its checkpoint.

    Args:
        tell: hears steps done and steps in all.
        wanted: asked at every message; once it says no, the process is told to stop, as by Ctrl-C.

    Returns:
        ``("done", result)`` or ``("failed", exception)``.

    Raises:
        Stopped: it was not wanted any more.
    """
    code = 0
    for _ in range(TRIES):
        kind, content = _once(request, tell, wanted)
        if kind == "stopped":
            raise Stopped
        if kind != "killed":
            return kind, content
        code = content
    problem = f"a training process was killed {TRIES} times (last exit code {code})"
    return "failed", UserError(
        problem, "Free memory or take fewer --workers; the same command goes on from its checkpoint."
    )


def _once(request: bytes, tell: Tell, wanted: Callable[[], bool]) -> tuple[str, Any]:
    with subprocess.Popen(
        orphans.call("from iclbook.workers import answer; answer()"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment("training"),
        start_new_session=True,  # Ctrl-C reaches it through us alone
    ) as process:
        try:
            process.stdin.write(request)
            process.stdin.close()
            told = False
            while True:
                kind, content = pickle.load(process.stdout)
                if kind != "at":
                    return kind, content
                tell(*content)
                if not told and not wanted():
                    process.send_signal(signal.SIGINT)
                    told = True
        except (EOFError, pickle.UnpicklingError, BrokenPipeError):
            if not wanted():
                return "stopped", None
            return "killed", process.wait()


class Bar:
    """One bar for all parts of a study, in steps of a part; knows how long the rest takes from all of them."""

    def __init__(self, show: bool) -> None:
        self._show, self._lock = show, threading.Lock()
        self._at: dict[int, int] = {}
        self._parts: set[int] = set()
        self._bar: tqdm | None = None

    def expect(self, part: int, fresh: bool) -> None:
        """One more part; with ``fresh`` it is the first of another study."""
        with self._lock:
            if fresh:
                self.close()
            self._parts.add(part)

    def tell(self, part: int, done: int, total: int) -> None:
        """A part is at step ``done`` of ``total``."""
        with self._lock:
            if part not in self._parts or not total or not self._show:
                return
            if self._bar is None:
                self._bar = tqdm(unit="step", mininterval=1.0)
            if part not in self._at:  # where a resumed part begins is no progress of today
                self._bar.initial += done
            self._bar.total = total * len(self._parts)
            self._at[part] = done
            self._bar.set_description(
                f"{sum(at > 0 for at in self._at.values())} of {len(self._parts)} parts"
            )
            self._bar.update(max(0, sum(self._at.values()) - self._bar.n))

    def close(self) -> None:
        """Leave the terminal alone."""
        if self._bar is not None:
            self._bar.close()
        self._bar, self._at, self._parts = None, {}, set()


class Local(Executor):
    """So many processes of this machine, each computing on one thread."""

    def __init__(self, processes: int, progress: bool = True) -> None:
        self._threads = ThreadPoolExecutor(processes)
        self._stopping = threading.Event()
        self._futures: list[Future] = []
        self._bar = Bar(progress)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Have ``function(*arguments)`` computed in a process of its own."""
        number = len(self._futures)
        self._bar.expect(number, fresh=all(future.done() for future in self._futures))
        request = packed(function, arguments)
        self._futures.append(self._threads.submit(self._result, request, partial(self._bar.tell, number)))
        return self._futures[-1]

    def _result(self, request: bytes, tell: Tell) -> Any:
        kind, content = call(request, tell, lambda: not self._stopping.is_set())
        if kind == "failed":
            raise content
        return content

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._stopping.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._bar.close()


def usable_workers(asked: int | None, device: str) -> int:
    """How many processes share a study: as asked for, otherwise one a core, and one on a GPU, which runs share by themselves."""
    if asked is not None:
        return asked
    from .training.devices import pick_device

    return usable_cores() if pick_device(device).type == "cpu" else 1
