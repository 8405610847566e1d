"""Figures 1 and 4, jump by jump, the order of learning and the lifted simplifications; and the race in the page (recall2025)."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...drawing import style
from ...sliders import PageModel, Slider, show
from ...tasks import AssociativeRecall
from ...training import Flow, gradient_flow
from ...training.history import KEPT
from .end_to_end import attention_by_offset, task_of
from .figures_1_and_4 import Training
from .stages import ACTIVE, RANKS, SNAPSHOTS, activations, patience, small
from .theory import Population, jump_limit

HEAD = style.PALETTE[:4]
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (4, 1.5, 1, 1.5)))
DOTS = (0, (1, 1.6))


def plateau_lines(ax: Axes, task: AssociativeRecall, last: int, loss: str = "dp") -> None:
    """The closed forms of plateaus 0 to ``last`` as dotted lines across, named by the number m of matched tokens."""
    value = task.plateau_ce if loss == "ce" else task.plateau_dp
    for m in range(last + 1):
        ax.axhline(value(m), color=style.INK, lw=0.9, ls=DOTS)
        at = {"xycoords": ax.get_yaxis_transform(), "xytext": (3, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(f"m = {m}", (1, value(m)), **at, fontsize=8)


def attention_maps(ax: Axes, maps: Mapping[str, np.ndarray], gap: float = 1) -> None:
    """Attention ``(K, W)`` of the heads (rows) by offset (columns), large shares in per cent; maps ``gap`` columns apart, each over its name."""
    middles, left = [], 0
    for attention in maps.values():
        heads, width = attention.shape
        middles.append(left + (width - 1) / 2)
        box = (left - 0.5, left + width - 0.5, heads - 0.5, -0.5)
        ax.imshow(attention, extent=box, cmap=style.DIVERGING, vmin=-1, vmax=1, interpolation="nearest")
        ax.vlines(left + np.arange(width - 1) + 0.5, -0.5, heads - 0.5, color=style.GROUND, lw=0.7)
        ax.hlines(np.arange(heads - 1) + 0.5, *box[:2], color=style.GROUND, lw=0.7)
        for (head, offset), share in np.ndenumerate(attention):
            if share > 0.5:
                ax.text(
                    left + offset, head, f"{100 * share:.0f}", ha="center", va="center", fontsize=7.5, color="white"
                )
        for head in np.flatnonzero(attention.sum(-1) < 0.5):  # most of it at offsets that the map does not show
            ax.text(middles[-1], head, "elsewhere", ha="center", va="center", fontsize=8)
        left += width + gap
    ax.set(xlim=(-0.6, left - gap - 0.4), ylim=(heads - 0.4, -0.6))
    ax.set_title("attention by offset, per cent")
    ax.set_xticks(middles, maps)
    ax.set_yticks(range(heads), [f"head {h + 1}" for h in range(heads)])
    ax.tick_params(length=0, labelsize=8.5)
    ax.grid(False)
    ax.spines[:].set_visible(False)


#: What a model knows while ``m`` tokens are matched.
KNOWS = ("knows none", "knows one", "knows two", "solved")


def training(pop: Population, run: Training) -> Figure:
    """Figures 1 and 4: first-layer attention early and at the printed steps, the first seed's loss with a sentence on every tread of its staircase, and the three beta."""
    fig, (maps, ax, below) = style.figure(1, 3, height=5.6, height_ratios=(1, 1.4, 1.2))
    below.sharex(ax)
    steps, batch, right = run.steps, run.loss[:, 0], run.steps[-1]
    plateaus = [pop.task.plateau_dp(m) for m in range(pop.n_heads + 1)]
    smooth = np.convolve(np.pad(batch, 10, mode="edge"), np.full(21, 1 / 21), "valid")
    falls = [*(steps[np.argmax(smooth < np.mean(pair))] for pair in pairwise(plateaus)), right]
    left = falls[0] / 4
    early = int(steps[np.searchsorted(steps, np.sqrt(left * falls[0]))])
    shown = {f"step {step:,}": pop.attention(run.states[steps == step][0, 0]) for step in (early, *SNAPSHOTS)}
    attention_maps(maps, shown)
    ax.plot(steps, batch, color=style.COLOURS["dummy"], lw=0.7)
    words = {"fontsize": 8.5, "bbox": {"fc": style.GROUND, "lw": 0, "pad": 0.5}}
    for m, (start, end) in enumerate(pairwise([left, *falls])):
        ax.plot([start, end], [plateaus[m]] * 2, color=style.INK, lw=2.2)
        text = f"{KNOWS[m]}:\n{math.factorial(pop.task.order - m)} left" if plateaus[m] else KNOWS[m]
        at = (
            (np.sqrt(start * end), np.sqrt(start * end), end, right)[m],
            plateaus[m] + (-0.04 if plateaus[m] else 0.03),
        )
        ax.text(*at, text, va="top" if plateaus[m] else "bottom", ha="center" if m < 2 else "right", **words)
    betas = pop.split(run.states[:, 0])[1]
    rises = steps[np.argmax(betas > 0.62 * betas[-1], 0)]
    for h, rise in enumerate(rises):
        below.plot(steps, betas[:, h], color=HEAD[h], ls=DASHES[h], lw=2, label=f"head {h + 1}")
        if betas[0, h] > betas[-1, h] / 4:  # it begins far above the others: there is room at its start
            at, across, side, away = (left, betas[0, h]), "data", "left", (4, 8)
        else:  # above the frame, where no line strikes it, and to the side if another rises nearly at the same step
            ratios = rises / rise
            before, after = ((ratios > 1 / 1.6) & (ratios < 1)).any(), ((ratios > 1) & (ratios < 1.6)).any()
            at, across, side = (
                (rise, 1),
                below.get_xaxis_transform(),
                "left" if before else "right" if after else "center",
            )
            away = (0, 4)
        look = {"xytext": away, "ha": side, "va": "bottom", "fontsize": 8.5, "textcoords": "offset points"}
        below.annotate(f"head {h + 1}", at, xycoords=across, color=HEAD[h], **look)
    for panel, name in ((ax, "dot-product loss"), (below, r"strength $\beta$")):
        for step in SNAPSHOTS:
            style.paper_line(panel, step, None, axis="x")
        panel.set(xlabel="step", ylabel=name, xlim=(left, 1.4 * right))
        style.log_ticks(panel, "x", (200, *SNAPSHOTS))
    ax.set(ylim=(-0.05, 0.8), yticks=[0, *np.round(plateaus[:-1], 2)])
    below.set_yticks(range(4))
    return fig


def losses(runs: Mapping[str, tuple[Population, Flow]]) -> Figure:
    """Exact flows under both losses, each with its plateau values."""
    fig, axes = style.figure(2, aspect=0.75, sharex=True)
    for ax, (name, (pop, flow)) in zip(axes, runs.items(), strict=True):
        plateau_lines(ax, pop.task, pop.n_heads, pop.loss)
        ax.plot(flow.times, pop.value(flow.states), color=style.INK, label="exact flow")
        ax.set(xlabel="time t of the flow", ylabel=name, xscale="log", xlim=(100, None))
    return fig


RANKINGS = {" > ".join(f"β{'₁₂₃'[head]}" for head in heads): np.argsort(heads) for heads in RANKS}


def show_orders(pop: Population, until: float, few: bool) -> None:
    """A flow from every order of three beta until a time: loss so far and the first layer's attention; the small profile draws the first and the last order."""
    names = list(RANKINGS)[::5] if few else list(RANKINGS)
    times = np.linspace(0, until, 201)
    starts = {name: small(pop, 0.02 / 4.0 ** RANKINGS[name]) for name in names}
    flows = {name: gradient_flow(pop.gradient, start, until, times, rtol=1e-8) for name, start in starts.items()}

    def frame(order: str, place: float) -> Figure:
        fig, (ax, right) = style.figure(2, height=2.9, width_ratios=(1.25, 1))
        value, now = pop.value(flows[order].states), round(place * (len(times) - 1))
        plateau_lines(ax, pop.task, pop.n_heads)
        ax.plot(times, value, color=style.COLOURS["dummy"], lw=1)
        ax.plot(times[: now + 1], value[: now + 1], color=style.INK, lw=2.2)
        ax.plot(times[now], value[now], "o", color=style.INK, ms=7)
        ax.set(xlabel="time t of the flow", ylabel="dot-product loss", ylim=(-0.03, 0.8), title=order)
        attention_maps(right, {"attention of each head": pop.attention(flows[order].states[now])})
        return fig

    places = (0.3, 0.8) if few else (0.02, 0.3, 0.5, 0.8, 1.0)
    show(
        frame,
        [
            Slider("order", "initial order", tuple(names)),
            Slider("place", "time t, as a share of the run", places, live=(0.0, 1.0, 0.01)),
        ],
        start={"order": names[0], "place": places[len(places) // 2]},
        title="The initial order of β decides the order of learning",
        description="Heads become active in the order of their initial β, the largest first. Try: β₃ > β₂ > β₁ at half of the run, where head 1 is the one that still sees all offsets alike.",
        alt=lambda order, place: (
            f"Loss and attention of the three heads at {place:.0%} of a run that starts with {order}."
        ),
        play="place",
    )


def later(rows: Sequence[tuple[str, float, float]]) -> Figure:
    """Slow-down of later jumps beside k/(k-h+1)."""
    names, measured, predicted = zip(*rows, strict=True)
    fig, ax = style.figure(height=2.3)
    x = np.arange(len(rows))
    ax.bar(x, measured, color=style.COLOURS["dummy"], width=0.36, label="measured")
    ax.plot(x, predicted, "D", color=style.INK, ms=7, label="$k/(k-h+1)$")
    style.paper_line(ax, 1.0)
    ax.set_xticks(x, names)
    ax.set(ylabel="time over that of\nthe theory's first jump", ylim=(0, 2.3), xlim=(-0.45, len(rows) - 0.55))
    above = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center", "fontsize": 9}
    ax.annotate("paper:\nas long", (0.5, 1.04), color=style.COLOURS["paper"], **above)
    ax.set_title("bar: with learned heads; diamond: $k/(k-h+1)$", fontsize=9)
    return fig


def order_shares(measured: Mapping[str, np.ndarray], beta_scales: Sequence[float], ratios: Sequence[float]) -> Figure:
    """Left: share of pairs of heads in the order of beta; right: share of runs with all heads active; one curve for each ratio of the scales of w and beta."""
    fig, axes = style.figure(2, aspect=0.75)
    titles = {"pairs": r"larger $\beta$ active first (pairs of heads)", "finished": "all three heads active (runs)"}
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        for ratio, share, marker in zip(ratios, measured[name], "osD^v", strict=True):
            label = f"w = {ratio:g} β" if ratio else "w = 0"
            ax.semilogx(beta_scales, share, f"{marker}-", color=style.PALETTE[4], label=label)
        ax.set(xlabel=r"scale of the initial $\beta$", ylabel="share", ylim=(0, 1.05), title=title)
        style.name_ends(ax, 0.065)
    axes[0].axhline(0.5, color=style.INK, ls=DOTS, lw=1.2)
    axes[0].text(beta_scales[0], 0.47, "chance", va="top", fontsize=9)
    axes[0].text(beta_scales[0], 0.1, "w: scale of the random\nfirst-layer scores", fontsize=9)
    return fig


def lifted(found: Mapping[str, Mapping[str, np.ndarray]], task: AssociativeRecall) -> Figure:
    """Loss of the output over its sum, of the eight models along their flows, in time over the first jump of the simplified one: with A0 (a window), and without."""
    unit = found["none"]["jumps"][0]
    fig, axes = style.figure(2, height=3.2)
    assumed = {"A2": "query side fixed", "A3": "softmax on responses"}
    looks = {"": style.INK, "A2": style.COLOURS["dummy"], "A3": style.PALETTE[4], "A2 A3": style.PALETTE[5]}
    for ax, window in zip(axes, (True, False), strict=True):
        plateau_lines(ax, task, 2)
        for dash, (rest, colour) in zip(DASHES, looks.items(), strict=True):
            own = found[rest or "none"] if window else found[f"A0 {rest}".strip()]
            label = f"without {rest} ({assumed[rest]})" if rest in assumed else "without A2 and A3"
            label = label if rest else "nothing else lifted"
            ax.semilogx(own["times"][1:] / unit, own["normalised"][1:], color=colour, ls=dash, lw=2, label=label)
        ax.set(
            title="A0 kept (heads see a window)" if window else "without A0 (heads see all)", ylabel="normalised loss"
        )
        ax.set(xlabel="time over the simplified first jump", ylim=(-0.04, 0.75))
        style.log_ticks(ax, "x", [0.5, 1, 2, 5] if window else [1, 10, 100])
        ax.set_xlim(0.3, 6 if window else 100)
    axes[1].text(0.35, 0.73, "without A3 it never falls", va="top", fontsize=9)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8)
    return fig


def own_queries(flows: Mapping[str, tuple[Population, Flow]]) -> Figure:
    """A2 lifted, beta falling and rising from head to head, a row each: loss with the plateaus, and what a match at each head's own offset adds to a score."""
    fig, axes = style.figure(2, 2, height=4.5)
    top = 2 * max(pop.advantage(flow.states).max() for pop, flow in flows.values())
    for (pop, flow), (left, right) in zip(flows.values(), axes, strict=True):
        most = rf"$\beta$ largest in head {1 + pop.split(flow.states[0])[1].argmax()}"
        plateau_lines(left, pop.task, pop.n_heads)
        left.plot(flow.times, pop.value(flow.states), color=style.INK)
        left.set(title=f"loss, {most}", ylabel="dot-product loss", xlabel="time t of the flow")
        for h, advantage in enumerate(pop.advantage(flow.states).T):
            right.plot(flow.times, advantage, color=HEAD[h], ls=DASHES[h], label=f"head {h + 1}")
        right.axhline(ACTIVE, color=style.INK, lw=0.9, ls=DOTS)
        right.set(title=f"score of a match, {most}", xlabel="time t of the flow", yscale="symlog")
        right.set(ylabel=r"$\gamma_h$ (1: active)", ylim=(-0.5, top), xlim=(0, flow.times[-1]))
        style.name_ends(right, 0.12)
    return fig


def free(runs: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """The whole model with a free matrix, a panel each setting: loss of the output over its sum, all seeds; and attention of the heads at the end, first seed."""
    fig, grid = style.figure(len(runs), 2, height=4.6, height_ratios=(1.25, 1))
    for ax in grid[1]:
        ax.remove()
    for top, (name, run) in zip(grid[0], runs.items(), strict=True):
        plateau_lines(top, task_of(run), task_of(run).order - 1)
        top.plot(run["steps"], run["normalised"], color=style.INK, lw=0.8, alpha=0.5)
        top.set(title=name, xlabel="step")
        if top is not grid[0, 0]:
            top.sharey(grid[0, 0])  # on a phone each panel names it
    grid[0, 0].set(ylabel="normalised loss", ylim=(0, None))
    # (4, 4) each
    ends = {name.replace(", ", ",\n"): attention_by_offset(run[f"{KEPT}w"][-1, 0]) for name, run in runs.items()}
    attention_maps(fig.add_subplot(grid[0, 0].get_gridspec()[1, :]), ends, gap=2.4)  # each below its loss
    return fig


# -- in the page

#: Where the betas start at first, how far a reader may move one, and the range of the slider that moves all.
BETAS, RANGE, LARGEST = (0.02, 0.005, 0.00125), (1e-4, 0.5), (0.003, 0.3)


def race(pop: Population) -> PageModel:
    """Everything that the flow of the dot-product loss needs: who matches whom in each permutation, the plateaus, and when a head counts as active."""
    task, limit = pop.task, jump_limit(pop.task.order, pop.task.n_responses, pop.kappa)
    data = {
        "heads": pop.n_heads,
        "window": pop.window,
        "kappa": pop.kappa,
        "chance": 1 / task.n_responses,
        "match": pop.match.astype(int).ravel(),
        "plateaus": [task.plateau_dp(m) for m in range(pop.n_heads + 1)],
        "limit": limit,
        "active": ACTIVE,
        "betas": BETAS,
        "range": RANGE,
        "largest": LARGEST,
    }

    def still() -> Figure:
        start = small(pop, BETAS)
        end = 3 * activations(pop, start[None], patience(pop, BETAS)).max()
        times = np.geomspace(limit / max(BETAS) / 30, end, 200)
        states = gradient_flow(pop.gradient, start, end, times, rtol=1e-8).states
        fig, (left, right) = style.figure(2, height=2.8)
        for h in range(pop.n_heads):
            left.loglog(times, pop.split(states)[1][:, h], color=HEAD[h], ls=DASHES[h], label=f"head {h + 1}")
        plateau_lines(right, task, pop.n_heads)
        right.plot(times, pop.value(states), color=style.INK)
        right.set(xscale="log", xlabel="flow time", ylabel="dot-product loss")
        left.set(xlabel="flow time", ylabel=r"$\beta$")
        left.legend()
        return fig

    alt = (
        "Three beta against time, the largest jumping first, and the loss that falls to the next plateau at each jump."
    )
    return PageModel("recall_race", data, still, alt)
