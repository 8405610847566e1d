"""The one kind of error a user is meant to read."""

import difflib
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


def one_line(text: object) -> str:
    """``text`` in one line that a terminal may print: white space becomes single spaces, other control characters their escapes."""
    words = " ".join(str(text).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def say(text: object) -> None:
    """Print ``text`` now, even into a pipe; what could steer a terminal, such as a colour or a change of direction in a ledger's words, is shown as its escape."""
    kept = (
        c if c == "\n" or unicodedata.category(c)[0] != "C" else c.encode("unicode_escape").decode() for c in str(text)
    )
    print("".join(kept), flush=True)


@contextmanager
def ends_in_one_line() -> Iterator[None]:
    """For modules that are run as programs and write into the book: a :class:`UserError` ends the process with one line and exit code 2."""
    from .project import mixed_checkouts

    try:
        if mixed := mixed_checkouts():
            raise mixed
        yield
    except UserError as problem:
        print(f"error: {one_line(problem)}", file=sys.stderr)
        sys.exit(2)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the known one that is most like ``name``; empty where none is."""
    close = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {close[0]!r}?" if close else ""


class UserError(Exception):
    """A mistake or a missing thing that the user can correct: what is wrong, naming the file, key or option, and what to do about it, as an instruction.

    The console command prints it as one line, ``error: <problem>. <hint>``, and exits with 2; nothing is left half-written.
    """

    def __init__(self, problem: str, hint: str) -> None:
        self.problem = problem.rstrip(".")
        self.hint = hint
        super().__init__(f"{self.problem}. {hint}")

    def _render_traceback_(self, *_: object) -> list[str]:
        """What a notebook shows in place of a traceback."""
        return [f"error: {one_line(self)}"]

    def __reduce__(self) -> tuple:
        """Travel between processes."""
        return UserError, (self.problem, self.hint)
