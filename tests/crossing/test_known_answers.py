"""The crossing: records of made-up shares, times of made-up courses, and stacks whose answers are known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from iclbook.papers.crossing.measures import kernels, rungs, stages
from iclbook.papers.crossing.runs import waits
from iclbook.papers.crossing.runs.landscape import Landscape


def test_what_kernels_leave_is_recorded_of_the_best_and_the_next():
    """One head: softmax 0.1, the next 0.2. Linear attention: linear 0.05, the next 0.3. Two heads: RBF is best with 0.4, then linear with 0.5."""
    pair = np.array([-0.01, 0.01])
    one = {"softmax": 0.1, "rbf": 0.25, "laplacian": 0.3, "exponential": 0.2, "linear": 0.9}
    linear = {"softmax": 0.3, "rbf": 0.6, "laplacian": 0.7, "exponential": 0.8, "linear": 0.05}
    two = {"softmax": 0.6, "rbf": 0.4, "laplacian": 0.7, "exponential": 0.8, "linear": 0.5, "centred": 0.1}
    found = {
        name: {kernel: left + pair for kernel, left in by.items()}
        for name, by in (("h1", one), ("h2", two), ("linear", linear))
    }
    assert set(kernels.KERNELS) <= set(one)
    found["h2"]["centred"] = found["h2"]["centred"] + 2 * pair
    values = kernels.kernel_values_of(found)
    means = {"one": 0.1, "one_next": 0.2, "linear": 0.05, "linear_next": 0.3}
    means |= {"two": 0.4, "two_next": 0.5, "two_centred": 0.1, "two_gain": 0.3}
    assert {name: values[f"kernel/{name}"] for name in means} == pytest.approx(means)
    assert values["kernel/two_best"] == "rbf"
    alike = values["kernel/one_se"]  # of two runs that are 0.02 apart, as all are but the gain's, 0.04
    assert alike > 0
    errors = {name: values[f"kernel/{name}_se"] for name in ("linear", "two", "two_gain")}
    assert errors == pytest.approx({"linear": alike, "two": alike, "two_gain": 2 * alike})


def test_rates_that_differ_by_the_share_that_is_allowed_are_one():
    curved = np.diag([-1.0, (1 - stages.SHARED) * -1.0, (1 - 3 * stages.SHARED) * -1.0, 2.0])
    saddle = Landscape(
        lambda seed: np.ones(4), lambda x: (float(x @ curved @ x) / 2, curved @ x), hessian=lambda _: curved
    )
    rate, directions = stages.leading(saddle, 4)
    assert rate == 1
    np.testing.assert_allclose(np.abs(directions), np.eye(4)[:2], atol=1e-12)


def test_adams_wait_is_interpolated():
    """On a slope of one Adam goes its rate in every step: 0.002 a step reach 0.005 in the middle of the third."""
    slope = Landscape(lambda seed: np.zeros(1), lambda x: (1 - float(x[0]), np.array([-1.0])))
    assert waits.FALLEN == 0.005
    assert stages.adam_wait(slope, np.zeros(1), rate=0.002) == pytest.approx(2.5, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_strides_to_the_mean_and_to_the_answer_end_within_reach(seed):
    """Even strides, the first of nothing, the last at most all of the way; the mean is that of each context's own answers."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(6, 9)) + np.arange(6)[:, None]
    lines = rungs.Lines(x=rng.normal(size=(6, 9)), y=y, query=rng.normal(size=6), answer=y[:, 0] + 3)
    for stack, goal in ((rungs.to_the_mean, y.mean(1)), (rungs.strides, lines.answer)):
        answers = stack(lines, 4, 0.5, np.random.default_rng(seed))
        assert answers.shape == (6, 5)
        done = (answers - 0.5) / (goal - 0.5)[:, None]
        share = done[0, -1]
        assert 0.3 <= share <= 1
        np.testing.assert_allclose(done, np.tile(share * np.linspace(0, 1, 5), (6, 1)), atol=1e-12)


def test_every_imitation_has_its_own_stack():
    makers = list(rungs.OTHERWISE.values())
    assert len(set(makers)) == len(makers)
    assert rungs.OTHERWISE["reordered"] is rungs.reordered
    assert rungs.OTHERWISE["others"] is rungs.of_others
    assert not set(makers) & set(rungs.DESCEND.values())


def test_scores_of_the_ladder_are_means_over_sizes_and_the_worst_judge_counts():
    """Two judges: one tells imitations apart, the other only half of the time; sizes have one vote each, whatever their seeds."""
    yes, no = np.array([0.8, 0.9]), {"mean": np.array([0.1, 0.2]), "jump": np.array([0.3, 0.5])}
    sure = SimpleNamespace(yes=yes, no=no, worst=(0.9, 0.02))
    unsure = SimpleNamespace(yes=yes - 0.1, no={"mean": np.array([0.6, 0.8])}, worst=(0.6, 0.05))
    ladder, twins = {"small": [0.2, 0.4, 0.6], "large": [1.0]}, {"small": [0.1], "large": [0.5]}
    found = rungs.rung_values(rungs.Rungs({2: sure, 4: unsure}, ladder, twins, [0.5, 0.25, 0.0, 0.25]))
    assert (found["rungs/area"], found["rungs/area_se"]) == (0.6, 0.05)
    assert found["rungs/ladder"] == pytest.approx(0.7)  # 0.4 and 1
    assert found["rungs/twins"] == pytest.approx(0.3)
    assert found["rungs/apart"] == pytest.approx(0.25)
    assert found["rungs/imitations"] == pytest.approx(0.7)
    assert found["rungs/descending"] == pytest.approx(0.75)


def test_patience_is_for_so_many_slopes(monkeypatch):
    monkeypatch.setattr(waits, "PATIENCE", 3)
    patient = waits._Patient(Landscape(lambda seed: np.ones(1), lambda x: (float(x @ x), 2 * x)))
    for _ in range(3):
        assert patient.gradient(np.ones(1)).tolist() == [2.0]
    with pytest.raises(waits.Resting):
        patient.gradient(np.ones(1))
