"""Measures of agarwal2025 that go over sequences by blocks, side by side or at chosen places only, against plain evaluations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from iclbook.papers.agarwal2025.measures.cases import random_weights, relative

from iclbook.papers.agarwal2025.measures import (
    one_step,
    passes,
    routing,
    sequences,
    statements,
    timescales,
    toy,
)
from iclbook.papers.agarwal2025.runs import full_batch, short
from iclbook.papers.agarwal2025.runs import toy as toy_runs
from iclbook.papers.agarwal2025.theory import causal, causal_mask, updates
from iclbook.papers.agarwal2025.theory import gradients as closed
from iclbook.papers.agarwal2025.theory import routing as theory
from iclbook.random import generator
from iclbook.tasks.sticky_chain import StickyChain


@pytest.fixture(scope="module")
def long_case():
    """Inputs, targets and weights of three blocks, the last one short."""
    own = full_batch.data(StickyChain(T=2 * causal.BLOCK + 8), 3)
    return own.train.x.double(), own.train.y, random_weights(generator(3, 8), 20, 10, 15, 8, 0.4)


def test_a_pass_by_blocks_is_the_plain_one(long_case):
    x, y, w = long_case
    mask = causal_mask(len(x))
    rows, columns = (part[::97] for part in torch.where(mask))
    found = passes.causal_pass(x, y, w, (rows, columns))
    f, (_, d) = closed.forward(x, w, mask), closed.every_gradient(x, y, w, mask)
    for name in "qkv":
        assert relative(getattr(found, f"d{name}"), d[name]) < 1e-12, name
        assert relative(getattr(found, name), getattr(f, name)) < 1e-12, name
    assert relative(found.usage, f.alpha.sum(0)) < 1e-12
    assert relative(found.ds, d["s"][rows, columns]) < 1e-12
    assert relative(found.adv, -closed.advantage(f.alpha, d["alpha"])[rows, columns]) < 1e-12
    moved = updates.score_step_of_weights(d["q"], d["k"], f.q, f.k, x, 1.0)
    assert relative(passes.score_steps(found, x, (rows, columns)), moved[rows, columns]) < 1e-12


def test_logits_by_blocks_are_the_plain_ones(long_case):
    x, _, w = long_case
    plain = closed.forward(x, w._replace(b=torch.zeros(8).double()), causal_mask(len(x))).logits
    assert relative(sequences.logits(x, *w[:4]), plain) < 1e-12


@pytest.mark.parametrize("noise", [1.0, 0.3])
def test_sequences_filtered_side_by_side_have_the_losses_of_each(noise):
    chain = StickyChain("nearer", T=90, noise=noise)
    own = [full_batch.data(chain, seed) for seed in (1, 5, 8)]
    for held_out in (False, True):
        alone = [chain.bayes_loss(of.held_out if held_out else of.train) for of in own]
        np.testing.assert_allclose(sequences.bayes_losses(chain, (1, 5, 8), held_out), alone, rtol=1e-12)
    assert alone[0] != alone[1]


def test_races_trained_together_are_those_of_the_long_sequences_steps():
    settings = ((1.0, 0.3), (10.0, 0.3), (10.0, 0.6))
    together = short.races(settings, T=40, steps=12)
    for (ratio, stay), race in zip(settings, together, strict=True):
        own = full_batch.data(StickyChain("nearer", stay, 40), 42)
        for rates, found in (
            ((0.02, 0.02 * ratio), race.schedule),
            ((0.02, 0.02), race.sgd),
            ((0.02 * ratio, 0.02 * ratio), race.uniform),
        ):
            model = short.SingleHead(d_x=20, n_classes=8)
            model.initialise(generator(42, short.INIT), short.INIT_SCALE)
            weights = [getattr(model, name).detach() for name in short.MATRICES]
            expected = []
            for _ in range(12):
                got = causal.step(own.train.x, own.target, *weights)
                expected.append(float(got.loss))
                weights = [
                    p - rates[name == "W_V"] * getattr(got, name)
                    for p, name in zip(weights, short.MATRICES, strict=True)
                ]
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        alone = short.race(ratio, stay, T=40, steps=12)
        np.testing.assert_allclose(alone.schedule, race.schedule, rtol=1e-5)
        assert alone.floor == race.floor


def test_a_derivative_contracts_as_its_jacobian_does():
    d = routing.draw(3)
    for mechanism in routing.MECHANISMS:
        flat = routing._flat(p := d.theta[mechanism])

        def weigh(t, mechanism=mechanism, p=p):
            return routing.weights(mechanism, routing._unflat(p, t), d.x)

        w, contract = routing.derivative(weigh, flat)
        jacobian = torch.autograd.functional.jacobian(weigh, flat)
        b = torch.randn(w.shape, generator=torch.Generator().manual_seed(1), dtype=w.dtype)
        for form in (theory.conjecture_9_2, theory.advantage_form, theory.baseline_cost):
            torch.testing.assert_close(form(w, b, contract), form(w, b, jacobian), rtol=1e-10, atol=1e-13)
        assert relative(theory.chain(b, contract), torch.tensordot(b, jacobian, b.dim())) < 1e-12
        plain = torch.tensordot(theory.expectation(w, b), jacobian.sum(-2), b.dim() - 1)
        torch.testing.assert_close(theory.baseline_cost(w, b, contract), plain, rtol=1e-10, atol=1e-13)


def test_steps_of_many_runs_are_those_of_each():
    run = toy_runs.train(range(6), 0.4, 0.1, 30)
    at = [one_step.steepest(run, r) for r in range(6)]
    together = one_step.steps_of(run, range(6), at, 0.1, True)
    for r, step in enumerate(at):
        alone = one_step.one_step(run, r, step, 0.1, True)
        assert (alone.i, alone.j) == (together.i[r], together.j[r])
        for name in ("v", "dv", "u_bar", "u_i", "g", "dg", "alpha"):
            np.testing.assert_allclose(getattr(together, name)[r], getattr(alone, name), rtol=1e-9)
        for name in ("dloss", "dadvantage"):
            np.testing.assert_allclose(getattr(together, name)[r], getattr(alone, name), rtol=1e-6)
        w = closed.Weights(*[p[r] for p in run.weights[step]])
        f, after = closed.forward(run.x[r], w), closed.forward(run.x[r], closed.Weights(*moved(run, r, w)))
        change = closed.losses(after.logits, run.y[r]) - closed.losses(f.logits, run.y[r])
        assert alone.dloss[1] == pytest.approx(float(change[alone.i]), rel=1e-6)


def moved(run, r, w):
    """All weights of a run after a step at rate 0.1."""
    _, d = closed.every_gradient(run.x[r], run.y[r], w)
    return [p - 0.1 * d[name] for name, p in w._asdict().items()]


def test_score_steps_of_heads_of_several_sizes_are_those_of_each():
    dice = torch.Generator().manual_seed(0)
    squares = [torch.randn(2, n, n, generator=dice, dtype=torch.float64) for n in (2, 5, 3)]
    mask = causal_mask(3)
    squares[2][0][~mask] = -torch.inf
    s, b = (statements.padded([pair[k] for pair in squares], fill) for k, fill in ((0, -torch.inf), (1, 0.0)))
    left = statements.stepped(s, b, 7)
    for n, (own, own_b) in enumerate(squares):
        for _ in range(7):
            alpha = own.softmax(-1)
            own = own - 10 / own_b.abs().max() * alpha * (own_b - (alpha * own_b).sum(-1, keepdim=True))
        assert relative(left[n, : len(own), : len(own)], own.softmax(-1)) < 1e-12


def test_ranks_are_those_of_complex_motions(monkeypatch):
    moves = np.random.default_rng(3).normal(size=(4, 5, 2))
    monkeypatch.setattr(toy, "displacements", lambda run: moves)
    rng, expected = np.random.default_rng(0), []
    for own in moves:
        l2 = (own**2).sum(-1)
        drawn = np.abs((l2 * np.exp(2j * rng.uniform(0, 2 * np.pi, (300, 5)))).sum(-1)) / l2.sum()
        expected.append((drawn < 2 * toy._first(own) - 1).mean())
    np.testing.assert_allclose(toy.ranks(None, draws=300)[0], expected, rtol=1e-12)


def test_attention_rows_of_chosen_records_are_those_of_all(long_case):
    x, _, _ = long_case
    flat = np.random.default_rng(0).normal(size=(4, 820))
    run = timescales.Followed(
        StickyChain(T=len(x) + 1),
        3,
        {"d_x": 20, "d_k": 10, "d_v": 15, "n_classes": 8},
        np.arange(4),
        np.zeros(4),
        flat,
    )
    np.testing.assert_array_equal(
        timescales.attention_rows(run, (0, 2)), timescales.attention_rows(run)[[0, 2]]
    )
