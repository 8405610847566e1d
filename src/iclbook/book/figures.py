"""Figures of the pages: pictures that cells drew, slider figures and models, each with a number and a caption right below it, and with its data and their origin folded below that.

In a notebook the caption is the italic text with which the next text cell begins, so that a reader of the notebook sees it too. In the page it moves from below
the verdicts, which may stand between, into the figure. A slider's caption is its description; a model is a figure with a caption already, and gets the number.
What folds out was kept while the notebook ran (``drawing/shown.py``).

MyST-NB writes the frames of sliders into the page and calls the widget manager at once; here both stay files beside it (``book/assets/lazy.js`` fetches them when a
reader comes near), and until then a still picture of the slider's start stands in their place, which print and readers without scripts see.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

from ..files import write_whole
from ..inputs import executed_path
from ..numbers import duration, number
from ..project import FIGURE, MODEL, MODEL_FIGURE, SLIDERS, STATE, VIEW, cell_outputs

#: Folder of the files beside the pages, from the top of the book.
FILES = "_figures"
_IMAGE = re.compile(r'<img alt="([^"]*)" width="(\d+)" height="(\d+)"[^>]*base64,([^"]+)">')
_VIEW = re.compile(rf'<script type="{re.escape(VIEW)}">.*?"model_id": "(\w+)".*?</script>', re.DOTALL)


def setup(app: Sphinx) -> None:
    """Register with Sphinx."""
    app.add_post_transform(NumberedFigures)
    app.add_node(nodes.image, override=True, html=(visit_image, HTML5Translator.depart_image))
    app.connect("html-page-context", move_widgets, priority=900)


def without(notebook: Any) -> Any:
    """An executed copy as MyST-NB may read it: it warns of outputs that it does not know. Changed in place."""
    for output in cell_outputs(notebook):
        output.get("data", {}).pop(FIGURE, None)
    return notebook


def kept(notebook: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What an executed copy stores of each figure, by a picture's sha256 (MyST-NB's name of its file), a slider's widget or a model's name."""
    found = {}
    for output in cell_outputs(notebook):
        data, about = output.get("data", {}), output.get("metadata", {})
        if FIGURE in data and "image/png" in data:
            found[hashlib.sha256(base64.b64decode("".join(data["image/png"]))).hexdigest()] = data[FIGURE]
        if SLIDERS in about:
            found[data[VIEW]["model_id"]] = about[SLIDERS]
        if MODEL in about:
            found[about[MODEL]["name"]] = about[MODEL]
    return found


class NumberedFigures(SphinxPostTransform):
    """Turn every picture, slider and model of a code cell's output into a figure with a number and, where there is one, a caption."""

    default_priority = 20  # after MyST-NB has chosen among the forms of an output

    def run(self, **kwargs: object) -> None:
        """Change the page in place."""
        self._page, notebook = self._executed()
        self._kept, self._frames = kept(notebook), frames(notebook)
        for place, shown in enumerate(list(self.document.findall(self._is_shown)), start=1):
            if _is_model(shown):
                self._number_model(shown, place)
            else:
                self._wrap(shown, place)

    def _executed(self) -> tuple[str, Mapping[str, Any]]:
        """The page's name and its executed copy; no cells where it is no chapter."""
        env = getattr(self.document.settings, "env", None)
        page = env.docname if env is not None else ""
        folder, _, name = page.rpartition("/")
        if folder == "notebooks" and getattr(self.app.builder, "format", "") == "html":
            path = executed_path(name, self.app.config.iclbook_profile, Path(self.app.srcdir))
            if path.is_file():
                return page, json.loads(path.read_text(encoding="utf-8"))
        return page, {"cells": [], "metadata": {}}

    def _is_shown(self, node: nodes.Node) -> bool:
        """Whether a node of the page is a figure: a picture of a cell, a slider that was kept, or a model in the page."""
        if isinstance(node, nodes.raw) and not _is_model(node):
            return _widget(node) in self._kept
        return isinstance(node, nodes.image | nodes.raw) and _cell(node) is not None

    def _wrap(self, shown: nodes.Node, number: int) -> None:
        """Put a picture or a slider into a figure with its number, its caption, and what folds out below."""
        slider = isinstance(shown, nodes.raw)
        figure = nodes.figure(
            ids=[f"figure-{number}"], classes=["iclbook-slider-figure" if slider else "iclbook-figure"]
        )
        shown.replace_self(figure)
        if slider:
            about = self._kept[_widget(shown)]
            words = about.get("description") or about.get("title")
            caption = [nodes.Text(words)] if words else []
            # in one element, as a caption must be a figure's second child
            figure += nodes.container("", shown, *self._still(shown, about))
        else:
            shown["loading"] = "lazy"
            about = self._kept.get(Path(shown["uri"]).stem)
            caption = _take_caption(_cell(figure))
            figure += shown
        figure += nodes.caption("", "", nodes.inline("", f"Figure {number}. ", classes=["caption-number"]), *caption)
        if about is None:
            return
        files = self._write_files(about, number)
        if files.get("csv") or about.get("origin") or not slider:
            figure += nodes.legend("", nodes.raw("", folded(about, files), format="html"))
        if not slider:
            shown["iclbook"] = {**about, **files}
            if "narrow" not in files:
                figure["classes"].append("iclbook-wide")

    def _number_model(self, model: nodes.raw, number: int) -> None:
        """Give the figure of a model its name for links, its caption the number, and below it the trainings that the model computes with."""
        text = model.astext().replace(
            MODEL_FIGURE, f'<figure id="figure-{number}"{MODEL_FIGURE.removeprefix("<figure")}', 1
        )
        head, caption, rest = text.rpartition("<figcaption>")
        text = f'{head}{caption}<span class="caption-number">Figure {number}. </span>{rest}'
        name = re.search(r'data-model="(\w+)"', text)
        about = self._kept.get(name[1], {}) if name else {}
        if about.get("origin"):
            text = text.removesuffix("</figure>") + folded(about, {}) + "</figure>"
        model.replace_self(nodes.raw("", text, format="html"))

    def _still(self, slider: nodes.raw, about: Mapping[str, Any]) -> list[nodes.raw]:
        """The picture that stands until a slider is loaded: the frame at which it starts, with words for print that say where that is."""
        start = about.get("start", [])
        sha = about.get("frames", {}).get(",".join(map(str, start)))
        if sha not in self._frames:
            return []
        png, alt, width, height = self._frames[sha]
        words = [
            f"{knob['label']}: {knob['labels'][index]}" for knob, index in zip(about["sliders"], start, strict=True)
        ]
        address = self._write(f"-{_widget(slider)[:12]}.png", png)
        still = (
            f'<img class="iclbook-slider-still" alt="{html.escape(alt)}" src="{address}" width="{width}" height="{height}" '
            f'loading="lazy" decoding="async" data-title="{html.escape(about["title"] or "")}" data-start="{html.escape("; ".join(words))}">'
        )
        return [nodes.raw("", still, format="html")]

    def _write_files(self, about: Mapping[str, Any], number: int) -> dict[str, str]:
        """Put a figure's numbers and its picture for phones beside the pages; what was written (``csv``, ``narrow``) -> its address from the page."""
        files = {}
        if about.get("csv"):
            files["csv"] = self._write(f"-figure-{number}.csv", about["csv"].encode())
        if "narrow" in about:
            files["narrow"] = self._write(f"-figure-{number}-narrow.png", base64.b64decode(about["narrow"]))
        return files

    def _write(self, end: str, content: bytes) -> str:
        return write_beside(Path(self.app.outdir), self._page, self._page.rpartition("/")[2] + end, content)


def write_beside(pages: Path, page: str, name: str, content: bytes) -> str:
    """Put a file beside the pages; its address from a page."""
    path = pages / FILES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return f"{'../' * page.count('/')}{FILES}/{name}"


def frames(notebook: Mapping[str, Any]) -> dict[str, tuple[bytes, str, int, int]]:
    """Of an executed copy: sha256 of each frame of its sliders -> PNG, alt text, width and height."""
    widgets = notebook["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
    found = {}
    for widget in widgets.values():
        if match := _IMAGE.search(str(widget.get("state", {}).get("value", ""))):
            png = base64.b64decode(match[4])
            found[hashlib.sha256(png).hexdigest()] = (png, html.unescape(match[1]), int(match[2]), int(match[3]))
    return found


def move_widgets(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """On ``html-page-context``, after MyST-NB: the widgets of a page become a file that ``lazy.js`` loads, a script, since a page opened from the disk may load scripts only."""
    scripts = getattr(app.builder, "_js_files", [])
    state = next((s for s in scripts if s.attributes.get("type") == STATE), None)
    manager = next((s for s in scripts if s.filename and str(s.filename).endswith("embed.js")), None)
    if state is None or manager is None:
        return
    scripts.remove(state)
    scripts.remove(manager)
    name = f"{FILES}/{page.rpartition('/')[2]}-sliders.js"
    body = state.attributes["body"]
    write_whole(
        Path(app.outdir) / name,
        'document.head.append(Object.assign(document.createElement("script"), '
        f'{{ type: "{STATE}", textContent: JSON.stringify({body}) }}));\n',
    )
    # addresses from the folder in which lazy.js lies
    here = {"data-state": f"../{name}", "data-manager": os.path.relpath(str(manager.filename), "_static")}
    app.add_js_file("lazy.js", priority=manager.priority, **here)


def visit_image(self: HTML5Translator, node: nodes.image) -> None:
    """Write an image as Sphinx does; for a figure, keep its space while it loads and offer phones a picture of their own."""
    HTML5Translator.visit_image(self, node)
    about = node.get("iclbook")
    if about is None:
        return
    element = re.sub(r' style="[^"]*"', "", self.body.pop(), count=1)
    size = "".join(f' {side}="{re.sub("[^0-9]", "", str(node[side]))}"' for side in ("width", "height") if side in node)
    element = element.replace("<img ", f'<img decoding="async"{size} ', 1)
    if "narrow" in about:
        width, height = about["size"]
        source = f'<source media="(max-width: 40rem)" srcset="{about["narrow"]}" width="{width}" height="{height}">'
        element = f"<picture>{source}{element.rstrip()}</picture>"
    self.body.append(element)


def _is_model(node: nodes.Node) -> bool:
    return isinstance(node, nodes.raw) and node.astext().startswith(MODEL_FIGURE)


def _widget(node: nodes.raw) -> str:
    """The model id of the widget that a piece of a page's HTML shows; empty if it shows none."""
    match = _VIEW.search(node.astext())
    return match[1] if match else ""


def _cell(node: nodes.Node) -> nodes.container | None:
    """The code cell in whose output a node stands."""
    while node is not None and not (isinstance(node, nodes.container) and "cell" in node["classes"]):
        node = node.parent
    return node


def _take_caption(cell: nodes.container) -> Sequence[nodes.Node]:
    """The italic beginning of the text after a cell, cut from there; cells without a picture may stand between."""
    place = cell.parent.index(cell) + 1
    for node in cell.parent.children[place:]:
        if not (isinstance(node, nodes.container) and "cell" in node["classes"]):
            return _cut(node) if isinstance(node, nodes.paragraph) else ()
        if next(node.findall(nodes.image), None) is not None:
            break
    return ()


def _cut(paragraph: nodes.paragraph) -> Sequence[nodes.Node]:
    first = next(iter(paragraph.children), None)
    if not isinstance(first, nodes.emphasis):
        return ()
    paragraph.remove(first)
    if paragraph.children and isinstance(paragraph[0], nodes.Text):
        paragraph[0] = nodes.Text(paragraph[0].lstrip())
    if not paragraph.astext().strip() and not any(True for _ in paragraph.findall(nodes.Element, include_self=False)):
        paragraph.parent.remove(paragraph)
    return first.children


# -- what folds out below a figure ----------------------------------------------------------------------------------------


def folded(about: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """The folded line below a caption: the figure's numbers, and the stored runs that it draws."""
    parts = ""
    if "csv" in files:
        name, size = Path(files["csv"]).name, max(1, round(len(about["csv"]) / 1000))
        words = html.escape(about.get("numbers", "Numbers of this figure"))
        parts = f'<p><a href="{files["csv"]}" download="{name}">{words}</a> (CSV, {size} kB)</p>'
    if origin := about.get("origin"):
        versions = ", ".join(f"{html.escape(k)} {html.escape(v)}" for k, v in origin["versions"].items())
        rows = "".join(f"<li>{_study(study)}</li>" for study in origin["studies"])
        parts += f"<p>From these stored runs:</p><ul>{rows}</ul><p>Drawn with {versions}.</p>"
    return f'<details class="iclbook-origin"><summary>Data and origin</summary>{parts}</details>'


def _study(study: Mapping[str, Any]) -> str:
    """One line on a training."""
    said = {key: html.escape(text) for key, text in study.items() if isinstance(text, str)}
    seeds = said["seeds"].replace("-", "\u2013")
    several = "s" if "\u2013" in seeds or "," in seeds else ""
    runs = f"{number(study['runs'])} run{'s' if study['runs'] != 1 else ''}"
    parts = [runs + (f" (seed{several} {seeds})" if seeds else "")]
    if study.get("steps"):
        parts.append(f"{number(study['steps'])} steps")
    parts.append(duration(study["seconds"]) + (f" on {said['device']}" if said.get("device") else ""))
    parts += [said["date"]] if said.get("date") else []
    parts += [f"{name} {said[key]}" for key, name in _VERSIONS.items() if key in said]
    name = f"<code>{said['paper']}/{said['study']}</code>"
    return f"{name}: {', '.join(parts)}; digest of the code <code>{said['source']}</code>"


_VERSIONS = {"torch": "torch", "numpy": "numpy", "python": "Python"}
