"""Kernels that need not load the libraries: forked from a process that has loaded them and nothing else.

A process that runs several chapters, each in a kernel of its own, keeps one such process, on Linux. A kernel shares no module of this library with it, so that
a chapter is computed by the code that its copy names; and it starts no thread, so that it may be forked.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import LocalProvisioner

from ..machines import collect_rarely
from . import orphans

#: What chapters import of other libraries, and takes longest.
LIBRARIES = (
    "torch",
    "seaborn",
    "scipy.optimize",
    "scipy.integrate",
    "ipywidgets",
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
)

#: Seconds in which the libraries are loaded, from the slowest disk.
LOADED_WITHIN = 300


class Nursery:
    """The process that kernels are forked from, one at a time; it ends with the process that made it.

    Args:
        environment: all variables that the libraries are loaded under, and that kernels start from.
        folder: the working directory that they are loaded in, where matplotlib may find its settings.
    """

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment, self._folder = dict(environment), folder
        self._open()

    def _open(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._answers = self._socket.makefile("rb", buffering=0)  # what it read ahead, select would not see
        self._kernel: Kernel | None = None
        with theirs:
            self._process = subprocess.Popen(
                orphans.call(f"from iclbook.book.nursery import serve; serve({theirs.fileno()})"),
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt from the keyboard is for those who run the chapters
            )

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> Kernel:
        """Fork a kernel; one before that has not ended is killed, and where the nursery itself has died, another takes its place.

        Args:
            argv: its command line, the program's name first.
            env: all of its environment variables.
            cwd: its working directory.

        Raises:
            RuntimeError: that dies too, or does not answer.
        """
        if self._kernel is not None:
            self._kernel.kill()
            self._kernel.wait()
        request = json.dumps([list(argv), dict(env), cwd]).encode() + b"\n"
        try:
            self._kernel = self._fork(request)
        except (OSError, ValueError):
            self.close()
            self._open()
            try:
                self._kernel = self._fork(request)
            except (OSError, ValueError) as error:
                raise RuntimeError("the process that kernels are forked from died twice") from error
        return self._kernel

    def _fork(self, request: bytes) -> Kernel:
        self._socket.sendall(request)
        if not select.select([self._socket], [], [], LOADED_WITHIN)[0]:
            raise TimeoutError
        return Kernel(int(self._answers.readline()), self)

    def answer(self, wait: bool) -> int | None:
        """The exit code of the kernel, once it has ended; -SIGKILL where the nursery died with it."""
        with suppress(OSError, ValueError):
            if not wait and not select.select([self._socket], [], [], 0)[0]:
                return None
            return int(self._answers.readline())
        return -signal.SIGKILL

    def close(self) -> None:
        """End it, and a kernel that is left."""
        self._process.kill()
        self._process.wait()
        self._answers.close()
        self._socket.close()


class Kernel:
    """A forked kernel, with as much of ``subprocess.Popen`` as jupyter_client asks for."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int, nursery: Nursery) -> None:
        self.pid, self._nursery = pid, nursery
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code; ``None`` while it runs."""
        if self._code is None:
            self._code = self._nursery.answer(wait=False)
        return self._code

    def wait(self) -> int:
        """The exit code, once it has ended."""
        if self._code is None:
            self._code = self._nursery.answer(wait=True)
        return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has, and that is not told yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class Forked(LocalProvisioner):
    """Has a nursery start kernels, and looks after them as after any local process."""

    nursery: Nursery

    async def launch_kernel(self, cmd: list[str], **options: Any) -> KernelConnectionInfo:
        """Fork the kernel; ``options`` hold its environment and working directory."""
        self.cwd = str(options.get("cwd") or os.getcwd())
        self.process = self.nursery.start(cmd, options["env"], self.cwd)
        self.pid = self.pgid = self.process.pid
        return self.connection_info


def serve(number: int) -> None:
    """What the nursery does: load the libraries, then fork a kernel for each line that it is sent, and tell its process id and how it ended.

    In a kernel this returns when that has ended, so that Python ends as usual.
    """
    for name in LIBRARIES:
        with suppress(Exception):  # a chapter that needs it says what is wrong
            importlib.import_module(name)
    collect_rarely()
    gc.freeze()  # what kernels need not look through, and what forking need not copy
    nursery = os.getpid()
    with socket.socket(fileno=number) as connection, connection.makefile("rw") as lines:
        while line := lines.readline():
            pid = os.fork()
            if not pid:
                break
            lines.write(f"{pid}\n")
            lines.flush()
            _, status = os.waitpid(pid, 0)
            lines.write(f"{os.waitstatus_to_exitcode(status)}\n")
            lines.flush()
        else:
            return
    os.setsid()
    orphans.die_with(nursery)
    _be_kernel(*json.loads(line))


def _be_kernel(argv: list[str], env: dict[str, str], cwd: str) -> None:
    """Run an IPython kernel in this process until it is told to end."""
    from ipykernel.kernelapp import launch_new_instance

    for name in [name for name in sys.modules if name.partition(".")[0] in ("iclbook", "rfc3987_syntax")]:
        del sys.modules[name]  # the kernel loads this library as it is now
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    # a kernel that is started finds the process to end with in its environment
    sys.argv = [*argv, f"--IPKernelApp.parent_handle={os.getppid()}"]
    launch_new_instance()
