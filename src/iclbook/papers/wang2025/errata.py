"""Equations of the paper that do not say what they are used for, each as printed and as meant, on random numbers in float64; what the authors' published code
does beyond the text (https://github.com/aarontwang/icl_attention_categorical, ``data.py`` and ``transformer.py`` of ``experiments_jax``)."""

from typing import Any

import torch
from torch import Tensor

from ...draw import torch_rng
from ...models.kernels import KERNELS, kernel_values, relate
from ...models.literal_blocks import LiteralBlocks
from . import descent, population
from .construction import CLASSES, WIDTH, D, N, eight_contexts, fast_model, normal, off, paired, problem

RATES = (2.0, 1.5, 1.0)


def categories_from_zero() -> dict[str, Any]:
    """Equations 11, 13, 18 and 40 let categories run from 0 to C beside sums from 1 to C: one vector more below the fraction than above. The gradient in b
    against autograd, with the printed denominator (the vector more is as random as the others) and with the C categories."""
    source = torch_rng(0)
    _, y, w = problem(source, 20)
    more = torch.cat([normal(source, WIDTH, 1), w], dim=1)
    f = normal(source, N, WIDTH)
    truth = torch.func.grad(lambda b: descent.cross_entropy(w, f + b, y))(torch.zeros_like(f[0]))
    above = torch.exp(f @ w) @ w.T
    meant, printed = (
        off((above / torch.exp(f @ below).sum(-1, keepdim=True) - w[:, y].T).mean(0), truth) for below in (w, more)
    )
    return {"eq11/from_one": meant, "eq11/printed": printed}


def indices_of_the_update() -> dict[str, Any]:
    """Equation 26 has the summed index i on its left, section 3.2.1's head the expectation of the position that asks: each against autograd on A, and j. As
    printed, the right side of equation 26 is one number for all i: that of the j it leaves free, here the query."""
    psi, y, w = problem(torch_rng(0), 20)
    kappa, truth = psi[:N] @ psi.T, descent.parameter_descent([psi], y, w, RATES)[-1]
    meant, values = descent.functional_descent([kappa], y, w, RATES)[-1], w[:, y].T
    equation, head = torch.zeros(2, N + 1, WIDTH, dtype=torch.float64)
    for rate in RATES:
        alike = rate / N * kappa[:, -1] @ (values - descent.expectation(w, equation[:N]))
        equation = equation + alike
        own = values[None] - descent.expectation(w, head)[:, None]  # (N + 1, N, d')
        head = head + rate / N * torch.einsum("ij,jid->jd", kappa, own)
    return {"eq26/mended": off(meant, truth), "eq26/printed": off(equation, truth), "eq26/head": off(head, truth)}


def equation_39(points: int = 50) -> dict[str, Any]:
    """Equation 39 as meant (softmax) against the mean of embeddings under equation 1; as printed, ``sum_c w_c exp[w_c^T f / sum_c' w_c'^T f]``: weights that do
    not sum to one, 0/0 at f = 0."""
    source = torch_rng(1)
    w, f = normal(source, WIDTH, CLASSES), normal(source, points, WIDTH)
    p = torch.stack([torch.exp(w.T @ x) / torch.exp(w.T @ x).sum() for x in f])
    printed, at_start = (torch.exp(at @ w / (at @ w).sum(-1, keepdim=True)) for at in (f, torch.zeros_like(f)))
    masses = printed.sum(-1)
    return {
        "eq39/meant": float((descent.expectation(w, f) - p @ w.T).abs().max()),
        "eq39/mass": float(((masses - 1).abs() / masses).min()),
        "eq39/start": bool(torch.isfinite(at_start).all()),
    }


def increments() -> dict[str, Any]:
    """Equation 49 sums ``Delta f_{i,k'}`` up to k where section 3.1 ends at k - 1: three steps of it against autograd on A. With equation 3's increments the
    step is implicit, for the last one is its own. ``own``: with appendix G's ``Delta f_{i,0} = 0``, which numbers an increment by the step that it leads to."""
    source = torch_rng(0)
    psi, _, w = problem(source, 20)
    y = normal(source, N, WIDTH)
    kappa, eye = psi[:N] @ psi.T, torch.eye(N, dtype=torch.float64)
    truth = descent.parameter_descent([psi], y, w, RATES, loss=descent.squared_loss)[-1]
    own, increment = torch.zeros_like(truth), [torch.zeros_like(truth)]
    implicit = torch.zeros_like(truth)
    for rate in RATES:
        increment.append(rate / N * kappa.T @ (y - sum(increment)[:N]))
        own = own + increment[-1]
        pull = rate / N * kappa[:, :N]
        after = torch.linalg.solve(eye + pull, implicit[:N] + pull @ y)  # f at the keys after the step
        implicit = implicit + rate / N * kappa.T @ (y - after)
    return {"eq49/own": off(own, truth), "eq49/printed": off(implicit, truth)}


def equations_54_to_56(t: float = 1.5) -> dict[str, Any]:
    """Equation 54 without F_l and with I + T_l, against (52): how far the printed form and the right one are from two GD steps (softmax activation)."""
    source = torch_rng(0)
    x, w = normal(source, N + 1, 4), normal(source, WIDTH, CLASSES)
    y = torch.randint(0, CLASSES, (N,), generator=source)
    kappa = torch.softmax(x @ x[:N].T, dim=-1)  # (N + 1, N)
    truth = descent.functional_descent([kappa.T], y, w, (t, t), mean=False)[-1]
    b, step = (torch.eye(n, dtype=w.dtype).repeat(2, 1, 1) for n in (4, WIDTH))
    printed = torch.zeros(N + 1, WIDTH, dtype=w.dtype)
    for _ in range(2):
        printed = (1 + t) * kappa @ (w[:, y].T - descent.expectation(w, printed[:N]))
    return {
        "eq54/corrected": off(population.functions(b, t * step, x, y, w), truth),
        "eq54/printed": off(printed, truth),
    }


def scalar_flow(d: int = 4) -> dict[str, Any]:
    """Equation 57 sets the change of a matrix to a number: what of one step from ``s I`` is no multiple of I, as printed (the number is added to every
    entry) and times I."""
    eye, change = torch.eye(d, dtype=torch.float64), -normal(torch_rng(0), d, d).trace() / d
    steps = {"printed": 0.5 * eye + 0.1 * change, "mended": 0.5 * eye + 0.1 * change * eye}
    return {f"eq57/{name}": float((s - s.trace() / d * eye).norm() / s.norm()) for name, s in steps.items()}


def expectation_of_appendix_i(points: int = 20) -> dict[str, Any]:
    """The function xi(f) of appendix I lacks the embedding in its sum: as printed it is a number, the same for every f; with it, it is equation 7."""
    source = torch_rng(0)
    w, f = normal(source, WIDTH, CLASSES), normal(source, points, WIDTH)
    share = torch.exp(f @ w) / torch.exp(f @ w).mean(-1, keepdim=True)  # exp over 1/C sum exp
    truth = descent.expectation(w, f)
    return {
        "xi/mended": off((share[:, None] * w).mean(-1), truth),
        "xi/printed": off(share.mean(-1, keepdim=True).expand_as(truth), truth),
    }


def sign_of_the_loss() -> dict[str, Any]:
    """Section 5's population loss has no minus: what a gradient step on it, and on appendix I's, gains in likelihood (nats)."""
    source = torch_rng(0)
    _, y, w = problem(source, 20)
    f = normal(source, N, WIDTH)
    slope = torch.func.grad(descent.cross_entropy, argnums=1)(w, f, y)
    after = {"appendix": f - 1e-3 * slope, "section": f + 1e-3 * slope}
    start = descent.cross_entropy(w, f, y)
    return {f"loss-sign/{name}_gain": float(start - descent.cross_entropy(w, at, y)) for name, at in after.items()}


@torch.no_grad()
def signs() -> dict[str, Any]:
    """Section 3.2.2 puts the minus into W_V, equations 35 to 37 into P of the second head: what each leaves of the expectation, relative."""
    context, query = eight_contexts()
    literal = paired(fast_model("rbf", 3, 9), LiteralBlocks, erasure="exact", erase_query=True)
    e, m = literal.encode(context, query), literal.matrices(D, N, 0)
    head = literal.erased(e, m)  # equation 36: + E
    # W_V = +E with P = -I, and W_V = -E with P = I
    pair, section, before = (
        float(each[:, D + WIDTH : D + 2 * WIDTH].abs().max()) for each in (e + m["P2"] @ head, e - head, e)
    )
    return {"signs/printed_pair": pair / before, "signs/section322": section / before}


@torch.no_grad()
def held_embedding(contexts: int = 32, blocks: int = 4) -> dict[str, Any]:
    """The published code holds the last embedding at zero. Log-probabilities of GD with ``W_e`` and with ``W_e - w_C``: largest difference, five kernels."""
    context, query = eight_contexts(contexts)
    found = []
    for model in (fast_model(kernel, blocks, 5) for kernel in KERNELS):
        before = torch.log_softmax(model(context, query), 0)
        model.embed.sub_(model.embed[:, -1:].clone())
        found.append(float((torch.log_softmax(model(context, query), 0) - before).abs().max()))
    return {"q-code/held": max(found)}


def kernel_expectation(blocks: int = 3) -> dict[str, Any]:
    """The JAX version takes the expectation by the kernel of the block, ``sum_c w_c kappa(f, w_c)``. Three blocks against autograd on A with kernels of
    precision 1 (the code's ``sigma``): softmax, which is equation 6, and linear, RBF, Laplacian, exponential."""
    psi, y, w = problem(torch_rng(0), 20)
    rates, kappa = (1.5,) * blocks, [psi[:N] @ psi.T]
    truth = descent.parameter_descent([psi], y, w, rates)[-1]

    def apart(kernel: str) -> float:
        def expect(w: Tensor, f: Tensor) -> Tensor:
            return kernel_values(kernel, relate(KERNELS[kernel], f, w.T), 1.0) @ w.T

        return off(descent.functional_descent(kappa, y, w, rates, expect=expect)[-1], truth)

    return {
        "q-code/softmax_expectation": apart("softmax"),
        "q-code/kernel_expectation": [apart(kernel) for kernel in KERNELS if kernel != "softmax"],
    }


def records() -> dict[str, Any]:
    """Records of every slip, and of what the published code does beyond the text."""
    return (
        categories_from_zero()
        | indices_of_the_update()
        | equation_39()
        | increments()
        | equations_54_to_56()
        | scalar_flow()
        | expectation_of_appendix_i()
        | sign_of_the_loss()
        | signs()
        | held_embedding()
        | kernel_expectation()
    )
