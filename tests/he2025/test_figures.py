"""The records of He et al. 2025's figures on runs whose right records are known by hand: one test an estimator."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from he2025.circuits_kit import heads, pairs, still, synthetic
from scipy.special import softmax

from iclbook import theory
from iclbook.papers.he2025 import (
    circuits,
    figure_2_7,
    figure_3_1,
    figures_2_4_and_2_5,
    figures_3_2_to_3_5,
    figures_4_1_and_4_2,
    learning_rates,
    loss,
    theorem_1,
    trained_circuits,
)
from iclbook.papers.he2025.circuits import read_heads, with_both_signs
from iclbook.statistics import student
from iclbook.store import Results
from iclbook.tasks import LinearRegression

D, L, S2 = 5, 40, 0.1


def stored(labels: dict[str, dict] | None = None, **groups: dict) -> Results:
    """Results whose groups are these, with their labels."""
    arrays = {f"{name}/{key}": array for name, group in groups.items() for key, array in group.items()}
    described = [{"name": name, "labels": [*of.items()]} for name, of in (labels or {}).items()]
    return Results(arrays, {"device": "cpu", "seconds": 60.0, "config": {"groups": described}})


# -- standard errors --------------------------------------------------------------------------------------------------


def test_largest_over_smallest_group():
    below, middle, above = np.array([1.0, 3.0]), np.array([2.9, 3.1]), np.array([3.0, 5.0])
    found = circuits.largest_ratio([below, middle, above])  # 4 +- 1 over 2 +- 1; the middle one counts for nothing
    assert (found.value, found.error) == (2.0, pytest.approx(2 * np.hypot(1 / 4, 1 / 2) * student(2)))


# -- Figures 1 to 2.8 -------------------------------------------------------------------------------------------------


def test_ineffective_entries_change_nothing_and_the_others_do():
    rng = torch.Generator().manual_seed(1)
    example = trained_circuits.example(3, 8, rng, prompts=16)
    found = trained_circuits.effective_entries(example, rng)
    assert found["fig1/ineffective_change"] == 0.0
    assert found["fig1/effective_change"] > 0.01


def test_a_pattern_counts_from_when_it_is_kept():
    deviation = np.zeros((5, 2, 2))
    deviation[[0, 2], 0, 1] = 0.3  # run 0 loses its pattern once more at the third record
    deviation[-1, 1, 0] = 0.3  # run 1 ends without
    h = pairs([0.1, 0.2])
    broad = (np.broadcast_to(v[-1], (5, *v.shape[1:])) for v in (h.omega, h.mu))
    h = circuits.Heads(np.array([0, 10, 20, 30, 100]), *broad, deviation, np.zeros_like(deviation))
    assert trained_circuits.pattern_share(h).tolist() == [0.3, 1.0]


def test_a_head_that_fades_fades_out_of_the_spread():
    """Weights of 3/4 and 1/4 on 8/7 and 4/7 of the mean: a deviation of 1/7 and of 3/7. A head with a millionth of the mu changes nothing."""
    omega, mu = np.array([[0.2, -0.1], [0.2, -0.1]]), np.array([[3.0, -1.0], [3.0, -3e-6]])
    expected = np.sqrt(0.75 / 49 + 0.25 * 9 / 49)
    np.testing.assert_allclose(circuits.weighted_spread(omega, mu), [expected, 0.0], atol=1e-3)
    assert circuits.mismatch(np.array([0.2, -0.2, 0.1]), np.array([3.0, -1.0, -2.0])) == pytest.approx(0.2)
    found = circuits.typical(np.array([1.0, np.nan, 3.0]), np.array([5.0, 7.0, 9.0]))
    assert (found.value, found.error) == (5.0, 4.0)  # half of the whole range: five runs


def test_a_course_is_early_peaked_and_steady():
    """Of three pairs one peaks, one stays at its scale, and in one the sum of positive mu falls by a half; the pattern is there from the start."""
    scale = np.array([[1.5, 1.0, 1.5], [2.0, 1.0, 2.0], [1.0, 1.0, 1.0]])[..., None] * [0.1, -0.1]
    weight = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 3.0], [2.0, 2.0, 2.0]])[..., None] * [1.0, -1.0]
    h = heads(scale, weight, steps=[0, 50, 100])
    found = trained_circuits.finding_4({"text": ({2: h}, {2: h})})
    assert found["kf4/text/course"].value == pytest.approx(1 / 3)
    assert found["kf4/text/pattern"].value == 0.0
    np.testing.assert_allclose(trained_circuits.peak(h), [2.0, 1.0, 2.0])
    np.testing.assert_allclose(trained_circuits.fall(h), [0.0, 0.0, 0.5])


def test_endings_are_counted_by_how_the_heads_start_to_grow():
    """Four runs of two heads: mu start apart in the first two, omega + mu grow apart in the first three; the last alone ends with one sign."""
    omega = np.array([[[0.1, -0.1]] * 4, [[0.1, -0.1]] * 3 + [[0.1, 0.1]], [[0.1, -0.1]] * 3 + [[0.1, 0.1]]])
    mu = np.array([[[1.0, -1.0]] * 2 + [[1.0, 1.0]] * 2, *[[[1.0, -1.0]] * 3 + [[1.0, 1.0]]] * 2])
    adam = dict.fromkeys((2, 3, 4), heads(omega, mu, steps=[0, 24, 100]))
    descent = {h: {"start": mu[0] * 1.0, "omega": omega[-1], "mu": mu[-1]} for h in (2, 3, 4)}
    assert [*figure_2_7.starts_decide(adam, descent).values()][1:] == [(0.0, 1.0), (0.0, 0.5)]


def test_the_law_of_gamma_is_found_where_it_was_put_in():
    """gamma = 0.7 (rate / sqrt(batch))^0.2 at the two larger rates; the lowest is left out."""
    settings = {
        b: {r: pairs([0.7 * (r / np.sqrt(b)) ** 0.2 if r >= 1e-3 else 9.0] * 2) for r in learning_rates.RATES}
        for b in (64, 256, 1024)
    }
    power, start, off = learning_rates.temperature_law(settings)
    assert power.value == pytest.approx(0.2)
    assert np.exp(start) == pytest.approx(0.7)
    assert max(power.error, off) < 1e-9


def test_a_line_in_the_approximate_loss_is_tracking_it():
    """One run twice its approximation and .1: nothing is left; one whose loss is independent of it: all is."""
    approx = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    true = np.array([[2.1, 4.1, 6.1], [1.0, 2.0, 1.0]])
    found = {"approx": approx, "true": true, "lengths": np.array([40, 10_000])}
    found |= {"gap": np.array([0.09, 0.001]), "excess_gap": np.array([0.1, 0.1])}
    left = theorem_1.approximation_records(found, D, S2)
    np.testing.assert_allclose(left["approx/unexplained"].value, [0.0, 1.0], atol=1e-12)
    assert left["approx/below_most"] == pytest.approx((3.1 + 0.0) / 2)
    assert left["approx/below_end"] == pytest.approx((3.1 - 2.0) / 2)


def test_runs_of_one_sign_are_left_out_of_pairs():
    """Of three runs of two heads the second has one sign; a lone head stays; without any pair all stay."""
    omega = [[[0.1, -0.1], [0.5, 0.4], [0.2, -0.2]]] * 3
    three = synthetic(omega, [[[1.0, -1.0], [1.0, 1.0], [2.0, -2.0]]] * 3)
    three |= {"error": np.array([[1.0, 9.0, 3.0]]), "lengths": np.array([40])}
    none = synthetic([[[0.1, 0.1], [0.2, 0.2]]] * 3, [[[1.0, 1.0], [1.0, 1.0]]] * 3)
    labels = {"h2": {"n_heads": 2}, "h1": {"n_heads": 1}, "code_h2": {"n_heads": 2, "score_scale": "code"}}
    results = stored(labels, h1=synthetic([[[0.3], [0.4]]] * 3, [[[1.0], [1.0]]] * 3), h2=three, code_h2=none)
    paired = with_both_signs(results)
    np.testing.assert_allclose(paired["h2/error"], [[1.0, 3.0]])
    np.testing.assert_allclose(read_heads(paired.group("h2")).omega[-1], [[0.1, -0.1], [0.2, -0.2]])
    for name in ("h1", "code_h2"):
        np.testing.assert_array_equal(paired[f"{name}/kq"], results[f"{name}/kq"])
    assert list(circuits.read_counts(paired)) == [1, 2]
    coded = circuits.read_counts(paired, 0.5, score_scale="code")
    np.testing.assert_allclose(coded[2].omega[-1, 0], [0.05, 0.05])


# -- predictors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["softmax", "square"])
def test_predictions_by_blocks_are_those_of_all_prompts_at_once(activation):
    rng = np.random.default_rng(0)
    kq, ov = rng.normal(size=(2, 3, 6, 6)) / 3, rng.normal(size=(2, 3, 1, 6))  # two runs of three heads
    prompts = theory.sample_prompts(2 * figures_2_4_and_2_5.BLOCK + 3, 5, 8, 0.1, seed=1)
    tokens = np.concatenate([prompts.x, prompts.y[..., None]], -1)
    scores = np.einsum("bld,rhde,be->rbhl", tokens, kq[..., :5], prompts.x_q)
    weights = softmax(scores, -1) if activation == "softmax" else (1 + scores) ** 2
    weights = weights / weights.sum(-1, keepdims=True)
    expected = np.einsum("rbhl,rhd,bld->rb", weights, ov[:, :, 0], tokens)
    found = figures_2_4_and_2_5.attended(kq, ov, prompts, activation)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_prediction_is_explained_by_a_multiple_of_itself():
    gd, other = np.random.default_rng(0).normal(size=(2, 64))
    assert figures_2_4_and_2_5.unexplained(3 * gd, gd) == pytest.approx(0.0, abs=1e-12)
    other -= gd * (gd @ other) / (gd @ gd)
    assert figures_2_4_and_2_5.unexplained(other, gd) == pytest.approx(1.0)
    assert figures_2_4_and_2_5.unlike_pair(gd, 0.9 * gd) == pytest.approx(0.01)


def test_a_curve_knows_seeds_and_prompts_apart():
    group = {"lengths": np.array([40]), "error": np.array([[1.0, 3.0]]), "error_se": np.array([[0.1, 0.3]])}
    results = stored(h2=group, h8=group | {"error": np.array([[4.0]]), "error_se": np.array([[0.5]])})
    two, eight = (figures_2_4_and_2_5.read_curve(results, name) for name in ("h2", "h8"))
    assert (two.at(40).value, two.at(40).error) == (2.0, pytest.approx(np.hypot(1.0, 0.2)))
    assert eight.seeds == pytest.approx(4.0 * np.sqrt(2) / 2), "a single run varies as two heads' do"


def test_a_small_pair_is_a_debiased_step_at_the_slope_of_its_activation():
    """Two heads of small gamma step by 2 C_f |omega| |mu|: their error is that of such a step."""
    prompts, gamma = theory.sample_prompts(256, D, L, S2, seed=4), 1e-4
    group = synthetic([[[gamma, -gamma]]], [[[1 / gamma, -1 / gamma]]])
    step = theory.debiased_gd(1.0, prompts.x, prompts.y, prompts.x_q)
    results = stored(h2=group, square=group, tanh=group)
    for name, slope in figures_4_1_and_4_2.SLOPES.items():
        found = figures_4_1_and_4_2.compare(results, prompts, 2 * slope)[name]
        assert abs(found["excess"][0]) < 1e-2 * np.mean((2 * slope * step - prompts.y_q) ** 2)
        assert found["debiased"][0] < 1e-4 < found["vanilla"][0]


def test_linear_attention_in_closed_form_and_frozen():
    task, lengths = LinearRegression(), np.array([40, 80])
    exact = theory.vanilla_gd_error(0.9 * lengths / L, D, lengths, S2)
    np.testing.assert_allclose(figures_4_1_and_4_2.linear_closed(still([[0.9]], [[1.0]]), lengths, task), exact)
    results = stored(linear={k: v.astype(np.float32) for k, v in synthetic([[[0.9]]], [[[1.0]]]).items()})
    found = figures_4_1_and_4_2.frozen_linear(results, lengths, task, torch.Generator().manual_seed(0))
    assert np.all(np.abs(found.mean - exact) < 5 * found.prompts)


def test_the_distance_of_courses_is_to_the_nearer_polynomial():
    def trajectory(*powers: float) -> circuits.Heads:  # log gamma of run r grows by powers[r] a step
        gamma = 0.1 * np.exp(np.array(powers)[:, None] * np.arange(2)[:, None, None]) * np.array([1.0, -1.0])
        return heads(gamma, np.sign(gamma))

    softmax = trajectory(0.0, 0.0)
    by_name = {"affine": trajectory(4.0), "square": trajectory(2.0, 2.0, 2.0), "tanh": trajectory(1.0, 1.0, 1.5)}
    tanh = np.log(np.mean(np.exp([1.0, 1.0, 1.5])))
    found = figures_4_1_and_4_2.nearer(by_name | {"softmax": softmax})
    assert found.value == pytest.approx(tanh / 2)
    left = [np.mean(np.exp(kept)) for kept in ([1.0, 1.5], [1.0, 1.5], [1.0, 1.0])]
    expected = student(3) * np.sqrt(2 * np.var(np.log(left) / 2))  # only tanh's runs differ, and runs are not paired
    assert found.error == pytest.approx(expected)


# -- closed forms -----------------------------------------------------------------------------------------------------


def test_the_manifold_is_where_minimisation_ends():
    manifold = learning_rates.solution_manifold(6, D, L, S2)
    found = learning_rates.manifold_records(manifold, D, L, S2)
    assert found["manifold/mu_error"] < 1e-8
    assert found["manifold/approx_rise"] > 0
    assert theorem_1.best_rate(D, L, S2) == pytest.approx(loss.eta_star(D, L, S2), abs=1e-6)
    risk = theorem_1.risk_records(D, L, S2)
    assert risk["thm1.3/total_excess"] <= 1e-12 < 1 < risk["thm1.3/excess_excess"]
    assert risk["gdcoincide/near"] > 10 * risk["gdcoincide/far"]


# -- Figures 3 --------------------------------------------------------------------------------------------------------


def multi_heads(omega, mu) -> figures_3_2_to_3_5.MultiHeads:
    """Two-task heads with these omega by feature group ``(R, H, 3)`` and mu ``(R, H, 2)``."""
    omega, mu = np.repeat(np.asarray(omega, dtype=float), 2, -1), np.asarray(mu, dtype=float)
    kq = np.pad(omega, ((0, 0), (0, 0), (0, 2)))[..., None] * np.eye(8)
    group = {"steps": np.arange(1), "kq": kq[None], "ov": (mu[..., None] * np.eye(2, 8, 6))[None]}
    return figures_3_2_to_3_5.read_multi_heads(group, 1.0)


@pytest.mark.parametrize(("smaller", "serves"), [(0.15, 1), (0.1, 0), (0.05, 0)])
def test_a_head_serves_a_task_above_a_tenth_of_the_largest_mu(smaller, serves):
    mu = [[[10.0, 0.0], [0.0, 4.0], [5.0, -10 * smaller]]]
    assert figures_3_2_to_3_5.opposite_heads(multi_heads(np.ones((1, 3, 3)), mu)).tolist() == [serves]


def test_four_heads_of_two_tasks_and_their_sums():
    """A pair for each task with unit steps; in the second run one head of task 1 also serves task 2, with half its mu, and leaks off its support."""
    omega = np.array([[[0.5, 0.5, 0], [-0.5, -0.5, 0], [0, 0.5, 0.5], [0, -0.5, -0.5]]] * 2)
    mu = np.array([[[1.0, 0], [-1, 0], [0, 1], [0, -1]]] * 2)
    mu[1, 0, 1], omega[1, 0, 2] = 0.5, 0.2
    runs = multi_heads(omega, mu)
    found = figures_3_2_to_3_5.four_heads(runs, runs)
    np.testing.assert_allclose(found["sum_off"].value, [0.0, 0.2, 0.0, 0.25])
    assert found["exclusive"].value == 0.5
    mu[1] = [[1.0, 0], [1, 0], [0, 1], [0, -1]]  # two positive heads of task 1
    assert figures_3_2_to_3_5.exclusive(multi_heads(omega, mu)).tolist() == [True, False]
    np.testing.assert_allclose(found["mu_omega"].value, [1.0, 1.0, 1.0, 1.175])
    assert found["mu_omega"].error == pytest.approx(np.sqrt((0.175 / np.sqrt(2)) ** 2 / 2))


def test_a_small_pair_makes_its_displayed_step_and_no_other():
    """omega = +-.02 and mu = +-20 make the step of rate .8 along all features; one along the first two explains less."""
    kq, ov = np.zeros((1, 1, 2, 6, 6)), np.zeros((1, 1, 2, 1, 6))
    for h, sign in enumerate((1, -1)):
        kq[0, 0, h, :5, :5], ov[0, 0, h, 0, 5] = sign * 0.02 * np.eye(5), sign * 20.0
    arrays = {"h2/kq": kq.astype("f4"), "h2/ov": ov.astype("f4")}
    step, task = 0.8 * np.eye(5)[None, None], LinearRegression()
    assert figure_3_1.unlike_step(arrays, "h2", step, task, 1.0, prompts=512)[0] < 1e-3
    assert figure_3_1.unlike_step(arrays, "h2", step * (np.arange(5) < 2), task, 1.0, prompts=512)[0] > 0.3


def test_a_pair_has_formed_where_both_matrices_have_the_form_and_signs_differ():
    off = np.array([[0.01, 0.09], [0.01, 0.2], [0.01, 0.02], [0.05, 0.05]])
    omega = np.array([[1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-2.0, 1.0]])
    h = SimpleNamespace(settled=lambda of: of, kq_deviation=off, ov_deviation=0 * off, omega=omega)
    assert figures_4_1_and_4_2.formed(h) == 2
    assert figures_4_1_and_4_2.formed(SimpleNamespace(**vars(h) | {"kq_deviation": 0 * off, "ov_deviation": off})) == 2
