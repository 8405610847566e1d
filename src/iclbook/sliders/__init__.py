"""Sliders over figures, in two modes from one definition.

``static``: every frame is drawn when the notebook runs; the built page moves between them with no kernel.
``live``: with a kernel, the figure is drawn anew for any value.
``show_model``: a model that itself runs in the page, with no kernel (:mod:`iclbook.sliders.page_model`).

Example:
    >>> def frame(gamma):
    ...     fig, ax = style.figure()
    ...     ax.plot(...)
    ...     return fig
    >>> show(frame, [Slider("gamma", "scale γ", [0.05, 0.1, 0.2], live=(0.01, 0.5, 0.01))], title="...")

``ICLBOOK_HEADLESS=1`` means static (``iclbook run`` sets it). Under ``ICLBOOK_EXERCISE_SLIDERS=1`` every ``show`` also moves live sliders to
their ends, so that running a notebook tests them.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from IPython.display import display
from matplotlib.figure import Figure

from ..drawing.figure_output import origin
from ..project import SLIDERS
from ..store import Results
from .live import LivePanel
from .page_model import PageModel, show_model
from .panel import Panel, Slider
from .static import StaticPanel


def show(frame: Callable[..., Figure], sliders: Sequence[Slider], of: Iterable[Results] = (), **options: Any) -> None:
    """Show a figure under one or two sliders: static when the notebook runs headless, live otherwise."""
    headless = os.environ.get("ICLBOOK_HEADLESS") == "1"
    panel = (StaticPanel if headless else LivePanel)(frame, sliders, **options)
    if os.environ.get("ICLBOOK_EXERCISE_SLIDERS") == "1":
        LivePanel(frame, sliders, **options).move_to_ends()
    display(panel, metadata={SLIDERS: panel.about | {"origin": origin(of)}} if headless else None)
