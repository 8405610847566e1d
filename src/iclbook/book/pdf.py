"""The whole book as one PDF: the built pages in their order, printed by Chromium.

``python -m iclbook.book.pdf`` prints the pages that ``iclbook build`` has left. Sliders stand where they begin, models show their still picture; folded text is open,
folded code is left out, and the parts of a verdict and a figure's data and origin stay in the pages. What is looked up, and not read, follows the chapters.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import tempfile
from html import escape
from pathlib import Path
from posixpath import normpath
from urllib.parse import quote, unquote, urlsplit

from bs4 import BeautifulSoup, Tag

from ..claims.yaml_lines import read_yaml
from ..errors import UserError
from ..inputs import listed_pages
from ..project import find_root
from ..references import write_text
from . import lazy, pages

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
    html = root / pages.HTML
    names = _in_order(listed_pages(root))
    for name in names:
        if not (html / f"{name}.html").is_file():
            raise UserError(f"the page {name} is not built", "Run `iclbook build` first.")
    soups = {name: BeautifulSoup((html / f"{name}.html").read_text(encoding="utf-8"), "html.parser") for name in names}
    articles = {name: _article(soup, name, names, html) for name, soup in soups.items()}
    config = read_yaml(root / "_config.yml").value
    title = escape(str(config.get("title", "")))
    head = _head(next(soup for soup in reversed(soups.values()) if soup.find("script", src=_is_mathjax)))
    cover = (
        f'<section class="book-cover"><p role="heading" aria-level="1" style="font-size:2.4em">{title}</p>'
        f"<p>{escape(str(config.get('author', '')))}</p></section>"
    )
    return (
        f'<!doctype html><html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8"><title>{title}</title>{head}'
        f"<style>{STYLE}</style></head><body>{cover}{_contents(articles)}{''.join(map(str, articles.values()))}</body></html>"
    )


def _in_order(names: list[str]) -> list[str]:
    """The pages in the order of paper: those of :data:`LOOKED_UP` follow the last chapter."""
    read = [name for name in names if name not in LOOKED_UP]
    end = max((i for i, name in enumerate(read, 1) if name.startswith("notebooks/")), default=len(read))
    return read[:end] + [name for name in names if name in LOOKED_UP] + read[end:]


def _head(page: BeautifulSoup) -> str:
    """Style sheets and formulas of a page whose address is two folders up from ``_static``."""
    kept = []
    for tag in page.head.find_all(["link", "script"]):
        address = tag.get("href") or tag.get("src") or ""
        if tag.name == "link" and "stylesheet" in (tag.get("rel") or ()):
            kept.append(f'<link rel="stylesheet" href="../html/{_in_html(address, "x/y")}">')
        elif _is_mathjax(address):
            kept.append(f'<script defer src="../html/{_in_html(address, "x/y")}"></script>')
        elif (tag.string or "").startswith("window.MathJax"):
            kept.append(str(tag))
    return "".join(dict.fromkeys(kept))


def _is_mathjax(address: str | None) -> bool:
    return bool(address) and "/tex-mml-chtml.js" in address


def _contents(articles: dict[str, Tag]) -> str:
    lines = []
    for name, article in articles.items():
        heading = article.find("h1")
        title = heading.get_text(" ", strip=True) if heading else name
        lines.append(f'<li><a href="#{_id(name)}">{escape(title)}</a></li>')
    return f'<nav class="book-contents"><h1>Contents</h1><ul>{"".join(lines)}</ul></nav>'


def _article(page: BeautifulSoup, name: str, names: list[str], html: Path) -> Tag:
    """The text of a page, made for paper."""
    article = page.find("article", class_="bd-article")
    if article is None:
        raise UserError(f"the page {name} has no text", "Build the book again: remove _build, `iclbook build`.")
    _replace_sliders(page, article, name, html)
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
        _relink(tag, name, names)
    for tag in article.find_all(["img", "source"]):
        del tag["loading"]
        for part in ("src", "srcset"):
            if tag.get(part) and not tag[part].startswith("data:"):
                tag[part] = f"../html/{_in_html(tag[part], name)}"
    return article


def _replace_sliders(page: BeautifulSoup, article: Tag, name: str, html: Path) -> None:
    """Put the picture at which each slider figure begins, with its words, in the figure's place.

    Raises:
        UserError: a slider figure without a picture.
    """
    stored = page.find("script", attrs={"data-state": True})  # what lazy.js would load, beside the page
    inside = page.find("script", type=lazy.STATE)
    if stored:
        state = lazy.read_state(html / lazy.FILES / Path(stored["data-state"]).name)
    else:
        state = json.loads(inside.string)["state"] if inside else {}
    for still in article.select(".iclbook-slider-still"):
        still.decompose()
    for view in article.find_all("script", type=lazy.VIEW):
        captioned = view.find_parent("figure", class_="iclbook-slider-figure") is not None
        parts = list(_shown(state, json.loads(view.string)["model_id"], captioned))
        if not any("<img" in part for part in parts):
            raise UserError(f"a slider figure of {name} has no picture", "Run its chapter again and build the book.")
        figure = BeautifulSoup(f'<figure class="iclbook-sliders">{"".join(parts)}</figure>', "html.parser")
        view.replace_with(figure)


def _shown(state: dict, model: str, captioned: bool):
    """The HTML that a widget shows at the start, in order; and where its sliders stand, in words. Without the description that its caption says."""
    widget = state.get(model.removeprefix("IPY_MODEL_"), {}).get("state", {})
    kind, children = widget.get("_model_name", ""), widget.get("children", [])
    if captioned and "iclbook-description" in widget.get("_dom_classes", []):
        return
    if kind == "HTMLModel":
        yield f"<div>{widget['value']}</div>"
    elif kind in ("SelectionSliderModel", "ToggleButtonsModel"):
        label = widget["_options_labels"][widget["index"]]
        yield f"<p>{escape(widget.get('description', ''))}: {escape(str(label))}</p>"
    elif kind == "StackModel":
        children = children[widget["selected_index"] or 0 :][:1]
    for child in children:
        yield from _shown(state, child, captioned)


def _relink(tag: Tag, name: str, names: list[str]) -> None:
    """Turn a link to a page of the book into one within the document; what is in neither stays as words."""
    parts = urlsplit(tag["href"])
    if parts.scheme or parts.netloc:
        return
    page = _in_html(parts.path, name).removesuffix(".html") if parts.path else name
    if page in names:
        tag["href"] = "#" + _id(page, unquote(parts.fragment))
    else:
        del tag["href"]


def _in_html(address: str, name: str) -> str:
    """An address of a page, from the folder of all pages."""
    path = urlsplit(address).path
    return quote(normpath(unquote(path if "/" not in name else f"{name.rpartition('/')[0]}/{path}")))


def _id(page: str, fragment: str = "") -> str:
    return page.replace("/", "-") + (f"--{fragment}" if fragment else "")


def print_book(root: Path) -> Path:
    """Print the built pages; returns the PDF.

    Raises:
        UserError: a page that is not built, no Chromium, a picture or formula that cannot be shown.
    """
    for command in ("chromium", "chromedriver"):
        if shutil.which(command) is None:
            raise UserError(f"{command} is not installed", "Install chromium and chromium-driver, then repeat.")
    page = root / PDF.with_suffix(".html")
    write_text(page, book_html(root))
    data = _printed(page)
    partial = (root / PDF).with_suffix(".part")
    partial.write_bytes(data)
    os.replace(partial, root / PDF)
    return root / PDF


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


def _printed(page: Path) -> bytes:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    with tempfile.TemporaryDirectory(prefix="iclbook-print-", ignore_cleanup_errors=True) as profile:
        for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-background-networking", f"--user-data-dir={profile}"):  # fmt: skip
            options.add_argument(flag)
        try:
            driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        except WebDriverException as problem:
            raise UserError(f"Chromium does not start ({problem.msg})", "Install it anew.") from None
        try:
            driver.set_script_timeout(300)
            driver.command_executor.client_config.timeout = 600
            size = {"width": WIDTH, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
            driver.get(page.as_uri())
            lacking = driver.execute_async_script(READY)
            if lacking:
                raise UserError(
                    f"the book cannot be printed: {lacking[0]}", "Build the book again and look at its pages."
                )
            settings = {
                "preferCSSPageSize": True,
                "printBackground": True,
                "generateDocumentOutline": True,
                "generateTaggedPDF": True,
            }
            return base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", settings)["data"])
        finally:
            driver.quit()


def main() -> int:
    """Print the book and say where it is."""
    try:
        path = print_book(find_root())
    except UserError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    print(f"The book is printed: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
