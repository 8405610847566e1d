"""Section 9 of agarwal2025 measured by autograd in double precision: which mechanisms route, and which conjectured gradients are exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from ....models.lstm import lstm_scan
from ....models.selective_ssm import selective_scan
from ..theory import routing as theory

Values = dict[str, bool | float | list[float]]
#: Random networks that every statement is tried on.
DRAWS = 200
MECHANISMS = ("softmax", "ssm", "normalised")


@dataclass(frozen=True)
class Draw:
    """A random input sequence ``x (D, T)`` and random parameters of every mechanism, in double precision.

    Attributes:
        x: inputs.
        values: ``W_V (V, D)``.
        theta: routing parameters by mechanism; ``ssm`` and ``normalised`` share theirs.
        read: ``W_O (C, V)``.
        labels: ``(T,)`` classes.
    """

    x: Tensor
    values: Tensor
    theta: dict[str, dict[str, Tensor]]
    read: Tensor
    labels: Tensor


@lru_cache(maxsize=2 * DRAWS)
def draw(seed: int, n_states: int | None = None) -> Draw:
    """A draw of random sizes (4 to 7 tokens); ``n_states`` fixes the SSM's states."""
    g = torch.Generator().manual_seed(seed)

    def size(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=g))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64) / math.sqrt(shape[-1])

    d, v, k, c, t = size(4, 5), size(2, 4), size(2, 3), size(2, 4), size(4, 7)
    n = size(2, 3) if n_states is None else n_states
    theta = {
        "softmax": {"query": normal(k, d), "key": normal(k, d)},
        "ssm": {
            "step": normal(v, d),
            "rate": torch.rand(v, n, generator=g, dtype=torch.float64),
            "to_b": normal(n, d),
            "to_c": normal(n, d),
        },
        "lstm": {"drive": normal(4 * v, d), "recurrent": normal(4 * v, v)},
    }
    theta["normalised"] = theta["ssm"]
    x = torch.randn(d, t, generator=g, dtype=torch.float64)
    labels = torch.randint(0, c, (t,), generator=g)
    return Draw(x, normal(v, d), theta, normal(c, v), labels)


# -- the mechanisms: outputs by their own recurrence, weights by the closed form ---------------------------------------


def ssm_parts(p: dict[str, Tensor], x: Tensor, positive: bool = False) -> tuple[Tensor, ...]:
    """``(Delta, A, B, C)`` of equation 48 for inputs ``x (D, T)``; ``positive`` B and C for the normalised variant."""
    b, c = p["to_b"] @ x, p["to_c"] @ x
    if positive:
        b, c = softplus(b), softplus(c)
    return softplus(p["step"] @ x), -torch.exp(p["rate"]), b, c


def weights(mechanism: str, p: dict[str, Tensor], x: Tensor) -> Tensor:
    """Routing weights ``(T, T)`` or ``(V, T, T)`` from the closed forms."""
    if mechanism == "softmax":
        return torch.softmax(scores(p, x), -1)
    if mechanism == "lstm":
        gates = lstm_scan(p["drive"] @ x, p["recurrent"])
        return theory.lstm_weights(gates["i"], gates["f"])
    w = theory.ssm_weights(*ssm_parts(p, x, mechanism == "normalised"))
    return theory.normalised(w) if mechanism == "normalised" else w


def scores(p: dict[str, Tensor], x: Tensor) -> Tensor:
    """Causal scores ``(T, T)`` (equation 4)."""
    s = (p["query"] @ x).T @ (p["key"] @ x) / math.sqrt(p["query"].shape[0])
    return s.masked_fill(theory.causal(x.shape[1], x) == 0, -torch.inf)


def output(mechanism: str, p: dict[str, Tensor], x: Tensor, v: Tensor) -> Tensor:
    """Outputs ``(V, T)`` for values ``v (V, T)``: the softmax average, or the recurrence itself, never the weights of the closed form."""
    if mechanism == "softmax":
        return v @ torch.softmax(scores(p, x), -1).T
    delta, a, b, c = ssm_parts(p, x, mechanism == "normalised")
    out = selective_scan(v, delta, a, b, c)
    return out / selective_scan(torch.ones_like(v), delta, a, b, c) if mechanism == "normalised" else out


def loss_of(d: Draw, out: Tensor) -> Tensor:
    """Cross-entropy summed over positions (equation 9)."""
    return torch.nn.functional.cross_entropy((d.read @ out).T, d.labels, reduction="sum")


def _flat(p: dict[str, Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in p.values()])


def _unflat(p: dict[str, Tensor], flat: Tensor) -> dict[str, Tensor]:
    parts = flat.split([part.numel() for part in p.values()])
    return {name: part.reshape(p[name].shape) for name, part in zip(p, parts, strict=True)}


def _finite(s: Tensor) -> Tensor:
    """Scores with 0 where masked, for derivatives."""
    return s.masked_fill(torch.isinf(s), 0.0)


# -- conjectures 9.2 and 9.3 ------------------------------------------------------------------------------------------


@lru_cache(maxsize=3 * DRAWS)
def drawn_gradients(seed: int, mechanism: str) -> dict[str, Tensor]:
    """:func:`gradients_of_routing` of a draw, computed once for the figure and for the records."""
    return gradients_of_routing(draw(seed), mechanism)


def derivative(make: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, theory.Jacobian]:
    """What ``make`` makes of a tensor, and its derivative there as a function that contracts it with numbers of what was made."""
    leaf = at.detach().clone().requires_grad_()
    made = make(leaf)
    return made.detach(), lambda numbers: torch.autograd.grad(made, leaf, numbers, retain_graph=True)[0]


def loss_gradients(d: Draw, make: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, Tensor]:
    """The loss's gradients by ``at``, flat, and by the outputs ``(V, T)`` that ``make`` makes of it."""
    leaf = at.detach().clone().requires_grad_()
    out = make(leaf)
    by_leaf, by_out = torch.autograd.grad(loss_of(d, out), (leaf, out))
    return by_leaf.flatten(), by_out


def gradients_of_routing(d: Draw, mechanism: str) -> dict[str, Tensor]:
    """``exact``: autograd through the mechanism itself; the candidate forms of Conjecture 9.2, each ``(P,)``."""
    p, v = d.theta[mechanism], d.values @ d.x
    flat = _flat(p)
    exact, u = loss_gradients(d, lambda t: output(mechanism, _unflat(p, t), d.x, v), flat)
    w, dw = derivative(lambda t: weights(mechanism, _unflat(p, t), d.x), flat)
    b = u.T @ v if w.dim() == 2 else u[:, :, None] * v[:, None, :]  # dL/dw_ij
    found = {
        "exact": exact,
        "printed": theory.conjecture_9_2(w, b, dw),
        "advantage": theory.advantage_form(w, b, dw),
        "chain": theory.chain(b, dw),
        "baseline": theory.baseline_cost(w, b, dw),
    }
    if mechanism == "softmax":
        _, ds = derivative(lambda t: _finite(scores(_unflat(p, t), d.x)), flat)
        found["scores"] = theory.score_form(w, b, ds)
    return found


def gradients_of_values(d: Draw, mechanism: str, shared: bool = False) -> dict[str, Tensor]:
    """``exact``: autograd; ``printed``: Conjecture 9.3, for ``W_V``. ``shared``: the SSM's Delta, B and C are made from ``W_V x`` too."""
    p, v = d.theta[mechanism], d.values @ d.x
    if shared:  # routing parameters that read the V values instead of the D inputs
        p = {k: m if k == "rate" else m[:, : v.shape[0]] for k, m in p.items()}

    def run(w_v: Tensor) -> Tensor:
        values = w_v @ d.x
        return output(mechanism, p, values if shared else d.x, values)

    exact, u = loss_gradients(d, run, d.values)
    w = weights(mechanism, p, v if shared else d.x)
    return {"exact": exact, "printed": theory.conjecture_9_3(w, u, d.x).flatten()}


def relative(a: Tensor, b: Tensor) -> float:
    """``|a - b| / |b|``."""
    return float((a - b).norm() / b.norm())


def off_multiple(form: Tensor, exact: Tensor) -> float:
    """Distance of ``exact`` from the nearest multiple of ``form``, relative: 0 if they are proportional, 1 if orthogonal."""
    return float((exact - (form @ exact) / (form @ form) * form).norm() / exact.norm())


def cosine(a: Tensor, b: Tensor) -> float:
    """Cosine of two vectors."""
    return float(a @ b / (a.norm() * b.norm()))


def cosines(draws: int = DRAWS) -> dict[str, dict[str, np.ndarray]]:
    """Cosine of each candidate form with the exact gradient, ``mechanism -> form -> (draws,)``."""
    found = {m: {form: np.zeros(draws) for form in ("printed", "advantage", "chain")} for m in MECHANISMS}
    for seed in range(draws):
        for m in MECHANISMS:
            forms = drawn_gradients(seed, m)
            for form in found[m]:
                found[m][form][seed] = cosine(forms[form], forms["exact"])
    return found


def conjecture_9_2_records(draws: int = DRAWS) -> Values:
    """Distance of the printed form from the gradient, largest over the draws, and median cosines of it and of the form without ``w_ij``."""
    softmax, ssm = ([drawn_gradients(seed, m) for seed in range(draws)] for m in ("softmax", "ssm"))

    def middle(forms: list[dict[str, Tensor]], name: str) -> float:
        return float(np.median([cosine(g[name], g["exact"]) for g in forms]))

    return {
        "conj92/softmax/printed": max(off_multiple(g["printed"], g["exact"]) for g in softmax),
        "conj92/ssm/printed": max(off_multiple(g["printed"], g["exact"]) for g in ssm),
        "q92/printed_cosine": [middle(softmax, "printed"), middle(ssm, "printed")],
        "q92/advantage_cosine": middle(ssm, "advantage"),
        "routing/draws": draws,
    }


def conjecture_9_3_records(draws: int = DRAWS) -> Values:
    """Distances of the printed form from the gradient of the value projection, largest over the draws."""
    seeds = range(draws)
    softmax, own, shared = (
        [gradients_of_values(draw(seed), mechanism, of_values) for seed in seeds]
        for mechanism, of_values in (("softmax", False), ("ssm", False), ("ssm", True))
    )
    return {
        "conj93/softmax/own": max(off_multiple(g["printed"], g["exact"]) for g in softmax),
        "conj93/ssm/own": max(off_multiple(g["printed"], g["exact"]) for g in own),
        "conj93/ssm/shared": max(off_multiple(g["printed"], g["exact"]) for g in shared),
        "conj93/ssm/shared_cosine": float(np.median([cosine(g["printed"], g["exact"]) for g in shared])),
    }


# -- definition 9.1 ---------------------------------------------------------------------------------------------------


def identity_records(draws: int = DRAWS) -> Values:
    """``o_i = sum_j w_ij x_j`` for the SSM and ``c_i = sum_j w_ij g_j`` for the LSTM: largest relative errors."""
    ssm, lstm = [], []
    for seed in range(draws):
        d = draw(seed)
        v = d.values @ d.x
        out = output("ssm", d.theta["ssm"], d.x, v)
        ssm.append(relative(torch.einsum("wij,wj->wi", weights("ssm", d.theta["ssm"], d.x), v), out))
        gates = lstm_scan(d.theta["lstm"]["drive"] @ d.x, d.theta["lstm"]["recurrent"])
        w = theory.lstm_weights(gates["i"], gates["f"])
        lstm.append(relative(torch.einsum("wij,wj->wi", w, gates["g"]), gates["c"]))
    return {"routing/ssm_identity": max(ssm), "routing/lstm_identity": max(lstm)}


def _last_pair(mechanism: str, d: Draw) -> tuple[Callable[[Tensor], Tensor], int]:
    """``x -> w_ij`` of the last reader and the position two before it, one number for each channel; and j."""
    j = d.x.shape[1] - 3

    def weight(x: Tensor) -> Tensor:
        w = weights(mechanism, d.theta[mechanism], x)
        return w[..., -1, j].reshape(-1)

    return weight, j


def definition_records(draws: int = 60) -> Values:
    """Ranges, row sums and dependence on content of the weights of attention, SSM (also with one state) and LSTM, see :func:`over_draws`."""
    return {
        "routing/attention/outside": over_draws("softmax", "outside", draws).mean().item(),
        "routing/attention/row_error": over_draws("softmax", "row_error", draws).max().item(),
        "routing/attention/content": over_draws("softmax", "content", draws).min().item(),
        "routing/ssm/outside": over_draws("ssm", "outside", draws).mean().item(),
        "routing/ssm/row_error": over_draws("ssm", "row_error", draws).median().item(),
        "routing/ssm/content": over_draws("ssm", "content", draws).min().item(),
        "routing/ssm/others": over_draws("ssm", "others", draws).max().item(),
        "routing/ssm_one/interaction": over_draws("ssm", "interaction", draws, n_states=1).max().item(),
        "routing/lstm/others": over_draws("lstm", "others", draws).max().item(),
    }


def over_draws(mechanism: str, kind: str, draws: int, n_states: int | None = None) -> Tensor:
    """One measure of a mechanism's weights on each draw, ``(draws,)``, or of every row, ``(rows,)``.

    Args:
        kind: ``outside``, share of weights outside [0, 1]; ``row_error``, distance of each row's sum from 1; ``content``, how w_ij moves with x_i and x_j (the
            smaller of the two); ``others``, with what stands before j; ``interaction``, mixed second derivative of log w_ij by x_i and x_j.
        n_states: of the SSM; drawn if not given.
    """
    return torch.cat([_kinds(mechanism, draw(seed, n_states), kind).reshape(-1) for seed in range(draws)])


def _kinds(mechanism: str, d: Draw, kind: str) -> Tensor:
    """One of the measures of :func:`over_draws` on one draw."""
    weight, j = _last_pair(mechanism, d)
    if kind in ("outside", "row_error"):
        w = weights(mechanism, d.theta[mechanism], d.x)
        if kind == "row_error":
            return (w.sum(-1) - 1).abs().flatten()
        kept = w[..., theory.causal(d.x.shape[1], d.x) > 0]  # only positions that are read
        return ((kept < 0) | (kept > 1)).double().mean()
    x = d.x.clone().requires_grad_()
    if kind == "interaction":
        w = weight(x)
        logs = (w * w.detach().sign()).log()  # (V,), of |w|: abs would have second derivatives of its own
        firsts = [
            torch.autograd.grad(one, x, create_graph=True)[0][:, -1] for one in logs
        ]  # by x_i, (D,) each
        mixed = [torch.autograd.grad(one, x, retain_graph=True)[0][:, j] for first in firsts for one in first]
        return torch.stack(mixed).abs().max()
    slopes = [
        torch.autograd.grad(one, x, retain_graph=True)[0] for one in weight(x)
    ]  # (D, T) of each channel
    slope = torch.stack(slopes).abs().amax((0, 1))  # (T,) largest over channels and entries of x_m
    return torch.minimum(slope[-1], slope[j]) if kind == "content" else slope[:j].max()


# -- numbers quoted from Paper I ----------------------------------------------------------------------------------------


def random_cosine(dimension: float) -> float:
    """Mean absolute cosine of two random directions, ``Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))``."""
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)


def key_cosine_records() -> Values:
    """What random vectors have at the widths of the published code, and the dimension at which they have the printed 0.08."""
    low, high = 2.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if random_cosine(middle) > 0.08 else (low, middle)
    return {"key_cosine/widths": [random_cosine(192), random_cosine(256)], "key_cosine/dimension": low}
