"""Theorem 2 by Monte Carlo: is the gradient at B = b I a multiple of I, does the scalar flow end at a stationary point, and of what?"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy import stats
from scipy.linalg import null_space
from torch import Tensor

from ...draw import torch_rng
from ...drawing import style
from ...models.kernels import key_factor
from ...numbers import number
from ...statistics import Estimate
from ...tasks.categorical import draw_embedding
from . import population
from .population import scaled

#: Sizes: d + 1 is prime, so that the smallest sufficient group can be tried.
N, D, WIDTH, CLASSES = 8, 4, 3, 8
#: Arbitrary scalars ``b_l`` and ``t_l`` of two layers.
SCALARS = torch.tensor([1.5, 0.7]).double(), torch.tensor([2.0, 1.0]).double()
#: Seeds of independent samples: to flow on, and to test on.
FLOW_SAMPLE, TEST_SAMPLE = 1, 2
#: Scalars b of the counterexample.
ESCAPE = (-512.0, -64.0, -16.0, -4.0, 0.0, 1.0, 4.0, 16.0, 64.0, 256.0, 2048.0)
#: Panels: laws of the covariates, and what is not among the scalars at their stationary point.
LAWS = {"sphere": "sphere", "cube": "cube U(-1, 1)", "group": "group of 20", "skewed": "no symmetry"}
ENDS = {
    "fixed_B": "$B$, $W_e$ fixed",
    "fixed_T": "$T$, $W_e$ fixed",
    "fixed_S": "$F$ to $F$, $W_e$ fixed",
    "rotated_T": "$T$, $W_e$ rotated",
}


class Gradient(NamedTuple):
    """Mean of a matrix-valued gradient over prompts; p values are of chi-squared tests with the full covariance."""

    entries: Estimate  # (L, n, n)
    trace: Estimate  # their mean diagonal, (L,)
    p_shape: float  # of "every layer's mean is a multiple of I"
    p_zero: float  # of "every layer's mean is zero"


def _p_value(samples: np.ndarray) -> float:
    """P value of "the mean is zero" for samples ``(P, k)``, components without variance left out (they are zero throughout)."""
    samples = samples[:, samples.std(0) > 1e-14]
    mean, covariance = samples.mean(0), np.cov(samples.T) / len(samples)
    return float(stats.chi2.sf(mean @ np.linalg.solve(covariance, mean), samples.shape[1]))


def summarise(samples: Tensor) -> Gradient:
    """Statistics of gradients ``(P, L, n, n)``."""
    g, n = samples.numpy(), samples.shape[-1]
    basis = null_space(np.eye(n).reshape(1, -1)).T.reshape(-1, n, n)  # of the matrices without a multiple of I
    rest = np.einsum("plij,kij->plk", g, basis).reshape(len(g), -1)
    diagonal = np.trace(g, axis1=2, axis2=3) / n
    p_shape, p_zero = _p_value(rest), _p_value(np.concatenate([rest, diagonal], axis=1))
    return Gradient(Estimate.mean(np.moveaxis(g, 0, -1)), Estimate.mean(diagonal.T), p_shape, p_zero)


def embedding() -> Tensor:
    """The fixed ``W_e`` ``(d', C)`` of this test."""
    return draw_embedding(CLASSES, WIDTH, 0).double()


def at_scalars(b: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """``B_l = b_l I`` and ``T_l = t_l I``."""
    return scaled(b, D), scaled(t, WIDTH)


def descend_scalars(loss: Callable[[Tensor, Tensor], Tensor], steps: int) -> tuple[tuple[Tensor, Tensor], float, list]:
    """The end ``b (2,)``, ``t (2,)`` of gradient flow in the scalars, found by L-BFGS, which has the same stationary points; the largest derivative there; the
    losses along the way. Appendix I flows in ``b_l`` alone and holds ``t_l``; with both free the end is stationary in both."""
    b, t = (torch.full((2,), start, dtype=torch.float64, requires_grad=True) for start in (1.0, 2.0))
    optimiser = torch.optim.LBFGS([b, t], max_iter=steps, tolerance_grad=1e-9, line_search_fn="strong_wolfe")
    losses = []

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss(b, t)
        value.backward()
        losses.append(value.item())
        return value

    optimiser.step(closure)
    closure()
    return (b.detach(), t.detach()), float(torch.stack([b.grad, t.grad]).abs().max()), losses


def gradient_in_b(n_prompts: int, law: str = "sphere", activation: str = "softmax", **drawn: Tensor) -> Gradient:
    """Gradient at an arbitrary scaled identity: is it a multiple of I? With another activation t is divided by N, because its weights do not sum to one."""
    b, t = SCALARS
    prompts = population.prompts(n_prompts, N, D, embedding(), TEST_SAMPLE, law=law, **drawn)
    return summarise(population.gradients(*at_scalars(b, t * key_factor(activation, N)), *prompts, activation)[0])


def shapes(n_prompts: int) -> tuple[dict[str, Any], dict[str, Gradient]]:
    """:func:`gradient_in_b` under several laws of the covariates, and on the sphere with other activations."""
    found = {law: gradient_in_b(n_prompts, law) for law in ("sphere", "cube", "skewed")}
    values = {f"thm2/{law}_p": gradient.p_shape for law, gradient in found.items()} | {
        "thm2/activations_p": [gradient_in_b(n_prompts, activation=a).p_shape for a in ("exponential", "linear")],
        "thm2/prompts": n_prompts,
    }
    return values, found | {"group": gradient_in_b(n_prompts, "skewed", group=torch.from_numpy(affine_group(D)))}


def without_a_stationary_point(n_prompts: int) -> dict[str, Any]:
    """A law within assumptions 1 to 4 under which one layer's loss falls in b for ever (t = 1), so that no scalar is stationary: loss at b of :data:`ESCAPE`,
    and the least fall from one to the next with the error of its mean over prompts. The query is the first example, covariates lie on the sphere, and ``f_*(x)
    = 30 w_c`` with c one of two categories: the first where x is nearer to example 1 than to example 2. The sharper the attention, the more of it goes to
    example 1, whose label is the query's."""
    w, source = embedding(), torch_rng(5)
    x = torch.randn(n_prompts, N, D, generator=source, dtype=torch.float64)
    x = x / x.norm(dim=-1, keepdim=True)
    x = torch.cat([x, x[:, :1]], dim=1)  # the query last
    largest = (w**2).sum(0).topk(2).indices
    nearer = (x @ x[:, :2].mT).argmax(-1)  # (P, N + 1), 0: to example 1
    p = torch.softmax(30 * w[:, largest].T @ w, dim=-1)[nearer]  # (P, N + 1, C)
    y = torch.multinomial(p.flatten(0, 1), 1, generator=source).reshape(n_prompts, N + 1)
    hot, t = torch.nn.functional.one_hot(y, CLASSES).double(), torch.eye(WIDTH, dtype=torch.float64)[None]
    eye = torch.eye(D, dtype=torch.float64)[None]
    losses = torch.stack([population.loss(b * eye, t, None, x, hot, w) for b in ESCAPE]).numpy()  # (K, P)
    falls = losses[:-1] - losses[1:]
    least = falls[falls.mean(1).argmin()]
    shown = [ESCAPE.index(b) for b in (-512.0, 0.0, 16.0, 256.0, 2048.0)]
    return {"thm2/least_fall": Estimate.mean(least), "thm2/loss_over_b": losses.mean(1)[shown].tolist()}


def least_curvature() -> dict[str, Any]:
    """A law within the assumptions whose stationary scalars are no minimum in B, and how many of nine laws of its kind have a curvature there below -0.001."""
    every = [_curvature(5, 10_000), *(_curvature(seed, 10_000 + seed) for seed in range(6, 14))]
    saddles = sum(least < -1e-3 for least, _ in every)
    (least, slopes), laws = every[0], len(every)
    return {"thm2/least_curvature": least, "thm2/slope_there": slopes, "thm2/saddles": saddles, "thm2/laws": laws}


def _curvature(prompts: int, embeddings: int) -> tuple[float, float]:
    """Where L-BFGS ends in the scalars: smallest eigenvalue of the Hessian in both layers' B, largest derivative in the scalars. Nothing is sampled: covariates in
    the plane, uniform on the orbits of four prompts under the symmetries of a triangle. Prompts and W_e, by their seeds, are the same at every draw."""
    seeded = torch.Generator().manual_seed
    x = torch.randn(4, 3, 2, generator=seeded(prompts), dtype=torch.float64)
    w = torch.randn(WIDTH, CLASSES, generator=seeded(embeddings)).double()
    group = torch.from_numpy(affine_group(2))
    x = torch.einsum("gij,pnj->gpni", group, x / x.norm(dim=-1, keepdim=True)).flatten(0, 1)
    mean = population.exact_loss(x, w, sharpness=3.0, gain=3.0)
    (b, t), slopes, _ = descend_scalars(lambda b, t: mean(scaled(b, 2), scaled(t, WIDTH)), 300)
    held = scaled(t, WIDTH)
    hessian = torch.func.hessian(lambda at: mean(at, held))(scaled(b, 2)).reshape(8, 8)
    return float(torch.linalg.eigvalsh(hessian)[0]), slopes


def stationary(n_prompts: int) -> tuple[dict[str, Any], dict[str, Gradient]]:
    """The end of the scalar flow: gradient of B, T and S there, on prompts that the flow did not see; W_e fixed or rotated for each prompt."""
    fixed, (own,), drop = _at_the_end(n_prompts, rotate=False)
    rotated, _, _ = _at_the_end(n_prompts, rotate=True)
    # Both samples are random: the fresh trace differs from zero by the errors of both.
    spread = np.hypot(own["B"].trace.error, fixed["B"].trace.error)
    return {
        "thm2/fixed_flow_drop": drop,
        "thm2/fixed_B_p": fixed["B"].p_shape,
        "thm2/fixed_T_p": fixed["T"].p_shape,
        "thm2/fixed_S_p": fixed["S"].p_zero,
        "thm2/fixed_trace_z": np.abs(fixed["B"].trace.value / spread).tolist(),
        "thm2/rotated_T_p": rotated["T"].p_shape,
        "thm2/rotated_S_p": rotated["S"].p_zero,
    }, {f"fixed_{letter}": each for letter, each in fixed.items()} | {"rotated_T": rotated["T"]}


def _at_the_end(n_prompts: int, rotate: bool) -> tuple[dict[str, Gradient], list[dict[str, Gradient]], float]:
    """Gradients of B, T and S at the end of the scalar flow on fresh prompts and, where W_e is fixed, on its own, and the loss that it lost."""
    w = embedding()
    sample, test = (population.prompts(n_prompts, N, D, w, seed, rotate) for seed in (FLOW_SAMPLE, TEST_SAMPLE))
    x, y, each = sample
    hot = torch.nn.functional.one_hot(y, CLASSES).double()
    ends, _, losses = descend_scalars(lambda b, t: population.loss(*at_scalars(b, t), None, x, hot, each).mean(), 60)
    fresh, *own = (
        {letter: summarise(g) for letter, g in zip("BTS", population.gradients(*at_scalars(*ends), *one), strict=True)}
        for one in ((test,) if rotate else (test, sample))
    )
    return fresh, own, losses[0] - losses[-1]


def exactly() -> dict[str, Any]:
    """Theorem 2 without sampling: covariates uniform on the orbit of two prompts without symmetry under the smallest sufficient group, labels summed over with
    their probabilities. The gradient at scaled identities is a multiple of I; the loss falls along equation 57 (times I) exactly as fast as equation 58 says.
    Control: the same prompts without the group."""
    x = torch.randn(2, 3, 10, generator=torch_rng(3), dtype=torch.float64).abs()
    orbit = torch.einsum("gij,pnj->gpni", torch.from_numpy(affine_group(10)), x).flatten(0, 1)
    with_group, alone = (population.exact_flow(prompts, embedding(), *SCALARS) for prompts in (orbit, x))
    return {
        "thm2-group/orbit": with_group[0],
        "thm2-group/alone": alone[0],
        "eq58/equality": with_group[1],
        "eq58/without_symmetry": alone[1],
    }


def groups() -> dict[str, Any]:
    """The smallest group that suffices: order d (d + 1), reached by the affine group; what is too small; the symmetries of both data sets."""
    return {f"thm2-group/order_d{d}": len(affine_group(d)) for d in (2, 4, 10)} | {
        "thm2-group/defect_d10": defect(affine_group(10)),
        "thm2-group/rotations_defect": [defect(rotations_of_polygon(n)) for n in (3, 4, 5, 12)],
        # all symmetries of the square, and a small group of those of U(-1, 1)^4: signs times cyclic shifts
        "thm2-group/square_defect": defect(with_signs(itertools.permutations(range(2)), 2)),
        "thm2-group/cube_defect": defect(with_signs((np.roll(range(4), shift) for shift in range(4)), 4)),
    }


def plot_shapes(found: Mapping[str, Gradient]) -> Figure:
    """Gradient of the first layer under each law of the covariates, over the mean of its diagonal, with the p value of a multiple of the identity."""
    fig, axes = style.figure(len(LAWS), height=2.4)
    for ax, (name, title) in zip(axes, LAWS.items(), strict=True):
        first = found[name].entries.value[0]
        style.heatmap(ax, first / np.diagonal(first).mean(), 1.5, annotate=".1f")
        ax.set_title(f"{title}\np = {number(found[name].p_shape)}")
    return fig


def plot_gradients(found: Mapping[str, Gradient]) -> Figure:
    """Entries of the gradients where the scalars are stationary, in standard errors, two of them shaded."""
    fig, axes = style.figure(len(ENDS), height=3.1, sharey=True)
    for ax, (name, title) in zip(axes, ENDS.items(), strict=True):
        mean, error = found[name].entries.value, found[name].entries.error
        n = mean.shape[-1]
        diagonal = np.eye(n, dtype=bool)
        marks = ((diagonal, "o", "on the diagonal"), (~diagonal, "x", "off the diagonal"))
        for layer, (mask, marker, where) in itertools.product(range(len(mean)), marks):
            y, e = mean[layer][mask], error[layer][mask]
            x = layer * (n * n + 2) + np.flatnonzero(mask.ravel())
            look = {"color": style.PALETTE[layer], "label": None if layer else where}
            ax.plot(x, y / np.where(e > 0, e, 1), marker, ms=5, **look)
        ax.axhspan(-2, 2, color=style.GRID, lw=0, zorder=0, label="two standard errors")
        ax.axhline(0, color=style.INK, lw=0.7)
        ax.set(xticks=[n * n / 2, n * n * 1.5 + 2], xticklabels=["layer 1", "layer 2"], title=title)
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel("entry over its standard error")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


# -- which symmetry the theorem needs (appendix I.5) ---------------------------------------------------------------------
#
# The mean of U^T R U over a group is tr(R)/d I for every R exactly when the group is absolutely irreducible, and the proof uses rotations only through that
# mean. Such a finite group has at least d (d + 1) elements, for d divides its order and 1 + d^2 is at most its order. The affine group x -> a x + b over a
# field of d + 1 elements, on the corners of a simplex, has exactly that many.


def affine_group(d: int) -> np.ndarray:
    """``x -> a x + b`` modulo the prime ``d + 1`` on the corners of a simplex in d dimensions, ``(d (d + 1), d, d)``."""
    p = d + 1
    basis = null_space(np.ones((1, p))).T  # of the vectors whose entries sum to zero
    maps = itertools.product(range(1, p), range(p))
    return basis @ np.array([np.eye(p)[:, (a * np.arange(p) + b) % p] for a, b in maps]) @ basis.T


def rotations_of_polygon(n: int) -> np.ndarray:
    """The n rotations of a regular polygon in the plane, ``(n, 2, 2)``."""
    cos, sin = (f(2 * np.pi * np.arange(n) / n) for f in (np.cos, np.sin))
    return np.stack([cos, -sin, sin, cos], axis=1).reshape(n, 2, 2)


def with_signs(permutations: Iterable[Sequence[int]], d: int) -> np.ndarray:
    """Permutations of d coordinates times all signs, ``(2^d P, d, d)``."""
    signs = itertools.product((1.0, -1.0), repeat=d)
    return np.array([np.eye(d)[list(p)] * np.array(s)[:, None] for p, s in itertools.product(permutations, signs)])


def averaged(group: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Mean of ``U^T R U`` over the group, ``(d, d)``."""
    return np.einsum("gki,kl,glj->ij", group, r, group) / len(group)


def defect(group: np.ndarray) -> float:
    """Largest distance of that mean from ``tr(R)/d I`` over all R: the norm of the difference of the two linear maps."""
    d, flat = group.shape[-1], group.reshape(len(group), -1)  # (G, d^2), entry (k, i) of each
    mean = (flat.T @ flat / len(group)).reshape(d, d, d, d)  # of U_ki U_lj, in the order k, i, l, j
    identity = np.eye(d).ravel()
    worst = mean.transpose(1, 3, 0, 2).reshape(d * d, d * d) - np.outer(identity, identity) / d
    return float(np.linalg.norm(worst, 2))
