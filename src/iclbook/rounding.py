"""Rounding errors put in by hand, to measure how far rounding alone carries a training.

Two processors differ in the order and width of their sums, so each number of each step may come out one rounding unit apart. A twin of a training
imitates that at the inputs of every step (Monte Carlo arithmetic; Parker 1997): parameters and data are multiplied by ``1 + 2**-23`` or
``1 - 2**-23`` at random. Noise on the data makes each term of a gradient err by itself, as other orders of summation do, so that a gradient whose terms
cancel is as uncertain as it truly is. Zeros and whole numbers (labels, one-hot tokens, parameters not yet trained) are exact on every machine and stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

#: Distance of neighbouring float32 numbers, as a share of them.
UNIT = 2.0**-23

_twin: list[int | None] = []


@contextmanager
def twin(number: int | None) -> Iterator[None]:
    """What is built and trained in here is a twin; each number gives another one, ``None`` the thing itself."""
    _twin.append(number)
    try:
        yield
    finally:
        _twin.pop()


def current(device: torch.device | str = "cpu") -> torch.Generator | None:
    """A generator of the present twin's errors, always from its start; ``None`` outside of twins."""
    number = _twin[-1] if _twin else None
    return None if number is None else torch.Generator(device).manual_seed(number)


def signs(x: Tensor, generator: torch.Generator) -> Tensor:
    """1 or -1 for every entry of ``x``."""
    return torch.randint(0, 2, x.shape, generator=generator, device=x.device).to(x) * 2 - 1


def jittered(x: Tensor, generator: torch.Generator) -> Tensor:
    """``x`` with every entry that is not a whole number moved by one rounding unit, up or down at random."""
    if not x.is_floating_point():
        return x
    return torch.where(x == x.round(), x, x * (1 + UNIT * signs(x, generator)))
