"""In-context classification of images of unseen classes (wang2025, section 6.2): episodes, studies, and what is measured on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

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
from ...training import FixedSet, Group, History, Run, Study
from ...training import cross_entropy as cross_entropy_at_query
from .contexts import (
    BLOCK,
    GD_PARAMETERS,
    TEST,
    VALIDATION,
    Contexts,
    OnHeldOut,
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
#: What :func:`scores` gives.
SCORES = ("hits", "nll")


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
    """Multinomial logistic regression on each context, to convergence, ``mean_i CE(W x_i, y_i) + penalty / 2 |W|^2`` (no bias: the labels are balanced): the
    query's log-probabilities ``(E, ways)``. The minimiser is a combination of the examples, ``W = A^T X``, so everything is computed from inner products,
    ``gram (E, N, N)`` of the examples and ``to_query (E, N)`` with the query, by accelerated gradient steps with restarts; ``labels (E, N)`` long."""
    n = gram.shape[-1]
    # (E, ways, N): softmax over a middle axis is much faster
    targets = one_hot(labels, ways).to(gram).mT.contiguous()
    # the softmax's curvature is at most 1/2, so the loss is L-smooth in W with L = |gram| / (2 n) + penalty
    rate = 1 / (torch.linalg.matrix_norm(gram, 2) / (2 * n) + penalty)[:, None, None]  # (E, 1, 1)
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
    ``context (E, N, d)``, ``query (E, d)`` and ``labels (E, N)`` long. As in the published code the last label's logit is fixed at 0; its initial weights are
    tiny and random."""
    weights = context.new_zeros(len(context), context.shape[2], ways - 1).requires_grad_()
    optimiser = torch.optim.Adam([weights], rate)  # of each entry by itself, and so of each context
    for _ in range(steps):
        optimiser.zero_grad()
        logits = pad(context @ weights, (0, 1))
        (cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / context.shape[1]).backward()
        optimiser.step()
    return torch.log_softmax(pad((query[:, None] @ weights.detach())[:, 0], (0, 1)), dim=-1)


def scores(log_probability: Tensor, target: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Hits ``(..., E)`` (0 or 1) and negative log-likelihoods ``(..., E)`` in nats, float32, of ``(..., E, ways)`` against ``(E,)``."""
    likelihood = log_probability.gather(-1, target.expand(log_probability.shape[:-1])[..., None])[..., 0]
    return (log_probability.argmax(-1) == target).numpy(), -likelihood.float().numpy()


# -- measures ---------------------------------------------------------------------------------------------------------


def best_parameters(arrays: Mapping[str, np.ndarray]) -> list[dict[str, Tensor]]:
    """Each run's parameters at its best validation record, from the arrays of a group."""
    kept = {name: torch.from_numpy(stopped(arrays, name)).float() for name in GD_PARAMETERS}
    return [{name: part[r] for name, part in kept.items()} for r in range(len(kept["embed"]))]


@torch.no_grad()
def log_probabilities(spec: Group, arrays: Mapping[str, np.ndarray], batch: Batch) -> Tensor:
    """Log-probabilities ``(runs, E, ways)`` of a group's runs on cached episodes, each at its best validation record."""
    model, found = spec.build(), []
    for parameters in best_parameters(arrays):
        chunks = zip(*(part.split(256, dim=-1) for part in batch), strict=True)
        logits = [functional_call(model, parameters, (c.float(), q)) for c, q, _ in chunks]
        found.append(torch.log_softmax(torch.cat(logits, dim=1).T, dim=-1))
    return torch.stack(found)


def measure_models(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """``<group>/hits`` and ``/nll`` ``(runs, E)`` on every test episode."""
    cached = study.data.prompts.probes(study.groups[0].observe.n)["test"]
    target = cached.target[0].long()
    out: dict[str, np.ndarray] = {}
    for spec in study.groups:
        p = log_probabilities(spec, histories[spec.name].circuits, cached)
        out[f"{spec.name}/hits"], out[f"{spec.name}/nll"] = scores(p, target)
    return out


def measure_images(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """:func:`measure_models`, and what linear probing has and the figures show. ``blocks<k>/shuffled``: hits when the context's labels are dealt at random,
    ``(runs, E)``; ``blocks<k>/shown``: probabilities on the shown episodes ``(runs, SHOWN, ways)``; ``probe/tuned_hits``, ``/tuned_nll``, ``/coded_hits``,
    ``/coded_nll``: ``(E,)``, the latter two on networks that never saw the test classes; ``shown/images``, ``/labels``, ``/weights``: the shown episodes, and
    how the first block of run 0 weighs their context."""
    held_out, task = study.groups[0].observe.n, study.data.prompts.unseen
    cached = study.data.prompts.probes(held_out)
    target = cached["test"].target[0].long()
    shuffled = cached["test"].context.clone()
    order = torch.rand(shuffled.shape[0], held_out, generator=torch_rng(0)).argsort(0)
    shuffled[:, 1] = shuffled[:, 1].gather(0, order)
    shuffled_batch, shown = Batch(shuffled, *cached["test"][1:]), Batch(*(part[..., :SHOWN] for part in cached["test"]))
    out = measure_models(study, histories)
    for spec in study.groups:
        p, guessed = (log_probabilities(spec, histories[spec.name].circuits, each) for each in (shown, shuffled_batch))
        out |= {f"{spec.name}/shuffled": scores(guessed, target)[0], f"{spec.name}/shown": p.exp().numpy()}
    # the slow probe only where the chapter shows it
    tokens = sample_contexts(task, held_out, TEST) if "unseen" in study.name else None
    first = best_parameters(histories["blocks1"].circuits)[0]
    weights = torch.softmax(first["log_gamma"].exp() * shown.context[:, 0].T, dim=-1)  # (SHOWN, N)
    index, labels = (part[:, :SHOWN].T.numpy() for part in task.few_shot.choose(numbers(task, 0, TEST)[1], *task.shape))
    glyphs = task.network.glyphs
    images = glyphs.load().images[glyphs.n_train :].reshape(-1, glyphs.size, glyphs.size)
    out |= {"shown/images": images[index], "shown/labels": labels, "shown/weights": weights.numpy()}
    return out | _probe(cached, tokens, task.few_shot.ways)


def _probe(cached: dict[str, Batch], tokens: Batch | None, ways: int) -> dict[str, np.ndarray]:
    """Linear probing on the test episodes: the penalty chosen on training classes, and the paper's recipe where there are ``tokens``."""

    def probed(batch: Batch, n: int, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        seen = batch.context[..., :n].movedim(-1, 0)  # (E, N, 2 + N)
        parts = seen[..., 2:].contiguous(), seen[..., 0].contiguous(), seen[..., 1].long()
        return scores(regularised_probe(*parts, ways, penalty), batch.target[0, :n].long())

    n = cached["test"].target.shape[-1]
    penalty = min(PENALTIES, key=lambda each: probed(cached["validation"], round(CHOOSING * n), each)[1].mean())
    found = {"tuned": probed(cached["test"], n, penalty)}
    if tokens is not None:
        keys = tokens.context[:, :-1].movedim(-1, 0).contiguous()  # (E, N, d)
        each = keys.shape[-1] ** 0.5  # features with mean square 1 each: Adam's step of 1e-3 has a scale
        coded = coded_probe(keys * each, tokens.query.T * each, tokens.context[:, -1].T.long(), ways)
        found["coded"] = scores(coded, tokens.target[0].long())
    return {
        f"probe/{name}_{what}": part for name, pair in found.items() for what, part in zip(SCORES, pair, strict=True)
    }


# -- studies ----------------------------------------------------------------------------------------------------------


def networks(profile: str) -> tuple[Network, ...]:
    """Networks of each seed, without and with the test classes; those of the small profile keep their first weights, alike on all processors."""
    if check_profile(profile) == "paper":
        glyphs, seeds, epochs, small = GlyphSet(), (0, 1), 3, {}
    else:
        jitter = {"rotation": 5.0, "scale": 0.05, "shear": 0.05, "shift": 0.02, "erase": 0, "noise": 0.02}
        glyphs, seeds, epochs = GlyphSet(n_classes=30, n_train=20, copies=1, **jitter), (0,), 1
        small = {"d": 64, "batch_size": 60, "rate": 1e-12}
    return tuple(
        Network(glyphs, n, seed, epochs=epochs, **small) for seed in seeds for n in (glyphs.n_train, glyphs.n_classes)
    )


def image_study(name: str, contexts: ImageContexts, record: tuple[int, ...], s: SimpleNamespace) -> Study:
    """GD models of 1, 2 and 3 blocks trained on the same episodes up to the last record: with softmax attention beside linear probing, or, where the name says
    so, with linear attention, ``kappa(x, x') = x . x'``: K blocks are then K steps of linear probing, with learned steps, from learned embeddings. Inner
    products of features differ by a few tenths and are divided by N, so these steps are large, and their learning rate is ten times that of the embeddings."""
    if "linear" in name:
        kind, measure, factors = "linear", measure_models, (("rate", RATE_FACTOR),)
        attention = {"kernel": "linear", "rate": LINEAR_RATE}
    else:
        kind, measure, factors = "blocks", measure_images, ()
        attention = {"kernel": "softmax", "gamma": GAMMA, "rate": RATE}
    sizes = {"n_classes": contexts.task.few_shot.ways, "width": WIDTH} | attention
    runs = [Run(seed, rate=s.rate, factors=factors) for seed in range(s.seeds)]
    how = {"loss": cross_entropy_at_query, "observe": OnHeldOut(contexts, s.held_out), "keep": GD_PARAMETERS}
    groups = tuple(Group(f"{kind}{k}", FunctionalGD, sizes | {"n_blocks": k}, runs, **how) for k in BLOCKS)
    data = FixedSet(contexts, s.L)
    return Study("wang2025", name, data, groups, record[-1], s.batch_size, record, measure)


def image_studies(profile: str) -> dict[str, Study]:
    """Studies of the image part: the networks; for those that never saw the test classes ``images_unseen`` and ``images_linear_unseen``, as long as the paper's
    500 epochs, and ``images_short``; as short, ``images_seen`` for the others and ``images_last``, where the query's label is always the last."""
    chosen = networks(profile)
    if profile == "paper":
        s = SimpleNamespace(L=2048, seeds=3, held_out=1024, batch_size=128, rate=LEARNING_RATE)
        short, long = (24, 50, 75, 100, 150, 200, 300), (24, 50, 100, 200, 300, 500, *range(1000, 8001, 1000))
        marks = tuple(range(0, 1000, 24))
    else:
        s = SimpleNamespace(L=256, seeds=1, held_out=48, batch_size=64, rate=0.1)
        short, long, marks = (4, 8, 12), (4, 8, 12), (0, 2, 4)
    lengths = {"unseen": long, "linear_unseen": long, "short": short, "seen": short}
    every = [network_study(tuple(n for n in chosen if n.kind == kind), marks) for kind in ("unseen", "seen")]
    for network in chosen:
        contexts = glyph_contexts(network, FewShot())
        for name in ("seen",) if network.kind == "seen" else ("unseen", "linear_unseen", "short"):
            every.append(image_study(f"images_{name}{network.seed}", contexts, lengths[name], s))
    every.append(image_study("images_last", glyph_contexts(chosen[0], FewShot(query_label="last")), short, s))
    return {study.name: study for study in every}
