"""The small profile of wang2025 must not hang on rounding: its studies are in double precision, its networks keep their first weights."""

import dataclasses

import numpy as np
import torch

from iclbook.papers import wang2025
from iclbook.papers.wang2025 import figures_8_and_9

SMALL = wang2025.studies("smoke")


def _end(study: object, moved: float, steps: int = 12) -> np.ndarray:
    """Parameters of a study's first group after some steps from initial weights multiplied by ``1 + moved``."""
    trainer = study.trainer("cpu", compile=False)
    for ensemble in trainer.ensembles:
        for p in ensemble.params.values():
            p.mul_(1 + moved)
    trainer.train(progress=False, until=steps)
    return np.concatenate([p.double().numpy().ravel() for p in trainer.ensembles[0].params.values()])


def test_double_precision_keeps_a_trained_tf_from_its_rounding():
    study = SMALL["square_softmax"]
    study = dataclasses.replace(study, groups=study.groups[:1])
    still, moved = _end(study, 0.0), _end(study, 1e-15)
    assert np.abs(moved - still).max() < 1e-6


def test_the_middle_of_the_grid_is_on_the_border_exactly():
    points = figures_8_and_9.grid()
    assert points.shape == (figures_8_and_9.GRID**2, 2)
    assert (points == 0).sum(0).tolist() == [figures_8_and_9.GRID] * 2
    assert torch.equal(points.unique(), -points.unique().flip(0))
