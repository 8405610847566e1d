"""agarwal2025: measures of runs and heads made by hand, and sentences recounted with nothing but softmax and autograd."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from agarwal2025.kit import LEDGER
from iclbook.papers.agarwal2025.measures.cases import random_case
from iclbook.papers.agarwal2025.measures.chain import Curves
from iclbook.papers.agarwal2025.runs.full_batch import data

from iclbook.papers.agarwal2025.figures import sentences
from iclbook.papers.agarwal2025.measures import chain, one_step, routing, solutions, statements, table1, toy
from iclbook.papers.agarwal2025.runs import toy as toy_runs
from iclbook.papers.agarwal2025.runs import wind_tunnel
from iclbook.tasks.sticky_chain import StickyChain

# -- the toy ------------------------------------------------------------------------------------------------------------------

#: Effective positions at each step, and losses, of runs that sharpen from 5 to 1: ways of 0, 0.05, 0.5, 0.9 (or 0.95), 1.
SLOW, FAST = [5, 4.8, 3, 1.4, 1], [5, 4.8, 1.2, 1.1, 1]


def ensemble(positions: list[list[float]], loss: list[list[float]]) -> toy_runs.Ensemble:
    return toy_runs.Ensemble(torch.zeros(0), torch.zeros(0), [], np.array(loss).T, np.array(positions).T)


def test_gains_by_hand():
    """From the first step with a tenth of the way to the first with nine tenths: two steps of four and 5 of 10 for the slow run, none for the fast one."""
    run = ensemble([SLOW, FAST], [[10, 9, 8, 3, 0], [10, 9, 4, 2, 0]])
    gain, window = toy.gains(run)
    assert gain.tolist() == [0.5, 0]
    assert window.tolist() == [0.25, 0]
    late = ensemble([[5, 5, 4, 3, 1]], [[8, 8, 7, 6, 4]])
    gain, window = toy.gains(late)
    assert (gain.tolist(), window.tolist()) == ([0.75], [0.5]), "of the fall from 8 to 4"


def test_runs_that_do_not_sharpen_have_no_gain():
    gain, window = toy.gains(ensemble([[5, 5, 4, 4, 3], SLOW], [[10, 9, 8, 3, 0]] * 2))
    assert (len(gain), len(window)) == (1, 1)


def test_a_setting_is_told_by_medians_and_shares(monkeypatch):
    monkeypatch.setattr(toy, "ranks", lambda run: (np.array([0.9, 0.7]), np.array([0.4, 0.6])))
    monkeypatch.setattr(toy, "first_shares", lambda run: np.array([0.5, 0.6, 1.0]))
    monkeypatch.setattr(toy, "gains", lambda run: (np.array([0.1, 0.2, 0.9]), np.array([0.1, 0.3, 0.8])))
    calm, bumpy = [10, 9, 8, 3, 0], [10, 9, 9.5, 3, 0]
    found = toy.at_setting(ensemble([SLOW, FAST, [5] * 5, [5] * 5], [calm, bumpy, calm, calm]))
    assert (found["sharp"], found["smooth"], found["both"]) == (0.5, 0.75, 0.25)
    assert (found["gain"], found["window"], found["pc1"]) == (0.2, 0.3, 0.6)
    assert (found["rank"], found["shuffled"]) == pytest.approx((0.8, 0.5))


def test_motions_along_one_line_are_one_component():
    line = np.array([[1.0, 2], [-2, -4], [0.5, 1]])
    even = np.array([[1.0, 0], [0, 1]])
    assert toy._first(line) == pytest.approx(1)
    assert toy._first(even) == pytest.approx(0.5)
    both = np.array([[3.0, 0], [0, 1]])  # squares 9 and 1
    assert toy._first(both) == pytest.approx(0.9)


def test_runs_of_a_setting_are_ranked_over_their_own_values(monkeypatch):
    """All values of a run move alike, in another direction in each run: more aligned than chance in each, and no more than chance when put together."""
    rng = np.random.default_rng(0)
    ways = np.exp(1j * rng.uniform(0, 2 * np.pi, 40))
    moves = np.stack([ways.real, ways.imag], -1)[:, None] * rng.uniform(0.5, 2, (40, 5, 1))
    monkeypatch.setattr(toy, "displacements", lambda run: moves)
    own, mixed = toy.ranks(None, draws=400)
    assert own.shape == mixed.shape == (40,)
    assert own.min() > 0.99
    assert mixed.mean() == pytest.approx(0.5, abs=0.2)


def test_a_setting_at_the_edge_of_uniform_counts():
    scales, rates = len(toy_runs.SCALES), len(toy_runs.RATES)
    found = {"start": np.full((scales, rates), 0.9 * 5), "both": np.zeros((scales, rates))}
    found["both"][2, 3] = 0.5
    assert toy.chosen_setting(found) == (toy_runs.SCALES[2], toy_runs.RATES[3])
    found["start"][2, 3] -= 0.01
    assert toy.chosen_setting(found) == (toy_runs.SCALES[0], toy_runs.RATES[0]), (
        "too sharp from the start: none is left"
    )


def test_a_step_that_changes_nothing_lowers_and_reinforces_nothing(monkeypatch):
    steps = {
        0: (0.0, 0.0, 0.0, 0.0),
        1: (-1.0, 2.0, 1.0, -2.0),
        2: (-1.0, -2.0, -1.0, 2.0),
        3: (-1, 1, -1, 0),
    }

    def made(run, runs, at, rate, bias):
        own_loss, own_gain, loss, gain = np.array([steps[k] for k in runs]).T
        return SimpleNamespace(
            dloss=np.stack([own_loss, loss], -1), dadvantage=np.stack([own_gain, gain], -1)
        )

    monkeypatch.setattr(one_step, "steps_of", made)
    run = ensemble([SLOW] * 4, [[10, 9, 8, 3, 0]] * 4)
    found = one_step.one_step_values(run, 0.1, ensemble([SLOW] * 2, [[10, 9, 8, 3, 0]] * 2), 0.1)
    shares = {"loss_own": 0.75, "reinforced_own": 0.5, "loss_all": 0.5, "reinforced_all": 0.25}
    assert {name: found[f"fig1/{name}"] for name in shares} == shares
    assert (found["fig1/loss_bias"], found["fig1/reinforced_bias"]) == (0, 0), "the first two runs alone"
    assert one_step.steepest(run, 0) == 2


# -- what numbers and sentences are called ------------------------------------------------------------------------------------


def test_every_number_of_table_1_stands_under_its_own_name():
    chains = ("code", "text", "small")
    assert {
        n: keys for n, keys in table1.KEYS.items() if keys != tuple(f"table1/{c}/{n}" for c in chains)
    } == {}


def test_no_two_rows_of_the_picture_of_sentences_say_the_same():
    assert len(set(sentences.SENTENCES.values())) == len(sentences.SENTENCES)


def test_the_wind_tunnel_is_as_small_as_the_ledger_says():
    (entry,) = [claim for claim in LEDGER.claims if "hidden Markov model and an LSTM" in claim.says]
    hmm, bijection = wind_tunnel.wind_tunnel_studies("paper")
    assert hmm.batch_size == bijection.batch_size
    assert f"{hmm.steps:,} and {bijection.steps:,} steps of {hmm.batch_size} sequences" in entry.reduced
    assert f"{hmm.data.states} states" in entry.reduced
    assert f"bijections of {bijection.data.symbols} symbols" in entry.reduced


# -- the chain ----------------------------------------------------------------------------------------------------------------


def test_spread_of_two_final_losses(monkeypatch):
    monkeypatch.setattr(chain, "bayes_losses", lambda chain, seeds: [1.0, 1.0])
    em, sgd = (
        Curves(np.arange(2), (0, 1), {"nll": np.array([[9.0, 9], end])}) for end in ([1.5, 1.5], [1.6, 1.8])
    )
    assert chain.learned_values(em, sgd, StickyChain())["chain/spread_sgd"] == pytest.approx(
        0.2 / math.sqrt(2)
    )


def test_what_another_seed_misses_is_counted_in_what_the_first_knows(monkeypatch):
    """Against the nearly uniform answer a run misses all that it knows: a ratio of one, whatever the run; the other way round as summed here."""
    sure = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    even = np.array([[0.34, 0.33, 0.33], [0.33, 0.34, 0.33]])
    logits = {1: torch.from_numpy(np.log(sure)), 2: torch.from_numpy(np.log(even))}
    runs = [
        SimpleNamespace(inputs=lambda: (None, None), weights=lambda record, n=n: (n,) * 5) for n in (1, 2)
    ]
    monkeypatch.setattr(solutions, "logits", lambda x, *w: logits[w[0]])

    def share(p, q):
        return (p * np.log(p / q)).sum() / (p * np.log(p * 3)).sum()

    assert share(sure, even) == pytest.approx(1, abs=0.02)
    assert solutions.other_seed(runs) == pytest.approx((share(sure, even) + share(even, sure)) / 2)


def test_values_that_show_their_symbol_are_tight_clusters(monkeypatch):
    """At the end each value is its input's symbol, at the start chance; symbols are told by the nearest mean, one input at a time."""
    stick = StickyChain(T=60)
    seq = data(stick, 3).train
    nearest = [int(min(range(len(seq.means)), key=lambda k: float((x - seq.means[k]).norm()))) for x in seq.x]
    shown = np.array(nearest)[solutions.sampled_positions(len(nearest))]
    rng = np.random.default_rng(1)
    end = np.eye(len(seq.means))[shown] + 1e-3 * rng.normal(size=(len(shown), len(seq.means)))
    paths = np.stack([rng.normal(size=end.shape), end])
    asked = []

    def value_paths(chain, seed, flat, sizes):
        asked.append(flat)
        return paths

    monkeypatch.setattr(solutions, "value_paths", value_paths)
    run = SimpleNamespace(chain=stick, seed=3, flat=np.arange(4), sizes={})
    first, last, mixed = solutions.clusters(run)
    assert asked[0].tolist() == [0, 3], "the first and the last record"
    assert last > 0.99
    assert abs(first) < 0.3
    assert mixed < 0.3


# -- routing ------------------------------------------------------------------------------------------------------------------


def test_angles_and_distances_by_hand():
    a, b = torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])
    assert routing.cosine(a, b) == pytest.approx(24 / 25)
    assert routing.cosine(a, -2 * a) == pytest.approx(-1)
    assert routing.relative(a, b) == pytest.approx(math.sqrt(2) / 5)
    assert routing.off_multiple(a, 7 * a) == pytest.approx(0, abs=1e-7)
    assert routing.off_multiple(a, b) == pytest.approx(math.sqrt(1 - (24 / 25) ** 2), rel=1e-6)


# -- sentences ----------------------------------------------------------------------------------------------------------------


def attended(s, v, w, mask):
    """Attention and probabilities of equations 4 to 8, written out."""
    alpha = torch.softmax(s if mask is None else s.masked_fill(~mask, -math.inf), -1)
    return alpha, torch.softmax(alpha @ v @ w.W_O.T + w.b, -1)


def lost(s, v, case):
    p = attended(s, v, case.w, case.mask)[1]
    return -torch.stack([p[i, y].log() for i, y in enumerate(case.y.tolist())])


def advantages(alpha, u, v):
    """``A_ij``: how far ``u_i v_j`` lies below what attention expects of it."""
    b = torch.stack([torch.stack([ui @ vj for vj in v]) for ui in u])
    return (alpha * b).sum(1)[:, None] - b


def upstream(p, case):
    rows = [p[i] - torch.eye(p.shape[1], dtype=p.dtype)[y] for i, y in enumerate(case.y.tolist())]
    return torch.stack(rows) @ case.w.W_O


def large(a, among=None):
    """Entries above a thousandth of the largest."""
    sizes = a.abs() if among is None else a.abs() * among
    return sizes > 1e-3 * sizes.max()


def recounted(case, found):
    """Sections 1.1, 3.1, 3.2, 4.2 and 4.4 on one head."""
    x, w, small = case.x, case.w, 1e-5
    v = (x @ w.W_V.T).requires_grad_()
    s = (x @ w.W_Q.T) @ (x @ w.W_K.T).T / math.sqrt(w.W_Q.shape[0])
    before = lost(s, v, case)
    (slope,) = torch.autograd.grad(before.sum(), v)
    v, before = v.detach(), before.detach()
    alpha, p = attended(s, v, w, case.mask)
    u, step = upstream(p, case), -small * slope
    a, see = advantages(alpha, u, v), alpha > 1e-9
    assert torch.allclose(slope, alpha.T @ u, atol=1e-12)
    along = torch.stack([step[j] @ (alpha[:, j] @ u) for j in range(len(x))])
    found["signs/values"] += (along < 0)[large(along)].tolist()
    found["prose/toward"] += (along > 0)[large(along)].tolist()
    g = alpha @ v
    users = torch.stack([alpha[:, j] @ g / alpha[:, j].sum() for j in range(len(x))])
    toward = (step * (users - v)).sum(1)
    found["prose/toward_contexts"] += (toward > 0)[large(toward)].tolist()
    for j in range(len(x)):
        alone = v.clone()
        alone[j] += step[j]
        change = lost(s, alone, case) - before
        if large(along)[j]:
            found["prose/joint_sum"].append(float(change.sum()) < 0)
        found["prose/joint_all"] += (change < 0)[see[:, j] & large(change)].tolist()
    moved = v + small * step / step.abs().max()
    grown = advantages(alpha, upstream(attended(s, moved, w, case.mask)[1], case), moved) - a
    helped = see & (a > 0) & large(a, see)
    found["signs/feedback3"] += (grown > 0)[helped & large(grown, see)].tolist()
    held = advantages(alpha, u, moved) - a
    found["signs/feedback3_held"] += (held > 0)[helped & large(held, see)].tolist()
    for j in range(len(x)):
        alone = v.clone()
        alone[j] += step[j]
        own = (advantages(alpha, u, alone) - a)[:, j]
        clear = see[:, j] & (a[:, j] > 0) & large(a, see)[:, j] & large(own)
        found["signs/own"] += (own > 0)[clear].tolist()
        found["signs/feedback3_own"] += (own > 0)[clear & (u @ step[j] < 0)].tolist()
    logits = [h @ w.W_O.T + w.b for h in (g, g - small * u)]
    right = torch.stack([(logits[1] - logits[0])[i, y] for i, y in enumerate(case.y.tolist())])
    found["prose/u_logit"] += (right > 0)[large(right)].tolist()


def test_sentences_about_values_are_recounted(monkeypatch):
    """The same shares on twelve heads, but for one entry in a hundred that stands at the edge of what is clear."""
    heads = [random_case(index) for index in range(12)]
    monkeypatch.setattr(statements, "cases", lambda n: iter(heads))
    said = statements.signs(12)
    found = {
        f"{part}": []
        for part in (
            "signs/values",
            "prose/toward",
            "prose/toward_contexts",
            "prose/joint_sum",
            "prose/joint_all",
            "signs/own",
            "signs/feedback3_own",
            "signs/feedback3",
            "signs/feedback3_held",
            "prose/u_logit",
        )
    }
    for case in heads:
        recounted(case, found)
    for name, entries in found.items():
        assert len(entries) >= 60, name
        assert said[name] == pytest.approx(np.mean(entries), abs=0.01), name
