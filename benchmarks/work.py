"""The work that every contender does, and who the contenders are. Free of torch and JAX, so that each process imports only what it measures."""

import importlib.util
import math
import os
import shutil
from dataclasses import dataclass

from iclbook.native import compiler

#: he2025's size: covariate dimension, context length, prompts per step, Adam's rate, noise variance.
D_COVARIATE, CONTEXT, BATCH, RATE, NOISE_VAR = 5, 40, 256, 1e-3, 0.1
WIDTH = D_COVARIATE + 1
#: The published code's factor on scores.
SCALE = 1 / math.sqrt(WIDTH)
#: Standard normals one run consumes per step: x_1..x_L, x_q, beta and a noise for each y.
NORMALS = ((CONTEXT + 1) * WIDTH + D_COVARIATE) * BATCH

HEADS = (2, 8)
RUNS = (1, 8, 64, 256)
#: More steps than any measurement takes, so that no run ends and nothing is recorded on the way.
STEPS = 10**9

LABELS = {
    "plain": "plain loop, one run at a time",
    "plain compiled": "plain loop, loss compiled",
    "eager": "trainer, stacked eager",
    "traced": "trainer, compiled by torch",
    "compiled": "trainer, steps in C",
    "shared": "trainer, steps in C, all runs on one data stream",
    "graph": "trainer, CUDA graph",
    "graph compiled": "trainer, CUDA graph, compiled",
    "kernel": "trainer, many steps in one launch",
    "jax vmap": "JAX, vmap + scan",
    "jax map": "JAX, lax.map + scan",
}
#: The rung that the headline ratios are about, by device: the trainer as it runs a long training.
OURS = {"cpu": "compiled", "cuda": "graph"}
#: Rungs of the paired comparison, of the first steps, and of the ladder over ensemble sizes.
PAIRED = tuple(LABELS)
FIRST = ("plain", "eager", "traced", "compiled", "jax vmap")
LADDER = ("plain", "eager", "compiled", "graph", "graph compiled", "jax vmap")


@dataclass(frozen=True)
class Case:
    """One configuration: ``runs`` independent runs with ``n_heads`` heads each, on prompts of ``L`` pairs with ``d`` covariates."""

    contender: str
    n_heads: int
    runs: int
    threads: int = 1
    device: str = "cpu"
    d: int = D_COVARIATE
    L: int = CONTEXT

    @property
    def scale(self) -> float:
        """The published code's factor on scores."""
        return 1 / math.sqrt(self.d + 1)

    @property
    def work(self) -> float:
        """Operations of one step of all runs, counted: two per multiplication and addition, thrice for the step back; a random number counts twenty."""
        width = self.d + 1
        normals = (self.L + 1) * width + self.d
        responses = 2 * (self.L + 1) * self.d
        # scores and averages over the tokens, softmax, and the folded query; of each head
        heads = self.n_heads * (4 * self.L * width + 5 * self.L + 2 * width * self.d + 2 * width)
        return self.runs * BATCH * (20.0 * normals + responses + 3 * heads)

    @property
    def arrays_mb(self) -> float:
        """Memory of a step's random numbers and of each head's scores, their weights and their gradients, float32."""
        normals = (self.L + 1) * (self.d + 1) + self.d
        return self.runs * BATCH * 4 * (normals + 3 * self.n_heads * self.L) / 2**20


def jax_on_gpu() -> bool:
    """Whether a JAX that can use a GPU is installed."""
    return any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))


def missing(contender: str, device: str) -> str | None:
    """Why ``contender`` cannot be measured here, in words; ``None`` when it can."""
    if contender.startswith(("graph", "kernel")):
        return None if device == "cuda" else "no GPU"
    if contender.startswith("jax"):
        if device == "cuda":
            return "measured on the CPU only"
        return None if importlib.util.find_spec("jax") else "jax is not installed"
    in_c, in_cpp = contender in ("compiled", "shared"), contender in ("traced", "plain compiled")
    if device == "cuda" and (in_c or in_cpp):
        return "measured on the CPU only"
    if in_c and compiler() is None:
        return "no C compiler"
    if in_cpp and not any(shutil.which(c) for c in (os.environ.get("CXX", ""), "g++", "clang++") if c):
        return "no C++ compiler"
    return None
