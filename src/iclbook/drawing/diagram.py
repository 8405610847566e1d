"""A diagram of an attention head: tokens, scores, weights, values and answer, with a chapter's letters; pointing at a number shows where it comes from."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from IPython.display import display

from ..formulas import html, plain

#: Scores and values of four tokens that are drawn.
SCORES, VALUES = np.array([1.2, -0.6, 0.5, -1.1]), np.array([0.9, -0.4, 0.5, -0.8])
STEPS = ("tokens", "scores", "weights", "values", "answer")


class Diagram:
    """Five small pictures in a row, which wraps on narrow screens: inline SVG in the colour of the text.

    Args:
        steps: of each of :data:`STEPS` a name, its formula as TeX, and a sentence.
        softmax: whether the drawn weights are a softmax of the scores, or the scores over their number.
    """

    def __init__(self, steps: Mapping[str, tuple[str, str, str]], softmax: bool = True) -> None:
        self.steps = {step: steps[step] for step in STEPS}
        self.weights = np.exp(SCORES) / np.exp(SCORES).sum() if softmax else SCORES / len(SCORES)

    def _repr_html_(self) -> str:
        drawn = (np.full(4, 15 / 22), SCORES, self.weights * 2, VALUES, np.array([self.weights @ VALUES]))
        boxes = [self._box(step, heights) for step, heights in zip(STEPS, drawn, strict=True)]
        look = "display:flex;flex-wrap:wrap;gap:.5rem 1.25rem;justify-content:center;margin:1rem 0"
        return f'<div class="iclbook-diagram" style="{look}">{"".join(boxes)}</div>'

    def _box(self, step: str, heights: Sequence[float]) -> str:
        name, formula, sentence = self.steps[step]
        left, bars = 60 - 14 * len(heights), ""
        for i, height in enumerate(heights):
            x, says = left + 28 * i, f"{name} {i + 1}: {self._number(step, i)}"
            bar = f'<rect x="{x}" y="{32 - max(height, 0) * 22:.1f}" width="16" height="{abs(height) * 22 + 1:.1f}" rx="{8 if step == STEPS[0] else 2}"'
            fill = "currentColor" if height > 0 else "none"
            bars += f'<g><title>{escape(plain(says))}</title>{bar} fill="{fill}" stroke="currentColor"/></g>'
        says = escape(plain(f"{name}: ${formula}$. {sentence}"))
        return (
            f'<div title="{says}" style="text-align:center;width:7.5rem"><svg viewBox="0 0 120 62" role="img" aria-label="{says}">'
            f'<path d="M4 32.5H117l-5-3m5 3l-5 3" fill="none" stroke="currentColor" opacity=".4"/>{bars}</svg><strong>{html(name)}</strong><br>{html(f"${formula}$")}</div>'
        )

    def _number(self, step: str, i: int) -> str:
        sentence = self.steps[step][2]
        numbers = {"scores": SCORES, "weights": self.weights, "values": VALUES, "answer": [self.weights @ VALUES]}
        return f"{numbers[step][i]:.2f}. {sentence}" if step in numbers else sentence

    def __repr__(self) -> str:
        return f"[diagram: {' > '.join(name for name, *_ in self.steps.values())}]"


def show_attention(softmax: bool = True, **steps: tuple[str, str, str]) -> None:
    """Show the diagram: ``tokens=("tokens", r"z_i = (x_i, y_i)", "A token is a pair.")`` and so on for each of :data:`STEPS`."""
    display(Diagram(steps, softmax))
