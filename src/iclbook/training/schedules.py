"""Schedules: a factor on the learning rates as a function of the step, the same for all runs of a group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..errors import UserError


class Schedule(Protocol):
    """What the trainer needs of a schedule."""

    def factor(self, t: Tensor, steps: int) -> Tensor:
        """Factor on the rates at step ``t`` (1 is the first, 0-dim tensor) of ``steps``."""
        ...


@dataclass(frozen=True)
class OneCycle:
    """A cosine rise from ``start`` to 1 over the share ``rise`` of the steps, then a cosine down to ``end`` (Smith and Topin 2018; the shape of
    torch.optim.lr_scheduler.OneCycleLR, whose defaults these are).

    Raises:
        UserError: a share that is not between 0 and 1.
    """

    rise: float = 0.3
    start: float = 1 / 25
    end: float = 1 / 25e4

    def __post_init__(self) -> None:
        if not 0 < self.rise < 1:
            raise UserError(f"rise={self.rise}", "Give a share of the steps between 0 and 1.")

    def factor(self, t: Tensor, steps: int) -> Tensor:
        """As in :class:`Schedule`."""
        top = self.rise * steps - 1  # torch counts the first step as 0
        up, down = (t - 1) / top, (t - 1 - top) / (steps - 1 - top)
        rising = t - 1 <= top
        low = torch.where(rising, self.start, self.end)
        angle = math.pi * torch.where(rising, 1 - up, down)
        return low + (1 - low) * (1 + torch.cos(angle)) / 2


@dataclass(frozen=True)
class Cosine:
    """A straight rise to 1 over the share ``rise`` of the steps, then a cosine down to ``end`` at the last step.

    Raises:
        UserError: an end or a share that is none.
    """

    end: float = 0.1
    rise: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.end <= 1:
            raise UserError(f"end={self.end}", "Give a factor between 0 and 1.")
        if not 0 <= self.rise < 1:
            raise UserError(f"rise={self.rise}", "Give a share of the steps between 0 and 1.")

    def factor(self, t: Tensor, steps: int) -> Tensor:
        """As in :class:`Schedule`."""
        top = max(1.0, self.rise * steps)
        down = torch.clamp((t - top) / max(1.0, steps - top), 0, 1)
        return torch.minimum(t / top, self.end + (1 - self.end) * (1 + torch.cos(math.pi * down)) / 2)
