"""Section 9 of agarwal2025: effective weights of attention, selective SSM and LSTM, which of them route, and the conjectured gradients beside the exact ones.

Weights ``w (..., T, T)`` run over the reader i (second axis from the end) and the position read j (last axis); leading axes are channels, which
attention does not have. Compatibilities ``b_ij = dL/dw_ij`` have the same shape. A derivative of the weights is a function that contracts it with numbers
of their shape, as reverse-mode differentiation does. Everything is measured by autograd in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.optimize import brentq
from torch import Tensor
from torch.nn.functional import softplus

from ...draw import torch_rng
from ...drawing import style
from ...models.sequence import lstm_scan, selective_scan
from .closed_forms import causal_mask

Values = dict[str, bool | float | list[float]]
Derivative = Callable[[Tensor], Tensor]
#: Random networks that every statement is tried on.
DRAWS = 200
MECHANISMS = {"softmax": "softmax attention", "ssm": "selective SSM", "normalised": "SSM, rows summing to 1"}

# -- effective weights and conjectured gradients --------------------------------------------------------------------------


def ssm_weights(delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``w_ij = C_i (prod_{k=j+1}^{i} exp(A Delta_k)) Delta_j B_j`` for each channel (section 9.2), with the empty product for ``j = i``.

    Args:
        delta: ``(W, T)`` step sizes.
        a: ``(W, N)`` rates.
        b, c: ``(N, T)`` input and output projections.

    Returns:
        ``(W, T, T)``, zero above the diagonal.
    """
    clock = delta.cumsum(1)
    elapsed = (clock[:, :, None] - clock[:, None, :]).tril()  # (W, i, j): sum of Delta over k = j+1 .. i
    decay = torch.exp(a[:, :, None, None] * elapsed[:, None])  # (W, N, T, T)
    return torch.einsum("ni,wnij,wj,nj->wij", c, decay, delta, b) * causal_mask(delta.shape[1])


def lstm_weights(i: Tensor, f: Tensor) -> Tensor:
    """``w_ij = (prod_{k=j+1}^{i} f_k) i_j``: the cell is ``c_i = sum_j w_ij g_j``, since equations 51 and 52 gate ``c_t = f_t c_{t-1} + i_t g_t``.

    Args:
        i, f: input and forget gates ``(W, T)``.

    Returns:
        ``(W, T, T)``, zero above the diagonal.
    """
    logs = torch.log(f).cumsum(1)
    kept = torch.exp((logs[:, :, None] - logs[:, None, :]).tril())
    return kept * i[:, None, :] * causal_mask(i.shape[1])


def expectation(w: Tensor, b: Tensor) -> Tensor:
    """``E_{w_i}[b] = sum_j w_ij b_ij`` ``(..., T)`` (equation 12 with w for alpha; a mean only where rows sum to 1)."""
    return (w * b).sum(-1)


def advantage_form(w: Tensor, b: Tensor, dw: Derivative) -> Tensor:
    """``sum_ij (b_ij - E_{w_i}[b]) dw_ij / dtheta``: exact where every row of w sums to a constant."""
    return dw(b - expectation(w, b)[..., None])


def conjecture_9_2(w: Tensor, b: Tensor, dw: Derivative) -> Tensor:
    """``sum_ij w_ij (b_ij - E_{w_i}[b]) dw_ij / dtheta``, as Conjecture 9.2 prints it; with ``ds_ij`` in place of ``dw_ij`` exact for softmax (equation 23)."""
    return dw(w * (b - expectation(w, b)[..., None]))


def conjecture_9_3(w: Tensor, u: Tensor, x: Tensor) -> Tensor:
    """``sum_ij w_ij u_i dv_j / dW`` for ``v_j = W x_j`` (Conjecture 9.3): ``(V, D)``.

    Args:
        w: ``(T, T)``, or ``(V, T, T)`` with weights of its own for each channel.
        u: ``(V, T)`` upstream gradients dL/do_i.
        x: ``(D, T)`` inputs.
    """
    w = w if w.dim() == 3 else w.expand(u.shape[0], *w.shape)
    return torch.einsum("vij,vi,dj->vd", w, u, x)


# -- random networks ------------------------------------------------------------------------------------------------------


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
def sample_network(seed: int, n_states: int | None = None) -> Draw:
    """A draw of random sizes (4 to 7 tokens); ``n_states`` fixes the SSM's states."""
    g = torch_rng(seed)

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


def ssm_parts(p: dict[str, Tensor], x: Tensor, positive: bool = False) -> tuple[Tensor, ...]:
    """``(Delta, A, B, C)`` of equation 48 for inputs ``x (D, T)``; ``positive`` B and C for the normalised variant."""
    b, c = p["to_b"] @ x, p["to_c"] @ x
    if positive:
        b, c = softplus(b), softplus(c)
    return softplus(p["step"] @ x), -torch.exp(p["rate"]), b, c


def scores(p: dict[str, Tensor], x: Tensor) -> Tensor:
    """Causal scores ``(T, T)`` (equation 4)."""
    s = (p["query"] @ x).T @ (p["key"] @ x) / math.sqrt(p["query"].shape[0])
    return s.masked_fill(~causal_mask(x.shape[1]), -torch.inf)


def weights(mechanism: str, p: dict[str, Tensor], x: Tensor) -> Tensor:
    """Routing weights ``(T, T)`` or ``(V, T, T)`` from the closed forms."""
    if mechanism == "softmax":
        return torch.softmax(scores(p, x), -1)
    if mechanism == "lstm":
        gates = lstm_scan(p["drive"] @ x, p["recurrent"])
        return lstm_weights(gates["i"], gates["f"])
    w = ssm_weights(*ssm_parts(p, x, mechanism == "normalised"))
    return w / w.sum(-1, keepdim=True) if mechanism == "normalised" else w


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


# -- conjectures 9.2 and 9.3 ----------------------------------------------------------------------------------------------


def flattened(p: dict[str, Tensor]) -> Tensor:
    """Parameters in one vector."""
    return torch.cat([part.flatten() for part in p.values()])


def unflattened(p: dict[str, Tensor], flat: Tensor) -> dict[str, Tensor]:
    """The vector as parameters of the shapes of ``p``."""
    parts = flat.split([part.numel() for part in p.values()])
    return {name: part.reshape(p[name].shape) for name, part in zip(p, parts, strict=True)}


def derivative(make: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, Derivative]:
    """What ``make`` makes of a tensor, and its derivative there."""
    leaf = at.detach().clone().requires_grad_()
    made = make(leaf)
    return made.detach(), lambda numbers: torch.autograd.grad(made, leaf, numbers, retain_graph=True)[0]


def loss_gradients(d: Draw, make: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, Tensor]:
    """The loss's gradients by ``at``, flat, and by the outputs ``(V, T)`` that ``make`` makes of it."""
    leaf = at.detach().clone().requires_grad_()
    out = make(leaf)
    by_leaf, by_out = torch.autograd.grad(loss_of(d, out), (leaf, out))
    return by_leaf.flatten(), by_out


@lru_cache(maxsize=3 * DRAWS)
def gradients_of_routing(seed: int, mechanism: str) -> dict[str, Tensor]:
    """``exact``: autograd through the mechanism itself; the candidate forms of Conjecture 9.2, each ``(P,)``; ``chain`` is ``sum_ij b_ij dw_ij / dtheta``, exact
    for any mechanism whose values do not depend on theta."""
    d = sample_network(seed)
    p, v = d.theta[mechanism], d.values @ d.x
    flat = flattened(p)
    exact, u = loss_gradients(d, lambda t: output(mechanism, unflattened(p, t), d.x, v), flat)
    w, dw = derivative(lambda t: weights(mechanism, unflattened(p, t), d.x), flat)
    b = u.T @ v if w.dim() == 2 else u[:, :, None] * v[:, None, :]  # dL/dw_ij
    forms = {"printed": conjecture_9_2(w, b, dw), "advantage": advantage_form(w, b, dw), "chain": dw(b)}
    return {"exact": exact} | forms


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
    return {"exact": exact, "printed": conjecture_9_3(w, u, d.x).flatten()}


def off_multiple(form: Tensor, exact: Tensor) -> float:
    """Distance of ``exact`` from the nearest multiple of ``form``, relative: 0 if they are proportional, 1 if orthogonal."""
    return float((exact - (form @ exact) / (form @ form) * form).norm() / exact.norm())


def cosine(a: Tensor, b: Tensor) -> float:
    """Cosine of two vectors."""
    return float(a @ b / (a.norm() * b.norm()))


def cosines(draws: int = DRAWS) -> dict[str, dict[str, np.ndarray]]:
    """Cosine of each candidate form with the exact gradient, ``mechanism -> form -> (draws,)``."""
    every = {m: [gradients_of_routing(seed, m) for seed in range(draws)] for m in MECHANISMS}
    return {
        m: {form: np.array([cosine(g[form], g["exact"]) for g in found]) for form in FORMS}
        for m, found in every.items()
    }


def conjecture_records(draws: int = DRAWS) -> Values:
    """Distance of the printed forms from the gradients, largest over the draws; median cosines of them and of the form of 9.2 without ``w_ij``."""
    found: Values = {"routing/draws": draws}
    for mechanism in ("softmax", "ssm"):
        every = [gradients_of_routing(seed, mechanism) for seed in range(draws)]
        found[f"conj92/{mechanism}/printed"] = max(off_multiple(g["printed"], g["exact"]) for g in every)
    values = {
        ("softmax", "own"): [gradients_of_values(sample_network(s), "softmax") for s in range(draws)],
        ("ssm", "own"): [gradients_of_values(sample_network(s), "ssm") for s in range(draws)],
        ("ssm", "shared"): [gradients_of_values(sample_network(s), "ssm", True) for s in range(draws)],
    }
    for (mechanism, kind), every in values.items():
        found[f"conj93/{mechanism}/{kind}"] = max(off_multiple(g["printed"], g["exact"]) for g in every)
    middle = {m: {form: float(np.median(c)) for form, c in of.items()} for m, of in cosines(draws).items()}
    shared = [cosine(g["printed"], g["exact"]) for g in values["ssm", "shared"]]
    return found | {
        "q92/printed_cosine": [middle["softmax"]["printed"], middle["ssm"]["printed"]],
        "q92/advantage_cosine": middle["ssm"]["advantage"],
        "conj93/ssm/shared_cosine": float(np.median(shared)),
    }


# -- definition 9.1 -------------------------------------------------------------------------------------------------------


def identity_records(draws: int = DRAWS) -> Values:
    """``o_i = sum_j w_ij x_j`` for the SSM and ``c_i = sum_j w_ij g_j`` for the LSTM: largest relative errors."""
    errors: dict[str, list[float]] = {"ssm": [], "lstm": []}
    for d in map(sample_network, range(draws)):
        v, gates = d.values @ d.x, lstm_scan(d.theta["lstm"]["drive"] @ d.x, d.theta["lstm"]["recurrent"])
        sides = {"ssm": (v, output("ssm", d.theta["ssm"], d.x, v)), "lstm": (gates["g"], gates["c"])}
        for mechanism, (read, out) in sides.items():
            unrolled = torch.einsum("wij,wj->wi", weights(mechanism, d.theta[mechanism], d.x), read)
            errors[mechanism].append(float((unrolled - out).norm() / out.norm()))
    return {f"routing/{mechanism}_identity": max(found) for mechanism, found in errors.items()}


def definition_records(draws: int = 60) -> Values:
    """Ranges, row sums and dependence on content of the weights of attention, SSM (also with one state) and LSTM, see :func:`over_draws`."""
    attention, ssm = ({kind: over_draws(m, kind, draws) for kind in KINDS[:4]} for m in ("softmax", "ssm"))
    return {
        "routing/attention/outside": attention["outside"].mean().item(),
        "routing/attention/row_error": attention["row_error"].max().item(),
        "routing/attention/content": attention["content"].min().item(),
        "routing/ssm/outside": ssm["outside"].mean().item(),
        "routing/ssm/row_error": ssm["row_error"].median().item(),
        "routing/ssm/content": ssm["content"].min().item(),
        "routing/ssm/others": ssm["others"].max().item(),
        "routing/ssm_one/interaction": over_draws("ssm", "interaction", draws, n_states=1).max().item(),
        "routing/lstm/others": over_draws("lstm", "others", draws).max().item(),
    }


#: Measures of a mechanism's weights: share of weights outside [0, 1]; distance of each row's sum from 1; how w_ij moves with x_i and x_j (the smaller of the
#: two); with what stands before j; mixed second derivative of log w_ij by x_i and x_j. Here i is the last position and j the position two before it.
KINDS = ("outside", "row_error", "content", "others", "interaction")


def over_draws(mechanism: str, kind: str, draws: int, n_states: int | None = None) -> Tensor:
    """One of :data:`KINDS` on each draw, ``(draws,)``, or of every row, ``(rows,)``; ``n_states`` of the SSM, drawn if not given."""
    every = [measured(mechanism, sample_network(seed, n_states), kind) for seed in range(draws)]
    return torch.cat([one.reshape(-1) for one in every])


def measured(mechanism: str, d: Draw, kind: str) -> Tensor:
    """One of :data:`KINDS` on one draw."""
    x, j = d.x.clone().requires_grad_(), d.x.shape[1] - 3
    w = weights(mechanism, d.theta[mechanism], x)
    if kind == "row_error":
        return (w.detach().sum(-1) - 1).abs().flatten()
    if kind == "outside":
        kept = w.detach()[..., causal_mask(d.x.shape[1])]  # only positions that are read
        return ((kept < 0) | (kept > 1)).double().mean()
    w = w[..., -1, j].reshape(-1)  # one number for each channel
    if kind == "interaction":
        logs = (w * w.detach().sign()).log()  # (V,), of |w|: abs would have second derivatives of its own
        firsts = [torch.autograd.grad(one, x, create_graph=True)[0][:, -1] for one in logs]  # by x_i, (D,) each
        mixed = [torch.autograd.grad(one, x, retain_graph=True)[0][:, j] for first in firsts for one in first]
        return torch.stack(mixed).abs().max()
    slopes = [torch.autograd.grad(one, x, retain_graph=True)[0] for one in w]  # (D, T) of each channel
    slope = torch.stack(slopes).abs().amax((0, 1))  # (T,) largest over channels and entries of x_m
    return torch.minimum(slope[-1], slope[j]) if kind == "content" else slope[:j].max()


# -- keys as random vectors -----------------------------------------------------------------------------------------------


def random_cosine(dimension: float) -> float:
    """Mean absolute cosine of two random directions, ``Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))``."""
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)


def key_cosine_records() -> Values:
    """What random vectors have at the widths of the published program, and the dimension at which they have the printed 0.08."""
    dimension = brentq(lambda d: random_cosine(d) - 0.08, 2, 1e4, xtol=1e-12)
    return {"key_cosine/widths": [random_cosine(192), random_cosine(256)], "key_cosine/dimension": dimension}


# -- figures --------------------------------------------------------------------------------------------------------------

#: Candidate forms of Conjecture 9.2.
FORMS = {
    "printed": ("as printed", style.COLOURS["paper"], "o"),
    "advantage": ("without the factor $w_{ij}$", style.PALETTE[1], "s"),
    "chain": ("no baseline either: chain rule", style.PALETTE[0], "^"),
}


def plot_weights(d: Draw) -> Figure:
    """Weights ``w_ij`` of attention, of one channel of the SSM and of one channel of the LSTM on the same random sequence.

    Colours end at 1 and -1; the numbers do not.
    """
    names = {"softmax": "attention", "ssm": "selective SSM", "lstm": "LSTM cell"}
    places = [str(i + 1) for i in range(d.x.shape[1])]
    fig, axes = style.figure(3, height=2.9)
    for ax, (mechanism, name) in zip(axes, names.items(), strict=True):
        w = weights(mechanism, d.theta[mechanism], d.x)
        w = (w if w.dim() == 2 else w[0]).numpy()
        title = f"{name}\nrow sums {w.sum(1).min():.2f} to {w.sum(1).max():.2f}"
        image = style.heatmap(ax, w, 1.0, title=title, row_labels=places, col_labels=places)
        for i, j in zip(*np.tril_indices(len(w)), strict=True):
            look = {"ha": "center", "va": "center", "fontsize": 7}
            look["color"] = "white" if abs(w[i, j]) > 0.55 else style.INK
            ax.text(j, i, f"{round(w[i, j], 1) + 0:.1f}", **look)
        ax.set_xlabel("position read, j")
    axes[0].set_ylabel("reader, i")
    bar = fig.colorbar(image, ax=list(axes), shrink=0.8, aspect=20, pad=0.02, extend="both")
    bar.set_label("$w_{ij}$")
    bar.outline.set_visible(False)
    return fig


def plot_conjecture(found: dict[str, dict[str, np.ndarray]]) -> Figure:
    """Cosine of each form of Conjecture 9.2 with the exact gradient, one mark for each random network; 1 means proportional."""
    fig, ax = style.figure(height=3.2)
    for i, forms in enumerate(found.values()):
        for k, (form, values) in enumerate(forms.items()):
            label, colour, marker = FORMS[form]
            middle, look = i + (k - 1) * 0.25, {"ms": 3, "mew": 0, "alpha": 0.5, "color": colour}
            spread = np.linspace(-0.09, 0.09, len(values))
            ax.plot(middle + spread, values, marker, label=label if i == 0 else None, **look)
            ax.plot(middle + np.array([-0.11, 0.11]), [np.median(values)] * 2, color=style.INK, lw=1.8)
    ax.axhline(1, color=style.COLOURS["theory"], lw=0.9, ls=(0, (1, 1.6)), zorder=1)
    ax.axhline(0, color=style.INK, lw=0.6, zorder=1)
    ax.set_xticks(range(len(found)), [MECHANISMS[m] for m in found])
    ax.set(ylabel="cosine with the exact gradient", ylim=(-1.08, 1.12))
    ax.grid(axis="x", visible=False)
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3, markerscale=2)
    return fig
