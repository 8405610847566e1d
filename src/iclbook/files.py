"""Files that are there as a whole or not at all, and locks that end with their process."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import UserError

#: How names of unfinished files end. They begin with a dot, so that no listing of a folder's contents takes them for one.
PART = ".part"


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``: a reader, and a reader after a kill or a power cut, sees the old file or the new one.

    Raises:
        UserError: the folder cannot be written or the disk is full; the old file is untouched.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}{PART}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if not isinstance(error, OSError):
            raise
        raise UserError(
            f"cannot write {path} ({error.strerror})", "Free space there or make the folder writable."
        ) from error


@contextmanager
def held(lock: Path, what: str, wait: bool = False) -> Iterator[None]:
    """Hold the lock file ``lock`` while ``what`` ("the training of he2025/seeds") is under way. The system releases it when the process ends, however it ends.

    Raises:
        UserError: another process holds it (and ``wait`` is off), or the lock file cannot be written.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = open(lock, "a+", encoding="utf-8")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise UserError(
            f"cannot write {lock} ({error.strerror})", "Free space there or make the folder writable."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise UserError(
                f"{what} is under way already, in {holder}", "Wait for its end, or end it."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}\n")
        file.flush()
        yield


def require_file_name(path: Path) -> None:
    """Refuse, before anything is computed, a path that no file can be written to.

    Raises:
        UserError: a folder, an empty name, or a name that the system does not take.
    """
    try:
        if path.name and not path.is_dir():
            return
    except (OSError, ValueError):
        pass
    raise UserError(f"{str(path)[:200]!r} is not a file's name", "Name the file to write.")
