"""Waits of small starts, trained in the page: a product of factors, whose flow is known up to one integral; attention, by plain gradient descent and by Adam."""

import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import quad
from scipy.optimize import brentq

from ...draw import numpy_rng
from ...drawing import style
from ...models import Attention
from ...random import INIT, generator
from ...sliders import PageModel
from ...tasks import LinearRegression
from ...training import Adam, Group, Run, Sgd, Trainer, gradient_flow
from ..he2025 import true_loss

Array = np.ndarray

# -- the simplest loss that waits: a product of p factors should be one ------------------------------------------------------


def loss(x: Array) -> Array:
    """``(1 - x1 x2 ... xp)^2 / 2`` of factors ``x (..., p)``."""
    return (1 - np.prod(x, axis=-1)) ** 2 / 2


def gradient(x: Array) -> Array:
    """Its gradient ``(p,)`` at ``x (p,)``."""
    others = np.array([np.delete(x, i).prod() for i in range(len(x))])
    return -(1 - np.prod(x)) * others


def wait(start: Array, left: float = 0.5) -> float:
    """Time after which gradient flow from positive ``start (p,)`` has left the share ``left`` of the loss at zero.

    The flow conserves ``xi^2 - xj^2``, so ``xi^2 = starti^2 + s`` with one number s, and ``ds/dt = 2 P (1 - P)`` for the product P. With equal factors this is
    ``dx/dt = x^(p-1) (1 - x^p)``. The wait is the integral of ``ds / (2 P (1 - P))``, taken in the logarithm of the least square.
    """
    squares = np.asarray(start, dtype=float) ** 2
    goal, above = 1 - np.sqrt(left), squares - squares.min()

    def product(log: float) -> float:
        return float(np.sqrt(above + np.exp(log)).prod())

    first = np.log(squares.min())
    last = brentq(lambda log: product(log) - goal, first, 0.0, xtol=1e-15, rtol=1e-14)
    speed = lambda log: np.exp(log) / (2 * product(log) * (1 - product(log)))  # noqa: E731
    return float(quad(speed, first, last, epsrel=1e-11, epsabs=0, limit=400)[0])


def constant(direction: Array, size: float = 1e-7) -> float:
    """Constant that the law leaves open for starts along ``direction (p,)``: c in ``T = log(1 / eps) + c`` for two factors and in ``T = c eps^-(p - 2)`` for more."""
    found = wait(size * np.asarray(direction, dtype=float))
    return found + np.log(size) if len(direction) == 2 else found * size ** (len(direction) - 2)


#: Numbers of factors, sizes of the start that a reader may choose, and what stands there at first.
DEGREES, PAGE_SIZES = (2, 3, 4, 8), (0.01, 0.3)
BEGIN = {"degree": 3, "size": 0.05, "from": "equal", "kept": {"degree": 3, "size": 0.2, "from": "equal"}}
#: The wait ends when this share of the loss is left.
LEFT = 0.5


def directions() -> dict[str, dict[str, Array]]:
    """Starts at size one, by kind and degree: all factors equal, and each its own."""
    rng = numpy_rng(0)
    own = {str(p): rng.uniform(0.5, 1.5, p) for p in DEGREES}
    return {"equal": {str(p): np.ones(p) for p in DEGREES}, "own": own}


def waiting_time() -> PageModel:
    """Loss against time for a start of any size, and how the wait grows, beside what the degree predicts."""
    starts = directions()
    laws = {kind: {p: constant(u) for p, u in by_degree.items()} for kind, by_degree in starts.items()}
    data = {"degrees": DEGREES, "sizes": PAGE_SIZES, "left": LEFT, "starts": starts, "laws": laws, "begin": BEGIN}

    def still() -> Figure:
        fig, (left, right) = style.figure(2, height=2.9)
        for at, dashes in ((BEGIN["kept"], "--"), (BEGIN, "-")):
            start = np.full(at["degree"], at["size"])
            end = wait(start, LEFT)
            times = np.geomspace(0.1, 20 * end, 300)
            states = gradient_flow(gradient, start, times[-1], times).states
            left.plot(times, loss(states), dashes, color=style.INK, label=f"start of size {at['size']:g}")
            left.axvline(end, color=style.INK, ls=":", lw=1)
            right.plot(1 / at["size"], end, "o", color=style.INK, mfc="none" if dashes == "--" else None)
        sizes = np.geomspace(*PAGE_SIZES, 40)
        for p, colour in zip(DEGREES, (style.PALETTE[k] for k in (0, 2, 1, 3)), strict=False):
            waits = [wait(np.full(p, size), LEFT) for size in sizes]
            right.plot(1 / sizes, waits, color=colour, label=f"{p} factors")
            law = np.log(1 / sizes) if p == 2 else sizes ** (2.0 - p)
            right.plot(1 / sizes, law / law[0] * waits[0], ":", color=style.INK, lw=1)
        left.set(xscale="log", xlabel="time", ylabel="loss")
        right.set(xscale="log", yscale="log", xlabel=r"$1/\epsilon$", ylabel="wait until half is left")
        left.legend(fontsize=8, loc="center left")
        right.legend(fontsize=8)
        return fig

    alt = "Left: loss of three factors against time; from a quarter of the size the plateau is several times as long. Right: waits of two, three, four and eight factors against one over the size, a logarithm and powers one, two and six."
    title = "A product of small factors waits: choose how many, and how small"
    description = (
        "The smaller the start and the more factors, the longer the wait. Gradient flow of the loss (1 − x₁x₂⋯xₚ)²/2 from factors of size ε. The plateau ends at the vertical line, when half of the loss is gone. "
        "Dotted: the predicted growth, log(1/ε) for two factors and the power p − 2 of 1/ε for more. "
        "Try: keep a curve, then halve the size."
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


def measured(task: LinearRegression, rule: str, sizes: tuple[float, ...], seed: int, most: int) -> tuple[Array, Array]:
    """Steps ``(T,)`` and mean losses ``(T, R)`` around them, by the library, for starts of these sizes."""
    optimiser, rate, _ = RULES[rule]
    runs = tuple(Run(seed, rate=rate, init_scale=size) for size in sizes)
    group = Group(rule, Attention, {"d": task.d, "n_heads": HEADS}, runs, optimiser=optimiser)
    record = marks(most)
    history = Trainer(task, [group], record[-1], BATCH, record=record, device="cpu").train(progress=False)[rule]
    return (history.steps[1:] + history.steps[:-1]) / 2, history.loss[1:]


def waits(task: LinearRegression, rule: str, sizes: tuple[float, ...], seed: int, most: int) -> list[float]:
    """Steps until the mean loss is below :func:`level`, for starts of these sizes; NaN where ``most`` steps are too few."""
    steps, losses = measured(task, rule, sizes, seed, most)
    return _ends(steps, losses, level(task))


def _ends(steps: Array, losses: Array, level: float) -> list[float]:
    return [float(steps[below.argmax()]) if below.any() else float("nan") for below in (losses < level).T]


def stored_run(task: LinearRegression) -> dict[str, list]:
    """Waits of the first seed from four sizes by both rules, as ``found``, and the loss of plain gradient descent from the smallest of them, up to its end, as ``path``."""
    sizes, found, path = SIZES[:4], [], []
    for rule, most in (("plain", 1_600), ("adam", 400)):
        steps, losses = measured(task, rule, sizes, SEEDS[0], most)
        ends = _ends(steps, losses, level(task))
        found += [
            {"seed": SEEDS[0], "size": s, "rule": rule, "wait": w} for s, w in zip(sizes, ends, strict=True) if w == w
        ]
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
        "Half the start, four times the wait; under Adam hardly longer. The picture shows a stored run. Press Measure again: two heads are trained from each start in turn, on fresh prompts. ε is a factor on PyTorch's default start. "
        "A wait ends when the loss is halfway to one head's best. Try: Measure again, then another rate for Adam."
    )
    plain, adam = (growth(found, rule) for rule in RULES)
    says = (
        f"From half the size plain gradient descent waits {plain:.1f} times as long; the law says {(SIZES[-2] / SIZES[-1]) ** (DEGREE - 2):.0f}. "
        f"Adam waits {adam:.1f} times as long: its steps are as large however small the gradient is."
    )
    return PageModel("train_waits", data, still, alt, title, description, says)
