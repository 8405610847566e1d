"""Figures 5 (right) and 6: images of unseen classes named by one to three blocks beside linear probing. Differences are paired and errors are over episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor

from ...drawing import style
from ...statistics import Estimate, interval
from ...store import Results
from ...tasks.glyphs import GlyphSet
from ...training.study import Study
from .contexts import TEST
from .images import BLOCKS, WIDTH, GlyphEpisodes, ImageContexts, ImageEpisodes, blocks
from .networks import STUDIES, Network, weights

PROBES = ("tuned", "coded")
#: Colour and marker of a number of blocks; colour of a label within an episode.
BLOCK_STYLE = {k: (style.COLOURS[k], style.MARKERS[k]) for k in BLOCKS}
LABELS = style.PALETTE[:5]
PROBE_NAMES = {"tuned": "probe, penalty chosen", "coded": "probe, 500 Adam steps"}
#: Colour and dashes.
PROBE_STYLE = {"tuned": (style.INK, "-"), "coded": (style.PALETTE[6], (0, (4, 2)))}
#: Where an attention stands beside the number of blocks, and how its markers are filled.
ATTENTION_STYLE = {"softmax": (-0.12, None), "linear": (0.12, style.GROUND)}


def unseen(results: Mapping[str, Results]) -> list[Results]:
    """Results on the networks that never saw the test classes."""
    return [r for name, r in results.items() if name.startswith("images_unseen")]


def per_episode(results: list[Results], what: str) -> np.ndarray:
    """``blocks2/hits``, ``probe/tuned_nll`` ...: mean over networks and runs, ``(E,)``; episode e is the same everywhere."""
    return np.mean([np.atleast_2d(r[what].astype(float)).mean(0) for r in results], axis=0)


def linear(results: Mapping[str, Results]) -> list[Results]:
    """Results of the models with linear attention on the same networks, in the same order."""
    return [results[n.replace("images", "images_linear")] for n in results if n.startswith("images_unseen")]


class Scored(NamedTuple):
    """Hits and negative log-likelihoods of one model, ``(E,)`` each."""

    hits: np.ndarray
    nll: np.ndarray


def scores_of(results: list[Results], group: str) -> dict[int, Scored]:
    """Scores by number of blocks of the models whose groups have this name."""
    return {k: Scored(*(per_episode(results, f"{group}{k}/{what}") for what in ("hits", "nll"))) for k in BLOCKS}


#: Attention -> how its groups are called.
ATTENTIONS = {"softmax": "blocks", "linear": "linear"}


def models(results: Mapping[str, Results], attention: str) -> list[Results]:
    """Results that hold the models with this attention."""
    return linear(results) if attention == "linear" else unseen(results)


def comparison_records(results: Mapping[str, Results]) -> dict:
    """Figure 5, right: the scores of every model and both probes, and what each number of blocks gains on the probes."""
    on = {"softmax": scores_of(unseen(results), "blocks"), "linear": scores_of(linear(results), "linear")}
    probe = {
        name: Scored(*(per_episode(unseen(results), f"probe/{name}_{what}") for what in ("hits", "nll")))
        for name in PROBES
    }
    found: dict = {}
    for name, scored in probe.items():
        found[f"images/{name}/accuracy"] = float(scored.hits.mean())
        found[f"images/{name}/nll"] = float(scored.nll.mean())
    for attention, by_blocks in on.items():
        for k, scored in by_blocks.items():
            found[f"images/{attention}/accuracy{k}"] = float(scored.hits.mean())
            found[f"images/{attention}/nll{k}"] = float(scored.nll.mean())
    found["images/softmax/accuracy3"] = Estimate.mean(on["softmax"][3].hits)
    found["images/linear/tuned/accuracy3"] = Estimate.mean(on["linear"][3].hits - probe["tuned"].hits)
    for name, theirs in probe.items():
        key = f"images/softmax/{name}"
        for k, ours in on["softmax"].items():
            found[f"{key}/accuracy{k}"] = Estimate.mean(ours.hits - theirs.hits)
            if k > 1:
                found[f"{key}/nll{k}_ratio"] = Estimate.ratio(ours.nll, theirs.nll)
        found[f"{key}/nll1"] = Estimate.mean(on["softmax"][1].nll - theirs.nll)
    return found


@dataclass(frozen=True)
class LabelsOnly(ImageEpisodes):
    """Episodes of glyphs with features of length 0: labels are chosen without regard to images."""

    glyphs: GlyphSet | None = None

    def table(self) -> Tensor:
        """No features of the training or the test classes, ``(classes, typefaces, copies, 0)``."""
        train, every = self.glyphs.n_train, self.glyphs.n_classes
        classes = train if self.part == "train" else every - train
        return torch.zeros(classes, self.glyphs.typefaces, self.glyphs.copies, 0)


def labels_only(task: GlyphEpisodes) -> LabelsOnly:
    """The same episodes without their features."""
    return LabelsOnly(task.few_shot, task.part, task.network.glyphs)


def _d(network: Network) -> int:
    """Features that the kept network gives: the channels of its last convolution."""
    return len(weights(network)[f"convolutions.{len(network.channels)}.weight"])


def setting_records(studies: Mapping[str, Study], results: Mapping[str, Results]) -> dict:
    """Figure 6: the setting, checked on the episodes and the weights of the models, and the control with labels dealt at random."""
    on = unseen(results)
    chosen = [study for name, study in studies.items() if name.startswith("images_unseen")]
    first: ImageContexts = chosen[0].data.prompts
    glyphs = first.task.network.glyphs
    labels = next(blocks(labels_only(first.unseen), 4, TEST)).context[:, -1].long()  # (N, E)
    ways = first.task.few_shot.ways
    as_stated = (
        labels.shape[0] == 50
        and all((labels == way).sum(0).eq(10).all() for way in range(ways))
        and ways == 5
        and _d(first.task.network) == 512
        and all(spec.build().embed.shape == (WIDTH, ways) for spec in chosen[0].groups)
        and (glyphs.n_train, glyphs.n_classes - glyphs.n_train) == (900, 100)
        and all(study.data.prompts.task.network.n_classes == glyphs.n_train for study in chosen)
        and len(set(glyphs.load().codes.tolist())) == glyphs.n_classes
    )
    return {
        "images/setting": bool(as_stated),
        "images/shuffled": Estimate.mean(per_episode(on, "blocks3/shuffled")),
        "images/episodes": len(on[0]["probe/tuned_hits"]),
        "images/contexts": chosen[0].data.n,
        "images/seeds": on[0]["blocks1/hits"].shape[0],
        "images/networks": len(on),
        "images/classes": glyphs.n_classes,
        "images/test_classes": glyphs.n_classes - glyphs.n_train,
        "images/minutes": sum(r.provenance["seconds"] for r in results.values()) / 60,
    }


def seen_records(results: Mapping[str, Results]) -> dict:
    """What features gain that learned to name the test classes too; one number for each pair of networks of one seed."""

    def gains(what: str) -> list[np.ndarray]:
        return [
            per_episode([results[n.replace("unseen", "seen")]], what) - per_episode([r], what)
            for n, r in results.items()
            if n.startswith("images_unseen")
        ]

    return {
        f"images/seen/{name}": Estimate.mean(np.stack(gains(what)))
        for name, what in (("probe", "probe/tuned_hits"), ("blocks3", "blocks3/hits"))
    }


def last_records(studies: Mapping[str, Study], results: Mapping[str, Results]) -> dict:
    """Episodes whose query always carries the last label: a constant answer, and what the models make of it."""
    last = results["images_last"]
    context: ImageContexts = studies["images_last"].data.prompts
    drawn = blocks(labels_only(context.unseen), len(last["probe/tuned_hits"]), TEST)
    target = torch.cat([batch.target for batch in drawn], dim=-1)
    plain = next(r for name, r in results.items() if name.startswith("images_unseen"))  # the same network
    hits = per_episode([last], "blocks3/hits")
    return {
        "images/last/constant": float((target == context.task.few_shot.ways - 1).float().mean()),
        "images/last/blocks3": float(hits.mean()),
        "images/last/blind": float(per_episode([last], "blocks3/shuffled").mean()),
        "images/last/gain": Estimate.mean(hits - per_episode([plain], "blocks3/hits")),
    }


def image_names(studies: Mapping[str, Study]) -> list[str]:
    """Names of the studies of the image part, networks first."""
    return [name for name in studies if name.startswith((STUDIES, "images_"))]


# -- figures ----------------------------------------------------------------------------------------------------------


def plot_episode(results: Results, run: int = 0) -> Figure:
    """Figure 6, for the stored test episode on which one block is least sure: its context sorted by label, how strongly the first block attends to each
    image, the query, and ``p(label)``."""
    number = int(results["blocks1/shown"][run].max(-1).argmin())
    images, labels = results["shown/images"][number], results["shown/labels"][number]
    weights, answer = results["shown/weights"][number], int(results["shown/labels"][number][-1])
    ways, shots = int(labels[:-1].max()) + 1, int((labels[:-1] == 0).sum())
    fig = style.plt.figure(figsize=(style.WIDTH, 3.4), layout="constrained")
    left, right = fig.subfigures(1, 2, width_ratios=[2.1, 1])
    grid = left.subplots(ways, shots, squeeze=False, gridspec_kw={"wspace": 0.03, "hspace": 0.03})
    for way in range(ways):
        members = np.flatnonzero(labels[:-1] == way)
        for ax, i in zip(grid[way], members[np.argsort(-weights[members])], strict=True):
            _picture(ax, images[i], LABELS[way % len(LABELS)], 3.2 * weights[i] / weights.max())
        grid[way, 0].set_ylabel(f"{way + 1}", rotation=0, ha="right", va="center", fontsize=9)
    left.suptitle("context, by label; the frame is the attention of the first block", fontsize=9)
    top, bottom = right.subplots(2, 1, height_ratios=[1, 1.7])
    _picture(top, images[-1], LABELS[answer % len(LABELS)], 3.2)
    top.set_title(f"query, of label {answer + 1}", fontsize=9)
    for j, (k, colour) in enumerate(zip(BLOCKS, ("#C4C4C0", "#8A8A86", "#3C3C3A"), strict=True)):
        p = results[f"blocks{k}/shown"][run, number]
        bottom.bar(np.arange(1, ways + 1) + (j - 1) * 0.26, p, 0.24, color=colour, label=_blocks(k))
    bottom.set(xlabel="label", ylabel="probability", ylim=(0, 1.3), xticks=range(1, ways + 1), yticks=[0, 0.5, 1])
    bottom.grid(axis="x", visible=False)
    bottom.legend(
        fontsize=6.5, ncols=len(BLOCKS), loc="upper center", handlelength=0.8, handletextpad=0.3, columnspacing=0.6
    )
    return fig


def _picture(ax: Axes, image: np.ndarray, colour: str, frame: float) -> None:
    ax.imshow(image, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set(visible=True, color=colour, linewidth=max(frame, 0.3))


def _blocks(k: int) -> str:
    return "1 block" if k == 1 else f"{k} blocks"


def plot_comparison(results: Mapping[str, Results]) -> Figure:
    """Episodes of unseen classes: accuracy, NLL, and the paired difference in accuracy to the probe, against the number of blocks.

    Filled: softmax attention; open: linear attention. Error bars and bands: 95% intervals over episodes. Small markers: single runs. Grey on
    the right: within one point.
    """
    fig, axes = style.figure(3, height=3.3, width_ratios=[1, 1, 1.1])
    on = unseen(results)
    for ax, what, label in ((axes[0], "hits", "accuracy"), (axes[1], "nll", "negative log-likelihood")):
        for probe, (colour, dashes) in PROBE_STYLE.items():
            mean, low, high = interval(per_episode(on, f"probe/{probe}_{what}"))
            ax.axhspan(low, high, color=colour, alpha=0.1, lw=0)
            ax.axhline(mean, color=colour, lw=1.3, ls=dashes, label=PROBE_NAMES[probe])
        ax.set_title(label, fontsize=9.5)
    axes[2].axhspan(-0.01, 0.01, color=style.GRID, alpha=0.8, lw=0)
    axes[2].axhline(0, color=style.INK, lw=0.9)
    axes[2].annotate("within one point", (0.55, 0.002), fontsize=8)
    axes[2].set_title("accuracy less linear probing", fontsize=9.5)
    for attention, group in ATTENTIONS.items():
        shift, fill = ATTENTION_STYLE[attention]
        found = models(results, attention)
        for k in BLOCKS:
            colour, marker = BLOCK_STYLE[k]
            for ax, what in ((axes[0], "hits"), (axes[1], "nll")):
                each = np.concatenate([r[f"{group}{k}/{what}"].astype(float).mean(1) for r in found])
                place = np.full(len(each), k + shift * 2)
                ax.plot(place, each, marker, ms=3, color=colour, mfc=fill or colour, mew=0.5, alpha=0.6)
                _bar(ax, k + shift, interval(per_episode(found, f"{group}{k}/{what}")), colour, marker, fill)
            difference = per_episode(found, f"{group}{k}/hits") - per_episode(on, "probe/tuned_hits")
            _bar(axes[2], k + shift, interval(difference), colour, marker, fill)
        axes[2].plot([], [], "o", color=style.PALETTE[6], mfc=fill or style.PALETTE[6], label=f"{attention} attention")
    for ax in axes:
        ax.set(xlabel="blocks", xticks=BLOCKS, xlim=(0.5, len(BLOCKS) + 0.5))
        ax.grid(axis="x", visible=False)
    entries = [axes[i].get_legend_handles_labels() for i in (0, 2)]
    handles, labels = (probes + attentions for probes, attentions in zip(*entries, strict=True))
    fig.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=8)
    return fig


def _bar(
    ax: Axes, x: float, found: tuple[float, float, float], colour: str, marker: str, fill: str | None = None
) -> None:
    """A mean with its interval."""
    mean, low, high = found
    ax.errorbar(
        [x],
        [mean],
        yerr=[[mean - low], [high - mean]],
        fmt=marker,
        ms=6,
        color=colour,
        mfc=fill or colour,
        capsize=3,
        zorder=4,
    )


def plot_training(results: Mapping[str, Results]) -> Figure:
    """Accuracy and NLL along training on episodes of training classes (dashed) and unseen classes (solid): mean and range over all runs."""
    fig, axes = style.figure(2, height=3.1)
    on = unseen(results)
    for ax, what, label in ((axes[0], "accuracy", "accuracy"), (axes[1], "nll", "negative log-likelihood")):
        for k in BLOCKS:
            colour, _ = BLOCK_STYLE[k]
            steps = on[0][f"blocks{k}/steps"]
            for part, dashes in (("test", "-"), ("validation", (0, (3, 2)))):
                every = np.concatenate([r[f"blocks{k}/{what}_{part}"] for r in on], axis=1).astype(float)
                ax.plot(steps, every.mean(1), color=colour, ls=dashes, label=_blocks(k) if part == "test" else None)
                if part == "test":
                    ax.fill_between(steps, every.min(1), every.max(1), color=colour, alpha=0.18, lw=0)
        ax.set(xlabel="step", ylabel=label)
        ax.set_xscale("symlog", linthresh=24)
        ax.set_xticks([0, *(s for s in (24, 50, 100, 300) if s <= steps[-1])])
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_locator(NullLocator())
    style.log_ticks(axes[1], "y", (0.1, 0.2, 0.3, 0.5, 1, 2))
    axes[0].plot([], [], color=style.INK, label="unseen classes")
    axes[0].plot([], [], color=style.INK, ls=(0, (3, 2)), label="training classes")
    axes[0].legend(fontsize=7.5)
    return fig


def plot_seen(results: Mapping[str, Results]) -> Figure:
    """Accuracy on the same episodes with features that never saw the test classes and with features that learned to name them; a line for each seed."""
    fig, ax = style.figure(height=2.8)
    names = {"blocks1/hits": "1 block", "blocks3/hits": "3 blocks", "probe/tuned_hits": "linear probe"}
    pairs = [(r, results[n.replace("unseen", "seen")]) for n, r in results.items() if n.startswith("images_unseen")]
    for i, what in enumerate(names):
        for j, pair in enumerate(pairs):
            values = [interval(per_episode([r], what)) for r in pair]
            x = [i - 0.18 + 0.05 * j, i + 0.13 + 0.05 * j]
            mean = [v[0] for v in values]
            spread = [[v[0] - v[1] for v in values], [v[2] - v[0] for v in values]]
            ax.plot(x, mean, color=style.COLOURS["dummy"], lw=1.5, zorder=1)
            for end in (0, 1):
                ax.errorbar(
                    [x[end]],
                    [mean[end]],
                    yerr=[[spread[0][end]], [spread[1][end]]],
                    fmt="os"[end],
                    ms=5,
                    color=style.PALETTE[2 * end],
                    capsize=2,
                    label=("trained on 900 classes", "trained on all 1,000")[end] if i == j == 0 else None,
                )
    ax.set_xticks(range(len(names)), list(names.values()))
    ax.set(ylabel="test accuracy")
    ax.grid(axis="x", visible=False)
    ax.margins(x=0.1, y=0.15)
    ax.legend(fontsize=9, loc="lower right", title="features", title_fontsize=9)
    return fig
