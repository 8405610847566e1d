"""agarwal2025: what turns runs into recorded numbers, fed with inputs whose right record is known by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from agarwal2025.kit import LEDGER
from iclbook.papers.agarwal2025.measures.cases import random_case
from iclbook.papers.agarwal2025.measures.chain import Curves
from iclbook.papers.agarwal2025.runs.full_batch import EM, SGD, arm_runs

from iclbook.claims import printed
from iclbook.papers.agarwal2025.figures import chain as draw_chain
from iclbook.papers.agarwal2025.measures import chain, follow, solutions, table1, timescales
from iclbook.papers.agarwal2025.runs import full_batch
from iclbook.papers.agarwal2025.runs import toy as toy_runs
from iclbook.papers.agarwal2025.theory import causal, updates
from iclbook.papers.agarwal2025.theory import gradients as closed
from iclbook.store import Results
from iclbook.tasks import Batch
from iclbook.tasks.sticky_chain import StickyChain

# -- what is observed while runs train --------------------------------------------------------------------------------------


def observed(heads: list[float], y: list[list[int]]) -> dict[str, torch.Tensor]:
    """Two arms of one seed on two symbols whose heads give every position the logits ``(h, -h)``; targets of the trained and of the held-out sequence."""
    T = len(y[0])
    x = torch.zeros(2, T, 20)
    x[..., 0] = 1
    target = torch.nn.functional.one_hot(torch.tensor(y), 8).float()
    n = len(heads)
    params = {
        name: torch.zeros(n, *shape)
        for name, shape in (("W_Q", (10, 20)), ("W_K", (10, 20)), ("W_V", (15, 20)), ("W_O", (8, 15)))
    }
    params["W_V"][:, 0, 0] = 1
    params["W_O"][:, 0, 0] = torch.tensor(heads)
    params["W_O"][:, 1, 0] = -torch.tensor(heads)
    seen = Batch(torch.stack([x] * n), torch.stack([x[:0]] * n), torch.stack([target] * n))
    grads = ({name: torch.zeros_like(p) for name, p in params.items()}, torch.zeros(n))
    ensemble = SimpleNamespace(runs=arm_runs((SGD, EM), (3,)), gradients=lambda params, seen: grads)
    return full_batch.OnSequences().of_runs(ensemble, params, seen, None)


def probabilities(h: float) -> np.ndarray:
    """Of eight symbols with the logits ``(h, -h, 0, ...)``."""
    e = np.exp([h, -h, 0, 0, 0, 0, 0, 0])
    return e / e.sum()


def test_kl_is_that_of_the_schedule_from_sgd():
    """KL(EM || SGD), not the other way round: the two differ where one is much surer than the other."""
    found = observed([0.0, 5.0], [[0] * 5, [0] * 5])
    sgd, em = probabilities(0), probabilities(5)
    assert found["kl"][0] == 0
    assert float(found["kl"][1]) == pytest.approx((em * np.log(em / sgd)).sum(), rel=1e-5)
    assert float(found["kl"][1]) != pytest.approx((sgd * np.log(sgd / em)).sum(), rel=0.1)


def test_held_out_loss_is_scored_on_the_second_sequence():
    """A head that always says the first symbol, on a sequence that has it and on one that never does."""
    found = observed([3.0, 3.0], [[0] * 5, [1] * 5])
    p = probabilities(3)
    assert float(found["nll"][0]) == pytest.approx(-math.log(p[0]), rel=1e-5)
    assert float(found["held_out"][0]) == pytest.approx(-math.log(p[1]), rel=1e-5)


def test_spread_is_no_number_at_the_first_position_and_left_out_of_the_mean():
    """The first query sees one key: its entropy over the largest possible is 0 / 0. Uniform attention has a spread of 1 everywhere else."""
    zero = torch.zeros(10, 20)
    spread = causal.predict(torch.ones(5, 20), zero, zero, torch.zeros(15, 20), torch.zeros(8, 15)).spread
    assert spread[0].isnan()
    assert spread[1:].tolist() == pytest.approx([1] * 4)
    assert observed([0.0, 1.0], [[0] * 5, [0] * 5])["spread"].tolist() == pytest.approx([1, 1])


# -- from curves to records -------------------------------------------------------------------------------------------------


def test_spread_of_steps_has_n_minus_one():
    """Three seeds that reach SGD's loss after 250, 500 and 1000 of 1000 steps."""
    steps, seeds = np.array([0, 250, 500, 1000]), (0, 1, 2)
    sgd = Curves(steps, seeds, {"nll": np.array([[2.0] * 3, [1.9] * 3, [1.8] * 3, [1.6] * 3])})
    em = Curves(
        steps, seeds, {"nll": np.array([[2.0] * 3, [1.6, 1.9, 1.9], [1.5, 1.6, 1.8], [1.4, 1.4, 1.6]])}
    )
    for curve in (em, sgd):
        curve.values["nll"] = curve["nll"] + 1e-9 * np.arange(3)
        curve.values |= {"entropy": curve["nll"], "accuracy": curve["nll"]}
    found = table1.table(em, sgd)
    assert found["steps"] == pytest.approx(1750 / 3, rel=1e-6)
    assert found["steps_sd"] == pytest.approx(
        np.sqrt(((np.array([250, 500, 1000]) - 1750 / 3) ** 2).sum() / 2), rel=1e-6
    )


def test_the_gap_is_that_of_the_lowest_held_out_loss(monkeypatch):
    """Not of the lowest training loss, which comes later, nor of the held-out loss there; means over seeds before the minimum."""
    monkeypatch.setattr(chain, "held_out_floor", lambda chain, seeds: [1.0, 2.0])
    monkeypatch.setattr(chain, "by_hand", lambda chain, seed: 0.25 * seed)
    nll = np.array([[2.0, 2.0], [1.5, 1.5], [0.5, 0.5]])
    held_out = np.array([[2.1, 2.1], [1.9, 1.7], [2.4, 1.6]])
    every = {
        "a": Curves(np.arange(3), (1, 3), {"nll": nll, "held_out": held_out}),
        "b": Curves(np.arange(3), (1, 3), {"nll": nll - 0.4, "held_out": held_out + 0.1}),
    }
    found = chain.gap_values(
        StickyChain(), every, Results({"runs/gap": np.array([[0.9, 0.9], [0.2, 0.4]])}, {})
    )
    assert found["gap/trained"] == pytest.approx(1.8 - 1.5)
    assert found["gap/constructed"] == pytest.approx(0.5)
    assert found["gap/constructed_se"] == pytest.approx(0.25)
    assert found["gap/fresh"] == pytest.approx(0.3)


def test_value_gradients_are_compared_with_the_larger_of_the_routing_ones():
    """Norms 2, 8, 4, 16 of Q, K, V, O: a half and a quarter. By entries: of matrices 10 x 20, 10 x 20, 15 x 20, 8 x 15 whose entries are all alike."""
    steps = np.array([0, 100, 200])
    early, late = np.array([2.0, 8, 4, 16]), np.array([1.0, 1, 100, 1])
    norms = np.stack([early, early, late])[:, None].repeat(3, 1)
    found = chain.early_ratios(Curves(steps, (0, 1, 2), {"norms": norms}))
    assert (found["sizes/v_over_qk"], found["sizes/v_over_o"]) == (0.5, 0.25)
    alike = np.sqrt([200.0, 200, 300, 120])  # norms of matrices of ones
    found = chain.early_ratios(Curves(steps, (0, 1), {"norms": np.tile(alike, (3, 2, 1))}))
    assert found["sizes/entry_v_over_qk"] == pytest.approx(1)
    assert found["sizes/entry_v_over_o"] == pytest.approx(1)


def test_learned_shares_are_those_between_ignorance_and_the_floor(monkeypatch):
    """A loss at the middle has learned a half; the printed entropies are measured with the same ruler."""
    top = math.log(8)
    monkeypatch.setattr(chain, "bayes_losses", lambda chain, seeds: [top - 0.2, top - 0.4])
    em, sgd = (
        Curves(np.arange(1), (0, 1), {"nll": top - np.array([[0.2, 0.4]]) * part}) for part in (0.5, 0.25)
    )
    found = chain.learned_values(em, sgd, StickyChain())
    assert (found["chain/learned_em"], found["chain/learned_sgd"]) == pytest.approx((0.5, 0.25))
    assert found["chain/learned_em_se"] == pytest.approx(0, abs=1e-12)
    says = printed("agarwal2025")
    by_hand = [(top - says[f"table1/entropy_{arm}"]) / (top - 1.829) for arm in ("em", "sgd")]
    assert found["chain/learned_printed"] == pytest.approx(by_hand, rel=3e-3)


def test_the_table_says_what_lies_inside_and_what_has_power():
    """An interval that holds both arms' numbers decides nothing; one beside the printed number says so."""
    found = {"seeds": 3, "steps": 430.0, "steps_sd": 10.0, "steps_width": 20.0}
    for metric, (em, sgd) in {
        "loss": (1.97, 2.2),
        "entropy": (1.998, 2.077),
        "accuracy": (0.244, 0.2),
    }.items():
        for arm, mean, width in (("em", em, 0.5), ("sgd", sgd, 0.01)):
            found |= {f"{metric}_{arm}": mean, f"{metric}_{arm}_sd": 0.1, f"{metric}_{arm}_width": width}
    rows = {row["what"]: (row["inside"], row["power"]) for row in draw_chain.table({"a": found}).rows}
    assert rows["loss, EM-like (nats)"] == ("inside", "no")
    assert rows["loss, SGD (nats)"] == ("outside", "yes")
    assert rows["entropy, SGD (nats)"] == ("inside", "yes")
    assert rows["steps to SGD's loss"] == ("inside", "yes")


# -- the toy and the scores -------------------------------------------------------------------------------------------------


def test_a_rise_of_a_hundredth_of_the_first_loss_is_smooth():
    loss = np.array([[5.0] * 3, [5 + 5 * toy_runs.BUMP * part for part in (0.9, 1.1, -1)], [4.0] * 3])
    run = toy_runs.Ensemble(torch.empty(0), torch.empty(0), [], loss, loss)
    assert toy_runs.BUMP == 0.01
    assert toy_runs.is_smooth(toy_runs.ends(run)).tolist() == [True, False, True]


def test_effective_positions_are_counted_for_each_query():
    """One query on one of four positions, one on all four: 1 and 4 are 2.5 in the mean, not the square root of 4."""
    alpha = torch.tensor([[1.0, 0, 0, 0], [0.25] * 4], dtype=torch.float64)
    assert float(toy_runs.effective_positions(alpha)) == pytest.approx(2.5)


@pytest.mark.parametrize("moved", ["q", "k", "both"])
def test_score_steps_of_weights_hold_both_paths(moved):
    """Against the scores of the matrices after a small step, with the query gradient alone, the key gradient alone, and both."""
    case = random_case(6)
    f = closed.forward(case.x, case.w, case.mask)
    _, d = closed.every_gradient(case.x, case.y, case.w, case.mask)
    dq, dk = (d[n] if moved in (n, "both") else torch.zeros_like(d[n]) for n in "qk")
    rate = 1e-6
    after = case.w._replace(
        W_Q=case.w.W_Q - rate * closed.projection_gradient(dq, case.x),
        W_K=case.w.W_K - rate * closed.projection_gradient(dk, case.x),
    )
    change = (closed.forward(case.x, after, case.mask).s - f.s) / rate
    found = updates.score_step_of_weights(dq, dk, f.q, f.k, case.x, 1.0)
    assert found.abs().max() > 1e-3
    torch.testing.assert_close(found, change, rtol=1e-3, atol=1e-4 * float(found.abs().max()))


# -- where runs end, and how fast ---------------------------------------------------------------------------------------------


def test_silhouette_by_hand():
    """Two pairs on a line at 0, 1 and 10, 11: (10.5 - 1) / 10.5 for the outer points, (9.5 - 1) / 9.5 for the inner ones; shuffled, below 0."""
    points = np.array([[0.0], [1], [10], [11]])
    expected = (9.5 / 10.5 + 8.5 / 9.5) / 2
    assert solutions.silhouette(points, np.array([0, 0, 1, 1])) == pytest.approx(expected)
    assert solutions.silhouette(points, np.array([0, 1, 0, 1])) < 0
    assert solutions.silhouette(points[:3], np.array([0, 0, 1])) == pytest.approx((9 / 10 + 8 / 9 + 0) / 3)


def test_divergence_is_that_of_the_first_from_the_second():
    sure, even = probabilities(5), probabilities(0)
    p, q = (torch.from_numpy(np.log(part))[None] for part in (sure, even))
    assert solutions.divergence(p, q) == pytest.approx((sure * np.log(sure / even)).sum())
    assert solutions.divergence(q, p) == pytest.approx((even * np.log(even / sure)).sum())


def run_of(scales: list[tuple[float, float]]) -> follow.Followed:
    """A run on a short chain whose ``W_Q`` and ``W_V`` are multiplied by these numbers at its records, 0, 50, 100 and 150."""
    gen = torch.Generator().manual_seed(0)
    sizes = {"d_x": 20, "d_k": 10, "d_v": 15, "n_classes": 8}
    parts = [torch.randn(n, generator=gen, dtype=torch.float64).numpy() for n in (200, 200, 300, 120)]
    flat = [np.concatenate([q * parts[0], parts[1], v * parts[2], parts[3]]) for q, v in scales]
    return follow.Followed(StickyChain(T=60), 1, sizes, np.arange(4) * 50, np.zeros(4), np.array(flat))


def test_early_moves_are_relative_and_end_at_step_100():
    """Values doubled by step 100 have moved by their own size; what happens later does not count; attention from even to anything moves by at most 2."""
    attention, values = timescales.early_moves(run_of([(0, 1), (0, 1.5), (0, 2), (5, 9)]))
    assert (attention, values) == pytest.approx((0, 1))
    attention, values = timescales.early_moves(run_of([(0, 1), (0, 1), (100, 1), (0, 1)]))
    assert values == 0
    assert 1.5 < attention <= 2


def test_predictions_of_another_seed_are_no_similar_solution():
    """The control of the claim: far above its bound, and 0 for the run itself."""
    one = run_of([(1, 1)] * 4)
    same = follow.Followed(one.chain, 2, one.sizes, one.steps, one.loss, one.flat)
    assert solutions.other_seed([one, same]) == pytest.approx(0, abs=1e-12)
    other = follow.Followed(one.chain, 2, one.sizes, one.steps, one.loss, -one.flat[:, ::-1].copy())
    (part,) = LEDGER.claim("agarwal2025/kl").parts
    assert not part.rule.check(solutions.other_seed([one, other]), {})


def test_bounds_of_printed_spreads_hold_six_in_nineteen_of_twenty():
    """Five normal seeds against thirty-one: each ratio of standard deviations is outside in 1 of 120 repetitions."""
    own = dict.fromkeys((f"{name}_sd" for name in ("loss_em", "steps")), 1.0) | {"seeds": 31}
    bounds = table1.spreads(own, ["loss_em"] * 6, 5)
    rng = np.random.default_rng(0)
    ratio = rng.normal(size=(40_000, 5)).std(1, ddof=1) / rng.normal(size=(40_000, 31)).std(1, ddof=1)
    for outside in (ratio < bounds["spread_low"], ratio > bounds["spread_high"]):
        assert outside.mean() == pytest.approx(1 / 240, rel=0.3)


def test_attention_that_settles_first_is_earlier():
    """Steps by which values settle later, mean over seeds and its error; the speed left is attention's alone."""
    states = [
        {
            "attention_at": at,
            "values_at": at + 100 + 20 * at,
            "attention_speed": (0.05, 0.2),
            "values_speed": (0.9, 1),
        }
        for at in (0.0, 1.0)
    ]
    found = timescales.frame_values(states[:1], states[1:], states)
    assert [found[f"frame/{arm}_{what}"] for arm in ("em", "sgd") for what in ("attention", "values")] == [
        0,
        100,
        1,
        121,
    ]
    assert (found["frame/far"], found["frame/far_speed"]) == pytest.approx((110, 0.05))
    assert found["frame/far_se"] == pytest.approx(12.7062 * 10 / 2, rel=1e-5)
    parts = LEDGER.claim("agarwal2025/frame-precision").parts
    assert all(part.rule.check(found[part.key], found) for part in parts)
