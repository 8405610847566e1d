"""The release: equal trees give equal bytes, whatever the order, the times and the machine's settings; and what it needs is asked for in one line."""

import hashlib
import json
import os
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from benchmarks import release
from iclbook.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
TREE = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "iclbook"\nversion = "1.2.3"\n[tool.setuptools]\npy-modules = ["one"]\n',
    "one.py": "a = 1\n",
    "CHANGELOG.md": "# Changes\n\n## 1.2.3 (a day)\n",
    "CITATION.cff": "cff-version: 1.2.0\n",
    ".zenodo.json": '{"title": "Tiny"}',
    "lock.txt": "numpy==1\n",
    "run": "#!/bin/sh\n",
    "results/he/paper/st.json": "{}",
    ".gitignore": "_build/\nexecuted/\ndist/\n",
}
MADE = {"_build/html/index.html": "<p>page", "executed/paper/tiny.ipynb": "{}"}


def write(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def git(root: Path, *words: str) -> None:
    about = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    about |= {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}
    subprocess.run(["git", "-C", str(root), *words], env=os.environ | about, check=True, capture_output=True)


def tree(root: Path, texts: dict[str, str]) -> Path:
    root.mkdir()
    git(root, "init", "-q")
    write(root, texts)
    (root / "run").chmod(0o755)
    for words in (["add", "-A"], ["commit", "-qm", "one"], ["tag", "v1.2.3"]):
        git(root, *words)
    write(root, MADE)
    return root


@pytest.fixture
def made(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    monkeypatch.setattr(release, "is_sealed", lambda root, profile: profile == "paper")


def test_two_releases_of_equal_trees_are_equal(tmp_path, made):
    first = tree(tmp_path / "a", TREE)
    before = {path.name: path.read_bytes() for path in release.release(first)}
    mask = os.umask(0o077)
    try:
        second = tree(tmp_path / "b", dict(reversed(TREE.items())))
        for path in second.rglob("*.*"):
            os.utime(path, (1, 1))
        after = {path.name: path.read_bytes() for path in release.release(second)}
    finally:
        os.umask(mask)
    assert set(before) == {"iclbook-1.2.3.tar.gz", "iclbook-1.2.3-py3-none-any.whl", "lock.txt", "SHA256SUMS"}
    assert before == after
    (second / "one.py").write_text("a = 2\n")
    git(second, "commit", "-qam", "two")
    git(second, "tag", "-f", "v1.2.3")
    assert {path.name: path.read_bytes() for path in release.release(second)} != before


def test_the_archive_holds_what_it_says_and_says_when_it_was_made(tmp_path, made):
    paths = {path.name: path for path in release.release(tree(tmp_path / "a", TREE))}
    listed = dict(reversed(line.split("  ")) for line in paths["SHA256SUMS"].read_text().splitlines())
    assert listed == {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in paths.items() if n != "SHA256SUMS"}
    with tarfile.open(paths["iclbook-1.2.3.tar.gz"]) as archive:
        members = {entry.name.removeprefix("iclbook-1.2.3/"): entry for entry in archive}
        texts = {name: archive.extractfile(entry).read() for name, entry in members.items()}
    assert set(texts) == {*TREE, *MADE, "SHA256SUMS", "iclbook-1.2.3-py3-none-any.whl"}
    assert texts["iclbook-1.2.3-py3-none-any.whl"] == paths["iclbook-1.2.3-py3-none-any.whl"].read_bytes()
    inside = dict(reversed(line.split("  ")) for line in texts.pop("SHA256SUMS").decode().splitlines())
    assert inside == {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
    assert {entry.mtime for entry in members.values()} == {1_700_000_000}
    assert (members["run"].mode, members["one.py"].mode) == (0o755, 0o644)
    assert yaml.safe_load(texts["CITATION.cff"])["version"] == "1.2.3"
    assert json.loads(texts[".zenodo.json"])["publication_date"] == "2023-11-14"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda root: (root / "one.py").write_text("a = 2"), "not clean"),
        (lambda root: (root / "two.py").write_text("a = 2"), "not clean"),
        (lambda root: git(root, "tag", "-d", "v1.2.3"), "git tag -a v1.2.3"),
        (lambda root: release.write_whole(root / "CHANGELOG.md", "# Changes\n"), "not clean"),
    ],
)
def test_only_a_clean_tag_is_released(tmp_path, made, change, words):
    root = tree(tmp_path / "a", TREE)
    change(root)
    with pytest.raises(UserError, match=words):
        release.release(root)


def test_a_version_without_changes_and_pages_of_another_tree_are_refused(tmp_path, monkeypatch):
    root = tree(tmp_path / "a", TREE | {"CHANGELOG.md": "# Changes\n"})
    with pytest.raises(UserError, match=r"no section on 1\.2\.3"):
        release.release(root)
    root = tree(tmp_path / "b", TREE)
    monkeypatch.setattr(release, "is_sealed", lambda *_: False)
    with pytest.raises(UserError, match="make book"):
        release.release(root)


# -- what the repository says of itself --------------------------------------------------------------------------------------


def papers() -> dict[str, str]:
    """Years of the papers by title, as the bibliography has them."""
    text = (ROOT / "book" / "references.bib").read_text().replace("{B}", "B")
    return dict(zip(re.findall(r"title += \{(.*)\}", text), re.findall(r"year += \{(\d+)\}", text), strict=True))


def test_the_version_stands_in_one_place_and_has_its_changes():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\n## {version} " in (ROOT / "CHANGELOG.md").read_text()
    for name in ("CITATION.cff", ".zenodo.json"):
        assert "version" not in yaml.safe_load((ROOT / name).read_text())


def test_citation_and_zenodo_name_every_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    zenodo = json.loads((ROOT / ".zenodo.json").read_text())
    assert {each["title"]: str(each["year"]) for each in citation["references"]} == papers()
    assert all(title in " ".join(zenodo["references"]) for title in papers())
    assert len(zenodo["references"]) == len(papers())
    assert zenodo["title"] == citation["title"]
    assert zenodo["license"] == citation["license"] == "MIT"
    assert zenodo["keywords"] == citation["keywords"]
    assert [person["name"] for person in zenodo["creators"]] == [person["name"] for person in citation["authors"]]


# -- the lock -------------------------------------------------------------------------------------------------------------


def locked() -> dict[str, list[str]]:
    """Hashes by ``name==version``."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "lock.txt").read_text().splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            name = line.partition(" ")[0]
            found[name] = []
        found.setdefault(name, []).extend(re.findall(r"--hash=sha256:([0-9a-f]{64})", line)) if found else None
    return found


def test_every_package_of_the_lock_has_a_version_and_a_hash():
    assert [name for name, hashes in locked().items() if "==" not in name or not hashes] == []


def test_the_lock_holds_every_requirement_as_it_is_pinned_and_both_builds_of_torch():
    text = (ROOT / "requirements.txt").read_text()
    pins = {line.replace("_", "-").lower() for line in text.splitlines() if "==" in line and line[0] != "#"}
    assert pins - {name.replace("_", "-").lower() for name in locked()} == set()
    (torch,) = (hashes for name, hashes in locked().items() if name.startswith("torch=="))
    cpu = re.findall(r"^# +--hash=sha256:(\w+)", text, re.MULTILINE)
    assert len(cpu) == 6, "two processors, three Pythons"
    assert set(cpu) < set(torch)


def test_neither_the_lock_nor_the_requirements_name_an_address():
    for name in ("lock.txt", "requirements.txt", "pyproject.toml", "Makefile"):
        assert not re.search(r"https?://|file:|--index-url \w|--find-links", (ROOT / name).read_text()), name
