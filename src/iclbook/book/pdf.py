"""The whole book as one PDF: the built pages in their order, printed by Chromium.

``python -m iclbook.book.pdf`` prints the pages that ``iclbook build`` has left. Sliders stand where they begin, models show their still picture; folded text is open,
folded code is left out, and the parts of a verdict and a figure's data and origin stay in the pages. What is looked up, and not read, follows the chapters.
"""

from __future__ import annotations

import base64
import os
import shutil
import sys
import tempfile
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import quote, unquote, urlsplit

from bs4 import BeautifulSoup, Tag

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
#: Pages before the chapters on the screen, after them on paper.
LOOKED_UP = ("book/notation", "book/scoreboard")
STYLE = """
@page { size: A4; margin: 14mm 15mm 17mm; @bottom-center { content: counter(page); font: 9pt sans-serif; color: #555; } }
@page :first { @bottom-center { content: ""; } }
html { font-size: 9pt; } body { background: #fff; display: block; line-height: 1.4; margin: 0; }
article.bd-article { display: block; max-width: none; padding: 0; }
article.bd-article, nav.book-contents { break-before: page; }
.book-cover { padding-top: 30%; text-align: center; } .book-cover p { color: #555; }
nav.book-contents ul { list-style: none; padding: 0; } nav.book-contents li { margin: .3em 0; } nav.book-contents li.part { font-weight: 600; margin-top: 1em; }
mjx-assistive-mml { display: none !important; } /* as wide as its formula unbroken; the printed formula is read as it stands */
h1, h2, h3, h4, dt, .iclbook-model-title { break-after: avoid; }
.bd-article h2, .bd-article h3, .bd-article h4 { margin: 1.2rem 0 .5rem; }
.bd-article p, .bd-article ul, .bd-article ol, .bd-article figure { margin-bottom: .6rem; } .bd-article :is(td, th, dd, .iclbook-sliders) p { margin: 0; }
.bd-article :is(.cell, pre) { margin: .5rem 0 !important; } .bd-article .cell_output { margin: 0 !important; } .bd-article figcaption { text-align: left; }
img, tr, figure, mjx-container[display="true"], .iclbook-verdict, .admonition-title, .iclbook-cards .sd-col { break-inside: avoid; }
.bd-article img:not(.iclbook-picture) { max-width: 76% !important; height: auto !important; }
.iclbook-cards .sd-row { display: grid; grid-template-columns: 1fr 1fr 1fr; } .iclbook-cards .sd-col { width: auto; }
.iclbook-verdict[open] { padding-bottom: .2rem; } .iclbook-verdict > summary::before { content: none !important; }
.iclbook-fold > summary { display: none; } /* "Read on" */
.bd-article dl { column-gap: 2em; columns: 2; } .bd-article dd { margin: 0 0 .5em 1em; }
.iclbook-premises-list ul { column-gap: 2em; columns: 2; font-size: .85em; }
.bd-article table, .bd-article .cell_output, .bd-article .math, .iclbook-scroll, .pst-scrollable-table-container { overflow: visible !important; max-width: 100%; }
.bd-article table { display: table; font-size: .8em; margin-bottom: .6rem; }
.bd-article td, .bd-article th { overflow-wrap: break-word; padding: .25em .5em; white-space: normal !important; }
.bd-article table.notation tr > :first-child { position: static; }
.bd-article table.book-rows :is(tbody, tr) { display: block; } table.book-rows thead, .bd-article table.book-rows td:empty { display: none; }
.bd-article table.book-rows { display: block; min-width: 0; } .bd-article table.book-rows tr { border-bottom: 1px solid #bbb; padding: .3em 0; }
.bd-article table.book-rows td { border: 0; display: inline; padding: 0 1em 0 0; } table.book-rows td::before { color: #555; content: attr(data-label) ": "; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8em; }
"""


def book_html(root: Path) -> str:
    """One HTML document of all built pages; its addresses are meant from the folder of :data:`PDF`.

    Raises:
        UserError: a page is not built.
    """
    names = _in_order(listed_pages(root))
    soups = {}
    for name in names:
        path = root / HTML / f"{name}.html"
        if not path.is_file():
            raise UserError(f"the page {name} is not built", "Run `iclbook build` first.")
        soups[name] = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    articles = {name: _article(soup, name, names) for name, soup in soups.items()}
    config = read_yaml(root / "_config.yml")
    title, author = (escape(str(config.get(key, ""))) for key in ("title", "author"))
    lines = "".join(
        f'<li><a href="#{_id(name)}">{escape(article.find("h1").get_text(" ", strip=True))}</a></li>'
        for name, article in articles.items()
    )
    with_formulas = next(page for page in reversed(soups.values()) if page.find("script", src=_is_mathjax))
    return (
        f'<!doctype html><html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8"><title>{title}</title>'
        f'{_head(with_formulas)}<style>{STYLE}</style></head><body><section class="book-cover">'
        f'<p role="heading" aria-level="1" style="font-size:2.4em">{title}</p><p>{author}</p></section>'
        f'<nav class="book-contents"><h1>Contents</h1><ul>{lines}</ul></nav>{"".join(map(str, articles.values()))}</body></html>'
    )


def _in_order(names: list[str]) -> list[str]:
    """The pages in the order of paper: those of :data:`LOOKED_UP` follow the last chapter."""
    read = [name for name in names if name not in LOOKED_UP]
    end = max((i for i, name in enumerate(read, 1) if name.startswith("notebooks/")), default=len(read))
    return read[:end] + [name for name in names if name in LOOKED_UP] + read[end:]


def _head(page: BeautifulSoup) -> str:
    """Style sheets and formulas of a page."""
    kept = []
    for tag in page.head.find_all(["link", "script"]):
        if tag.name == "link" and "stylesheet" in (tag.get("rel") or ()):
            kept.append(f'<link rel="stylesheet" href="../html/{_in_html(tag["href"], "folder/page")}">')
        elif _is_mathjax(tag.get("src")):
            kept.append(f'<script defer src="../html/{_in_html(tag["src"], "folder/page")}"></script>')
        elif (tag.string or "").startswith("window.MathJax"):
            kept.append(str(tag))
    return "".join(dict.fromkeys(kept))


def _is_mathjax(address: str | None) -> bool:
    return "/tex-mml-chtml.js" in (address or "")


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


#: Waits for every picture and formula; makes tables that are wider than the page smaller, or much wider ones to lists of labelled cells, and formulas smaller;
#: then says what is not shown.
READY = """
const done = arguments[0];
const pictures = [...document.images];
Promise.all([window.MathJax?.startup?.promise, document.fonts.ready, ...pictures.map((i) => i.decode().catch(() => 0))]).then(() => {
  const width = (element) => element.getBoundingClientRect().width;
  const tables = [...document.querySelectorAll("article table")].map((table) => [table, width(table) / width(table.parentElement)]);
  for (const [table, excess] of tables) {
    if (excess > 1.2 && table.querySelector("td[data-label]")) table.classList.add("book-rows");
    else if (excess > 1) table.style.fontSize = `${0.78 / excess}em`;
  }
  const excesses = [...document.querySelectorAll("mjx-container")].map((formula) =>
    [formula, width(formula.querySelector("mjx-math") ?? formula) / width(formula.closest("p, div, li, td, dd") ?? document.body)]);
  for (const [formula, excess] of excesses) if (excess > 1) formula.style.fontSize = `${95 / excess}%`;
  done([
    ...pictures.filter((i) => !i.naturalWidth).map((i) => "the picture " + i.src.slice(-80)),
    ...[...document.querySelectorAll("mjx-merror")].map((e) => "the formula " + e.title),
  ]);
});
"""
#: Pixels between the margins of a page: what is laid out wider makes Chromium print everything smaller.
WIDTH = 680
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking")  # fmt: skip


def print_book(root: Path) -> Path:
    """Print the built pages; returns the PDF.

    Raises:
        UserError: a page that is not built, no Chromium, a picture or formula that cannot be shown.
    """
    page = root / PDF.with_suffix(".html")
    write_whole(page, book_html(root))
    write_whole(root / PDF, printed(page))
    return root / PDF


def printed(page: Path) -> bytes:
    """An HTML document as Chromium prints it; errors as for :func:`print_book`."""
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException

    options = webdriver.ChromeOptions()
    with tempfile.TemporaryDirectory(prefix="iclbook-print-", ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        try:
            options.binary_location = shutil.which("chromium") or ""
            driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver"))
        except WebDriverException as problem:
            raise UserError(
                f"Chromium does not start ({problem.msg})", "Install chromium and chromium-driver, then repeat."
            ) from None
        try:
            driver.set_script_timeout(300)
            driver.command_executor.client_config.timeout = 600
            size = {"width": WIDTH, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
            driver.get(page.as_uri())
            if lacking := driver.execute_async_script(READY):
                raise UserError(
                    f"the book cannot be printed: {lacking[0]}", "Build the book again and look at its pages."
                )
            wanted = ("preferCSSPageSize", "printBackground", "generateDocumentOutline", "generateTaggedPDF")
            return base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", dict.fromkeys(wanted, True))["data"])
        finally:
            driver.quit()


if __name__ == "__main__":
    try:
        print(f"The book is printed: {os.path.relpath(print_book(find_root()))}")
    except UserError as problem:
        sys.exit(f"error: {problem}")
