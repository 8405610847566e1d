"""What can be settled exactly: equations 2, 3, the construction, the typos, the special cases (all float64)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....models.functional_gd import FunctionalGD
from ....models.kernels import KERNELS, kernel_values, relate
from ....models.literal_blocks import LiteralBlocks, LiteralStep
from ....models.multi_kernel import MultiKernelGD
from ....tasks.categorical import Anchors, Categorical
from ..runs.contexts import draw
from ..theory import descent, population

#: Sizes of the exact checks.
N, D, WIDTH, CLASSES, STEPS = 10, 10, 5, 25, 4
RATES = (2.0, 1.5, 1.0, 0.5)


def _source(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _normal(source: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=source, dtype=torch.float64)


def _problem(seed: int, m: int = 30) -> tuple[Tensor, Tensor, Tensor]:
    """Random features ``(N + 1, m)``, labels, embeddings."""
    source = _source(seed)
    psi, w = _normal(source, N + 1, m) / m**0.5, _normal(source, WIDTH, CLASSES)
    return psi, torch.randint(0, CLASSES, (N,), generator=source), w


def _gap(a: list[Tensor], b: list[Tensor]) -> float:
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))


def functional_form(problems: int = 20) -> dict[str, Any]:
    """Equations 2, 3 and 14 against autograd on (A, b), over random features, labels and embeddings."""
    gaps: dict[str, list[float]] = {name: [] for name in ("plain", "bias", "printed")}
    for seed in range(problems):
        psi, y, w = _problem(seed)
        kappa = [psi[:N] @ psi.T]
        plain = descent.parameter_descent([psi], y, w, RATES)
        biased = descent.parameter_descent([psi], y, w, RATES, bias=True)
        gaps["plain"].append(_gap(descent.functional_descent(kappa, y, w, RATES), plain))
        gaps["bias"].append(_gap(descent.functional_descent(kappa, y, w, RATES, bias="mean"), biased))
        gaps["printed"].append(_gap(descent.functional_descent(kappa, y, w, RATES, bias="printed"), biased))
    return {
        "eq2-3/difference": max(gaps["plain"]),
        "eq14/with_mean": max(gaps["bias"]),
        "eq14/printed": min(gaps["printed"]),
    }


def equation_39(points: int = 50) -> dict[str, Any]:
    """Equation 39 as meant (softmax) against the mean of embeddings under equation 1; its printed form: weights that do not sum to one, 0/0 at f = 0."""
    source = _source(1)
    w, f = _normal(source, WIDTH, CLASSES), _normal(source, points, WIDTH)
    p = torch.stack([torch.exp(w.T @ x) / torch.exp(w.T @ x).sum() for x in f])
    scores = f @ w
    masses = torch.exp(scores / scores.sum(-1, keepdim=True)).sum(-1)
    return {
        "eq39/meant": float((descent.expectation(w, f) - p @ w.T).abs().max()),
        "eq39/mass": float(((masses - 1).abs() / masses).min()),
        "eq39/start": bool(torch.isfinite(descent.expectation_printed(w, torch.zeros_like(f[:1]))).all()),
    }


def _paired(model: FunctionalGD, kind: type[FunctionalGD], **options: Any) -> FunctionalGD:
    """A literal model with the parameters of a fast one."""
    vector = model.rate.shape[1] > 1
    literal = kind(model.n_classes, model.width, model.n_blocks, model.kernel, vector, **options).double()
    literal.load_state_dict(model.state_dict())
    return literal


def fast_model(
    kernel: str, n_blocks: int, seed: int, task: Categorical, vector: bool = False
) -> FunctionalGD:
    """A GD model at random parameters, float64."""
    model = FunctionalGD(task.n_classes, task.width, n_blocks, kernel, vector).double()
    model.initialise(_source(seed))
    with torch.no_grad():
        model.rate.uniform_(0.5, 2.0, generator=_source(seed + 1))
        model.log_gamma.uniform_(-1.0, 0.5, generator=_source(seed + 2))
    return model


@torch.no_grad()
def construction(contexts: int = 8, blocks: int = STEPS) -> dict[str, Any]:
    """Blocks of appendix D and the step of appendix C against functional GD, block by block; what each missing piece costs."""
    task = Anchors(N, D)
    batch = draw(task, contexts, 3)
    context, query = batch.context.double(), batch.query.double()
    gaps: dict[str, list[float]] = {name: [] for name in ("rbf", "none", "query", "step", "fast")}
    for kernel in KERNELS:
        fast, step = (fast_model(kernel, n, 5, task) for n in (blocks, 1))
        reference = _reference(fast, context, query)

        def literal(fast: FunctionalGD = fast, reference: list[Tensor] = reference, **options: Any) -> float:
            stream = _paired(fast, LiteralBlocks, **options).run(context, query)[1:]
            pairs = zip(stream, reference, strict=True)
            return max(float((e[:, -WIDTH:, -1] - f).abs().max() / f.abs().max()) for e, f in pairs)

        gaps["rbf"].append(literal(erasure="rbf"))
        gaps["none"].append(literal(erasure="none"))
        gaps["query"].append(literal(erasure="rbf", query_among_keys=True))
        gaps["step"].append(_gap([_paired(step, LiteralStep)(context, query)], [step(context, query)]))
        descended = fast.descend(*_relations(fast, context, query)).movedim(1, 0)
        gaps["fast"].append(_gap(list(descended), reference))
    return {
        "construction/rbf": max(gaps["rbf"]),
        "construction/none": min(gaps["none"]),
        "construction/query": min(gaps["query"]),
        "construction/step": max(gaps["step"]),
        "construction/fast": max(gaps["fast"]),
        **_query_slot(task, context, query, blocks),
    }


def _relations(model: FunctionalGD, context: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    parts = model.cache(context, query).movedim(-1, 0)
    return parts[..., 0], parts[..., 1].long(), parts[..., 2:]


def _reference(model: FunctionalGD, context: Tensor, query: Tensor) -> list[Tensor]:
    """The query's function after each step by :func:`descent.functional_descent`, context by context: ``K`` times ``(B, d')``."""
    steps = []
    for b in range(query.shape[1]):
        x = torch.cat([context[:, :-1, b], query[:, b][None]])
        relation = relate(KERNELS[model.kernel], x, x[:N])  # (N + 1, N)
        kappa = kernel_values(model.kernel, relation, model.log_gamma.exp()).T
        mean = model.kernel != "softmax"
        rates = [float(r) for r in model.rate[:, 0]]
        labels = context[:, -1, b].long()
        steps.append(descent.functional_descent([kappa], labels, model.embed, rates, mean=mean))
    return [torch.stack([one[k][-1] for one in steps]) for k in range(model.n_blocks)]


def _query_slot(task: Categorical, context: Tensor, query: Tensor, blocks: int) -> dict[str, Any]:
    """The query's expectation slot with its keys 1..N only: is it erased, and does f notice?"""
    fast = fast_model("rbf", blocks, 7, task)
    plain = _paired(fast, LiteralBlocks, erasure="rbf").run(context, query)
    among = _paired(fast, LiteralBlocks, erasure="rbf", erase_query=True).run(context, query)
    slot = slice(-2 * WIDTH, -WIDTH)
    error, right = [], []
    for e, g in zip(plain[1:], among[1:], strict=True):
        meant = descent.expectation(fast.embed, e[:, -WIDTH:, -1])
        error.append(float((e[:, slot, -1] - meant).abs().max()))
        right.append(float((g[:, slot, -1] - meant).abs().max()))
    difference = max(
        float((e[:, -WIDTH:] - g[:, -WIDTH:]).abs().max()) for e, g in zip(plain, among, strict=True)
    )
    return {
        "query-slot/error": min(error),
        "query-slot/error_among": max(right),
        "query-slot/f_difference": difference,
    }


@torch.no_grad()
def signs(contexts: int = 8) -> dict[str, Any]:
    """Section 3.2.2 puts the minus into W_V, equations 35 to 37 into P of the second head: what each leaves of the expectation, relative."""
    task = Anchors(N, D)
    batch = draw(task, contexts, 3)
    context, query = batch.context.double(), batch.query.double()
    fast = fast_model("rbf", 3, 9, task)
    literal = _paired(fast, LiteralBlocks, erasure="exact", erase_query=True)
    e = literal.encode(context, query)
    m = literal.matrices(D, N, 0)
    slot = slice(D + WIDTH, D + 2 * WIDTH)
    head = literal.erased(e, m)  # equation 36: + E

    def left(after: Tensor) -> float:
        return float(after[:, slot].abs().max()) / float(e[:, slot].abs().max())

    return {
        "signs/printed_pair": left(e + m["P2"] @ head),  # W_V = +E, P = -I
        "signs/section322": left(e - head),  # W_V = -E, P = I
    }


def equations_54_to_56(seed: int = 0) -> dict[str, Any]:
    """Equation 54 without F_l and with I + T_l, against (52): how far the printed form and the right one are from two GD steps (softmax activation)."""
    source = _source(seed)
    x = _normal(source, N + 1, 4)
    w = _normal(source, WIDTH, CLASSES)
    y = torch.randint(0, CLASSES, (N,), generator=source)
    t = 1.5
    kappa = torch.softmax(x @ x[:N].T, dim=-1)  # (N + 1, N)
    truth = descent.functional_descent([kappa.T], y, w, (t, t), mean=False)[-1]
    b = torch.eye(4, dtype=w.dtype).repeat(2, 1, 1)
    right = population.functions(b, t * torch.eye(WIDTH, dtype=w.dtype).repeat(2, 1, 1), x, y, w)
    values = w[:, y].T
    printed = torch.zeros(N + 1, WIDTH, dtype=w.dtype)
    for _ in range(2):
        printed = (1 + t) * kappa @ (values - descent.expectation(w, printed[:N]))
    scale = float(truth.abs().max())
    return {
        "eq54/corrected": float((right - truth).abs().max()) / scale,
        "eq54/printed": float((printed - truth).abs().max()) / scale,
    }


def one_gradient_step(eta: float, x: Tensor, y: Tensor, x_q: Tensor) -> Tensor:
    """``(eta/L) sum_l y_l x_l^T x_q`` of x (L, d), y (L,), x_q (d,): He et al. (2025)'s predictor of linear regression, one step from zero."""
    return eta * (y * (x @ x_q)).mean()


def gaussian(prompts: int = 20) -> dict[str, Any]:
    """Appendix G: squared loss, several steps; with the linear kernel one step is He et al.'s gradient-descent predictor."""
    gaps = []
    for seed in range(prompts):
        source = _source(100 + seed)
        psi, y = _normal(source, N + 1, 20) / 20**0.5, _normal(source, N, WIDTH)
        w = torch.zeros(WIDTH, 2, dtype=torch.float64)
        a = descent.parameter_descent([psi], y, w, RATES, loss=descent.squared_loss)
        b = descent.functional_descent([psi[:N] @ psi.T], y, w, RATES, expect=lambda _, f: f)
        gaps.append(_gap(a, b))
    eta, ours, theirs = 0.7, [], []
    for seed in range(prompts):
        source = _source(200 + seed)
        points, y = _normal(source, 41, 5), _normal(source, 40, 1)
        kappa = points[:-1] @ points.T
        w = torch.zeros(1, 2, dtype=torch.float64)
        f = descent.functional_descent([kappa], y, w, (eta,), expect=lambda _, f: f)
        ours.append(float(f[-1][-1, 0]))
        theirs.append(float(one_gradient_step(eta, points[:-1], y[:, 0], points[-1])))
    return {
        "gaussian/steps": max(gaps),
        "gaussian/he2025": float(np.abs(np.subtract(ours, theirs)).max()),
    }


@torch.no_grad()
def _multi_fast(psi_scales: Tensor, x: Tensor, y: Tensor, w: Tensor, mixes: Tensor | None) -> Tensor:
    model = MultiKernelGD(
        D, CLASSES, WIDTH, len(psi_scales), len(RATES), "linear", mixes is not None
    ).double()
    model.embed.copy_(w)
    model.scales.copy_(psi_scales)
    model.rate.copy_(torch.tensor(RATES, dtype=torch.float64)[:, None].expand(-1, len(psi_scales)))
    if mixes is not None:
        model.mix.copy_(mixes)
    context = torch.cat([x[:N], y[:, None].double()], dim=1)[..., None]
    return model.descend(context, x[N][:, None])[0]


def multi_kernel(problems: int = 10, heads: int = 3) -> dict[str, Any]:
    """Appendix H against autograd on A_m: heads with diagonal Lambda_m; with P_m the identity, and with free P_m as printed."""
    gaps: dict[str, list[float]] = {"model": [], "mixed": [], "mixed_corrected": []}
    for seed in range(problems):
        source = _source(200 + seed)
        x, w = _normal(source, N + 1, D) / D**0.5, _normal(source, WIDTH, CLASSES)
        y = torch.randint(0, CLASSES, (N,), generator=source)
        scales = 0.5 + torch.rand(heads, D, generator=source, dtype=torch.float64)
        mixes = _normal(source, heads, WIDTH, WIDTH) / WIDTH**0.5
        psis = [x * s for s in scales]  # linear kernels: features are Lambda_m x
        kappas = [psi[:N] @ psi.T for psi in psis]
        plain = torch.stack([f[-1] for f in descent.parameter_descent(psis, y, w, RATES)])
        gaps["model"].append(float((_multi_fast(scales, x, y, w, None) - plain).abs().max()))
        truth = descent.parameter_descent(psis, y, w, RATES, mixes=list(mixes))
        last = torch.stack([f[-1] for f in truth])
        gaps["mixed"].append(float((_multi_fast(scales, x, y, w, mixes) - last).abs().max()))
        squares = [p @ p.T for p in mixes]
        gaps["mixed_corrected"].append(_gap(descent.functional_descent(kappas, y, w, RATES, squares), truth))
    return {
        "multi-kernel/difference": max(gaps["model"]),
        "multi-kernel/mixed": min(gaps["mixed"]),
        "multi-kernel/mixed_corrected": max(gaps["mixed_corrected"]),
    }
