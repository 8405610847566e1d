"""The digest of the source: what can change a study's numbers counts, and nothing else does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import iclbook
from iclbook.experiments import he2025
from iclbook.sources import reached, source_digest

ROOTS = (
    "iclbook.experiments.study",
    "iclbook.tasks.linear_regression",
    "iclbook.models.attention",
    "iclbook.experiments.he2025.measure",
)


@pytest.fixture
def package(tmp_path) -> Path:
    """A copy of the package's sources."""
    ignore = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(Path(iclbook.__file__).parent, tmp_path / "iclbook", ignore=ignore))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path.name} no longer holds {old!r}"
    path.write_text(text.replace(old, new, 1))


def test_the_digest_of_a_copy_is_the_same(package):
    assert source_digest(ROOTS, package) == source_digest(ROOTS)


def test_comments_docstrings_and_formatting_do_not_count(package):
    before = source_digest(ROOTS, package)
    file = package / "models" / "attention.py"
    edit(file, '"""One-layer multi-head attention', '"""Quite another description')  # of the module
    edit(file, '"""Prediction from circuits', '"""Something else')  # of a function
    edit(file, '"""Multi-head attention with', '"""A class')  # of a class
    edit(file, "    d = query.shape[0]\n", "\n    # a remark\n    d = (  query.shape[ 0 ]  )  # another\n\n")
    assert source_digest(ROOTS, package) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tasks/linear_regression.py", "/ math.sqrt(self.d)", "* math.sqrt(self.d)"),
        ("models/attention.py", "1 / math.sqrt(self.width)", "2 / math.sqrt(self.width)"),
        ("models/reduced.py", "0.0, scale", "0.0, 2 * scale"),
        ("training/optimisers.py", "beta2: float = 0.999", "beta2: float = 0.99"),
        ("training/groups.py", "state >> 1", "state >> 2"),
        ("training/trainer.py", "self._t += 1", "self._t += 2"),
        ("experiments/study.py", "batch_size: int = 256", "batch_size: int = 128"),
    ],
)
def test_code_counts(package, file, old, new):
    before = source_digest(ROOTS, package)
    edit(package / file, old, new)
    assert source_digest(ROOTS, package) != before


def test_only_what_is_reached_counts(package):
    before = source_digest(ROOTS, package)
    (package / "cli.py").write_text("x = 1\n")
    (package / "models" / "more.py").write_text("x = 1\n")
    edit(package / "tasks" / "multitask.py", "beta_var: float = 1 / 6", "beta_var: float = 1 / 5")
    assert source_digest(ROOTS, package) == before
    edit(package / "models" / "attention.py", "\nimport torch\n", "\nimport torch\nfrom .more import x\n")
    added = source_digest(ROOTS, package)
    assert added != before
    (package / "models" / "more.py").write_text("x = 2\n")
    assert source_digest(ROOTS, package) not in (before, added)


def test_imports_are_followed_through_packages_that_pass_names_on():
    names = {f.name for f in reached(ROOTS)}
    assert {"batch.py", "trainer.py", "groups.py", "reduced.py", "optimisers.py"} <= names
    assert not names & {"multitask.py", "__init__.py", "store.py", "errors.py", "cli.py"}


def test_a_study_stands_on_its_own_task_and_models():
    paper = he2025.studies("paper")
    assert paper["isotropic"].source() != paper["multitask_text"].source()
    assert paper["isotropic"].source() == he2025.studies("smoke")["isotropic"].source()
