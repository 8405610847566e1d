"""What the built pages were made from, and what a page may hold.

Sphinx decides by modification times which pages are up to date; after a cache is restored or a folder copied, times say nothing. Here each page is known by
the contents it was made from, and a build that succeeded leaves the list beside the pages.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..inputs import LIBRARY, chapters, is_stale
from ..project import ledger_paths
from ..references import write_text

#: Where the pages are, below the book's folder.
HTML = Path("_build") / "html"
#: Beside the pages; a dot keeps it out of what a web server shows.
RECORD = ".made-from.json"
#: And what they are altogether: a build that finds all of this unchanged has nothing to do.
SEAL = ".sealed"
#: What every page is made with, beside the code that computes parts of pages.
SHARED = ("_config.yml", "_toc.yml", "book/notation.md", "book/references.bib", "book/templates", "book/assets")


def digest(paths: Iterable[Path]) -> str:
    """sha256 over the contents of files and of all files in folders; one that is not there counts as absent."""
    total = hashlib.sha256()
    for path in paths:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            there = file.is_file()
            total.update(f"{file.name}\0{there}\0".encode())
            total.update(hashlib.sha256(file.read_bytes()).digest() if there else b"")
    return total.hexdigest()


def shared_digest(root: Path) -> str:
    """Digest of what every page is made with."""
    code = [LIBRARY, LIBRARY / "book", LIBRARY / "claims"]
    return digest([*(root / name for name in SHARED), *(p for folder in code for p in sorted(folder.glob("*.py")))])


@dataclass(frozen=True)
class Record:
    """The list that a build leaves beside its pages.

    Attributes:
        shared: what every page was made with.
        titles: page -> title; other pages show it in their navigation.
        pages: page -> what it was made from, and the digest of the page itself.
        files: everything that a page was made from, below the book's folder where it lies there.
    """

    shared: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    pages: Mapping[str, list[str]] = field(default_factory=dict)
    files: Sequence[str] = ()

    @classmethod
    def read(cls, html: Path) -> Record:
        """The list of the last build; an empty one where none succeeded."""
        try:
            body = json.loads((html / RECORD).read_text(encoding="utf-8"))
            return cls(body["shared"], dict(body["titles"]), dict(body["pages"]), list(body["files"]))
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return cls()

    def write(self, html: Path) -> None:
        """Put the list in place, whole."""
        write_text(html / RECORD, json.dumps(asdict(self), indent=1) + "\n")

    def holds(self, html: Path, page: str, made_from: str) -> bool:
        """Whether the page stands there as it was written, from these contents."""
        return self.pages.get(page) == [made_from, digest([html / f"{page}.html"])]


def seal(root: Path, profile: str) -> None:
    """Note that the pages are sound, and of what they were made; after a build that succeeded."""
    write_text(root / HTML / SEAL, _state(root, profile) + "\n")


def is_sealed(root: Path, profile: str) -> bool:
    """Whether the pages are, byte for byte, those of the last good build, and nothing that they are made from has changed since."""
    path = root / HTML / SEAL
    if not path.is_file() or any(is_stale(name, profile, root) for name in chapters(root)):
        return False
    return path.read_text(encoding="utf-8").strip() == _state(root, profile)


def _state(root: Path, profile: str) -> str:
    """Digest over the sources of all pages, what they are made with, and the pages."""
    html = root / HTML
    made_from = [root / name for name in Record.read(html).files]
    made_with = [root / name for name in ("requirements.txt", "constraints.txt")]
    made = sorted(p for p in html.rglob("*") if p.is_file() and p.name != SEAL)
    parts = [profile, shared_digest(root), digest([*made_from, *made_with, *ledger_paths(root)])]
    parts += [digest(made), *(p.relative_to(html).as_posix() for p in made)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def problems(html: Path) -> list[str]:
    """What the pages may not hold, which Sphinx does not look at in raw HTML: links to files or places that are not there, and anything loaded from outside."""
    found = []
    read = cache(_References.of)
    for path in sorted(html.rglob("*.html")):
        page = path.relative_to(html)
        if page.parts[0] == "_static":
            continue
        for tag, address in read(path).found:
            why = _problem(tag, address, path, html) or _nowhere(tag, address, path, read)
            if why:
                found.append(f"{page.as_posix()}: <{tag}> {why} ({address[:100]})")
    return list(dict.fromkeys(found))


def missing_sliders(html: Path, executed: Mapping[str, Path], key: str) -> list[str]:
    """Slider figures of the executed chapters that their pages do not show.

    Args:
        html: the folder of the pages.
        executed: page -> executed copy.
        key: of a slider's entry in the metadata of its output.
    """
    found = []
    for page, copy in executed.items():
        path = html / f"{page}.html"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        notebook = json.loads(copy.read_text(encoding="utf-8"))
        for output in (o for cell in notebook["cells"] for o in cell.get("outputs", [])):
            if key in output.get("metadata", {}):
                view = output["data"]["application/vnd.jupyter.widget-view+json"]
                if f'"model_id": "{view["model_id"]}"' not in text:
                    found.append(f"{page}.html lacks the slider {output['metadata'][key].get('title')!r}")
    return found


class _References(HTMLParser):
    """Every address in a page, with the element that holds it, and the places that addresses may name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.places: set[str] = set()

    @classmethod
    def of(cls, path: Path) -> _References:
        reader = cls()
        reader.feed(path.read_text(encoding="utf-8"))
        return reader

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "link" and dict(attrs).get("rel") == "canonical":
            return  # says where the page stands; nothing is loaded
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            if name in ("src", "href", "data", "poster", "action", "xlink:href") and value:
                self.found.append((tag, value.strip()))
            elif name == "srcset" and value:
                self.found += [(tag, part.split()[0]) for part in value.split(",") if part.split()]
            elif name == "style" and value:
                self.found += [("style", address) for address in _in_css(value)]

    handle_startendtag = handle_starttag


def _in_css(text: str) -> Iterator[str]:
    return (match[1] for match in re.finditer(r"""url\(\s*["']?([^"')]+)""", text))


def _nowhere(tag: str, address: str, page: Path, read: Callable[[Path], _References]) -> str:
    """Why a link to a place in the book leads nowhere; empty if it does not, or names no place."""
    parts = urlsplit(address)
    if tag != "a" or parts.scheme or parts.netloc or parts.fragment in ("", "top"):
        return ""
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.suffix != ".html":
        return ""
    return "" if unquote(parts.fragment) in read(target).places else "leads to a place that is not there"


def _problem(tag: str, address: str, page: Path, html: Path) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return "has no readable address"
    if parts.scheme or parts.netloc:
        harmless = tag == "a" or parts.scheme in ("data", "mailto", "javascript", "about")
        return "" if harmless else "loads from outside"
    if not parts.path:
        return ""
    target = (page.parent / unquote(parts.path)).resolve()
    if not target.is_relative_to(html.resolve()):
        return "leads out of the book"
    if target.is_dir():
        target /= "index.html"
    return "" if target.is_file() else "leads to a file that is not there"
