"""Sphinx extension: show executed chapters under their source names, and write the pages that are computed.

A chapter is committed as ``notebooks/NAME.py``; the page shows ``executed/PROFILE/NAME.ipynb``. A copy that is missing or
was made from other inputs gives a warning, so that a build with ``-W`` refuses a stale book.
"""

import os
from collections.abc import Callable
from pathlib import Path

import jupytext
import nbformat
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from ..inputs import executed_path, is_stale, stale_line
from ..machines import usable_cores
from ..project import check_profile
from ..workers import die_with
from . import addresses, borrowed, chapter_head, figures, premises, replication_page, scoreboard_page, status_page
from .terms import FirstUses

logger = logging.getLogger(__name__)

#: Places for something computed at build time, and what makes it from profile and root.
COMPUTED = {
    "<!-- scoreboard -->": scoreboard_page.markdown,
    "<!-- status -->": status_page.markdown,
    "<!-- replication -->": replication_page.markdown,
}
#: Extensions of Jupyter Book that do not say whether several processes may read pages. They may: one numbers the contents once all are read, the other
#: is for LaTeX.
SILENT = {"sphinx_multitoc_numbering", "sphinx_jupyterbook_latex"}


def setup(app: Sphinx) -> dict[str, object]:
    """Register with Sphinx."""
    profile = check_profile(os.environ.get("ICLBOOK_BOOK_PROFILE", "paper"))
    app.add_config_value("iclbook_profile", profile, "env", [str])
    app.add_node(nodes.image, override=True, html=(figures.visit_image, HTML5Translator.depart_image))
    app.add_post_transform(figures.NumberedFigures)
    app.add_post_transform(FirstUses)
    app.connect("build-finished", addresses.write_search_text)
    app.connect("config-inited", use_all_cores)
    app.connect("config-inited", addresses.switch_buttons, priority=100)  # before the theme reads them
    app.connect("html-page-context", addresses.describe_page)
    app.connect("html-page-context", figures.move_widgets, priority=900)  # after MyST-NB
    app.connect("source-read", replace_source)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def use_all_cores(app: Sphinx, config: Config) -> None:
    """On ``config-inited``: let one process a core read and write pages, which Jupyter Book has no option for; none outlives this one."""
    parent = os.getpid()
    os.register_at_fork(after_in_child=lambda: die_with(parent) if os.getppid() == parent else None)
    app.parallel = min(usable_cores(), 4)
    for name in SILENT & set(app.extensions):
        app.extensions[name].parallel_read_safe = app.extensions[name].parallel_write_safe = True


def replace_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """On ``source-read``: exchange the text of chapters, and fill in what is computed on other pages."""
    root, profile = Path(app.srcdir), app.config.iclbook_profile
    if docname.startswith("notebooks/") and app.env.doc2path(docname).endswith(".py"):
        source[0] = executed_text(docname, source[0], profile, root)
        return
    for marker, markdown in COMPUTED.items():
        if marker in source[0]:
            source[0] = source[0].replace(marker, _or_warn(docname, "", markdown, profile, root))
    for module, more in ((scoreboard_page, ()), (borrowed, (Path(app.outdir),))):
        if module.MARKER.search(source[0]):
            bare = module.MARKER.sub("", source[0])
            source[0] = _or_warn(docname, bare, module.filled, source[0], docname, profile, root, *more)


def _or_warn(docname: str, otherwise: str, make: Callable[..., str], *arguments: object) -> str:
    """Result of a maker of pages; a fault of a ledger, a copy or a reference becomes a warning with its own words, and fails the build."""
    try:
        return make(*arguments)
    except Exception as error:
        logger.warning("%s", error, location=docname)
        return otherwise


def executed_text(docname: str, source: str, profile: str, root: Path) -> str:
    """The executed copy as JSON; where there is none that can be shown, the source as a notebook without outputs, with a warning."""
    name = docname.rpartition("/")[2]
    if why := is_stale(name, profile, root):
        logger.warning("%s", stale_line(name, profile, why), location=docname)
    bare = nbformat.writes(jupytext.reads(source, fmt="py:percent"))
    return _or_warn(docname, bare, _shown, name, profile, root)


def _shown(name: str, profile: str, root: Path) -> str:
    notebook = nbformat.read(executed_path(name, profile, root), as_version=4)
    notebook = chapter_head.with_folds(notebook)
    notebook = chapter_head.with_summary(premises.with_premises(notebook, profile, root), name, profile, root)
    return nbformat.writes(chapter_head.with_hero(notebook))
