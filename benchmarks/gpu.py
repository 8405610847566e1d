"""``make gpu``: everything that a GPU machine should be asked, in calls of under ten minutes; the next call goes on where the last one stopped.

The work is a list of units, each a command. What came out of each is kept in ``.cache/gpu/state.json``, until the code changes. A unit that a call has no time
left for is told to stop, as by Ctrl-C: trainings keep a checkpoint and go on from it in the next call; others begin again there, with all of the call's time.
Trainings go on side by side, as many as ``--at-once`` says, and share the GPU through NVIDIA's multi-process service where the machine has it.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from iclbook.errors import UserError, one_line
from iclbook.files import write_whole

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache" / "gpu"
#: Where studies are trained: a book whose results are not those of the repository.
STUDIES = FOLDER / "book"
STAGES = ("tests", "kernel", "bench", "studies", "replays", "processors")
#: Seconds that a stopped unit has to write its checkpoint.
GRACE = 20
DONE, FAILED, STOPPED, TOO_LONG = "done", "failed", "unfinished", "too long for one call"
#: Exit code: there is more to do.
MORE = 3


@dataclass(frozen=True)
class Unit:
    """One command.

    Attributes:
        resumes: whether it goes on where it was stopped.
    """

    stage: str
    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    resumes: bool = False


def redrawn(draw: int) -> list[Unit]:
    """The trainings of another draw alone; their results go to ``draws/DRAW``."""
    from iclbook.training.computation import Computation

    train = (sys.executable, "-m", "benchmarks.phases")
    tail = ("--device", "cuda", "--draw", str(draw))
    return [
        Unit("studies", f"{key}/{name} at draw {draw}", (*train, key, "--only", name, *tail), resumes=True)
        for key, studies in _studies().items()
        for name, study in studies.items()
        if not isinstance(study, Computation)
    ]


def units() -> list[Unit]:
    """All of it, what costs least first."""
    python = sys.executable
    from iclbook.training.computation import Computation

    marked = [
        str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.cuda" in p.read_text()
    ]
    found = [
        Unit(
            "tests",
            "CUDA tests",
            (
                python,
                "-m",
                "pytest",
                "-q",
                "-x",
                "--timeout",
                "90",
                "--timeout-method",
                "thread",
                "-m",
                "cuda",
                *marked,
            ),
        )
    ]
    kept = ("--keep", str(FOLDER / "bench" / code_digest()))
    command = (python, "-m", "benchmarks", "--device", "cuda", *kept, "--only", "kernel")
    found.append(Unit("kernel", "many steps in one launch", command, resumes=True))
    # how cost grows with each size is asked of the CPU: a hundred processes more
    parts = ("--only", "floor", "paired", "ladder")
    bench = (python, "-m", "benchmarks", "--device", "cuda", *kept, "--out", str(FOLDER / "results-cuda.json"), *parts)
    found.append(Unit("bench", "speed", bench, resumes=True))
    command = (python, "-m", "iclbook.cli", "train")
    for key, studies in _studies().items():
        for name, study in studies.items():
            train = (python, "-m", "benchmarks.phases", key, "--only", name, "--device", "cuda", "--fresh")
            if not isinstance(study, Computation):  # which is for the CPU
                found.append(
                    Unit(
                        "studies",
                        f"{key}/{name}",
                        train,
                        {"ICLBOOK_ROOT": str(STUDIES), "OMP_NUM_THREADS": "1"},
                        resumes=True,
                    )
                )
            if (ROOT / "results" / key / "paper" / f"{name}.json").exists():
                again = (*command, key, "--only", name, "--verify", "--device", "cpu")
                found.append(Unit("replays", f"{key}/{name}", again))
    for test in _tests("tests/test_emulated.py"):
        one = (python, "-m", "pytest", "-q", test)
        found.append(Unit("processors", test, one, {"OMP_NUM_THREADS": "1"}))
    return sorted(found, key=lambda unit: STAGES.index(unit.stage))


def _studies() -> dict[str, dict[str, Any]]:
    """The studies of every paper at the paper profile, by name."""
    from importlib import import_module

    found = {}
    for folder in sorted((ROOT / "src" / "iclbook" / "papers").iterdir()):
        if (folder / "__init__.py").is_file():
            room = import_module(f"iclbook.papers.{folder.name}")
            if hasattr(room, "studies"):
                found[folder.name] = room.studies("paper")
    return found


def _tests(file: str) -> list[str]:
    """The tests of a file that needs papermill; none where that is not installed."""
    from importlib.util import find_spec

    if find_spec("papermill") is None:
        return []
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", file]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return [line for line in said.stdout.splitlines() if "::" in line]


def code_digest(root: Path = ROOT) -> str:
    """Digest of all that could change an answer."""
    digest = hashlib.sha256()
    for path in sorted(p for part in ("src", "benchmarks", "tests") for p in (root / part).rglob("*.*")):
        if path.suffix in (".py", ".c", ".h", ".cu", ".cuh"):
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


class State:
    """What came out of each unit, kept from call to call; forgotten when the code has changed."""

    def __init__(self, path: Path, code: str) -> None:
        self._path, self._code = path, code
        self.found: dict[str, dict] = {}
        #: Seconds of all calls in each stage.
        self.walls: dict[str, float] = {}
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["code"] == code:
                self.found, self.walls = dict(kept["units"]), dict(kept["walls"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # none yet, or damaged: all is asked again

    def outcome(self, unit: Unit) -> str:
        """What came out; empty for a unit that was not begun."""
        return self.found.get(f"{unit.stage}: {unit.name}", {}).get("outcome", "")

    def put(self, unit: Unit, outcome: str, seconds: float, said: str) -> None:
        """Keep what came out of a unit; the seconds of several calls add up."""
        key = f"{unit.stage}: {unit.name}"
        before = self.found.get(key, {}) if unit.resumes else {}
        before = before if before.get("outcome") == STOPPED else {}
        total = round(before.get("seconds", 0) + seconds, 1)
        self.found[key] = {"outcome": outcome, "seconds": total, "said": said}
        self.write()

    def write(self) -> None:
        """Keep all of it."""
        kept = {"code": self._code, "walls": self.walls, "units": self.found}
        write_whole(self._path, (json.dumps(kept, indent=1) + "\n").encode())

    def forget(self, units: Iterable[Unit]) -> None:
        """Ask these again."""
        for unit in units:
            self.found.pop(f"{unit.stage}: {unit.name}", None)
            self.walls.pop(unit.stage, None)


def ask(unit: Unit, seconds: float, halt: threading.Event) -> tuple[str, float, str]:
    """Run a unit for at most so long, or until ``halt``: what came out, how long it took, and its last line."""
    start = time.monotonic()
    with subprocess.Popen(
        unit.command,
        cwd=ROOT,
        env=os.environ | unit.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        while True:
            try:
                said, _ = process.communicate(timeout=min(1, max(start + seconds - time.monotonic(), 0.01)))
                outcome = DONE if process.returncode == 0 else FAILED
                break
            except subprocess.TimeoutExpired:
                if halt.is_set() or time.monotonic() >= start + seconds:
                    said, outcome = _stop(process), STOPPED
                    break
    write_whole(FOLDER / "logs" / (re.sub(r"\W+", "-", f"{unit.stage} {unit.name}") + ".txt"), said.encode())
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
    return outcome, time.monotonic() - start, one_line(last)[:200]


def _stop(process: subprocess.Popen) -> str:
    """End a unit and all that it started, with time to write a checkpoint."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.communicate(timeout=GRACE)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def go_on(
    todo: Sequence[Unit], state: State, minutes: float, say: Callable[[str], None] = print, at_once: int = 1
) -> bool:
    """Ask unit after unit, of trainings so many at once, until the time is up; whether all have an answer."""
    end = time.monotonic() + 60 * minutes - GRACE
    asked, lock, halt = 0, threading.Lock(), threading.Event()

    def one(unit: Unit) -> bool:
        nonlocal asked
        left = end - time.monotonic()
        with lock:
            if halt.is_set() or (left < min(60, 30 * minutes) and asked >= at_once):
                return False
            first, asked = not asked, asked + 1
        outcome, seconds, said = ask(unit, max(left, 1), halt)
        if outcome == STOPPED and not unit.resumes and first and not halt.is_set():
            outcome = TOO_LONG  # it had a whole call for itself
        with lock:
            state.put(unit, outcome, seconds, said)
            say(f"{unit.stage}: {unit.name}: {outcome} ({seconds:.0f} s) {said}")
        return outcome != STOPPED

    left = [unit for unit in todo if state.outcome(unit) not in (DONE, FAILED, TOO_LONG)]
    for stage, of_stage in groupby(left, lambda unit: unit.stage):
        began = time.monotonic()
        with ThreadPoolExecutor(at_once if stage == "studies" else 1) as pool:
            try:
                answered = list(pool.map(one, of_stage))
            except KeyboardInterrupt:
                halt.set()
                raise
        state.walls[stage] = state.walls.get(stage, 0) + time.monotonic() - began
        state.write()
        if not all(answered):
            return False
    return True


@contextmanager
def shared_gpu() -> Iterator[None]:
    """Small kernels of several processes run beside each other only through NVIDIA's multi-process service; without it they take turns."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": str(FOLDER), "CUDA_MPS_LOG_DIRECTORY": str(FOLDER)}
    subprocess.run([control, "-d"], check=False)
    try:
        yield
    finally:
        subprocess.run([control], input="quit\n", text=True, check=False)


def summary(todo: Sequence[Unit], state: State) -> list[str]:
    """A line for each stage, and one for each unit that failed."""
    lines = []
    for stage in dict.fromkeys(unit.stage for unit in todo):
        mine = [unit for unit in todo if unit.stage == stage]
        outcomes = [state.outcome(unit) or "to do" for unit in mine]
        seconds = sum(state.found.get(f"{stage}: {u.name}", {}).get("seconds", 0) for u in mine)
        counts = ", ".join(f"{outcomes.count(o)} {o}" for o in dict.fromkeys(outcomes))
        lines.append(f"{stage:<10} {counts} ({seconds:.0f} s)")
    bad = [unit for unit in todo if state.outcome(unit) in (FAILED, TOO_LONG)]
    return lines + [f"{state.outcome(u)}: {u.stage}: {u.name}: {' '.join(u.command)}" for u in bad]


def make_book(folder: Path = STUDIES, root: Path = ROOT) -> None:
    """A book beside the real one, with the same sources and results of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("_toc.yml", "notebooks", "src"):
        if not (folder / name).exists():
            (folder / name).symlink_to(root / name)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; exit code 0 when all is done and well, 1 when something failed, 2 for a mistake, 3 when there is more to do."""
    parser = argparse.ArgumentParser(prog="make gpu", description=__doc__.splitlines()[0].replace("``", ""))
    parser.add_argument("--stage", choices=STAGES, help="this stage alone")
    parser.add_argument("--minutes", type=float, default=9.5, help="length of a call (default: %(default)s)")
    parser.add_argument("--draw", type=int, default=0, help="only the trainings of another draw (default: the book)")
    parser.add_argument("--at-once", type=int, default=1, help="trainings side by side (default: %(default)s)")
    parser.add_argument("--price", type=float, help="dollars an hour of this machine, for the page")
    parser.add_argument("--again", action="store_true", help="ask again what has an answer already")
    parser.add_argument("--list", action="store_true", help="say what there is and how far it is, and ask nothing")
    chosen = parser.parse_args(arguments)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # started in a shell's background: units would inherit it, and never hear that they are to stop
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if not chosen.list:
            _require_cuda()
        every = redrawn(chosen.draw) if chosen.draw else units()
        todo = [unit for unit in every if chosen.stage in (None, unit.stage)]
        state = State(FOLDER / "state.json", code_digest())
        if chosen.again:
            state.forget(todo)
            if chosen.stage in (None, "bench"):
                shutil.rmtree(FOLDER / "bench", ignore_errors=True)  # the benchmark's own kept answers
        make_book()
        with shared_gpu() if chosen.at_once > 1 and not chosen.list else nullcontext():
            say = partial(print, flush=True)
            finished = chosen.list or go_on(todo, state, chosen.minutes, say, chosen.at_once)
    except UserError as mistake:
        print(f"error: {one_line(mistake)}", file=sys.stderr)
        return 2
    print("\n".join(summary(todo, state)))
    trained = [unit for unit in todo if unit.stage == "studies"]
    if trained and not chosen.draw and all(state.outcome(unit) == DONE for unit in trained):
        from . import page, phases

        found = [(unit.name, state.found[f"studies: {unit.name}"]) for unit in trained]
        answers = [(name, of["seconds"], of["said"]) for name, of in found]
        phases.store(answers, state.walls["studies"], chosen.at_once, chosen.price)
        page.write()
    if not finished:
        print("there is more to do: the same command goes on from here")
        return MORE
    return int(any(state.outcome(unit) in (FAILED, TOO_LONG) for unit in todo))


def _require_cuda() -> None:
    import torch

    if not torch.cuda.is_available():
        raise UserError("there is no CUDA device here", "Run make gpu on a machine that has one.")


if __name__ == "__main__":
    sys.exit(main())
