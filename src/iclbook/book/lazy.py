"""What a page loads only when a reader comes near: the frames of its sliders, and the program that moves them.

MyST-NB writes the frames into the page and calls the widget manager at once; here both stay files beside it (``book/assets/lazy.js`` fetches them), and until
then a still picture of the slider's start stands in their place, which print and readers without scripts see.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from ..project import SLIDERS
from ..references import write_text

#: Folder of the files beside the pages, from the top of the book.
FILES = "_figures"
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
_IMAGE = re.compile(r'<img alt="([^"]*)" width="(\d+)" height="(\d+)"[^>]*base64,([^"]+)">')


def up(page: str) -> str:
    """From a page to the top of the book."""
    return "../" * page.count("/")


def move_widgets(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """On ``html-page-context``, after MyST-NB: the widgets of a page become a file that ``lazy.js`` loads."""
    scripts = app.builder._js_files if hasattr(app.builder, "_js_files") else []
    state = next((s for s in scripts if s.attributes.get("type") == STATE), None)
    manager = next((s for s in scripts if s.filename and str(s.filename).endswith("embed.js")), None)
    if state is None or manager is None:
        return
    scripts.remove(state)
    scripts.remove(manager)
    name = f"{FILES}/{page.rpartition('/')[2]}-sliders.js"
    write_text(Path(app.outdir) / name, _as_script(state.attributes["body"]))
    # addresses from the folder in which lazy.js lies
    here = {"data-state": f"../{name}", "data-manager": os.path.relpath(str(manager.filename), "_static")}
    app.add_js_file("lazy.js", priority=manager.priority, **here)


def _as_script(body: str) -> str:
    """Widget state as a script that puts it into the page, since a page opened from the disk may load scripts only."""
    return (
        'document.head.append(Object.assign(document.createElement("script"), '
        f'{{ type: "{STATE}", textContent: JSON.stringify({body}) }}));\n'
    )


def read_state(path: Path) -> dict[str, Any]:
    """The widgets of a file that :func:`move_widgets` wrote, by model id."""
    text = path.read_text(encoding="utf-8")
    begin = text.index("JSON.stringify(") + len("JSON.stringify(")
    return json.loads(text[begin : text.rindex(") }));")])["state"]


def stills(notebook: Mapping[str, Any]) -> dict[str, tuple[bytes, str, int, int]]:
    """Of an executed copy: model id of each static slider -> PNG, alt text, width and height of the frame at which it starts."""
    widgets = notebook["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
    frames = {}
    for widget in widgets.values():
        match = _IMAGE.search(str(widget.get("state", {}).get("value", "")))
        if match:
            png = base64.b64decode(match[4])
            frames[hashlib.sha256(png).hexdigest()] = (png, html.unescape(match[1]), int(match[2]), int(match[3]))
    found = {}
    for output in (o for cell in notebook["cells"] for o in cell.get("outputs", [])):
        about = output.get("metadata", {}).get(SLIDERS)
        if about and "frames" in about:
            sha = about["frames"][",".join(map(str, about["start"]))]
            if sha in frames:
                found[output["data"][VIEW]["model_id"]] = frames[sha]
    return found


def still_html(address: str, alt: str, width: int, height: int) -> str:
    """The element that stands until the slider does."""
    return (
        f'<img class="iclbook-slider-still" alt="{html.escape(alt)}" src="{address}" width="{width}" height="{height}" '
        'loading="lazy" decoding="async">'
    )


def model_id(raw: str) -> str | None:
    """Of the widget that a piece of a page's HTML shows."""
    match = re.search(rf'<script type="{re.escape(VIEW)}">(.*?)</script>', raw, re.DOTALL)
    try:
        return json.loads(match[1])["model_id"] if match else None
    except (ValueError, KeyError, TypeError):
        return None
