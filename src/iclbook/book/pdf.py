"""The whole book as one PDF: the built pages in their order, printed by Chromium.

``python -m iclbook.book.pdf`` prints the pages that ``iclbook build`` has left, as ``print.css`` lays them out. Sliders stand where they begin, models show their still
picture; folded text is open, folded code is left out, and the parts of a verdict and a figure's data and origin stay in the pages. What is looked up comes last.
"""

from __future__ import annotations

import base64
import os
import shutil
import sys
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import quote, unquote, urlsplit

from bs4 import BeautifulSoup, Tag
from selenium import webdriver

from ..claims.yaml_lines import read_yaml
from ..errors import UserError
from ..files import write_whole
from ..inputs import listed_pages
from ..project import find_root
from .pages import HTML

PDF = Path("_build") / "pdf" / "book.pdf"
#: What paper has no use for.
DROPPED = (
    "script, form, button, a.headerlink, .iclbook-live, details.above-input, details.below-input, details.above-output, "
    ".iclbook-strip .iclbook-parts, .iclbook-strip .iclbook-ties, .iclbook-origin"
)
#: Pages that are looked up and not read.
LOOKED_UP = ("book/notation", "book/scoreboard")
MATHJAX = "script[src*=tex-mml-chtml]"


def book_html(root: Path) -> str:
    """One HTML document of all built pages; its addresses are meant from the folder of :data:`PDF`.

    Raises:
        UserError: a page is not built.
    """
    names = sorted(listed_pages(root), key=lambda name: name in LOOKED_UP)
    articles, head, lines = "", "", ""
    for name in names:
        path = root / HTML / f"{name}.html"
        if not path.is_file():
            raise UserError(f"the page {name} is not built", "Run `iclbook build` first.")
        page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        if page.select(MATHJAX):
            head = _head(page, name)
        article = _article(page, name, names)
        articles += str(article)
        lines += f'<li><a href="#{_id(name)}">{escape(article.find("h1").get_text(" ", strip=True))}</a></li>'
    head = head or _head(page, name)  # no page has formulas
    config = read_yaml(root / "_config.yml")
    title, author = (escape(str(config.get(key, ""))) for key in ("title", "author"))
    return (
        f'<!doctype html><html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8"><title>{title}</title>'
        f'{head}<style>{_beside("print.css")}</style></head><body><section class="book-cover">'
        f'<p role="heading" aria-level="1" style="font-size:2.4em">{title}</p><p>{author}</p></section>'
        f'<nav class="book-contents"><h1>Contents</h1><ul>{lines}</ul></nav>{articles}</body></html>'
    )


def _head(page: BeautifulSoup, name: str) -> str:
    """Style sheets and formulas of a page."""
    kept = page.head.select(f"link[rel=stylesheet], {MATHJAX}")
    for tag in kept:
        where = "src" if tag.name == "script" else "href"
        tag[where] = f"../html/{_in_html(tag[where], name)}"
    kept += [tag for tag in page.head.select("script:not([src])") if (tag.string or "").startswith("window.MathJax")]
    return "".join(dict.fromkeys(map(str, kept)))


def _article(page: BeautifulSoup, name: str, names: list[str]) -> Tag:
    """The text of a page, made for paper."""
    article = page.find("article", class_="bd-article")
    for still in article.select(".iclbook-slider-still"):
        words = "".join(f"<p>{escape(still[key])}</p>" for key in ("data-title", "data-start") if still[key])
        still.wrap(page.new_tag("figure", attrs={"class": "iclbook-sliders"}))
        still.insert_before(BeautifulSoup(words, "html.parser"))
    for tag in article.select(DROPPED):
        tag.decompose()
    for tag in article.find_all("details"):
        tag["open"] = ""
    for note in article.select(".iclbook-verdict > .iclbook-note"):
        if len(note.get_text().split()) == 1:  # "reproduced": the badge says it
            note.decompose()
    for tag in article.find_all(id=True):
        if not tag.find_parent("svg"):
            tag["id"] = _id(name, tag["id"])
    article["id"] = _id(name)
    for tag in article.find_all("a", href=True):
        parts = urlsplit(tag["href"])
        if parts.scheme or parts.netloc:
            continue
        target = _in_html(parts.path, name).removesuffix(".html") if parts.path else name
        if target in names:
            tag["href"] = "#" + _id(target, unquote(parts.fragment))
        else:
            del tag["href"]  # leads to no page of the document
    for tag in article.find_all(["img", "source"]):
        del tag["loading"]
        for part in ("src", "srcset"):
            if tag.get(part) and not tag[part].startswith("data:"):
                tag[part] = f"../html/{_in_html(tag[part], name)}"
    return article


def _in_html(address: str, name: str) -> str:
    """An address of a page, from the folder of all pages."""
    return quote(normpath(join(dirname(name), unquote(urlsplit(address).path))))


def _id(page: str, fragment: str = "") -> str:
    return page.replace("/", "-") + (f"--{fragment}" if fragment else "")


#: Pixels between the margins of a page: what is laid out wider makes Chromium print everything smaller.
WIDTH = 680
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking")  # fmt: skip


def print_book(root: Path) -> Path:
    """Print the built pages; returns the PDF.

    Raises:
        UserError: a page that is not built, a picture or formula that cannot be shown.
    """
    page = root / PDF.with_suffix(".html")
    write_whole(page, book_html(root))
    write_whole(root / PDF, printed(page))
    return root / PDF


def printed(page: Path) -> bytes:
    """An HTML document as Chromium prints it, once ``print.js`` has made it ready; errors as for :func:`print_book`."""
    chromium, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver_path):  # Selenium would look for them on the network
        raise UserError("chromium or chromedriver is missing", "Install chromium and chromium-driver.")
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.binary_location = chromium
    with webdriver.Chrome(options, webdriver.ChromeService(driver_path)) as driver:
        driver.set_script_timeout(300)
        driver.command_executor.client_config.timeout = 600
        size = {"width": WIDTH, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        driver.get(page.as_uri())
        if lacking := driver.execute_async_script(_beside("print.js")):
            raise UserError(f"the book cannot be printed: {lacking[0]}", "Build the book again and look at its pages.")
        wanted = ("preferCSSPageSize", "printBackground", "generateDocumentOutline", "generateTaggedPDF")
        return base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", dict.fromkeys(wanted, True))["data"])


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


if __name__ == "__main__":
    try:
        print(f"The book is printed: {os.path.relpath(print_book(find_root()))}")
    except UserError as problem:
        sys.exit(f"error: {problem}")
