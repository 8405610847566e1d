"""Figures 5 (right) and 6: images of unseen classes, blocks beside linear probing. Differences are paired; errors are over networks and episodes."""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from ...claims import printed
from ...drawing import style
from ...statistics import Estimate, ratio_error
from ...store import Results
from ...training import Study
from .contexts import BLOCK, TEST, numbers
from .images import BLOCKS, WIDTH, GlyphEpisodes, ImageContexts
from .networks import weights

#: Probes: of a penalty that was chosen, and of 500 steps of Adam.
PROBES = ("tuned", "coded")
#: Attentions: kind of results (:func:`of`) and beginning of their groups' names.
ATTENTIONS = {"softmax": ("unseen", "blocks"), "linear": ("linear", "linear")}
NAMES = {1: "1 block", 2: "2 blocks", 3: "3 blocks"}
#: Colours that can be told apart on the dark page too.
COLOURS = {1: style.COLOURS[1], 2: style.PALETTE[0], 3: style.COLOURS[3]}
#: Dashes of training classes.
DASHED = (0, (3, 2))


def of(results: Mapping[str, Any], kind: str) -> list[Any]:
    """Results (or studies) by seed on networks that never saw the test classes (``unseen``, ``linear``, ``short``), or learned to name them (``seen``)."""
    return [r for name, r in results.items() if name.startswith(f"images_{kind}")]


def by_network(results: list[Results], what: str) -> np.ndarray:
    """``blocks2/hits``, ``probe/tuned_nll`` ...: mean over runs, ``(networks, E)``; episode e is the same everywhere."""
    return np.stack([np.atleast_2d(r[what].astype(float)).mean(0) for r in results])


def per_episode(results: list[Results], what: str) -> np.ndarray:
    """:func:`by_network`, mean over networks ``(E,)``."""
    return by_network(results, what).mean(0)


def comparison_records(results: Mapping[str, Results]) -> dict:
    """Figure 5, right: scores of models and probes, what each number of blocks gains on the probes, and the accuracy of three untrained blocks."""
    names = {(probe, ""): ("unseen", f"probe/{probe}_") for probe in PROBES}
    for attention, (kind, group) in ATTENTIONS.items():
        names |= {(attention, k): (kind, f"{group}{k}/") for k in BLOCKS}
    hits, nll = (
        {at: by_network(of(results, kind), f"{name}{what}") for at, (kind, name) in names.items()}
        for what in ("hits", "nll")
    )
    found: dict = {}
    for name, k in names:
        found[f"images/{name}/accuracy{k}"] = float(hits[name, k].mean())
        found[f"images/{name}/nll{k}"] = float(nll[name, k].mean())
    found["images/softmax/accuracy3"] = Estimate.crossed(hits["softmax", 3])
    untrained = [r["blocks3/accuracy_test"][0].astype(float).mean() for r in of(results, "unseen")]
    found["images/softmax/untrained3"] = float(np.mean(untrained))
    says = printed("wang2025")
    found["images/printed_linear1"] = says["authors/linear_block"] - says["authors/linear_probe"]
    ends = [[r[f"blocks{k}/log_gamma"][-1].astype(float) for r in of(results, "unseen")] for k in BLOCKS]
    found["images/gamma"] = [float(np.exp(each).mean()) for each in ends]
    for probe, attention in itertools.product(PROBES, ATTENTIONS):
        key = f"images/{attention}/{probe}"
        for k in BLOCKS:
            found[f"{key}/accuracy{k}"] = Estimate.crossed(hits[attention, k] - hits[probe, ""])
            if k > 1:
                above, below = nll[attention, k], nll[probe, ""]
                errors = Estimate.runs(above.mean(1) / below.mean(1)).error, ratio_error(above.mean(0), below.mean(0))
                found[f"{key}/nll{k}_ratio"] = Estimate(float(above.mean() / below.mean()), float(np.hypot(*errors)))
        found[f"{key}/nll1"] = Estimate.crossed(nll[attention, 1] - nll[probe, ""])
    return found


def labels(task: GlyphEpisodes, n: int) -> Tensor:
    """Labels of the first ``n`` test episodes ``(N + 1, n)``, the query's last; no features are needed for them."""
    drawn = (numbers(task, block, TEST)[1] for block in range(math.ceil(n / BLOCK)))
    return torch.cat([task.few_shot.choose(words, *task.shape)[1] for words in drawn], dim=-1)[:, :n]


def setting_records(studies: Mapping[str, Study], results: Mapping[str, Results]) -> dict:
    """Figure 6: the setting, checked on the episodes and the weights of the models, and the control with labels dealt at random."""
    on, chosen = of(results, "unseen"), of(studies, "unseen")
    first: ImageContexts = chosen[0].data.prompts
    network, ways = first.task.network, first.task.few_shot.ways
    glyphs, shown = network.glyphs, labels(first.unseen, 4)[:-1]
    features = weights(network)[f"convolutions.{len(network.channels)}.weight"]  # channels of the last convolution
    as_stated = (
        shown.shape[0] == 50
        and all((shown == way).sum(0).eq(10).all() for way in range(ways))
        and ways == 5
        and len(features) == 512
        and all(spec.build().embed.shape == (WIDTH, ways) for spec in chosen[0].groups)
        and (glyphs.n_train, glyphs.n_classes - glyphs.n_train) == (900, 100)
        and all(study.data.prompts.task.network.n_classes == glyphs.n_train for study in chosen)
        and len(set(glyphs.load().codes.tolist())) == glyphs.n_classes
    )
    return {
        "images/setting": bool(as_stated),
        "images/shuffled": Estimate.crossed(by_network(on, "blocks3/shuffled")),
        "images/episodes": len(on[0]["probe/tuned_hits"]),
        "images/contexts": chosen[0].data.n,
        "images/seeds": on[0]["blocks1/hits"].shape[0],
        "images/networks": len(on),
        "images/classes": glyphs.n_classes,
        "images/test_classes": glyphs.n_classes - glyphs.n_train,
    }


def pairs(results: Mapping[str, Results], what: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Accuracies of each seed ``(E,)`` with features that never saw the test classes, and with features that learned to name them."""
    both = zip(of(results, "short"), of(results, "seen"), strict=True)
    return [(per_episode([unseen], what), per_episode([seen], what)) for unseen, seen in both]


def seen_records(results: Mapping[str, Results]) -> dict:
    """Gain of features that learned to name the test classes too; one number for each pair of networks of one seed."""
    return {
        f"images/seen/{name}": Estimate.mean(np.stack([seen - unseen for unseen, seen in pairs(results, what)]))
        for name, what in (("probe", "probe/tuned_hits"), ("blocks3", "blocks3/hits"))
    }


def last_records(studies: Mapping[str, Study], results: Mapping[str, Results]) -> dict:
    """Episodes whose query always carries the last label: a constant answer, and what the models make of it."""
    last, plain = results["images_last"], results["images_short0"]  # of one network
    context: ImageContexts = studies["images_last"].data.prompts
    asked = labels(context.unseen, len(last["probe/tuned_hits"]))[-1]
    hits = per_episode([last], "blocks3/hits")
    return {
        "images/last/constant": float((asked == context.task.few_shot.ways - 1).double().mean()),
        "images/last/blocks3": float(hits.mean()),
        "images/last/blind": float(per_episode([last], "blocks3/shuffled").mean()),
        "images/last/gain": Estimate.mean(hits - per_episode([plain], "blocks3/hits")),
    }


def plot_episode(results: Results, run: int = 0) -> Figure:
    """Figure 6, for the stored test episode on which one block is least sure: the query over its context, and ``p(label)`` after one to three blocks."""
    number = int(results["blocks1/shown"][run].max(-1).argmin())
    images, labels = results["shown/images"][number], results["shown/labels"][number]
    weights, answer = results["shown/weights"][number], int(results["shown/labels"][number][-1])
    ways, (high, wide) = int(labels[:-1].max()) + 1, images.shape[-2:]
    rows = [images[:-1][labels[:-1] == way] for way in range(ways)]
    sheet = np.full(((ways + 1) * high + high // 4, len(rows[0]) * wide), np.nan)
    sheet[:high, :wide] = images[-1]
    for way, row in enumerate(rows):
        sheet[(way - ways) * high :][:high] = np.hstack(list(row))
    fig, (left, right) = style.figure(2, height=3.4, width_ratios=[1.35, 1])
    left.imshow(sheet, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
    left.axhline(high * 1.12, color=style.INK, lw=0.8)
    places = [high / 2, *(high * (way + 1.75) for way in range(ways))]
    names = ["query", *(f"{way + 1}, right" if way == answer else f"{way + 1}" for way in range(ways))]
    left.set_yticks(places, names)
    left.tick_params(length=0)
    left.set_xticks([])
    left.grid(False)
    left.spines[:].set_visible(False)
    shares = [weights[labels[:-1] == way].sum() for way in range(ways)]
    left.set_title(f"one block's attention to each label: {min(shares):.1%} to {max(shares):.1%}", fontsize=9.5)
    for j, k in enumerate(BLOCKS):
        p, place = results[f"blocks{k}/shown"][run, number], np.arange(ways) + (j - 1) * 0.26
        right.barh(place, p, 0.24, color=COLOURS[k], label=NAMES[k])
        right.text(p[answer] + 0.02, place[answer], NAMES[k], color=COLOURS[k], va="center", fontsize=8.5)
    right.set(xlabel="probability of the label", xlim=(0, 1), ylim=(ways - 0.5, -0.5), xticks=[0, 0.5, 1])
    right.set_yticks(range(ways), names[1:])
    right.grid(axis="y", visible=False)
    return fig


def plot_training(results: Mapping[str, Results]) -> Figure:
    """Accuracy and NLL along training on training classes (dashed) and unseen ones, mean and range over runs; linear probing on the unseen ones."""
    fig, axes = style.figure(2, height=3.1)
    on = of(results, "unseen")
    for ax, what, label in ((axes[0], "accuracy", "accuracy"), (axes[1], "nll", "negative log-likelihood")):
        for k in BLOCKS:
            test, validation = (
                np.concatenate([r[f"blocks{k}/{what}_{part}"] for r in on], axis=1).astype(float)
                for part in ("test", "validation")
            )
            steps, colour = on[0][f"blocks{k}/steps"], COLOURS[k]
            ax.plot(steps, test.mean(1), color=colour, label=NAMES[k])
            ax.fill_between(steps, test.min(1), test.max(1), color=colour, alpha=0.18, lw=0)
            ax.plot(steps, validation.mean(1), color=colour, ls=DASHED)
        probe = per_episode(on, f"probe/tuned_{'nll' if what == 'nll' else 'hits'}").mean()
        ax.axhline(probe, color=style.INK, lw=1.6, ls=":")
        ax.set(xlabel="step", ylabel=label)
        ax.set_xscale("symlog", linthresh=24)
        ax.set_xlim(-2, steps[-1] * 1.3)
        ticks = [0, *(s for s in (24, 100, 300, 1000, 8000) if s <= steps[-1])]
        ax.set_xticks(ticks, ticks)
        ax.minorticks_off()
    style.log_ticks(axes[1], "y", (0.2, 0.3, 0.5, 1, 2))
    for ax in axes:
        ax.set_ylim(ax.get_ylim())
        style.name_ends(ax)
        keys = dict(zip(("training classes", "linear probing"), ax.lines[-2:], strict=True))
        for name, line in keys.items():  # after, for the legend names them
            line.set_label(name)
    dashed = Line2D([], [], color=style.INK, ls=DASHED)
    fig.legend([dashed, keys["linear probing"]], keys, loc="outside upper center", ncols=2, fontsize=8)
    return fig
