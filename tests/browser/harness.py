"""Drive a headless Chromium over a built book and see what a reader would see.

Needs the commands ``chromium`` and ``chromedriver`` (Debian packages chromium, chromium-driver); nothing is downloaded.
"""

import base64
import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from waiting import LIMIT, wait_until

VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]'
WIDE, NARROW = 1400, 390
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def missing() -> str | None:
    """Why no browser can be driven here, or None."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return (
        f"not installed: {', '.join(lacking)} (Debian: apt-get install chromium chromium-driver)" if lacking else None
    )


def require() -> None:
    """Skip where no browser can be driven; fail where the tests in a browser are part of the proof."""
    if reason := missing():
        proof = os.environ.get("CI") or os.environ.get("ICLBOOK_REQUIRE_BROWSER") == "1"
        (pytest.fail if proof else pytest.skip)(reason)


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve ``folder`` on this machine only; gives the address, ending in a slash."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Browser:
    """A headless Chromium with a fresh profile that remembers each page's console and network traffic."""

    def __init__(self, *flags: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="iclbook-chromium-")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (*FLAGS, *flags, f"--user-data-dir={self._profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options, service)
        self.driver.set_script_timeout(LIMIT)
        self.driver.set_page_load_timeout(LIMIT)
        self.requests: list[str] = []
        self.failures: list[str] = []
        self.console: list[str] = []
        self._on_the_way: dict[str, str] = {}  # address of a request of this page that has no end yet
        self.driver.get("about:blank")  # leave the browser's own start page, and its failing requests, behind
        self.driver.execute_cdp_cmd(
            "Emulation.setFocusEmulationEnabled", {"enabled": True}
        )  # whatever window has the focus
        self.frames()
        self._forget()

    def close(self) -> None:
        self.driver.quit()
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, address: str, *, width: int = WIDE, theme: str = "light", folds: bool = True) -> None:
        """Open a page, as wide as given, and the sections that are closed on it, and wait until formulas and widgets are drawn."""
        self.load(address, width=width)
        self.draw(theme=theme, folds=folds)

    def load(self, address: str, *, width: int = WIDE) -> None:
        """Load a page, and no more than a reader sees of it before scrolling."""
        self.driver.get("about:blank")  # what the page before still asks for is not this page's
        self._forget()
        self.resize(width)
        self.driver.get(address)
        self._wait("document.readyState === 'complete'")

    def first_view(self, page: Path) -> tuple[dict[str, int], int]:
        """Load a page from the disk: bytes of every file that it loads before a reader scrolls, and of those that must be there before its first paint."""
        self.load(page.as_uri())
        self.typeset()
        self.rest()  # pictures near the window, fonts of formulas
        assert self.problems() == [], page
        self._wait("performance.getEntriesByName('first-contentful-paint').length")
        size = lambda urls: {name: Path(name).stat().st_size for name in {unquote(urlsplit(url).path) for url in urls}}  # noqa: E731
        files = size(url for url in self.requests if url.startswith("file:"))
        return files, sum(size(self._run(BLOCKING)).values())

    def draw(self, *, theme: str = "light", folds: bool = True) -> None:
        """Bring all of the loaded page to the window, and wait until formulas and widgets are drawn."""
        # The theme keeps the reader's choice; set it as its button does.
        self.theme(theme)
        if folds:
            self.unfold()
        self._run("window.iclbookSliders?.()")  # a reader's coming near loads them
        self._wait(
            "[...document.querySelectorAll(arguments[0])].every(view =>"
            " view.previousElementSibling?.matches('.widget-subarea') &&"
            " view.previousElementSibling.childElementCount > 0)",
            VIEW,
        )
        self.settle()

    def unfold(self) -> None:
        """Open the sections that are closed on the page."""
        self._run("document.querySelectorAll('details.iclbook-fold').forEach((fold) => (fold.open = true))")

    def settle(self) -> None:
        """Wait until pictures in sight or out of the window, also those that a slider has brought, and formulas are drawn."""
        self.driver.execute_script("for (const image of document.images) image.loading = 'eager'")
        self._wait("[...document.images].every(image => image.complete || !image.checkVisibility())")
        self.typeset()

    def typeset(self) -> None:
        """Wait until formulas are drawn."""
        self._async("Promise.resolve(window.MathJax?.startup?.promise)")
        self.frames()

    def frames(self, count: int = 2) -> None:
        """Wait until the browser has drawn ``count`` more pictures."""
        self._async(
            "(async () => { for (let i = 0; i < arguments[0]; i++) await new Promise(requestAnimationFrame); })()",
            count,
        )
        self._collect()

    def rest(self) -> None:
        """Wait until nothing is on its way, and an idle moment and two more pictures ask for nothing more."""
        asked = -1
        while asked < len(self.requests):
            asked = len(self.requests)
            self._async("new Promise((go) => requestIdleCallback(() => go()))")
            self.frames()
            wait_until(lambda: not self._awaited(), self._awaited)

    def _awaited(self) -> list[str]:
        """Addresses of files that are on their way; the end of a worker's own script is not told."""
        self._collect()
        return [address for address in self._on_the_way.values() if not address.startswith("blob:")]

    def calls(self, script: str, *arguments) -> tuple[Any, int]:
        """What a script gives in the end, and the calls of functions of the page's own scripts meanwhile, which are the same on every machine."""
        command = self.driver.execute_cdp_cmd
        command("Profiler.enable", {})
        command("Profiler.startPreciseCoverage", {"callCount": True, "detailed": False})
        given = self.driver.execute_async_script(script, *arguments)
        scripts = command("Profiler.takePreciseCoverage", {})["result"]
        command("Profiler.disable", {})
        own = [function for script in scripts if script["url"] for function in script["functions"]]
        return given, sum(function["ranges"][0]["count"] for function in own)

    def resize(self, width: int, height: int = 1000) -> None:
        """Lay the page out for a window of ``width`` CSS pixels, narrower than a desktop window can be if asked."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def theme(self, name: str) -> None:
        """Show the "light" or the "dark" page, by the page's own button where it has one."""
        for _ in range(4):
            if self._run("return document.documentElement.dataset.theme") == name:
                return
            self._run("document.querySelector('.theme-switch-button')?.click()")
        self._run("document.documentElement.dataset.theme = document.documentElement.dataset.mode = arguments[0]", name)

    def problems(self) -> list[str]:
        """What went wrong since the page was opened: console errors, failed requests, requests to other machines."""
        self._collect()
        strangers = [f"request to {url[:200]}" for url in self.requests if not is_local(url)]
        return [*self.console, *self.failures, *strangers]

    def scrolls_sideways(self) -> bool:
        """Whether the page as a whole is wider than the window."""
        return self._run(
            "const d = document.documentElement;"
            "return Math.max(d.scrollWidth, document.body.scrollWidth) > window.innerWidth + 1"
        )

    def faults(self, theme: str) -> list[str]:
        """What a reader would object to on the open page in this theme: errors, sideways scrolling, squeezed pictures, models that do not run."""
        self.theme(theme)
        found = self.problems()
        if self.scrolls_sideways():
            found.append("scrolls sideways")
        if (shown := self._run("return document.documentElement.dataset.theme")) != theme:
            found.append(f"theme {shown} in place of {theme}")
        return found + self._run(FAULTS)

    def panels(self) -> "list[PagePanel]":
        """The page's slider figures, in order."""
        return [PagePanel(self, view) for view in self.driver.find_elements(By.CSS_SELECTOR, VIEW)]

    def _run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def _async(self, promise: str, *arguments):
        """What a promise gives."""
        return self.driver.execute_async_script(f"({promise}).then(arguments[arguments.length - 1])", *arguments)

    def _wait(self, condition: str, *arguments) -> None:
        said = lambda: f"{condition}; {self.driver.current_url}: {self.problems()}"  # noqa: E731
        wait_until(lambda: self._run(f"return {condition}", *arguments), said)

    def _forget(self) -> None:
        self._collect()
        self.requests, self.failures, self.console = [], [], []
        self._on_the_way.clear()

    def _collect(self) -> None:
        for entry in self.driver.get_log("browser"):
            if entry["level"] == "SEVERE":
                self.console.append(f"console: {entry['message']}")
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            about = message["params"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(about["request"]["url"])
                self._on_the_way[about["requestId"]] = about["request"]["url"]
            elif message["method"] == "Network.responseReceived" and about["response"]["status"] >= 400:
                self.failures.append(f"{about['response']['status']} for {about['response']['url']}")
            elif message["method"] in ("Network.loadingFinished", "Network.loadingFailed"):
                address = self._on_the_way.pop(about["requestId"], None)  # None: of the page before
                if address and "errorText" in about and not about.get("canceled"):
                    self.failures.append(f"loading failed: {address} ({about['errorText']})")


#: Scripts and style sheets that the first paint waits for.
BLOCKING = """
const scripts = [...document.scripts].filter((s) => s.src && !s.async && !s.defer && s.type !== 'module').map((s) => s.src);
return [...scripts, ...[...document.querySelectorAll('link[rel~=stylesheet]')].filter((l) => matchMedia(l.media).matches).map((l) => l.href)];
"""
FAULTS = """
const squeezed = [...document.querySelectorAll('.bd-article img')].filter((i) => i.checkVisibility() && i.naturalWidth && i.width &&
  getComputedStyle(i).objectFit === 'fill' && Math.abs(i.width / i.height / (i.naturalWidth / i.naturalHeight) - 1) > 0.03);
const waiting = [...document.querySelectorAll('figure[data-model]')].filter((f) =>
  !f.matches('.iclbook-runs') || !f.querySelector('.iclbook-live svg')?.checkVisibility());
return [...squeezed.map((i) => `squeezed: ${i.src.slice(0, 100)}`), ...waiting.map((f) => `does not run: ${f.dataset.model}`)];
"""


@dataclass(frozen=True)
class State:
    """What a reader sees of a slider figure.

    Attributes:
        positions: where the sliders stand, and which buttons are pressed.
        labels: what they say to a screen reader.
        readouts: the values shown beside or on them.
        frames: the pictures that are visible, as {"src", "alt"}; a reader must see exactly one.
    """

    positions: list[int]
    labels: list[str]
    readouts: list[str]
    frames: list[dict[str, str]]


STATE = """
const all = selector => [...arguments[0].querySelectorAll(selector)];
const pressed = c => [...c.querySelectorAll('button')].findIndex(b => b.ariaPressed === 'true');
const controls = all('.noUi-handle, .iclbook-choice');
const readout = c => c.closest('.widget-slider')?.querySelector('.widget-readout') ?? c.querySelectorAll('button')[pressed(c)];
return {
  positions: controls.map(c => c.matches('.noUi-handle') ? Math.round(c.getAttribute('aria-valuenow')) : pressed(c)),
  labels: controls.map(c => c.getAttribute('aria-label')),
  readouts: controls.map(readout).map(r => r?.checkVisibility() ? r.innerText.trim() : ''),
  frames: all('.iclbook-frame img').filter(i => i.checkVisibility() && i.width).map(i => ({src: i.src, alt: i.alt})),
};
"""


class PagePanel:
    """One slider figure of an open page."""

    def __init__(self, browser: Browser, view: WebElement) -> None:
        self.browser = browser
        self.model_id: str = json.loads(view.get_attribute("textContent"))["model_id"]
        self.area: WebElement = browser._run("return arguments[0].previousElementSibling", view)

    def handles(self) -> list[WebElement]:
        """The sliders' handles and groups of buttons, from top to bottom."""
        return self.area.find_elements(By.CSS_SELECTOR, ".noUi-handle, .iclbook-choice")

    def press(self, slider: int, key: str, times: int = 1) -> None:
        """Press a key on a slider's handle, as a reader without a mouse does."""
        handle = self.handles()[slider]
        self.browser._run("arguments[0].focus()", handle)
        handle.send_keys(key * times)  # one event a press, in one call

    def move(self, place: Sequence[int]) -> None:
        """Bring every slider to its position in ``place`` (0 is the left end) by the arrow keys, and press the buttons of choices."""
        for slider, (now, position) in enumerate(zip(self.state().positions, place, strict=True)):
            if buttons := self.handles()[slider].find_elements(By.CSS_SELECTOR, "button"):
                buttons[position].send_keys(Keys.SPACE)
            elif now != position:
                self.press(slider, Keys.ARROW_RIGHT if position > now else Keys.ARROW_LEFT, abs(position - now))

    def state(self) -> State:
        """What stands there now, seen in one call: a playing slider may exchange the picture between two."""
        return State(**self.browser._run(STATE, self.area))

    def visible_hash(self) -> str | None:
        """sha256 of the visible picture's PNG; None while there is not exactly one."""
        shown = self.state().frames
        if len(shown) != 1:
            return None
        if shown[0]["src"].startswith("file:"):
            return hashlib.sha256(Path(unquote(urlsplit(shown[0]["src"]).path)).read_bytes()).hexdigest()
        kind, _, data = shown[0]["src"].partition(",")
        if kind != "data:image/png;base64":
            raise RuntimeError(f"the visible picture is no frame: {kind[:80]}")
        return hashlib.sha256(base64.b64decode(data)).hexdigest()

    def waits_for(self, sha256: str) -> None:
        """Wait until the visible image is the one with this hash."""
        wait_until(lambda: self.visible_hash() == sha256, lambda: f"wanted {sha256}, seen {self.state()}"[:500])


def is_local(url: str) -> bool:
    """Whether a request for ``url`` stays on this machine."""
    parts = urlsplit(url)
    if parts.scheme in ("data", "blob", "about", "chrome"):
        return True
    return (parts.scheme == "file" and not parts.netloc) or parts.hostname == "127.0.0.1"


def expected_frames(executed: Path) -> dict[str, dict]:
    """What every slider figure of the executed notebooks under ``executed`` must show: widget model id -> output metadata."""
    found = {}
    for path in executed.rglob("*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                if "iclbook_slider" in output.get("metadata", {}):
                    view = output["data"]["application/vnd.jupyter.widget-view+json"]
                    found[view["model_id"]] = output["metadata"]["iclbook_slider"]
    return found


def pages(html: Path) -> list[Path]:
    """The book's pages under ``html``."""
    return sorted(p for p in html.rglob("*.html") if "_static" not in p.relative_to(html).parts)
