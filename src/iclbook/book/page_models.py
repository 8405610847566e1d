"""A chapter's models and pictures on another page.

``<!-- model NAME of CHAPTER -->`` in its text becomes the figure that the executed chapter shows, ``<!-- picture WORDS of CHAPTER -->`` the picture (the
one for phones) whose description begins with these words.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

from ..errors import UserError
from ..project import FIGURE, MODEL

MARKER = re.compile(r"^<!-- (model|picture) (.+) of (\w+) -->$", re.MULTILINE)


def in_copy(path: Path) -> dict[str, str]:
    """The models of an executed chapter: name -> HTML."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return {
        output["metadata"][MODEL]["name"]: "".join(output["data"]["text/html"])
        for output in outputs
        if MODEL in output.get("metadata", {})
    }


def pictures_in_copy(path: Path) -> dict[str, bytes]:
    """The pictures of an executed chapter: description -> PNG, the one for phones where there is one."""
    found = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt")
        for data in (output.get("data", {}) for output in cell.get("outputs", [])):
            if alt and "image/png" in data:
                found[alt] = base64.b64decode(data.get(FIGURE, {}).get("narrow") or "".join(data["image/png"]))
    return found


def embed(text: str, copy_of: Callable[[str], Path], keep: Callable[[str, bytes], str]) -> str:
    """The Markdown of a page with every marker replaced.

    Args:
        text: of the page.
        copy_of: executed copy of a chapter.
        keep: puts a picture, by its name, beside the pages; its address from this page.

    Raises:
        UserError: the chapter was never run, or shows no such model or picture, or several.
    """

    def figure(match: re.Match) -> str:
        kind, name, chapter = match.groups()
        path = copy_of(chapter)
        read = in_copy if kind == "model" else pictures_in_copy
        found = read(path) if path.is_file() else {}
        shown = [key for key in found if key == name or (kind == "picture" and key.startswith(name))]
        if len(shown) != 1:
            raise UserError(
                f"the executed chapter {chapter} shows {len(shown) or 'no'} {kind}s {name!r}",
                f"Run `iclbook run {chapter}`, or choose one of: {', '.join(sorted(found)) or '(none)'}.",
            )
        (key,) = shown
        if kind == "model":
            return f"```{{raw}} html\n{found[key]}\n```"
        address = keep(f"{chapter}-{hashlib.sha256(found[key]).hexdigest()[:12]}.png", found[key])
        return f'```{{raw}} html\n<img class="iclbook-picture" src="{address}" alt="{escape(key)}" loading="lazy">\n```'

    return MARKER.sub(figure, text)


def missing(html: Path, executed: Mapping[str, Path]) -> list[str]:
    """Models of the executed chapters that their pages do not show, or whose script was not copied; ``executed``: page -> executed copy."""
    found = []
    for page, copy in executed.items():
        path = html / f"{page}.html"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for name in in_copy(copy):
            if f'data-model="{name}"' not in text:
                found.append(f"{page}.html lacks the model {name!r}")
            if not (html / "_static" / "models" / f"{name}.js").is_file():
                found.append(f"{page}.html shows the model {name!r}, whose script is not in the book")
    return found
