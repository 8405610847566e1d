"""Adam in C, in place, on the stacked parameters of a group."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .build import library

_POINTER, _LONG, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


def can_step() -> bool:
    """Whether steps of Adam can be compiled here."""
    return library("adam.c") is not None


class AdamStep:
    """Steps of Adam on some stacks; all tensors must stay alive, and in place.

    Args:
        optimiser: ``beta1``, ``beta2`` and ``eps``.
        params, first, second, grads: stacks ``name -> (R, ...)``, float32.
        rates: of each run, ``name -> (R,)``.
    """

    def __init__(self, optimiser: Any, *stacks: Mapping[str, Tensor], rates: Mapping[str, Tensor]) -> None:
        self._function = library("adam.c").adam
        self._function.argtypes = [_LONG] * 2 + [_POINTER] * 6 + [_FLOAT] * 7
        self._function.restype = None
        self._optimiser = optimiser
        params = stacks[0]
        self._kept = [[of[k] for k in params] for of in (*stacks, rates)]
        sizes = (_LONG * len(params))(*(p[0].numel() for p in params.values()))
        arrays = [(_POINTER * len(params))(*(x.data_ptr() for x in of)) for of in self._kept]
        self._stacks = (len(params), len(next(iter(params.values()))), sizes, *arrays)

    def __call__(self, t: Tensor, factor: float) -> None:
        """Step ``t`` = 1, 2, ... (a tensor without axes) with a factor on all rates."""
        beta1, beta2, eps = self._optimiser.beta1, self._optimiser.beta2, self._optimiser.eps
        # as the optimiser itself does: these two in single precision, which counts in the first steps, and what is left of beta2 in double
        fast, slow = 1 - beta1**t, torch.sqrt(1 - beta2**t)
        self._function(*self._stacks, factor, beta1, beta2, 1 - beta2, eps, float(fast), float(slow))
