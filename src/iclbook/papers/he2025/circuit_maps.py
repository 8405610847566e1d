"""Heat maps of heads, KQ with OV's row below it: Figures 1, 2.1, 2.2, 2.6 and 2.7 of He et al. (2025)."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...drawing import style
from ...numbers import number
from ...sliders import Slider, show
from ...store import Results
from .circuits import read_heads
from .runs import PAPER_HEADS

Group = Mapping[str, np.ndarray]
#: KQ's effective columns ``(D, d)`` and the read-out rows of OV ``(N, D)`` of a head.
Card = tuple[np.ndarray, np.ndarray]
#: Cells between cards, and between the two maps of a card.
GAP, SMALL_GAP = 1.3, 0.6
#: Where the colours of the strips end: gamma settles at about half of it, and passes it for a while.
STRIP = 0.3


def matrices(group: Group, record: int, run: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Effective parts of all heads at one record: KQ's first d columns ``(H, D, d)`` and the read-out rows of OV ``(H, N, D)``."""
    kq, ov = scale * group["kq"][record, run], group["ov"][record, run]
    d = kq.shape[-1] - ov.shape[-2]
    return kq[..., :d], ov


def draw_cards(
    ax: Axes, rows: Sequence[Sequence[Card]], limits: tuple[float, float], names: Sequence[str], cell: float = 1.0
) -> tuple[float, float]:
    """Rows of cards, KQ above and OV below on any screen; returns the distance from card to card, across and down.

    Args:
        limits: values of the darkest colours of KQ and of OV; the cells of OV have the size ``cell``, those of KQ 1.
        names: of the columns, written below the last row.
    """
    kq, ov = rows[0][0]
    wide = max(kq.shape[1], cell * ov.shape[1]) + GAP
    tall = len(kq) + SMALL_GAP + cell * len(ov) + GAP
    for (i, row), (j, _) in ((r, c) for r in enumerate(rows) for c in enumerate(r[1])):
        tops = i * tall, i * tall + len(kq) + SMALL_GAP
        for matrix, limit, top, size in zip(row[j], limits, tops, (1, cell), strict=True):
            high, across = size * matrix.shape[0], size * matrix.shape[1]
            extent = (j * wide, j * wide + across, top + high, top)
            ax.imshow(matrix, extent=extent, cmap=style.DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
            ax.add_patch(Rectangle((j * wide, top), across, high, fill=False, ec=style.COLOURS["dummy"], lw=0.8))
    ax.set(xlim=(-0.3, wide * max(map(len, rows)) - GAP + 0.3), ylim=(tall * len(rows) - GAP + 0.3, -0.3))
    ax.set_xticks([j * wide + kq.shape[1] / 2 for j in range(len(names))], names)
    ax.set_yticks([])
    ax.tick_params(length=0, labelsize=9)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return wide, tall


def name_maps(ax: Axes, kq: np.ndarray) -> None:
    """KQ and OV written beside the first card."""
    ax.set_yticks([len(kq) / 2, len(kq) + SMALL_GAP + 0.5], ["KQ", "OV"])


def named(name: str, kq: np.ndarray, ov: np.ndarray) -> str:
    """Name of a head over its omega and its mu."""
    return f"{name}\nω = {kq.diagonal().mean():z.2f}\nμ = {ov[-1, -1]:z.2f}"


def plot_one_head(readings: Mapping[str, tuple[Group, float]]) -> Figure:
    """Figure 2.1: the head of the first run by reading, a group and the factor on its scores; right, all entries of KQ of all runs, and the paper's 1/sqrt(d)."""
    fig, (ax, right) = style.figure(2, height=2.5, width_ratios=(1, 1.2))
    cards = {name: [of[0] for of in matrices(group, -1, 0, scale)] for name, (group, scale) in readings.items()}
    limits = [max(np.abs(card[k]).max() for card in cards.values()) for k in (0, 1)]
    draw_cards(ax, [[*cards.values()]], limits, [named(name, *card) for name, card in cards.items()])
    name_maps(ax, next(iter(cards.values()))[0])
    for n, (name, (group, scale)) in enumerate(readings.items()):
        kq = scale * np.abs(group["kq"][-1, :, 0, :, :-1])  # (R, D, d)
        own = np.eye(*kq.shape[1:], dtype=bool)
        look = {"color": (style.INK, style.COLOURS["dummy"])[n], "ms": 3.5}
        for place, values in enumerate((kq[:, own].ravel(), kq[:, ~own].ravel())):
            across = place + 0.28 * n - 0.14 + np.linspace(-0.08, 0.08, len(values))
            right.plot(across, values, "os"[n], **look | ({} if place else {"label": name}))
    style.paper_line(right, kq.shape[-1] ** -0.5, f"paper: 1/√d = {number(kq.shape[-1] ** -0.5)}")
    right.set_xticks([0, 1], ["the diagonal", "all other entries"])
    right.set(xlim=(-0.5, 1.5), ylim=(-0.03, None), ylabel="|entry of KQ|, all seeds")
    right.legend(fontsize=8, loc="center")
    return fig


def plot_circuits(group: Group, run: int) -> Figure:
    """Figure 2.2: the two heads of a run and their sum."""
    kq, ov = matrices(group, -1, run)
    fig, ax = style.figure(height=2.5)
    cards = [*zip(kq, ov, strict=True), (kq.sum(0), ov.sum(0))]
    names = [*(f"head {h + 1}" for h in range(len(kq))), "their sum"]
    draw_cards(ax, [cards], (np.abs(kq).max(), np.abs(ov).max()), [*map(named, names, *zip(*cards, strict=True))])
    name_maps(ax, kq[0])
    return fig


def show_circuits(results: Results, few: bool) -> None:
    """Figures 2.6 and 2.7, a strip for each head: its circuits at the records nearest to some shares of the training, by number of heads."""
    counts = [2, 4] if few else [h for h in PAPER_HEADS if h > 1]
    shares = (0, 1.0) if few else (0, 0.001, 0.005, 0.03, 1.0)
    steps = results["h2/steps"]
    shown = sorted({int(np.argmin(np.abs(steps - share * steps[-1]))) for share in shares})
    choices = {f"{h} heads": h for h in counts}
    (dummies,) = np.nonzero(~read_heads(results.group("h4")).active[0])

    def frame(heads: str) -> Figure:
        strips = [matrices(results.group(f"h{choices[heads]}"), record, 0) for record in shown]
        rows = [[(kq[h], ov[h]) for kq, ov in strips] for h in range(choices[heads])]
        fig, ax = style.figure(height=3.3)
        limits = STRIP, max(float(np.abs(ov).max()) for _, ov in strips)
        _, tall = draw_cards(ax, rows, limits, [f"{steps[record]:,}" for record in shown])
        middle = (len(rows[0][0][0]) + SMALL_GAP + 1) / 2
        ax.set_yticks([h * tall + middle for h in range(len(rows))], [f"head {h + 1}" for h in range(len(rows))])
        ax.set_xlabel("training step")
        ax.set_anchor("N")
        return fig

    show(
        frame,
        [Slider("heads", "", [*choices])],
        title="From noise to one diagonal and one entry: KQ above OV, along training",
        description=(
            (
                ""
                if few
                else f"Two heads have the patterns by step {steps[shown[-2]]:,} and then only change their size. "
            )
            + f"Paper: Figures 2.6 (two heads) and 2.7 (four). Orange adds, blue subtracts; colours of KQ end at ±{STRIP:g}; scores as printed, first seed. Try: four heads"
            + "".join(f"; head {h + 1} fades" for h in dummies)
            + "."
        ),
        alt=lambda heads: f"Heat maps of KQ and OV of {heads} from the first training step to the last.",
        of=[results],
    )


# -- Figure 1 -----------------------------------------------------------------------------------------------------------


def plot_architecture(d: int) -> Figure:
    """Figure 1: how a head makes its weights and its answer, starred entries of KQ and OV without effect; six columns stand for all tokens."""
    fig, axes = style.figure(2, height=2.0)
    D, L = d + 1, 6
    column, row, every = np.arange(D)[None] < d, np.arange(D)[:, None] == d, np.ones((1, 1), bool)
    panels = {
        "where a head looks": [(r"$Z^\top$", L, D, every), ("$KQ$", D, D, column), ("$z_q$", D, 1, every)],
        "what it passes on": [("$OV$", D, D, row), ("$Z$", D, L, every), ("weights", L, 1, every)],
    }
    ends = "= scores\nsmax(scores)\n= weights", r"last entry:" "\na part of\n" r"the answer $\hat y_q$"
    for ax, (title, parts), end in zip(axes, panels.items(), ends, strict=True):
        left, look = 0.0, {"ha": "center", "va": "center"}
        for name, rows, columns, used in parts:
            for (i, j), matters in np.ndenumerate(np.broadcast_to(used, (rows, columns))):
                fill = {"fc": style.COLOURS["debiased"] if matters else style.GRID, "alpha": 0.5 if matters else 1}
                ax.add_patch(Rectangle((left + j, i), 1, 1, ec=style.GROUND, lw=1, **fill))
                text = "0" if (name, i) == ("$z_q$", d) else "" if matters else "*"
                ax.text(left + j + 0.5, i + 0.5, text, fontsize=9, **look)
            ax.text(left + columns / 2, -0.7, name, **look)
            left += columns + 0.8
        ax.text(left, 3, end, va="center", fontsize=9)
        ax.text(0, 6.7, "*  changes no answer", va="center", fontsize=9)
        ax.set(xlim=(-0.2, left + 5.4), ylim=(7.2, -1.4), aspect="equal", title=title)
        ax.set_axis_off()
    return fig
