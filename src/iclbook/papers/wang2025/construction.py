"""The construction of sections 2 and 3, appendices C, D, G and H, checked to rounding (float64), and figures 1 and 2 from its tensors."""

from functools import partial
from typing import Any

import numpy as np
import torch
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
        plain, biased = (descent.parameter_descent([psi], y, w, RATES, bias=bias) for bias in (False, True))
        pairs = ((0, plain), (1 / N, biased), (1, biased))
        gaps.append([gap(descent.functional_descent(kappa, y, w, RATES, bias=bias), truth) for bias, truth in pairs])
    plain, mean, printed = zip(*gaps, strict=True)
    return {"eq2-3/difference": max(plain), "eq14/with_mean": max(mean), "eq14/printed": min(printed)}


# -- blocks with all matrices written out -----------------------------------------------------------------------------


def self_attention_alone(problems: int = 20, layers: int = 4) -> dict[str, Any]:
    """Section 2.3: two labels changed at once against the sum of both changes, relative; layers add ``sum_i kappa (V w_{y_i} - B f_i)``."""

    def interaction(psi: Tensor, y: Tensor, w: Tensor, rates: tuple[float, ...], **options: Any) -> float:
        f = partial(descent.functional_descent, [psi[:N] @ psi.T], w=w, rates=rates, **options)
        return descent.interaction(lambda labels: f(labels)[-1][-1], y, (0, 1), CLASSES)

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
    tokens = context.movedim(-1, 0)  # (B, N, d + 1)
    x, labels = torch.cat([tokens[..., :-1], query.T[:, None]], dim=1), tokens[..., -1].long()
    options = ({"erasure": "rbf"}, {"erasure": "none"}, {"erasure": "rbf", "query_among_keys": True})
    gaps = []
    for kernel in KERNELS:
        fast, step = (fast_model(kernel, n, 5) for n in (STEPS, 1))
        kappa = kernel_values(kernel, relate(KERNELS[kernel], x, x[:, :N]), fast.log_gamma.exp()).mT  # (B, N, N + 1)
        rates, mean = fast.rate[:, 0].tolist(), kernel != "softmax"
        steps = descent.functional_descent([kappa], labels, fast.embed, rates, mean=mean)
        reference = [f[:, -1] for f in steps]  # the query's, (B, d') each
        literal = [paired(fast, LiteralBlocks, **each).run(context, query)[1:] for each in options]
        away = [max(off(e[:, -WIDTH:, -1], f) for e, f in zip(each, reference, strict=True)) for each in literal]
        one_step = gap([paired(step, LiteralStep)(context, query)], [step(context, query)])
        every_step = gap(list(steps_of(fast, fast.cache(context, query)).movedim(1, 0)), reference)
        gaps.append([*away, one_step, every_step])
    rbf, none, among_keys, one_step, every_step = zip(*gaps, strict=True)
    return _query_slot(context, query) | {
        "construction/rbf": max(rbf),
        "construction/none": min(none),
        "construction/query": min(among_keys),
        "construction/step": max(one_step),
        "construction/fast": max(every_step),
    }


def _query_slot(context: Tensor, query: Tensor) -> dict[str, Any]:
    """The query's expectation slot with the erasure head's keys 1..N only, and with the query among them: is it erased, and does f notice?"""
    fast = fast_model("rbf", STEPS, 7)
    models = [paired(fast, LiteralBlocks, erasure="rbf", erase_query=erase) for erase in (False, True)]
    plain, among = (torch.stack(model.run(context, query)) for model in models)  # (K + 1, B, D, N + 1)
    slots, f = zip(*(e[1:, :, -2 * WIDTH :, -1].split(WIDTH, -1) for e in (plain, among)), strict=True)  # (K, B, d')
    left = [(e - descent.expectation(fast.embed, at)).abs().amax((1, 2)) for e, at in zip(slots, f, strict=True)]
    return {
        "query-slot/error": float(left[0].min()),
        "query-slot/error_among": float(left[1].max()),
        "query-slot/f_difference": float((plain - among)[:, :, -WIDTH:].abs().max()),
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
    gaps, eta = [], 0.7

    def itself(_: Tensor, f: Tensor) -> Tensor:
        return f

    w = torch.zeros(WIDTH, 2, dtype=torch.float64)  # real labels have no embeddings
    for seed in range(prompts):
        source = torch_rng(100 + seed)
        psi, y = normal(source, N + 1, 20) / 20**0.5, normal(source, N, WIDTH)
        a = descent.parameter_descent([psi], y, w, RATES, loss=descent.squared_loss)
        b = descent.functional_descent([psi[:N] @ psi.T], y, w, RATES, expect=itself)
        source = torch_rng(200 + seed)
        points, y = normal(source, 41, 5), normal(source, 40, 1)
        f = descent.functional_descent([points[:-1] @ points.T], y, w, (eta,), expect=itself)
        theirs = eta * (y[:, 0] * (points[:-1] @ points[-1])).mean()
        gaps.append([gap(a, b), float((f[-1][-1, 0] - theirs).abs())])
    steps, one_step = zip(*gaps, strict=True)
    return {"gaussian/steps": max(steps), "gaussian/he2025": max(one_step)}


@torch.no_grad()
def _heads(scales: Tensor, x: Tensor, y: Tensor, w: Tensor, mixes: Tensor) -> list[Tensor]:
    """The query's function after each step of the model with heads of linear kernels."""
    model = MultiKernelGD(D, CLASSES, WIDTH, len(scales), len(RATES), "linear", mixing=True).double()
    rate = torch.tensor(RATES, dtype=torch.float64)[:, None].expand(-1, len(scales))
    model.load_state_dict({"embed": w, "scales": scales, "rate": rate, "mix": mixes})
    context = torch.cat([x[:N], y[:, None].double()], dim=1)[..., None]
    return list(model.descend(context, x[N][:, None])[0])


def multi_kernel(problems: int = 10, heads: int = 3) -> dict[str, Any]:
    """Appendix H against autograd on A_m: heads with diagonal Lambda_m; with P_m the identity, with free P_m as printed, and with ``P_m P_m^T``."""
    gaps, identity = [], torch.eye(WIDTH, dtype=torch.float64)
    for seed in range(problems):
        source = torch_rng(200 + seed)
        x, w = normal(source, N + 1, D) / D**0.5, normal(source, WIDTH, CLASSES)
        y = torch.randint(0, CLASSES, (N,), generator=source)
        scales = 0.5 + torch.rand(heads, D, generator=source, dtype=torch.float64)
        mixes = normal(source, heads, WIDTH, WIDTH) / WIDTH**0.5
        psis = [x * s for s in scales]  # linear kernels: features are Lambda_m x
        kappas = [psi[:N] @ psi.T for psi in psis]
        plain, truth = (descent.parameter_descent(psis, y, w, RATES, mixes=each) for each in (None, mixes))
        corrected = descent.functional_descent(kappas, y, w, RATES, mixes=mixes @ mixes.mT)
        pairs = ((identity.expand_as(mixes), plain), (mixes, truth))
        single, mixed = (gap(_heads(scales, x, y, w, p), [f[-1] for f in descended]) for p, descended in pairs)
        gaps.append([single, mixed, gap(corrected, truth)])
    difference, mixed, corrected = zip(*gaps, strict=True)
    return {
        "multi-kernel/difference": max(difference),
        "multi-kernel/mixed": min(mixed),
        "multi-kernel/mixed_corrected": max(corrected),
    }


# -- figures 1 and 2 --------------------------------------------------------------------------------------------------


PARTS = ("x", "w", "E", "f")
#: Rows of the parts in the figures, where one part ends and the next begins, and the middles of the parts.
ROWS = np.array([4, WIDTH, WIDTH, WIDTH])
ENDS = np.cumsum(ROWS)
EDGES, MIDDLES = ENDS[:-1] - 0.5, ENDS - ROWS / 2 - 0.5


@torch.no_grad()
def stream(blocks: int = 2, n: int = 6) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A small context through the blocks (figures 1, 2): ``e_i`` at the input and after each block ``(K + 1, D, N + 1)``; one block's matrices by name."""
    literal = paired(fast_model("rbf", blocks, 5), LiteralBlocks, erasure="rbf", erase_query=True, lam=100.0)
    batch = sample_contexts(Anchors(n, ROWS[0]), 1, 8)
    states = torch.stack(literal.run(batch.context.double(), batch.query.double()))[:, 0]
    return states.numpy(), {k: v.numpy() for k, v in literal.matrices(ROWS[0], n, 0).items()}


@torch.no_grad()
def architecture() -> dict[str, Any]:
    """Figures 1 and 2: x and w stay, the expectation's entry is right after every block. Control: the least change of what blocks do write."""
    literal = paired(fast_model("rbf", STEPS, 6), LiteralBlocks, erasure="rbf", erase_query=True)
    states = torch.stack(literal.run(*eight_contexts())).mT  # (K + 1, B, N + 1, d + 3 d')
    kept, slot, f = states.split((D + WIDTH, WIDTH, WIDTH), dim=-1)
    return {
        "fig1-2/kept": float((kept - kept[0]).abs().max()),
        "fig1-2/written": min(float(part.diff(dim=0).abs().flatten(1).amax(1).min()) for part in (slot, f)),
        "fig1-2/slot": float((slot - descent.expectation(literal.embed, f)).abs().max()),
    }


def plot_stream(states: np.ndarray) -> Figure:
    """Columns ``e_i`` at the input and after each block; each part on its own scale, grey where no block writes."""
    fig, axes = style.figure(len(states), height=3.0, sharey=True)
    parts = np.split(states, ENDS[:-1], axis=1)
    scaled = np.concatenate([part / max(np.abs(part).max(), 1e-12) for part in parts], axis=1)
    n, kept = states.shape[-1], ENDS[1]  # x and w, over the colours that the heat map gave them
    for k, (ax, state) in enumerate(zip(axes, scaled, strict=True)):
        style.heatmap(ax, state, 1.0, title="input" if k == 0 else f"after block {k}")
        extent = (-0.5, n - 0.5, kept - 0.5, -0.5)
        ax.imshow(state[:kept], cmap="Greys", vmin=-1, vmax=4, extent=extent, interpolation="nearest")
        ax.set(ylim=(len(state) - 0.5, -0.5), aspect="auto")
        for edge in EDGES:
            ax.axhline(edge, color=style.INK, lw=0.7)
        ax.axvline(n - 1.5, color=style.INK, lw=0.7, ls=":")
        ax.set_xticks([0, n - 2, n - 1], ["1", "N", "query"])
    axes[0].set_yticks(MIDDLES, ["covariates $x$", "label $w$", "expectation $E$", "function $f$"])
    return fig


def plot_matrices(matrices: dict[str, np.ndarray]) -> Figure:
    """The matrices of one block that are not the identity, each divided by its largest entry."""
    names = {
        "W_Q1": "head 1\n$W_Q = W_K$\ncompares $x$",
        "W_V1": "head 1\n$W_V$\n$w - E$ to $f$",
        "W_Q2": "head 2\n$W_Q = W_K$\nfinds its own $x$",
        "W_V2": "head 2\n$W_V$\ncopies $E$",
        "P2": "head 2\n$P$\nsubtracts",
        "W_Qc": "cross\n$W_Q$\nasks with $f$",
    }
    fig, axes = style.figure(len(names), height=1.85, sharey=True)
    for ax, (name, title) in zip(axes, names.items(), strict=True):
        style.heatmap(ax, matrices[name] / np.abs(matrices[name]).max(), 1.0, title=title)
        ax.title.set_fontsize(8.5)
        for edge in EDGES:
            ax.axhline(edge, color=style.INK, lw=0.7)
            ax.axvline(edge, color=style.INK, lw=0.7)
        ax.set_xticks(MIDDLES, PARTS)
    axes[0].set_yticks(MIDDLES, PARTS)
    return fig
