"""Section 9 of agarwal2025: effective weights of attention, selective SSM and LSTM, which of them route, and the conjectured gradients beside the exact ones.

Weights ``w_ij`` and compatibilities ``b_ij = dL/dw_ij`` are ``(..., T, T)``, the reader i first; leading axes are channels, which attention does not have.
"""

import math
from collections import namedtuple
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.func import grad, jacrev, vjp
from torch.nn.functional import cosine_similarity, cross_entropy, softplus

from ...draw import torch_rng
from ...drawing import style
from ...models.sequence import lstm_scan, selective_scan
from . import closed_forms as closed

Parameters = dict[str, Tensor]
#: Random networks that every statement is tried on.
DRAWS = 200
MECHANISMS = {"softmax": "softmax attention", "ssm": "selective SSM", "normalised": "SSM, rows sum to 1"}


def ssm_weights(delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``w_ij = C_i (prod_{k=j+1}^{i} exp(A Delta_k)) Delta_j B_j`` for each channel ``(W, T, T)`` (section 9.2), the empty product for ``j = i``, zero above the
    diagonal; of step sizes ``delta (W, T)``, rates ``a (W, N)``, and input and output projections ``b``, ``c`` ``(N, T)``."""
    clock = delta.cumsum(1)
    elapsed = (clock[:, :, None] - clock[:, None, :]).tril()  # (W, i, j): sum of Delta over k = j+1 .. i
    decay = torch.exp(a[:, :, None, None] * elapsed[:, None])  # (W, N, T, T)
    return torch.einsum("ni,wnij,wj,nj->wij", c, decay, delta, b) * closed.causal_mask(delta.shape[1])


def lstm_weights(i: Tensor, f: Tensor) -> Tensor:
    """``w_ij = (prod_{k=j+1}^{i} f_k) i_j`` ``(W, T, T)`` of gates ``(W, T)``: the cell ``c_t = f_t c_{t-1} + i_t g_t`` is ``sum_j w_tj g_j``."""
    logs = torch.log(f).cumsum(1)
    kept = torch.exp((logs[:, :, None] - logs[:, None, :]).tril())
    return kept * i[:, None, :] * closed.causal_mask(i.shape[1])


#: Inputs ``x (D, T)``, ``values`` ``W_V (V, D)``, routing parameters ``theta`` by mechanism, ``read`` ``W_O (C, V)``, and the class of each position ``labels (T,)``.
Draw = namedtuple("Draw", "x values theta read labels")


def sample_network(seed: int) -> Draw:
    """A draw of random sizes (4 to 7 tokens)."""
    g = torch_rng(seed)
    ranges = (4, 5), (2, 4), (2, 3), (2, 4), (4, 7)  # of D, V, K, C and T

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64) / math.sqrt(shape[-1])

    d, v, k, c, t = (int(torch.randint(low, high + 1, (), generator=g)) for low, high in ranges)
    n = int(torch.randint(2, 4, (), generator=g))
    softmax = {"query": normal(k, d), "key": normal(k, d)}
    step, rate = normal(v, d), torch.rand(v, n, generator=g, dtype=torch.float64)
    ssm = {"step": step, "rate": rate, "to_b": normal(n, d), "to_c": normal(n, d)}
    lstm = {"drive": normal(4 * v, d), "recurrent": normal(4 * v, v)}
    theta = {"softmax": softmax, "ssm": ssm, "normalised": ssm, "lstm": lstm}
    x = torch.randn(d, t, generator=g, dtype=torch.float64)
    labels = torch.randint(0, c, (t,), generator=g)
    return Draw(x, normal(v, d), theta, normal(c, v), labels)


def ssm_parts(p: Parameters, x: Tensor, positive: bool = False) -> tuple[Tensor, ...]:
    """``(Delta, A, B, C)`` of equation 48 for inputs ``x (D, T)``; ``positive`` B and C for the normalised variant."""
    b, c = p["to_b"] @ x, p["to_c"] @ x
    if positive:
        b, c = softplus(b), softplus(c)
    return softplus(p["step"] @ x), -torch.exp(p["rate"]), b, c


def weights(mechanism: str, p: Parameters, x: Tensor) -> Tensor:
    """Routing weights ``(T, T)`` or ``(V, T, T)`` from the closed forms."""
    if mechanism == "softmax":
        s = closed.scores((p["query"] @ x).mT, (p["key"] @ x).mT)
        return s.masked_fill(~closed.causal_mask(x.shape[1]), -torch.inf).softmax(-1)
    if mechanism == "lstm":
        gates = lstm_scan(p["drive"] @ x, p["recurrent"])
        return lstm_weights(gates["i"], gates["f"])
    w = ssm_weights(*ssm_parts(p, x, mechanism == "normalised"))
    return w / w.sum(-1, keepdim=True) if mechanism == "normalised" else w


def output(mechanism: str, p: Parameters, x: Tensor, v: Tensor) -> Tensor:
    """Outputs ``(V, T)`` for values ``v (V, T)``: the softmax average, or the recurrence itself, never the weights of the closed form."""
    if mechanism == "softmax":
        return v @ weights(mechanism, p, x).mT
    delta, a, b, c = ssm_parts(p, x, mechanism == "normalised")
    out = selective_scan(v, delta, a, b, c)
    return out / selective_scan(torch.ones_like(v), delta, a, b, c) if mechanism == "normalised" else out


def output_gradient(d: Draw, out: Tensor) -> Tensor:
    """``u_i = dL/do_i`` ``(V, T)`` of the cross-entropy summed over positions (equation 9)."""
    return grad(lambda o: cross_entropy((d.read @ o).mT, d.labels, reduction="sum"))(out)


@lru_cache(maxsize=3 * DRAWS)
def gradients_of_routing(seed: int, mechanism: str) -> dict[str, Tensor]:
    """The gradient of the routing parameters ``(P,)``: ``exact``, by autograd; ``printed``, ``sum_ij w_ij (b_ij - E_{w_i}[b]) dw_ij / dtheta`` (Conjecture 9.2);
    ``advantage``, without ``w_ij``: exact where every row of w sums to a constant; ``chain``, ``sum_ij b_ij dw_ij / dtheta``: always exact."""
    d = sample_network(seed)
    p, v = d.theta[mechanism], d.values @ d.x
    out, back = vjp(lambda p: output(mechanism, p, d.x, v), p)
    w, dw = vjp(lambda p: weights(mechanism, p, d.x), p)
    u = output_gradient(d, out)
    b = u.mT @ v if w.dim() == 2 else u[:, :, None] * v[:, None, :]  # dL/dw_ij
    advantage = -closed.advantage(w, b)  # b_ij - E_{w_i}[b]
    found = {"exact": back(u), "printed": dw(w * advantage), "advantage": dw(advantage), "chain": dw(b)}
    return {form: torch.cat([slope.flatten() for slope in slopes.values()]) for form, (slopes,) in found.items()}


def gradients_of_values(d: Draw, mechanism: str, shared: bool = False) -> dict[str, Tensor]:
    """The gradient of ``W_V``: ``exact``, and ``printed``, ``sum_ij w_ij u_i dv_j / dW_V`` (Conjecture 9.3); ``shared``: Delta, B and C are made from ``W_V x`` too."""
    p, v = d.theta[mechanism], d.values @ d.x
    if shared:  # routing parameters that read the V values instead of the D inputs
        p = {k: m if k == "rate" else m[:, : v.shape[0]] for k, m in p.items()}

    def run(w_v: Tensor) -> Tensor:
        values = w_v @ d.x
        return output(mechanism, p, values if shared else d.x, values)

    out, back = vjp(run, d.values)
    u, w = output_gradient(d, out), weights(mechanism, p, v if shared else d.x)
    printed = torch.einsum("vij,vi,dj->vd", w.expand(len(v), *w.shape[-2:]), u, d.x)
    return {"exact": back(u)[0].flatten(), "printed": printed.flatten()}


def off_multiple(found: dict[str, Tensor]) -> float:
    """Distance of ``exact`` from the nearest multiple of ``printed``, relative: 0 if they are proportional, 1 if orthogonal."""
    form, exact = found["printed"], found["exact"]
    return float((exact - (form @ exact) / (form @ form) * form).norm() / exact.norm())


def cosines(form: str, gradients: Iterable[dict[str, Tensor]]) -> np.ndarray:
    """Cosine of a candidate form with the exact gradient, ``(draws,)``."""
    return np.array([float(cosine_similarity(found[form], found["exact"], dim=0)) for found in gradients])


def conjecture_records(draws: int = DRAWS) -> dict[str, object]:
    """Distance of the printed forms from the gradients, largest over the draws; median cosines of them and of the form of 9.2 without ``w_ij``."""
    softmax, ssm = ([gradients_of_routing(seed, m) for seed in range(draws)] for m in ("softmax", "ssm"))
    networks = [sample_network(seed) for seed in range(draws)]
    shared = [gradients_of_values(d, "ssm", shared=True) for d in networks]
    return {
        "routing/draws": draws,
        "conj92/softmax/printed": max(map(off_multiple, softmax)),
        "conj92/ssm/printed": max(map(off_multiple, ssm)),
        "conj93/softmax/own": max(off_multiple(gradients_of_values(d, "softmax")) for d in networks),
        "conj93/ssm/own": max(off_multiple(gradients_of_values(d, "ssm")) for d in networks),
        "conj93/ssm/shared": max(map(off_multiple, shared)),
        "q92/printed_cosine": [float(np.median(cosines("printed", found))) for found in (softmax, ssm)],
        "q92/advantage_cosine": float(np.median(cosines("advantage", ssm))),
        "conj93/ssm/shared_cosine": float(np.median(cosines("printed", shared))),
    }


def identity_records(draws: int = DRAWS) -> dict[str, object]:
    """``o_i = sum_j w_ij x_j`` for the SSM and ``c_i = sum_j w_ij g_j`` for the LSTM: largest relative errors."""
    errors: dict[str, list[float]] = {"ssm": [], "lstm": []}
    for d in map(sample_network, range(draws)):
        v, gates = d.values @ d.x, lstm_scan(d.theta["lstm"]["drive"] @ d.x, d.theta["lstm"]["recurrent"])
        sides = {"ssm": (v, output("ssm", d.theta["ssm"], d.x, v)), "lstm": (gates["g"], gates["c"])}
        for mechanism, (read, out) in sides.items():
            unrolled = torch.einsum("wij,wj->wi", weights(mechanism, d.theta[mechanism], d.x), read)
            errors[mechanism].append(float((unrolled - out).norm() / out.norm()))
    return {f"routing/{mechanism}_identity": max(found) for mechanism, found in errors.items()}


def definition_records(draws: int = 60) -> dict[str, float]:
    """Ranges, row sums and dependence on content of the weights of attention, SSM and LSTM."""
    attention, ssm, lstm = (measured(mechanism, draws) for mechanism in ("softmax", "ssm", "lstm"))
    return {
        "routing/attention/outside": attention["outside"].mean().item(),
        "routing/attention/row_error": attention["row_error"].max().item(),
        "routing/attention/content": attention["content"].min().item(),
        "routing/ssm/outside": ssm["outside"].mean().item(),
        "routing/ssm/row_error": ssm["row_error"].median().item(),
        "routing/ssm/content": ssm["content"].min().item(),
        "routing/ssm/others": ssm["others"].max().item(),
        "routing/lstm/others": lstm["others"].max().item(),
    }


def measured(mechanism: str, draws: int) -> dict[str, Tensor]:
    """Of a mechanism's weights on each draw ``(draws,)``: share ``outside`` [0, 1]; how w_ij, for the last position i and the position j two before it, moves with
    the ``content`` of x_i and x_j (the smaller) and of the ``others`` before j; and ``row_error`` of every row, ``|sum - 1|``."""
    rows = []
    for d in map(sample_network, range(draws)):
        p, j = d.theta[mechanism], d.x.shape[1] - 3
        w = weights(mechanism, p, d.x)
        kept = w[..., closed.causal_mask(d.x.shape[1])]  # only positions that are read
        slopes = jacrev(lambda x, p=p, j=j: weights(mechanism, p, x)[..., -1, j])(d.x)  # (channels, D, T)
        slope = slopes.abs().reshape(-1, *d.x.shape).amax((0, 1))  # (T,) largest over channels and entries of x_m
        outside, content = ((kept < 0) | (kept > 1)).double().mean(), torch.minimum(slope[-1], slope[j])
        rows.append((outside, content, slope[:j].max(), (w.sum(-1) - 1).abs().flatten()))
    parts = map(torch.hstack, zip(*rows, strict=True))
    return dict(zip(("outside", "content", "others", "row_error"), parts, strict=True))


#: Candidate forms of Conjecture 9.2.
FORMS = {
    "printed": ("as printed", style.COLOURS["paper"]),
    "advantage": ("without $w_{ij}$", style.COLOURS["dummy"]),
    "chain": ("chain rule", style.INK),
}


def plot_weights(d: Draw) -> Figure:
    """Weights ``w_ij`` of attention and of one channel of the SSM and the LSTM on one random sequence; colours end at 1 and -1, the numbers do not."""
    names = {"softmax": "attention", "ssm": "selective SSM", "lstm": "LSTM cell"}
    places = [str(i + 1) for i in range(d.x.shape[1])]
    fig, axes = style.figure(3, height=2.9, sharey=True)
    for ax, (mechanism, name) in zip(axes, names.items(), strict=True):
        w = weights(mechanism, d.theta[mechanism], d.x)
        w = (w if w.dim() == 2 else w[0]).numpy()
        title = f"{name}\nrow sums {w.sum(1).min():.2f} to {w.sum(1).max():.2f}"
        style.heatmap(ax, w, 1.0, title=title, annotate=".1f", row_labels=places, col_labels=places)
        for text in [text for text in ax.texts if text.get_position()[0] > text.get_position()[1]]:
            text.remove()  # the future has no weights
        ax.set_xlabel("position read, j")
    axes[0].set_ylabel("reader, i")
    return fig


def plot_conjecture(draws: int = DRAWS) -> Figure:
    """Cosine of each form of Conjecture 9.2 with the exact gradient, one mark for each random network; 1 means proportional."""
    fig, ax = style.figure(height=4.0)
    names = []
    for mechanism, heading in MECHANISMS.items():
        names.append(heading)
        for form, (label, colour) in FORMS.items():
            values = cosines(form, [gradients_of_routing(seed, mechanism) for seed in range(draws)])
            y, look = len(names), {"ms": 3.5, "mew": 0, "alpha": 0.5, "color": colour}
            ax.plot(values, y + np.linspace(-0.3, 0.3, draws), "o", **look)
            ax.plot([np.median(values)] * 2, [y - 0.4, y + 0.4], color=style.INK, lw=2)
            names.append(label)
    ax.plot([], [], "o", ms=3.5, color=style.COLOURS["dummy"], label="one random network")
    ax.plot([], [], "|", ms=10, mew=2, color=style.INK, label="median")
    ax.axvline(0, color=style.INK, lw=0.6, zorder=1)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="cosine with the exact gradient", xticks=np.linspace(-1, 1, 5), ylim=(len(names) - 0.4, -0.5))
    ax.grid(axis="y", visible=False)
    for tick in ax.get_yticklabels()[:: 1 + len(FORMS)]:
        tick.set_fontweight("bold")
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig
