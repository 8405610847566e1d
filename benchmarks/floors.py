"""What the slowest trainings of the book cost a core: seconds of a step today, beside the floor that its operations allow.

``python -m benchmarks.floors`` measures the studies whose stored results took longest, each in a process of its own, and fills its part of the book's page.

The counted floor of a step takes its matrix products at the rate of a large one, exponentials and their like at the rate of ``exp`` in the core's cache, normal
numbers at the rate of the counter, and every other operation on a number as one instruction of the core's widest vectors: nothing is fetched from memory.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from iclbook.files import write_whole
from iclbook.numbers import duration, number

from . import idle, suite
from .format import table

RESULTS = suite.ROOT / "benchmarks" / "studies.json"
#: Operations that cost about an exponential a number.
LIKE_EXP = {
    "exp",
    "log",
    "tanh",
    "sigmoid",
    "erf",
    "gelu",
    "silu",
    "softplus",
    "sin",
    "cos",
    "_softmax",
    "_log_softmax",
}
#: Side of the matrices, and numbers of an array, at which a core's rates are measured.
SIDE, CACHED = 512, 4096
#: How many studies are measured, and how many the page shows: stored seconds are of several machines, and do not order them well.
MEASURED, SHOWN = 26, 20
#: Seconds of each measurement.
SECONDS = 2.0


class Counted(TorchDispatchMode):
    """Counts what is computed inside: operations of products, exponentials, and operations on other numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.products = self.exponentials = self.others = 0

    def __torch_dispatch__(self, f: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = f(*args, **(kwargs or {}))
        packet = f.overloadpacket
        if packet in flop_registry:
            self.products += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        elif not f.is_view:
            tensors = [x for x in (out, *args) if isinstance(x, torch.Tensor)]
            size = max((x.numel() for x in tensors), default=0)
            like_exp = str(packet).split(".")[-1].rstrip("_") in LIKE_EXP
            self.exponentials += size * like_exp
            self.others += size * (not like_exp)
        return out


def per_second(work: Callable[[], Any], amount: int, seconds: float, at_once: int = 1) -> float:
    """How much of something is done in a second of the processor, the best of five; the clock is read after so many calls."""
    best = 0.0
    for _ in range(5):
        start, n = time.process_time(), 0
        while time.process_time() < start + seconds / 5:
            for _ in range(at_once):
                work()
            n += at_once
        best = max(best, n * amount / (time.process_time() - start))
    return best


def rates(seconds: float) -> dict[str, float]:
    """Operations of a product, exponentials and normal numbers a second, of this core."""
    from .contenders import trainer
    from .work import NORMALS, Case

    square, cached, case = torch.randn(SIDE, SIDE), torch.randn(CACHED), Case("compiled", 2, 8)
    into, ours, at = torch.empty(CACHED), trainer(case), torch.tensor([1])
    return {
        "products": per_second(lambda: square @ square, 2 * SIDE**3, seconds),
        "exponentials": per_second(lambda: torch.exp(cached, out=into), CACHED, seconds, 256),
        "normals": per_second(lambda: ours._fresh(ours._keys, at), case.runs * NORMALS, seconds),
    }


def measured(paper: str, name: str, seconds: float) -> dict[str, Any]:
    """A step of a study as it is trained, and what is counted in one."""
    study = import_module(f"iclbook.papers.{paper}").studies("paper")[name]
    plain, counted = study.trainer("cpu", compile=False), Counted()
    with torch.no_grad():
        numbers = plain._fresh(plain._keys, torch.tensor([1]))
        with counted:
            plain._advance(numbers, 0)
    trainer = study.trainer("cpu")
    trainer._run(1)
    step = 1 / per_second(lambda: trainer._run(1), 1, seconds)
    how = "in C" if trainer._in_c else "compiled by torch" if trainer.compiled else "operation by operation"
    counts = {"products": counted.products, "exponentials": counted.exponentials, "others": counted.others}
    counts["normals"] = sum(x.numel() for x in numbers if x.is_floating_point())
    runs = sum(len(group.runs) for group in study.groups)
    return {"steps": study.steps, "runs": runs, "how": how, "seconds": step, "counts": counts}


def floor_of(row: dict[str, Any], rates: dict[str, float]) -> float:
    """Seconds that a step's counted operations take at a core's rates; a product's operations come two at a time."""
    counts = row["counts"]
    return counts["others"] / (rates["products"] / 2) + sum(counts[kind] / rate for kind, rate in rates.items())


def slowest(count: int) -> list[tuple[str, str]]:
    """Paper and name of the trainings whose stored results took longest."""
    found = []
    for path in (suite.ROOT / "results").glob("*/paper/*.json"):
        about = json.loads(path.read_text(encoding="utf-8"))
        if "steps" in about["config"]:
            found.append((about["seconds"], path.parts[-3], path.stem))
    return [study for _, *study in sorted(found, reverse=True)[:count]]


def rendered() -> str:
    """The part of the page."""
    if not RESULTS.exists():
        return ""
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    m, rows = stored["machine"], []
    for row in sorted(stored["rows"], key=lambda row: -row["steps"] * row["seconds"])[:SHOWN]:
        floor = floor_of(row, stored["rates"])
        took = [duration(row["steps"] * row["seconds"]), f"{row['runs']:,}", f"{row['steps']:,}"]
        ms = [number(float(f"{1000 * seconds:.3g}")) for seconds in (row["seconds"], floor)]
        rows.append([f"{row['paper']}: {row['study']}", *took, row["how"], *ms, f"{row['seconds'] / floor:.2g}"])
    rates = [number(float(f"{stored['rates'][kind] / 1e9:.3g}")) for kind in ("products", "exponentials", "normals")]
    header = [
        "study",
        "training",
        "runs",
        "steps",
        "steps are taken",
        "ms a step",
        "counted floor, ms",
        "times the floor",
    ]
    return "\n\n".join(
        [
            "## What the slowest trainings cost a core",
            f"Measured on {m['date']} on: {m['cpu']}; torch {m['torch']}. The trainings that take longest, at their speed of that day (the best of five measurements), evaluation not counted. The counted "
            f"floor takes a step's matrix products at the {rates[0]} billion operations a second of a large product on this core, its exponentials at {rates[1]} "
            f"and its normal numbers at {rates[2]} billion a second, and any other operation on a number as one instruction of the widest vectors. Nothing "
            "is read from memory there, so that what moves arrays that do not fit the core's cache, or multiplies small matrices, stays above it.",
            table(header, rows),
        ]
    )


def publish() -> None:
    """Measure, store and fill the page."""
    from . import page

    suite.COLD = False  # compiling is not measured
    idle.require(idle.before(), "just now", "Repeat this when nothing else runs.")
    watch, machine, rows = idle.Watch(), suite.machine("cpu"), []
    rates = suite.measured({"threads": 1, "seconds": SECONDS}, "benchmarks.floors")
    for paper, study in slowest(MEASURED):
        print(f"{paper}/{study}", file=sys.stderr, flush=True)
        job = {"threads": 1, "seconds": SECONDS, "paper": paper, "study": study}
        rows.append({"paper": paper, "study": study} | suite.measured(job, "benchmarks.floors"))
    idle.require(watch.others(), "while it measured", "Repeat this when nothing else runs.")
    about = {"machine": machine, "rates": rates, "rows": rows}
    write_whole(RESULTS, (json.dumps(about, indent=1) + "\n").encode())
    page.write()


def main(text: str) -> None:
    """Do one job and print its answer as JSON: the rates of this core, or a study."""
    from .measure import pin

    job = json.loads(text)
    pin(job["threads"])
    torch.set_num_threads(job["threads"])
    answer = measured(job["paper"], job["study"], job["seconds"]) if "study" in job else rates(job["seconds"])
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1]) if sys.argv[1:] else publish()
