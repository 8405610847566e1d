"""Parts of a study as tasks of a :class:`concurrent.futures.Executor`: on this machine or on a Dask cluster.

Either way a part is computed by a process of its own, with one thread and pinned code paths; one that is killed is begun again and goes on from its
checkpoint. How far the processes are, they send back; Ctrl-C and SIGTERM reach them as a flag that is read between steps.
"""

import ctypes
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import count
from multiprocessing.connection import Connection, Pipe
from typing import Any

from tqdm.auto import tqdm

from .errors import UserError, one_line
from .files import check_kernels
from .machines import environment, usable_cores
from .sources import short

#: How often a call is begun whose process was killed.
TRIES = 3
#: Interval in seconds between two messages of a process, and polling interval of its cancel flag.
PULSE = 0.5
#: Seconds in which a scheduler must answer.
PATIENCE = 10
#: Name under which workers of a cluster say how far they are.
TOPIC = "iclbook"

#: Hears the step at which a training began, the steps done and the steps in all.
Callback = Callable[[int, int, int], None]
#: In a process that computes for another one: trainings call it and show no bar.
_callbacks: list[Callback] = []


# -- how far a training is, and when it is to stop ---------------------------------------------------------------------


@contextmanager
def progress_bar(show: bool, total: int, start: int = 0, unit: str = "step") -> Iterator[Callable[[int], Any]]:
    """A function that hears the number of further steps: for the callback where there is one, otherwise for a bar, or for nobody."""
    if not _callbacks:
        with tqdm(total=total, initial=start, disable=not show, unit=unit, mininterval=1.0) as bar:
            yield bar.update
        return
    done = start

    def update(n: int) -> None:
        nonlocal done
        done += n
        _callbacks[-1](start, done, total)

    update(0)
    yield update


@contextmanager
def on_interrupt(handler: Callable[..., Any]) -> Iterator[None]:
    """Call ``handler(signal, frame)`` on Ctrl-C and on SIGTERM, which cluster managers send. Outside the main thread: no change."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """An interrupt as a flag that is read between steps, so that no step is cut in half."""
    flag = threading.Event()
    with on_interrupt(lambda *_: flag.set()):
        yield flag


# -- in the process that computes --------------------------------------------------------------------------------------


def die_with(parent: int) -> None:
    """Have the kernel kill this process when ``parent`` dies, also by SIGKILL (prctl PR_SET_PDEATHSIG); other systems than Linux do nothing."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            os.kill(os.getpid(), signal.SIGKILL)


def answer(parent: int, channel: int) -> None:
    """Do the packed call that comes through the pipe ``channel``; send how far it is, and what came out."""
    die_with(parent)
    check_kernels()
    pipe, sent = Connection(channel), [0.0]

    def tell(*at: int) -> None:
        if at[1] == at[2] or time.monotonic() - sent[-1] > PULSE:
            pipe.send(("at", at))
            sent[-1] = time.monotonic()

    _callbacks.append(tell)
    try:
        pipe.send(("done", _call(pipe.recv_bytes())))
    except KeyboardInterrupt:
        pipe.send(("stopped", None))
    except Exception as problem:  # others may not survive the way
        known = isinstance(problem, UserError)
        pipe.send(("failed", problem if known else RuntimeError(f"{type(problem).__name__}: {problem}")))


def packed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """A call as bytes."""
    return pickle.dumps((versions(arguments), function, arguments))


def _call(request: bytes) -> Any:
    same = "Give every worker the same checkout and the same packages."
    try:
        theirs, function, arguments = pickle.loads(request)
    except (ImportError, AttributeError) as problem:
        lacking = f"the code of the worker lacks what this one asks for ({one_line(problem)})"
        raise UserError(lacking, same) from problem
    for what, ours in versions(arguments).items():
        if theirs[what] != ours:
            raise UserError(f"{what} is {theirs[what]} here and {ours} in a worker", same)
    return function(*arguments)


def versions(arguments: Any) -> Mapping[str, str]:
    """Versions that must not differ between the process that asks and the one that computes."""
    import numpy as np
    import torch

    code = next((short(a.source()) for a in arguments if hasattr(a, "source")), "")
    return {"torch": torch.__version__, "numpy": np.__version__, "the digest of the training code": code}


# -- in the process that asks ------------------------------------------------------------------------------------------


def in_process(request: bytes, callback: Callback, is_wanted: Callable[[], bool]) -> Any:
    """Result or exception of a packed call in a process of its own, which is begun again when it is killed. ``is_wanted`` is asked every half a second; once it
    says no, the process gets a signal to stop, writes its checkpoint, and this is an InterruptedError."""
    for _ in range(TRIES):
        kind, content = _once(request, callback, is_wanted)
        if kind == "done":
            return content
        if kind == "failed":
            raise content
        if not is_wanted():
            raise InterruptedError
    hint = "Free memory or take fewer --workers; the same command goes on from its checkpoint."
    raise UserError(f"a training process was killed {TRIES} times (last exit code {content})", hint)


def _once(request: bytes, callback: Callback, is_wanted: Callable[[], bool]) -> tuple[str, Any]:
    """``("done", result)``, ``("failed", exception)``, or ``"stopped"`` and ``"killed"`` with the exit code."""
    pipe, theirs = Pipe()
    start = f"from iclbook.workers import answer; answer({os.getpid()}, {theirs.fileno()})"
    with (
        pipe,
        subprocess.Popen(
            [sys.executable, "-P", "-c", start],  # -P: the working directory must not shadow a package
            stdin=subprocess.DEVNULL,
            stdout=2,
            env=environment("training"),
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C reaches it through us alone
        ) as process,
    ):
        theirs.close()
        stopping = False
        try:
            pipe.send_bytes(request)
            while True:
                if not stopping and not is_wanted():
                    process.send_signal(signal.SIGINT)
                    stopping = True
                if pipe.poll(PULSE):
                    kind, content = pipe.recv()
                    if kind != "at":
                        return kind, content
                    callback(*content)
        except (EOFError, OSError):
            return "killed", process.wait()


class Processes(Executor):
    """So many processes of this machine, each computing on one thread, and one bar for all of them, in steps."""

    def __init__(self, processes: int, progress: bool = True) -> None:
        self.parts = processes
        self._threads = ThreadPoolExecutor(processes)
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._numbers = count()
        self._done: dict[int, int] = {}
        self._asked = self._known = 0
        # no smoothing: the rate is that of all the time; the delay lets a command that trains nothing show no bar
        self._bar = tqdm(disable=not progress, unit="step", mininterval=1.0, smoothing=0, delay=1.0)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Have ``function(*arguments)`` computed in a process of its own."""
        with self._lock:
            if self._bar.total:  # all that was asked before is known: another study begins
                self._bar.reset()
                self._done, self._asked, self._known = {}, 0, 0
                self._bar.total = None
            self._asked += 1
        return self._begin(packed(function, arguments), next(self._numbers))

    def tell(self, part: int, start: int, done: int, total: int) -> None:
        """A part that began at step ``start`` is at step ``done`` of ``total``."""
        with self._lock:
            if part not in self._done:
                self._known += total - start
            if len(self._done | {part: done}) == self._asked:  # before, a total would grow, and the bar run backwards
                self._bar.total = self._known
            if (more := done - self._done.get(part, start)) >= 0:  # a part that was killed goes on from a step before
                self._bar.update(more)
                self._done[part] = done

    def _begin(self, request: bytes, number: int) -> Future:
        return self._threads.submit(in_process, request, partial(self.tell, number), lambda: not self._stop.is_set())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._stop.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._bar.close()


class Cluster(Processes):
    """The workers of a Dask cluster, each of which starts processes as this machine would.

    A part whose worker dies is given to another one: it goes on from its checkpoint where the workers share the folder .cache, and begins again otherwise.

    Args:
        parts: in how many parts a study is cut; ``None`` for as many as the cluster has cores.
    """

    def __init__(self, address: str, parts: int | None, progress: bool = True) -> None:
        super().__init__(1, progress)
        if address == "local":  # Dask would start one, with a port that is open to all users of this machine
            raise UserError("there is no scheduler called local", "Leave it out, and take --workers N here.")
        try:
            from distributed import Client
        except ImportError as problem:
            what = f"--scheduler needs Dask's distributed, which is not here ({one_line(problem)})"
            raise UserError(what, "Install it: pip install -e .[cluster]") from problem
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said in one line
        try:
            self.client = Client(address, timeout=PATIENCE)
        except (OSError, ValueError, TypeError, ImportError) as problem:  # TimeoutError is an OSError
            hint = "Start one (`dask scheduler`) and give its address, such as tcp://10.0.0.5:8786; or take --workers N here."
            raise UserError(f"no Dask scheduler answers at {address} ({type(problem).__name__})", hint) from problem
        self.client.subscribe_topic(TOPIC, lambda event: self.tell(*event[1]))
        if not self.client.ncores():
            print("waiting for a worker of the cluster", file=sys.stderr, flush=True)
            self.client.wait_for_workers(1)
        self.parts = parts or sum(self.client.ncores().values())
        self._pool = self.client.get_executor(pure=False)

    def _begin(self, request: bytes, number: int) -> Future:
        return self._pool.submit(_on_worker, request, number)

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: object) -> None:
        self.client.close()  # tasks that nobody wants any more are stopped
        super().__exit__(kind, problem, trace)
        if kind is None:
            return
        name, package = kind.__name__, kind.__module__.split(".")[0]
        if package == "distributed" or isinstance(problem, OSError | ImportError) or "CancelledError" in name:
            hint = "Give its workers this code, memory and time; the same command goes on from the checkpoints."
            raise UserError(f"the cluster was lost ({name}: {one_line(problem)[:200]})", hint) from problem


def _on_worker(request: bytes, number: int) -> Any:
    """Do a packed call on a worker of the cluster."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def callback(*at: int) -> None:
        worker.log_event(TOPIC, (number, *at))

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    return in_process(request, callback, is_wanted)


def open_executor(scheduler: str | None, workers: int | None, device: str) -> AbstractContextManager[Processes | None]:
    """The executor that trains the parts of studies: the cluster at ``scheduler``, or ``workers`` processes here (by default one a core, and one on a
    GPU, which runs share by themselves); ``None`` means this process alone. Its attribute ``parts`` is the number of parts."""
    from .training.ensemble import pick_device

    if scheduler is not None:
        return Cluster(scheduler, workers)
    workers = workers or (usable_cores() if pick_device(device).type == "cpu" else 1)
    return Processes(workers) if workers > 1 else nullcontext()
