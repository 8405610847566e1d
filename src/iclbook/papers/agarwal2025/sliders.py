"""The chapter's sliders: attention of a toy run, and the schedule against SGD on a chain short enough to train while one waits."""

import itertools
from collections import namedtuple
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
import torch
from matplotlib.figure import Figure

from ...drawing import style
from ...models.single_head import SingleHead
from ...random import INIT, generator
from ...sliders import Slider, show
from ...tasks.sticky_chain import StickyChain
from . import closed_forms as closed
from . import toy_runs
from .chain_runs import INIT_SCALE, MATRICES, Data, data
from .figures_1_to_5 import plot_attention_at
from .figures_6_to_8 import COLOUR, DASH

#: The short chain: length, steps of training, base rate, seed.
T, STEPS, RATE, SEED = 150, 300, 0.02, 42
#: Loss in nats at every step of the schedule's value rate for everything, of SGD at the base rate and of the schedule; and the Bayes floor.
Race = namedtuple("Race", "uniform sgd schedule floor")


@lru_cache(maxsize=64)
def races(settings: tuple[tuple[float, float], ...]) -> tuple[Race, ...]:
    """The EM-like schedule with a ratio of rates against SGD on a chain that stays with a chance, for several ``(ratio, stay)``; runs that they share train once."""
    chains = {stay: StickyChain("nearer", stay, T) for _, stay in settings}
    own = {stay: data(chain, SEED) for stay, chain in chains.items()}
    # rates of routing and of values: the larger one for all, those of SGD and of the schedule
    arms = {ratio: ((RATE * ratio, RATE * ratio), (RATE, RATE), (RATE, RATE * ratio)) for ratio, _ in settings}
    runs = list(dict.fromkeys((stay, rates) for ratio, stay in settings for rates in arms[ratio]))
    loss = dict(zip(runs, losses([own[stay] for stay, _ in runs], [rates for _, rates in runs]), strict=True))
    floors = {stay: chain.bayes_loss(own[stay].train) for stay, chain in chains.items()}
    return tuple(Race(*(loss[stay, rates] for rates in arms[ratio]), floors[stay]) for ratio, stay in settings)


def losses(sequences: Sequence[Data], rates: Sequence[tuple[float, float]]) -> np.ndarray:
    """Mean losses ``(R, STEPS)`` before each step of runs on causal sequences, at a rate of routing and one of values."""
    x, y = (torch.stack([getattr(own.train, name) for own in sequences]) for name in "xy")
    model = SingleHead()
    model.initialise(generator(SEED, INIT), INIT_SCALE)
    start = [getattr(model, name).detach().repeat(len(x), 1, 1) for name in MATRICES]
    w, mask = closed.Weights(*start, x.new_zeros(1, 1)), closed.causal_mask(x.shape[1])
    routing, values = torch.tensor(rates).T[..., None, None] / x.shape[1]  # gradients are those of the sum
    step = dict(zip(MATRICES, (routing, routing, values, routing), strict=True))
    found = []
    for _ in range(STEPS):
        loss, d = closed.every_gradient(x, y, w, mask)
        found.append(loss.mean(-1))
        w = w._replace(**{name: getattr(w, name) - step[name] * d[name] for name in MATRICES})
    return torch.stack(found, 1).double().numpy()


def plot_race(race: Race, ratio: float, stay: float) -> Figure:
    """Loss of the schedule, of SGD and of one larger rate on a short chain."""
    fig, ax = style.figure(height=2.9)
    steps = np.arange(len(race.sgd))
    ax.plot(steps, race.schedule, color=COLOUR["em"], label="schedule")
    ax.plot(steps, race.sgd, color=COLOUR["sgd"], ls=DASH["sgd"], label="SGD")
    ax.plot(steps, race.uniform, color=COLOUR["sgd"], ls=(0, (1, 1.2)), label="larger rate\nfor all")
    style.theory_line(ax, steps[[0, -1]], [race.floor] * 2, "Bayes floor")
    title = f"$\\eta_V / \\eta$ = {ratio:g}, chance to stay {stay:g}"
    ax.set(xlabel="step", ylabel="loss (nats)", xlim=(0, steps[-1]), ylim=(0, 2.3), title=title)
    style.name_ends(ax, 0.12)
    return fig


def show_attention(few: bool) -> None:
    """Attention of a toy run by initial scale and training step; ``few`` draws the ends of each slider only."""
    steps, scales = ((0, 100), (0.1, 1.0)) if few else ((0, 20, 40, 60, 80, 100), (0.1, 0.3, 0.6, 1.0))

    run = cache(lambda scale: toy_runs.train([5], scale, 0.1))

    def frame(scale: float, step: float) -> Figure:
        others = {other: run(other).loss[:, 0] for other in scales}
        return plot_attention_at(run(scale), round(step), scale, others)

    show(
        frame,
        [
            Slider("scale", "initial scale", scales, live=(0.03, 1.5, 0.1), log=True),
            Slider("step", "training step", steps, live=(0, 100, 1)),
        ],
        start={"scale": scales[-2], "step": steps[len(steps) // 2]},
        title="Attention of a toy run",
        description="Larger initial entries learn sooner, up to a point. One seed, learning rate 0.1; grey: the other scales. Try: scale 0.1 and step 40, where attention is still near uniform and the loss has hardly fallen.",
        alt=lambda scale, step: f"Attention map and loss at step {step} from initial scale {scale}.",
        play="step",
    )


def show_race(few: bool) -> None:
    """The schedule, SGD and one rate for everything on a short chain, by the ratio of rates and the chance to stay."""
    ratios, stays = ((1.0, 10.0), (0.0, 0.3)) if few else ((1.0, 3.0, 10.0, 30.0), (0.0, 0.3, 0.6, 0.9))
    settings = tuple(itertools.product(ratios, stays))
    known = dict(zip(settings, races(settings), strict=True))

    def frame(ratio: float, stay: float) -> Figure:
        found = known.get((ratio, stay)) or races(((ratio, stay),))[0]
        return plot_race(found, ratio, stay)

    show(
        frame,
        [
            Slider("ratio", "ratio η_V / η", ratios, live=(1.0, 100.0, 0.1), log=True),
            Slider("stay", "chance to stay", stays, live=(0.0, 0.95, 0.05)),
        ],
        start={"ratio": 10.0, "stay": 0.3},
        title="The schedule on a short chain",
        description="The schedule gains on SGD, and its value rate for everything (dotted) gains far more. 150 symbols, base rate 0.02, one seed; below the floor they are learned by heart. Try: ratio 30, where the dotted line passes the floor long before the schedule.",
        alt=lambda ratio, stay: f"Loss against step for rate ratio {ratio} on a chain that stays with chance {stay}.",
    )
