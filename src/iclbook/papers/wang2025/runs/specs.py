"""Groups of classifiers that score themselves on validation and test contexts while they train."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....models.watching import cross_entropy
from ....store import Results
from ....training import Group
from ....training.study import GroupSpec
from .contexts import ContextSet


@dataclass(frozen=True)
class Classifiers(GroupSpec):
    """A group whose ``circuits()`` are accuracy and NLL on held-out contexts, and the parameters named in ``report``.

    Attributes:
        contexts: the training set; its validation and test contexts are watched.
        held_out: how many of each.
        report: parameters to keep at the recorded steps (all when ``None``).
        true_embedding: hold ``W_e`` at the task's own; give ``embed`` the rate factor 0 as well.
    """

    contexts: ContextSet | None = None
    held_out: int = 2048
    report: tuple[str, ...] | None = ()
    true_embedding: bool = False

    def build(self) -> Group:
        """The group itself, its model watching."""
        group = super().build()
        group.model.watch(self.contexts.probes(self.held_out), self.report)
        if self.true_embedding:
            group.model.fixed_embedding = self.contexts.task.embedding
        return group

    def describe(self) -> tuple:
        """The group as plain values."""
        return (*super().describe(), self.contexts, self.held_out, self.report, self.true_embedding)


def classifiers(
    name, model, kwargs, runs, contexts, held_out, report=(), true_embedding=False, optimiser=None
):
    """A group of runs trained on cross-entropy."""
    factors = (("embed", 0.0),) if true_embedding else ()
    chosen = {} if optimiser is None else {"optimiser": optimiser}
    return Classifiers(
        name,
        model,
        tuple(sorted(kwargs.items())),
        tuple(runs),
        rate_factors=factors,
        loss=cross_entropy,
        contexts=contexts,
        held_out=held_out,
        report=report,
        true_embedding=true_embedding,
        **chosen,
    )


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
