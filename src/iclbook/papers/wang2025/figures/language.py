"""Figures and tables of the language models: figure 7 from the model's own tensors, figure 14's grades, excess losses, endings."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure

from ....claims import printed
from ....drawing import style
from ....drawing.tables import Table
from ....models.language import normed
from ....sliders import Slider, show
from ....statistics import standard_error
from ....tasks.stories import Kind
from ....training import Group
from ..measures import language_exact, language_exam
from ..measures.language_exam import true_stories
from ..measures.language_judge import GRADES, parse, sentences
from ..measures.language_models import HEADLINE, ROWS, STUDIES, Languages
from ..runs.language import SIZES, language_studies

NAMES = {
    "linear": "linear GD",
    "rbf": "RBF GD",
    "gd": "softmax GD",
    "linear-ff": "linear GD + FF",
    "rbf-ff": "RBF GD + FF",
    "gd-ff": "softmax GD + FF",
    "tf": "Transformer",
    "tf-split": "Transformer, standard heads",
    "gd-no-mixing": "softmax GD without P",
    "gd-ff-sum": "softmax GD + FF, not divided by t",
    "tf-split-no-ff": "Transformer, standard heads, no FF",
    "tf-split-coded": "the same with FF, embeddings from N(0, 1)",
    "tf-split-wide": "the same, as many weights as GD + FF",
    "gd-wide": "softmax GD, as many weights as standard heads",
    "gd-ff-2": "softmax GD + FF, two blocks",
    "tf-split-2": "Transformer, standard heads, two blocks",
    "gd-ff-flat": "softmax GD + FF, constant rate",
}
#: Endings that examine the judge.
EXAMINED = {
    "true": "the true one",
    "foreign": "another story's",
    "shuffled sentences": "its own, sentences shuffled",
    "bigram": "a sampler of word pairs",
    "shuffled words": "its own, words shuffled",
    "repeated moral": "its moral, repeated",
}
#: Rows of figure 14 -> the name of what it prints; a Transformer with standard heads it has none of.
PRINTED = {
    "true": "fig14/true",
    "linear": "fig14/linear",
    "rbf": "fig14/rbf",
    "gd": "fig14/gd",
    "linear-ff": "fig14/linear-ff",
    "rbf-ff": "fig14/rbf-ff",
    "gd-ff": "fig14/gd-ff",
    "tf": "fig14/tf",
}
KINDS = {Kind.SYNTAX: "syntax", Kind.BIND: "binding", Kind.PLOT: "plot", Kind.FREE: "free words"}


def figure7() -> Figure:
    """Figure 7 from tensors: values (tokens), covariates (positions, the query's among them), the weights of each head, and f."""
    model, y = language_exact.model("softmax"), language_exact.story()
    n = len(y)
    values = normed(model.embed, model.gain_embed)[y[:, 0]].T
    places = normed(model.positions, model.gain_positions).T
    weights = model.attention()[:, n - 1] * n
    f = language_exact.function(model, y)[:, None]
    fig, axes = style.figure(2, 2, height=3.6, width_ratios=(2, 1))
    shown = (
        (values, "token embeddings: the values"),
        (f, "f"),
        (places, "positions: the covariates, query last"),
    )
    for ax, (part, title) in zip((axes[0, 0], axes[0, 1], axes[1, 0]), shown, strict=True):
        limit = float(part.abs().max())
        ax.imshow(part, cmap=style.DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
        ax.set_title(title, fontsize=9)
        ax.set(yticks=[], xticks=[])
        ax.grid(False)
    axes[1, 0].set_xlabel("position")
    for m, row in enumerate(weights):
        axes[1, 1].plot(range(1, n + 1), row, marker=".", label=f"head {m + 1}")
    axes[1, 1].set_title("weights of the query", fontsize=9)
    axes[1, 1].set_xlabel("position")
    axes[1, 1].legend(fontsize=7, loc="upper center")
    return fig


def grades(models: Languages) -> Figure:
    """Figure 14 as dots: our Overall with 95% intervals over beginnings, the printed one as crosses."""
    fig, ax = style.figure(height=3.4)
    place = np.arange(len(ROWS))[::-1]
    each = [models.overall(name).mean(0) for name in ROWS]
    ax.errorbar(
        [x.mean() for x in each],
        place,
        xerr=[1.96 * float(standard_error(x)) for x in each],
        fmt="o",
        color=style.PALETTE[0],
        capsize=2,
        label="mechanical judge, stories of the grammar",
    )
    says = printed("wang2025")
    crosses = [(says[PRINTED[name]][-1], p) for name, p in zip(ROWS, place, strict=True) if name in PRINTED]
    ax.plot(
        *zip(*crosses, strict=True), "x", color=style.COLOURS["paper"], label="printed: GPT-4o, TinyStories"
    )
    ax.set_yticks(place, [NAMES[name] for name in ROWS])
    ax.set(xlabel="Overall", xlim=(0, 10))
    ax.legend(fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    return fig


def figure14(models: Languages) -> Table:
    """Figure 14 in its own form: mean grades by the mechanical judge, with the printed ones (GPT-4o, TinyStories) in brackets; imitations, whose order is known, first."""
    says, rows = printed("wang2025"), []
    examined = language_exam.examined(models.task, models.n_endings)
    graded = examined | {name: {g: m.mean() for g, m in models.marks(name).items()} for name in ROWS}
    for name, marks in graded.items():
        theirs = says[PRINTED[name]] if name in PRINTED else (None,) * 5
        rows.append(
            {"ending": (EXAMINED | NAMES)[name]}
            | {
                grade: f"{marks[grade]:.1f}" + (f" ({value:.1f})" if value is not None else "")
                for grade, value in zip((*GRADES, "overall"), theirs, strict=True)
            }
        )
    columns = {"ending": "ending", **{grade: grade for grade in GRADES}, "overall": "Overall"}
    return Table(rows, columns, "Grades of story endings, printed ones in brackets")


def every_model(models: Languages) -> Table:
    """All models: weights beside the embeddings, excess loss, its part on bindings, Overall by three ways of writing."""
    sizes = {g.name: _weights(g) for s in language_studies(models.profile).values() for g in s.groups}
    rows = []
    for name in STUDIES:
        ways = models.ways(name)
        rows.append(
            {
                "model": NAMES[name],
                "weights": f"{sizes[name]:,}",
                "seeds": str(len(models.total(name))),
                "excess": f"{models.total(name).mean():.3f}",
                "bind": f"{models.excess(name)[..., Kind.BIND].mean():.3f}",
            }
            | {way: f"{models.overall(name, way).mean():.1f}" for way in ways}
        )
    columns = {
        "model": "model",
        "weights": "weights",
        "seeds": "seeds",
        "excess": "excess loss",
        "bind": "of it on bindings",
        "beam": "Overall",
        "coded": "beams as coded",
        "sampled": "sampled",
    }
    return Table(rows, columns, f"All {len(STUDIES)} language models in numbers", folded=True)


def _weights(group: Group) -> int:
    """Parameters beside the embeddings."""
    with torch.device("meta"):
        model = group.build()
    return model.count() - model.embedding_count()


def excess(models: Languages) -> Figure:
    """Loss above the exact one by kind of token, all models."""
    fig, ax = style.figure(height=4.6)
    place, start = np.arange(len(STUDIES))[::-1], np.zeros(len(STUDIES))
    each = np.array([models.excess(name).mean((0, 1)) for name in STUDIES])
    for kind, colour in zip(KINDS, style.PALETTE, strict=False):
        ax.barh(place, each[:, kind], left=start, color=colour, label=KINDS[kind])
        start += each[:, kind]
    ax.set_yticks(place, [NAMES[name] for name in STUDIES], fontsize=8)
    end = 1.2 * sorted(start)[-2]
    for total, p in zip(start, place, strict=True):
        if total > end:  # one model is so much worse that its bar would hide the others
            ax.annotate(f"{total:.2f} →", (end, p), ha="right", va="center", color="white", fontsize=8)
    ax.set(xlabel="excess loss (nats a token)", xlim=(0, end))
    ax.legend(fontsize=8, ncols=4, loc="lower right", bbox_to_anchor=(1, 1))
    return fig


def courses(models: Languages) -> Figure:
    """Loss above the exact one along training: mean over seeds of the four models that have several, and the range."""
    fig, ax = style.figure(height=3.0)
    for name, colour in zip(HEADLINE, style.PALETTE, strict=False):
        steps = models.get(STUDIES[name])[f"{name}/steps"][1:]
        course = np.array(
            [models.excess(name, i + 1).sum(-1).mean(1) for i in range(len(steps))]
        )  # (records, R)
        ax.fill_between(steps, course.min(1), course.max(1), color=colour, alpha=0.2, lw=0)
        ax.plot(steps, course.mean(1), marker=".", color=colour, label=NAMES[name])
    ax.set(xlabel="training step", ylabel="excess loss (nats a token)", yscale="log")
    low, high = ax.get_ylim()
    style.log_ticks(ax, "y", [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8) if low <= t <= high])
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return fig


def marked(models: Languages, story: Sequence[str], index: int) -> str:
    """A continued story as text: ``|`` where the model begins, brackets around what no template can say."""
    place = true_stories(models.task, models.n_endings)[1][index]
    text, before = [], 0
    for sentence in sentences([t for t in story if t != "<eos>"]):
        said = list(sentence)
        after = before + len(sentence)
        if before <= place < after:
            said.insert(place - before, "|")
        if after > place and parse(models.task.grammar, tuple(sentence)) is None:
            said = ["[", *said, "]"]
        text += said
        before = after
    return " ".join(text)


def endings(models: Languages, index: int = 0) -> Table:
    """One beginning as the true story and the headline models end it, with the judge's grades."""
    whole = true_stories(models.task, models.n_endings)[0]
    rows = [{"model": "true", "story": marked(models, whole[index], index), **dict.fromkeys(GRADES, "10.0")}]
    rows[0]["creativity"] = ""  # the true endings have 10 on average
    for name in HEADLINE:
        marks = models.marks(name)
        rows.append(
            {"model": NAMES[name], "story": marked(models, models.stories(name)[index], index)}
            | {grade: f"{marks[grade][0, index]:.1f}" for grade in GRADES}
        )
    columns = {"model": "model", "story": "story", **{grade: grade for grade in GRADES}}
    return Table(rows, columns, f"Endings of beginning {index + 1}")


def steps(models: Languages) -> list[int]:
    """Steps at which endings were written, the first ones left out."""
    s = SIZES[models.profile]
    return [*s.record[1:], s.steps]


def show_rewriting(models: Languages) -> None:
    """A slider along training: one beginning as two models end it."""
    show(
        lambda step: ending_frame(models, step),
        [Slider("step", "training step", steps(models))],
        title="An ending is rewritten",
        alt=lambda step: f"One beginning as two models end it after {step} steps.",
    )


def ending_frame(models: Languages, step: int) -> Figure:
    """One beginning as GD and the Transformer end it after so many steps."""
    fig, axes = style.figure(1, 2, height=3.6)
    for ax, name in zip(axes, ("gd-ff", "tf-split"), strict=True):
        record = models.get(STUDIES[name])[f"{name}/steps"].tolist().index(step)
        story = models.stories(name, record=record)[0]
        ax.text(0, 1, textwrap.fill(marked(models, story, 0), 92), va="top", fontsize=9, family="monospace")
        ax.set_axis_off()
        ax.set_title(f"{NAMES[name]}, step {step:,}", fontsize=9, loc="left")
    return fig
