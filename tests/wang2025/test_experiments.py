"""wang2025: what is measured on trained runs, on made-up results with known answers."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from ledgers import judge

from iclbook.models.kernels import KERNELS
from iclbook.papers.wang2025 import bounds, erasure, figures_8_and_9, figures_10_and_11, sliders
from iclbook.papers.wang2025.contexts import best_records, stopped, stopped_parameters
from iclbook.papers.wang2025.studies import synthetic_studies
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
        "nll_parts": np.full((3, runs, 2), nll) + noise[:, None],
        "accuracy_parts": np.full((3, runs, 2), accuracy) + noise[:, None],
    }


def results(**groups: dict[str, np.ndarray]) -> Results:
    """Results with these groups (``_`` stands for ``-``)."""
    return Results({f"{g.replace('_', '-')}/{k}": v for g, a in groups.items() for k, v in a.items()}, {})


def test_scores_are_those_of_the_best_validation_record():
    r = results(a=made_up(0.7, 1.2))
    assert best_records(r.group("a")).tolist() == [1] * 5
    np.testing.assert_allclose(stopped(r.group("a"), "accuracy_test"), 0.7, atol=0.02)
    r.arrays["a/embed"] = np.arange(3 * 5 * 2).reshape(3, 5, 2)
    assert stopped_parameters(r, "a")["embed"].tolist() == r["a/embed"][1].tolist()


def test_a_newton_step_points_along_the_inverse_second_moment():
    """E D of Newton's step at f = 0 has cosine 1 with its own embeddings' inverse and less with another draw's; a multiple of I plus noise has neither."""
    source = np.random.default_rng(0)
    embed = source.normal(size=(5, 5, 20))
    hessian = np.stack([np.cov(one, bias=True) for one in embed])
    newton = np.linalg.inv(hessian) + 3 * np.eye(5)
    held = SimpleNamespace(matrices={"embed": embed}, ED=newton)
    values = figures_10_and_11.inverse_values(held)
    np.testing.assert_allclose(values["q-ed-inverse/cosine"], 1)
    assert max(values["q-ed-inverse/other"]) < 0.9
    assert judge("wang2025/q-ed-inverse", values).word == "yes"
    held.ED = np.linalg.inv(np.roll(hessian, -1, axis=0))  # the next draw's
    assert judge("wang2025/q-ed-inverse", figures_10_and_11.inverse_values(held)).word == "no"


def test_errors_over_draws_and_contexts():
    values, samples = bounds.records(8, 8, 64)
    assert samples["quadrants"].shape == (8,)
    q = bounds.quadrant_bounds(8)
    assert values["we-draw/share_below"].error == share_error(int((q < 0.6).sum()), 8)
    assert 0 < values["we-draw/quadrants_sd"].error < values["we-draw/quadrants_sd"].value
    few, many = (bounds.oracle(Quadrants(N=1), n)[0].error for n in (2000, 8000))
    assert few / many == pytest.approx(2, rel=0.05)
    drifts = [erasure.drift_records(n)["deep-erasure/quadrants"].error[0] for n in (64, 256)]
    assert drifts[0] / drifts[1] == pytest.approx(2, rel=0.2)


def test_coordinates_undo_any_choice_of_basis():
    """E D turned by a random G (``G E``, ``D G^T``) has the same distance in the coordinates that are chosen; an antisymmetric part stays, an indefinite one has none."""
    source = np.random.default_rng(0)
    e, d, g = source.normal(size=(1, 3, 7)), None, source.normal(size=(1, 3, 3))
    step = 2 * np.eye(3) + np.array([[0, 0.5, 0], [-0.5, 0, 0], [0, 0, 0]])
    d = np.linalg.pinv(e) @ step
    for e_, d_ in ((e, d), (g @ e, d @ g.swapaxes(1, 2))):
        one = SimpleNamespace(ED=e_ @ d_, E=e_, D=d_)
        gauge, definite = figures_10_and_11.good_gauge(one)
        turned = gauge @ one.ED @ gauge
        assert definite.all()
        np.testing.assert_allclose((turned + turned.swapaxes(1, 2)) / 2, np.eye(3)[None], atol=1e-9)
        assert figures_10_and_11.anisotropy(turned)[0] == pytest.approx(np.sqrt(0.125 / 3.125))
    assert not figures_10_and_11.good_gauge(SimpleNamespace(ED=np.diag([1.0, 1.0, -1.0])[None]))[1].any()


def learned(source: np.random.Generator, d: int = 2, width: int = 5) -> dict[str, np.ndarray]:
    size = d + 2 * width
    matrices = {name: source.normal(size=(3, size, size)) for name in ("W_Q", "W_V", "P")}
    near = matrices["W_Q"] + 0.05 * source.normal(size=(3, size, size))
    return matrices | {"W_K": near, "embed": source.normal(size=(3, width, 20))}


def test_the_free_sign_of_linear_attention_changes_no_distance():
    m = learned(np.random.default_rng(0))
    sign = np.array([1.0, -1.0, -1.0])[:, None, None]
    turned = m | {"W_Q": sign * m["W_Q"], "P": sign * m["P"]}
    plain = figures_10_and_11.distances(figures_10_and_11.products(m))
    for name, found in figures_10_and_11.distances(figures_10_and_11.products(turned, free_sign=True)).items():
        np.testing.assert_allclose(found, plain[name], err_msg=name)
    assert figures_10_and_11.distances(figures_10_and_11.products(turned))["code_AB"][1] > 1 > plain["code_AB"].max()


def test_fitted_coordinates_undo_a_turn_of_the_true_embeddings():
    source = np.random.default_rng(1)
    m, g = learned(source), source.normal(size=(3, 5, 5))
    truth = m["embed"] + source.normal(size=(3, 5, 1))  # one vector added to all changes nothing
    turned = m | {"embed": np.linalg.inv(g).swapaxes(1, 2) @ m["embed"], "P": m["P"].copy(), "W_V": m["W_V"].copy()}
    turned["P"][:, -5:] = g @ m["P"][:, -5:]
    turned["W_V"][:, :, 2:7] = m["W_V"][:, :, 2:7] @ g.swapaxes(1, 2)
    one = figures_10_and_11.products(turned)
    back, left = figures_10_and_11.fitted_gauge(one, truth)
    np.testing.assert_allclose(left, 0, atol=1e-9)
    np.testing.assert_allclose(back @ one.ED @ back.swapaxes(1, 2), figures_10_and_11.products(m).ED, atol=1e-8)
    assert figures_10_and_11.fitted_gauge(one, source.normal(size=(3, 5, 20)))[1].min() > 0.5


def test_free_map_is_the_models_descent():
    """The sliders' maps against FunctionalGD at the same parameters."""
    from iclbook.models.functional_gd import FunctionalGD

    task = Quadrants()
    p, tokens = sliders.free_map("rbf", 8.0, 30, 3, 5.0)
    model = FunctionalGD(20, 5, 3, "rbf", gamma=8.0, rate=5.0).double()
    with torch.no_grad():
        model.embed.copy_(task.embedding)
    points = figures_8_and_9.grid()
    context = tokens[..., None].expand(-1, -1, len(points))
    with torch.no_grad():
        expected = torch.softmax(model(context, points.T), dim=0)
    np.testing.assert_allclose(p.reshape(20, -1), expected.numpy(), atol=1e-10)


def test_a_held_embedding_stays_the_tasks_own():
    study = dataclasses.replace(SMOKE["long0"], steps=3, record=(3,))
    arrays = pack(study.trainer("cpu", False).train(progress=False))
    truth = study.data.prompts.task.embedding.numpy()
    np.testing.assert_array_equal(arrays["true/embed"][-1], truth[None])
    assert arrays["true/W_V"].shape == arrays["true-glorot/W_V"].shape
    assert np.abs(arrays["true-glorot/W_V"][0]).mean() > 10 * np.abs(arrays["true/W_V"][0]).mean()
    assert np.abs(arrays["glorot/embed"][-1] - arrays["glorot/embed"][0]).max() > 0


def test_answers_are_nearest_to_those_of_their_own_kernel_over_draws():
    """Made-up answers: Trained TF's are GD's with the same kernel but for one kernel, which answers as the next one does."""
    source, kernels = np.random.default_rng(3), list(KERNELS)
    units = []
    for _ in range(4):
        gd = {("gd", k): source.dirichlet(np.ones(5), size=(2, 30)).transpose(0, 2, 1) for k in kernels}
        tf = {("tf", k): gd["gd", k] for k in kernels} | {("tf", kernels[0]): gd["gd", kernels[1]]}
        units.append(gd | tf)
    found = figures_8_and_9.own_kernel(units)
    own, nearest = (np.array(found[f"q-own-kernel/draws_{name}"]) for name in ("own", "nearest"))
    assert (own[1:] == 0).all()
    assert (nearest[1:] > 0.2).all()
    assert own[0] > 0.2 > nearest[0] == 0
