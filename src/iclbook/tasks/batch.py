"""Batches, the input of models from tasks."""

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """``B`` in-context prompts. The batch is the LAST axis: every operation of the models then runs along contiguous memory.

    Attributes:
        context: ``(..., L, D, B)`` tokens ``z_l = (x_l, y_l)``, ``D = d + n_tasks``.
        query: ``(..., d, B)`` covariate ``x_q``; the response part of the query token is zero and not stored.
        target: ``(..., n_tasks, B)`` response ``y_q``.
    """

    context: Tensor
    query: Tensor
    target: Tensor
