"""Networks that learn to name glyphs, and the features of all glyphs that they give (in place of VGG and ImageNet, section 6.2)."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ... import store
from ...errors import UserError
from ...files import write_whole
from ...models.convnet import ConvFeatures
from ...project import find_root
from ...random import jittered, replica, replica_errors, signs
from ...sources import source_digest
from ...tasks import Batch
from ...tasks.glyphs import GlyphSet, drawn_with
from ...training import FixedSet, Group, Run
from ...training.groups import OneCycle, cross_entropy
from ...training.history import KEPT
from ...training.study import Study

#: Begins the names of the studies of networks.
STUDIES = "glyph_networks_"
#: About as many training images, evenly spaced, take the statistics by which the kept network normalises.
STATISTICS = 4000


@dataclass(frozen=True)
class Network:
    """Everything that decides a network's weights.

    Attributes:
        glyphs: the images.
        n_classes: it learns to name the first so many classes; those beyond it never sees.
        seed: of initial weights and minibatches.
        channels, d: of :class:`iclbook.models.convnet.ConvFeatures`.
        epochs, batch_size, rate: Adam with a one-cycle rate.
    """

    glyphs: GlyphSet
    n_classes: int
    seed: int
    channels: tuple[int, ...] = (16, 32, 48)
    d: int = 512
    epochs: int = 4
    batch_size: int = 256
    rate: float = 3e-3

    @property
    def images(self) -> int:
        """Training images."""
        return self.n_classes * self.glyphs.typefaces * self.glyphs.copies

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


# -- weights and features, kept ---------------------------------------------------------------------------------------


def weights(network: Network) -> dict[str, np.ndarray]:
    """Weights of a network: from the cache, from the committed results of the same network, or trained now and put into the cache.

    Raises:
        UserError: a damaged cache file.
    """
    path = _cache_path(network)
    if path.exists():
        return _read(path)
    found = _committed(network)
    if found is None:
        with replica(None):
            trained = network_study((network,), ()).trainer("cpu", compile=False).train(progress=False)
        found = _kept(trained[group_name(network)].kept)
    _write(path, found)
    return found


def _cache_path(network: Network) -> Path:
    """Named after the network, the code and releases that train it, and the committed results that it may come from."""
    made_with = [source_digest([__name__, ConvFeatures.__module__]), drawn_with(), torch.__version__]
    if _is_committed(network):
        made_with.append(json.dumps(store.read_provenance("wang2025", "paper", study_name(network))["files"]))
    digest = hashlib.sha256(f"{network!r} {made_with}".encode()).hexdigest()[:16]
    return find_root() / ".cache" / "networks" / f"{digest}.npz"


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as data:
            found = {name: data[name] for name in data.files if name != "checksum"}
            whole = str(data["checksum"]) == _checksum(found)
    except Exception:  # a cut zip, a foreign file, a missing member: all are one mistake to the reader
        whole = False
    if not whole:
        raise UserError(
            f"the cached network {path} is damaged", "Delete that file; the network is trained again (minutes)."
        )
    return found


def _write(path: Path, found: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, checksum=np.array(_checksum(found)), **found)
    write_whole(path, buffer.getvalue())


def _checksum(found: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(found):
        digest.update(name.encode() + np.ascontiguousarray(found[name]).tobytes())
    return digest.hexdigest()


def _is_committed(network: Network) -> bool:
    return (store.folder("wang2025", "paper") / f"{study_name(network)}.json").exists()


def _committed(network: Network) -> dict[str, np.ndarray] | None:
    """Weights of the same network among the committed results.

    Raises:
        UserError: these results are damaged, or made from other code than that which trains the network now.
    """
    if not _is_committed(network):
        return None
    name, own = group_name(network), network_study((network,), ())
    config = store.read_provenance("wang2025", "paper", own.name)["config"]
    same = {**config, "groups": [g for g in config["groups"] if g["name"] == name], "record": []}
    if same != own.describe():
        return None
    group = store.load("wang2025", "paper", own.name, source=own.source()).group(name)
    return _kept({k.removeprefix(KEPT): part for k, part in group.items() if k.startswith(KEPT)})


def _kept(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights by name, from arrays ``(1, 1, ...)`` of one step and run."""
    return {name: array[0, 0] for name, array in arrays.items()}


def features(network: Network) -> Tensor:
    """Features of all glyphs, seen in training or not, ``(classes, typefaces, copies, d)``.

    All are divided by one number, so that the mean square length over the training classes is 1. To a perturbed replica (:mod:`iclbook.random`) they
    come with errors as large as another processor makes in the network.
    """
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
    if missing.unexpected_keys or any(not k.startswith("head") for k in missing.missing_keys):
        raise UserError("the kept network has other layers than asked for", "Delete .cache/networks.")
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


# -- the studies ------------------------------------------------------------------------------------------------------


def group_name(network: Network) -> str:
    """``unseen0`` for seed 0 of the networks that never saw the test classes, ``seen0`` for one that learned to name them all."""
    return f"{_kind(network)}{network.seed}"


def study_name(network: Network) -> str:
    """Networks that see the same classes are one study."""
    return f"{STUDIES}{_kind(network)}"


def _kind(network: Network) -> str:
    return "seen" if network.n_classes == network.glyphs.n_classes else "unseen"


def network_study(networks: tuple[Network, ...], record: tuple[int, ...]) -> Study:
    """The study that trains these networks, which differ in their seeds: a group for each, so that each has a file of its own."""
    first = networks[0]
    kwargs = {"n_classes": first.n_classes, "channels": first.channels, "d": first.d}
    names = [name for name, _ in ConvFeatures(**kwargs).named_parameters() if not name.startswith("head")]
    groups = tuple(
        Group(
            group_name(n),
            ConvFeatures,
            kwargs,
            (Run(n.seed, rate=n.rate),),
            loss=cross_entropy,
            schedule=OneCycle(),
            keep=tuple(names),
            keep_at=(n.steps,),
        )
        for n in networks
    )
    data = FixedSet(NamedGlyphs(first.glyphs, first.n_classes), first.images, epochs=True)
    return Study("wang2025", study_name(first), data, groups, first.steps, first.batch_size, record, compile_from=None)
