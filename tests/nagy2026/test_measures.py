"""What nagy2026's experiments count, draw and conclude: on Figure 1, on architectures, and on results whose every number is known."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from nagy2026.kit import (
    LEDGER,
    PRINTED_CHANGE,
    STUDIES,
    ablation_results,
    deep_results,
    diversity_results,
    error_curve,
    failing,
    failing_of,
    judge,
    mask_results,
    standard,
    synthetic,
)
from scipy import stats
from torch import nn

from iclbook.drawing import style
from iclbook.papers.nagy2026 import figures as draw
from iclbook.papers.nagy2026.figures import frames
from iclbook.papers.nagy2026.measures import ablation, diversity, dynamics, exact, guided, masks, shared
from iclbook.papers.nagy2026.runs.studies import SPECTRUM
from iclbook.papers.nagy2026.theory import architectures, probe, reweighting
from iclbook.statistics import share_error

# -- parameters -------------------------------------------------------------------------------------------------------------


def torch_count(c: architectures.Choices, model: str) -> int:
    """Parameters of an architecture assembled from torch.nn's modules."""
    width, layers = architectures.STATED[model]["width"], architectures.STATED[model]["n_layers"]
    parts: list[nn.Module] = [nn.Linear(width, 1, bias=c.read_bias)]
    sizes = (5,) if c.tokens == "pair" else (4, 1)
    parts += [nn.Linear(n, width, bias=c.embed_bias) for n in sizes]
    parts += [nn.LayerNorm(width)] * c.final_norm + (
        [nn.Embedding(c.positions, width)] if c.positions else []
    )
    for _ in range(layers):
        parts += [nn.MultiheadAttention(width, 2, bias=c.attention_bias)]
        parts += [nn.LayerNorm(width) for _ in range(c.norms)]
        parts += [nn.Linear(width, c.mlp * width), nn.Linear(c.mlp * width, width)] if c.mlp else []
    extra = 0
    if model == "guided":
        sink = {
            "token": width,
            "key and value per layer": 2 * width * layers,
            "key per layer": width * layers,
        }
        extra = (
            sink.get(c.sink, 2 * layers) + layers * {"number": 1, "two numbers": 2, "vector": width}[c.scale]
        )
    return sum(p.numel() for part in parts for p in part.parameters()) + extra


def test_counts_against_modules():
    family = list(architectures.family())
    assert len(set(family)) == len(family) == architectures.search()["tried"]
    for i in np.random.default_rng(0).choice(len(family), 40, replace=False):
        for model in architectures.PRINTED:
            assert architectures.count(family[i], model) == torch_count(family[i], model), family[i]


def test_parameters_of_the_trained_models_answer_the_question_and_the_budget_is_not_equal():
    values = guided.parameter_records(STUDIES["guided"])
    assert (values["9.5/baseline_parameters"], values["9.5/guided_parameters"]) == (8801, 9989)
    assert failing("q-parameters", values) == {"q-parameters/nearest_width"}
    assert values["q-parameters/nearest_width"] == 22
    assert failing("q-parameters", values | {"q-parameters/nearest_width": 24}) == set()


@pytest.mark.parametrize("lost", ["attention biases", "layer norms", "sink", "read-out"])
def test_a_count_that_forgets_a_part_turns_q_parameters_red(monkeypatch, lost):
    right = architectures.parts

    def forgetful(*args, **kwargs):
        return {k: v for k, v in right(*args, **kwargs).items() if k != lost}

    monkeypatch.setattr(architectures, "parts", forgetful)
    values = guided.parameter_records(STUDIES["guided"])
    assert "q-parameters/both" in failing("q-parameters", values)


# -- Figure 1 ---------------------------------------------------------------------------------------------------------------


def test_the_largest_eigenvalue_is_fastest_at_its_inverse_but_not_at_eta_star(monkeypatch):
    eigenvalues = exact.spectrum()
    values = exact.figure_1(eigenvalues)
    assert judge("q-fig1b", values).word == "no"
    assert failing("q-fig1b", values) == {"fig1/largest_rank"}
    assert failing("fig1", values) == {"fig1/largest_rank"}
    assert values["fig1/largest_rank"] == values["fig1/smallest_rank"] == 5
    assert values["q-fig1b/rank_at_inverse"] == 1
    monkeypatch.setattr(probe, "balanced_step", lambda lam: 1 / max(lam))
    values = exact.figure_1(eigenvalues)
    assert failing("q-fig1b", values) == {"q-fig1b/ends_ratio"}
    assert failing("fig1", values) == set()


def test_curves_of_figure_1_against_descent_on_the_design():
    eigenvalues = np.array([0.5, 2.0, 7.0])
    x = probe.design(eigenvalues, 12, 3)
    np.testing.assert_allclose(np.linalg.eigvalsh(x.T @ x), eigenvalues, rtol=1e-12)
    np.testing.assert_allclose(
        probe.channel_errors(x, 0.1, 6), probe.factors(eigenvalues, 0.1) ** np.arange(7)[:, None], rtol=1e-9
    )
    np.testing.assert_allclose(probe.scalar_descent(0.6, 1.0, 5, 3.0), 0.16 ** np.arange(6), atol=1e-15)


def test_wrong_gradients_turn_figure_1_red(monkeypatch):
    eigenvalues, right, channels = exact.spectrum(), probe.scalar_descent, probe.channel_errors
    monkeypatch.setattr(probe, "scalar_descent", lambda a, eta, steps: right(a, 1.01 * eta, steps))
    assert "fig1/a_gap" in failing("fig1", exact.figure_1(eigenvalues))
    monkeypatch.setattr(probe, "channel_errors", lambda x, eta, steps: channels(x, 2 * eta, steps))
    assert "fig1/b_gap" in failing("fig1", exact.figure_1(eigenvalues))


def test_lists_of_one_digit_factors_against_a_count_one_by_one(monkeypatch):
    monkeypatch.setattr(probe, "ONE_DIGIT", (0.2, 0.3, 1.0, 2.0, 2.5, 3.0))
    drawn = {
        "RandomState": np.random.RandomState(42).randn(105),
        "default_rng": np.random.default_rng(42).standard_normal(105),
    }
    found = 0
    for numbers in drawn.values():
        for base in (numbers[:100], numbers[5:]):
            for left in range(6):
                factors = np.delete(probe.ONE_DIGIT, left)
                ends = np.linalg.svd(base.reshape(20, 5) * factors)[1][[0, -1]] ** 2
                found += 107.5 <= ends[0] <= 108.5 and 0.85 <= ends[1] <= 0.95
    assert probe.lists(42) == (24, found)
    monkeypatch.setitem(probe.PRINTED, "largest", float(ends[0]))
    monkeypatch.setitem(probe.PRINTED, "smallest", float(ends[1]))
    assert probe.lists(42)[1] >= 1


def test_spectra_are_those_of_the_recipes_as_they_read():
    every, eigenvalues = probe.spectra(42)
    assert len(every) == len({str(r) for r in every})
    for i, recipe in list(enumerate(every))[::97]:
        rng = np.random.RandomState(42) if recipe.generator == "RandomState" else np.random.default_rng(42)
        normal = (
            rng.randn if recipe.generator == "RandomState" else lambda *s, rng=rng: rng.standard_normal(s)
        )
        if recipe.first == "w*":
            normal(5)
        ends = (recipe.high, recipe.low) if "falling" in recipe.scaling else (recipe.low, recipe.high)
        columns = (np.linspace if "linspace" in recipe.scaling else np.geomspace)(*ends, 5)
        x = normal(20, 5) * (np.sqrt(columns) if "root" in recipe.scaling else columns)
        np.testing.assert_allclose(np.sort(np.linalg.svd(x)[1] ** 2), eigenvalues[i], rtol=1e-9)
    hits = probe.matches(np.array([[0.94, 1, 2, 3, 108.4], [0.96, 1, 2, 3, 108.0], [0.9, 1, 2, 3, 109.0]]))
    assert hits.tolist() == [True, False, False]


# -- results whose every number is known ------------------------------------------------------------------------------------


def test_section_9_1_as_printed_is_reproduced_and_other_outcomes_are_not():
    runs = mask_results(PRINTED_CHANGE)
    assert runs.errors["none"].shape == (len(runs.settings), 20)
    assert runs.settings[:2] == ["softmax, Adam 0.0003", "softmax, Adam 0.001"]
    values = masks.mask_records(runs)
    assert failing_of("9.1", values) == set()
    assert values["9.1/spectral_change"] == pytest.approx([100 * (5.99 / 5.77 - 1)] * 10, rel=1e-4)
    assert values["9.1/baseline"] == pytest.approx(5.77, rel=1e-5)
    assert values["q-unstated/one_seed"][1] == pytest.approx(PRINTED_CHANGE["random"] / 0.4, rel=1e-3)
    helped = PRINTED_CHANGE | {"spectral": -PRINTED_CHANGE["spectral"]}
    keys = {"9.1/spectral_change", "9.1/spectral_worst_share"}
    assert failing_of("9.1", masks.mask_records(mask_results(helped))) == keys
    redundant = masks.mask_records(mask_results(PRINTED_CHANGE | {"redundant": 9.0}))
    assert failing_of("9.1", redundant) == {"9.1/spectral_worst_share"}


def dynamics_values(curve, gain, key) -> dict:
    study = STUDIES["alignment"]
    return dynamics.dynamics_records(
        dynamics.dynamics(study, synthetic(study, {"curve_n16": curve, "gain": gain, "key": key}))
    )


def test_section_9_2_reads_the_right_steps_and_quantities():
    rng, study = np.random.default_rng(0), STUDIES["alignment"]
    gain, inverse = np.arange(8.0), 1 / np.array(SPECTRUM)
    wobble, key = rng.standard_normal((20, 8)), np.abs(rng.standard_normal((20, 4, 8)))
    arrays = {
        "curve_n16": lambda g, i, run, step: error_curve(
            1 + step + run.seed / 10 + 1e6 * ((g, run.rate) != ("linear-sgd", 5e-5))
        ),
        "gain": lambda g, i, run, step: gain if step < 10_000 else inverse + wobble[run.seed],
        "key": lambda g, i, run, step: key[run.seed],
    }
    course = dynamics.dynamics(study, synthetic(study, arrays))
    names = [
        f"{activation}, {rest}"
        for activation in ("softmax", "linear")
        for rest in ("Adam 0.001", "SGD 0.001", "SGD 0.0003", "SGD 0.0001", "SGD 5e-05")
    ]
    assert list(course.error) == names
    values = dynamics.dynamics_records(course)
    assert values["9.2/nearest"] == "linear, SGD 5e-05"  # the others are larger by a million
    assert dynamics.shown(course)[-3:] == ["linear, Adam 0.001", "linear, SGD 0.001", "linear, SGD 5e-05"]
    mean = 0.95  # of seeds 0..19, over ten
    assert values["9.2/mse_18k"] == pytest.approx(18_001 + mean, rel=1e-4)
    assert values["9.2/ends/rho2_18k"] == pytest.approx((18_001.95 / 22.22) ** (1 / 16), rel=1e-3)
    assert values["9.2/slope/rho2_18k"] == pytest.approx(values["9.2/ends/rho2_18k"], rel=1e-6)

    def correlation(rows: np.ndarray) -> list[float]:
        return [stats.pearsonr(row, inverse).statistic for row in rows]

    late, start = correlation(inverse + wobble), correlation([gain])[0]
    assert values["9.2/gain/alignment_rise"] == pytest.approx([np.mean(late) - start] * 10, rel=1e-4)
    half = stats.t.ppf(0.975, 19) * np.std(late, ddof=1) * np.sqrt(1 + 1 / 20)
    assert values["9.2/gain/alignment_apart"] == pytest.approx([(np.mean(late) - 0.5) / half] * 10, rel=2e-3)
    start_apart = (np.mean(late) + 0.18) / half
    assert values["9.2/gain/alignment_apart_start"] == pytest.approx([start_apart] * 10, rel=2e-3)
    assert values["9.2/gain/gradual"] == [False] * 10  # all at once, at 10,000
    assert values["9.2/gain/rising"] == 10 * (np.mean(late) > start)
    assert values["9.2/key/rising"] == 0  # they stand still
    np.testing.assert_allclose(course.gain["linear, SGD 5e-05"], inverse + wobble, rtol=1e-6)  # at the end
    norms = correlation(np.sqrt((key**2).sum(1)))
    ends = [course.at(alignment, 18_000).mean() for alignment in course.alignment["key"].values()]
    assert ends == pytest.approx([np.mean(norms)] * 10, rel=1e-4)


def test_section_9_2_as_printed_is_reproduced_but_for_the_column_theory_and_a_fall_is_not_gradual():
    printed, inverse = dynamics.PRINTED, 1 / np.array(SPECTRUM)
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((20, 8))
    noise -= noise.mean(1, keepdims=True)
    target = (inverse - inverse.mean()) / np.linalg.norm(inverse - inverse.mean())
    noise -= (noise @ target)[:, None] * target
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    at = list(dynamics.STEPS)

    def importance(seed, step, sign=1):
        r = sign * np.interp(step, at, printed["alignment"]) + 0.02 * np.sin(seed)
        return r * target + np.sqrt(1 - r * r) * noise[seed]

    def curve(g, i, run, step):
        rho, error = (np.interp(step, at, printed[k]) for k in ("rho2", "error"))
        right = 1 if (g, run.rate) == ("softmax-sgd", 1e-4) else 3
        return right * error * rho ** np.arange(-15, 1) * (1 + 0.001 * run.seed)

    def gain(sign):
        return lambda g, i, run, step: importance(run.seed, step, sign)

    def key(g, i, run, step):
        return np.stack([np.zeros(8)] * 4) + np.arange(8)

    values = dynamics_values(curve, gain(1), key)
    assert values["9.2/nearest"] == "softmax, SGD 0.0001"
    theory = {f"9.2/best_{k}" for k in ("alignment", "error", "rho_slope", "rho_ends")}
    assert failing("9.2-theory", values) == theory
    climbs = judge("9.2-alignment", values)
    assert (climbs.word, climbs.in_one_reading) == ("reproduced", True)  # not in the keys, which stand still
    assert failing("9.2-rho2", values) == {"9.2/slope/late_fall", "9.2/ends/late_fall"}  # 0.911 to 0.912
    numbers = judge("q-9.2-numbers", values)
    assert numbers.word == "it depends"
    assert [p.key for p in numbers.parts if p.holds] == [
        "9.2/slope/apart"
    ]  # of the readings one has the printed rho_2
    assert values["9.2/slope/apart_exchanged"] > 1
    assert judge("9.2-gradual", values).word == "reproduced"
    falling = dynamics_values(curve, gain(-1), key)
    assert "9.2/gain/alignment_rise" in failing("9.2-alignment", falling)
    assert "9.2/gain/gradual" in failing("9.2-gradual", falling)


def test_rho_2_falls_are_those_of_the_courses():
    """A rate that falls from 0.99 by 0.01 every 5,000 steps, and by as much again after 18,000."""

    def curve(g, i, run, step):
        rho = 0.99 - 0.01 * min(step, 18_000) / 5_000 - 0.01 * max(step - 18_000, 0) / 5_000 + 1e-4 * run.seed
        return 22.22 * rho ** np.arange(1, 17)

    values = dynamics_values(curve, lambda *_: np.arange(8.0), lambda *_: np.ones((4, 8)) + np.arange(8))
    for reading in ("slope", "ends"):
        assert values[f"9.2/{reading}/fall"] == pytest.approx([-0.036] * 10, rel=1e-3)
        assert values[f"9.2/{reading}/late_fall"] == pytest.approx([-0.02] * 10, rel=1e-3)
        assert values[f"9.2/{reading}/fall_se"] == pytest.approx([0.0] * 10, abs=1e-7)


@pytest.mark.parametrize(("share", "expected"), [(0.49, True), (0.51, False)])
def test_gradual_means_less_than_half_within_500_steps(share, expected):
    """From 5,000 to 5,500 steps the alignment rises by this share of its whole rise, evenly before and after."""
    steps = np.arange(0, 20_001, 500)
    course = dynamics.Dynamics(steps, {}, {}, {}, {}, {}, (0.0, 0.0))
    rest = (1 - share) / 35  # of the other stretches up to 18,000
    jump = np.where(np.arange(1, 41) == 11, share, rest)
    alignment = np.r_[0.0, np.cumsum(jump)][:, None].repeat(3, 1) * 0.68 - 0.18
    assert dynamics.gradual(course, alignment) is expected
    split = np.repeat(alignment, 2, axis=0)[
        : 2 * len(steps) - 1
    ]  # twice as many records: half of a stretch each
    split[1::2] = (alignment[:-1] + alignment[1:]) / 2
    assert dynamics.gradual(replace(course, steps=np.arange(0, 20_001, 250)), split) is expected


def test_the_column_theory_is_that_of_the_closed_form_layer():
    """Against least squares over many prompts: rho_2 of the error of the best gain by context length."""
    values = dynamics._best_layer(16)
    lam, rng = np.array(SPECTRUM), np.random.default_rng(1)
    gain = 1 / ((1 + 1 / 16) * lam + lam.sum() / 16)
    n, errors = 40_000, []
    for length in range(1, 17):
        x, w = rng.standard_normal((n, length + 1, 8)) * np.sqrt(lam), rng.standard_normal((n, 8))
        moment = np.einsum("nlk,nl->nk", x[:, :-1], np.einsum("nlk,nk->nl", x[:, :-1], w)) / length
        errors.append(((((w - gain * moment) * x[:, -1]).sum(-1)) ** 2).mean())
    assert values["9.2/best_error"] == pytest.approx(errors[-1], rel=0.05)
    slope = stats.linregress(np.arange(16), np.log(errors)).slope
    assert values["9.2/best_rho_slope"] == pytest.approx(np.exp(slope), abs=5e-3)
    assert values["9.2/best_rho_ends"] == pytest.approx((errors[-1] / lam.sum()) ** (1 / 16), abs=5e-3)


def test_distances_in_half_widths_of_a_prediction_interval():
    ours = np.array([0.0, 2.0, 4.0, 6.0])  # mean 3, variance 20/3
    half = stats.t.ppf(0.975, 3) * np.sqrt(20 / 3 * (1 / 4 + 1))
    assert shared.apart(3 + half, ours) == pytest.approx(1)
    assert shared.apart(3 - half, ours) == pytest.approx(1)
    assert shared.apart(3 + half, ours, of=6) == pytest.approx(np.sqrt((1 + 1 / 4) / (1 / 6 + 1 / 4)))
    assert shared.apart(3 + half, ours, common=0.5) == pytest.approx(half / np.hypot(half, 1.96 * 1.5))


def test_the_best_layer_on_the_probes_agrees_with_its_closed_form():
    """On prompts drawn by the library's task, also where every covariate counts alike and on the low band."""
    from iclbook.papers.nagy2026.runs.specs import Probes
    from iclbook.papers.nagy2026.theory import one_layer as closed
    from iclbook.tasks.spectral_regression import SpectralRegression

    for balanced, lam in ((False, np.array(SPECTRUM)), (True, np.ones(8))):
        task = SpectralRegression(SPECTRUM, balanced=balanced)
        mean, error = shared.on_probes(Probes(task, 40_000, (16,)))
        expected = closed.expected_error(lam, 16, closed.best_gain(lam, 16))
        assert abs(mean - expected) < 4 * error < 0.1 * expected


def test_section_9_5_as_printed_fails_only_in_its_layer_scales():
    readings = ("set1e-3", "set3e-3", "fresh", "v295")
    values = deep_results(guided.PRINTED_SCALES)
    assert failing("9.5", values) == {f"9.5/{r}/scale_rise" for r in readings}  # 0.786 to 0.790 is no fall
    assert values["9.5/set1e-3/improvement"] == pytest.approx(1 - 0.035 / 0.176, rel=1e-4)
    assert failing("9.5", deep_results((0.8, 0.79, 0.74, 0.72))) == set()
    failed = failing("9.5", deep_results((0.8, 0.79, 0.74, 0.72), improvement=-0.5))
    assert {f"9.5/fresh/{k}" for k in ("improvement", "improvement_growth")} <= failed


def test_section_9_5s_headline_is_not_its_table_at_12_examples_and_exchanged_models_are_refused():
    """0.184 and 0.061 are printed beside 0.176 and 0.035; seeds spread by a few per cent here."""
    readings = ("set1e-3", "set3e-3", "fresh", "v295")
    values = deep_results(guided.PRINTED_SCALES)
    failed = {f"9.5/{r}/{k}" for r in readings for k in ("headline_apart", "gain_apart")}
    assert failing("9.5-numbers", values) == failed
    worse = failing("9.5-numbers", deep_results(guided.PRINTED_SCALES, losses=(0.041, 0.157)))
    assert worse == failed | {f"9.5/{r}/training_apart" for r in readings}
    for name in ("errors", "headline", "training"):
        assert min(values[f"9.5/fresh/{name}_exchanged"]) > 1
    # the same numbers as ours hold, and a spread as wide as the gap between the models decides nothing
    ours = values | dict.fromkeys(failed, 0.5)
    assert judge("9.5-numbers", ours).word == "reproduced"
    blind = ours | {f"9.5/{r}/errors_exchanged": [9.0] * 5 + [0.9] for r in readings}
    assert judge("9.5-numbers", blind).word == "too close to call"


def test_distances_of_section_9_5_number_by_number():
    """Seeds of mean 1 and 2 whose prediction interval has a half-width of exactly 1."""
    z = standard(0, 20)
    unit = z / (stats.t.ppf(0.975, 19) * np.sqrt(1 + 1 / 20))
    errors = {
        "baseline": np.stack([k + unit for k in (1, 2, 3)]),
        "guided": np.stack([k + unit for k in (5, 6, 7)]),
    }
    losses = {"baseline": 1 + unit, "guided": 2 + unit}
    layers = np.zeros((4, 20))
    values = guided.guided_records("fresh", guided.Guided(errors, losses, layers, layers))
    assert values["9.5/fresh/errors_apart"] == pytest.approx(7 - 0.035)
    assert values["9.5/fresh/errors_exchanged"][:3] == pytest.approx([5 - 0.512, 6 - 0.232, 7 - 0.176])
    assert values["9.5/fresh/headline_apart"] == pytest.approx(7 - 0.061)
    assert values["9.5/fresh/headline_exchanged"] == pytest.approx([7 - 0.184, 3 - 0.061])
    assert values["9.5/fresh/training_apart"] == pytest.approx(2 - 0.041)
    assert values["9.5/fresh/training_exchanged"] == pytest.approx([2 - 0.157, 1 - 0.041])
    gains = 100 * (1 - errors["guided"][-1] / errors["baseline"][-1])  # about -133
    assert values["9.5/fresh/gain_apart"] == pytest.approx(shared.apart(67.1, gains))
    assert values["9.5/fresh/gain_apart_short"] == pytest.approx(shared.apart(29.8, gains))


def test_section_9_5_1_and_q_depth_as_printed_are_reproduced_and_exchanged_variants_are_not():
    values, found, grid = ablation_results()
    assert failing_of("9.5.1", values) == set()
    assert failing("q-depth", values) == set()
    assert len(failing("q-depth-helps", values)) == 3  # as printed, depth hurts
    assert values["q-depth/settings"] == values["q-depth/learning"] == len(grid.pairs) == 15
    for key, worse, better in (
        ("depth", "depth", "baseline"),
        ("scale", "depth", "scale"),
        ("ortho", "depth", "ortho"),
    ):
        pairs = [
            [found[d][f"{v}/error_n12"][-1].astype(float) for v in (worse, better)]
            for d in ablation.DIMENSIONS
        ]
        name = f"9.5.1/s2000/{'depth_penalty' if key == 'depth' else f'{key}_gain'}"
        unit = (
            (0.0355, 0.1115, 0.041) if key == "ortho" else (1, 1, 1)
        )  # half of what layer scale gains as printed
        gains = [(a - b) / u for (a, b), u in zip(pairs, unit, strict=True)]
        assert values[name] == pytest.approx([g.mean() for g in gains], rel=1e-3)
        assert values[f"{name}_se"] == pytest.approx([stats.sem(g) for g in gains], rel=1e-3)
    assert values["9.5.1/s2000/sink_gain"] == pytest.approx([0.114, 0.094], abs=1e-4)
    assert values["9.5.1/s2000/sink_gain_16"] == pytest.approx(-0.069, abs=1e-4)
    assert values["9.5.1/s2000/full_gain"][:3] == pytest.approx([0.172, 0.367, 0.123], abs=1e-4)
    assert values["9.5.1/s2000/depth_change_4"] == pytest.approx(0.604 / 0.324 - 1, rel=1e-4)
    shallow, _, _ = ablation_results(("baseline", "depth"))
    assert "9.5.1/s1000/depth_penalty" in failing("9.5.1-depth", shallow)
    assert failing("q-depth-helps", shallow) == set()
    assert failing("q-depth", shallow) == {f"q-depth/{k}" for k in ("final_ratio", "early_ratio", "share")}
    for swap, keys in (
        (("scale", "depth"), {"scale_gain", "ortho_gain"}),
        (("sink", "depth"), {"sink_gain", "sink_gain_16"}),
        (("full", "ortho"), {"full_gain", "ortho_gain"}),
        (("baseline", "depth"), {"depth_penalty", "means_apart"}),
    ):
        exchanged = ablation_results(swap)[0]
        rows = [f"9.5.1-{finding}" for finding in ("depth", "scale", "sink", "ortho", "full", "means")]
        failed = {p.key for row in rows for p in judge(row, exchanged).parts if not p.holds}
        assert {f"9.5.1/s2000/{k}" for k in keys} <= failed


def test_few_seeds_do_not_make_a_null_easier():
    """Orthogonality that lowers the error as much as layer scale is refused at any number of seeds, by its mean; a small effect needs a small error."""
    rule = next(p for c in LEDGER.claims if c.id.endswith("9.5.1-ortho") for p in c.parts)
    assert rule.error == rule.key + "_se"
    errors = {
        d: {v: np.full(3, 1.0) + 0.01 * standard(d, 3) for v in ablation.PRINTED_ABLATION}
        for d in ablation.DIMENSIONS
    }
    for d, half in zip(ablation.DIMENSIONS, ablation.half_of_printed_gain("scale"), strict=True):
        errors[d]["ortho"] = errors[d]["depth"] - 2 * half - np.array([-1, 0, 1]) * 5
    values = ablation.ablation_records("s500", errors)
    assert values["9.5.1/s500/ortho_gain"] == pytest.approx([2.0] * 3)  # t is below 1 here
    assert min(values["9.5.1/s500/ortho_gain_se"]) > 20
    assert rule.rule.check(values[rule.key], {}) is False


def test_18_means_against_prediction_intervals_by_hand():
    errors = {
        d: {
            v: ablation.PRINTED_ABLATION[v][i][0] + ablation.PRINTED_ABLATION[v][i][1] * standard(i, 20)
            for v in ablation.PRINTED_ABLATION
        }
        for i, d in enumerate(ablation.DIMENSIONS)
    }
    values = ablation.ablation_records("s500", errors)
    assert values["9.5.1/s500/means_apart"] == pytest.approx(0, abs=1e-9)
    width = stats.t.ppf(1 - 0.025 / 18, 19) * np.sqrt(1 / 6 + 1 / 20)
    assert values["9.5.1/s500/means_exchanged"][0] == pytest.approx(
        0.280 / (0.087 * width)
    )  # baseline's 0.324 among depth's seeds
    assert values["9.5.1/s500/means_exchanged"][5] == pytest.approx(0.497 / (0.216 * width))


def test_section_9_6_as_printed_is_reproduced_and_a_regulariser_that_helps_is_not():
    runs, rounds = diversity_results()
    assert runs.base["base_strong"].mean() == pytest.approx(0.81 + 0.3, rel=1e-5)  # round 1 at 3,000 steps,
    assert runs.round_2[0].mean() == pytest.approx(0.81 + 0.5, rel=1e-5)  # round 2 at 5,000
    values = diversity.diversity_records(runs) | diversity.balanced_records(rounds)
    assert failing_of("9.6", values) == set()
    # the paper prints 2.70 and 1.13 for one and the same baseline, and 5.36 for a third if the spectrum is section 9.1's
    common = shared.common_error(STUDIES["diversity"])
    bases = {
        "tiny": (3.20, 3.50),
        "strong": (2.70, 3.0),
        "medium": (1.13, 3.0),
        "base": (0.81, 1.11),
        "8": (2.47, 2.77),
    }
    off = [abs(a - b) / (b * np.hypot(0.02, common)) for a, b in (*bases.values(), (5.36, 3.0))]
    wide = 0.3 / (5.66 * np.hypot(0.02, shared.common_error(STUDIES["diversity_wide"])))
    assert values["9.6/same/base_z"] == pytest.approx(off[-1], rel=1e-3)
    assert values["9.6/wide/base_z"] == pytest.approx(wide, rel=1e-3)
    assert values["9.6/bases_off"] == sum(z > 2.8 for z in [*off[:5], min(wide, off[-1])])
    gains = [
        100 * (1 - d / b) for d, b in zip(runs.diverse["tiny_strong"], runs.base["tiny_strong"], strict=True)
    ]
    assert values["9.6/round1_gain"][:2] == pytest.approx([g.mean() for g in gains], abs=1e-4)
    assert values["9.6/round1_gain_se"][:2] == pytest.approx([stats.sem(g) for g in gains], rel=1e-3)
    assert len(values["9.6/round1_gain"]) == 10
    assert values["9.6/oracle_over_diverse"] == pytest.approx([100 * (3.94 - 3.84) / 3.81] * 2, abs=2e-3)
    runs, rounds = diversity_results(5.0)
    failed = failing_of("9.6", diversity.diversity_records(runs) | diversity.balanced_records(rounds))
    assert {
        f"9.6/{k}" for k in ("round1_gain", "round2_gain", "round3_gain", "wide/gain", "same/gain")
    } <= failed
    runs, rounds = diversity_results(-5.0)  # the oracle gains
    values = diversity.diversity_records(runs) | diversity.balanced_records(rounds)
    assert failing_of("9.6", values) == {"9.6/oracle_change", "9.6/oracle_over_diverse", "9.6/round2_gain"}
    assert values["9.6/oracle_does"] == "lowers"


def test_section_9_1_number_by_number():
    """Three settings of four seeds; the second is nearest to 5.77, the spreads of its changes are known."""
    z = np.array([-1.0, 0, 0, 1])  # standard deviation sqrt(2/3)
    none = np.array([[9.0] * 4, [5.7, 5.8, 5.8, 5.7], [2.0] * 4]) + 0.1 * z
    spreads = {"spectral": (1, 2, 6), "random": (3, 4, 5), "redundant": (7, 8, 9)}
    errors = {"none": none}
    for mask, spread in spreads.items():
        errors[mask] = none * (1 + (2 + np.outer(spread, z)) / 100)
    values = masks.mask_records(masks.MaskRuns(["a", "b", "c"], errors, 0.01))
    sd = np.sqrt(2 / 3)
    assert (values["9.1/nearest"], values["9.1/settings"], values["9.1/seeds"]) == ("b", 3, 4)
    assert values["9.1/baseline"] == pytest.approx(5.75)
    assert values["9.1/spread"] == pytest.approx(2 * sd)
    medians = {"spectral": 2, "random": 4, "redundant": 8}
    printed = {"spectral": 5.99, "random": 5.83, "redundant": 5.87}
    expected = [100 * (printed[m] / 5.77 - 1) / (medians[m] * sd) for m in printed]
    assert values["q-unstated/one_seed"] == pytest.approx(expected)
    assert values["q-unstated/masks_inside"] is True
    low = {mask: np.minimum(e, 5.769) for mask, e in errors.items()}
    high = {mask: np.maximum(e, 5.771) for mask, e in errors.items()}
    low["none"][0, 0] = 5.7695
    for outside in (low, high):
        assert (
            masks.mask_records(masks.MaskRuns(["a", "b", "c"], outside, 0.01))["q-unstated/masks_inside"]
            is False
        )


def test_section_9_6_number_by_number():
    z = np.array([-1.0, 0, 0, 1])
    base = {name: np.stack([2 + 0.1 * z, 4 + 0.4 * z]) for name in diversity.ROUND_1}
    runs = diversity.DiversityRuns(
        [1e-3, 3e-3],
        base,
        {name: 0.98 * errors for name, errors in base.items()},
        (np.full((2, 4), 4.0), np.array([[3.0] * 4, [5.0] * 4]) + 0.01 * z),
        dict.fromkeys(base, 0.0),
    )
    values = diversity.diversity_records(runs)
    assert values["9.6/round2_gain"] == pytest.approx([25, -25])
    assert values["9.6/round2_gain_se"] == pytest.approx([0.25 * stats.sem(z)] * 2)
    assert values["9.6/round1_gain"] == pytest.approx([2] * 10)
    # 2.70 and 1.13, apart by 58 % of 2.70, and seeds spread by 5 and by 10 %
    assert values["q-unstated/same_baseline"] == pytest.approx((1 - 1.13 / 2.70) / (0.1 * np.sqrt(2 / 3)))
    for oracle, word in (
        ((0.9, 0.8), "lowers"),
        ((1.1, 1.2), "raises"),
        ((0.9, 1.1), "lowers at one rate and raises at another"),
    ):
        whole = np.stack([3.8 + 0.02 * z, 3.7 + 0.02 * z])
        rounds = {n: {"all": whole, "low": whole} for n in ("baseline", "diverse")}
        rounds["oracle"] = {"all": whole * np.array(oracle)[:, None], "low": whole}
        found = diversity.balanced_records(rounds)
        assert found["9.6/oracle_does"] == word
        assert found["9.6/oracle_change"] == pytest.approx([100 * (o - 1) for o in oracle])
        assert found["q-unstated/balanced_inside"] is True  # 3.81 lies in 3.68 to 3.82, 3.94 does not


@pytest.mark.parametrize(("printed", "expected"), [(0.9, False), (1.0, True), (3.0, True), (3.1, False)])
def test_inside_is_between_the_least_and_the_largest(printed, expected):
    assert shared.inside(printed, np.array([[1.0, 2.0], [3.0, 2.0]])) is expected


def test_runs_of_a_group_are_told_apart_by_rate_first():
    study = STUDIES["masks"]
    results = synthetic(
        study, {"curve_n16": lambda g, i, run, step: error_curve(run.rate * 1e4 + run.seed / 100)}
    )
    errors = shared.final_errors(study, results, "none-softmax-adam")
    expected = np.array([[3.0], [10.0], [30.0]]) + np.arange(20) / 100
    np.testing.assert_allclose(errors, expected, rtol=1e-5)


# -- standard errors --------------------------------------------------------------------------------------------------------


def test_errors_of_section_9_1_are_those_of_known_spreads():
    values = masks.mask_records(mask_results(PRINTED_CHANGE))
    for mask in ("spectral", "random", "redundant"):  # a change that spreads by 0.4 over 20 seeds
        assert values[f"9.1/{mask}_change_se"] == pytest.approx([0.4 / np.sqrt(20)] * 10, rel=1e-3)
    assert values["9.1/spectral_worst_share_se"] == 0  # every seed has the printed order
    near = masks.mask_records(mask_results(PRINTED_CHANGE | {"redundant": PRINTED_CHANGE["spectral"]}, 5.0))
    # either mask may be the worst, in all ten settings at once, which have the same numbers here
    assert 0.3 < near["9.1/spectral_worst_share_se"] <= 0.51


def test_errors_of_section_9_2_add_seeds_and_shared_prompts():
    study, seed = STUDIES["alignment"], np.arange(20.0)
    inverse = 1 / np.array(SPECTRUM)
    wobble = np.random.default_rng(0).standard_normal((20, 8))
    arrays = {
        "curve_n16": lambda g, i, run, step: error_curve(5 + run.seed / 10),
        "gain": lambda g, i, run, step: wobble[run.seed] + (inverse if step else 0),
        "key": lambda g, i, run, step: np.ones((4, 8)) + np.arange(8) * (1 + run.seed),
    }
    course = dynamics.dynamics(study, synthetic(study, arrays))
    values = dynamics.dynamics_records(course)
    # of the printed numbers the error of 27.1 is furthest off, its interval of seeds and of the prompts that all seeds share
    seeds = stats.t.ppf(0.975, 19) * np.std(5 + seed / 10, ddof=1) * np.sqrt(1 + 1 / 20)
    prompts = 1.96 * course.best[1] / course.best[0] * 5.95
    assert values["9.2/slope/apart"] == pytest.approx((27.1 - 5.95) / np.hypot(seeds, prompts), rel=1e-4)
    rise = [stats.pearsonr(w + inverse, inverse)[0] - stats.pearsonr(w, inverse)[0] for w in wobble]
    assert values["9.2/gain/alignment_rise_se"] == pytest.approx([stats.sem(rise)] * 10, rel=1e-3)
    assert values["9.2/key/alignment_rise_se"] == pytest.approx([0.0] * 10, abs=1e-7)  # keys stand still


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


# -- figures ----------------------------------------------------------------------------------------------------------------


def test_figures_draw_every_seed_and_the_printed_values():
    _, _, grid = ablation_results()
    figures = {
        draw.masks(mask_results(PRINTED_CHANGE)): ({5.77, 5.99}, 40 * 20 + 30 * 20 + 7),
        draw.depth_grid(grid): ({round(2.684 / 2.187, 9)}, 15 * 14),
        draw.figure_1(exact.spectrum()): ({0.35, 0.59, 0.81}, 9 * 21),
        draw.diversity(*diversity_results()): ({3.81, 1.34}, 12 * 20 + 12 * 20),
    }
    for fig, (printed, marks) in figures.items():
        lines = [line for ax in fig.axes for line in ax.get_lines()]
        own = {
            round(float(y), 9)
            for line in lines
            if line.get_color() == style.COLOURS["paper"]
            for y in line.get_ydata()
        }
        assert printed <= own
        drawn = sum(
            len(line.get_ydata()) for line in lines if line.get_marker() not in ("None", "x", "", None)
        )
        assert drawn == marks
        assert fig.legends or any(ax.get_legend() for ax in fig.axes)
    plt.close("all")


SLIDERS = {
    frames.spectrum_frame: [(2.0, 0.25), (120.0, 1.3), (1.1, 1.6)],
    frames.layers_frame: [(1,), (20,), (30,)],
    frames.temperature_frame: [(-1.0,), (0.0,), (3.0,)],
    frames.gains_frame: [(1, "none"), (2, "random"), (4, "spectral"), (4, "redundant")],
}


@pytest.mark.parametrize("frame", SLIDERS)
def test_frames_keep_their_size_over_the_whole_range(frame):
    sizes = set()
    for values in SLIDERS[frame]:
        fig = frame(*values)
        fig.canvas.draw()
        sizes.add(tuple(fig.get_size_inches()))
        plt.close(fig)
    assert len(sizes) == 1
