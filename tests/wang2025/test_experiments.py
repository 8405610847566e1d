"""wang2025: what is measured on trained runs, on made-up results with known answers, and mutations that turn the claims red."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from ledgers import GREEN, RED
from wang2025.kit import failing, judge

from iclbook.models.trained_tf import TrainedStep
from iclbook.papers.wang2025 import bounds, erasure, figures_3_5, figures_8_9, figures_10_11, sliders
from iclbook.papers.wang2025.contexts import scores, stopped_parameters
from iclbook.papers.wang2025.studies import SIZES, synthetic_studies
from iclbook.statistics import share_error
from iclbook.store import Results
from iclbook.tasks.categorical import Quadrants
from iclbook.training.study import pack

SMOKE = synthetic_studies("smoke")


def made_up(accuracy: float, nll: float, runs: int = 5, train: float = 1.0) -> dict[str, np.ndarray]:
    """Arrays of a group whose second record is the best on validation and whose third is better on test."""
    rng = np.random.default_rng(0)
    noise = 0.002 * rng.standard_normal(runs)
    return {
        "steps": np.array([0, 10, 20]),
        "loss": np.full((3, runs), train),
        "nll_validation": np.array([3.0, 1.0, 2.0])[:, None] + noise,
        "nll_test": np.array([3.0, nll, nll - 0.5])[:, None] + noise,
        "accuracy_validation": np.full((3, runs), 0.1),
        "accuracy_test": np.array([0.0, accuracy, 1.0])[:, None] + noise,
    }


def results(**groups: dict[str, np.ndarray]) -> Results:
    """Results with these groups (``_`` stands for ``-``)."""
    return Results({f"{g.replace('_', '-')}/{k}": v for g, a in groups.items() for k, v in a.items()}, {})


def fake(tf_nll: dict[int, float], tf_accuracy: float = 0.55):
    """Results of figure 3 in which GD needs few contexts and Trained TF reaches the given NLL."""

    def get(study: str) -> Results:
        L = int(study.rsplit("L", 1)[1])
        if study.startswith("gd_inner"):
            gd = made_up(0.55, 1.5)
            return results(softmax=gd, softmax_scalar=gd, linear=made_up(0.3, 3.1))
        if study.startswith("gd_squared"):
            return results(rbf=made_up(0.55, 1.5))
        tf = made_up(tf_accuracy, tf_nll[L], train=1.5)
        return results(softmax=tf, rbf=tf)

    return get


def test_scores_are_those_of_the_best_validation_record():
    r = results(a=made_up(0.7, 1.2))
    assert scores(r, "a").best.tolist() == [1] * 5
    np.testing.assert_allclose(scores(r, "a").stopped("accuracy"), 0.7, atol=0.02)
    r.arrays["a/embed"] = np.arange(3 * 5 * 2).reshape(3, 5, 2)
    assert stopped_parameters(r, "a")["embed"].tolist() == r["a/embed"][1].tolist()


def test_figure_3_is_green_when_it_should_be_and_red_otherwise():
    L = SIZES["paper"].L
    reaches = dict(zip(L, (2.0, 1.7, 1.51), strict=True))
    assert judge("fig3", figures_3_5.figure_3(figures_3_5.one_block(fake(reaches), "paper"))).word in GREEN
    never = dict(zip(L, (2.0, 1.9, 1.8), strict=True))
    result = judge("fig3", figures_3_5.figure_3(figures_3_5.one_block(fake(never, 0.4), "paper")))
    assert result.word in RED
    assert {"fig3/softmax_nll_gap", "fig3/rbf_accuracy_gap"} <= failing(result)
    at_once = dict.fromkeys(L, 1.5)
    result = judge("fig3", figures_3_5.figure_3(figures_3_5.one_block(fake(at_once), "paper")))
    assert "fig3/softmax_reach" in failing(result)


def test_reached_asks_for_all_larger_sets():
    nll = np.array([[1.0], [1.3], [1.0]])
    assert figures_3_5.reached((10, 20, 30), nll, 1.0) == 30
    assert figures_3_5.reached((10, 20, 30), nll + 1, 1.0) == figures_3_5.NEVER
    assert figures_3_5.reached((10, 20, 30), nll * 0 + 1.04, 1.0) == 10


def learned_matrices(noise: float, transpose: bool = True, draw: int = 0) -> dict[str, np.ndarray]:
    """Trained TF's arrays around the constructed matrices, turned by a rotation of the draw's own; one run."""
    source = torch.Generator().manual_seed(draw)
    inert, found = TrainedStep(2, 20, 5).inert(), {}
    inner, outer = (torch.linalg.qr(torch.randn(12, 12, generator=source)).Q for _ in range(2))
    read, written = torch.zeros(12, 12), torch.zeros(12, 12)
    read[range(5), range(2, 7)] = 1.0
    written[range(7, 12), range(5)] = 1.0
    if not transpose:
        written = written.roll(3, dims=1)
    exact = {
        "W_Q": 2 * inner @ torch.eye(12, 2) @ torch.eye(2, 12),
        "W_K": 2 * inner @ torch.eye(12, 2) @ torch.eye(2, 12),
        "W_V": outer @ read,
        "P": written @ outer.T,
    }
    for name, matrix in exact.items():
        end = matrix + noise * torch.randn(12, 12, generator=source)
        start = noise * torch.randn(12, 12, generator=source)
        start[inert[name]] = end[inert[name]]
        found[name] = torch.stack([start, end, end])[:, None].numpy()
    embed = torch.randn(5, 20, generator=source)
    one_run = {name: value[:, :1] if value.ndim > 1 else value for name, value in made_up(0.5, 1.5).items()}
    return one_run | found | {"embed": torch.stack([embed] * 3)[:, None].numpy()}


def of_draws(**groups: dict[int, dict[str, np.ndarray]]):
    """Stored results of studies ``long0``, ``long1``, ..., from the arrays of each group for each draw, and of every kernel."""
    return lambda study: (
        results(**{name: arrays[int(study[4:])] for name, arrays in groups.items()})
        if study.startswith("long")
        else results(tf=learned_matrices(0.01))
    )


@pytest.mark.parametrize(
    ("noise", "transpose", "failed"),
    [
        (0.01, True, set()),
        (
            1.5,
            True,
            {
                "code_Q",
                "code_AB",
                "A_columns",
                "keys_logits",
                "values_logits",
                "gauge_ED",
                "gauge_transpose",
                "D_columns",
            },
        ),
        (0.01, False, {"gauge_ED", "gauge_transpose"}),
    ],
)
def test_figure_10_on_constructed_matrices(noise, transpose, failed):
    """The construction passes whatever its rotation; noise fails all, a wrong transpose what E and D share; and matrices of different draws fail every rule."""
    good = {draw: learned_matrices(0.01, draw=draw) for draw in range(5)}
    code = {draw: learned_matrices(noise, transpose, draw) for draw in range(5)}
    groups = {"code": code, "glorot": good, "true": good, "true_glorot": good}
    values, _ = figures_10_11.records(of_draws(**groups), "paper")
    judged = judge("fig10-11", values)
    assert failing(judged) == {f"fig10/{name}" for name in failed}
    assert (judged.word in GREEN) == (not failed)
    if not failed:
        for name in ("code_Q", "code_AB", "gauge_ED", "gauge_transpose"):
            assert max(values[f"fig10/{name}_crossed"]) > 0.5
    assert values["q-ed-gauge/logits"] <= 1e-10
    assert values["q-ed-gauge/turned"] > 0.3
    assert values["fig10/inert_moved"] == 0
    code[3]["W_Q"][-1, 0, 3, 7] += 1e-3  # an entry that no gradient reaches has moved, in one draw
    assert figures_10_11.records(of_draws(**groups), "paper")[0]["fig10/inert_moved"] > 0


def test_a_newton_step_points_along_the_inverse_second_moment():
    """E D of Newton's step at f = 0 has cosine 1 with its own embeddings' inverse and less with another draw's; a multiple of I plus noise has neither."""
    source = np.random.default_rng(0)
    embed = source.normal(size=(5, 5, 20))
    hessian = np.stack([np.cov(one, bias=True) for one in embed])
    newton = np.linalg.inv(hessian) + 3 * np.eye(5)
    held = SimpleNamespace(matrices={"embed": embed}, ED=newton)
    values = figures_10_11.inverse_values(held)
    np.testing.assert_allclose(values["q-ed-inverse/cosine"], 1)
    assert max(values["q-ed-inverse/other"]) < 0.9
    assert judge("q-ed-inverse", values).word == "yes"
    held.ED = np.linalg.inv(np.roll(hessian, -1, axis=0))  # the next draw's
    assert judge("q-ed-inverse", figures_10_11.inverse_values(held)).word == "no"


def test_errors_over_draws_and_contexts():
    values, samples = bounds.records(8, 8, 64)
    assert samples["quadrants"].shape == (8, 2)
    q = bounds.quadrant_bounds(8)
    assert values["we-draw/share_below"].error == share_error(int((q < 0.6).sum()), 8)
    assert 0 < values["we-draw/quadrants_sd"].error < values["we-draw/quadrants_sd"].value
    few, many = (bounds.bound_error(Quadrants(N=1), n) for n in (2000, 8000))
    assert few / many == pytest.approx(2, rel=0.05)
    drifts = [erasure.drift_records(n)["deep-erasure/quadrants_se"][0] for n in (64, 256)]
    assert drifts[0] / drifts[1] == pytest.approx(2, rel=0.2)


def test_coordinates_undo_any_choice_of_basis():
    """E D turned by a random G (``G E``, ``D G^T``) has the same distance in the coordinates that are chosen; an antisymmetric part stays, an indefinite one has none."""
    source = np.random.default_rng(0)
    e, d, g = source.normal(size=(1, 3, 7)), None, source.normal(size=(1, 3, 3))
    step = 2 * np.eye(3) + np.array([[0, 0.5, 0], [-0.5, 0, 0], [0, 0, 0]])
    d = np.linalg.pinv(e) @ step
    for e_, d_ in ((e, d), (g @ e, d @ g.swapaxes(1, 2))):
        one = SimpleNamespace(ED=e_ @ d_, E=e_, D=d_)
        gauge, definite = figures_10_11.good_gauge(one)
        turned = gauge @ one.ED @ gauge
        assert definite.all()
        np.testing.assert_allclose((turned + turned.swapaxes(1, 2)) / 2, np.eye(3)[None], atol=1e-9)
        assert figures_10_11.anisotropy(turned)[0] == pytest.approx(np.sqrt(0.125 / 3.125))
    assert not figures_10_11.good_gauge(SimpleNamespace(ED=np.diag([1.0, 1.0, -1.0])[None]))[1].any()


def test_figure_8_takes_starts_and_contexts_into_its_errors():
    """GD right where Trained TF is wrong in one of four contexts, in one of two starts."""
    p = np.zeros((2, 2, 4)) + np.array([0.9, 0.1])[:, None]
    wrong = p.copy()
    wrong[0, :, 3] = [0.1, 0.9]
    found = {(kind, k): p for kind in ("GD", "TF") for k in figures_8_9.KERNELS} | {("TF", "rbf"): wrong}
    values = figures_8_9.figure_8(found, np.zeros(4, int), 0.55)
    where = figures_8_9.CURVED.index("rbf")
    assert values["fig8/gaps"].value[where] == pytest.approx(1 / 8)
    starts, contexts = 0.125, 0.125  # errors of the means (0.25, 0) and (0, 0, 0, 0.5)
    assert values["fig8/gaps"].error[where] == pytest.approx(np.hypot(starts, contexts))
    assert values["fig8/overlap"] == 7


def test_anisotropy_of_known_matrices():
    eye = np.eye(4)[None]
    assert figures_10_11.anisotropy(3 * eye)[0] == pytest.approx(0)
    assert figures_10_11.anisotropy(eye[:, ::-1])[0] == pytest.approx(1)


def test_free_map_is_the_models_descent():
    """The sliders' maps against FunctionalGD at the same parameters."""
    from iclbook.models.functional_gd import FunctionalGD

    task = Quadrants()
    p, batch = sliders.free_map("rbf", 8.0, 30, 3, 5.0)
    model = FunctionalGD(20, 5, 3, "rbf", gamma=8.0, rate=5.0).double()
    with torch.no_grad():
        model.embed.copy_(task.embedding)
    points = figures_8_9.grid()
    context = batch.context.double()[..., None].expand(-1, -1, len(points))
    with torch.no_grad():
        expected = torch.softmax(model(context, points.T), dim=0)
    np.testing.assert_allclose(p.reshape(20, -1), expected.numpy(), atol=1e-10)


@pytest.mark.parametrize("name", ["gd_inner_L256", "tf_L256", "square_softmax"])
def test_a_run_alone_equals_the_same_run_in_the_ensemble(name):
    study = dataclasses.replace(SMOKE[name], steps=6, record=(6,))
    together = pack(study.trainer("cpu", False).train(progress=False))
    for spec in study.groups:
        alone = dataclasses.replace(study, groups=(dataclasses.replace(spec, runs=spec.runs[1:]),))
        again = pack(alone.trainer("cpu", False).train(progress=False))
        np.testing.assert_allclose(
            again[f"{spec.name}/nll_test"][:, 0], together[f"{spec.name}/nll_test"][:, 1], rtol=2e-4
        )


def test_a_held_embedding_stays_the_tasks_own():
    study = dataclasses.replace(SMOKE["long0"], steps=3, record=(3,))
    arrays = pack(study.trainer("cpu", False).train(progress=False))
    truth = study.data.prompts.task.embedding.numpy()
    np.testing.assert_array_equal(arrays["true/embed"][-1], truth[None])
    assert arrays["true/W_V"].shape == arrays["true-glorot/W_V"].shape
    assert np.abs(arrays["true-glorot/W_V"][0]).mean() > 10 * np.abs(arrays["true/W_V"][0]).mean()
    assert np.abs(arrays["glorot/embed"][-1] - arrays["glorot/embed"][0]).max() > 0


def test_training_lowers_the_loss_of_every_kind():
    for name in ("gd_inner_L256", "tf_L256"):
        study = SMOKE[name]
        arrays = pack(study.trainer("cpu", False).train(progress=False))
        for spec in study.groups:
            nll = arrays[f"{spec.name}/nll_validation"]
            assert (nll.min(0) < nll[0] - 0.2).all() or spec.name == "linear"


# -- the benchmark's contenders -----------------------------------------------------------------------------------------


@pytest.fixture
def bench(monkeypatch):
    """``benchmarks.categorical``, which is not part of the installed package."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
    return importlib.import_module("benchmarks.categorical")


def test_contenders_hold_the_same_contexts_and_step_the_same_model(bench):
    literal, _ = bench.build("literal", 10, 16)
    fast, _ = bench.build("fast", 10, 16)
    literal(3), fast(3)
    a, b = (dict(inspect.getclosurevars(f).nonlocals["model"].named_parameters()) for f in (literal, fast))
    for name, p in a.items():  # same contexts, same minibatches, same start: the same trajectory
        torch.testing.assert_close(p, b[name], rtol=2e-4, atol=2e-5)


def test_leaving_out_zeros_pays(bench):
    """A loose guard in processor time; the measured factors stand in the book's page."""
    seconds = {}
    for name in ("literal", "fast"):
        run, _ = bench.build(name, 40, 256)
        run(2)
        start = time.process_time()
        run(5)
        seconds[name] = time.process_time() - start
    assert seconds["literal"] > 4 * seconds["fast"]
