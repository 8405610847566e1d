"""Whether the built pages are up to date, and what a page may hold.

A build that succeeded leaves a digest of what it made, and of all that it was made from. While both are unchanged there is nothing to build; otherwise every
page is made anew. Times of files do not count: they say nothing once a cache was restored or a folder copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..files import write_whole
from ..inputs import LIBRARY, chapters, digest, executed_path, is_stale, source_path
from ..project import MODEL, SLIDERS, VIEW, cell_outputs, ledger_paths

#: Where the pages are, below the book's folder.
HTML = Path("_build") / "html"
#: Beside the pages; a dot keeps it out of what a web server shows.
SEAL = ".sealed"
#: What pages are made from, beside chapters, ledgers and the library.
SOURCES = ("_config.yml", "_toc.yml", "book", "references", "requirements.txt", "constraints.txt")


def seal(root: Path, profile: str) -> None:
    """Note that the pages are sound, and of what they were made; after a build that succeeded."""
    write_whole(root / HTML / SEAL, _state(root, profile))


def is_sealed(root: Path, profile: str) -> bool:
    """Whether the pages are, byte for byte, those of the last good build, and nothing that they are made from has changed since."""
    path = root / HTML / SEAL
    if not path.is_file() or any(is_stale(name, profile, root) for name in chapters(root)):
        return False
    return path.read_text(encoding="utf-8") == _state(root, profile)


def _state(root: Path, profile: str) -> str:
    """Digests of what all pages are made from, and of the pages."""
    sources = [file for name in SOURCES for file in (root / name, *(root / name).rglob("*"))] + ledger_paths(root)
    for name in chapters(root):
        sources += [source_path(name, root), executed_path(name, profile, root)]
    made = [path for path in (root / HTML).rglob("*") if path.name != SEAL]
    return " ".join([profile, digest(LIBRARY.rglob("*.py"), LIBRARY), digest(sources, root), digest(made, root)])


def problems(html: Path) -> list[str]:
    """What the pages may not hold, which Sphinx does not look at in raw HTML: links to files or places that are not there, and anything loaded from outside."""
    found = []
    read = cache(_References)
    for path in sorted(html.rglob("*.html")):
        page = path.relative_to(html)
        if page.parts[0] == "_static":
            continue
        for tag, address in read(path).found:
            if why := _problem(tag, address, path, html.resolve(), read):
                found.append(f"{page.as_posix()}: <{tag}> {why} ({address[:100]})")
    return list(dict.fromkeys(found))


def missing(html: Path, executed: Mapping[str, Path]) -> list[str]:
    """Sliders and models of the executed chapters (page -> executed copy) that their pages do not show, and models without a script."""
    found = []
    for page, copy in executed.items():
        path = html / f"{page}.html"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for output in cell_outputs(json.loads(copy.read_text(encoding="utf-8"))):
            about = output.get("metadata", {})
            if SLIDERS in about and f'"model_id": "{output["data"][VIEW]["model_id"]}"' not in text:
                found.append(f"{page}.html lacks the slider {about[SLIDERS].get('title')!r}")
            if MODEL in about:
                name = about[MODEL]["name"]
                if f'data-model="{name}"' not in text:
                    found.append(f"{page}.html lacks the model {name!r}")
                if not (html / "_static" / "models" / f"{name}.js").is_file():
                    found.append(f"{page}.html shows the model {name!r}, whose script is not in the book")
    return found


class _References(HTMLParser):
    """Every address in a page, with the element that holds it, and the places that addresses may name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

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
                self.found += [("style", address) for address in re.findall(r"""url\(\s*["']?([^"')]+)""", value)]

    handle_startendtag = handle_starttag


def _problem(tag: str, address: str, page: Path, html: Path, read: Callable[[Path], _References]) -> str:
    """What is wrong with an address; empty if nothing is."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "has no readable address"
    if parts.scheme or parts.netloc:
        harmless = tag == "a" or parts.scheme in ("data", "mailto", "javascript", "about")
        return "" if harmless else "loads from outside"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.resolve().is_relative_to(html):
        return "leads out of the book"
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "leads to a file that is not there"
    if tag != "a" or target.suffix != ".html" or parts.fragment in ("", "top"):
        return ""
    return "" if unquote(parts.fragment) in read(target).places else "leads to a place that is not there"
