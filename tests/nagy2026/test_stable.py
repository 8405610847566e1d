"""nagy2026: runs at smoke are decided by their sizes, not by rounding; data sets followed together are those followed alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from iclbook.errors import UserError
from iclbook.papers.nagy2026.measures import dynamics
from iclbook.papers.nagy2026.runs.studies import studies
from iclbook.papers.nagy2026.theory import probe, reweighting


@pytest.mark.parametrize("name", ["diversity_wide"])
def test_runs_at_smoke_end_where_they_ended_if_the_start_moves_by_one_rounding_unit(name):
    """With a spectrum from 100 to 0.0001 a rate of 0.003 is unstable: a rounding unit in the start then moved the errors by a tenth."""
    study, ends = studies("smoke")[name], []
    for unit in (0.0, 2.0**-23):
        trainer = study.trainer("cpu")
        with torch.no_grad():
            for ensemble in trainer.ensembles:
                for parameter in ensemble.params.values():
                    parameter.mul_(1 + unit)
        ends.append(trainer.train(progress=False))
    for group in ends[0]:
        there, moved = (end[group].circuits["curve_n16"][-1, :, -1] for end in ends)
        np.testing.assert_allclose(moved, there, rtol=1e-4)


def test_data_sets_followed_together_end_where_each_ends_alone():
    sets = [reweighting.examples(20, 0.5, seed, 0.7) for seed in range(3)]
    etas, betas = np.array([1 / (s.x**2).max() for s in sets]), np.array([0.5, 1.0, 2.0])
    together = reweighting.Examples(np.stack([s.x for s in sets]), np.stack([s.y for s in sets]))
    paths = reweighting.descend(together, etas, betas, 30)
    for i, data in enumerate(sets):
        w = [0.0]
        for _ in range(30):  # the step written out
            p = reweighting.weights(data, betas[i])
            w.append(w[-1] + etas[i] * (p @ (data.x * data.y) - p @ data.x**2 * w[-1]))
        np.testing.assert_allclose(paths[:, i], w, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(
            reweighting.descend(data, etas[i], betas[i], 30), w, rtol=1e-12, atol=1e-15
        )


def test_spectra_are_those_of_the_designs_themselves():
    every, eigenvalues = probe.spectra(7)
    for i in (0, 400, 900, len(every) - 1):
        recipe = every[i]
        drawn = probe.GENERATORS[recipe.generator](7)(105)
        design = (drawn[:100] if recipe.first == "X" else drawn[5:]).reshape(20, 5)
        design = design * probe.SCALINGS[recipe.scaling](recipe.low, recipe.high)
        np.testing.assert_allclose(eigenvalues[i], np.linalg.svd(design)[1][::-1] ** 2, rtol=1e-10)


def test_an_alignment_that_is_not_finite_is_an_error_and_no_answer():
    steps = np.array([0, 1, 2, 3, 4])
    course = dynamics.Dynamics(steps, {}, {}, {}, {}, {}, (0.0, 0.0))
    rising = np.linspace(0, 1, 5)[:, None].repeat(2, 1)
    assert dynamics.gradual(course, rising)
    rising[2, 1] = np.nan
    with pytest.raises(UserError, match="not finite at step 2"):
        dynamics.gradual(course, rising)
