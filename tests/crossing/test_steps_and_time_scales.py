"""The measures of the crossing on cases with known answers: time scales, routing, statistics of descent, kernels, signed pairs."""

from __future__ import annotations

import dataclasses
import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from iclbook.claims import load_ledger
from iclbook.models import attend
from iclbook.papers.crossing.figures import waits as draw
from iclbook.papers.crossing.measures import descent, time_scales
from iclbook.papers.crossing.measures import heads_as_steps as steps
from iclbook.papers.crossing.measures.landscape import Landscape
from iclbook.papers.crossing.measures.models import MODELS, prompts
from iclbook.papers.crossing.measures.rates import MULTIPLES, Race
from iclbook.statistics import bootstrap_error
from iclbook.store import Results
from iclbook.tasks import LinearRegression

SMALL = LinearRegression(d=3, L=8, noise_var=0.0)


def test_every_verdict_of_the_ledger_is_a_question():
    ledger = load_ledger("crossing")
    assert all(claim.id.startswith("crossing/q-") for claim in ledger.claims)
    assert all(claim.parts for claim in ledger.claims)


def test_halfway():
    times = np.array([0.0, 1.0, 2.0, 4.0])
    states = np.array([[0.0], [0.2], [0.6], [1.0]])
    assert time_scales.halfway(times, states) == pytest.approx(1.75)


def made(attention_rate: float, value_rate: float) -> Landscape:
    """Two numbers that relax to 1 at their own rates; the loss falls with the second from 1 to 0."""

    def evaluate(x):
        return float(0.1 + 0.9 * (1 - x[1]) ** 2), np.array([attention_rate, value_rate]) * (x - 1)

    return Landscape(
        lambda _: np.full(2, 1e-9), evaluate, lambda x: (x[:, :1], x[:, 1:]), np.array([True, False])
    )


def test_who_leads_is_seen_and_rates_move_it():
    even = time_scales.lead(made(1.0, 1.0), np.full(2, 1e-9))
    assert even == pytest.approx(0, abs=1e-6)
    quick = time_scales.quicker_routing(made(1.0, 1.0), 10.0)
    assert quick.gradient(np.zeros(2)) == pytest.approx([-10, -1])
    assert time_scales.lead(quick, np.full(2, 1e-9)) < even
    assert time_scales.lead(made(0.1, 1.0), np.full(2, 1e-9)) > even


def test_a_draw_from_which_the_model_rests_is_passed_over(monkeypatch):
    goes, rests = (
        made(0.1, 1.0),
        Landscape(
            lambda _: np.ones(2),
            lambda x: (1.0, np.zeros(2)),
            lambda x: (x[:, :1], x[:, 1:]),
            np.array([True, False]),
        ),
    )
    monkeypatch.setattr(time_scales, "LEAD_SIZES", {"made": 1.0})
    monkeypatch.setattr(
        time_scales, "MODELS", {"made": lambda draw: rests if draw == time_scales.FIRST + 1 else goes}
    )
    followed = time_scales.leads("made", range(time_scales.FIRST, time_scales.FIRST + 4))
    leads = time_scales.kept_leads({f"made/{name}": array for name, array in followed.items()})["made"]
    assert (len(leads.equal), leads.passed_over) == (3, 1)
    assert np.all(leads.equal > 0)
    assert np.all(leads.quicker < leads.equal)


def test_attention_and_values_are_those_of_the_models():
    for name in time_scales.LEAD_SIZES:
        landscape = MODELS[name](0)
        theta = landscape.start(0)
        attention, values = landscape.look(theta[None])
        assert attention.min() >= 0
        assert attention.size > len(theta) > 0
        moved = np.where(landscape.routing, 2 * theta, theta)
        assert np.array_equal(landscape.look(moved[None])[1], values), "scores do not change values"
        assert not np.allclose(landscape.look(moved[None])[0], attention)
        moved = np.where(landscape.routing, theta, 2 * theta)
        assert np.allclose(landscape.look(moved[None])[0], attention), "values do not change scores"


def test_the_law_of_routing_holds_for_softmax_alone():
    assert max(time_scales.deviation("softmax", seed) for seed in range(3)) < 1e-12
    assert min(time_scales.routing_values(3).values()) > 0.01


def test_area():
    assert descent.area(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == 1
    assert descent.area(np.array([0.0, 1.0]), np.array([0.0, 1.0])) == 0.5
    assert descent.area(np.array([0.0]), np.array([1.0, 0.0])) == 0.25
    groups = {"descend": np.array([1.0, 2.0]), **dict.fromkeys(descent.OTHERWISE, np.array([0.0, 0.5]))}
    groups["averaging"] = np.array([1.5, 1.5])
    assert descent.worst(groups)[0] == 0.5


def test_area_and_its_error_count_all_pairs():
    rng = np.random.default_rng(0)
    yes, no = rng.integers(3, 12, 40) / 25, rng.integers(0, 10, 15) / 25

    def by_pairs(yes: np.ndarray, no: np.ndarray) -> float:
        return float(((yes[:, None] > no).mean() + (yes[:, None] >= no).mean()) / 2)

    assert descent.area(yes, no) == by_pairs(yes, no)
    errors = (
        bootstrap_error(lambda drawn: by_pairs(drawn, no), yes),
        bootstrap_error(lambda drawn: by_pairs(yes, drawn), no),
    )
    assert descent.area_error(yes, no) == pytest.approx(np.hypot(*errors), rel=1e-12)


def test_stacks_do_what_their_names_say():
    rng = np.random.default_rng(0)
    p = descent.draw(rng)
    steps = descent.parameter_descent(p, rng)
    errors = np.abs(steps - p.answer[:, None]).mean(0)
    assert (np.diff(errors) < 0).all()
    assert (steps[:, 0] == 0).all()
    assert np.abs(descent.function_descent(p, rng)[:, -1] - p.answer).mean() < np.abs(p.answer).mean()
    constant = descent.Prompts(p.x, np.ones_like(p.y), p.query, np.ones_like(p.answer))
    assert descent.sharpening(constant, rng)[:, 1:] == pytest.approx(1.0), "a smoother keeps constants"
    again = descent.reordered(p, np.random.default_rng(1))
    assert np.sort(again, 1) == pytest.approx(
        np.sort(descent.parameter_descent(p, np.random.default_rng(1)), 1)
    )


def test_a_statistic_that_knows_the_truth_has_area_one_and_one_that_does_not_a_half():
    by = descent.roc(descent.sample(20))
    assert set(by) == {"slope", "r2", "signs", "reduction", "rate"}
    assert all(len(groups["descend"]) == 20 and len(groups["others"]) == 20 for groups in by.values())
    truth = {"descend": np.ones(20), **dict.fromkeys(descent.OTHERWISE, np.zeros(20))}
    blind = {"descend": np.ones(20), **dict.fromkeys(descent.OTHERWISE, np.ones(20))}
    values = descent.descent_values({**by, "slope": truth, "r2": blind})
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


def test_the_width_that_fits_is_found_for_each_run():
    """The step is ``a + gamma b`` at the width ``gamma``: each run's answers are one of them times a rate."""
    a, b = np.random.default_rng(0).standard_normal((2, 200))
    asked = []

    def step(gamma: float, some: slice) -> np.ndarray:
        asked.append(gamma)
        return (a + gamma * b)[some]

    answers = np.stack([3 * (a - 2.2 * b), -0.5 * (a + 1.3 * b)])
    assert steps.unexplained(answers, step) == pytest.approx([0, 0], abs=1e-9)
    assert min(abs(np.array(asked) + 2.2)) < 1e-4 > min(abs(np.array(asked) - 1.3))
    assert steps.unexplained(answers, a)[0] == pytest.approx(
        steps.unexplained(answers, lambda gamma, some: a[some])[0]
    )


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_answers_of_many_runs_are_those_of_each(activation, monkeypatch):
    monkeypatch.setattr(steps, "TOGETHER", 20)
    rng = np.random.default_rng(0)
    batch = prompts(SMALL, 0, 50)
    kq, ov = rng.standard_normal((3, 2, 4, 4)), rng.standard_normal((3, 2, 1, 4))
    each = [
        attend(torch.from_numpy(k), torch.from_numpy(o), batch.context, batch.query, activation)[0].numpy()
        for k, o in zip(kq, ov, strict=True)
    ]
    np.testing.assert_allclose(steps.answers(kq, ov, batch, activation), each, rtol=1e-10)
    np.testing.assert_allclose(steps.answers(kq[..., :3], ov, batch, activation), each, rtol=1e-10)


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
    assert set(steps.KERNELS) <= set(one)
    values = steps.kernel_values_of(found)
    means = {"one": 0.1, "one_next": 0.2, "linear": 0.05, "linear_next": 0.3}
    means |= {"two": 0.4, "two_next": 0.5, "two_centred": 0.1}
    shown = {name: values[f"kernel/{name}"] for name in means}
    assert {name: getattr(v, "value", v) for name, v in shown.items()} == pytest.approx(means)
    assert values["kernel/two_best"] == "rbf"
    assert values["kernel/one"].error == pytest.approx(values["kernel/two"].error), "runs 0.02 apart in both"


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
    pair = steps._of(stored(*heads_of_pairs((0.02, -0.02), (3.0, -3.0))), "pairs_wide", "softmax")
    assert pair.sums == pytest.approx([0])
    assert pair.omega == pytest.approx(np.array([[0.02, -0.02]]))
    assert pair.debiased[0] < 1e-5 < 1e-3 < pair.vanilla[0], "small scores: the pair is the centred step"
    alone = steps._of(stored(*heads_of_pairs((0.02, 0.02), (3.0, 3.0))), "pairs_wide", "softmax")
    assert alone.sums == pytest.approx([1])
    assert alone.debiased[0] > 0.3, "two smoothers are no step"


def test_a_linear_head_made_by_hand_takes_the_plain_step():
    results = stored(*heads_of_pairs((1.0,), (1.0,)), group="linear")
    linear = steps._of(results, "pairs_wide", "linear")
    assert linear.vanilla == pytest.approx([0], abs=1e-12)
    assert linear.debiased[0] > 1e-3


def test_runs_with_heads_of_both_signs_are_counted():
    one = np.array([[0.1, -0.1], [0.2, 0.3]])
    made = steps.Pairs(one, one, np.array([0.01, 1.0]), np.array([1.0, 2.0]), np.array([2.0, 2.5]))
    values = steps.pair_values(dict.fromkeys(steps.MODELS, made))
    assert values["pairs/wide/both"] == values["pairs/short/both"] == values["pairs/descent/both"] == 1
    assert values["pairs/wide/both_sum"] == pytest.approx(0.01)
    assert values["pairs/short/taken"].value == pytest.approx(0.5), "of the run with both signs alone"
    assert values["pairs/short/taken"].error == 0, "a single run"
    assert values["pairs/one_sign/taken"] == pytest.approx(0.2)
    assert values["pairs/linear/taken"].value == pytest.approx(0.35), "the control counts all of its runs"
    alone = {name: dataclasses.replace(made, omega=np.abs(one)) for name in steps.MODELS}
    assert steps.pair_values(alone)["pairs/wide/both_sum"] == 1
    two = dataclasses.replace(made, omega=np.array([[0.1, -0.1], [0.2, -0.3]]))
    pair = steps.pair_values(dict.fromkeys(steps.MODELS, two))
    assert (pair["pairs/wide/taken"].value, pair["pairs/wide/taken"].error) == pytest.approx((0.35, 0.15))
    assert pair["pairs/one_sign/taken"] == 0


def test_the_slider_of_laws_and_models_draws_what_it_is_given():
    rng = np.random.default_rng(0)
    waits = {name: np.cumsum(rng.uniform(1, 2, (3, 4)), axis=1) for name in draw.ACROSS}
    leads = {name: time_scales.Leads(rng.normal(size=5), rng.normal(size=5) - 1, 0) for name in draw.ACROSS}
    steps = rng.uniform(10, 90, (len(MULTIPLES), 6))
    races = {name: Race(steps, steps / 2, steps / 3, 100.0) for name in draw.ACROSS}
    shown = {
        "wait": lambda name: list(waits[name] / waits[name][:, :1]),
        "lead": lambda name: [np.exp(leads[name].equal), np.exp(leads[name].quicker)],
        "rates": lambda name: [
            np.exp(races[name].logs()[k]) for k in ("values_plain", "routing_plain", "uniform_plain")
        ],
    }
    for law, name in itertools.product(draw.LAWS, draw.ACROSS):
        fig = draw.law_on(law, name, waits, leads, races)
        (ax,) = fig.axes
        lines = [line.get_ydata() if law == "wait" else line.get_xdata() for line in ax.lines]
        for wanted in shown[law](name):
            assert any(len(line) == len(wanted) and np.allclose(line, wanted) for line in lines), (law, name)
        assert draw.LAWS[law] in ax.get_title()
        plt.close(fig)
