"""What the trained language models are worth: loss above the exact one by kind of token, and the judge's grades (wang2025, tables 1 to 3, figure 14)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ....statistics import ratio_error, standard_error
from ....tasks.stories import Kind, Stories
from ..runs.language import SIZES, TASKS, beginnings, scored_stories
from . import language_exam as exam
from .learned import Get

Array = np.ndarray
#: Model -> its study. The first eight are the rows of figure 14 (with two widths of heads), in the order of its table.
STUDIES = {
    "linear": "language_kernels",
    "rbf": "language_kernels",
    "gd": "language_gd",
    "linear-ff": "language_kernels",
    "rbf-ff": "language_kernels",
    "gd-ff": "language_gd_ff",
    "tf": "language_tf",
    "tf-split": "language_tf_split",
    "gd-no-mixing": "language_ablations",
    "gd-ff-sum": "language_ablations",
    "tf-split-no-ff": "language_ablations",
    "tf-split-coded": "language_ablations",
    "tf-split-wide": "language_counts",
    "gd-wide": "language_counts",
    "gd-ff-2": "language_depth",
    "tf-split-2": "language_depth",
    "gd-ff-flat": "language_flat_rate",
}
ROWS = tuple(STUDIES)[:8]
HEADLINE = ("gd", "gd-ff", "tf", "tf-split")


@dataclass
class Languages:
    """The trained models at a profile.

    Args:
        get: results of a study by name.
        profile: whose sizes are taken.
    """

    get: Get
    profile: str
    _kept: dict = field(default_factory=dict, repr=False)

    @property
    def task(self) -> Stories:
        """The stories."""
        return TASKS[self.profile]

    @property
    def n_endings(self) -> int:
        """Beginnings that every model continues."""
        return SIZES[self.profile].endings

    def exact(self) -> tuple[Array, Array]:
        """Exact loss and number of the scored stories' tokens by kind, each ``(n, 4)``, the first token left out."""
        return _exact(self.task, SIZES[self.profile].scored)

    def above(self, nll: Array) -> Array:
        """Losses of stories ``(..., n, 4)`` less the exact ones, in nats a token: the mean over stories is that of all tokens."""
        loss, count = self.exact()
        return (nll - loss) / count.sum(1).mean()

    def excess(self, name: str, record: int = -1) -> Array:
        """Excess loss of a model's runs ``(R, n, 4)`` by kind of token, in nats a token."""
        return self.above(self.get(STUDIES[name])[f"{name}/nll"][record].astype(float))

    def single_words(self) -> Array:
        """The same of single-word frequencies, counted in 400 other stories ``(n, 4)``."""
        tokens, _, kinds = scored_stories(self.task, SIZES[self.profile].scored)
        others = exam.others(self.task)
        count = 1.0 + torch.bincount(others[others >= 0], minlength=self.task.vocabulary)
        nll = -(count / count.sum()).log()[tokens[1:].clamp_min(0)]
        return self.above(np.stack([(nll * (kinds[1:] == kind)).sum(0).numpy() for kind in Kind], 1))

    def stories(self, name: str, run: int = 0, way: str = "beam", record: int = -1) -> list[list[str]]:
        """Stories as a run continues them; where it wrote nothing yet, the beginnings."""
        said = self.get(STUDIES[name])[f"{name}/ending_{way}"][record, run].astype(int)
        starts = beginnings(self.task, self.n_endings).numpy()
        return [
            self.task.text(own if own[0] >= 0 else start) for own, start in zip(said.T, starts.T, strict=True)
        ]

    def ways(self, name: str) -> list[str]:
        """The ways in which a model's endings were written."""
        stored = self.get(STUDIES[name]).arrays
        return [key.partition("/ending_")[2] for key in stored if key.startswith(f"{name}/ending_")]

    def marks(self, name: str, way: str = "beam") -> dict[str, Array]:
        """The judge's grades of a model's endings, grade -> ``(R, n)``."""
        key = (name, way)
        if key not in self._kept:
            runs = self.get(STUDIES[name])[f"{name}/ending_{way}"].shape[1]
            each = [exam.marks(self.task, self.stories(name, r, way), self.n_endings) for r in range(runs)]
            self._kept[key] = {grade: np.stack([e[grade] for e in each]) for grade in each[0]}
        return self._kept[key]

    def overall(self, name: str, way: str = "beam") -> Array:
        """Overall grades ``(R, n)``."""
        return self.marks(name, way)["overall"]

    def spread(self, name: str, of: Callable[[str], Array]) -> float:
        """Standard deviation over seeds of the mean of a model's values ``of(name) (R, n)``; of a model with one seed, that of its kin
        (:func:`kin`). 0 at a profile with one seed of each."""
        values = of(name) if len(of(name)) > 1 else of(kin(name))
        return float(values.mean(1).std(ddof=1)) if len(values) > 1 else 0.0

    def compared(self, of: Callable[[str], Array], *terms: tuple[float, str]) -> tuple[float, float]:
        """Weighted sum of means of models' values ``of(name) (R, n)`` on the same n items, and its standard error: over items and over seeds. Models
        with fewer seeds limit all to the seeds in common; where that is one, each model's part is its :meth:`spread`."""
        mean, error = paired(*((weight, of(name)) for weight, name in terms))
        if min(len(of(name)) for _, name in terms) == 1:
            error = float(
                np.hypot.reduce([error, *(weight * self.spread(name, of) for weight, name in terms)])
            )
        return mean, error

    def bind_over_half(self, name: str) -> Array:
        """Excess loss on bindings less half of that on all tokens ``(R, n)``: of a gap between two models above 0 where it is a gap and mostly theirs."""
        return self.excess(name)[..., Kind.BIND] - self.total(name) / 2

    def total(self, name: str) -> Array:
        """Excess loss of a model's runs over all tokens ``(R, n)``."""
        return self.excess(name).sum(-1)


@functools.lru_cache(maxsize=4)
def _exact(task: Stories, n: int) -> tuple[Array, Array]:
    """Of ``n`` scored stories, as :meth:`Languages.exact` says."""
    _, logs, kinds = (np.asarray(x) for x in scored_stories(task, n))
    each = [kinds[1:] == kind for kind in Kind]
    return np.stack([-(logs[1:] * own).sum(0) for own in each], 1), np.stack([own.sum(0) for own in each], 1)


def kin(name: str) -> str:
    """The model with several seeds that is most like a model: runs of the two are taken to vary alike over seeds."""
    return "tf-split" if name.startswith("tf") else "gd-ff" if "-ff" in name else "gd"


def paired(*terms: tuple[float, Array]) -> tuple[float, float]:
    """Weighted sum of means of values ``(R, n)`` on the same n items, and its standard error: over items and, where there are several, over seeds."""
    runs = min(len(values) for _, values in terms)
    each = sum(weight * values[:runs] for weight, values in terms)  # (R, n)
    error = float(standard_error(each.mean(0))) ** 2
    if runs > 1:
        error += float(standard_error(each.mean(1))) ** 2
    return float(each.mean()), error**0.5


def _put(mean: str, se: str, *found: tuple[float, float]) -> dict[str, Any]:
    """A value and its standard error under these keys; lists where there are several."""
    values, errors = zip(*found, strict=True)
    return {mean: values[0], se: errors[0]} if len(found) == 1 else {mean: list(values), se: list(errors)}


def tables(models: Languages) -> dict[str, Any]:
    """Tables 1 to 3: (a) true endings above the best model, (b) GD behind the Transformer, (c) what feed-forward leaves, (g) repetition."""
    best = max(ROWS, key=lambda name: models.overall(name).mean())
    mean, error = models.compared(models.overall, (1, best))
    loss = functools.partial(models.compared, models.total)
    grade = functools.partial(models.compared, models.overall)
    return (
        _put("language/true_gap", "language/true_gap_se", (10 - mean, error))
        | _put("language/tf_gap", "language/tf_gap_se", grade((1, "tf"), (-1, "gd")))
        | _put("language/tf_gap_nll", "language/tf_gap_nll_se", loss((1, "gd"), (-1, "tf")))
        | _put("language/ff_left", "language/ff_left_se", grade((0.75, "tf"), (-1, "gd-ff"), (0.25, "gd")))
        | _put(
            "language/ff_left_nll",
            "language/ff_left_nll_se",
            loss((1, "gd-ff"), (-0.75, "tf"), (-0.25, "gd")),
        )
        | _put("language/repeated_gd", "language/repeated_gd_se", repetition(models.marks("gd")))
        | _put("language/repeated_tf", "language/repeated_tf_se", repetition(models.marks("tf")))
    )


def repetition(marks: dict[str, Array]) -> tuple[float, float]:
    """Share of repeated 4-grams in the worse half of all endings less that in the better half, and its standard error. Halves are by grammar,
    consistency and plot: creativity counts repetition itself."""
    order = np.argsort(
        sum(marks[grade] for grade in ("grammar", "consistency", "plot")).ravel(), kind="stable"
    )
    worse, better = np.array_split(marks["repeated"].ravel()[order], 2)
    return float(worse.mean() - better.mean()), float(np.hypot(standard_error(worse), standard_error(better)))


def kernels(models: Languages) -> dict[str, Any]:
    """Figure 14: (d) what feed-forward gains with each kernel, (e) the order of the kernels, (f) where the gap left with feed-forward lies."""
    pairs = [(name, f"{name}-ff") for name in ("gd", "linear", "rbf")]

    def less(a: str, b: str) -> tuple[float, float]:
        return models.compared(models.overall, (1, a), (-1, b))

    return (
        _put("language/ff_gain", "language/ff_gain_se", *(less(ff, plain) for plain, ff in pairs))
        | _put(
            "language/ff_gain_nll",
            "language/ff_gain_nll_se",
            *(models.compared(models.total, (1, plain), (-1, ff)) for plain, ff in pairs),
        )
        | _put("language/order", "language/order_se", less("linear", "gd"), less("gd", "rbf"))
        | _put("language/order_ff", "language/order_ff_se", less("gd-ff", "linear-ff"))
        | _put("language/order_ff_rbf", "language/order_ff_rbf_se", less("gd-ff", "rbf-ff"))
        | _put(
            "language/bind_over_half",
            "language/bind_over_half_se",
            models.compared(models.bind_over_half, (1, "gd-ff"), (-1, "tf")),
        )
    )


def depth(models: Languages) -> dict[str, Any]:
    """Section 3.5: two blocks of GD+FF against one."""
    one, two = (models.total(name)[0] for name in ("gd-ff", "gd-ff-2"))
    return _put(
        "language/depth_gd",
        "language/depth_gd_se",
        models.compared(models.overall, (1, "gd-ff-2"), (-1, "gd-ff")),
    ) | _put(
        "language/depth_gd_nll",
        "language/depth_gd_nll_se",
        _share_of_way(models, one - two, models.single_words().sum(-1) - two, ("gd-ff", "gd-ff-2")),
    )


def mixing(models: Languages) -> dict[str, Any]:
    """How far GD goes without P_m, of the way from single-word frequencies to GD."""
    names = ("gd-no-mixing", "gd")
    start = models.single_words().sum(-1)
    gone, whole = (start - models.total(name)[0] for name in names)
    return _put("language/no_mixing", "language/no_mixing_se", _share_of_way(models, gone, whole, names))


def _share_of_way(models: Languages, gone: Array, way: Array, names: tuple[str, ...]) -> tuple[float, float]:
    """Ratio of two means over stories, and its standard error: over stories, and over seeds of the models that stand in it."""
    seeds = [models.spread(name, models.total) / way.mean() for name in names]
    return float(gone.mean() / way.mean()), float(np.hypot.reduce([ratio_error(gone, way), *seeds]))


def reasons(models: Languages) -> dict[str, Any]:
    """What the difference rests on: counts of weights, the start, the division by t, feed-forward. Excess losses, one less another."""
    loss = functools.partial(models.compared, models.total)
    return (
        _put("language/equal_ff", "language/equal_ff_se", loss((1, "gd-ff"), (-1, "tf-split-wide")))
        | _put("language/equal_gd", "language/equal_gd_se", loss((1, "gd-wide"), (-1, "tf-split")))
        | _put(
            "language/coded_start", "language/coded_start_se", loss((1, "tf-split-coded"), (-1, "tf-split"))
        )
        | _put("language/summed", "language/summed_se", loss((1, "gd-ff-sum"), (-1, "gd-ff")))
        | _put(
            "language/ff_gain_apart",
            "language/ff_gain_apart_se",
            loss((1, "gd"), (-1, "gd-ff"), (-1, "tf-split-no-ff"), (1, "tf-split")),
        )
    )


def overview(models: Languages) -> dict[str, Any]:
    """What the text says beside the claims: the stories, excess losses, how much of them is on bindings, and whether losses still fall."""
    loss, count = models.exact()
    late = [models.excess(name, r).sum(-1).mean() for r in (-3, -1) for name in HEADLINE]
    return {
        "language/entropy": float(loss.sum() / count.sum()),
        "language/vocabulary": models.task.vocabulary,
        "language/endings": models.n_endings,
        "language/gd": float(models.total("gd").mean()),
        "language/gd_ff": float(models.total("gd-ff").mean()),
        "language/tf": float(models.total("tf").mean()),
        "language/tf_split": float(models.total("tf-split").mean()),
        "language/gd_ff_bind": float(
            models.excess("gd-ff")[..., Kind.BIND].mean() / models.total("gd-ff").mean()
        ),
        "language/tf_bind": float(models.excess("tf")[..., Kind.BIND].mean() / models.total("tf").mean()),
        "language/late": float(np.max(np.subtract(*np.split(np.array(late), 2)))),
    }


def every_record(models: Languages) -> dict[str, Any]:
    """All values that the chapter records of the trained models."""
    return (
        overview(models) | tables(models) | kernels(models) | depth(models) | mixing(models) | reasons(models)
    )
