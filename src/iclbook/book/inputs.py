"""What a chapter was made from, as digests, so that nothing stale is ever shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import yaml

from ..errors import UserError
from ..profiles import check_profile
from ..project import find_root

#: Files of the library that cannot change what a notebook computes: they run around it, not in it.
AROUND = ("book", "check", "cli.py", "claims/scoreboard.py")

#: The library that the notebook's kernel imports: this one.
LIBRARY = Path(__file__).resolve().parents[1]

#: What stands in the executed copy's metadata, under this key.
METADATA_KEY = "iclbook"


def chapters(root: Path | None = None) -> list[str]:
    """Names of the chapter notebooks that ``_toc.yml`` lists, in reading order.

    Raises:
        UserError: ``_toc.yml`` cannot be read or lists a notebook that is not there.
    """
    root = root or find_root()
    toc = root / "_toc.yml"
    try:
        tree = yaml.safe_load(toc.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        where = str(error).splitlines()[-1].strip()
        raise UserError(f"_toc.yml cannot be read ({where})", "Repair it, or restore it from git.") from error
    names = [Path(entry).name for entry in _entries(tree) if Path(entry).parent.as_posix() == "notebooks"]
    for name in names:
        source_path(name, root)
    return names


def _entries(node: object) -> Iterable[str]:
    """Every ``file:`` and ``root:`` of a table of contents, in order."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("file", "root") and isinstance(value, str):
                yield value.removesuffix(".py").removesuffix(".md")
            else:
                yield from _entries(value)
    elif isinstance(node, list):
        for item in node:
            yield from _entries(item)


def source_path(name: str, root: Path | None = None) -> Path:
    """``notebooks/NAME.py``.

    Raises:
        UserError: no such chapter.
    """
    root = root or find_root()
    path = root / "notebooks" / f"{name}.py"
    if not path.is_file():
        there = sorted(p.stem for p in (root / "notebooks").glob("*.py"))
        raise UserError(
            f"there is no chapter {name!r}", f"Choose one of: {', '.join(there) or '(none yet)'}."
        )
    return path


def executed_path(name: str, profile: str, root: Path | None = None) -> Path:
    """``executed/PROFILE/NAME.ipynb``, whether or not it is there."""
    return (root or find_root()) / "executed" / check_profile(profile) / f"{name}.ipynb"


def input_digests(name: str, profile: str, root: Path | None = None) -> dict[str, str]:
    """sha256 of everything that can change the executed copy of a chapter.

    Returns:
        ``notebook``: its source. ``library``: this package without the files around it. ``ledger``: its claims.
        ``results``: the committed results it loads (paper profile only). ``pins``: requirements.txt and constraints.txt.
    """
    root = root or find_root()
    around = [LIBRARY / part for part in AROUND]
    code = [p for p in LIBRARY.rglob("*.py") if not any(p == a or a in p.parents for a in around)]
    ledgers = _ledgers_of(name, root)
    results: list[Path] = []
    if profile == "paper":
        for ledger in ledgers:
            folder = root / "results" / ledger.stem / profile
            results += [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")]
    return {
        "notebook": _digest([source_path(name, root)], root),
        "library": _digest(code, LIBRARY),
        "ledger": _digest(ledgers, root),
        "results": _digest(results, root),
        "pins": _digest([root / "requirements.txt", root / "constraints.txt"], root),
    }


def _ledgers_of(name: str, root: Path) -> list[Path]:
    """The ledgers whose ``chapter:`` is this notebook; all of them when none says so or one is unreadable."""
    ledgers = sorted((root / "claims").glob("*.yaml"))
    chapter = f"notebooks/{name}.py"
    own = [
        p
        for p in ledgers
        if any(_is_chapter_line(line, chapter) for line in p.read_text(encoding="utf-8").splitlines())
    ]
    return own or ledgers


def _is_chapter_line(line: str, chapter: str) -> bool:
    key, _, value = line.partition(":")
    return key == "chapter" and value.split("#")[0].strip().strip("'\"") == chapter


def _digest(paths: Iterable[Path], base: Path) -> str:
    """One sha256 over relative names and contents; a file that is not there counts as absent."""
    total = hashlib.sha256()
    for path in sorted(paths):
        if path.is_file():
            total.update(path.relative_to(base).as_posix().encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def is_stale(name: str, profile: str, root: Path | None = None) -> str:
    """Why the executed copy of a chapter must not be shown; the empty string when it is fresh."""
    root = root or find_root()
    path = executed_path(name, profile, root)
    if not path.is_file():
        return "it was never run"
    try:
        made_from = json.loads(path.read_text(encoding="utf-8"))["metadata"][METADATA_KEY]["inputs"]
    except (OSError, ValueError, KeyError, TypeError):
        return "its executed copy cannot be read"
    now = input_digests(name, profile, root)
    changed = [what for what in now if made_from.get(what) != now[what]]
    return f"changed since: {', '.join(changed)}" if changed else ""
