"""A set of real glyph images that needs no download: characters in the typefaces that ship with matplotlib.

It stands in for ImageNet in wang2025, section 6.2: many classes (characters), several images of each (typefaces, each a little rotated,
scaled, sheared and shifted), some classes kept for testing. Clean glyphs are too easy: in a first trial every classifier on trained features was
almost always right, which compares nothing. So a patch of each image is erased, its contrast varies and noise is added.
"""

import math
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from matplotlib.ft2font import FT2Font
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from .. import random
from ..draw import numpy_rng, torch_rng
from ..random import CHOOSING, jittered, replica, replica_errors

SLANTED = ("", "-Bold", "-Oblique", "-BoldOblique")
#: Files of matplotlib's font folder with letters in common (its other fonts hold mathematical pieces only).
TYPEFACES = (
    *(f"DejaVu{family}{style}" for family in ("Sans", "SansMono") for style in SLANTED),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
)
#: Pixels of the longer side of an unjittered glyph, and of the canvas it lies on.
GLYPH, CANVAS = 32, 44
#: Two characters whose blurred drawings correlate more than this are one class to the eye (Latin, Greek and Cyrillic A); one is dropped.
LOOK_ALIKE = 0.93


class Glyphs(NamedTuple):
    """The drawn set.

    Attributes:
        images: ``(classes, typefaces, copies, size, size)`` uint8; full ink is brighter than the ground.
        codes: ``(classes,)`` code points.
        faces: ``(classes, typefaces)`` index into :data:`TYPEFACES`.
    """

    images: np.ndarray
    codes: np.ndarray
    faces: np.ndarray


@dataclass(frozen=True)
class GlyphSet:
    """Parameters that decide the pixels.

    Attributes:
        n_classes: characters, in an order drawn once from ``seed``, so that any first part of them is a random sample.
        n_train: how many of them are training classes; the others are never seen in training.
        typefaces: images of a class before jitter; each class has typefaces of its own, drawn from those that hold it.
        copies: jittered copies of each.
        size: pixels of a side.
        rotation, scale, shear, shift: uniform jitter: degrees, logarithm, ratio, share of a side; each up to this size in both directions.
        erase: side of the square that is wiped out of each image, in pixels.
        contrast: the ink's strength is uniform from this to 1.
        noise: standard deviation of the noise on each pixel, in units of full ink.
        seed: of order, typefaces, jitter and noise.
    """

    n_classes: int = 1000
    n_train: int = 900
    typefaces: int = 12
    copies: int = 2
    size: int = 20
    rotation: float = 20.0
    scale: float = 0.2
    shear: float = 0.25
    shift: float = 0.1
    erase: int = 5
    contrast: float = 0.5
    noise: float = 0.15
    seed: int = 2025

    def load(self) -> Glyphs:
        """The set, drawn once in a process (seconds). For a replica (:mod:`iclbook.random`) drawn with rounding errors, the same for every replica, which tip
        some pixels to the next whole number.
        """
        return _drawn(self, replica_errors() is not None)

    def draw(self) -> Glyphs:
        """The set, drawn now; a pure function of these numbers and matplotlib's fonts."""
        fonts = {name: FT2Font(str(_font_folder() / f"{name}.ttf")) for name in TYPEFACES}
        holds = [set(fonts[name].get_charmap()) for name in TYPEFACES]
        rng = numpy_rng(self.seed)
        codes = self._choose(fonts, holds, rng)
        plain = np.zeros((self.n_classes, self.typefaces, CANVAS, CANVAS), np.uint8)
        faces = np.zeros((self.n_classes, self.typefaces), np.int64)
        for i, code in enumerate(codes):
            held = [f for f in range(len(TYPEFACES)) if code in holds[f]]
            faces[i] = rng.permutation(held)[: self.typefaces]
            for j, f in enumerate(faces[i]):
                drawn = draw_glyph(fonts[TYPEFACES[f]], code)
                plain[i, j] = 0 if drawn is None else drawn  # one that is empty in this typeface stays white
        return Glyphs(self._jitter(plain), codes, faces)

    def _choose(self, fonts: dict[str, FT2Font], holds: list[set[int]], rng: np.random.Generator) -> np.ndarray:
        """Code points ``(n_classes,)`` that enough typefaces hold, no two of which look alike."""
        counts = np.bincount([code for held in holds for code in held])
        # letters, digits, punctuation and symbols; not marks that combine with a neighbour, not spaces, not controls
        held = np.flatnonzero(counts >= self.typefaces).tolist()
        able = [code for code in held if unicodedata.category(chr(code))[0] in "LNPS"]
        drawn = {}
        for code in able:
            first = next(f for f in range(len(TYPEFACES)) if code in holds[f])
            picture = draw_glyph(fonts[TYPEFACES[first]], code)
            if picture is not None:
                drawn[code] = picture
        codes = np.array(list(drawn))
        blurred = gaussian_filter(np.stack(list(drawn.values())).astype(np.float32), (0, 1.5, 1.5))
        flat = blurred.reshape(len(codes), -1)
        flat = flat - flat.mean(1, keepdims=True)
        flat /= np.linalg.norm(flat, axis=1, keepdims=True)
        alike = flat @ flat.T
        chosen: list[int] = []
        for i in rng.permutation(len(codes)):
            if len(chosen) < self.n_classes and (not chosen or alike[i, chosen].max() < LOOK_ALIKE):
                chosen.append(int(i))
        assert len(chosen) >= self.n_classes, self
        return codes[chosen]

    def _jitter(self, plain: np.ndarray) -> np.ndarray:
        """Jittered copies ``(C, T, copies, size, size)`` of plain drawings ``(C, T, CANVAS, CANVAS)``."""
        generator, errors = torch_rng(self.seed), replica_errors()
        out = np.empty((*plain.shape[:2], self.copies, self.size, self.size), np.uint8)
        for i, drawings in enumerate(plain):  # class by class, so that memory stays small
            n = len(drawings) * self.copies
            angle, scale, shear, right, down = 2 * torch.rand(5, n, generator=generator) - 1
            angle, scale = angle * math.radians(self.rotation), torch.exp(scale * self.scale)
            cos, sin, shear = torch.cos(angle) * scale, torch.sin(angle) * scale, shear * self.shear
            # where each pixel of the copy is read in the drawing: rotation and scale after a shear
            affine = torch.stack(
                [cos, cos * shear - sin, right * self.shift, sin, sin * shear + cos, down * self.shift]
            )
            affine = affine if errors is None else jittered(affine, errors, CHOOSING)
            source = torch.from_numpy(drawings).float().repeat_interleave(self.copies, 0)[:, None]
            grid = affine_grid(affine.T.reshape(n, 2, 3), (n, 1, self.size, self.size), align_corners=False)
            copies = grid_sample(source, grid, mode="bilinear", align_corners=False)[:, 0] / 255
            copies = copies if errors is None else jittered(copies, errors, CHOOSING)
            out[i] = self._degrade(copies, generator).reshape(out.shape[1:])
        return out

    def _degrade(self, ink: torch.Tensor, generator: torch.Generator) -> np.ndarray:
        """Erase a square, vary the contrast, add noise: ``(n, size, size)`` ink in [0, 1] to uint8, ground at 1/4 and full ink at 3/4."""
        n, pixel = len(ink), torch.arange(self.size)
        corner = torch.randint(0, self.size - self.erase + 1, (2, n, 1), generator=generator)
        down, right = (pixel >= corner) & (pixel < corner + self.erase)  # (n, size) each
        ink = ink.masked_fill(down[:, :, None] & right[:, None, :], 0.0)
        strength = self.contrast + (1 - self.contrast) * torch.rand(n, 1, 1, generator=generator)
        noise = self.noise * torch.randn(ink.shape, generator=generator)
        return ((0.25 + 0.5 * (strength * ink + noise)).clamp(0, 1) * 255).round().to(torch.uint8).numpy()


def draw_glyph(font: FT2Font, code: int) -> np.ndarray | None:
    """A character ``(CANVAS, CANVAS)`` uint8, its longer side :data:`GLYPH` pixels, in the middle; ``None`` if it has no ink."""
    font.set_size(64, 72)
    font.set_text(chr(code))
    longer = max(font.get_width_height()) / 64  # FreeType counts in 64ths of a pixel
    if longer < 2:
        return None
    font.set_size(64 * GLYPH / longer, 72)
    font.set_text(chr(code))
    font.draw_glyphs_to_bitmap(antialiased=True)
    ink = np.asarray(font.get_image())[:CANVAS, :CANVAS]
    if not ink.any():
        return None
    out = np.zeros((CANVAS, CANVAS), np.uint8)
    top, left = (CANVAS - ink.shape[0]) // 2, (CANVAS - ink.shape[1]) // 2
    out[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
    return out


def _font_folder() -> Path:
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


@lru_cache(maxsize=3)
def _drawn(chosen: GlyphSet, moved: bool) -> Glyphs:
    with replica(0 if moved else None):
        return chosen.draw()


@dataclass(frozen=True)
class FewShot:
    """``ways`` classes, ``shots`` images of each in random order, and one more image of one of the classes as the query.

    The images of one class within an episode are of different kinds (typefaces), so the query is never a jittered copy of a context image.
    Labels say nothing about the class: they are dealt anew in each episode, so they carry over to classes that training never saw.

    Attributes:
        ways, shots: the paper's 5 and 10, N = 50.
        query_label: ``random`` (the text), or ``last``: always the last one (a slip in one version of the published code, whose loader always numbers the query's
            class last).
    """

    ways: int = 5
    shots: int = 10
    query_label: str = "random"

    @property
    def N(self) -> int:
        """Examples in the context."""
        return self.ways * self.shots

    def words(self, n_classes: int, kinds: int) -> int:
        """Random words of one episode: they choose classes, kinds, copies, the order and the query's label."""
        return n_classes + self.ways * (kinds + self.shots + 1) + self.N + 1

    def choose(self, words: Tensor, n_classes: int, kinds: int, copies: int = 1) -> tuple[Tensor, Tensor]:
        """Episodes over images ``(n_classes, kinds, copies)`` from random words ``(self.words(...), B)``: index of each image, row-major, ``(N + 1, B)``, and its
        label ``0 .. ways - 1``, ``(N + 1, B)``; the query is last. Pure."""
        B, taken = words.shape[-1], self.shots + 1
        sizes = (n_classes, self.ways * kinds, self.ways * taken, self.N, 1)
        for_class, for_kind, for_copy, for_order, for_query = words.split(sizes)
        classes = random.order(for_class, 0)[: self.ways]  # (ways, B); label l stands for classes[l]
        kind = random.order(for_kind.reshape(self.ways, kinds, B), 1)[:, :taken]  # (ways, taken, B)
        copy = random.below(copies, for_copy).reshape(self.ways, taken, B)
        image = (classes[:, None] * kinds + kind) * copies + copy  # (ways, taken, B)
        asked = random.below(self.ways, for_query)[0]  # (B,)
        if self.query_label == "last":
            asked = torch.full_like(asked, self.ways - 1)
        order = random.order(for_order, 0)  # (N, B)
        context = image[:, : self.shots].reshape(self.N, B).gather(0, order)
        query = image[:, self.shots].gather(0, asked[None])
        labels = order // self.shots  # place p of the ordered context belongs to class p // shots
        return torch.cat([context, query]), torch.cat([labels, asked[None]])
