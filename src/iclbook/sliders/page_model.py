"""A model that runs in the reader's page: its numbers as JSON, a still picture, and the name of the script that answers.

``book/assets/models/NAME.js`` holds the model, ``kit.js`` and ``numbers.js`` beside it what all share. Weights and constants come from the library when the
chapter runs. Where no script runs (a mail, paper) the still picture stands. Pages load the scripts once; in JupyterLab each figure brings them along.
"""

import base64
import html
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from IPython import get_ipython
from IPython.display import display
from matplotlib.figure import Figure

from ..drawing.figure_output import origin
from ..project import MODEL, MODEL_FIGURE, find_root
from ..store import Results
from .panel import Frame, draw

#: Scripts that all models share, in the order in which they are loaded.
SHARED = ("numbers", "kit")
#: Scripts that a model asks for when it begins, beside its own.
BESIDE = dict.fromkeys(("train", "train_waits"), ("kernels/attention", "kernels/trainer"))


@dataclass(frozen=True)
class PageModel:
    """Model that runs in a page, with its data and its still picture.

    Attributes:
        name: of its script, ``book/assets/models/NAME.js``.
        title, description: plain text over the model, and under it: what to try, what is drawn.
        says: the sentence that the model says as it opens, for where no script runs.
    """

    name: str
    data: dict[str, Any]
    still: Callable[[], Figure]
    alt: str
    title: str = ""
    description: str = ""
    says: str = ""


def show_model(model: PageModel, title: str = "", description: str = "", of: Iterable[Results] = ()) -> None:
    """Show a model that runs in the page.

    Args:
        title, description: in place of the model's own; needed where it has none.
    """
    title, description = title or model.title, description or model.description
    if get_ipython() is None:
        return print(f"[model in the page: {title}]")
    frame = draw(model.still, {})
    text = markup(model, title, description, frame)
    if os.environ.get("ICLBOOK_HEADLESS") != "1":
        text += inline(model.name)
    about = {"name": model.name, "title": title, "origin": origin(of)}
    about |= {theme: base64.b64encode(frame.others[theme]).decode() for theme in ("dark",) if theme in frame.others}
    display({"text/html": text, "text/plain": f"[model in the page: {title}]"}, metadata={MODEL: about}, raw=True)


def markup(model: PageModel, title: str, description: str, frame: Frame | None = None) -> str:
    """The figure's HTML with its still picture, ``frame`` (drawn here if none is given). Numbers that are not finite are a ValueError."""
    # arrays become lists, and what they hold Python's numbers
    text = json.dumps(model.data, separators=(",", ":"), allow_nan=False, default=lambda array: array.tolist())
    frame = frame or draw(model.still, {})
    picture = base64.b64encode(frame.png).decode()
    says = f'<p class="says">{html.escape(model.says)}</p>' if model.says else ""
    safe = text.replace("<", "\\u003c")  # nothing in the numbers may end the script element
    return (
        f'{MODEL_FIGURE} data-model="{html.escape(model.name)}" aria-label="{html.escape(title)}" '
        f'data-lm-suppress-shortcuts="true">'  # or JupyterLab takes the arrow keys
        f'<p class="iclbook-model-title">{html.escape(title)}</p>'
        f'<div class="iclbook-still"><img alt="{html.escape(model.alt)}" width="{frame.width}" height="{frame.height}" '
        f'src="data:image/png;base64,{picture}">{says}</div>'
        f'<div class="iclbook-live"></div>'
        f"<figcaption>{html.escape(description)}</figcaption>"
        f'<script type="application/json">{safe}</script></figure>'
    )


def inline(name: str) -> str:
    """Style sheet and scripts of a model as HTML, for a place that does not load them."""
    assets = find_root() / "book" / "assets"
    style = (assets / "models.css").read_text(encoding="utf-8")
    parts = [*SHARED, *BESIDE.get(name, ()), name]
    scripts = [(assets / "models" / f"{part}.js").read_text(encoding="utf-8") for part in parts]
    return f"<style>{style}</style>" + "".join(f"<script>{script}</script>" for script in scripts)
