"""What a notebook keeps of every figure that it shows: a small PNG, the numbers in it, the stored trainings that it draws, and a picture for phones.

``style.use`` switches this on where a chapter runs headless; in JupyterLab figures are shown as usual.
Under ``ICLBOOK_MEASURE_FIGURES=1``, which the tests of the chapters set, it also notes what is broken in the picture.
"""

from __future__ import annotations

import base64
import io
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import matplotlib as mpl
import numpy as np
from IPython.core.formatters import JSONFormatter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from traitlets import Unicode

from ..mime_types import FIGURE
from .figure_data import table
from .measured import faults
from .narrow import narrow

#: zlib's level for PNGs: one more halves the speed for two or three bytes in a hundred.
LEVEL = 8


class AboutFormatter(JSONFormatter):
    """Formats figures as :data:`FIGURE`."""

    format_type = Unicode(FIGURE)


def keep(shell: Any, css_dpi: float, scale: int) -> None:
    """From now on every figure that this notebook shows carries its numbers and its origin; a second call changes nothing.

    Args:
        shell: the notebook's IPython shell.
        css_dpi, scale: CSS pixels an inch, and pixels of a PNG a CSS pixel.
    """
    if FIGURE in shell.display_formatter.formatters:
        return
    measure = os.environ.get("ICLBOOK_MEASURE_FIGURES") == "1"

    def picture(figure: Figure) -> tuple[str, dict[str, int]]:
        width, height = (round(inches * css_dpi) for inches in figure.get_size_inches())
        return _text(png(pixels(figure, css_dpi * scale))), {"width": width, "height": height}

    def about(figure: Figure) -> dict[str, Any]:
        found: dict[str, Any] = {"csv": table(figure), "origin": origin(_drawn_from.get(figure, ()))}
        broken = faults(figure, css_dpi * scale) if measure else []
        small = narrow(figure, css_dpi * scale)
        if small is not None:
            found["narrow"] = _text(png(pixels(small, css_dpi * scale)))
            found["size"] = [round(inches * css_dpi) for inches in small.get_size_inches()]
            broken += [f"on a phone: {fault}" for fault in (faults(small, css_dpi * scale) if measure else ())]
        return found | ({"faults": broken} if broken else {})

    formatters = shell.display_formatter.formatters
    formatters["image/png"].for_type(Figure, picture)
    formatters[FIGURE] = AboutFormatter(parent=shell.display_formatter)
    formatters[FIGURE].for_type(Figure, about)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


# -- pixels ---------------------------------------------------------------------------------------------------------------


def pixels(figure: Figure, dpi: float) -> np.ndarray:
    """Draw a figure at a resolution; RGB bytes, shape (rows, columns, 3).

    The pixels of ``figure.savefig``, which walks through all artists once more to lay them out, and goes by way of a PNG.
    """
    canvas, layout, before = FigureCanvasAgg(figure), figure.get_layout_engine(), figure.dpi
    figure.dpi = dpi
    ground = mpl.rcParams["savefig.facecolor"]
    if ground != "auto":
        figure.set_facecolor(ground)
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")
    canvas.draw()
    # A function may give the same figure again, changed.
    figure.dpi = before
    if layout is not None:
        figure.set_layout_engine(layout)
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def png(pixels: np.ndarray, colours: int | None = 256) -> bytes:
    """RGB bytes as a PNG with a palette of so many colours; ``None`` keeps every colour, and is quick and large.

    Not dithered: that would add noise, and bytes. Fewer colours than 256 let the light tones of a heat map merge.
    """
    image, file = Image.fromarray(pixels), io.BytesIO()
    if colours is not None:
        image = image.quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    image.save(file, "png", compress_level=1 if colours is None else LEVEL)
    return file.getvalue()


# -- origin ---------------------------------------------------------------------------------------------------------------


class Stored(Protocol):
    """What can be named as an origin: anything with the provenance that :mod:`iclbook.store` keeps, such as ``store.Results``."""

    provenance: Mapping[str, Any]


#: The stored results that a figure draws, as ``style.show`` was told.
_drawn_from: WeakKeyDictionary[Figure, tuple[Stored, ...]] = WeakKeyDictionary()


def draws(figure: Figure, of: Iterable[Stored]) -> None:
    """Note that a figure draws these stored results."""
    _drawn_from[figure] = tuple(of)


def origin(of: Iterable[Stored]) -> dict[str, Any] | None:
    """What a page says below a figure drawn from stored results: papers, studies, seeds, dates and versions; ``None`` of no results.

    A study that is named twice, or of which a copy is named, stands once.
    """
    studies = {_key(each.provenance): each.provenance for each in of}
    if not studies:
        return None
    return {
        "studies": [_study(*key, studies[key]) for key in sorted(studies)],
        "versions": {
            "Python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "matplotlib")},
        },
    }


def _key(about: Mapping[str, Any]) -> tuple[str, str]:
    return about["config"]["paper"], about["config"]["name"]


def _study(paper: str, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """What a page says of a stored training or computation."""
    config = about["config"]
    runs = _runs(config)
    kept = ("seconds", "device", "python", "torch", "numpy", "commit", "source")
    return {
        "paper": paper,
        "study": name,
        "runs": len(runs),
        "seeds": ranges({seed for seed in runs if seed is not None}),
        "steps": config.get("steps"),
        "date": _date(about.get("commit", "")),
        **{key: about[key] for key in kept if key in about},
    }


def _runs(config: Mapping[str, Any]) -> list[int | None]:
    """The seed of every run of a training, or of every member of every group of a computation."""
    groups = config.get("groups", [])
    if "count" in config:
        return [config["first"] + k for _ in groups for k in range(config["count"])]
    return [run.get("seed") for group in groups for run in group.get("runs", [])]


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers in few words: ``0-4, 7``."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)


@cache
def _date(commit: str) -> str:
    """The day of a commit; the empty string where its history is not at hand."""
    if not commit.isalnum():
        return ""
    try:
        return subprocess.run(
            ["git", "show", "-s", "--format=%cs", commit],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
