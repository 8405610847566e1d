"""Common parts of the commands: the parser, options, and how a function becomes a command."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from . import draw
from .errors import one_line
from .files import require_posix
from .project import PROFILES, check_profile, mixed_checkouts

#: Commands that write nothing into the book.
READING = ("claims", "where", "probe", "doctor")

#: Exit codes: something moved or did not come out; a mistake or a missing thing that the user can correct; Ctrl-C.
MOVED, MISTAKE, INTERRUPTED = 1, 2, 130

_ABOUT = """\
Executable reproductions of papers on how attention learns in context.

Each chapter is a notebook (notebooks/NAME.py) that measures what its paper says. The paper's claims and the rules that decide
them stand in src/iclbook/papers/KEY/claims.yaml; verdicts are computed from what the chapter recorded.
"""
_EXAMPLES = """\
examples:
  iclbook build                                   run what is missing or stale and build the book
  iclbook run linear_regression --profile smoke   run one chapter in a small size, in minutes
  iclbook check --profile smoke                   has any value, verdict or figure moved from its reference?
  iclbook train he2025 --only NAME                train one of the paper's studies and store the result
  iclbook claims he2025                           the verdicts of one paper
  iclbook where agarwal2025 Figure 6              the files, functions, studies, claims and cells of an item
  iclbook doctor he2025                           what a chapter still lacks

Each command has its own help: iclbook COMMAND --help
exit codes: 0 all well, 1 something moved, 2 a mistake (one line says which, and what to do), 130 interrupted
An unforeseen error is one line too; with ICLBOOK_TRACEBACK=1 in the environment Python's traceback comes before it.
"""


class _Parser(argparse.ArgumentParser):
    """Reports a mistake on the command line in the same one-line form as every other mistake."""

    def error(self, message: str) -> None:
        self.exit(MISTAKE, f"error: {one_line(message)}. `{self.prog} --help` shows what can be given.\n")


_RAW = argparse.RawDescriptionHelpFormatter
PARSER = _Parser(prog="iclbook", description=_ABOUT, epilog=_EXAMPLES, formatter_class=_RAW)
PARSERS = PARSER.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number of at least 1")
    return int(text)


def option(name: str, metavar: str | None, about: str, **settings: Any) -> tuple[str, dict]:
    """Name and settings of an option or an argument, as argparse takes them."""
    return name, {"metavar": metavar, "help": about} | settings


def flag(name: str, about: str) -> tuple[str, dict]:
    """An option without a value."""
    return name, {"action": "store_true", "help": about}


def at_profile(default: str) -> tuple[str, dict]:
    """``--profile``."""
    sizes = "smoke: small, trains within minutes; paper: the paper's own sizes, from stored results"
    names = f"{{{','.join(PROFILES)}}}"
    return option("--profile", names, f"{sizes} (default: {default})", type=check_profile, default=default)


def _set_draw(text: str) -> int:
    os.environ[draw.SWITCH] = text  # also of child processes
    return draw.number()


_WHERE = "where to compute; auto takes a GPU when there is one (default: auto)"
DEVICE = option("--device", None, _WHERE, choices=("auto", "cpu", "cuda"), default="auto")
JOBS = option("--jobs", "N", "chapters to run at once (default: one for each core)", type=positive)
DRAW = option(
    "--draw", "N", "another draw of everything random, kept in draws/N (default: 0, the book)", type=_set_draw
)


def prepare(command: str) -> None:
    """Refuse, before a command begins, what it cannot work with: Windows, and the library of another checkout where it would write (elsewhere a warning)."""
    require_posix()
    if os.path.expanduser("~") == "~":  # a user without a name, as containers have; libraries want a home
        os.environ["HOME"] = tempfile.gettempdir()
    if mixed := mixed_checkouts():
        if command not in READING:
            raise mixed
        print(f"warning: {one_line(mixed)}", file=sys.stderr)


def command(about: str, more: str, *options: tuple[str, dict]) -> Callable:
    """Register a function as the command of its own name: what it does in a phrase, more help, its options."""

    def enter(function: Callable) -> Callable:
        described = f"{about[0].upper()}{about[1:]}."
        parser = PARSERS.add_parser(
            function.__name__, help=about, description=described, epilog=more, formatter_class=_RAW
        )
        for name, settings in options:
            parser.add_argument(name, **settings)
        parser.set_defaults(function=function)
        return function

    return enter
