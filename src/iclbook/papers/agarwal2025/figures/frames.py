"""The chapter's sliders, and their frames."""

from __future__ import annotations

import itertools

from ....sliders import Slider, show
from ..runs import short, toy
from .chain import slider_race
from .toy import slider_attention


def show_attention(few: bool) -> None:
    """Attention of a toy run by initial scale and training step; ``few`` draws the ends of each slider only."""
    steps, scales = ((0, 100), (0.1, 1.0)) if few else ((0, 20, 40, 60, 80, 100), (0.1, 0.3, 0.6, 1.0))
    runs: dict[float, toy.Ensemble] = {}

    def frame(scale: float, step: float):
        if scale not in runs:
            runs[scale] = toy.train(range(12), scale, 0.1)
        return slider_attention(runs[scale], 5, round(step), scale)

    show(
        frame,
        [
            Slider("scale", "initial scale", scales, live=(0.03, 1.5, 0.1), log=True),
            Slider("step", "training step", steps, live=(0, 100, 1)),
        ],
        title="Attention of a toy run",
        description="One seed, learning rate 0.1. The larger the initial entries, the sooner attention sharpens.",
        alt=lambda scale, step: f"Attention map and loss at step {step} from initial scale {scale}.",
        play="step",
    )


def show_race(few: bool) -> None:
    """The schedule, SGD and one rate for everything on a short chain, by the ratio of rates and the chance to stay."""
    ratios, stays = ((1.0, 10.0), (0.0, 0.3)) if few else ((1.0, 3.0, 10.0, 30.0), (0.0, 0.3, 0.6, 0.9))
    settings = tuple(itertools.product(ratios, stays))
    known = dict(zip(settings, short.races(settings), strict=True))

    def frame(ratio: float, stay: float):
        found = known[ratio, stay] if (ratio, stay) in known else short.race(ratio, stay)
        return slider_race(found, ratio, stay)

    show(
        frame,
        [
            Slider("ratio", "ratio η_V / η", ratios, live=(1.0, 100.0, 0.1), log=True),
            Slider("stay", "chance to stay", stays, live=(0.0, 0.95, 0.05)),
        ],
        start={"ratio": 10.0, "stay": 0.3},
        title="The schedule on a short chain",
        description=(
            "150 symbols, base rate 0.02, one seed; so short a sequence can be learned by heart, below the floor. "
            "Green: the schedule's value rate for all."
        ),
        alt=lambda ratio, stay: (
            f"Loss against step for rate ratio {ratio} on a chain that stays with chance {stay}."
        ),
    )
