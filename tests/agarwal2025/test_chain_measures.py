"""agarwal2025: Table 1's measurements and trials, followed runs, regularisation, and mutations that must turn a named claim red."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from agarwal2025.kit import LEDGER, holds
from iclbook.papers.agarwal2025.measures.cases import relative
from iclbook.papers.agarwal2025.measures.chain import Curves

from iclbook import random
from iclbook.models.single_head import SingleHead
from iclbook.papers.agarwal2025 import studies
from iclbook.papers.agarwal2025.measures import chain, follow, regularisation, table1, timescales
from iclbook.papers.agarwal2025.runs import full_batch, short, shown
from iclbook.papers.agarwal2025.theory import causal_mask
from iclbook.papers.agarwal2025.theory import gradients as closed
from iclbook.statistics import bootstrap_error, share_error
from iclbook.store import Results
from iclbook.tasks.sticky_chain import StickyChain
from iclbook.training import FullBatch
from iclbook.training.study import pack


def curves(end: float, seeds=(42, 2024, 1337)) -> Curves:
    steps = np.arange(0, 1001, 100)
    fall = np.linspace(0, 1, 11)[:, None]
    speeds = 1 + 0.01 * np.arange(len(seeds)) * (end < 1.9)
    nll = 2.08 - (2.08 - end) * fall * speeds + 1e-9 * np.arange(len(seeds))
    return Curves(
        steps, seeds, {"nll": nll, "entropy": nll, "accuracy": 2.2 - nll, "kl": 0 * nll + 0.1 * fall}
    )


def test_steps_to_a_level_are_interpolated():
    fast, slow = curves(1.88), curves(1.98)
    np.testing.assert_allclose(chain.steps_to(fast, slow["nll"][-1]), [500, 500 / 1.01, 500 / 1.02])
    np.testing.assert_allclose(chain.steps_to(slow, np.full(3, 0.0)), 1000)


def test_table_and_curves():
    found = table1.table(curves(1.88), curves(1.98))
    assert found["speedup"] == pytest.approx(2.02, abs=0.001)
    assert found["loss_em"] == pytest.approx(1.878)
    ahead = chain.curve_values({"a": (curves(1.88), curves(1.98))}, after=200)
    assert all(holds("fig6-8", key, value) for key, value in ahead.items() if not key.endswith("_se"))


def test_mutation_arms_swapped():
    behind = chain.curve_values({"a": (curves(1.98), curves(1.88))}, after=200)
    assert not any(holds("fig6-8", key, value) for key, value in behind.items() if not key.endswith("_se"))


def test_trials_are_decided_by_paired_differences():
    assert holds("q-schedule", "fair/vs_uniform0.1", -0.1)
    assert not holds("q-schedule", "fair/vs_uniform0.1", 0.1)


def named_errors(*claims: str) -> set[str]:
    """Keys of the standard errors that the parts of these claims name."""
    return {p.error for c in claims for p in LEDGER.claim(f"agarwal2025/{c}").parts if p.error}


def test_errors_of_table_and_trial_are_those_of_their_seeds():
    """By hand for three seeds: standard deviations with n - 1, Student's t of 2 degrees of freedom."""
    em, sgd = curves(1.88), curves(1.98)
    sgd.values["nll"] = sgd["nll"] + np.array([0.0, 0.02, 0.04])
    sgd.values["entropy"] = sgd["nll"]
    found = table1.table(em, sgd)
    steps = chain.steps_to(em, sgd["nll"][-1])
    mean = steps.mean()
    sd = np.sqrt(((steps - mean) ** 2).sum() / 2)
    assert found["steps_sd"] == pytest.approx(sd)
    assert found["loss_sgd_sd"] == pytest.approx(0.02)
    assert found["speedup_se"] == pytest.approx(1000 * sd / np.sqrt(3) / mean**2)  # delta method
    assert found["loss_sgd_width"] == pytest.approx(4.302653 * 0.02 * np.sqrt(1 / 3 + 1 / 5))
    difference = em["nll"][-1] - sgd["nll"][-1]
    half = 4.302653 * difference.std(ddof=1) / np.sqrt(3)
    assert found["difference"] == pytest.approx(difference.mean())
    assert found["difference_se"] == pytest.approx(half / 2)
    errors = table1.unit_values(found)
    assert errors["units/sgd_bits_se"] == pytest.approx(0.02 / np.sqrt(3) / np.log(2))
    values = table1.table_values(found, found, found, StickyChain("nearer")) | errors
    assert named_errors("table1", "units") <= set(values)
    others = dict.fromkeys(("uniform0.1", "uniform0.02", "o10", "qk10", "adam0.001", "alternating"), sgd)
    trial = chain.fair_values(em, sgd, others)
    assert trial["fair/equal_rate_se"] == pytest.approx(0.01 * found["speedup_se"])
    assert (trial["fair/vs_o10"], trial["fair/vs_o10_se"]) == pytest.approx((difference.mean(), half / 2))


def ends(loss_em, loss_sgd) -> tuple[Curves, Curves]:
    """Curves of two records that end at these losses, ``(seeds,)``."""
    made = []
    for end in (np.array(loss_em), np.array(loss_sgd)):
        nll = np.stack([np.full(len(end), 2.08), end])
        values = {"nll": nll, "entropy": nll + 0.02, "accuracy": 2.2 - nll, "kl": 0 * nll}
        made.append(Curves(np.array([0, 1000]), tuple(range(len(end))), values))
    return tuple(made)


def word_of_loss(found: dict) -> tuple[bool, bool]:
    """Whether the part on EM's final loss holds, and whether its rule passes SGD's printed loss as well."""
    (part,) = [p for p in LEDGER.claim("agarwal2025/table1").parts if p.key == "table1/code/loss_em"]
    values = table1.table_values(found, found, found, StickyChain("nearer"))
    return part.rule.check(values[part.key], values), part.rule.check(part.refuses.value(values), values)


def test_fewer_seeds_do_not_make_table_1_easier():
    """Three seeds whose interval holds the printed number of either arm agree and decide nothing; fifty decide, for or against."""
    few, many = np.array([-1, 0, 1]), np.tile([-1, 0, 1], 17)
    assert word_of_loss(table1.table(*ends(1.97 + 0.04 * few, 2.05 + 0.04 * few))) == (True, True)
    assert word_of_loss(table1.table(*ends(1.97 + 0.04 * many, 2.05 + 0.04 * many))) == (True, False)
    assert word_of_loss(table1.table(*ends(2.05 + 0.04 * many, 1.97 + 0.04 * many))) == (False, False)


def test_printed_spreads_are_tested_together():
    """Six ratios of standard deviations: seeds like the printed ones pass, seeds that differ much more do not."""
    seeds = np.tile([-1.0, 0.0, 1.0], 17)
    (part,) = [p for p in LEDGER.claim("agarwal2025/table1").parts if p.key == "table1/code/spreads"]
    for size, expected in ((1, True), (8, False)):
        found = table1.table(*ends(1.97 + 0.034 * size * seeds, 2.058 + 0.007 * size * seeds))
        # SGD's printed entropy varies less than its loss, so give each metric its own printed spread
        found |= {
            f"{n}_sd": size * table1.printed_table()[n][1] for n in ("loss_em", "loss_sgd", "entropy_em")
        }
        found |= {
            f"{n}_sd": size * table1.printed_table()[n][1]
            for n in ("entropy_sgd", "accuracy_em", "accuracy_sgd")
        }
        names = [f"{m}_{arm}" for m in table1.METRICS for arm in ("em", "sgd")]
        found |= table1.spreads(found, names, 5)
        assert found["spreads"] == pytest.approx([1 / size] * 6)
        assert (
            part.rule.check(found["spreads"], table1.table_values(found, found, found, StickyChain()))
            is expected
        )


def test_the_lesser_share_has_the_error_of_its_chain():
    sure, few, half = np.ones(50, bool), np.ones(3, bool), np.array([True, False])
    assert chain.least_share_error([sure, half]) == share_error(1, 2)
    assert chain.least_share_error([sure, few]) == share_error(3, 3)  # equal shares: the fewer seeds
    ahead = chain.curve_values({"a": (curves(1.88), curves(1.98))}, after=200)
    assert ahead["fig6-8/loss_se"] == share_error(3, 3)
    assert named_errors("fig6-8") == {key for key in ahead if key.endswith("_se")}


def test_error_of_early_ratios_is_that_of_the_seeds():
    """Seeds that differ, records that do not: the error of the median is that of a median of the seeds, whatever the records."""
    own = np.random.default_rng(0).normal(size=(1, 21))
    norms = np.stack([1 + 0 * own, 1 + 0 * own, np.exp(own), 1 + 0 * own], -1)
    one, many = (
        chain.early_ratios(Curves(np.arange(n), tuple(range(21)), {"norms": norms.repeat(n, 0)}))
        for n in (1, 9)
    )
    assert one == pytest.approx(many)
    assert one["sizes/v_over_qk_se"] == pytest.approx(bootstrap_error(np.median, np.exp(own[0])))
    assert named_errors("q-gradient-sizes") <= set(one)


def test_error_of_the_least_share_over_seeds():
    happens = np.ones((5, 200), bool)
    assert follow.least_of_shares_error(happens) == share_error(200, 200)
    happens[0, :100] = False  # another five seeds would often miss this one
    assert follow.least_of_shares_error(happens) > 0.2


def test_speed_left():
    steps = np.arange(0, 101, 5)
    even = np.linspace(0, 1, 21)[:, None] * np.ones((21, 3))
    assert timescales.speed_left(even, steps) == pytest.approx((1, 1))
    assert max(timescales.speed_left(1 - np.exp(-even * 20), steps)) < 1e-3


def test_joined_counts_a_seed_once():
    both = chain.joined([curves(1.9, (1, 2)), curves(1.9, (2, 3))])
    assert both.seeds == (1, 2, 3)
    assert both["nll"].shape == (11, 3)


def test_weights_by_hand_are_near_the_floor():
    assert chain.by_hand(StickyChain("code", T=1000), 42) < 0.085


def test_gradient_exponents():
    values = follow.size_exponents(StickyChain(T=150), (1,))
    np.testing.assert_allclose(values["sizes/exponents"], [1, 1, 3, 3], atol=0.1)


def test_summed_loss_is_cut_where_it_overflows():
    losses = follow.summed_loss(StickyChain(T=200), 42, 80)
    assert np.isfinite(losses).all()
    (part,) = [p for p in LEDGER.claim("agarwal2025/q-eq9-sum").parts if p.key == "sum/loss"]
    assert not part.rule.check(float(losses[-1]), {"table1/code/loss_sgd_width": 0.1})


def test_settling_times():
    left = np.array([1.0, 0.5, 0.2, 0.05, 0.0])
    assert timescales.settles(left, np.array([0, 10, 20, 30, 40])) == pytest.approx(20 + 10 * 0.1 / 0.15)
    assert timescales.way_left(np.linspace(1, 0, 5)[:, None, None] * np.ones((5, 3, 2)))[2] == pytest.approx(
        0.5
    )


def diagnostics_error(run: follow.Followed, record: int) -> float:
    """Compatibility and ``alpha A^adv`` against autograd in attention and scores."""
    (x, y), w, found = run.inputs(), run.weights(record), follow.diagnose(run, record)
    mask = causal_mask(len(x))
    f = closed.forward(x, w, mask)
    s = f.s.clone().requires_grad_()
    alpha, _, logits, _ = closed.attend(s, f.v, w.W_O, w.b, mask)
    truth = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, y, reduction="sum"), (alpha, s))
    return max(relative(found.b, truth[0]), relative(found.alpha * found.a_adv, truth[1]))


def test_followed_runs_and_diagnostics():
    study = studies("smoke")["shown"]
    data = FullBatch(full_batch.OwnSequences(StickyChain(T=80)))
    study = dataclasses.replace(study, data=data, steps=40)
    results = Results(pack(study.trainer("cpu", False).train(progress=False)), {})  # writes no file
    run = follow.followed(study, results, "em")[1]
    w = run.weights(0)
    model = SingleHead()
    model.initialise(random.generator(run.seed, 0), full_batch.INIT_SCALE)
    torch.testing.assert_close(w.W_V.float(), model.W_V.detach())
    torch.testing.assert_close(w.W_O.float(), model.W_O.detach())
    values = follow.diagnostic_values(run, 1)
    assert -1 <= values["diag/predicts"] < 0, "A^adv has the sign of the gradient, not of the step"
    assert follow.activation_ratio([run])["sizes/activation_v_over_qk"] > 0
    found = follow.diagnose(run, 0)
    assert float(found.usage.sum()) == pytest.approx(79)
    assert float(found.by_position.sum()) == pytest.approx(79)
    assert diagnostics_error(run, 1) < 1e-9
    paths, share = follow.projected([run])
    assert paths[0].shape == (len(run.steps), 79, 2)
    assert 0 < share <= 1
    assert shown.first_component(np.array([[1.0, 0], [2, 0]])) == pytest.approx(1)


def first_order_error(chain: StickyChain, seed: int, rates: np.ndarray) -> np.ndarray:
    """``|L(w - rate dL) - L + rate |dL|^2| / (rate |dL|^2)`` at each rate, after 20 steps of training, float64."""
    seq = full_batch.data(chain, seed).train
    model, x = (
        part.double()
        for part in (regularisation.at(regularisation.trained(chain, [seed], 20)["plain"], 0), seq.x)
    )
    loss, grads = regularisation.gradients(model, x, seq.y)
    predicted = sum(float((g**2).sum()) for g in grads.values())
    errors = []
    for rate in rates:
        with torch.no_grad():
            moved = {n: p - rate * grads[n] for n, p in model.named_parameters()}
            after = torch.nn.functional.cross_entropy(torch.func.functional_call(model, moved, (x,)), seq.y)
        errors.append(abs(float(after) - loss + rate * predicted) / (rate * predicted))
    return np.array(errors)


def test_regularisation_runs():
    """The error of the first-order picture is of the next order, also between single rates; dropout is measured at every rate."""
    values = regularisation.measure((1,), T=60, steps=10)
    rates = np.geomspace(1e-3, 1e-1, 5)
    errors = first_order_error(StickyChain("code", T=60), 1, rates)
    assert np.polyfit(np.log(rates), np.log(errors), 1)[0] == pytest.approx(1, abs=0.1)
    assert (
        len(values["reg/dropout_even"]) == len(values["reg/dropout_even_se"]) == len(regularisation.DROPOUTS)
    )
    assert min(values["reg/dropout_spread_se"]) > 0, "a share is never certain"
    assert named_errors("regularisation") <= set(values)
    assert values["reg/norm_spread"] < 0.01


def test_race_of_ratio_one_is_sgd():
    race = short.race(1.0, 0.3, T=60, steps=5)
    np.testing.assert_array_equal(race.schedule, race.sgd)
    np.testing.assert_array_equal(race.uniform, race.sgd)
