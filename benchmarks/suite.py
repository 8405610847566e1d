"""The deciding side: which configurations are measured, each in a process of its own, and what is kept of them."""

import hashlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from iclbook.errors import UserError
from iclbook.files import write_whole
from iclbook.machines import MEMORY, usable_cores
from iclbook.native import SWITCH as KERNELS

from . import growth, idle
from .work import (
    BATCH,
    CONTEXT,
    D_COVARIATE,
    FIRST,
    HEADS,
    LABELS,
    LADDER,
    OURS,
    PAIRED,
    RATE,
    RUNS,
    Case,
    jax_on_gpu,
    missing,
)

ROOT = Path(__file__).resolve().parents[1]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds, seconds: of the paired comparison; every contender runs for about ``seconds`` in each round.
        ladder_rounds, ladder_seconds: of each rung of the ladder, and of each point of how cost grows.
        axes: what grows, and its values.
    """

    heads: tuple[int, ...] = HEADS
    runs: tuple[int, ...] = RUNS
    threads: tuple[int, ...] = (1, 2)
    paired: tuple[str, ...] = PAIRED
    paired_runs: int = 8
    first: tuple[str, ...] = FIRST
    ladder: tuple[str, ...] = LADDER
    rounds: int = 9
    seconds: float = 0.6
    ladder_rounds: int = 5
    ladder_seconds: float = 0.4
    axes: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: growth.AXES)


#: Seconds instead of minutes; says little about speed, but goes through the same code.
QUICK = Plan(
    (2,), (8,), (1,), ("plain", "eager", "compiled"), 8, ("compiled",), ("eager",), 3, 0.1, 2, 0.1, {"steps": (1, 4, 16)}
)  # fmt: skip

#: A GPU machine is lent by the minute: no ensemble of one, and no rung that is slow to begin or launches every operation from Python.
CUDA = replace(Plan(), runs=(8, 64, 256, 1024), ladder=("plain", "graph"))


#: Where answers are kept, and found again by a command that was interrupted; nowhere by default.
KEEP: Path | None = None

#: Whether every job compiles from an empty cache, so that compile times are those of a first call; else in the one that all trainings share.
COLD = True


def measured(job: dict, module: str = "benchmarks.measure") -> dict:
    """The answer to a job, from a fresh process (``python -m module``) or kept from an interrupted command.

    Raises:
        UserError: the process failed; its last line is shown.
    """
    if KEEP is None:
        return _cold(job, module)
    name = hashlib.sha256(json.dumps([job, module], sort_keys=True).encode()).hexdigest()[:16]
    path = KEEP / f"{name}.json"
    if not path.exists():
        write_whole(path, json.dumps(_cold(job, module)).encode())
    return json.loads(path.read_text(encoding="utf-8"))


def _cold(job: dict, module: str) -> dict:
    """One job from an empty cache of compiled code, if :data:`COLD`."""
    with tempfile.TemporaryDirectory() as cache:
        return _measured(job, module, cache if COLD else None)


def _measured(job: dict, module: str, cache: str | None) -> dict:
    """Run one job in a fresh process that keeps compiled code in a folder, and return its answer.

    Raises:
        UserError: the process failed; its last line is shown.
    """
    threads = job["threads"]
    own = {} if cache is None else dict.fromkeys(("TORCHINDUCTOR_CACHE_DIR", KERNELS), cache)
    environment = {
        **os.environ,
        **MEMORY,  # as every process of ours that computes; the contenders share one process, and so have it too
        "OMP_NUM_THREADS": str(threads),
        **own,
        "JAX_PLATFORMS": job.get("jax", "cpu"),
        "JAX_DEFAULT_MATMUL_PRECISION": "float32",  # as ours
    }
    if threads == 1:
        environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    command = [sys.executable, "-m", module, json.dumps(job)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"a measurement failed: {last}", f"Repeat it alone: python -m {' '.join(command[2:])}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and largest, four significant digits."""
    return {name: float(f"{f(values):.4g}") for name, f in [("median", statistics.median), ("min", min), ("max", max)]}


def machine(device: str) -> dict:
    """What the numbers depend on. No names of hosts, users or folders."""
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as info:
            cpu = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), cpu)
    except OSError:
        pass

    def version(package: str) -> str | None:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None

    return {
        "cpu": cpu,
        "cores": usable_cores(),
        "gpu": _gpu() if device == "cuda" else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "jax": version("jax"),
        "date": time.strftime("%Y-%m-%d"),
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name()


def _paired(plan: Plan, n_heads: int, device: str, say: Say) -> dict:
    """All contenders in turn in one process on one core; ratios to the plain loop of the same round."""
    names = [name for name in plan.paired if not missing(name, device)]
    say(f"paired: H={n_heads}, {plan.paired_runs} runs, {len(names)} contenders in turn")
    cases = [asdict(Case(name, n_heads, plan.paired_runs, 1, device)) for name in names]
    answer = measured({"cases": cases, "threads": 1, "rounds": plan.rounds, "seconds": plan.seconds})
    rates = {case["contender"]: case["rates"] for case in answer["cases"]}
    rows = {
        name: {"rate": spread(values), "ratio": spread([a / b for a, b in zip(values, rates["plain"], strict=True)])}
        for name, values in rates.items()
    }
    ours = OURS[device]
    for name in rates:  # the other way round, for contenders that are not ours
        if name.startswith("jax") and ours in rates:
            pairs = zip(rates[ours], rates[name], strict=True)
            rows[name]["ours_over_it"] = spread([a / b for a, b in pairs])
    return {"n_heads": n_heads, "runs": plan.paired_runs, "pinned": answer["pinned"], "rows": rows}


def _first(plan: Plan, device: str, say: Say) -> list[dict]:
    """Seconds to the end of the first step, imports not counted: with nothing compiled, and in the next process."""
    rows = []
    for n_heads in plan.heads:
        for name in plan.first:
            if missing(name, device):
                continue
            say(f"first step: H={n_heads}, {name}")
            case = asdict(Case(name, n_heads, plan.paired_runs, 1, device))
            job = {"cases": [case], "threads": 1, "rounds": 1, "steps": 1, "seconds": 0}
            with tempfile.TemporaryDirectory() as cache:
                cold, again = (_measured(job, "benchmarks.measure", cache)["cases"][0]["first_s"] for _ in range(2))
            rows.append({"n_heads": n_heads, "contender": name, "cold_s": cold, "again_s": again})
    return rows


def _ladder(plan: Plan, threads: int, device: str, say: Say) -> list[dict]:
    """Every contender alone in a process of its own, over head counts and ensemble sizes."""
    rows = []
    for n_heads in plan.heads:
        for name in plan.ladder:
            if missing(name, device):
                continue
            # One plain run after another: their number changes nothing.
            for runs in (1,) if name.startswith("plain") else plan.runs:
                say(f"ladder: H={n_heads}, {name}, {runs} run{'s' * (runs > 1)}, {threads} thread{'s' * (threads > 1)}")
                case = Case(name, n_heads, runs, threads, device)
                answer = measured(
                    {
                        "cases": [asdict(case)],
                        "threads": threads,
                        "rounds": plan.ladder_rounds,
                        "seconds": plan.ladder_seconds,
                    }
                )
                row = asdict(case) | {
                    "rate": spread(answer["cases"][0]["rates"]),
                    "first_s": round(answer["cases"][0]["first_s"], 2),
                    "peak_mb": round(answer["peak_mb"]),
                }
                if "peak_gpu_mb" in answer:
                    row["peak_gpu_mb"] = round(answer["peak_gpu_mb"], 1)
                rows.append(row)
    return rows


def categorical(plan: Plan, say: Say) -> dict:
    """wang2025's one-block GD model, literal and fast, in turn in one process on one core; ratios to the literal one of the same round."""
    from .categorical import BATCH, CONTEXTS

    quick = plan.seconds < 0.5
    contexts = CONTEXTS[:1] if quick else CONTEXTS
    say("categorical: literal and fast")
    job = {"threads": 1, "rounds": plan.ladder_rounds, "seconds": plan.seconds, "contexts": contexts}
    answer = measured(job, "benchmarks.categorical")
    rows = {
        n: {
            name: {
                "rate": spread(values),
                "ratio": spread([a / b for a, b in zip(values, rates["literal"], strict=True)]),
            }
            for name, values in rates.items()
        }
        for n, rates in answer["rates"].items()
    }
    return {"batch": BATCH, "pinned": answer["pinned"], "rows": rows}


def in_page(plan: Plan, say: Say) -> dict | None:
    """Steps of one run in a page, beside the plain loop and the steps in C; ``None`` where no browser can be driven."""
    from .in_page import missing

    if missing("page"):
        return None
    say("in the page: WebAssembly, plain loop, steps in C")
    job = {"threads": 1, "rounds": plan.rounds, "seconds": plan.seconds, "heads": plan.heads}
    answer = measured(job, "benchmarks.in_page")
    idle.add_own(
        answer["browser_s"]
    )  # nobody waits for a browser's processes, so that the system does not count them as ours
    rows = {
        n_heads: {
            name: {
                "rate": spread(values),
                "ratio": spread([a / b for a, b in zip(values, rates["plain"], strict=True)]),
            }
            for name, values in rates.items()
        }
        for n_heads, rates in answer["rates"].items()
    }
    return {"pinned": answer["pinned"], "rows": rows}


def _kernel(plan: Plan, say: Say) -> dict:
    """Many steps in one launch beside the captured and compiled trainer and JAX on the same card, two heads, with few runs and many; and how far they are from the steps in C."""
    rows = []
    for runs in (8, 256):
        say(f"kernel: {runs} runs")
        cases = [asdict(Case(name, 2, runs, 1, "cuda")) for name in ("kernel", "graph compiled")]
        job = {"cases": cases, "threads": 1, "rounds": plan.rounds, "seconds": plan.seconds, "apart": True}
        answer = measured(job)
        ours, theirs = (case["rates"] for case in answer["cases"])
        ratio = spread([a / b for a, b in zip(ours, theirs, strict=True)])
        rates = {"kernel": spread(ours), "graph compiled": spread(theirs)}
        if jax_on_gpu():
            case = asdict(Case("jax vmap", 2, runs, 1, "cuda"))
            job = {"cases": [case], "threads": 4, "rounds": plan.rounds, "seconds": plan.seconds, "jax": "cuda"}
            try:
                rates["jax vmap"] = spread(measured(job)["cases"][0]["rates"])
            except UserError as problem:  # what was measured of ours is not lost by it
                say(f"kernel: JAX: {problem}")
        rows.append({"runs": runs, "rates": rates, "ratio": ratio, "apart": answer["apart"]})
    return {"rows": rows}


#: Parts of the results that can be measured alone.
PARTS = ("floor", "paired", "kernel", "page", "first", "ladder", "cores", "growth", "categorical")


def run(plan: Plan, device: str, say: Say, parts: Sequence[str] = PARTS, before: dict | None = None) -> dict:
    """Measure parts of what is in ``plan``; the results as they are stored, with the other parts as they were ``before``.

    How busy others kept the machine is kept with them.
    """
    start, described, before = time.monotonic(), machine(device), before or {}
    quiet, watch = idle.before(), idle.Watch()
    cores = described["cores"] or 1
    threads = [t for t in plan.threads if t <= cores] if device == "cpu" else [1]
    found: dict[str, Any] = {
        "work": {"d": D_COVARIATE, "L": CONTEXT, "batch": BATCH, "rate": RATE},
        # what a part measured before is not missing because this environment lacks it
        "missing": {
            name: why for name in LABELS if (why := missing(name, device)) and name in before.get("missing", LABELS)
        },
        "threads_missing": [t for t in plan.threads if t > cores],
        # taken off the memory of the part on growth, and measured with it
        "imports_mb": _imports(device) if "growth" in parts or not before else before["imports_mb"],
    }
    make = {
        "floor": lambda: _floor(plan),
        "paired": lambda: [_paired(plan, n_heads, device, say) for n_heads in plan.heads],
        "first": lambda: _first(plan, device, say),
        "ladder": lambda: [row for t in threads for row in _ladder(plan, t, device, say)],
        "growth": lambda: growth.measure(
            measured, plan.ladder, device, plan.ladder_rounds, plan.ladder_seconds, say, plan.axes
        ),
    }
    if device == "cuda":
        make["kernel"] = lambda: _kernel(plan, say)
    if device == "cpu":
        make["categorical"] = lambda: categorical(plan, say)
        make["page"] = lambda: in_page(plan, say)
        if cores > 1:
            ways = [(1, 1), *((1, t) for t in threads if t > 1), (2, 1)]
            make["cores"] = lambda: growth.cores(
                measured, plan.ladder, plan.heads, ways, plan.ladder_rounds, plan.ladder_seconds, say
            )
    found |= {part: make[part]() for part in parts if part in make}
    described["others"] = {"before": quiet, "during": watch.others()}
    minutes = round((time.monotonic() - start) / 60, 1)
    described["jax"] = described["jax"] or before.get("machine", {}).get("jax")
    earlier = [part for part in PARTS if part in before and part not in found]
    about = {"machine": described, "device": device, "earlier": earlier}
    return {**before, **about, **found, "minutes": minutes}


def _imports(device: str) -> dict[str, int]:
    """Memory that imports alone take, MB."""
    peers = ["torch"] + ["jax"] * (not missing("jax vmap", device))
    return {name: round(measured({"threads": 1, "imports": name})["peak_mb"]) for name in peers}


def _floor(plan: Plan) -> dict:
    """Seconds that a random number takes, by generator."""
    drawn = measured({"threads": 1, "floor": True, "seconds": plan.seconds})["floor"]
    return {name: float(f"{value:.4g}") if value < 1 else value for name, value in drawn.items()}
