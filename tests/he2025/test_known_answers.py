"""Measures of he2025 on inputs whose right records are known by hand: what planted faults had shown to be unguarded."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest
from he2025.circuits_kit import heads, pairs, still, synthetic

from iclbook.papers.he2025 import studies, theory
from iclbook.papers.he2025.figures import in_page, settled
from iclbook.papers.he2025.measures import (
    activations,
    census,
    closed_forms,
    evaluation,
    extensions,
    noise,
    predictor,
)
from iclbook.papers.he2025.measures import (
    multitask_heads as multitask,
)
from iclbook.papers.he2025.measures.circuits import Heads, MultiHeads, read_multi_heads
from iclbook.papers.he2025.runs import descent
from iclbook.papers.he2025.runs import studies as s
from iclbook.store import Results
from iclbook.tasks import LinearRegression
from iclbook.training.study import Study

D, L, S2 = 5, 40, 0.1
GROUPS = ((0, 1), (2, 3), (4, 5))


def multi_heads(omega, mu) -> MultiHeads:
    """Two-task heads with these omega by feature group ``(R, H, 3)`` and mu ``(R, H, 2)``."""
    omega, mu = np.asarray(omega, dtype=float), np.asarray(mu, dtype=float)
    return MultiHeads(np.repeat(omega, 2, -1), mu, GROUPS, np.zeros(mu.shape[:2]), np.zeros(mu.shape[:2]))


# -- two tasks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("smaller", "serves"), [(0.15, 1), (0.1, 0), (0.05, 0)])
def test_a_head_serves_a_task_above_a_tenth_of_the_largest_mu(smaller, serves):
    """Of the largest mu of the run, which is another head's, and the head's mu must differ in sign."""
    mu = [[[10.0, 0.0], [0.0, 4.0], [5.0, -10 * smaller]]]
    found = multitask.three_heads(multi_heads(np.ones((1, 3, 3)), mu))
    assert found["opposite_heads"] == [serves]
    same = [[[10.0, 0.0], [0.0, 4.0], [5.0, 10 * smaller]]]
    assert multitask.three_heads(multi_heads(np.ones((1, 3, 3)), same))["opposite_heads"] == [0]


def test_leak_off_the_support_is_over_the_mean_on_it():
    """omega .2 off the support over .4 and .6 on it: .4, for a head of either task."""
    of_first, of_second = [0.4, 0.6, 0.2], [0.2, 0.6, 0.4]
    plain = [[0.4, 0.6, 0.0], [0.0, 0.6, 0.4]]
    mu = [[[1, 0], [-1, 0], [0, 1], [0, -1]]]
    for omega in ([of_first, plain[0], plain[1], plain[1]], [plain[0], plain[0], of_second, plain[1]]):
        found = multitask.four_heads(multi_heads([omega], mu))
        np.testing.assert_allclose(found["support_leak"], [0.4])


def test_heads_are_counted_by_task_and_sign():
    """Two positive heads and a negative one of the first task, a positive one of the second."""
    found = multitask.four_heads(multi_heads(np.ones((1, 4, 3)), [[[2, 0], [1, 0.5], [-1, 0], [0, 1]]]))
    assert found["heads_per_cell"] == [2, 1, 1, 0]
    assert found["mu_leak"] == [0.5]


def test_one_head_of_two_tasks():
    found = multitask.one_head(multi_heads([[[0.2, 0.9, 0.4]], [[-0.3, -0.6, -0.1]]], [[[2, 3]], [[-1, -1]]]))
    np.testing.assert_allclose(found["shared_over_own"], [3.0, 3.0])
    np.testing.assert_allclose(found["omega_own"], [0.3, 0.2])
    np.testing.assert_allclose(found["mu_difference"], [1 / 2.5, 0.0])


def test_two_heads_of_two_tasks():
    omega = [[[-0.1, -0.2, -0.1], [0.2, 0.3, 0.1]]]
    found = multitask.two_heads(
        multi_heads(omega, [[[-1, -1], [1, 1]]]), multi_heads([[[1, -1.5, 1]]], [[[1, 1]]])
    )
    np.testing.assert_allclose(found["shared_over_own"], [2.0])
    np.testing.assert_allclose(found["omega_own"], [0.15])
    np.testing.assert_allclose(found["over_single"], [0.2])
    np.testing.assert_allclose(found["asymmetry"], [(0.1 + 0.1 + 0.0) / 3 / (1.0 / 6)])


def test_deviations_of_two_tasks_are_over_their_diagonals():
    """Diagonals of norm 5 and 13; beside them one entry of 3 and one of 6.5."""
    kq, ov = np.zeros((1, 1, 1, 8, 8)), np.zeros((1, 1, 1, 2, 8))
    kq[..., 0, 0], kq[..., 1, 1], kq[..., 2, 0] = 3.0, 4.0, 3.0
    kq[..., 0, 7] = 100.0  # meets the query's zero
    ov[..., 0, 6], ov[..., 1, 7], ov[..., 0, 2] = 5.0, 12.0, 6.5
    found = read_multi_heads(
        {"steps": np.array([0]), "kq": kq, "ov": ov}, ((0, 1, 2, 3), (2, 3, 4, 5)), scale=0.5
    )
    np.testing.assert_allclose(found.kq_deviation, [[0.6]])
    np.testing.assert_allclose(found.ov_deviation, [[0.5]])
    np.testing.assert_allclose(found.omega[0, 0, :2], [1.5, 2.0])


# -- closed forms -----------------------------------------------------------------------------------------------------


def test_the_bound_of_theorem_1_in_d_gamma_and_noise():
    assert theory.theorem_gap_bound(0.1, 5, 0.21) == pytest.approx(1.1 * 0.5)
    ratio = theory.theorem_gap_bound(0.1, 10, S2) / theory.theorem_gap_bound(0.1, 5, S2)
    assert ratio == pytest.approx(2.0)
    assert theory.theorem_gamma_limit(4, 100, 0.01) == pytest.approx(1 / (2 * np.log(10_000)))


def test_the_gap_is_measured_on_other_prompts_for_another_seed():
    first, again, other = (closed_forms.gap(D, L, S2, seed) for seed in (2, 2, 3))
    assert (first.gammas[0], first.gammas[-1], len(first.gammas)) == (
        pytest.approx(1e-3),
        pytest.approx(0.3),
        14,
    )
    np.testing.assert_array_equal(first.quantiles, again.quantiles)
    assert not np.array_equal(first.quantiles, other.quantiles)
    np.testing.assert_allclose(first.bound, np.sqrt(1.1) * first.gammas * 5)
    assert (first.quantiles[1] > first.quantiles[0]).all()


def test_records_of_gaps_that_are_known():
    gammas = np.geomspace(1e-3, 0.3, 14)
    found, other = (closed_forms.Gap(gammas, np.stack([gammas**p, 2 * gammas]), 4 * gammas) for p in (2, 1))
    values = closed_forms.gap_records(found, [other])
    assert values["thm1.1/ratio"] == pytest.approx(0.5)
    assert values["thm1.1/slope"] == pytest.approx(2.0)
    assert values["thm1.1/slope_se"] == pytest.approx(1 / np.sqrt(2))


def test_gaps_by_dimension_stand_at_the_theorems_largest_gamma():
    found = closed_forms.gap_by_dimension(L, S2, 0.9, draws=200)
    d = np.array(closed_forms.DIMENSIONS)
    np.testing.assert_allclose(found.gammas * np.sqrt(d), 1 / np.log(4000))
    np.testing.assert_allclose(found.bound, np.sqrt(1.1) * np.sqrt(d) / np.log(4000))
    alone = theory.gap_quantiles([found.gammas[1]], 0.9, 10, L, S2, [0.5, 0.99], draws=200, seed=2)
    np.testing.assert_allclose(found.quantiles[:, 1], alone[:, 0])
    assert not np.array_equal(
        found.quantiles, closed_forms.gap_by_dimension(L, S2, 0.9, 200, seed=3).quantiles
    )


def test_powers_of_d_are_those_put_in():
    d = np.array(closed_forms.DIMENSIONS, dtype=float)
    gaps = [closed_forms.Gap(d, np.stack([d, 0.1 * f * d**p]), np.sqrt(d)) for f, p in ((1, 0.5), (2, 1.0))]
    found = closed_forms.dimension_records(gaps)
    assert found["thm1.1/power"] == pytest.approx(0.5)
    assert found["thm1.1/power_se"] == pytest.approx(0.5 / np.sqrt(2))
    assert found["thm1.1/bound_power"] == pytest.approx(0.5)
    assert found["thm1.1/bound_power_without_d"] == pytest.approx(-0.5)
    np.testing.assert_allclose(found["thm1.1/ratio_by_d"], [0.1] * 5)
    np.testing.assert_allclose(found["thm1.1/ratio_by_d_se"], (0.2 * np.sqrt(d) - 0.1) / np.sqrt(2))


def test_the_loss_nears_its_limit_as_the_fourth_power_and_never_meets_it():
    found = closed_forms.optimality_records(D, L, S2)
    assert 0 < found["thm1.2/above_limit"] < 1e-8
    assert abs(found["thm1.2/below_limit"]) < 1e-6
    assert found["thm1.2/power"] == pytest.approx(4.0, abs=1e-4)
    assert found["thm1.2/rate_ratio"] == pytest.approx(1.0, abs=1e-9)


def test_the_approximation_is_measured_where_it_says():
    run = heads(*(np.tile([[[0.1, -0.1]]], (11, 2, 1)) * size for size in (1.0, 20.0)))
    found = closed_forms.approximation(run, 4, D, L, S2)
    np.testing.assert_array_equal(found.steps, [0, 1, 2, 5, 10])
    np.testing.assert_allclose(found.true, theory.pair_loss_exact(0.1, 2.0, D, L, S2), rtol=1e-6)
    np.testing.assert_allclose(found.approx, theory.approx_loss([0.1, -0.1], [2.0, -2.0], D, L, S2))
    at = found.lengths.index(40)
    true = theory.pair_loss_exact(0.03, theory.manifold_mu(0.03, D, L, S2), D, L, S2)
    close = theory.manifold_loss(0.03, D, L, S2)
    assert found.gap[at] == pytest.approx(close / true - 1)
    assert found.excess_gap[at] == pytest.approx((close - S2) / (true - S2) - 1)


def test_records_of_an_approximation_take_the_lengths_that_they_name():
    gap, excess = np.array([9.0, -0.2, 0.3]), np.array([9.0, 0.8, -0.4])
    some = np.array([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]])
    found = closed_forms.Approximation(
        np.arange(3), some, some * [[1.1], [0.7]], (10, 40, 10_000), gap, excess
    )
    values = closed_forms.approximation_records(found, D, S2)
    assert values["approx/at_40"] == 0.2
    assert values["approx/large_L"] == 0.3
    assert values["approx/excess_at_40"] == 0.8
    assert values["approx/excess_large_L"] == 0.4
    assert values["approx/excess_fall"] == -0.5
    assert values["approx/signed_max"] == pytest.approx(0.1)
    assert values["approx/along_training_sd"] == pytest.approx(0.2 / np.sqrt(2))


def test_one_heads_scale_is_over_the_documents():
    text, code = (still([[w], [2 * w]], [[1.0], [1.0]]) for w in (-0.4, 0.5))
    found = closed_forms.single_head(text, code, D, S2)
    np.testing.assert_allclose(found.text, np.array([0.4, 0.8]) * np.sqrt(5))
    np.testing.assert_allclose(found.code, np.array([0.5, 1.0]) * np.sqrt(5))
    assert found.curve[2] == pytest.approx(theory.single_head_exact(D, 40, S2).omega * np.sqrt(5))
    values = closed_forms.single_head_records(found, D, L, S2)
    best = values["single/true_omega"]
    np.testing.assert_allclose(values["single/trained_over_true"], found.text / best)
    assert values["single/approx_omega"] == pytest.approx(1.0)
    assert 1.0 < values["single/mu_ratio"] < 1.2
    assert values["single/code/omega_sd"] == pytest.approx(0.5 * np.sqrt(5) / np.sqrt(2))
    assert values["single/trained_over_true_sd"] == pytest.approx(0.4 * np.sqrt(5) / best / np.sqrt(2))


def test_the_manifold_is_where_minimisation_ends():
    valley = noise.valley(6, D, L, S2)
    found = closed_forms.manifold_records(valley, D, L, S2)
    assert found["manifold/mu_error"] < 1e-8
    assert found["manifold/approx_rise"] > 0
    assert found["manifold/true_rise"] == pytest.approx(
        min(b - a for a, b in zip(valley.loss, valley.loss[1:], strict=False))
    )
    assert (valley.gamma[0], valley.gamma[-1]) == (pytest.approx(0.02), pytest.approx(0.6))


def test_rates_floors_and_coincidence():
    eta = theory.debiased_gd_best_eta(D, L, S2)
    floor = closed_forms.floor_records(D, L, S2)
    assert floor["floor/value"] == pytest.approx(S2 + (1 - eta) ** 2)
    assert floor["floor/over_noise"] == pytest.approx(1 + (1 - eta) ** 2 / S2)
    assert floor["floor/far_ratio"] == pytest.approx(1.0, abs=1e-3)
    assert floor["floor/at_100"] == pytest.approx(
        float(theory.debiased_gd_error(eta, D, 100, S2)) / floor["floor/value"] - 1
    )
    near = closed_forms.coincidence_records(D, S2)
    errors = [
        float(f(theory.eta_star(D, 500, S2), D, 500, S2))
        for f in (theory.debiased_gd_error, theory.vanilla_gd_error)
    ]
    assert near["gdcoincide/far"] == pytest.approx(abs(errors[0] / errors[1] - 1))
    assert near["gdcoincide/near"] > 10 * near["gdcoincide/far"]
    assert closed_forms.best_rate(theory.debiased_gd_error, D, L, S2) == pytest.approx(eta, abs=1e-6)


def test_risks_on_the_grid_of_the_theorem():
    found = closed_forms.risk_records()
    assert found["thm1.3/total_excess"] <= 1e-12
    assert found["thm1.3/excess_excess"] > 1


def test_linear_attention_needs_centred_tokens():
    found = closed_forms.linear_by_softmax_records(theory.draw_prompts(64, D, L, S2, seed=1), D)
    assert found["linsoft/centred"] < 1e-4
    assert 0.01 < found["linsoft/uncentred"] < 1


# -- runs -------------------------------------------------------------------------------------------------------------


def test_a_head_without_omega_is_not_positive():
    np.testing.assert_allclose(still([[0.0, 0.2, -0.2]], [[5.0, 1.0, -1.0]]).positive_mu, 1.0)


def test_a_deviation_at_the_bound_is_no_pattern():
    h = still([[0.5, -0.5]], [[1.0, -1.0]], ov_noise=0.25)
    worst = float(h.ov_deviation.max())
    assert not h.patterned(worst).any()
    assert h.patterned(np.nextafter(worst, 1)).all()


def test_a_run_of_the_census_is_its_own(monkeypatch):
    monkeypatch.setattr(descent, "STEPS", 400)
    together, alone = descent.descend("h3", [2, 5]), descent.descend("h3", [5])
    for name, values in together.items():
        np.testing.assert_allclose(values[1:], alone[name], rtol=1e-6, err_msg=name)
    omega, mu = theory.draw_initial(6, 3, descent.SCALE, seed=3)
    path = theory.simulate(omega, mu, descent.RATE, 400, theory.log_steps(400, 120), d=D, L=L, noise_var=S2)
    np.testing.assert_allclose(together["start"], (omega + mu)[[2, 5]], rtol=1e-6)
    np.testing.assert_allclose(together["omega"], path.omega[-1, [2, 5]], rtol=1e-6)
    np.testing.assert_allclose(together["mu"], path.mu[-1, [2, 5]], rtol=1e-6)
    times = theory.stage_times(path.steps, path.omega, path.mu)
    for name in descent.PATTERNS:
        np.testing.assert_array_equal(together[name], times[name][[2, 5]], err_msg=name)
    assert np.isfinite(together["sign"]).any()
    assert descent.descend("h2", [5])["start"][0, 0] != alone["start"][0, 0]


def test_starts_of_the_stages_point_the_same_way():
    together = census.stage_paths([0.01, 0.1], D, L, S2)
    np.testing.assert_allclose(together[0.1].omega[0], 10 * together[0.01].omega[0])


def test_the_peak_of_an_activation_is_over_where_it_settles():
    gamma = np.array([0.1, 0.6, 0.3])[:, None, None] * np.array([[[1.0, -1.0]], [[2.0, -2.0]]]).reshape(
        1, 2, 2
    )
    course = heads(gamma, np.sign(gamma))
    by_name = dict.fromkeys(extensions.ACTIVATIONS, course)
    softmax = heads(2 * gamma, np.sign(gamma))
    found = extensions.dynamics_records(by_name, softmax, by_name, softmax)
    np.testing.assert_allclose(found["fig4.2/text/tanh_peak"], [2.0, 2.0])
    assert found["fig4.2/text/tanh_peak_sd"] == pytest.approx(0.0, abs=1e-12)
    assert extensions.course_distance(course, softmax) == pytest.approx(np.log(2))


def test_values_of_gamma_over_activations():
    by_name = {"affine": pairs([0.1, 0.3]), "square": pairs([0.5, 0.5]), "tanh": pairs([0.4, 0.4])}
    small = (pairs([0.4, 0.4]), pairs([0.1, 0.1]))
    found = extensions.gamma_records(by_name, pairs([0.3, 0.3]), by_name, pairs([1.0, 1.0]), *small)
    assert found["fig4.2/text/gamma_ratio"] == pytest.approx(2.5)
    assert found["fig4.2/text/gamma_ratio_se"] == pytest.approx(2.5 * 0.1 / 0.2)
    assert found["fig4.2/code/gamma_ratio"] == pytest.approx(5.0)
    assert found["fig4.2/c0.3/gamma_ratio"] == pytest.approx(5 / 3), "beside the others at C = 1"
    assert found["fig4.2/c0.1/gamma_ratio"] == pytest.approx(5.0)


def test_patterns_of_activations_one_value_a_run_and_head():
    text = {
        name: still([[w, -w]], [[1.0, -2.0]], kq_noise=w / 10, ov_noise=w)
        for name, w in zip(extensions.ACTIVATIONS, (0.1, 0.2, 0.3), strict=True)
    }
    code = {
        name: still([[2 * w, w]], [[1.0, 1.0]])
        for name, w in zip(extensions.ACTIVATIONS, (1.0, 2.0, 3.0), strict=True)
    }
    found = extensions.activation_records(text, code)
    for name, w in zip(extensions.ACTIVATIONS, (0.1, 0.2, 0.3), strict=True):
        np.testing.assert_allclose(found[f"fig4.2/text/{name}/omega_product"], [-w * w])
        np.testing.assert_allclose(found[f"fig4.2/text/{name}/omega_mu"], [w, 2 * w])
        np.testing.assert_allclose(found[f"fig4.2/text/{name}/kq_deviation"], [w / 10] * 2)
        np.testing.assert_allclose(found[f"fig4.2/text/{name}/ov_deviation"], [w] * 2)
        np.testing.assert_allclose(found[f"fig4.2/code/{name}/omega_product"], [200 * w * w])
    found = extensions.small_records(code["square"], text["tanh"])
    np.testing.assert_allclose(found["fig4.2/c0.3/affine/omega_product"], [8.0])
    np.testing.assert_allclose(found["fig4.2/c0.1/affine/ov_deviation"], [0.3] * 2)
    pair, one_sign = still([[0.2, -0.2]] * 2, [[1.0, -1.0]] * 2), still([[0.2, 0.2]], [[1.0, 1.0]])
    off = still([[0.2, -0.2]], [[1.0, -1.0]], kq_noise=0.2)
    assert extensions.formed(pair, one_sign, off) == {"fig4.2/affine/formed": [2, 0, 0]}
    losses = [np.array(v) for v in ([[9.0], [1.0], [3.0]], [[9.0], [4.0], [2.0]])]
    assert extensions.worst_losses(*losses) == {"fig4.2/affine/worst_loss": [3.0, 4.0]}


def two_head_group(gamma: float, mu: float) -> dict[str, np.ndarray]:
    """A run whose heads are exactly a pair."""
    return synthetic([[[gamma, -gamma]]], [[[mu, -mu]]])


def test_a_pair_of_small_gamma_is_a_debiased_step_in_rate_and_error():
    """At gamma near 0 and half the best rate: its error is that of the half step, and nothing is left unexplained."""
    prompts, best = theory.draw_prompts(512, D, L, S2, seed=3), theory.eta_star(D, L, S2)
    gamma = 1e-3
    group = two_head_group(gamma, best / 2 / (2 * gamma))
    results = Results({f"h2/{k}": v for k, v in group.items()}, {})
    found = activations.compare(results, "h2", prompts, best)
    step = theory.debiased_gd(1.0, prompts.x, prompts.y, prompts.x_q)
    apart = (best / 2 * step - prompts.y_q) ** 2 - (best * step - prompts.y_q) ** 2
    np.testing.assert_allclose(found.excess, [apart.mean()], rtol=1e-3)
    np.testing.assert_allclose(found.excess_error, [apart.std(ddof=1) / np.sqrt(512)], rtol=1e-3)
    assert found.debiased[0] < 1e-4 < found.vanilla[0]
    runs = {name: pairs([0.1, 0.2], [1.0, 2.0]) for name in activations.SLOPES}
    values = activations.step_records(dict.fromkeys(activations.SLOPES, found), runs, best)
    np.testing.assert_allclose(values["activation/softmax/rate"], [0.2, 0.8])
    np.testing.assert_allclose(values["activation/square/rate"], [0.4, 1.6])
    np.testing.assert_allclose(values["activation/tanh/rate"], [0.2, 0.8])
    assert values["activation/square/rate_sd"] == pytest.approx(1.2 / np.sqrt(2))
    assert values["activation/eta_star"] == best
    shares = [
        activations.Steps(*np.array([[0.0, 0.0], [0.1, 0.1], [s, 2 * s], [3 * s, s]]))
        for s in (0.1, 0.2, 0.3)
    ]
    values = activations.step_records(dict(zip(activations.SLOPES, shares, strict=True)), runs, best)
    np.testing.assert_allclose(values["activation/debiased"], [0.2, 0.4, 0.6])
    np.testing.assert_allclose(values["activation/vanilla"], [0.3, 0.6, 0.9])


def test_the_slope_of_each_activation_is_its_effective_rate():
    """C_f of the paper: two heads of small gamma step by 2 C_f |omega| |mu|."""
    prompts, gamma = theory.draw_prompts(64, D, L, S2, seed=4), 1e-4
    step = theory.debiased_gd(1.0, prompts.x, prompts.y, prompts.x_q)
    for name, slope in activations.SLOPES.items():
        group = activations.GROUPS[name]
        results = Results({f"{group}/{k}": v for k, v in two_head_group(gamma, 1 / gamma).items()}, {})
        expected = 2 * slope
        found = activations.compare(results, group, prompts, expected)
        assert abs(found.excess[0]) < 1e-2 * np.mean((expected * step - prompts.y_q) ** 2)


def test_linear_attention_in_closed_form_and_frozen():
    import torch

    linear = still([[0.9]], [[1.0]])
    exact = theory.linear_attention_error(0.9, D, np.array([40, 80]), S2, train_L=L)
    np.testing.assert_allclose(predictor.linear_closed(linear, np.array([40, 80]), D, L, S2), exact)
    group = synthetic([[[0.9]]], [[[1.0]]])
    results = Results({f"linear/{k}": v.astype(np.float32) for k, v in group.items()}, {})
    found = predictor.frozen_linear(results, np.array([40, 80]), D, L, S2, torch.Generator().manual_seed(0))
    assert np.all(np.abs(found.mean - exact) < 5 * found.prompts)
    assert found.prompts[1] < 0.05 * found.mean[1]


@pytest.mark.parametrize(("steps", "batches", "lengths"), [(100_000, 64, 19), (99_999, 4, 3)])
def test_full_trainings_are_measured_on_more_prompts(monkeypatch, steps, batches, lengths):
    """From 100,000 steps on; means and errors stay apart, by group and length."""
    asked = []

    def errors(study, histories, length, n_batches):
        asked.append((length, n_batches))
        return {name: (np.array([length, 2.0]), np.array([0.1, 0.2])) for name in histories}

    monkeypatch.setattr(evaluation, "squared_errors", errors)
    study = dataclasses.replace(studies("paper")["multitask_text"], steps=steps)
    found = evaluation.final_multitask_error(study, {"h1": None})
    assert asked == [(study.data.L, batches)]
    np.testing.assert_array_equal(found["h1/error"], [study.data.L, 2.0])
    np.testing.assert_array_equal(found["h1/error_se"], [0.1, 0.2])
    asked.clear()
    found = evaluation.error_by_length(study, {"h1": None})
    assert (len(asked), {n for _, n in asked}) == (lengths, {batches})
    np.testing.assert_array_equal(found["h1/error"], [[length, 2.0] for length, _ in asked])
    assert found["h1/error_se"].shape == (lengths, 2)
    assert (found["h1/lengths"][0], found["h1/lengths"][-1]) == (10, 100)


# -- studies and pages ------------------------------------------------------------------------------------------------


def test_smoke_runs_are_short():
    """Prompts that all their runs see together: more than twice as many could be a slip."""
    prompts = sum(
        s.steps * s.batch_size * sum(len(g.runs) for g in s.groups)
        for s in studies("smoke").values()
        if isinstance(s, Study)
    )
    assert 450_000 < prompts < 900_000


def test_every_study_is_of_the_documents_batch_unless_it_says_otherwise():
    makers = (
        s.isotropic,
        s.reduced,
        s.activations_coded,
        s.activations_small,
        s.nonisotropic,
        s.multitask,
        s.variations,
    )
    assert {inspect.signature(maker).parameters["batch_size"].default for maker in makers} == {256}


def test_eight_heads_have_one_seed():
    runs = {group.name: len(group.runs) for group in studies("paper")["isotropic"].groups}
    assert runs["h8"] == 1 < runs["h4"]


def test_variations_change_one_thing_at_a_time():
    usual, other, noisy = (s.variations(which, 100, 4) for which in ("optimisers", "d10", "noisy"))
    assert usual.data == LinearRegression()
    assert other.data == LinearRegression(d=10)
    assert noisy.data == LinearRegression(noise_var=0.5)
    names = [{g.name: type(g.optimiser).__name__ for g in study.groups} for study in (usual, other, noisy)]
    assert names == [{"momentum": "Momentum", "adamw": "AdamW"}, {"adam": "Adam"}, {"adam": "Adam"}]
    assert dict(other.groups[0].kwargs) == {"d": 10, "n_heads": 2}


def test_the_flow_in_the_page_has_eight_starts():
    model = in_page.reduced_flow(D, L, S2)
    assert len({tuple(np.ravel(draw)) for draw in model.data["draws"]}) == in_page.DRAWS == 8


@pytest.mark.parametrize(("length", "shown"), [(40, 20), (12, 12)])
def test_a_page_shows_twenty_pairs_or_all(length, shown):
    group = synthetic([[[0.4]]], [[[1.0]]])
    results = Results({f"h{h}/{k}": v for h in (1, 2) for k, v in group.items()}, {})
    model = in_page.prompt(results, LinearRegression(L=length))
    assert model.data["shown"] == shown
    assert model.data["pairs"].shape == (length, 2)
    assert model.title
    assert model.description


def test_the_table_of_settled_heads_shows_the_mean_of_the_end():
    steps = np.arange(1, 101)
    late = (steps >= 90)[:, None, None]
    omega, mu = (np.where(late, [[end, -end]], 9.0) for end in (0.13, 3.5))
    table = settled(Heads(steps, omega, mu, np.zeros_like(mu), np.zeros_like(mu)))
    assert [list(row.values()) for row in table.rows] == [["ω", "0.13", "-0.13"], ["μ", "3.50", "-3.50"]]
    assert list(table.columns.values()) == ["quantity", "head 1", "head 2"]
