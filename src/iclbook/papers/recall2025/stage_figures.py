"""Figures 1 and 4, jump by jump, the order of learning and the lifted simplifications; the slider over orders, and the race in the page (recall2025)."""

from collections.abc import Mapping, Sequence

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


def plateau_lines(ax: Axes, task: AssociativeRecall, last: int, label: str | None = None, loss: str = "dp") -> None:
    """The closed forms of plateaus 0 to ``last`` as dotted lines across."""
    value = task.plateau_ce if loss == "ce" else task.plateau_dp
    for m in range(last + 1):
        ax.axhline(value(m), color=style.INK, lw=0.9, ls=DOTS, label=label if m == 0 else None)


def training(pop: Population, run: Training) -> Figure:
    """Figures 1 and 4: loss with the plateau values, beta, and first-layer attention at the three printed steps, for the first seed over all."""
    fig, grid = style.figure(3, 2, height=4.6, height_ratios=(1.15, 1))
    top = grid[0][0].get_gridspec()[0, :].subgridspec(1, 2)
    for ax in grid[0]:
        ax.remove()
    left, right = fig.add_subplot(top[0]), fig.add_subplot(top[1])
    plateau_lines(left, pop.task, pop.n_heads, "plateau values")
    left.plot(run.steps, run.loss, color=style.COLOURS["dummy"], lw=0.5, alpha=0.35)
    left.plot(run.steps, run.loss[:, 0], color=style.COLOURS["measured"], lw=0.9, label="batch loss, one seed")
    for h, beta in enumerate(pop.split(run.states[:, 0])[1].T):
        right.plot(run.steps, beta, color=HEAD[h], ls=DASHES[h], label=rf"$\beta_{h + 1}$")
    for ax, name, columns in ((left, "dot-product loss", 2), (right, r"$\beta$", 3)):
        for step in SNAPSHOTS:
            style.paper_line(ax, step, None, axis="x")
        ax.set(xlabel="step", ylabel=name)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, fontsize=8)
    for ax, step in zip(grid[1], SNAPSHOTS, strict=True):
        _attention(ax, pop.attention(run.states[run.steps == step][0, 0]), f"step {step}")
    return fig


def _attention(ax: Axes, attention: np.ndarray, title: str | None = None) -> None:
    """Attention ``(K, W)`` of the heads by offset."""
    rows = [f"head {h + 1}" for h in range(len(attention))]
    columns = [f"{offset + 1}" for offset in range(attention.shape[1])]
    style.heatmap(ax, attention, 1.0, title=title, annotate=".2f", row_labels=rows, col_labels=columns)
    ax.set_xlabel("offset", fontsize=9)


def losses(runs: Mapping[str, tuple[Population, Flow]]) -> Figure:
    """Exact flows under both losses, each with its plateau values."""
    fig, axes = style.figure(2, aspect=0.75, sharex=True)
    for ax, (name, (pop, flow)) in zip(axes, runs.items(), strict=True):
        plateau_lines(ax, pop.task, pop.n_heads, "closed form", pop.loss)
        ax.plot(flow.times, pop.value(flow.states), color=style.COLOURS["measured"], label="exact flow")
        ax.set(xlabel="time t of the flow", ylabel=name, xscale="log", xlim=(100, None))
    axes[1].legend(loc="center left")
    return fig


#: Initial orders of the three beta: the rank of each.
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
        ax.plot(times[: now + 1], value[: now + 1], color=style.COLOURS["measured"], lw=2.2)
        ax.plot(times[now], value[now], "o", color=style.COLOURS["measured"], ms=7)
        ax.set(xlabel="time t of the flow", ylabel="dot-product loss", ylim=(-0.03, 0.8), title=order)
        _attention(right, pop.attention(flows[order].states[now]), "attention of each head")
        return fig

    places = (0.3, 0.8) if few else (0.02, 0.3, 0.5, 0.8, 1.0)
    show(
        frame,
        [
            Slider("order", "initial order", tuple(names)),
            Slider("place", "training step (share of the run)", places, live=(0.0, 1.0, 0.01)),
        ],
        start={"order": names[0], "place": places[len(places) // 2]},
        title="The initial order of β decides the order of learning",
        description="Try: another order: the heads become active in that order.",
        alt=lambda order, place: (
            f"Loss and attention of the three heads at {place:.0%} of a run that starts with {order}."
        ),
        play="place",
    )


def later(rows: Sequence[tuple[str, float, float]], stationary: Mapping[str, np.ndarray]) -> Figure:
    """Left: slow-down of later jumps beside k/(k-h+1); right: gradient of the learned heads over e^-c, against c."""
    fig, (ax, right) = style.figure(2, aspect=0.75)
    names, measured, predicted = zip(*rows, strict=True)
    x = np.arange(len(rows))
    ax.bar(x, measured, color=style.COLOURS["measured"], width=0.55, label="measured")
    ax.plot(x, predicted, "D", color=style.INK, ms=7, label="$k/(k-h+1)$")
    style.paper_line(ax, 1.0, "paper: the same jump")
    ax.set_xticks(x, names)
    ax.set(ylabel="time over the reduced first jump", ylim=(0, 2.9))
    ax.legend(loc="upper left", fontsize=8)
    c = stationary["c"]
    scaled = stationary["score"] * np.exp(c)
    right.plot(c, scaled, "o-", color=style.COLOURS["measured"], label=r"largest gradient $\times\ e^{c}$")
    style.theory_line(right, c, scaled[0] * np.sqrt(c / c[0]), r"$\sqrt{c}$")
    style.paper_line(right, scaled[0], r"paper: $O(e^{-c})$ stays bounded")
    right.set(xlabel="score c that a match adds", ylabel=r"gradient over $e^{-c}$", ylim=(0.6 * scaled[0], None))
    right.legend(loc="lower right")
    return fig


def order_shares(measured: Mapping[str, np.ndarray], beta_scales: Sequence[float], ratios: Sequence[float]) -> Figure:
    """Left: share of pairs of heads in the order of beta; right: share of runs with all heads active; one curve for each ratio of the scales of w and beta."""
    fig, axes = style.figure(2, aspect=0.75, sharey=True)
    for ax, name in zip(axes, ("pairs", "finished"), strict=True):
        for row, (ratio, share) in enumerate(zip(ratios, measured[name], strict=True)):
            ax.semilogx(beta_scales, share, "osD^v"[row] + "-", color=style.PALETTE[row], label=f"{ratio:g}")
        ax.set(xlabel=r"scale of the initial $\beta$", ylim=(0, 1.05))
    axes[0].axhline(0.5, color=style.INK, ls=DOTS, lw=1.2)
    axes[0].text(beta_scales[0], 0.47, "chance", va="top", fontsize=9)
    axes[0].set(ylabel="share", title=r"larger $\beta$ active first (pairs of heads)")
    axes[1].set(title="all three heads active (runs)")
    axes[0].legend(loc="lower right", ncols=3, title=r"scale of $w$ over scale of $\beta$")
    return fig


def lifted(found: Mapping[str, Mapping[str, np.ndarray]], task: AssociativeRecall) -> Figure:
    """Loss of the eight models along their flows, in time over the first jump of the simplified one: above with A0 (a window), below without."""
    unit = found["none"]["jumps"][0]
    fig, axes = style.figure(4, 2, height=3.6, sharex=True, sharey=True)
    for ax, name in zip(axes.flat, sorted(found, key=lambda name: "A0" in name), strict=True):
        plateau_lines(ax, task, 2)
        ax.semilogx(found[name]["times"][1:] / unit, found[name]["loss"][1:], color=style.COLOURS["measured"])
        ax.set_title("nothing lifted" if name == "none" else f"without {name.replace(' ', ', ')}", fontsize=9)
        ax.set_xlim(0.1, None)
    fig.supxlabel("time over the simplified first jump", fontsize=10)
    fig.supylabel("dot-product loss", fontsize=10)
    return fig


def without_a3(run: Mapping[str, np.ndarray]) -> Figure:
    """A3 alone lifted. Left: beta of the heads and the times at which they become active; right: attention on responses, and its share on the right one."""
    fig, (left, right) = style.figure(2, aspect=0.75, sharex=True)
    times, names = run["times"], [rf"$\beta_{h + 1}$" for h in range(run["beta"].shape[1])]
    for h, name in enumerate(names):
        left.plot(times, run["beta"][:, h], color=HEAD[h], ls=DASHES[h], label=name)
        for ax in (left, right):
            ax.axvline(run["active"][h], color=HEAD[h], ls=DOTS, lw=1.2, label=f"{name} active")
    left.set(xlabel="time t of the flow", ylabel=r"$\beta$", ylim=(0, 3.2))
    style.name_lines(left, dict.fromkeys(names, 75), up=9)
    right.plot(times, run["accuracy"], color=style.PALETTE[6], label="right response, of all responses")
    right.plot(times, run["mass"], color=style.PALETTE[5], ls=DASHES[1], label="responses, of all tokens")
    right.set(xlabel="time t of the flow", ylabel="second-layer attention", ylim=(0, 1.1), yticks=(0, 0.5, 1))
    style.name_lines(right, {"right response, of all responses": 50}, up=-8)
    style.name_lines(right, {"responses, of all tokens": 50}, up=8)
    right.set_xlim(0, 1.25 * run["active"][np.isfinite(run["active"])].max())
    return fig


def own_queries(flows: Mapping[str, tuple[Population, Flow]]) -> Figure:
    """A2 lifted, beta falling and rising from head to head. Top: loss with the plateaus; bottom: what a match at each head's own offset adds to a score."""
    fig, axes = style.figure(2, 2, height=4.2, sharex=True, sharey="row")
    for (name, (pop, flow)), top, bottom in zip(flows.items(), *axes, strict=True):
        plateau_lines(top, pop.task, pop.n_heads)
        top.plot(flow.times, pop.value(flow.states), color=style.COLOURS["measured"])
        top.set(title=rf"$\beta$ {name}", ylim=(0, None))
        for h, advantage in enumerate(pop.advantage(flow.states).T):
            bottom.plot(flow.times, advantage, color=HEAD[h], ls=DASHES[h], label=f"head {h + 1}")
        bottom.axhline(ACTIVE, color=style.INK, lw=0.9, ls=DOTS)
        bottom.set(xlabel="time t of the flow", yscale="symlog", ylim=(-0.5, None))
    axes[0][0].set_ylabel("dot-product loss")
    axes[1][0].set_ylabel(r"score of a match, $\gamma_h$")
    axes[1][0].legend(loc="center right", fontsize=8.5)
    return fig


def free(runs: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """The whole model with a free matrix, a column each setting. Top: loss of the output over its sum, all seeds; bottom: attention at the end, first seed."""
    fig, axes = style.figure(len(runs), 2, height=4.6, height_ratios=(1.2, 1))
    for (name, run), top, bottom in zip(runs.items(), *axes, strict=True):
        task = task_of(run)
        plateau_lines(top, task, task.order - 1, "plateau values")
        top.plot(run["steps"], run["normalised"], color=style.COLOURS["measured"], lw=0.8, alpha=0.5)
        top.set(title=name, xlabel="step", ylim=(0, None))
        _attention(bottom, attention_by_offset(run[f"{KEPT}w"][-1, 0]))
    axes[0][0].set_ylabel("normalised loss")
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
        plateau_lines(right, task, pop.n_heads, "plateaus")
        right.plot(times, pop.value(states), color=style.INK)
        right.set(xscale="log", xlabel="flow time", ylabel="dot-product loss")
        left.set(xlabel="flow time", ylabel=r"$\beta$")
        left.legend()
        right.legend()
        return fig

    alt = (
        "Three beta against time, the largest jumping first, and the loss that falls to the next plateau at each jump."
    )
    return PageModel("recall_race", data, still, alt)
