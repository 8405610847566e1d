"""A figure drawn for the dark page: by the same artists, each with the dark colour that stands for its own.

One rule gives every dark colour, so that palette, blends, bands and maps stay consistent: the hue stays, and what stands out from the light ground stands out
from the dark one (:func:`dark`). A map whose low end is the ground keeps its low end at the ground, and its order.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.backend_bases import GraphicsContextBase
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

#: Lightness in OKLab of the light ground, the ink on it, the dark ground and the ink on that.
LIGHT, INK, DARK, DARK_INK = 0.988, 0.256, 0.205, 0.93
#: Middle tones rise above the line from ground to ink: on a dark ground the eye sees less of a small difference.
POWER = 0.75

_TO_CONES = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
_TO_LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099], [0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip


def linear(rgb: np.ndarray) -> np.ndarray:
    """Light of sRGB colours, in [0, 1], last axis red, green, blue."""
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def dark(rgb: np.ndarray) -> np.ndarray:
    """Colours for the dark page, of sRGB colours in [0, 1], shape (..., 3).

    In OKLab (Ottosson 2020) the share t of the way from ground to ink becomes the share t^0.75 there; hue and chroma stay, as far as screens can show.
    """
    lab = np.cbrt(linear(np.asarray(rgb, float)) @ _TO_CONES.T) @ _TO_LAB.T
    share = np.clip((LIGHT - lab[..., 0]) / (LIGHT - INK), 0, 1)
    level = DARK + (DARK_INK - DARK) * share**POWER
    out = np.broadcast_to(0.0, lab.shape)
    for chroma in np.linspace(0, 1, 21):  # the strongest that has a place in sRGB
        tried = np.concatenate([level[..., None], chroma * lab[..., 1:]], -1)
        light = (tried @ np.linalg.inv(_TO_LAB).T) ** 3 @ np.linalg.inv(_TO_CONES).T
        inside = ((light > -1e-4) & (light < 1 + 1e-4)).all(-1, keepdims=True)
        out = np.where(inside, light, out)
    out = np.clip(out, 0, 1)
    return np.where(out <= 0.0031308, 12.92 * out, 1.055 * out ** (1 / 2.4) - 0.055)


@lru_cache(maxsize=4096)
def _rgba(colour: tuple[float, ...]) -> tuple[float, ...]:
    return (*map(float, dark(np.array(colour[:3]))), *colour[3:])


def _face(colour: Any) -> Any:
    return None if colour is None else _rgba(tuple(map(float, colour)))


def _faces(colours: np.ndarray) -> np.ndarray:
    colours = np.asarray(colours, float)
    return np.array([_rgba(tuple(c)) for c in colours.tolist()]) if len(colours) else colours


def _image(pixels: np.ndarray) -> np.ndarray:
    """RGBA bytes of an image; each colour in it is looked up once."""
    found, places = np.unique(
        np.ascontiguousarray(pixels).view(np.uint32).reshape(pixels.shape[:2]), return_inverse=True
    )
    table = found.view(np.uint8).reshape(-1, 4).copy()
    table[:, :3] = np.round(255 * dark(table[:, :3] / 255))
    return table[places.reshape(pixels.shape[:2])]


class _Context(GraphicsContextBase):
    """Strokes and letters in dark colours."""

    def set_foreground(self, fg: Any, isRGBA: bool = False) -> None:
        super().set_foreground(_rgba(fg if isRGBA else to_rgba(fg)), isRGBA=True)

    def set_alpha(self, alpha: float | None) -> None:
        drawn = self._rgb
        super().set_alpha(alpha)  # sets the foreground again, to the colour that is dark by now
        super().set_foreground(drawn, isRGBA=True)

    def set_hatch_color(self, hatch_color: Any) -> None:
        super().set_hatch_color(_rgba(to_rgba(hatch_color)))


class _Renderer(RendererAgg):
    """Agg, with dark colours in place of those that artists ask for."""

    def __init__(self, width: float, height: float, dpi: float) -> None:
        super().__init__(width, height, dpi)
        agg = self._renderer

        def draw_path_collection(*drawn: Any, **more: Any) -> None:
            if (hatched := more.get("hatchcolors")) is not None:
                more["hatchcolors"] = _faces(hatched)
            agg.draw_path_collection(*drawn[:6], _faces(drawn[6]), _faces(drawn[7]), *drawn[8:], **more)

        # the base class sets these in the same way
        self.draw_path_collection = draw_path_collection
        self.draw_quad_mesh = lambda *d: agg.draw_quad_mesh(*d[:7], _faces(d[7]), d[8], _faces(d[9]))
        self.draw_image = lambda gc, x, y, image: agg.draw_image(gc, x, y, _image(image))
        self.draw_markers = lambda *drawn: agg.draw_markers(*drawn[:5], *map(_face, drawn[5:]))

    def new_gc(self) -> GraphicsContextBase:
        return _Context()

    def draw_path(self, gc: Any, path: Any, transform: Any, rgbFace: Any = None) -> None:
        super().draw_path(gc, path, transform, _face(rgbFace))


def draw_dark(figure: Figure) -> np.ndarray:
    """Draw a figure for the dark page, at its own resolution and with the layout of its last drawing; RGBA bytes, shape (rows, columns, 4)."""
    renderer, engine = _Renderer(*figure.bbox.size, figure.dpi), figure.get_layout_engine()
    figure.set_layout_engine("none")
    figure.draw(renderer)
    figure.set_layout_engine(engine if engine is not None else "none")
    return np.asarray(renderer.buffer_rgba())
