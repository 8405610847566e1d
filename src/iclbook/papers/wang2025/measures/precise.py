"""Studies in double precision, whose numbers no processor's way of rounding can move.

Trained TF starts from entries of 0.002, where gradients are products of three of them: about as large as single precision's rounding errors and as
the constant by which Adam guards its division. Its first steps are then partly noise, and after a few dozen of them no two processors agree on an
accuracy. Long trainings forget it; those of the small profile end before.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch

from ....training import Trainer
from ....training.study import Study


@dataclass(frozen=True)
class PreciseStudy(Study):
    """A study whose parameters, data and random numbers are float64."""

    def describe(self) -> str:
        """The configuration as text, the precision included."""
        return f"{super().describe()} float64"

    def trainer(self, device: str = "auto", compile: bool | None = None, **kwargs: Any) -> Trainer:
        """A trainer at step 0."""
        return super().trainer(device, compile, dtype=torch.float64, **kwargs)


def in_double(study: Study) -> PreciseStudy:
    """The same study in double precision."""
    return PreciseStudy(**{f.name: getattr(study, f.name) for f in fields(Study)})
