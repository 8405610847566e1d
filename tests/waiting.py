"""How tests wait: for a condition, never for a time, up to one limit that no machine needs."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")
#: Seconds after which a condition is given up, on a machine that answers at once; a slow one has more.
LIMIT = 120
PAUSE = 0.05


def wait_until(condition: Callable[[], T], said: Callable[[], object] = str) -> T:
    """The first true value of ``condition()``; a failure with what ``said()`` says after ``LIMIT / PAUSE`` questions."""
    for _ in range(round(LIMIT / PAUSE)):
        if found := condition():
            return found
        time.sleep(PAUSE)
    pytest.fail(f"a condition does not come true: {said()}")
