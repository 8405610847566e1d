"""Where the random numbers of a prompt stand: what C code needs to know of a regression task."""

from __future__ import annotations

from dataclasses import dataclass


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
