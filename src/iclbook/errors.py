"""The one kind of error a user is meant to read."""


def one_line(text: object) -> str:
    """``text`` in one line that a terminal may print: white space becomes single spaces, other control characters their escapes."""
    words = " ".join(str(text).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


class UserError(Exception):
    """A mistake or a missing thing that the user can correct: what is wrong, naming the file, key or option, and what to do about it, as an instruction.

    The console command prints it as one line, ``error: <problem>. <hint>``, and exits with 2; nothing is left half-written.
    """

    def __init__(self, problem: str, hint: str) -> None:
        self.problem = problem.rstrip(".")
        self.hint = hint
        super().__init__(f"{self.problem}. {hint}")

    def __reduce__(self) -> tuple:
        """Travel between processes."""
        return UserError, (self.problem, self.hint)
