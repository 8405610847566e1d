"""The figure style: fixed sizes, colours that can be told apart, scales that mean what they show."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from iclbook.drawing import dark, figure_output, style


@pytest.fixture(autouse=True)
def _styled():
    with plt.rc_context():
        style.use()
        yield
        plt.close("all")


def seen_by(colour, matrix) -> np.ndarray:
    """A colour as a dichromat sees it: linear RGB through Machado et al.'s matrix (severity 1)."""
    return np.clip(np.array(matrix) @ dark.linear(np.array(to_rgb(colour))), 0, 1) ** (1 / 2.2)


def contrast(one, two) -> float:
    """Contrast of two colours, (Y + 0.05) / (Y' + 0.05) with their relative luminances Y >= Y', from 1 to 21 (WCAG 2.2)."""
    low, high = sorted(float(dark.linear(np.array(to_rgb(c))) @ [0.2126, 0.7152, 0.0722]) for c in (one, two))
    return (high + 0.05) / (low + 0.05)


DICHROMATS = {
    "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}


def on_dark(colour):
    return dark.dark(np.array(to_rgb(colour)))


PAGES = {"light": to_rgb, "dark": on_dark}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("reader", DICHROMATS)
def test_palette_is_told_apart_by_colour_blind_readers(reader, page):
    for one, two in itertools.combinations(map(PAGES[page], style.PALETTE), 2):
        distance = np.linalg.norm(seen_by(one, DICHROMATS[reader]) - seen_by(two, DICHROMATS[reader]))
        assert distance > 0.1, (one, two)


@pytest.mark.parametrize("page", PAGES)
def test_every_colour_stands_out_from_the_ground(page):
    drawn = PAGES[page]
    named = {**style.COLOURS, **dict(enumerate(style.PALETTE)), "ink": style.INK}
    weak = {name: c for name, c in named.items() if contrast(drawn(c), drawn(style.GROUND)) < 3}
    assert not weak
    assert contrast(drawn(style.INK), drawn(style.GROUND)) > 12


@pytest.mark.parametrize("scale", [style.SEQUENTIAL, style.DIVERGING])
def test_a_scale_begins_at_the_ground_on_both_pages_and_keeps_its_order(scale):
    middle = 0.5 if scale is style.DIVERGING else 0.0
    for end in {0.0, 1.0} - {middle}:
        colours = scale(np.linspace(middle, end, 20))
        for drawn in PAGES.values():
            steps = np.array([contrast(drawn(c[:3]), drawn(style.GROUND)) for c in colours])
            assert steps[0] < 1.1
            assert (np.diff(steps) > 0).all(), "what is more stands out more"


def test_a_figure_is_drawn_for_the_dark_page_in_dark_colours_and_stays_as_it_is():
    fig, ax = style.figure()
    ax.plot([0, 1], [0, 1], color=style.PALETTE[3], lw=12)
    ax.text(0.2, 0.8, "words", alpha=0.99, fontsize=30)
    ax.scatter([0.5, 0.6], [0.1, 0.1], s=900, c=[style.PALETTE[0], style.PALETTE[2]])
    ax.imshow(np.ones((2, 2)), cmap=style.SEQUENTIAL, vmin=0, extent=(0.7, 0.9, 0, 0.2), aspect="auto")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    before = figure_output.pixels(fig, 100)
    seen = {tuple(p) for p in figure_output.pixels(fig, 100, dark.draw_dark).reshape(-1, 3).tolist()}
    shown = (style.GROUND, style.INK, *style.PALETTE[:1], *style.PALETTE[2:4], style.SEQUENTIAL(1.0)[:3])
    for colour in shown:
        near = [max(abs(np.array(p) / 255 - on_dark(colour))) for p in seen]
        assert min(near) < 0.02, colour
    assert (figure_output.pixels(fig, 100) == before).all()


@pytest.mark.parametrize(("ncols", "nrows"), [(1, 1), (2, 1), (3, 2)])
def test_figures_fill_the_column_and_keep_their_size_when_saved(tmp_path, ncols, nrows):
    fig, _ = style.figure(ncols, nrows)
    assert fig.get_figwidth() * style.DPI == 700
    fig.savefig(tmp_path / "f.png")
    height, width, _ = plt.imread(tmp_path / "f.png").shape
    assert width == style.WIDTH * style.RC["savefig.dpi"]
    assert height == round(fig.get_figheight() * style.RC["savefig.dpi"])


def test_heatmap_shows_zero_in_the_middle_of_the_scale():
    _, ax = style.figure()
    image = style.heatmap(ax, np.array([[0.1, -0.4], [0.0, 0.2]]), row_labels=["a", "b"], annotate=".1f")
    assert image.get_clim() == (-0.4, 0.4)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert "0.0" in {t.get_text() for t in ax.texts}
    assert style.heatmap(ax, np.zeros((2, 2))).get_clim() == (-1, 1)
    with pytest.raises(AssertionError, match="finite"):
        style.heatmap(ax, np.array([[np.nan]]))
