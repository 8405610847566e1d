"""Pictures of the front page's cards: 320 x 180 pixels, one panel, one to three direct labels, that say what the card says.

Each function draws one, from the numbers of a figure of an executed chapter (``numbers(chapter, words)``: the rows of the CSV below the figure whose description
holds these words), and its docstring describes the picture. ``<!-- card NAME -->`` in a page becomes it.
"""

import numpy as np

from iclbook.drawing import style
from iclbook.drawing.figure_data import Row

BLUE, BROWN, GREEN, ORANGE = style.PALETTE[:4]
PAPER, GREY = style.COLOURS["paper"], style.COLOURS["dummy"]


def series(rows: list[Row], name: str, panel: str = "1", kind: str = "") -> np.ndarray:
    """Points ``(n, 2)`` of a series of a panel, which must be there."""
    of = [row for row in rows if row["series"] == name and row["panel"] == panel and row["kind"].startswith(kind)]
    assert of, f"panel {panel} has no series {name!r}, but {sorted({row['series'] for row in rows})}"
    return np.array([(float(row["x"]), float(row["y"])) for row in of if row["x"] and row["y"]])


def matrix(rows: list[Row]) -> np.ndarray:
    """The cells of one heat map, by their places."""
    places = np.array([(float(row["y"]), float(row["x"])) for row in rows])
    found = np.empty([len({*column}) for column in places.T])
    found[tuple(np.unique(column, return_inverse=True)[1] for column in places.T)] = [
        float(row["value"]) for row in rows
    ]
    return found


def card(x="", y="", **limits):
    """The empty panel of a card, with words at its axes."""
    fig, ax = style.figure(width=3.2, height=1.8)
    ax.set(xticks=[], yticks=[], xlabel=x, ylabel=y, **limits)
    ax.grid(False)
    return fig, ax


def say(ax, x, y, words, colour=style.INK, ha="left", va="center"):
    """A label in a panel, at shares of its width and height."""
    ax.text(x, y, words, color=colour, ha=ha, va=va, fontsize=9, transform=ax.transAxes)


def waits(numbers):
    """Curves: the wait grows a little with a smaller start for two factors, a hundredfold for four, far more for eight."""
    rows = numbers("crossing", "aits of all models")
    fig, ax = card("the smaller the start", "the longer the wait", xscale="log", yscale="log")
    for name, colour in (("layer with embedding", ORANGE), ("two heads", BROWN), ("reduced heads", BLUE)):
        ax.plot(*series(rows, name).T, "o-", color=colour)
    ax.set(xticks=[], yticks=[])
    ax.minorticks_off()
    say(ax, 0.26, 0.93, "8 factors", ORANGE)
    say(ax, 0.64, 0.8, "4 factors", BROWN)
    say(ax, 0.98, 0.3, "2 factors", BLUE, "right")
    return fig


def pair(numbers):
    """Two maps: the diagonal of one head's matrix is orange, that of the other blue."""
    rows = numbers("linear_regression", "KQ and OV of the two trained heads")
    kq = [row for row in rows if row["kind"] == "heat map" and row["y name"] != "OV"]
    columns = np.unique([float(row["x"]) for row in kq])
    heads = np.split(columns, 1 + np.flatnonzero(np.diff(columns) > 1.5))[:2]
    heads = ([row for row in kq if float(row["x"]) in head] for head in heads)
    maps = sorted(map(matrix, heads), key=lambda kq: -np.trace(kq))
    fig, ax = card()
    wide = maps[0].shape[1]
    image = np.full((len(maps[0]), 2 * wide + 1), np.nan)
    for k, kq in enumerate(maps):
        image[:, (wide + 1) * k :][:, :wide] = kq
    limit = np.nanmax(abs(image))
    ax.imshow(image, cmap=style.DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
    ax.spines[:].set_visible(False)
    ax.set_xticks([wide / 2 - 0.5, 1.5 * wide + 0.5], ["one head adds", "the other subtracts"], fontsize=9)
    ax.tick_params(length=0)
    for label, colour in zip(ax.get_xticklabels(), (ORANGE, BLUE), strict=True):
        label.set_color(colour)
    return fig


def tests(numbers):
    """Five bars: no statistic reaches the dashed line at which it would tell descent from its imitations."""
    rows = numbers("crossing", "areas under the ROC curve")
    worst = matrix([row for row in rows if row["panel"] == "1" and row["kind"] == "heat map"])[-1]
    fig, ax = card("five statistics", "tells descent from imitation", ylim=(0, 1.12))
    ax.bar(range(len(worst)), worst, 0.6, color=BLUE)
    ax.axhline(0.9, color=style.INK, ls="--", lw=1)
    ax.set_yticks([0.5], ["chance"], fontsize=9)
    ax.yaxis.label.set_fontsize(8)
    say(ax, 0.02, 0.9, "useful: no test gets here")
    return fig


def examples(numbers):
    """Accuracy against blocks: the printed values lie on those of 125 examples, far above those of ten."""
    rows = numbers("categorical_data", "Accuracy and NLL against the number of blocks for N = 10")
    fig, ax = card("blocks", "accuracy")
    ten, many = (series(rows, name, "3", "points") for name in ("N = 10", "N = 125"))
    ax.plot(*ten[: len(many)].T, "o-", color=BLUE)
    ax.plot(*many.T, "s-", color=GREEN)
    ends = [series(rows, f"printed, {k}", "1", "points")[-1][1] for k in range(1, len(many) + 1)]
    ax.plot(many[:, 0], ends, "x", ms=9, mew=2, color=PAPER)
    ax.set(ylim=(0.52, 0.78), yticks=[])
    say(ax, 0.98, 0.36, "10 examples, as the paper says", BLUE, "right")
    say(ax, 0.5, 0.62, "125 examples", GREEN, "center")
    say(ax, 0.98, 0.97, "printed", PAPER, "right", "top")
    return fig


def noise(numbers):
    """Points: the scale after training rises with the learning rate, and is larger for small batches than for large ones."""
    rows = numbers("linear_regression", "gamma after training against learning rate over root of batch")
    fig, ax = card("learning rate / √batch", "scale after training", xscale="log", yscale="log")
    for batch, marker, colour in ((64, "o", BLUE), (256, "s", ORANGE), (1024, "^", GREEN)):
        ax.plot(*series(rows, f"batch {batch}", "2").T, marker, ls="", color=colour)
    ax.set(xticks=[], yticks=[])
    ax.minorticks_off()
    say(ax, 0.04, 0.92, "batches of 64", BLUE)
    say(ax, 0.04, 0.76, "of 256", ORANGE)
    say(ax, 0.98, 0.1, "batches of 1,024", GREEN, "right")
    return fig


def schedule(numbers):
    """Loss against step: the EM-like schedule falls slowly, one larger rate for all fast and lower."""
    rows = numbers("attention_gradients", "training loss against step of five ways to train")
    fig, ax = card("step", "loss")
    ax.plot(*series(rows, "schedule: 10x $W_V$").T, color=style.COLOURS["schedule"], lw=2)
    ax.plot(*series(rows, "rate 1").T, color=style.COLOURS["sgd"], lw=2)
    say(ax, 0.98, 0.86, "EM-like schedule", style.COLOURS["schedule"], "right", "bottom")
    say(ax, 0.03, 0.04, "one larger rate for all", style.COLOURS["sgd"], "left", "bottom")
    return fig


def stairs(numbers):
    """The loss falls in two steps: from no token known to one, and to both."""
    rows = numbers("associative_recall", "Loss of the simplified model of order 3")
    fig, ax = card("step", "loss")
    loss = np.array([(float(row["x"]), float(row["y"])) for row in rows if row["kind"].startswith("line, every")])
    ax.plot(*loss.T, color=BLUE, lw=2)
    levels = sorted({row["y"] for row in rows if row["kind"] == "line"}, key=float, reverse=True)
    for known, level in enumerate(levels):
        ax.axhline(float(level), color=GREY, ls=":", lw=1)
        ax.text(0, float(level), f"knows {known} of 2", fontsize=9, va="bottom")
    ax.set_ylim(-0.04, 1.18 * float(levels[0]))
    return fig


def twice(numbers):
    """One jump: the printed equation jumps in half the time that the exact flow takes."""
    rows = numbers("associative_recall", "Alpha and beta against time")
    fig, ax = card("time", "weight")
    exact, printed = series(rows, "exact flow"), series(rows, r"ODE, $\Xi$ as printed")
    ax.plot(*printed.T, color=PAPER, ls="--", lw=2)
    ax.plot(*exact.T, color=BLUE, lw=2)
    jump = exact[np.abs(exact[:, 1] - exact[-1, 1] / 2).argmin(), 0]
    ax.set_xlim(0, 1.6 * jump)
    say(ax, 0.27, 0.5, "printed", PAPER, "right")
    say(ax, 0.6, 0.3, "exact", BLUE, "right")
    return fig


def steps(numbers):
    """Three squares: with each step of descent, which a block takes, four coloured regions appear more clearly."""
    from iclbook.papers.wang2025 import sliders

    maps = [sliders.free_map("rbf", 8.0, 300, k, sliders.RATES["rbf"])[0] for k in (1, 2, 4)]
    fig, ax = card()
    for k, p in enumerate(maps):
        for category, colour in zip(sliders.most_seen(), sliders.COLOURS, strict=True):
            outside = p.argmax(0) != category
            look = {"cmap": style.strength(colour), "vmin": 0, "vmax": 1, "origin": "lower"}
            ax.imshow(np.ma.masked_where(outside, p.max(0)), extent=(1.08 * k, 1.08 * k + 1, 0, 1), **look)
    ax.set(xlim=(-0.02, 3.18), ylim=(-0.02, 1.02))
    ax.spines[:].set_visible(False)
    ax.set_xticks([0.5 + 1.08 * k for k in range(3)], ["1 block", "2", "4"], fontsize=9)
    ax.tick_params(length=0)
    ax.set_title("a block is a step: regions sharpen", fontsize=9)
    return fig


def lengths(numbers):
    """Error against context length: it rises with a frozen factor, and falls with the current length."""
    rows = numbers("linear_regression", "ICL error of linear attention under both")
    fig, ax = card("context length", "error")
    ax.plot(*series(rows, "linear, 1/40 frozen").T, "o-", ms=3, color=ORANGE)
    ax.plot(*series(rows, "linear, 1/L of the context at hand").T, "o-", ms=3, color=BLUE)
    ax.axvline(40, color=GREY, ls=":", lw=1)
    say(ax, 0.64, 0.95, "1/40 kept", ORANGE, "right")
    say(ax, 0.98, 0.17, "1/L of now", BLUE, "right")
    return fig


def depth(numbers):
    """Error of the deep model over that of the shallow one at three sizes, printed (above one at each) and ours."""
    rows = numbers("gradient_descent", "Error of baseline and depth along training")
    fig, ax = card("", "deep over shallow", ylim=(0.3, 2.5))
    across = ([float(row["y"]) for row in rows if (row["kind"], row["panel"]) == ("line across", p)] for p in "123")
    printed = [deep / shallow for shallow, deep in across]  # in the order in which the figure draws them
    ours = [series(rows, "depth", p)[-1, 1] / series(rows, "baseline", p)[-1, 1] for p in "123"]
    ax.axhline(1, color=style.INK, ls=":", lw=1)
    ax.plot(range(3), printed, "x--", ms=9, mew=2, lw=1, color=PAPER)
    ax.plot(range(3), ours, "o-", color=BLUE)
    ax.set_xlim(-0.3, 2.3)
    for k, ratio in enumerate(ours):
        ax.annotate(
            f"{ratio:.2f}",
            (k, ratio),
            (0, -5),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=8,
            color=BLUE,
        )
    ax.set_xticks([0, 1, 2], ["d = 4", "8", "16"], fontsize=9)
    ax.set_yticks([1], ["equal"], fontsize=9)
    say(ax, 0.98, 0.95, "printed: depth hurts", PAPER, "right")
    say(ax, 0.72, 0.14, "ours", BLUE, "center")
    return fig


def kernels(numbers):
    """What the best step leaves unexplained: one head is explained by the softmax kernel, two heads by the linear one."""
    rows = numbers("crossing", "Share left unexplained by the best step")
    fig, ax = card("left unexplained", "", xscale="log")
    for place, name in enumerate(("softmax", "linear, centred")):
        found = series(rows, name)
        for row, (colour, marker, shift) in enumerate(((BLUE, "o", 0.12), (ORANGE, "s", -0.12))):
            values = found[found[:, 1] == row, 0]
            ax.plot(values, np.full(len(values), place + shift), marker, ms=6, color=colour)
    ax.set(xlim=(8e-4, 1), ylim=(1.6, -0.6), xticks=[])
    ax.minorticks_off()
    ax.set_yticks([0, 1], ["softmax\nkernel", "linear,\ncentred"], fontsize=9)
    say(ax, 0.3, 0.68, "one head", BLUE)
    say(ax, 0.3, 0.27, "two heads", ORANGE)
    return fig


CARDS = (waits, pair, tests, examples, noise, schedule, stairs, twice, steps, lengths, depth, kernels)
