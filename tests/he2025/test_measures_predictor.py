"""The records of he2025 on runs whose right records are known by hand: predictor, closed forms, extensions; and where keys are written."""

from __future__ import annotations

import re

import numpy as np
import pytest
from he2025.circuits_kit import heads, pairs
from ledgers import ROOT

from iclbook.papers.he2025 import theory
from iclbook.papers.he2025.measures import closed_forms, extensions, multitask_records, predictor, slips
from iclbook.papers.he2025.measures.circuits import Heads, MultiHeads
from iclbook.store import Results

GROUPS = ((0, 1), (2, 3), (4, 5))


# -- the predictor ----------------------------------------------------------------------------------------------------


def curve(mean, seeds=0.0, prompts=0.0) -> predictor.Curve:
    mean = np.asarray(mean, dtype=float)
    return predictor.Curve(mean, np.full_like(mean, seeds), np.full_like(mean, prompts))


LENGTHS = np.array([10, 40, 100])


@pytest.mark.parametrize("activation", ["softmax", "square"])
def test_predictions_by_blocks_are_those_of_all_prompts_at_once(activation):
    dice = np.random.default_rng(0)
    kq, ov = dice.normal(size=(2, 3, 6, 6)) / 3, dice.normal(size=(2, 3, 1, 6))  # two runs of three heads
    prompts = theory.draw_prompts(2 * predictor.BLOCK + 3, 5, 8, 0.1, seed=1)
    tokens = np.concatenate([prompts.x, prompts.y[..., None]], -1)
    scores = np.einsum("bld,rhde,be->rbhl", tokens, kq[..., :5], prompts.x_q)
    weights = theory.softmax(scores) if activation == "softmax" else (1 + scores) ** 2
    weights = weights / weights.sum(-1, keepdims=True)
    expected = np.einsum("rbhl,rhd,bld->rb", weights, ov[:, :, 0], tokens)
    np.testing.assert_allclose(
        predictor.attended(kq, ov, prompts, activation), expected, rtol=1e-9, atol=1e-12
    )


def test_a_curve_knows_seeds_and_prompts_apart():
    arrays = {"h2/error": np.array([[1.0, 3.0]]), "h2/error_se": np.array([[0.1, 0.3]])}
    arrays |= {"h8/error": np.array([[4.0]]), "h8/error_se": np.array([[0.5]])}
    two, eight = (predictor.read_curve(Results(arrays, {}), name) for name in ("h2", "h8"))
    assert (two.mean, two.seeds, two.prompts) == (2.0, pytest.approx(1.0), pytest.approx(0.2))
    assert two.error == pytest.approx(np.hypot(1.0, 0.2))
    assert eight.seeds == pytest.approx(4.0 * np.sqrt(2) / 2), "a single run varies as two heads' do"


def test_errors_by_length_known_by_hand():
    by_h = {1: curve([4, 2, 1]), 2: curve([2, 1, 0.5], 0.1, 0.2), 3: curve([2.2, 1, 0.5], 0.3, 0.4)}
    found = predictor.length_records(predictor.Curves(LENGTHS, by_h, curve([1, 1, 1])), 40)
    assert found["fig2.4/multi_spread"] == pytest.approx(0.1)
    assert found["fig2.4/multi_spread_se"] == pytest.approx(1.1 * np.hypot(0.1 / 2, 0.3 / 2.2)), (
        "prompts are common"
    )
    assert found["fig2.4/single_over_two"] == 2.0
    assert found["fig2.4/single_over_two_se"] == pytest.approx(2 * np.hypot(0.1, 0.2))
    assert found["fig2.4/length_ratio"] == [0.5] * 3


def test_gaps_to_estimators():
    two = curve([2.0, 1.1, 0.5], 0.1)
    by = predictor.Estimators(
        np.array([2, 1, 0.5]), np.array([2, 1.1, 0.4]), np.array([1, 0.8, 0.5]), np.full(3, 0.2)
    )
    curves = predictor.Curves(LENGTHS, {1: curve([2, 4, 0.5]), 2: two}, two)
    found = predictor.estimator_records(curves, by, 5, 40, 0.1)
    assert found["fig2.5/debiased_gap"] == pytest.approx(0.1)
    assert found["fig2.5/debiased_gap_se"] == pytest.approx(0.1)
    assert found["fig2.5/vanilla_gap"] == pytest.approx(0.25)
    assert found["fig2.5/vanilla_gap_se"] == pytest.approx(0.1 / 0.4)
    np.testing.assert_allclose(found["fig2.5/ridge_ratio"], [2.0, 1.375, 1.0])
    assert found["fig2.5/ridge_ratio_se"][0] == pytest.approx(2 * np.hypot(0.05, 0.2))
    assert found["fig2.5/single_gap"] == 3.0, "4 instead of 1"
    assert found["bayesfinite/ratio"] == pytest.approx(1.25)
    assert found["bayesfinite/ratio_se"] == pytest.approx(1.25 * 0.2 / 0.8)


def test_a_prediction_is_explained_by_a_multiple_of_itself():
    dice = np.random.default_rng(0)
    gd, other = dice.normal(size=(2, 64))
    assert predictor.unexplained(3 * gd, gd) == pytest.approx(0.0, abs=1e-12)
    other -= gd * (gd @ other) / (gd @ gd)
    assert predictor.unexplained(other, gd) == pytest.approx(1.0)
    assert predictor.unlike_pair(gd, 0.9 * gd) == pytest.approx(0.01)
    run, near = gd + 0.1 * other, gd + 0.2 * other
    found = predictor.predictor_records(
        predictor.Predictions(
            {2: np.stack([gd, gd]), 3: np.stack([run, run])}, {3: np.stack([gd, near])}, gd, other
        )
    )
    assert len(found["kf3/unexplained"]) == 4
    assert found["kf3/unexplained"][0] == pytest.approx(0.0, abs=1e-12)
    assert found["kf3/unexplained_vanilla"][0] == pytest.approx(1.0)
    share = (0.01 * other @ other) / (gd @ gd + 0.01 * other @ other)
    np.testing.assert_allclose(found["twohead/unexplained"], [share, share])
    assert found["twohead/unexplained_sd"] > 0, "other prompts give other shares, even where the runs agree"


def test_a_head_count_stands_on_the_manifold():
    """Runs whose positive mu is the manifold's at their gamma: ratio 1, whatever gamma is."""
    gamma = np.array([0.1, 0.1])
    mu = theory.manifold_mu(gamma, 5, 40, 0.1)
    found = predictor.scale_records({2: pairs(gamma, mu), 3: pairs(gamma, 2 * mu)}, 5, 40, 0.1)
    np.testing.assert_allclose(found["kf3/gamma_ratio"], [0.1 * np.sqrt(5)] * 2)
    np.testing.assert_allclose(found["twohead/mu_ratio"], [2.0])
    assert found["twohead/mu_ratio_se"] == [pytest.approx(0.0, abs=1e-12)]


def test_linear_over_softmax_attention():
    curves = predictor.Curves(LENGTHS, {2: curve([4, 2, 1])}, curve([9, 4, 5], 0.4))
    found = predictor.linear_records(curves, curve([1, 2, 6], prompts=0.3), 40)
    assert found["fig4.1/test/linear_ratio"] == 1.25
    assert found["fig4.1/frozen/linear_ratio"] == 3.0
    expected = 3 * np.hypot(np.hypot(0.3 / 6, 0.4 / 5), np.hypot(0.3 / 2, 0.4 / 4))
    assert found["fig4.1/frozen/linear_ratio_se"] == pytest.approx(expected)
    assert found["fig4.1/softmax_ratio"] == 0.5
    assert (found["qlength/over_softmax"], found["qlength/over_softmax_se"]) == (5.0, pytest.approx(0.4))


# -- closed forms -----------------------------------------------------------------------------------------------------


def test_the_first_run_is_recorded_and_the_others_say_how_it_varies():
    true = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    approx = true * [[0.9, 1.0, 1.05], [1.0, 0.7, 1.0]]
    found = closed_forms.Approximation(
        np.arange(3), true, approx, (10, 40, 100), np.array([0.3, -0.2, 0.1]), np.array([0.5, -0.4, -0.1])
    )
    values = closed_forms.approximation_records(found, 5, 0.1)
    assert values["approx/along_training"] == pytest.approx(0.1)
    assert values["approx/along_training_sd"] == pytest.approx(0.2 / np.sqrt(2))
    assert values["approx/signed_max"] == pytest.approx(0.05)
    assert values["approx/at_40"] == pytest.approx(0.2)
    assert values["approx/excess_fall"] == pytest.approx(0.25)
    assert values["approx/rank"] == pytest.approx(1.0)


def test_optimality_holds_and_vanilla_has_its_own_rate():
    found = closed_forms.optimality_records(5, 40, 0.1)
    assert found["thm1.2/eta_error"] < 1e-6
    assert found["thm1.2/below_limit"] > -1e-9
    assert found["eta/vanilla_40"] > 100 * max(found["eta/debiased"])


def test_missed_is_relative():
    target = np.array([3.0, -4.0])
    assert closed_forms.missed(1.1 * target, target) == pytest.approx(0.1)


# -- extensions -------------------------------------------------------------------------------------------------------


def test_only_runs_that_split_are_asked_for_their_shape():
    inverse = np.array([[2.0, -1.0], [-1.0, 2.0]])
    blocks = np.stack([[inverse, -inverse], [np.eye(2), np.eye(2)]])  # the second run has two positive heads
    rows = np.array([[[0.1, 0, 1.0], [0, 0, -2.0]], [[0, 0, 1.0], [0, 0, 1.0]]])
    linear = np.stack([np.eye(2), 1.1 * np.eye(2)])
    found = extensions.preconditioner_records(
        extensions.Preconditioners(blocks, rows, linear, inverse, np.eye(2))
    )
    np.testing.assert_allclose(found["fig3.1/linear"], [0.0, 0.1], atol=1e-12)
    assert found["fig3.1/linear_sd"] == pytest.approx(0.1 / np.sqrt(2))
    assert (found["fig3.1/runs"], found["fig3.1/both_runs"], found["fig3.1/both_share"]) == (2, 1, 0.5)
    np.testing.assert_allclose(found["fig3.1/to_inverse"], [0.0, 0.0], atol=1e-7)
    assert min(found["fig3.1/to_identity"]) > 0.1
    assert found["fig3.1/opposite"] == [0.0]
    np.testing.assert_allclose(found["fig3.1/ov_deviation"], [0.1, 0.0])
    alike = extensions.Preconditioners(blocks[1:], rows[1:], linear[:1], inverse, np.eye(2))
    assert extensions.preconditioner_records(alike) == {
        "fig3.1/linear": [0.0],
        "fig3.1/linear_sd": 0.0,
        "fig3.1/runs": 1,
        "fig3.1/both_runs": 0,
        "fig3.1/both_share": 0.0,
    }


def test_distance_of_courses_is_to_the_nearer_polynomial():
    def course(factor: float) -> Heads:
        gamma = 0.1 * factor ** np.arange(3)[:, None, None] * np.array([1.0, -1.0])
        return heads(np.tile(gamma, (1, 2, 1)), np.sign(gamma) + 0 * np.tile(gamma, (1, 2, 1)))

    softmax = course(1.0)
    by_name = {"affine": course(np.e**4), "square": course(np.e**2), "tanh": course(np.e)}
    assert extensions.nearer(by_name, softmax) == pytest.approx(0.5)
    found = extensions.dynamics_records(by_name, softmax, by_name, softmax)
    assert found["fig4.2/text/tanh_distance_se"] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(found["fig4.2/code/tanh_peak"], [1.0, 1.0])


def test_runs_of_the_courses_are_not_paired():
    def course(*powers: float) -> Heads:  # log gamma of run r grows by powers[r] a step
        gamma = 0.1 * np.exp(np.array(powers)[:, None] * np.arange(2)[:, None, None]) * np.array([1.0, -1.0])
        return heads(gamma, np.sign(gamma))

    softmax = course(0.0, 0.0)
    by_name = {"affine": course(4.0), "square": course(2.0, 2.0, 2.0), "tanh": course(1.0, 1.0, 1.5)}
    left = [np.mean(np.exp(kept)) for kept in ([1.0, 1.5], [1.0, 1.5], [1.0, 1.0])]
    expected = np.sqrt(2 * np.var(np.log(left) / 2))  # only tanh's runs differ
    assert extensions.nearer_error(by_name, softmax) == pytest.approx(expected)
    assert extensions.nearer_error(by_name, softmax) > 0


def multi_heads(omega, mu) -> MultiHeads:
    """Two-task heads with these omega by feature group ``(R, H, 3)`` and mu ``(R, H, 2)``."""
    omega, mu = np.asarray(omega, dtype=float), np.asarray(mu, dtype=float)
    return MultiHeads(
        np.repeat(omega, 2, -1), mu, GROUPS, np.full(mu.shape[:2], 0.1), np.full(mu.shape[:2], 0.2)
    )


def test_the_pattern_of_two_tasks_is_that_of_the_worst_active_head_and_run():
    one = multi_heads([[[1, 1, 1]], [[1, 1, 1]]], [[[1, 1]], [[1, 1]]])
    one.kq_deviation[:, 0] = 0.1, 0.5
    two = multi_heads([[[1, 1, 1], [0.001] * 3]] * 2, [[[1, 1], [0.001, 0]]] * 2)
    two.kq_deviation[:, 1] = 9.0  # a dummy head
    found = multitask_records.pattern({1: one, 2: two}, {1: two})
    np.testing.assert_allclose(found["multitask/text/kq_deviation"], [0.5, 0.1])
    np.testing.assert_allclose(found["multitask/text/kq_deviation_sd"], [0.4 / np.sqrt(2), 0.0], atol=1e-12)
    np.testing.assert_allclose(found["multitask/code/ov_deviation"], [0.2])


def test_four_heads_of_two_tasks():
    """A pair for each task with unit steps; in the second run one head of task 1 also serves task 2, with half its mu."""
    omega = [[[0.5, 0.5, 0], [-0.5, -0.5, 0], [0, 0.5, 0.5], [0, -0.5, -0.5]]] * 2
    mu = np.array([[[1.0, 0], [-1, 0], [0, 1], [0, -1]]] * 2)
    mu[1, 0, 1] = 0.5
    good = multi_heads(omega, mu)
    found = multitask_records.four_heads({4: good}, {4: good})
    assert found["fig3.4/text/mu_leak"] == [0.0, 0.5]
    assert found["fig3.4/text/mu_leak_sd"] == pytest.approx(0.5 / np.sqrt(2))
    assert found["fig3.4/text/support_leak"] == [0.0, 0.0]
    assert found["fig3.4/text/heads_per_cell"] == [1] * 8
    # task 1 in both runs, then task 2, which gains half of 0.5 on its shared features in the second run
    np.testing.assert_allclose(found["fig3.4/code/mu_omega"], [1.0, 1.0, 1.0, 1.125])
    pooled = np.sqrt((0.125 / np.sqrt(2)) ** 2 / 2)
    assert found["fig3.4/code/mu_omega_sd"] == pytest.approx(pooled)


def test_three_heads_in_superposition():
    omega = [[[1, 1, 0], [0, 1, 1], [-0.5, -1, -0.5]]] * 2
    mu = [[[1, 0], [0, 1], [1, -1]], [[1, 0], [0, 1], [0, 0]]]
    three = multi_heads(omega, mu)
    four = multi_heads(np.ones((1, 4, 3)), [[[1, 0], [-1, 0], [0, 1], [1, -1]]])
    found = multitask_records.three_heads({3: three, 4: four}, {3: three, 4: three})
    assert found["fig3.5/text/opposite_of_four"] == [1]
    assert found["fig3.5/code/opposite_of_four"] == [1, 0]
    assert found["fig3.5/text/opposite_heads"] == [1, 0]
    # (own, shared) of task 1 in both runs, then (shared, own) of task 2
    np.testing.assert_allclose(found["fig3.5/text/sum_on"], [0.5, 0, 1, 1, 2, 1.5, 1, 1])
    np.testing.assert_allclose(found["fig3.5/text/sum_off"], [-0.5, 0, 0.5, 0])
    squares = [0.5**2 / 2, 1 / 2, 1 / 2, 0.5**2 / 2]
    assert found["fig3.5/text/sum_on_sd"] == pytest.approx(np.sqrt(np.mean(squares)))
    first = {"h2/error": np.array([1.5, 4.4]), "h3/error": np.array([1.0, 1.1]), "h4/error": np.ones(2)}
    ratio = multitask_records.three_over_four(first, first)
    assert ratio["fig3.5/code/error_ratio_sd"] == pytest.approx(0.1 / np.sqrt(2))
    assert ratio["fig3.5/text/two_over_four"] == [1.5, 4.4]


# -- slips, keys ------------------------------------------------------------------------------------------------------


def test_captions_are_those_of_the_document():
    assert len(slips.CAPTIONS) == 17
    found = slips.figure_records()
    assert found == {"typo/repeated_numbers": 1, "typo/repeated_images": 3, "typo/wrong_references": 1}


def test_functions_of_the_chapter_stand_in_its_room():
    notebook = (ROOT / "notebooks/linear_regression.py").read_text()
    assert "def " not in re.sub(r"(?m)^#.*", "", notebook)
