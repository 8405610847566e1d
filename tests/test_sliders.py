"""Sliders: both modes move through their whole range, and bad definitions are refused."""

import base64
import csv
import hashlib
import html
import io
import math
from itertools import product

import ipywidgets as w
import matplotlib.pyplot as plt
import nbformat
import pytest
from nbclient import NotebookClient

from iclbook.sliders import LivePanel, Slider, StaticPanel


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    for name in ("ICLBOOK_HEADLESS", "ICLBOOK_EXERCISE_SLIDERS"):
        monkeypatch.delenv(name, raising=False)
    yield
    w.Widget.close_all()


def bars(a, b=0):
    """A small figure that differs for every (a, b)."""
    fig = plt.figure(figsize=(2, 1), layout="none")
    fig.add_axes([0, 0, 1, 1]).bar([0, 1], [a + 1, b + 1])
    fig.axes[0].set_ylim(0, 12)
    fig.text(0.1, 0.5, f"{a:.4g}, {b:.4g}")
    return fig


ONE = Slider("a", "heads", [1, 2, 4], live=(1, 8, 1))
TWO = Slider("b", "scale", [0.5, 1.0], live=(0.5, 9.0, 0.1))


@pytest.mark.parametrize("given", [[ONE], [ONE, TWO]])
def test_every_position_has_its_own_frame(given):
    panel, seen = StaticPanel(bars, given), set()
    for place in product(*(range(len(slider.values)) for slider in given)):
        shown = panel.stack
        for index in place:
            shown = shown.children[index]
        picture = base64.b64decode(shown.value.rpartition("base64,")[2].rstrip('">'))
        assert hashlib.sha256(picture).hexdigest() == panel.about["frames"][",".join(map(str, place))]
        seen.add(picture)
    assert len(seen) == math.prod(len(slider.values) for slider in given)
    assert not plt.get_fignums()


def test_a_live_panel_draws_all_combinations_of_its_ends():
    panel, drawn = LivePanel(bars, [ONE, TWO]), set()
    panel.picture.observe(lambda change: drawn.add(change.new), "value")
    panel.move_to_ends()
    assert len(drawn) >= 4
    assert [control.value for control in panel.controls] == [1, 0.5]


def numbers_of(panel) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(panel.about["csv"])))


def test_the_numbers_of_all_frames_are_kept_with_the_sliders_values():
    panel = StaticPanel(bars, [ONE, TWO], start={"a": 2, "b": 1.0})
    assert panel.about["numbers"] == "Numbers of all frames"
    found = [(r["slider: heads"], r["slider: scale"], r["x"], r["y"]) for r in numbers_of(panel)]
    assert found == [
        (f"{a:g}", f"{b:g}", x, f"{y + 1:g}") for a in ONE.values for b in TWO.values for x, y in (("0", a), ("1", b))
    ]


def test_equal_frames_are_stored_once():
    panel = StaticPanel(lambda a: bars(0), [Slider("a", "a", range(5))], alt=lambda a: "always the same")
    assert len(set(panel.stack.children)) == 1


@pytest.mark.parametrize("mode", [StaticPanel, LivePanel])
def test_error_in_a_frame_names_the_values_and_leaves_no_figure(mode):
    def broken(a):
        plt.figure(layout="none")
        raise ZeroDivisionError("bad a")

    with pytest.raises(ZeroDivisionError) as caught:
        mode(broken, [ONE])
    assert "{'a': 1}" in caught.value.__notes__[0]
    assert not plt.get_fignums()


def test_live_error_is_raised_and_shown_and_cleared():
    def fails_at_eight(a):
        if a == 8:
            raise ZeroDivisionError("bad a")
        return bars(a)

    panel = LivePanel(fails_at_eight, [ONE])
    with pytest.raises(ZeroDivisionError):
        panel.move_to_ends()
    (control,) = panel.controls
    assert "bad a" in panel.output.outputs[0]["text"]
    control.value = 4
    assert panel.output.outputs == ()


def alt_of(holder: w.HTML) -> str:
    """The alt text of a picture."""
    return html.unescape(holder.value.partition('alt="')[2].partition('"')[0])


def test_alt_text_follows_the_slider():
    fixed = StaticPanel(bars, [ONE], title="Bars")
    assert [alt_of(p) for p in fixed.stack.children] == ["Bars: heads 1", "Bars: heads 2", "Bars: heads 4"]
    moving = LivePanel(bars, [ONE], alt=lambda a: f'{a} "bars" > 0')
    moving.controls[0].value = 7
    assert alt_of(moving.picture) == '7 "bars" > 0'


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Slider("a", "a", []), "no values"),
        (lambda: Slider("a", "a", [0.12345, 0.12346]), "a label for each value"),
        (lambda: Slider("a", "a", [1, 5], live=(2, 6, 1)), "leaves a value out"),
        (lambda: StaticPanel(bars, []), "one slider or more"),
        (lambda: LivePanel(bars, [ONE, ONE]), "a name of its own"),
        (lambda: StaticPanel(bars, [Slider("c", "c", [1])]), "unexpected keyword argument 'c'"),
        (lambda: LivePanel(bars, [ONE], start={"z": 1}), "start and play name sliders"),
        (lambda: LivePanel(bars, [ONE], play="z"), "start and play name sliders"),
        (lambda: StaticPanel(bars, [ONE], start={"a": 3}), "cannot start at 3"),
        (lambda: StaticPanel(lambda a: "no figure", [ONE]), "returned str"),
        (lambda: StaticPanel(lambda a: plt.figure(figsize=(a, 1), layout="none"), [ONE]), "different sizes"),
        (lambda: LivePanel(bars, [ONE], start={"a": math.nan}), "cannot start at nan"),
    ],
)
def test_bad_definitions_are_refused(make, says):
    with pytest.raises((AssertionError, TypeError), match=says):
        make()
    assert not plt.get_fignums()


CELL = """
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
from iclbook.sliders import Slider, show
def frame(a):
    if a == {bad}:
        raise ValueError("cannot draw")
    fig = plt.figure(figsize=(2, 1), layout="none")
    fig.add_axes([0, 0, 1, 1]).plot([0, a])
    return fig
show(frame, [Slider("a", "a", [1, 2], live=(0, 5, 1))], title="Line")
"""


def run(cell: str) -> nbformat.NotebookNode:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    return NotebookClient(notebook, kernel_name="python3", timeout=None).execute()


@pytest.fixture
def _headless(monkeypatch):
    monkeypatch.setenv("ICLBOOK_HEADLESS", "1")
    monkeypatch.setenv("ICLBOOK_EXERCISE_SLIDERS", "1")


@pytest.mark.usefixtures("_headless")
def test_error_at_a_live_value_fails_the_notebook():
    with pytest.raises(Exception, match="cannot draw"):
        run(CELL.format(bad=5))  # the end of the live range: no static frame shows it
