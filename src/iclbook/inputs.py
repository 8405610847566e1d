"""The chapters of the book, their executed copies, and what each copy was made from, as digests, so that nothing stale is ever shown."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import jupytext
import nbformat
import yaml

from .claims.ledger import ledger_of
from .claims.references import Reference, load_reference
from .claims.yaml_lines import read_yaml
from .draw import number as draw_number
from .draw import outputs
from .errors import UserError
from .files import NO_CHECKSUM, is_as_written, with_checksum, write_whole
from .project import check_profile, find_root, ledger_paths
from .sources import PACKAGE as LIBRARY
from .sources import Code, short

#: What stands in the executed copy's metadata, under this key.
METADATA_KEY = "iclbook"
CHECKSUM = "checksum"

#: What :func:`is_stale` says of a copy that lacks new prose only: its code ran as it stands (:func:`iclbook.book.build.renew_prose` takes the words over).
PROSE_ONLY = "changed since: prose"


def chapters(root: Path | None = None) -> list[str]:
    """Names of the chapter notebooks that ``_toc.yml`` lists, in reading order."""
    root = root or find_root()
    entries = [Path(entry) for entry in listed_pages(root)]
    names = list(dict.fromkeys(entry.name for entry in entries if entry.parent.as_posix() == "notebooks"))
    for name in names:
        source_path(name, root)
    return names


def chosen(names: Sequence[str], root: Path) -> list[str]:
    """These chapters of the book, by their names or their papers' keys, each once; all of them where none is named."""
    known = chapters(root)
    found = dict.fromkeys(name if name in known else ledger_of(name, root).chapter_name for name in names)
    if unlisted := [name for name in found if name not in known]:
        raise UserError(f"_toc.yml has no notebooks/{unlisted[0]}", "List it among the chapters.")
    return list(found) or known


def listed_pages(root: Path) -> list[str]:
    """Pages of ``_toc.yml`` in reading order: ``book/intro``."""
    return list(dict.fromkeys(_entries(read_yaml(root / "_toc.yml"))))


def _entries(node: object) -> Iterable[str]:
    """Values of ``file:`` and ``root:`` of a table of contents, in order."""
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
    """``notebooks/NAME.py``."""
    folder = (root or find_root()) / "notebooks"
    path = folder / f"{name}.py"
    if not path.is_file():
        there = sorted(p.stem for p in folder.glob("*.py"))
        raise UserError(f"there is no chapter {name[:80]!r}", f"Choose one of: {', '.join(there) or '(none yet)'}.")
    return path


def executed_path(name: str, profile: str, root: Path | None = None) -> Path:
    """Path of an executed copy, ``executed/PROFILE/NAME.ipynb``; the file need not exist."""
    return outputs(root or find_root()) / "executed" / check_profile(profile) / f"{name}.ipynb"


def input_digests(name: str, profile: str, root: Path | None = None) -> dict[str, str]:
    """sha256 of everything that can change the executed copy of a chapter.

    ``notebook``: its code cells, their tags and metadata. ``prose``: its text cells and where they stand. ``library``: the code of this package that
    its imports reach. ``style``: the look of figures. ``ledger``: its claims and other data of the paper. ``results``: the committed results of its paper, and
    of every paper that its imports reach (paper profile only). ``reference``: its values and how far rounding carries them, which the badges show. ``pins``: lock.txt.
    ``draw``: the number of this process's draw, as it is.
    """
    root = root or find_root()
    ledgers, source = _ledgers_of(name, root), source_path(name, root)
    library, imported = _library(source)
    papers = imported.union(ledger.parent.name for ledger in ledgers)
    folders = [outputs(root) / "results" / paper / profile for paper in papers] if profile == "paper" else []
    # what a killed training left is no result
    results = [p for folder in folders for p in folder.rglob("*") if _is_result(p, folder)]
    return {
        **_halves(name, root),
        "library": library,
        "style": digest(LIBRARY.rglob("*.mplstyle"), LIBRARY),
        "ledger": digest([path for each in ledgers for path in each.parent.glob("*.yaml")], root, _without_comments),
        "results": digest(results, root),
        "reference": _reference(name, profile, root),
        "pins": digest([root / "lock.txt"], root, _pins),
        "draw": str(draw_number()),
    }


def read_source(name: str, root: Path) -> nbformat.NotebookNode:
    """The chapter as a notebook."""
    try:
        notebook = jupytext.reads(_read(source_path(name, root)).decode(), fmt="py:percent")
    except (ValueError, RecursionError, nbformat.ValidationError, yaml.YAMLError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"notebooks/{name}.py is no notebook ({why})", "Copy the head of another chapter.") from error
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def _halves(name: str, root: Path) -> dict[str, str]:
    """Digests of a chapter's code cells and of its text cells; the second sees where code cells stand."""
    halves: dict[str, list] = {"notebook": [], "prose": []}
    for cell in read_source(name, root).cells:
        is_text = cell.cell_type == "markdown"
        metadata = {key: value for key, value in cell.metadata.items() if not key.startswith("lines_to")}  # blank lines
        halves["prose" if is_text else "notebook"].append([cell.cell_type, metadata, cell.source.strip()])
        if not is_text:
            halves["prose"].append([])  # a paragraph that moved across a code cell is new prose
    return {half: hashlib.sha256(json.dumps(found).encode()).hexdigest() for half, found in halves.items()}


def _library(source: Path) -> tuple[str, set[str]]:
    """Digest of the code that a notebook's imports reach, and the papers that are among it: ``crossing`` draws the models of others."""
    try:
        code = Code()
        found = code.reached_by(source)
        papers = {module.split(".")[1] for module, _ in found if module.startswith("papers.")}
        return short(code.digests(found)), papers
    except (SyntaxError, ValueError, ImportError, RecursionError):  # it will not run either
        return "unreadable", set()


def _reference(name: str, profile: str, root: Path) -> str:
    """Digest of what verdicts need beside values: those of the reference with their spreads, whose verdicts change no page, and the records of other draws."""
    try:
        found = load_reference(name, profile, root) or Reference({})
    except UserError:
        return "unreadable"
    parts = found.records, found.spread, found.draws
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _ledgers_of(name: str, root: Path) -> list[Path]:
    """The ledgers whose ``chapter:`` is this notebook; all of them when none says so."""
    line = re.compile(rf"^chapter: *['\"]?notebooks/{re.escape(name)}\.py['\"]? *(#.*)?$", re.MULTILINE)
    ledgers = ledger_paths(root)
    return [p for p in ledgers if line.search(_read(p).decode(errors="surrogateescape"))] or ledgers


def _is_result(path: Path, folder: Path) -> bool:
    """Whether training writes files of this name there: not what a user or a program that copies folders has put beside them."""
    if path.suffix == ".json":
        return path.parent == folder and path.with_suffix("").is_dir()
    return re.search(r"\.[0-9a-f]{8}\.npz$", path.name) is not None


@lru_cache(maxsize=64)
def _without_comments(text: bytes) -> bytes:
    """A YAML file's entries; the file itself where it cannot be read."""
    try:
        events = yaml.parse(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        return repr([(type(e), getattr(e, "value", None)) for e in events]).encode()
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def _pins(text: bytes) -> bytes:
    """Requirements without comments."""
    return b" ".join(re.sub(rb"(?m)(^|\s)#.*", b"", text).split())


def digest(paths: Iterable[Path], base: Path, read: Callable[[bytes], bytes] = bytes) -> str:
    """One sha256 over relative names and contents of files, or what ``read`` makes of these; a file that is not there counts as absent."""
    total = hashlib.sha256()
    for path in sorted(paths):
        if path.is_file():
            total.update(path.relative_to(base).as_posix().encode() + b"\0")
            total.update(hashlib.sha256(read(_read(path))).digest())
    return total.hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UserError(f"{path} cannot be read ({problem.strerror})", "Change its rights, or restore it.") from None


def write_copy(path: Path, copy: nbformat.NotebookNode) -> None:
    """Write an executed copy, with a checksum over all of its text in its metadata."""
    copy.metadata[METADATA_KEY][CHECKSUM] = NO_CHECKSUM
    write_whole(path, with_checksum(nbformat.writes(copy) + "\n"))


def is_stale(name: str, profile: str, root: Path | None = None) -> str:
    """Why the executed copy of a chapter must not be shown; the empty string when it is fresh."""
    root = root or find_root()
    path = executed_path(name, profile, root)
    if not path.is_file():
        return "it was never run"
    try:
        text = path.read_text(encoding="utf-8")
        inputs = {"draw": "0", **json.loads(text)["metadata"][METADATA_KEY]["inputs"]}
        if not is_as_written(text):
            return "its executed copy is not as it was written"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "its executed copy cannot be read"
    now = input_digests(name, profile, root)
    changed = [what for what in now if inputs.get(what) != now[what]]
    return f"changed since: {', '.join(changed)}" if changed else ""


def stale_line(name: str, profile: str, why: str) -> str:
    """Error of a chapter that ``is_stale`` for this reason."""
    return f"notebooks/{name}.py is stale ({why}). Run `iclbook run {name} --profile {profile}`."
