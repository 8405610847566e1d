"""A root without committed results."""

import pytest

from iclbook.papers.wang2025 import networks
from iclbook.tasks import glyphs


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A book's root of our own, without results: networks are trained here."""
    folder = tmp_path_factory.mktemp("book")
    (folder / "_toc.yml").write_text("")
    patch = pytest.MonkeyPatch()
    patch.setenv("ICLBOOK_ROOT", str(folder))
    yield folder
    patch.undo()
    glyphs._drawn.cache_clear()
    networks._features.cache_clear()
