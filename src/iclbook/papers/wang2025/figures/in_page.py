"""The square of labels that runs in the page: one trained block of functional gradient descent with softmax attention."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ....drawing import style
from ....models.functional_gd import FunctionalGD
from ....sliders import PageModel
from ....store import Results
from ....tasks.categorical import Quadrants
from ..measures.square import GRID, grid
from ..runs.specs import stopped_parameters

#: Labels of the first picture for each of four categories, and the seed of their places.
EACH, SEED = 6, 3
#: Colours of the four categories, as in the page.
COLOURS = (style.PALETTE[0], style.PALETTE[3], style.PALETTE[2], style.PALETTE[5])


def four_categories(embed: np.ndarray) -> list[int]:
    """Four categories that differ clearly: each time the one farthest in angle from those chosen, from the longest embedding on; ``embed (d', C)``."""
    lengths = np.linalg.norm(embed, axis=0)
    cosines = embed.T @ embed / np.outer(lengths, lengths)
    chosen = [int(lengths.argmax())]
    while len(chosen) < 4:
        chosen.append(int(cosines[chosen].max(0).argmin()))
    return chosen


def repeated(parameters: dict[str, np.ndarray], n_classes: int, width: int, blocks: int, factor: float = 1.0):
    """A model (float64) that makes the trained step of one block, times ``factor``, in each of its blocks."""
    model = FunctionalGD(n_classes, width, blocks, "softmax", vector_rate=True).double()
    rate = factor * np.repeat(parameters["rate"].reshape(1, width), blocks, axis=0)
    values = {"embed": parameters["embed"], "rate": rate, "log_gamma": parameters["log_gamma"]}
    model.load_state_dict({name: torch.from_numpy(np.asarray(value)) for name, value in values.items()})
    return model


def probabilities(model: FunctionalGD, points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Probabilities ``(P, C)`` at places ``(P, 2)`` for labelled points ``(N, 3)`` with rows x, y, label."""
    tokens = torch.from_numpy(points)[..., None].expand(-1, -1, len(places))
    with torch.no_grad():
        return torch.softmax(model(tokens, torch.from_numpy(places.T.copy())), dim=0).numpy().T


def _square(p: np.ndarray, points: np.ndarray, classes: list[int]) -> Figure:
    """The square with its labelled points ``(N, 3)``, each place in the colour of its most probable category, by probabilities ``p (places, C)``."""
    colours = [to_rgb(COLOURS[classes.index(c)] if c in classes else "#777777") for c in p.argmax(1)]
    shade = p.max(1, keepdims=True)
    image = (shade * np.array(colours) + (1 - shade) * np.array(to_rgb(style.GROUND))).reshape(GRID, GRID, 3)
    fig, ax = style.figure(width=3.6, height=3.6)
    ax.imshow(image, origin="lower", extent=(-1, 1, -1, 1))
    for x, y, c in points:
        which = classes.index(int(c))
        ax.plot(x, y, "o", ms=11, color=COLOURS[which], mec="white")
        ax.text(x, y, "ABCD"[which], color="white", fontsize=8, ha="center", va="center", weight="bold")
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
    return fig


def label_square(results: Results, blocks: int = 2) -> PageModel:
    """The first run trained on the quadrants with softmax attention, and labels of four of its categories, one in each quadrant."""
    task = Quadrants()
    parameters = {name: value[0] for name, value in stopped_parameters(results, "softmax").items()}
    classes = four_categories(parameters["embed"])
    corner = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)])
    places = np.random.default_rng(SEED).uniform(0.08, 0.95, (4, EACH, 2)) * corner[:, None]
    points = np.concatenate(
        [np.c_[p, np.full(EACH, c)] for p, c in zip(places.round(2), classes, strict=True)]
    )
    data = {
        "gamma": float(np.exp(parameters["log_gamma"])),
        "rate": parameters["rate"].ravel(),
        "embed": parameters["embed"].T,
        "classes": classes,
        "points": [[x, y, int(c)] for x, y, c in points.tolist()],
        "blocks": blocks,
    }

    def still() -> Figure:
        model = repeated(parameters, task.n_classes, task.width, blocks)
        return _square(probabilities(model, points, grid().numpy()), points, classes)

    alt = "A square with labels A to D, one letter in each quadrant, and around them the regions in which the model holds each letter to be most probable."
    return PageModel(
        "label_square",
        data,
        still,
        alt,
        title="Place labels, and see what the model makes of them",
        description="Click into the square to place a label, drag one, or press delete on it; arrows move the one in focus, page up and down go to the next. "
        "The colour is that of the most probable of all categories (grey: none of the four), the stronger the more probable.",
    )
