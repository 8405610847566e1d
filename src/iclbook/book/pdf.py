"""The book as one PDF, printed from the built pages by the Chromium that the tests drive."""

import base64
import os
import re
import shutil
from pathlib import Path
from posixpath import dirname, join, normpath

import yaml
from bs4 import BeautifulSoup, Tag

from ..errors import UserError, say
from ..project import find_root
from .pages import HTML

#: Where the PDF lies, below the book's folder.
PDF = Path("_build") / "book.pdf"
#: What has no meaning on paper.
LEFT_OUT = "script, .iclbook-live, .iclbook-origin, .widget-subarea, .iclbook-filters, details.above-input, details.below-input"
_LOADED = "return Promise.all([MathJax.startup.promise, ...[...document.images].map((i) => i.decode().catch(() => 0))]).then(() => true)"


def write(root: Path | None = None) -> Path:
    """Print the built pages in the order of the contents. No pages, and no Chromium, are a UserError."""
    root = (root or find_root()).resolve()
    if not (root / HTML / "index.html").is_file():
        raise UserError("there are no pages to print", "Run `iclbook build` first.")
    whole = root / "_build" / "book-in-one.html"
    whole.write_text(merged(root), encoding="utf-8")
    try:
        printed = _printed(whole)
    finally:
        whole.unlink()
    (root / PDF).write_bytes(printed)
    say(f"The book is at {os.path.relpath(root / PDF)}")
    return root / PDF


def merged(root: Path) -> str:
    """One page that holds the articles of all pages, everything unfolded; its addresses are those from ``_build``."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    listed = [toc["root"], *(each["file"] for part in toc.get("parts", [toc]) for each in part["chapters"])]
    names = [re.sub(r"\.(py|md)$", "", name) for name in listed]
    pages = {
        name: BeautifulSoup((root / HTML / f"{name}.html").read_text(encoding="utf-8"), "html.parser") for name in names
    }
    for name, page in pages.items():
        for element in page.select(f"article :is({LEFT_OUT})"):
            element.decompose()
        for element in page.find_all(["a", "img", "source", "link", "script"]):
            _readdress(element, name, pages)
        for picture in page.find_all("img"):
            picture.attrs.pop("loading", None)  # far below the window it would never be loaded
        for element in page.find_all(id=True):
            element["id"] = f"{_prefix(name)}{element['id']}"
        for fold in page.select("article details"):
            fold["open"] = ""
    first = pages[names[0]]
    math = [
        str(script)
        for script in first.find_all("script")
        if "MathJax" in script.text or "mathjax" in script.get("src", "")
    ]
    sheets = [str(sheet).replace('media="print"', "") for sheet in first.find_all("link", rel="stylesheet")]
    articles = "".join(
        f'<article class="bd-article" id="{_prefix(n)}" style="break-before: page">{p.article.decode_contents()}</article>'
        for n, p in pages.items()
    )
    head = f'<meta charset="utf-8"><title>{first.title.text}</title>{"".join(sheets + math)}'
    return f'<!doctype html><html lang="en" data-theme="light" data-mode="light"><head>{head}</head><body><main class="bd-content">{articles}</main></body></html>'


def _prefix(name: str) -> str:
    return f"{name.rpartition('/')[2]}--"


def _readdress(element: Tag, page: str, pages: dict[str, object]) -> None:
    """Addresses of pages become places, those of files are seen from ``_build``."""
    for attribute in ("href", "src", "srcset"):
        address = element.get(attribute, "")
        if not address or re.match(r"[a-z]+:", address):
            continue
        path, _, place = address.partition("#")
        target = normpath(join(dirname(page), path)) if path else f"{page}.html"
        if element.name == "a" and target.removesuffix(".html") in pages:
            element[attribute] = f"#{_prefix(target.removesuffix('.html'))}{place}"
        else:
            element[attribute] = f"{HTML.name}/{target.partition('?')[0]}"


def _printed(page: Path) -> bytes:
    """The PDF of a page, once its formulas and pictures are there."""
    try:
        from selenium import webdriver
    except ModuleNotFoundError as error:
        raise UserError("the book cannot be printed: selenium is not installed", "Run `make setup`.") from error
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (browser and driver):
        raise UserError(
            "the book cannot be printed: chromium and chromedriver are not installed",
            "On Debian: apt-get install chromium chromium-driver",
        )
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    chromium = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        chromium.set_script_timeout(1800)
        chromium.command_executor.client_config.timeout = 1800
        chromium.get(page.as_uri())
        chromium.execute_async_script(f"(async () => {{ {_LOADED} }})().then(arguments[0])")
        how = {"preferCSSPageSize": True, "printBackground": True, "generateDocumentOutline": True}
        return base64.b64decode(chromium.execute_cdp_cmd("Page.printToPDF", how)["data"])
    finally:
        chromium.quit()
