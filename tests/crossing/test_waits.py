"""Waits and degrees on polynomials whose degree is known, and the landscapes that they are measured on."""

import numpy as np
import pytest
import torch

from iclbook.papers.crossing import chance, waits
from iclbook.papers.crossing.models import (
    CATEGORIES,
    MODELS,
    REGRESSION,
    antithetic,
    heads_of,
    mirrored,
    prompts,
    softmax_heads,
)
from iclbook.statistics import student
from iclbook.store import Results
from iclbook.training.landscape import Landscape


def product(p: int) -> Landscape:
    """``(1 - x_1 ... x_p)^2``: p factors that must grow together."""

    def evaluate(x):
        rest = 1 - x.prod()
        others = np.array([np.delete(x, i).prod() for i in range(p)])
        return float(rest**2), -2 * rest * others

    return Landscape(lambda seed: np.random.default_rng(seed).uniform(0.5, 1.5, p), evaluate)


@pytest.mark.parametrize("p", [2, 3, 4, 5])
def test_the_waits_show_how_many_factors_must_grow_together(p):
    factor = 10 if p == 2 else 3
    times = waits.waits(product(p), [0.02 / factor**k for k in range(4)], [0, 1, 2])
    found = waits.degree(times, factor)
    assert found.value == pytest.approx(p, abs=0.05)
    assert found.error < 0.1


def test_the_degree_of_made_up_waits():
    sizes = 0.1 / 2.0 ** np.arange(4)
    assert waits.degrees(sizes[None] ** -2.0, 2) == pytest.approx(np.full((1, 2), 4.0))
    assert waits.degrees(np.log(1 / sizes)[None], 2) == pytest.approx(np.full((1, 2), 2.0))
    times = np.array([[0, 1, 3, 7], [0, 1, 3, 11]], float)  # ratios 2, 2 and 2, 4
    found = waits.degree(times, 2)
    assert found.value == pytest.approx(3.5)
    spread = student(2) * 0.5  # half a degree between two draws, widened; half a degree still moves
    assert found.error == pytest.approx(np.hypot(spread, 0.5))


def test_one_draw_of_another_path_moves_neither_the_typical_degree_nor_its_word():
    times = np.tile([0.0, 1.0, 2.0, 3.0], (9, 1)) + 0.01 * np.arange(9)[:, None] * np.array([0, 0, 0, 1.0])
    times[0, 3] = 2 + 4.0**1.7  # degree 3.7
    times = np.vstack([times, [np.nan] * 4])
    found = waits.second_values(Results({"trained/times": times}, {}))
    assert found["stages/second/draws"] == 9
    assert found["stages/second/share"].value == pytest.approx(8 / 9)
    assert found["stages/second/typical"].value == pytest.approx(2 + np.log(1.05) / np.log(4))
    assert waits.degree(times[:9], 4).value > 2.2


def test_the_degrees_of_sgd_are_those_of_each_halving():
    steps = np.array([[1.0, 4.0, 8.0, 8.0], [1.0, 4.0, 8.0, 8.0]])
    found = chance.sgd_values(Results({"heads/steps": steps}, {}), "paper")
    assert found["stages/sgd/degrees"].value == pytest.approx([4, 3, 2])
    assert found["stages/sgd/degree"].value == pytest.approx(3)


def test_adam_does_not_wait():
    times = [waits.adam_wait(product(4), size * np.ones(4)) for size in (0.02, 0.01)]
    assert 1 < times[1] / times[0] < 1.1
    with pytest.raises(waits.Resting, match="not left"):
        waits.adam_wait(product(4), 0.01 * np.ones(4), steps=10)


@pytest.mark.parametrize("n_heads", [1, 2, 4])
def test_softmax_heads_have_their_gradient_in_closed_form(n_heads):
    closed, automatic = softmax_heads(n_heads, 3), heads_of(n_heads)(antithetic(prompts(REGRESSION, 3)))
    for size in (0.01, 0.3, 2.0):
        theta = size * automatic.start(5)
        assert closed.value(theta) == pytest.approx(automatic.value(theta), rel=1e-12)
        slope = automatic.gradient(theta)
        np.testing.assert_allclose(closed.gradient(theta), slope, rtol=0, atol=1e-12 * np.abs(slope).max())
    assert (closed.start(5) == automatic.start(5)).all()
    assert (closed.routing == automatic.routing).all()


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_every_landscape_agree_with_differences(name):
    landscape = MODELS[name](0)
    theta = 0.3 * landscape.start(0)
    direction = np.random.default_rng(1).standard_normal(len(theta))
    h = 1e-6
    slope = (landscape.value(theta + h * direction) - landscape.value(theta - h * direction)) / (2 * h)
    assert landscape.gradient(theta) @ direction == pytest.approx(slope, rel=1e-6, abs=1e-9)
    if landscape.hessian:
        ahead, back = (landscape.gradient(theta + sign * h * direction) for sign in (1, -1))
        curved = landscape.hessian(theta)
        assert curved == pytest.approx(curved.T, abs=1e-12 * np.abs(curved).max())
        assert curved @ direction == pytest.approx((ahead - back) / (2 * h), rel=1e-5, abs=1e-7)
    assert bool(landscape.hessian) == (name == "layer")


def test_antithetic_prompts_tell_nothing_by_their_means():
    batch = antithetic(prompts(REGRESSION, 0))
    means = batch.context.mean(0)  # (d + 1, B)
    assert (means * batch.target).mean(-1).abs().max() < 1e-15
    assert (batch.query * batch.target).mean(-1).abs().max() < 1e-15
    plain = prompts(REGRESSION, 0)
    assert (plain.context.mean(0) * plain.target).mean(-1).abs().max() > 1e-3
    beta = torch.linalg.lstsq(batch.context[:, :2].movedim(-1, 0), batch.context[:, 2:].movedim(-1, 0)).solution
    answers = (batch.query.T[:, None] @ beta)[:, 0, 0]
    assert torch.allclose(answers, batch.target[0]), "still prompts of the task"
    batch = mirrored(prompts(CATEGORIES, 0))
    assert batch.context[:, :-1].mean((0, 2)).abs().max() < 1e-15


@pytest.mark.parametrize("name", [name for name in MODELS if name != "recall"])
def test_a_recording_repeats_automatic_differentiation_on_draws_and_places_that_it_never_saw(name):
    MODELS[name](0).value(MODELS[name](0).start(0))
    for draw in (1, 2):
        landscape = MODELS[name](draw)
        family, (inputs,) = landscape.evaluate.func.__self__, landscape.evaluate.args
        for size in (1e-3, 0.3, 3.0):
            theta = size * landscape.start(draw)
            slope, value = family.slope(torch.from_numpy(theta), *inputs)
            repeated = landscape.evaluate(theta)
            assert repeated[0] == float(value)
            assert (repeated[1] == slope.numpy()).all()


def test_the_second_plateau_ends_when_scores_have_grown():
    """A value that falls at once and a score that grows as e^(0.1 t) from its size: each quarter adds 10 log 4."""

    def evaluate(x):
        return float(0.8 * (1 - x[0]) ** 2 + 0.2), np.array([x[0] - 1, -0.1 * x[1]])

    made = Landscape(lambda _: np.ones(2), evaluate, routing=np.array([False, True]))
    lengths = [waits.second_plateau(made, size * np.ones(2)) for size in (0.01, 0.0025)]
    assert lengths[1] - lengths[0] == pytest.approx(10 * np.log(4), rel=0.01)


def test_a_wait_that_outlasts_the_longest_counts_as_that():
    times = np.exp(np.random.default_rng(0).normal(size=(len(chance.NOISY), 8, len(chance.AHEAD))))
    times[0, 3, -1] = np.nan
    named = lambda x: {f"{group}/times": of for group, of in zip(chance.NOISY, x, strict=True)}  # noqa: E731
    found, meant = (
        chance.noisy_values(Results(named(x), {})) for x in (times, np.nan_to_num(times, nan=chance.LONGEST))
    )
    for key in ("noise/apart", "noise/last"):
        np.testing.assert_allclose(found[key].value, meant[key].value)
        assert np.isfinite(found[key].error).all()
