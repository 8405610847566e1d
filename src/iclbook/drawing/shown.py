"""What a notebook keeps of every figure that it shows: a small PNG, the numbers in it, where they come from, and a picture for phones.

``style.use`` switches this on where a chapter runs headless; in JupyterLab figures are shown as usual.
"""

from __future__ import annotations

import base64
from typing import Any

from IPython.core.formatters import JSONFormatter
from matplotlib.figure import Figure
from traitlets import Unicode

from ..marks import FIGURE
from .figure_data import table
from .narrow import narrow
from .origin import Notes, Stepping, watch_results
from .pixels import png

COLOURS = 200
STEP = "_iclbook_step"


#: What is noted of the notebook that runs, once :func:`keep` was called.
_notes: list[Notes] = []


def origin_now() -> dict[str, Any] | None:
    """Where that comes from which the running statement draws; ``None`` where nothing is noted."""
    return _notes[-1].origin() if _notes else None


class AboutFormatter(JSONFormatter):
    """Formats figures as :data:`FIGURE`."""

    format_type = Unicode(FIGURE)


def keep(shell: Any, css_dpi: float, scale: int) -> None:
    """From now on every figure that this notebook shows carries its numbers and its origin; a second call changes nothing.

    Args:
        shell: the notebook's IPython shell.
        css_dpi, scale: CSS pixels an inch, and pixels of a PNG a CSS pixel.
    """
    if FIGURE in shell.display_formatter.formatters:
        return
    notes = Notes(shell.user_ns)
    watch_results(notes)
    _notes[:] = [notes]

    def step(uses: tuple[str, ...], binds: tuple[str, ...]) -> None:
        notes.end()
        notes.begin(frozenset(uses), frozenset(binds))

    shell.user_ns_hidden[STEP] = shell.user_ns[STEP] = step
    shell.ast_transformers.append(Stepping(STEP))
    shell.events.register("post_run_cell", lambda result: notes.end())

    def picture(figure: Figure) -> tuple[str, dict[str, int]]:
        width, height = (round(inches * css_dpi) for inches in figure.get_size_inches())
        return _text(png(figure, css_dpi * scale, COLOURS)), {"width": width, "height": height}

    def about(figure: Figure) -> dict[str, Any]:
        found: dict[str, Any] = {"csv": table(figure), "origin": notes.origin(figure)}
        small = narrow(figure, css_dpi * scale)
        if small is not None:
            found["narrow"] = _text(png(small, css_dpi * scale, COLOURS))
            found["size"] = [round(inches * css_dpi) for inches in small.get_size_inches()]
        return found

    formatters = shell.display_formatter.formatters
    formatters["image/png"].for_type(Figure, picture)
    formatters[FIGURE] = AboutFormatter(parent=shell.display_formatter)
    formatters[FIGURE].for_type(Figure, about)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
