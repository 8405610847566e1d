"""Fixed sets of contexts, as tokens or as relations between covariates, and models that score themselves on new contexts while they train."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ... import random, threefry
from ...models.functional_gd import cached_relations
from ...random import UNIT, choosing, chosen_anew, jittered, moved_batch, replica_errors, signs
from ...store import Results
from ...tasks import Batch
from ...tasks.categorical import Anchors, Categorical

#: Purpose of the contexts' random numbers; 0 and 1 belong to a run's parameters and minibatches.
CONTEXTS = 7
#: Contexts are drawn in blocks of this many, so that a smaller set is the beginning of a larger one.
BLOCK = 1024
#: Seeds of the validation and test contexts (training contexts: 0).
VALIDATION, TEST = 1, 2
#: Seed of a further draw's W_e and of its contexts: far from those of the other studies.
FIRST = 100
#: Held-out contexts are scored this many at a time, which bounds the memory of deep models with many keys.
CHUNK = 512
#: Parts of the test contexts that are scored apart.
PARTS = 16
#: What GD and Trained TF learn with one block, kept where their maps and matrices are shown.
GD_PARAMETERS = ("embed", "rate", "log_gamma")
TF_PARAMETERS = ("W_Q", "W_K", "W_V", "P", "embed")
#: ``PRNGKey(5)`` of the authors' ``eval.py``, split into four, for test, validation and training contexts and for ``W_e`` (after one more split,
#: ``create_w_e`` of ``data.py``). The notebooks that printed the numbers ran on Python 3.9, for which no version of JAX counts random numbers in the newer way.
AUTHORS_KEYS = threefry.split(threefry.key_of(5), 4)  # (4, 2)


def numbers(task: Any, block: int, seed: int) -> tuple[Tensor, ...]:
    """What the contexts of a block are made of, as :func:`iclbook.random.drawn` gives it."""
    return random.drawn(task, seed, CONTEXTS, (BLOCK,), block)


def sample_contexts(task: Categorical, n: int, seed: int) -> Batch:
    """The first ``n`` contexts of a seed, batch last; for a perturbed replica (:mod:`iclbook.random`) with rounding errors."""
    jitter = replica_errors()
    blocks = []
    for block in range(math.ceil(n / BLOCK)):
        drawn = numbers(task, block, seed)
        blocks.append(task.batch(*drawn) if jitter is None else _perturbed(task, drawn, jitter))
    return Batch(*(torch.cat(parts, dim=-1)[..., :n] for parts in zip(*blocks, strict=True)))


def _perturbed(task: Any, drawn: tuple[Tensor, ...], jitter: torch.Generator) -> list[Tensor]:
    """Contexts with rounding errors. A category is chosen by a word and probabilities that each machine rounds in its own way, so words near an edge choose
    anew. Words that choose by whole numbers alone, such as the categories of a context or an episode, are exact."""
    normals, words = drawn
    beside = words.clone()
    if isinstance(task, Categorical):
        labels = beside[..., -task.N - 1 :, :]
        labels += (choosing() * UNIT * 2**32 * signs(labels, jitter)).long()
    pairs = zip(moved_batch(task.batch, drawn, jitter), task.batch(normals, beside.clamp_(0, 2**32 - 1)), strict=True)
    return [chosen_anew(*pair) for pair in pairs]


def seen_as(batch: Batch, view: str, among_keys: bool = False) -> Batch:
    """Contexts as a model reads them: ``tokens``, or relations to the query (and ``among_keys``) with an empty query."""
    if view == "tokens":
        return batch
    parts = zip(*(part.split(BLOCK, dim=-1) for part in batch), strict=True)
    cached = torch.cat([cached_relations(view, c, q, among_keys) for c, q, _ in parts], dim=-1)
    return Batch(cached, batch.query[:0], batch.target)


@dataclass(frozen=True)
class Contexts:
    """Contexts of a task for a :class:`iclbook.training.FixedSet`, which computes relations once for the whole set (the published code walks through
    its set in epochs); ``view`` and ``among_keys`` as for :func:`seen_as`."""

    task: Categorical
    view: str = "tokens"
    among_keys: bool = False

    @property
    def seed(self) -> int:
        """Seed of the training contexts."""
        return 0

    def draw(self, n: int, seed: int) -> Batch:
        """The first ``n`` contexts of a seed, as a model reads them."""
        return seen_as(sample_contexts(self.task, n, seed), self.view, self.among_keys)

    def batch(self, parts: tuple[Tensor, ...], normals: Tensor) -> Batch:
        """Chosen contexts as they are."""
        return Batch(*parts)

    def probes(self, n: int) -> dict[str, Batch]:
        """Validation and test contexts, shown alike."""
        return {"validation": self.draw(n, self.seed + VALIDATION), "test": self.draw(n, self.seed + TEST)}


@dataclass(frozen=True)
class UnitContexts(Contexts):
    """Contexts of one draw of everything (a unit), whose held-out contexts are its own too."""

    unit: int = 0

    @property
    def seed(self) -> int:
        """Seed of the unit's training contexts; validation and test contexts have the next two."""
        return 10 * (FIRST + self.unit)


@dataclass(frozen=True)
class PublishedAnchors(Anchors):
    """Appendix E with the authors' own ``W_e``; ``embed_seed`` says nothing here."""

    @cached_property
    def embedding(self) -> Tensor:
        """``W_e`` ``(d', C)``, drawn again from the seed of their code."""
        key = threefry.split(AUTHORS_KEYS[3])[1]
        return torch.from_numpy(threefry.normals(key, (self.width, self.n_classes)).copy())


@dataclass(frozen=True)
class PublishedContexts(Contexts):
    """The authors' own contexts on their own ``W_e``: 0, 1 and 2 are the seeds of training, validation and test contexts."""

    def draw(self, n: int, seed: int) -> Batch:
        """The authors' ``n`` contexts, as a model reads them, drawn again as their program does (``create_cat_data_high_dim`` of ``data.py``); another ``n``
        gives others altogether."""
        task, key = self.task, AUTHORS_KEYS[{0: 2, VALIDATION: 1, TEST: 0}[seed]]
        own = threefry.split(threefry.split(key, n), 7)  # seven keys for each context
        examples, query = (threefry.uniform(own[:, k], (rows, task.d), -1, 1) for k, rows in ((1, task.N), (2, 1)))
        chosen = threefry.permutation(own[:, 3], task.n_classes)[:, : task.n_anchors]
        anchors = threefry.normals(own[:, 4], (task.n_anchors * task.d,))
        x = torch.from_numpy(np.concatenate([examples, query], axis=1)).movedim(0, -1)  # (N + 1, d, n)
        f = task.latent(x.double(), torch.from_numpy(anchors).T.double(), torch.from_numpy(chosen).T)
        logits = torch.einsum("dc,...db->b...c", task.embedding.double(), f).numpy()  # (n, N + 1, C)
        parts = zip((5, 6), np.split(logits, [task.N], axis=1), strict=True)
        labels = np.concatenate([threefry.categorical(own[:, k], part) for k, part in parts], axis=1)
        y = torch.from_numpy(labels).T[:, None].to(x)  # (N + 1, 1, n)
        jitter = replica_errors()
        x = x if jitter is None else jittered(x, jitter)
        batch = Batch(torch.cat([x, y], dim=1)[: task.N], x[task.N], y[task.N])
        return seen_as(batch, self.view, self.among_keys)


# -- scores along training --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnHeldOut:
    """Observes a classifier's NLL (nats) and accuracy on ``n`` validation and ``n`` test contexts."""

    contexts: Contexts
    n: int = 2048

    def held_out(self) -> dict[str, Batch]:
        """Validation and test contexts."""
        return self.contexts.probes(self.n)

    def __call__(self, model: nn.Module, held_out: dict[str, Batch]) -> dict[str, Tensor]:
        """``nll_<name>`` and ``accuracy_<name>``, each a number."""
        found = {}
        for name, batch in held_out.items():
            chunks = zip(*(part.split(CHUNK, dim=-1) for part in batch), strict=True)
            logits = torch.cat([model(context, query) for context, query, _ in chunks], dim=1)  # (C, n)
            target = batch.target[0].long()
            found[f"nll_{name}"] = torch.nn.functional.cross_entropy(logits.transpose(0, 1), target)
            found[f"accuracy_{name}"] = (logits.argmax(0) == target).to(logits.dtype).mean()
        return found


@dataclass(frozen=True)
class InParts(OnHeldOut):
    """Observes the test scores of each of :data:`PARTS` equal parts of the test contexts as well, from which errors over contexts follow."""

    def __call__(self, model: nn.Module, held_out: dict[str, Batch]) -> dict[str, Tensor]:
        """With ``nll_parts`` and ``accuracy_parts`` ``(PARTS,)``."""
        size = held_out["test"].target.shape[-1] // PARTS
        each = zip(*(part[..., : size * PARTS].split(size, dim=-1) for part in held_out["test"]), strict=True)
        parts = [super(InParts, self).__call__(model, {"parts": Batch(*part)}) for part in each]
        return super().__call__(model, held_out) | {name: torch.stack([p[name] for p in parts]) for name in parts[0]}


def best_records(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Index ``(R,)`` of each run's record with the lowest validation NLL, from the arrays of a group."""
    return np.nan_to_num(arrays["nll_validation"], nan=np.inf).argmin(0)


def stopped(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """An array ``(T, R, ...)`` of a group at :func:`best_records`, ``(R, ...)``: ``accuracy_test``, ``nll_parts``, a parameter."""
    return np.stack([arrays[name][t, r] for r, t in enumerate(best_records(arrays))]).astype(float)


def stopped_parameters(results: Results, group: str) -> dict[str, np.ndarray]:
    """Parameters of a group that were kept, at each run's best validation record, ``name -> (R, ...)``."""
    arrays = results.group(group)
    return {name: stopped(arrays, name) for name in (*GD_PARAMETERS, *TF_PARAMETERS) if name in arrays}
