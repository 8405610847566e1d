"""What can be measured on every page of the built book: axe, what it loads, what no reader should see, how much work an answer of a slider or a model is, and what the search finds.

One build for all of it; every page is visited once. axe-core is a file of the tests (``tests/vendor``); the book does not
hold it.
"""

import itertools
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from browser import harness, paper

from iclbook.inputs import chapters

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[1]
AXE = ROOT / "tests" / "vendor" / "axe-core" / "axe.min.js"
CHAPTERS = chapters(ROOT)
#: What one worker visits: a chapter, or half of the other pages.
OTHERS = ("other pages, even", "other pages, odd")
VISITS = [pytest.param(name, marks=pytest.mark.xdist_group(f"measured {name}")) for name in (*CHAPTERS, *OTHERS)]
of_every_page = pytest.mark.parametrize("seen", VISITS, indirect=True)
of_chapters = pytest.mark.parametrize("seen", VISITS[: len(CHAPTERS)], indirect=True)
#: Bytes that a page may load before a reader scrolls, and bytes of scripts and style sheets before anything stands there.
HEAVIEST, BLOCKING = 3_000_000, 800_000
#: Bytes of all frames of a page's sliders, for the theme and width of one reader.
FRAMES = 4_000_000
#: Calls of a page's own functions that one move of a slider, which shows a stored picture, and one answer of a model may take; a million calls are some
#: 20 ms of a laptop's core. Measured: up to 3,500 and 560,000.
MOVE, ANSWER = 10_000, 1_000_000


def listed(html: Path) -> list[Path]:
    """Every page but the one that only leads on to the first."""
    return [
        path for path in harness.pages(html) if 'http-equiv="Refresh"' not in path.read_text(encoding="utf-8")[:500]
    ]


# --- axe ------------------------------------------------------------------------------------------------------------------

AUDIT = """
const [rules, done] = arguments;
const options = { resultTypes: ["violations"], ...(rules ? { runOnly: { type: "rule", values: rules } } : {}) };
axe.run(document, options).then(
  (found) => done(found.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 160)} (${n.target})`))),
  (error) => done([String(error)]),
);
"""
#: Between the light and the dark page only colours differ: there the rules on colours are asked again.
COLOURS = ["color-contrast", "link-in-text-block"]
#: Rules that formulas can break as MathJax sets them.
TYPESET = ["link-name", "empty-table-header", "scrollable-region-focusable", "aria-hidden-focus", "nested-interactive"]

#: Colours must have arrived before they are read. Formulas, 40 elements each and all alike, are audited whole on one page, or it would take minutes.
PREPARE = """
document.head.append(Object.assign(document.createElement("style"), { textContent: "* { transition: none !important; }" }));
if (!arguments[0]) for (const formula of document.querySelectorAll("mjx-container")) formula.replaceWith("formula");
"""
WITH_FORMULAS = "notation.html"
#: The theme has looked again at what scrolls, which the tab key must reach.
STOPS = """[...document.querySelectorAll("pre, .nboutput > .output_area, .cell_output > .output, .jp-RenderedHTMLCommon")].every(
  (e) => e.tabIndex === (e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight ? 0 : -1))"""


def audit(browser: harness.Browser, rules: list[str] | None = None) -> list[str]:
    if not browser.driver.execute_script("return Boolean(window.axe)"):
        browser.driver.execute_script(AXE.read_text(encoding="utf-8"))
    return browser.driver.execute_async_script(AUDIT, rules)


@dataclass(frozen=True)
class Seen:
    """What one visit to a page gave.

    Attributes:
        files: bytes of what a reader's first view loads, by file.
        blocking: bytes of scripts and style sheets that the first paint waits for.
        faults: what a reader objects to, by width and theme.
        lengths: of a page as it opens, by width; see ``LENGTHS``.
        texts: that a reader meets.
        unreadable: formulas that MathJax cannot read.
        scales: of every figure on a phone, drawn width over the width that it is made for.
        missed: claims that a link does not bring to the window of a phone, and where they stand; see ``LANDS``.
        wrong: what a slider or a model answered wrongly, or with too much work.
        answered: sliders and models that were asked.
        keyboard: see ``KEYBOARD``.
        searched: where a search for some words must lead, by the words; see ``SEARCHED``.
        objections: what axe objects to on a phone, by theme.
        paper: what paper lacks or shows badly when the dark page is printed.
    """

    files: dict[str, int]
    blocking: int
    faults: dict[str, list[str]]
    lengths: dict[int, dict]
    texts: list[str]
    unreadable: list[str]
    scales: dict[str, float]
    missed: list
    wrong: list[str]
    answered: set[str]
    keyboard: dict
    searched: list[list[str]]
    objections: dict[str, list[str]]
    paper: dict[str, list[str]]


@pytest.fixture(scope="module")
def seen(request, book, browser) -> dict[str, Seen]:
    """The page of a chapter, or every second one of all others, visited once."""
    found = {path.relative_to(book).with_suffix("").as_posix(): path for path in listed(book)}
    rest = sorted({*found} - {f"notebooks/{name}" for name in CHAPTERS})
    wanted = dict(zip(OTHERS, (rest[::2], rest[1::2]), strict=True)).get(request.param, [f"notebooks/{request.param}"])
    return {name: visit(browser, found[name]) for name in wanted}


def visit(browser: harness.Browser, path: Path) -> Seen:
    faults, lengths = {}, {}
    files, blocking = browser.first_view(path)
    browser.draw(theme="light", folds=False)
    for width, height, _ in WINDOWS:
        browser.resize(width, height)
        browser.settle()
        lengths[width] = browser.driver.execute_script(LENGTHS)
    missed = browser.driver.execute_async_script(LANDS, 6)
    browser.unfold()
    for width in (harness.WIDE, harness.NARROW):
        browser.resize(width)
        browser.settle()
        for theme in ("dark", "light"):
            faults[f"{width} {theme}"] = browser.faults(theme)
        if width == harness.WIDE:
            asked = (TEXTS, UNREADABLE, KEYBOARD, SEARCHED)
            texts, unreadable, keyboard, searched = map(browser.driver.execute_script, asked)
            wrong, answered = answers(browser)
    scales = dict(browser.driver.execute_script(SCALES))
    browser._wait(STOPS)
    objections = {"as typeset": audit(browser, TYPESET)} | audits(browser, path)
    parts = (texts, unreadable, scales, missed, wrong, answered, keyboard, searched, objections, on_paper(browser))
    return Seen(files, blocking, faults, lengths, *parts)


def audits(browser: harness.Browser, path: Path) -> dict[str, list[str]]:
    """All of axe's objections to the open page as it is, and those to its colours in the dark."""
    browser.driver.execute_script(PREPARE, path.name == WITH_FORMULAS)
    browser._wait(STOPS)
    light = audit(browser)
    browser.theme("dark")
    return {"light": light, "dark": audit(browser, COLOURS)}


def on_paper(browser: harness.Browser) -> dict[str, list[str]]:
    """The open page, dark and folded, printed: words that are lost, what is wider than the sheet, text that is grey."""
    browser.driver.execute_script("document.querySelectorAll('article details').forEach((fold) => (fold.open = false))")
    paper.lay_out(browser)
    lost, wide = map(browser.driver.execute_script, (paper.LOST, paper.WIDE))
    found = {"lost": lost, "wide": wide, "grey": audit(browser, COLOURS[:1])}
    paper.take_back(browser)
    return found


@of_every_page
def test_paper_loses_nothing_and_shows_no_grey(seen):
    assert [(name, how, f[:5]) for name, page in seen.items() for how, f in page.paper.items() if f] == []


@of_every_page
def test_no_page_is_heavy(seen):
    for name, page in seen.items():
        assert any(file.endswith(f"/{name}.html") for file in page.files), "the page itself counts"
        assert sum(page.files.values()) <= HEAVIEST, (name, sorted(page.files.items(), key=lambda item: -item[1])[:5])
        assert 0 < page.blocking <= BLOCKING, (name, page.blocking)


@of_every_page
def test_every_page_is_whole_quiet_and_alone(seen):
    assert [(name, how, f) for name, page in seen.items() for how, f in page.faults.items() if f] == []


@of_every_page
def test_axe_finds_nothing_on_a_phone(request, seen):
    assert [(name, how, f) for name, page in seen.items() for how, f in page.objections.items() if f] == []
    assert len(seen) > (4 if request.node.callspec.params["seen"] in OTHERS else 0)


@pytest.mark.full
def test_axe_finds_nothing_on_a_desktop(book, browser):
    for path in listed(book):
        browser.open(path.as_uri(), width=harness.WIDE)
        found = {"as typeset": audit(browser, TYPESET)} | audits(browser, path)
        assert [(path.stem, how, f) for how, f in found.items() if f] == []


def test_axe_would_find_something(browser, tmp_path):
    bad = '<p style="color: #aaa; background: #fff">pale</p><button aria-label="Search">Find</button><img src="data:,">'
    (tmp_path / "bad.html").write_text(f"<html><body>{bad}</body></html>", encoding="utf-8")
    browser.open((tmp_path / "bad.html").as_uri())
    rules = {line.partition(":")[0] for line in audit(browser)}
    assert {"color-contrast", "label-content-name-mismatch", "image-alt", "document-title"} <= rules
    assert audit(browser, ["color-contrast"])


KEYBOARD = """
const stops = [...document.querySelectorAll("mjx-container[tabindex='0']")].filter((f) => f.scrollWidth <= f.clientWidth + 1).length,
  scroll = [...document.querySelectorAll(".bd-article .math")].filter((f) => f.scrollWidth > f.clientWidth).length;
const unseen = [...document.querySelectorAll(".bd-header-article button, .bd-article .noUi-handle, .iclbook-choice button")].filter((e) => {
  e.focus({ focusVisible: true });
  const look = getComputedStyle(e);
  return e.checkVisibility() && document.activeElement === e && look.outlineStyle === "none" && look.boxShadow === "none";
}).map((e) => e.outerHTML.slice(0, 120));
const handles = [...document.querySelectorAll(".bd-article .noUi-handle, .iclbook-choice button")].filter((h) => h.checkVisibility());
const small = handles.filter((h) => Math.min(h.offsetWidth, h.offsetHeight) < 24).length;
document.activeElement?.blur();
scrollTo(0, 0);
return { stops, scroll, unseen, small, some: handles.length > 0 };
"""


@of_chapters
def test_formulas_are_no_stops_focus_is_seen_and_handles_are_large(seen):
    (page,) = seen.values()
    assert page.keyboard == {"stops": 0, "scroll": 0, "unseen": [], "small": 0, "some": True}


# --- what a reader reads --------------------------------------------------------------------------------------------------

TEXTS = """
const skipped = "code, pre, kbd, script, style, noscript, template, textarea, mjx-container, svg title, .iclbook-still";
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const texts = [];
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim();
  if (text && !walker.currentNode.parentElement.closest(skipped)) texts.push(text);
}
for (const element of document.querySelectorAll("[alt], [title], [aria-label], [aria-valuetext], [data-says]")) {
  for (const name of ["alt", "title", "aria-label", "aria-valuetext", "data-says"]) {
    if (element.hasAttribute(name) && !element.closest("mjx-container")) texts.push(element.getAttribute(name));
  }
}
return texts;
"""
UNREADABLE = "return [...document.querySelectorAll('mjx-merror, [data-mjx-error]')].map(e => e.dataset.mjxError || e.textContent)"
#: What stands there where Markdown, TeX or a number was not turned into what it means.
RAW = re.compile(
    r"`|\\[A-Za-z]{2,}|\\[()\[\]]|\$[^$\d\s]|\{[a-z]+(?::[a-z]+)?\}|^:::|\]\(|\*\*\w|[_^]\{|"  # markup
    r"(?<![\w.])\d+(?:\.\d+)?e[+-]?\d+\b|(?<![\w.,/\u2013-])-\d|\b\d*\.\d*?0{4,}\d*|\bnan\b"  # numbers
)


def test_raw_text_is_recognised_and_plain_text_left_alone():
    raw = ["`code`", r"so \omega is", r"\(x\)", "$x$", "{cite}", "{glue:text}", ":::note", "[a](b)", "**bold**", "x_{i}", "1e-06", "4e+06", "at -0.5", "rate 0.10000", "nan"]  # fmt: skip
    plain = ["costs $5", "f(x) = {1, 2}", "e-5 notation", "3-5 and OLMo-2-7B", "0.0001", "−0.5", "a_1 and W_e", "2.1-2.3"]  # fmt: skip
    assert [text for text in (*raw, *plain) if (RAW.search(text) is None) == (text in raw)] == []


@of_every_page
def test_no_page_shows_raw_markup_or_numbers(seen):
    assert all(len(page.texts) > 20 for page in seen.values())
    assert [f"{name}: {text[:160]}" for name, page in seen.items() for text in page.texts if RAW.search(text)] == []
    assert {name: page.unreadable for name, page in seen.items() if page.unreadable} == {}


# --- how long a chapter is, as it opens -------------------------------------------------------------------------------------

#: Windows of a desktop and of a phone: width, height, screens that a chapter may take.
WINDOWS = [(harness.WIDE, 900, 20), (harness.NARROW, 844, 40)]
#: Words in sight: of the text, and of code.
WORDS, CODE = 3500, 650
#: Claims that may stand in one strip.
STRIP = 8

LENGTHS = """
const seen = (element) => element.checkVisibility();
const count = (text) => text.trim().split(/\\s+/).filter(Boolean).length;
const article = document.querySelector("article") ?? document.body; // the search page has none
const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
const formulas = [...article.querySelectorAll("mjx-container")].filter((f) => seen(f) && !f.closest(".iclbook-line"));
let [words, code] = [formulas.length, 0];
while (walker.nextNode()) {
  const at = walker.currentNode.parentElement;
  if (at.closest("script, style, noscript, mjx-container, .iclbook-line, .iclbook-live") || !seen(at)) continue;
  if (at.closest("pre")) code += count(walker.currentNode.textContent);
  else words += count(walker.currentNode.textContent);
}
const strips = [...article.querySelectorAll(".iclbook-strip")].filter(seen).map((strip) => strip.childElementCount);
const first = article.querySelector(".iclbook-figure, .iclbook-slider-figure, figure[data-model]")?.getBoundingClientRect().top + scrollY;
return { first, height: document.documentElement.scrollHeight, words, code, strip: Math.max(0, ...strips) };
"""
#: The smallest labels are drawn 11.1 px tall (8 points) and must keep 9 px.
READABLE = 0.81
SCALES = """
return [...document.querySelectorAll('.iclbook-figure img, .iclbook-frame img')].filter((i) => i.checkVisibility()).map((i) => {
  const source = i.parentElement.querySelector('source');
  const meant = source && matchMedia(source.media).matches ? source.getAttribute('width') : i.getAttribute('width');
  return [i.alt.slice(0, 60), i.getBoundingClientRect().width / meant];
});
"""


@of_chapters
def test_a_chapter_can_be_read(seen):
    (page,) = seen.values()
    for width, height, screens in WINDOWS:
        found = page.lengths[width]
        assert found["height"] / height <= screens, (width, found)
        assert found["words"] <= WORDS, found
        assert found["code"] <= CODE, found
        assert found["strip"] <= STRIP, found
        assert found["first"] < height or width == harness.NARROW, found  # a figure or model on the first screen


@of_chapters
def test_figures_are_readable_on_a_phone(seen):
    (page,) = seen.values()
    assert page.scales
    assert {alt: scale for alt, scale in page.scales.items() if scale < READABLE} == {}


LANDS = """
const [every, done] = arguments;
(async () => {
  const missed = [];
  for (const claim of [...document.querySelectorAll(".iclbook-verdict[id]")].reverse().filter((_, i) => i % every === 0)) {
    const moved = new Promise((go) => window.addEventListener("hashchange", () => requestAnimationFrame(() => setTimeout(go)), { once: true }));
    if (location.hash !== (location.hash = `#${claim.id}`)) await moved;
    const { top } = claim.firstChild.getBoundingClientRect();
    if (!(claim.checkVisibility() && top >= 0 && top < innerHeight - 40)) missed.push([claim.id, top]);
    for (let fold = claim; fold; fold = fold.parentElement.closest("details")) fold.open = false;
  }
  return missed;
})().then(done);
"""


@of_chapters
def test_links_land_on_their_claims_on_a_phone(seen):
    (page,) = seen.values()
    assert page.missed == []


@pytest.mark.full
@pytest.mark.parametrize("width", [harness.NARROW, harness.WIDE])
@pytest.mark.parametrize("name", CHAPTERS)
def test_every_link_of_another_page_lands_on_its_claim(book, browser, name, width):
    page = book / "notebooks" / f"{name}.html"
    last = re.findall('class="iclbook-verdict" id="(.*?)"', page.read_text(encoding="utf-8"))[-1]
    browser.open(f"{page.as_uri()}#{last}", width=width, folds=False)
    browser.rest()  # sliders and formulas are drawn by now
    assert browser.driver.execute_async_script(LANDS, 1) == []


# --- what it answers, and how much work that is ---------------------------------------------------------------------------

STEP = """
const [area, number, first, changes, done] = arguments;
const picture = () => [...area.querySelectorAll(".iclbook-frame img")].filter((i) => i.checkVisibility() && i.width);
const handle = area.querySelectorAll(".noUi-handle, .iclbook-choice")[number];
const buttons = [...handle.querySelectorAll("button")];
const readout = () => (buttons.find((b) => b.ariaPressed === "true") ?? handle.closest(".widget-slider").querySelector(".widget-readout")).textContent.trim();
const hash = () => picture()[0].src.match(/-frame-([0-9a-f]{16})/)[1]; // the file's name
const press = (key) =>
  buttons.length
    ? buttons[key === "Home" ? 0 : buttons.findIndex((b) => b.ariaPressed === "true") + 1].click()
    : handle.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const shows = async (condition) => {
  for (let turns = 0; !condition(); turns++) {
    if (turns > 20_000) throw `no answer from ${readout()}`;
    await new Promise((go) => setTimeout(go));
  }
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
  return [readout(), hash()];
};
(async () => {
  press("Home");
  const seen = [await shows(() => readout() === first && picture().length === 1)];
  for (const changed of changes) {
    const [before, said] = [picture()[0], readout()];
    press("ArrowRight");
    seen.push(await shows(() => readout() !== said && picture().length === 1 && !(changed && picture()[0] === before)));
  }
  return seen;
})().then(done, done);
"""


def answers(browser) -> tuple[list[str], set[str]]:
    """What sliders and models of the open page answered wrongly or with too much work, and which were asked. Every slider is moved from end to end."""
    wrong, asked = [], set()
    for panel in browser.panels():
        info = expected_frames()[panel.model_id]
        asked.add(panel.model_id)
        place = list(info["start"])
        for number, slider in enumerate(info["sliders"]):
            stops = [[*place[:number], i, *place[number + 1 :]] for i in range(len(slider["labels"]))]
            frames = [info["frames"][",".join(map(str, stop))] for stop in stops]
            changes = [a != b for a, b in itertools.pairwise(frames)]
            seen, calls = browser.calls(STEP, panel.area, number, slider["labels"][0], changes)
            place = stops[-1]
            where = f"{info['title']}, {slider['label']}"
            wrong += [f"{where}: {calls} calls"] if calls >= MOVE * len(stops) else []
            wanted = [[label, frame[:16]] for label, frame in zip(slider["labels"], frames, strict=True)]
            if seen != wanted:
                wrong.append(f"{where}: {seen} in place of {wanted}")
        state = panel.state()
        if state.positions != place or not all(frame["alt"] for frame in state.frames):
            wrong.append(f"{info['title']}: {state}")
    for figure in browser.driver.find_elements("css selector", "figure[data-model]"):
        name = figure.get_attribute("data-model")
        asked.add(name)
        events, calls = browser.calls(MODEL, figure)
        wrong += [f"{name}: {calls / events} calls an answer"] if calls >= ANSWER * events else []
    return wrong, asked


@cache
def expected_frames() -> dict[str, dict]:
    return harness.expected_frames(ROOT / "executed" / "paper")


MODEL = """
const [figure, done] = arguments;
(async () => {
  let events = 0;
  const ask = async (element, event) => {
    element.dispatchEvent(event);
    events += 1;
    await new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
  };
  for (const input of figure.querySelectorAll("input[type=range]")) {
    const [low, high, now] = [Number(input.min), Number(input.max), input.value];
    for (let i = 0; i <= 10; i++) {
      input.value = low + ((high - low) * i) / 10;
      await ask(input, new Event("input", { bubbles: true }));
    }
    input.value = now;
    await ask(input, new Event("input", { bubbles: true }));
  }
  for (const handle of figure.querySelectorAll(".handle[tabindex='0']")) {
    for (let i = 0; i < 10; i++) await ask(handle, new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, cancelable: true }));
  }
  return events;
})().then(done);
"""


@of_every_page
def test_every_slider_and_model_answers_rightly_and_with_little_work(book, seen):
    for name, page in seen.items():
        assert page.wrong == [], name
        html = (book / f"{name}.html").read_text(encoding="utf-8")
        models = set(re.findall(r'data-model="([^"]+)"', html))
        sliders = {model for model in expected_frames() if f'"{model}"' in html}
        assert page.answered == models | sliders, name
        assert (name.partition("/")[2] in CHAPTERS) <= bool(sliders)


def test_every_caption_has_a_message(book):
    short = []
    for path in (book / "notebooks").glob("*.html"):
        for caption in re.findall(r"<figcaption[^>]*>(.*?)</figcaption>", path.read_text(encoding="utf-8"), re.DOTALL):
            words = re.sub(r"<[^>]+>", " ", caption.partition("caption-number")[2]).split()[2:]  # after "Figure 3."
            short += [f"{path.stem}: {' '.join(words)!r}"] if len(words) < 5 else []
    assert not short


# --- what a page loads ----------------------------------------------------------------------------------------------------


def test_no_page_has_too_many_frames_of_sliders(book):
    heavy = Counter()
    for path in (book / "_figures").glob("*-frame-*.png"):
        chapter, _, name = path.stem.partition("-frame-")
        heavy[chapter, name[16:]] += path.stat().st_size
    assert heavy
    assert max(heavy.values()) < FRAMES


def test_the_measures_count_what_a_page_loads_and_calls(browser, tmp_path):
    (tmp_path / "large.js").write_text("/*" + "x" * HEAVIEST + "*/ function one() { return 1; }")
    (tmp_path / "far.png").write_bytes(b"no picture")
    page = tmp_path / "page.html"
    page.write_text(
        '<p>words</p><script src="large.js"></script><div style="height: 30000px"></div><img loading="lazy" src="far.png">'
    )
    files, blocking = browser.first_view(page)
    assert HEAVIEST < blocking < sum(files.values())
    assert str(tmp_path / "far.png") not in files, "what lies far below is not loaded"
    assert browser.calls("for (let i = 0; i < 1000; i++) one(); arguments[0](7);") == (7, 1000)


def test_a_slider_is_loaded_when_a_reader_comes_near(browser, book):
    page = next(p for p in harness.pages(book) if "data-manager" in p.read_text(encoding="utf-8"))
    files, _ = browser.first_view(page.resolve())
    assert not [name for name in files if name.endswith("embed.js")]
    browser.driver.execute_script("document.querySelector('.iclbook-slider-still').scrollIntoView()")
    browser._wait("document.querySelector('.widget-subarea .noUi-handle') !== null")
    browser._wait("!document.querySelector('.iclbook-slider-still').checkVisibility()")
    assert browser.problems() == []


def test_every_icon_of_the_pages_is_in_the_style_sheet(book):
    sheet = (ROOT / "book" / "assets" / "icons.css").read_text()
    known = set(re.findall(r"\.(fa-[a-z-]+)", sheet)) | {"fa-solid"}
    used = {
        name
        for page in harness.pages(book)
        for names in re.findall(r'<(?:i|span|svg)[^>]* class="([^"]*\bfa-[^"]*)"', page.read_text(encoding="utf-8"))
        for name in names.split()
        if name.startswith("fa-")
    }
    assert used, "the theme draws no icons any more?"
    assert used <= known


# --- search ---------------------------------------------------------------------------------------------------------------

#: A section that is named by plain words, and a claim with a number of its own: where it is, and the words or the number.
SEARCHED = """
const headings = [...document.querySelectorAll("article section[id] > h2, article section[id] > h3")].map((h) => [
  h.parentElement.id, [...h.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent).join("").trim(),
]).filter(([, words]) => /^[A-Za-z ,:'-]{12,}$/.test(words));
const claims = [...document.querySelectorAll(".iclbook-verdict[id]")].map((c) => [c.id, c.textContent.match(/ 0(\\.\\d\\d+)/)?.[1]]);
return [headings[Math.floor(headings.length / 2)], claims.findLast(([, number]) => number)];
"""
FOUND = "[...document.querySelectorAll('#search-results a')].some((a) => a.href.endsWith(arguments[0]))"


@of_chapters
def test_search_finds_a_section_and_leads_to_it(book, browser, seen):
    ((name, page),) = seen.items()
    for place, words in page.searched:
        browser.open(f"{(book / 'search.html').as_uri()}?q={words.replace(' ', '+')}")
        browser._wait(FOUND, f"{name}.html#{place}")
    browser.driver.execute_script("localStorage.clear()")  # pages opened later would mark what was searched
