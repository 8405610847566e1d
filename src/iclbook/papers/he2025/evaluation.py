"""Errors of trained circuits on fresh prompts, kept with the runs (He et al. 2025, Figures 2.4, 2.5, 3.5 and 4.1)."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from ...models import Attention, ReducedAttention, attend
from ...random import generator
from ...training import History
from ...training.study import Study

#: Seed and purpose of evaluation prompts; purposes 0 and 1 belong to training.
EVAL_SEED, EVAL_PURPOSE = 2025, 2
#: Context lengths at which the published code evaluates.
LENGTHS = tuple(range(10, 101, 5))
EVAL_BATCH = 1024


def _predict(
    study: Study, name: str, circuits: dict[str, torch.Tensor], context: torch.Tensor, query: torch.Tensor
) -> torch.Tensor:
    """Predictions ``(N, B)`` of one run from its stored circuits."""
    spec = next(group for group in study.groups if group.name == name)
    model = spec.model(**dict(spec.kwargs))
    if isinstance(model, ReducedAttention):
        with torch.no_grad():
            model.omega.copy_(circuits["omega"])
            model.mu.copy_(circuits["mu"])
            return model(context, query)
    assert isinstance(model, Attention)
    return attend(model.scale * circuits["kq"], circuits["ov"], context, query, model.activation)


def squared_errors(
    study: Study, histories: dict[str, History], length: int, n_batches: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean squared error of every run's final circuits on fresh prompts of one length, all runs on the same prompts.

    Returns:
        ``group -> (mean (R,), standard error (R,))``; linear attention divides by the length of the context it sees.
    """
    task = dataclasses.replace(study.data, L=length)
    g = generator(EVAL_SEED, EVAL_PURPOSE)
    sums = {name: np.zeros((2, h.loss.shape[1])) for name, h in histories.items()}
    normals = torch.empty(task.normals, EVAL_BATCH)
    for _ in range(n_batches):
        batch = task.batch(normals.normal_(generator=g))
        for name, history in histories.items():
            for r in range(history.loss.shape[1]):
                circuits = {k: torch.from_numpy(v[-1, r]) for k, v in history.circuits.items()}
                yhat = _predict(study, name, circuits, batch.context, batch.query)
                error = ((yhat - batch.target) ** 2).sum(0).double()
                sums[name][:, r] += error.sum().item(), (error**2).sum().item()
    n = n_batches * EVAL_BATCH
    moments = {name: both / n for name, both in sums.items()}
    return {k: (mean, np.sqrt(np.maximum(second - mean**2, 0) / n)) for k, (mean, second) in moments.items()}


def _size(study: Study) -> tuple[int, tuple[int, ...]]:
    """Batches of prompts, and lengths: fewer for short trainings."""
    return (64, LENGTHS) if study.steps >= 100_000 else (4, (10, 40, 100))


def error_by_length(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """ICL error of the final circuits against the context length (Figures 2.4, 2.5, 4.1).

    Returns:
        ``<group>/lengths`` ``(n,)``, ``<group>/error`` and ``<group>/error_se`` ``(n, R)``.
    """
    n_batches, lengths = _size(study)
    per_length = [squared_errors(study, histories, length, n_batches) for length in lengths]
    arrays: dict[str, np.ndarray] = {}
    for name in histories:
        arrays[f"{name}/lengths"] = np.array(lengths)
        arrays[f"{name}/error"] = np.stack([e[name][0] for e in per_length])
        arrays[f"{name}/error_se"] = np.stack([e[name][1] for e in per_length])
    return arrays


def final_multitask_error(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """Error of the final circuits at the training length, summed over tasks: ``<group>/error`` and ``error_se`` ``(R,)``."""
    errors = squared_errors(study, histories, study.data.L, _size(study)[0])
    means = {f"{name}/error": mean for name, (mean, _) in errors.items()}
    return means | {f"{name}/error_se": se for name, (_, se) in errors.items()}
