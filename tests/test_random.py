"""Numbers by counter: published vectors, moments, independence of streams, no overlap, the same compiled and not."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from iclbook import random
from iclbook.training.ensemble import compile_method

STEP = torch.tensor([7])


def _hex(counter: list[int], key: list[int], rounds: int = 10) -> str:
    c, k = (tuple(torch.tensor(x, dtype=torch.int64) for x in part) for part in (counter, key))
    return " ".join(f"{int(word):08x}" for word in random.philox(c, k, rounds))


@pytest.mark.parametrize(
    ("counter", "key", "rounds", "known"),
    [
        ([0] * 4, [0] * 2, 10, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([2**32 - 1] * 4, [2**32 - 1] * 2, 10, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            10,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
        ([0] * 4, [0] * 2, 7, "5f6fb709 0d893f64 4f121f81 4f730a48"),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter, key, rounds, known):
    assert _hex(counter, key, rounds) == known


def _naive(counter: list[int], key: list[int]) -> list[int]:
    """The same in Python's whole numbers, which do not wrap."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b % 2**32, (a >> 32) ^ c[3] ^ k[1], a % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def test_words_are_philox_at_their_place_step_and_purpose():
    seeds, steps = [5, 2**40 + 3], torch.tensor([0, 9, 2**33])
    found = random.words(random.keys(seeds), steps, 3, (2, 5))  # 10 places: three blocks
    assert found.shape == (2, 3, 2, 5)
    for (s, seed), (k, step) in itertools.product(enumerate(seeds), enumerate(steps.tolist())):
        blocks = [_naive([i, 3, step % 2**32, step >> 32], [seed % 2**32, seed >> 32]) for i in range(3)]
        lanes = [blocks[i][lane] for lane in range(4) for i in range(3)]
        assert found[s, k].flatten().tolist() == lanes[:10]


def test_normals_are_normal_and_streams_do_not_know_each_other():
    drawn = random.normals(random.keys(range(4)), torch.tensor([1, 2]), random.DATA, (50_000,), torch.float64)
    x = torch.cat([drawn, random.normals(random.keys(range(4)), torch.tensor([1, 2]), 9, (50_000,), torch.float64)])
    x = x.reshape(16, -1).numpy()
    n = x.shape[1]
    for row in x:  # 16 rows: each test at 1e-4, so that a right generator fails once in 150
        assert stats.kstest(row, "norm").pvalue > 1e-4
    z = np.sqrt(n) * np.array([x.mean(1), (x**2 - 1).mean(1) / np.sqrt(2), ((x**4) - 3).mean(1) / np.sqrt(96)])
    assert np.abs(z).max() < 4.5
    cross = np.corrcoef(x)[np.triu_indices(16, 1)] * np.sqrt(n)
    assert np.abs(cross).max() < 4.5
    squares = np.corrcoef(x**2)[np.triu_indices(16, 1)] * np.sqrt(n)
    assert np.abs(squares).max() < 4.5
    lagged = [np.corrcoef(row[:-1], row[1:])[0, 1] * np.sqrt(n) for row in x]
    assert np.abs(lagged).max() < 4.5


def test_a_step_is_drawn_by_itself_and_a_seed_alone():
    keys = random.keys([3, 8])
    many = random.normals(keys, torch.arange(5), random.DATA, (7, 3))
    assert torch.equal(random.normals(keys[1:], torch.tensor([4]), random.DATA, (7, 3))[0, 0], many[1, 4])


def test_uniform_numbers_stay_inside_the_open_interval():
    u = random.uniform(torch.tensor([0, 2**32 - 1]), torch.float64)
    assert 0 < u[0] < u[1] < 1


@pytest.mark.slow
def test_compiled_numbers_differ_by_rounding_only():
    class Draws:
        def normals(self, step):
            return random.normals(random.keys([0, 5]), step, random.DATA, (251, 64))

        def words(self, step):
            return random.words(random.keys([0, 5]), step, random.DATA, (1001,))

    draws = Draws()
    apart = draws.normals(STEP) - compile_method(draws.normals)(STEP)
    assert apart.abs().max() < 16 * 2**-23  # a few units of the largest, about 5
    assert torch.equal(compile_method(draws.words)(STEP), draws.words(STEP))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: the CUDA path is not exercised")
def test_a_gpu_draws_the_same_numbers():
    shape, there = (251, 64), STEP.cuda()
    words = random.words(random.keys([1, 2], "cuda"), there, random.DATA, shape).cpu()
    assert torch.equal(words, random.words(random.keys([1, 2]), STEP, random.DATA, shape))
    normals = random.normals(random.keys([1, 2], "cuda"), there, random.DATA, shape).cpu()
    assert (normals - random.normals(random.keys([1, 2]), STEP, random.DATA, shape)).abs().max() < 16 * 2**-23
