"""The tables of sections 8.4, 8.5.2 and 9.4 for the ladder, the printed rows above ours; ``get`` as in :mod:`..probes.models`.

A row of ours is the mean over the seeds of a size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....numbers import number
from ..probes.alignment import errors
from ..probes.contraction import late_over_early
from ..probes.ladder import TOKENS_A_STEP
from ..probes.lifecycle import course
from ..probes.models import Get, Model, by_size, mixed, twins
from ..theory import arithmetic
from .ladder import effect, emergence_gap

Row = dict[str, str]


def _pairs(numbers: tuple[str, ...], between: str) -> list[str]:
    """Numbers that are printed two by two."""
    return [f"{a}{between}{b}" for a, b in zip(numbers[::2], numbers[1::2], strict=True)]


#: Section 8.4: shares of updates with the residual's sign, over all models.
PRINTED_SIGNS = ("0.55", "0.65")

#: Heads of the columns of :func:`alignment_rows`.
ALIGNMENT = {
    "model": "model",
    "slope": "slope $alpha$",
    "r2": "$r^2$",
    "signs": "signs agree",
    "error": "error, first layer and last",
    "shuffled": "reduction, with the context's answers shuffled",
    "rates": "$rho_pred$ / $rho_obs$",
    "contracting": "prompts that contract",
}
_ERRORS, _RATES = _pairs(arithmetic.ERRORS, ", "), _pairs(arithmetic.RHO, " / ")
#: Section 8.4, findings 1 and 4; what the paper gives for a group of models stands in one row.
PRINTED_ALIGNMENT: tuple[Row, ...] = (
    {"model": "gpt2 (printed)", "error": _ERRORS[0], "rates": _RATES[0]},
    {"model": "Pythia-160M (printed)", "rates": _RATES[1]},
    {"model": "Pythia-410M (printed)", "error": _ERRORS[1], "rates": _RATES[2]},
    {"model": "Pythia-1B (printed)", "error": _ERRORS[2]},
    {
        "model": "all of them (printed)",
        "slope": "0.08 to 0.12",
        "r2": "0.05 to 0.09",
        "signs": " to ".join(PRINTED_SIGNS),
        "contracting": "90 to 96 %",
    },
)

#: Heads of the columns of :func:`life_rows`.
LIFE = {
    "model": "model",
    "peak": "error reduction at its peak",
    "tokens": "after tokens",
    "final": "at the end",
    "decay": "decay",
    "signs": "change of sign agreement",
}
#: Section 8.5.2: model, tokens, change of sign agreement; peak, end and decay stand in :mod:`..theory.arithmetic`.
PRINTED_LIFE = (
    ("OLMo-2-1B", "147 B", "-8 %"),
    ("OLMo-2-7B", "68 B", "-1 %"),
    ("Pythia-1.4B", "134 B", "-3 %"),
    ("Pythia-1B", "134 B", "-2 %"),
    ("Pythia-160M", "300 B", "-8 %"),
)

#: Heads of the columns of :func:`sink_rows`.
SINKS = {
    "model": "model",
    "layers": "layers",
    "effect": "ICL effect (nats)",
    "early": "early sinks",
    "late": "late sinks",
    "ratio": "late over early, in thirds (halves)",
    "gap": "emergence gap: last, random, first directions dropped",
}
#: Section 9.4: model and layers; effect and sinks stand in :mod:`..theory.arithmetic`.
PRINTED_SINKS = (
    ("Pythia-70M", "6"),
    ("Pythia-160M", "12"),
    ("GPT-2-medium", "24"),
    ("Pythia-410M", "24"),
    ("GPT-2-large", "36"),
    ("Pythia-1B", "16"),
)


def _sizes(get: Get) -> dict[str, list[Model]]:
    """The models by size, then their twins."""
    alone = by_size([twin for _, twin in twins(get)])
    return by_size(mixed(get)) | {f"{name}, no regression": runs for name, runs in alone.items()}


def _rows(sizes: dict[str, list[Model]], of: Callable[[list[Model]], Row]) -> list[Row]:
    return [{"model": name} | of(runs) for name, runs in sizes.items()]


def alignment_rows(get: Get) -> list[Row]:
    """Sections 8 and 8.4 at the end of training: columns :data:`ALIGNMENT`."""

    def row(runs: list[Model]) -> Row:
        aligned = [m.aligned() for m in runs]
        a = {name: np.mean([getattr(one, name) for one in aligned]) for name in aligned[0]._fields}
        first, *_, last = np.mean([errors(m.arrays["lines_estimate"][-1], m.target) for m in runs], 0)
        return {
            "slope": f"{a['slope']:.3f}",
            "r2": f"{a['r2']:.3f}",
            "signs": f"{a['signs']:.2f}",
            "error": f"{first:.2f}, {last:.2f}",
            "shuffled": f"{np.mean([m.aligned(which='shuffled').reduction for m in runs]):+.2f}",
            "rates": f"{a['rho_pred']:.3f} / {a['rho_obs']:.3f}",
            "contracting": f"{100 * a['contracting']:.0f} %",
        }

    return [*PRINTED_ALIGNMENT, *_rows(_sizes(get), row)]


def life_rows(get: Get) -> list[Row]:
    """Section 8.5.2, peak and end of the error reduction: columns :data:`LIFE`. Twins have no peak that is more than noise and are left out."""

    def row(runs: list[Model]) -> Row:
        courses = [course(m.steps, m.reductions()) for m in runs]
        signs = [m.aligned().signs / m.aligned(int(m.reductions().argmax())).signs - 1 for m in runs]
        decays = [c.decay for c in courses if c.peak > 0]
        tokens = np.mean([c.peak_step for c in courses]) * TOKENS_A_STEP / 1e6
        return {
            "peak": f"{np.mean([c.peak for c in courses]):+.2f}",
            "tokens": f"{number(float(tokens), form='.2g')} M",
            "final": f"{np.mean([c.final for c in courses]):+.2f}",
            "decay": f"{100 * np.mean(decays):.0f} %" if decays else "",
            "signs": f"{100 * np.mean(signs):+.0f} %",
        }

    reductions = zip(arithmetic.REDUCTION[::2], arithmetic.REDUCTION[1::2], arithmetic.DECAY, strict=True)
    printed = [
        {
            "model": f"{name} (printed)",
            "peak": f"+{peak}",
            "tokens": tokens,
            "final": f"+{final}",
            "decay": f"{decay} %",
            "signs": signs,
        }
        for (name, tokens, signs), (peak, final, decay) in zip(PRINTED_LIFE, reductions, strict=True)
    ]
    return [*printed, *_rows(by_size(mixed(get)), row)]


def sink_rows(get: Get) -> list[Row]:
    """Sections 8.3 and 9.4 at the end of training: columns :data:`SINKS`. Early and late are thirds of the layers."""

    def row(runs: list[Model]) -> Row:
        by_layer = np.mean([m.arrays["sink_all"][-1].mean(-1) for m in runs], 0)
        third = max(1, len(by_layer) // 3)
        ratios = (
            np.mean([late_over_early(m.arrays["sink_all"][-1], parts) for m in runs]) for parts in (3, 2)
        )
        gaps = (np.mean([emergence_gap(m, drop) for m in runs]) for drop in ("last", "random", "first"))
        return {
            "layers": str(len(by_layer)),
            "effect": f"{np.mean([effect(m) for m in runs]):.1f}",
            "early": f"{100 * by_layer[:third].mean():.1f} %",
            "late": f"{100 * by_layer[-third:].mean():.1f} %",
            "ratio": "{:.1f} ({:.1f})".format(*ratios),
            "gap": ", ".join(f"{gap:+.2f}" for gap in gaps),
        }

    shares = zip(arithmetic.EFFECT, arithmetic.SINKS[::2], arithmetic.SINKS[1::2], strict=True)
    printed = [
        {
            "model": f"{name} (printed)",
            "layers": layers,
            "effect": effect,
            "early": f"{early} %",
            "late": f"{late} %",
        }
        for (name, layers), (effect, early, late) in zip(PRINTED_SINKS, shares, strict=True)
    ]
    return [*printed, *_rows(_sizes(get), row)]
