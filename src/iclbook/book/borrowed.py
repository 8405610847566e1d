"""Models of a chapter, and pictures drawn from the numbers of its figures, on other pages: ``<!-- model NAME of CHAPTER -->`` becomes the figure that the
executed chapter shows, ``<!-- card NAME -->`` a picture that ``book/cards.py`` draws."""

import csv
import html
import io
import json
import re
import runpy
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from ..drawing import style
from ..errors import UserError
from ..inputs import executed_path
from ..sliders.panel import draw as drawn_frame
from .figures import kept, themed, write_beside

MARKER = re.compile(r"^<!-- (?:model (?P<model>\w+) of (?P<chapter>\w+)|card (?P<card>\w+)) -->$", re.MULTILINE)


def filled(text: str, page: str, profile: str, root: Path, pages: Path) -> str:
    """The Markdown of a page with every marker replaced; pictures are put beside ``pages``. A chapter that was never run, or shows no such model or figure,
    or several, is a UserError."""
    return MARKER.sub(partial(_borrowed, page=page, profile=profile, root=root, pages=pages), text)


def _borrowed(match: re.Match, page: str, profile: str, root: Path, pages: Path) -> str:
    if match["card"]:
        content = _card(match["card"], page, profile, root, pages)
    else:
        content = _shown(match["chapter"], match["model"], "html", profile, root)["html"]
    return f"```{{raw}} html\n{content}\n```"


def _shown(chapter: str, words: str, form: str, profile: str, root: Path) -> Mapping[str, Any]:
    """What an executed chapter keeps of the model of this name, or of the figure whose description holds these words."""
    path = executed_path(chapter, profile, root)
    notebook = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"cells": []}
    found = {about.get("alt", about.get("name")): about for about in kept(notebook).values() if form in about}
    shown = [key for key in found if key and (key == words if form == "html" else words in key)]
    if len(shown) != 1:
        kind = "model" if form == "html" else "figure"
        raise UserError(
            f"the executed chapter {chapter} shows {len(shown) or 'no'} {kind}s {words!r}",
            f"Run `iclbook run {chapter}`, or choose one of: {', '.join(filter(None, sorted(found, key=str))) or '(none)'}.",
        )
    return found[shown[0]]


def _card(name: str, page: str, profile: str, root: Path, pages: Path) -> str:
    """A picture of ``book/cards.py``, drawn for both themes from the numbers of figures."""
    draw = runpy.run_path(str(root / "book" / "cards.py"))[name]

    def numbers(chapter: str, words: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(_shown(chapter, words, "csv", profile, root)["csv"])))

    with plt.rc_context(style.RC):
        frame = drawn_frame(draw, {"numbers": numbers})
    others = {
        k: write_beside(pages, page, f"card-{name}-{k}.png", frame.others[k]) for k in frame.others if k == "dark"
    }
    address = write_beside(pages, page, f"card-{name}.png", frame.png)
    look = f'class="iclbook-picture dark-light" alt="{html.escape(draw.__doc__)}" width="{frame.width}" height="{frame.height}"'
    return themed(f'<img {look} src="{address}" loading="lazy">', others)
