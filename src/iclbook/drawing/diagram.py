"""A diagram of an attention head: tokens, scores, weights, values and answer, with a chapter's letters; pointing at a number shows where it comes from."""

from html import escape

import numpy as np
from IPython import get_ipython
from IPython.display import display

from ..formulas import html, plain

#: Scores and values of four tokens that are drawn, and the look of the row: it wraps on narrow screens, in the colour of the text.
SCORES, VALUES = np.array([1.2, -0.6, 0.5, -1.1]), np.array([0.9, -0.4, 0.5, -0.8])
LOOK = "display:flex;flex-wrap:wrap;gap:.5rem 1.25rem;justify-content:center;margin:1rem 0"
STEPS = ("tokens", "scores", "weights", "values", "answer")


def show_attention(softmax: bool = True, **steps: tuple[str, str]) -> None:
    """Show the diagram, as ``tokens=(r"z_i = (x_i, y_i)", "A pair of the prompt.")`` and so on for each of :data:`STEPS`: a formula as TeX, and a sentence.

    Args:
        softmax: whether the drawn weights are a softmax of the scores, or the scores over their number.
    """
    weights = np.exp(SCORES) / np.exp(SCORES).sum() if softmax else SCORES / len(SCORES)
    numbers = (np.full(4, 0.75), SCORES, weights, VALUES, np.array([weights @ VALUES]))
    boxes = "".join(_box(step, drawn, *steps[step]) for step, drawn in zip(STEPS, numbers, strict=True))
    text = f"[diagram: {' > '.join(STEPS)}]"
    if get_ipython() is None:
        return print(text)
    display({"text/html": f'<div class="iclbook-diagram" style="{LOOK}">{boxes}</div>', "text/plain": text}, raw=True)


def _box(step: str, numbers: np.ndarray, formula: str, sentence: str) -> str:
    """One step: a bar for each token, full above the line and open below it, then its name and its formula."""
    says, bars = escape(plain(f"{step}: ${formula}$. {sentence}")), ""
    for i, number in enumerate(numbers):
        x, y, height = 60 - 14 * len(numbers) + 28 * i, 32 - max(number, 0) * 22, abs(number) * 22 + 1
        title = says if step == "tokens" else f"{number:.2f}, {says}"
        bars += f'<g><title>{title}</title><rect x="{x}" y="{y:.1f}" width="16" height="{height:.1f}" rx="{8 if step == "tokens" else 2}" '
        bars += f'fill="{"currentColor" if number > 0 else "none"}" stroke="currentColor"/></g>'
    arrow = '<path d="M4 32.5H117l-5-3m5 3l-5 3" fill="none" stroke="currentColor" opacity=".4"/>'
    picture = f'<svg viewBox="0 0 120 62" role="img" aria-label="{says}">{arrow}{bars}</svg>'
    return f'<div title="{says}" style="text-align:center;width:7.5rem">{picture}<strong>{step}</strong><br>{html(f"${formula}$")}</div>'
