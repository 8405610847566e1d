"""Sliders over functional gradient descent on one context of the quadrants, and the square of labels that a trained block answers."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ...draw import numpy_rng
from ...drawing import style
from ...models.functional_gd import FunctionalGD
from ...models.kernels import KERNELS, kernel_values, relate
from ...sliders import PageModel, Slider, show
from ...store import Results
from ...tasks.categorical import Quadrants
from .contexts import sample_contexts, stopped_parameters
from .descent import functional_descent
from .figures_8_and_9 import GRID, grid, model_of_run, over_points

#: Step of the descent for each kernel, in units that move f by about 1 a step.
RATES = {"linear": 3.0, "rbf": 12.0, "laplacian": 15.0, "exponential": 1.0, "softmax": 2.0}
#: What a picture of free descent is, for readers who do not see it.
ALT = "Maps of the predicted probabilities over the square"
#: Labels of the first picture for each of four categories, and the seed of their places.
EACH, SEED = 6, 3
#: Colours of the four categories, as in the page, and of all others.
COLOURS = (style.PALETTE[0], style.PALETTE[3], style.PALETTE[2], style.PALETTE[5])
OTHER = "#777777"
SQUARE = {"origin": "lower", "extent": (-1, 1, -1, 1), "interpolation": "nearest"}


@lru_cache(maxsize=1)
def _examples() -> Tensor:
    """One context ``(400, 3)`` for all pictures, whose four quadrants have different most probable categories that two steps find."""
    return sample_contexts(Quadrants(N=400), 36, 31).context[..., -1].double()


@torch.no_grad()
def free_map(kernel: str, gamma: float, n: int, blocks: int, rate: float) -> tuple[np.ndarray, Tensor]:
    """Functional GD with the true W_e on the first ``n`` examples of one context: ``p (C, GRID, GRID)``, examples ``(n, 3)``."""
    w, tokens = Quadrants().embedding.double(), _examples()[:n]
    x, y = tokens[:, :2], tokens[:, 2].long()
    relation = relate(KERNELS[kernel], torch.cat([x, grid()]), x)
    kappa = kernel_values(kernel, relation, gamma).T
    f = functional_descent([kappa], y, w, (rate,) * blocks, mean=kernel != "softmax")[-1]
    return torch.softmax(f[n:] @ w, dim=-1).T.reshape(-1, GRID, GRID).numpy(), tokens


def most_seen() -> list[int]:
    """The four categories that the context shows most often, whatever part of it a picture takes."""
    return np.bincount(_examples()[:, 2].long()).argsort(kind="stable")[::-1][:4].tolist()


def _maps(p: np.ndarray, tokens: Tensor, title: str) -> Figure:
    """Left: the likeliest category of each place; right: the probability of the category seen most often. The four categories most often seen in the whole context have a colour each."""
    labels, points = tokens[:, 2].long().numpy(), tokens[:, :2].numpy()
    shown = most_seen()
    fig, axes = style.figure(2, width=6.4, height=3.2)
    colour_regions(axes[0], p, shown)
    axes[1].imshow(p[shown[0]], cmap=style.strength(COLOURS[0]), vmin=0, vmax=1, **SQUARE, label=f"category {shown[0]}")
    for ax, name in zip(axes, ("likeliest category", f"probability of category {shown[0]}"), strict=True):
        for category, colour in zip((*shown, None), (*COLOURS, OTHER), strict=True):
            own = ~np.isin(labels, shown) if category is None else labels == category
            ax.plot(*points[own].T, "o", ms=4, color=colour, mec="white", mew=0.6)
        ax.set(title=name, xticks=(-1, 0, 1), yticks=(-1, 0, 1))
        ax.grid(False)
        ax.axhline(0, color=style.INK, lw=0.6)
        ax.axvline(0, color=style.INK, lw=0.6)
    fig.suptitle(f"{title}; dots: the examples", fontsize=9.5)
    return fig


def colour_regions(ax: Axes, p: np.ndarray, categories: Sequence[int]) -> None:
    """Likeliest category of each place of the square by ``p (C, GRID, GRID)``: its hue says which (grey: none of these), its strength how probable."""
    likeliest = p.argmax(0)
    for category, colour in zip((*categories, None), (*COLOURS, OTHER), strict=True):
        outside = np.isin(likeliest, categories) if category is None else likeliest != category
        label = "another category" if category is None else f"category {category}"
        ax.imshow(
            np.ma.masked_where(outside, p.max(0)), cmap=style.strength(colour), vmin=0, vmax=1, **SQUARE, label=label
        )


def show_blocks(few: bool) -> None:
    """Number of blocks and context size, RBF with gamma = 8."""

    def frame(blocks: int, n: int) -> Figure:
        title = f"RBF, γ = 8, {blocks} block{'s' * (blocks > 1)}, N = {n}"
        return _maps(*free_map("rbf", 8.0, n, blocks, RATES["rbf"]), title)

    show(
        frame,
        [
            Slider("blocks", "blocks K", [1, 2] if few else [1, 2, 4, 8], live=(1, 12, 1)),
            Slider("n", "examples N", [10, 100] if few else [10, 30, 100, 300], live=(5, 400, 5)),
        ],
        start={"blocks": 2, "n": 10 if few else 300},
        title="Gradient steps and context size",
        description="With 300 examples of one context two gradient steps find its four regions. The hue is the likeliest category, its strength the probability. Try: the first ten examples, "
        "N = 10: a region is missing at any K; then N = 300 and K = 8: single labels leave their marks.",
        alt=lambda blocks, n: f"{ALT} after {blocks} blocks with {n} examples.",
    )


def show_kernels(few: bool) -> None:
    """Kernel and its precision, two blocks, N = 100."""
    kernels = ["rbf", "linear"] if few else list(KERNELS)

    def frame(kernel: str, gamma: float) -> Figure:
        rate = RATES[kernel] / (np.exp(gamma) if kernel == "exponential" else 1)
        name = "RBF" if kernel == "rbf" else kernel
        return _maps(*free_map(kernel, gamma, 100, 2, rate), f"{name}, γ = {gamma:g}, 2 blocks, N = 100")

    show(
        frame,
        [
            Slider("kernel", "kernel", kernels),
            Slider("gamma", "precision γ", [1.0, 8.0] if few else [1.0, 3.0, 8.0, 30.0], live=(0.5, 40.0, 0.5)),
        ],
        start={"kernel": "rbf", "gamma": 8.0},
        title="Kernel and precision",
        description="The larger γ, the narrower the kernel (the linear kernel has no γ). With RBF and γ = 8 two steps find the four regions. Try, with RBF: γ = 30: the probability is high near examples only; γ = 1: the borders are smooth and misplaced.",
        alt=lambda kernel, gamma: f"{ALT}, kernel {kernel}, gamma {gamma:g}.",
    )


# -- the square of labels ---------------------------------------------------------------------------------------------


def four_categories(embed: np.ndarray) -> list[int]:
    """Four categories that differ clearly: each time the one farthest in angle from those chosen, from the longest embedding on; ``embed (d', C)``."""
    lengths = np.linalg.norm(embed, axis=0)
    cosines = embed.T @ embed / np.outer(lengths, lengths)
    chosen = [int(lengths.argmax())]
    while len(chosen) < 4:
        chosen.append(int(cosines[chosen].max(0).argmin()))
    return chosen


def repeated(parameters: dict[str, np.ndarray], blocks: int, factor: float = 1.0) -> FunctionalGD:
    """A model (float64) that makes the trained step of one block, times ``factor``, in each of its blocks."""
    rate = factor * np.repeat(parameters["rate"].reshape(1, -1), blocks, axis=0)
    return model_of_run("softmax", parameters | {"rate": rate})


def _square(p: Tensor, points: Tensor, classes: list[int]) -> Figure:
    """The square with its labelled points ``(N, 3)``, each place in the colour of its most probable category, by probabilities ``p (C, places)``."""
    fig, ax = style.figure(width=3.6, height=3.6)
    colour_regions(ax, p.numpy().reshape(-1, GRID, GRID), classes)
    for x, y, c in points.tolist():
        which = classes.index(int(c))
        ax.plot(x, y, "o", ms=11, color=COLOURS[which], mec="white")
        ax.text(x, y, "ABCD"[which], color="white", fontsize=8, ha="center", va="center", weight="bold")
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
    return fig


def label_square(results: Results, blocks: int = 2) -> PageModel:
    """The first run trained on the quadrants with softmax attention, and labels of four of its categories, one in each quadrant."""
    parameters = {name: value[0] for name, value in stopped_parameters(results, "gd").items()}
    classes = four_categories(parameters["embed"])
    corner = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)])
    places = numpy_rng(SEED).uniform(0.08, 0.95, (4, EACH, 2)) * corner[:, None]
    points = torch.from_numpy(np.c_[places.round(2).reshape(-1, 2), np.repeat(classes, EACH)])
    data = {
        "gamma": float(np.exp(parameters["log_gamma"])),
        "rate": parameters["rate"].ravel(),
        "embed": parameters["embed"].T,
        "classes": classes,
        "points": [[x, y, int(c)] for x, y, c in points.tolist()],
        "blocks": blocks,
    }

    alt = "A square with labels A to D, one letter in each quadrant, and around them the regions in which the model holds each letter to be most probable."
    return PageModel(
        "label_square",
        data,
        lambda: _square(over_points(repeated(parameters, blocks), points, grid()), points, classes),
        alt,
        title="Place labels, and see what the model makes of them",
        description="Each block repeats the step of a model trained with one block: GD with softmax attention. The labels alone make the regions. Click into the square to place a label, drag one, or press delete on it; arrows move the one in focus, page up and down go to the next. "
        "The colour is that of the most probable of all categories (grey: none of the four), the stronger the more probable. Try: K = 1: most of B's quadrant is grey; K = 12: hardly any of it is.",
    )
