"""he2025: what is trained at smoke is decided by its sizes, not by rounding; sums over runs are those of each run alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from iclbook.papers.he2025 import studies, theory

SETTING = {"d": 5, "L": 40, "noise_var": 0.1}


def test_affine_activation_at_smoke_stays_clear_of_its_pole():
    """A run whose start moves by one rounding unit ends where it ended: near the pole it would not (0.65 of the value itself at rate 5e-3)."""
    study = studies("smoke")["isotropic"]
    alone = dataclasses.replace(study, groups=tuple(g for g in study.groups if g.name == "affine"))
    ends = []
    for unit in (0.0, 2.0**-23):
        trainer = alone.trainer("cpu")
        with torch.no_grad():
            for parameter in trainer.ensembles[0].params.values():
                parameter.mul_(1 + unit)
        ends.append(trainer.train(progress=False)["affine"])
    np.testing.assert_allclose(ends[1].loss[1:], ends[0].loss[1:], rtol=1e-3)
    for name in ("kq", "ov"):
        there, moved = (end.circuits[name][-1] for end in ends)
        np.testing.assert_allclose(moved, there, rtol=1e-3, atol=1e-4)


def test_one_run_of_a_simulation_is_the_run_alone():
    omega, mu = theory.draw_initial(5, 3, 0.1, seed=4)
    together = theory.simulate(omega, mu, 0.05, 400, [0, 100, 400], **SETTING).run(3)
    alone = theory.simulate(omega[3:4], mu[3:4], 0.05, 400, [0, 100, 400], **SETTING)
    assert together.omega.shape == alone.omega.shape == (3, 1, 3)
    for name in ("omega", "mu", "loss"):
        np.testing.assert_allclose(getattr(together, name), getattr(alone, name), rtol=1e-12)
