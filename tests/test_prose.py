"""Which changes of a chapter are new prose and which are new code, and how prose comes into an executed copy."""

from __future__ import annotations

import json
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


def ran(minibook: Path, edit) -> bool:
    """Change the executed copy of the tiny chapter, and its prose; whether the copy takes the prose."""
    copy = executed_path("tiny", "smoke")
    notebook = json.loads(copy.read_text())
    edit(notebook)
    write_copy(copy, nbformat.from_dict(notebook))
    source = source_path("tiny")
    source.write_text(source.read_text().replace("A tiny chapter", "A renamed chapter"))
    assert is_stale("tiny", "smoke") == PROSE_ONLY
    return renew_prose("tiny", "smoke", minibook)


def test_a_copy_of_other_code_takes_no_prose(minibook_that_ran: Path) -> None:
    def edit(notebook: dict) -> None:
        last = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"][-1]
        last["source"] = "record.table(1)"

    assert not ran(minibook_that_ran, edit)
    assert is_stale("tiny", "smoke") == PROSE_ONLY
