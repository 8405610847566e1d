"""Figures of the crossing: waits, time scales, rates, statistics of descent by layers, kernels and signed pairs."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from ...drawing import style
from ...models.kernels import KERNELS
from ...statistics import interval
from ...store import Results
from ..nagy2026.ladder_figures import in_words
from .chance import CHANCE_SIZES
from .descent import OTHERWISE, Array, placements
from .descent_ladder import Ladder
from .heads_as_steps import Pairs
from .rates import Race
from .waits import SIZES as WAIT_SIZES

NAMES = {name: sizes.name for name, sizes in WAIT_SIZES.items()} | {"deep": "three layers"}

#: p -> its colour.
DEGREES = {8: style.PALETTE[3], 4: style.PALETTE[1], 3: style.PALETTE[2], 2: style.PALETTE[0]}
#: Queries and keys that are trained ten times faster.
FASTER = style.PALETTE[3]


def waits(found: Mapping[str, Array]) -> Figure:
    """Waits against initial size, means over draws, relative to the largest size, a colour each degree. Dotted: the predicted growth, through the smallest size."""
    fig, ax = style.figure(height=4)
    said = {
        8: f"8 factors: × {10**6:,}, extrapolated",
        4: "4 factors: × 100",
        3: "3 factors: × 10",
        2: "2 factors: a little",
    }
    for p, colour in DEGREES.items():
        models = [name for name, sizes in WAIT_SIZES.items() if sizes.p == p and name != "few"]  # its prompts are plain
        for name in models:
            smaller = WAIT_SIZES[name].scale / np.array(WAIT_SIZES[name].scales())
            growth = np.exp(np.log(found[name] / found[name][:, :1]).mean(0))
            ax.plot(smaller, growth, "o-", lw=1, ms=5, color=colour, label=NAMES[name])
            law = growth[-1] * (smaller / smaller[-1]) ** (p - 2)
            if p == 2:
                law = growth[-1] + np.diff(growth)[-1] * np.log(smaller / smaller[-1]) / np.log(WAIT_SIZES[name].factor)
            ax.plot(smaller[law > 0], law[law > 0], color=style.INK, ls=":", lw=1)
        at, va = {8: ((1, 5e5), "top"), 4: ((95, 2e4), "top"), 3: ((95, 60), "bottom"), 2: ((650, 16), "bottom")}[p]
        names = [NAMES[name] for name in models if p > 2]  # the many of two factors stand in the caption
        ax.text(*at, "\n".join([said[p], *names]), color=colour, va=va, ha="center" if p == 2 else "left", fontsize=9)
    ax.text(4.2e3, 1.1, "law: from small starts (dotted)", ha="right", va="center", fontsize=9)
    ax.set(xscale="log", yscale="log", xlim=(0.8, 4.5e3), ylim=(0.6, 7e5), yticks=10.0 ** np.arange(5))
    ax.grid(False)  # it would strike the names
    ax.set(xlabel="start: times smaller", ylabel="wait: times longer", title="the wait of a start ten times smaller")
    return fig


def chance(waited: Results, counts: Sequence[int]) -> Figure:
    """Wait of two heads against the size of the start on N prompts, the logarithm of chance through the smallest size, and the power of symmetric prompts, dotted."""
    fig, ax = style.figure(aspect=0.6)
    for n, colour in zip(counts[::-2], style.PALETTE[4:], strict=False):
        of = waited.group(str(n))
        times, slope = np.exp(np.log(of["times"]).mean(0)), 1 / np.exp(np.log(of["rate"]).mean())
        ax.plot(CHANCE_SIZES, times, "o", ms=5, color=colour)
        fine = np.geomspace(CHANCE_SIZES[-1], CHANCE_SIZES[-1] * 16, 40)
        law = times[-1] - slope * np.log(fine / fine[0])
        ax.plot(fine[law > 1], law[law > 1], color=colour, lw=1)
        ax.text(CHANCE_SIZES[-1] / 1.3, times[-1], f"{n:,} prompts", va="center", color=colour, fontsize=9)
    power = np.exp(np.log(np.concatenate([waited[f"{n}/symmetric"] for n in counts])).mean(0))
    ax.plot(CHANCE_SIZES, power, ":", color=style.INK)
    ax.text(CHANCE_SIZES[3], power[4], "symmetric\nprompts", ha="right", va="center", fontsize=9)
    ax.set(xscale="log", yscale="log", xlim=(0.06, 2e-4), xlabel="size of the start (smaller →)", ylabel="wait")
    ax.set_title("dots: waits; lines: rate of chance")
    style.log_ticks(ax, "x", [0.05, 0.01, 0.002])
    return fig


def leads(found: Mapping[str, Mapping[str, Array]]) -> Figure:
    """Time at which attention is half-way over that of values: faint marks are draws, a disc their geometric mean, with the share in which attention is first."""
    fig, ax = style.figure(height=3.9)
    names, rows, box = [], [], {"fc": style.GROUND, "ec": "none", "pad": 0.5}
    for name, of in reversed(found.items()):
        for rates, values, colour in (("equal", NAMES[name], style.PALETTE[6]), ("quicker", "Q, K × 10", FASTER)):
            row = len(names) + 0.12 * (rates == "equal")
            names.append(values.removesuffix(", embeddings held"))
            rows.append(row)
            values = np.exp(of[rates])
            ax.plot(values, np.full(len(values), row), "|", color=colour, ms=12, alpha=0.12)
            ax.plot(np.exp(of[rates].mean()), row, "o", ms=8, mec=style.GROUND, color=colour, zorder=4)
            ax.text(0.065, row, f"{np.mean(values < 1):.0%}", color=colour, va="center", fontsize=9, bbox=box)
    ax.set_yticks(rows, names)
    for label in ax.get_yticklabels()[1::2]:
        label.set(color=FASTER, fontsize=8.5)
    ax.set(xscale="log", xlabel="time of attention over time of values", ylim=(len(names) - 0.4, -1), xlim=(0.06, 18))
    ax.set_title("per cent: draws with attention first")
    _sides(ax, "attention first", "values first")
    style.log_ticks(ax, "x", [0.25, 0.5, 1, 2, 4, 8])
    return fig


def _sides(ax: Axes, below: str, above: str) -> None:
    """A dotted line at ratio 1, with what it means to lie on either side, at the top of the panel."""
    ax.axvline(1, color=style.INK, ls=":")
    for words, shift, side in ((f"← {below}", -5, "right"), (f"{above} →", 5, "left")):
        at = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
        ax.annotate(words, (1, 0.99), (shift, 0), **at, ha=side, va="top", fontsize=9)


def _key(fig: Figure, ax: Axes) -> None:
    """The labels of a panel's marks above all panels, each once."""
    handles, labels = ax.get_legend_handles_labels()
    key = dict(zip(labels, handles, strict=True))
    fig.legend(key.values(), key, loc="outside upper center", ncols=3)


def path(paths: Mapping[float, tuple[Array, Array, float]], heads: int, size: float) -> Figure:
    """Loss along the flows from starts of all sizes (times, losses, wait), the wait from one of them marked."""
    fig, ax = style.figure(aspect=0.42)
    for each, (times, losses, wait) in paths.items():
        look = {"color": style.COLOURS["measured" if each == size else "dummy"], "lw": 2.2 if each == size else 1.2}
        ax.semilogx(times[1:], losses[1:] / losses[0], **look)
        ax.text(wait, 1.01, f"{each:g}", fontsize=9, va="bottom", ha="right", color=look["color"])
    for one, longer in pairwise(wait for _, _, wait in paths.values()):
        ax.annotate("", (longer, 0.9), (one, 0.9), arrowprops={"arrowstyle": "->", "color": style.INK})
        ax.text(np.sqrt(one * longer), 0.905, f"× {longer / one:.1f}", ha="center", va="bottom")
    ax.axvline(paths[size][2], color=style.INK, ls=":")
    ax.set(xlabel="time", ylabel="loss over its start", ylim=(0.75, 1.05), xlim=(1e1, 1e4))
    ax.set_title(f"{heads} head{'s' if heads > 1 else ''}, size {size:g}")
    return fig


#: Ratios of both panels of :func:`rates`, and how they are marked.
MARKS = (
    (("values_plain", "uniform"), "values, outputs × 10", "o", style.PALETTE[0], -0.17),
    (("routing_plain", "routing_uniform"), "queries, keys × 10", "s", FASTER, 0.17),
)


def rates(found: Mapping[str, Race]) -> Figure:
    """Ratios of steps with 95 % intervals over seeds: both arms at the plain base rate, over the plain rate, and each at its best, over the best uniform rate."""
    fig, (left, right) = style.figure(2, aspect=1.05, sharey=True)
    for row, logs in enumerate(found.values()):
        for ratios, label, marker, colour, shift in MARKS:
            for ax, ratio in zip((left, right), ratios, strict=True):
                mean, low, high = np.exp(interval(logs[ratio]))
                ax.plot([low, high], [row + shift] * 2, color=colour, lw=2)
                ax.plot(mean, row + shift, marker, color=colour, ms=7, label=None if row else label)
        best = np.exp(logs["uniform_plain"].mean())
        left.plot(best, row, "D", color=style.INK, mfc="none", label=None if row else "best rate for all")
    left.set(xscale="log", xlabel="steps, over steps at the plain rate", title="at a low base rate")
    right.set(xscale="log", xlabel="steps, over steps at the best rate for all", title="each at its best base rate")
    style.log_ticks(left, "x", [0.03, 0.1, 0.3, 1])
    style.log_ticks(right, "x", [0.3, 0.5, 1, 2])
    left.set_yticks(range(len(found)), [textwrap.fill(NAMES[name], 16) for name in found])
    left.set(ylim=(len(found) + 0.3, -1), xlim=(0.03, 4))
    right.set_xlim(0.28, 4)
    right.axvspan(0.28, 0.5, color=style.GRID, alpha=0.5, lw=0)
    right.text(0.29, len(found) + 0.1, "twice\nas fast", fontsize=9)
    for ax in (left, right):
        _sides(ax, "faster", "slower")
    _key(fig, left)
    return fig


# -- steps of descent ------------------------------------------------------------------------------------------------------

STATISTICS = {
    "slope": "slope of\nupdates",
    "r2": "its\n$r^2$",
    "signs": "right\nsigns",
    "reduction": "fall of\nerror",
    "rate": "decay\nrate",
}
KINDS = {
    "sharpening": "sharpening smoother",
    "averaging": "mean of noisy answers",
    "mean": "walk to the context's mean",
    "strides": "walk to the right answer",
    "jump": "jump to the right answer",
    "reordered": "layers reordered",
    "others": "answers to other prompts",
}
#: Area under the ROC curve from which on a statistic tells two kinds apart.
USEFUL = 0.9


def areas(by: Mapping[str, Mapping[str, Array]]) -> Figure:
    """Areas under the ROC curve of every statistic against every kind of stack that does not descend, and the least of each; coloured below :data:`USEFUL` and below 1/2."""
    table = np.array([[placements(by[s]["descend"], by[s][kind]).mean() for s in STATISTICS] for kind in OTHERWISE])
    table = np.vstack([table, table.min(0)])
    fig, ax = style.figure(aspect=0.55)
    tones = ListedColormap([*style.DIVERGING([0.72, 0.6]), style.GROUND])
    ax.imshow(table, cmap=tones, norm=BoundaryNorm([0, 0.5, USEFUL, 1.01], 3), aspect="auto")
    ax.axhline(len(OTHERWISE) - 0.5, color=style.INK, lw=1.6)
    for (i, j), value in np.ndenumerate(table):
        weight = "bold" if i == len(OTHERWISE) else "normal"
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", weight=weight)
    ax.set_xticks(range(len(STATISTICS)), list(STATISTICS.values()))
    ax.set_yticks(range(len(table)), [*(textwrap.fill(KINDS[kind], 14) for kind in OTHERWISE), "the worst"])
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.grid(False)
    return fig


HEADS = {"h1": "one head", "h2": "two heads", "linear": "linear\nattention"}


def kernels(found: Mapping[str, Mapping[str, Array]]) -> Figure:
    """Share that the best step with each kernel leaves unexplained of trained heads, one mark a run; the best kernel of each model is coloured and named."""
    fig, ax = style.figure(height=2.9)
    names = {name: "RBF" if name == "rbf" else name for name in KERNELS} | {"centred": "linear, centred"}
    for row, (group, colour) in enumerate(zip(HEADS, (style.PALETTE[k] for k in (0, 3, 2)), strict=True)):
        order = sorted(names, key=lambda kernel: found[group][kernel].mean())
        for place, kernel in enumerate(order):
            best, left = place == 0, found[group][kernel]
            shown = {"color": colour, "ms": 8} if best else {"color": style.COLOURS["dummy"], "ms": 5}
            ax.plot(left, np.full(len(left), row), "o", label=names[kernel], **shown)
            at = {"textcoords": "offset points", "fontsize": 9}
            if best:
                look = {"xytext": (0, 6), "ha": "center", "va": "bottom", "color": colour}
                ax.annotate(names[kernel], (np.exp(np.log(left).mean()), row), **at, **look)
            elif place == 1:  # below its dots and to the right, away from the best; the bound passes behind it
                look = {"xytext": (-3, -7), "va": "top", "bbox": {"fc": style.GROUND, "ec": "none", "pad": 0.5}}
                ax.annotate(names[kernel], (left.min(), row), **at, **look)
    ax.text(0.3, 0.75, "other kernels", ha="center", fontsize=9)
    ax.axvline(0.01, color=style.INK, ls=":")
    ax.text(0.0107, -0.65, "one per cent", va="top", fontsize=9)
    ax.set_yticks(range(len(HEADS)), HEADS.values())
    ax.set(xscale="log", xlim=(1.5e-4, 1.3), xlabel="share left unexplained", ylim=(len(HEADS) - 0.5, -0.7))
    return fig


#: Rows of :func:`signed_pairs`.
PLACES = {
    "embedded": "four heads,\nembedding",
    "linear": "four linear\nheads",
    "wide": "two heads,\n10 covariates",
    "short": "two heads,\n10 examples",
    "descent": "two heads,\nplain descent",
    "affine": "two heads,\nlabels $a + \\beta x$",
}


def signed_pairs(found: Mapping[str, Pairs]) -> Figure:
    """One dot a run: how far the heads' outputs are from cancelling, and what a debiased step leaves of the answers over what the plain one leaves."""
    fig, (sums, shares) = style.figure(2, aspect=0.95, sharey=True)
    for row, name in enumerate(PLACES):
        of = found[name]
        shift = row + np.linspace(-0.25, 0.25, len(of.sums))
        kinds = {"softmax, both signs": (of.both, 0), "softmax, one sign": (~of.both, 6)}
        if name == "linear":
            kinds = {"linear": (np.full(len(of.sums), True), 3)}
        for label, (runs, colour) in kinds.items():
            for ax, values in ((sums, of.sums), (shares, 1 - of.taken)):
                ax.plot(values[runs], shift[runs], "o", color=style.PALETTE[colour], ms=4, label=label)
    for ax in (sums, shares):
        ax.axhline(len(PLACES) - 1.5, color=style.INK, lw=0.9)
    style.write(sums, 0.025, len(PLACES) - 1, "labels with a mean", transform=sums.get_yaxis_transform())
    _sides(shares, "debiased", "plain")
    sums.set(xscale="log", xlabel=r"$|\sum \mu|\, /\, \sum |\mu|$ (1: nothing cancels)", title="do the outputs cancel?")
    shares.set(xscale="log", xlabel="error of debiased step over plain", title="which step fits better?")
    style.log_ticks(sums, "x", [1e-4, 0.001, 0.01, 0.1, 1])
    style.log_ticks(shares, "x", [0.1, 0.2, 0.5, 1, 2, 5])
    sums.set_yticks(range(len(PLACES)), list(PLACES.values()))
    sums.set_ylim(len(PLACES) - 0.5, -0.95)
    _key(fig, sums)
    return fig


def ladder(found: Ladder) -> Figure:
    """Share of descending stacks among the nearest: quartiles (bar) and median (line) of fresh stacks of each kind, all depths together; models as discs, controls open."""
    judges = found.judges.values()
    known = {"stacks that descend": np.concatenate([judge.yes for judge in judges])}
    kinds = {label: np.concatenate([judge.no[kind] for judge in judges]) for kind, label in KINDS.items()}
    nearest = max(kinds, key=lambda kind: kinds[kind].mean())
    known[nearest] = kinds.pop(nearest)
    known["other imitations"] = np.concatenate([*kinds.values()])
    fig, ax = style.figure(height=3.9)
    for row, every in enumerate(known.values()):
        low, middle, high = np.quantile(every, (0.25, 0.5, 0.75))
        colour = style.COLOURS["measured"] if row == 0 else style.COLOURS["dummy"]
        ax.plot([low, high], [row, row], color=colour, lw=12, alpha=0.45, solid_capstyle="butt")
        name = "median" if row == 1 else None
        ax.plot(middle, row, "|", ms=15, mew=2.4, color=colour, label=name)
    look = {"ls": "", "marker": "o", "ms": 6, "color": style.PALETTE[3]}
    for row, (name, said) in enumerate(found.ladder.items(), len(known)):
        ax.plot(said, row - 0.15 + _apart(said), **look, label="language model")
        if name in found.controls:
            alone = found.controls[name]
            ax.plot(alone, row + 0.16 + _apart(alone), **look, mfc="none", label="its control: never saw a regression")
    ax.axhline(len(known) - 0.5, color=style.INK, lw=0.9)
    ax.axvline(0.5, color=style.INK, lw=0.9, ls=":")
    style.write(ax, 0.52, 0, "half")
    ax.set_yticks(range(len(known) + len(found.ladder)), [*known, *map(in_words, found.ladder)])
    ax.set(xlim=(-0.03, 1.03), xlabel="share of the 25 nearest stacks that descend")
    _key(fig, ax)
    ax.invert_yaxis()
    return fig


def _apart(said: list[float]) -> np.ndarray:
    """Small shifts, so that equal scores do not hide one another."""
    return 0.075 * (np.arange(len(said)) - (len(said) - 1) / 2)
