"""Random numbers by counter, for :mod:`iclbook.random`, which says what they are; and Adam in place, on the stacked parameters of a group."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from . import library

POINTER, LONG, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


@lru_cache
def functions() -> ctypes.CDLL | None:
    """``normals`` and ``words`` of ``counter.c``; ``None`` where they cannot be had."""
    found = library("counter.c")
    for name in ("normals", "words") if found else ():
        function = getattr(found, name)
        function.argtypes = [POINTER, POINTER, LONG, POINTER, LONG, ctypes.c_uint32, LONG]
        function.restype = None
    return found


def can_draw(keys: Tensor) -> bool:
    """Whether numbers for these keys are drawn here: on a CPU, and not in the midst of tracing a program."""
    return keys.device.type == "cpu" and not torch.compiler.is_compiling() and functions() is not None


def draw(kind: str, keys: Tensor, steps: Tensor, purpose: int, n: int) -> Tensor:
    """``n`` ``normals`` (float32) or ``words`` (int64) for keys ``(S, 2)`` and steps ``(K,)``, ``(S, K, n)``."""
    dtype = {"normals": torch.float32, "words": torch.int64}[kind]
    out = torch.empty((len(keys), len(steps), n), dtype=dtype, device="cpu")
    whole = (x.to("cpu", torch.int64).contiguous() for x in (keys, steps))
    fill(kind, out, *whole, purpose)
    return out


def fill(kind: str, out: Tensor, keys: Tensor, steps: Tensor, purpose: int) -> None:
    """The same into ``out``; all three are contiguous and on the CPU, keys and steps int64."""
    function = getattr(functions(), kind)
    sizes = len(steps), purpose, out.shape[-1]
    function(out.data_ptr(), keys.data_ptr(), len(keys), steps.data_ptr(), *sizes)


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
        self._function.argtypes = [LONG] * 2 + [POINTER] * 6 + [FLOAT] * 7
        self._function.restype = None
        self._optimiser = optimiser
        params = stacks[0]
        self._kept = [[of[k] for k in params] for of in (*stacks, rates)]
        sizes = (LONG * len(params))(*(p[0].numel() for p in params.values()))
        arrays = [(POINTER * len(params))(*(x.data_ptr() for x in of)) for of in self._kept]
        self._stacks = (len(params), len(next(iter(params.values()))), sizes, *arrays)

    def __call__(self, t: Tensor, factor: float) -> None:
        """Step ``t`` = 1, 2, ... (a tensor without axes) with a factor on all rates."""
        beta1, beta2, eps = self._optimiser.beta1, self._optimiser.beta2, self._optimiser.eps
        # as the optimiser itself does: these two in single precision, which counts in the first steps, and what is left of beta2 in double
        fast, slow = 1 - beta1**t, torch.sqrt(1 - beta2**t)
        self._function(*self._stacks, factor, beta1, beta2, 1 - beta2, eps, float(fast), float(slow))
