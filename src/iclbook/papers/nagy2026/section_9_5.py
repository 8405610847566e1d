"""Section 9.5: the theory-guided model against a baseline, and which architectures have exactly the printed numbers of parameters, 8,801 and 9,989."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import fdtri

from ...drawing import style
from ...statistics import Estimate, ratio_terms, standard_error
from ...store import Results
from ...training import Study
from .arithmetic import printed_numbers
from .common import by_rate, cross, legend_above, named_ticks, strip

CONTEXTS = (5, 8, 12)
MODELS = {"baseline": "2 layers", "guided": "4 layers, guided"}
#: What the paper prints: errors by context length; headline errors, read as at 12 examples, and final training losses of both; sink attention and scale by layer.
PRINTED_ERRORS = {"baseline": printed_numbers("9.5/contexts")[::2], "guided": printed_numbers("9.5/contexts")[1::2]}
HEADLINE = dict(zip(MODELS, printed_numbers("9.5/gain"), strict=True))
PRINTED_LOSSES = dict(zip(MODELS, printed_numbers("9.5/losses"), strict=True))
PRINTED_SINKS = tuple(share / 100 for share in printed_numbers("9.5/sink"))
PRINTED_SCALES = printed_numbers("9.5/scales")
#: Readings: on 4,000 prompts at two rates, on new prompts at each step, and on 4,000 prompts with the weight variance that the printed ratios imply.
READING_NAMES = {
    "set1e-3": "4,000 prompts, Adam 0.001",
    "set3e-3": "4,000 prompts, Adam 0.003",
    "fresh": "new prompts, Adam 0.001",
    "v295": "4,000 prompts, variance 0.295",
}


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


def guided_readings(studies: dict[str, Study], results: dict[str, Results]) -> dict[str, Guided]:
    """Readings of section 9.5 (:data:`READING_NAMES`); studies and results by name of the study."""
    found = {}
    for name, reading in (("guided", ""), ("guided_fresh", "fresh"), ("guided_v295", "v295")):
        for rate in by_rate(studies[name], results[name], "guided", "loss"):

            def last(model: str, array: str, name: str = name, rate: float = rate) -> np.ndarray:
                return by_rate(studies[name], results[name], model, array)[rate][-1].T

            found[reading or f"set{rate:.0e}".replace("e-0", "e-")] = Guided(
                {model: np.stack([last(model, f"error_n{n}") for n in CONTEXTS]) for model in MODELS},
                {model: last(model, "loss") for model in MODELS},
                last("guided", "sink"),
                last("guided", "scale"),
            )
    return found


def records(reading: str, g: Guided) -> dict:
    """Records that decide the claims on section 9.5 under one reading."""
    # by context length; seeds are paired over models and over contexts
    pairs = list(zip(g.errors["guided"], g.errors["baseline"], strict=True))
    improvement = np.array([1 - guided.mean() / base.mean() for guided, base in pairs])
    terms = np.array([-ratio_terms(guided, base) for guided, base in pairs])
    found = {
        "improvement": Estimate(float(improvement[-1]), float(standard_error(terms[-1]))),
        "improvement_growth": Estimate(np.diff(improvement), standard_error(np.diff(terms, axis=0))),
        "sink_rise": Estimate.mean(np.diff(g.sinks, axis=0)),
        "scale_rise": Estimate.mean(np.diff(g.scales, axis=0)),
        **_against_printed(g),
    }
    return {f"9.5/{reading}/{name}": value for name, value in found.items()}


#: Printed numbers that are judged together: six errors, two headline errors, two training losses. All three lists are to come out in 95 of 100 repetitions.
LISTS = ("errors", "headline", "training")


def joint_distance(printed: np.ndarray, ours: np.ndarray, level: float = 1 - 0.05 / len(LISTS)) -> float:
    """Distance of ``printed`` numbers ``(p,)`` of one seed from those of ours ``(p, seeds)``, over the radius of the prediction ellipsoid of one seed more, all in
    logarithms: above 1 they did not come from the same distribution.

    ``T^2 = d^T S^-1 d / (1 + 1/n)`` follows ``p (n - 1) / (n - p) F(p, n - p)`` (Hotelling 1931), with S the covariance over n seeds and d the distance of
    the printed from the mean; here the root of T^2 over its quantile at ``level``. The error of our mean is part of it. 0 where seeds are too few to tell.
    """
    logs = np.log(ours)
    p, n = logs.shape
    if n <= p:
        return 0.0
    apart = np.log(printed) - logs.mean(1)
    squared = apart @ np.linalg.solve(np.atleast_2d(np.cov(logs)), apart) / (1 + 1 / n)
    return float(np.sqrt(squared / (p * (n - 1) / (n - p) * fdtri(p, n - p, level))))


def _against_printed(g: Guided) -> dict:
    """:func:`joint_distance` of the printed errors at 5, 8 and 12 examples, of the headline errors and of the final training losses; and the same with the two
    models exchanged."""
    found = {}
    for name, order in (("joint", list(MODELS)), ("exchanged", list(MODELS)[::-1])):
        ours = {
            "errors": ([*PRINTED_ERRORS.values()], [g.errors[m] for m in order]),
            "headline": ([*HEADLINE.values()], [g.errors[m][-1] for m in order]),
            "training": ([*PRINTED_LOSSES.values()], [g.losses[m] for m in order]),
        }
        for kind, (printed, values) in ours.items():
            found[f"{kind}_{name}"] = joint_distance(np.ravel(printed), np.vstack(values))
    return found


def models_apart(readings: Mapping[str, Guided]) -> dict[str, int]:
    """In how many readings each model's three printed errors alone come out."""
    return {
        f"9.5/{model}_readings": sum(
            joint_distance(PRINTED_ERRORS[model], g.errors[model]) <= 1 for g in readings.values()
        )
        for model in MODELS
    }


def _plot_readings(ax: Axes, x: np.ndarray, readings: Mapping[str, np.ndarray], printed: Sequence[float]) -> None:
    """Seeds of every reading ``(len(x), seeds)`` at each ``x``, side by side, and the printed numbers."""
    for j, (reading, rows) in enumerate(readings.items()):
        for i, values in enumerate(rows):
            name = None if i else READING_NAMES[reading]
            strip(ax, x[i] + (j - 1.5) * 0.2, values, style.PALETTE[j], "osD^"[j], name)
    cross(ax, x, printed, "printed", ls=(0, (5, 3)), lw=0.9)


def figure(readings: Mapping[str, Guided]) -> Figure:
    """Section 9.5: error by context length of both models under each reading, every seed; crosses: printed."""
    fig, axes = style.figure(2, height=3.4, sharey=True)
    for ax, (model, name) in zip(axes, MODELS.items(), strict=True):
        errors = {reading: g.errors[model] for reading, g in readings.items()}
        _plot_readings(ax, np.arange(len(CONTEXTS)), errors, PRINTED_ERRORS[model])
        named_ticks(ax, CONTEXTS)
        ax.set_yscale("log")
        ax.set_yticks([0.03, 0.1, 0.3], ["0.03", "0.1", "0.3"])
        ax.minorticks_off()
        ax.set(xlabel="examples", title=name)
    axes[0].set_ylabel("error")
    legend_above(fig, axes[0], 3, fontsize=8.5, markerscale=1.3)
    return fig


def layers_figure(readings: Mapping[str, Guided]) -> Figure:
    """Section 9.5: attention to the sink and layer scale, layer by layer, every seed; dashed: printed."""
    fig, (sinks, scales) = style.figure(2, height=3.3)
    for ax, field, printed in ((sinks, "sinks", PRINTED_SINKS), (scales, "scales", PRINTED_SCALES)):
        layers = np.arange(1, len(printed) + 1)
        _plot_readings(ax, layers, {reading: getattr(g, field) for reading, g in readings.items()}, printed)
        ax.set(xlabel="layer", xticks=layers)
        ax.grid(axis="x", visible=False)
    sinks.set_title("attention of the query to the sink")
    scales.set(title="layer scale", ylim=(0, None))
    legend_above(fig, sinks, 3, fontsize=8.5, markerscale=1.3)
    return fig


# -- which architectures? --------------------------------------------------------------------------------------------------------------

PARAMETERS = {"baseline": 8801, "guided": 9989}
#: Stated: covariates, sequence length, heads, layers and widths of both models.
D_INPUT, LENGTH, N_HEADS = 4, 12, 2
STATED = {"baseline": {"n_layers": 2, "width": 32}, "guided": {"n_layers": 4, "width": 24}}
#: What the paper leaves open, shared by both models.
OPTIONS = {
    "tokens": ("pair", "split"),  # one token (x, y), or x and y are tokens of their own, each with its own embedding
    "embed_bias": (True, False),
    "attention_bias": (True, False),
    "read_bias": (True, False),
    "norms": (0, 1, 2),  # layer norms in each layer
    "final_norm": (False, True),  # one more before the read-out
    "positions": (0, LENGTH, LENGTH + 1),  # learned: none, one per pair, or one more for the query
    "mlp": (0, 1, 2, 4),  # hidden width over width; 0 is no MLP
}
#: What the guided model adds: parameters of SM1's sink and, in every layer, of SM2's scale, by width and layers.
SINKS = {
    "token": lambda width, n_layers: width,
    "key and value per layer": lambda width, n_layers: 2 * width * n_layers,
    "key per layer": lambda width, n_layers: width * n_layers,
    "score per head": lambda width, n_layers: N_HEADS * n_layers,
}
SCALES = {"number": lambda width: 1, "two numbers": lambda width: 2, "vector": lambda width: width}


def count(choice: Mapping[str, Any], width: int, n_layers: int, guided: bool) -> int:
    """Parameters of a model with these choices of :data:`OPTIONS`; of a guided one also of ``sink`` and ``scale``."""
    inner = choice["mlp"] * width
    total = (D_INPUT + 1) * width + choice["embed_bias"] * width * (1 if choice["tokens"] == "pair" else 2)
    total += n_layers * 4 * (width * width + choice["attention_bias"] * width)
    total += 2 * width * (n_layers * choice["norms"] + choice["final_norm"])
    total += choice["positions"] * width
    total += n_layers * (2 * width * inner + inner + width) if inner else 0
    total += width + choice["read_bias"]
    if guided:
        total += SINKS[choice["sink"]](width, n_layers) + SCALES[choice["scale"]](width) * n_layers
    return total


def nearest_width(choice: Mapping[str, Any]) -> int:
    """The width at which the guided model comes nearest to the baseline's count, among those that its heads divide."""
    n_layers, target = STATED["guided"]["n_layers"], count(choice, **STATED["baseline"], guided=False)
    return min(range(N_HEADS, 65, N_HEADS), key=lambda w: abs(count(choice, w, n_layers, guided=True) - target))


def parameter_records(study: Study) -> dict:
    """Parameters of the trained models, and the search for architectures with the printed counts."""
    ours = {g.name: sum(p.numel() for p in g.build().parameters()) for g in study.groups}
    shared = [dict(zip(OPTIONS, values, strict=True)) for values in product(*OPTIONS.values())]
    baselines = [c for c in shared if count(c, **STATED["baseline"], guided=False) == PARAMETERS["baseline"]]
    added = [{"sink": sink, "scale": scale} for sink, scale in product(SINKS, SCALES)]
    both = [
        base | more
        for base, more in product(baselines, added)
        if count(base | more, **STATED["guided"], guided=True) == PARAMETERS["guided"]
    ]
    return {
        "9.5/baseline_parameters": ours["baseline"],
        "9.5/guided_parameters": ours["guided"],
        "q-parameters/both": len(both),
        "q-parameters/baselines": len(baselines),
        "q-parameters/tried": len(shared) * len(added),
        "q-parameters/excess": ours["guided"] / ours["baseline"] - 1,
        "q-parameters/nearest_width": nearest_width(both[0]),
    }
