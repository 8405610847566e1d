"""All statistics together, on the ladder's prompts: stacks of known kind, and models that are such stacks."""

import numpy as np
import pytest

from iclbook.papers.crossing import descent
from iclbook.papers.crossing import descent_ladder as rungs
from iclbook.papers.nagy2026.ladder import Model
from iclbook.statistics import standard_error

LINES = rungs.lines()


def model(make: descent.Stack, layers: int, seed: int) -> Model:
    """A model of the ladder that answers as a stack does."""
    rng = np.random.default_rng((77, seed))
    return Model(f"l{layers}w32", seed, np.array([8]), {"lines_estimate": make(LINES, layers, 4.5, rng)[None]})


def test_stacks_do_what_their_names_say():
    rng = np.random.default_rng(3)
    read = rungs.DESCEND["line"](LINES, 6, 4.5, rng)
    off = np.abs(read - LINES.answer[:, None]).mean(0)
    assert off[-1] < 0.8 * off[0]
    left = (read[:, 1] - LINES.answer)[off[0] > 0] / (4.5 - LINES.answer)[off[0] > 0]
    assert np.ptp(left) > 0.2, "every prompt has a curvature of its own"
    off = np.abs(rungs.DESCEND["functions"](LINES, 6, 4.5, rng) - LINES.answer[:, None]).mean(0)
    assert off[-1] < off[0]
    walked = rungs.OTHERWISE["mean"](LINES, 4, 4.5, rng)
    assert np.ptp(np.diff(walked, axis=1), axis=1).max() < 1e-12, "even strides"
    walked = rungs.OTHERWISE["strides"](LINES, 4, 4.5, rng)
    assert np.ptp(np.diff(walked, axis=1), axis=1).max() < 1e-12
    assert np.sign(walked[:, -1] - 4.5) == pytest.approx(np.sign(LINES.answer - 4.5)), "towards the answer"
    jumped = rungs.OTHERWISE["jump"](LINES, 4, 4.5, rng)
    assert ((np.diff(jumped, axis=1) != 0).sum(1) == (LINES.answer != 4.5)).all()
    assert (jumped[:, -1] == LINES.answer).all()
    flat = LINES._replace(y=np.full_like(LINES.y, 7.0))
    assert rungs.OTHERWISE["sharpening"](flat, 3, 4.5, rng)[:, 1:] == pytest.approx(7)
    for seed in range(20):
        steps = rungs.OTHERWISE["reordered"](LINES, 2, 4.5, np.random.default_rng(seed))
        straight = rungs.DESCEND["line"](LINES, 2, 4.5, _after_orders(seed))
        assert sorted(steps[0]) == pytest.approx(sorted(straight[0]))
        assert list(steps[0]) != pytest.approx(list(straight[0])), "never in its own order"


def _after_orders(seed: int) -> np.random.Generator:
    """The generator as the reordered kind hands it on."""
    rng = np.random.default_rng(seed)
    while (np.diff(rng.permutation(3)) > 0).all():
        pass
    return rng


@pytest.mark.parametrize("kind", [*rungs.DESCEND.values(), *rungs.OTHERWISE.values()])
def test_many_stacks_answer_as_each_alone(kind):
    together = rungs.read_with_noise(kind, LINES, 3, 4, np.random.default_rng(8))
    rng = np.random.default_rng(8)
    for read in together:
        alone = kind(LINES, 3, rng.uniform(3, 6), rng)
        alone[:, 1:] += rng.uniform(0, 0.5) * rng.standard_normal((rungs.PROMPTS, 3))
        np.testing.assert_allclose(read, np.clip(alone, 0, 9), rtol=1e-12)


def test_a_line_descends_on_its_own_squares():
    """A step of the gradient of the mean of ``(y - slope x - level)^2 / 2``, prompt by prompt."""
    rate = np.random.default_rng(2).uniform(0.1, 0.9)
    read = rungs.DESCEND["line"](LINES, 3, 4.5, np.random.default_rng(2))
    for x, y, query, own in zip(LINES.x, LINES.y, LINES.query, read, strict=True):
        line = np.array([0.0, 4.5])
        for answer in own:
            assert answer == pytest.approx(line @ query)
            line = line + rate * x.T @ (y - x @ line) / 4


@pytest.fixture(scope="module")
def judge() -> rungs.Judge:
    return rungs.Judge(4, 420)


def test_the_judge_knows_both_sides_of_stacks_that_had_no_vote(judge):
    worst = descent.worst(judge.yes, judge.no.values())
    assert worst.value > 0.75
    assert 0 < worst.error < 0.1
    assert worst.value == min(descent.area(judge.yes, said).value for said in judge.no.values())
    assert np.median(judge.yes) > 0.8 > 0.2 > np.median(judge.no["others"])


def test_models_that_descend_and_twins_that_do_not(monkeypatch):
    alone = {seed: model(rungs.OTHERWISE["mean"], 2, seed) for seed in range(3)}
    ladder = [model(rungs.DESCEND["line"], 2, seed) for seed in range(3)] + [model(rungs.DESCEND["line"], 6, 9)]
    monkeypatch.setattr(rungs, "mixed", lambda get: ladder)
    monkeypatch.setattr(rungs, "controls", lambda get: list(zip(ladder, alone.values(), strict=False)))
    found = rungs.judged(dict, 420)
    assert {name: len(said) for name, said in found.ladder.items()} == {"l2w32": 3, "l6w32": 1}
    values = rungs.ladder_values(found)
    assert values["rungs/ladder"].value > 0.8 > 0.5 > values["rungs/twins"].value
    assert values["rungs/area"].value == min(
        descent.worst(each.yes, each.no.values()).value for each in found.judges.values()
    )
    assert values["rungs/descending"] > values["rungs/imitations"] > values["rungs/twins"].value
    assert abs(values["rungs/by_lot"] - 0.5) < 0.2, "a lot tells nothing"
    apart = [*found.apart["l2w32"], *found.apart["l6w32"]]
    assert len(apart) == 4
    assert values["rungs/typical_apart"].value == pytest.approx(np.median(apart))
    of_sizes = [np.mean(said) for said in found.ladder.values()]
    highest = [*found.ladder][int(np.argmax(of_sizes))]
    assert values["rungs/highest_size"] == f"{highest[1]} layers, width 32"
    assert values["rungs/highest"] == min(found.ladder[highest])
    assert values["rungs/highest_apart"] == min(found.apart[highest])
    assert values["rungs/ladder"].value == pytest.approx(min(of_sizes)), "every size is asked"
    assert values["rungs/twins"].error == pytest.approx(standard_error(np.array(next(iter(found.controls.values())))))
