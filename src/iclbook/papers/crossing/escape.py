"""What a loss alone says of its wait, before any flow: how many factors must grow together, along which direction, and how long a start along it waits.

Near the origin ``L(r v) = L(0) - s r^p + ...`` for the unit vector v along which the loss falls most. There the gradient is radial, and gradient flow from
``size * v`` grows as ``dr/dt = p s r^(p - 1)``. For p = 2 the same follows from every start: ``2 s`` is the largest eigenvalue of minus the hessian at 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from ...draw import numpy_rng
from ...models.deep_attention import DeepAttention
from ...random import INIT, generator
from ...statistics import Estimate
from ...store import Results
from ...tasks import LinearRegression
from ...tasks.linear_regression import AffineRegression
from ...training.flow import gradient_flow
from ...training.groups import squared_error
from ...training.landscape import Family, Landscape
from .models import MODELS, Array, antithetic, heads_of, mirrored, prompts, residual_layer
from .waits import FALLEN, SIZES, Resting, Sizes, adam_wait, degrees, leave

#: Radius at which the search begins, by what it grows while nothing is seen to fall, and the fall, as a share of the loss at 0, that rounding cannot make.
RADIUS, GROWTH, SEEN = 0.01, 2.0, 1e-10
#: Largest radius that is still called small.
LARGEST = 1.0
#: Random directions from which each search begins.
DIRECTIONS = 4


@dataclass(frozen=True)
class Escape:
    """Where a loss falls first: the measured ``exponent`` of the fall with the radius, the ``strength`` s of ``L(0) - L(r v) = s r^p``, the unit ``direction`` v ``(n,)``."""

    exponent: float
    strength: float
    direction: Array

    @property
    def degree(self) -> int:
        """p, the whole number next to the exponent."""
        return round(self.exponent)

    def longer(self, size: float, factor: float) -> float:
        """By how much a start ``factor`` times smaller waits longer than one of length ``size`` along the direction."""
        if self.degree == 2:
            return float(np.log(factor) / (2 * self.strength))
        power = self.degree - 2
        return (factor**power - 1) / (self.degree * power * self.strength * size**power)

    def stuck_below(self, decay: float) -> float:
        """Length below which weight decay keeps a start along the direction from leaving, for p > 2."""
        return float((decay / (self.degree * self.strength)) ** (1 / (self.degree - 2)))


def _lowest(landscape: Landscape, radius: float, starts: Sequence[Array]) -> tuple[float, Array]:
    """The lowest loss on the sphere of a radius, less that at 0, and where it lies (a unit vector), the best of searches from some directions."""
    origin, found = landscape.value(np.zeros_like(starts[0])), []
    for start in starts:
        # losses near 0 differ little: in units of how much this one falls, a minimiser's tolerances mean something
        unit = max(radius * abs(start @ landscape.gradient(radius * start)), np.finfo(float).tiny)

        def on_sphere(w: Array, unit: float = unit) -> tuple[float, Array]:
            length = np.linalg.norm(w)
            v = w / length
            loss, slope = landscape.evaluate(radius * v)
            return (loss - origin) / unit, radius * (slope - v * (v @ slope)) / length / unit

        options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-14, "gtol": 1e-10}
        best = minimize(on_sphere, start, jac=True, method="L-BFGS-B", options=options)
        found.append((best.fun * unit, best.x / np.linalg.norm(best.x)))
    return min(found, key=lambda one: one[0])


def escape(landscape: Landscape, seed: int) -> Escape:
    """A loss's first fall, from searches on small spheres; the exponent from the slope at two radii, which no difference of losses rounds. :class:`Resting` if none."""
    n = len(landscape.start(seed))
    rng, origin = numpy_rng((seed, 11)), landscape.value(np.zeros(n))
    starts = [v / np.linalg.norm(v) for v in rng.standard_normal((DIRECTIONS, n))]
    radius = RADIUS
    while radius <= LARGEST:
        fall, v = _lowest(landscape, radius, starts)
        if -fall > SEEN * origin:
            break
        radius *= GROWTH
    else:
        raise Resting("the loss falls in no direction near the origin")
    near, far = (-v @ landscape.gradient(r * v) for r in (radius, GROWTH * radius))
    exponent = 1 + np.log(far / near) / np.log(GROWTH)
    p = round(exponent)
    return Escape(float(exponent), float(near / (p * radius ** (p - 1))), v)


# -- the constants of the law, predicted and measured -------------------------------------------------------------------------


class Tricky(NamedTuple):
    """A model whose degree a count of the factors on its path from the prompt to the answer gets wrong: that count, its sizes, and what it overlooks."""

    naive: int
    sizes: Sizes
    why: str


def product(*paths: Sequence[int]) -> Callable[[int], Landscape]:
    """``(1 - sum of products)^2`` of the factors with these numbers, whatever the draw."""

    def evaluate(x: Array) -> tuple[float, Array]:
        rest, slope = 1 - sum(np.prod(x[list(path)]) for path in paths), np.zeros_like(x)
        for path in paths:
            for i, factor in enumerate(path):
                slope[factor] -= 2 * rest * np.prod([x[f] for j, f in enumerate(path) if j != i])
        return float(rest**2), slope

    count = 1 + max(max(path) for path in paths)
    return lambda draw: Landscape(lambda seed: numpy_rng(seed).uniform(0.5, 1.5, count), evaluate)


def _with_a_mean(draw: int) -> Landscape:
    """Two heads on labels ``a + beta . x``, each prompt with its mirror image of negated covariates: what a mean over the context then tells is the label's own mean."""
    return heads_of(2)(mirrored(prompts(AffineRegression(d=2, L=12, noise_var=0.0), draw, 64)))


TRICKY = {
    "few": Tricky(4, SIZES["few"], "answers correlate by chance with the context's mean"),
    "mean": Tricky(4, Sizes(0.02, 4, 2, "two heads, labels with a mean"), "the context's mean tells the labels' mean"),
    "twice": Tricky(2, Sizes(0.1, 4, 3, "a factor used twice"), "one of two factors enters squared"),
    "shortcut": Tricky(3, Sizes(0.02, 10, 2, "two paths"), "a second, shorter path leaves first"),
}
EVERY = MODELS | {"mean": _with_a_mean, "twice": product((0, 0, 1)), "shortcut": product((0, 1, 2), (3, 4))}
#: Sizes of all models, tricky ones too.
ALL_SIZES = SIZES | {name: tricky.sizes for name, tricky in TRICKY.items()}


def escapes(model: str, draws: Sequence[int]) -> dict[str, Array]:
    """For each draw of prompts the ``exponent`` and ``strength`` before any flow, then ``times (D, 2)`` of leaving along the direction found, at two sizes."""
    sizes, found = ALL_SIZES[model].scales()[1:3], {"exponent": [], "strength": [], "times": []}
    for draw in draws:
        landscape = EVERY[model](draw)
        first = escape(landscape, draw)
        found["exponent"].append(first.exponent)
        found["strength"].append(first.strength)
        found["times"].append([leave(landscape, size * first.direction).first() for size in sizes])
    return {name: np.array(values) for name, values in found.items()}


#: One layer with a read-out and a residual stream, whose embedding is held: as it is and with layer norm. Predicted: read-out, O, V, K and Q, hence five factors.
RESIDUAL = {"plain": Sizes(0.4, 2, 5, "layer, residual stream"), "normed": Sizes(0.4, 2, 5, "the same, layer norm")}
SHOWN = ALL_SIZES | RESIDUAL


def residual_escapes(kind: str, draws: Sequence[int]) -> dict[str, Array]:
    """:func:`escapes` of :data:`RESIDUAL`."""
    found = {"exponent": [], "strength": [], "times": []}
    for draw in draws:
        landscape = residual_layer(kind == "normed", draw)
        first = escape(landscape, draw)
        found["exponent"].append(first.exponent)
        found["strength"].append(first.strength)
        times = [leave(landscape, size * first.direction).first() for size in RESIDUAL[kind].scales()[1:3]]
        found["times"].append(times)
    return {name: np.array(values) for name, values in found.items()}


#: Models whose escape is computed at a profile; of the small one search and flow take a second.
ESCAPED = {"paper": tuple(ALL_SIZES), "smoke": ("heads", "recall", "chain", *TRICKY)}


def longer_waits(*results: Results) -> dict[str, dict[str, Array]]:
    """For each model and draw ``(D,)`` by how much longer a start a factor smaller waits, ``predicted`` before the flow and ``measured``; ``first``: its escapes."""
    found = {}
    for name, sizes in SHOWN.items():
        for of in (one.group(name) for one in results if f"{name}/times" in one.arrays):
            first = [Escape(*one, np.zeros(0)) for one in zip(of["exponent"], of["strength"], strict=True)]
            predicted = np.array([one.longer(sizes.scales()[1], sizes.factor) for one in first])
            found[name] = {"first": first, "predicted": predicted, "measured": np.diff(of["times"])[:, 0]}
    return found


def constant_values(found: Mapping[str, Mapping[str, Array]], waited: Mapping[str, Array]) -> dict[str, object]:
    """Exponents less the degrees that hold, and those by naive counts; waits measured over predicted, also with another draw's strength, and from random directions."""
    exponents = {name: np.mean([one.exponent for one in of["first"]]) for name, of in found.items()}
    pairs = [name for name in found.keys() & waited.keys() if SIZES[name].p == 2]
    random = [np.diff(waited[name])[:, -1] / found[name]["predicted"] for name in pairs]
    ratios = Estimate.mean(np.array([of["measured"] / of["predicted"] for of in found.values()]))
    return {
        "escape/off": np.array([abs(exponents[name] - SHOWN[name].p) for name in found]),
        "escape/naive_off": np.array([abs(tricky.naive - exponents[name]) for name, tricky in TRICKY.items()]),
        "escape/ratios": ratios,
        "escape/worst": float(np.abs(ratios.value - 1).max()),
        "escape/swapped": np.array([np.mean(of["measured"] / np.roll(of["predicted"], 1)) for of in found.values()]),
        "escape/random": float(np.median(random)),
    }


def table(found: Mapping[str, Mapping[str, Array]]) -> pd.DataFrame:
    """A row a model: the degree found before any flow, and by how much a start a factor b smaller waits longer, predicted and measured (means over draws)."""
    rows = {}
    for name, of in found.items():
        means = (of[kind].mean() for kind in ("predicted", "measured"))
        counted = TRICKY[name].naive if name in TRICKY else SHOWN[name].p
        rows[SHOWN[name].name] = [
            f"{np.mean([one.exponent for one in of['first']]):.2f}",
            str(counted),
            f"{SHOWN[name].scale:g}",
            f"{SHOWN[name].factor:g}",
            *(f"{mean:,.0f}" if mean >= 1e4 else f"{mean:,.4g}" for mean in means),
        ]
    columns = ["p found", "by counting", "largest ε", "b", "waits longer by, predicted", "measured"]
    return pd.DataFrame.from_dict(rows, "index", columns=columns).rename_axis("model", axis="columns")


# -- weight decay -------------------------------------------------------------------------------------------------------------

#: Models that decay keeps, and the size below which it should.
DECAYED, STUCK = ("recall", "heads"), 0.03
#: Halvings of the logarithm of a factor of four, between half and twice the predicted size.
ROUNDS = 9


def decayed(landscape: Landscape, decay: float) -> Landscape:
    """``L + decay |theta|^2 / 2``."""

    def evaluate(theta: Array) -> tuple[float, Array]:
        loss, slope = landscape.evaluate(theta)
        return loss + decay * float(theta @ theta) / 2, slope + decay * theta

    return replace(landscape, evaluate=evaluate)


def leaves(landscape: Landscape, start: Array) -> bool:
    """Whether gradient flow from ``start`` comes to three times its length before a third of it."""
    length = np.linalg.norm(start)
    grown = lambda theta: np.linalg.norm(theta) / length - 3  # noqa: E731
    gone = lambda theta: 1 / 3 - np.linalg.norm(theta) / length  # noqa: E731
    both = lambda theta: max(grown(theta), gone(theta))  # noqa: E731
    flow = gradient_flow(landscape.gradient, start, 1e9, events=[both], stop_at=0, rtol=1e-8, atol=1e-12)
    return bool(grown(flow.states[-1]) > gone(flow.states[-1]))


def thresholds(model: str, draws: Sequence[int], rounds: int = ROUNDS) -> dict[str, Array]:
    """For each draw ``decay``, chosen so that :data:`STUCK` is the predicted threshold, and the threshold ``found`` by bisection of flows between half and twice of it."""
    decays, found = [], []
    for draw in draws:
        landscape = MODELS[model](draw)
        first = escape(landscape, draw)
        decay = first.degree * first.strength * STUCK ** (first.degree - 2)
        stays, goes = STUCK / 2, 2 * STUCK
        for _ in range(rounds):
            size = float(np.sqrt(stays * goes))
            if leaves(decayed(landscape, decay), size * first.direction):
                goes = size
            else:
                stays = size
        decays.append(decay)
        found.append(np.sqrt(stays * goes))
    return {"decay": np.array(decays), "found": np.array(found)}


def decay_values(results: Results) -> dict[str, object]:
    """Thresholds found over those predicted, of :data:`DECAYED`, means over draws whose errors hold half of the last bracket; and over those of a law without the factor p, ``(decay / s)^(1 / (p - 2))``."""
    found = {name: results[f"{name}/found"] / STUCK for name in DECAYED}
    powers = {name: ALL_SIZES[name].p for name in DECAYED}
    mean = Estimate.mean(np.array([*found.values()]))
    return {
        "decay/ratios": Estimate(mean.value, np.hypot(mean.error, np.log(4) / 2 ** (ROUNDS + 1))),
        "decay/without_p": np.array([found[name].mean() / p ** (1 / (p - 2)) for name, p in powers.items()]),
    }


# -- Adam ---------------------------------------------------------------------------------------------------------------------
#
# A step is ``rate g / (|g| + guard)``, up to its memory: of fixed size while gradients are larger than the guard, gradient flow with ``rate / guard`` while smaller.

#: Models of two, three and four factors; the guard, in gradients at the larger start; the rate, in sizes of that start (momentum looks back ten steps).
ADAM, GUARD, STEP = ("chain", "recall", "heads"), 100, 0.1


def adam_waits(model: str, draws: Sequence[int]) -> dict[str, Array]:
    """For each draw waits ``guarded (D, 2)`` under Adam from two sizes along the direction of the escape, and ``free`` of its guard; steps times rate over guard."""
    sizes, found = ALL_SIZES[model].scales()[1:3], {"guarded": [], "free": []}
    for draw in draws:
        landscape = MODELS[model](draw)
        first = escape(landscape, draw)
        guard = GUARD * first.degree * first.strength * sizes[0] ** (first.degree - 1)
        for name, used in (("guarded", guard), ("free", 1e-300)):
            steps = [adam_wait(landscape, s * first.direction, STEP * sizes[0], guard=used) for s in sizes]
            found[name].append(np.array(steps) * STEP * sizes[0] / guard)
    return {name: np.array(values) for name, values in found.items()}


def adam_values(results: Results, found: Mapping[str, Mapping[str, Array]]) -> dict[str, object]:
    """By how much longer a start a factor smaller waits under Adam over what the law predicts of gradient flow (``found`` of :func:`longer_waits`), means over draws."""
    models = [model for model in ADAM if f"{model}/free" in results.arrays]
    ratios = {
        name: np.array([np.diff(results[f"{model}/{name}"])[:, 0] / found[model]["predicted"] for model in models])
        for name in ("guarded", "free")
    }
    return {"adam/guarded": Estimate.mean(ratios["guarded"]), "adam/free": ratios["free"].mean(1)}


# -- a standard initialisation ------------------------------------------------------------------------------------------------

#: Parameters that begin at these shares of PyTorch's default; others stay as they are drawn. The read-out, O, V, K and Q: five factors.
SHARES, SCALED = (1.0, 0.7, 0.49), ("query", "key", "value", "output", "read")
#: The model at a profile: that of nagy2026's section 9.5, two residual layers with norms, d = 5 and 40 examples; a small one.
STANDARD = {"paper": {"d": 5, "width": 32}, "smoke": {"d": 2, "width": 4}}


def standard_starts(profile: str, draws: Sequence[int]) -> dict[str, Array]:
    """Waits ``times (D, 3)`` of gradient flow from :data:`SHARES` of a standard start, on 64 symmetric prompts."""
    shape, found = STANDARD[profile], []
    for draw in draws:
        model = DeepAttention(**shape)
        model.initialise(generator(draw, INIT))
        model.read_bias.data.zero_()
        named = dict(model.named_parameters())
        family = Family(model, squared_error, [name for name in named if name not in SCALED])
        task = LinearRegression(d=shape["d"], L=8 * shape["d"], noise_var=0.0)
        landscape = family(antithetic(prompts(task, draw, 16)))
        start = np.concatenate([named[name].double().numpy().ravel() for name in family.shapes])
        goal = (1 - FALLEN) * landscape.value(0 * start)
        gone = partial(lambda goal, landscape, theta: goal - landscape.value(theta), goal, landscape)
        how = {"events": [gone], "stop_at": 0, "method": "RK23", "rtol": 1e-3, "atol": 1e-5}
        found.append([gradient_flow(landscape.gradient, b * start, 1e6, **how).first() for b in SHARES])
    return {"times": np.array(found)}


def standard_values(results: Results, profile: str) -> dict[str, object]:
    """Waits from :data:`SHARES` of a standard start, means over draws, and the degree that they show."""
    times = results[f"{profile}/times"]
    degree = degrees(times, SHARES[0] / SHARES[1])[:, 0]
    return {"standard/waits": Estimate.mean(times.T), "standard/degree": Estimate.mean(degree)}
