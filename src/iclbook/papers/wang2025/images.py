"""In-context classification of images of unseen classes (wang2025, section 6.2): episodes, studies, and what is measured on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy, one_hot, pad

from ...draw import torch_rng
from ...models.functional_gd import FunctionalGD
from ...project import check_profile
from ...tasks import Batch
from ...tasks.glyphs import FewShot, GlyphSet
from ...training import FixedSet, Group, History, Run
from ...training.study import Study
from .contexts import (
    BLOCK,
    GD_PARAMETERS,
    TEST,
    VALIDATION,
    Contexts,
    classifiers,
    numbers,
    sample_contexts,
    seen_as,
    stopped,
)
from .networks import Network, features, network_study

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
#: Episodes kept for the figures.
SHOWN = 3


@dataclass(frozen=True)
class GlyphEpisodes:
    """Episodes of glyphs seen through a network, over the training or the test classes (``part``: ``train`` or ``test``), as functions of random words."""

    few_shot: FewShot = field(default_factory=FewShot)
    part: str = "train"
    network: Network | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Classes of this part, typefaces and copies."""
        glyphs = self.network.glyphs
        n_classes = glyphs.n_train if self.part == "train" else glyphs.n_classes - glyphs.n_train
        return n_classes, glyphs.typefaces, glyphs.copies

    def table(self) -> Tensor:
        """Features ``(classes, typefaces, copies, d)`` of this part."""
        found, n_train = features(self.network), self.network.glyphs.n_train
        return found[:n_train] if self.part == "train" else found[n_train:]

    @property
    def words(self) -> int:
        """Random words of one episode."""
        return self.few_shot.words(*self.shape[:2])

    def batch(self, normals: Tensor, words: Tensor) -> Batch:
        """Episodes from no normals and words ``(words, B)``: ``context`` ``(N, d + 1, B)`` has rows ``x_i, y_i``; pure."""
        index, labels = self.few_shot.choose(words, *self.shape)  # (N + 1, B) each
        x = self.table().flatten(0, 2)[index.T]  # (B, N + 1, d): an episode's features stay contiguous in memory
        tokens = torch.cat([x, labels.T[..., None].to(x)], dim=-1).movedim(0, -1)  # (N + 1, d + 1, B)
        return Batch(tokens[:-1], tokens[-1, :-1], tokens[-1, -1:])


@dataclass(frozen=True)
class ImageContexts(Contexts):
    """Episodes over training classes; validation episodes are over training classes too, test episodes over unseen ones."""

    task: GlyphEpisodes = field(default_factory=GlyphEpisodes)
    view: str = "inner"
    among_keys: bool = True
    unseen: GlyphEpisodes = field(default_factory=GlyphEpisodes)

    def probes(self, n: int) -> dict[str, Batch]:
        """Validation and test episodes as this set shows its own, at most a block of them; the features of each lie beside one another in memory."""

        def shown(task: GlyphEpisodes, seed: int) -> Batch:
            drawn = task.batch(*numbers(task, 0, seed))
            return seen_as(Batch(*(part[..., :n] for part in drawn)), self.view, self.among_keys)

        assert n <= BLOCK, n
        return {"validation": shown(self.task, VALIDATION), "test": shown(self.unseen, TEST)}


def glyph_contexts(network: Network, few_shot: FewShot) -> ImageContexts:
    """Episodes seen through a network."""
    return ImageContexts(
        task=GlyphEpisodes(few_shot, "train", network), unseen=GlyphEpisodes(few_shot, "test", network)
    )


# -- linear probing: a linear classifier learned anew on each context, all episodes at once -----------------------------


def regularised_probe(
    gram: Tensor, to_query: Tensor, labels: Tensor, ways: int, penalty: float, steps: int = 400
) -> Tensor:
    """Multinomial logistic regression on each context, to convergence: the query's log-probabilities ``(E, ways)``.

    Minimises ``mean_i CE(W x_i, y_i) + penalty / 2 |W|^2`` (no bias: the labels are balanced). The minimiser is a combination of the examples,
    ``W = A^T X``, so everything is computed from inner products, ``gram (E, N, N)`` of the examples and ``to_query (E, N)`` with the query, by accelerated
    gradient steps with restarts; ``labels (E, N)`` long.
    """
    n = gram.shape[-1]
    # (E, ways, N): softmax over a middle axis is much faster
    targets = one_hot(labels, ways).to(gram).mT.contiguous()
    # the softmax's curvature is at most 1/2, so the loss is L-smooth in W with L = |gram| / (2 n) + penalty
    smooth = torch.linalg.matrix_norm(gram, 2) / (2 * n) + penalty  # (E,)
    rate = (1 / smooth)[:, None, None]
    weights = torch.zeros_like(targets)  # A^T: W = A^T X
    ahead, momentum = weights, torch.ones(len(gram), 1, 1, dtype=gram.dtype)
    for _ in range(steps):
        residual = torch.softmax(ahead @ gram, dim=1) - targets
        new = ahead - rate * (residual / n + penalty * ahead)  # the gradient in W is (residual / n + penalty A^T) X
        # restart an episode whose momentum points uphill (O'Donoghue and Candes 2015): <ahead - new, new - weights> in the metric of W
        uphill = ((ahead - new) * ((new - weights) @ gram)).sum((-2, -1), keepdim=True) > 0
        momentum = torch.where(uphill, torch.ones_like(momentum), momentum)
        following = (1 + torch.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + torch.where(uphill, 0.0, (momentum - 1) / following) * (new - weights)
        weights, momentum = new, following
    return torch.log_softmax((weights @ to_query[..., None])[..., 0], dim=-1)


def coded_probe(
    context: Tensor, query: Tensor, labels: Tensor, ways: int, steps: int = 500, rate: float = 1e-3
) -> Tensor:
    """The probe as the paper trains it, 500 full-batch Adam steps from zero weights, no penalty and no bias: the query's log-probabilities ``(E, ways)`` from
    ``context (E, N, d)``, ``query (E, d)`` and ``labels (E, N)`` long.

    As in the published code the last label's logit is fixed at 0. Its initial weights are tiny and random; here they are zero.
    """
    weights = context.new_zeros(len(context), context.shape[2], ways - 1).requires_grad_()
    optimiser = torch.optim.Adam([weights], rate)  # of each entry by itself, and so of each context
    for _ in range(steps):
        optimiser.zero_grad()
        logits = pad(context @ weights, (0, 1))
        (cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / context.shape[1]).backward()
        optimiser.step()
    return torch.log_softmax(pad((query[:, None] @ weights.detach())[:, 0], (0, 1)), dim=-1)


def scores(log_probability: Tensor, target: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Hits ``(E,)`` (0 or 1) and negative log-likelihoods ``(E,)`` in nats, of ``(E, ways)`` against ``(E,)``."""
    likelihood = log_probability.gather(-1, target[:, None])[:, 0]
    return (log_probability.argmax(-1) == target).numpy(), -likelihood.numpy()


# -- measures ---------------------------------------------------------------------------------------------------------


def best_parameters(arrays: Mapping[str, np.ndarray]) -> list[dict[str, Tensor]]:
    """Each run's parameters at its best validation record, from the arrays of a group."""
    kept = {name: torch.from_numpy(stopped(arrays, name)).float() for name in GD_PARAMETERS}
    return [{name: part[r] for name, part in kept.items()} for r in range(len(kept["embed"]))]


def model_log_probability(spec: Group, parameters: dict[str, Tensor], batch: Batch) -> Tensor:
    """Log-probabilities ``(E, ways)`` of a trained run on cached episodes."""
    model = spec.model(**dict(spec.kwargs))
    chunks = zip(*(part.split(256, dim=-1) for part in batch), strict=True)
    with torch.no_grad():
        logits = [functional_call(model, parameters, (c.float(), q)) for c, q, _ in chunks]
    return torch.log_softmax(torch.cat(logits, dim=1).T, dim=-1)


def measure_models(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """``<group>/hits`` and ``/nll`` ``(runs, E)`` on every test episode."""
    cached = study.data.prompts.probes(study.groups[0].observe.n)["test"]
    target = cached.target[0].long()
    out: dict[str, np.ndarray] = {}
    for spec in study.groups:
        best = best_parameters(histories[spec.name].circuits)
        found = [scores(model_log_probability(spec, parameters, cached), target) for parameters in best]
        out[f"{spec.name}/hits"] = np.stack([hits for hits, _ in found])
        out[f"{spec.name}/nll"] = np.stack([nll for _, nll in found]).astype(np.float32)
    return out


def measure_images(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """:func:`measure_models`, and what linear probing has and the figures show.

    ``blocks<k>/shuffled``: hits when the context's labels are dealt at random, ``(runs, E)``; ``blocks<k>/shown``: probabilities on the shown episodes
    ``(runs, SHOWN, ways)``; ``probe/tuned_hits``, ``/tuned_nll``, ``/coded_hits``, ``/coded_nll``: ``(E,)``, the latter two on networks that never saw the
    test classes; ``shown/images``, ``/labels``, ``/weights``: the shown episodes, and how the first block of run 0 weighs their context.
    """
    held_out, task = study.groups[0].observe.n, study.data.prompts.unseen
    cached = study.data.prompts.probes(held_out)
    target = cached["test"].target[0].long()
    shuffled = cached["test"].context.clone()
    order = torch.rand(shuffled.shape[0], held_out, generator=torch_rng(0)).argsort(0)
    shuffled[:, 1] = shuffled[:, 1].gather(0, order)
    blind, shown = Batch(shuffled, *cached["test"][1:]), Batch(*(part[..., :SHOWN] for part in cached["test"]))
    out = measure_models(study, histories)
    for spec in study.groups:
        best = best_parameters(histories[spec.name].circuits)
        hits = [scores(model_log_probability(spec, parameters, blind), target)[0] for parameters in best]
        p = [model_log_probability(spec, parameters, shown).exp().numpy() for parameters in best]
        out |= {f"{spec.name}/shuffled": np.stack(hits), f"{spec.name}/shown": np.stack(p)}
    # the slow probe only where the chapter shows it
    tokens = sample_contexts(task, held_out, TEST) if "unseen" in study.name else None
    first = best_parameters(histories["blocks1"].circuits)[0]
    return out | _probe(cached, tokens, task.few_shot.ways) | _shown(task, shown, first)


def _probe(cached: dict[str, Batch], tokens: Batch | None, ways: int) -> dict[str, np.ndarray]:
    """Linear probing on the test episodes: the penalty chosen on training classes, and the paper's recipe where there are ``tokens``."""

    def probed(batch: Batch, n: int, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        seen = batch.context[..., :n].movedim(-1, 0)  # (E, N, 2 + N)
        parts = seen[..., 2:].contiguous(), seen[..., 0].contiguous(), seen[..., 1].long()
        return scores(regularised_probe(*parts, ways, penalty), batch.target[0, :n].long())

    n = cached["test"].target.shape[-1]
    penalty = min(PENALTIES, key=lambda each: probed(cached["validation"], round(CHOOSING * n), each)[1].mean())
    hits, nll = probed(cached["test"], n, penalty)
    out = {"probe/tuned_hits": hits, "probe/tuned_nll": nll.astype(np.float32)}
    if tokens is not None:
        keys = tokens.context[:, :-1].movedim(-1, 0).contiguous()  # (E, N, d)
        each = keys.shape[-1] ** 0.5  # features with mean square 1 each: Adam's step of 1e-3 has a scale
        coded = coded_probe(keys * each, tokens.query.T * each, tokens.context[:, -1].T.long(), ways)
        hits, nll = scores(coded, tokens.target[0].long())
        out |= {"probe/coded_hits": hits, "probe/coded_nll": nll.astype(np.float32)}
    return out


def _shown(task: GlyphEpisodes, shown: Batch, parameters: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """Images, labels and first-block attention of the first test episodes."""
    _, words = numbers(task, 0, TEST)  # of the first block of episodes
    index, labels = task.few_shot.choose(words, *task.shape)
    glyphs = task.network.glyphs
    images = glyphs.load().images[glyphs.n_train :].reshape(-1, glyphs.size, glyphs.size)
    weights = torch.softmax(parameters["log_gamma"].exp() * shown.context[:, 0].T, dim=-1)  # (SHOWN, N)
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


def image_study(
    name: str,
    contexts: ImageContexts,
    L: int,
    seeds: int,
    held_out: int,
    record: tuple[int, ...],
    batch_size: int,
    rate: float,
    linear: bool = False,
) -> Study:
    """GD models of 1, 2 and 3 blocks trained on the same ``L`` episodes up to the last record, measured on ``held_out`` episodes; with softmax attention beside
    linear probing.

    With linear attention, ``kappa(x, x') = x . x'``, functional gradient descent is gradient descent on a linear classifier: K blocks are K steps of linear
    probing, with learned steps, from learned embeddings. Steps start from :data:`LINEAR_RATE`: inner products of features differ by a few tenths and are
    divided by N, so steps are large numbers, and their learning rate is ten times that of the embeddings.
    """
    attention = (
        {"kernel": "linear", "rate": LINEAR_RATE} if linear else {"kernel": "softmax", "gamma": GAMMA, "rate": RATE}
    )
    sizes = {"n_classes": contexts.task.few_shot.ways, "width": WIDTH} | attention
    runs = [Run(seed, rate=rate, factors=(("rate", RATE_FACTOR),) if linear else ()) for seed in range(seeds)]
    kind, measure = ("linear", measure_models) if linear else ("blocks", measure_images)
    groups = tuple(
        classifiers(f"{kind}{k}", FunctionalGD, sizes | {"n_blocks": k}, runs, contexts, held_out, GD_PARAMETERS)
        for k in BLOCKS
    )
    data = FixedSet(contexts, L)
    return Study("wang2025", name, data, groups, record[-1], batch_size, record, measure, compile_from=None)


def image_studies(profile: str) -> dict[str, Study]:
    """Studies of the image part: the networks; for each that never saw the test classes ``images_unseen<seed>``, as long as the paper's 500 epochs, the same
    with linear attention, ``images_linear_unseen<seed>``, and short, ``images_short<seed>``; as short, ``images_seen<seed>`` on the others and
    ``images_last``, where the query's label is always the last."""
    chosen = networks(profile)
    if profile == "paper":
        L, seeds, held_out, batch, rate = 2048, 3, 1024, 128, LEARNING_RATE
        record, long = (24, 50, 75, 100, 150, 200, 300), (24, 50, 100, 200, 300, 500, *range(1000, 8001, 1000))
        marks = tuple(range(0, 1000, 24))
    else:
        L, seeds, held_out, batch, rate = 256, 1, 128, 64, 0.1
        record, long, marks = (10, 24, 40), (10, 24, 40), (0, 4, 8)
    every = [network_study(tuple(n for n in chosen if n.kind == kind), marks) for kind in ("unseen", "seen")]

    def add(name: str, contexts: ImageContexts, record: tuple[int, ...], linear: bool = False) -> None:
        every.append(image_study(f"images_{name}", contexts, L, seeds, held_out, record, batch, rate, linear))

    for network in chosen:
        contexts, name = glyph_contexts(network, FewShot()), f"{network.kind}{network.seed}"
        if network.kind == "unseen":
            add(name, contexts, long)
            add(f"linear_{name}", contexts, long, linear=True)
            name = f"short{network.seed}"
        add(name, contexts, record)
    add("last", glyph_contexts(chosen[0], FewShot(query_label="last")), record)
    return {study.name: study for study in every}
