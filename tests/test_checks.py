"""Mistakes in a task, a model or a study that a training would carry out without a word are one line and a hint before it starts."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from iclbook import random
from iclbook.errors import UserError
from iclbook.measuring import model_at, prompts
from iclbook.models import Model
from iclbook.store import Results
from iclbook.tasks import Batch, LinearRegression
from iclbook.training import Group, Run, Trainer, train
from iclbook.training.checks import check

RUNS = (Run(0),)


class Step(Model):
    """One gradient step from zero, of a rate that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.add("rate", 1, sd=0.1)

    def forward(self, context, query):
        scores = (context[:, :-1] * query).sum(1)  # (L, B)
        return self.rate * (scores * context[:, -1]).mean(0, keepdim=True)


class Flat(Step):
    def forward(self, context, query):
        return super().forward(context, query)[0]


class BatchFirst(Step):
    def forward(self, context, query):
        return torch.einsum("bld,bd->bl", context, query)


class Stray(Step):
    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.randn(1))


class Plain(nn.Module):
    forward = Step.forward


@dataclass(frozen=True)
class Own(LinearRegression):
    def batch(self, normals):
        return super().batch(torch.randn_like(normals))


@dataclass(frozen=True)
class Swapped(LinearRegression):
    def batch(self, normals):
        return Batch(*(part.movedim(-1, 0) for part in super().batch(normals.movedim(0, -1))))


TASK = LinearRegression(d=2, L=4)
MISTAKES = {
    "two groups of one name": (TASK, (Step, Step), "two groups are called 'Step'", "its own"),
    "parameter without a start": (TASK, (Stray,), "Stray.offset does not start", "self.add"),
    "no initial distribution": (TASK, (Plain,), "Plain has no initialise()", "iclbook.models.Model"),
    "numbers of its own": (Own(d=2, L=4), (Step,), "Own.batch draws random numbers", "normals and words"),
    "predictions without tasks": (TASK, (Flat,), "predictions (4,) where LinearRegression has targets (1, 4)", "last axis"),
    "model with the batch first": (TASK, (BatchFirst,), "BatchFirst fails on four prompts", "last axis"),
    "task with the batch first": (Swapped(d=2, L=4), (Step,), "Swapped.batch fails on four prompts", "the batch last"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_silent_mistake_is_refused(name):
    task, models, problem, hint = MISTAKES[name]
    with pytest.raises(UserError) as error:
        check(task, tuple(Group(model.__name__, model, {}, RUNS) for model in models))
    assert problem in error.value.problem
    assert hint in error.value.hint


def test_the_first_call_of_an_author_is_checked():
    assert train(Step, TASK, steps=3, batch_size=4).loss.shape[1] == 1
    with pytest.raises(UserError, match="Stray"):
        train(Stray, TASK, steps=3)
    with pytest.raises(UserError, match="Flat gives predictions"):
        Trainer(TASK, [Group("g", Flat, {}, RUNS)], 3)
    with pytest.raises(UserError, match=r"fan_in = 2 and sd = 1"):
        Step().add("other", 2, fan_in=2, sd=1)


def test_prompts_are_those_of_no_run_and_models_come_out_of_results():
    batch, again = prompts(TASK, 8), prompts(TASK, 8)
    assert batch.context.shape == (4, 3, 8)
    assert torch.equal(batch.context, again.context)
    assert not torch.equal(
        batch.context, TASK.batch(*random.drawn(TASK, 0, random.DATA, (8,), dtype=torch.float64)).context
    )
    group, rates = Group("step", Step, {}, RUNS), torch.tensor([[[0.1], [0.2]], [[0.3], [0.4]]])  # (records, runs, 1)
    model = model_at(group, Results({"step/rate": rates.numpy()}, {}), run=1)
    assert model.rate.item() == pytest.approx(0.4)
    with pytest.raises(UserError, match="stored without rate"):
        model_at(group, Results({}, {}))


def test_purposes_are_named_once():
    """A purpose of two names would give two things the same numbers."""
    taken = [random.INIT, random.DATA, random.CHOICE, *random.PURPOSES.values()]
    assert len(set(taken)) == len(taken)
