"""recall2025: the task, its exact losses against enumeration and autograd, the transformer on tokens, lemmas and misprints."""

import itertools

import numpy as np
import pytest
import torch

from iclbook.models import RecallTransformer
from iclbook.papers.recall2025 import lemmas
from iclbook.papers.recall2025.simplifications import every_query, exact_loss
from iclbook.papers.recall2025.theory import OwnQueries, Population
from iclbook.tasks import AssociativeRecall
from iclbook.tasks.associative_recall import _lexicographic

# -- task ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("matched", [0, 1])
def test_plateaus_against_brute_force(order, matched):
    """The model that answers with the frequencies among the permutations that share the query's last ``matched`` tokens."""
    task = AssociativeRecall(order, 3)
    queries, maps = task.enumerate()
    perms = task.permutations
    same = (perms[queries][:, None, order - matched :] == perms[None, :, order - matched :]).all(-1)  # (N, n!)
    right = maps == maps[np.arange(len(maps)), queries][:, None]
    p = (same & right).sum(1) / same.sum(1)
    assert task.plateau_dp(matched) == pytest.approx(np.mean(1 - p), rel=1e-12)
    assert task.plateau_ce(matched) == pytest.approx(np.mean(-np.log(p)), rel=1e-12)


# -- population losses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["dp", "ce"])
@pytest.mark.parametrize("window", [3, 4])
def test_gradient_of_order_four_against_autograd(loss, window):
    """Autograd through the scores of the population itself: 24 permutations, an ensemble of two."""
    pop = Population(AssociativeRecall(4, 4), 3, window, 0.3, loss="dp")
    theta = np.random.default_rng(0).normal(size=(2, pop.size))
    t = torch.tensor(theta, requires_grad=True)
    w, beta = t[:, : 3 * window].reshape(2, 3, window), t[:, 3 * window :]
    scores = pop.kappa * torch.einsum("eh,ehi,thi->et", beta**2, torch.softmax(w, -1), torch.tensor(pop.match))
    (0.75 * (1 - torch.softmax(scores, -1)[:, 0])).sum().backward()
    np.testing.assert_allclose(pop.gradient(theta), t.grad.numpy(), atol=1e-13)
    if loss == "ce":  # by central differences of the value
        pop = Population(AssociativeRecall(4, 4), 3, window, 0.3, loss="ce")
        for i in range(pop.size):
            step = 1e-5 * np.eye(pop.size)[i]
            slope = (pop.value(theta + step) - pop.value(theta - step)) / 2e-5
            np.testing.assert_allclose(pop.gradient(theta)[:, i], slope, atol=1e-8)


@pytest.mark.parametrize("kind", [Population, OwnQueries])
@pytest.mark.parametrize("loss", ["dp", "ce"])
def test_an_ensemble_is_its_members_however_many_and_however_laid_out(kind, loss):
    pop = kind(AssociativeRecall(3, 4), 2, 3, 0.4, loss=loss)
    theta = np.random.default_rng(0).normal(size=(1100, pop.size))
    for method in (pop.gradient, pop.value, pop.weights, pop.attention, pop.advantage):
        every = method(theta)
        for i in (0, 15, 16, 1023, 1024, 1099):
            np.testing.assert_allclose(every[i], method(theta[i]), rtol=1e-10, atol=1e-14)
        boxed = method(theta[:30].reshape(5, 6, -1))
        np.testing.assert_allclose(boxed[2, 3], every[15], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0, 8.0])
def test_cross_entropy_integral_against_every_pattern(spread):
    """Weights alike or far apart: mean and slopes of -log X over all 32 patterns of chance matches, in extended precision."""
    pop = Population(AssociativeRecall(3, 4), 3, 3, loss="ce")
    for s in np.exp(spread * np.random.default_rng(0).normal(size=(10, 6))):
        s /= s.sum()
        value, slope, chance = np.longdouble(0), np.zeros(6, np.longdouble), np.longdouble(0.25)
        for pattern in itertools.product((0, 1), repeat=5):
            same = np.array((1, *pattern), np.longdouble)
            share, right = np.where(same[1:] > 0, chance, 1 - chance).prod(), (s * same).sum()
            value, slope = value - share * np.log(right), slope - share * same / right
        assert pop._value(s) == pytest.approx(float(value), rel=1e-14, abs=2e-14)
        np.testing.assert_allclose(pop._cross_entropy_slope(s), slope.astype(float), rtol=1e-14)


def test_printed_matrix_makes_gamma_idle():
    theta = np.random.default_rng(4).normal(size=12)
    losses = {Population(AssociativeRecall(3, 3), 3, 3, g, "printed").value(theta).item() for g in (0.0, 0.5, 2.0)}
    assert len(losses) == 1
    assert len({Population(AssociativeRecall(3, 3), 3, 3, g).value(theta).item() for g in (0.0, 0.5)}) == 2


# -- the transformer ----------------------------------------------------------------------------------------------------


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
    assert exact_loss(model.response_weights(one_each), 3).item() == pytest.approx(brute.item(), abs=1e-14)


def test_advantage_is_what_the_scores_show():
    """Equation 13: the score of a permutation that matches at head 1's own offset over the mean of those that do not."""
    pop = Population(AssociativeRecall(4, 2), 3, 4, 0.5)
    theta = pop.join(np.random.default_rng(5).normal(size=(3, 4)), np.array([1.3, 0.0, 0.0]))
    scores = np.log(pop.weights(theta))
    matches = pop.match[:, 0, 0] > 0
    assert pop.advantage(theta)[0] == pytest.approx(scores[matches].mean() - scores[~matches].mean())


@pytest.mark.parametrize("a0", [True, False])
def test_advantage_of_the_transformer_is_that_of_the_population(a0):
    model = RecallTransformer(3, 2, 3, 0.4, a0=a0)
    model.initialise(torch.Generator().manual_seed(3))
    if not a0:
        with torch.no_grad():  # all attention on the offsets that a window would see
            model.w[:, 0] = model.w[:, 4:] = -1e3
    pop = Population(AssociativeRecall(3, 2), 3, 3, 0.4)
    w = model.w.detach().numpy()
    theta = pop.join(w if a0 else w[:, 1:4], model.beta.detach().numpy())
    np.testing.assert_allclose(model.advantage().detach().numpy(), pop.advantage(theta), rtol=1e-12)


def test_lemmas_hold_and_misprints_do_not():
    c1, c2 = lemmas.lemma_c1(draws=3), lemmas.lemma_c2_errors(draws=5)
    assert c1["lemmaC1/lemma"] <= 1e-12 < 1e-3 < c1["lemmaC1/printed"]
    assert max(c2["lemmaC2/eq11"], c2["lemmaC2/eq6"]) <= 1e-12
    assert min(c2["lemmaC2/eq12"], c2["lemmaC2/eq12_delta0"]) > 1e-3
    assert lemmas.lemma_c3()["lemmaC3/deviation"] <= 1e-14
    assert max(lemmas.lemma_d().values()) <= 1e-14
    assert max(lemmas.loss_gradients(1).values()) <= 1e-14
    weight, table = lemmas.lemma_c3_weight(), lemmas.table()
    assert min(lemmas.lemma_d1_matrix(0.0), weight["lemmaC3/weight_printed"], table["table/printed"]) > 1e-2
    assert max(weight["lemmaC3/weight_eq13"], table["table/last"], table["table/simplified"]) <= 1e-12
    assert lemmas.lemma_d1_matrix(-np.inf) <= 1e-14


# -- A2 lifted ----------------------------------------------------------------------------------------------------------


def test_own_queries_are_those_of_the_transformer():
    """Loss and gradient of the population without A2 against autograd through the tokens, at a random state."""
    model = RecallTransformer(3, 4, 3, gamma=0.4, a2=False)
    model.initialise(torch.Generator().manual_seed(0))
    pop = OwnQueries(AssociativeRecall(3, 4), 3, 3, 0.4)
    theta = pop.join(model.w.detach().numpy(), model.beta.detach().numpy())
    loss = exact_loss(model.response_weights(every_query(model)), model.n_responses)
    w, beta = torch.autograd.grad(loss, [model.w, model.beta])
    assert pop.value(theta) == pytest.approx(loss.item(), rel=1e-13)
    np.testing.assert_allclose(pop.gradient(theta), pop.join(w.numpy(), beta.numpy()), atol=1e-15)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_batches_show_the_permutations_in_the_sequences_order(order):
    assert (_lexicographic(order, torch.device("cpu")).numpy() == AssociativeRecall(order, 2).permutations).all()
