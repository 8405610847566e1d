"""The approximate loss of He et al. 2025: gradients, Taylor form, bound, Stage I updates, manifold."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import factorial

from iclbook.papers.he2025 import loss

CASES = [(5, 40, 0.1), (3, 7, 0.0), (20, 200, 1.5)]


def torch_loss(omega, mu, d, L, s2):
    kernel = torch.outer(omega, omega) + (1 + s2) / L * torch.exp(d * torch.outer(omega, omega))
    return 1 + s2 - 2 * mu @ omega + mu @ kernel @ mu


def draw(n_heads, seed=0, scale=0.4):
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal(n_heads), rng.standard_normal(n_heads)


@pytest.mark.parametrize(("d", "L", "s2"), CASES)
@pytest.mark.parametrize("n_heads", [1, 2, 5])
def test_gradients_equal_autograd(d, L, s2, n_heads):
    omega, mu = draw(n_heads)
    o, m = (torch.tensor(v, requires_grad=True) for v in (omega, mu))
    value = torch_loss(o, m, d, L, s2)
    value.backward()
    in_omega, in_mu = loss.approx_gradients(omega, mu, d, L, s2)
    assert loss.approx_loss(omega, mu, d, L, s2) == pytest.approx(value.item(), rel=1e-12)
    np.testing.assert_allclose(in_omega, o.grad, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(in_mu, m.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("d", "L", "s2"), CASES)
def test_taylor_form(d, L, s2):
    omega, mu = draw(4, scale=0.3)
    assert loss.taylor_loss(omega, mu, d, L, s2) == pytest.approx(
        float(loss.approx_loss(omega, mu, d, L, s2)), rel=1e-12
    )
    odd, even = loss.odd_even_split(omega, mu, d)
    low = s2 + (1 - omega @ mu) ** 2 + (1 + s2) / L * mu.sum() ** 2
    assert low + (1 + s2) / L * (odd + even) == pytest.approx(float(loss.approx_loss(omega, mu, d, L, s2)), rel=1e-12)


def test_stage_one_updates_are_the_gradient_of_the_truncated_loss():
    """Low-order terms against autograd of the loss cut at k = 1; all terms against the full gradient."""
    d, L, s2 = 5, 40, 0.1
    omega, mu = draw(4, seed=3)
    o, m = (torch.tensor(v, requires_grad=True) for v in (omega, mu))
    ((1 - o @ m) ** 2 + s2 + (1 + s2) / L * (m.sum() ** 2 + d * (o @ m) ** 2)).backward()
    terms = loss.stage_one_terms(omega, mu, d, L, s2)
    c = (1 + s2) / L
    np.testing.assert_allclose(2 * terms["mu_sign"] - 2 * c * terms["mu_zero_sum"], -m.grad, atol=1e-12)
    np.testing.assert_allclose(2 * terms["omega_sign"], -o.grad, atol=1e-12)
    in_omega, in_mu = loss.approx_gradients(omega, mu, d, L, s2)
    full_mu = 2 * terms["mu_sign"] - 2 * c * (terms["mu_zero_sum"] + terms["mu_high"])
    np.testing.assert_allclose(full_mu, -in_mu, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(2 * terms["omega_sign"] - 2 * c * terms["omega_high"], -in_omega, rtol=1e-10, atol=1e-11)


def test_holder_bound_and_its_equality():
    d = 5
    rng = np.random.default_rng(4)
    omega, mu = 0.4 * np.abs(rng.standard_normal((200, 4))), np.abs(rng.standard_normal((200, 4)))
    signs = np.where(rng.random((200, 4)) < 0.5, 1.0, -1.0)
    odd, _ = loss.odd_even_split(signs * omega, signs * mu, d)
    bound = loss.holder_bound(signs * omega, signs * mu, d)
    assert np.all(odd >= bound * (1 - 1e-12))
    assert np.all(odd > bound * (1 + 1e-6))  # strict where the scaling is not homogeneous
    # homogeneous scaling makes the odd part equal, and the even part vanishes only with zero-sum mu
    gamma, mu = 0.3, np.array([1.0, 0.5, -0.7, -0.8])
    odd, even = loss.odd_even_split(gamma * np.sign(mu), mu, d)
    assert odd == pytest.approx(float(loss.holder_bound(gamma * np.sign(mu), mu, d)), rel=1e-12)
    assert even == pytest.approx(0.0, abs=1e-25)
    lopsided = np.array([1.0, 0.5, -0.7, -0.1])
    _, even = loss.odd_even_split(gamma * np.sign(lopsided), lopsided, d)
    assert even > 1e-3
    # the printed series, where the scaling is not homogeneous
    omega, k = np.array([0.2, 0.4, -0.3, -0.1]), np.arange(1.0, 40.0, 2.0)
    norm, overlap = np.abs(mu).sum(), np.abs(mu * omega).sum()
    series = np.sum(d**k / factorial(k) * norm ** (2 * (1 - k)) * overlap ** (2 * k))
    assert loss.holder_bound(omega, mu, d) == pytest.approx(series, rel=1e-12)


@pytest.mark.parametrize("gamma", [0.02, 0.13, 0.4, 0.9])
def test_manifold_mu_minimises_the_approximate_loss(gamma):
    d, L, s2 = 5, 40, 0.1
    found = minimize(lambda m: float(loss.approx_loss([gamma, -gamma], m, d, L, s2)), [1.0, -1.0], tol=1e-14)
    target = float(loss.manifold_mu(gamma, d, L, s2))
    np.testing.assert_allclose(found.x, [target, -target], rtol=1e-4)
    np.testing.assert_allclose(loss.best_approx_mu([gamma, -gamma], d, L, s2), [target, -target], rtol=1e-9)
    assert loss.manifold_loss(gamma, d, L, s2) == pytest.approx(found.fun, abs=1e-10)
    assert loss.manifold_gamma(target, d, L, s2) == pytest.approx(gamma, rel=1e-9)


def test_manifold_loss_rises_with_gamma_and_starts_at_eta_star():
    d, L, s2 = 5, 40, 0.1
    gamma = np.geomspace(1e-3, 1.0, 60)
    values = loss.manifold_loss(gamma, d, L, s2)
    limit = 1 + s2 - loss.eta_star(d, L, s2)
    assert float(loss.manifold_loss(0.0, d, L, s2)) == pytest.approx(limit, rel=1e-14)
    small = gamma[(gamma > 0.02) & (gamma < 0.08)]
    excess = loss.manifold_loss(small, d, L, s2) - limit
    leading = (1 + s2) / L * d**3 * loss.eta_star(d, L, s2) ** 2 * small**4 / 6
    np.testing.assert_allclose(excess, leading, rtol=2e-3)
    assert np.all(np.diff(values) > 0)
    assert 2 * gamma[0] * loss.manifold_mu(gamma[0], d, L, s2) == pytest.approx(loss.eta_star(d, L, s2), rel=1e-9)


def test_single_head_optimum_of_the_approximate_loss():
    for d, L, s2 in CASES:
        best = loss.single_head_approx(d, L, s2)
        found = minimize(
            lambda p, d=d, L=L, s2=s2: float(loss.approx_loss([p[0]], [p[1]], d, L, s2)), [0.3, 1.0], tol=1e-13
        )
        assert best.omega == pytest.approx(1 / np.sqrt(d))
        np.testing.assert_allclose(found.x, [best.omega, best.mu], rtol=1e-4)
        assert best.loss == pytest.approx(found.fun, abs=1e-10)
