"""recall2025: exact losses against enumeration and autograd, the flow, the closed forms, and mutations that must turn a named claim red."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from iclbook.claims import load_ledger
from iclbook.errors import UserError
from iclbook.experiments.recall2025 import exact, first_jump, relaxed, stages
from iclbook.models import RecallTransformer
from iclbook.tasks import AssociativeRecall
from iclbook.theory import recall2025 as theory
from iclbook.theory.recall2025 import Population, population
from iclbook.training import gradient_flow

LEDGER = load_ledger("recall2025")


def holds(claim: str, key: str, value, others: dict | None = None, reading: str | None = None) -> bool:
    """Whether the part of this claim that reads ``key`` accepts ``value``."""
    parts = [p for p in LEDGER.claim(f"recall2025/{claim}").parts if p.key == key]
    assert parts, f"{claim} has no part on {key}"
    return all(p.rule.check(value, {key: value, **(others or {})}) for p in parts)


# -- task ---------------------------------------------------------------------------------------------------------------


def test_sequences_hold_every_permutation_with_its_response():
    assert exact.task_sizes() == {"task/wrong": 0}
    task = AssociativeRecall(4, 4)
    assert task.length == math.factorial(5) + 4


@pytest.mark.parametrize("kwargs", [{"order": 1}, {"order": 8}, {"n_responses": 1}])
def test_sizes_that_define_no_task_are_refused(kwargs):
    with pytest.raises(UserError):
        AssociativeRecall(**kwargs)


def test_enumeration_is_complete_and_refuses_what_is_too_large():
    queries, maps = AssociativeRecall(2, 3).enumerate()
    assert len({(q, *m) for q, m in zip(queries, maps, strict=True)}) == 2 * 9
    with pytest.raises(UserError, match="too many"):
        AssociativeRecall(4, 4).enumerate()


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("matched", [0, 1])
def test_plateaus_against_brute_force(order, matched):
    """The model that answers with the frequencies among the permutations that share the query's last ``matched`` tokens."""
    task = AssociativeRecall(order, 3)
    queries, maps = task.enumerate()
    perms = task.permutations
    same = (perms[queries][:, None, order - matched :] == perms[None, :, order - matched :]).all(
        -1
    )  # (N, n!)
    right = maps == maps[np.arange(len(maps)), queries][:, None]
    p = (same & right).sum(1) / same.sum(1)
    assert task.plateau_dp(matched) == pytest.approx(np.mean(1 - p), rel=1e-12)
    assert task.plateau_ce(matched) == pytest.approx(np.mean(-np.log(p)), rel=1e-12)


# -- population losses --------------------------------------------------------------------------------------------------


def test_population_equals_enumeration():
    values = exact.against_enumeration()
    assert values["task/loss_deviation"] <= 1e-13
    assert values["task/gradient_deviation"] <= 1e-12


@pytest.mark.parametrize("loss", ["dp", "ce"])
@pytest.mark.parametrize("window", [3, 4])
def test_gradient_of_order_four_against_autograd(loss, window):
    """Autograd through the scores of the population itself: 24 permutations, an ensemble of two."""
    pop = Population(AssociativeRecall(4, 4), 3, window, 0.3, loss="dp")
    theta = np.random.default_rng(0).normal(size=(2, pop.size))
    t = torch.tensor(theta, requires_grad=True)
    w, beta = t[:, : 3 * window].reshape(2, 3, window), t[:, 3 * window :]
    scores = pop.kappa * torch.einsum(
        "eh,ehi,thi->et", beta**2, torch.softmax(w, -1), torch.tensor(pop.match)
    )
    (0.75 * (1 - torch.softmax(scores, -1)[:, 0])).sum().backward()
    np.testing.assert_allclose(pop.gradient(theta), t.grad.numpy(), atol=1e-13)
    if loss == "ce":  # by central differences of the value
        pop = Population(AssociativeRecall(4, 4), 3, window, 0.3, loss="ce")
        for i in range(pop.size):
            step = 1e-5 * np.eye(pop.size)[i]
            slope = (pop.value(theta + step) - pop.value(theta - step)) / 2e-5
            np.testing.assert_allclose(pop.gradient(theta)[:, i], slope, atol=1e-8)


def test_cross_entropy_integral_against_sampling():
    pop = Population(AssociativeRecall(4, 4), 3, 4, loss="ce")
    theta = np.random.default_rng(1).normal(size=pop.size)
    _, value = pop.sampled_gradient(theta, 200_000, np.random.default_rng(2))
    assert float(value) == pytest.approx(float(pop.value(theta)), abs=0.01)


@pytest.mark.parametrize("loss", ["dp", "ce"])
def test_sampled_gradient_is_unbiased(loss):
    pop = Population(AssociativeRecall(3, 3), 3, 3, 0.2, loss=loss)
    theta = np.random.default_rng(3).normal(size=pop.size)
    draws = np.array([pop.sampled_gradient(theta, 2000, np.random.default_rng(i))[0] for i in range(40)])
    error = draws.std(0) / math.sqrt(40)
    assert (np.abs(draws.mean(0) - pop.gradient(theta)) <= 5 * error + 1e-12).all()


def test_printed_matrix_makes_gamma_idle():
    theta = np.random.default_rng(4).normal(size=12)
    losses = {
        Population(AssociativeRecall(3, 3), 3, 3, g, "printed").value(theta).item() for g in (0.0, 0.5, 2.0)
    }
    assert len(losses) == 1
    assert len({Population(AssociativeRecall(3, 3), 3, 3, g).value(theta).item() for g in (0.0, 0.5)}) == 2


@pytest.mark.parametrize("wrong", [{"window": 5}, {"n_heads": 5}, {"matrix": "eq"}, {"loss": "mse"}])
def test_impossible_populations_are_refused(wrong):
    with pytest.raises(UserError):
        Population(**{"task": AssociativeRecall(4, 4), "n_heads": 3, "window": 4, **wrong})


# -- the transformer ----------------------------------------------------------------------------------------------------


def test_construction_solves_the_task_on_the_superdiagonal_only():
    built = exact.construction()
    assert built["super"][-1] < 1e-9
    assert built["sub"][-1] > 0.5


@pytest.mark.parametrize(("a0", "a2", "a3"), list(itertools.product((True, False), repeat=3)))
def test_output_is_a_distribution_and_causal(a0, a2, a3):
    model = RecallTransformer(2, 2, 2, a0=a0, a2=a2, a3=a3)
    model.initialise(torch.Generator().manual_seed(0))
    task = AssociativeRecall(2, 2)
    p = model(torch.tensor(task.sequences(*task.enumerate())))
    torch.testing.assert_close(p.sum(-1), torch.ones(len(p), dtype=torch.float64))
    assert (model.first_layer().triu(1) == 0).all()


def test_closed_mean_over_maps_equals_enumeration_without_a3():
    """The mean over f of 1 - p in closed form, for every query, in the model with A0, A2 and A3 lifted."""
    model = RecallTransformer(2, 3, 2, a0=False, a2=False, a3=False)
    model.initialise(torch.Generator().manual_seed(1))
    task = AssociativeRecall(2, 3)
    queries, maps = task.enumerate()
    right = torch.tensor(2 + maps[np.arange(len(queries)), queries])
    brute = 1 - model(torch.tensor(task.sequences(queries, maps))).gather(1, right[:, None]).mean()
    one_each = torch.tensor(task.sequences(np.arange(2), np.zeros((2, 2), dtype=int)))
    assert relaxed.exact_loss(model, one_each).item() == pytest.approx(brute.item(), abs=1e-14)


def test_a_free_matrix_with_ideal_queries_is_refused():
    with pytest.raises(UserError, match="A2"):
        RecallTransformer(2, 2, 2, a1=False)


# -- flow ---------------------------------------------------------------------------------------------------------------


def test_flow_of_a_quadratic_is_exact_and_finds_events():
    flow = gradient_flow(
        lambda x: x, np.array([[1.0], [2.0]]), 3.0, [0.0, 1.0, 3.0], [lambda x: 0.5 - x[0, 0]]
    )
    np.testing.assert_allclose(flow.states[:, :, 0], np.exp(-flow.times)[:, None] * [1, 2], rtol=1e-9)
    assert flow.events[0][0] == pytest.approx(math.log(2), rel=1e-8)


def test_flows_that_cannot_be_followed_are_refused():
    with pytest.raises(UserError, match="end after 0"):
        gradient_flow(lambda x: x, np.ones(1), 0.0)
    with pytest.raises(UserError, match="stopped"):
        gradient_flow(lambda x: -(x**3), np.ones(1), 10.0)


def test_first_jump_claims_hold_along_the_flow():
    orders = (3, 4)
    conserved = first_jump.conservation(orders)
    assert conserved["conserved/proof"] <= 1e-9
    assert conserved["conserved/ce"] <= 1e-9
    ode = first_jump.sufficient_ode(orders)
    assert ode["ode/half"] <= 1e-6
    np.testing.assert_allclose(ode["ode/clock"], 2, atol=1e-3)
    direction = first_jump.direction(orders)
    assert direction["thm3.1/signs"]
    assert direction["thm3.1/others"] == 0


def test_one_run_alone_equals_the_same_run_in_an_ensemble():
    pop = stages.experiment()
    starts = pop.join(
        np.random.default_rng(0).normal(size=(5, 3, 4)) * 0.01, np.full((5, 3), [0.3, 0.2, 0.1])
    )
    together = stages.activations(pop, starts, 2000.0)
    alone = stages.activations(pop, starts[2:3], 2000.0)
    np.testing.assert_allclose(together[2], alone[0], rtol=2e-2)


def test_activation_follows_every_order_of_beta():
    assert stages.orders_follow(stages.experiment()) == 6


# -- mutations: each breaks the theory and must turn the claim red --------------------------------------------------------


def test_wrong_conserved_sign_turns_red():
    assert holds("thm3.1d", "conserved/proof", first_jump.conservation((4,))["conserved/proof"])
    original = theory.potential
    first_jump.theory.potential = lambda a, k, sign: original(a, k, -sign)
    try:
        broken = first_jump.conservation((4,))["conserved/proof"]
    finally:
        first_jump.theory.potential = original
    assert not holds("thm3.1d", "conserved/proof", broken)


def test_xi_off_by_its_factor_turns_red(monkeypatch):
    right = first_jump.sufficient_ode((4,))
    assert holds("q-xi", "ode/half", right["ode/half"])
    original = theory.xi
    module = __import__("iclbook.theory.recall2025.first_jump", fromlist=["xi"])
    monkeypatch.setattr(
        module, "xi", lambda g, k, r, kappa=1.0, printed=True: original(g, k, r, kappa, not printed)
    )
    broken = first_jump.sufficient_ode((4,))
    assert not holds("q-xi", "ode/half", broken["ode/half"])
    assert not holds("q-xi", "ode/clock", broken["ode/clock"])


def test_subdiagonal_turns_red(monkeypatch):
    original = RecallTransformer.__init__

    def flipped(self, *args, diagonal=1, a2=True, **kwargs):
        original(self, *args, diagonal=-diagonal, a2=False, **kwargs)

    monkeypatch.setattr(RecallTransformer, "__init__", flipped)
    assert not holds("full-model", "full/loss_last", exact.construction()["super"][-1])


def test_wrong_window_turns_red(monkeypatch):
    """Heads that look one token too far see the response of the pair before instead of the last symbol."""
    original = Population.match.func

    def shifted(self):
        return np.roll(original(self), 1, axis=2)

    monkeypatch.setattr(Population, "match", property(shifted))
    values = exact.against_enumeration(draws=1)
    assert not holds("task", "task/loss_deviation", values["task/loss_deviation"])


def test_missing_chance_matches_turn_red(monkeypatch):
    """Cross-entropy without the other responses that agree by chance."""
    original = Population._laplace

    def without(self, s):
        u, _, factor = original(self, s)
        return u, np.exp(-u * s[..., :1]), factor

    monkeypatch.setattr(Population, "_laplace", without)
    pop = stages.experiment("ce")
    value = float(pop.value(np.zeros(pop.size)))
    assert not holds("q-ce-plateaus", "plateaus/ce", abs(value / pop.task.plateau_ce(0) - 1))
    assert population._LOG_U[0] < -40


def test_matched_offsets_removed_from_the_softmax_turn_red():
    """If learned offsets left the softmax, a later jump would be the reduced first jump, and the measured factor 1."""
    found = stages.later_jump(4, 2, 1e-3)
    others = {"later/predicted": [found["predicted"]]}
    assert holds("q-later-jump", "later/ratio", [found["ratio"]], others)
    assert not holds("q-later-jump", "later/ratio", [1.0], others)
