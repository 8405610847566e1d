"""Sizes of the trainings on synthetic data at each profile, and the settings that they share (wang2025)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

GD_RATE, TF_RATE = 0.03, 0.01
GD_BATCH, TF_BATCH = 256, 128


@dataclass(frozen=True)
class Sizes:
    """What differs between the profiles.

    Attributes:
        L: numbers of training contexts of figure 3; ``deep_L`` of figure 5, ``quad_L`` of figures 8 to 11, ``middle_L`` of heads and of N = 125.
        seeds: initialisations of figures 3, 4, 8; ``few`` of the costly runs.
        gd, tf, deep, tf_deep, quad, wide, astray: steps of one-block GD, one-block TF, deep GD, two-block TF, quadrants' TF, deep GD at N = 125,
            deep GD with the softmax erasure.
        depths: numbers of blocks of figure 4; ``wide_depths`` those at N = 125.
        held_out: validation contexts, and as many test contexts; ``wide_held_out`` at N = 125.
        wide_N, quad_N: context sizes.
        draws: of W_e, on which one block is trained again at both context sizes.
    """

    L: tuple[int, ...]
    deep_L: tuple[int, ...]
    quad_L: int
    middle_L: int
    seeds: int
    few: int
    gd: int
    tf: int
    deep: int
    tf_deep: int
    quad: int
    wide: int
    astray: int
    depths: tuple[int, ...]
    wide_depths: tuple[int, ...]
    held_out: int
    wide_held_out: int
    wide_N: int = 125
    quad_N: int = 100
    draws: int = 6


SIZES = {
    "paper": Sizes(
        L=(512, 2048, 32768),
        deep_L=(2048, 32768),
        quad_L=2048,
        middle_L=8192,
        seeds=5,
        few=3,
        gd=800,
        tf=2000,
        deep=400,
        tf_deep=2000,
        quad=700,
        wide=700,
        astray=300,
        depths=(1, 2, 3, 4, 5, 6),
        wide_depths=(1, 2, 3),
        held_out=2048,
        wide_held_out=1024,
    ),
    "smoke": Sizes(
        L=(256, 1024),
        deep_L=(1024,),
        quad_L=256,
        middle_L=512,
        seeds=2,
        few=1,
        gd=40,
        tf=40,
        deep=12,
        tf_deep=12,
        quad=30,
        wide=4,
        astray=4,
        depths=(1, 2, 3),
        wide_depths=(1, 2),
        held_out=256,
        wide_held_out=64,
        wide_N=25,
        quad_N=30,
        draws=2,
    ),
}


def recorded(steps: int) -> tuple[int, ...]:
    """12 log-spaced records, from about step 20 on (24 is what a replay repeats)."""
    return tuple(int(s) for s in np.unique(np.geomspace(min(24, steps), steps, 12).round()))


def gamma_of(kernel: str) -> float:
    """Precision that GD starts from."""
    return 0.5 if kernel == "rbf" else 1.0
