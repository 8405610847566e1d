"""The model of he2025 that trains in the page: its settings, what its curves are compared with, and the same run by the library.

The page takes the trainer's own steps in WebAssembly (:mod:`iclbook.native.webassembly`); from one seed both start at the same parameters and see the
same prompts.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ... import theory
from ...claims import load_ledger
from ...drawing import style
from ...random import INIT, generator
from ...sliders import PageModel
from ...tasks import LinearRegression
from ...training import History
from . import true_loss
from .circuits import code_scale
from .loss import eta_star
from .page_models import QUERY, SHOWN, Head, answers, effective, on_line, pairs_on_line
from .trained_circuits import paper_limits

#: Where the page begins: two heads from PyTorch's own initialisation, at three times the paper's rate.
BEGIN = {
    "heads": 2,
    "scale": 1.0,
    "rate": 0.003,
    "batch": 256,
    "seed": 15,
    "scores": "printed",
    "activation": "softmax",
}
#: Ends of the sliders; sizes of a batch; how many seeds.
LIMITS = {"heads": (1, 8), "scale": (0.01, 2.0), "rate": (1e-4, 0.03)}
BATCHES = (16, 32, 64, 128, 256, 512, 1024)
SEEDS = 100
#: Training in the page stops here, where the paper's does.
MOST = 500_000
#: Frames of the run that the still picture shows, for browsers that cannot train.
FRAMES = 48
#: An answer is called straight where its rms distance from the best straight line is less than this share of its own rms.
STRAIGHT = 0.05
#: Names for readers, in the order of ``native/page/page.c``.
ACTIVATIONS = {
    "softmax": "softmax",
    "affine": "1 + Cx",
    "square": "1 + Cx, squared",
    "tanh": "1 + tanh(Cx)",
    "linear": "linear",
}
#: One click each: key, name, settings beside BEGIN, a sentence, the claim or question that it shows, and what the link to it says.
TRY = ("key", "name", "settings", "text", "claim", "link")
TRIES = (
    ("pair", "Two heads", {}, "One head learns first, nearly alone, and the loss falls to that of one head. Then the other takes the opposite sign, and the loss falls to that of one gradient step.", "fig2.2", "Figure 2.2"),
    ("one", "One head", {"heads": 1, "seed": 0}, "One head is a kernel smoother: its loss stops at {one_head:.3f}, and its answer bends.", "single-head", "The claim on one head"),
    ("never", "No pair", {"seed": 6}, "From some starts, about one in five, two heads keep one sign for good. They do no better than one head.", "both-signs", "The claim on both signs"),
    ("dummy", "Four heads", {"heads": 4, "seed": 2}, "One pair does the work. The other two heads fade: dummy heads, with small ω and small μ.", "fig2.7", "Figure 2.7"),
    ("large", "A large start", {"scale": 2.0, "seed": 4}, "From entries twice as large a pair forms, too. It takes longer until KQ is a multiple of the identity.", "robust", "The claim on other starts"),
    ("rate", "A high rate", {"rate": 0.02, "seed": 16}, "At rate 0.02 γ stays near 0.28. At a lower rate γ falls: it is not the minimum of the loss.", "q-minimiser", "Our question on γ"),
    ("linear", "Linear attention", {"heads": 1, "activation": "linear", "seed": 0}, "Without a softmax one head makes the gradient step alone. It needs no pair.", "fig4.1", "Figure 4.1"),
)  # fmt: skip


def heads_at(history: History, t: int) -> list[Head]:
    """Each head at a record of the run."""
    return effective(history.circuits["kq"][t, 0], history.circuits["ov"][t, 0])


def film(history: History) -> list[dict[str, Any]]:
    """Frames of a run for browsers that cannot train: step, loss and heads."""
    frames, steps = [], history.steps
    wanted = np.geomspace(max(1, steps[-1] / 1000), steps[-1], FRAMES)
    for t in np.unique([0, *np.searchsorted(steps, wanted.round())]):
        heads = [{k: v.astype(float).round(4) for k, v in head.items()} for head in heads_at(history, t)]
        loss = round(float(np.nan_to_num(history.loss[t, 0])), 4)  # before the first step there is none
        frames.append({"step": history.steps[t], "loss": loss, "heads": heads})
    return frames


@lru_cache(maxsize=4)
def loss_levels(task: LinearRegression) -> list[dict[str, Any]]:
    """Levels beside the training loss: one head's best, one debiased gradient step with its best rate, and ridge regression."""
    sizes = task.d, task.L, task.noise_var
    return [
        {"name": "one head's best", "loss": true_loss.single_head_exact(*sizes).loss},
        {"name": "one gradient step", "loss": float(theory.debiased_gd_error(eta_star(*sizes), *sizes))},
        {"name": "ridge regression", "loss": theory.ridge_error(*sizes)[0]},
    ]


def train_in_page(task: LinearRegression, history: History) -> PageModel:
    """The panel in which a reader trains the paper's model; the still picture shows ``history``, a run of :data:`BEGIN`."""
    layout, (omega, mu) = task.layout(), paper_limits()
    anchors = {claim.id: claim.anchor for claim in load_ledger("he2025").claims}
    tries = [dict(zip(TRY, one, strict=True)) for one in TRIES]
    for one in tries:
        one["text"] = one["text"].format(one_head=loss_levels(task)[0]["loss"])
        one["anchor"] = anchors[f"he2025/{one['claim']}"]
    frames, end = film(history), int(history.steps[-1])
    said = sentence(task, frames[-1]["heads"])
    data = {
        "d": task.d,
        "L": task.L,
        "noise": layout.noise_scale,
        "beta": layout.beta_scale,
        "eta": eta_star(task.d, task.L, task.noise_var),
        "begin": BEGIN | {"heads": len(frames[-1]["heads"])},
        "limits": LIMITS,
        "batches": BATCHES,
        "scores": {"printed": 1.0, "coded": code_scale(task.d)},
        "activations": [{"name": name, "text": text} for name, text in ACTIVATIONS.items()],
        # of torch's generator, which draws the initial parameters: its first word
        "states": [generator(seed, INIT).initial_seed() & 0xFFFFFFFF for seed in range(SEEDS)],
        "levels": loss_levels(task),
        "paper": {"omega": omega, "mu": mu},
        "pairs": pairs_on_line(task, SHOWN),
        "query": QUERY,
        "most": MOST,
        "film": frames,
        "moments": [step for step in (10, 100, 1000) if step < end] + [end],
        "straight": STRAIGHT,
        "tries": tries,
        "page": "../notebooks/linear_regression.html",
    }
    title, says = "Two heads learn to answer: train them here", f"Step {end:,}, the end of a stored run: {said}"
    description = (
        f"The panel opens at the end of a stored run. Train takes the paper's steps in this page by the library's own code, from the seed that is shown, to step {MOST:,}; Pause stops it. "
        "Drag a pair or the open circle, the query, while it trains. Orange adds, blue subtracts. Discs: the weight with which a pair's response enters. Green, dashed: closed forms."
    )
    alt = f"Answers of the heads at four moments of a run, and its loss. {says}"
    return PageModel("train", data, lambda: two_heads_cancel(task, history), alt, title, description, says)


def shape(task: LinearRegression, heads: Sequence[Head]) -> tuple[float, float]:
    """Of the heads' answer to the prompt of the panel, where it is drawn: its rms distance from the best straight line over its rms, and the slope of that line
    over the slope of one gradient step."""
    grid, pairs = np.linspace(-4, 4, 65), pairs_on_line(task, SHOWN)
    tokens = np.concatenate([on_line(pairs[:, 0], task.d), pairs[:, 1:]], axis=-1)
    y = answers(list(heads), tokens, on_line(grid, task.d).T).clip(-9, 9)
    slope, level = np.polyfit(grid, y, 1)
    x, response = pairs.T
    step = eta_star(task.d, task.L, task.noise_var) * np.mean(response * (x - x.mean()))
    return float(np.sqrt(np.mean((y - slope * grid - level) ** 2) / np.mean(y**2))), float(slope / step)


def sentence(task: LinearRegression, heads: Sequence[Head]) -> str:
    """What the panel says of two heads, as ``book/assets/models/train.js`` says it."""
    bend, slope = shape(task, heads)
    does = [abs(head["ov"][-1] * np.trace(head["kq"][:-1])) / task.d for head in heads]  # abs(mu omega)
    adds = [
        bool(head["ov"][-1] > 0) for head, step in zip(heads, does, strict=True) if step >= max(0.2 * max(does), 0.01)
    ]
    verb = "add" if any(adds) else "subtract"
    both = "one head adds, one subtracts" if len({*adds}) == 2 else f"two heads {verb}"
    who = ("all heads are near zero", f"one head {verb}s; one does little", both)[len(adds)]
    how = "runs straight" if bend < STRAIGHT else "bends"
    return f"{who}. The answer {how}: it departs from a straight line by {bend:.0%} of its size. Its slope is {slope:.0%} of one gradient step's.".replace(
        "%", " %"
    )


def two_heads_cancel(task: LinearRegression, history: History) -> Figure:
    """Four moments of a run: the answer of each head by itself and their sum, to one prompt; below, the loss with these moments and the levels that it comes to."""
    pairs, grid, steps = pairs_on_line(task, SHOWN), np.linspace(-4, 4, 161), history.steps
    tokens = np.concatenate([on_line(pairs[:, 0], task.d), pairs[:, 1:]], axis=-1)
    queries = on_line(grid, task.d).T
    fig, whole = style.figure(1, height=4.6)
    whole.remove()
    rows = fig.add_gridspec(2, 4, height_ratios=[1, 1.25])
    moments = np.searchsorted(steps, [10, 100, 1000, steps[-1]]).clip(max=len(steps) - 1)
    loss = fig.add_subplot(rows[1, :])
    for column, t in enumerate(moments):
        ax, heads = fig.add_subplot(rows[0, column]), heads_at(history, t)
        for head in heads:
            colour = style.COLOURS["positive" if head["ov"][-1] > 0 else "negative"]
            ax.plot(grid, answers([head], tokens, queries), color=colour, lw=1)
        ax.plot(grid, answers(heads, tokens, queries), color=style.INK, lw=2.2)
        ax.plot(*pairs.T, ".", color=style.INK, ms=3)
        ax.set(xlim=(-4, 4), ylim=(-4, 4), xticks=[], yticks=[])
        ax.set_title(f"step {steps[t]:,}", fontsize=9)
        loss.plot(max(steps[t], 10), history.loss[max(t, 1), 0], "o", color=style.INK, ms=5, zorder=3)
    after = steps > 0
    loss.plot(steps[after], history.loss[after, 0], color=style.INK)
    for level in loss_levels(task):
        loss.axhline(level["loss"], color=style.COLOURS["gd"], ls="--", lw=1)
        loss.text(11, level["loss"] + 0.02, f"{level['name']} {level['loss']:.3f}", fontsize=8)
    loss.set(xscale="log", xlabel="step", ylabel="loss", xlim=(9, 1.1 * max(1000, steps[-1])), ylim=(0, 1.3))
    return fig
