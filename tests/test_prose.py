"""Which changes of a chapter are new prose and which are new code, and how prose comes into an executed copy."""

from pathlib import Path

import nbformat
import pytest

from iclbook.book.build import renew_prose
from iclbook.inputs import PROSE_ONLY, executed_path, input_digests, is_stale, source_path, write_copy

CHAPTER = """\
# %% [markdown]
# Words.

# %% tags=["parameters"]
profile = "paper"

# %%
text = '''
# %% [markdown]
no cell
'''

# %% [markdown] tags=["aside"]
# More words.

# %%
x = 1
"""


@pytest.fixture
def chapter(tmp_path: Path) -> Path:
    """A book of one chapter."""
    path = tmp_path / "notebooks" / "one.py"
    path.parent.mkdir()
    path.write_text(CHAPTER)
    (tmp_path / "_toc.yml").write_text("root: notebooks/one\n")
    return path


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("# Words.", "# Other words.", {"prose"}),
        ("# More words.\n", "# More words.\n\n\n\n", set()),
        ('# %% [markdown] tags=["aside"]', "# %% [markdown]", {"prose"}),
        ("# %% [markdown]\n# Words.\n\n", "", {"prose"}),
        ("# %%\nx = 1\n", "# %%\nx = 1\n\n# %% [markdown]\n# An end.\n", {"prose"}),
        ("x = 1", "x = 2", {"notebook"}),
        ("x = 1", "x = 1  # why", {"notebook"}),
        ("# %%\nx", '# %% tags=["hide-input"]\nx', {"notebook"}),
        ("no cell", "none", {"notebook"}),
        ("# %%\nx = 1\n", "# %%\nx = 1\n\n# %%\ny = 1\n", {"notebook", "prose"}),
    ],
)
def test_halves(chapter: Path, tmp_path: Path, old: str, new: str, changed: set[str]) -> None:
    before = input_digests("one", "smoke", tmp_path)
    assert CHAPTER.count(old) == 1
    chapter.write_text(CHAPTER.replace(old, new))
    after = input_digests("one", "smoke", tmp_path)
    # library: which modules the chapter imports is read from the whole file
    assert {part for part in after if after[part] != before[part]} - {"library"} == changed


def test_a_copy_of_other_code_takes_no_prose(minibook_that_ran: Path) -> None:
    """What it takes from a copy of the same code is seen by the build of a book with new prose."""
    copy, source = executed_path("tiny", "smoke"), source_path("tiny")
    notebook = nbformat.read(copy, as_version=4)
    [cell for cell in notebook.cells if cell.cell_type == "code"][-1].source = "record.table(1)"
    write_copy(copy, notebook)
    source.write_text(source.read_text().replace("A tiny chapter", "A renamed chapter"))
    assert is_stale("tiny", "smoke") == PROSE_ONLY
    assert not renew_prose("tiny", "smoke", minibook_that_ran)
    assert is_stale("tiny", "smoke") == PROSE_ONLY
