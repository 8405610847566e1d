"""Sphinx extension: show executed chapters under their source names, and write the pages that are computed.

A chapter is committed as ``notebooks/NAME.py``; the page shows ``executed/PROFILE/NAME.ipynb``. A copy that is missing or
was made from other inputs gives a warning, so that a build with ``-W`` refuses a stale book.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import jupytext
import nbformat
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from ..profiles import check_profile
from .inputs import executed_path, is_stale

logger = logging.getLogger(__name__)

#: Pages with a place for something computed at build time, and the marker that is replaced there.
SCOREBOARD = ("book/scoreboard", "<!-- scoreboard -->")
COUNTS = ("book/intro", "<!-- verdict counts -->")


def book_profile() -> str:
    """The profile whose executed copies the book shows: ICLBOOK_BOOK_PROFILE, or paper."""
    return check_profile(os.environ.get("ICLBOOK_BOOK_PROFILE", "paper"))


def setup(app: Sphinx) -> dict[str, object]:
    """Register with Sphinx."""
    # With `env`, changing the profile re-reads every page.
    app.add_config_value("iclbook_profile", book_profile(), "env", [str])
    app.connect("source-read", replace_source)
    app.connect("env-get-outdated", outdated_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def replace_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """On ``source-read``: exchange the text of chapters and computed pages."""
    folder, _, name = docname.rpartition("/")
    if folder == "notebooks" and app.env.doc2path(docname).endswith(".py"):
        source[0] = executed_text(app, docname, name, source[0])
    elif docname == SCOREBOARD[0]:
        source[0] = source[0].replace(SCOREBOARD[1], _scoreboard(app, "markdown", docname))
    elif docname == COUNTS[0]:
        source[0] = source[0].replace(COUNTS[1], _scoreboard(app, "counts_line", docname))


def executed_text(app: Sphinx, docname: str, name: str, source: str) -> str:
    """The executed copy as JSON, or the bare source as a notebook without outputs, with a warning."""
    root = Path(app.srcdir)
    profile = app.config.iclbook_profile
    path = executed_path(name, profile, root)
    app.env.note_dependency(str(path))
    why = is_stale(name, profile, root)
    if why:
        logger.warning(
            "notebooks/%s.py: %s. Run `iclbook run %s --profile %s`.",
            name,
            why,
            name,
            profile,
            location=docname,
        )
    if not path.is_file():
        return nbformat.writes(jupytext.reads(source, fmt="py:percent"))
    return path.read_text(encoding="utf-8")


def read_notebook(text: str) -> nbformat.NotebookNode:
    """What MyST-NB calls for ``.py`` pages: by then the text is the executed copy's JSON."""
    try:
        return nbformat.reads(text, as_version=4)
    except (nbformat.reader.NotJSONError, json.JSONDecodeError):
        return jupytext.reads(text, fmt="py:percent")


def outdated_pages(
    app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list[str]:
    """Pages to read again though their files are unchanged.

    The computed pages depend on every ledger and every executed copy; a chapter whose library, ledger or results have moved
    on must warn again on every build.
    """
    pages = [page for page in (SCOREBOARD[0], COUNTS[0]) if page in env.found_docs]
    for page in env.found_docs:
        folder, _, name = page.rpartition("/")
        if folder == "notebooks" and is_stale(name, app.config.iclbook_profile, Path(app.srcdir)):
            pages.append(page)
    return pages


def _scoreboard(app: Sphinx, what: str, docname: str) -> str:
    """A piece of a page from the ledgers; what is wrong with one becomes a warning on that page."""
    from ..claims import scoreboard

    try:
        return getattr(scoreboard, what)(app.config.iclbook_profile, Path(app.srcdir))
    except Exception as error:  # whatever is wrong with a ledger must turn the build red, with its own words
        logger.warning("%s", error, location=docname)
        return ""
