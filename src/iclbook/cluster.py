"""Parts of a study on the machines of a Dask cluster. Needs the package distributed (``pip install -e .[cluster]``)."""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from . import workers
from .errors import UserError, one_line

#: Name under which workers say how far they are.
TOPIC = "iclbook"
#: Seconds in which a scheduler must answer.
PATIENCE = 10


def on_worker(request: bytes, number: int) -> bytes:
    """Do a packed call on a Dask worker, in a process of its own; what :func:`iclbook.workers.call` returns, as bytes."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def tell(done: int, total: int) -> None:
        worker.log_event(TOPIC, {"part": number, "done": done, "total": total})

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    return pickle.dumps(workers.call(request, tell, wanted))


class Cluster(Executor):
    """A Dask cluster by the address of its scheduler; ``local`` starts one here.

    A part whose worker dies is given to another one: it goes on from its checkpoint where the workers share the folder .cache, and begins again otherwise.

    Args:
        address: of the scheduler, such as ``tcp://10.0.0.5:8786``, or ``local``.
        processes: workers of a local cluster, and in how many parts a study is cut; ``None`` for as many as the cluster has cores.
        progress: show a bar.

    Raises:
        UserError: distributed is not installed, or no scheduler answers.
    """

    def __init__(self, address: str, processes: int | None, progress: bool = True) -> None:
        try:
            from distributed import Client, LocalCluster
        except ImportError as problem:
            raise UserError(
                f"--scheduler needs Dask's distributed, which is not here ({one_line(problem)})",
                "Install it: pip install -e .[cluster]",
            ) from problem
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said in one line
        self._local = None
        if address == "local":
            self._local = LocalCluster(
                n_workers=processes or workers.usable_workers(None, "cpu"),
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
        try:
            self.client = Client(self._local or address, timeout=PATIENCE)
        except (OSError, ValueError, TypeError, ImportError) as problem:  # TimeoutError is an OSError
            raise UserError(
                f"no Dask scheduler answers at {address} ({type(problem).__name__})",
                "Start one (`dask scheduler`) and give its address, such as tcp://10.0.0.5:8786; or take: --scheduler local",
            ) from problem
        self._bar = workers.Bar(progress)
        self.client.subscribe_topic(TOPIC, self._hear)
        self._pending: list[tuple[Any, Future]] = []
        self.parts = processes or self._cores()

    def _cores(self) -> int:
        """Threads of all workers that have come; waits for the first."""
        if not self.client.ncores():
            print("waiting for a worker of the cluster", file=sys.stderr, flush=True)
            self.client.wait_for_workers(1)
        return sum(self.client.ncores().values())

    def _hear(self, event: tuple[Any, dict[str, int]]) -> None:
        _, said = event
        self._bar.tell(said["part"], said["done"], said["total"])

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Have ``function(*arguments)`` computed on a worker."""
        number, found = len(self._pending), Future()
        self._bar.expect(number, fresh=all(f.done() for _, f in self._pending))
        request = workers.packed(function, arguments, far=True)
        task = self.client.submit(on_worker, request, number, pure=False)
        self._pending.append((task, found))  # Dask forgets a task that nobody holds
        found.set_running_or_notify_cancel()
        task.add_done_callback(partial(_hand_on, found))
        return found

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.client.cancel([task for task, _ in self._pending], force=True)
        self._bar.close()
        self.client.close()
        if self._local is not None:
            self._local.close()


def _hand_on(found: Future, task: Any) -> None:
    """Give what a task of Dask's left to the future that the trainer waits for."""
    try:
        kind, content = pickle.loads(task.result())
    except BaseException as problem:
        kind, content = "failed", _said(problem)
    if kind == "failed":
        found.set_exception(content)
    else:
        found.set_result(content)


def _said(problem: BaseException) -> UserError:
    """One line for what went wrong with a worker rather than in the training."""
    name = type(problem).__name__
    if isinstance(problem, ImportError):
        return UserError(
            f"a worker of the cluster lacks this code ({one_line(problem)})", "Install iclbook there, too."
        )
    if name == "KilledWorker":
        return UserError(
            "a part of the study was lost with each of the workers that took it",
            "Give workers more memory or time; the same command goes on from the checkpoints.",
        )
    return UserError(
        f"the cluster was lost ({name}: {one_line(problem)[:200]})",
        "The same command goes on from the checkpoints.",
    )
