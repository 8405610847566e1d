"""The corpus of the small language models: every kind of row as it is said to be, and no probe among the documents."""

import numpy as np
import pytest
import torch
from scipy import stats

from iclbook import random
from iclbook.tasks import mixed_corpus as corpus
from iclbook.tasks.mixed_corpus import ARROW, LINE, MixedCorpus

LAWS = [(a, b) for a in (-1, 0, 1, 2) for b in range(-12, 20)]


def drawn(n: int, step: int = 0, **kwargs) -> torch.Tensor:
    task = MixedCorpus(**kwargs)
    words = random.words(random.keys([7]), torch.tensor([step]), 99, (task.words, n))[0, 0]
    return task.rows(words)


def parts(n: int) -> list[torch.Tensor]:
    task = MixedCorpus()
    return list(random.words(random.keys([3]), torch.tensor([1]), 99, (task.words, n))[0, 0].split(task.sizes))


def documents(rows: torch.Tensor) -> np.ndarray:
    """Whole documents ``(n, 5, 4)`` of rows of lines ``(length, n)``."""
    whole = 20 * (len(rows) // 20)
    return rows[:whole].T.reshape(-1, 5, 4).numpy()


@pytest.mark.parametrize("regression", [True, False])
def test_lines_have_a_law_or_none(regression):
    found = documents(MixedCorpus(regression=regression).lines(parts(300)[4]))
    assert (found[:, :, 1] == ARROW).all()
    assert (found[:, :, 3] == LINE).all()
    x, y = found[:, :, 0], found[:, :, 2]
    assert ((y >= 0) & (y < 10)).all()
    assert all(len(set(row)) == 5 for row in x)
    lawful = [any((b + a * xs == ys).all() for a, b in LAWS) for xs, ys in zip(x, y, strict=True)]
    assert np.mean(lawful) == 1 if regression else np.mean(lawful) < 0.05


def test_the_twins_digits_are_as_frequent():
    """Chi-square of two samples of y, one line of every document, at p = 1e-6; what the context tells is gone."""
    true, control = (documents(MixedCorpus(regression=r).lines(parts(2000)[4])) for r in (True, False))
    n = len(true)
    counts = [np.bincount(d[np.arange(n), np.arange(n) % 5, 2], minlength=10) for d in (true, control)]
    assert stats.chi2_contingency(counts).pvalue > 1e-6
    assert np.array_equal(true[:, :, 0], control[:, :, 0])
    chance = 5 / np.sqrt(n)
    assert abs(np.corrcoef(control[:, 0, 2], control[:, 1, 2])[0, 1]) < chance
    assert np.corrcoef(true[:, 0, 2], true[:, 1, 2])[0, 1] > chance


def test_no_document_begins_as_a_probe_does():
    words = parts(4000)[4][:11]
    seen, _ = corpus.regression_lines(words, reserved=False)
    probe, y = corpus.regression_lines(words, reserved=True)

    def reserved(x: torch.Tensor) -> torch.Tensor:
        return ((x[0] + x[1]) % 5 == 0) & (x[0] > x[1])

    assert reserved(probe).all()
    assert not reserved(seen).any()
    assert all(len(set(column)) == 5 for column in probe.T.tolist())
    assert ((y >= 0) & (y < 10)).all()


def test_laws_are_all_laws_with_five_digits():
    assert len(corpus.laws()) == len(set(corpus.laws()))
    want = {(a, b) for a, b in LAWS if sum(0 <= a * x + b <= 9 for x in range(10)) >= 5}
    assert set(corpus.laws()) == want


def test_blocks_repeat_and_have_different_symbols():
    kind, _, block, _, _ = parts(400)
    rows = MixedCorpus().repeated(block, kind[1]).T.numpy()
    lengths = (4 + ((kind[1] * 21) >> 32)).tolist()
    for row, m in zip(rows, lengths, strict=True):
        assert np.array_equal(row[:-m], row[m:])
        assert len(set(row.tolist())) == m
    assert set(lengths) == set(range(4, 25))


def test_lists_answer_what_they_ask():
    rows = MixedCorpus().lists(parts(100)[3]).T.numpy()
    for row in rows:
        pairs = dict(zip(row[:16:2], row[1:16:2], strict=True))
        assert len(pairs) == 8
        assert row[16] == row[25] == LINE
        assert all(pairs[row[i]] == row[i + 1] for i in range(17, 25, 2))
        assert len({row[i] for i in range(17, 25, 2)}) == 4


def test_rows_depend_on_their_own_words_only():
    whole = drawn(6)
    task = MixedCorpus()
    words = random.words(random.keys([7]), torch.tensor([0]), 99, (task.words, 6))[0, 0]
    assert torch.equal(task.rows(words[:, 2:3]), whole[:, 2:3])
    batch = task.batch(torch.empty(0, 6), words.expand(3, -1, -1))
    assert batch.context.shape == (3, task.length - 1, 6)
    assert torch.equal(batch.context[1, 1:], batch.target[1, :-1])
    assert torch.equal(batch.context[2], whole[:-1])
