"""The runs of a training in parts, one after the other at each step: on a CPU a part's random numbers stay in the cache of a core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .checkpoint import leaves
from .ensemble import Ensemble

#: Bytes of a step's random numbers that stay in cache beside what the step makes of them. Measured with he2025's models: of parts of 1 to 64 runs those
#: of 8 and 16 are fastest, with 2 heads and with 8, and 8 runs draw these many.
CACHE = 1 << 21
#: With fewer data streams a part costs more in calls than the cache gains.
FEWEST = 4


@dataclass(frozen=True)
class Part:
    """Some data streams and the runs that read them.

    Attributes:
        keys: of the streams, ``(S, 2)``.
        params, state, rates: of each group, views of its runs.
        losses: of each group, the sum of losses since the last record, ``(R,)``.
    """

    keys: Tensor
    params: list[Any]
    state: list[Any]
    rates: list[Any]
    losses: list[Tensor]

    def moving(self) -> list[Tensor]:
        """What a step changes, in the order of what it returns."""
        return leaves([self.params, self.state])


def cut(ensembles: Sequence[Ensemble], keys: Tensor, of_a_stream: int) -> list[Part]:
    """Equal parts of the largest size that fits the cache; one part where none does, or where runs and streams are not paired one by one.

    Args:
        ensembles: of all groups.
        keys: of all streams, ``(S, 2)``.
        of_a_stream: bytes of random numbers that one stream takes a step.
    """
    n = len(keys)
    paired = all(e.reads_in_order for e in ensembles)
    fit = [m for m in range(FEWEST, n) if n % m == 0 and m * of_a_stream <= CACHE]
    if not paired or not fit or n * of_a_stream <= CACHE:
        return [whole(ensembles, keys)]
    size = max(fit)
    return [whole(ensembles, keys, slice(at, at + size)) for at in range(0, n, size)]


def whole(ensembles: Sequence[Ensemble], keys: Tensor, rows: slice | None = None) -> Part:
    """All runs as one part; or only these rows of everything."""
    views = [
        [_rows(getattr(e, what), rows) for e in ensembles]
        for what in ("params", "state", "rates", "loss_sum")
    ]
    return Part(_rows(keys, rows), *views)


def _rows(tree: Any, rows: slice | None) -> Any:
    if rows is None:
        return tree
    return {k: _rows(v, rows) for k, v in tree.items()} if isinstance(tree, dict) else tree[rows]
