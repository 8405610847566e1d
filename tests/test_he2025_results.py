"""The committed results of he2025: made by today's code, and their first steps replay."""

from __future__ import annotations

import os

import numpy as np
import pytest

from iclbook import store
from iclbook.experiments import he2025
from iclbook.experiments.study import replay

NAMES = list(he2025.studies("paper"))


def committed(name: str) -> None:
    """Skip while a study is not committed; in CI its absence is an error, which loading then reports."""
    path = store.folder("he2025", "paper") / f"{name}.json"
    if not path.exists() and not os.environ.get("CI"):
        pytest.skip(f"results/he2025/paper/{name}.json is not committed yet")


@pytest.mark.parametrize("name", NAMES)
def test_committed_results_carry_todays_source_and_configuration(name):
    committed(name)
    results = he2025.results(name, "paper")
    study = he2025.studies("paper")[name]
    for group in study.groups:
        assert results[f"{group.name}/steps"][-1] == study.steps
        assert results[f"{group.name}/loss"].shape[1] == len(group.runs)
    for key, array in results.arrays.items():
        if not key.endswith("/loss"):
            assert np.isfinite(array).all(), key


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n == "seeds" else ()) for n in NAMES]
)
def test_committed_results_replay(name):
    """The first steps of every committed run, trained again by today's code."""
    committed(name)
    study = he2025.studies("paper")[name]
    results = store.load("he2025", "paper", name, study.describe())
    assert replay(study, results) <= 1
