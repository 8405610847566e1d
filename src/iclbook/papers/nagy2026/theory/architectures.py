"""Which architectures have exactly the printed numbers of parameters, 8,801 and 9,989 (nagy2026, section 9.5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import product

PRINTED = {"baseline": 8801, "guided": 9989}
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
    names = [field.name for field in fields(Choices)]
    for values in product(*(OPTIONS[name] for name in names)):
        yield Choices(**dict(zip(names, values, strict=True)))


def nearest_width(choices: Choices) -> int:
    """The width at which the guided model comes nearest to the baseline's count, among those that its heads divide."""
    n_layers, target = STATED["guided"]["n_layers"], count(choices, "baseline")
    widths = range(N_HEADS, 65, N_HEADS)
    return min(widths, key=lambda w: abs(sum(parts(choices, w, n_layers, guided=True).values()) - target))


def search() -> dict:
    """``tried``, ``baseline`` (distinct baselines with the printed count), ``both`` (choices with both printed counts)."""
    every = list(family())
    fitting = [choices for choices in every if count(choices, "baseline") == PRINTED["baseline"]]
    distinct = {
        tuple((k, v) for k, v in asdict(choices).items() if k not in ("sink", "scale")) for choices in fitting
    }
    both = [choices for choices in fitting if count(choices, "guided") == PRINTED["guided"]]
    return {"tried": len(every), "baseline": len(distinct), "both": both}
