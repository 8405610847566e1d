"""Kernels that need not load the libraries: forked from a process that has loaded them and nothing else.

A process that runs several chapters, each in a kernel of its own, keeps one such process. It loads no part of this library, so that a chapter is computed
by the code that its copy names, and starts no thread, so that it may be forked.
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


class Nursery:
    """The process that kernels are forked from, one at a time; it ends with the process that made it.

    Args:
        environment: all variables that the libraries are loaded under, and that kernels start from.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        self._answers = self._socket.makefile("rb", buffering=0)  # what it read ahead, select would not see
        self._kernel: Kernel | None = None
        with theirs:
            self._process = subprocess.Popen(
                orphans.call(f"from iclbook.book.nursery import serve; serve({theirs.fileno()})"),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt from the keyboard is for those who run the chapters
            )

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> Kernel:
        """Fork a kernel; one before that has not ended is killed.

        Args:
            argv: its command line, the program's name first.
            env: all of its environment variables.
            cwd: its working directory.

        Raises:
            RuntimeError: the nursery is no more.
        """
        if self._kernel is not None:
            self._kernel.send_signal(signal.SIGKILL)
            self._kernel.wait()
        try:
            self._socket.sendall(json.dumps([list(argv), dict(env), cwd]).encode() + b"\n")
            self._kernel = Kernel(int(self._answers.readline()), self)
        except (OSError, ValueError) as error:
            raise RuntimeError("the process that kernels are forked from has died") from error
        return self._kernel

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
            os.kill(self.pid, number)


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
        with suppress(ImportError):
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

    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = [
        *argv,
        f"--IPKernelApp.parent_handle={os.getppid()}",
    ]  # a started one finds it in its environment
    launch_new_instance()
