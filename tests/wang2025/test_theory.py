"""wang2025: the data, the closed forms and Theorem 2's test."""

import numpy as np
import pytest
import torch
from ledgers import failing, judge, ledger

from iclbook import random
from iclbook.papers.wang2025 import bounds, construction, contexts, descent, erasure, errata, population, theorem_2
from iclbook.tasks.categorical import Anchors, Quadrants
from iclbook.training import FixedSet

# -- data ---------------------------------------------------------------------------------------------------------------


def test_anchor_function_by_a_plain_loop():
    """Appendix E written out for one context, in both readings of the kernel."""
    for squared in (True, False):
        task = Anchors(N=4, d=3, squared=squared)
        normals, words = random.drawn(task, 2, 5, (1,), dtype=torch.float64)
        x, categories = task.covariates(normals, words), task.chosen(words)
        assert torch.equal(x, (2 * random.uniform(words[:15], torch.float64) - 1).reshape(5, 3, 1))
        assert len(set(categories[:, 0].tolist())) == 5
        anchors = normals.reshape(5, 3)
        f = torch.zeros(5, 5, dtype=torch.float64)
        for j in range(5):
            for m in range(5):
                nearest = min(torch.dist(anchors[m], anchors[k]).item() for k in range(5) if k != m)
                power = 2 if squared else 1
                value = 0.1 ** ((torch.dist(x[j, :, 0], anchors[m]).item() / nearest) ** power)
                f[j] += 10 * value * task.embedding[:, categories[m, 0]].double()
        torch.testing.assert_close(task.latent(x, normals, categories)[..., 0], f, rtol=1e-10, atol=1e-10)


def test_labels_follow_their_probabilities():
    task = Anchors(N=1)
    numbers = random.drawn(task, 0, 5, (20_000,))
    p, y = task.truth(*numbers), task.batch(*numbers).target[0].long()
    counts = torch.bincount(y, minlength=25).double()
    expected = p.sum(1).double()
    z = (counts - expected) / (p * (1 - p)).sum(1).double().sqrt()
    assert z.abs().max() < 4.5
    assert (y == p.argmax(0)).double().mean().item() == pytest.approx(p.amax(0).mean().item(), abs=0.012)


def test_quadrants_run_counter_clockwise_and_have_four_categories():
    task = Quadrants(N=200)
    normals, words = random.drawn(task, 0, 5, (3,))
    x, chosen = task.covariates(normals, words), task.chosen(words)
    f = task.latent(x, normals, chosen)
    signs = {(True, True): 0, (False, True): 1, (False, False): 2, (True, False): 3}
    for b in range(3):
        for i in range(task.N + 1):
            q = signs[bool(x[i, 0, b] >= 0), bool(x[i, 1, b] >= 0)]
            torch.testing.assert_close(f[i, :, b], task.embedding[:, chosen[q, b]])


def test_a_smaller_set_begins_the_larger_one_and_batches_come_from_it():
    task = Anchors()
    few, many = contexts.sample_contexts(task, 5, 0), contexts.sample_contexts(task, 1500, 0)
    torch.testing.assert_close(many.context[..., :5], few.context)
    chosen = FixedSet(contexts.Contexts(task, "inner", among_keys=True), 5)
    numbers = chosen.draw(random.keys([0, 1]), torch.tensor([1]), 64, torch.float32)
    batch = chosen.batch(tuple(x[:, 0] for x in numbers), chosen.fixed([0, 1]))
    assert batch.context.shape == (2, 10, 12, 64)
    rows = contexts.seen_as(few, "inner", True).context
    for b in range(64):
        assert any(torch.equal(batch.context[1, ..., b], rows[..., k]) for k in range(5))


# -- equations ----------------------------------------------------------------------------------------------------------


def test_equations_fail_as_printed_and_hold_as_meant():
    values = construction.functional_form(5) | construction.construction() | errata.records()
    result = judge("wang2025/typos", values)
    assert result.word == "inconsistent"
    assert failing(result) == {part.key for part in ledger("wang2025").claim("wang2025/typos").parts}
    meant = {
        "eq14/with_mean", "eq11/from_one", "eq26/mended", "eq39/meant", "eq49/own", "eq54/corrected", "eq57/mended", "xi/mended",
    }  # fmt: skip
    assert max(values[key] for key in meant) <= 1e-12
    assert values["loss-sign/appendix_gain"] > 0 > values["loss-sign/section_gain"]


# -- erasure ------------------------------------------------------------------------------------------------------------


def test_erasure_of_rbf_and_softmax():
    values = erasure.records(erasure.curves(20), 20)
    assert failing(judge("wang2025/erasure", values)) == {
        f"erasure/softmax_own_{at}" for at in ("d10_N10", "d10_N125", "d2_N100")
    }
    assert values["erasure/softmax_own_d2_N100"] < 0.1 < 0.9 < values["erasure/softmax_own_d10_N10"]
    assert failing(judge("wang2025/q-erasure", values)) == {"erasure/duplicates_rbf"}
    one = torch.tensor([[1.0, 0.0], [2.0, 0.0]], dtype=torch.float64)  # the longer vector attracts both
    assert erasure.quality(erasure.softmax_weights(one, 100.0, 4))[0] == 0.5


# -- Theorem 2 ----------------------------------------------------------------------------------------------------------


def test_population_model_is_the_chapters_and_its_gradient_autograds():
    source = torch.Generator().manual_seed(0)
    w = torch.randn(3, 8, generator=source, dtype=torch.float64)
    x, y, _ = population.prompts(3, 5, 4, w, 0)
    b, t = theorem_2.at_scalars(torch.tensor([0.75, 0.5]).double(), torch.tensor([1.25, 0.5]).double())
    for p in range(3):
        f = torch.zeros(6, 3, dtype=torch.float64)
        for scale, step in ((0.75, 1.25), (0.5, 0.5)):
            new = f.clone()
            for j in range(6):
                k = torch.softmax(torch.stack([scale * x[p, i] @ x[p, j] for i in range(5)]), 0)
                for i in range(5):
                    new[j] += step * k[i] * (w[:, y[p, i]] - descent.expectation(w, f[i]))
            f = new
        torch.testing.assert_close(population.functions(b, t, x[p], y[p], w), f, rtol=1e-10, atol=1e-10)
    grads = population.gradients(b, t, x, y, w)
    b.requires_grad_(True)
    hot = torch.nn.functional.one_hot(y, 8).double()
    (mean,) = torch.autograd.grad(population.loss(b, t, None, x, hot, w).mean(), b)
    torch.testing.assert_close(grads[0].mean(0), mean, rtol=1e-9, atol=1e-11)


def test_the_exact_gradient_is_a_multiple_of_the_identity_on_an_orbit_only():
    """On the group of 6 in the plane; labels summed over, so there is nothing to sample."""
    w = theorem_2.embedding()[:, :3]
    x = torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    group = torch.from_numpy(theorem_2.affine_group(2))
    orbit = population.exact_flow(torch.einsum("gij,pnj->gpni", group, x).flatten(0, 1), w, *theorem_2.SCALARS)
    alone = population.exact_flow(x, w, *theorem_2.SCALARS)
    assert max(np.abs(orbit)) < 1e-12
    off_identity, shortfall = alone
    assert min(alone) > 1e-2
    # of the fall that equation 58 promises, that along the multiple of I is left
    assert shortfall == pytest.approx(off_identity**2)


def test_the_defect_is_the_largest_over_all_matrices():
    """Of elements without any symmetry: column by column, the mean of ``U^T R U`` less the multiple of I."""
    group = np.random.default_rng(0).standard_normal((4, 3, 3))
    columns = [(theorem_2.averaged(group, r) - np.trace(r) / 3 * np.eye(3)).ravel() for r in np.eye(9).reshape(9, 3, 3)]
    assert theorem_2.defect(group) == pytest.approx(np.linalg.norm(np.stack(columns, 1), 2), rel=1e-12)


def closed(group: np.ndarray) -> bool:
    """Whether products of elements are elements."""
    products = np.einsum("aij,bjk->abik", group, group).reshape(-1, group[0].size)
    keys, found = (
        {tuple(np.round(one, 6) + 0.0) for one in some} for some in (group.reshape(len(group), -1), products)
    )
    return len(keys) == len(group) and found <= keys


def test_groups_decide_the_question_of_the_smallest():
    values = theorem_2.groups()
    assert values["thm2-group/order_d2"] == 6
    assert all(closed(theorem_2.affine_group(d)) for d in (2, 4))
    assert max(theorem_2.defect(theorem_2.affine_group(d)) for d in (2, 4)) < 1e-12
    assert min(values["thm2-group/rotations_defect"]) > 0.5  # rotations commute with each other


def test_a_loss_that_falls_for_ever_and_other_activations():
    values = theorem_2.without_a_stationary_point(20_000)
    least, over = values["thm2/least_fall"], values["thm2/loss_over_b"]
    assert least.value > least.error > 0
    assert over == sorted(over, reverse=True)
    assert min(theorem_2.gradient_in_b(1500, activation=name).p_shape for name in ("exponential", "linear")) > 1e-3


def test_bounds_of_quadrants_are_exact_over_categories():
    found = bounds.quadrant_bounds(1, 5)
    w = torch.randn(1, 5, 20, generator=torch.Generator().manual_seed(bounds.SEED), dtype=torch.float64)[0]
    each = [float(torch.softmax(w.T @ w[:, c], 0).max()) for c in range(20)]
    assert found[0] == pytest.approx(np.mean(each))
