"""The trainer's inner loops in C: random numbers by counter, for :mod:`iclbook.random`, which says what they are; and Adam in place, on the
stacked parameters of a group. Gradients of attention are called by :mod:`iclbook.models.attention`.

Sources are compiled by the machine's own compiler where they are first needed, and kept for other processes.
"""

import atexit
import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import UserError
from ..project import find_root
from ..sources import c_sources

HERE = Path(__file__).parent
#: A variable that names the folder to keep libraries in; ``off`` leaves everything to torch, as on a machine without a compiler.
SWITCH = "ICLBOOK_KERNELS"
FLAGS = ("-O3", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared", "-Wno-psabi")
NATIVE = "-march=native"
POINTER, LONG, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


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
    """The library of ``source`` under these flags, compiled unless it is there already."""
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
    """Features of the processor in the system's words: code for one may not run on another."""
    said = Path("/proc/cpuinfo")
    lines = said.read_text(encoding="utf-8").splitlines() if said.is_file() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


@lru_cache
def functions() -> ctypes.CDLL | None:
    """``normals`` and ``words`` of ``counter.c``; ``None`` where they cannot be had."""
    found = library("counter.c")
    for name in ("normals", "words") if found else ():
        function = getattr(found, name)
        function.argtypes = [POINTER, POINTER, LONG, POINTER, LONG, ctypes.c_uint32, LONG]
        function.restype = None
    return found


def can_draw(keys: Tensor) -> bool:
    """Whether numbers for these keys are drawn here: on a CPU, and not in the midst of tracing a program."""
    return keys.device.type == "cpu" and not torch.compiler.is_compiling() and functions() is not None


def draw(kind: str, keys: Tensor, steps: Tensor, purpose: int, n: int) -> Tensor:
    """``n`` ``normals`` (float32) or ``words`` (int64) for keys ``(S, 2)`` and steps ``(K,)``, ``(S, K, n)``."""
    out = torch.empty((len(keys), len(steps), n), dtype={"normals": torch.float32, "words": torch.int64}[kind])
    fill(kind, out, keys.to(torch.int64).contiguous(), steps.to("cpu", torch.int64).contiguous(), purpose)
    return out


def fill(kind: str, out: Tensor, keys: Tensor, steps: Tensor, purpose: int) -> None:
    """Write the numbers into ``out``; all three are contiguous and on the CPU, keys and steps int64."""
    function = getattr(functions(), kind)
    sizes = len(steps), purpose, out.shape[-1]
    function(out.data_ptr(), keys.data_ptr(), len(keys), steps.data_ptr(), *sizes)


def adam(
    optimiser: Any,
    params: Mapping[str, Tensor],
    first: Mapping[str, Tensor],
    second: Mapping[str, Tensor],
    grads: Mapping[str, Tensor],
    rates: Mapping[str, Tensor],
) -> Callable[[Tensor, float], None]:
    """``step(t, factor)``: step ``t`` = 1, 2, ... (a tensor without axes) of Adam on stacks ``name -> (R, ...)``, float32 and in place, with rates
    ``name -> (R,)`` times a factor."""
    function = library("adam.c").adam
    function.argtypes = [LONG] * 2 + [POINTER] * 6 + [FLOAT] * 7
    function.restype = None
    kept = [[of[k] for k in params] for of in (params, first, second, grads, rates)]
    sizes = (LONG * len(params))(*(p[0].numel() for p in params.values()))
    arrays = [(POINTER * len(params))(*(x.data_ptr() for x in of)) for of in kept]
    beta1, beta2, rest = optimiser.beta1, optimiser.beta2, 1 - optimiser.beta2

    def step(t: Tensor, factor: float) -> None:
        # as the optimiser itself does: bias corrections in single precision, which counts in the first steps, and 1 - beta2 in double
        fast, slow = map(float, optimiser.corrections(t))
        stacks = len(params), len(kept[0][0]), sizes, *arrays
        function(*stacks, factor, beta1, beta2, rest, optimiser.eps, fast, slow)

    return step
