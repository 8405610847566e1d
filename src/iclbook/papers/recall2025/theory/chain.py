"""All jumps of the simplified model as one chain of closed forms, in the limit of small beta (recall2025, A.6 "Stitching the jumps", A.3).

On plateau m, with ``n = k - m`` offsets left, every other head still sits near the origin, where ``w' = -kappa beta^2 D / k`` and
``beta' = -2 kappa beta (w . D) / k`` with a vector D that is constant: ``-E`` at the head's own offset, ``E / (n - 1)`` at the others that are left, 0 at
those that are learned, and ``E`` the size of ``E Delta_{h,h}`` among ``n!`` orderings that cannot be told apart. With y the part of w along ``-D``,
``beta^2 - 2 y^2 = C`` is kept and ``y' = kappa |D| (2 y^2 + C) / k``: a tangent. The window is as long as the permutations.
"""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def cross_entropy_speed(orderings: int, n_responses: int) -> float:
    """Factor by which ``E Delta_{h,h}`` is larger under cross-entropy than under the dot product, where ``orderings`` share the attention alike.

    Cross-entropy divides the gradient by the share of responses that are right, ``(1 + Bin(N - 1, 1/R)) / N`` of ``N = orderings``, and
    ``E [N / (1 + Bin)] = R (1 - (1 - 1/R)^N)``.
    """
    chance = 1 / n_responses
    inverse = n_responses * (1 - (1 - chance) ** orderings)
    return (inverse - 1) / ((1 - chance) * (1 - 1 / orderings))


def pull(left: int, n_responses: int, loss: str = "dp") -> float:
    """``E``, the size of ``E Delta_{h,h}`` at uniform attention with ``left`` offsets not yet learned (Lemma C.3 at ``gamma_1 = 0`` for that order)."""
    dot = (n_responses - 1) / (n_responses * left**2 * math.factorial(left - 2))
    return dot * (cross_entropy_speed(math.factorial(left), n_responses) if loss == "ce" else 1.0)


def chained_times(
    betas: tuple[float, ...],
    order: int,
    n_responses: int,
    loss: str = "dp",
    kappa: float = 1.0,
    carried: bool = True,
) -> Array:
    """Times ``(K,)`` of the jumps from ``w = 0`` and these beta, the largest first, in the limit in which all are small.

    Args:
        betas: falling.
        carried: heads go on from where the jumps before have left them; otherwise each jump starts from ``w = 0`` and its initial beta.
    """
    w, square = np.zeros((len(betas), order)), np.square(betas)  # (K, k), (K,)
    times: list[float] = []
    for m in range(len(betas)):
        left, force = order - m, pull(order - m, n_responses, loss)
        waits = []
        for h in range(m, len(betas)):
            towards = np.zeros(order)  # -D / |D|
            towards[m:] = -1 / (left - 1)
            towards[h] = 1.0
            size = force * np.linalg.norm(towards)
            towards /= np.linalg.norm(towards)
            y = w[h] @ towards
            kept = square[h] - 2 * y**2
            speed = math.sqrt(2 * kept) * kappa * size / order
            phase = math.atan(y * math.sqrt(2 / kept))
            if h == m:
                waits.append((math.pi / 2 - phase) / speed)
            elif carried:
                later = math.sqrt(kept / 2) * math.tan(phase + speed * waits[0])
                w[h] += (later - y) * towards
                square[h] = kept + 2 * later**2
        times.append(waits[0] + (times[-1] if times else 0.0))
    return np.array(times)
