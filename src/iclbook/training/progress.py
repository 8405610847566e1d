"""How far a training is: a bar for whoever looks on, or a count for the process that started this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

#: Hears ``(steps done, steps in all)``.
Listener = Callable[[int, int], None]
_listeners: list[Listener] = []


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """Trainings in here tell ``listener`` how far they are, and show no bar."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.pop()


class _Count:
    """Counts steps for a listener, in the way of tqdm."""

    def __init__(self, listener: Listener, done: int, total: int) -> None:
        self._listener, self._done, self._total = listener, done, total

    def update(self, n: int) -> None:
        """So many steps more."""
        self._done += n
        self._listener(self._done, self._total)

    def __enter__(self) -> _Count:
        self.update(0)
        return self

    def __exit__(self, *_: object) -> None:
        pass


def shown(bar: bool, total: int, done: int) -> Any:
    """A context with ``update(n)``: the listener's count where there is one, otherwise a bar, or nothing."""
    if _listeners:
        return _Count(_listeners[-1], done, total)
    return tqdm(total=total, initial=done, disable=not bar, unit="step", mininterval=1.0)
