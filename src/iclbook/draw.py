"""The draw: one number that changes everything random, and nothing else.

Draw 0 is the book. Any other draw gives every run other initial parameters and data, every measurement other prompts, and every Monte Carlo other samples;
rules, sizes and steps stay. What the authors drew (:mod:`iclbook.threefry`) stays too: it is theirs. Results, executed chapters and references of a draw have
folders of their own, so nothing of the book is overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .errors import UserError

if TYPE_CHECKING:
    import torch

#: Names the draw to child processes, kernels among them.
SWITCH = "ICLBOOK_DRAW"


def number() -> int:
    """The draw of this process; 0 unless the environment names another."""
    text = os.environ.get(SWITCH, "0")
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise UserError(f"{text[:40]!r} is no draw ({SWITCH}, --draw)", "Take a whole number from 0 to 65535.")
    return int(text)


def outputs(root: Path) -> Path:
    """Where a draw keeps results and executed chapters: the book's root, or ``draws/NUMBER`` in it."""
    return root / "draws" / str(number()) if number() else root


def seed_sequence(seed: int | Sequence[int]) -> np.random.SeedSequence:
    """NumPy's seeds of one purpose, those of another draw spawned from them."""
    return np.random.SeedSequence(seed, spawn_key=(number(),) if number() else ())


def numpy_rng(seed: int | Sequence[int]) -> np.random.Generator:
    """NumPy's generator of a seed; at draw 0 that of ``np.random.default_rng``."""
    return np.random.default_rng(seed_sequence(seed))


def torch_rng(seed: int | Sequence[int], device: torch.device | str = "cpu") -> torch.Generator:
    """torch's generator of a seed; of a single number at draw 0 that of ``manual_seed``."""
    import torch

    if number() or np.ndim(seed):  # torch wants a signed 64-bit seed
        seed = int(seed_sequence(seed).generate_state(1, np.uint64)[0]) >> 1
    return torch.Generator(device).manual_seed(seed)
