"""Networks that learn to name glyphs, and the features of all glyphs that they give (in place of VGG and ImageNet, section 6.2)."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ... import store
from ...models.convnet import ConvFeatures
from ...random import jittered, replica, replica_errors, signs
from ...tasks import Batch
from ...tasks.glyphs import GlyphSet
from ...training import FixedSet, Group, OneCycle, Run, Study, cross_entropy
from ...training.history import KEPT

#: About as many training images, evenly spaced, take the statistics by which the kept network normalises.
STATISTICS = 4000


@dataclass(frozen=True)
class Network:
    """Everything that decides a network's weights."""

    glyphs: GlyphSet
    n_classes: int  # it learns to name the first so many classes; those beyond it never sees
    seed: int  # of initial weights and minibatches
    channels: tuple[int, ...] = (16, 32, 48)  # these and d: of iclbook.models.convnet.ConvFeatures
    d: int = 512
    epochs: int = 4
    batch_size: int = 256
    rate: float = 3e-3  # of Adam, one cycle

    @property
    def images(self) -> int:
        """Training images."""
        return self.n_classes * self.glyphs.typefaces * self.glyphs.copies

    @property
    def kind(self) -> str:
        """Networks that see the same classes are one kind, and one study: ``seen`` where they learn to name all classes."""
        return "seen" if self.n_classes == self.glyphs.n_classes else "unseen"

    @property
    def steps(self) -> int:
        """Optimiser steps; what does not fill a minibatch is left for the next epoch's shuffle."""
        return self.epochs * max(self.images // self.batch_size, 1)


@dataclass(frozen=True)
class NamedGlyphs:
    """Images of the first ``n_classes`` classes with their classes, for a :class:`iclbook.training.FixedSet`."""

    glyphs: GlyphSet
    n_classes: int

    def draw(self, n: int, seed: int) -> tuple[Tensor, Tensor]:
        """The first ``n`` images ``(S, S, n)``, uint8, and their classes ``(1, n)``."""
        images = torch.from_numpy(self.glyphs.load().images[: self.n_classes])
        each = images.shape[1] * images.shape[2]
        return images.flatten(0, 2)[:n].movedim(0, -1), (torch.arange(n) // each)[None]

    def batch(self, parts: tuple[Tensor, Tensor], normals: Tensor) -> Batch:
        """Images ``(..., S, S, B)`` with ink 1 on ground 0, nothing to ask, and the classes ``(..., 1, B)``; normals, of which there are none, say the type."""
        images, classes = parts
        return Batch(images.to(normals.dtype) / 255, images[..., 0, :0, :], classes)


@lru_cache(maxsize=4)
def weights(network: Network) -> dict[str, np.ndarray]:
    """Weights of a network: from the committed results of the same network, or trained now. UserError where these are damaged or stale."""
    own, name = network_study((network,), ()), f"{network.kind}{network.seed}"
    if (store.folder("wang2025", "paper") / f"{own.name}.json").exists():
        config = store.read_provenance("wang2025", "paper", own.name)["config"]
        same = {**config, "groups": [g for g in config["groups"] if g["name"] == name], "record": []}
        if same == own.describe():
            group = store.load("wang2025", "paper", own.name, source=own.source()).group(name)
            return {k.removeprefix(KEPT): part[0, 0] for k, part in group.items() if k.startswith(KEPT)}
    with replica(None):
        trained = own.trainer("cpu", compile=False).train(progress=False)
    return {k: part[0, 0] for k, part in trained[name].kept.items()}


def features(network: Network) -> Tensor:
    """Features of all glyphs, seen in training or not, ``(classes, typefaces, copies, d)``, divided by one number, so that the mean square length over the
    training classes is 1. To a perturbed replica (:mod:`iclbook.random`) they come with errors as large as another processor makes in the network."""
    found, jitter = _features(network, False), replica_errors()
    if jitter is None:
        return found
    moved = _features(network, True)
    return found + signs(found[..., :1], jitter) * (moved - found)


@lru_cache(maxsize=4)
def _features(network: Network, moved: bool) -> Tensor:
    """The features; with ``moved``, of images, pixels and weights with rounding errors."""
    model = ConvFeatures(network.n_classes, network.channels, network.d)
    kept = {name: torch.from_numpy(part.astype(np.float32)) for name, part in weights(network).items()}
    missing = model.load_state_dict(kept, strict=False)
    assert all(k.startswith("head") for k in missing.missing_keys + missing.unexpected_keys), missing
    model = model.to(memory_format=torch.channels_last)
    with replica(0 if moved else None), torch.no_grad():
        images, jitter = torch.from_numpy(network.glyphs.load().images), replica_errors()
        if jitter is not None:
            for part in model.parameters():
                part.copy_(jittered(part, jitter))

        def seen(part: Tensor) -> Tensor:
            return part.float() / 255 if jitter is None else jittered(part.float() / 255, jitter)

        shown = images[: network.n_classes].flatten(0, 2)[:, None]
        statistics = model.statistics(seen(shown[:: max(len(shown) // STATISTICS, 1)]))
        found = [model.features(seen(part), statistics) for part in images.flatten(0, 2)[:, None].split(1000)]
    found = torch.cat(found).unflatten(0, images.shape[:3])
    return found / (found[: network.glyphs.n_train] ** 2).sum(-1).mean().sqrt()


def network_study(networks: tuple[Network, ...], record: tuple[int, ...]) -> Study:
    """The study that trains these networks, which differ in their seeds: a group for each, so that each has a file of its own."""
    first = networks[0]
    kwargs = {"n_classes": first.n_classes, "channels": first.channels, "d": first.d}
    keep = tuple(name for name, _ in ConvFeatures(**kwargs).named_parameters() if not name.startswith("head"))
    how = {"loss": cross_entropy, "schedule": OneCycle(), "keep": keep, "keep_at": (first.steps,)}
    runs = {f"{n.kind}{n.seed}": (Run(n.seed, rate=n.rate),) for n in networks}
    groups = tuple(Group(name, ConvFeatures, kwargs, run, **how) for name, run in runs.items())
    data = FixedSet(NamedGlyphs(first.glyphs, first.n_classes), first.images, epochs=True)
    name = f"glyph_networks_{first.kind}"
    return Study("wang2025", name, data, groups, first.steps, first.batch_size, record, compile_from=None)
