"""Ways to a page: links to the repository, the preview that a message with a page's address shows, and numbers in the book's search.

The first two hang on two settings of ``_config.yml``: ``repository: url`` and ``html: baseurl``. While they are empty, no page names an address. Search finds ``0.13`` or
``.13`` in the sections and claims that print it; Sphinx drops numbers, and finds whole pages.
"""

import re
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.search import js_index
from sphinx.search.en import SearchEnglish

BUTTONS = ("use_repository_button", "use_issues_button", "use_edit_page_button")
LONGEST = 200


def switch_buttons(app: Sphinx, config: Config) -> None:
    """On ``config-inited``: buttons for the repository, for feedback and for launching stand exactly where an address is known."""
    options = config.html_theme_options
    known = bool(options.get("repository_url"))
    options.update(dict.fromkeys(BUTTONS, known))
    if not known:
        options.pop("launch_buttons", None)


def describe_page(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """On ``html-page-context``: the page's first paragraph is its description; the preview that a message shows is its first picture, where the book has an address."""
    if doctree is None:
        return
    title, text = app.env.titles[pagename].astext(), first_paragraph(doctree)
    about = {"description": text, "og:title": title, "og:type": "article", "og:description": text}
    about["og:site_name"] = app.config.html_title or title
    if base := app.config.html_baseurl.rstrip("/"):
        about["og:url"] = f"{base}/{pagename}.html"
        if picture := next(doctree.findall(nodes.image), None):  # its address is that from the page by now
            about["og:image"] = f"{base}/{normpath(join(dirname(pagename), picture['uri']))}"
            about["twitter:card"] = "summary_large_image"
    for name, value in about.items():
        if value:
            kind = "property" if name.startswith("og:") else "name"
            context["metatags"] = f'{context.get("metatags", "")}\n<meta {kind}="{name}" content="{escape(value)}">'


def first_paragraph(document: nodes.document) -> str:
    """The beginning of the first paragraph of running text, whole sentences if one fits, without the signs and indices of formulas; none, the empty string."""
    for paragraph in document.findall(nodes.paragraph):
        words = " ".join(re.sub(r"_(\\?\w+|\{[^}]*\})|[\\${}]", "", paragraph.astext()).split())
        inside = isinstance(paragraph.parent, nodes.section | nodes.document)
        if inside and len(words) > 40 and not all(isinstance(c, nodes.emphasis) for c in paragraph.children):
            cut = re.match(r".{41,198}(?<!et al)[.?!](?= )", words)
            return cut[0] if cut and len(words) > LONGEST else textwrap.shorten(words, LONGEST, placeholder="\u2026")
    return ""


# -- search ------------------------------------------------------------------------------------------------------------

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
    if exception is not None:
        return
    file = Path(app.outdir) / "searchindex.js"
    index = js_index.loads(file.read_text(encoding="utf-8"))
    titles = {tuple(place): title for title, places in index["alltitles"].items() for place in places}
    numbers = {}
    for page, name in enumerate(index["docnames"]):
        for section, place, number in _numbers((file.parent / f"{name}.html").read_text(encoding="utf-8")):
            numbers[page, titles.get((page, section), index["titles"][page]), place, number] = 0
    names = list(dict.fromkeys(title for _, title, *_ in numbers))
    index["objnames"] = {i: ["iclbook", "number", name] for i, name in enumerate(names)}
    index["objects"] = {"": [[page, names.index(title), 1, *found] for page, title, *found in numbers]}
    file.write_text(js_index.dumps(index), encoding="utf-8")


def _numbers(page: str) -> Iterator[tuple[str, str, str]]:
    """The numbers of a page, each with the section and the place, a claim or that section, in which it stands."""
    for text in BeautifulSoup(page, "html.parser").strings:
        section = text.find_parent("section")
        if section and text.find_parent(["section", "details", "pre"]).name != "pre":
            place = text.find_parent(["section", "details"], id=True)["id"]
            for number in NUMBER.findall(text):
                yield section["id"], place, re.sub(r"^\.", "0.", number)
