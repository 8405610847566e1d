"""nagy2026: figures and sliders."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest
from nagy2026.kit import (
    PRINTED_CHANGE,
    ablation_results,
    diversity_results,
    mask_results,
)

from iclbook.drawing import style
from iclbook.papers.nagy2026 import figures as draw
from iclbook.papers.nagy2026.figures import frames
from iclbook.papers.nagy2026.measures import exact


def test_figures_draw_every_seed_and_the_printed_values():
    _, _, grid = ablation_results()
    figures = {
        draw.masks(mask_results(PRINTED_CHANGE)): ({5.77, 5.99}, 40 * 20 + 30 * 20 + 7),
        draw.depth_grid(grid): ({round(2.684 / 2.187, 9)}, 15 * 14),
        draw.figure_1(exact.spectrum()): ({0.35, 0.59, 0.81}, 9 * 21),
        draw.diversity(*diversity_results()): ({3.81, 1.34}, 12 * 20 + 12 * 20),
    }
    for fig, (printed, marks) in figures.items():
        lines = [line for ax in fig.axes for line in ax.get_lines()]
        own = {
            round(float(y), 9)
            for line in lines
            if line.get_color() == style.COLOURS["paper"]
            for y in line.get_ydata()
        }
        assert printed <= own
        drawn = sum(
            len(line.get_ydata()) for line in lines if line.get_marker() not in ("None", "x", "", None)
        )
        assert drawn == marks
        assert fig.legends or any(ax.get_legend() for ax in fig.axes)
    plt.close("all")


SLIDERS = {
    frames.spectrum_frame: [(2.0, 0.25), (120.0, 1.3), (1.1, 1.6)],
    frames.layers_frame: [(1,), (20,), (30,)],
    frames.temperature_frame: [(-1.0,), (0.0,), (3.0,)],
    frames.gains_frame: [(1, "none"), (2, "random"), (4, "spectral"), (4, "redundant")],
}


@pytest.mark.parametrize("frame", SLIDERS)
def test_frames_keep_their_size_over_the_whole_range(frame):
    sizes = set()
    for values in SLIDERS[frame]:
        fig = frame(*values)
        fig.canvas.draw()
        sizes.add(tuple(fig.get_size_inches()))
        plt.close(fig)
    assert len(sizes) == 1
