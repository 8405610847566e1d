"""What the trained language models are worth: loss above the exact one by kind of token, and the judge's grades (wang2025, tables 1 to 3, figure 14)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ....statistics import ratio_error, standard_error
from ....tasks.stories import Kind, Stories
from ..runs.language import SIZES, beginnings, language_studies, scored_stories
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
        return SIZES[self.profile].task

    @property
    def n_endings(self) -> int:
        """Beginnings that every model continues."""
        return SIZES[self.profile].endings

    def exact(self) -> tuple[Array, Array]:
        """Exact loss and number of the scored stories' tokens by kind, each ``(n, 4)``, the first token left out."""
        _, logs, kinds = (np.asarray(x) for x in scored_stories(self.task, SIZES[self.profile].scored))
        each = [kinds[1:] == kind for kind in Kind]
        return np.stack([-(logs[1:] * own).sum(0) for own in each], 1), np.stack(
            [own.sum(0) for own in each], 1
        )

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
        others = self.task.held_out(400, seed=7)
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


def paired(*terms: tuple[float, Array]) -> tuple[float, float]:
    """Weighted sum of means of models' values ``(R, n)`` on the same n items, and its standard error: over items and, where there are several, over
    seeds. Models with fewer seeds limit all to the seeds in common."""
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
    overall = {name: models.overall(name) for name in ROWS}
    total = {name: models.excess(name).sum(-1) for name in HEADLINE}
    best = max(overall, key=lambda name: overall[name].mean())
    true = np.full_like(overall[best], 10.0)
    gd, ff, tf = (overall[name] for name in ("gd", "gd-ff", "tf"))
    gd_nll, ff_nll, tf_nll = (total[name] for name in ("gd", "gd-ff", "tf"))
    return (
        _put("language/true_gap", "language/true_gap_se", paired((1, true), (-1, overall[best])))
        | _put("language/tf_gap", "language/tf_gap_se", paired((1, tf), (-1, gd)))
        | _put("language/tf_gap_nll", "language/tf_gap_nll_se", paired((1, gd_nll), (-1, tf_nll)))
        | _put("language/ff_left", "language/ff_left_se", paired((0.75, tf), (-1, ff), (0.25, gd)))
        | _put(
            "language/ff_left_nll",
            "language/ff_left_nll_se",
            paired((1, ff_nll), (-0.75, tf_nll), (-0.25, gd_nll)),
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
    overall = {name: models.overall(name) for name in ROWS}
    total = {name: models.excess(name).sum(-1) for name in ROWS}

    def less(a: str, b: str) -> tuple[float, float]:
        return paired((1, overall[a]), (-1, overall[b]))

    return (
        _put("language/ff_gain", "language/ff_gain_se", *(less(ff, plain) for plain, ff in pairs))
        | _put(
            "language/ff_gain_nll",
            "language/ff_gain_nll_se",
            *(paired((1, total[plain]), (-1, total[ff])) for plain, ff in pairs),
        )
        | _put("language/order", "language/order_se", less("linear", "gd"), less("gd", "rbf"))
        | _put("language/order_ff", "language/order_ff_se", less("gd-ff", "linear-ff"))
        | _put("language/order_ff_rbf", "language/order_ff_rbf_se", less("gd-ff", "rbf-ff"))
        | _put(
            "language/bind_share",
            "language/bind_share_se",
            bind_share(models.excess("gd-ff"), models.excess("tf")),
        )
    )


def bind_share(one: Array, other: Array) -> tuple[float, float]:
    """Share of bindings in the excess loss ``(R, n, 4)`` of one model above another's, and its standard error over stories."""
    apart = one.mean(0) - other.mean(0)  # (n, 4)
    bind, whole = apart[:, Kind.BIND], apart.sum(1)
    return float(bind.mean() / whole.mean()), ratio_error(bind, whole)


def depth(models: Languages) -> dict[str, Any]:
    """Section 3.5: two blocks of GD+FF against one."""
    one, two = (models.excess(name)[0].sum(-1) for name in ("gd-ff", "gd-ff-2"))
    way = models.single_words().sum(-1) - two
    found = float((one - two).mean() / way.mean()), ratio_error(one - two, way)
    return _put(
        "language/depth_gd",
        "language/depth_gd_se",
        paired((1, models.overall("gd-ff-2")), (-1, models.overall("gd-ff"))),
    ) | _put("language/depth_gd_nll", "language/depth_gd_nll_se", found)


def mixing(models: Languages) -> dict[str, Any]:
    """How far GD goes without P_m, of the way from single-word frequencies to GD."""
    start = models.single_words().sum(-1)
    gone, whole = (start - models.excess(name)[0].sum(-1) for name in ("gd-no-mixing", "gd"))
    return _put(
        "language/no_mixing",
        "language/no_mixing_se",
        (float(gone.mean() / whole.mean()), ratio_error(gone, whole)),
    )


def overview(models: Languages) -> dict[str, Any]:
    """What tables and prose say beside the claims: grades and excess losses of all models, other ways to decode, and whether losses still fall."""
    loss, count = models.exact()
    examined = exam.examined(models.task, models.n_endings)
    totals = {name: models.excess(name) for name in STUDIES}
    late = {name: [float(models.excess(name, r).sum(-1).mean()) for r in (-3, -1)] for name in HEADLINE}
    return {
        "language/entropy": float(loss.sum() / count.sum()),
        "language/vocabulary": models.task.vocabulary,
        "language/endings": models.n_endings,
        "language/overall": [float(models.overall(name).mean()) for name in STUDIES],
        "language/excess": [float(totals[name].sum(-1).mean()) for name in STUDIES],
        "language/excess_bind": [float(totals[name][..., Kind.BIND].mean()) for name in STUDIES],
        "language/late": [before - after for before, after in late.values()],
        "language/exam": [examined[name]["overall"] for name in (*exam.ORDER, "repeated moral")],
        "language/overall_coded": [float(models.overall(name, "coded").mean()) for name in HEADLINE],
        "language/overall_sampled": [float(models.overall(name, "sampled").mean()) for name in HEADLINE],
    }


def trained(get: Get, profile: str) -> Languages | None:
    """The models at a profile, or None where they are not trained yet."""
    return Languages(get, profile) if language_studies(profile) else None


def every_record(models: Languages) -> dict[str, Any]:
    """All values that the chapter records of the trained models."""
    return overview(models) | tables(models) | kernels(models) | depth(models) | mixing(models)
