"""Prediction errors of He et al. 2025: GD, debiased GD, ridge, their limits, preconditioners."""

import numpy as np
import pytest
import torch
from he2025.circuits_kit import prompts, squared_error, z_score
from scipy.optimize import minimize, minimize_scalar

from iclbook import theory
from iclbook.papers.he2025 import figure_3_1, loss, predictors
from iclbook.tasks import LinearRegression


def ridge(lam, x, y, x_q):
    """x_q^T (X^T X + lam I)^-1 X^T y."""
    gram = np.swapaxes(x, -1, -2) @ x + lam * np.eye(x.shape[-1])
    beta = np.linalg.solve(gram, np.swapaxes(x, -1, -2) @ y[..., None])[..., 0]
    return np.einsum("...d,...d->...", x_q, beta)


@pytest.mark.parametrize(("d", "L", "s2"), [(5, 40, 0.1), (4, 3, 0.5), (3, 2, 0.0)])
@pytest.mark.parametrize("eta", [0.4, 0.9])
def test_gd_errors_against_simulation(d, L, s2, eta):
    batch = prompts(d, L, s2)
    data = batch.x, batch.y, batch.x_q
    vanilla, debiased = (f(eta, d, L, s2) for f in (theory.vanilla_gd_error, theory.debiased_gd_error))
    assert abs(z_score(theory.vanilla_gd(eta, *data), batch, vanilla)) < 5
    assert abs(z_score(theory.debiased_gd(eta, *data), batch, debiased)) < 5


def test_best_rates():
    for d, L, s2 in ((5, 40, 0.1), (2, 5, 1.0)):
        for error, best in (
            (theory.vanilla_gd_error, theory.vanilla_gd_best_eta),
            (theory.debiased_gd_error, loss.eta_star),
        ):
            found = minimize_scalar(lambda eta, f=error, d=d, L=L, s2=s2: float(f(eta, d, L, s2)))
            assert float(best(d, L, s2)) == pytest.approx(found.x, rel=1e-6)
        assert float(theory.vanilla_gd_best_eta(d, L, s2)) < loss.eta_star(d, L, s2)
        # centring costs one pair
        debiased = theory.debiased_gd_error(loss.eta_star(d, L, s2), d, L, s2)
        vanilla = theory.vanilla_gd_error(theory.vanilla_gd_best_eta(d, L - 1, s2), d, L - 1, s2)
        assert float(debiased) == pytest.approx(float(vanilla), rel=1e-12)


def test_ridge_error_against_simulation():
    for d, L, s2 in ((5, 40, 0.1), (4, 3, 0.5)):
        batch = prompts(d, L, s2)
        exact, exact_error = theory.ridge_error(d, L, s2)
        mean, error = squared_error(ridge(s2 * d, batch.x, batch.y, batch.x_q), batch)
        assert abs(mean - exact) < 5 * np.hypot(error, exact_error)
        more = squared_error(ridge(5 * s2 * d, batch.x, batch.y, batch.x_q), batch)[0]
        assert more > mean, "s2 d is the best penalty"


def test_limiting_ridge_risk():
    for xi, s2 in ((0.125, 0.1), (2.0, 0.5)):
        d = 200
        L = int(d / xi)
        mean, error = theory.ridge_error(d, L, s2, draws=100)
        assert abs(mean - float(predictors.bayes_risk_limit(xi, s2))) < 5 * error + 3.0 / d
        m, z = float(predictors.stieltjes_mp(0.3, xi)), 0.3
        assert xi * z * m**2 + (1 - xi + z) * m - 1 == pytest.approx(0.0, abs=1e-12)
    eta = loss.eta_star(4000, 32_000, 0.1)
    assert float(theory.debiased_gd_error(eta, 4000, 32_000, 0.1)) == pytest.approx(
        float(predictors.gd_risk_limit(0.125, 0.1)), abs=1e-4
    )


def preconditioned_error(omega, cov, L, s2):
    """Error E[(y_q - yhat)^2] of yhat = (1/L) sum_l y_l x_l^T Omega x_q: with b = (1/L) sum y_l x_l and B = I/d, E[b beta^T] = Sigma B and
    E[b b^T] = ((L + 1) Sigma B Sigma + (tr(B Sigma) + s2) Sigma) / L."""
    prior = np.eye(len(cov)) / len(cov)
    signal = np.trace(prior @ cov)
    second = ((L + 1) * cov @ prior @ cov + (signal + s2) * cov) / L
    return s2 + signal - 2 * np.trace((cov @ prior).T @ omega @ cov) + np.trace(omega.T @ second @ omega @ cov)


def test_preconditioned_error_and_its_minimiser():
    d, L, s2 = 3, 8, 0.2
    cov = np.array([[1.5, 0.9, 0.54], [0.9, 1.5, 0.9], [0.54, 0.9, 1.5]])
    task = LinearRegression(d=d, L=L, noise_var=s2, covariance=tuple(map(tuple, cov)))
    normals = torch.randn(task.normals, 60_000, generator=torch.Generator().manual_seed(13), dtype=torch.float64)
    context, query, target = (np.moveaxis(values.numpy(), -1, 0) for values in task.batch(normals))
    batch = theory.Prompts(context[..., :d], context[..., d], query, target[:, 0])
    best = figure_3_1.best_preconditioner(cov, L, s2)
    for omega in (best, np.arange(9.0).reshape(3, 3) / 10):
        predicted = np.mean(theory.scores(batch.x, batch.x_q @ omega.T) * batch.y, axis=-1)
        assert abs(z_score(predicted, batch, preconditioned_error(omega, cov, L, s2))) < 5
    found = minimize(lambda w: preconditioned_error(w.reshape(d, d), cov, L, s2), np.zeros(d * d), tol=1e-12)
    np.testing.assert_allclose(found.x.reshape(d, d), best, atol=1e-4)
    isotropic = figure_3_1.best_preconditioner(np.eye(d), L, s2)
    expected = float(theory.vanilla_gd_best_eta(d, L, s2)) * np.eye(d)
    np.testing.assert_allclose(isotropic, expected, atol=1e-14)
    inverse = np.linalg.inv(cov)
    apart = [figure_3_1.shape_distance(figure_3_1.best_preconditioner(cov, n, s2), inverse) for n in (40, 400)]
    assert apart[0] > apart[1] > 0
