"""Models of the ladder over training, one by one; ``get(name)`` gives the results of a study of :mod:`.ladder`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ....store import Results
from . import prompts
from .alignment import Alignment, alignment, errors

Array = np.ndarray
Get = Callable[[str], Results]


class Model(NamedTuple):
    """One model of the ladder over training.

    Attributes:
        name: such as ``l2w32``.
        run: place of its seed.
        steps: ``(T,)``.
        arrays: of the probes, ``(T, ...)`` each.
    """

    name: str
    run: int
    steps: Array
    arrays: dict[str, Array]

    @property
    def target(self) -> Array:
        """``(n,)`` right answers of the regression prompts."""
        return _target(self.arrays["lines_estimate"].shape[1])

    @property
    def width(self) -> int:
        """Of the embedding, see :func:`.ladder.size_name`."""
        return int(self.name.partition("w")[2])

    def aligned(self, at: int = -1, which: str = "lines") -> Alignment:
        """Statistics of section 8.4 at a checkpoint; ``which`` may be ``shuffled``, with the context's y in another order."""
        return alignment(self.arrays[f"{which}_estimate"][at], self.target)

    def reductions(self) -> Array:
        """Error reduction at every checkpoint, ``(T,)``."""
        mae = np.stack([errors(e, self.target) for e in self.arrays["lines_estimate"]])
        return mae[:, 0] - mae[:, -1]


@lru_cache(maxsize=4)
def _target(n: int) -> Array:
    """``(n,)`` right answers, not to be written to: every model at every checkpoint is asked the same."""
    target = prompts.lines(prompts.CORPUS, n).target.numpy()
    target.flags.writeable = False
    return target


def models(results: Results) -> list[Model]:
    """All models of a study."""
    found = []
    for name in dict.fromkeys(key.split("/", 1)[0] for key in results.arrays):
        group = results.group(name)
        for run in range(group["loss"].shape[1]):
            arrays = {k: v[:, run] for k, v in group.items() if k != "steps"}
            found.append(Model(name, run, group["steps"], arrays))
    return found


def mixed(get: Get) -> list[Model]:
    """The models that saw regression."""
    return models(get("ladder_small")) + models(get("ladder_large"))


def twins(get: Get) -> list[tuple[Model, Model]]:
    """Pairs of a model and its twin, which saw no regression."""
    with_law = {(m.name, m.run): m for m in models(get("ladder_small"))}
    return [(with_law[m.name, m.run], m) for m in models(get("ladder_twin"))]


def by_size(every: list[Model]) -> dict[str, list[Model]]:
    """Models by their name, every seed of a size together, smallest first."""
    found: dict[str, list[Model]] = {}
    for m in every:
        found.setdefault(m.name, []).append(m)
    return found
