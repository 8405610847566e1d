"""Gradients of one-layer attention on prompts of regression, in C: the closed form of what autograd finds (``attention.c`` derives it)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from . import library
from .counter import FLOAT, LONG, POINTER

#: Prompts that the C code takes side by side; a batch is a multiple.
LANES = 16
#: Largest number of sums that a run keeps for its gradient, ``H D^2``: they lie on the stack.
LARGEST = 4096
MATRICES = ("query", "key", "value", "output")


@dataclass(frozen=True)
class Layout:
    """Rows of a prompt's standard normals: the covariates of L context tokens and the query come first, d each.

    Attributes:
        d, L: covariates of a token, tokens of the context.
        noise: first row of the noise, one row for each response of each token.
        betas: first row of each response's coefficients.
        noise_scale, target_noise_scale, beta_scale: standard deviations of the context's noise, the target's, and the coefficients.
        supports: covariates that each response reads.
        factor: lower Cholesky factor of the covariates' covariance, row by row; empty for the identity.
    """

    d: int
    L: int
    noise: int
    betas: tuple[int, ...]
    noise_scale: float
    target_noise_scale: float
    beta_scale: float
    supports: tuple[tuple[int, ...], ...]
    factor: tuple[float, ...] = ()

    @property
    def n_tasks(self) -> int:
        """Number of responses N."""
        return len(self.betas)


class AttentionStep:
    """The losses and gradients of runs that read one stream of prompts.

    Args:
        layout: of a prompt's normals.
        batch_size: prompts a step, B.
        n_heads: H.
        activation: ``softmax``, ``affine``, ``square``, ``tanh`` or ``linear``.
        scale: factor on the scores.

    Raises:
        ValueError: sizes that :meth:`fits` refuses.
    """

    def __init__(self, layout: Layout, batch_size: int, n_heads: int, activation: str, scale: float) -> None:
        if not self.fits(layout, batch_size, n_heads, activation):
            raise ValueError(f"batch of {batch_size}, {n_heads} heads")
        width = layout.d + layout.n_tasks
        self._function = library("attention.c", D=width, N=layout.n_tasks, ACT=activation.upper()).gradients
        self._function.argtypes = [POINTER] * 3 + [LONG] * 2 + [FLOAT] + [POINTER] * 4
        self._function.restype = None
        self._task = _task(layout, batch_size)
        self._sizes = n_heads, scale
        self._scratch = torch.zeros(LANES * (layout.L * (width + 1) + 1))
        self._aligned = -(-self._scratch.data_ptr() // 64) * 64

    @staticmethod
    def fits(layout: Layout, batch_size: int, n_heads: int, activation: str) -> bool:
        """Whether such steps can be taken, and compiled on this machine."""
        width = layout.d + layout.n_tasks
        if batch_size % LANES or n_heads * width**2 > LARGEST:
            return False
        return library("attention.c", D=width, N=layout.n_tasks, ACT=activation.upper()) is not None

    def bind(self, params: Mapping[str, Tensor], grads: Mapping[str, Tensor], losses: Tensor) -> None:
        """Say where the runs are: stacks of the four matrices and of their gradients, ``name -> (R, H, D, D)``, and sums of losses ``(R,)``. They must
        stay in place."""
        self._kept = [[of[k] for k in MATRICES] for of in (params, grads)]
        stacks = [(POINTER * len(MATRICES))(*(x.data_ptr() for x in of)) for of in self._kept]
        self._losses = losses
        self._places = (*stacks, losses.data_ptr(), self._aligned)

    def __call__(self, normals: Tensor, runs: Tensor) -> None:
        """Gradients of some runs, in place; their losses are added.

        Args:
            normals: of one stream's batch, ``(normals, B)``.
            runs: numbers of the runs, int64.
        """
        about = ctypes.addressof(self._task), normals.data_ptr(), runs.data_ptr(), len(runs)
        self._function(*about, *self._sizes, *self._places)


def _task(layout: Layout, batch_size: int) -> ctypes.Structure:
    """``struct task`` of ``attention.c``."""
    d, n = layout.d, layout.n_tasks
    fields = {
        "L": (LONG, layout.L),
        "B": (LONG, batch_size),
        "noise": (LONG, layout.noise),
        "beta": (LONG * n, layout.betas),
        "noise_scale": (FLOAT, layout.noise_scale),
        "target_noise_scale": (FLOAT, layout.target_noise_scale),
        "beta_scale": (FLOAT, layout.beta_scale),
        "support": (FLOAT * (n * d), [float(j in s) for s in layout.supports for j in range(d)]),
        "correlated": (ctypes.c_int32, bool(layout.factor)),
        "factor": (FLOAT * (d * d), layout.factor),
    }
    kind = type("Task", (ctypes.Structure,), {"_fields_": [(k, t) for k, (t, _) in fields.items()]})
    is_array = ctypes.Array
    return kind(*(t(*v) if issubclass(t, is_array) else v for t, v in fields.values()))
