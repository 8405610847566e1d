"""Do the tests see a planted fault? ``make mutants``, or ``python tests/mutants.py he2025 --count 25``.

The functions of a paper are changed one at a time, in a copy of the tree, and the tests of that paper must turn red, or the reference check of its
chapter. Faults are drawn by a fixed rule from all that :mod:`mutations` can make of what computes. Tests that name the changed
module are run first, until one fails. Tests find no stored results in the copy, whose digest hangs on the sources: any change would be caught for the wrong reason.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from mutations import Fault, draw, faults_in

from iclbook.project import PROFILES

ROOT = Path(__file__).resolve().parents[1]
#: What a chapter says of stored results when a fault stands in code that a training runs: no reason to call the fault caught.
STALE = "made from other training code"
#: Modules that show and do not record: pages, sliders and commands have tests of their own.
SHOWING = re.compile("slider|page|live|command")
#: A paper passes when its tests and references catch this share of the faults.
ENOUGH = 0.95
#: Seconds that the tests of one fault may take, or twice what they take without one: a fault that hangs counts as caught.
LIMIT = 240
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".cache", "_build", "executed", "__pycache__", ".*_cache", "results", "proofs"
)
QUICK = "not slow and not chapter and not browser and not cuda"
_OFF_THE_BOUND = "no number of either profile lies on the bound"
#: Drawn faults that change nothing, by their place and what they exchange, and why: they do not count where they survive.
CHANGES_NOTHING = {
    ("he2025/figure_2_7.py in flow_records", 'found["times"] >= 1e6'): _OFF_THE_BOUND,
    ("agarwal2025/sentences.py in _routing", "a < 0"): _OFF_THE_BOUND,
    ("crossing/descent_ladder.py in lines", "digits[:, ::2] - 4.5"): "all x mirrored, as are the weights",
    ("recall2025/subsequent_jumps.py in later_jump", "4"): "a limit of time that no flow reaches",
    ("nagy2026/section_5.py in records", "answers <= off.y.max()"): _OFF_THE_BOUND,
}


def faults_of(paper: str, count: int, root: Path = ROOT) -> list[Fault]:
    """The faults drawn for a paper."""
    room = root / "src/iclbook/papers" / paper
    every = [
        fault
        for path in sorted(room.rglob("*.py"))
        if not SHOWING.search(path.stem)
        for fault in faults_in(path.read_text(), str(path.relative_to(root)))
    ]
    return draw(every, count)


# -- which tests ------------------------------------------------------------------------------------------------------


def tests_of(module: Path, paper: str, root: Path) -> list[Path]:
    """Test files of a paper, those that name the module first, and common ones that name it and need no stored results."""

    def names(test: Path) -> bool:
        return re.search(rf"\b{module.stem}\b", test.read_text()) is not None

    own = sorted((root / "tests" / paper).glob("test_*.py"), key=lambda test: not names(test))
    return own + [t for t in sorted((root / "tests").glob("test_*.py")) if t.stem != "test_results" and names(t)]


# -- running them -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: ``caught`` by the test ``by``, or ``survived``."""

    fault: Fault
    word: str
    by: str = ""
    seconds: float = 0.0


def pytest_in(
    tree: Path, tests: list[Path], limit: float, deselect: Iterable[str] = (), first: bool = True
) -> list[str]:
    """Tests that fail in a copy of the tree; with ``first`` the first of them only.

    Raises:
        RuntimeError: pytest did not run.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST") and k != "CI"}
    env |= {"PYTHONPATH": str(tree / "src"), "ICLBOOK_ROOT": str(tree), "OMP_NUM_THREADS": "1"}
    env |= {"PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", QUICK]
    options += ["-x"] * first + [f"--deselect={name}" for name in deselect]
    files = [str(path.relative_to(tree)) for path in tests]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *files],
            cwd=tree,
            env=env,
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return ["time limit"]
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, flags=re.M)


def moved_in(tree: Path, paper: str, limit: float) -> list[str]:
    """The reference check that a paper's chapter no longer passes, if any: at the smoke profile or, from stored results that are still today's, at the paper's."""
    ledger = (tree / "src/iclbook/papers" / paper / "claims.yaml").read_text()
    chapter = re.search(r"^chapter: notebooks/(\w+)\.py", ledger, flags=re.M)[1]
    command = [str(Path(sys.executable).with_name("iclbook")), "check", chapter, "--jobs", "1", "--profile"]
    env = os.environ | {"PYTHONPATH": str(tree / "src"), "ICLBOOK_ROOT": str(tree), "OMP_NUM_THREADS": "1"}
    results = tree / "results"
    results.symlink_to(ROOT / "results")
    try:
        for profile in PROFILES:
            done = subprocess.run([*command, profile], cwd=tree, env=env, capture_output=True, text=True, timeout=limit)
            if done.returncode not in (0, 1, 2):
                raise RuntimeError(f"the reference check was killed ({done.returncode})")
            if done.returncode and STALE not in done.stdout + done.stderr:
                return [f"the reference check at the {profile} profile"]
    except subprocess.TimeoutExpired:
        return ["time limit"]
    finally:
        results.unlink()
    return []


def try_fault(fault: Fault, tree: Path, tests: list[Path], limit: float, red: set[str]) -> Outcome:
    """Plant a fault in a copy, run the tests, and take it out again."""
    path, start = tree / fault.path, time.monotonic()
    before = path.read_text()
    path.write_text(fault.planted(before))
    try:
        failed = pytest_in(tree, tests, limit, red) if tests else []
        failed = failed or moved_in(tree, fault.paper, limit)
    finally:
        path.write_text(before)
    return Outcome(fault, "caught" if failed else "survived", "".join(failed[:1]), time.monotonic() - start)


def run(faults: list[Fault], root: Path = ROOT, workers: int = 2) -> list[Outcome]:
    """Every fault's outcome, in order; each worker has a copy of the tree. Tests that are red without a fault are left out."""
    with tempfile.TemporaryDirectory() as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            trees.put(Path(shutil.copytree(root, Path(folder) / str(number), ignore=LEFT_OUT)))

        def without(paper: str) -> tuple[set[str], float]:
            """Tests that are red without a fault, and the seconds that those of one fault may take."""
            tree, began = trees.get(), time.monotonic()
            try:
                paths = {fault.path for fault in faults if fault.paper == paper}
                every = sorted({test for path in paths for test in tests_of(tree / path, paper, tree)})
                red = set(pytest_in(tree, every, 10 * LIMIT, first=False)) if every else set()
                limit = max(LIMIT, 2 * (time.monotonic() - began))
                if moved := moved_in(tree, paper, 10 * LIMIT):
                    raise RuntimeError(f"{paper}: {moved[0]} is red without a fault")
            finally:
                trees.put(tree)
            if red:
                say(f"{paper}: red without a fault and left out: {', '.join(sorted(red))[:1000]}")
            return red, limit

        def one(fault: Fault) -> Outcome:
            tree = trees.get()
            try:
                tests, (red, limit) = tests_of(tree / fault.path, fault.paper, tree), known[fault.paper]
                outcome = try_fault(fault, tree, tests, limit, red)
            finally:
                trees.put(tree)
            say(line_of(outcome))
            return outcome

        with ThreadPoolExecutor(workers) as pool:
            papers = sorted({fault.paper for fault in faults})
            known = dict(zip(papers, pool.map(without, papers), strict=True))
            return list(pool.map(one, faults))


# -- what is said -----------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    """Print at once: a run takes long."""
    print(text, flush=True)


def line_of(outcome: Outcome) -> str:
    """One line a fault."""
    fault = outcome.fault
    how = f"by {outcome.by.split('::')[-1]}" if outcome.by else ""
    return f"{outcome.word:9}{outcome.seconds:6.0f} s  {fault.kind:10} {fault.where}: {fault.change}  {how}".rstrip()


def why_nothing(fault: Fault) -> str:
    """Why a fault changes nothing, if it is known to."""
    place = re.sub(r":\d+", "", fault.where)
    return CHANGES_NOTHING.get((place, fault.change.partition(" -> ")[0]), "")


def summary(outcomes: list[Outcome]) -> tuple[str, bool]:
    """The survivors and the kill rate of every paper, and whether all of them suffice; a survivor that is known to change nothing does not count."""
    lines, enough = [""], True
    for paper in dict.fromkeys(outcome.fault.paper for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.fault.paper == paper]
        caught = sum(o.word == "caught" for o in own)
        nothing = sum(o.word == "survived" and bool(why_nothing(o.fault)) for o in own)
        counted = len(own) - nothing
        rate = caught / max(counted, 1)
        enough &= rate >= ENOUGH
        seconds = sum(o.seconds for o in own)
        more = f", {nothing} more change nothing" if nothing else ""
        lines.append(f"{paper}: {caught} of {counted} caught ({rate:.0%}){more}, {seconds / 60:.0f} minutes")
        lines += [f"  {line_of(o)}  {why_nothing(o.fault)}".rstrip() for o in own if o.word != "caught"]
    return "\n".join(lines), enough


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every paper's tests catch enough."""
    papers = sorted(path.parent.name for path in (ROOT / "src/iclbook/papers").glob("*/claims.yaml"))
    parser = argparse.ArgumentParser(description="Plant faults and see whether the tests notice.")
    parser.add_argument("papers", nargs="*", default=papers, metavar="paper", help=f"of {', '.join(papers)}")
    parser.add_argument("--count", type=int, default=22, help="faults drawn per paper (22)")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time (2)")
    parser.add_argument("--only", default="", help="only faults whose line of output holds this text")
    parser.add_argument("--list", action="store_true", help="say which faults, and plant none")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.papers) - set(papers):
        parser.error(f"no such paper: {', '.join(sorted(unknown))}; choose among {', '.join(papers)}")
    faults = [fault for paper in chosen.papers for fault in faults_of(paper, chosen.count)]
    faults = [fault for fault in faults if chosen.only in line_of(Outcome(fault, ""))]
    if chosen.list:
        say("\n".join(line_of(Outcome(fault, "")) for fault in faults))
        return 0
    text, enough = summary(run(faults, workers=chosen.workers))
    say(text)
    return 0 if enough else 1


if __name__ == "__main__":
    raise SystemExit(main())
