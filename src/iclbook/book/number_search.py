"""Numbers in the book's search: ``0.13`` or ``.13`` finds the sections and claims that print it. Sphinx drops numbers, and finds whole pages."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.search import js_index
from sphinx.search.en import SearchEnglish

#: Decimals, and whole numbers of three digits or more.
NUMBER = re.compile(r"(?<![\w.])(?:\d*\.\d+(?!\.?\d)|\d{3,}(?![\w.]*\d))")


class English(SearchEnglish):
    """English whose words include decimals, here and in the page that searches; one or two digits alone would be found everywhere."""

    js_splitter_code = r"""
var splitQuery = (query) => (query.match(/\d*\.\d+|[\p{L}\p{N}_]+/gu) ?? []).filter((word) => !/^\d{1,2}$/.test(word));
"""

    def split(self, input: str) -> list[str]:
        """Words and numbers of a text."""
        return [re.sub(r"^\.", "0.", word) for word in re.findall(r"\d*\.\d+|\w+", input)]


def add_numbers(app: Sphinx, exception: Exception | None) -> None:
    """On ``build-finished``: list every number with its section or claim in the search index, as the objects that a library's manual has."""
    file = Path(app.outdir) / "searchindex.js"
    if exception is not None or app.builder.name != "html":
        return
    index = js_index.loads(file.read_text(encoding="utf-8"))
    titles = {tuple(place): title for title, places in index["alltitles"].items() for place in places}
    numbers = {}
    for page, name in enumerate(index["docnames"]):
        reader = _Numbers()
        reader.feed((file.parent / f"{name}.html").read_text(encoding="utf-8"))
        numbers |= {(page, titles.get((page, at), index["titles"][page]), *found): 0 for at, *found in reader.found}
    names = list(dict.fromkeys(title for _, title, *_ in numbers))
    index["objnames"] = {i: ["iclbook", "number", name] for i, name in enumerate(names)}
    index["objects"] = {"": [[page, names.index(title), 1, *found] for page, title, *found in numbers]}
    file.write_text(js_index.dumps(index), encoding="utf-8")


class _Numbers(HTMLParser):
    """The numbers of a page, each with the section and the place, a claim or that section, in which it stands."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []
        self._open: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("section", "details", "pre", "script", "style"):
            self._open.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1][0] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        sections = [place for tag, place in self._open if tag == "section"]
        if sections and self._open[-1][0] in ("section", "details"):
            place = [place for _, place in self._open if place][-1]
            self.found += [(sections[-1], place, re.sub(r"^\.", "0.", number)) for number in NUMBER.findall(data)]
