"""Faster values: the measure on losses whose answer is known by hand, and what the factors of the runs reach."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from iclbook.papers import crossing
from iclbook.papers.crossing.measures import rates
from iclbook.papers.crossing.measures.rates import FACTOR, FIRST, MULTIPLES, TRIALS
from iclbook.store import Results

TIMES = np.arange(101.0)


def falling(speeds) -> np.ndarray:
    """Losses ``(101, base rates, S)`` that fall from 1 by ``speeds (base rates, S)`` a step."""
    return 1 - 0.005 * np.asarray(speeds, float) * TIMES[:, None, None]


def test_steps_are_those_to_the_level_interpolated():
    losses = np.array([[1.0, 1.0, 1.0, np.nan], [0.8, 0.9, np.nan, np.nan], [0.4, 0.8, np.nan, np.nan]])
    found = rates.steps_to(np.array([0.0, 10.0, 20.0]), losses, np.array([0.6, 0.5, 0.5, 0.5]))
    assert found == pytest.approx([15.0, np.inf, np.inf, np.inf])
    assert rates.steps_to(TIMES, np.zeros((101, 1)), np.ones(1)) == [1.0], "no less than a step"


def test_a_seed_does_not_choose_its_own_rate():
    steps = np.array([[10.0, 10.0, 1.0], [5.0, 5.0, 50.0]])  # the third seed likes the first rate best
    assert rates.at_best(steps, 100).tolist() == [10.0, 10.0, 50.0]
    steps = np.array([[10.0, 10.0], [2.0, np.inf]])
    assert rates.at_best(steps, 100).tolist() == [10.0, 100.0], "a run that does not get there has all steps"


def test_a_race_whose_ratios_are_known():
    losses = {
        "uniform": falling([[1, 1, 1], [2, 2, 2]]),
        "values": falling([[5, 5, 5], [1, 1, 1]]),
        "routing": falling([[2.5, 2.5, 2.5], [1, 1, 1]]),
    }
    logs = rates.race(TIMES, losses).logs()
    assert np.exp(logs["routing"]) == pytest.approx(0.5)
    assert np.exp(logs["uniform"]) == pytest.approx(20 / 50)
    assert np.exp(logs["values_plain"]) == pytest.approx(0.2)
    assert np.exp(logs["uniform_plain"]) == pytest.approx(0.5)
    losses["uniform"][:, 1] = falling([[5, 5, 5]])[:, 0]
    assert rates.race(TIMES, losses).logs()["uniform"] == pytest.approx(0), "the best uniform rate matches it"
    swapped = losses | {"values": losses["routing"], "routing": losses["values"]}
    assert np.exp(rates.race(TIMES, swapped).logs()["routing"]) == pytest.approx(2)


def test_in_a_product_nothing_sets_values_apart():
    logs = rates.product(6).logs()
    assert logs["routing"].tolist() == [0.0] * 6
    assert logs["uniform"].mean() > -0.7, "one rate for all comes within a factor of two"
    of = rates.product(6)
    assert np.log(of.uniform).sum(1).argmin() not in (0, len(MULTIPLES) - 1)


def test_a_record_is_dated_at_the_middle_of_its_steps():
    """Losses exp(-rate * updates), kept as means since the last record."""
    marks = np.array([0, 1, 2, 4, 8, 16, 32])
    own = np.exp(-0.01 * np.arange(32))
    means = np.array([np.nan, *(own[a:b].mean() for a, b in pairwise(marks))])
    arrays = {f"{arm}/steps": marks for arm in rates.ARMS}
    arrays |= {f"{arm}/loss": np.repeat(means[:, None], 4, 1) for arm in rates.ARMS}
    runs = [{"rate": rate} for rate in (0.1, 0.1, 0.2, 0.2)]
    of = rates.of_results(Results(arrays, {"config": {"groups": [{"runs": runs}]}}))
    assert of.uniform == pytest.approx(np.full((2, 2), 23.5))
    assert of.plain == 23.5


@pytest.mark.parametrize("name", TRIALS)
def test_factors_reach_the_named_parameters_alone(name):
    """After one step from the same start, what has moved ten times as far."""
    study = crossing.studies("smoke")[f"rates_{name}"]
    trainer = study.trainer("cpu")
    start = trainer.parameters()
    trainer.train(progress=False, until=1)
    after = trainer.parameters()
    moved = {arm: {k: (after[arm][k] - start[arm][k])[0] for k in after[arm]} for arm in rates.ARMS}
    trial = TRIALS[name]
    quicker = {"uniform": (), "values": trial.values, "routing": trial.routing}
    assert not set(trial.values) & set(trial.routing)
    for arm, names in quicker.items():
        for k, own in moved[arm].items():
            plain = moved["uniform"][k]
            assert own == pytest.approx(plain * (FACTOR if k in names else 1), rel=1e-3, abs=2e-6), (arm, k)
            assert (np.abs(own).max() == 0) == (k in trial.held)
    for names in quicker.values():
        assert all(np.abs(moved["uniform"][k]).max() > 0 for k in names)


def test_all_arms_have_the_same_seeds_prompts_and_base_rates():
    for study in crossing.studies("paper").values():
        if study.name.startswith("rates_"):
            uniform, values, routing = study.groups
            grids = [[(r.seed, r.stream, r.rate, r.init_scale) for r in g.runs] for g in study.groups]
            assert grids[0] == grids[1] == grids[2]
            assert min(run.seed for run in uniform.runs) == FIRST
            assert {type(g.optimiser).__name__ for g in study.groups} == {"Sgd"}
            assert {r.factors for r in values.runs} != {r.factors for r in routing.runs}


@pytest.mark.parametrize("name", TRIALS)
def test_best_rates_lie_inside_the_grid(name):
    of = rates.of_results(crossing.results(f"rates_{name}", "paper"))
    for arm in rates.ARMS:
        total = np.log(np.minimum(getattr(of, arm), of.plain)).sum(1)
        assert 0 < total.argmin() < len(MULTIPLES) - 1, arm
