"""The measures of the crossing on cases with known answers: time scales, routing, statistics of descent, kernels, signed pairs."""

import numpy as np
import pytest
import torch

from iclbook.papers.crossing import descent, rates, waits
from iclbook.papers.crossing import heads_as_steps as steps
from iclbook.papers.crossing.models import MODELS, prompts
from iclbook.store import Results
from iclbook.tasks import LinearRegression
from iclbook.tasks.linear_regression import AffineRegression
from iclbook.training.landscape import Landscape

SMALL = LinearRegression(d=3, L=8, noise_var=0.0)


def made(attention_rate: float, value_rate: float) -> Landscape:
    """Two numbers that relax to 1 at their own rates; the loss falls with the second from 1 to 0."""

    def evaluate(x):
        return float(0.1 + 0.9 * (1 - x[1]) ** 2), np.array([attention_rate, value_rate]) * (x - 1)

    return Landscape(lambda _: np.full(2, 1e-9), evaluate, lambda x: (x[:, :1], x[:, 1:]), np.array([True, False]))


def test_who_leads_is_seen_and_rates_move_it():
    even = waits.lead(made(1.0, 1.0), np.full(2, 1e-9))
    assert even == pytest.approx(0, abs=1e-6)
    quick = waits.quicker_routing(made(1.0, 1.0), 10.0)
    assert quick.gradient(np.zeros(2)) == pytest.approx([-10, -1])
    assert waits.lead(quick, np.full(2, 1e-9)) < even
    assert waits.lead(made(0.1, 1.0), np.full(2, 1e-9)) > even


def test_attention_and_values_are_those_of_the_models():
    for name in waits.LEAD_SIZES:
        landscape = MODELS[name](0)
        theta = landscape.start(0)
        attention, values = landscape.attention_and_values(theta[None])
        assert attention.min() >= 0
        assert attention.size > len(theta) > 0
        moved = np.where(landscape.routing, 2 * theta, theta)
        assert np.array_equal(landscape.attention_and_values(moved[None])[1], values), "scores do not change values"
        assert not np.allclose(landscape.attention_and_values(moved[None])[0], attention)
        moved = np.where(landscape.routing, theta, 2 * theta)
        assert np.allclose(landscape.attention_and_values(moved[None])[0], attention), "values do not change scores"


def test_the_law_of_routing_holds_for_softmax_alone():
    assert max(rates.deviation("softmax", seed) for seed in range(3)) < 1e-12
    assert min(rates.routing_values(3).values()) > 0.01


def test_area():
    assert descent.area(np.array([2.0, 3.0]), np.array([0.0, 1.0])).value == 1
    assert descent.area(np.array([0.0, 1.0]), np.array([0.0, 1.0])).value == 0.5
    assert descent.placements(np.array([0.0]), np.array([1.0, 0.0])).tolist() == [0.25]
    assert descent.worst(np.array([1.0, 2.0]), [np.array([0.0, 0.5]), np.array([1.5, 1.5])]).value == 0.5


def test_a_statistic_that_knows_the_truth_has_area_one_and_one_that_does_not_a_half():
    by = descent.sample(20)
    assert set(by) == {"slope", "r2", "signs", "reduction", "rate"}
    assert all(len(groups["descend"]) == 20 and len(groups["others"]) == 20 for groups in by.values())
    truth = {"descend": np.ones(20), **dict.fromkeys(descent.OTHERWISE, np.zeros(20))}
    uninformative = {"descend": np.ones(20), **dict.fromkeys(descent.OTHERWISE, np.ones(20))}
    values = descent.descent_values({**by, "slope": truth, "r2": uninformative})
    assert values["roc/slope"].value == 1
    assert values["roc/r2"].value == 0.5
    assert 0.5 <= values["roc/by_lot"] < 0.9, "by lot, nothing is told; the largest of twenty areas"


def heads(kernel: str) -> dict[str, np.ndarray]:
    """Results of one run of one head that is a step with this kernel: softmax of ``2 x . x_q``, or linear."""
    kq = np.zeros((1, 1, 1, 4, 4))
    kq[..., :3, :3] = 2 * np.eye(3) if kernel == "softmax" else np.eye(3)
    ov = np.zeros((1, 1, 1, 1, 4))
    ov[..., -1] = 0.7
    return {"g/kq": kq, "g/ov": ov}


@pytest.mark.parametrize("kernel", ["softmax", "linear"])
def test_heads_that_are_a_step_with_a_kernel_are_found(kernel, monkeypatch):
    monkeypatch.setattr(steps, "PROMPTS", 256)
    found = steps.shares(heads(kernel), {"g": kernel}, SMALL)["g"]
    assert found[kernel][0] < 1e-8
    assert steps.best(found)[0] == kernel
    assert min(v[0] for k, v in found.items() if k not in (kernel, "centred")) > 0.01


def test_a_head_with_both_signs_turned_is_a_step_with_the_mirrored_kernel(monkeypatch):
    monkeypatch.setattr(steps, "PROMPTS", 256)
    turned = {name: -array for name, array in heads("softmax").items()}
    found = steps.shares(turned, {"g": "softmax"}, SMALL)["g"]
    assert found["softmax"][0] < 1e-8
    assert steps.best(found)[0] == "softmax"
    batch = prompts(SMALL, 0, 256)
    plain = steps.steps(batch)["softmax"]
    answered = steps.answers(turned["g/kq"][-1], turned["g/ov"][-1], batch, "softmax")
    assert steps.unexplained(answered, lambda width, n=None, mirrored=False: plain(width, n)).mean() > 0.1


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_answers_need_only_the_columns_of_kq_that_the_query_reaches(activation):
    rng = np.random.default_rng(0)
    batch = prompts(SMALL, 0, 50)
    kq, ov = rng.standard_normal((3, 2, 4, 4)), rng.standard_normal((3, 2, 1, 4))
    whole, cut = (steps.answers(circuit, ov, batch, activation) for circuit in (kq, kq[..., :3]))
    assert whole.shape == (3, 50)
    np.testing.assert_allclose(cut, whole, rtol=1e-10)


# -- signed pairs ----------------------------------------------------------------------------------------------------------


def stored(kq, ov, group="softmax") -> Results:
    """Results of a study of pairs: one run, settled from the start."""
    steps = np.arange(90, 101)
    arrays = {"steps": steps, "kq": np.stack([kq] * len(steps)), "ov": np.stack([ov] * len(steps))}
    return Results({f"{group}/{name}": array for name, array in arrays.items()}, {})


def heads_of_pairs(omegas, mus, d=10):
    kq = np.zeros((1, len(omegas), d + 1, d + 1))
    for h, omega in enumerate(omegas):
        kq[0, h, :d, :d] = omega * np.eye(d)
    ov = np.zeros((1, len(mus), 1, d + 1))
    ov[0, :, 0, -1] = mus
    return kq, ov


def test_a_pair_made_by_hand_cancels_and_takes_a_debiased_step():
    pair = steps.pairs_of(stored(*heads_of_pairs((0.02, -0.02), (3.0, -3.0))), "pairs_wide", "softmax")
    assert pair.sums == pytest.approx([0])
    assert pair.omega == pytest.approx(np.array([[0.02, -0.02]]))
    assert pair.debiased.mean() < 1e-5 < 1e-3 < pair.vanilla.mean(), "small scores: the pair is the centred step"
    alone = steps.pairs_of(stored(*heads_of_pairs((0.02, 0.02), (3.0, 3.0))), "pairs_wide", "softmax")
    assert alone.sums == pytest.approx([1])
    assert alone.debiased.mean() > 0.3, "two smoothers are no step"


def test_a_pair_that_passes_the_mean_on_takes_a_debiased_step_beside_it():
    pair = steps.pairs_of(stored(*heads_of_pairs((0.02, -0.02), (3.5, -2.5), 5)), "pairs_affine", "softmax")
    assert pair.mu.sum(1) == pytest.approx([1])
    assert pair.debiased.mean() < 0.1 * pair.vanilla.mean()
    task = AffineRegression(d=2, L=3, noise_var=0.0)
    normals = torch.zeros(task.normals, 1)
    normals[-1] = 0.7
    context, query, target = task.batch(normals)
    assert context[:, -1].flatten().tolist() + target.flatten().tolist() == pytest.approx([0.7] * 4)
    assert not context[:, :2].any()
    assert not query.any()


def test_a_linear_head_made_by_hand_takes_the_plain_step():
    results = stored(*heads_of_pairs((1.0,), (1.0,)), group="linear")
    linear = steps.pairs_of(results, "pairs_wide", "linear")
    assert linear.vanilla == pytest.approx([0], abs=1e-12)
    assert linear.debiased.mean() > 1e-3
