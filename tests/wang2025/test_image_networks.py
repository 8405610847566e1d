"""Images of unseen classes (wang2025, section 6.2): the networks that make features."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from wang2025.image_kit import SMALL, TINY

from iclbook import random
from iclbook.models.convnet import ConvFeatures
from iclbook.papers.wang2025 import networks
from iclbook.papers.wang2025.networks import Network, network_study, weights
from iclbook.store import Results
from iclbook.tasks.glyphs import GlyphSet
from iclbook.training.data import _rows as cached_rows
from iclbook.training.replay import replay
from iclbook.training.study import train_study

pytestmark = [
    pytest.mark.xdist_group("images"),  # glyphs and networks are made once
    pytest.mark.usefixtures("root"),
]


def trained(network: Network, record: tuple[int, ...] = ()):
    """Its training, and its weights at the end."""
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
    plain = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), model.head).double()
    optimiser = torch.optim.Adam(plain.parameters(), TINY.rate)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, TINY.rate, total_steps=study.steps, cycle_momentum=False)
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


def test_kept_weights_give_the_features_of_the_trained_network():
    found = networks.features(TINY)
    assert found.shape == (14, 4, 2, 16)
    assert abs((found[:8] ** 2).sum(-1).mean().item() - 1) < 1e-5
    history, _ = trained(TINY)
    model = ConvFeatures(8, (4, 8), 16)
    model.load_state_dict({k: torch.from_numpy(v[0, 0]).float() for k, v in history.kept.items()}, strict=False)
    known, seen = (
        torch.from_numpy(SMALL.load().images[part]).float()[..., None, :, :] / 255 for part in (slice(8), (9, 2))
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
    kept = {k.removeprefix("kept "): v[0, 0] for k, v in results.group("unseen0").items() if k.startswith("kept ")}
    alone = weights(TINY)
    assert set(kept) == set(alone)
    assert all(np.array_equal(kept[name], alone[name]) for name in kept), "alone or beside another"
    wrong = Results(dict(results.arrays) | {"unseen1/norms": results["unseen1/norms"] * 1.1}, results.provenance)
    assert replay(study, wrong) > 1
