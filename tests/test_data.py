"""Kinds of data: what a run sees at a step follows from its data seed and the step alone."""

from dataclasses import dataclass

import torch

from iclbook import random
from iclbook.tasks import Batch, LinearRegression
from iclbook.training import FixedSet, FullBatch
from iclbook.training.data import Stream

KEYS = random.keys([4, 9])


@dataclass(frozen=True)
class Numbered:
    """Prompt i is the number i, with noise beside it."""

    normals: int = 0

    def draw(self, n: int, seed: int):
        return (torch.arange(float(n))[None],)

    def batch(self, parts, normals):
        (x,) = parts
        return Batch(x, normals, x)


@dataclass(frozen=True)
class Own:
    """A run's data are its seed."""

    def dataset(self, seed: int) -> Batch:
        return Batch(*(torch.full((1, 2), float(seed)),) * 3)


def seen(data, step: int, batch_size: int = 8) -> Batch:
    numbers = data.draw(KEYS, torch.tensor([step]), batch_size, torch.float64)
    fixed = tuple(part.double() for part in data.fixed([4, 9]))
    return data.batch(tuple(x[:, 0] for x in numbers), fixed)


def test_a_stream_draws_the_batches_of_its_task():
    task = LinearRegression(d=2, L=4)
    found = seen(Stream(task), 3)
    normals = random.normals(KEYS, torch.tensor([3]), random.DATA, (task.normals, 8), torch.float64)
    assert all(torch.equal(a, b) for a, b in zip(found, task.batch(normals[:, 0]), strict=True))


def test_a_fixed_set_is_drawn_from_with_replacement():
    data = FixedSet(Numbered(normals=2), 5)
    batches = [seen(data, step, 400) for step in (1, 2)]
    assert batches[0].context.shape == (2, 1, 400)
    assert batches[0].query.shape == (2, 2, 400)
    for part in (batches[0].context[0], batches[0].context[1], batches[1].context[0]):
        assert set(part.flatten().tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0}
    assert not torch.equal(batches[0].context, batches[1].context)
    assert not torch.equal(batches[0].context[0], batches[0].context[1]), "each data seed chooses for itself"


def test_epochs_meet_every_prompt_once_in_a_new_order_each_time():
    data = FixedSet(Numbered(), 12, epochs=True)
    walks = [torch.cat([seen(data, step, 4).context[0, 0] for step in range(first, first + 3)]) for first in (1, 4, 7)]
    assert all(sorted(walk.tolist()) == list(range(12)) for walk in walks)
    assert len({tuple(walk.tolist()) for walk in walks}) == 3
    left = FixedSet(Numbered(), 13, epochs=True)
    walk = torch.cat([seen(left, step, 4).context[0, 0] for step in (1, 2, 3)])
    assert len(set(walk.tolist())) == 12, "what does not fill a batch is left out of this walk"


def test_all_data_of_a_run_are_its_own_at_every_step():
    found = seen(FullBatch(Own()), 1)
    assert found.context.tolist() == [[[4.0, 4.0]], [[9.0, 9.0]]]
    assert torch.equal(found.context, seen(FullBatch(Own()), 2).context)
