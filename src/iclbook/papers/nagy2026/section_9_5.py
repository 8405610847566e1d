"""Section 9.5: the theory-guided model against a baseline, and which architectures have exactly the printed numbers of parameters, 8,801 and 9,989."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from ...drawing import style
from ...statistics import Estimate, jackknife, ratio_terms, standard_error
from ...store import Results
from ...training.study import Study
from .common import apart, cross, legend_above, named_ticks, printed_numbers, strip

CONTEXTS = (5, 8, 12)
OTHER = {"baseline": "guided", "guided": "baseline"}
#: What the paper prints: errors by context length, sink attention and layer scales by layer.
PRINTED_ERRORS = {"baseline": printed_numbers("9.5/contexts")[::2], "guided": printed_numbers("9.5/contexts")[1::2]}
PRINTED_SINKS = tuple(share / 100 for share in printed_numbers("9.5/sink"))
PRINTED_SCALES = printed_numbers("9.5/scales")
#: Headline errors (baseline, guided) and the final training losses.
HEADLINE = printed_numbers("9.5/gain")
PRINTED_LOSSES = printed_numbers("9.5/losses")
#: Readings: on 4,000 prompts at two rates, on new prompts at each step, and on 4,000 prompts with the weight variance that the printed ratios imply.
READING_NAMES = {
    "set1e-3": "4,000 prompts, Adam 0.001",
    "set3e-3": "4,000 prompts, Adam 0.003",
    "fresh": "new prompts, Adam 0.001",
    "v295": "4,000 prompts, variance 0.295",
}
MODELS = {"baseline": ("2 layers", style.PALETTE[1], "s"), "guided": ("4 layers, guided", style.PALETTE[0], "o")}


@dataclass(frozen=True)
class Guided:
    """One reading of section 9.5 at the end of training.

    Attributes:
        errors: model -> ``(contexts, seeds)``.
        losses: model -> ``(seeds,)``, mean training loss since the record before the last, dropout and regulariser included.
        sinks, scales: ``(layers, seeds)`` of the guided model.
    """

    errors: dict[str, np.ndarray]
    losses: dict[str, np.ndarray]
    sinks: np.ndarray
    scales: np.ndarray

    @property
    def improvement(self) -> np.ndarray:
        """``1 - guided / baseline`` of the mean errors, by context length."""
        return 1 - self.errors["guided"].mean(1) / self.errors["baseline"].mean(1)

    @property
    def improvement_terms(self) -> np.ndarray:
        """What each seed adds to its deviation, ``(contexts, seeds)``: seeds are paired over models and over contexts."""
        rows = zip(self.errors["guided"], self.errors["baseline"], strict=True)
        return np.array([-ratio_terms(guided, base) for guided, base in rows])


def guided_readings(studies: dict[str, Study], results: dict[str, Results]) -> dict[str, Guided]:
    """Readings of section 9.5: ``set<rate>`` on 4,000 prompts, ``fresh`` on new ones, ``v295`` on 4,000 prompts with the weight variance
    that the printed ratios imply; ``results`` by name of the study."""
    found = {}
    for name, prefix in (("guided", "set"), ("guided_fresh", "fresh"), ("guided_v295", "v295")):
        study = studies[name]
        for rate in dict.fromkeys(run.rate for run in study.groups[0].runs):
            keep = np.array([run.rate == rate for run in study.groups[0].runs])
            groups = {model: results[name].group(model) for model in PRINTED_ERRORS}
            reading = f"{prefix}{rate:.0e}".replace("e-0", "e-") if prefix == "set" else prefix
            found[reading] = Guided(
                {
                    model: np.stack([g[f"error_n{n}"][-1, keep].astype(float) for n in CONTEXTS])
                    for model, g in groups.items()
                },
                {model: g["loss"][-1, keep].astype(float) for model, g in groups.items()},
                groups["guided"]["sink"][-1, keep].T.astype(float),
                groups["guided"]["scale"][-1, keep].T.astype(float),
            )
    return found


def records(reading: str, g: Guided) -> dict:
    """What decides the claims on section 9.5 under one reading."""
    found = {
        "improvement": Estimate(float(g.improvement[-1]), float(standard_error(g.improvement_terms[-1]))),
        "improvement_growth": Estimate(np.diff(g.improvement), standard_error(np.diff(g.improvement_terms, axis=0))),
        "sink_rise": Estimate(np.diff(g.sinks.mean(1)), standard_error(np.diff(g.sinks, axis=0))),
        "scale_rise": Estimate(np.diff(g.scales.mean(1)), standard_error(np.diff(g.scales, axis=0))),
        **_against_printed(g),
    }
    return {f"9.5/{reading}/{name}": value for name, value in found.items()}


def _against_printed(g: Guided) -> dict:
    """Printed errors at 5, 8 and 12 examples, headline errors (read as at 12) and training losses: the largest distance from what one seed more would
    give, in half-widths of its prediction interval, and the same with the two models exchanged."""
    rows = {
        "errors": [
            (PRINTED_ERRORS[model][i], g.errors[model][i], g.errors[other][i])
            for model, other in OTHER.items()
            for i in range(len(CONTEXTS))
        ],
        "headline": [
            (error, g.errors[model][-1], g.errors[other][-1])
            for error, (model, other) in zip(HEADLINE, OTHER.items(), strict=True)
        ],
        "training": [
            (loss, g.losses[model], g.losses[other])
            for loss, (model, other) in zip(PRINTED_LOSSES, OTHER.items(), strict=True)
        ],
    }
    found: dict[str, float | Estimate] = {}
    for name, row in rows.items():

        def farthest(values: np.ndarray, numbers: tuple = tuple(number for number, _, _ in row)) -> float:
            return max(map(apart, numbers, values.T))

        values = np.stack([own for _, own, _ in row], 1)  # (seeds, numbers)
        found[f"{name}_apart"] = Estimate(farthest(values), jackknife(farthest, values))
        found[f"{name}_exchanged"] = max(apart(number, other) for number, _, other in row)
    return found


def figure(readings: Mapping[str, Guided]) -> Figure:
    """Section 9.5: error by context length of both models under each reading, every seed; crosses: printed."""
    fig, axes = style.figure(len(readings), height=3.1, sharey=True, squeeze=False)
    for ax, (reading, g) in zip(axes[0], readings.items(), strict=True):
        for j, (model, (name, colour, marker)) in enumerate(MODELS.items()):
            x = np.arange(len(CONTEXTS)) + (j - 0.5) * 0.34
            for i, values in enumerate(g.errors[model]):
                strip(ax, x[i], values, colour, marker, name if i == 0 else None)
            cross(ax, x, PRINTED_ERRORS[model], None if j else "printed", ls=(0, (5, 3)), lw=0.9, zorder=2)
        named_ticks(ax, CONTEXTS)
        ax.set_yscale("log")
        ax.set_yticks([0.03, 0.1, 0.3], ["0.03", "0.1", "0.3"])
        ax.minorticks_off()
        ax.set_xlabel("examples")
        ax.set_title(READING_NAMES.get(reading, reading).replace(", ", ",\n"), fontsize=9)
    axes[0, 0].set_ylabel("error")
    legend_above(fig, axes[0, 0], 3, markerscale=1.5)
    return fig


def layers_figure(readings: Mapping[str, Guided]) -> Figure:
    """Section 9.5: attention to the sink and layer scale, layer by layer, every seed; dashed: printed."""
    fig, axes = style.figure(2, height=2.9)
    for ax, field, printed, title in (
        (axes[0], "sinks", PRINTED_SINKS, "attention of the query to the sink"),
        (axes[1], "scales", PRINTED_SCALES, "layer scale"),
    ):
        layers = np.arange(1, len(printed) + 1)
        for j, (reading, g) in enumerate(readings.items()):
            for i, row in enumerate(getattr(g, field)):
                name = READING_NAMES.get(reading) if i == 0 else None
                strip(ax, layers[i] + (j - 1.5) * 0.2, row, style.PALETTE[j], "osD^"[j], name)
        cross(ax, layers, printed, "printed", ls=(0, (5, 3)))
        ax.set(xlabel="layer", title=title)
        ax.set_xticks(layers)
        ax.grid(axis="x", visible=False)
    legend_above(fig, axes[1], 3, markerscale=1.5)
    return fig


# -- which architectures? --------------------------------------------------------------------------------------------------------------

PARAMETERS = {"baseline": 8801, "guided": 9989}
#: Stated: covariates, sequence length, heads, layers and widths of both models.
D_INPUT, LENGTH, N_HEADS = 4, 12, 2
STATED = {"baseline": {"n_layers": 2, "width": 32}, "guided": {"n_layers": 4, "width": 24}}


@dataclass(frozen=True)
class Choices:
    """What the paper leaves open, shared by both models; then what the guided model adds.

    Attributes:
        tokens: ``pair`` (one token ``(x, y)``) or ``split`` (x and y are tokens of their own, each with its own embedding).
        embed_bias, attention_bias, read_bias: are there biases?
        norms: layer norms in each layer, 0 to 2.
        final_norm: one more before the read-out.
        positions: learned positions: none, one per pair, or one more for the query.
        mlp: hidden width over width; 0 is no MLP.
        sink: parameters of SM1: one token, a key and a value per layer, a key per layer, or a score per head and layer.
        scale: parameters of SM2: a number per layer, two per layer, or a vector per layer.
    """

    tokens: str = "pair"
    embed_bias: bool = True
    attention_bias: bool = True
    read_bias: bool = True
    norms: int = 1
    final_norm: bool = False
    positions: int = 0
    mlp: int = 0
    sink: str = "token"
    scale: str = "number"


OPTIONS = {
    "tokens": ("pair", "split"),
    "embed_bias": (True, False),
    "attention_bias": (True, False),
    "read_bias": (True, False),
    "norms": (0, 1, 2),
    "final_norm": (False, True),
    "positions": (0, LENGTH, LENGTH + 1),
    "mlp": (0, 1, 2, 4),
    "sink": ("token", "key and value per layer", "key per layer", "score per head"),
    "scale": ("number", "two numbers", "vector"),
}


def parts(choices: Choices, width: int, n_layers: int, guided: bool) -> dict[str, int]:
    """Parameters by component."""
    embeds = 1 if choices.tokens == "pair" else 2
    inner = choices.mlp * width
    counted = {
        "embedding": (D_INPUT + 1) * width + (embeds * width if choices.embed_bias else 0),
        "attention": n_layers * 4 * width * width,
        "attention biases": n_layers * 4 * width if choices.attention_bias else 0,
        "layer norms": 2 * width * (n_layers * choices.norms + choices.final_norm),
        "positions": choices.positions * width,
        "MLPs": n_layers * (2 * width * inner + inner + width) if inner else 0,
        "read-out": width + choices.read_bias,
    }
    if guided:
        counted["sink"] = {
            "token": width,
            "key and value per layer": 2 * width * n_layers,
            "key per layer": width * n_layers,
            "score per head": N_HEADS * n_layers,
        }[choices.sink]
        counted["layer scales"] = {"number": 1, "two numbers": 2, "vector": width}[choices.scale] * n_layers
    return counted


def count(choices: Choices, model: str) -> int:
    """Parameters of ``baseline`` or ``guided``."""
    return sum(parts(choices, **STATED[model], guided=model == "guided").values())


def family() -> Iterator[Choices]:
    """Every combination of :data:`OPTIONS`."""
    for values in product(*OPTIONS.values()):
        yield Choices(**dict(zip(OPTIONS, values, strict=True)))


def nearest_width(choices: Choices) -> int:
    """The width at which the guided model comes nearest to the baseline's count, among those that its heads divide."""
    n_layers, target = STATED["guided"]["n_layers"], count(choices, "baseline")
    widths = range(N_HEADS, 65, N_HEADS)
    return min(widths, key=lambda w: abs(sum(parts(choices, w, n_layers, guided=True).values()) - target))


def search() -> dict:
    """``tried``, ``baseline`` (distinct baselines with the printed count), ``both`` (choices with both printed counts)."""
    every = list(family())
    fitting = [choices for choices in every if count(choices, "baseline") == PARAMETERS["baseline"]]
    distinct = {tuple((k, v) for k, v in asdict(choices).items() if k not in ("sink", "scale")) for choices in fitting}
    both = [choices for choices in fitting if count(choices, "guided") == PARAMETERS["guided"]]
    return {"tried": len(every), "baseline": len(distinct), "both": both}


def parameter_records(study: Study) -> dict:
    """Parameters of the trained models, and the search for architectures with the printed counts."""
    counts = {}
    for spec in study.groups:
        model = spec.model(**dict(spec.kwargs))
        counts[spec.name] = sum(p.numel() for p in model.parameters())
    found = search()
    return {
        "9.5/baseline_parameters": counts["baseline"],
        "9.5/guided_parameters": counts["guided"],
        "q-parameters/both": len(found["both"]),
        "q-parameters/baselines": found["baseline"],
        "q-parameters/tried": found["tried"],
        "q-parameters/excess": counts["guided"] / counts["baseline"] - 1,
        "q-parameters/nearest_width": nearest_width(found["both"][0]) if found["both"] else 0,
    }
