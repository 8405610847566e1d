"""Images of unseen classes (wang2025, section 6.2): glyphs, episodes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from wang2025.image_kit import FACES, SHORT

from iclbook import random
from iclbook.tasks import glyphs
from iclbook.tasks.glyphs import FewShot

pytestmark = [
    pytest.mark.xdist_group("images"),  # glyphs and networks are made once
    pytest.mark.usefixtures("root"),
]


# -- glyphs -----------------------------------------------------------------------------------------------------------


def test_the_set_is_a_pure_function_of_its_numbers():
    first, again = FACES.load(), FACES.draw()
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert first.images.shape == (14, 12, 2, 12, 12)
    assert first.images.dtype == np.uint8


def test_classes_are_different_characters_in_typefaces_that_hold_them():
    found = FACES.load()
    assert len(set(found.codes.tolist())) == 14
    assert all(len(set(row.tolist())) == 12 for row in found.faces), "each typeface once"
    for code, row in zip(found.codes, found.faces, strict=True):
        for face in row:
            font = glyphs.FT2Font(str(glyphs._font_folder() / f"{glyphs.TYPEFACES[face]}.ttf"))
            assert int(code) in font.get_charmap()


def test_look_alikes_are_one_class():
    fonts = {name: glyphs.FT2Font(str(glyphs._font_folder() / f"{name}.ttf")) for name in glyphs.TYPEFACES}
    holds = [set(fonts[name].get_charmap()) for name in glyphs.TYPEFACES]
    chosen = set(replace(FACES, n_classes=1000)._choose(fonts, holds, np.random.default_rng(2025)).tolist())
    for alike in ("A\u0391\u0410", "O\u039f\u041e", "H\u0397\u041d"):  # Latin, Greek, Cyrillic
        assert all(sum(ord(letter) in held for held in holds) >= 12 for letter in alike), "all could be chosen"
        assert sum(ord(letter) in chosen for letter in alike) <= 1


def test_without_jitter_and_noise_a_copy_is_the_drawing():
    plain = replace(
        FACES, copies=1, size=glyphs.CANVAS, rotation=0, scale=0, shear=0, shift=0, erase=0, contrast=1, noise=0
    )
    found = plain.draw()
    name = glyphs.TYPEFACES[found.faces[0, 0]]
    drawn = glyphs.draw_glyph(glyphs.FT2Font(str(glyphs._font_folder() / f"{name}.ttf")), int(found.codes[0]))
    expected = (0.25 + 0.5 * drawn / 255) * 255
    assert np.abs(found.images[0, 0, 0].astype(float) - expected).max() <= 0.5 + 1e-3


# -- episodes ---------------------------------------------------------------------------------------------------------


def episodes(few_shot: FewShot, n: int = 500, classes: int = 9, kinds: int = 4, copies: int = 2):
    words = random.words(random.keys([1]), torch.tensor([0]), random.CHOICE, (few_shot.words(classes, kinds), n))
    return few_shot.choose(words[0, 0], classes, kinds, copies)


def test_an_episode_is_what_it_says():
    index, labels = episodes(SHORT)
    assert index.shape == labels.shape == (7, 500)
    of_class, kind = index // 8, index // 2 % 4
    for e in range(500):
        pairs = set(zip(of_class[:, e].tolist(), labels[:, e].tolist(), strict=True))
        assert len(pairs) == 3, "one label for each class and one class for each label"
        for way in range(3):
            chosen = kind[labels[:, e] == way, e].tolist()
            assert len(set(chosen)) == len(chosen), "no typeface twice, so the query is no copy of an example"
        assert [(labels[:-1, e] == way).sum().item() for way in range(3)] == [2, 2, 2]


def test_labels_classes_copies_and_order_are_fair():
    index, labels = episodes(SHORT, 6000)
    for values, options in ((labels[-1], 3), (labels[0], 3), (index[-1] // 8, 9), (index[-1] % 2, 2)):
        counts = np.bincount(values.numpy(), minlength=options)
        allowed = 4 * math.sqrt(6000 / options * (1 - 1 / options))
        assert np.abs(counts - 6000 / options).max() < allowed


def test_the_other_loader_gives_the_label_away():
    _, labels = episodes(replace(SHORT, query_label="last"))
    assert (labels[-1] == 2).all()
