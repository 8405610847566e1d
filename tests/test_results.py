"""The committed results of every paper that trains at length: made by today's code, and their first steps replay.

Papers are found by their catalogues of studies, so a new one needs no line here. A study without results fails: the book shows the paper profile.
"""

import dataclasses
import importlib
import os
import pkgutil
import re
import subprocess
import sys

import pytest
import torch

from iclbook import papers, store
from iclbook.machines import environment
from iclbook.papers.crossing import waits as crossing_waits
from iclbook.training import Adam, Catalogue, Computation, Study, squared_error
from iclbook.training.catalogue import threads_of
from iclbook.training.computation import deviation
from iclbook.training.replay import replay, thinned

DOCUMENTS = {
    name: document
    for _, name, is_package in pkgutil.iter_modules(papers.__path__)
    if is_package
    and isinstance(
        getattr(document := importlib.import_module(f"iclbook.papers.{name}"), "_catalogue", None), Catalogue
    )
}
EVERY = [
    (paper, name, study) for paper, document in DOCUMENTS.items() for name, study in document.studies("paper").items()
]
STUDIES = [(paper, name) for paper, name, study in EVERY if not isinstance(study, Computation)]
COMPUTED = [(paper, name) for paper, name, study in EVERY if isinstance(study, Computation)]


#: What takes five seconds of a core and more to make or train again: `make test-full` does, and chapters train the same in a small size.
LONG = {
    "waits",
    "sgd_waits",
    "noisy_waits",
    "residual_waits",
    "standard_starts",
    "adam_waits",
    "ladder_large",
    "ladder_small",
    "masks",
    "language_gd",
    "language_gd_ff",
    "glyph_networks_unseen",
    "images_unseen1",
    "images_linear_unseen1",
    "images_short0",
    "images_short1",
    "images_seen0",
    "images_seen1",
    "images_last",
    "images_unseen0",
    "glyph_networks_seen",
    "language_gd_no_p",
    "language_tf",
    "language_tf_no_ff",
    "images_linear_unseen0",
    "masks_more",
    "ladder_twin",
}


#: What begins with a search that other kernels end elsewhere: made again by those that trainings are pinned to.
SEARCHED = {"residual_waits", "adam_waits"}


def test_every_long_study_exists():
    assert {name for _, name, _ in EVERY} >= LONG


@pytest.mark.parametrize(("paper", "name"), STUDIES)
def test_committed_results_carry_todays_source_and_configuration(paper, name):
    results, study = DOCUMENTS[paper].results(name, "paper"), DOCUMENTS[paper].studies("paper")[name]
    for group in study.groups:
        assert results[f"{group.name}/steps"][-1] == study.steps
        assert results[f"{group.name}/loss"].shape[1] == len(group.runs)


@pytest.mark.parametrize(
    ("paper", "name"), [pytest.param(*one, marks=pytest.mark.full if one[1] in LONG else ()) for one in COMPUTED]
)
def test_committed_computations_carry_todays_source_and_come_out_again(paper, name):
    """One member of every group, made again by today's code."""
    results, made = DOCUMENTS[paper].results(name, "paper"), DOCUMENTS[paper].studies("paper")[name]
    assert {len(array) for array in results.arrays.values()} == {made.count}
    if name in SEARCHED:
        ask = f"from {__name__} import *; print(deviation(DOCUMENTS[{paper!r}].studies('paper')[{name!r}], DOCUMENTS[{paper!r}].results({name!r}, 'paper')))"
        around = environment("training") | {"PYTHONPATH": os.pathsep.join(sys.path)}
        said = subprocess.run([sys.executable, "-c", ask], env=around, capture_output=True, text=True, check=True)
        assert float(said.stdout) <= 1
    else:
        assert deviation(made, results) <= 1


def test_a_computation_made_again_sees_a_change(monkeypatch):
    made = DOCUMENTS["crossing"].studies("paper")["leads"]
    monkeypatch.setattr(crossing_waits, "EXCHANGED", 1.001 * crossing_waits.EXCHANGED)
    assert deviation(made, store.load("crossing", "paper", "leads", made.describe())) > 1


def replayed() -> list:
    """Every study; `make test` replays the first of those that differ in a number of their name (a draw, a size), `make test-full` all."""
    kinds, params = set(), []
    for paper, name in STUDIES:
        kind = paper, re.sub(r"\d+", "", name)
        if name in LONG or kind in kinds:
            params.append(pytest.param(paper, name, marks=pytest.mark.full))
        else:
            params.append(pytest.param(paper, name))
            kinds.add(kind)
    return params


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "name"), replayed())
def test_a_run_of_every_group_replays(paper, name):
    """The first steps of a committed run of each group, trained again by today's code."""
    study = DOCUMENTS[paper].studies("paper")[name]
    results = store.load(paper, "paper", name, study.describe())
    with threads_of(results.provenance):
        assert replay(*thinned(study, results)) <= 1


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(("paper", "name"), STUDIES)
def test_every_run_replays(paper, name):
    """The first steps of every committed run."""
    study = DOCUMENTS[paper].studies("paper")[name]
    results = store.load(paper, "paper", name, study.describe())
    with threads_of(results.provenance):
        assert replay(study, results) <= 1


def _cheap() -> tuple[Study, store.Results]:
    study = DOCUMENTS["he2025"].studies("paper")["noise_b64"]
    return thinned(study, store.load("he2025", "paper", "noise_b64", study.describe()))


def _squared_twice(model, batch):
    return squared_error(model, batch) + 1e-3 * squared_error(model, batch) ** 2


MUTATIONS = {
    "rate": lambda g: {"runs": tuple(dataclasses.replace(r, rate=1.01 * r.rate) for r in g.runs)},
    "seed": lambda g: {"runs": tuple(dataclasses.replace(r, seed=r.seed + 1) for r in g.runs)},
    "stream": lambda g: {"runs": tuple(dataclasses.replace(r, stream=r.data_seed + 1) for r in g.runs)},
    "initial scale": lambda g: {"runs": tuple(dataclasses.replace(r, init_scale=1.001 * r.init_scale) for r in g.runs)},
    "loss": lambda g: {"loss": _squared_twice},
    "optimiser": lambda g: {"optimiser": Adam(beta2=0.998)},
}


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_replay_sees_a_change(mutation):
    study, results = _cheap()
    groups = tuple(dataclasses.replace(g, **MUTATIONS[mutation](g)) for g in study.groups)
    assert replay(dataclasses.replace(study, groups=groups), results) > 1


def test_a_replay_compares_losses():
    study, results = _cheap()
    key = f"{study.groups[0].name}/loss"
    loss = results[key].copy()
    loss[1] *= 1 + 1e-4
    assert replay(study, store.Results({**results.arrays, key: loss}, results.provenance)) > 1


def test_replays_run_with_the_threads_of_the_results_and_put_them_back():
    before = torch.get_num_threads()

    def fail() -> None:
        with threads_of({"threads": before + 1}):
            assert torch.get_num_threads() == before + 1
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert torch.get_num_threads() == before
