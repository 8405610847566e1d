"""wang2025: records of made-up scores, maps, gradients and episodes, each worked out by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from iclbook.papers.wang2025.measures import (
    exact,
    image_records,
    language_exam,
    language_models,
    learned,
    misprints,
    new_draws,
    square,
    structure,
    theorem2,
)
from iclbook.papers.wang2025.theory import counts, descent
from iclbook.store import Results
from iclbook.tasks.categorical import Anchors
from iclbook.tasks.stories import Stories

# -- statistics of runs ---------------------------------------------------------------------------------------------------


def test_statistics_of_two_runs():
    two = np.array([1.0, 3.0])  # mean 2, standard error 1
    assert learned.t_of_runs(two) == pytest.approx(2)
    assert learned.error_of_runs(two) == pytest.approx(1)
    assert learned.t_of_runs(np.array([2.0, 2.0])) == 0
    assert learned.error_of_runs(np.array([2.0])) == 0
    assert learned.paired(two, mean="m", se="s") == pytest.approx({"m": 2, "s": 1})


def sweep(train: dict[str, list], nll: dict[str, list]) -> learned.Sweep:
    return learned.Sweep(
        (8, 64), {}, {k: np.array(v) for k, v in nll.items()}, {k: np.array(v) for k, v in train.items()}
    )


def test_data_and_optimisation_are_told_apart():
    """Trained TF fits 8 contexts by 1.0 and 64 by 0.1 better than new ones; at 64 it is 0.2 worse than GD on its own contexts and 0.25 on new ones."""
    train = {"TF softmax": [[0.5, 0.7], [1.4, 1.6]], "GD softmax": [[1.0, 1.0], [1.3, 1.3]]}
    nll = {"TF softmax": [[1.5, 1.7], [1.5, 1.7]], "GD softmax": [[1.2, 1.2], [1.3, 1.4]]}
    deep_train = {"TF": [[0.1, 0.3], [2.0, 2.0]], "GD": [[0.0, 0.0], [1.5, 1.7]]}
    deep_nll = {"TF": [[2.1, 2.3], [2.5, 2.5]], "GD": [[1.0, 1.0], [1.5, 1.6]]}
    found = learned.gap(sweep(train, nll), sweep(deep_train, deep_nll))
    assert found["q-gap/one_overfit_small"] == pytest.approx(1.0)
    assert found["q-gap/one_overfit_large"] == pytest.approx(0.1)
    assert found["q-gap/one_unfitted_large"] == pytest.approx(0.2)
    assert found["q-gap/one_test_large"] == pytest.approx(0.25)
    assert found["q-gap/one_test_large_t"] == pytest.approx(5)  # 0.2 and 0.3
    assert found["q-gap/two_overfit_small"] == pytest.approx(2.0)
    assert found["q-gap/two_overfit_large"] == pytest.approx(0.5)
    assert found["q-gap/two_unfitted_large"] == pytest.approx(0.4)
    assert found["q-gap/two_test_large"] == pytest.approx(0.95)


def test_the_gap_of_figure_5_closes_or_does_not():
    nll = {"GD": [[2.0, 2.2, 2.1], [1.0, 1.2, 1.1]], "TF": [[3.0, 3.4], [1.0, 1.3]]}
    found = learned.figure5(sweep({}, nll))
    assert found["fig5/gd_nll"] == pytest.approx([2.1, 1.1]), "one mean for each number of contexts"
    assert found["fig5/tf_nll"] == pytest.approx([3.2, 1.15])
    assert (found["fig5/L"], found["fig5/seeds"]) == ([8, 64], [3, 2])
    assert found["fig5/first_gap"] == pytest.approx(1.1), "over the two runs that both have"
    assert found["fig5/last_gap"] == pytest.approx(0.05)
    assert found["fig5/gd_cost"] == pytest.approx(1.0)
    assert found["fig5/gd_cost_se"] == pytest.approx(0, abs=1e-12)


# -- new draws ------------------------------------------------------------------------------------------------------------


def test_spreads_between_and_within_draws():
    values = np.array([[0.0, 2.0], [4.0, 4.0]])  # means 1 and 4; variances 2 and 0
    found = new_draws.spreads(values)
    assert found["q-draw-spread/units"] == pytest.approx(3 / math.sqrt(2))
    assert found["q-draw-spread/inits"] == pytest.approx(1)
    assert new_draws.spreads(values[:, :1])["q-draw-spread/inits"] == 0
    every = new_draws.of_units(values, mean="m", se="s")
    assert every == pytest.approx({"m": 2.5, "s": 1.5})


def test_the_error_of_a_spread_is_that_of_a_difference():
    """Units as far apart as initialisations within them: both spreads move alike when units are drawn again, and their difference hardly."""
    far = np.array([[0.0, 0.0], [10.0, 10.0], [20.0, 20.0], [30.0, 30.0]])
    found = new_draws.spreads(far)
    assert found["q-draw-spread/inits"] == 0
    assert 0 < found["q-draw-spread/units_se"] < found["q-draw-spread/units"]
    alike = np.array([[-1.0, 1.0], [-3.0, 3.0], [-5.0, 5.0]])  # no spread between, much within
    swapped = new_draws.spreads(alike)
    within = np.sqrt((alike.var(1, ddof=1)).mean())
    assert swapped["q-draw-spread/units"] == 0
    assert 0 < swapped["q-draw-spread/units_se"] < within


def test_gaps_of_figure_8_over_draws(monkeypatch):
    """Accuracy of GD in three draws 0.5, 0.6, 0.7; Trained TF behind by 0.1, 0.2, 0.3 with every kernel but the linear one."""
    gd = np.array([0.5, 0.6, 0.7])

    def over_units(get, profile, study, group, what):
        shift = {"softmax": 0.0, "rbf": 0.01, "laplacian": 0.03, "exponential": 0.08}.get(group, 0.2)
        own = gd - shift - (np.array([0.1, 0.2, 0.3]) if study == "quad_tf" else 0)
        return np.stack([own, own + 9], axis=1)  # figure 8 takes the first initialisation

    monkeypatch.setattr(new_draws, "over_units", over_units)
    found = new_draws.figure8(None, "paper")
    kernels = len(found["q-we-draw/gaps"])
    assert kernels == len(new_draws.KERNELS) - 1
    assert found["q-we-draw/gaps"] == pytest.approx([0.2] * kernels)
    assert found["q-we-draw/gaps_sd"] == pytest.approx([0.1] * kernels)
    errors = found["q-we-draw/gaps_sd_se"]
    resampled = np.random.default_rng(5).choice([0.1, 0.2, 0.3], (20_000, 3)).std(1, ddof=1).std()
    assert errors == pytest.approx([resampled] * kernels, rel=0.05)


# -- maps -----------------------------------------------------------------------------------------------------------------


def test_means_and_shares_of_maps(monkeypatch):
    """Two runs, three categories: GD is right everywhere in both, Trained TF in one of them."""
    right = np.array([2, 0, 1, 2])[square._quadrants()]
    told = np.stack([(right == c).astype(float) for c in range(3)])
    gd, tf = np.stack([told, 0.5 * told]), np.stack([told, np.roll(told, 1, axis=0)])
    empty = np.zeros(0)
    one = square.Maps(gd, tf, empty, empty, empty, (0, 1), (2, 0, 1, 2))
    assert one.gd == pytest.approx(0.75 * told)
    assert one.tf == pytest.approx((told + np.roll(told, 1, axis=0)) / 2)
    other = square.Maps(gd + 0.25, tf, empty, empty, empty, (0, 1), (2, 0, 1, 2))
    found = square.figure9({"rbf": [one, one], "linear": [other, other]})
    assert found["fig9/right_gd"] == [1, 1]
    assert found["fig9/right_tf"] == [0.5, 0.5]
    difference = np.abs(gd[:, :2] - tf[:, :2]).mean((1, 2, 3))
    assert found["fig9/difference"] == pytest.approx([difference.mean()] * 2)
    assert found["fig9/difference_se"] == pytest.approx([np.ptp(difference) / 2] * 2)
    seeds = np.abs(gd[0, :2] - gd[1, :2]).mean()
    assert found["fig9/seeds_difference"] == pytest.approx([seeds] * 2)


def test_quadrants_of_the_square():
    """Counted from the first, borders to the right and above; rows run upwards."""
    where, half = square._quadrants(), square.GRID // 2
    assert [where[-1, -1], where[-1, 0], where[0, 0], where[0, -1]] == [0, 1, 2, 3]
    assert where[half, half] == 0
    assert (where[half, 0], where[0, half]) == (1, 3)


def test_linear_attention_is_measured_against_the_next_kernel():
    """GD 0.30 and 0.34, Trained TF 0.35 and 0.37, the next kernel's GD 0.40 and 0.50."""
    linear = {"GD": np.array([0.30, 0.34]), "TF": np.array([0.35, 0.37])}
    found = square.linear_agreement({"linear": linear, "exponential": {"GD": np.array([0.40, 0.50])}})
    assert found["fig8/linear_gap"] == pytest.approx(0.04)
    assert found["fig8/linear_half_distance"] == pytest.approx(0.065)
    assert found["fig8/linear_crossed_gap"] == pytest.approx(0.09)
    assert found["fig8/linear_gap_se"] == pytest.approx(0.025)  # 0.05 - 0.05 and 0.03 - 0.08


# -- gradients and closed forms -----------------------------------------------------------------------------------------------


def test_statistics_of_a_gradient_of_two_layers():
    """The first layer's gradient is 2 I or 4 I, the second's a stretch that changes its sign, in all four pairs, four times."""
    eye, stretch = torch.eye(2, dtype=torch.float64), torch.diag(torch.tensor([1.0, -1.0]).double())
    pairs = [torch.stack([size * eye, sign * stretch]) for size in (2, 4) for sign in (1, -1)]
    found = theorem2.summarise(torch.stack(pairs * 4))
    assert found.mean == pytest.approx(np.stack([3 * np.eye(2), np.zeros((2, 2))]))
    one = math.sqrt(16 / 15) / 4  # of plus and minus one, sixteen times
    assert found.error == pytest.approx(np.stack([one * np.eye(2)] * 2))
    assert found.trace == pytest.approx([3, 0])
    assert found.trace_error == pytest.approx([one, 0])
    assert found.p_shape == pytest.approx(1), "what is no multiple of I has mean zero"
    assert found.p_zero == pytest.approx(float(stats.chi2.sf((3 / one) ** 2, 2)), rel=1e-6), "a trace has not"


def test_a_gap_is_that_of_the_worst_pair():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([5.0])
    assert exact._gap([a, b], [a + 0.25, b]) == 0.25
    assert exact._gap([b, a], [b, a - torch.tensor([0.0, 3.0])]) == 3


def test_one_step_of_the_misprinted_update_by_hand(monkeypatch):
    """At f = 0 all expectations are the mean embedding: the head's printed index does no harm, and equation 26's moves everybody as it moves the query."""
    monkeypatch.setattr(misprints, "RATES", (1.5,))
    found = misprints.indices_of_the_update()
    psi, y, w, _ = misprints._problem(0)
    steps = 1.5 / misprints.N * (psi @ psi[: misprints.N].T) @ (w[:, y].T - w.mean(1))
    assert torch.allclose(steps, descent.parameter_descent([psi], y, w, (1.5,))[-1])
    assert found["eq26/mended"] < 1e-12
    assert found["eq26/head"] < 1e-12
    assert found["eq26/printed"] == pytest.approx(float((steps[-1] - steps).abs().max() / steps.abs().max()))


def test_the_misprinted_head_after_two_steps(monkeypatch):
    """The second step takes the expectation of the position that asks, j, where that of the example, i, belongs."""
    monkeypatch.setattr(misprints, "RATES", (1.5, 0.5))
    psi, y, w, _ = misprints._problem(0)
    kappa, n = psi @ psi[: misprints.N].T, misprints.N
    first = 1.5 / n * kappa @ (w[:, y].T - w.mean(1))
    second = torch.stack(
        [
            sum(kappa[j, i] * (w[:, y[i]] - w @ torch.softmax(w.T @ first[j], 0)) for i in range(n)) * 0.5 / n
            for j in range(n + 1)
        ]
    )
    truth = descent.parameter_descent([psi], y, w, (1.5, 0.5))[-1]
    expected = float((first + second - truth).abs().max() / truth.abs().max())
    assert misprints.indices_of_the_update()["eq26/head"] == pytest.approx(expected)
    assert misprints._off(torch.tensor([3.0, -4.0]), torch.tensor([1.0, -4.0])) == 0.5


def test_the_slot_that_is_not_erased_keeps_what_was_there_before():
    """Without its own key the query's slot is never cleared: after one block it holds the first expectation, the mean embedding, too much. Nobody notices."""
    found = exact.construction(contexts=2, blocks=2)
    embed = exact.fast_model("rbf", 2, 7, Anchors(exact.N, exact.D)).embed.detach()
    assert found["query-slot/error"] == pytest.approx(float(embed.mean(1).abs().max()))
    assert found["query-slot/error_among"] < 1e-9
    assert found["query-slot/f_difference"] < 1e-9


# -- images ---------------------------------------------------------------------------------------------------------------


def test_blocks_are_compared_with_probes_episode_by_episode():
    """Hits of one to three blocks 0.25, 0.5, 0.75 over the probe's (both episodes), likelihoods 4, 2 and 1 times its."""
    hits, nll = np.array([0.0, 0.25]), np.array([1.0, 3.0])
    softmax = {k: image_records.Scored(hits + k / 4, nll * 4 / 2 ** (k - 1)) for k in (1, 2, 3)}
    softmax[1] = image_records.Scored(softmax[1].hits + np.array([0, 0.5]), softmax[1].nll)
    for which, compare in (
        ("tuned", image_records.against_tuned),
        ("coded", image_records.against_coded),
    ):
        found = {key.split("/")[-1]: value for key, value in compare(softmax, hits, nll).items()}
        assert [found[f"accuracy{k}"] for k in (1, 2, 3)] == pytest.approx([0.5, 0.5, 0.75]), which
        assert [found[f"accuracy{k}_se"] for k in (1, 2, 3)] == pytest.approx([0.25, 0, 0], abs=1e-12)
        assert (found["nll1"], found["nll1_se"]) == pytest.approx((6, 3))
        assert (found["nll2_ratio"], found["nll3_ratio"]) == pytest.approx((2, 1))
        assert (found["nll2_ratio_se"], found["nll3_ratio_se"]) == pytest.approx((0, 0), abs=1e-12)


def test_scores_of_models_and_probes_stand_under_their_own_names():
    def of(shift: float, groups: str) -> dict[str, np.ndarray]:
        found = {}
        for k in (1, 2, 3):
            found[f"{groups}{k}/hits"] = np.full((2, 4), 0.1 * k + shift)
            found[f"{groups}{k}/nll"] = np.full((2, 4), 2 - 0.1 * k - shift)
        return found

    probe = {f"probe/{name}": np.full(4, 0.5 + 0.1 * i) for i, name in enumerate(image_records.PROBE_SCORES)}
    stored = {
        "images_unseen0": Results(of(0.0, "blocks") | probe, {}),
        "images_linear_unseen0": Results(of(-0.05, "linear"), {}),
        "images_seen0": Results({k: v + 0.02 for k, v in (of(0.0, "blocks") | probe).items()}, {}),
    }
    found = image_records.comparison_records(stored)
    expected = {"softmax/accuracy2": 0.2, "softmax/nll2": 1.8, "linear/accuracy3": 0.25, "linear/nll2": 1.85}
    expected |= {"tuned/accuracy": 0.5, "tuned/nll": 0.6, "coded/accuracy": 0.7, "coded/nll": 0.8}
    expected |= {"linear/tuned/accuracy3": -0.25, "softmax/tuned/accuracy3": -0.2}
    assert {key: found[f"images/{key}"] for key in expected} == pytest.approx(expected)
    seen = image_records.seen_records({name: stored[name] for name in ("images_unseen0", "images_seen0")})
    assert seen["images/seen/probe"] == pytest.approx([0.02])
    assert seen["images/seen/blocks3"] == pytest.approx([0.02])


# -- language -------------------------------------------------------------------------------------------------------------


def test_words_and_pairs_are_counted_in_stories_that_are_scored_nowhere(monkeypatch):
    asked = []
    real = Stories.held_out

    def held_out(self, n, seed=0):
        asked.append(seed)
        return real(self, 5, seed)

    monkeypatch.setattr(Stories, "held_out", held_out)
    task = Stories()
    language_models.scored_stories(task, 3)
    scored = set(asked)
    asked.clear()
    language_exam.others.cache_clear()
    language_exam._bigrams(task)
    models = SimpleNamespace(task=task, profile="smoke", above=lambda nll: nll)
    tokens = real(task, 3)
    monkeypatch.setattr(
        language_models, "scored_stories", lambda task, n: (tokens, None, torch.zeros_like(tokens))
    )
    language_models.Languages.single_words(models)
    language_exam.others.cache_clear()
    assert len(asked) == 1, "both count in the same stories"
    assert not scored & set(asked)


def test_the_mixing_matrices_are_counted_beside_the_diagonals():
    gd = next(iter(counts.models().values()))
    numbers = {name: p.numel() for name, p in gd.named_parameters()}
    diagonals, mixing = (sum(n for name, n in numbers.items() if part in name) for part in ("lam", "mix"))
    found = structure.parameters()
    assert found["params/gd"] == diagonals
    assert found["params/gd_with_P_ratio"] == pytest.approx(1 + mixing / diagonals)


def test_weights_of_equation_39_as_printed_sum_to_the_number_of_categories_at_least():
    """Their logarithms sum to one, so by Jensen's inequality they sum to ``C e^(1/C)`` or more; where scores are large and alike in sign, hardly more."""
    least = exact.CLASSES * math.exp(1 / exact.CLASSES)
    mass = 1 / (1 - exact.equation_39()["eq39/mass"])
    assert least <= mass < 1.05 * least
