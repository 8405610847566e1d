"""He et al. 2025: the true loss of the reduced model over a fixed seeded sample, with standard error and analytic gradients.

An estimate of what exact integrates, for many heads, for gradients and as an independent check. It samples only (r, g): beta, noise
and the directions orthogonal to x_q are averaged out in closed form (see exact), and every evaluation shares the sample.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .estimators import softmax
from .loss import Array, coupling, heads


class SampledLoss:
    """True loss of (omega, mu) over ``draws`` fixed draws of r ~ chi_d and g_1..g_L ~ N(0, 1)."""

    def __init__(self, d: int, L: int, noise_var: float, draws: int = 20_000, seed: int = 0) -> None:
        coupling(d, L, noise_var)  # checks the ranges
        rng = np.random.default_rng(seed)
        self.d, self.L, self.noise_var = d, L, noise_var
        self.radius = np.sqrt(rng.chisquare(d, size=draws))  # (n,)
        self.g = rng.standard_normal((draws, L))  # (n, L)

    def _attention(self, omega: Array) -> Array:
        """p^h, shape (H, n, L)."""
        return softmax(omega[:, None, None] * self.radius[None, :, None] * self.g[None])

    def _per_draw(self, weights: Array) -> tuple[Array, Array]:
        """Loss of each draw (n,) for token weights (n, L), and r - w.g (n,)."""
        residual = self.radius - np.sum(weights * self.g, axis=-1)
        kappa = (self.d - 1) / self.d + self.noise_var
        return self.noise_var + residual**2 / self.d + kappa * np.sum(weights**2, axis=-1), residual

    def value(self, omega: ArrayLike, mu: ArrayLike) -> tuple[float, float]:
        """Loss at omega, mu (H,) and its standard error."""
        omega, mu = heads(omega, mu)
        losses, _ = self._per_draw(np.tensordot(mu, self._attention(omega), axes=(0, 0)))
        return float(losses.mean()), float(losses.std(ddof=1) / np.sqrt(losses.size))

    def difference(
        self, first: tuple[ArrayLike, ArrayLike], second: tuple[ArrayLike, ArrayLike]
    ) -> tuple[float, float]:
        """Loss of ``first`` = (omega, mu) less that of ``second``, with the standard error of the paired difference."""
        losses = []
        for omega, mu in (first, second):
            o, m = heads(omega, mu)
            losses.append(self._per_draw(np.tensordot(m, self._attention(o), axes=(0, 0)))[0])
        gap = losses[0] - losses[1]
        return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(gap.size))

    def gradients(self, omega: ArrayLike, mu: ArrayLike) -> tuple[Array, Array]:
        """Gradients of `value` in omega and mu, each (H,)."""
        omega, mu = heads(omega, mu)
        attention = self._attention(omega)  # (H, n, L)
        weights = np.tensordot(mu, attention, axes=(0, 0))
        _, residual = self._per_draw(weights)
        kappa = (self.d - 1) / self.d + self.noise_var
        in_weights = -2.0 / self.d * residual[:, None] * self.g + 2.0 * kappa * weights  # (n, L)
        centred = self.g - np.sum(attention * self.g, axis=-1, keepdims=True)  # (H, n, L)
        n = self.radius.size
        in_mu = np.einsum("hnl,nl->h", attention, in_weights) / n
        in_omega = (
            mu * np.einsum("n,hnl,hnl,nl->h", self.radius, attention, centred, in_weights, optimize=True) / n
        )
        return in_omega, in_mu
