"""In-context classification of images of unseen classes (wang2025, section 6.2): episodes, studies, and what is measured on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from ...draw import torch_rng
from ...models.functional_gd import FunctionalGD
from ...project import check_profile
from ...tasks import Batch
from ...tasks.glyphs import FewShot, GlyphSet
from ...training import FixedSet, History, Run
from ...training.study import Study
from .contexts import BLOCK, TEST, VALIDATION, Contexts, classifiers, numbers, seen_as
from .networks import Network, features, group_name, network_study, study_name
from .probing import coded_probe, regularised_probe, scores

#: Penalties of the regularised probe; the one with the lowest NLL on training classes is taken. The last two were added after a first trial, in
#: which the smallest was chosen.
PENALTIES = (1e-2, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)
#: Share of the training-class episodes that choose it.
CHOOSING = 0.5
#: Blocks compared in Figure 5, right.
BLOCKS = (1, 2, 3)
#: d' of the paper; with 5 labels 4 dimensions let all embeddings be equally far apart.
WIDTH = 4
#: Where the kernel's parameter and the steps start: features have mean square length 1 and none is negative, so inner products differ by
#: a few tenths, and softmax with gamma = 1 would weigh all images alike.
GAMMA, RATE = 10.0, 4.0
#: The same with linear attention, chosen among 5, 20 and 60 by the validation loss of one seed, and the factor on its learning rate.
LINEAR_RATE, RATE_FACTOR = 5.0, 10.0
#: Learning rate of Adam, as for the synthetic data (unstated for this figure; the published code's 1e-3 takes longer).
LEARNING_RATE = 0.03
#: All parameters of the models.
PARAMETERS = ("embed", "rate", "log_gamma")
#: Episodes kept for the figures.
SHOWN = 3


@dataclass(frozen=True)
class ImageEpisodes:
    """Episodes over the training or the test classes (``part``: ``train`` or ``test``), as functions of random words."""

    few_shot: FewShot = field(default_factory=FewShot)
    part: str = "train"

    def table(self) -> Tensor:
        """Features ``(classes, kinds, copies, d)`` of this part."""
        raise NotImplementedError

    @property
    def words(self) -> int:
        """Random words of one episode."""
        return self.few_shot.words(*self.table().shape[:2])

    def batch(self, normals: Tensor, words: Tensor) -> Batch:
        """Episodes from no normals and words ``(words, B)``: ``context`` ``(N, d + 1, B)`` has rows ``x_i, y_i``; pure."""
        table = self.table()
        index, labels = self.few_shot.choose(words, *table.shape[:3])  # (N + 1, B) each
        x = table.flatten(0, 2)[index.T]  # (B, N + 1, d): an episode's features stay contiguous in memory
        tokens = torch.cat([x, labels.T[..., None].to(x)], dim=-1).movedim(0, -1)  # (N + 1, d + 1, B)
        return Batch(tokens[:-1], tokens[-1, :-1], tokens[-1, -1:])


@dataclass(frozen=True)
class GlyphEpisodes(ImageEpisodes):
    """Episodes of glyphs, seen through a network."""

    network: Network | None = None

    def table(self) -> Tensor:
        """Features of the training or the test classes."""
        found, n_train = features(self.network), self.network.glyphs.n_train
        return found[:n_train] if self.part == "train" else found[n_train:]


@dataclass(frozen=True)
class ImageContexts(Contexts):
    """Episodes over training classes; validation episodes are over training classes too, test episodes over unseen ones."""

    task: ImageEpisodes = field(default_factory=GlyphEpisodes)
    view: str = "inner"
    among_keys: bool = True
    unseen: ImageEpisodes = field(default_factory=GlyphEpisodes)

    def probes(self, n: int) -> dict[str, Batch]:
        """Validation and test episodes as this set shows its own."""

        def shown(task: ImageEpisodes, seed: int) -> Batch:
            each = (seen_as(part, self.view, self.among_keys) for part in blocks(task, n, seed))
            return Batch(*(torch.cat(parts, dim=-1) for parts in zip(*each, strict=True)))

        return {"validation": shown(self.task, VALIDATION), "test": shown(self.unseen, TEST)}


def blocks(task: ImageEpisodes, n: int, seed: int) -> Iterator[Batch]:
    """The first ``n`` episodes of a seed, those of :func:`iclbook.papers.wang2025.contexts.sample_contexts`, a block at a time (features are wide)."""
    for block, start in enumerate(range(0, n, BLOCK)):
        batch = task.batch(*numbers(task, block, seed))
        yield Batch(*(part[..., : n - start] for part in batch))


def image_study(
    name: str,
    contexts: ImageContexts,
    L: int,
    seeds: int,
    steps: int,
    held_out: int,
    record: tuple[int, ...],
    batch_size: int = 128,
    rate: float = LEARNING_RATE,
) -> Study:
    """GD models of 1, 2 and 3 blocks trained on the same ``L`` episodes, measured on ``held_out`` episodes beside linear probing."""
    ways = contexts.task.few_shot.ways
    groups = [
        classifiers(
            f"blocks{k}",
            FunctionalGD,
            {"n_classes": ways, "width": WIDTH, "n_blocks": k, "kernel": "softmax", "gamma": GAMMA, "rate": RATE},
            [Run(seed, rate=rate) for seed in range(seeds)],
            contexts,
            held_out,
            keep=PARAMETERS,
        )
        for k in BLOCKS
    ]
    return Study(
        "wang2025",
        name,
        FixedSet(contexts, L),
        tuple(groups),
        steps,
        batch_size,
        record,
        measure_images,
        compile_from=None,
    )


# -- measures ---------------------------------------------------------------------------------------------------------


def best_parameters(history: Mapping[str, np.ndarray] | History) -> list[dict[str, Tensor]]:
    """Each run's parameters at its record with the lowest validation NLL."""
    circuits = history.circuits if isinstance(history, History) else history
    best = np.where(np.isfinite(circuits["nll_validation"]), circuits["nll_validation"], np.inf).argmin(0)
    return [{n: torch.as_tensor(np.array(circuits[n][t, r])).float() for n in PARAMETERS} for r, t in enumerate(best)]


def model_log_probability(spec, parameters: dict[str, Tensor], batch: Batch) -> Tensor:
    """Log-probabilities ``(E, ways)`` of a trained run on cached episodes."""
    model = spec.model(**dict(spec.kwargs))
    chunks = zip(*(part.split(256, dim=-1) for part in batch), strict=True)
    with torch.no_grad():
        logits = [functional_call(model, parameters, (c.float(), q)) for c, q, _ in chunks]
    return torch.log_softmax(torch.cat(logits, dim=1).T, dim=-1)


def measure_images(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """Hits and NLL of every model and probe on every test episode, and what the figures show.

    ``blocks<k>/hits``, ``/nll``: ``(runs, E)``; ``blocks<k>/shuffled``: hits when the context's labels are dealt at random, ``(runs, E)``;
    ``blocks<k>/shown``: probabilities on the shown episodes ``(runs, SHOWN, ways)``; ``probe/tuned_hits``, ``/tuned_nll``,
    ``/coded_hits``, ``/coded_nll``: ``(E,)``, the latter two on networks that never saw the test classes; ``probe/penalty``; ``probe/validation_nll``:
    ``(penalties,)``; ``shown/images``, ``/labels``, ``/weights``: the shown episodes, and how the first block of run 0 weighs their context.
    """
    held_out, contexts = study.groups[0].observe.n, study.data.prompts
    task = contexts.unseen
    cached = contexts.probes(held_out)
    target = cached["test"].target[0].long()
    shuffled = cached["test"].context.clone()
    source = torch_rng(0)
    order = torch.rand(shuffled.shape[0], held_out, generator=source).argsort(0)
    shuffled[:, 1] = shuffled[:, 1].gather(0, order)
    out: dict[str, np.ndarray] = {}
    for spec in study.groups:
        rows: dict[str, list[np.ndarray]] = {"hits": [], "nll": [], "shuffled": [], "shown": []}
        for parameters in best_parameters(histories[spec.name]):
            found = model_log_probability(spec, parameters, cached["test"])
            hits, nll = scores(found, target)
            rows["hits"].append(hits)
            rows["nll"].append(nll.astype(np.float32))
            rows["shown"].append(found[:SHOWN].exp().numpy())
            blind = model_log_probability(spec, parameters, Batch(shuffled, *cached["test"][1:]))
            rows["shuffled"].append(scores(blind, target)[0])
        out |= {f"{spec.name}/{name}": np.stack(values) for name, values in rows.items()}
    # the slow probe only where the chapter shows it
    tokens = blocks(task, held_out, TEST) if "unseen" in study.name else None
    out |= _probe(cached, tokens, task.few_shot.ways)
    if isinstance(task, GlyphEpisodes):
        first = best_parameters(histories["blocks1"])[0]
        out |= _shown(task, cached["test"], first)
    return out


def _probe(cached: dict[str, Batch], tokens: Iterable[Batch] | None, ways: int) -> dict[str, np.ndarray]:
    """Linear probing on the test episodes: the penalty chosen on training classes, and the paper's recipe if ``tokens`` are given."""

    def parts(batch: Batch, n: int) -> tuple[Tensor, Tensor, Tensor]:
        seen = batch.context[..., :n].movedim(-1, 0)  # (E, N, 2 + N)
        return seen[..., 2:].contiguous(), seen[..., 0].contiguous(), seen[..., 1].long()

    choosing = round(CHOOSING * cached["validation"].target.shape[-1])
    target = cached["validation"].target[0, :choosing].long()
    _, nll = scores(regularised_probe(*parts(cached["validation"], choosing), ways, PENALTIES), target)
    mean = nll.mean(-1)
    penalty = PENALTIES[int(mean.argmin())]
    target = cached["test"].target[0].long()
    hits, nll = scores(regularised_probe(*parts(cached["test"], len(target)), ways, (penalty,))[0], target)
    out = {
        "probe/tuned_hits": hits,
        "probe/tuned_nll": nll.astype(np.float32),
        "probe/penalty": np.array(penalty),
        "probe/validation_nll": mean,
    }
    coded = []
    for batch in tokens or ():
        keys = batch.context[:, :-1].movedim(-1, 0).contiguous()  # (E, N, d)
        each = keys.shape[-1] ** 0.5  # features with mean square 1 each: Adam's step of 1e-3 has a scale
        coded.append(coded_probe(keys * each, batch.query.T * each, batch.context[:, -1].T.long(), ways))
    if coded:
        hits, nll = scores(torch.cat(coded), target)
        out |= {"probe/coded_hits": hits, "probe/coded_nll": nll.astype(np.float32)}
    return out


def _shown(task: GlyphEpisodes, cached: Batch, parameters: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """Images, labels and first-block attention of the first test episodes."""
    _, words = numbers(task, 0, TEST)  # of the first block of episodes
    index, labels = task.few_shot.choose(words, *task.table().shape[:3])
    glyphs = task.network.glyphs
    images = glyphs.load().images[glyphs.n_train :]
    images = images.reshape(-1, glyphs.size, glyphs.size)
    gamma = parameters["log_gamma"].exp()
    weights = torch.softmax(gamma * cached.context[:, 0, :SHOWN].T, dim=-1)  # (SHOWN, N)
    return {
        "shown/images": images[index[:, :SHOWN].T.numpy()],
        "shown/labels": labels[:, :SHOWN].T.numpy(),
        "shown/weights": weights.numpy(),
    }


# -- studies ----------------------------------------------------------------------------------------------------------


def networks(profile: str) -> tuple[Network, ...]:
    """Networks of a profile: for each seed one that never sees the test classes and one that learns to name all classes.

    Those of the small profile keep their first weights (the rate is too small to move one): ten steps of Adam in single precision already carry
    two processors' rounding to different features, and whatever is measured on them would differ too. Their glyphs are easier.
    """
    if check_profile(profile) == "paper":
        glyphs, seeds, epochs, small = GlyphSet(), (0, 1), 3, {}
    else:
        jitter = {"rotation": 5.0, "scale": 0.05, "shear": 0.05, "shift": 0.02, "erase": 0, "noise": 0.02}
        glyphs, seeds, epochs = GlyphSet(n_classes=60, n_train=45, copies=1, **jitter), (0,), 1
        small = {"d": 64, "batch_size": 60, "rate": 1e-12}
    return tuple(
        Network(glyphs, n, seed, epochs=epochs, **small) for seed in seeds for n in (glyphs.n_train, glyphs.n_classes)
    )


def glyph_contexts(network: Network, few_shot: FewShot) -> ImageContexts:
    """Episodes seen through a network."""
    return ImageContexts(
        task=GlyphEpisodes(few_shot, "train", network), unseen=GlyphEpisodes(few_shot, "test", network)
    )


def linear_study(base: Study) -> Study:
    """The episodes, seeds and steps of ``base`` with linear attention.

    With ``kappa(x, x') = x . x'`` functional gradient descent is gradient descent on a linear classifier: K blocks are K steps of linear probing, with
    learned steps, from learned embeddings. Steps start from :data:`LINEAR_RATE`: inner products of features differ by a few tenths and are divided by N,
    so steps are large numbers, and their learning rate is ten times that of the embeddings.
    """
    groups = []
    for spec in base.groups:
        kwargs = {k: v for k, v in spec.kwargs if k != "gamma"} | {"kernel": "linear", "rate": LINEAR_RATE}
        runs = tuple(dataclasses.replace(run, factors=(("rate", RATE_FACTOR),)) for run in spec.runs)
        name = spec.name.replace("blocks", "linear")
        groups.append(dataclasses.replace(spec, name=name, kwargs=kwargs, runs=runs))
    name = base.name.replace("images", "images_linear")
    return dataclasses.replace(base, name=name, groups=tuple(groups), measure=measure_models)


def measure_models(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """``<group>/hits`` and ``/nll`` ``(runs, E)`` on the test episodes of :func:`measure_images`."""
    cached = study.data.prompts.probes(study.groups[0].observe.n)["test"]
    target = cached.target[0].long()
    out: dict[str, np.ndarray] = {}
    for spec in study.groups:
        found = [scores(model_log_probability(spec, p, cached), target) for p in best_parameters(histories[spec.name])]
        out[f"{spec.name}/hits"] = np.stack([hits for hits, _ in found])
        out[f"{spec.name}/nll"] = np.stack([nll for _, nll in found]).astype(np.float32)
    return out


def image_studies(profile: str) -> dict[str, Study]:
    """Studies of the image part: the networks; for each that never saw the test classes ``images_unseen<seed>``, as long as the paper's 500 epochs, the same
    with linear attention, ``images_linear_unseen<seed>``, and short, ``images_short<seed>``; as short, ``images_seen<seed>`` on the others and
    ``images_last``, where the query's label is always the last."""
    chosen = networks(profile)
    if profile == "paper":
        L, seeds, steps, batch, held_out, rate = 2048, 3, 300, 128, 1024, LEARNING_RATE
        record, long = (24, 50, 75, 100, 150, 200, 300), (24, 50, 100, 200, 300, 500, *range(1000, 8001, 1000))
        marks = tuple(range(0, 1000, 24))
    else:
        L, seeds, steps, batch, held_out, rate = 256, 1, 40, 64, 128, 0.1
        record, long, marks = (10, 24, 40), (10, 24, 40), (0, 4, 8)
    kinds = {study_name(n): tuple(m for m in chosen if study_name(m) == study_name(n)) for n in chosen}
    every: list[Study] = [network_study(networks, marks) for networks in kinds.values()]
    for network in chosen:
        contexts, name = glyph_contexts(network, FewShot()), f"images_{group_name(network)}"
        if "unseen" in name:
            every.append(image_study(name, contexts, L, seeds, long[-1], held_out, long, batch, rate))
            name = f"images_short{network.seed}"
        every.append(image_study(name, contexts, L, seeds, steps, held_out, record, batch, rate))
    last = glyph_contexts(chosen[0], FewShot(query_label="last"))
    every.append(image_study("images_last", last, L, seeds, steps, held_out, record, batch, rate))
    every += [linear_study(study) for study in every if study.name.startswith("images_unseen")]
    return {study.name: study for study in every}
