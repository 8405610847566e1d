"""The console command ``iclbook``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .command_line import MISTAKE, parser
from .errors import UserError, one_line
from .formulas import plain
from .numbers import number
from .profiles import check_profile

if TYPE_CHECKING:
    from .claims import Ledger
    from .claims.render import Row
    from .claims.scoreboard import Board

#: Exit codes beside ``MISTAKE``: something moved or did not come out; Ctrl-C.
MOVED, INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Whatever goes wrong is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that knows only ASCII gets escapes, not a failure
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk shows here, where it can still be said
        return code
    except UserError as mistake:
        return _report(one_line(mistake))
    except KeyboardInterrupt:
        print(
            "interrupted. Whatever was finished is kept; the same command goes on from there.",
            file=sys.stderr,
        )
        return INTERRUPTED
    except BrokenPipeError:  # `iclbook claims | head`
        _drop_output()
        return 0
    except Exception as problem:
        return _report_unforeseen(problem)


def _dispatch(arguments: Sequence[str] | None) -> int:
    options = parser().parse_args(arguments)
    check_profile(getattr(options, "profile", "paper"))
    if getattr(options, "device", "auto") == "cuda":
        _require_device(options.device)
    return _COMMANDS[options.command](options)


def _report(line: str) -> int:
    print(f"error: {line}", file=sys.stderr)
    return MISTAKE


def _report_unforeseen(problem: Exception) -> int:
    """The last handler: one line for an error that no part of the program foresaw."""
    if os.environ.get("ICLBOOK_TRACEBACK") == "1":
        traceback.print_exception(problem)
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):  # or Python complains of it again at exit
        _drop_output()
    said = one_line(problem)
    said = f"{type(problem).__name__}: {said}" if said else type(problem).__name__
    return _report(
        f"{said[:300]}. This was not foreseen; set ICLBOOK_TRACEBACK=1 and repeat the command to see where."
    )


def _drop_output() -> None:
    """Let what is still to be printed go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # no real file behind it
        sys.stdout = None


def _require_device(name: str) -> None:
    """Refuse a device that is not there before anything is started."""
    from .training.backends import pick_device

    pick_device(name)


def _run(options: argparse.Namespace) -> int:
    from .check import known_chapters, require_chapter
    from .project import find_root

    root = find_root()
    known = known_chapters(root)
    names = known if options.chapter == "all" else [options.chapter]
    for name in names:
        require_chapter(name, known)
    from .book.execute import run_notebook

    for name in names:
        path = run_notebook(name, options.profile, options.device)
        print(f"{name}: done, {path.relative_to(root) if path.is_relative_to(root) else path}", flush=True)
    return 0


def _check(options: argparse.Namespace) -> int:
    from . import check as regression
    from .machines import environment

    environment(options.machine)  # an unknown machine is refused before minutes of running
    results = regression.check(
        list(dict.fromkeys(options.chapters)),  # one named twice would run twice, into one file
        options.profile,
        options.device,
        options.update,
        jobs=options.jobs,
        spread=options.spread,
        machine=options.machine,
    )
    print(regression.table(results))
    if options.json:
        regression.write_json(options.json, results)
    if options.junit:
        regression.write_junit(options.junit, results)
    return 0 if all(result.ok for result in results) else MOVED


def _build(options: argparse.Namespace) -> int:
    from .book.build import build

    build(options.profile, device=options.device, jobs=options.jobs)
    return 0


def _new(options: argparse.Namespace) -> int:
    from . import check as regression
    from .book.execute import run_notebook
    from .book.new import new_paper
    from .check.spreads import measure_spreads
    from .claims import load_ledger
    from .project import find_root

    root = find_root()
    paths = new_paper(options.key, options.title, options.chapter, root)
    print("wrote " + ", ".join(str(path.relative_to(root)) for path in paths), flush=True)
    chapter = next(path.stem for path in paths if path.parent.name == "notebooks")
    for profile in ("smoke", "paper"):
        print(regression.table(regression.check([chapter], profile, "cpu", update=True)), flush=True)
        # two machines as unlike as can be: what a skeleton records is exact
        measure_spreads([load_ledger(options.key)], profile, root, machines=("sse-1", "native-2"))
        run_notebook(chapter, profile, "cpu")  # once more, judged with the margins that are known now
    print(f"Go on with src/iclbook/papers/{options.key}/claims.yaml; CONTRIBUTING.md shows the steps.")
    return 0


def _train(options: argparse.Namespace) -> int:
    if options.verify and options.scheduler is not None:
        raise UserError("--verify derives results again on this machine", "Leave out --scheduler.")
    train = _trainer_of(options.key)
    chosen = {"only": options.only, "profile": options.profile, "device": options.device}
    chosen |= {"fresh": options.fresh, "verify": options.verify}
    if options.verify:
        train(**chosen)
        return 0
    from .workers import open_executor

    with open_executor(options.scheduler, options.workers, options.device) as executor:
        train(**chosen, executor=executor, parts=executor.parts if executor else 1)
    return 0


def _trainer_of(key: str) -> Callable[..., object]:
    """The function that trains a paper's studies.

    Raises:
        UserError: unknown paper, or one that has nothing to train.
    """
    import importlib
    from importlib.util import find_spec

    from .claims import load_ledger

    load_ledger(key)  # an unknown paper is refused with the known ones
    name = f"iclbook.papers.{key}"
    if find_spec(name) is None:
        raise UserError(
            f"{key} has no studies to train yet", "Its chapter is not written; choose another paper."
        )
    train = getattr(importlib.import_module(name), "train", None)
    if train is None:
        raise UserError(
            f"{key} has no studies to train", "Its chapter computes all it shows when it runs: `iclbook run`."
        )
    return train


def _probe(options: argparse.Namespace) -> int:
    from .papers.nagy2026.probes.command import probe_folder

    values = probe_folder(
        options.model,
        options.probe,
        options.out,
        options.revision,
        options.tokenizer,
        options.digits,
        options.lines,
    )
    width = max(map(len, values))
    for name, value in values.items():
        print(f"{name:<{width}}  {number(value, 4)}")
    print(f"wrote {options.out}")
    return 0


def _stories(options: argparse.Namespace) -> int:
    if (options.train is None) != (options.out is None) or (options.judge and options.train is None):
        raise UserError("--train, --out and --judge belong together", "Give --train NAME --out DIR.")
    from .papers.wang2025.stories import command as story_command

    coding = None if options.tokenizer is None else str(options.tokenizer)
    folder = str(options.folder), options.profile, coding, options.words
    if options.train is None:
        print("\n".join(story_command.described(*folder)))
        return 0
    path = story_command.endings(folder, options.train, options.out, options.steps, options.device)
    print(f"endings: {path}", flush=True)
    if options.judge:
        key = os.environ.get("ICLBOOK_JUDGE_KEY")
        print("\n".join(story_command.judged(path, options.judge, options.judge_model, key)))
    return 0


def _claims(options: argparse.Namespace) -> int:
    from .check import ledger_of
    from .claims import all_ledgers, scoreboard
    from .project import find_root

    root = find_root()
    paper, _, item = (options.key or "").partition("/")
    if options.key is None:
        ledgers = all_ledgers(root)
    else:
        ledgers = [ledger_of(paper, root)]
        if item:
            ledgers[0].claim(options.key)  # an unknown id is refused with the nearest one
    if _report_stale(ledgers, options.profile, root):
        return MISTAKE
    names = {ledger.paper for ledger in ledgers}
    boards = [board for board in scoreboard.boards(options.profile, root) if board.ledger.paper in names]
    rows = [row for board in boards for row in board.rows if not item or row[0].id == options.key]
    if options.json:
        found = {claim.id: {"verdict": found.word, "note": plain(found.note)} for claim, found in rows}
        print(json.dumps(found, indent=1))
    elif options.key is None:
        _print_counts(boards, options.profile)
    else:
        _print_claims(rows, one=bool(item))
    return 0


def _report_stale(ledgers: Sequence[Ledger], profile: str, root: Path) -> int:
    """Say which executed chapters are not of today's inputs, one line each; how many."""
    from .book.inputs import PROSE_ONLY, executed_path, is_stale, stale_line

    stale = 0
    for ledger in ledgers:
        name = ledger.chapter_name
        if not executed_path(name, profile, root).exists():
            continue  # not run: its claims are not yet tested, and say so
        why = is_stale(name, profile, root)
        if why and why != PROSE_ONLY:  # verdicts rest on no word of the text
            _report(one_line(stale_line(name, profile, why)))
            stale += 1
    return stale


def _print_claims(rows: Sequence[Row], one: bool) -> None:
    """A paper's claims as a table, or one claim with its parts."""
    from .claims import render

    if not one:
        print(render.table_text(rows, _width()))
        return
    claim, found = rows[0]
    print(render.verdict_text(claim, found))
    print(plain(f"    says: {claim.says}" + (f"\n    paper: {claim.paper}" if claim.paper else "")))


def _print_counts(boards: Sequence[Board], profile: str) -> None:
    """One line of counts for every paper and one for all."""
    from .claims import render

    for board in boards:
        line = render.counts_line(board.rows)
        unread = "" if board.executed else f" (not run at profile {profile})"
        print(f"{board.ledger.paper:<12} {line}{unread}")
    every = (row for board in boards for row in board.rows)
    print(f"{'all':<12} {render.counts_line(every)}")


def _width() -> int:
    """As wide as the terminal; uncut when the output goes into a file or pipe."""
    import shutil

    terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if terminal else 10_000


def entry() -> int:
    """The console command. Trainings take pinned code paths, which libraries choose when they are loaded: hence a new process."""
    from .machines import TRAINING, environment, runs_under

    if sys.argv[1:2] == ["train"] and not runs_under(TRAINING):
        again = [sys.executable, "-m", "iclbook.cli", *sys.argv[1:]]
        os.execve(sys.executable, again, environment("training"))
    return main()


_COMMANDS = {
    "run": _run,
    "check": _check,
    "build": _build,
    "train": _train,
    "claims": _claims,
    "probe": _probe,
    "stories": _stories,
    "new": _new,
}

if __name__ == "__main__":
    sys.exit(entry())
