"""Every chapter at every profile runs to its end, solutions of its exercises included, and records what its reference says: values, verdicts, and nothing else.

It runs under pinned code paths. At the smoke profile every static slider is moved through its whole range and every live one to its ends; at the paper profile
every figure is measured, as it is drawn for a phone, too. A copy in ``executed/`` that this test made is not made again while it is fresh; one that somebody else
made is. The page tests show the copies of the paper profile. Those of smoke have no pictures for phones: a book that is built of them shows the wide ones.
"""

import hashlib
import os
from pathlib import Path

import nbformat
import pytest

from iclbook.book import pages
from iclbook.book.build import renew_prose
from iclbook.check import check_executed, table
from iclbook.check.doctor import executed
from iclbook.inputs import PROSE_ONLY, chapters, executed_path, is_stale
from iclbook.machines import environment
from iclbook.project import PROFILES

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = chapters(ROOT)
#: What the kernel sees beside the pins; nothing of a reader's own settings.
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("ICLBOOK_")}
KERNEL = environment("pinned", PLAIN)
#: Sliders are moved where that is quick; only the figures of the paper profile stand in the book.
ASKED = {
    "smoke": {"ICLBOOK_EXERCISE_SLIDERS": "1", "ICLBOOK_FIGURES": "draft"},
    "paper": {"ICLBOOK_FIGURES": "measured"},
}


@pytest.mark.chapter
@pytest.mark.slow
@pytest.mark.usefixtures("chapter_ends")
@pytest.mark.parametrize("name", CHAPTERS)
@pytest.mark.parametrize("profile", PROFILES)
def test_chapter_runs_and_matches_its_reference(profile: str, name: str) -> None:
    copy, mark = executed_path(name, profile, ROOT), ROOT / ".cache" / "checked" / f"{profile}-{name}.sha256"
    if is_marked(copy, mark) and is_stale(name, profile, ROOT) == PROSE_ONLY:
        renew_prose(name, profile, ROOT)
        mark.write_text(fingerprint(copy))
    if is_stale(name, profile, ROOT) or not is_marked(copy, mark):
        from iclbook.execution import run_notebook

        run_notebook(name, profile, root=ROOT, environment=KERNEL | ASKED[profile])
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(fingerprint(copy))
    result = check_executed(name, profile, ROOT)
    assert result.ok, f"\n{table([result])}"
    assert result.compared > 0
    notebook = nbformat.read(copy, as_version=4)
    assert list(executed(notebook)) == []


def is_marked(copy: Path, mark: Path) -> bool:
    """Whether the copy is, byte for byte, one that this test made under today's pins."""
    return mark.is_file() and copy.is_file() and mark.read_text() == fingerprint(copy)


def fingerprint(copy: Path) -> str:
    """A digest of an executed copy and of the pins."""
    pins = repr(sorted(environment("pinned", {}).items()))
    return hashlib.sha256(copy.read_bytes() + pins.encode()).hexdigest()


@pytest.mark.slow
@pytest.mark.book
def test_no_link_of_the_built_book_is_dead(book: Path) -> None:
    assert pages.problems(book) == []
