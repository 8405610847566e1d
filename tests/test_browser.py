"""What a reader of a built book sees: every slider shows the right frame, nothing is fetched from elsewhere, nothing complains.

Without chromium these tests are skipped, unless ``CI`` or ``ICLBOOK_REQUIRE_BROWSER=1`` is set.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from browser import harness, tiny_book

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Site:
    """The tiny book: its pages, its address, and what its sliders must show."""

    html: Path
    address: str
    expected: dict[str, dict]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, browser) -> tuple[Path, Path]:
    return tiny_book.build(tmp_path_factory.mktemp("tiny"))


TINY = pytest.mark.xdist_group("tiny")  # one worker builds the tiny book


@pytest.fixture(scope="module", params=["file", "http"])
def site(request, tiny) -> Iterator[Site]:
    """The tiny book as a reader opens it: from the disk, or over http."""
    html, expected = tiny[0], harness.expected_frames(tiny[1])
    if request.param == "file":
        yield Site(html, html.resolve().as_uri() + "/", expected)
        return
    with harness.serve(html) as address:
        yield Site(html, address, expected)


def addresses(site: Site, *, with_widgets: bool = False) -> list[str]:
    paths = harness.pages(site.html)
    assert paths, f"no pages under {site.html}"
    return [
        path.relative_to(site.html).as_posix()
        for path in paths
        if not with_widgets or "application/vnd.jupyter.widget-view+json" in path.read_text(encoding="utf-8")
    ]


@TINY
def test_every_slider_shows_the_right_frame_through_its_range(site, browser):
    checked = set()
    for page in addresses(site, with_widgets=True):
        browser.open(site.address + page)
        for panel in browser.panels():
            info = site.expected.get(panel.model_id)
            assert info, f"{page}: a widget that no executed notebook describes; is the book older than its notebooks?"
            checked.add(panel.model_id)
            where = f"{page}, {info['title']}"
            panel.waits_for(frame_at(info, info["start"]))
            for place in route(info):
                panel.move(place)
                panel.waits_for(frame_at(info, place))
                seen = panel.state()
                assert seen.positions == list(place), where
                assert seen.readouts == [s["labels"][i] for s, i in zip(info["sliders"], place, strict=True)], where
                assert seen.frames[0]["alt"], f"{where}: no alt text at {place}"
            assert panel.state().labels == [s["label"] for s in info["sliders"]], where
        assert browser.problems() == [], page
    assert checked == set(site.expected), "a slider figure of an executed notebook is on no page"
    assert checked


def frame_at(info: dict, place) -> str:
    return info["frames"][",".join(map(str, place))]


def route(info: dict) -> list[tuple[int, ...]]:
    """Every position of one slider or, for two, of both while the other stands at first, start and last."""
    sizes = [len(slider["labels"]) for slider in info["sliders"]]
    ends = [dict.fromkeys((0, at, size - 1)) for at, size in zip(info["start"], sizes, strict=True)]
    moved = [[*ends[:k], range(size), *ends[k + 1 :]] for k, size in enumerate(sizes)]
    return list(dict.fromkeys(place for stops in moved for place in product(*stops)))


@TINY
@pytest.mark.parametrize(("width", "themes"), [(harness.WIDE, ("light", "dark")), (harness.NARROW, ("dark", "light"))])
def test_every_page_is_whole_quiet_and_alone(site, browser, width, themes):
    """No console error, no failed request, none to another machine, no sideways scrolling, no squeezed picture.

    Each width loads a page in its first theme, which the page before has left, and changes to the second on the page. The book's pages are looked at where
    all else is measured on them.
    """
    for page in addresses(site):
        browser.open(site.address + page, width=width, theme=themes[0])
        for theme in themes:
            assert browser.faults(theme) == [], (page, theme)
        browser.theme(themes[0])


@pytest.mark.parametrize("width", [harness.WIDE, harness.NARROW])
def test_the_scoreboards_filters_leave_the_lines_that_fit(browser, book, width):
    address = (book / "book" / "scoreboard.html").resolve().as_uri()
    browser.open(address, width=width)
    run = browser.driver.execute_script
    visible = "[...document.querySelectorAll('.iclbook-list tbody tr')].filter(row => row.checkVisibility())"
    everything = run("return new Set([...document.querySelectorAll('.iclbook-list a')].map(a => a.href)).size")

    def chosen(field: str, value: str) -> list[str]:
        run("document.querySelector('.iclbook-filters').elements[arguments[0]].value = arguments[1]", field, value)
        run("document.querySelector('.iclbook-filters').dispatchEvent(new Event('input'))")
        return run(f"return {visible}.map(row => row.querySelector('[data-verdict]').dataset.verdict)")

    assert chosen("text", "") == [], "at first, the counts, a cell a claim and the filters, on one screen"
    assert run("return document.querySelectorAll('.iclbook-cell[href]').length") == everything
    end = run("return document.querySelector('.iclbook-filters').getBoundingClientRect().bottom + scrollY")
    assert end < (900 if width == harness.WIDE else 2 * 844)
    partly = chosen("verdict", "partly")
    assert 0 < len(partly) < everything
    assert set(partly) == {"partly"}
    said = run("return document.querySelector('.iclbook-filters output').textContent")
    assert said == f"{len(partly)} of {everything}"
    assert chosen("text", "no claim says this") == []
    chosen("text", "")
    chosen("verdict", "")
    assert len(chosen("chapter", "every")) == everything
    run("document.querySelector('.iclbook-picture th a').click()")
    browser._wait(f"0 < {visible}.length && {visible}.length < {everything}")


@TINY
def test_a_choice_of_names_obeys_the_keyboard(browser, tiny):
    browser.open((tiny[0] / "notebooks" / "waves.html").resolve().as_uri())
    panel = browser.panels()[1]
    info = harness.expected_frames(tiny[1])[panel.model_id]
    panel.handles()[0].find_element("css selector", "button").send_keys(harness.Keys.TAB * 2 + harness.Keys.ENTER)
    panel.waits_for(frame_at(info, [2, info["start"][1]]))
    assert panel.state().readouts[0] == "four"


@TINY
def test_play_runs_through_the_frames(browser, tiny):
    browser.open((tiny[0] / "notebooks" / "waves.html").resolve().as_uri())
    panel = browser.panels()[0]
    info = harness.expected_frames(tiny[1])[panel.model_id]
    browser._run(
        "const readout = arguments[0].querySelector('.widget-readout'); const seen = window.seen = [readout.textContent];"
        "new MutationObserver(() => seen.at(-1) === readout.textContent || seen.push(readout.textContent))"
        ".observe(readout, { childList: true, characterData: true, subtree: true });",
        panel.area,
    )
    panel.area.find_element("css selector", ".widget-play button").click()
    panel.waits_for(frame_at(info, [4]))
    assert browser._run("return window.seen") == info["sliders"][0]["labels"][info["start"][0] :]
    assert browser.problems() == []


@TINY
def test_a_browser_that_blocks_storage_changes_the_theme_all_the_same(browser, tiny):
    denied = "for (const n of ['localStorage', 'sessionStorage']) Object.defineProperty(window, n, {configurable: true, get() { throw new DOMException('denied', 'SecurityError') }})"
    script = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": denied})
    try:
        browser.open((tiny[0] / "index.html").resolve().as_uri(), theme="dark")
        assert browser.problems() == []
        button = browser.driver.find_element("css selector", ".theme-switch-button")
        before = browser.driver.execute_script("return document.documentElement.dataset.mode")
        button.click()
        assert browser.driver.execute_script("return document.documentElement.dataset.mode") != before
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_harness_notices_what_it_is_there_to_notice(browser, tmp_path):
    """A page with an outside request, a missing file, a console error and a wide box."""
    (tmp_path / "bad.html").write_text(
        "<html><body><div style='width: 3000px'>wide</div><img src='https://example.invalid/a.png'><img src='gone.png'>"
        "<script>console.error('spoken')</script></body></html>",
        encoding="utf-8",
    )
    with harness.serve(tmp_path) as address:
        browser.open(address + "bad.html")
        problems = "\n".join(browser.problems())
    assert all(said in problems for said in ("request to https://example.invalid/a.png", "404 for", "spoken"))
    assert browser.scrolls_sideways()
