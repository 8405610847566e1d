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
from .ladder import effect, emergence_gap

Row = dict[str, str]

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
#: Section 8.4, findings 1 and 4; what the paper gives for a group of models stands in one row.
PRINTED_ALIGNMENT: tuple[Row, ...] = (
    {"model": "gpt2 (printed)", "error": "3.62, 2.43", "rates": "0.874 / 0.834"},
    {"model": "Pythia-160M (printed)", "rates": "0.891 / 0.807"},
    {"model": "Pythia-410M (printed)", "error": "2.33, 1.19", "rates": "0.911 / 0.892"},
    {"model": "Pythia-1B (printed)", "error": "2.30, 1.10"},
    {
        "model": "all of them (printed)",
        "slope": "0.08 to 0.12",
        "r2": "0.05 to 0.09",
        "signs": "0.55 to 0.65",
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
#: Section 8.5.2: model, peak, tokens, end, decay, change of sign agreement.
PRINTED_LIFE = (
    ("OLMo-2-1B", "+1.47", "147 B", "+0.74", "50 %", "-8 %"),
    ("OLMo-2-7B", "+1.68", "68 B", "+1.02", "40 %", "-1 %"),
    ("Pythia-1.4B", "+1.69", "134 B", "+1.38", "19 %", "-3 %"),
    ("Pythia-1B", "+1.19", "134 B", "+1.10", "8 %", "-2 %"),
    ("Pythia-160M", "+2.39", "300 B", "+2.39", "0 %", "-8 %"),
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
#: Section 9.4: model, layers, effect in nats, early and late sinks.
PRINTED_SINKS = (
    ("Pythia-70M", "6", "3.9", "8.5 %", "21.7 %"),
    ("Pythia-160M", "12", "15.9", "11.8 %", "61.0 %"),
    ("GPT-2-medium", "24", "14.8", "39.9 %", "65.5 %"),
    ("Pythia-410M", "24", "11.1", "21.4 %", "71.6 %"),
    ("GPT-2-large", "36", "12.6", "31.7 %", "65.6 %"),
    ("Pythia-1B", "16", "11.1", "13.4 %", "58.2 %"),
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
        a = {name: np.mean([getattr(m.aligned(), name) for m in runs]) for name in runs[0].aligned()._fields}
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

    printed = [dict(zip(LIFE, (f"{name} (printed)", *rest), strict=True)) for name, *rest in PRINTED_LIFE]
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

    printed = [dict(zip(SINKS, (f"{name} (printed)", *rest), strict=False)) for name, *rest in PRINTED_SINKS]
    return [*printed, *_rows(_sizes(get), row)]
