"""A captured step copies nothing between host and GPU and reads nothing back: tested without a GPU, on torch's device ``meta``, which has shapes and no numbers."""

from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from iclbook import random
from iclbook.claims import all_ledgers
from iclbook.papers.agarwal2025.chain_runs import FreshSequences
from iclbook.tasks import AssociativeRecall, LinearRegression
from iclbook.tasks.mixed_corpus import MixedCorpus
from iclbook.tasks.sticky_chain import StickyChain
from iclbook.training import Computation
from iclbook.training.data import Stream
from iclbook.training.ensemble import placed

META = torch.device("meta")
PAPERS = [ledger.paper for ledger in all_ledgers()]


class OneDevice(TorchDispatchMode):
    """Fails at an operation that copies between devices; an operation may read a single number from the host."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        copies = func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        tensors = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
        assert len({x.device for x in tensors if copies or x.dim()}) < 2, f"{func} copies"
        return result


class NoLists(TorchFunctionMode):
    """Fails at a tensor made on the device from numbers of the host."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        assert func not in (torch.tensor, torch.as_tensor) or result.device != META, "a list is copied"
        return result


@contextmanager
def nothing_copied():
    with torch.no_grad(), OneDevice(), NoLists():
        yield


def there(tree, dtype=torch.float32):
    return placed(tree, META, dtype)


def batch(data, fixed=()):
    """A batch of three streams from numbers on the device, after a first one that may keep what stays there."""
    drawn = data.draw(random.keys([0, 1, 2]), torch.tensor([1]), 4, torch.float32)
    numbers, fixed = there(tuple(x[:, 0] for x in drawn)), there(fixed)
    data.batch(numbers, fixed)
    with nothing_copied():
        return data.batch(numbers, fixed)


COVARIANCE = tuple(map(tuple, (np.eye(3) + 0.1).tolist()))


@pytest.mark.parametrize(
    "task", [LinearRegression(d=3, L=8, covariance=COVARIANCE), AssociativeRecall(2, 3), MixedCorpus()]
)
def test_a_batch_is_made_where_its_numbers_are(task):
    assert batch(Stream(task)).context.device == META


def test_a_chain_is_walked_where_its_numbers_are():
    data = FreshSequences(StickyChain())
    assert batch(data, data.fixed([0, 1, 2])).context.device == META


@pytest.mark.parametrize("leaving", ["code", "modulo"])
def test_a_chain_walks_alike_on_a_gpu(leaving):
    chain = StickyChain(leaving=leaving)
    _, words = random.drawn(chain, 3, random.DATA, ())
    assert torch.equal(chain._walk(words), chain._symbols(words))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_every_study_can_be_captured(paper):
    for study in import_module(f"iclbook.papers.{paper}").studies("smoke").values():
        if isinstance(study, Computation):
            continue
        trainer = study.trainer("cpu", compile=False)
        numbers = there(trainer._draw(trainer._keys, trainer._ahead), trainer.dtype)
        for place in (trainer, *trainer.ensembles):
            names = ("_fixed", "_t") if place is trainer else ("params", "state", "rates", "loss_sum", "streams_read")
            for name in names:
                setattr(place, name, there(getattr(place, name), trainer.dtype))
        trainer._advance(numbers, 0)
        with nothing_copied():
            trainer._advance(numbers, 0)
