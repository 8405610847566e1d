"""Images of unseen classes (wang2025, section 6.2): glyphs, episodes, a folder of images."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from wang2025.image_kit import FACES, SHORT, SMALL

from iclbook import random
from iclbook.errors import UserError
from iclbook.models import vgg
from iclbook.papers.wang2025.runs import images
from iclbook.papers.wang2025.runs.images import ImageContexts, TableEpisodes, image_study
from iclbook.tasks import glyphs
from iclbook.tasks.few_shot import FewShot
from iclbook.tasks.image_folder import folder_features

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
        assert all(sum(ord(letter) in held for held in holds) >= 12 for letter in alike), (
            "all could be chosen"
        )
        assert sum(ord(letter) in chosen for letter in alike) <= 1


def test_without_jitter_and_noise_a_copy_is_the_drawing():
    plain = replace(
        FACES,
        copies=1,
        size=glyphs.CANVAS,
        rotation=0,
        scale=0,
        shear=0,
        shift=0,
        erase=0,
        contrast=1,
        noise=0,
    )
    found = plain.draw()
    name = glyphs.TYPEFACES[found.faces[0, 0]]
    drawn = glyphs.draw_glyph(glyphs.FT2Font(str(glyphs._font_folder() / f"{name}.ttf")), int(found.codes[0]))
    expected = (0.25 + 0.5 * drawn / 255) * 255
    assert np.abs(found.images[0, 0, 0].astype(float) - expected).max() <= 0.5 + 1e-3


def test_the_cache_gives_the_same_set_and_refuses_a_damaged_one():
    chosen = replace(FACES, seed=7)
    first = chosen.load()
    assert not np.array_equal(first.codes, FACES.load().codes), "another seed, other characters"
    path = glyphs.cache_path(chosen)
    glyphs._load.cache_clear()
    assert all(np.array_equal(a, b) for a, b in zip(first, chosen.load(), strict=True))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"nonsense"):
        path.write_bytes(damaged)
        glyphs._load.cache_clear()
        with pytest.raises(UserError, match="damaged") as caught:
            chosen.load()
        assert "\n" not in str(caught.value)
        assert "Delete that file" in caught.value.mend
    parts = dict(zip(first._fields, first, strict=True)) | {"images": 255 - first.images}
    np.savez_compressed(
        path, checksum=np.array(glyphs._checksum(first)), **parts
    )  # a whole file, other pixels
    glyphs._load.cache_clear()
    with pytest.raises(UserError, match="damaged"):
        chosen.load()
    path.unlink()


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_train": 14},
        {"typefaces": 99},
        {"copies": 0},
        {"size": 4},
        {"erase": 12},
        {"contrast": 0.0},
        {"noise": -1.0},
    ],
)
def test_sizes_that_define_no_set_are_refused(wrong):
    with pytest.raises(UserError):
        replace(SMALL, **wrong)


def test_too_many_classes_are_refused():
    with pytest.raises(UserError, match="look different"):
        replace(FACES, n_classes=5000).draw()


# -- episodes ---------------------------------------------------------------------------------------------------------


def episodes(few_shot: FewShot, n: int = 500, classes: int = 9, kinds: int = 4, copies: int = 2):
    words = random.words(
        random.keys([1]), torch.tensor([0]), random.CHOICE, (few_shot.words(classes, kinds), n)
    )
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


@pytest.mark.parametrize(
    "call",
    [
        lambda: FewShot(1, 3),
        lambda: FewShot(5, 0),
        lambda: FewShot(query_label="first"),
        lambda: SHORT.words(2, 4),
        lambda: SHORT.words(9, 2),
    ],
)
def test_impossible_episodes_are_refused(call):
    with pytest.raises(UserError):
        call()


# -- a folder of images -----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Eight classes of five images, each class of a colour of its own; and a file that is no image."""
    rng = np.random.default_rng(0)
    for c in range(8):
        (tmp_path / f"n{c:08d}").mkdir()
        colour = 40 + 170 * np.array([c & 1, c >> 1 & 1, c >> 2 & 1])
        for i in range(5):
            pixels = np.clip(colour + rng.normal(0, 20, (9, 11, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"n{c:08d}" / f"{i}.{'png' if i % 2 else 'JPEG'}")
        (tmp_path / f"n{c:08d}" / "list.txt").write_text("no image")
    return tmp_path


def mean_colour(seen: np.ndarray) -> np.ndarray:
    """A stand-in for VGG: how much of each colour there is, and how much is missing (so that all features are about equally long)."""
    present = seen.reshape(len(seen), -1, 3).mean(1) / 255
    return np.concatenate([present, 1 - present], 1)


def test_a_folder_of_images_becomes_features(folder):
    found, names = folder_features(folder, mean_colour, per_class=5, side=6)
    assert found.shape == (8, 5, 6)
    assert names[0] == "n00000000"
    assert np.abs(found[7, :, :3].mean(0) - 210 / 255).max() < 0.05
    assert np.abs(found[0, :, :3].mean(0) - 40 / 255).max() < 0.05


def test_the_classifier_runs_on_features_of_a_folder(folder):
    found, _ = folder_features(folder, mean_colour, per_class=5, side=6)
    table = torch.from_numpy(found)
    chosen = ImageContexts(
        task=TableEpisodes(SHORT, "train", table[:5]), unseen=TableEpisodes(SHORT, "test", table[5:])
    )
    study = image_study("folder", chosen, 64, 1, 20, 64, (20,), batch_size=32, rate=0.1)
    histories = study.trainer("cpu").train(progress=False)
    out = images.measure_images(study, histories)
    assert out["blocks1/hits"].mean() > 0.9, "three colours that are far apart"
    assert out["probe/tuned_hits"].mean() > 0.9
    assert not any(key.startswith("shown") for key in out), "there are no glyphs to show"


def test_what_a_folder_can_get_wrong_is_said_in_one_line(folder):
    (folder / "n00000003" / "0.JPEG").write_bytes(b"broken")
    for call, problem in (
        (lambda: folder_features(folder / "nowhere", mean_colour), "no folder"),
        (lambda: folder_features(folder / "n00000001", mean_colour), "holds no folders"),
        (lambda: folder_features(folder, mean_colour, per_class=6), "5 images, 6 are needed"),
        (lambda: folder_features(folder, mean_colour, per_class=5), "cannot read the image"),
    ):
        with pytest.raises(UserError, match=problem) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_vgg_without_torchvision_names_the_mend(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(UserError, match="torchvision") as caught:
        vgg.vgg16_features()
    assert "pip install torchvision" in caught.value.mend
    assert "\n" not in str(caught.value)


def test_vgg_features_are_maps_averaged_over_the_image():
    network = torch.nn.Conv2d(3, 5, 1, bias=False)
    seen = np.random.default_rng(0).integers(0, 256, (2, 4, 4, 3)).astype(np.uint8)
    normal = (seen / 255 - np.array(vgg.MEAN)) / np.array(vgg.SD)
    expected = normal.mean((1, 2)) @ network.weight.detach().numpy()[:, :, 0, 0].T
    np.testing.assert_allclose(vgg.extract(network, seen), expected, rtol=1e-4, atol=1e-5)
