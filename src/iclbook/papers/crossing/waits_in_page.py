"""Waits of attention from small starts, trained in the page: plain gradient descent on fresh prompts, and Adam."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ...drawing import style
from ...models import Attention
from ...random import INIT, generator
from ...sliders import PageModel
from ...tasks import LinearRegression
from ...training import Adam, Group, Run, Sgd, Trainer
from ..he2025 import true_loss

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


def waits(
    task: LinearRegression, rule: str, sizes: tuple[float, ...], seed: int, most: int, n_heads: int = HEADS
) -> list[float]:
    """Steps until the mean loss is below :func:`level`, for starts of these sizes, by the library; NaN where ``most`` steps are too few."""
    optimiser, rate, _ = RULES[rule]
    runs = tuple(Run(seed, rate=rate, init_scale=size) for size in sizes)
    group = Group(rule, Attention, {"d": task.d, "n_heads": n_heads}, runs, optimiser=optimiser)
    record = marks(most)
    history = Trainer(task, [group], record[-1], BATCH, record=record, device="cpu").train(progress=False)[rule]
    below = history.loss < level(task)  # (T, R); NaN at step 0
    middle = (history.steps[1:] + history.steps[:-1]) / 2
    return [float(middle[b[1:].argmax()]) if b.any() else float("nan") for b in below.T]


def train_waits(task: LinearRegression) -> PageModel:
    """Waits against the size of the start, measured while the reader looks on, beside the law of :data:`DEGREE` factors."""
    layout = task.layout()
    data = {
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
        sizes = np.array(SIZES[:4])
        fig, ax = style.figure(1, height=3.0)
        for rule, colour in (("plain", "positive"), ("adam", "negative")):
            found = np.array(waits(task, rule, SIZES[:4], SEEDS[0], 1_600 if rule == "plain" else 400))
            ax.plot(1 / sizes, found, "o", color=style.COLOURS[colour], label=NAMES[rule])
            if rule == "plain":
                height = np.nanmedian((found * sizes ** (DEGREE - 2))[sizes <= SMALL])
                ax.plot(
                    1 / sizes,
                    height / sizes ** (DEGREE - 2),
                    "--",
                    color=style.COLOURS["gd"],
                    label=f"law of {DEGREE} factors",
                )
        ax.set(xscale="log", yscale="log", xlabel="1/ε, one over the size of the start", ylabel="wait, steps")
        ax.legend(fontsize=8)
        return fig

    alt = "Wait against one over the size of the start: under plain gradient descent it grows fourfold with each halving, under Adam hardly."
    title = "Does the wait survive fresh prompts, and Adam?"
    description = (
        "Half the start, four times the wait; under Adam hardly longer. Press Measure: two heads are trained from four starts in turn, on fresh prompts. ε is a factor on PyTorch's default start. "
        "A wait ends when the loss is halfway to one head's best. Try: Measure, then another rate for Adam."
    )
    return PageModel("train_waits", data, still, alt, title, description)
