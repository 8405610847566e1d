"""Processes that do not outlive the one that started them, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with(parent: int) -> None:
    """Have the kernel kill this process when ``parent`` dies, also by SIGKILL; on systems other than Linux nothing happens.

    To be called first thing in the child.

    Args:
        parent: process id of the one that started this process.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os.kill(os.getpid(), signal.SIGKILL)


def call(statement: str) -> list[str]:
    """Arguments for the Python interpreter that runs us: obey :func:`die_with`, then run ``statement``."""
    # -P: the child's working directory must not shadow a package.
    first = f"from iclbook.book.orphans import die_with; die_with({os.getpid()}); "
    return [sys.executable, "-P", "-c", first + statement]


def lives(process: int) -> bool:
    """Whether a process of this number is running."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True
