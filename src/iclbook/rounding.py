"""Rounding errors put in by hand, to measure how far rounding alone carries a training.

Two processors differ in the order and width of their sums, so each number of each step may come out one rounding unit apart. A twin of a training
imitates that at the inputs of every step (Monte Carlo arithmetic; Parker 1997): parameters and data are multiplied by ``1 + 2**-23`` or
``1 - 2**-23`` at random. Noise on the data makes each term of a gradient err by itself, as other orders of summation do, so that a gradient whose terms
cancel is as uncertain as it truly is. Zeros and whole numbers (labels, one-hot tokens, parameters not yet trained) are exact on every machine and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

#: Units by which random numbers are moved before something is chosen by what follows from them (a category by its probabilities). A choice cannot be
#: scaled afterwards as a distance can. Four are the errors of log and cos on some processors; but a choice so near its edge is rare, so that most
#: twins miss it, and those from :data:`SEARCHING` on look farther.
CHOOSING, FARTHER = 4.0, 64.0
SEARCHING = 4
#: Distance of neighbouring float32 numbers, as a share of them.
UNIT = 2.0**-23

_twin: list[int | None] = []


@contextmanager
def twin(which: int | None) -> Iterator[None]:
    """What is built and trained in here is a twin; each number gives another one, ``None`` the thing itself."""
    _twin.append(which)
    try:
        yield
    finally:
        _twin.pop()


def number() -> int | None:
    """Which twin this is: part of the key of everything that is cached and moved; ``None`` outside of twins."""
    return _twin[-1] if _twin else None


def current(device: torch.device | str = "cpu") -> torch.Generator | None:
    """A generator of the present twin's errors, always from its start; ``None`` outside of twins."""
    return None if number() is None else torch.Generator(device).manual_seed(number())


def signs(x: Tensor, generator: torch.Generator) -> Tensor:
    """1 or -1 for every entry of ``x``."""
    return torch.randint(0, 2, x.shape, generator=generator, device=x.device).to(x) * 2 - 1


def jittered(x: Tensor, generator: torch.Generator, units: float = 1.0) -> Tensor:
    """``x`` with every entry that is not a whole number moved by so many rounding units, up or down at random."""
    if not x.is_floating_point():
        return x
    return torch.where(x == x.round(), x, x * (1 + units * UNIT * signs(x, generator)))


def choosing() -> float:
    """Units by which this twin moves what something is chosen by."""
    return FARTHER if (number() or 0) >= SEARCHING else CHOOSING


def moved_batch(
    draw: Callable[..., Sequence[Tensor]], numbers: Sequence[Tensor], generator: torch.Generator
) -> list[Tensor]:
    """The tensors ``draw(*numbers)`` of a twin: what was chosen near an edge is chosen anew, and the rest moved by a rounding unit."""
    others = [jittered(x, generator, choosing()) for x in numbers]
    pairs = zip(draw(*numbers), draw(*others), strict=True)
    return [jittered(chosen_anew(*pair), generator) for pair in pairs]


def chosen_anew(x: Tensor, other: Tensor) -> Tensor:
    """``x``, and where ``other`` is far from it, that."""
    if not x.is_floating_point() or not x.numel():
        return other
    return torch.where((other - x).abs() > 1e-3 * x.abs().amax(), other, x)
