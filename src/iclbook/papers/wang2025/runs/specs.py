"""Groups of classifiers that score themselves on validation and test contexts while they train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ....store import Results
from ....tasks import Batch
from ....training import Group, Run
from ....training.groups import cross_entropy
from .contexts import Contexts

#: Held-out contexts are scored this many at a time, which bounds the memory of deep models with many keys.
CHUNK = 512
#: What Trained TF learns with one block, kept where its matrices are shown.
TF_PARAMETERS = ("W_Q", "W_K", "W_V", "P", "embed")


@dataclass(frozen=True)
class OnHeldOut:
    """Observes a classifier's NLL (nats) and accuracy on validation and test contexts.

    Attributes:
        contexts: whose probes are held out.
        n: how many of each.
    """

    contexts: Contexts
    n: int = 2048

    def held_out(self) -> dict[str, Batch]:
        """Validation and test contexts."""
        return self.contexts.probes(self.n)

    def __call__(self, model: nn.Module, held_out: dict[str, Batch]) -> dict[str, Tensor]:
        """``nll_<name>`` and ``accuracy_<name>``, each a number."""
        found = {}
        for name, batch in held_out.items():
            chunks = zip(*(part.split(CHUNK, dim=-1) for part in batch), strict=True)
            logits = torch.cat([model(context, query) for context, query, _ in chunks], dim=1)  # (C, n)
            target = batch.target[0].long()
            found[f"nll_{name}"] = torch.nn.functional.cross_entropy(logits.transpose(0, 1), target)
            found[f"accuracy_{name}"] = (logits.argmax(0) == target).to(logits.dtype).mean()
        return found


def classifiers(
    name: str,
    model: type[nn.Module],
    kwargs: Mapping[str, Any],
    runs: Sequence[Run],
    contexts: Contexts,
    held_out: int,
    keep: tuple[str, ...] = (),
) -> Group:
    """A group of runs trained on cross-entropy, scored on as many validation and test contexts as ``held_out`` says."""
    observe = OnHeldOut(contexts, held_out)
    return Group(name, model, kwargs, tuple(runs), loss=cross_entropy, observe=observe, keep=keep)


@dataclass(frozen=True)
class Scores:
    """Courses and early-stopped scores of a group's runs.

    Attributes:
        steps: ``(T,)``.
        accuracy, nll: on the test contexts, ``(T, R)``.
        best: ``(R,)`` index of the record with the lowest validation NLL.
    """

    steps: np.ndarray
    accuracy: np.ndarray
    nll: np.ndarray
    best: np.ndarray

    def stopped(self, what: str) -> np.ndarray:
        """Test ``accuracy`` or ``nll`` at the best validation record, ``(R,)``."""
        return np.take_along_axis(getattr(self, what), self.best[None], axis=0)[0].astype(float)


def scores(results: Results, group: str) -> Scores:
    """Scores of a group."""
    g = results.group(group)
    best = np.where(np.isfinite(g["nll_validation"]), g["nll_validation"], np.inf).argmin(0)
    return Scores(g["steps"], g["accuracy_test"], g["nll_test"], best)


def stopped_parameters(results: Results, group: str) -> dict[str, np.ndarray]:
    """Reported parameters of a group at each run's best validation record, ``name -> (R, ...)``."""
    g, best = results.group(group), scores(results, group).best
    names = [n for n in g if n != "steps" and n != "loss" and not n.startswith(("nll_", "accuracy_"))]
    return {n: np.stack([g[n][t, r] for r, t in enumerate(best)]).astype(float) for n in names}
