"""A chapter's model on another page: ``<!-- model NAME of CHAPTER -->`` in its text becomes the figure that the executed chapter shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import UserError
from ..mime_types import MODEL

MARKER = re.compile(r"^<!-- model (\w+) of (\w+) -->$", re.MULTILINE)


def in_copy(path: Path) -> dict[str, str]:
    """The models of an executed chapter: name -> HTML."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return {
        output["metadata"][MODEL]["name"]: "".join(output["data"]["text/html"])
        for output in outputs
        if MODEL in output.get("metadata", {})
    }


def embed(text: str, copy_of: Callable[[str], Path]) -> str:
    """The Markdown of a page with every marker replaced.

    Args:
        text: of the page.
        copy_of: executed copy of a chapter.

    Raises:
        UserError: the chapter was never run, or shows no such model.
    """

    def figure(match: re.Match) -> str:
        name, chapter = match.groups()
        path = copy_of(chapter)
        found = in_copy(path) if path.is_file() else {}
        if name not in found:
            raise UserError(
                f"the executed chapter {chapter} shows no model {name!r}",
                f"Run `iclbook run {chapter}`, or choose one of: {', '.join(sorted(found)) or '(none)'}.",
            )
        return f"```{{raw}} html\n{found[name]}\n```"

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
