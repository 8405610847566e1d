"""What tasks choose by random words: exactly the stated distribution, and the same on every processor."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from iclbook import random
from iclbook.tasks.sticky_chain import StickyChain
from iclbook.tasks.wind_tunnel import BijectionElimination, HmmFiltering
from iclbook.training.data import Stream

#: A right generator fails one test in so many.
RARE = 1e-5
N = 60_000


def words(count: int, n: int = N, seed: int = 3) -> torch.Tensor:
    return random.words(random.keys([seed]), torch.tensor([1]), 5, (count, n))[0, 0]


def assert_uniform(values: torch.Tensor, options: int) -> None:
    counts = torch.bincount(values.flatten(), minlength=options)
    assert len(counts) == options
    assert stats.chisquare(counts.numpy()).pvalue > RARE


# -- the three kinds of choice ----------------------------------------------------------------------------------------


def test_bounds_of_an_index_split_all_words_evenly():
    """Each index owns floor or ceil of 2**32 / n words: found by bisection, not by sampling."""
    for n in (2, 3, 7, 25, 4000):
        index = torch.arange(n + 1)
        first, last = (
            torch.zeros_like(index),
            torch.full_like(index, 2**32),
        )  # where the first word of each index may lie
        while (open_ := first < last).any():
            middle = (first + last) // 2
            reached = random.below(n, middle.clamp(max=2**32 - 1)) >= index
            last = torch.where(open_ & reached, middle, last)
            first = torch.where(open_ & ~reached, middle + 1, first)
        assert (first[0], first[-1]) == (0, 2**32)
        assert set(first.diff().tolist()) <= {2**32 // n, 2**32 // n + 1}


def test_every_order_is_as_likely():
    orders = random.order(words(4), 0)
    code = (orders * torch.tensor([64, 16, 4, 1])[:, None]).sum(0)
    index = {
        sum(p * 4**i for p, i in zip(o, (3, 2, 1, 0), strict=True)): k
        for k, o in enumerate(itertools.permutations(range(4)))
    }
    assert_uniform(torch.tensor([index[c] for c in code.tolist()]), 24)
    equal = torch.full((5, 1), 7)
    assert random.order(equal, 0).flatten().tolist() == [0, 1, 2, 3, 4], "equal words stay in place"


def test_categories_own_the_words_of_their_probability():
    p = torch.tensor([[0.125], [0.0], [0.5], [0.375]], dtype=torch.float64)
    edge = [0, 2**29 - 1, 2**29, 2**29 + 2**31 - 1, 2**29 + 2**31, 2**32 - 1]
    found = [int(random.category(p, torch.tensor([w]))) for w in edge]
    assert found == [0, 0, 2, 2, 3, 3]
    sharp = torch.softmax(torch.randn(6, N, generator=torch.Generator().manual_seed(0)) * 2, 0)
    chosen = random.category(sharp, words(1)[0])
    counts = torch.bincount(chosen, minlength=6).double()
    z = (counts - sharp.double().sum(1)) / (sharp * (1 - sharp)).double().sum(1).sqrt()
    assert z.abs().max() < 5
    assert random.category(torch.ones(3, 4) / 3.1, torch.full((4,), 2**32 - 1)).tolist() == [2] * 4


# -- tasks ------------------------------------------------------------------------------------------------------------


def test_bijections_and_keys_are_uniform():
    for distinct in (True, False):
        task = BijectionElimination(4, 3, distinct)
        keys, images = task.draw(words(task.words))
        for row in (*keys, *images):
            assert_uniform(row, 4)
        pairs = keys[0] * 4 + keys[1]
        if distinct:
            kept = [4 * a + b for a in range(4) for b in range(4) if a != b]
            assert_uniform(torch.tensor([{k: i for i, k in enumerate(kept)}[v] for v in pairs.tolist()]), 12)
        else:
            assert_uniform(pairs, 16)


@pytest.mark.parametrize("leaving", ["code", "nearer", "farther", "modulo"])
def test_a_chain_owns_exactly_its_probabilities(leaving):
    """Bounds against exact fractions, to half a word; the first symbol's are those that the transitions keep."""
    chain = StickyChain(leaving, n=5, T=3)
    exact = chain._chances()
    assert all(sum(row) == 1 for row in exact)
    start = exact[-1]
    assert [sum(start[i] * exact[i][j] for i in range(5)) for j in range(5)] == start
    for row, bounds in zip(exact, chain.edges.tolist(), strict=True):
        for k, bound in enumerate(bounds):
            assert abs(bound - 2**32 * sum(row[: k + 1])) <= Fraction(1, 2)


def test_chains_follow_their_transitions():
    chain = StickyChain("nearer", T=N, d=1, n=4)
    y = chain.sequence(torch.zeros(chain.normals), words(1)[0]).y
    counts = torch.zeros(4, 4).index_put((y[:-1], y[1:]), torch.ones(()), accumulate=True).numpy()
    for row, p in zip(counts, chain.transition, strict=True):
        assert stats.chisquare(row, row.sum() * p).pvalue > RARE


# -- streams ----------------------------------------------------------------------------------------------------------


class Both:
    """What a task says of the numbers that it needs."""

    normals, words = 3, 4


def test_words_and_normals_of_a_prompt_share_nothing():
    """No word of the choices is a word behind the normals, or behind the choice of a stored prompt, at any of these steps and seeds."""
    keys, steps = random.keys(range(4)), torch.arange(1, 9)
    normals, found = Stream(Both()).draw(keys, steps, 250, torch.float64)
    assert normals.shape == (4, 8, 3, 250)
    assert found.shape == (4, 8, 4, 250)
    behind = [random.words(keys, steps, purpose, (4, 250)) for purpose in (random.DATA, random.CHOICE)]
    every = torch.stack([found, *behind]).flatten().reshape(-1, 2)
    assert len(torch.unique(every, dim=0)) == len(every)
    flat = torch.cat([found.reshape(32, -1)[:, :750].double(), normals.reshape(32, -1)])
    apart = np.corrcoef(flat)[np.triu_indices(64, 1)]
    assert np.abs(apart).max() * 750**0.5 < 5.5


def test_observations_of_a_hidden_chain_follow_its_matrices():
    """Chi-square of two neighbouring observations against the product of the (fixed) matrices."""
    task = HmmFiltering(2, 3, 2)
    normals, chosen = random.drawn(task, 1, 5, (N,), dtype=torch.float64)
    transition, emission, seen = task.draw(normals[:, :1].expand_as(normals), chosen)
    t, e = transition[..., 0].numpy(), emission[..., 0].numpy()
    joint = np.einsum("so,sr,rp->op", e / 2, t, e)
    counts = torch.einsum("ob,pb->op", seen[0], seen[1]).numpy()
    assert stats.chisquare(counts.ravel(), N * joint.ravel()).pvalue > RARE
