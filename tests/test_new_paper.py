"""A new paper works at once: its skeleton runs, is judged, and passes the tests that every paper must pass."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iclbook.book import new
from iclbook.book.new import _after_last, chapter_of, new_paper, remove_paper
from iclbook.errors import UserError
from iclbook.files import write_whole

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the book without what is made from it."""
    left = shutil.ignore_patterns(".git", ".venv", ".cache", "_build", "executed", "__pycache__", ".*_cache", "results")
    return Path(shutil.copytree(REPOSITORY, tmp_path_factory.mktemp("new") / "book", ignore=left))


def inside(book: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in the copy, with the copy's library."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    env |= {"PYTHONPATH": str(book / "src"), "ICLBOOK_ROOT": str(book)}
    return subprocess.run([sys.executable, *command], cwd=book, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("key", "title", "chapter", "says"),
    [
        ("he2025", "Again", "", "is there already"),
        ("new2026", "Again", "linear_regression", "is there already"),
        ("2026new", "Again", "", "cannot be a key"),
        ("../x", "Again", "", "cannot be a key"),
        ("new2026", "???", "", "cannot be a chapter's name"),
        ("new2026", "two\nlines", "x", "cannot be a title"),
    ],
)
def test_what_cannot_be_a_paper_is_refused_and_nothing_is_written(book, key, title, chapter, says) -> None:
    before = {p: p.read_bytes() for p in book.rglob("*") if p.is_file()}
    with pytest.raises(UserError, match=says):
        new_paper(key, title, chapter, book)
    assert {p: p.read_bytes() for p in book.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("after", [1, 4, 9])
def test_a_stopped_command_can_be_repeated(tmp_path, monkeypatch, after) -> None:
    before = lists(tmp_path)
    written = []

    def stops(path: Path, text: str) -> None:
        if len(written) == after:
            raise KeyboardInterrupt
        written.append(path)
        write_whole(path, text)

    monkeypatch.setattr(new, "write_whole", stops)
    with pytest.raises(KeyboardInterrupt):
        new_paper("new2026", "Again", "", tmp_path)
    monkeypatch.undo()
    assert {*written} <= {*new_paper("new2026", "Again", "", tmp_path)}
    texts = [(tmp_path / name).read_text() for name in before]
    marks = ("again", "`again`", "[again]", "new2026", "{new2026,")
    assert [text.count(what) for text, what in zip(texts, marks, strict=True)] == [1] * 5
    assert len(remove_paper("new2026", tmp_path)) == 3
    assert {name: (tmp_path / name).read_text() for name in before} == before


def lists(root: Path) -> dict[str, str]:
    """The files that name every chapter, copied there."""
    for name in (names := ("_toc.yml", "README.md", "notebooks/START.md", "book/intro.md", "book/references.bib")):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, root / name)
    return {name: (root / name).read_text() for name in names}


def test_a_name_is_made_of_whole_words() -> None:
    assert chapter_of("Transformers Learn In-Context by Gradient Descent") == "transformers_learn_in_context_by"
    assert chapter_of("A Tiny Paper: Of One Claim") == "a_tiny_paper_of_one_claim"


def test_a_paper_that_is_kept_is_not_removed() -> None:
    with pytest.raises(UserError, match="he2025 is committed"):
        remove_paper("he2025", REPOSITORY)


def test_a_book_without_chapters_says_what_to_enter_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "_toc.yml"
    path.write_text("root: book/intro\n")
    with pytest.raises(UserError, match=r"Enter '- file: notebooks/a' by hand"):
        _after_last(path, r"\s*- file: notebooks/", "      - file: notebooks/a\n")
    path.write_text("root: book/intro\nchapters:\n  - file: notebooks/a\n")
    assert _after_last(path, r"\s*- file: notebooks/", "      - file: notebooks/a\n") == path.read_text()


@pytest.mark.full
@pytest.mark.slow
def test_a_new_paper_passes_what_every_paper_must_pass(book: Path) -> None:
    about = ("--title", "A Tiny Paper: Of One Claim", "--authors", "Small, Ann", "--year", "2026")
    made = inside(book, "-m", "iclbook.cli", "new", "tiny2026", *about)
    assert made.returncode == 0, made.stdout + made.stderr
    left = [line for line in made.stdout.splitlines() if line.startswith("left to do")]
    # the place and the columns in the notation, what is found, the number of papers on three pages, five sentences of the skeleton and one in the intro
    assert len(left) == 12, made.stdout
    assert "| Small (2026), A Tiny Paper: Of One Claim |" in (book / "README.md").read_text()
    assert (book / "notebooks" / "a_tiny_paper_of_one_claim.py").is_file()
    claims = inside(book, "-m", "iclbook.cli", "claims", "tiny2026", "--profile", "paper")
    assert "holds 1" in claims.stdout + claims.stderr, claims.stdout + claims.stderr
    style = inside(book, "-m", "ruff", "check", ".")
    assert style.returncode == 0, style.stdout
    form = inside(book, "-m", "ruff", "format", "--check", ".")
    assert form.returncode == 0, form.stdout
    files = [f"tests/test_{name}.py" for name in ("house", "claims_ledger", "margins", "chapters")]
    chosen = "tiny or test_house or test_claims_ledger"  # of margins and chapters its own
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", chosen)
    passed = inside(book, "-m", "pytest", *options, "tests/tiny2026", *files)
    assert passed.returncode == 0, passed.stdout[-3000:]
