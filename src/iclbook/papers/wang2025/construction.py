"""The construction of sections 2 and 3, appendices C, D, G and H, checked to rounding (float64), and figures 1 and 2 from its tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ...draw import torch_rng
from ...drawing import style
from ...models.functional_gd import FunctionalGD, MultiKernelGD
from ...models.kernels import KERNELS, kernel_values, relate
from ...models.literal_blocks import LiteralBlocks, LiteralStep
from ...tasks.categorical import Anchors
from . import descent
from .contexts import sample_contexts

#: Sizes of the exact checks: examples, covariates, embeddings, categories, steps.
N, D, WIDTH, CLASSES, STEPS = 10, 10, 5, 25, 4
RATES = (2.0, 1.5, 1.0, 0.5)
PARTS = ("x", "w", "E", "f")


def normal(source: torch.Generator, *shape: int) -> Tensor:
    """Standard normals in float64."""
    return torch.randn(*shape, generator=source, dtype=torch.float64)


def problem(source: torch.Generator, m: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random features ``(N + 1, m)`` (the query last), labels ``(N,)``, embeddings ``(d', C)``."""
    psi, w = normal(source, N + 1, m) / m**0.5, normal(source, WIDTH, CLASSES)
    return psi, torch.randint(0, CLASSES, (N,), generator=source), w


def gap(a: list[Tensor], b: list[Tensor]) -> float:
    """Largest difference of two lists of tensors."""
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))


def off(found: Tensor, truth: Tensor) -> float:
    """Largest difference over the largest entry of the truth."""
    return float((found - truth).abs().max() / truth.abs().max())


def functional_form(problems: int = 20) -> dict[str, Any]:
    """Equations 2, 3 and 14 against autograd on (A, b), over random features, labels and embeddings."""
    gaps = []
    for seed in range(problems):
        psi, y, w = problem(torch_rng(seed), 30)
        kappa = [psi[:N] @ psi.T]
        plain = descent.parameter_descent([psi], y, w, RATES)
        biased = descent.parameter_descent([psi], y, w, RATES, bias=True)
        pairs = ((None, plain), ("mean", biased), ("printed", biased))
        gaps.append([gap(descent.functional_descent(kappa, y, w, RATES, bias=bias), truth) for bias, truth in pairs])
    plain, mean, printed = zip(*gaps, strict=True)
    return {"eq2-3/difference": max(plain), "eq14/with_mean": max(mean), "eq14/printed": min(printed)}


# -- blocks with all matrices written out -----------------------------------------------------------------------------


def self_attention_alone(problems: int = 20, layers: int = 4) -> dict[str, Any]:
    """Section 2.3: two labels changed at once against the sum of both changes, at the query, relative to one of them.

    Layers of self-attention whose weights see covariates add ``sum_i kappa(x_i, x_j) (V w_{y_i} - B f_i)``, with any matrices: f stays a sum of one
    term for each label, however many layers there are. Two steps of descent are no such sum.
    """

    def interaction(psi: Tensor, y: Tensor, w: Tensor, rates: tuple[float, ...], **options: Any) -> float:
        def f(labels: Tensor) -> Tensor:
            return descent.functional_descent([psi[:N] @ psi.T], labels, w, rates, **options)[-1][-1]

        return descent.interaction(f, y, (0, 1), CLASSES)

    found = []
    for seed in range(problems):
        one, linear = problem(torch_rng(seed), 30), normal(torch_rng(100 + seed), WIDTH, WIDTH)
        alone = interaction(*one, RATES[:1] * layers, expect=lambda _, f, b=linear: f @ b)
        found.append([alone, interaction(*one, RATES[:1]), interaction(*one, RATES[:2])])
    alone, one, two = zip(*found, strict=True)
    return {"self-attention/alone": max(alone), "self-attention/one": max(one), "self-attention/two": min(two)}


def paired(model: FunctionalGD, kind: type[FunctionalGD], **options: Any) -> FunctionalGD:
    """A literal model with the parameters of a fast one."""
    vector = model.rate.shape[1] > 1
    literal = kind(model.n_classes, model.width, model.n_blocks, model.kernel, vector, **options).double()
    literal.load_state_dict(model.state_dict())
    return literal


def fast_model(kernel: str, n_blocks: int, seed: int, vector: bool = False) -> FunctionalGD:
    """A GD model for appendix E at random parameters, float64."""
    model = FunctionalGD(CLASSES, WIDTH, n_blocks, kernel, vector).double()
    model.initialise(torch_rng(seed))
    with torch.no_grad():
        model.rate.uniform_(0.5, 2.0, generator=torch_rng(seed + 1))
        model.log_gamma.uniform_(-1.0, 0.5, generator=torch_rng(seed + 2))
    return model


def eight_contexts(contexts: int = 8) -> tuple[Tensor, Tensor]:
    """Contexts ``(N, d + 1, B)`` and queries ``(d, B)`` of appendix E, float64."""
    batch = sample_contexts(Anchors(N, D), contexts, 3)
    return batch.context.double(), batch.query.double()


def steps_of(model: FunctionalGD, relations: Tensor) -> Tensor:
    """The query's function after each block, ``(B, K, d')``, from relations ``(N, 2 + N, B)``."""
    parts = relations.movedim(-1, 0)
    return model.descend(parts[..., 0], parts[..., 1].long(), parts[..., 2:])


@torch.no_grad()
def construction() -> dict[str, Any]:
    """Blocks of appendix D and the step of appendix C against functional GD, block by block; what each missing piece costs."""
    context, query = eight_contexts()
    options = ({"erasure": "rbf"}, {"erasure": "none"}, {"erasure": "rbf", "query_among_keys": True})
    gaps = []
    for kernel in KERNELS:
        fast, step = (fast_model(kernel, n, 5) for n in (STEPS, 1))
        reference = _reference(fast, context, query)
        literal = [paired(fast, LiteralBlocks, **each).run(context, query)[1:] for each in options]
        away = [max(off(e[:, -WIDTH:, -1], f) for e, f in zip(each, reference, strict=True)) for each in literal]
        one_step = gap([paired(step, LiteralStep)(context, query)], [step(context, query)])
        every_step = gap(list(steps_of(fast, fast.cache(context, query)).movedim(1, 0)), reference)
        gaps.append([*away, one_step, every_step])
    rbf, none, among_keys, one_step, every_step = zip(*gaps, strict=True)
    return _query_slot() | {
        "construction/rbf": max(rbf),
        "construction/none": min(none),
        "construction/query": min(among_keys),
        "construction/step": max(one_step),
        "construction/fast": max(every_step),
    }


def _reference(model: FunctionalGD, context: Tensor, query: Tensor) -> list[Tensor]:
    """The query's function after each step by :func:`descent.functional_descent`, context by context: ``K`` times ``(B, d')``."""
    steps = []
    for b in range(query.shape[1]):
        x = torch.cat([context[:, :-1, b], query[:, b][None]])
        relation = relate(KERNELS[model.kernel], x, x[:N])  # (N + 1, N)
        kappa = kernel_values(model.kernel, relation, model.log_gamma.exp()).T
        rates, labels = [float(r) for r in model.rate[:, 0]], context[:, -1, b].long()
        mean = model.kernel != "softmax"
        steps.append(descent.functional_descent([kappa], labels, model.embed, rates, mean=mean))
    return [torch.stack([one[k][-1] for one in steps]) for k in range(model.n_blocks)]


def _query_slot() -> dict[str, Any]:
    """The query's expectation slot with the erasure head's keys 1..N only, and with the query among them: is it erased, and does f notice?"""
    context, query = eight_contexts()
    fast = fast_model("rbf", STEPS, 7)
    plain, among = (
        paired(fast, LiteralBlocks, erasure="rbf", **options).run(context, query)
        for options in ({}, {"erase_query": True})
    )
    slot = slice(-2 * WIDTH, -WIDTH)

    def left(e: Tensor) -> float:
        return gap([e[:, slot, -1]], [descent.expectation(fast.embed, e[:, -WIDTH:, -1])])

    return {
        "query-slot/error": min(left(e) for e in plain[1:]),
        "query-slot/error_among": max(left(e) for e in among[1:]),
        "query-slot/f_difference": gap([e[:, -WIDTH:] for e in plain], [e[:, -WIDTH:] for e in among]),
    }


@torch.no_grad()
def absorbed(contexts: int = 32) -> dict[str, Any]:
    """One block with a positive vector alpha against alpha = 1 and embeddings ``sqrt(alpha) w``: relative difference of the logits."""
    context, query = eight_contexts(contexts)
    vector, scalar = fast_model("rbf", 1, 11, vector=True), fast_model("rbf", 1, 11)
    scalar.log_gamma.copy_(vector.log_gamma)
    scalar.rate.fill_(1.0)
    scalar.embed.copy_(vector.rate[0].sqrt()[:, None] * vector.embed)
    return {"q-alpha/absorbed": off(scalar(context, query), vector(context, query))}


# -- special cases ----------------------------------------------------------------------------------------------------


def gaussian(prompts: int = 20) -> dict[str, Any]:
    """Appendix G: squared loss, several steps; with the linear kernel one step is ``(eta/L) sum_l y_l x_l^T x_q``, He et al. (2025)'s predictor."""
    gaps, eta, one_step = [], 0.7, []
    w = torch.zeros(WIDTH, 2, dtype=torch.float64)  # real labels have no embeddings
    for seed in range(prompts):
        source = torch_rng(100 + seed)
        psi, y = normal(source, N + 1, 20) / 20**0.5, normal(source, N, WIDTH)
        a = descent.parameter_descent([psi], y, w, RATES, loss=descent.squared_loss)
        b = descent.functional_descent([psi[:N] @ psi.T], y, w, RATES, expect=lambda _, f: f)
        gaps.append(gap(a, b))
        source = torch_rng(200 + seed)
        points, y = normal(source, 41, 5), normal(source, 40, 1)
        f = descent.functional_descent([points[:-1] @ points.T], y, w, (eta,), expect=lambda _, f: f)
        theirs = eta * (y[:, 0] * (points[:-1] @ points[-1])).mean()
        one_step.append(float((f[-1][-1, 0] - theirs).abs()))
    return {"gaussian/steps": max(gaps), "gaussian/he2025": max(one_step)}


@torch.no_grad()
def _heads(scales: Tensor, x: Tensor, y: Tensor, w: Tensor, mixes: Tensor | None) -> Tensor:
    """The query's function after four steps of the model with heads of linear kernels."""
    model = MultiKernelGD(D, CLASSES, WIDTH, len(scales), len(RATES), "linear", mixes is not None).double()
    rate = torch.tensor(RATES, dtype=torch.float64)[:, None].expand(-1, len(scales))
    mix = {} if mixes is None else {"mix": mixes}
    model.load_state_dict({"embed": w, "scales": scales, "rate": rate} | mix)
    context = torch.cat([x[:N], y[:, None].double()], dim=1)[..., None]
    return model.descend(context, x[N][:, None])[0]


def multi_kernel(problems: int = 10, heads: int = 3) -> dict[str, Any]:
    """Appendix H against autograd on A_m: heads with diagonal Lambda_m; with P_m the identity, with free P_m as printed, and with ``P_m P_m^T``."""
    gaps = []
    for seed in range(problems):
        source = torch_rng(200 + seed)
        x, w = normal(source, N + 1, D) / D**0.5, normal(source, WIDTH, CLASSES)
        y = torch.randint(0, CLASSES, (N,), generator=source)
        scales = 0.5 + torch.rand(heads, D, generator=source, dtype=torch.float64)
        mixes = normal(source, heads, WIDTH, WIDTH) / WIDTH**0.5
        psis = [x * s for s in scales]  # linear kernels: features are Lambda_m x
        kappas = [psi[:N] @ psi.T for psi in psis]
        plain = descent.parameter_descent(psis, y, w, RATES)
        truth = descent.parameter_descent(psis, y, w, RATES, mixes=list(mixes))
        corrected = descent.functional_descent(kappas, y, w, RATES, mixes=[p @ p.T for p in mixes])
        single, mixed = (list(_heads(scales, x, y, w, each)) for each in (None, mixes))
        gaps.append([gap(single, [f[-1] for f in plain]), gap(mixed, [f[-1] for f in truth]), gap(corrected, truth)])
    difference, mixed, corrected = zip(*gaps, strict=True)
    return {
        "multi-kernel/difference": max(difference),
        "multi-kernel/mixed": min(mixed),
        "multi-kernel/mixed_corrected": max(corrected),
    }


# -- figures 1 and 2 --------------------------------------------------------------------------------------------------


class Stream(NamedTuple):
    """The encoding of one context through the literal blocks."""

    states: np.ndarray  # (K + 1, D, N + 1): columns e_i at the input and after each block
    sizes: tuple[int, int, int, int]  # rows of the four parts x, w, E, f
    matrices: dict[str, np.ndarray]  # of one block, by name


@torch.no_grad()
def stream(blocks: int = 2, n: int = 6, d: int = 4) -> Stream:
    """A small context through the blocks (figures 1 and 2), lambda = 100 so that the erasure's matrices can be drawn."""
    literal = paired(fast_model("rbf", blocks, 5), LiteralBlocks, erasure="rbf", erase_query=True)
    literal.lam = 100.0
    batch = sample_contexts(Anchors(n, d), 1, 8)
    states = torch.stack(literal.run(batch.context.double(), batch.query.double()))[:, 0]
    matrices = {k: v.numpy() for k, v in literal.matrices(d, n, 0).items()}
    return Stream(states.numpy(), (d, WIDTH, WIDTH, WIDTH), matrices)


@torch.no_grad()
def architecture() -> dict[str, Any]:
    """Figures 1 and 2 as statements: x and w stay, the expectation's entry is right after every block."""
    literal = paired(fast_model("rbf", STEPS, 6), LiteralBlocks, erasure="rbf", erase_query=True)
    states = literal.run(*eight_contexts())
    fixed = D + WIDTH
    slots = [e[:, fixed : fixed + WIDTH].mT for e in states]
    return {
        "fig1-2/kept": max(float((e[:, :fixed] - states[0][:, :fixed]).abs().max()) for e in states[1:]),
        "fig1-2/slot": gap(slots, [descent.expectation(literal.embed, e[:, -WIDTH:].mT) for e in states]),
    }


def _bands(ax: Axes, sizes: tuple[int, ...], both: bool = False, labels: bool = True) -> None:
    edges = np.cumsum(sizes)[:-1] - 0.5
    for edge in edges:
        ax.axhline(edge, color=style.INK, lw=0.7)
        if both:
            ax.axvline(edge, color=style.INK, lw=0.7)
    middle = np.cumsum(sizes) - np.array(sizes) / 2 - 0.5
    if labels:
        ax.set_yticks(middle, PARTS)
    if both:
        ax.set_xticks(middle, PARTS)


def plot_stream(s: Stream) -> Figure:
    """Columns ``e_i`` at the input and after each block; each part on its own scale, grey where no block writes."""
    fig, axes = style.figure(len(s.states), height=3.0)
    rows = np.split(s.states, np.cumsum(s.sizes)[:-1], axis=1)
    scaled = np.concatenate([part / max(np.abs(part).max(), 1e-12) for part in rows], axis=1)
    n = s.states.shape[-1]
    for k, (ax, state) in enumerate(zip(axes, scaled, strict=True)):
        style.heatmap(ax, state, 1.0, title="input" if k == 0 else f"after block {k}")
        kept = sum(s.sizes[:2])  # x and w, over the colours that the heat map gave them
        extent = (-0.5, n - 0.5, kept - 0.5, -0.5)
        ax.imshow(state[:kept], cmap="Greys", vmin=-1, vmax=4, extent=extent, interpolation="nearest")
        ax.set_ylim(len(state) - 0.5, -0.5)
        ax.set_aspect("auto")
        _bands(ax, s.sizes, labels=k == 0)
        if k == 0:
            ax.set_yticklabels(["covariates $x$", "label $w$", "expectation $E$", "function $f$"])
        ax.axvline(n - 1.5, color=style.INK, lw=0.7, ls=":")
        ax.set_xticks([0, n - 2, n - 1], ["1", "N", "query"])
    return fig


def plot_matrices(s: Stream) -> Figure:
    """The matrices of one block that are not the identity, each divided by its largest entry."""
    names = {
        "W_Q1": "head 1\n$W_Q = W_K$\ncompares $x$",
        "W_V1": "head 1\n$W_V$\n$w - E$ to $f$",
        "W_Q2": "head 2\n$W_Q = W_K$\nfinds its own $x$",
        "W_V2": "head 2\n$W_V$\ncopies $E$",
        "P2": "head 2\n$P$\nsubtracts",
        "W_Qc": "cross\n$W_Q$\nasks with $f$",
    }
    fig, axes = style.figure(len(names), height=1.85)
    for number, (ax, (name, title)) in enumerate(zip(axes, names.items(), strict=True)):
        matrix = s.matrices[name]
        style.heatmap(ax, matrix / np.abs(matrix).max(), 1.0, title=title)
        ax.title.set_fontsize(8.5)
        _bands(ax, s.sizes, both=True, labels=number == 0)
    return fig
