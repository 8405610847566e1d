"""Waits of small starts, trained in the page: a product of factors, with chance and weight decay; attention, by plain gradient descent and by Adam."""

import numpy as np
from matplotlib.figure import Figure

from ...drawing import style
from ...models import Attention
from ...random import INIT, generator
from ...sliders import PageModel
from ...tasks import LinearRegression
from ...training import Adam, Group, Run, Sgd, Trainer, gradient_flow
from ...training.flow import Flow
from ..he2025 import true_loss
from .chance import rate_of_chance
from .models import REGRESSION

Array = np.ndarray

# -- the simplest loss that waits: a product of p factors should be one ------------------------------------------------------

#: Numbers of factors, sizes of the start, prompts, weight decay (the least stands for none) between which a reader chooses.
DEGREES, PAGE_SIZES, PAGE_COUNTS, DECAYS = (2, 3, 4), (0.01, 0.3), (8, 32_768), (1e-5, 0.1)
#: What stands there at first.
BEGIN = {"degree": 4, "size": 0.03, "prompts": "even", "count": 128, "decay": 0}
#: The wait ends when this share of the loss is left; steps of a run at most.
LEFT, MOST_RUN = 0.5, 6_000
#: Mean square of what the context's mean tells, and SGD's rate.
MEAN, PAGE_RATE = 1 / REGRESSION.L, 0.2


def loss(x: Array, p: int, c: Array) -> float:
    """``E (s - P s - O V.m)^2 / 2`` of factors ``x = (O, V1, V2, V3, z)``: P, the product ``O V1 z^(p-2)``, should be one for the signal s, which correlates by
    chance with the context's mean m, ``c (3,) = E[s m]``."""
    out, values = x[0], x[1:-1]
    product = out * values[0] * x[-1] ** (p - 2)
    return (1 - product) ** 2 / 2 - (1 - product) * out * (c @ values) + MEAN * out**2 * (values @ values) / 2


def gradient(x: Array, p: int, c: Array, decay: float = 0.0) -> Array:
    """Gradient in each factor, with weight decay ``decay |x|^2 / 2``; all p - 2 factors z are equal, and the gradient is that in one of them."""
    out, values, z = x[0], x[1:-1], x[-1]
    others, fit = z ** (p - 2), out * (c @ values)
    rest = 1 - out * values[0] * others
    slope = np.zeros_like(x)
    slope[0] = (fit - rest) * values[0] * others - rest * (c @ values) + MEAN * out * (values @ values)
    slope[1:-1] = -rest * out * c + MEAN * out**2 * values
    slope[1] += (fit - rest) * out * others
    slope[-1] = (fit - rest) * out * values[0] * z ** (p - 3) + decay * z if p > 2 else 0
    slope[:-1] += decay * x[:-1]
    return slope


def product_flow(p: int, size: float, chance: float = 0.0, decay: float = 0.0) -> Flow:
    """Gradient flow from factors of one size, ``chance`` pulling along the value that the product has, until :data:`LEFT` of the loss is left."""
    c = np.array([chance, 0.0, 0.0])
    start = np.array([size, size, 0, 0, size if p > 2 else 1])
    half = lambda x: LEFT / 2 - loss(x, p, c)  # noqa: E731
    return gradient_flow(lambda x: gradient(x, p, c, decay), start, 1e6, events=[half], stop_at=0)


def waiting_time() -> PageModel:
    """Loss against time for a start of any size, on symmetric, few or fresh prompts and with weight decay, and how the wait grows, beside the laws."""
    goal = 1 - np.sqrt(LEFT)
    data = {"degrees": DEGREES, "sizes": PAGE_SIZES, "counts": PAGE_COUNTS, "decays": DECAYS, "left": LEFT}
    data |= {"mean": MEAN, "rate": PAGE_RATE, "chance": rate_of_chance(1) / 2, "most": MOST_RUN}  # the loss is halved
    data |= {"two": np.log(goal / (1 - goal)) / 2, "begin": BEGIN | {"kept": BEGIN | {"size": 0.1}}}

    def still() -> Figure:
        fig, ax = style.figure(height=2.9)
        sizes = np.geomspace(*PAGE_SIZES, 12)
        for p, colour in zip(DEGREES, (style.PALETTE[k] for k in (0, 2, 1)), strict=True):
            waits = np.array([product_flow(p, size).first() for size in sizes])
            ax.plot(1 / sizes, waits, color=colour, label=f"{p} factors")
            law = np.log(1 / sizes) if p == 2 else sizes ** (2.0 - p)
            ax.plot(1 / sizes, law / law[0] * waits[0], ":", color=style.INK, lw=1)
        chance = [product_flow(4, size, rate_of_chance(128) / 2).first() for size in sizes]
        ax.plot(1 / sizes, chance, "--", color=style.PALETTE[1], label="4, on 128 prompts")
        ax.set(xscale="log", yscale="log", xlabel=r"$1/\epsilon$", ylabel="wait until half of the loss is left")
        ax.legend(fontsize=8)
        return fig

    alt = "Waits of two, three and four factors against one over the size, a logarithm and powers one and two; on 128 prompts four factors leave the power."
    title = "A product of small factors waits: choose how many, how small, on which prompts"
    description = (
        "The smaller the start, the longer the wait. Loss (1 − P)²/2 of a product P of p factors of size ε. "
        f"On N prompts drawn once two of them also fit a correlation by chance, {rate_of_chance(1) / 2:.2f}/√N in root mean square for d = {REGRESSION.d} and {REGRESSION.L} examples. SGD on N fresh prompts (rate {PAGE_RATE:g}) keeps to the law up to the time drawn. "
        "Weight decay λ stops small starts for good: law and mark vanish. Try: four factors, N drawn once, from 32,768 prompts to 32; symmetric prompts, λ from none to 0.1."
    )
    return PageModel("waiting_time", data, still, alt, title, description)


# -- two heads of attention -------------------------------------------------------------------------------------------------

#: Sizes of the start, as factors on PyTorch's default; seeds; heads at first and at most; prompts a step; steps at most.
SIZES, SEEDS, HEADS, MOST_HEADS, BATCH, MOST = (1.0, 0.5, 0.25, 0.125, 0.0625), (0, 1, 2), 2, 4, 64, 20_000
#: Factors that must grow together before the answer depends on the query: keys, queries, values, outputs.
DEGREE = 4
#: Sizes from here on are small: the law is compared with these.
SMALL = 0.5
RULES = {"plain": (Sgd(), 0.3, (0.1, 0.5)), "adam": (Adam(), 0.003, (0.001, 0.01))}
NAMES = {"plain": "plain gradient descent", "adam": "Adam"}


def level(task: LinearRegression) -> float:
    """The loss at which a wait ends: halfway between answering 0 and one head's best."""
    return (1 + task.noise_var + true_loss.single_head_exact(task.d, task.L, task.noise_var).loss) / 2


def marks(most: int) -> list[int]:
    """Steps at which a mean loss is taken, over a sixteenth of the steps so far and at least eight."""
    found = [0]
    while found[-1] <= most:
        found.append(found[-1] + max(8, found[-1] // 16))
    return found


def measured(
    task: LinearRegression, rule: str, sizes: tuple[float, ...], seed: int, most: int
) -> tuple[Array, Array, list[float]]:
    """Of starts of these sizes, trained by the library: steps ``(T,)``, mean losses ``(T, R)`` around them, and the first steps with a loss below :func:`level`, NaN
    where ``most`` steps are too few."""
    optimiser, rate, _ = RULES[rule]
    runs = tuple(Run(seed, rate=rate, init_scale=size) for size in sizes)
    group = Group(rule, Attention, {"d": task.d, "n_heads": HEADS}, runs, optimiser=optimiser)
    record = marks(most)
    history = Trainer(task, [group], record[-1], BATCH, record=record, device="cpu").train(progress=False)[rule]
    steps, losses = (history.steps[1:] + history.steps[:-1]) / 2, history.loss[1:]
    ends = [float(steps[below.argmax()]) if below.any() else float("nan") for below in (losses < level(task)).T]
    return steps, losses, ends


def stored_run(task: LinearRegression) -> dict[str, list]:
    """Waits of the first seed from four sizes by both rules, as ``found``, and the loss of plain gradient descent from the smallest of them, as ``path``."""
    found, path, seed = [], [], SEEDS[0]
    for rule, most in (("plain", 1_600), ("adam", 400)):
        steps, losses, ends = measured(task, rule, SIZES[:4], seed, most)
        waited = zip(SIZES, ends, strict=False)
        found += [{"seed": seed, "size": size, "rule": rule, "wait": wait} for size, wait in waited if wait == wait]
        if rule == "plain":
            path = np.stack([steps, losses[:, -1]], -1)[steps <= ends[-1]].round(4)
    return {"found": found, "path": path}


def growth(found: list[dict], rule: str) -> float:
    """Factor by which the wait grows from one small size to the next half."""
    small = {one["size"]: one["wait"] for one in found if one["rule"] == rule and one["size"] <= SMALL}
    return float((small[min(small)] / small[max(small)]) ** (1 / (len(small) - 1)))


def train_waits(task: LinearRegression) -> PageModel:
    """Waits against the size of the start, measured while the reader looks on, beside the law of :data:`DEGREE` factors."""
    layout = task.layout()
    stored = stored_run(task)
    found = stored["found"]
    data = {
        "stored": stored,
        "run": {"L": task.L, "noise": layout.noise_scale, "beta": layout.beta_scale},
        "states": {str(seed): generator(seed, INIT).initial_seed() & 0xFFFFFFFF for seed in SEEDS},
        "begin": {"heads": HEADS},
        "heads": MOST_HEADS,
        "batch": BATCH,
        "sizes": SIZES,
        "small": SMALL,
        "seeds": SEEDS,
        "most": MOST,
        "level": level(task),
        "degree": DEGREE,
        "rates": {rule: rate for rule, (_, rate, _) in RULES.items()},
        "limits": {rule: limits for rule, (_, _, limits) in RULES.items()},
        "names": NAMES,
    }

    def still() -> Figure:
        fig, ax = style.figure(1, height=3.0)
        for rule, colour in (("plain", "positive"), ("adam", "negative")):
            sizes, ends = np.array([(one["size"], one["wait"]) for one in found if one["rule"] == rule]).T
            ax.plot(1 / sizes, ends, "o", color=style.COLOURS[colour], label=NAMES[rule])
            if rule == "plain":
                law = sizes ** (2.0 - DEGREE)
                height = np.median((ends / law)[sizes <= SMALL])
                ax.plot(1 / sizes, height * law, "--", color=style.COLOURS["gd"], label=f"law of {DEGREE} factors")
        ax.set(xscale="log", yscale="log", xlabel="1/ε, one over the size of the start", ylabel="wait, steps")
        ax.legend(fontsize=8)
        return fig

    alt = "Wait against one over the size of the start: under plain gradient descent it grows fourfold with each halving, under Adam hardly."
    title = "Does the wait survive fresh prompts, and Adam?"
    description = (
        "Once the start is small: half the start, four times the wait; under Adam hardly longer. The picture shows a stored run. Press Measure again: two heads are trained from each start in turn, on fresh prompts. ε is a factor on PyTorch's default start. "
        "A wait ends when the loss is halfway to one head's best. Try: Measure again, then another rate for Adam."
    )
    plain, adam = (growth(found, rule) for rule in RULES)
    says = (
        f"With each halving from ε = {SMALL:g} on plain gradient descent waits {plain:.1f} times as long (mean); the law says {(SIZES[-2] / SIZES[-1]) ** (DEGREE - 2):.0f}. "
        f"Adam waits {adam:.1f} times as long: its steps are as large however small the gradient is."
    )
    return PageModel("train_waits", data, still, alt, title, description, says)
