"""How long the trainings behind each figure took, from the provenance that is stored beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .learned import Get

#: Figure -> beginnings of the names of its studies.
STUDIES = {
    "fig3": ("gd_", "tf_", "wide_gd", "wide_tf"),
    "fig4": ("deep_gd", "wide_gd", "wide_deep"),
    "fig5-left": ("two_",),
    "fig5-right": ("glyph_networks", "images_unseen", "images_linear"),
    "fig8-9": ("quad_gd", "quad_tf"),
    "fig10-11": ("quad_tf", "quad_gauge"),
    "draws": ("draw",),
    "language": ("language_",),
}


def records(get: Get, names: Iterable[str]) -> dict[str, Any]:
    """``time/<figure>`` and ``time/all``, minutes of training; a study that serves two figures counts in both, once in the total."""
    seconds = {name: float(get(name).provenance["seconds"]) for name in names}
    values = {
        f"time/{figure}": sum(s for n, s in seconds.items() if n.startswith(starts)) / 60
        for figure, starts in STUDIES.items()
    }
    return values | {"time/all": sum(seconds.values()) / 60}
