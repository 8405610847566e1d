"""Files that are there as a whole or not at all, and locks that end with their process."""

import errno
import hashlib
import io
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident

import numpy as np

from .errors import UserError, one_line
from .project import find_root

with suppress(ImportError):  # on Windows, which require_posix refuses
    import fcntl

#: How names of unfinished files end. They begin with a dot, so that no listing of a folder's contents takes them for one.
PART = ".part"
#: Bytes that an .npz file may unpack to, however small it is.
UNPACKED = 2**28
NO_CHECKSUM = "0" * 64
_CHECKSUM = re.compile(r'("checksum": ")[0-9a-f]{64}(?=")')
#: Folders of data below which no link is followed when a file is written or removed.
DATA = ("results", "references", "executed")


def write_whole(path: Path, content: bytes | str) -> None:
    """Write ``content`` to ``path``: a reader, and a reader after a kill or a power cut, sees the old file or the new one.

    The rights of an old file stay. What is no ordinary file (a device, a pipe) is written to and stays what it is; of a symbolic link the target is
    replaced, except where :func:`refuse_links` refuses it.
    """
    data = content.encode() if isinstance(content, str) else content
    refuse_links(path)
    with writing(path):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(target.parent, target.name)
        part = target.with_name(f".{target.name}.{os.getpid()}.{get_ident()}{PART}")
        try:
            with open(part, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                if target.exists():
                    os.fchmod(file.fileno(), target.stat().st_mode & 0o777)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)


def refuse_links(path: Path) -> None:
    """Refuse a symbolic link in a path below a folder of :data:`DATA`: git keeps links, and what one leads to is not the book's."""
    start = max((place for place, part in enumerate(path.parts) if part in DATA), default=len(path.parts))
    for end in range(start + 2, len(path.parts) + 1):
        if (below := Path(*path.parts[:end])).is_symlink():
            raise UserError(f"{below} is a symbolic link", "Remove it, and restore what belongs there from git.")


def remove_unfinished(folder: Path, name: str = "*") -> None:
    """Remove what killed processes left of their files of this name in ``folder``."""
    refuse_links(folder)
    for part in folder.glob(f".{name}.*{PART}"):
        process = part.name.removesuffix(PART).split(".")[-2]
        if process.isdecimal() and not is_alive(int(process)):
            with suppress(OSError):
                part.unlink()


def is_alive(process: int) -> bool:
    """Whether a process of this number is running."""
    try:
        os.kill(process, 0)
    except PermissionError:  # somebody else's
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def with_checksum(text: str) -> str:
    """JSON with the SHA-256 of all of it as its first ``"checksum"``, where it has one."""
    blank = _CHECKSUM.sub(rf"\g<1>{NO_CHECKSUM}", text, count=1)
    return _CHECKSUM.sub(rf"\g<1>{hashlib.sha256(blank.encode()).hexdigest()}", text, count=1)


def is_as_written(text: str) -> bool:
    """Whether JSON carries the checksum of itself (:func:`with_checksum`)."""
    return _CHECKSUM.search(text) is not None and with_checksum(text) == text


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says against writing ``path`` into one line that names it."""
    try:
        yield
    except OSError as error:
        what = f"cannot write {path} ({error.strerror or one_line(error)[:200]})"
        raise UserError(what, "Free space there or make the folder writable.") from error


@contextmanager
def reading(path: Path, hint: str) -> Iterator[None]:
    """Turn whatever goes wrong with the content of ``path`` into one line that names the file."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ESTALE:  # of network file systems
            raise UserError(f"{path} was replaced while it was read", "Repeat the command.") from error
        why = f"{type(error).__name__}: {one_line(error)}"[:200]
        raise UserError(f"{path} is damaged or unreadable ({why})", hint) from error


def check_kernels() -> None:
    """Remove compiled libraries (:mod:`iclbook.native`) of other C sources than today's, and those that differ from the SHA-256 beside them, as damaged ones may draw
    other random numbers: they are compiled anew where they are needed. Keep that of libraries that have none yet."""
    named, sources = os.environ.get("ICLBOOK_KERNELS"), sorted((Path(__file__).parent / "native").glob("*.[ch]"))
    with suppress(OSError, UserError):
        folder = Path(named) if named else find_root() / ".cache" / "kernels"
        today, known = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest(), folder / "sources"
        if folder.is_dir() and not (known.is_file() and known.read_bytes() == today.encode()):
            for path in (*folder.glob("*.so"), *folder.glob("*.sha256")):
                path.unlink()
            write_whole(known, today)
        for path in folder.glob("*.so"):
            now, kept = hashlib.sha256(path.read_bytes()).hexdigest(), path.with_suffix(".sha256")
            if not kept.exists():
                write_whole(kept, now)
            elif kept.read_bytes() != now.encode():
                path.unlink()
                kept.unlink()


def open_npz(content: bytes) -> np.lib.npyio.NpzFile:
    """The arrays of an .npz file, without pickles. One that unpacks to more than :data:`UNPACKED` bytes and a hundred times its own size is a ValueError."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > max(UNPACKED, 100 * len(content)):
        raise ValueError(f"{len(content):,} bytes that unpack to {size:,}")
    return np.load(io.BytesIO(content), allow_pickle=False)


def require_posix() -> None:
    """Refuse Windows, which lacks the locks and signals that trainings need."""
    if "fcntl" not in globals():
        raise UserError("iclbook needs Linux or macOS", "On Windows install WSL (`wsl --install`), and work there.")


@contextmanager
def file_lock(lock: Path, what: str, wait: bool = False) -> Iterator[None]:
    """Hold the lock file ``lock`` while ``what`` ("the training of he2025/seeds") is under way. The system releases it when the process ends, however it ends."""
    with writing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = open(lock, "a+b", buffering=0)  # noqa: SIM115 (closed below)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = one_line(file.read(99).decode(errors="replace")) or "another process"
            if not wait:
                raise UserError(f"{what} is under way already, in {holder}", "Wait for its end, or end it.") from None
            if os.environ.get("ICLBOOK_HEADLESS") != "1":  # what a chapter says is published
                print(f"waiting for {what}, in {holder}", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as problem:  # some file systems of clusters have no locks
            print(f"{lock}: no lock ({problem.strerror}); start {what} once at a time", file=sys.stderr, flush=True)
        with writing(lock):
            file.truncate(0)
            file.write(f"process {os.getpid()}\n".encode())
        yield


def require_file_name(path: Path) -> None:
    """Refuse, before anything is computed, a path that no file can be written to."""
    with suppress(OSError, ValueError):
        if path.name and not path.is_dir():
            return
    raise UserError(f"{str(path)[:200]!r} is not a file's name", "Name the file to write.")
