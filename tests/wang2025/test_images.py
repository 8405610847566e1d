"""Images of unseen classes (wang2025, section 6.2): glyphs, episodes, folder of images, networks, linear probing, and what is recorded."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from ledgers import ledger
from PIL import Image
from torch.nn.functional import cross_entropy

from iclbook import claims, random
from iclbook.claims.records import Record
from iclbook.errors import UserError
from iclbook.models import vgg
from iclbook.models.convnet import ConvFeatures
from iclbook.papers.wang2025.measures import image_records, probing
from iclbook.papers.wang2025.runs import contexts, image_kernels, images, networks
from iclbook.papers.wang2025.runs.images import GlyphEpisodes, ImageContexts, TableEpisodes, image_study
from iclbook.papers.wang2025.runs.networks import Network, network_study, weights
from iclbook.statistics import interval
from iclbook.store import Results
from iclbook.tasks import glyphs
from iclbook.tasks.few_shot import FewShot
from iclbook.tasks.glyphs import GlyphSet
from iclbook.tasks.image_folder import folder_features
from iclbook.training.data import _rows as cached_rows
from iclbook.training.study import replay, train_study

pytestmark = pytest.mark.xdist_group("images")  # glyphs and networks are made once

SMALL = GlyphSet(n_classes=14, n_train=8, typefaces=4, copies=2, size=12)
#: The same with as many typefaces as the real set asks for: fewer characters have so many, so they are compared in a third of the time.
FACES = replace(SMALL, typefaces=12)
TINY = Network(SMALL, 8, 0, channels=(4, 8), d=16, epochs=2, batch_size=16)
SHORT = FewShot(3, 2)


@pytest.fixture(scope="module", autouse=True)
def root(tmp_path_factory):
    """A book's root of our own, so that nothing is read from or written into the real cache."""
    folder = tmp_path_factory.mktemp("book")
    (folder / "_toc.yml").write_text("")
    patch = pytest.MonkeyPatch()
    patch.setenv("ICLBOOK_ROOT", str(folder))
    yield folder
    patch.undo()
    glyphs._load.cache_clear()
    networks._features.cache_clear()


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


# -- networks ---------------------------------------------------------------------------------------------------------


def test_features_have_the_stated_size_and_are_not_negative():
    network = ConvFeatures(7, (4, 8), 16)
    network.initialise(torch.Generator().manual_seed(0))
    found = network.features(torch.rand(3, 1, 12, 12))
    assert found.shape == (3, 16)
    assert (found >= 0).all()
    assert network(torch.rand(12, 12, 3)).shape == (7, 3)
    with pytest.raises(UserError):
        ConvFeatures(1)


def trained(network: Network, record: tuple[int, ...] = ()):
    """Its course, and its weights at the end."""
    trainer = network_study((network,), record).trainer("cpu")
    (history,) = trainer.train(progress=False).values()
    return history, next(iter(trainer.parameters().values()))


def test_a_network_trains_as_torchs_own_modules_do():
    """The study against plain torch: batch norm of nn, Adam, one-cycle rate, epochs without replacement, cross-entropy, in float64."""
    study = replace(network_study((TINY,), (4,)), dtype="float64")
    trainer = study.trainer("cpu")
    history = trainer.train(progress=False)["unseen0"]
    model = ConvFeatures(8, (4, 8), 16)
    model.initialise(random.generator(0, random.INIT))
    layers = []
    for i, convolution in enumerate(model.convolutions):
        layers += [convolution, torch.nn.BatchNorm2d(convolution.out_channels), torch.nn.ReLU()]
        layers += [torch.nn.MaxPool2d(2)] if i < 2 else []
    plain = torch.nn.Sequential(
        *layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), model.head
    ).double()
    optimiser = torch.optim.Adam(plain.parameters(), TINY.rate)
    rates = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, TINY.rate, total_steps=study.steps, cycle_momentum=False
    )
    images = torch.from_numpy(SMALL.load().images[:8]).flatten(0, 2)[:, None].double() / 255
    classes, losses, seen = torch.arange(8).repeat_interleave(8), [], []
    for step in range(1, study.steps + 1):
        index = study.data.draw(random.keys([0]), torch.tensor([step]), 16, torch.float64)[0][0, 0]
        seen.append(index)
        loss = cross_entropy(plain(images[index]), classes[index])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rates.step()
        losses.append(loss.item())
    assert all(sorted(torch.cat(seen[i : i + 4]).tolist()) == list(range(64)) for i in (0, 4))
    assert history.loss[1, 0] == pytest.approx(np.mean(losses[:4]), rel=1e-9)
    assert history.loss[2, 0] == pytest.approx(np.mean(losses[4:]), rel=1e-7)
    ends = trainer.parameters()["unseen0"]
    np.testing.assert_allclose(
        ends["convolutions.2.weight"][0], model.convolutions[2].weight.detach(), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(ends["head.weight"][0], model.head.weight.detach(), rtol=1e-5, atol=1e-7)


def test_statistics_of_a_batch_are_those_by_which_it_is_normalised():
    """Features of an image do not depend on the others; on the images that gave the statistics both ways agree."""
    network = ConvFeatures(7, (4, 8), 16).double()
    network.initialise(torch.Generator().manual_seed(0))
    images = torch.rand(40, 1, 12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    statistics = network.statistics(images)
    torch.testing.assert_close(network.features(images, statistics), network.features(images))
    alone = network.features(images[3:4], statistics)
    torch.testing.assert_close(alone, network.features(images, statistics)[3:4])
    assert not torch.allclose(network.features(images[3:5])[:1], alone)


def test_a_network_never_sees_the_test_classes(monkeypatch):
    cached_rows.cache_clear()
    _, first = trained(TINY)
    real = SMALL.load()
    changed = real._replace(images=np.concatenate([real.images[:8], 255 - real.images[8:]]))
    monkeypatch.setattr(GlyphSet, "load", lambda self: changed)
    cached_rows.cache_clear()
    _, again = trained(TINY)
    cached_rows.cache_clear()
    assert all(np.array_equal(first[name], again[name]) for name in first)
    _, seen = trained(replace(TINY, n_classes=14))
    assert seen["head.bias"].shape == (1, 14)
    cached_rows.cache_clear()


def test_training_lowers_the_loss_and_depends_on_the_seed():
    longer = replace(TINY, epochs=30, rate=1e-2)
    history, ends = trained(longer, (24,))
    assert history.loss[-1, 0] < history.loss[1, 0] - 0.3
    _, others = trained(replace(longer, seed=1))
    assert not np.array_equal(ends["head.weight"], others["head.weight"])


def test_weights_come_from_the_cache_and_a_damaged_one_is_refused():
    network = replace(TINY, seed=3)
    first = weights(network)
    path = networks._cache_path(network)
    assert path.exists()
    assert all(np.array_equal(first[k], v) for k, v in weights(network).items())
    content = bytearray(path.read_bytes())
    path.write_bytes(bytes(content[: len(content) // 2]))
    with pytest.raises(UserError, match="damaged"):
        weights(network)
    path.unlink()


def test_kept_weights_give_the_features_of_the_trained_network():
    found = networks.features(TINY)
    assert found.shape == (14, 4, 2, 16)
    assert abs((found[:8] ** 2).sum(-1).mean().item() - 1) < 1e-5
    history, _ = trained(TINY)
    model = ConvFeatures(8, (4, 8), 16)
    model.load_state_dict(
        {k: torch.from_numpy(v[0, 0]).float() for k, v in history.kept.items()}, strict=False
    )
    known, seen = (
        torch.from_numpy(SMALL.load().images[part]).float()[..., None, :, :] / 255
        for part in (slice(8), (9, 2))
    )
    with torch.no_grad():
        direct = model.features(seen, model.statistics(known.flatten(0, 2)))
    ratio = (found[9, 2] / direct)[direct > 1e-3]
    torch.testing.assert_close(ratio, ratio[0].expand_as(ratio), rtol=1e-3, atol=0)


def test_the_networks_are_a_study_that_replays_and_stores_its_weights():
    study = network_study((TINY, replace(TINY, seed=1)), (0, 2, 4))
    results = train_study(study, "smoke", "cpu", fresh=True, progress=False)
    assert {k.split("/")[0] for k in results.arrays} == {"unseen0", "unseen1"}
    assert replay(study, results) <= 1
    kept = {
        k.removeprefix("kept "): v[0, 0] for k, v in results.group("unseen0").items() if k.startswith("kept ")
    }
    alone = weights(TINY)
    assert set(kept) == set(alone)
    assert all(np.array_equal(kept[name], alone[name]) for name in kept), "alone or beside another"
    wrong = Results(
        dict(results.arrays) | {"unseen1/norms": results["unseen1/norms"] * 1.1}, results.provenance
    )
    assert replay(study, wrong) > 1


# -- linear probing ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    """Five small contexts in double precision."""
    generator = torch.Generator().manual_seed(0)
    context = torch.randn(5, 12, 7, generator=generator, dtype=torch.float64).abs()
    query = torch.randn(5, 7, generator=generator, dtype=torch.float64).abs()
    labels = torch.arange(12).repeat(5, 1) % 3
    return context, query, labels


@pytest.mark.parametrize("penalty", [1e-1, 1e-2, 1e-3])
def test_the_regularised_probe_is_the_minimiser(problem, penalty):
    context, query, labels = problem
    found = probing.regularised_probe(
        context @ context.mT, (context @ query[..., None])[..., 0], labels, 3, (penalty,), 3000
    )[0]
    for x, q, y, answer in zip(context, query, labels, found, strict=True):
        w = torch.zeros(7, 3, dtype=torch.float64, requires_grad=True)
        solver = torch.optim.LBFGS([w], max_iter=500, tolerance_grad=1e-10, tolerance_change=1e-14)

        def closure(w=w, x=x, y=y, solver=solver):
            solver.zero_grad()
            loss = cross_entropy(x @ w, y) + penalty / 2 * (w**2).sum()
            loss.backward()
            return loss

        solver.step(closure)
        torch.testing.assert_close(answer, torch.log_softmax(q @ w.detach(), -1), atol=2e-5, rtol=0)


def test_the_coded_probe_is_adam(problem):
    context, query, labels = problem
    found = probing.coded_probe(context, query, labels, 3, steps=40, rate=1e-2)
    for x, q, y, answer in zip(context, query, labels, found, strict=True):
        w = torch.zeros(7, 2, dtype=torch.float64, requires_grad=True)
        solver = torch.optim.Adam([w], 1e-2)
        pad = lambda z: torch.nn.functional.pad(z, (0, 1))  # noqa: E731
        for _ in range(40):
            solver.zero_grad()
            cross_entropy(pad(x @ w), y).backward()
            solver.step()
        torch.testing.assert_close(answer, torch.log_softmax(pad(q @ w.detach()), -1), atol=1e-9, rtol=0)


def test_scores_are_hits_and_likelihoods():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]).log()
    hits, nll = probing.scores(p, torch.tensor([0, 1]))
    assert hits.tolist() == [True, False]
    np.testing.assert_allclose(nll, -np.log([0.7, 0.3]), rtol=1e-6)


# -- studies and records ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(root):
    """A tiny study of the whole part: one network of each kind, short episodes."""
    few = FewShot(3, 2)
    chosen = (replace(TINY, epochs=20), replace(TINY, epochs=20, n_classes=14))
    every = {networks.study_name(n): network_study((n,), (0, 2)) for n in chosen}
    for network in chosen:
        name = f"images_{networks.group_name(network)}"
        drawn = images.glyph_contexts(network, few)
        every[name] = image_study(name, drawn, 128, 2, 40, 96, (10, 40), batch_size=32, rate=0.05)
    linear = image_kernels.linear_study(every["images_unseen0"])
    every[linear.name] = linear
    last = images.glyph_contexts(chosen[0], replace(few, query_label="last"))
    every["images_last"] = image_study(
        "images_last", last, 128, 2, 40, 96, (10, 40), batch_size=32, rate=0.05
    )
    results = {n: train_study(s, "smoke", "cpu", fresh=True, progress=False) for n, s in every.items()}
    return every, results


def test_profiles_have_the_same_studies_and_plain_descriptions():
    smoke, paper = images.image_studies("smoke"), images.image_studies("paper")
    assert {n.rstrip("0123456789") for n in smoke} == {n.rstrip("0123456789") for n in paper}
    for study in (*smoke.values(), *paper.values()):
        assert "0x" not in json.dumps(study.describe()), "an address would change every time"
        assert study.paper == "wang2025"
    with pytest.raises(UserError):
        images.image_studies("big")


def test_training_and_test_episodes_share_no_class(measured):
    study = measured[0]["images_unseen0"]
    table = networks.features(study.data.prompts.task.network)
    assert torch.equal(study.data.prompts.task.table(), table[:8])
    assert torch.equal(study.data.prompts.unseen.table(), table[8:])


def test_stored_hits_are_those_of_the_model_on_plain_tokens(measured):
    every, results = measured
    study, r = every["images_unseen0"], results["images_unseen0"]
    tokens = contexts.draw(study.data.prompts.unseen, 96, contexts.TEST)
    for spec in study.groups:
        model = spec.model(**dict(spec.kwargs)).double()
        for run, parameters in enumerate(images.best_parameters(r.group(spec.name))):
            model.load_state_dict({k: v.double() for k, v in parameters.items()})
            with torch.no_grad():
                logits = model(tokens.context.double(), tokens.query.double())
            nll = cross_entropy(logits.T, tokens.target[0].long(), reduction="none").numpy()
            np.testing.assert_allclose(r[f"{spec.name}/nll"][run], nll, atol=2e-3)


def test_a_single_block_is_written_out(measured):
    """One block by hand: ``f = alpha sum_i [w_{y_i} - mean w] softmax(gamma x_i . x_q)``."""
    every, results = measured
    study, r = every["images_unseen0"], results["images_unseen0"]
    tokens = contexts.draw(study.data.prompts.unseen, 96, contexts.TEST)
    p = images.best_parameters(r.group("blocks1"))[0]
    for e in range(5):
        x, y = tokens.context[:, :-1, e], tokens.context[:, -1, e].long()
        attention = torch.softmax(p["log_gamma"].exp() * x @ tokens.query[:, e], dim=0)
        f = p["rate"][0] * ((p["embed"][:, y] - p["embed"].mean(1, keepdim=True)) @ attention)
        answer = torch.softmax(p["embed"].T @ f, dim=0)
        expected = -answer[tokens.target[0, e].long()].log().item()
        assert abs(r["blocks1/nll"][0, e] - expected) < 1e-3


def test_studies_replay(measured):
    every, results = measured
    for name in ("images_unseen0", "images_linear_unseen0"):
        assert replay(every[name], results[name]) <= 1


def test_linear_attention_is_gradient_descent_on_a_linear_classifier(measured):
    """Two blocks against two steps of gradient descent on ``A`` in ``f(x) = A x``, by autograd."""
    every, results = measured
    study, r = every["images_linear_unseen0"], results["images_linear_unseen0"]
    p = images.best_parameters(r.group("linear2"))[1]
    tokens = contexts.draw(study.data.prompts.unseen, 8, contexts.TEST)
    for e in range(8):
        x, y = tokens.context[:, :-1, e].double(), tokens.context[:, -1, e].long()
        embed, a = p["embed"].double(), torch.zeros(images.WIDTH, x.shape[1], dtype=torch.float64)
        for rate in p["rate"].double():
            a.requires_grad_()
            (slope,) = torch.autograd.grad(cross_entropy(x @ a.T @ embed, y), a)
            a = (a - rate * slope).detach()
        logits = tokens.query[:, e].double() @ a.T @ embed
        expected = cross_entropy(logits, tokens.target[0, e].long()).item()
        assert abs(r["linear2/nll"][1, e] - expected) < 1e-3 * (1 + expected)


def test_records_answer_every_rule_of_the_ledger(measured):
    every, results = measured
    found = records(every, results)
    for claim in ("fig5-right", "fig6", "q-unseen", "q-query-label"):
        for part in ledger("wang2025").claim(f"wang2025/{claim}").parts:
            assert set(part.keys) <= set(found), part.key
    assert found["images/last/constant"] == 1
    assert found["images/setting"] is False, "this is not the paper's setting, and the check can tell"


def test_errors_are_those_of_the_episodes(measured):
    """Of a difference by hand; that of a ratio is the delta method's."""
    every, results = measured
    found = records(every, results)
    base = "images/softmax/tuned"
    hits, probed = (
        image_records.per_episode(image_records.unseen(results), w)
        for w in ("blocks1/hits", "probe/tuned_hits")
    )
    assert found[f"{base}/accuracy1"] == pytest.approx((hits - probed).mean())
    assert found[f"{base}/accuracy1_se"] == pytest.approx((hits - probed).std(ddof=1) / len(hits) ** 0.5)
    nll, probe = (
        image_records.per_episode(image_records.unseen(results), w)
        for w in ("blocks2/nll", "probe/tuned_nll")
    )
    ratio = found[f"{base}/nll2_ratio"]
    expected = np.sqrt((nll - ratio * probe).var(ddof=1) / len(nll)) / probe.mean()
    assert found[f"{base}/nll2_ratio_se"] == pytest.approx(expected)


def records(every, results) -> dict:
    return {
        **image_records.comparison_records(results),
        **image_records.setting_records(every, results),
        **image_records.seen_records(results),
        **image_records.last_records(every, results),
    }


def verdict_of(claim: str, found: dict):
    return claims.verdict(
        ledger("wang2025").claim(f"wang2025/{claim}"),
        {k: Record.make(k, v) for k, v in found.items()},
        "paper",
    )


def judge(claim: str, found: dict) -> str:
    return verdict_of(claim, found).word


def failing(claim: str, found: dict) -> set[str]:
    return {part.key for part in verdict_of(claim, found).parts if not part.holds}


PERFECT = {
    f"images/{attention}/{probe}/{key}": value
    for attention in ("softmax", "linear")
    for probe in ("tuned", "coded")
    for key, value in {
        "accuracy1": -0.02, "nll1": 0.05, "nll1_se": 0.0, "accuracy2": 0.001, "accuracy3": 0.002,
        "nll2_ratio": 1.02, "nll3_ratio": 0.99, "accuracy1_se": 0.0, "accuracy2_se": 0.0, "accuracy3_se": 0.0, "nll2_ratio_se": 0.0,
        "nll3_ratio_se": 0.0,
    }.items()
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("accuracy1", 0.01),
        ("accuracy1", -0.2),
        ("nll1", -0.01),
        ("accuracy2", -0.03),
        ("nll3_ratio", 1.3),
    ],
)
def test_figure_5s_rules_can_fail(key, value):
    assert failing("fig5-right", PERFECT) == set()
    broken = PERFECT | {full: value for full in PERFECT if full.endswith(f"/{key}")}
    assert failing("fig5-right", broken) == {f"images/softmax/{probe}/{key}" for probe in ("tuned", "coded")}
    assert judge("fig5-right", PERFECT) == "reproduced (reduced)"
    assert judge("fig5-right", broken) == "partly"


def test_a_wrong_sign_of_the_step_turns_figure_6_red():
    """Mutation: ascent instead of descent, on classes that are easy to tell apart."""
    source = torch.Generator().manual_seed(0)
    table = torch.randn(12, 1, 16, generator=source) + 0.3 * torch.randn(12, 4, 16, generator=source)
    table = torch.nn.functional.normalize(table, dim=-1)
    chosen = ImageContexts(
        task=TableEpisodes(SHORT, "train", table[:8]), unseen=TableEpisodes(SHORT, "test", table[8:])
    )
    study = image_study("table", chosen, 64, 2, 30, 128, (30,), batch_size=32, rate=0.1)
    history = study.trainer("cpu").train(progress=False)["blocks3"]
    cached = chosen.probes(128)["test"]
    target = cached.target[0].long()
    right, wrong = [], []
    for p in images.best_parameters(history):
        flipped = p | {"rate": -p["rate"]}
        for hits, parameters in ((right, p), (wrong, flipped)):
            answer = images.model_log_probability(study.groups[2], parameters, cached)
            hits.append(probing.scores(answer, target)[0])
    good, bad = (interval(np.mean(h, axis=0)).low for h in (right, wrong))
    rest = {"images/shuffled": 0.19, "images/shuffled_se": 0.01, "images/last/blind": 0.5}
    rest["images/softmax/accuracy3_se"] = 0.01
    off = rest | {"images/shuffled": 0.3, "images/softmax/accuracy3": good}
    assert failing("fig6", off) == {"images/shuffled"}
    assert judge("fig6", rest | {"images/softmax/accuracy3": good}) == "reproduced (reduced)"
    assert judge("fig6", rest | {"images/softmax/accuracy3": bad}) == "partly"


def test_an_untouched_task_is_pure():
    task = GlyphEpisodes(SHORT, "test", TINY)
    normals, words = random.drawn(task, 0, 5, (4,))
    first, again = task.batch(normals, words), task.batch(normals, words.clone())
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert first.context.shape == (6, 17, 4)
    assert first.query.shape == (16, 4)
