"""Standard errors and intervals of means, ratios and shares, over replicates (seeds, draws, episodes).

An error of few replicates is widened to Student's t, so that two errors are a 95 % interval however few they are.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from .draw import numpy_rng

Array = np.ndarray
#: Samples of the replicates that a bootstrap draws.
RESAMPLES = 400


class Interval(NamedTuple):
    """A mean and the ends of its confidence interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A measured quantity with its standard error, two numbers or two arrays of one shape.

    Sums, differences, products and quotients propagate the errors to first order as of independent quantities; pair what shares data before
    (``Estimate.mean(a - b)``).
    """

    value: float | Array
    error: float | Array
    __array_ufunc__ = None  # an array on the left leaves the operation to the estimate

    @classmethod
    def mean(cls, samples: Array) -> "Estimate":
        """Mean and standard error over the last axis of replicates ``(..., n)``."""
        return cls(np.mean(samples, -1), standard_error(samples))

    @classmethod
    def runs(cls, values: Array) -> "Estimate":
        """Mean over runs ``(R,)``; a single run, as costly models have at the smoke profile, where no claim is decided, has an error of 0."""
        return cls(float(np.mean(values)), float(standard_error(values)) if len(values) > 1 else 0.0)

    @classmethod
    def each(cls, *groups: Array) -> "Estimate":
        """Values of all runs, groups one after the other, with the standard error of a single one (:func:`run_sd`)."""
        return cls(np.concatenate(groups, axis=None), run_sd(*groups))

    @classmethod
    def crossed(cls, samples: Array) -> "Estimate":
        """Mean of ``(R, n)``, of R runs on the same n prompts: the errors over runs and over prompts, added in squares."""
        return cls.runs(samples.mean(1)).widened(standard_error(samples.mean(0)))

    @classmethod
    def of(
        cls, statistic: Callable[[Array], float], samples: Array, error: Callable[..., float] | None = None
    ) -> "Estimate":
        """A statistic of replicates (first axis) with its :func:`bootstrap_error`, or with another ``error(statistic, samples)``, such as :func:`jackknife`."""
        return cls(float(statistic(samples)), (error or bootstrap_error)(statistic, samples))

    @classmethod
    def stack(cls, each: Iterable["Estimate"]) -> "Estimate":
        """Several estimates as one of an array."""
        each = list(each)
        return cls(np.array([e.value for e in each]), np.array([e.error for e in each]))

    @classmethod
    def typical(cls, samples: Array) -> "Estimate":
        """Hodges-Lehmann estimate over the last axis ``(..., n)``, which no outlying replicate decides: the median of the means of all pairs, a replicate with itself
        among them. Two errors are half of its 95 % interval by Wilcoxon's signed ranks; fewer than six replicates have none, and give their mean."""
        samples = _replicates(samples)
        n = samples.shape[-1]
        counts = np.ones(1)  # of subsets of the ranks 1 to n by their sum
        for rank in range(1, n + 1):
            counts = np.convolve(counts, np.bincount([0, rank]))
        cut = int((np.cumsum(counts) <= 0.025 * 2.0**n).sum()) - 1
        if cut < 0:
            return cls.mean(samples)
        i, j = np.triu_indices(n)
        pairs = np.sort((samples[..., i] + samples[..., j]) / 2, -1)
        return cls(np.median(pairs, -1), (pairs[..., -1 - cut] - pairs[..., cut]) / 4)

    @classmethod
    def share(cls, hits: int | Array, trials: int | None = None) -> "Estimate":
        """Share of independent trials with its error by Agresti and Coull (:func:`share_error`): of so many hits, or of all entries of an array that hold."""
        if trials is None:
            hits, trials = int(np.sum(hits)), int(np.size(hits))
        return cls(hits / trials, share_error(hits, trials))

    @classmethod
    def ratio(cls, above: Array, below: Array) -> "Estimate":
        """``mean(above) / mean(below)`` of paired replicates ``(n,)`` (:func:`ratio_error`)."""
        return cls(float(np.mean(above) / np.mean(below)), ratio_error(above, below))

    def __add__(self, other: "Estimate | float") -> "Estimate":
        value, error = _parts(other)
        return Estimate(self.value + value, np.hypot(self.error, error))

    def __sub__(self, other: "Estimate | float") -> "Estimate":
        value, error = _parts(other)
        return Estimate(self.value - value, np.hypot(self.error, error))

    def __mul__(self, other: "Estimate | float") -> "Estimate":
        value, error = _parts(other)
        return Estimate(self.value * value, np.hypot(self.error * value, self.value * error))

    def __truediv__(self, other: "Estimate | float") -> "Estimate":
        value, error = _parts(other)
        ratio = self.value / value
        return Estimate(ratio, np.hypot(self.error / value, ratio * error / value))

    def widened(self, *errors: float | Array) -> "Estimate":
        """The same value with further independent errors, added in squares."""
        return sum((Estimate(0.0, error) for error in errors), self)

    def __neg__(self) -> "Estimate":
        return Estimate(-self.value, self.error)

    def __abs__(self) -> "Estimate":
        return Estimate(abs(self.value), self.error)

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, index: Any) -> "Estimate":
        return Estimate(self.value[index], self.error[index])

    def __rtruediv__(self, other: float) -> "Estimate":
        return Estimate(other, 0.0) / self

    def __rsub__(self, other: float) -> "Estimate":
        return -self + other


def _parts(item: Estimate | float) -> tuple[float | Array, float | Array]:
    return (item.value, item.error) if isinstance(item, Estimate) else (item, 0.0)


def _replicates(values: Array) -> Array:
    values = np.asarray(values, dtype=float)
    assert values.shape[-1] >= 2, values.shape
    return values


def student(n: int) -> float:
    """Factor on the standard error of ``n`` replicates, so that two of it are their 95 % interval by Student's t: 6.4, 2.2, 1.4 for 2, 3, 5 and 1 for many."""
    return max(1.0, float(stdtrit(n - 1, 0.975)) / 2)


def standard_error(values: Array) -> Array:
    """Standard error of the mean over the last axis ``(..., n) -> (...)``: ``sd / sqrt(n)``, widened to Student's t (:func:`student`)."""
    values = _replicates(values)
    n = values.shape[-1]
    return student(n) * values.std(-1, ddof=1) / np.sqrt(n)


def run_sd(*groups: Array) -> float:
    """Standard deviation of one run about the mean of its group, pooled over groups ``(R, ...)`` and their other axes; 0 where all have one run."""
    several = [np.asarray(group, dtype=float) for group in groups if len(group) > 1]
    squares = sum(((group - group.mean(0)) ** 2).sum() for group in several)
    freedom = sum((len(group) - 1) * group[0].size for group in several)
    return float(np.sqrt(squares / freedom)) if freedom else 0.0


def over_blocks(statistic: Callable[..., float], *arrays: Array, blocks: int = 16) -> float:
    """Standard error of a statistic of prompts (first axis), from its values in equal blocks of them."""
    parts = zip(*(np.array_split(array, blocks) for array in arrays), strict=True)
    return float(standard_error([statistic(*part) for part in parts]))


def median_error(values: Array) -> float:
    """Standard error of the median of ``(n,)``: half the distance of the order statistics one binomial standard deviation to its sides."""
    values, half = np.sort(np.asarray(values, dtype=float)), np.sqrt(len(values)) / 2
    low = max(int(np.floor((len(values) - 1) / 2 - half)), 0)
    high = min(int(np.ceil((len(values) - 1) / 2 + half)), len(values) - 1)
    return float(values[high] - values[low]) / 2


def share_error(hits: int, trials: int) -> float:
    """Standard error of a share of independent trials, never 0: that of ``(hits + 2) / (trials + 4)`` (Agresti and Coull 1998), so that a share
    of 0 or 1 among few trials is not taken for certain.
    """
    assert 0 <= hits <= trials, (hits, trials)
    n, share = trials + 4, (hits + 2) / (trials + 4)
    return float(np.sqrt(share * (1 - share) / n))


def ratio_terms(above: Array, below: Array) -> Array:
    """Contributions of the paired replicates ``(n,)`` to the deviation of ``mean(above) / mean(below)``, to first order: ``(n,)`` of mean 0.

    The standard error of their mean is that of the ratio, and of their difference that of the difference of two ratios of the same replicates.
    """
    above, below = _replicates(above), _replicates(below)
    assert below.mean() != 0, "a ratio to a mean of 0"
    return (above - above.mean() / below.mean() * below) / abs(below.mean())


def ratio_error(above: Array, below: Array) -> float:
    """Standard error of ``mean(above) / mean(below)`` of paired replicates ``(n,)``, by the delta method (first order in the spread over the means)."""
    return float(standard_error(ratio_terms(above, below)))


def clustered_share_error(hits: Array, trials: Array) -> float:
    """Standard error of ``sum(hits) / sum(trials)`` where the trials of one replicate, an entry of each ``(n,)``, need not be independent: the larger
    of the error over replicates and of that of independent trials, which is never 0.
    """
    return max(share_error(int(np.sum(hits)), int(np.sum(trials))), ratio_error(hits, trials))


def bootstrap_error(statistic: Callable[[Array], float], values: Array) -> float:
    """Standard error of a statistic of replicates ``(n, ...)``, such as a median or an extreme: its standard deviation over :data:`RESAMPLES` samples
    of the replicates with replacement (fixed random numbers), widened to Student's t. A single replicate has an error of 0, for want of a better one.
    """
    values, n, rng = np.asarray(values), len(values), numpy_rng(0)
    drawn = np.array([statistic(values[rng.integers(n, size=n)]) for _ in range(RESAMPLES)])
    return student(max(n, 2)) * float((drawn - drawn[0]).std(ddof=1))  # exactly 0 where all are equal


def interval(differences: Array) -> Interval:
    """Mean of replicates ``(n,)``, such as paired differences, and the ends of its 95 % confidence interval by Student's t."""
    return prediction(differences, np.inf)


def prediction(values: Array, of: float, level: float = 0.95) -> Interval:
    """Where the mean of ``of`` new replicates is expected, from the mean of replicates ``(n,)``: a printed mean outside did not come from the same
    distribution (Patil, Peng and Leek 2016, *What should researchers expect when they replicate studies?*).

    ``mean +- t_{n-1} sd sqrt(1/n + 1/of)``, with our spread for theirs.

    Args:
        of: how many replicates the printed mean has; infinity for the true mean, whose confidence interval this is.
    """
    values = _replicates(values)
    n, mean = len(values), float(values.mean())
    half = float(stdtrit(n - 1, (1 + level) / 2) * values.std(ddof=1) * np.sqrt(1 / n + 1 / of))
    return Interval(mean, mean - half, mean + half)


def t_of_mean(differences: Array) -> Array:
    """Student's t of the mean over the last axis against 0, ``(..., n) -> (...)``: a paired test, given paired differences."""
    values = _replicates(differences)
    with np.errstate(divide="ignore", invalid="ignore"):
        return values.mean(-1) / (values.std(-1, ddof=1) / np.sqrt(values.shape[-1]))


def jackknife(statistic: Callable[[Array], float], values: Array) -> float:
    """Standard error of a smooth statistic of ``values (n, ...)``, from leaving out each of the n once, widened to Student's t; 0 for fewer than three."""
    n = len(values)
    if n < 3:
        return 0.0
    left = np.array([statistic(np.delete(values, i, 0)) for i in range(n)])
    return student(n) * float(np.sqrt((n - 1) * left.var()))
