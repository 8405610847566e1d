"""Equations 13 to 43 of agarwal2025 on random heads: closed forms against autograd, and what the first-order updates miss."""

from collections import defaultdict, namedtuple
from collections.abc import Mapping
from itertools import product, starmap

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.func import jacrev, vmap

from ...draw import numpy_rng
from ...drawing import style
from ...random import generator
from ...statistics import Estimate, clustered_share_error
from . import closed_forms as closed

#: Inputs ``(T, d_x)``, targets ``(T,)``, weights, and a causal mask or ``None``.
Case = namedtuple("Case", "x y w mask")


def random_case(index: int, largest: int = 12) -> Case:
    """Case ``index``: sizes (up to ``largest`` positions), scale of the weights (0.3 to 1.5), causal or full."""
    gen = generator(index, 7)  # 7: the purpose of these cases
    ranges = (2, largest), (1, 7), (1, 6), (1, 6), (2, 7)  # of T, d_x, d_k, d_v and n
    T, d_x, d_k, d_v, n = (int(torch.randint(low, high + 1, (), generator=gen)) for low, high in ranges)
    x = torch.randn(T, d_x, generator=gen, dtype=torch.float64)
    y = torch.randint(0, n, (T,), generator=gen)
    scale = 0.3 + 1.2 * float(torch.rand((), generator=gen))
    w = closed.random_weights(gen, d_x, d_k, d_v, n, scale, bias=scale)
    return Case(x, y, w, closed.causal_mask(T) if index % 2 else None)


def relative(measured: Tensor, truth: Tensor) -> float:
    """Largest difference over the largest size of ``truth``."""
    size = float(truth.abs().max())
    return float((measured - truth).abs().max()) / (size or 1.0)


def autograd(case: Case) -> dict[str, Tensor]:
    """The gradients of the summed loss (equation 9) by autograd, named as by :func:`.closed_forms.every_gradient`."""
    x, y, w, mask = case
    w = closed.Weights(*[p.clone().requires_grad_() for p in w])
    f = closed.forward(x, w, mask)
    nodes = {name: getattr(f, name) for name in ("logits", "g", "v", "alpha", "s", "q", "k")} | w._asdict()
    loss = torch.nn.functional.cross_entropy(f.logits, y, reduction="sum")
    return dict(zip(nodes, torch.autograd.grad(loss, list(nodes.values())), strict=True))


def gradient_error(index: int) -> float:
    """Largest relative error of any closed form on one random case."""
    case = random_case(index)
    _, found = closed.every_gradient(*case)
    return max(relative(found[name], truth) for name, truth in autograd(case).items())


def closed_forms(n: int = 240) -> dict[str, float]:
    """Equations 13 to 32 on ``n`` random cases, equation 18 by itself, and the evaluation by blocks of queries."""
    jacobian = vmap(jacrev(lambda row: row.softmax(-1)))
    rows = [random_case(index).x for index in range(20)]
    lengths_and_scales = product((5, closed.BLOCK, closed.BLOCK + 1, 250), (0.1, 0.5, 0.8))
    shapes = {tuple(part.shape for part in (*random_case(i).w, random_case(i).x)) for i in range(n)}
    return {
        "eq/gradients": max(gradient_error(index) for index in range(n)),
        "eq/sizes": len(shapes),
        "eq/jacobian": max(relative(closed.softmax_jacobian(s.softmax(-1)), jacobian(s)) for s in rows),
        "eq/blocked": max(starmap(blocked_error, lengths_and_scales)),
    }


def blocked_error(T: int, scale: float) -> float:
    """The evaluation by blocks of queries (mean loss) against autograd through the plain causal head, float64."""
    gen = generator(T, 8)
    x, y = torch.randn(T, 20, generator=gen, dtype=torch.float64), torch.randint(0, 8, (T,), generator=gen)
    case = Case(x, y, closed.random_weights(gen, 20, 10, 15, 8, scale), closed.causal_mask(T))
    truth, plain = autograd(case), closed.forward(x, case.w, case.mask)
    loss, *found = closed.causal_step(x, torch.nn.functional.one_hot(y, 8).double(), *case.w[:4])
    errors = [relative(part, truth[name] / T) for name, part in zip(case.w._fields, found, strict=False)]
    errors.append(relative(loss, closed.losses(plain.logits, y).mean()))
    return max(*errors, relative(closed.causal_predict(x, *case.w[:4]).logits, plain.logits))


def losses_of(case: Case, v: Tensor, s: Tensor) -> Tensor:
    """Losses ``(..., T)`` from free values ``(..., T, d_v)`` and scores ``(..., T, T)``."""
    *_, logits, _ = closed.attend(s, v, case.w.W_O, case.w.b, case.mask)
    return closed.losses(logits, case.y)


def first_order(n: int = 40) -> dict[str, float | Estimate]:
    """Remainders beyond first order: medians over ``n`` cases of the exponents in the step size; equations 39 and 42, 43 where they are exact."""
    exponents: dict[str, list[float]] = defaultdict(list)
    context = []
    logs = np.linspace(np.log(1e-4), np.log(1e-2), 5)  # of the step sizes
    rates = torch.from_numpy(np.exp(logs))[:, None, None]
    for index in range(n):
        case = random_case(index)
        f = closed.forward(case.x, case.w, case.mask)
        before, d = closed.every_gradient(*case)
        j, one = index % len(case.x), torch.zeros_like(f.v)
        one[j] = d["v"][j]  # v_j alone moves
        moved = {  # losses (rates, T)
            "v": losses_of(case, f.v - rates * d["v"], f.s),
            "s": losses_of(case, f.v, f.s - rates * d["s"]),
            "q": losses_of(case, f.v, closed.scores(f.q - rates * d["q"], f.k)),
            "k": losses_of(case, f.v, closed.scores(f.q, f.k - rates * d["k"])),
        }
        missed = {k: (after - before).sum(1) + rates[:, 0, 0] * (d[k] ** 2).sum() for k, after in moved.items()}
        predicted = closed.loss_change(f.alpha, d["g"], rates)[..., j]
        missed["one"] = (losses_of(case, f.v - rates * one, f.s) - before - predicted).abs().amax(1)
        most = int((d["v"] ** 2).sum(-1).argmax())
        v = f.v.clone()
        v[most] -= d["v"][most]
        moved_g = closed.attend(f.s, v, case.w.W_O, case.w.b, case.mask)[1] - f.g
        context.append(relative(closed.context_change(f.alpha, d["g"], 1.0)[:, most], moved_g))
        for name, values in missed.items():
            if values.abs().min() > 1e-13:  # else rounding is all that is left
                exponents[name].append(np.polyfit(logs, values.abs().log(), 1)[0])
    *middles, last = (Estimate.of(np.median, np.array(exponents[name])) for name in (*"vsqk", "one"))
    # where each value has a single user, equations 42 and 43 are 39 and 41
    gen = generator(0, 9)
    alpha = torch.eye(6, dtype=torch.float64)[torch.randperm(6, generator=gen)]
    u = torch.randn(6, 4, generator=gen, dtype=torch.float64)
    contexts = relative(-0.1 * alpha[..., None] ** 2 * u[:, None], closed.context_change(alpha, u, 0.1))
    losses = relative(closed.dominant_loss(alpha, u, 0.1), closed.loss_change(alpha, u, 0.1))
    return {
        "eq/second_order": Estimate.stack(middles),
        "eq/loss_change": last,
        "eq/context": max(context),
        "eq/dominant_limit": max(contexts, losses),
    }


def readings_of_updates(n: int = 100) -> dict[str, float]:
    """Equations 33 to 36 as changes of free v, s, q, k, as what follows from free q and k, and as what a step on the weights does."""
    free, follow, weights = [], [], []
    for index in range(n):
        case = random_case(index)
        truth, (_, d) = autograd(case), closed.every_gradient(*case)
        f = closed.forward(case.x, case.w, case.mask)
        printed = {name: -d[name] for name in "vsqk"}  # equations 33 to 36 at a rate of 1
        free.append(max(relative(step, -truth[name]) for name, step in printed.items()))
        see = torch.ones_like(f.s, dtype=torch.bool) if case.mask is None else case.mask
        moved = closed.scores(printed["q"], f.k) + closed.scores(f.q, printed["k"])
        follow.append(relative(moved * see, printed["s"]))
        by_weights = closed.score_step_of_weights(d["q"], d["k"], f.q, f.k, case.x) * see
        weights.append(relative(case.x @ -truth["W_V"].mT, printed["v"]))
        weights.append(relative(by_weights, printed["s"]))
    return {"updates/free": max(free), "updates/follow": min(follow), "updates/weights": min(weights)}


def dominant_query(n: int = 400) -> dict[str, np.ndarray]:
    """Of each pair (i, j) of ``n`` heads, ``(pairs,)``: relative ``error`` of equation 43; ``lead``, ``alpha_ij`` over the largest other ``alpha_rj``; ``rho``; ``head``."""
    rows = []
    for index in range(n):
        case = random_case(index, largest=40)
        f = closed.forward(case.x, case.w, case.mask)
        u = closed.upstream(f.p, case.y, case.w.W_O)
        exact, rough = closed.loss_change(f.alpha, u, 1.0), closed.dominant_loss(f.alpha, u, 1.0)
        same = torch.eye(len(case.x), dtype=torch.bool)[..., None]
        others = f.alpha[None].masked_fill(same, 0.0).amax(1)  # (i, j)
        size = u.norm(dim=-1)[:, None]
        seen = (f.alpha > 1e-6) & (others > 1e-6) & (size > 1e-3 * size.max())  # not rounding alone
        weight = f.alpha * size
        rho = weight.sum(0) / weight - 1  # bounds the relative error of equations 42 and 43, by Cauchy and Schwarz
        head = torch.full_like(rho, index)
        rows.append(torch.stack([f.alpha / others, rho, ((exact - rough) / rough).abs(), head], -1)[seen])
    return dict(zip(("lead", "rho", "error", "head"), torch.cat(rows).numpy().T, strict=True))


def dominant_values(found: Mapping[str, np.ndarray]) -> dict[str, float | Estimate]:
    """Share of pairs with a relative error of equation 43 of at most 0.2 at a lead of ten and of a hundred, its error over heads; and the largest at a lead of ten."""
    values: dict[str, float | Estimate] = {"dominant/printed": float(found["error"][found["lead"] >= 10].max())}
    for name, lead in (("ten", 10), ("hundred", 100)):
        there = found["lead"] >= lead
        near, every = (np.bincount(found["head"][of].astype(int)) for of in (there & (found["error"] <= 0.2), there))
        near, every = np.pad(near, (0, len(every) - len(near)))[every > 0], every[every > 0]
        values[f"dominant/{name}"] = Estimate(near.sum() / every.sum(), clustered_share_error(near, every))
    return values


def plot_dominant_query(found: Mapping[str, np.ndarray]) -> Figure:
    """Error of equation 43 against the printed condition and against rho, 4,000 pairs drawn; a ring at the largest error where a weight leads by ten."""
    fig, axes = style.figure(2, aspect=0.75, sharey=True)
    pick = numpy_rng(0).permutation(len(found["error"]))[:4000]
    worst = np.where(found["lead"] >= 10, found["error"], 0).argmax()
    panels = (
        ("lead", r"$\alpha_{ij}$ over the largest other $\alpha_{rj}$", "the paper's condition: one large weight"),
        ("rho", r"$\rho = \sum_{r \neq i} \alpha_{rj}|u_r| \;/\; \alpha_{ij}|u_i|$", "our bound: small ρ"),
    )
    for ax, (name, label, title) in zip(axes, panels, strict=True):
        look = {"ms": 2.5, "color": style.COLOURS["measured"], "alpha": 0.5, "rasterized": True}
        ax.loglog(found[name][pick], np.maximum(found["error"][pick], 1e-4), ".", **look)
        ax.loglog(found[name][worst], found["error"][worst], ".", ms=5, color=style.COLOURS["measured"])
        ax.loglog(found[name][worst], found["error"][worst], "o", ms=11, mfc="none", mec=style.INK, mew=1.5)
        ax.set(xlabel=label, title=title, ylim=(1e-4, 1e4), xlim=(1e-2, 1e4))
        ax.minorticks_off()
    style.theory_line(axes[1], [1e-2, 1e4], [1e-2, 1e4])
    axes[0].axvline(10, color=style.COLOURS["paper"], ls=(0, (5, 3)), lw=1.2)
    axes[0].text(13, 8e3, "ten times\nany other", color=style.COLOURS["paper"], fontsize=8.5, va="top")
    beside = {"xytext": (9, 4), "textcoords": "offset points", "va": "top", "fontsize": 8.5}
    at = found["lead"][worst], found["error"][worst]
    axes[0].annotate(f"yet off by\na factor of {at[1]:.0f}", at, **beside)
    axes[1].text(1.3e-2, 10, r"bound: error = $\rho$", fontsize=8.5)
    axes[0].set_ylabel("relative error of equation 43")
    return fig
