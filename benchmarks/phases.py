"""Where a training's time goes. ``python -m benchmarks.phases he2025 --only seeds --device cuda`` does what ``iclbook train`` does, and says in its last line the
seconds of each phase: beginning (data, starts, the first steps with all that they compile and capture), steps, observing at records, and the rest: measuring and
storing. What ``make gpu`` found of all studies becomes a part of the book's page.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import torch

from iclbook import cli
from iclbook.files import write_whole
from iclbook.numbers import duration, number
from iclbook.training.trainer import Trainer

from . import suite
from .format import table

RESULTS = suite.ROOT / "benchmarks" / "studies-cuda.json"
PHASES = ("beginning", "steps", "observing", "rest")
#: Rows of the table.
SHOWN = 20


def timed(spent: Counter, phase: Callable[[Any], str], method: Callable) -> Callable:
    """The method, adding its seconds to the phase that its trainer is in."""

    @wraps(method)
    def also(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        start, name = time.perf_counter(), phase(self)
        if name == "observing" and torch.cuda.is_available():
            torch.cuda.synchronize()  # steps that are still under way are steps
            spent["steps"] += time.perf_counter() - start
            start = time.perf_counter()
        try:
            return method(self, *args, **kwargs)
        finally:
            if name != "steps" and torch.cuda.is_available():  # steps may run ahead
                torch.cuda.synchronize()
            spent[name] += time.perf_counter() - start

    return also


def main(arguments: Sequence[str]) -> int:
    """Train, and print the phases; the exit code of the command."""
    spent, begun, start = Counter(), [], time.perf_counter()

    def running(trainer: Trainer) -> str:
        if trainer in begun:
            return "steps"
        begun[:] = [trainer]
        return "beginning"

    kept = {name: getattr(Trainer, name) for name in ("__init__", "_run", "_keep")}
    phases = {"__init__": lambda _: "beginning", "_run": running, "_keep": lambda _: "observing"}
    try:
        for name, phase in phases.items():
            setattr(Trainer, name, timed(spent, phase, kept[name]))
        code = cli.main(["train", *arguments])
    finally:
        for name, method in kept.items():
            setattr(Trainer, name, method)
    spent["rest"] = time.perf_counter() - start - sum(spent.values())
    if code == 0:  # otherwise the last line says what is wrong
        print(json.dumps({phase: round(spent[phase], 5) for phase in PHASES}), flush=True)
    return code


def store(answers: Iterable[tuple[str, float, str]], wall: float, at_once: int, price: float | None) -> None:
    """Keep what came out: studies with their seconds and the phases of their last call; the seconds of all calls, in dollars an hour of such a machine."""
    rows = [{"study": name.replace("/", ": "), "seconds": s, "phases": json.loads(said)} for name, s, said in answers]
    about = {"machine": suite.machine("cuda"), "wall": wall, "at_once": at_once, "price": price, "rows": rows}
    write_whole(RESULTS, (json.dumps(about, indent=1) + "\n").encode())


def rendered() -> str:
    """The part of the page."""
    title = "### Every study of the book"
    if not RESULTS.exists():
        return f"{title}\n\nNot measured: `make gpu STAGE=studies AT_ONCE=10` trains them all and fills this part."
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    m, every, rows = stored["machine"], stored["rows"], []
    for row in sorted(every, key=lambda row: -row["seconds"])[:SHOWN]:
        total = sum(row["phases"].values()) or 1
        shares = [f"{100 * row['phases'][phase] / total:.0f} %" for phase in PHASES]
        rows.append([row["study"], f"{row['seconds']:.0f}", *shares, max(PHASES, key=row["phases"].__getitem__)])
    text = (
        f"Measured on {m['date']} on: {m['gpu']}; {m['cpu']}, {m['cores']} cores; torch {m['torch']}. All {len(every)} trainings took {duration(stored['wall'])}, "
        f"{stored['at_once']} side by side ({duration(sum(row['seconds'] for row in every))} one after another)"
    )
    if stored["price"]:
        text += f": {number(stored['price'] * stored['wall'] / 3600, 2)} dollars at {number(stored['price'])} an hour"
    return f"{title}\n\n{text}.\n\n{table(['study', 'seconds', *PHASES, 'bound by'], rows)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
