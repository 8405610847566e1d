"""The true loss of He et al. 2025's reduced model: quadrature against simulation, sampling and autograd; its minimisers."""

import numpy as np
import pytest
from he2025.circuits_kit import prompts, z_score

from iclbook import theory
from iclbook.papers.he2025 import loss, predictors, true_loss


@pytest.mark.parametrize(
    ("omega", "mu", "d", "L", "s2"),
    [
        ([0.45], [1.6], 5, 40, 0.1),
        ([0.13, -0.13], [3.4, -3.4], 5, 40, 0.1),
        ([0.3, -0.2, 0.3], [1.0, -2.0, 0.4], 3, 7, 0.3),
        ([0.9, 0.0], [1.0, -0.5], 1, 2, 0.0),
        ([0.5], [1.3], 2, 1, 0.2),
    ],
)
def test_quadrature_equals_simulation_of_the_model(omega, mu, d, L, s2):
    batch = prompts(d, L, s2)
    predicted = predictors.softmax_predictor(omega, mu, batch.x, batch.y, batch.x_q)
    exact = float(true_loss.exact_loss(omega, mu, d, L, s2))
    assert abs(z_score(predicted, batch, exact)) < 5


def test_pair_tends_to_debiased_gd():
    d, L, s2 = 5, 40, 0.1
    eta = loss.eta_star(d, L, s2)
    limit = float(theory.debiased_gd_error(eta, d, L, s2))
    near = true_loss.pair_exact(2e-3, d, L, s2)
    assert near.loss == pytest.approx(limit, abs=1e-6)
    assert 2 * near.omega * near.mu == pytest.approx(eta, rel=1e-4)
    # what the approximate loss leaves out there: 1/(L + (1 + s2) d), exactly
    shortfall = 1 / (L + (1 + s2) * d)
    assert limit - float(loss.manifold_loss(0.0, d, L, s2)) == pytest.approx(shortfall, rel=1e-12)
    far = predictors.length_for_accuracy(0.01, d, s2)
    assert 1 / (far + (1 + s2) * d) == pytest.approx(
        0.01 * float(theory.debiased_gd_error(loss.eta_star(d, far, s2), d, far, s2)), rel=1e-9
    )


def test_true_optimum_of_the_pair_lies_inside():
    """At finite L the true loss is least at gamma > 0, unlike the approximate loss."""
    best = true_loss.pair_optimum_exact(5, 40, 0.1)
    for gamma in (0.5 * best.omega, 2.0 * best.omega):
        assert true_loss.pair_exact(gamma, 5, 40, 0.1).loss > best.loss
    assert best.loss < float(theory.debiased_gd_error(loss.eta_star(5, 40, 0.1), 5, 40, 0.1))


def test_single_head_optimum_of_the_true_loss():
    d, s2 = 5, 0.1
    best = true_loss.single_head_exact(d, 40, s2)
    for factor in (0.8, 1.25):
        omega = factor * best.omega
        mu = true_loss.pair_exact(omega, d, 40, s2, (1.0,)).mu
        assert true_loss.exact_loss([omega], [mu], d, 40, s2) > best.loss
    # many examples: the limit is approached, and it is not 1/sqrt(d)
    far = [true_loss.single_head_exact(d, L, s2).omega for L in (10**4, 10**6)]
    limit = true_loss.single_head_many_examples(d, s2)
    assert abs(far[1] - limit) < abs(far[0] - limit) < 0.01 * limit
    assert true_loss.single_head_many_examples(10_000, s2) * 100 == pytest.approx(1.0, rel=1e-3)


def plain_moments(omega, d, n):
    """E[m m'] and E[p.p'] of all heads by the whole trapezoidal rule: one grid of s for all heads, no symmetry; and E[m]."""
    radius, weights = true_loss._radius_nodes(d)
    log_s = np.arange(-90.0, 20.0, 0.25)
    s, g, p = np.exp(log_s), true_loss._G, true_loss._G_WEIGHTS
    means, products, overlaps = np.zeros(len(omega)), *np.zeros((2, len(omega), len(omega)))
    for r, weight in zip(radius, weights, strict=True):
        decays = [np.exp(-s[:, None] * np.exp(w * r * g)) for w in omega]  # (S, G)
        for h, (w, left) in enumerate(zip(omega, decays, strict=True)):
            base, tilted = left @ p, left @ (p * g * np.exp(w * r * g))
            means[h] += weight * r * 0.25 * np.sum(s * n * tilted * base ** (n - 1))
            for k, (v, right) in enumerate(zip(omega, decays, strict=True)):
                measure = 0.25**2 * np.outer(s, s)

                def expect(values, left=left, right=right):
                    return (left * (p * values)) @ right.T

                a, b = np.exp(w * r * g), np.exp(v * r * g)
                base = expect(1.0)
                apart = n * (n - 1) * expect(g * a) * expect(g * b) * base ** (n - 2)
                products[h, k] += weight * np.sum(measure * (n * expect(g**2 * a * b) * base ** (n - 1) + apart))
                overlaps[h, k] += weight * np.sum(measure * n * expect(a * b) * base ** (n - 1))
    return means, products, overlaps


@pytest.mark.parametrize(("omega", "n"), [([0.4, -0.4], 6), ([0.4, -0.4, 0.1], 3), ([0.3, -0.2], 2)])
def test_the_quadrature_is_the_whole_trapezoidal_rule(omega, n):
    linear, matrix = true_loss.exact_quadratic(np.array(omega), 2, n, 0.1)
    means, products, overlaps = plain_moments(omega, 2, n)
    np.testing.assert_allclose(linear, means / 2, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(matrix, products / 2 + 0.6 * overlaps, rtol=1e-11)
