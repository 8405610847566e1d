"""Figures of the crossing: waits, time scales and rates with the slider of laws and models; statistics of descent by layers, kernels and signed pairs."""

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
from .chance import AHEAD, CHANCE_SIZES, NOISY, SMALL
from .descent import OTHERWISE, Array, placements
from .descent_ladder import Ladder
from .heads_as_steps import Pairs
from .rates import Race
from .waits import SIZES as WAIT_SIZES

NAMES = {name: sizes.name for name, sizes in WAIT_SIZES.items()} | {"deep": "three layers"}

#: p -> its colour.
DEGREES = {8: style.PALETTE[3], 4: style.PALETTE[1], 3: style.PALETTE[2], 2: style.PALETTE[0]}


def waits(found: Mapping[str, Array]) -> Figure:
    """Waits against initial size, means over draws, relative to the largest size: all models, a colour each degree, then those of degree 2 on a linear axis.
    Dotted: the predicted growth, through the smallest size."""
    fig, (every, logarithms) = style.figure(2, height=4.6, width_ratios=(1.7, 1))
    drawn = dict.fromkeys(DEGREES, 0)
    for name, sizes_of in sorted(WAIT_SIZES.items(), key=lambda item: -item[1].p):
        p, times = sizes_of.p, found[name]
        smaller = sizes_of.scale / np.array(sizes_of.scales())
        growth = np.exp(np.log(times / times[:, :1]).mean(0))
        look = {"marker": "os^DvP"[drawn[p]], "ls": "", "ms": 5, "color": DEGREES[p], "label": NAMES[name]}
        drawn[p] += 1
        every.plot(smaller, growth, **look)
        every.plot(smaller, growth, color=DEGREES[p], lw=0.8, label="_")
        if p == 2:
            tenth = np.diff(times).mean(0)[-1] / np.log10(sizes_of.factor)
            logarithms.plot(smaller, (times - times[:, :1]).mean(0) / tenth, **look)
            continue
        every.plot(smaller, growth[-1] * (smaller / smaller[-1]) ** (p - 2), color=style.INK, ls=":", lw=1)
        if p < 8 and drawn[p] == 1:
            words, at = f"{p} factors:\n× {10 ** (p - 2)}", (smaller[-1], growth[-1])
            every.annotate(words, at, (8, 0), textcoords="offset points", va="top", color=DEGREES[p])
    every.text(0.9, 1.6e4, f"8 factors: × {10**6:,}", color=DEGREES[8])
    every.text(1200, 1.1, "2 factors: a little", ha="right", color=DEGREES[2])
    logarithms.plot([1, 1e3], [0, 3], color=style.INK, ls=":", label="predicted")
    every.set(xscale="log", yscale="log", xlim=(0.8, 1500), ylim=(0.7, 6e4), ylabel="wait: times longer")
    every.set_title("the wait of a start ten times smaller", fontsize=10)
    logarithms.set(xscale="log", ylabel="added wait, in steps of tenfold", title="2 factors: equal additions")
    for ax in (every, logarithms):
        ax.set_xlabel("start: times smaller")
    _stall(logarithms)
    fig.legend(*every.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8.5)
    return fig


def _stall(ax: Axes) -> None:
    """A small sketch of what waits: a loss that is flat for long and falls at once."""
    x, y = np.array([0.45, 0.84, 0.86, 0.88, 0.95]), np.array([0.2, 0.2, 0.18, 0.08, 0.06])
    ax.plot(x, y, color=style.INK, lw=1.4, transform=ax.transAxes, label="_")
    ax.text(0.96, 0.22, "loss: flat, flat,\nthen it falls", transform=ax.transAxes, fontsize=8, ha="right")


def chance(waited: Results, noisy: Results, counts: Sequence[int]) -> Figure:
    """Left: wait of two heads against the size of the start on N prompts (geometric means over draws), the logarithm of chance through the smallest size, and the power
    of symmetric prompts, dotted. Right: wait under SGD against that of gradient flow, both in diffusion times."""
    fig, (left, right) = style.figure(2, aspect=0.95)
    for n, colour in zip(counts, style.PALETTE, strict=False):
        of = waited.group(str(n))
        times, slope = np.exp(np.log(of["times"]).mean(0)), 1 / np.exp(np.log(of["rate"]).mean())
        left.plot(CHANCE_SIZES, times, "o", ms=4, color=colour)
        fine = np.geomspace(CHANCE_SIZES[-1], CHANCE_SIZES[-1] * 16, 40)
        law = times[-1] - slope * np.log(fine / fine[0])
        left.plot(fine[law > 1], law[law > 1], color=colour, lw=1)
        if n not in (counts[0], counts[len(counts) // 2 - 1], counts[-1]):
            continue  # names of all would lie on each other
        left.annotate(
            f"N = {n:,}",
            (CHANCE_SIZES[-1], times[-1]),
            (6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=9,
        )
    power = np.exp(np.log(np.concatenate([waited[f"{n}/symmetric"] for n in counts])).mean(0))
    left.plot(CHANCE_SIZES, power, ":", color=style.INK)
    left.set(
        xscale="log",
        yscale="log",
        xlabel="size of the start",
        ylabel="wait",
        title="prompts drawn once",
        xlim=(2.5e-4, 0.07),
    )
    left.invert_xaxis()
    for marker, (group, (batch, rate)) in zip("os^Dv", NOISY.items(), strict=True):
        if f"{group}/times" not in noisy.arrays:
            continue
        times = np.exp(np.log(noisy[f"{group}/times"]).mean(0))
        right.plot(
            AHEAD[SMALL:],
            times[SMALL:],
            marker,
            ms=5,
            mfc="none",
            color=style.PALETTE[0],
            label=rf"$B = {batch}$, $\eta = {rate:g}$",
        )
    right.plot(AHEAD[SMALL:], AHEAD[SMALL:], ":", color=style.INK)
    right.set(
        xscale="log",
        yscale="log",
        xlabel="wait of gradient flow, diffusion times",
        ylabel="wait, diffusion times",
        title="fresh prompts, SGD",
    )
    style.log_ticks(right, "x", list(AHEAD[SMALL:]))
    style.log_ticks(right, "y", [1, 3, 10, 30])
    right.legend(fontsize=8)
    return fig


def leads(found: Mapping[str, Mapping[str, Array]]) -> Figure:
    """Time at which attention is half-way over that of values: faint marks are draws, a disc their median, with the share in which attention is first."""
    fig, ax = style.figure(aspect=0.55)
    for row, of in enumerate(found.values()):
        for values, label, marker, colour, shift in (
            (of["equal"], "equal rates", "o", style.PALETTE[0], -0.17),
            (of["quicker"], "queries and keys ten times faster", "s", style.PALETTE[3], 0.17),
        ):
            ax.plot(np.exp(values), np.full(len(values), row + shift), "|", color=colour, ms=9, alpha=0.12)
            mark = {"ms": 8, "mec": style.GROUND, "color": colour, "label": None if row else label}
            ax.plot(np.exp(np.median(values)), row + shift, marker, zorder=4, **mark)
            first = f"{np.mean(np.asarray(values) < 0):.0%}"
            ax.text(0.13, row + shift, first, color=colour, va="center", fontsize=9)
    ax.set_yticks(range(len(found)), [textwrap.fill(NAMES[name], 16) for name in found])
    ax.set(xscale="log", xlabel="time of attention over time of values", ylim=(-0.5, len(found)), xlim=(0.12, 18))
    _sides(ax, "attention first", "values first")
    style.log_ticks(ax, "x", [0.25, 0.5, 1, 2, 4, 8])
    fig.legend(loc="outside upper center", ncols=2)
    return fig


def _sides(ax: Axes, below: str, above: str) -> None:
    """A dotted line at ratio 1, with what it means to lie on either side, at the top of the panel."""
    ax.axvline(1, color=style.INK, ls=":")
    for words, shift, side in ((f"← {below}", -5, "right"), (f"{above} →", 5, "left")):
        at = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
        ax.annotate(words, (1, 0.99), (shift, 0), **at, ha=side, va="top", fontsize=9)


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
    (("values_plain", "uniform"), "values and outputs ten times faster", "o", style.PALETTE[0], -0.22),
    (("routing_plain", "routing_uniform"), "queries and keys ten times faster", "s", style.PALETTE[3], 0.16),
)


def rates(found: Mapping[str, Race]) -> Figure:
    """Ratios of steps with 95 % intervals over seeds. Left: both arms at the plain base rate, over the plain rate; the best uniform rate is a diamond.
    Right: each at its best base rate, over the best uniform rate, which is the dotted line."""
    fig, (left, right) = style.figure(2, aspect=1.05, sharey=True)
    for row, logs in enumerate(found.values()):
        for (left_of, right_of), label, marker, colour, shift in MARKS:
            for ax, values in ((left, logs[left_of]), (right, logs[right_of])):
                mean, low, high = np.exp(interval(values))
                ax.plot(np.exp(values), np.full(len(values), row + shift + 0.14), "|", color=colour, ms=5, alpha=0.5)
                ax.plot([low, high], [row + shift] * 2, color=colour, lw=2)
                ax.plot(mean, row + shift, marker, color=colour, ms=7, label=None if row else label)
        best = np.exp(logs["uniform_plain"].mean())
        left.plot(best, row, "D", color=style.INK, mfc="none", label=None if row else "one best rate for all")
    left.set(xscale="log", xlabel="steps, over steps at the plain rate", title="all at a low base rate")
    right.set(xscale="log", xlabel="steps, over steps at the\nbest rate for all", title="each at its best base rate")
    for ax in (left, right):
        _sides(ax, "faster", "slower")
    lowest = right.get_xlim()[0]
    right.axvspan(lowest, 0.5, color=style.GRID, alpha=0.5, lw=0)
    right.text(1.2 * lowest, len(found) - 0.3, "twice as fast", fontsize=9)
    style.log_ticks(left, "x", [0.1, 0.3, 1])
    style.log_ticks(right, "x", [0.1, 1, 10])
    left.set_yticks(range(len(found)), [textwrap.fill(NAMES[name], 16) for name in found])
    left.set(ylim=(len(found) - 0.2, -0.75), xlim=(None, 2.2))
    right.set_xlim(left=lowest)
    fig.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    return fig


#: Laws that are asked of all of :data:`ACROSS`.
LAWS = {"wait": "the wait of a small start", "lead": "attention before values", "rates": "ten times the rate on values"}
#: Models of which each of :data:`LAWS` is asked.
ACROSS = ("heads", "chain", "known")


def law_on(
    law: str,
    model: str,
    waits: Mapping[str, Array],
    leads: Mapping[str, Mapping[str, Array]],
    races: Mapping[str, Race],
) -> Figure:
    """One of :data:`LAWS` on one of :data:`ACROSS`: waits ``(draws, 4)`` against size, leads of attention, or steps over those of
    the plain rate; every draw or seed is shown."""
    fig, ax = style.figure(aspect=0.45)
    if law == "wait":
        _wait(ax, model, waits[model])
    elif law == "lead":
        rows = {"equal rates": leads[model]["equal"], "queries and keys\nten times faster": leads[model]["quicker"]}
        _strips(ax, rows, "time of attention over time of values", [0.25, 0.5, 1, 2, 4])
        _sides(ax, "attention first", "values first")
    else:
        logs = races[model]
        rows = {
            "values and outputs\nten times faster": logs["values_plain"],
            "queries and keys\nten times faster": logs["routing_plain"],
            "best rate for all": logs["uniform_plain"],
        }
        _strips(ax, rows, "steps, over steps at the plain rate", [0.03, 0.1, 0.3, 1])
        ax.set_xlim(right=2)
        _sides(ax, "faster", "slower")
    ax.set_title(f"{NAMES[model]}: {LAWS[law]}")
    return fig


def _wait(ax: Axes, model: str, times: Array) -> None:
    sizes = WAIT_SIZES[model]
    over = sizes.scale / np.array(sizes.scales())
    grown = times / times[:, :1]
    for row, values in enumerate(grown):
        ax.plot(over, values, "o-", lw=0.8, color=style.PALETTE[0], label=None if row else "each draw of prompts")
    x, last = np.geomspace(1, over[-1], 50), grown[:, -2:].mean(0)
    logarithmic = sizes.p == 2
    scale = "linear" if logarithmic else "log"
    tenth = (last[1] - last[0]) / np.log(sizes.factor)
    law = last[1] + tenth * np.log(x / x[-1]) if logarithmic else last[1] * (x / x[-1]) ** (sizes.p - 2)
    ax.plot(x, law, color=style.INK, ls=":", label=f"predicted: {'a logarithm' if logarithmic else 'a square'}")
    ax.set(xscale="log", yscale=scale, xlabel="start: times smaller", ylabel="wait: times longer")
    ax.legend(loc="upper left", fontsize=9)


def _strips(ax: Axes, rows: Mapping[str, Array], what: str, ticks: Sequence[float]) -> None:
    """Exponentials of logarithms, a row for each kind: single values, and their geometric mean with its 95 % interval."""
    for row, values in enumerate(rows.values()):
        mean, low, high = np.exp(interval(values))
        ax.plot(np.exp(values), np.full(len(values), row), "o", color=style.PALETTE[0], ms=4, alpha=0.4)
        ax.plot([low, high], [row, row], color=style.PALETTE[3], lw=2.5)
        ax.plot(mean, row, "D", color=style.PALETTE[3], label=None if row else "mean, 95 % interval")
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xscale="log", xlabel=what, ylim=(len(rows) + 0.2, -0.8))
    style.log_ticks(ax, "x", ticks)
    ax.legend(loc="lower left", fontsize=9)  # in the space under the last row


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


HEADS = {"h1": "one head", "h2": "two heads", "linear": "linear attention"}


def kernels(found: Mapping[str, Mapping[str, Array]]) -> Figure:
    """Share that the best step with each kernel leaves unexplained of trained heads, one mark a run; models are named at their best kernel."""
    fig, ax = style.figure(aspect=0.62)
    names = [*KERNELS, "centred"]
    for i, (group, label) in enumerate(HEADS.items()):
        look = {"ls": "", "marker": "osD"[i], "color": style.PALETTE[(0, 3, 2)[i]], "label": label}
        rows = np.arange(len(names)) + 0.22 * (i - 1)
        for run in range(len(found[group]["linear"])):
            ax.plot([found[group][k][run] for k in names], rows, **look)
        best = names.index(min(names, key=lambda kernel: found[group][kernel].mean()))
        below, place = group == "linear", np.sqrt(found[group][names[best]].min() * found[group][names[best]].max())
        at = place, rows[best] + (0.15 if below else -0.15)
        ax.text(*at, label, color=look["color"], ha="center", va="top" if below else "bottom")
    ax.axvline(0.01, color=style.INK, ls=":")
    ax.text(0.0105, -0.75, "one per cent", va="top", fontsize=9)
    ax.set_yticks(range(len(names)), ["RBF" if name == "rbf" else name for name in KERNELS] + ["linear,\ncentred"])
    ax.set(xscale="log", xlim=(1.2e-4, 1), xlabel="share left unexplained", ylim=(len(names) - 0.4, -0.8))
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
    sums.axvline(0.05, color=style.INK, ls=":")
    sums.text(0.045, -0.45, "cancel", ha="right", fontsize=9)
    _sides(shares, "debiased", "plain")
    sums.set(xscale="log", xlabel=r"$|\sum \mu|\, /\, \sum |\mu|$", title="do the outputs cancel?")
    shares.set(xscale="log", xlabel="error of debiased step over plain", title="which step fits better?")
    style.log_ticks(shares, "x", [0.1, 0.2, 0.5, 1, 2, 5])
    sums.set_yticks(range(len(PLACES)), list(PLACES.values()))
    sums.set_ylim(len(PLACES) - 0.5, -0.75)
    handles, labels = sums.get_legend_handles_labels()
    shown = dict(zip(labels, handles, strict=True))
    fig.legend(shown.values(), shown, loc="outside upper center", ncols=3)
    return fig


def ladder(found: Ladder) -> Figure:
    """Share of descending stacks among the nearest: quartiles (bar) and median (line) of fresh stacks of each kind, all depths together; models as discs, controls open."""
    known = {"stacks that descend": [judge.yes for judge in found.judges.values()]}
    known |= {label: [judge.no[kind] for judge in found.judges.values()] for kind, label in KINDS.items()}
    fig, ax = style.figure(height=4.5)
    for row, every in enumerate(known.values()):
        low, middle, high = np.quantile(np.concatenate(every), (0.25, 0.5, 0.75))
        colour = style.COLOURS["measured"] if row == 0 else style.COLOURS["dummy"]
        ax.plot([low, high], [row, row], color=colour, lw=9, alpha=0.45, solid_capstyle="butt")
        ax.plot([middle, middle], [row - 0.28, row + 0.28], color=colour, lw=2.4)
    look = {"ls": "", "marker": "o", "ms": 5, "color": style.PALETTE[3]}
    for i, (name, said) in enumerate(found.ladder.items()):
        row = len(known) + i
        ax.plot(said, row - 0.15 + _apart(said), **look, label=None if i else "language model")
        if name in found.controls:
            alone, label = found.controls[name], None if i else "copy without regression"
            ax.plot(alone, row + 0.2 + _apart(alone), **look, mfc="none", label=label)
    ax.axhline(len(known) - 0.5, color=style.INK, lw=0.9)
    ax.axvline(0.5, color=style.INK, lw=0.9, ls=":")
    ax.set_yticks(range(len(known) + len(found.ladder)), [*known, *map(in_words, found.ladder)], fontsize=8)
    ax.set(xlim=(-0.03, 1.03), xlabel="share of the 25 nearest stacks that descend")
    ax.invert_yaxis()
    fig.legend(loc="outside upper center", ncols=2)
    return fig


def _apart(said: list[float]) -> np.ndarray:
    """Small shifts, so that equal scores do not hide one another."""
    return 0.11 * (np.arange(len(said)) - (len(said) - 1) / 2)
