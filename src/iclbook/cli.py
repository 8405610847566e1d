"""The console command ``iclbook``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import UserError
from .profiles import PROFILES, check_profile

#: Exit codes: something moved or did not come out; a mistake or a missing thing that the user can mend; Ctrl-C.
MOVED, MISTAKE, INTERRUPTED = 1, 2, 130

_ABOUT = """\
Executable reproductions of papers on how attention learns in context.

Each chapter is a notebook (notebooks/NAME.py) that measures what its paper says. The paper's claims and the rules that decide
them stand in claims/KEY.yaml; verdicts are computed from what the chapter recorded.
"""
_EXAMPLES = """\
examples:
  iclbook build                                   run what is missing or stale and build the book
  iclbook run linear_regression --profile smoke   run one chapter in a small size, in minutes
  iclbook check --profile smoke                   has any recorded value moved from its reference?
  iclbook train he2025 --only NAME                train one of the paper's studies and store the result
  iclbook claims he2025                           the verdicts of one paper

Each command has its own help: iclbook COMMAND --help
exit codes: 0 all well, 1 something moved, 2 a mistake (one line says which, and the mend), 130 interrupted
"""
_PROFILE = "smoke: small, trains within minutes; paper: the document's own sizes, from stored results (default: %(default)s)"
_JOBS = "chapters to run at once (default: one for each core)"
_DEVICE = "where to compute; auto takes a GPU when there is one (default: %(default)s)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        if "profile" in options:
            check_profile(options.profile)
        if getattr(options, "device", "auto") == "cuda":
            _require_device(options.device)
        return options.command(options)
    except UserError as mistake:
        print(f"error: {_one_line(mistake)}", file=sys.stderr)
        return MISTAKE
    except KeyboardInterrupt:
        print(
            "interrupted. Whatever was finished is kept; the same command goes on from there.",
            file=sys.stderr,
        )
        return INTERRUPTED
    except BrokenPipeError:  # `iclbook claims | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = _Parser(
        prog="iclbook",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(
        name: str, command, about: str, more: str, profile: str, device: bool = True
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        sub.set_defaults(command=command)
        sub.add_argument("--profile", metavar="{" + ",".join(PROFILES) + "}", default=profile, help=_PROFILE)
        if device:
            sub.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help=_DEVICE)
        return sub

    sub = add(
        "run", _run, "run one chapter, or all, headless",
        "The executed notebook goes to executed/PROFILE/CHAPTER.ipynb once every cell has run;\n"
        "when a cell fails, the cells so far stand in CHAPTER.failed.ipynb beside it.\n\n"
        "example: iclbook run linear_regression --profile smoke",
        "paper",
    )  # fmt: skip
    sub.add_argument(
        "chapter", metavar="CHAPTER", help="a chapter's name, such as linear_regression, or: all"
    )

    sub = add(
        "check", _check, "run chapters and compare every recorded value with its stored reference",
        "References stand in references/PROFILE/CHAPTER.json with the spread that rounding alone gives each value. Missing and new values and changed\n"
        "verdicts count as moved. The exit code is 1 when something moved or a chapter failed.\n\n"
        "examples:\n"
        "  iclbook check --profile smoke --junit report.xml\n"
        "  iclbook check linear_regression --update     accept what moved as the new reference, then look at git diff",
        "smoke",
    )  # fmt: skip
    sub.add_argument("chapters", metavar="CHAPTER", nargs="*", help="chapters to check (default: all)")
    sub.add_argument("--json", metavar="FILE", type=Path, help="also write what was found as JSON")
    sub.add_argument(
        "--junit", metavar="FILE", type=Path, help="also write a JUnit report, which CI services display"
    )
    sub.add_argument("--update", action="store_true", help="write the references anew instead of failing")
    sub.add_argument(
        "--spread", action="store_true", help="as --update, and measure how far rounding carries each value"
    )
    sub.add_argument(
        "--machine",
        metavar="NAME",
        default="pinned",
        help="emulate a processor and its threads, such as sse-2 (default: pinned code paths)",
    )
    sub.add_argument("--jobs", metavar="N", type=_positive, help=_JOBS)

    sub = add(
        "build", _build, "build the book into _build/html, running what is missing or stale first",
        "Warnings are errors. The end prints where the book is and a line of verdict counts.\n\n"
        "example: iclbook build --profile smoke",
        "paper",
    )  # fmt: skip
    sub.add_argument("--jobs", metavar="N", type=_positive, help=_JOBS)

    sub = add(
        "train", _train, "train a paper's studies and store the results that its chapter shows",
        "Results go to results/KEY/PROFILE. A study that has results is left alone unless --fresh is given; an interrupted one\n"
        "resumes from its checkpoint.\n\n"
        "examples:\n"
        "  iclbook train he2025 --device cuda\n"
        "  iclbook train he2025 --verify      replay the first steps of every stored run and compare",
        "paper",
    )  # fmt: skip
    sub.add_argument("key", metavar="KEY", help="a paper's key, such as he2025 (`iclbook claims` lists them)")
    sub.add_argument(
        "--only", metavar="STUDY", action="append", help="train this study only; may be given several times"
    )
    sub.add_argument("--fresh", action="store_true", help="train again what already has results")
    sub.add_argument("--verify", action="store_true", help="train nothing; replay stored runs and compare")
    sub.add_argument(
        "--workers",
        metavar="N",
        type=_positive,
        default=1,
        help="processes that share a study's models (default: 1)",
    )

    sub = add(
        "claims", _claims, "print the verdict of every claim, from the executed chapters",
        "A chapter that was not run at this profile leaves its claims as not yet tested.\n\n"
        "examples:\n"
        "  iclbook claims                     counts for every paper\n"
        "  iclbook claims he2025              every claim of one paper\n"
        "  iclbook claims he2025/fig2.8       one claim with its parts",
        "paper",
        device=False,
    )  # fmt: skip
    sub.add_argument(
        "key",
        metavar="KEY",
        nargs="?",
        help="a paper's key or a claim's id (default: counts for every paper)",
    )
    sub.add_argument("--json", action="store_true", help="print JSON")
    return top


class _Parser(argparse.ArgumentParser):
    """Reports a mistake on the command line in the same one-line form as every other mistake."""

    def error(self, message: str) -> None:
        self.exit(MISTAKE, f"error: {message}. `{self.prog} --help` shows what can be given.\n")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _one_line(mistake: UserError) -> str:
    return " ".join(str(mistake).split())


def _require_device(name: str) -> None:
    """Refuse a device that is not there before anything is started."""
    from .training.devices import pick_device

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
        options.chapters,
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


def _train(options: argparse.Namespace) -> int:
    import importlib
    from importlib.util import find_spec

    from .claims import load_ledger

    load_ledger(options.key)  # an unknown paper is refused with the known ones
    name = f"iclbook.experiments.{options.key}"
    if find_spec(name) is None:
        raise UserError(
            f"{options.key} has no studies to train yet", "Its chapter is not written; choose another paper."
        )
    train = importlib.import_module(name).train
    chosen = {"only": options.only, "profile": options.profile, "device": options.device}
    chosen |= {"fresh": options.fresh, "verify": options.verify}
    if options.workers == 1:
        train(**chosen)
        return 0
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # workers that fight for cores are many times slower
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as executor:
        train(**chosen, executor=executor)
    return 0


def _claims(options: argparse.Namespace) -> int:
    from .check import ledger_of
    from .claims import render, scoreboard

    paper, _, item = (options.key or "").partition("/")
    if paper:
        ledger = ledger_of(paper)
        boards = [board for board in scoreboard.boards(options.profile) if board.ledger.paper == ledger.paper]
        if item:
            ledger.claim(options.key)  # an unknown id is refused with the nearest one
    else:
        boards = scoreboard.boards(options.profile)
    rows = [row for board in boards for row in board.rows if not item or row[0].id == options.key]
    if options.json:
        print(
            json.dumps(
                {claim.id: {"verdict": found.word, "note": found.note} for claim, found in rows}, indent=1
            )
        )
    elif item:
        claim, found = rows[0]
        print(render.verdict_text(claim, found))
        print(f"    says: {claim.says}" + (f"\n    document: {claim.paper}" if claim.paper else ""))
    elif paper:
        print(render.table_text(rows, _width()))
    else:
        for board in boards:
            line = render.counts_line(render.counts(found for _, found in board.rows))
            print(
                f"{board.ledger.paper:<12} {line}"
                + ("" if board.executed else f" (not run at profile {options.profile})")
            )
        print(f"{'all':<12} {render.counts_line(render.counts(found for _, found in rows))}")
    return 0


def _width() -> int:
    """As wide as the terminal; uncut when the output goes into a file or pipe."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000


if __name__ == "__main__":
    sys.exit(main())
