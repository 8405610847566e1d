"""Nagy 2026: how its printed percentages, ratios, t and p values are recomputed; every function takes printed numbers in the order of its arguments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .statistics import fisher_interval, p_of_means, p_of_r, p_of_t, pearson

#: Section 9.4: model sizes in millions as named (GPT-2's from its own paper), and layers.
SIZES = (70, 160, 345, 410, 762, 1000)
LAYERS = (6, 12, 24, 24, 36, 16)


@dataclass(frozen=True)
class Each:
    """A function of ``width`` numbers as one of any number of them, ``width`` at a time."""

    function: Callable[..., Any]
    width: int

    def __call__(self, *x: Any) -> tuple:
        """One number for each group."""
        return tuple(self.function(*group) for group in self.groups(x))

    def groups(self, x: Sequence[Any]) -> list[Sequence[Any]]:
        """The arguments, ``width`` at a time."""
        return [x[i : i + self.width] for i in range(0, len(x), self.width)]


def each(width: int) -> Callable[[Callable[..., Any]], Each]:
    """Make a function of ``width`` numbers one of any number of them."""
    return lambda function: Each(function, width)


#: By how many per cent a number fell.
falls = each(2)(lambda before, after: 100 * (1 - after / before))
#: Relative difference in per cent.
excesses = each(2)(lambda predicted, observed: 100 * abs(predicted - observed) / observed)
#: The same of alpha = 1 - rho.
excesses_of_alpha = each(2)(lambda predicted, observed: 100 * abs(predicted - observed) / (1 - observed))
#: Relative difference in per cent of predicting rho = 1.
excess_of_one = each(1)(lambda observed: 100 * (1 - observed) / observed)
#: The second less the first.
rises = each(2)(lambda a, b: b - a)
#: The first less the second.
drops = each(2)(lambda a, b: a - b)
#: The second over the first.
ratios = each(2)(lambda a, b: b / a)
#: The first over the second.
quotients = each(2)(lambda a, b: a / b)
#: Square roots.
roots = each(1)(lambda square: float(square) ** 0.5)
#: Per cent of the depth penalty that the full model recovers (section 9.5.1).
shares_of_penalty = each(3)(lambda baseline, depth, full: 100 * (depth - full) / (depth - baseline))
#: The least of the others less the last.
margin_of_last = each(5)(lambda *x: min(x[:-1]) - x[-1])
#: Welch's p of two means of six runs, from means and standard deviations.
p_of_six_seeds = each(4)(lambda m1, s1, m2, s2: p_of_means(m1, s1, m2, s2, 6))


#: What a rate of each layer compounds to over the printed fall of the error: rate, layers, first and last error.
compounded_falls = each(4)(lambda rho, layers, first, last: rho ** int(layers) * first / last)


def better_assignments(*x: float) -> int:
    """How many ways to give the observed numbers to other predictions fit as well or better, by the mean relative difference, than those printed as pairs."""
    predicted, observed = x[::2], x[1::2]

    def off(order: tuple[float, ...]) -> float:
        return sum(abs(p / o - 1) for p, o in zip(predicted, order, strict=True))

    return sum(off(order) <= off(observed) for order in itertools.permutations(observed) if order != observed)


def furthest(*x: Any) -> Any:
    """The number furthest from 0."""
    return max(x, key=abs)


def cost_ratio(one: Any, four: Any) -> Any:
    """Seconds a step of one model of 20,000 steps over those of four of 3,000 (sections 9.2 and 9.1)."""
    return (one / 20_000) / (four / 12_000)


def same(*x: Any) -> tuple:
    """The numbers themselves."""
    return x


def total(*x: Any) -> Any:
    """Their sum."""
    return sum(x)


def differences(*x: Any) -> tuple:
    """Each number less the one before it."""
    return tuple(b - a for a, b in itertools.pairwise(x))


def against(base: Any, *others: Any) -> tuple:
    """By how many per cent each of the others lies below the base."""
    return tuple(100 * (1 - x / base) for x in others)


def points(a: Any, b: Any) -> Any:
    """Percentage points from one share to another."""
    return 100 * (b - a)


def percentage(part: Any, *factors: Any) -> Any:
    """A part of a product, in per cent."""
    return 100 * part / math.prod(factors)


def compounded() -> tuple:
    """What a rate of 0.9 leaves after 2, 5 and 10 layers (section 6)."""
    return 0.9**2, 0.9**5, 0.9**10


def lower_end(r: Any, n: Any) -> float:
    """Lower end of Fisher's 95 % interval of a correlation."""
    return fisher_interval(r, n)[0]


def widening(span: Any) -> Any:
    """A span over the axis from 0.95 to 1.0 (section 8.2)."""
    return span / (1 - 0.95)


def p_of_seven(*r: Any) -> tuple:
    """Two-sided p of correlations over seven models, by t."""
    return tuple(p_of_r(x, 7) for x in r)


def p_of_six(r: Any) -> float:
    """Two-sided p of a correlation over six models, by t."""
    return p_of_r(r, 6)


def p_of_eight(r: Any) -> float:
    """Two-sided p of a correlation over eight covariates, by t."""
    return p_of_r(r, 8)


def p_of_five_seeds(t: Any) -> float:
    """Two-sided p of t with 4 degrees of freedom."""
    return p_of_t(t, 4)


def extrapolated(start: Any, late: Any, end: Any) -> Any:
    """Thousands of steps to the end at the mean slope of the first 18 thousand (section 9.2)."""
    return 18 * (start - end) / (start - late)


def size_correlation(*effects: Any) -> float:
    """Pearson's correlation of the logarithms of size and ICL effect, over the largest models of section 9.4."""
    sizes = SIZES[len(SIZES) - len(effects) :]
    return pearson(tuple(map(math.log, sizes)), tuple(math.log(e) for e in effects))


def depth_correlation(*effects: Any) -> float:
    """Pearson's correlation of layers and ICL effect (section 9.4)."""
    return pearson(LAYERS, effects)


def baselines_apart(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Difference of the baselines that two factors and errors imply (section 9.5)."""
    return a * b - c * d


def speed_ratio(baseline: Any, first: Any, second: Any) -> float:
    """Ratio of decay rates if both losses fall geometrically from the mean baseline's, 6.4 times 0.184, over the same steps (section 9.5)."""
    start = 6.4 * float(baseline)
    return math.log(start / float(second)) / math.log(start / float(first))


def synergy(depth: Any, sink: Any, scale: Any, ortho: Any, full: Any) -> Any:
    """The full model's gain less the sum of its components' gains; positive is super-additive (section 9.5.1)."""
    return (depth - full) - ((depth - sink) + (depth - scale) + (depth - ortho))


def gap_changes(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> tuple:
    """Change of the gap from baseline to full model between dimensions (section 9.5.1)."""
    return (d - c) - (b - a), (f - e) - (d - c)


def sink_gains(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> tuple:
    """Gain by the sink over depth, its sign turned at d = 16 (section 9.5.1)."""
    return a - b, c - d, f - e
