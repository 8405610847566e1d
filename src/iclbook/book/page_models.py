"""A chapter's models and pictures on another page.

``<!-- model NAME of CHAPTER -->`` in its text becomes the figure that the executed chapter shows, ``<!-- picture WORDS of CHAPTER -->`` the picture (the
one for phones) whose description begins with these words.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import partial
from html import escape
from pathlib import Path

from ..errors import UserError
from ..inputs import executed_path
from ..project import FIGURE, MODEL, cell_outputs
from .figures import write_beside
from .pages import HTML

MARKER = re.compile(r"^<!-- (model|picture) (.+) of (\w+) -->$", re.MULTILINE)


def filled(text: str, page: str, profile: str, root: Path) -> str:
    """The Markdown of a page with every marker replaced; pictures are put beside the pages.

    Raises:
        UserError: the chapter was never run, or shows no such model or picture, or several.
    """
    return MARKER.sub(partial(_figure, page=page, profile=profile, root=root), text)


def _figure(match: re.Match, page: str, profile: str, root: Path) -> str:
    kind, name, chapter = match.groups()
    path = executed_path(chapter, profile, root)
    found = (models if kind == "model" else pictures)(path) if path.is_file() else {}
    shown = [key for key in found if key == name or (kind == "picture" and key.startswith(name))]
    if len(shown) != 1:
        raise UserError(
            f"the executed chapter {chapter} shows {len(shown) or 'no'} {kind}s {name!r}",
            f"Run `iclbook run {chapter}`, or choose one of: {', '.join(sorted(found)) or '(none)'}.",
        )
    content = found[shown[0]]
    if kind == "model":
        return f"```{{raw}} html\n{content}\n```"
    address = write_beside(root / HTML, page, f"{chapter}-{hashlib.sha256(content).hexdigest()[:12]}.png", content)
    return (
        f'```{{raw}} html\n<img class="iclbook-picture" src="{address}" alt="{escape(shown[0])}" loading="lazy">\n```'
    )


def models(path: Path) -> dict[str, str]:
    """The models of an executed chapter: name -> HTML."""
    outputs = cell_outputs(json.loads(path.read_text(encoding="utf-8")))
    shown = (output for output in outputs if MODEL in output.get("metadata", {}))
    return {output["metadata"][MODEL]["name"]: "".join(output["data"]["text/html"]) for output in shown}


def pictures(path: Path) -> dict[str, bytes]:
    """The pictures of an executed chapter: description -> PNG, the one for phones where there is one."""
    found = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt")
        for data in (output.get("data", {}) for output in cell.get("outputs", [])):
            if alt and "image/png" in data:
                found[alt] = base64.b64decode(data.get(FIGURE, {}).get("narrow") or "".join(data["image/png"]))
    return found
