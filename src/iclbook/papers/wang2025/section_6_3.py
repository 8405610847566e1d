"""Section 6.3: what the language models of :mod:`iclbook.papers.wang2025.language` end at, in nats a token of held-out text, and figure 14's order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from ...drawing import style
from ...statistics import Estimate, ratio_terms, standard_error, widened_error
from ...store import Results
from .language import MODELS

#: Held-out windows that follow one another are alike: errors are taken over blocks of so many.
BLOCK = 16
LABELS = {
    "gd": "GD",
    "gd-ff": "GD, feed-forward",
    "gd-no-p": "GD without $P_m$",
    "tf": "Transformer",
    "tf-no-ff": "Transformer without feed-forward",
}


def losses(get: Callable[[str], Results]) -> dict[str, np.ndarray]:
    """Model -> nats a token of each record, run and block of held-out windows, ``(T, R, n)``."""
    found = {}
    for name in MODELS:
        nll = get(f"language_{name.replace('-', '_')}").group(name)["nll"].astype(float)
        blocks = nll.shape[-1] // BLOCK
        found[name] = nll[..., : blocks * BLOCK].reshape(*nll.shape[:2], blocks, BLOCK).mean(-1)
    return found


def difference(a: np.ndarray, b: np.ndarray) -> Estimate:
    """Mean of ``a - b``, ``(R, n)`` each, paired by run and block: the errors of few runs and of the held-out text, added in squares."""
    apart = a - b
    errors = widened_error(apart.mean(1)), standard_error(apart.mean(0))
    return Estimate(float(apart.mean()), float(np.hypot(*errors)))


def share(above: np.ndarray, below: np.ndarray) -> Estimate:
    """``mean(above) / mean(below)``, ``(R, n)`` each, paired by run and block, with the same two errors to first order."""
    runs, blocks = (ratio_terms(above.mean(axis), below.mean(axis)) for axis in (1, 0))
    error = np.hypot(widened_error(runs), standard_error(blocks))
    return Estimate(float(above.mean() / below.mean()), float(error))


def records(get: Callable[[str], Results]) -> dict[str, object]:
    """``text/...``: where each model ends, how far GD is behind, and what share of that feed-forward leaves."""
    ends = {name: nll[-1] for name, nll in losses(get).items()}
    return {
        "text/seeds": len(ends["gd"]),
        "text/gd_behind": difference(ends["gd"], ends["tf"]),
        "text/ff_left": share(ends["gd-ff"] - ends["tf"], ends["gd"] - ends["tf"]),
        "text/gd_without_ff": difference(ends["gd"], ends["tf-no-ff"]),
        "text/p_is_worth": difference(ends["gd-no-p"], ends["gd"]),
    }


def plot(get: Callable[[str], Results]) -> Figure:
    """Loss on held-out text along training, mean of the runs, and where every run ends."""
    fig, (curves, ends) = style.figure(2)
    steps = get("language_gd").group("gd")["steps"]
    found = losses(get)
    order = sorted(found, key=lambda name: found[name][-1].mean())
    for name, colour in zip(MODELS, style.PALETTE, strict=False):
        nll = found[name].mean(-1)  # (T, R)
        look = {"color": colour, "ls": "-" if name.startswith("gd") else "--"}
        curves.plot(steps[1:], nll[1:].mean(1), marker=".", **look)
        row = order.index(name)
        ends.plot(nll[-1], np.full(nll.shape[1], row), "o", ms=4, color=colour)
    ends.set_yticks(range(len(order)), [LABELS[name] for name in order])
    ends.set(xlabel="nats a token at the end", ylim=(len(order) - 0.5, -0.5))
    for label, name in zip(ends.get_yticklabels(), order, strict=True):
        label.set_color(style.PALETTE[list(MODELS).index(name)])
    curves.set(xlabel="step", ylabel="nats a token, held out")
    return fig
