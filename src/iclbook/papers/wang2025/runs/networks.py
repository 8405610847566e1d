"""Networks that learn to name glyphs, and the features of all glyphs that they give (in place of VGG and ImageNet, section 6.2)."""

from __future__ import annotations

import hashlib
import io
import json
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm

from .... import store
from ....errors import UserError
from ....files import write_whole
from ....models.convnet import ConvFeatures
from ....project import find_root
from ....random import DATA, INIT, generator
from ....rounding import current, jittered, signs, twin
from ....sources import source_digest
from ....tasks.glyphs import GlyphSet, drawn_with
from ....training import History
from ....training.description import plain
from ....training.groups import Group, Run
from ....training.study import Study

#: Largest learning rate and its shape: a linear rise over the first 30% of the steps, then a cosine down to nothing.
RISE = 0.3


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


def train_network(
    network: Network,
    record: tuple[int, ...],
    until: int | None = None,
    progress: bool = False,
) -> tuple[ConvFeatures, History]:
    """Train a network to its end, or to step ``until``.

    Returns:
        The network, its weights rounded to half precision (the precision in which they are kept, so that kept and fresh weights give equal
        features), and its course: mean loss, mean accuracy and weight norms at the recorded steps.
    """
    images = torch.from_numpy(network.glyphs.load().images[: network.n_classes])
    images = images.flatten(0, 2)[:, None]  # (images, 1, S, S)
    labels = torch.arange(network.n_classes).repeat_interleave(len(images) // network.n_classes)
    model = ConvFeatures(network.n_classes, network.channels, network.d)
    model.initialise(generator(network.seed, INIT))
    model = model.to(memory_format=torch.channels_last).train()
    data, per_epoch = generator(network.seed, DATA), network.steps // network.epochs
    optimiser = torch.optim.Adam(model.parameters(), network.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, network.rate, total_steps=network.steps, pct_start=RISE
    )
    end = network.steps if until is None else min(until, network.steps)
    marks = sorted({0, network.steps, *(s for s in record if s <= network.steps)})
    rows: list[tuple[float, float, np.ndarray]] = [(np.nan, np.nan, _norms(model))]
    losses, hits, order, jitter = [], [], None, current()
    for step in tqdm(range(end), disable=not progress, unit="step", mininterval=2.0):
        if step % per_epoch == 0:
            order = torch.randperm(len(images), generator=data)
        chosen = order[(step % per_epoch) * network.batch_size :][: network.batch_size]
        x = images[chosen].float() / 255
        if jitter is not None:
            x = jittered(x, jitter)
            with torch.no_grad():
                for part in model.parameters():
                    part.copy_(jittered(part, jitter))
        logits = model(x)
        loss = cross_entropy(logits, labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
        hits.append((logits.argmax(1) == labels[chosen]).float().mean().item())
        if step + 1 in marks:
            rows.append((np.mean(losses), np.mean(hits), _norms(model)))
            losses, hits = [], []
    with torch.no_grad():
        for part in model.state_dict().values():
            if part.is_floating_point():
                part.copy_(part.half())
    steps = np.array([s for s in marks if s <= end])
    loss, accuracy, norms = (np.array(column)[:, None] for column in zip(*rows, strict=True))  # (T, 1, ...)
    return model.eval(), History(steps, loss, {"accuracy": np.nan_to_num(accuracy), "norms": norms})


def _norms(model: ConvFeatures) -> np.ndarray:
    return np.array([c.weight.norm().item() for c in model.convolutions])


# -- weights and features, kept ---------------------------------------------------------------------------------------


def feature_weights(model: ConvFeatures) -> dict[str, np.ndarray]:
    """What the features depend on, in half precision: everything but the head."""
    return {
        name: part.numpy().astype(np.float16)
        for name, part in model.state_dict().items()
        if not name.startswith("head") and part.is_floating_point()
    }


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
        with twin(None):
            found = feature_weights(train_network(network, ())[0])
    _write(path, found)
    return found


def _cache_path(network: Network) -> Path:
    """Named after the network, the code and releases that train it, and the committed results that it may come from."""
    made_with = [source_digest([__name__, ConvFeatures.__module__]), drawn_with(), torch.__version__]
    if _is_committed():
        made_with.append(json.dumps(store.read_provenance("wang2025", "paper", STUDY)["files"]))
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
            f"the cached network {path} is damaged",
            "Delete that file; the network is trained again (minutes).",
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


def _is_committed() -> bool:
    return (store.folder("wang2025", "paper") / f"{STUDY}.json").exists()


def _committed(network: Network) -> dict[str, np.ndarray] | None:
    """Weights of the same network among the committed results.

    Raises:
        UserError: these results are damaged, or made from other code than that which trains the network now.
    """
    if not _is_committed():
        return None
    if plain(network) not in store.read_provenance("wang2025", "paper", STUDY)["config"]["networks"]:
        return None
    results = store.load("wang2025", "paper", STUDY, source=_stands_on(network))
    group = results.group(group_name(network))
    return {
        name.removeprefix("weights "): part for name, part in group.items() if name.startswith("weights ")
    }


def _stands_on(network: Network) -> str:
    """The digest that results with this network must carry: that of any study of networks."""
    return network_study((network,), ()).source()


def features(network: Network) -> Tensor:
    """Features of all glyphs, seen in training or not, ``(classes, typefaces, copies, d)``.

    All are divided by one number, so that the mean square length over the training classes is 1. To a twin (:mod:`iclbook.rounding`) they
    come with errors as large as another processor makes in the network.
    """
    found, jitter = _features(network, False), current()
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
    if missing.unexpected_keys or any(not k.startswith(("head", "norms")) for k in missing.missing_keys):
        raise UserError("the kept network has other layers than asked for", "Delete .cache/networks.")
    model = model.to(memory_format=torch.channels_last).eval()
    with twin(0 if moved else None), torch.no_grad():
        images, jitter = torch.from_numpy(network.glyphs.load().images), current()
        if jitter is not None:
            for part in model.parameters():
                part.copy_(jittered(part, jitter))
        found = []
        for part in images.flatten(0, 2)[:, None].split(1000):
            x = part.float() / 255
            found.append(model.features(x if jitter is None else jittered(x, jitter)))
    found = torch.cat(found).unflatten(0, images.shape[:3])
    return found / (found[: network.glyphs.n_train] ** 2).sum(-1).mean().sqrt()


# -- the study --------------------------------------------------------------------------------------------------------

STUDY = "glyph_networks"


def group_name(network: Network) -> str:
    """``unseen0`` for seed 0 of the networks that never saw the test classes, ``seen0`` for one that learned to name them all."""
    kind = "seen" if network.n_classes == network.glyphs.n_classes else "unseen"
    return f"{kind}{network.seed}"


@dataclass(frozen=True)
class NetworkStudy(Study):
    """Networks as a study: one group for each, so that each has a file of its own."""

    networks: tuple[Network, ...] = field(default=())

    #: The weights that are kept are those of the trained networks, which no history holds.
    measures_circuits = False

    def describe(self) -> dict[str, Any]:
        """The configuration: the networks say all."""
        about = {"paper": self.paper, "name": self.name, "networks": self.networks, "record": self.record}
        return plain(about)

    def trainer(self, device: str = "auto", compile: bool | None = None, **kwargs: Any) -> NetworkTrainer:
        """Networks are small: always on the CPU, so that their weights are the same wherever the book is made."""
        return NetworkTrainer(self)


class NetworkTrainer:
    """The part of :class:`iclbook.training.Trainer` that a study needs."""

    device, compiled = torch.device("cpu"), False

    @property
    def states(self) -> dict[str, np.ndarray]:
        """No states are kept on the way."""
        return {}

    def __init__(self, study: NetworkStudy) -> None:
        self.study = study

    def train(
        self,
        checkpoint: Path | None = None,
        progress: bool = True,
        until: int | None = None,
        about: str = "",
        fresh: bool = False,
    ) -> dict[str, History]:
        """Train each network, a minute each; weights of finished ones go to the cache. ``checkpoint`` is not used: each is short."""
        found, chosen = {}, {spec.name for spec in self.study.groups}
        for network in self.study.networks:
            name = group_name(network)
            if name not in chosen:
                continue
            start = time.perf_counter()
            model, found[name] = train_network(network, self.study.record or (), until, progress)
            if until is None:
                _write(_cache_path(network), feature_weights(model))
                if progress:
                    print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        return found


def keep_weights(study: NetworkStudy, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """The weights of every network, ``"group/weights name"``."""
    return {
        f"{group_name(network)}/weights {name}": part
        for network in study.networks
        if group_name(network) in histories
        for name, part in weights(network).items()
    }


def network_study(networks: tuple[Network, ...], record: tuple[int, ...]) -> NetworkStudy:
    """The study that trains these networks."""
    groups = tuple(
        Group(group_name(n), ConvFeatures, {"n_classes": n.n_classes}, (Run(n.seed, rate=n.rate),))
        for n in networks
    )
    first = networks[0]
    return NetworkStudy(
        "wang2025",
        STUDY,
        first.glyphs,
        groups,
        first.steps,
        first.batch_size,
        record,
        keep_weights,
        networks=networks,
    )
