"""Sphinx extension: show executed chapters under their source names, and write the pages that are computed.

A chapter is committed as ``notebooks/NAME.py``; the page shows ``executed/PROFILE/NAME.ipynb``. A copy that is missing or
was made from other inputs gives a warning, so that a build with ``-W`` refuses a stale book. Which pages are read and written again
is decided by contents, since modification times say nothing once a cache was restored or a folder copied.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import jupytext
import nbformat
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from ..claims.scoreboard import boards
from ..inputs import chapters, executed_path, is_stale, stale_line
from ..machines import usable_cores
from ..project import check_profile, ledger_paths
from ..workers import die_with
from . import about_figures, addresses, captions, glance, page_models, pages, scoreboard_page, ties
from .glance import with_folds
from .lazy import FILES, up
from .terms import FirstUses

logger = logging.getLogger(__name__)

#: Pages with a place for something computed at build time: the marker that is replaced there, and what makes it from profile and root.
COMPUTED = {
    "book/scoreboard": ("<!-- scoreboard -->", "book.scoreboard_page", "markdown"),
    "book/status": ("<!-- status -->", "book.status_page", "markdown"),
    "book/replication": ("<!-- replication -->", "replication", "markdown"),
}
#: Extensions of Jupyter Book that do not say whether several processes may read pages. They may: one numbers the contents once all are read, the other
#: is for LaTeX.
SILENT = {"sphinx_multitoc_numbering", "sphinx_jupyterbook_latex"}
#: The page that quotes verdicts of all chapters.
FOUND = "book/found"


def book_profile() -> str:
    """The profile whose executed copies the book shows: ICLBOOK_BOOK_PROFILE, or paper."""
    return check_profile(os.environ.get("ICLBOOK_BOOK_PROFILE", "paper"))


def setup(app: Sphinx) -> dict[str, object]:
    """Register with Sphinx."""
    # With `env`, changing the profile re-reads every page.
    app.add_config_value("iclbook_profile", book_profile(), "env", [str])
    captions.setup(app)
    app.add_post_transform(FirstUses)
    app.add_search_language(addresses.English)
    app.connect("build-finished", addresses.add_numbers)
    app.connect("config-inited", use_all_cores)
    app.connect("config-inited", addresses.switch_buttons, priority=100)  # before the theme reads them
    app.connect("html-page-context", addresses.describe_page)
    app.connect("build-finished", addresses.write_preview, priority=100)  # before the pages are noted as made
    app.connect("source-read", replace_source)
    app.connect("env-get-outdated", outdated_pages)
    app.connect("env-before-read-docs", note_sources)
    app.connect("env-updated", note_dependencies)
    app.connect("build-finished", keep_record)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def use_all_cores(app: Sphinx, config: Config) -> None:
    """On ``config-inited``: let one process a core read and write pages, which Jupyter Book has no option for; none outlives this one."""
    parent = os.getpid()
    os.register_at_fork(after_in_child=lambda: die_with(parent) if os.getppid() == parent else None)
    app.parallel = min(usable_cores(), 4)
    for name in SILENT & set(app.extensions):
        app.extensions[name].parallel_read_safe = app.extensions[name].parallel_write_safe = True


def replace_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """On ``source-read``: exchange the text of chapters and computed pages."""
    folder, _, name = docname.rpartition("/")
    if folder == "notebooks" and app.env.doc2path(docname).endswith(".py"):
        source[0] = executed_text(app, docname, name, source[0])
    elif docname in COMPUTED:
        marker, module, what = COMPUTED[docname]
        source[0] = source[0].replace(marker, _or_warn(docname, lambda: _computed(app, module, what), ""))
    if folder != "notebooks" and scoreboard_page.MARKER.search(source[0]):
        bare = scoreboard_page.MARKER.sub("", source[0])
        source[0] = _or_warn(docname, lambda: _with_quotations(app, docname, source[0]), bare)
    if page_models.MARKER.search(source[0]):
        bare = page_models.MARKER.sub("", source[0])
        source[0] = _or_warn(docname, lambda: _with_models(app, docname, source[0]), bare)


def _or_warn(docname: str, make: Callable[[], str], otherwise: str) -> str:
    """What is made; whatever is wrong with a ledger, a copy or a reference turns the build red, with its own words."""
    try:
        return make()
    except Exception as error:
        logger.warning("%s", error, location=docname)
        return otherwise


def executed_text(app: Sphinx, docname: str, name: str, source: str) -> str:
    """The executed copy as JSON, or the bare source as a notebook without outputs, with a warning."""
    root = Path(app.srcdir)
    profile = app.config.iclbook_profile
    path = executed_path(name, profile, root)
    app.env.note_dependency(str(path))
    why = is_stale(name, profile, root)
    if why:
        logger.warning("%s", stale_line(name, profile, why), location=docname)
    if not path.is_file():
        return nbformat.writes(jupytext.reads(source, fmt="py:percent"))
    text = path.read_text(encoding="utf-8")
    try:
        notebook = with_folds(about_figures.without(nbformat.reads(text, as_version=4)))
        for other in chapters(root):  # whose verdicts stand on this page, where a claim rests on theirs
            app.env.note_dependency(str(executed_path(other, profile, root)))
        for ledger in ledger_paths(root):
            app.env.note_dependency(str(ledger))
        notebook = ties.with_ties(notebook, profile, root)
        return nbformat.writes(glance.with_hero(glance.with_glance(notebook, name, profile, root)))
    except Exception as error:  # whatever is wrong with a ledger must turn the build red, with its own words
        logger.warning("%s", error, location=docname)
        return text


def read_notebook(text: str) -> nbformat.NotebookNode:
    """What MyST-NB calls for ``.py`` pages: by then the text is the executed copy's JSON."""
    try:
        return nbformat.reads(text, as_version=4)
    except (nbformat.reader.NotJSONError, json.JSONDecodeError):
        return jupytext.reads(text, fmt="py:percent")


def outdated_pages(
    app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list[str]:
    """Pages to read again whatever the times of their files are.

    The computed pages depend on every ledger and every executed copy; a chapter whose library, ledger or results have moved
    on must warn again on every build; every page whose contents, or whose HTML, are not what the last good build left.
    """
    root, html = Path(app.srcdir), Path(app.outdir)
    record = pages.Record.read(html)
    if record.shared != pages.shared_digest(root):
        return list(env.found_docs)
    outdated = [page for page in (*COMPUTED, FOUND) if page in env.found_docs]
    for page in env.found_docs:
        folder, _, name = page.rpartition("/")
        now = f"{_source_digest(app, page)} {_dependency_digest(app, page)}"
        known = getattr(env, "iclbook_made_from", {}).get(page) == now and record.holds(html, page, now)
        if not known or (folder == "notebooks" and is_stale(name, app.config.iclbook_profile, root)):
            outdated.append(page)
    return outdated


def note_sources(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """On ``env-before-read-docs``: what changes after this is not in the page, and makes it outdated next time.

    What many pages ask for is remembered here, before processes are forked that read them.
    """
    root, profile = Path(app.srcdir), app.config.iclbook_profile
    app.iclbook_shared = pages.shared_digest(root)
    app.iclbook_sources = {page: _source_digest(app, page) for page in docnames}
    with suppress(Exception):  # the page that needs it says so
        boards(profile, root)
    for name in chapters(root) if docnames else ():
        is_stale(name, profile, root)


def note_dependencies(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """On ``env-updated``: note what the pages just read were made from; every page shows the titles of all others."""
    if not hasattr(env, "iclbook_made_from"):
        env.iclbook_made_from = {}
    for page, source in app.iclbook_sources.items():
        env.iclbook_made_from[page] = f"{source} {_dependency_digest(app, page)}"
    renamed = pages.Record.read(Path(app.outdir)).titles != _titles(env)
    return list(env.found_docs) if renamed else []


def keep_record(app: Sphinx, exception: Exception | None) -> None:
    """On ``build-finished``: leave the list of pages; none after a warning, so that the next build warns again."""
    if exception is not None or app.builder.name != "html":
        return
    html = Path(app.outdir)
    if app._warncount:
        (html / pages.RECORD).unlink(missing_ok=True)
        return
    made = {page: app.env.iclbook_made_from[page] for page in app.env.found_docs}
    written = {page: [now, pages.digest([html / f"{page}.html"])] for page, now in made.items()}
    pages.Record(app.iclbook_shared, _titles(app.env), written, _files(app)).write(html)


def _files(app: Sphinx) -> list[str]:
    """Everything that some page was made from."""
    found = {name for page in app.env.found_docs for name in app.env.dependencies[page]}
    found |= {app.env.doc2path(page, base=False) for page in app.env.found_docs}
    return sorted(map(str, found))


def _source_digest(app: Sphinx, page: str) -> str:
    """Digest of a page's own file and, for a chapter, of the executed copy that is shown in its place."""
    folder, _, name = page.rpartition("/")
    files = [Path(app.env.doc2path(page))]
    if folder == "notebooks":
        files.append(executed_path(name, app.config.iclbook_profile, Path(app.srcdir)))
    return pages.digest(files)


def _dependency_digest(app: Sphinx, page: str) -> str:
    """Digest of the pictures and other files that a page takes in."""
    return pages.digest(Path(app.srcdir) / name for name in sorted(app.env.dependencies[page]))


def _titles(env: BuildEnvironment) -> dict[str, str]:
    return {page: title.astext() for page, title in sorted(env.titles.items())}


def _with_models(app: Sphinx, docname: str, text: str) -> str:
    """A page with its models and pictures, which belong to executed chapters."""

    def copy_of(chapter: str) -> Path:
        path = executed_path(chapter, app.config.iclbook_profile, Path(app.srcdir))
        app.env.note_dependency(str(path))
        return path

    def keep(name: str, picture: bytes) -> str:
        about_figures.write_bytes(Path(app.outdir) / FILES / name, picture)
        return f"{up(docname)}{FILES}/{name}"

    return page_models.embed(text, copy_of, keep)


def _with_quotations(app: Sphinx, docname: str, text: str) -> str:
    """A page with the verdicts and values that it quotes."""
    root, profile = Path(app.srcdir), app.config.iclbook_profile
    for name in chapters(root):
        app.env.note_dependency(str(executed_path(name, profile, root)))
    folder = "/".join(".." for _ in docname.split("/")[:-1]) or "."
    return scoreboard_page.quote(text, folder, profile, root)


def _computed(app: Sphinx, module: str, what: str) -> str:
    """A computed piece of a page, which is made from executed copies and references."""
    root, profile = Path(app.srcdir), app.config.iclbook_profile
    copies = (executed_path(name, profile, root) for name in chapters(root))
    for path in (*copies, *root.glob("references/**/*.json")):
        app.env.note_dependency(str(path))
    return getattr(import_module(f"iclbook.{module}"), what)(profile, root)
