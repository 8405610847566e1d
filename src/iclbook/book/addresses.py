"""Ways to a page: links to the repository, the preview that a message with a page's address shows, and the text that the book's search reads.

The first two hang on one setting of ``_config.yml``, ``repository: url``; ``html: baseurl`` is needed where pages stand elsewhere than that host puts them. While it is
empty, no page names an address. Search finds words and numbers such as ``0.13`` or ``.13`` in sections and claims (``book/assets/search.js``), from the disk too.
"""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

from .. import formulas

BUTTONS = ("use_repository_button", "use_source_button", "use_issues_button", "use_edit_page_button")
LONGEST = 200


def switch_buttons(app: Sphinx, config: Config) -> None:
    """On ``config-inited``: buttons for the repository, its sources, feedback and launching stand exactly where an address is known; and pages have theirs."""
    options = config.html_theme_options
    known = bool(options.get("repository_url"))
    config.html_baseurl = config.html_baseurl or pages_address(options.get("repository_url", ""))
    options.update(dict.fromkeys(BUTTONS, known))
    if not known:
        options.pop("launch_buttons", None)


def pages_address(repository: str) -> str:
    """Where the host of a repository puts its pages; empty where that is not known."""
    found = re.fullmatch(r"https://(github|gitlab)\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?", repository)
    return f"https://{found[2].lower()}.{found[1]}.io/{found[3]}" if found else ""


def describe_page(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """On ``html-page-context``: the page's first paragraph is its description; the preview that a message shows is its first picture, where the book has an address."""
    if doctree is None:
        return
    title, text = app.env.titles[pagename].astext(), first_paragraph(doctree)
    about = {"description": text, "og:title": title, "og:type": "article", "og:description": text}
    about["og:site_name"] = app.config.html_title or title
    if base := app.config.html_baseurl.rstrip("/"):
        about["og:url"] = f"{base}/{pagename}.html"
        drawn = [picture["uri"] for picture in doctree.findall(nodes.image)]  # addresses from the page by now
        drawn += re.findall(
            r'<img[^>]* src="([^":]+\.png)"', "".join(raw.astext() for raw in doctree.findall(nodes.raw))
        )
        if drawn:
            about["og:image"] = f"{base}/{normpath(join(dirname(pagename), drawn[0]))}"
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

#: Read and not searched: code, pictures, what folds out below a figure, and the scoreboard's copy of what the chapters say.
PLACES = ("section", "details")
BLOCKS = ("p", "li", "td", "th", "div", "dt", "dd", "summary", "figcaption", "details")
SKIPPED = "pre, script, details.above-input, style, figure[data-model] .says, .iclbook-origin, .iclbook-list, .iclbook-cite, a.headerlink, .iclbook-permalink, .iclbook-verdict > summary .iclbook-badge"


def write_search_text(app: Sphinx, exception: Exception | None) -> None:
    """On ``build-finished``: the text of every section and claim, as a script, since a page opened from the disk may load scripts only; Sphinx's own index goes."""
    if exception is not None:
        return
    out = Path(app.outdir)
    (out / "searchindex.js").unlink(missing_ok=True)
    found = [
        [name, *entry]
        for name in sorted(app.env.found_docs)
        for entry in entries((out / f"{name}.html").read_text(encoding="utf-8"))
    ]
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    (out / "_static" / "search_text.js").write_text(f"iclbookSearch({text});\n", encoding="utf-8")


def entries(page: str) -> Iterator[tuple[str, str, str, str]]:
    """Sections and claims of a page: the place, the page's title, its own title, and the text, a line for each paragraph, without what has a place of its own."""
    article = BeautifulSoup(page, "html.parser").find("article")
    if article is None:
        return
    for element in article.select(SKIPPED):
        element.decompose()
    heading = article.find("h1")
    title = _text([str(heading.get_text())]) if heading else ""
    places = article.select("section[id], details.iclbook-verdict[id]")
    names = {}
    for place in places:
        named = place.select_one(".iclbook-line") if place.name == "details" else place.find(["h1", "h2", "h3", "h4"])
        names[place["id"]] = textwrap.shorten(_text([named.get_text()]), 100, placeholder=" \u2026") if named else title
        if named and place.name == "section":
            named.clear()  # the title is shown beside the text
    parts, last = {place["id"]: [] for place in places}, None
    for words in article.strings:
        inner, block = words.find_parent(PLACES, id=True), words.find_parent(BLOCKS)
        if inner and inner["id"] in parts:
            parts[inner["id"]].append(f"\0{words}" if block is not last else str(words))
            last = block
    for place, found in parts.items():
        yield place, title, names[place], _text(found)


def _text(parts: Iterable[str]) -> str:
    """Words in one, formulas in letters, a line for each paragraph (which begins with a zero byte)."""
    text = re.sub(r"\\\((.+?)\\\)|\\\[.+?\\\]", _spoken, "".join(parts), flags=re.DOTALL)
    lines = (re.sub(r"\s+([.,;:)])(?!\d)", r"\1", " ".join(line.split())) for line in text.split("\0"))
    return "\n".join(filter(None, lines))


@cache
def _letters(formula: str) -> str:
    try:
        return formulas.plain(f"${formula}$")
    except ValueError:  # TeX that only MathJax reads
        return " "


def _spoken(match: re.Match) -> str:
    return _letters(match[1]) if match[1] else " "
