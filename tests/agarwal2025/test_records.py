"""agarwal2025: what turns runs into recorded numbers, fed with inputs whose right record is known by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from iclbook.papers.agarwal2025 import (
    chain_runs,
    closed_forms,
    figure_9,
    figures_1_to_5,
    figures_6_to_8,
    section_8,
    toy_runs,
)
from iclbook.papers.agarwal2025.chain_runs import EM, SGD, arm_runs
from iclbook.papers.agarwal2025.closed_forms_checked import random_case
from iclbook.papers.agarwal2025.figures_6_to_8 import Curves
from iclbook.tasks import Batch
from iclbook.tasks.sticky_chain import StickyChain


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
    return chain_runs.OnSequences().of_runs(ensemble, params, seen, None)


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
    spread = closed_forms.causal_predict(torch.ones(5, 20), zero, zero, torch.zeros(15, 20), torch.zeros(8, 15)).spread
    assert spread[0].isnan()
    assert spread[1:].tolist() == pytest.approx([1] * 4)
    assert observed([0.0, 1.0], [[0] * 5, [0] * 5])["spread"].tolist() == pytest.approx([1, 1])


def test_spread_of_steps_has_n_minus_one():
    """Three seeds that reach SGD's loss after 250, 500 and 1000 of 1000 steps."""
    steps, seeds = np.array([0, 250, 500, 1000]), (0, 1, 2)
    sgd = Curves(steps, seeds, {"nll": np.array([[2.0] * 3, [1.9] * 3, [1.8] * 3, [1.6] * 3])})
    em = Curves(steps, seeds, {"nll": np.array([[2.0] * 3, [1.6, 1.9, 1.9], [1.5, 1.6, 1.8], [1.4, 1.4, 1.6]])})
    for curve in (em, sgd):
        curve.values["nll"] = curve["nll"] + 1e-9 * np.arange(3)
        curve.values |= {"entropy": curve["nll"], "accuracy": curve["nll"]}
    found = figures_6_to_8.table(em, sgd)
    assert found["steps"] == pytest.approx(1750 / 3, rel=1e-6)
    assert found["steps_sd"] == pytest.approx(
        np.sqrt(((np.array([250, 500, 1000]) - 1750 / 3) ** 2).sum() / 2), rel=1e-6
    )


def test_a_rise_of_a_hundredth_of_the_first_loss_is_smooth():
    loss = np.array([[5.0] * 3, [5 + 5 * toy_runs.BUMP * part for part in (0.9, 1.1, -1)], [4.0] * 3])
    run = toy_runs.Ensemble(torch.empty(0), torch.empty(0), [], loss, loss)
    assert toy_runs.BUMP == 0.01
    assert toy_runs.sharp_and_smooth(toy_runs.ends(run))[1].tolist() == [True, False, True]


def test_effective_positions_are_counted_for_each_query():
    """One query on one of four positions, one on all four: 1 and 4 are 2.5 in the mean, not the square root of 4."""
    alpha = torch.tensor([[1.0, 0, 0, 0], [0.25] * 4], dtype=torch.float64)
    assert float(toy_runs.effective_positions(alpha)) == pytest.approx(2.5)


@pytest.mark.parametrize("moved", ["q", "k", "both"])
def test_score_steps_of_weights_hold_both_paths(moved):
    """Against the scores of the matrices after a small step, with the query gradient alone, the key gradient alone, and both."""
    case = random_case(6)
    f = closed_forms.forward(case.x, case.w, case.mask)
    _, d = closed_forms.every_gradient(case.x, case.y, case.w, case.mask)
    dq, dk = (d[n] if moved in (n, "both") else torch.zeros_like(d[n]) for n in "qk")
    rate = 1e-6
    after = case.w._replace(W_Q=case.w.W_Q - rate * dq.mT @ case.x, W_K=case.w.W_K - rate * dk.mT @ case.x)
    change = (closed_forms.forward(case.x, after, case.mask).s - f.s) / rate
    found = closed_forms.score_step_of_weights(dq, dk, f.q, f.k, case.x)
    assert found.abs().max() > 1e-3
    torch.testing.assert_close(found, change, rtol=1e-3, atol=1e-4 * float(found.abs().max()))


def test_silhouette_by_hand():
    """Two pairs on a line at 0, 1 and 10, 11: (10.5 - 1) / 10.5 for the outer points, (9.5 - 1) / 9.5 for the inner ones; shuffled, below 0."""
    points = np.array([[0.0], [1], [10], [11]])
    expected = (9.5 / 10.5 + 8.5 / 9.5) / 2
    assert figure_9.silhouette(points, np.array([0, 0, 1, 1])) == pytest.approx(expected)
    assert figure_9.silhouette(points, np.array([0, 1, 0, 1])) < 0
    assert figure_9.silhouette(points[:3], np.array([0, 0, 1])) == pytest.approx((9 / 10 + 8 / 9 + 0) / 3)


def test_a_value_left_out_is_attention_renormalised():
    """Two queries behind a position with a half and a quarter of their weight: the rest counts twice, and four thirds."""
    alpha = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]], dtype=torch.float64)
    v = torch.tensor([[8.0], [2.0], [4.0]], dtype=torch.float64)
    found = closed_forms.Forward(None, None, v, None, alpha, alpha @ v, None, None)
    assert section_8.without(found, 0).flatten().tolist() == pytest.approx([2, (0.5 + 2) / 0.75])


def test_compatibility_apart_is_weighted_by_attention():
    """Written out, query by query: b by autograd of the weights, its mean and spread under attention; dL/ds by autograd of the scores."""
    chain = StickyChain(T=30)
    run = figure_9.Followed(
        chain, 1, np.arange(1), chain_runs.unpack(np.random.default_rng(0).normal(size=(1, 820))), np.zeros(1)
    )
    x, y = run.inputs()
    w = run.at(0)
    s = (x @ w.W_Q.T @ (x @ w.W_K.T).T / math.sqrt(10)).requires_grad_()
    alpha = s.masked_fill(torch.ones_like(s).triu(1).bool(), -math.inf).softmax(-1)
    alpha.retain_grad()
    torch.nn.functional.cross_entropy(alpha @ x @ w.W_V.T @ w.W_O.T, y, reduction="sum").backward()
    spread = size = 0.0
    for weights, b in zip(alpha.detach(), alpha.grad, strict=True):
        mean = (weights * b).sum()
        spread += float((weights * (b - mean) ** 2).sum())
        size += float((weights * b**2).sum())
    apart, slope = figure_9.equalised(run, 0)
    assert apart == pytest.approx(np.sqrt(spread / size), rel=1e-9)
    assert slope == pytest.approx(float(s.grad.norm()), rel=1e-9)


def test_calibration_is_of_first_order():
    """A loss that has a quarter of its way left has half of its calibration left."""
    flat = figure_9.Followed(
        StickyChain(T=30), 1, np.arange(3), chain_runs.unpack(np.arange(3.0)[:, None] * np.ones(820) / 50), np.zeros(3)
    )
    found = figure_9.head_left([flat], np.array([[1.1], [0.35], [0.1]]))
    assert found["calibration"][:, 0].tolist() == pytest.approx([1, 0.5, 0])


def test_attention_by_symbol_of_a_head_that_looks_everywhere_and_at_one_symbol():
    """Weights of zero attend uniformly: 1 everywhere. Queries that all point at one symbol's mean read it more than chance, whoever asks."""
    chain = StickyChain(T=200)
    flat = figure_9.Followed(chain, 1, np.arange(1), chain_runs.unpack(np.zeros((1, 820))), np.zeros(1))
    np.testing.assert_allclose(figure_9.attention_by_symbol(flat, 0), 1, atol=1e-12)
    x = torch.zeros(10, 20, dtype=torch.float64)
    x[0] = torch.linalg.lstsq(
        chain_runs.data(chain, 1).train.means.double(), torch.ones(8, dtype=torch.float64)
    ).solution
    key = torch.zeros(10, 20, dtype=torch.float64)
    key[0] = 3 * torch.linalg.pinv(chain_runs.data(chain, 1).train.means.double())[:, 2]
    found = figure_9.attention_by_symbol(flat._replace(w=flat.w._replace(W_Q=x[None], W_K=key[None])), 0)
    assert (found[:, 2] > 1.5).all()
    assert (np.delete(found, 2, 1) < 1).all()


def test_the_present_symbol_alone_cannot_beat_the_chain_and_beats_ignorance():
    chain = StickyChain("code", T=2000)
    found = figure_9.loss_by_symbol_alone(chain, 42)
    assert chain.bayes_loss(chain_runs.data(chain, 42).held_out) < found < math.log(8)


def test_two_heaviest_keys_of_five():
    """Two queries of a toy head: uniform attention holds 2/5 on any two; a head without inputs to tell apart is uniform."""
    w = closed_forms.Weights(*(torch.zeros(1, *s, dtype=torch.float64) for s in ((2, 3), (2, 3), (2, 3), (3, 2), (3,))))
    run = toy_runs.Ensemble(torch.zeros(1, 5, 3, dtype=torch.float64), None, [w], None, None)
    assert figures_1_to_5.top_two(run) == pytest.approx([0.4])
    x = torch.zeros(1, 5, 3, dtype=torch.float64)
    x[0, :, 0] = torch.tensor([1.0, 1, 0, 0, 0])
    key = torch.zeros(1, 2, 3, dtype=torch.float64)
    key[0, 0, 0] = math.sqrt(2) * math.log(3)  # scores of log 3 for query 1 on keys 1 and 2; queries 3 to 5 are zero
    query = torch.zeros(1, 2, 3, dtype=torch.float64)
    query[0, 0, 0] = 1
    sharp = run._replace(x=x, weights=[w._replace(W_Q=query, W_K=key)])
    assert figures_1_to_5.top_two(sharp) == pytest.approx([(2 * 6 / 9 + 3 * 0.4) / 5])


def test_at_equal_loss_finds_the_record_and_the_share():
    """SGD that passes through the schedule's last state: no divergence there, none in attention; uniform predictions would be a share of one."""
    rng = np.random.default_rng(0)
    end, chain = rng.normal(size=820) * 0.5, StickyChain(T=60)
    losses = np.array([3.0, 1.0, 2.0])
    em = figure_9.Followed(chain, 1, np.arange(2), chain_runs.unpack(np.stack([0 * end, end])), losses[:2])
    sgd = figure_9.Followed(chain, 1, np.arange(3), chain_runs.unpack(np.stack([0 * end, end, 2 * end])), losses)
    assert figure_9.at_equal_loss(em, sgd) == pytest.approx((0, 0), abs=1e-12)
    flat = figure_9.Followed(chain, 1, np.arange(1), chain_runs.unpack(0 * end[None]), losses[:1])
    assert figure_9.at_equal_loss(em, flat)[0] == pytest.approx(1)
