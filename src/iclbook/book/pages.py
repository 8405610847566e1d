"""Whether the built pages are up to date, and what a page may hold.

A build that succeeded leaves a digest of what it made, and of all that it was made from. While both are unchanged there is nothing to build; otherwise every
page is made anew. Times of files do not count: they say nothing once a cache was restored or a folder copied.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

from ..files import write_whole
from ..inputs import LIBRARY, chapters, digest, executed_path, is_stale, source_path
from ..project import ledger_paths

#: Where the pages are, below the book's folder.
HTML = Path("_build") / "html"
#: Beside the pages; a dot keeps it out of what a web server shows.
SEAL = ".sealed"
#: What pages are made from, beside chapters, ledgers and the library.
SOURCES = ("_config.yml", "_toc.yml", "book", "references", "lock.txt")


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
    library = digest((path for path in LIBRARY.rglob("*.*") if path.suffix in (".py", ".c", ".h")), LIBRARY)
    return " ".join([profile, library, digest(sources, root), digest(made, root)])


def problems(html: Path) -> list[str]:
    """Faults in raw HTML that Sphinx does not check: links to files or places that are not there, anything loaded from outside, and scripts in attributes."""
    html = html.resolve()
    paths = [path for path in sorted(html.rglob("*.html")) if path.relative_to(html).parts[0] != "_static"]
    pages = {path: _references(path, html) for path in paths}
    found = []
    for path, (addresses, _) in pages.items():
        for tag, address in addresses:
            if why := _problem(tag, address, path, html, pages):
                found.append(f"{path.relative_to(html).as_posix()}: <{tag}> {why} ({address[:100]})")
    for path in sorted(html.rglob("*.css")):
        outside = [a for a in map("".join, _IN_STYLES.findall(path.read_text(encoding="utf-8"))) if urlsplit(a).netloc]
        found += [f"{path.relative_to(html).as_posix()}: loads from outside ({address[:100]})" for address in outside]
    return list(dict.fromkeys(found))


#: Every address in a page, with the element that holds it, and the places that addresses may name.
References = tuple[list[tuple[str, str]], set[str]]


#: An address in a style, one outside in a script within a page, and what the theme's buttons do.
_IN_STYLES = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
_IN_SCRIPTS = re.compile(r"""["'`]((?:(?:https?|wss?):)?//[\w.-]+\.[^"'`]*)""")
_OF_THE_THEME = ("toggleFullScreen()", "window.print()")


def _references(path: Path, html: Path) -> References:
    found, page = [], BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    top = "../" * (len(path.relative_to(html).parts) - 1)
    for tag in page.find_all(True):
        if tag.name == "link" and "canonical" in tag.get("rel", ()):
            continue  # says where the page stands; nothing is loaded
        if tag.name == "style":
            found += [("style", "".join(address)) for address in _IN_STYLES.findall(tag.get_text())]
        elif tag.name == "script" and "json" not in tag.get("type", ""):
            found += [("script", address) for address in _IN_SCRIPTS.findall(tag.get_text())]
        elif tag.name == "meta" and "url=" in (content := tag.get("content", "").lower()):
            found.append(("meta", content.partition("url=")[2].strip("'\" ")))
        for name, value in tag.attrs.items():
            if name in ("src", "href", "data", "poster", "action", "formaction", "xlink:href", "background") and value:
                found.append((tag.name, value.strip()))
            elif name == "ping":
                found += [("ping", address) for address in value.split()]
            elif name == "srcdoc" or (name.startswith("on") and value not in _OF_THE_THEME):
                found.append((tag.name, f"javascript:{value}"))
            elif name == "srcset":
                found += [(tag.name, " ".join(part.split()[:1])) for part in value.split(",")]
            elif name == "style":
                found += [("style", address) for address in map("".join, _IN_STYLES.findall(value))]
            elif name == "data-model":
                found.append(("script", f"{top}_static/models/{value}.js"))
    return found, {tag["id"] for tag in page.find_all(id=True)}


def _problem(tag: str, address: str, page: Path, html: Path, pages: Mapping[Path, References]) -> str:
    """Fault of an address in a few words; empty if there is none."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "has no valid address"
    if parts.scheme or parts.netloc:
        holds_pages = tag in ("object", "embed", "iframe", "script")
        if parts.scheme in ("javascript", "vbscript") or (parts.scheme == "data" and holds_pages):
            return "runs a script that is not the book's"
        harmless = tag == "a" or parts.scheme in ("data", "mailto", "about")
        return "" if harmless else "loads from outside"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_relative_to(html):
        return "leads out of the book"
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "leads to a file that is not there"
    places = pages[target][1] if tag == "a" and target in pages else (parts.fragment,)
    return "" if unquote(parts.fragment) in ("", "top", *places) else "leads to a place that is not there"
