"""Models that run in the page: their answers are the library's, and a reader moves them by pointer, finger and keyboard."""

from collections.abc import Iterator

import numpy as np
import pytest
from browser import harness, models_page
from browser.differences import DIFFERENCES, S2, D, L, difference, recall_difference
from browser.models_page import POPULATION, Running
from selenium.webdriver import ActionChains
from waiting import wait_until

from iclbook.papers.crossing import waits_in_page as product
from iclbook.papers.he2025 import dynamics
from iclbook.papers.recall2025.stages import small
from iclbook.sliders.page_model import inline, markup
from iclbook.training import gradient_flow

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("models")]
#: Both sides are float64; what separates them is the order of their sums.
ROUNDING = 1e-9
#: Of integrations at TIGHT: the sum of local errors of some hundred steps, stretched by a jump; the library's own are 1e-9.
INTEGRATED, TIGHT = 1e-6, {"rtol": 1e-10, "atol": 1e-14}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return models_page.write(tmp_path_factory.mktemp("models") / "page").as_uri()


@pytest.fixture
def opened(browser: harness.Browser, page: str) -> Iterator[harness.Browser]:
    browser.open(page)
    yield browser
    assert browser.problems() == []


# ---- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DIFFERENCES)
def test_answers_are_the_librarys_on_random_inputs(opened, name):
    assert DIFFERENCES[name](opened) < ROUNDING


# ---- flows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("heads", "scale"), [(2, 0.03), (3, 0.3), (4, 0.001)])
def test_the_reduced_flow_is_the_librarys(opened, heads, scale):
    model = Running(opened, "reduced_flow")
    omega, mu = (v[0] for v in dynamics.sample_initial(1, heads, scale, seed=3))
    times = np.geomspace(0.01, 1e3, 12)
    wanted = dynamics.flow(omega, mu, np.concatenate([[0.0], times]), D, L, S2)
    states = np.concatenate([wanted.omega[1:, 0], wanted.mu[1:, 0]], axis=-1)
    start = np.concatenate([omega, mu])
    assert difference(model.js("m.integrate(a[0], a[1], a[2])", start, times, TIGHT), states) < INTEGRATED
    # as it is drawn: within a third of a pixel of a plot 180 high
    assert difference(model.js("m.integrate(a[0], a[1])", start, times), states) < 1 / 3 / 180


@pytest.mark.parametrize("betas", [(0.02, 0.005, 0.00125), (0.01, 0.1, 0.03)])
def test_the_race_is_the_librarys(opened, betas):
    model, start = Running(opened, "recall_race"), small(POPULATION, betas)
    times = np.geomspace(100, 400 / min(betas), 12)
    wanted = gradient_flow(POPULATION.gradient, start, times[-1], times, rtol=1e-11).states
    assert difference(model.js("m.begin(a[0])", betas), start) == 0
    assert difference(model.js("m.integrate(a[0], a[1], a[2])", start, times, TIGHT), wanted) < INTEGRATED
    order = [h + 1 for h in np.argsort(betas)[::-1]]
    model.js("(m.state.betas = a[0], m.redraw())", betas)
    drawn = model.js("m.path()")
    assert [h + 1 for h in np.argsort(drawn["jumps"])] == order
    drawn_losses = np.array(model.js("m.path().states.map(m.loss)"))
    exact = gradient_flow(POPULATION.gradient, start, drawn["times"][-1], drawn["times"], rtol=1e-9).states
    # a jump is a wall on the time axis: the drawn loss is compared along it, in the logarithm of time, to a pixel of 280
    width = np.log(drawn["times"][-1] / drawn["times"][0]) / 280
    levels = np.quantile(drawn_losses, [0.1, 0.5]), POPULATION.value(exact)
    for level in np.concatenate([levels[0], [0.7, 0.5, 0.2]]):
        crossings = [np.interp(-level, -values, np.log(drawn["times"])) for values in (drawn_losses, levels[1])]
        assert abs(crossings[0] - crossings[1]) < width


@pytest.mark.parametrize("p", product.DEGREES)
@pytest.mark.parametrize(
    ("size", "count", "decay"), [(0.02, None, 0), (0.03, None, 1e-4), (0.03, 128, 0), (0.05, 8192, 1e-4)]
)
def test_the_wait_is_the_librarys_and_the_laws_say_it(opened, p, size, count, decay):
    model = Running(opened, "waiting_time")
    at = {"degree": p, "size": size, "decay": decay, "prompts": "once" if count else "even", "count": count or 8}
    chance = product.rate_of_chance(count) / 2 if count else 0.0
    assert model.js("m.chance(a[0])", at) == pytest.approx(chance)
    wanted = product.product_flow(p, size, chance, decay).first()
    assert difference(model.js("m.wait(a[0], a[1])", at, {"fine": 0.01}), wanted) < INTEGRATED
    assert difference(model.js("m.wait(a[0])", at), wanted) < 1e-4, "as it is drawn"
    law = model.js("m.withChance(a[0])", at)
    assert law == pytest.approx(wanted, rel=0.05)


def test_small_starts_stay_under_decay_and_the_law_says_so(opened):
    model = Running(opened, "waiting_time")
    at = {"degree": 4, "size": 0.03, "decay": 1e-3, "prompts": "fresh", "count": 8}
    assert model.js("[m.wait(a[0]) === Infinity, m.power(a[0]) === Infinity]", at) == [True, True]
    assert model.js("1 / m.diffusion(a[0])", at) == pytest.approx(8 * 3 / product.PAGE_RATE)


# ---- hands -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DIFFERENCES)
def test_every_slider_and_button_answers(opened, name):
    model = Running(opened, name)
    assert model.find("input[type=range]")
    for slider in model.find("input[type=range]"):
        if slider.is_displayed():
            opened._run("arguments[0].focus()", slider)
            slider.send_keys(harness.Keys.HOME)
            least = model.picture()
            slider.send_keys(harness.Keys.ARROW_RIGHT * 30)
            assert model.picture() != least, slider.accessible_name
            assert slider.accessible_name
    for control in [*model.find("input[type=radio]"), *model.find("button")]:
        if control.get_attribute("checked") is None and control.is_displayed():
            before = model.js("JSON.stringify(m.state)")
            control.click()
            model.picture()
            assert control.accessible_name
            assert model.js("JSON.stringify(m.state)") != before or "at first" in control.text, control.accessible_name
    assert opened.problems() == []


@pytest.mark.parametrize("name", ["prompt", "recall_race", "label_square"])
def test_handles_move_by_keys_and_pointer(opened, name):
    model = Running(opened, name)
    handles = model.find(".handle[tabindex='0']")
    before = model.picture()
    opened._run("arguments[0].focus()", handles[0])
    said = handles[0].get_attribute("aria-valuetext")
    handles[0].send_keys(harness.Keys.ARROW_UP * 4)
    after = model.picture()
    assert after != before
    assert handles[0].get_attribute("aria-valuetext") != said
    opened.driver.switch_to.active_element.send_keys(harness.Keys.PAGE_DOWN)
    second = opened.driver.switch_to.active_element
    assert second.get_attribute("aria-label") != handles[0].get_attribute("aria-label")
    assert second.get_attribute("role") == "slider"
    said = second.get_attribute("aria-valuetext")
    dot = second.find_element("css selector", ".dot")
    ActionChains(opened.driver).drag_and_drop_by_offset(dot, 25, -30).perform()
    assert model.picture() != after
    moved = opened.driver.switch_to.active_element
    assert moved.get_attribute("aria-valuetext") != said or moved.id != second.id


def test_a_finger_drags_a_label_and_a_click_places_one(opened):
    model = Running(opened, "label_square")
    count = len(model.js("m.state.points"))
    square = model.find(".square svg")[0]
    box = opened._run(
        "arguments[0].scrollIntoView({block: 'center'}); return arguments[0].getBoundingClientRect().toJSON()", square
    )
    middle = {"x": box["x"] + 0.5 * box["width"], "y": box["y"] + 0.5 * box["height"]}
    ActionChains(opened.driver).move_to_element(square).click().perform()
    points = model.js("m.state.points")
    assert len(points) == count + 1
    assert abs(points[-1]["x"]) < 0.02
    assert abs(points[-1]["y"]) < 0.02
    touch = lambda kind, at: opened.driver.execute_cdp_cmd(  # noqa: E731
        "Input.dispatchTouchEvent", {"type": kind, "touchPoints": at}
    )
    touch("touchStart", [middle])
    touch("touchMove", [{"x": middle["x"] + 0.25 * box["width"], "y": middle["y"] + 6}])
    touch("touchEnd", [])
    assert abs(model.js("m.state.points").pop()["x"] - 0.5) < 0.05
    opened.driver.switch_to.active_element.send_keys(harness.Keys.DELETE)
    assert len(model.js("m.state.points")) == count


def test_play_takes_steps_for_readers_who_want_no_motion(opened):
    media = lambda features: opened.driver.execute_cdp_cmd(  # noqa: E731
        "Emulation.setEmulatedMedia", {"features": features}
    )
    media([{"name": "prefers-reduced-motion", "value": "reduce"}])
    try:
        model = Running(opened, "recall_race")
        opened._run(  # ten steps, and no rest between them
            "const { state } = document.querySelector('figure[data-model=recall_race]').iclbook, later = setTimeout;"
            "window.steps = []; window.setTimeout = (call) => { steps.push(state.at); later(call); };"
        )
        model.find("button")[0].click()
        wait_until(lambda: model.js("m.state.at") == 1)
        assert [*opened._run("return steps"), 1] == pytest.approx(np.arange(11) / 10)
        assert model.find("button")[0].text == "Play"
    finally:
        media([])


def test_the_still_picture_stands_without_scripts_and_on_paper(browser, page):
    shown = "return [...document.querySelectorAll('.iclbook-still img')].map((i) => i.checkVisibility() && i.naturalWidth > 100 && i.alt.length > 30)"
    live = "return [...document.querySelectorAll('.iclbook-live')].map((e) => e.checkVisibility())"
    browser.open(page)
    assert browser._run(shown) == [False] * len(models_page.models())
    assert browser._run(live) == [True] * len(models_page.models())
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser._run(shown) == [True] * len(models_page.models())
    assert browser._run(live) == [False] * len(models_page.models())
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.driver.get(page)
        assert browser._run(shown) == [True] * len(models_page.models())
        assert browser._run(live) == [False] * len(models_page.models())
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_models_run_where_a_notebook_puts_them(browser, tmp_path):
    """Output areas are filled apart from the document, their scripts made anew, and then put into it (JupyterLab's renderHTML)."""
    (tmp_path / "lab.html").write_text('<!doctype html><html lang="en"><title>lab</title><body></body></html>')
    browser.open((tmp_path / "lab.html").as_uri())
    for name, model in models_page.models().items():
        browser._run(
            "const host = document.createElement('div'); host.innerHTML = arguments[0];"
            "for (const old of [...host.querySelectorAll('script')]) { const made = document.createElement('script');"
            " for (const a of old.attributes) made.setAttribute(a.name, a.value); made.textContent = old.textContent;"
            " old.replaceWith(made); } document.body.append(host);",
            markup(model, name, "") + inline(name),
        )
    assert browser._run("return document.querySelectorAll('figure.iclbook-runs').length") == len(models_page.models())
    assert recall_difference(browser) < ROUNDING
    assert browser.problems() == []


@pytest.mark.parametrize("width", [harness.WIDE, harness.NARROW])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_models_are_whole_at_every_width(browser, page, width, theme):
    browser.open(page, width=width, theme=theme)
    assert not browser.scrolls_sideways()
    assert browser._run("return document.querySelectorAll('figure.iclbook-runs').length") == len(models_page.models())
    cut = browser._run(
        "return [...document.querySelectorAll('.iclbook-live svg text')].filter((t) => t.textContent && t.checkVisibility()).filter((t) => {"
        "const box = t.getBoundingClientRect(); return box.left < 0 || box.right > window.innerWidth; }).map((t) => t.textContent)"
    )
    assert cut == []
    assert browser.problems() == []
