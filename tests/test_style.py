"""The figure style: fixed sizes, colours that can be told apart, scales that mean what they show."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from iclbook.drawing import style


@pytest.fixture(autouse=True)
def _styled():
    with plt.rc_context():
        style.use()
        yield
        plt.close("all")


def lightness(colour) -> float:
    """CIE L* of a colour, 0 (black) to 100 (white)."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    y = linear @ [0.2126, 0.7152, 0.0722]
    return 116 * np.cbrt(y) - 16 if y > 0.008856 else 903.3 * y


def seen_by(colour, matrix) -> np.ndarray:
    """A colour as a dichromat sees it: linear RGB through Machado et al.'s matrix (severity 1)."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.clip(np.array(matrix) @ linear, 0, 1) ** (1 / 2.2)


DICHROMATS = {
    "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}


@pytest.mark.parametrize("reader", DICHROMATS)
def test_palette_is_told_apart_by_colour_blind_readers(reader):
    for one, two in itertools.combinations(style.PALETTE, 2):
        distance = np.linalg.norm(seen_by(one, DICHROMATS[reader]) - seen_by(two, DICHROMATS[reader]))
        assert distance > 0.1, (one, two)


def test_every_role_is_readable_on_the_ground():
    for role, colour in style.COLOURS.items():
        assert lightness(style.GROUND) - lightness(colour) > 25, role


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
