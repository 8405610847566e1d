"""What the trainer does most of the time, in C: numbers by counter, gradients of attention, Adam.

Sources are compiled by the machine's own compiler where they are first needed, and kept for other processes.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ..errors import UserError
from ..project import find_root
from ..sources import c_sources

HERE = Path(__file__).parent
#: A variable that names the folder to keep libraries in; ``off`` leaves everything to torch, as on a machine without a compiler.
SWITCH = "ICLBOOK_KERNELS"
FLAGS = ("-O3", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared", "-Wno-psabi")
NATIVE = "-march=native"


def compiler() -> str | None:
    """A C compiler: the one that ``CC`` names, or one of the usual."""
    return next((c for c in (os.environ.get("CC", ""), "cc", "gcc", "clang") if c and shutil.which(c)), None)


@lru_cache
def library(source: str, **macros: str | int) -> ctypes.CDLL | None:
    """The functions of ``source``, a file beside this one such as ``"counter.c"``, compiled with some macros.

    ``None`` where there is no compiler that can do it, or no processor that gains by it (one without fused multiply-adds): torch does the work then.
    """
    if os.environ.get(SWITCH) == "off" or compiler() is None:
        return None
    flags = [NATIVE, *(f"-D{name}={value}" for name, value in macros.items())]
    try:
        path = compiled(source, flags)
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # damaged, or of another machine that shares the folder
            path.unlink(missing_ok=True)
            return ctypes.CDLL(str(compiled(source, flags)))
    except (OSError, UserError):
        return None


def compiled(source: str, flags: Sequence[str]) -> Path:
    """The library of ``source`` under these flags, compiled unless it is there already.

    Raises:
        UserError: it does not compile.
        OSError: the compiler cannot be run, or the library not be written.
    """
    texts = [text.read_bytes() for text in c_sources(HERE / source)]
    key = [*FLAGS, *flags, _version(), platform.machine(), _processor()]
    digest = hashlib.sha256(b"\n".join([*texts, *map(str.encode, key)])).hexdigest()[:16]
    folder = _folder()
    path = folder / f"{Path(source).stem}-{digest}.so"
    if path.is_file():
        return path
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = Path(work) / path.name
        command = [str(compiler()), *FLAGS, *flags, str(HERE / source), "-o", str(made), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            problem = re.findall(r"error: .*", done.stderr) or ["the compiler fails"]
            raise UserError(f"{source} does not compile ({problem[0]})", f"Set {SWITCH}=off to do without.")
        os.replace(made, path)  # whole or not at all: other processes may look for it
    return path


@lru_cache
def _folder() -> Path:
    """Where libraries are kept: in the book's cache unless told otherwise, or for this process alone where that cannot be written."""
    try:
        named = os.environ.get(SWITCH)
        folder = Path(named).resolve() if named else find_root() / ".cache" / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (UserError, OSError):
        pass
    folder = tempfile.mkdtemp(prefix="iclbook-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@lru_cache
def _version() -> str:
    """The compiler's own words on what it is."""
    return subprocess.run([str(compiler()), "--version"], capture_output=True, text=True).stdout


def _processor() -> str:
    """What the processor can do, in the system's words: code for one may not run on another."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()
