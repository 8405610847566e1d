"""Gradient descent on the approximate loss of He et al. 2025, pattern measures, linear attention by softmax heads."""

import numpy as np
import pytest
import torch

from iclbook.models import attend
from iclbook.papers.he2025 import circuits, dynamics, figure_2_7, figures_4_1_and_4_2, loss

SETTING = {"d": 5, "L": 40, "noise_var": 0.1}


def test_simulation_equals_plain_steps_and_does_not_mix_runs():
    omega, mu = dynamics.sample_initial(6, 3, 0.1, seed=0)
    together = dynamics.simulate(omega, mu, 0.02, [0, 7, 50], **SETTING)
    assert together.omega.shape == (3, 6, 3)
    o, m = omega[4].copy(), mu[4].copy()
    for _ in range(50):
        in_omega, in_mu = loss.approx_gradients(o, m, 5, 40, 0.1)
        o, m = o - 0.02 * in_omega, m - 0.02 * in_mu
    np.testing.assert_allclose(together.omega[-1, 4], o, rtol=1e-11)
    np.testing.assert_allclose(together.mu[-1, 4], m, rtol=1e-11)
    np.testing.assert_array_equal(together.omega[0], omega)
    few, _ = dynamics.sample_initial(2, 3, 0.1, seed=0)
    np.testing.assert_array_equal(few, omega[:2])


def test_two_heads_end_as_a_pair_or_one_sided():
    omega, mu = dynamics.sample_initial(60, 2, 0.01, seed=0)
    run = dynamics.simulate(omega, mu, 0.05, dynamics.log_steps(6000, 200), **SETTING)
    single = circuits.one_sided(run.omega[-1], run.mu[-1])
    assert 0 < single.sum() < 60
    best = loss.single_head_approx(5, 40, 0.1)
    np.testing.assert_allclose(run.loss[-1, single], best.loss, atol=1e-6)
    np.testing.assert_allclose(np.abs(run.omega[-1, single]), best.omega, rtol=1e-3)
    pairs = ~single
    gamma, plus, minus = circuits.effective_pair(run.omega[-1, pairs], run.mu[-1, pairs])
    np.testing.assert_allclose(plus, loss.manifold_mu(gamma, 5, 40, 0.1), rtol=5e-3)  # mu lags behind a falling gamma
    np.testing.assert_allclose(minus, -plus, rtol=1e-6)
    times = dynamics.stage_times(run.steps, run.omega, run.mu)
    assert np.all(times["sign"][pairs] < times["zero_sum"][pairs])


def test_gradient_flow_falls_along_the_manifold_as_a_power_law_and_plain_steps_follow_it():
    found = figure_2_7.flow_of_pair(5, 40, 0.1)
    records = figure_2_7.flow_records(found)
    assert records["gdlimit/slope"] == pytest.approx(-1 / 6, abs=1e-3)
    assert records["gdlimit/closed_form"] < 0.02
    steps = dynamics.simulate([[0.25, -0.25]], [[1.6, -1.6]], 0.01, [5000], **SETTING)
    assert steps.omega[0, 0, 0] == pytest.approx(np.interp(50.0, found["times"], found["gamma"]), rel=2e-3)


def attention(kq, ov, tokens, query, activation):
    """Predictions ``(n,)`` from circuits ``(H, D, D)``, ``(H, D)`` for tokens ``(n, L, D)`` and whole query tokens ``(n, D)``."""
    context, whole = (torch.from_numpy(np.moveaxis(values, 0, -1)) for values in (tokens, query))
    return attend(torch.from_numpy(kq), torch.from_numpy(ov)[:, None], context, whole, activation)[0].numpy()


def test_linear_attention_from_softmax_heads():
    rng = np.random.default_rng(23)
    n, L, D, H = 40, 30, 4, 2
    kq, ov = rng.standard_normal((H, D, D)) / D, rng.standard_normal((H, D))
    tokens, query = rng.standard_normal((n, L, D)) + 0.5, rng.standard_normal((n, D))
    linear = attention(kq, ov, tokens, query, "linear")

    def build(z, gamma):
        return attention(*figures_4_1_and_4_2.softmax_heads_of_linear(kq, ov, gamma), z, query, "softmax")

    mean = tokens.mean(axis=1)
    defect = np.sum((mean @ ov.T) * np.einsum("nd,hde,ne->nh", mean, kq, query), axis=-1)
    np.testing.assert_allclose(build(tokens, 1e-4), linear - defect, atol=1e-5)
    assert np.abs(defect).max() > 0.1  # the statement fails for tokens with a mean
    centred = tokens - tokens.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(build(centred, 1e-4), attention(kq, ov, centred, query, "linear"), atol=1e-5)
