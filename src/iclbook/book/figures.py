"""Figures of the pages: pictures that cells drew, slider figures and models, each with a number and a caption right below it, and with its data and their origin folded below that.

In a notebook the caption is the italic text with which the next text cell begins, so that a reader of the notebook sees it too. In the page it moves from below
the verdicts, which may stand between, into the figure. A slider's caption is its description; a model is a figure with a caption already, and gets the number.
What folds out was kept while the notebook ran (``drawing/figure_output.py``).

MyST-NB writes the frames of sliders into the page and calls the widget manager at once; here both stay files beside it (``book/assets/lazy.js`` fetches them when a
reader comes near), and until then a still picture of the slider's start stands in their place, which print and readers without scripts see.
"""

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
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from ..files import write_whole
from ..inputs import executed_path
from ..numbers import duration, number
from ..project import FIGURE, MODEL, MODEL_FIGURE, SLIDERS, STATE, VIEW

logger = logging.getLogger(__name__)

#: Folder of the files beside the pages, from the top of the book.
FILES = "_figures"
_IMAGE = re.compile(r'<img alt="([^"]*)" width="(\d+)" height="(\d+)"[^>]*base64,([^"]+)">')
#: By what name the HTML of a page shows a slider's widget or a model.
_NAME = re.compile(rf'<script type="{re.escape(VIEW)}">.*?"model_id": "(\w+)"|data-model=["\'](\w+)', re.DOTALL)


def kept(notebook: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Figures that an executed copy stores, by a picture's sha256 (MyST-NB's name of its file), a slider's widget or a model's name."""
    found = {}
    for cell in notebook["cells"]:
        alt = cell.get("metadata", {}).get("mystnb", {}).get("image", {}).get("alt", "")
        for output in cell.get("outputs", []):
            data, about = output.get("data", {}), output.get("metadata", {})
            if FIGURE in data:
                name = hashlib.sha256(base64.b64decode("".join(data["image/png"]))).hexdigest()
                found[name] = data[FIGURE] | {"alt": alt, "png": "".join(data["image/png"])}
            if SLIDERS in about:
                found[data[VIEW]["model_id"]] = about[SLIDERS]
            if MODEL in about:
                found[about[MODEL]["name"]] = about[MODEL] | {
                    "html": with_dark_still("".join(data["text/html"]), about[MODEL])
                }
    return found


def with_dark_still(text: str, about: Mapping[str, Any]) -> str:
    """A model's HTML with its still picture for the dark page beside that for the light one."""
    still = re.search(r"<img [^>]*>", text)
    if "dark" not in about or still is None:
        return text
    light = still[0].replace("<img ", '<img class="iclbook-light dark-light" ', 1)
    dark = re.sub(r' src="[^"]*"', f' src="data:image/png;base64,{about["dark"]}"', light).replace(
        "-light dark", "-dark dark", 1
    )
    return text.replace(still[0], light + dark, 1)


class NumberedFigures(SphinxPostTransform):
    """Turn every picture, slider and model of a chapter's cells into a figure with a number and, where there is one, a caption."""

    default_priority = 20  # after MyST-NB has chosen among the forms of an output
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Change the page in place."""
        folder, _, name = self.env.docname.rpartition("/")
        path = executed_path(name, self.config.iclbook_profile, Path(self.app.srcdir))
        if folder == "notebooks" and path.is_file():
            notebook = json.loads(path.read_text(encoding="utf-8"))
            self.number(kept(notebook), frames(notebook), self.env.docname, Path(self.app.outdir))

    def number(self, kept: Mapping, frames: Mapping, page: str, pages: Path) -> None:
        """Number the figures of an executed copy, whose files are put beside the ``pages``; warn of those that the page lacks."""
        self._kept, self._frames, self._page, self._pages = kept, frames, page, pages
        shown = [node for node in self.document.findall(nodes.Element) if _name(node) in self._kept]
        for place, node in enumerate(shown, start=1):
            if isinstance(node, nodes.image):
                self._wrap_picture(node, place)
            elif node.astext().startswith(MODEL_FIGURE):
                self._number_model(node, place)
            else:
                self._wrap_slider(node, place)
        there = {_name(node) for node in shown}
        for name, about in self._kept.items():
            if name not in there:
                words = about.get("name") or about.get("title") or about.get("alt") or name
                logger.warning("the page lacks a figure of its chapter: %s", words, location=page)

    def _wrap_picture(self, picture: nodes.image, number: int) -> None:
        """Put a picture into a figure with its number, its caption, and what folds out below."""
        about = self._kept[_name(picture)]
        figure = _figure(number, "iclbook-figure")
        picture.replace_self(figure)
        picture["loading"] = "lazy"
        figure += [picture, _caption(number, _take_caption(_cell(figure))), self._folded(about, number)]
        picture["iclbook"] = others(about, self._pages, self._page, f"-figure-{number}")
        if "narrow" not in about:
            figure["classes"].append("iclbook-wide")

    def _wrap_slider(self, slider: nodes.raw, number: int) -> None:
        """Wrap a slider: its first frame stands until the slider is loaded."""
        about = self._kept[_name(slider)]
        figure = _figure(number, "iclbook-slider-figure")
        slider.replace_self(figure)
        start = about["frames"][",".join(map(str, about["start"]))]
        picture = frame_html(start, self._frames[start], about.get("pictures", {}), self._pages, self._page)
        still = f'<div class="iclbook-slider-still">{picture}</div>'
        # in one element, as a caption must be a figure's second child
        figure += nodes.container("", slider, nodes.raw("", still, format="html"))
        figure += [_caption(number, [nodes.Text(about["description"])]), self._folded(about, number)]

    def _number_model(self, model: nodes.raw, number: int) -> None:
        """Give the figure of a model its name for links, its caption the number, and below it the trainings that the model computes with."""
        about = self._kept[_name(model)]
        text = with_dark_still(model.astext(), about)
        text = text.replace("<figure", f'<figure id="figure-{number}"', 1)
        head, caption, rest = text.rpartition("<figcaption>")
        text = f'{head}{caption}<span class="caption-number">Figure {number}. </span>{rest}'
        if about["origin"]:
            text = text.removesuffix("</figure>") + folded(about, "") + "</figure>"
        model.replace_self(nodes.raw("", text, format="html"))

    def _folded(self, about: Mapping[str, Any], number: int) -> nodes.legend:
        """A figure's numbers, which are put beside the pages, and their origin."""
        address = self._write(f"-figure-{number}.csv", about["csv"].encode())
        return nodes.legend("", nodes.raw("", folded(about, address), format="html"))

    def _write(self, end: str, content: bytes) -> str:
        return write_beside(self._pages, self._page, self._page.rpartition("/")[2] + end, content)


def write_beside(pages: Path, page: str, name: str, content: bytes) -> str:
    """Put a file beside the pages; its address from a page."""
    path = pages / FILES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return f"{'../' * page.count('/')}{FILES}/{name}"


def others(about: Mapping[str, Any], pages: Path, page: str, end: str) -> dict[str, Any]:
    """Addresses of the pictures for phones and the dark page that a figure has, which are put beside the pages, and the ``size`` of the narrow ones."""
    name = page.rpartition("/")[2] + end
    kinds = [kind for kind in ("dark", "narrow", "narrow dark") if kind in about]
    found = {
        k: write_beside(pages, page, f"{name}-{k.replace(' ', '-')}.png", base64.b64decode(about[k])) for k in kinds
    }
    return found | ({"size": about["size"]} if "size" in about else {})


def themed(image: str, about: Mapping[str, Any]) -> str:
    """An image element for the light page and, where there is a dark picture, one for the dark page; on a phone each shows its narrow picture."""
    found = ""
    for theme, kind, address in (("light", "narrow", None), ("dark", "narrow dark", about.get("dark"))):
        if theme == "dark" and address is None:
            break
        element = image if address is None else re.sub(r' src="[^"]*"', f' src="{address}"', image, count=1)
        source = ""
        if kind in about:
            width, height = about["size"]
            source = f'<source media="(max-width: 40rem)" srcset="{about[kind]}" width="{width}" height="{height}">'
        both = f"iclbook-{theme}" if "dark" in about else "iclbook-both"
        found += f'<picture class="{both}">{source}{element}</picture>'
    return found


def frame_html(
    name: str, frame: tuple[bytes, str, int, int], pictures: Mapping[str, Mapping[str, Any]], pages: Path, page: str
) -> str:
    """The picture elements of a slider's frame, whose files are put beside the pages."""
    png, alt, width, height = frame
    end = f"-frame-{name[:16]}"
    address = write_beside(pages, page, f"{page.rpartition('/')[2]}{end}.png", png)
    image = (
        f'<img class="dark-light" alt="{html.escape(alt)}" src="{address}" width="{width}" height="{height}" '
        f'loading="lazy" decoding="async">'
    )
    return themed(image, others(pictures.get(name, {}), pages, page, end))


def frames(notebook: Mapping[str, Any]) -> dict[str, tuple[bytes, str, int, int]]:
    """Slider frames of an executed copy, sha256 -> PNG, alt text, width and height."""
    widgets = notebook["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
    found = {}
    for widget in widgets.values():
        if match := _IMAGE.search(str(widget.get("state", {}).get("value", ""))):
            frame = _frame(match)
            found[hashlib.sha256(frame[0]).hexdigest()] = frame
    return found


def _frame(match: re.Match) -> tuple[bytes, str, int, int]:
    return base64.b64decode(match[4]), html.unescape(match[1]), int(match[2]), int(match[3])


def move_widgets(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """On ``html-page-context``, after MyST-NB: the widgets of a page become a file that ``lazy.js`` loads, a script, since a page opened from the disk may load scripts only.
    Their frames become files, of which a reader loads those of the page's theme and width.
    """
    scripts = getattr(app.builder, "_js_files", [])
    state = next((s for s in scripts if s.attributes.get("type") == STATE), None)
    manager = next((s for s in scripts if s.filename and str(s.filename).endswith("embed.js")), None)
    if state is None or manager is None:
        return
    scripts.remove(state)
    scripts.remove(manager)
    name = f"{FILES}/{page.rpartition('/')[2]}-sliders.js"
    body = json.loads(state.attributes["body"])
    path = executed_path(page.rpartition("/")[2], app.config.iclbook_profile, Path(app.srcdir))
    about = kept(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
    pictures = {name: of for each in about.values() for name, of in each.get("pictures", {}).items()}
    for widget in body["state"].values():
        if match := _IMAGE.search(str(widget.get("state", {}).get("value", ""))):
            frame = _frame(match)
            widget["state"]["value"] = frame_html(
                hashlib.sha256(frame[0]).hexdigest(), frame, pictures, Path(app.outdir), page
            )
    write_whole(
        Path(app.outdir) / name,
        'document.head.append(Object.assign(document.createElement("script"), '
        f'{{ type: "{STATE}", textContent: JSON.stringify({json.dumps(body)}) }}));\n',
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
    element = element.replace("<img ", f'<img class="dark-light" decoding="async"{size} ', 1)
    self.body.append(themed(element.rstrip(), about))


def _name(node: nodes.Element) -> str:
    """The name under which :func:`kept` has what a node shows; empty if that is nothing of a notebook's."""
    if isinstance(node, nodes.image):
        return Path(node["uri"]).stem
    match = _NAME.search(node.astext()) if isinstance(node, nodes.raw) else None
    return match[1] or match[2] if match else ""


def _figure(number: int, style: str) -> nodes.figure:
    return nodes.figure(ids=[f"figure-{number}"], classes=[style])


def _caption(number: int, words: Sequence[nodes.Node]) -> nodes.caption:
    return nodes.caption("", "", nodes.inline("", f"Figure {number}. ", classes=["caption-number"]), *words)


def _cell(node: nodes.Node) -> nodes.container | None:
    """The code cell in whose output a node stands."""
    while node is not None and not (isinstance(node, nodes.container) and "cell" in node["classes"]):
        node = node.parent
    return node


def _take_caption(cell: nodes.container) -> Sequence[nodes.Node]:
    """The italic beginning of the text after a cell, cut from there; cells without a picture may stand between."""
    for node in cell.parent.children[cell.parent.index(cell) + 1 :]:
        if isinstance(node, nodes.paragraph) and isinstance(node.children[0], nodes.emphasis):
            caption = node.pop(0)
            if node.children and isinstance(node[0], nodes.Text):
                node[0] = nodes.Text(node[0].lstrip())
            if not node.astext().strip():
                node.parent.remove(node)
            return caption.children
        if _cell(node) is None or next(node.findall(nodes.image), None):
            break
    return ()


# -- what folds out below a figure ----------------------------------------------------------------------------------------


def folded(about: Mapping[str, Any], address: str) -> str:
    """The folded line below a caption: the address of the figure's numbers, if it has any, and the stored runs that it draws."""
    parts = ""
    if address:
        words = html.escape(about.get("numbers", "Numbers of this figure"))
        size = max(1, round(len(about["csv"]) / 1000))
        parts = f'<p><a href="{address}" download="{Path(address).name}">{words}</a> (CSV, {size} kB)</p>'
    if origin := about["origin"]:
        versions = ", ".join(f"{html.escape(k)} {html.escape(v)}" for k, v in origin["versions"].items())
        rows = "".join(f"<li>{_study(study)}</li>" for study in origin["studies"])
        parts += f"<p>From these stored runs:</p><ul>{rows}</ul><p>Drawn with {versions}.</p>"
    return f'<details class="iclbook-origin"><summary>Data and origin</summary>{parts}</details>'


def _study(study: Mapping[str, Any]) -> str:
    """One line on a training."""
    said = {key: html.escape(text) for key, text in study.items() if isinstance(text, str)}
    seeds = said["seeds"].replace("-", "\u2013")
    several = "s" if "\u2013" in seeds or "," in seeds else ""
    parts = [f"{number(study['runs'])} run{'s' if study['runs'] != 1 else ''} (seed{several} {seeds})"]
    parts += [f"{number(study['steps'])} steps"] if study["steps"] else []
    parts.append(f"{duration(study['seconds'])} ({said['clock']}) on {said['device']}")
    parts.append(said["date"])
    parts += [f"torch {said['torch']}", f"numpy {said['numpy']}", f"Python {said['python']}"]
    name = f"<code>{said['paper']}/{said['study']}</code>"
    return f"{name}: {', '.join(parts)}; digest of the code <code>{said['source']}</code>"
