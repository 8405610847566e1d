"""Training in the page: the compiled C is the library's, it takes the trainer's steps, and a reader moves it by pointer, finger and keyboard."""

import json
import os
import re
import shutil
from collections.abc import Iterator

import numpy as np
import pytest
from browser import harness, models_page
from browser.models_page import TASK, Running
from selenium.webdriver import ActionChains
from waiting import wait_until

from iclbook.claims import load_ledger
from iclbook.models import Attention
from iclbook.native import webassembly
from iclbook.papers.crossing import waits_in_page as crossing_waits
from iclbook.papers.he2025 import train_in_page as train
from iclbook.training import Group, Run, Trainer

#: Units in the last place of a run's largest parameter by which the page's parameters may differ after some hundred steps; measured: 1 to 40.
#: Without fused multiply-adds every sum rounds once more, and Adam divides small gradients by their own size.
UNITS = 128
#: Where the sum that normalises the weights comes near zero, rounding grows from step to step.
NEAR_A_POLE = {"affine": 100}


def in_browser(test):
    """Mark a test that opens the page of all models."""
    return pytest.mark.browser(pytest.mark.xdist_group("models")(test))


def test_the_stored_module_is_what_the_sources_compile_to():
    made, stored = webassembly.stored()
    lacking = webassembly.missing()
    here = f"{lacking} is missing" if lacking else webassembly.compiler()
    if made != here and not os.environ.get("CI"):  # the workflow installs the compiler
        pytest.skip(f"stored by {made}, here {here}")
    assert made == here
    assert webassembly.compiled() == stored


def test_an_edit_of_the_pages_c_is_noticed(monkeypatch, tmp_path):
    assert webassembly.is_current()
    shutil.copytree(webassembly.HERE, tmp_path / "native")
    monkeypatch.setattr(webassembly, "HERE", tmp_path / "native")
    assert webassembly.is_current()
    source = tmp_path / "native/page/page.c"
    text = source.read_text()
    source.write_text(f"// a comment\n{text}")
    assert webassembly.is_current()
    source.write_text(text.replace("0.5f", "0.25f", 1) + "int other;")
    assert not webassembly.is_current()


def test_a_page_costs_less_than_60_kilobytes():
    scripts = [models_page.ASSETS / "models" / name for name in ("train.js", "train_waits.js", "kernels/trainer.js")]
    scripts.append(webassembly.script())
    assert sum(path.stat().st_size for path in scripts) < 60_000


def test_every_try_names_a_claim_and_settings_that_the_sliders_have():
    ids = {claim.id for claim in load_ledger("he2025").claims}
    for key, _, settings, _, claim, _ in train.TRIES:
        assert f"he2025/{claim}" in ids, key
        assert settings.keys() <= train.BEGIN.keys(), key
        assert (train.BEGIN | settings)["seed"] < train.SEEDS, key


# ---- the trajectory ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return models_page.write(tmp_path_factory.mktemp("train") / "page").as_uri()


@pytest.fixture
def opened(browser: harness.Browser, page: str) -> Iterator[Running]:
    browser.open(page)
    yield Running(browser, "train")
    assert browser.problems() == []


def in_the_page(model: Running, settings: dict, record: list[int]) -> list[tuple[float, np.ndarray]]:
    """Mean loss since the last record and all parameters, at each record."""
    found = model.browser.driver.execute_async_script(
        "const [settings, record, done] = arguments;"
        "document.querySelector('figure[data-model=train]').iclbook.course(JSON.parse(settings), record).then((all) => done(JSON.stringify(all)));",
        json.dumps(settings),
        record,
    )
    return [(each["loss"], np.array(each["parameters"], dtype=np.float32)) for each in json.loads(found)]


def by_the_trainer(settings: dict, record: list[int]) -> list[tuple[float, np.ndarray]]:
    chosen = train.BEGIN | settings
    names = ("query", "key", "value", "output")
    kwargs = {
        "d": TASK.d,
        "n_heads": chosen["heads"],
        "activation": chosen["activation"],
        "score_scale": {"printed": "none", "coded": "code"}[chosen["scores"]],
    }
    run = Run(chosen["seed"], rate=chosen["rate"], init_scale=chosen["scale"])
    group = Group("run", Attention, kwargs, (run,), keep=names, may_diverge=True)
    history = Trainer(TASK, [group], record[-1], chosen["batch"], record=record, device="cpu").train(progress=False)[
        "run"
    ]
    at = [list(history.steps).index(step) for step in record]
    return [(history.loss[i, 0], np.concatenate([history.circuits[name][i, 0].ravel() for name in names])) for i in at]


def units(found: np.ndarray, wanted: np.ndarray) -> float:
    """Largest difference, in units in the last place of the largest number."""
    return float(np.abs(found - wanted).max() / np.spacing(np.float32(np.abs(wanted).max())))


@in_browser
@pytest.mark.parametrize(
    "settings",
    [{"activation": name, "rate": 1e-3, "seed": 7} for name in webassembly.ACTIVATIONS]
    + [
        {"heads": 4, "scores": "coded", "scale": 0.2, "seed": 3},
        {"heads": 1, "scale": 0.05, "rate": 1e-3, "seed": 5},
        {"heads": 8, "activation": "tanh", "scores": "coded", "batch": 64, "seed": 99},
    ],
    ids=str,
)
def test_the_page_takes_the_trainers_course(opened, settings):
    record = [1, 10, 100, 300]
    found, wanted = in_the_page(opened, settings, record), by_the_trainer(settings, record)
    slack = NEAR_A_POLE.get(settings.get("activation"), 1)
    for (loss, parameters), (expected, weights) in zip(found, wanted, strict=True):
        assert abs(loss / expected - 1) < 2e-6 * slack
        assert units(parameters, weights) < UNITS * slack


@in_browser
def test_circuits_and_answers_are_the_librarys(opened):
    import torch

    heads, d = 3, TASK.d
    model = Attention(d, heads)
    model.initialise(torch.Generator().manual_seed(1), 3.0)
    parameters = torch.cat([getattr(model, name).detach().flatten() for name in ("query", "key", "value", "output")])
    circuits = model.circuits()
    found = opened.js("m.circuits(a[0], a[1], 1)", parameters.numpy(), heads)
    for h, head in enumerate(found):
        assert np.allclose(head["kq"], circuits["kq"][h, :, :d].detach(), atol=1e-5)
        assert np.allclose(head["ov"], circuits["ov"][h, 0].detach(), atol=1e-5)
    rng = np.random.default_rng(0)
    tokens, query = rng.normal(size=(7, d + 1)), rng.normal(size=d)
    for activation in webassembly.ACTIVATIONS:
        other = Attention(d, heads, activation=activation)
        other.load_state_dict(model.state_dict())
        wanted = other.double()(torch.from_numpy(tokens)[..., None], torch.from_numpy(query)[:, None]).item()
        answer = opened.js("(m.state.activation = a[1], m.predict(a[0], a[2], a[3]))", found, activation, tokens, query)
        assert answer == pytest.approx(wanted, rel=1e-4, abs=1e-4)


# ---- hands -------------------------------------------------------------------------------------------------------------


def until(model: Running, expression: str) -> None:
    wait_until(lambda: model.js(expression), lambda: (expression, model.js("[m.run?.done, m.run?.loss, m.state]")))


def rests(model: Running) -> bool:
    """Whether no step is taken while the browser draws twenty pictures, each of which would ask for the next ones."""
    until(model, "!m.busy()")
    done = model.js("m.run.done")
    model.browser.frames(20)
    return model.js("m.run.done") == done


def says(model: Running) -> str:
    """The sentence below the plots, when the picture is drawn."""
    model.picture()
    return model.find("[role=status]")[0].text


def buttons(model: Running) -> dict:
    return {button.text: button for button in model.find("button")}


@in_browser
@pytest.mark.parametrize("width", [harness.WIDE, harness.NARROW])
def test_one_press_trains_two_heads_to_a_pair(opened, width):
    opened.browser.resize(width)
    until(opened, "m.run.heads.length")
    assert opened.find(".says")[1].text == models_page.models()["train"].says
    buttons(opened)["Train again"].click()
    until(opened, "m.run.done > 1500 && m.run.loss < 0.27")
    signs = np.sign(opened.js("m.run.heads.map(({ mu }) => mu)"))
    assert sorted(signs) == [-1, 1]
    buttons(opened)["Pause"].click()
    assert rests(opened)
    done = opened.js("m.run.done")
    assert says(opened).startswith(f"Step {done:,}: one head adds, one subtracts.")
    buttons(opened)["One step"].click()
    until(opened, f"m.run.done === {done + 1}")
    buttons(opened)["Back to the start"].click()
    until(opened, "m.run.done === 0")
    assert says(opened) == "Two heads start from random numbers. Press Train."
    buttons(opened)["One step"].click()
    until(opened, "m.run.done === 1")
    assert says(opened).startswith("Step 1: all heads are near zero. ")


#: Settings beside BEGIN and steps at which the sentence is compared with the picture: those under which a reviewer read "straight" over a bent answer among them.
DRIVEN = [
    ({}, (100, 660, 1134, 1158)),
    ({"heads": 4, "activation": "tanh", "rate": 0.01, "batch": 32}, (400, 1466, 3136)),
    ({"heads": 8, "rate": 0.03, "scale": 2.0, "batch": 1024}, (36, 96)),
    ({"heads": 8, "scores": "coded", "activation": "affine", "rate": 0.01, "batch": 32}, (76, 300)),
    ({"heads": 1, "seed": 0}, (10, 800)),
    ({"heads": 1, "activation": "linear", "seed": 0}, (800,)),
]


def drawn(model: Running) -> tuple[float, float]:
    """Bend of the answer and its slope over that of the gradient step, read from the drawn paths: pixels of a plot of 284 x 186 over [-4, 4] x [-4, 4]."""
    paths = model.js(
        "['.line.answer', '.line.reference'].map((kind) => document.querySelector(`figure[data-model=train] .plots svg ${kind}`).getAttribute('d'))"
    )
    (x, y), (_, v) = (np.array(re.findall(r"-?[\d.]+", path), float).reshape(-1, 2).T for path in paths)
    unit = (x[-1] - x[0]) / 8, 186 / 8
    middle = v.mean()  # the step runs through the origin
    rise = (middle - y) / unit[1]
    design = np.stack([(x - x.mean()) / unit[0], np.ones_like(x)], -1)
    fit, *_ = np.linalg.lstsq(design, rise, rcond=None)
    bend = np.sqrt(np.mean((rise - design @ fit) ** 2) / np.mean(rise**2))
    return bend, fit[0] / ((v[0] - v[1]) / unit[1] / 8)


@in_browser
@pytest.mark.parametrize(("settings", "stops"), DRIVEN, ids=str)
def test_the_sentence_says_what_is_drawn(opened, settings, stops):
    until(opened, "m.run.heads.length")
    opened.js("(Object.assign(m.state, a[0]), m.begin(), 0)", train.BEGIN | settings)
    until(opened, "m.run.done === 0 && m.run.heads.length === m.state.heads")
    for stop in stops:
        opened.js("(m.more(a[0] - m.run.done), 0)", stop)
        until(opened, f"m.run.done === {stop} && !m.busy()")
        opened.picture()
        text = says(opened)
        if not text.startswith(f"Step {stop:,}: the loss is"):
            bend, slope = drawn(opened)
            assert abs(bend - train.STRAIGHT) > 1e-4, "too near to the bound to tell"
            assert ("The answer runs straight" in text) == (bend < train.STRAIGHT), (text, bend)
            assert ("The answer bends:" in text) == (bend >= train.STRAIGHT), (text, bend)
            percents = [int(word.replace("\u2212", "-")) for word in re.findall(r"(\u2212?\d+) %", text)]
            assert percents[:2] == pytest.approx([100 * bend, 100 * slope], abs=0.6), text
        mu, omega = np.array(opened.js("m.run.heads.map(({ mu, omega }) => [mu, omega])")).T
        does = np.abs(mu * omega)
        large = does >= max(0.2 * does.max(), 0.01)
        counted = {"add": (mu[large] > 0).sum(), "subtract": (mu[large] < 0).sum(), "little": (~large).sum()}
        said = text.partition(". ")[0]
        assert {name for name, count in counted.items() if count} == {
            name for name in counted if name in said
        } or "the loss is" in said, (text, mu)


@in_browser
def test_at_its_end_the_panel_says_that_it_is_finished(browser, tmp_path):
    change = ("train.js", "able ? data.most :", "able ? 50 :")
    browser.open(models_page.write(tmp_path / "page", change).as_uri())
    model = Running(browser, "train")
    buttons(model)["Train again"].click()
    until(model, "m.run.done === 50 && !m.state.playing")
    assert says(model).startswith("Step 50, finished: ")
    assert not buttons(model)["One step"].is_enabled()
    buttons(model)["Train again"].click()
    until(model, "m.run.done > 0 && m.run.done < 50 || m.run.records.length < 5")
    assert not [
        button
        for button in model.find("button")
        if button.get_attribute("aria-pressed") and button.text in ("Train", "Pause", "Train again")
    ]


@in_browser
def test_out_of_sight_nothing_trains(opened):
    until(opened, "m.run.heads.length")
    opened.browser._run("document.querySelector('figure[data-model=train]').scrollIntoView()")
    opened.js("m.play(true)")
    until(opened, "m.run.done > 5")
    assert not rests(opened)
    opened.browser._run("window.scrollTo(0, 0)")
    opened.browser.frames(3)  # with which the browser says what is in sight
    assert rests(opened)
    done = opened.js("m.run.done")
    opened.browser._run("document.querySelector('figure[data-model=train]').scrollIntoView()")
    until(opened, f"m.run.done > {done}")


@in_browser
def test_every_try_begins_its_run(opened):
    for key, name, settings, *_ in train.TRIES:
        buttons(opened)[name].click()
        until(opened, "m.run.done > 0 && m.state.playing")
        state = opened.js("m.state")
        assert state["tried"] == key
        assert {k: state[k] for k in train.BEGIN} == train.BEGIN | settings


@in_browser
def test_keys_move_every_control(opened):
    until(opened, "m.run.heads.length")
    opened.find("summary")[1].click()
    for control in opened.find("input[type=range]"):
        before = opened.js("JSON.stringify(m.state)")
        opened.browser._run("arguments[0].focus()", control)
        control.send_keys(harness.Keys.ARROW_RIGHT)
        assert opened.js("JSON.stringify(m.state)") != before, control.get_attribute("aria-valuetext")
    for radio in opened.find("input[type=radio]"):
        radio.click()
        assert radio.is_selected()
    assert opened.js("[m.state.scores, m.state.activation]") == ["coded", "linear"]
    handle = opened.find(".handle.asked")[0]
    opened.browser._run("arguments[0].focus()", handle)
    query = opened.js("m.state.query")
    handle.send_keys(harness.Keys.ARROW_LEFT)
    assert opened.js("m.state.query") < query


@in_browser
def test_a_pair_is_dragged_while_it_trains(opened):
    until(opened, "m.run.heads.length")
    opened.js("m.play(true)")
    opened.browser._run("document.querySelector('figure[data-model=train]').scrollIntoView()")
    point = opened.find(".handle.pair .reach")[0]
    before = opened.find(".handle.pair")[0].get_attribute("transform")
    ActionChains(opened.browser.driver).drag_and_drop_by_offset(point, 30, -20).perform()
    until(
        opened,
        f"document.querySelector('figure[data-model=train] .handle.pair').getAttribute('transform') !== '{before}'",
    )


#: What is done to a page before its scripts run; whether that is noticed before a reader presses Train.
BROKEN = {
    "no vectors": ("WebAssembly.validate = () => false", True),
    "no WebAssembly": ("delete globalThis.WebAssembly", True),
    "a worker refused": (
        "Worker = class { constructor() { throw new DOMException('refused', 'SecurityError'); } }",
        False,
    ),
    "a worker that fails": (
        "Worker = class { postMessage() { setTimeout(() => this.onerror(new ErrorEvent('error', { message: 'failed' }))); } }",
        False,
    ),
    "a message lost": (
        "Worker = class { postMessage() { setTimeout(() => this.onmessageerror(new MessageEvent('messageerror'))); } }",
        False,
    ),
    "a module refused": (
        "DecompressionStream = class { constructor() { throw new Error('not here'); } }; const W = Worker; Worker = class extends W { constructor() { super(URL.createObjectURL(new Blob(['onmessage = ({ data }) => data.kind === \"load\" || postMessage({ id: data.id, error: \"refused\" })']))); } }",
        False,
    ),
}


def plays_its_stored_run(browser: harness.Browser, address: str, at_once: bool) -> None:
    """The panel opens at the end of its stored run; where it cannot train it says so, and plays that run to its end."""
    browser.open(address)
    model = Running(browser, "train")
    stored = models_page.models()["train"]
    assert says(model) == stored.says
    if not at_once:
        buttons(model)["Train again"].click()
        until(model, "!m.state.playing && m.state.stored")
    assert [line.text for line in model.find(".about") if line.is_displayed()] == [CANNOT]
    buttons(model)["Play again"].click()
    last = stored.data["film"][-1]
    until(model, "m.run.done > 0 && m.state.playing")
    until(model, f"m.run.done === {last['step']} && !m.state.playing")
    assert model.js("m.run.heads.map(({ mu }) => mu)") == pytest.approx([head["ov"][-1] for head in last["heads"]])
    assert says(model).replace(", finished", ", the end of a stored run") == stored.says
    model.find("svg [role=slider]")[0].send_keys(harness.Keys.ARROW_UP)  # the prompt is answered by the frame


CANNOT = "This browser does not train here (its worker or WebAssembly with vectors is missing, refused or has failed). What plays is a stored run."


@in_browser
@pytest.mark.parametrize("what", BROKEN)
def test_where_a_browser_cannot_train_it_says_so_and_plays_a_stored_run(browser, page, what):
    script, at_once = BROKEN[what]
    planted = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    try:
        plays_its_stored_run(browser, page, at_once)
        waits = Running(browser, "train_waits")
        assert len(waits.js("m.found()")) == len(models_page.models()["train_waits"].data["stored"]["found"])
        assert waits.find("[role=status]")[0].text == models_page.models()["train_waits"].says
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", planted)
    assert browser.problems() == []


@in_browser
def test_a_browser_that_compiles_nothing_and_a_policy_against_workers(page, tmp_path):
    locked = harness.Browser("--js-flags=--jitless")
    try:
        locked.open(page)
        assert locked._run("return typeof WebAssembly") == "undefined", "the flag has no effect in this browser"
        plays_its_stored_run(locked, page, at_once=True)
        assert locked.problems() == []
        guarded = models_page.write(tmp_path / "page")
        policy = '<head><meta http-equiv="Content-Security-Policy" content="worker-src \'none\'">'
        guarded.write_text(guarded.read_text(encoding="utf-8").replace("<head>", policy, 1), encoding="utf-8")
    finally:
        locked.close()
    free = harness.Browser()
    try:
        plays_its_stored_run(free, guarded.as_uri(), at_once=False)
    finally:
        free.close()


# ---- waits in the crossing -----------------------------------------------------------------------------------------------


@in_browser
def test_waits_are_the_librarys_and_grow_as_the_law_says(browser, page):
    browser.open(page)
    model = Running(browser, "train_waits")
    browser._run("document.querySelector('figure[data-model=train_waits]').scrollIntoView()")
    assert model.find("[role=status]")[0].text == models_page.models()["train_waits"].says
    buttons(model)["Measure again"].click()
    sizes = crossing_waits.SIZES[:4]
    until(model, f"m.found().length >= {2 * len(crossing_waits.SIZES)}")
    buttons(model)["Pause"].click()
    found = model.js("m.found()")
    for rule in crossing_waits.RULES:
        here = {one["size"]: one["wait"] for one in found if one["rule"] == rule and one["seed"] == 0}
        there = crossing_waits.measured(TASK, rule, sizes, 0, 1_600)[2]
        assert [here[size] for size in sizes] == pytest.approx(there, rel=0.07)  # to a mean loss's own stretch
    plain, adam = model.js("[m.growth('plain'), m.growth('adam')]")
    assert 3 < plain < 5
    assert adam < 1.5
    assert browser.problems() == []
