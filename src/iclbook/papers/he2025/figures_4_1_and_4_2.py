"""Role of the softmax: linear attention against length (Figure 4.1) and other activations (Figures 4.2) of He et al. (2025)."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from matplotlib.figure import Figure

from ... import theory
from ...draw import numpy_rng
from ...drawing import style
from ...models import attend
from ...statistics import Estimate, jackknife, over_blocks, standard_error
from ...store import Results
from ...tasks import LinearRegression
from ...theory import Prompts
from .circuit_maps import Group, draw_cards, matrices, name_maps, named
from .circuits import Heads, Records, first_kept, largest_ratio, one_sided, read_heads
from .figures_2_4_and_2_5 import Curve, Curves, attended, unexplained, unlike_pair
from .loss import Array
from .runs import ACTIVATIONS
from .trained_circuits import legend_below, peak, plot_trajectories

# -- linear attention: Figure 4.1 ---------------------------------------------------------------------------------------


def frozen_linear(results: Results, lengths: Array, task: LinearRegression, rng: torch.Generator) -> Curve:
    """Linear attention's first run with the training length in the place of the context's, on fresh prompts."""
    kq, ov = (torch.tensor(results[f"linear/{k}"][-1, 0]) for k in ("kq", "ov"))
    rows = []
    for n in lengths:
        longer = replace(task, L=int(n))
        batch = longer.batch(torch.randn(longer.normals, 16_384, generator=rng))
        yhat = attend(kq, ov, batch.context, batch.query, "linear") * int(n) / task.L
        squared = (yhat - batch.target) ** 2
        rows.append((squared.mean().item(), float(standard_error(squared.double().ravel().numpy()))))
    mean, error = np.array(rows).T
    return Curve(lengths, mean, np.zeros_like(mean), error)


def linear_closed(linear: Heads, lengths: Array, task: LinearRegression) -> Array:
    """Error ``(n,)`` of linear attention with 1/L frozen at the training length's 1/L_0: a gradient step of the trained rate eta times L / L_0."""
    rate = float(linear.settled((linear.omega * linear.mu).sum(-1)).mean())
    return theory.vanilla_gd_error(rate * lengths / task.L, task.d, lengths, task.noise_var)


def linear_records(linear: Curve, frozen: Curve, two: Curve, L: int) -> Records:
    """Figure 4.1: errors at 100 examples over those at the training length, and linear over softmax attention."""
    # the frozen factor scales the predictions of the other runs alike: they vary as those at the context's own length
    frozen = frozen._replace(seeds=linear.seeds / linear.mean * frozen.mean)
    return {
        "fig4.1/test/linear_ratio": linear.at(100) / linear.at(L),
        "fig4.1/frozen/linear_ratio": frozen.at(100) / frozen.at(L),
        "fig4.1/softmax_ratio": two.at(100) / two.at(L),
        "qlength/over_softmax": linear.at(100) / two.at(100),
    }


def plot_linear_attention(curves: Curves, linear: Curve, frozen: Array, closed: Array, trained: int) -> Figure:
    """ICL error of linear attention under both readings of 1/L, and of softmax attention, against context length."""
    fig, ax = style.figure(height=3.7)
    lengths, colour = linear.lengths, style.COLOURS["gd"]
    ax.plot(lengths, frozen, color=colour, ls="none", marker="x", label=f"linear, 1/{trained} frozen")
    style.theory_line(ax, lengths, closed, "closed form at the trained rate")
    own = {"mfc": "none", "ms": 8, "label": "linear, 1/L of the context at hand"}
    ax.plot(lengths, linear.mean, "o", color=colour, **own)
    for h, name in ((1, "one head"), (2, "two heads")):
        look = {"color": style.COLOURS[h], "marker": style.MARKERS[h], "label": f"softmax, {name}", "ms": 3.5}
        ax.plot(lengths, curves[h].mean, **look)
    ax.axvline(trained, color=style.COLOURS["dummy"], lw=0.8, ls=":")
    top = min(1.9, float(np.max(frozen)) * 1.05)
    ax.set(xlabel="context length L", ylabel="ICL error", ylim=(0, top))
    style.write(ax, 78, 0.62 * top, f"× linear, 1/{trained} frozen\n(dotted: closed form)", colour, ha="right")
    style.write(ax, lengths[1], curves[1].mean[0], "softmax, one head", style.COLOURS[1])
    style.write(ax, lengths[-1], 0.04 * top, "softmax, two heads", style.COLOURS[2], ha="right")
    style.write(ax, lengths[0], 0.04 * top, "○ linear, own 1/L", colour)
    style.write(ax, trained, 0.95 * top, "training length", fontsize=8, ha="center")
    return fig


# -- linear attention by softmax heads ----------------------------------------------------------------------------------


def softmax_heads_of_linear(kq: Array, ov: Array, gamma: float) -> tuple[Array, Array]:
    """The 2H softmax heads for H linear ones: (+-gamma KQ_h, +-OV_h/(2 gamma)), `kq` (2H, D, D) and `ov` (2H, ..., D).

    As gamma -> 0 they make linear attention less sum_h (ov_h . zbar)(zbar^T KQ_h z_q), which is zero for centred tokens: softmax attention does
    not change when all keys move together, so that no number of softmax heads can supply this product of means.
    """
    return np.concatenate([gamma * kq, -gamma * kq]), np.concatenate([ov, -ov]) / (2.0 * gamma)


def linear_by_softmax_records(prompts: Prompts, d: int) -> Records:
    """Random linear attention of two heads, built of four softmax heads, on tokens centred and as drawn: root mean square error over root mean square."""
    some = Prompts(*(of[:2000] for of in prompts))
    centred = some._replace(x=some.x - some.x.mean(1, keepdims=True), y=some.y - some.y.mean(1, keepdims=True))
    rng = numpy_rng(0)
    kq, ov = rng.normal(size=(2, d + 1, d + 1)) / np.sqrt(d), rng.normal(size=(2, d + 1))[:, None]
    soft = softmax_heads_of_linear(kq, ov, gamma=1e-3)

    def missed(linear: Array, built: Array) -> float:
        return float(np.sqrt(unlike_pair(linear, built)))

    values = {}
    for name, of in (("centred", centred), ("uncentred", some)):
        # attended takes circuits of many runs; here there is one
        (linear,), (built,) = attended(kq[None], ov[None], of, "linear"), attended(*(c[None] for c in soft), of)
        values[f"linsoft/{name}"] = Estimate(missed(linear, built), over_blocks(missed, linear, built))
    return values


# -- other activations: Figures 4.2 -------------------------------------------------------------------------------------

#: ``C_f`` of the activations that the paper tests at C = 1: the slope of f at 0, over f(0).
SLOPES = {"softmax": 1.0, "square": 2.0, "tanh": 1.0}


def read_activations(results: Results, scale: float) -> dict[str, Heads]:
    """Heads of each activation other than softmax."""
    return {name: read_heads(results.group(name), scale) for name in ACTIVATIONS}


def activation_records(
    by_c: Mapping[str, tuple[Mapping[str, Heads], Heads]], starts: int, seed_sweep: Mapping[str, Heads]
) -> Records:
    """Figure 4.2, a value per run (and head): the pattern, and largest over smallest gamma of the activations and softmax. By reading of C: the
    activations' heads, and softmax's. Of so many ``starts``, the share in which 1 + Cx forms a pair, or of those of the ``census`` of a reading."""
    values: Records = {}
    for reading, (by_name, softmax) in by_c.items():
        for name, h in by_name.items():
            if reading.startswith("c0") and name != "affine":
                continue  # as at C = 1
            omega, mu = h.settled(h.omega), h.settled(h.mu)
            own = {"omega_product": omega.prod(-1), "omega_mu": omega * mu}
            own |= {of: h.settled(getattr(h, of)) for of in ("kq_deviation", "ov_deviation")}
            values |= {f"fig4.2/{reading}/{name}/{key}": Estimate.each(value) for key, value in own.items()}
            if name == "affine":
                many, n = (
                    (seed_sweep[reading], len(seed_sweep[reading].one_sided)) if reading in seed_sweep else (h, starts)
                )
                values[f"fig4.2/{reading}/affine/formed"] = Estimate.share(formed(many), n)
        gammas = [h.settled(h.gamma) for h in (*by_name.values(), softmax)]
        values[f"fig4.2/{reading}/gamma_ratio"] = largest_ratio(gammas)
    return values


def formed(h: Heads) -> int:
    """Runs of two heads that end as a pair of the pattern's form, by the ledger's bounds."""
    off = np.maximum(h.settled(h.kq_deviation), h.settled(h.ov_deviation)).max(-1)  # (R,)
    return int(((off < 0.1) & (h.settled(h.omega).prod(-1) < 0)).sum())


def nearer(by_name: Mapping[str, Heads]) -> Estimate:
    """Root mean square difference of tanh's trajectory of log gamma to softmax's, over that of the nearer polynomial; jackknife over all runs, unpaired."""
    gammas = {name: h.gamma[1:].T for name, h in by_name.items()}  # (R, T)
    steps = by_name["softmax"].steps[1:]

    def ratio(gammas: Mapping[str, Array]) -> float:
        trajectories = {k: np.interp(steps, by_name[k].steps[1:], np.log(of.mean(0))) for k, of in gammas.items()}
        apart = {k: np.sqrt(np.mean((trajectories[k] - trajectories["softmax"]) ** 2)) for k in ACTIVATIONS}
        return float(apart["tanh"] / min(apart["affine"], apart["square"]))

    errors = [jackknife(lambda kept, k=k: ratio(gammas | {k: kept}), of) for k, of in gammas.items()]
    return Estimate(ratio(gammas), float(np.linalg.norm(errors)))


def dynamics_records(by_c: Mapping[str, tuple[Mapping[str, Heads], Heads]]) -> Records:
    """Figure 4.2, the dynamics, by reading of C."""
    values: Records = {}
    for reading, (by_name, softmax) in by_c.items():
        values[f"fig4.2/{reading}/tanh_peak"] = Estimate.each(peak(by_name["tanh"]))
        values[f"fig4.2/{reading}/tanh_distance"] = nearer({**by_name, "softmax": softmax})
    square = by_c["code"][0]["square"]
    pairs = first_kept(square.steps, ~one_sided(square.omega, square.mu))  # (R,)
    return values | {"fig4.2/code/square_pair": float(np.nan_to_num(pairs).max())}


def compare(results: Results, prompts: Prompts, best: float) -> dict[str, dict[str, Array]]:
    """The runs of each activation of :data:`SLOPES` beside gradient descent on common prompts, ``(R,)`` each: ``excess`` over the squared error of a
    debiased step of rate ``best``, with its error, and what a multiple of a ``debiased`` or ``vanilla`` step leaves unexplained."""
    debiased, vanilla = (step(1.0, *prompts[:3]) for step in (theory.debiased_gd, theory.vanilla_gd))
    of_step = (best * debiased - prompts.y_q) ** 2
    found = {}
    for name in SLOPES:
        kq, ov = (results[f"{'h2' if name == 'softmax' else name}/{k}"][-1] for k in ("kq", "ov"))
        yhats = attended(kq, ov, prompts, name)
        apart = (yhats - prompts.y_q) ** 2 - of_step  # prompt by prompt: what both find hard cancels
        left = {"debiased": unexplained(yhats, debiased), "vanilla": unexplained(yhats, vanilla)}
        found[name] = {"excess": apart.mean(1), "error": standard_error(apart), **left}
    return found


def step_records(found: Mapping[str, Mapping[str, Array]], heads: Mapping[str, Heads], star: float) -> Records:
    """Softmax, square and tanh, a value a run: error above the best step's, and the effective rate ``2 C_f |omega| |mu|``; ``star`` is Theorem 1's."""
    values: Records = {"activation/eta_star": star}
    for step in ("debiased", "vanilla"):
        values[f"activation/unlike_{step}"] = Estimate.stack(Estimate.runs(of[step]) for of in found.values())
    for name, slope in SLOPES.items():
        h, of = heads[name], found[name]
        rate, excess = Estimate.each(slope * h.settled((h.omega * h.mu).sum(-1))), Estimate(of["excess"], of["error"])
        if name == "softmax":  # shown beside the others, and judged nowhere
            rate, excess = rate.value, excess.value
        values |= {f"activation/{name}/rate": rate, f"activation/{name}/excess": excess}
    return values


def plot_activations(groups: Mapping[str, Group], scale: float) -> Figure:
    """Two-head circuits of several activations, first run: KQ above OV, KQ of a pair on one colour scale, OV of all."""
    fig, axes = style.figure(len(groups), height=2.3)
    found = {name: matrices(group, -1, 0, scale) for name, group in groups.items()}
    weights = max(np.abs(ov).max() for _, ov in found.values())
    for ax, (name, (kq, ov)) in zip(axes, found.items(), strict=True):
        names = [named(f"head {h + 1}", *card) for h, card in enumerate(zip(kq, ov, strict=True))]
        draw_cards(ax, [[*zip(kq, ov, strict=True)]], (np.abs(kq).max(), weights), names)
        name_maps(ax, kq[0])
        ax.set_title(f"f(x) = {name}")
    return fig


def plot_activation_dynamics(groups: Mapping[str, Heads]) -> Figure:
    """gamma and the sum of positive mu against the step for softmax and other activations: medians over seeds."""
    hues = (style.INK, style.COLOURS["dummy"], style.COLOURS["gd"], style.PALETTE[4])
    dashes = ("-", (0, (1, 1.2)), (0, (5, 1.5)), (0, (3, 1, 1, 1)))
    looks = [{"color": hue, "ls": dash, "lw": 2} for hue, dash in zip(hues, dashes, strict=True)]
    fig, axes = plot_trajectories(zip(groups, groups.values(), looks, strict=True), 3.2, middle=np.median)
    style.log_ticks(axes[0], "y", (0.05, 0.1, 0.2, 0.5, 1))
    axes[0].lines[len(groups)].set_label("paper, softmax")
    legend_below(fig, axes[0])
    return fig
