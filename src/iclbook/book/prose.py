"""New words for a chapter that ran: where only its text cells have changed, the executed copy takes them over, and nothing is computed."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import nbformat

from ..errors import UserError
from ..inputs import METADATA_KEY, executed_path, input_digests, write_copy

GLUE = re.compile(r"\{glue(?::\w+)?\}`([^`]+)`")


def renew_prose(name: str, profile: str, root: Path) -> bool:
    """Put today's text cells into the executed copy of a chapter, around the code cells and outputs that are there.

    Returns:
        False, with nothing changed, where the code cells are not those that ran; the chapter must run then.

    Raises:
        UserError: the new prose injects a value that no cell has recorded.
    """
    from ..execution import read_source

    path = executed_path(name, profile, root)
    inputs = input_digests(name, profile, root)
    copy, source = nbformat.read(path, as_version=4), read_source(name, root)
    ran = [cell for cell in copy.cells if cell.cell_type != "markdown" and not _is_injected(cell)]
    if [cell.source for cell in ran] != [cell.source for cell in source.cells if cell.cell_type != "markdown"]:
        return False
    _require_values(name, source, recorded_keys(copy))
    injected = [cell for cell in copy.cells if _is_injected(cell)]
    copy.cells = list(_woven(source, iter(ran), injected))
    copy.metadata[METADATA_KEY]["inputs"] = inputs
    write_copy(path, copy)
    return True


def recorded_keys(copy: nbformat.NotebookNode) -> list[str]:
    """The keys of an executed copy's records, which ``{glue:text}`` injects."""
    outputs = [output for cell in copy.cells for output in cell.get("outputs", [])]
    return [o.metadata["scrapbook"]["name"] for o in outputs if "scrapbook" in o.get("metadata", {})]


def _woven(source, ran, injected):
    """Text cells of the source and code cells that ran, in the source's order; what papermill put in stays behind the parameters."""
    for cell in source.cells:
        if cell.cell_type == "markdown":
            yield cell
            continue
        done = next(ran)
        yield done
        if "parameters" in done.metadata.get("tags", []):
            yield from injected


def _is_injected(cell: nbformat.NotebookNode) -> bool:
    return "injected-parameters" in cell.metadata.get("tags", [])


def _require_values(name: str, source: nbformat.NotebookNode, keys: list[str]) -> None:
    known = set(keys)
    for cell in source.cells:
        for key in GLUE.findall(cell.source) if cell.cell_type == "markdown" else ():
            if key not in known:
                near = difflib.get_close_matches(key, keys, 1)
                mend = f"Did you mean {near[0]!r}? " if near else ""
                raise UserError(
                    f"the prose of notebooks/{name}.py injects {key!r}, which no cell of it records",
                    f"{mend}Name a recorded value, or record it in a code cell.",
                )
