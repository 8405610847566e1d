"""What nagy2026's controlled experiments measure: against scipy and against Monte Carlo."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from iclbook.models.spectral_attention import SpectralAttention
from iclbook.papers.nagy2026 import common as one_layer
from iclbook.papers.nagy2026 import construction as von_oswald
from iclbook.papers.nagy2026 import ladder, section_9_2, section_9_5, section_9_6
from iclbook.papers.nagy2026 import section_5 as reweighting
from iclbook.papers.nagy2026 import section_9_1 as heads
from iclbook.papers.nagy2026.studies import SPECTRUM, answers_of_runs
from iclbook.statistics import student
from iclbook.tasks.spectral_regression import SpectralRegression

# -- one layer of linear attention, closed forms --------------------------------------------------------------------------


def linear_prompts(lam: np.ndarray, length: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of ``y x`` over the context ``(n, d)``, query ``(n, d)``, target ``(n,)``: written without the library's task."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, length + 1, len(lam))) * np.sqrt(lam)
    w = rng.standard_normal((n, len(lam)))
    y = (x * w[:, None]).sum(-1)
    return (x[:, :-1] * y[:, :-1, None]).mean(1), x[:, -1], y[:, -1]


@pytest.mark.parametrize("length", [1, 4, 16])
def test_error_of_a_diagonal_gain_against_monte_carlo(length):
    lam = np.array([3.0, 1.0, 0.2])
    moment, query, target = linear_prompts(lam, length, 50_000, length)
    for gain in (one_layer.best_gain(lam, length), np.array([0.05, 0.3, -0.4])):
        squared = (target - (moment * gain * query).sum(1)) ** 2
        error = squared.std() / np.sqrt(len(squared))
        assert abs(squared.mean() - one_layer.expected_error(lam, length, gain)) < 4 * error


def test_best_gain_against_numeric_minimisation_and_regression():
    """Least squares over ALL matrices G, on sampled prompts, leaves the closed-form diagonal and nothing beside it."""
    best = one_layer.best_gain(SPECTRUM, 16)
    scale = np.sqrt(np.array(SPECTRUM))  # the small eigenvalues hardly count: minimise in units in which all do
    found = optimize.minimize(
        lambda u: one_layer.expected_error(SPECTRUM, 16, u / scale), np.zeros(8), tol=1e-14, method="BFGS"
    )
    assert one_layer.expected_error(SPECTRUM, 16, best) <= found.fun * (1 + 1e-9)
    np.testing.assert_allclose(found.x / scale, best, rtol=1e-2)

    lam, n = np.array([2.0, 1.0, 0.5]), 100_000
    moment, query, target = linear_prompts(lam, 4, n, 9)
    features = (moment[:, :, None] * query[:, None]).reshape(n, 9)
    inverse = np.linalg.inv(features.T @ features)
    g = inverse @ features.T @ target
    scores = features * (target - features @ g)[:, None]
    error = np.sqrt(
        np.diag(inverse @ (scores.T @ scores) @ inverse)
    )  # also right where the noise depends on the features
    assert (np.abs(g.reshape(3, 3) - np.diag(one_layer.best_gain(lam, 4))) < 5 * error.reshape(3, 3)).all()


def test_alignment_and_contraction_rates_against_scipy():
    rng = np.random.default_rng(0)
    importance = rng.standard_normal((3, 8))
    for row, value in zip(importance, section_9_2.spectral_alignment(importance, SPECTRUM), strict=True):
        assert value == pytest.approx(stats.pearsonr(row, 1 / np.array(SPECTRUM)).statistic)
    assert np.isnan(section_9_2.spectral_alignment(np.ones(8), SPECTRUM))
    curve = np.exp(rng.standard_normal((2, 16)))
    for row, value in zip(curve, section_9_2.rho_by_slope(curve), strict=True):
        assert np.log(value) == pytest.approx(stats.linregress(np.arange(16), np.log(row)).slope)
    geometric = 5 * 0.9 ** np.arange(1, 17)
    assert section_9_2.rho_by_slope(geometric) == pytest.approx(0.9)
    assert section_9_2.rho_by_ends(geometric, 5.0) == pytest.approx(0.9)


def test_distances_of_printed_numbers_in_standard_deviations():
    rows = np.array([[0.0, 2.0, 4.0], [9.0, 10.0, 11.0]])  # mean 2, sd 2; mean 10, sd 1
    runs = section_9_6.Diversity([1e-3, 3e-3], rows, rows, 0.0)
    assert runs.base_z(5.0) == pytest.approx(1.5)
    assert runs.base_z(8.0) == pytest.approx(2.0)
    assert replace(runs, common=1.0).base_z(5.0) == pytest.approx(5 / np.hypot(1, 10))


def test_numbers_printed_together_are_judged_by_hotellings_region():
    """Two numbers: T^2 is that of the regression on both, and its region has the coverage that it says, whatever the correlation."""
    rng = np.random.default_rng(0)
    mix = np.array([[0.3, 0.0], [0.27, 0.05]])
    inside = 0
    for _ in range(600):
        logs = mix @ rng.standard_normal((2, 11))
        inside += section_9_5.joint_distance(np.exp(logs[:, -1]), np.exp(logs[:, :-1]), 0.9) <= 1
    assert inside / 600 == pytest.approx(0.9, abs=3 * np.sqrt(0.09 / 600))
    one = rng.standard_normal((1, 9))
    half = stats.t.ppf(0.975, 8) * one.std(ddof=1) * np.sqrt(1 + 1 / 9)
    assert section_9_5.joint_distance(np.exp(one.mean(1) + half), np.exp(one), 0.95) == pytest.approx(1)
    assert section_9_5.joint_distance(np.ones(3), np.ones((3, 3))) == 0, "too few seeds to tell"


def test_round_3_is_judged_at_the_rate_whose_baseline_is_printed_and_basins_are_parted():
    noise = np.linspace(-0.1, 0.1, 9)
    base = np.stack([4.57 + noise, 3.8 + noise])
    runs = {"baseline": base, "diverse": 1.02 * base, "oracle": 0.95 * base}
    found = section_9_6.balanced_records(runs, [0.001, 0.003])
    assert found["9.6/matched/rate"] == 0.003
    assert found["9.6/matched/gain"].value == pytest.approx(-2)
    assert found["9.6/matched/oracle_over_diverse"].value == pytest.approx(-7)
    assert found["9.6/other/helped"].value == 0
    parts = section_9_6.basins(np.array([6.4, 4.0, 4.1, 6.3, 3.95]))
    assert [part.tolist() for part in parts] == [[3.95, 4.0, 4.1], [6.3, 6.4]]


def test_errors_of_the_ladder_hold_its_prompts():
    """Models that answer alike, each prompt by an error of its own: over models nothing varies, and all of the error is the prompts'."""
    target = ladder._lines(128).target.numpy()
    off = np.random.default_rng(1).uniform(0, 2, 128)
    estimate = np.stack([target - 2 * off, target - off], -1)[None]  # (T, n, L + 1)
    arrays = {"lines_estimate": estimate, "shuffled_estimate": estimate, "singular": np.ones((1, 8))}
    arrays |= {f"truncated_{drop}": np.tile([[-1.0], [1.0]], (1, 6, 24)) for drop in ("last", "random")}
    every = [ladder.Model("l1w8", run, np.array([1]), arrays) for run in range(3)]
    values = ladder._of_models(every, [])
    assert values["alignment/reduction"] == pytest.approx(off.mean())
    blocks = [
        ladder._of_models([every[0]._replace(block=b)], [])["alignment/reduction"][0] for b in range(ladder.BLOCKS)
    ]
    left = [np.delete(off.reshape(ladder.BLOCKS, 8), b, 0).mean() for b in range(ladder.BLOCKS)]
    assert blocks == pytest.approx(left)
    jackknife = np.sqrt((ladder.BLOCKS - 1) * np.var(left))
    assert jackknife == pytest.approx(off.reshape(ladder.BLOCKS, 8).mean(1).std(ddof=1) / np.sqrt(ladder.BLOCKS))


# -- heads and masks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_best_residual_against_a_search_over_gains(seed):
    """Heads that overlap: the worst channel of the best gains, found by descent on the maximum from many starts."""
    rng = np.random.default_rng(seed)
    lam, seen = rng.uniform(0.2, 3, 4), np.array([[1, 1, 1, 0], [0, 0, 1, 1.0]])

    def worst(kappa):
        return ((1 - lam * (seen.T @ kappa)) ** 2).max()

    starts = rng.uniform(-1, 3, (12, 2))
    best = min(
        optimize.minimize(worst, s, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12}).fun for s in starts
    )
    assert heads.best_residual(lam, seen).max() == pytest.approx(best, abs=1e-6)


def test_error_of_a_change_holds_seeds_and_shared_prompts():
    """Two seeds, two blocks, so each error is Student's of two: changes of 10 and 30 %, so 10 by the seeds; by prompts 0.1 of the base where the mask costs 0.2 more in one block."""
    run = heads.MaskRuns({"none": np.ones((2, 2)), "spectral": np.array([[1.0, 1.2], [1.2, 1.4]])})
    assert run.mean_change("spectral").value == pytest.approx(20)
    assert run.mean_change("spectral").error == pytest.approx(10 * student(2) * math.sqrt(2)), "two of either are few"


def test_answers_of_many_runs_are_those_of_each():
    task = SpectralRegression((3.0, 1.0, 0.5, 0.1), L=5)
    batch = task.batch(torch.randn(task.normals, 7, generator=torch.Generator().manual_seed(1)))
    for activation in ("softmax", "linear"):
        models = [SpectralAttention(4, 8, 2, "spectral", activation) for _ in range(3)]
        for seed, model in enumerate(models):
            model.initialise(torch.Generator().manual_seed(seed), 2.0)
        circuits = (torch.stack(parts) for parts in zip(*(model.heads() for model in models), strict=True))
        each = torch.stack([model(batch.context, batch.query)[0] for model in models])
        torch.testing.assert_close(answers_of_runs(*circuits, activation, batch), each)


# -- von Oswald's construction --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3, 8])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_construction_against_autograd(d, n_outputs):
    """Layers against steps whose gradient autograd takes of the loss as written."""
    rng = np.random.default_rng(d)
    x, y, queries = (rng.standard_normal((9, d)), rng.standard_normal((9, n_outputs)), rng.standard_normal((4, d)))
    w0, eta = rng.standard_normal((n_outputs, d)), 0.02

    def steps(w: np.ndarray, k: int) -> np.ndarray:
        t = torch.tensor(w)
        for _ in range(k):
            t = t.detach().requires_grad_()
            loss = ((torch.tensor(x) @ t.T - torch.tensor(y)) ** 2).sum() / 2
            t = t - eta * torch.autograd.grad(loss, t)[0]
        return t.detach().numpy()

    layer = von_oswald.construct(d, n_outputs, eta, w0)
    np.testing.assert_allclose(von_oswald.layer_answers(layer, w0, x, y, queries), queries @ steps(w0, 1).T, rtol=1e-10)
    for layers in (1, 2, 5):
        zero = np.zeros_like(w0)
        answers = von_oswald.layer_answers(von_oswald.construct(d, n_outputs, eta), zero, x, y, queries, layers)
        expected = queries @ steps(zero, layers).T
        np.testing.assert_allclose(answers, expected, rtol=1e-9, atol=1e-12)


# -- section 5 as real attention --------------------------------------------------------------------------------------------


def test_attention_step_is_a_gradient_step_of_the_reweighted_loss():
    for noise, beta in itertools.product((0.0, 0.5), (-0.5, 0.0, 1.3)):
        data = reweighting.examples(15, noise, 4, 0.7)
        p = np.exp(beta * data.x**2) / np.exp(beta * data.x**2).sum()

        def loss(w, p=p, data=data):
            return 0.5 * p @ (data.y - w * data.x) ** 2

        slope = (loss(0.4 + 1e-5) - loss(0.4 - 1e-5)) / 2e-5
        assert reweighting.attention_step(data, 0.4, 0.3, beta) == pytest.approx(0.4 - 0.3 * slope, abs=1e-8)
        root = np.sqrt(p)
        weighted = np.linalg.lstsq((root * data.x)[:, None], root * data.y, rcond=None)[0][0]
        assert reweighting.reweighted_optimum(data, beta) == pytest.approx(weighted, rel=1e-10)
        eta = 1 / (data.x**2).max()
        assert reweighting.descend(data, eta, beta, 1500)[-1] == pytest.approx(weighted, abs=1e-9)
        if noise == 0:
            assert weighted == pytest.approx(0.7, abs=1e-12)  # realisable: every weighting has the optimum of the line
        elif beta:
            assert abs(weighted - data.optimum) > 1e-3
