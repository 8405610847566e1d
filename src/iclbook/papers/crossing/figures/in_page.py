"""The wait that runs in the page: gradient flow of a product of factors, from any size and for several degrees."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ....sliders import PageModel
from ....training import gradient_flow
from ..theory import product

#: Numbers of factors, sizes of the start that a reader may choose, and what stands there at first.
DEGREES, SIZES = (2, 3, 4, 8), (0.01, 0.3)
BEGIN = {"degree": 3, "size": 0.05, "from": "equal", "kept": {"degree": 3, "size": 0.2, "from": "equal"}}
#: The wait ends when this share of the loss is left.
LEFT = 0.5


def directions() -> dict[str, dict[str, np.ndarray]]:
    """Starts at size one, by kind and degree: all factors equal, and each its own."""
    rng = np.random.default_rng(0)
    own = {str(p): rng.uniform(0.5, 1.5, p) for p in DEGREES}
    return {"equal": {str(p): np.ones(p) for p in DEGREES}, "own": own}


def waiting_time() -> PageModel:
    """Loss against time for a start of any size, and how the wait grows, beside what the degree predicts."""
    starts = directions()
    laws = {
        kind: {p: product.constant(u) for p, u in by_degree.items()} for kind, by_degree in starts.items()
    }
    data = {"degrees": DEGREES, "sizes": SIZES, "left": LEFT, "starts": starts, "laws": laws, "begin": BEGIN}

    def still() -> Figure:
        fig, (left, right) = style.figure(2, height=2.9)
        for at, dashes in ((BEGIN["kept"], "--"), (BEGIN, "-")):
            start = np.full(at["degree"], at["size"])
            wait = product.wait(start, LEFT)
            times = np.geomspace(0.1, 20 * wait, 300)
            states = gradient_flow(product.gradient, start, times[-1], times).states
            label = f"start of size {at['size']:g}"
            left.plot(times, product.loss(states), dashes, color=style.INK, label=label)
            left.axvline(wait, color=style.INK, ls=":", lw=1)
            right.plot(1 / at["size"], wait, "o", color=style.INK, mfc="none" if dashes == "--" else None)
        sizes = np.geomspace(*SIZES, 40)
        for p, colour in zip(DEGREES, style.PALETTE, strict=False):
            waits = [product.wait(np.full(p, size), LEFT) for size in sizes]
            right.plot(1 / sizes, waits, color=colour, label=f"{p} factors")
        left.set(xscale="log", xlabel="time", ylabel="loss")
        right.set(xscale="log", yscale="log", xlabel=r"$1/\epsilon$", ylabel="wait until half is left")
        left.legend(fontsize=8)
        right.legend(fontsize=8)
        return fig

    alt = "Left: loss of three factors against time; from a quarter of the size the plateau is several times as long. Right: waits of two, three, four and eight factors against one over the size, a logarithm and powers one, two and six."
    title = "A product of small factors waits: choose how many, and how small"
    description = (
        "Gradient flow of the loss (1 − x₁x₂⋯xₚ)²/2 from factors of size ε. The plateau ends at the vertical line, when half of the loss is gone. "
        "Dotted: the predicted growth, log(1/ε) for two factors and the power p − 2 of 1/ε for more. "
        "Keep a curve, then move the size, and compare."
    )
    return PageModel("waiting_time", data, still, alt, title, description)
