"""nagy2026: standard errors of known spreads, what q-depth counts, and keys and printed numbers in one place."""

from __future__ import annotations

import numpy as np
import pytest
from nagy2026.kit import (
    PRINTED_CHANGE,
    STUDIES,
    ablation_results,
    mask_results,
)
from scipy import stats

from iclbook.papers.nagy2026.measures import ablation, diversity, dynamics, guided, masks, shared
from iclbook.papers.nagy2026.theory import probe, reweighting
from iclbook.statistics import share_error


def test_errors_of_section_9_1_are_those_of_known_spreads():
    values = masks.mask_records(mask_results(PRINTED_CHANGE))
    for mask in ("spectral", "random", "redundant"):  # a change that spreads by 0.4 over 20 seeds
        assert values[f"9.1/{mask}_change_se"] == pytest.approx([0.4 / np.sqrt(20)] * 10, rel=1e-3)
    assert values["9.1/spectral_worst_share_se"] == 0  # every seed has the printed order
    near = masks.mask_records(mask_results(PRINTED_CHANGE | {"redundant": PRINTED_CHANGE["spectral"]}, 5.0))
    # either mask may be the worst, in all ten settings at once, which have the same numbers here
    assert 0.3 < near["9.1/spectral_worst_share_se"] <= 0.51


def test_errors_of_section_9_5_pair_the_seeds():
    """Models and contexts share their noise but for a little: the error is that of the little."""
    rng = np.random.default_rng(2)
    shared, own = rng.standard_normal(20), 0.01 * rng.standard_normal((2, 3, 20))
    errors = {
        "baseline": np.array([[0.5], [0.2], [0.1]]) * (1 + 0.1 * shared + own[0]),
        "guided": np.array([[0.4], [0.1], [0.02]]) * (1 + 0.1 * shared + own[1]),
    }
    layers = np.array([[0.1], [0.2], [0.4], [0.7]]) + shared  # all layers move together
    losses = {"baseline": 1 + own[0, 0], "guided": 1 + own[1, 0]}
    values = guided.guided_records(
        "fresh", guided.Guided(errors, losses, layers, layers * [[1], [1], [1], [2]])
    )
    assert values["9.5/fresh/improvement_se"] == pytest.approx(0.2 * 0.01 * np.sqrt(2 / 20), rel=0.4)
    draws = rng.integers(20, size=(3000, 20))
    again = 1 - errors["guided"][:, draws].mean(-1) / errors["baseline"][:, draws].mean(-1)
    assert values["9.5/fresh/improvement_growth_se"] == pytest.approx(np.diff(again, axis=0).std(1), rel=0.1)
    assert values["9.5/fresh/sink_rise_se"] == pytest.approx([0.0] * 3, abs=1e-14)
    assert values["9.5/fresh/scale_rise_se"] == pytest.approx([0, 0, stats.sem(shared)], abs=1e-14)


def test_what_q_depth_counts():
    """Five settings: depth hurts late only, early only, diverges once, never hurts, and a baseline that does not learn."""
    steps, ones = np.array([0, 500, 1000, 2000]), np.ones((4, 2))

    def course(*ratios: float) -> np.ndarray:
        return np.array(ratios)[:, None] * ones

    gone = course(1, 0.5, 0.5, 0.5)
    gone[-1, 0] = np.inf
    pairs = {
        "late": (ones, course(1, 0.5, 0.5, 2)),
        "early": (ones, course(1, 2, 0.5, 0.5)),
        "diverges": (ones, gone),
        "never": (ones, course(1, 0.5, 2, 0.5)),
        "learns little": (1.84 * ones, course(9, 9, 9, 9)),
    }
    grid = ablation.DepthGrid(steps, pairs, dict.fromkeys(pairs, 2.0) | {"learns little": 2.0})
    values = ablation.depth_records(grid)
    counts = {
        k: values[f"q-depth/{k}"]
        for k in ("settings", "learning", "final_hurt", "early_hurt", "diverged", "pairs")
    }
    assert counts == {
        "settings": 5,
        "learning": 4,
        "final_hurt": 1,
        "early_hurt": 1,
        "diverged": 1,
        "pairs": 8,
    }
    assert values["q-depth/final_ratio"] == pytest.approx([2, 0.5, 0.5, 0.5])
    assert values["q-depth/early_ratio"] == pytest.approx([0.5, 2, 0.5, 0.5])
    assert values["q-depth/share"] == pytest.approx((2 + 0 + 1 + 0) / 8)
    assert grid.learns("late")
    assert not grid.learns("learns little")  # 0.92 of the answer 0


def test_the_answer_0_of_a_grid_is_the_variance_of_its_task():
    _, _, grid = ablation_results()
    assert (
        {grid.zero[name] for name in grid.pairs if "d = 8," in name}
        == {STUDIES["ablation_d8"].data.variance}
        == {2.0}
    )


def test_errors_of_q_depth_take_finite_seeds_in_pairs_and_settings_alike():
    base = np.array([[1.0, 2.0, 3.0, 4.0]] * 5)
    depth = 1.5 * base
    depth[:, 1] += 0.3
    depth[-1, 3] = np.nan  # diverges, which counts as hurt
    alone = (base[:, :1], 0.5 * base[:, :1])
    grid = ablation.DepthGrid(np.arange(5), {"a": (base, depth), "b": alone}, {"a": 10.0, "b": 10.0})
    values = ablation.depth_records(grid)
    mean, ratio = 2.0, (1.5 + 3.3 + 4.5) / 6
    terms = (depth[0, :3] - ratio * base[0, :3]) / mean
    assert values["q-depth/final_ratio"] == pytest.approx([ratio, 0.5])
    assert values["q-depth/final_ratio_se"] == pytest.approx([stats.sem(terms), 0.0])
    assert values["q-depth/early_ratio_se"] == pytest.approx(values["q-depth/final_ratio_se"])
    assert values["q-depth/share"] == 0.5
    assert values["q-depth/share_se"] == pytest.approx(np.hypot(share_error(4, 4), share_error(0, 1)) / 2)


def test_errors_of_untrained_samples():
    found = probe.search(20)
    assert found["chance_se"] == share_error(round(20 * found["chance"]), 20)
    values = reweighting.measure(seeds=40)

    def bias(seed: int, beta: float) -> float:
        data = reweighting.examples(20, 0.5, seed, 0.7)
        return abs(reweighting.reweighted_optimum(data, beta) - data.optimum)

    further = np.array([[bias(seed, beta) for beta in (0.5, 1.0, 2.0)] for seed in range(40, 1640)])
    # over 40 further samples the spread of the median is known to 11 %, and the bootstrap of one sample to some 30 %
    assert values["bias_se"] == pytest.approx(np.median(further.reshape(40, 120), 1).std(), rel=0.6)
    assert 0 < values["plain_residual_se"] < 0.2 * values["plain_residual"]
    assert 0.005 < values["linear_outside_se"] < 0.05


def test_values_and_the_keys_that_they_are_recorded_by_are_the_same():
    assert shared.under(("9.6/same/t", "9.6/same/z"), {"z": 1, "t": 2}) == {"9.6/same/z": 1, "9.6/same/t": 2}
    for values in ({"t": 2}, {"t": 2, "z": 1, "base_z": 0}):
        with pytest.raises(ValueError, match="keys of"):
            shared.under(("9.6/same/t", "9.6/same/z"), values)


def test_printed_numbers_of_figures_and_rules_are_those_of_the_tables():
    """As they stand in the paper's tables, typed here a second time."""
    assert masks.MASK_ERRORS == {"none": 5.77, "spectral": 5.99, "random": 5.83, "redundant": 5.87}
    assert guided.PRINTED_ERRORS == {"baseline": (0.512, 0.232, 0.176), "guided": (0.360, 0.096, 0.035)}
    assert guided.PRINTED_SINKS == (0.165, 0.255, 0.301, 0.335)
    assert guided.PRINTED_SCALES == (0.786, 0.790, 0.740, 0.728)
    assert diversity.ROUND_1["8heads_tiny"] == (2.47, 2.46)
    assert diversity.ROUND_1["small_strong"] == (2.70, 2.67)
    assert diversity.ROUND_3["oracle"] == (3.94, 1.34)
    assert ablation.PRINTED_ABLATION["ortho"][1] == (1.810, 0.261)
    assert dynamics.PRINTED["alignment"] == (-0.18, 0.13, 0.26, 0.50)
