"""How long the trainings behind each figure took, from the provenance that is stored beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .learned import Get

#: Key of a figure's minutes -> beginnings of the names of its studies.
STUDIES = {
    "time/fig3": ("gd_", "tf_", "wide_gd", "wide_tf"),
    "time/fig4": ("deep_gd", "wide_gd", "wide_deep"),
    "time/fig5-left": ("two_",),
    "time/fig5-right": ("glyph_networks", "images_unseen", "images_linear"),
    "time/fig8-9": ("quad_gd", "quad_tf"),
    "time/fig10-11": ("long",),
    "time/draws": ("draw", "new"),
    "time/published": ("published",),
    "time/language": ("language_",),
}


def records(get: Get, names: Iterable[str]) -> dict[str, Any]:
    """Minutes of training behind each figure and of all; a study that serves two figures counts in both, once in the total."""
    seconds = {name: float(get(name).provenance["seconds"]) for name in names}
    values = {
        key: sum(s for n, s in seconds.items() if n.startswith(starts)) / 60
        for key, starts in STUDIES.items()
    }
    return values | {"time/all": sum(seconds.values()) / 60}
