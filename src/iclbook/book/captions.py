"""Figures of the pages: a picture that a cell drew, a slider figure or a model in the page, numbered, with its caption right below, and folded below that its numbers and their origin.

In a notebook the caption is the italic text with which the next text cell begins, so that a reader of the notebook sees it too. In the page it moves from below
the verdicts, which may stand between, into the figure. A slider's caption is its description; a model is a figure with a caption already, and gets the number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

from ..inputs import executed_path
from ..project import MODEL_FIGURE
from . import about_figures, lazy


class NumberedFigures(SphinxPostTransform):
    """Turn every picture, slider and model of a code cell's output into a figure with a number and, where there is one, a caption."""

    default_priority = 20  # after MyST-NB has chosen among the forms of an output

    def run(self, **kwargs: object) -> None:
        """Change the page in place."""
        page, notebook = self._executed()
        self._pictures = about_figures.of_pictures(notebook)
        self._sliders = about_figures.of_sliders(notebook)
        self._models = about_figures.of_models(notebook)
        for number, shown in enumerate(list(self.document.findall(self._is_shown)), start=1):
            if _is_model(shown):
                _number_model(shown, number, self._models)
                continue
            slider = isinstance(shown, nodes.raw)
            figure = nodes.figure(
                ids=[f"figure-{number}"], classes=["iclbook-slider-figure" if slider else "iclbook-figure"]
            )
            shown.replace_self(figure)
            # a caption must be a figure's second child, and a slider gets a still picture beside it
            figure += nodes.container("", shown) if slider else shown
            (self._add_slider if slider else self._add_picture)(page, figure, shown, number)
        self._add_stills(page, notebook)

    def _is_shown(self, node: nodes.Node) -> bool:
        """Whether a node of the page is a figure: a picture of a cell, a slider that was kept, or a model in the page."""
        if isinstance(node, nodes.raw) and not _is_model(node):
            return lazy.model_id(node.astext()) in self._sliders
        return isinstance(node, nodes.image | nodes.raw) and _cell(node) is not None

    def _add_picture(self, page: str, figure: nodes.figure, picture: nodes.image, number: int) -> None:
        picture["loading"] = "lazy"
        caption = _take_caption(_cell(figure))
        _add_caption(figure, number, caption.children if caption is not None else ())
        about = self._pictures.get(Path(picture["uri"]).stem)
        if about is not None:
            files = self._add_files(page, figure, about, number)
            picture["iclbook"] = {**about, **files}
            if "narrow" not in files:
                figure["classes"].append("iclbook-wide")

    def _add_slider(self, page: str, figure: nodes.figure, slider: nodes.raw, number: int) -> None:
        about = self._sliders[lazy.model_id(slider.astext())]
        words = about.get("description") or about.get("title") or ""
        _add_caption(figure, number, [nodes.Text(words)] if words else ())
        if about.get("csv") or about.get("origin"):
            self._add_files(page, figure, {"csv": "", "origin": None, **about}, number)

    def _add_files(self, page: str, figure: nodes.figure, about: Mapping[str, Any], number: int) -> dict[str, str]:
        """What folds out below a caption; the addresses of its files."""
        files = about_figures.write(about, Path(self.app.outdir), page, number)
        figure += nodes.legend("", nodes.raw("", about_figures.folded(about, files), format="html"))
        return files

    def _executed(self) -> tuple[str, Mapping[str, Any]]:
        """The page's name and its executed copy; no cells where it is no chapter."""
        env = getattr(self.document.settings, "env", None)
        page = env.docname if env is not None else ""
        folder, _, name = page.rpartition("/")
        nothing: Mapping[str, Any] = {"cells": [], "metadata": {}}
        if folder != "notebooks" or getattr(self.app.builder, "format", "") != "html":
            return page, nothing
        path = executed_path(name, self.app.config.iclbook_profile, Path(self.app.srcdir))
        return page, json.loads(path.read_text(encoding="utf-8")) if path.is_file() else nothing

    def _add_stills(self, page: str, notebook: Mapping[str, Any]) -> None:
        """After every slider the picture that stands until it is loaded."""
        for model, (png, alt, width, height) in lazy.stills(notebook).items():
            for node in [n for n in self.document.findall(nodes.raw) if lazy.model_id(n.astext()) == model]:
                name = f"{lazy.FILES}/{page.rpartition('/')[2]}-{model[:12]}.png"
                about_figures.write_bytes(Path(self.app.outdir) / name, png)
                still = lazy.still_html(lazy.up(page) + name, alt, width, height)
                node.parent.insert(node.parent.index(node) + 1, nodes.raw("", still, format="html"))


def _is_model(node: nodes.Node) -> bool:
    return isinstance(node, nodes.raw) and node.astext().startswith(MODEL_FIGURE)


def _number_model(model: nodes.raw, number: int, known: Mapping[str, Mapping[str, Any]]) -> None:
    """Give the figure of a model its name for links, its caption the number, and below it the trainings that the model computes with."""
    text = model.astext().replace(
        MODEL_FIGURE, f'<figure id="figure-{number}"{MODEL_FIGURE.removeprefix("<figure")}', 1
    )
    head, caption, rest = text.rpartition("<figcaption>")
    text = f'{head}{caption}<span class="caption-number">Figure {number}. </span>{rest}'
    name = re.search(r'data-model="(\w+)"', text)
    about = known.get(name[1], {}) if name else {}
    if about.get("origin"):
        text = text.removesuffix("</figure>") + about_figures.folded(about, {}) + "</figure>"
    model.replace_self(nodes.raw("", text, format="html"))


def _add_caption(figure: nodes.figure, number: int, words: Sequence[nodes.Node]) -> None:
    figure += nodes.caption("", "", nodes.inline("", f"Figure {number}. ", classes=["caption-number"]), *words)


def visit_image(self: HTML5Translator, node: nodes.image) -> None:
    """An image as Sphinx writes it; a figure's keeps its place while it loads, and a phone gets a picture of its own."""
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


def depart_image(self: HTML5Translator, node: nodes.image) -> None:
    """Nothing is left to close."""
    HTML5Translator.depart_image(self, node)


def setup(app: Sphinx) -> None:
    """Register with Sphinx."""
    app.add_post_transform(NumberedFigures)
    app.add_node(nodes.image, override=True, html=(visit_image, depart_image))
    app.connect("html-page-context", lazy.move_widgets, priority=900)


def _cell(node: nodes.Node) -> nodes.container | None:
    """The code cell in whose output a node stands."""
    while node is not None and not (isinstance(node, nodes.container) and "cell" in node["classes"]):
        node = node.parent
    return node


def _take_caption(cell: nodes.container) -> nodes.emphasis | None:
    """The italic beginning of the text after a cell, cut from there; cells without a picture may stand between."""
    place = cell.parent.index(cell) + 1
    for node in cell.parent.children[place:]:
        if isinstance(node, nodes.container) and "cell" in node["classes"]:
            if any(True for _ in node.findall(nodes.image)):
                return None
            continue
        return _cut(node) if isinstance(node, nodes.paragraph) else None
    return None


def _cut(paragraph: nodes.paragraph) -> nodes.emphasis | None:
    first = next(iter(paragraph.children), None)
    if not isinstance(first, nodes.emphasis):
        return None
    paragraph.remove(first)
    if paragraph.children and isinstance(paragraph[0], nodes.Text):
        paragraph[0] = nodes.Text(paragraph[0].lstrip())
    if not paragraph.astext().strip() and not any(True for _ in paragraph.findall(nodes.Element, include_self=False)):
        paragraph.parent.remove(paragraph)
    return first
