"""Faster values: the measure on losses whose answer is known by hand, and what the factors of the runs reach."""

import numpy as np
import pytest

from iclbook.papers import crossing
from iclbook.papers.crossing import rates
from iclbook.papers.crossing.rates import FACTOR, TRIALS

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
    assert rates.at_best(steps).tolist() == [10.0, 10.0, 50.0]


def test_a_race_whose_ratios_are_known():
    losses = {
        "uniform": falling([[1, 1, 1], [2, 2, 2]]),
        "values": falling([[5, 5, 5], [1, 1, 1]]),
        "routing": falling([[2.5, 2.5, 2.5], [1, 1, 1]]),
    }
    logs = rates.race(TIMES, losses)
    assert np.exp(logs["routing"]) == pytest.approx(0.5)
    assert np.exp(logs["uniform"]) == pytest.approx(20 / 50)
    assert np.exp(logs["values_plain"]) == pytest.approx(0.2)
    assert np.exp(logs["uniform_plain"]) == pytest.approx(0.5)
    losses["uniform"][:, 1] = falling([[5, 5, 5]])[:, 0]
    assert rates.race(TIMES, losses)["uniform"] == pytest.approx(0), "the best uniform rate matches it"
    losses["uniform"][:, 1] = np.nan
    assert np.exp(rates.race(TIMES, losses)["uniform"]) == pytest.approx(0.2), (
        "a run that does not get there has all steps"
    )
    swapped = losses | {"values": losses["routing"], "routing": losses["values"]}
    assert np.exp(rates.race(TIMES, swapped)["routing"]) == pytest.approx(2)


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
