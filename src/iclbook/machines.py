"""Processors: the pinned code paths of the regression check, and other machines emulated by environment switches.

The same program rounds differently on another processor: torch, oneDNN, MKL, OpenBLAS and numpy each choose kernels by instruction set, and sums change
their order with the number of threads. Two promises are kept apart. Under :data:`PINNED` any x86-64 machine with AVX2 takes the same paths, so recorded
values can be compared tightly. Without it, as a reader runs the book, values may differ by what rounding does and verdicts may not; emulated machines
show how far that is. All switches are read when a library is loaded, so they act on a new process only.
"""

import gc
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import yaml

from . import draw
from .errors import UserError

_MACHINES = yaml.safe_load(Path(__file__).with_name("machines.yaml").read_text(encoding="utf-8"))
#: Variables of the regression check, of every process that computes, and of emulated processors by name.
PINNED, MEMORY, PROCESSORS = (_MACHINES[name] for name in ("pinned", "memory", "processors"))
#: Variables of trainings.
TRAINING: Mapping[str, str] = PINNED | _MACHINES["training"] | MEMORY

#: Every variable that a machine may set: cleared before another one is emulated.
SWITCHES = frozenset(TRAINING) | {"MKL_DYNAMIC"} | {name for switches in PROCESSORS.values() for name in switches}


def emulated() -> tuple[str, ...]:
    """Machines that this one can emulate, as ``processor-threads``: each processor with one thread, and this one with two."""
    able = [name for name in PROCESSORS if name != "avx512" or "avx512vl" in _processor("flags").split()]
    return (*(f"{name}-1" for name in able), "native-2")


def environment(machine: str, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment of a process on a machine: ``pinned``, ``training``, or ``processor-threads`` such as ``sse-2``; all else as in ``base``, this
    process's own by default.

    Stored runs of the book are replayed elsewhere, so ``training`` is pinned; other draws keep no runs and take this processor's own paths, which are faster.
    """
    around = os.environ if base is None else base
    plain = {k: v for k, v in around.items() if k not in SWITCHES} | MEMORY
    if machine == "training":
        if not around.get(draw.SWITCH, "").strip("0"):
            return plain | TRAINING
        machine = "native-1"
    if machine == "pinned":
        return plain | PINNED
    processor, _, threads = machine.partition("-")
    if processor not in PROCESSORS or threads not in ("1", "2"):
        raise UserError(f"unknown machine {machine!r}", f"Choose pinned, training or one of: {', '.join(emulated())}.")
    # MKL would otherwise take fewer threads than it is given where it sees fit
    number = {"OMP_NUM_THREADS": threads, "MKL_DYNAMIC": "FALSE", "OMP_WAIT_POLICY": "passive"}
    return plain | PROCESSORS[processor] | number


def is_pinned() -> bool:
    """Whether this process was started under :data:`PINNED` or :data:`TRAINING`."""
    return any(switches.items() <= os.environ.items() for switches in (PINNED, TRAINING))


def versions() -> dict[str, str]:
    """Versions of what can change a number."""
    return {"Python": platform.python_version()} | {name: version(name) for name in ("torch", "numpy", "scipy")}


def collect_rarely() -> None:
    """Run Python's cyclic garbage collector rarely: figures and pages hold many long-lived reference cycles."""
    gc.set_threshold(20_000, 20, 20)


def usable_cores() -> int:
    """Cores that this process may use: of those it is bound to, as many as the quota of its container gives it time for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(int, _quotas(Path("/")))]))


def _quotas(root: Path) -> list[float]:
    """Cores that Linux's control groups, versions 2 and 1, grant this process's group and those around it; nothing where there is no limit."""
    found, groups = [], root / "proc/self/cgroup"
    for line in groups.read_text(encoding="utf-8").splitlines() if groups.is_file() else ():
        _, kinds, group = [*line.split(":", 2), "", ""][:3]
        files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if kinds else ("cpu.max",)
        own = root / "sys/fs/cgroup" / ("cpu" if kinds else "") / group.strip("/")
        for folder in (own, *own.parents):
            with suppress(OSError, ValueError, ZeroDivisionError):
                quota, period = " ".join((folder / file).read_text(encoding="utf-8") for file in files).split()
                found += [int(quota) / int(period)] if quota.isdecimal() else []  # "max" and -1 are none
    return found


def this_machine() -> str:
    """This machine in words: processor and cores."""
    cores = usable_cores()
    return f"{_processor('model name') or platform.machine()}, {cores} core{'s' * (cores > 1)}, {platform.system()}"


def _processor(field: str) -> str:
    """A field of Linux's description of the processor; the empty text elsewhere. numpy's own list leaves out what a pinned process may not use."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")
