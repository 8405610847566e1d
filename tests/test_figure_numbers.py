"""What is kept of a figure: the numbers it shows, where they come from, and a layout for phones."""

import csv
import io
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest

from iclbook import store
from iclbook.drawing import figure_data, figure_output, phone_layout, style


@pytest.fixture(autouse=True)
def _no_figure_left():
    yield
    plt.close("all")


def rows_of(figure) -> list[dict[str, str]]:
    figure.canvas.draw()
    return list(csv.DictReader(io.StringIO(figure_data.text(figure_data.rows(figure)))))


def of_kind(rows, kind, *columns):
    return [tuple(row[c] for c in columns) for row in rows if row["kind"] == kind]


# -- numbers --------------------------------------------------------------------------------------------------------------


def test_curves_and_bands_come_with_their_panel_axes_and_names():
    fig, (left, right) = style.figure(2, sharey=True)
    left.plot([1, 2, 4], [0.5, 0.25, 0.125], label="error")
    left.fill_between([1, 2, 4], [0.4, 0.2, 0.1], [0.6, 0.3, 0.2], label="all seeds", alpha=0.2)
    style.paper_line(left, 0.13, "paper: 0.13")
    left.set(title="one head", xlabel="length $L$", ylabel="loss (nats)")
    right.plot([1, 2], [3, 4], "o", label="runs")
    rows = rows_of(fig)
    assert of_kind(rows, "line", "series", "x", "y") == [
        ("error", "1", "0.5"),
        ("error", "2", "0.25"),
        ("error", "4", "0.125"),
    ]
    assert ("all seeds", "2", "0.2", "0.3") in of_kind(rows, "band", "series", "x", "low", "high")
    assert of_kind(rows, "line across", "series", "x", "y") == [("paper: 0.13", "", "0.13")]
    assert {(r["panel"], r["title"], r["x axis"], r["y axis"]) for r in rows} == {
        ("1", "one head", "length $L$", "loss (nats)"),
        ("2", "", "", "loss (nats)"),  # the panels share the axis whose label the first one bears
    }
    assert of_kind(rows, "points", "panel", "x", "y") == [("2", "1", "3"), ("2", "2", "4")]


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        ({"names": ["one", "three"]}, "words"),
        ({"said": "the law", "title": "runs"}, "words"),
        ({"label": "the wrong law"}, "words"),
        ({"colour": style.PALETTE[2]}, "colours"),
        ({"title": "runs: 0.131"}, None),
    ],
)
def test_a_figures_words_and_colours_are_told_and_measured_numbers_are_not(change, moved):
    def looks(names=("one", "two"), said="a law", title="runs: 0.129", label="law", colour=style.PALETTE[1]):
        fig, ax = style.figure()
        ax.plot([0, 1], [0.4, 0.1], color=colour, label=label)
        ax.set_xticks([0, 1], names)
        ax.text(0.5, 0.2, said)
        ax.set_title(title)
        ax.legend()
        return figure_data.looks(fig)

    before, after = looks(), looks(**change)
    assert {what for what in before if before[what] != after[what]} == ({moved} if moved else set())


def test_bars_and_error_bars_keep_the_words_on_the_axis():
    fig, ax = style.figure()
    ax.bar(["two heads", "three"], [0.4, 0.1], label="share")
    ax.errorbar([0, 1], [0.4, 0.1], yerr=[0.05, 0.02], fmt="o", label="two errors")
    rows = rows_of(fig)
    assert of_kind(rows, "bar", "x name", "y") == [("two heads", "0.4"), ("three", "0.1")]
    assert of_kind(rows, "error bar", "x name", "low", "high") == [
        ("two heads", "0.35", "0.45"),
        ("three", "0.08", "0.12"),
    ]


def test_heat_maps_keep_every_entry_and_no_colour_bar():
    fig, ax = style.figure()
    fig.colorbar(style.heatmap(ax, np.array([[1.0, -2.0], [0.5, 3.0]]), row_labels=["a", "b"]))
    rows = rows_of(fig)
    assert {(r["y name"], r["x"], r["value"]) for r in rows} == {
        ("a", "0", "1"),
        ("a", "1", "-2"),
        ("b", "0", "0.5"),
        ("b", "1", "3"),
    }


def test_scatter_segments_and_arrows():
    fig, ax = style.figure()
    ax.scatter([1, 2], [3, 4], c=[0.1, 0.2], label="dots")
    ax.vlines([1, 2], 0, 1, label="sticks")
    ax.annotate("step", (1, 1), (0, 0), arrowprops={"arrowstyle": "->"})
    rows = rows_of(fig)
    assert of_kind(rows, "points", "x", "y", "value") == [("1", "3", "0.1"), ("2", "4", "0.2")]
    assert of_kind(rows, "segment", "x", "y") == [("1", "0"), ("1", "1"), ("2", "0"), ("2", "1")]
    assert of_kind(rows, "arrow", "series", "x", "y", "to x", "to y") == [("step", "0", "0", "1", "1")]


def test_curves_without_a_label_are_named_by_the_legend_entry_of_the_same_looks():
    fig, ax = style.figure()
    for seed in range(3):
        ax.plot([0, 1], [seed, seed], color="#0072B2", label="seeds" if seed == 0 else None)
    ax.plot([0, 1], [5, 5], color="#D55E00")
    ax.legend()
    assert [s for (s,) in of_kind(rows_of(fig), "line", "series")[::2]] == ["seeds", "seeds", "seeds", "series 1"]


# -- origin ---------------------------------------------------------------------------------------------------------------


def stored(name: str) -> store.Results:
    config = {"paper": "he2025", "name": name, "steps": 10, "groups": [{"runs": [{"seed": 0}, {"seed": 1}]}]}
    about = store.provenance(config, {"tasks": "Task abcdef01"}, 60.0, "cpu")
    return store.Results({"g/loss": np.zeros(2)}, about)


def test_a_figure_names_the_results_that_its_show_names(monkeypatch):
    shown_now = []
    monkeypatch.setattr(plt, "get_backend", lambda: "inline")
    monkeypatch.setattr(plt, "show", lambda: shown_now.extend(map(plt.figure, plt.get_fignums())))
    first, second = style.figure()[0], style.figure()[0]
    style.show(of=[stored("one"), stored("two"), stored("one")])
    assert shown_now == [first, second]
    for figure in shown_now:
        about = figure_output.origin(figure_output.drawn_from[figure])
        assert [s["study"] for s in about["studies"]] == ["one", "two"]
    study = about["studies"][0]
    assert (study["runs"], study["seeds"], study["steps"], study["seconds"]) == (2, "0-1", 10, 60.0)
    assert set(about["versions"]) == {"Python", "torch", "numpy", "matplotlib"}
    assert figure_output.origin(()) is None, "a figure of a closed form, or one shown by pyplot, names none"


# -- phones ---------------------------------------------------------------------------------------------------------------


def test_a_row_of_panels_becomes_a_column_with_the_labels_it_shared():
    fig, axes = style.figure(3, height=2.6, sharey=True)
    for n, ax in enumerate(axes):
        ax.plot([0, 1], [0, n], label=f"curve {n}")
        ax.set(title=f"panel {n}", xlabel="step")
    axes[0].set_ylabel("loss")
    small = phone_layout.phone_layout(fig, style.DPI)
    assert small.get_size_inches()[0] == phone_layout.WIDTH
    boxes = [ax.get_window_extent() for ax in small.axes]
    assert all(a.y0 > b.y1 for a, b in pairwise(boxes)), "below each other, in order"
    assert {round(b.x0) for b in boxes} == {round(boxes[0].x0)}
    assert [ax.get_ylabel() for ax in small.axes] == ["loss"] * 3
    assert tuple(fig.get_size_inches()) == (style.WIDTH, 2.6), "the figure itself stays"
    assert plt.fignum_exists(fig.number)
    assert plt.get_fignums()[-1] == fig.number, "pyplot keeps no copy"
    assert [ax.get_ylabel() for ax in axes] == ["loss", "", ""]


# -- faults that a reader sees --------------------------------------------------------------------------------------------


def test_planted_faults_are_found_and_a_sound_figure_has_none():
    fig, (left, right) = style.figure(2)
    for ax in (left, right):
        ax.plot(np.linspace(0, 1, 50), np.linspace(0, 1, 50), label="curve")
        ax.set(title="title", xlabel="step", ylabel="loss", xlim=(0, 1), ylim=(0, 1))
        ax.tick_params(axis="x", rotation=40)
        ax.legend(loc="upper left")
    left.text(0.5, 0.2, "words")
    figure_output.pixels(fig, 200)
    assert figure_output.faults(fig, 200) == []
    fig.set_layout_engine("none")
    left.text(0.52, 0.21, "more words")
    left.yaxis.set_label_coords(-0.4, 0.5)
    right.legend(loc="center")
    right.set_title("words that start in the middle and go on for longer than the page", loc="left")
    figure_output.pixels(fig, 200)
    found = figure_output.faults(fig, 200)
    assert "words 'words' over words 'more words'" in found
    assert "y label 'loss' is cut" in found
    assert "the legend of 'title' over 'curve'" in found
    assert "title 'words that start in the middle and go on' is cut" in found
    assert len(found) == 5, "and the two titles of one panel"


@pytest.mark.parametrize("commit", ["unknown", "0badc0de", "--output=x"])
def test_an_origin_is_what_the_results_record_and_asks_no_history(commit, monkeypatch):
    """A commit that no clone holds, or a clone of depth 1, changes no page."""
    monkeypatch.setenv("PATH", "")  # no git
    made = stored("one")
    made.provenance["commit"] = commit
    made.provenance.pop("date", None)
    (study,) = figure_output.origin([made])["studies"]
    assert (study["date"], study["clock"]) == ("day not recorded", "wall clock")
    made.provenance.update(date="2026-11-28", clock="processor")
    (study,) = figure_output.origin([made])["studies"]
    assert (study["date"], study["clock"]) == ("2026-11-28", "processor")
