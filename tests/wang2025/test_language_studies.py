"""The studies of the language models: equal counts, one stream, losses by kind, endings, and runs that go on where they were."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from iclbook.papers.wang2025.figures.language import NAMES
from iclbook.papers.wang2025.measures.language_models import STUDIES, Languages
from iclbook.papers.wang2025.runs import language
from iclbook.papers.wang2025.runs.language import (
    OnStories,
    beginnings,
    language_studies,
    losses,
    scored_stories,
)
from iclbook.tasks import Batch
from iclbook.tasks.stories import NOTHING
from iclbook.training.groups import Run
from iclbook.training.groups import next_token
from iclbook.training.trainer import Trainer

SMALL = language_studies("smoke")
TASK = SMALL["language_gd"].data


def short(study="language_gd", seeds=(0,), steps=6, endings=2):
    """A few steps of a study's first group, observed little."""
    group = SMALL[study].groups[0]
    runs = tuple(Run(seed, rate=0.01, stream=0) for seed in seeds)
    group = dataclasses.replace(group, runs=runs, observe=OnStories(TASK, 3, endings))
    return Trainer(TASK, [group], steps, 4, (3,), "cpu", False)


@pytest.mark.parametrize("profile", ["smoke", "paper"])
def test_every_model_that_is_measured_is_trained(profile):
    studies = language_studies(profile)
    trained = {g.name: name for name, study in studies.items() for g in study.groups}
    assert trained == STUDIES
    assert set(NAMES) == set(STUDIES)
    groups = [g for study in studies.values() for g in study.groups]
    assert {run.data_seed for g in groups for run in g.runs} == {0}, "all see the same stories"
    assert sum(g.schedule is None for g in groups) == 1


def test_models_of_equal_counts():
    count = {}
    for study in language_studies("paper").values():
        for g in study.groups:
            with torch.device("meta"):
                model = g.build()
            count[g.name] = model.count() - model.embedding_count()
    assert count["tf-split-wide"] == count["gd-ff"]
    assert count["gd-wide"] == pytest.approx(count["tf-split"], rel=0.01)


@pytest.mark.parametrize("study", ["language_gd", "language_tf"])
def test_losses_by_kind_are_parts_of_the_loss(study):
    model = SMALL[study].groups[0].build()
    model.initialise(torch.Generator().manual_seed(0), 5.0)
    tokens, _, kinds = scored_stories(TASK, 5)
    with torch.no_grad():
        each = losses(model, tokens, kinds)
        whole = next_token(model, Batch(tokens[:-1].clamp_min(0), tokens[:0], tokens[1:]))
    assert each.shape == (5, 4)
    torch.testing.assert_close(each.sum() / (tokens[1:] >= 0).sum(), whole)
    assert (each > 0).all()


def test_a_run_is_the_same_alone_and_in_company():
    both = short(seeds=(0, 1)).train(progress=False)["gd"]
    alone = short(seeds=(1,)).train(progress=False)["gd"]
    np.testing.assert_allclose(both.loss[1:, 1:], alone.loss[1:], rtol=1e-4)
    np.testing.assert_allclose(both.circuits["nll"][:, 1:], alone.circuits["nll"], rtol=1e-4)
    assert both.circuits["nll"].shape == (3, 2, 3, 4)


def test_an_interrupted_training_goes_on_to_the_same_numbers(tmp_path):
    path = tmp_path / "checkpoint.pt"
    short().train(path, progress=False, until=4)
    again, whole = short(), short().train(progress=False)["gd"]
    found = again.train(path, progress=False)["gd"]
    assert np.array_equal(found.circuits["nll"], whole.circuits["nll"])
    assert np.array_equal(found.loss[1:], whole.loss[1:])


def test_endings_are_written_once_there_is_something_to_read(monkeypatch):
    still = short().train(progress=False)["gd"].circuits["ending_beam"]
    assert (still == NOTHING).all()
    monkeypatch.setattr(language, "READABLE", 100.0)
    said = short().train(progress=False)["gd"].circuits["ending_beam"]
    start = beginnings(TASK, 2).numpy()
    assert (said[:, 0] == start)[:, start >= 0].all()
    assert (said[:, 0, start >= 0] >= 0).all()
    assert ((said[:, 0] >= 0).sum((1, 2)) > (start >= 0).sum()).all()


def test_a_model_learns():
    loss = short(steps=60).train(progress=False)["gd"].loss
    assert loss[-1, 0] < loss[1, 0] - 0.5


@pytest.mark.parametrize("profile", ["smoke", "paper"])
def test_who_counts_words_writes_no_ending(profile):
    models = Languages(None, profile)
    loss, count = models.exact()
    single = models.single_words().sum(1).mean() + loss.sum() / count.sum()
    assert loss.sum() / count.sum() < language.READABLE < single
