"""Trained circuits: Figures 1, 2.1-2.3, 2.6 and 2.8, and Key Findings 1, 2 and 4 of He et al. (2025)."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import variation
from torch import Tensor

from ...claims import printed
from ...draw import torch_rng
from ...drawing import style
from ...models import Attention
from ...statistics import Estimate, jackknife, median_error, run_sd
from ...store import Results
from ...training import Study
from . import circuits
from .circuits import Heads, Records, by_reading, largest_ratio, typical
from .loss import manifold_gamma

#: Heads by number of heads.
ByCount = Mapping[int, Heads]


def run_records(results: Results, study: Study, text: ByCount, code: ByCount) -> Records:
    """Settings of the isotropic runs, and counts of runs of several heads that end with heads of both signs, by reading."""
    both = [[int((~h.one_sided).sum()) for h in by_h.values()] for by_h in (text, code)]
    return {
        "runs/both_signs": both[0],
        "runs/both_signs_coded": both[1],
        "runs/steps": int(results["h2/steps"][-1]),
        "runs/seeds": results["h2/kq"].shape[1],
        "runs/models": len({key.split("/")[0] for key in results.arrays}),
        "runs/minutes": results.provenance["seconds"] / 60,
        "runs/device": {"cpu": "processor core", "cuda": "GPU"}[results.provenance["device"]],
        "runs/rate": study.groups[0].runs[0].rate,
        "runs/batch": study.batch_size,
        "noise/variance": study.data.noise_var,
    }


# -- Figure 1 -----------------------------------------------------------------------------------------------------------


def example(d: int, L: int, rng: torch.Generator, prompts: int = 256) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two heads as PyTorch initialises them, on random prompts: circuits ``(H, D, D)``, tokens ``(L, D, B)`` and queries ``(d, B)``."""
    model = Attention(d, n_heads=2)
    model.initialise(torch_rng(0))
    context = torch.randn(L, d + 1, prompts, generator=rng).double()
    query = torch.randn(d, prompts, generator=rng).double()
    circuits = model.circuits()["kq"], model.output @ model.value
    return *(circuit.detach().double() for circuit in circuits), context, query


def matrix_form(kq: Tensor, ov: Tensor, context: Tensor, query: Tensor) -> Tensor:
    """The paper's matrix form with all of KQ and OV ``(B,)``: every output of the query's column, of which the last is read."""
    token = torch.cat([query, torch.zeros_like(query[:1])])
    weights = torch.softmax(torch.einsum("ldb,hde,eb->hlb", context, kq, token), 1)
    return torch.einsum("hde,leb,hlb->db", ov, context, weights)[-1]


def effective_entries(example: tuple[Tensor, Tensor, Tensor, Tensor], rng: torch.Generator) -> Records:
    """Figure 1: largest change of a prediction when the starred entries, columns of KQ and rows of OV, are drawn anew, and when the others are."""
    kq, ov, *prompts = example
    below, above = slice(0, len(prompts[1])), slice(len(prompts[1]), None)
    values: Records = {}
    for name, columns, rows in (("ineffective", above, below), ("effective", below, above)):
        changed = kq.clone(), ov.clone()
        for entries in (changed[0][..., columns], changed[1][:, rows]):
            entries[:] = torch.randn(entries.shape, generator=rng, dtype=entries.dtype)
        change = matrix_form(*changed, *prompts) - matrix_form(kq, ov, *prompts)
        values[f"fig1/{name}_change"] = change.abs().max().item()
    return values


# -- one and two heads: Figures 2.1, 2.2, 2.3, 2.6 ----------------------------------------------------------------------


@by_reading("fig2.1")
def one_head(h: Heads) -> Records:
    """Figure 2.1, a value per run."""
    names = {"kq_deviation": h.kq_deviation, "ov_deviation": h.ov_deviation, "omega_mu": h.omega * h.mu}
    return {name: Estimate.each(h.settled(value)[:, 0]) for name, value in names.items()}


@by_reading("fig2.2")
def two_heads(h: Heads) -> Records:
    """Figure 2.2, a value per run (and head)."""
    omega, mu = h.settled(h.omega), h.settled(h.mu)
    found = {"omega_product": Estimate.each(omega.prod(-1)), "omega_mu": Estimate.each(omega * mu)}
    for name, size in (("omega", np.abs(omega)), ("mu", np.abs(mu))):
        found[f"{name}_spread"] = Estimate.each(np.ptp(size, -1) / size.max(-1))
    return found


@by_reading("fig2.3")
def mirror(h: Heads) -> Records:
    """Figure 2.3: how far the two heads are from mirror images, the largest ``|sum| / mean | |`` of omega and of mu after the first tenth of training."""
    late = h.steps >= 0.1 * h.steps[-1]
    omega, mu = (np.abs(of[late].sum(-1)) / np.abs(of[late]).mean(-1) for of in (h.omega, h.mu))  # (T, R)
    return {"omega_asymmetry": Estimate.each(omega.max(0)), "mu_asymmetry": Estimate.each(mu.max(0))}


def pattern_share(h: Heads) -> np.ndarray:
    """Share of training after which both patterns are kept to the end ``(R,)``; 1 where they never are."""
    first = circuits.first_kept(h.steps, h.patterned(0.2))  # (R,), twice the final bound: single iterates
    return np.nan_to_num(first, nan=h.steps[-1]) / h.steps[-1]


@by_reading("fig2.6")
def early(h: Heads) -> Records:
    """Figure 2.6: when the patterns are there for good, in the typical run."""
    return {"pattern": typical(pattern_share(h))}


# -- Key Findings 1, 2 and 4, Figure 2.8 -------------------------------------------------------------------------------


@by_reading("kf1")
def finding_1(heads: tuple[ByCount, ByCount]) -> Records:
    """Key Finding 1: how much lies in heads whose signs do not match, and deviations of the circuits summed over the heads of a side; a value per run."""
    by_h, sides = heads
    found: Records = {"mismatch": Estimate.each(*(circuits.mismatch(h.omega[-1], h.mu[-1]) for h in by_h.values()))}
    for name in ("kq_deviation", "ov_deviation"):
        worst = Estimate.each(*(h.settled(getattr(h, name)).max(-1) for h in sides.values()))
        found |= {name: worst} if np.size(worst.value) else {}  # else no such run
    return found


@by_reading("kf2")
def finding_2(by_h: ByCount) -> Records:
    """Key Finding 2: spread of abs(omega), heads weighted by abs(mu), and abs(sum mu) over sum abs(mu) where a run settles; a value per run."""
    return {
        "weighted_spread": Estimate.each(*(circuits.weighted_spread(h.omega[-1], h.mu[-1]) for h in by_h.values())),
        "zero_sum": Estimate.each(*(circuits.zero_sum(h.settled(h.mu)) for h in by_h.values())),
    }


def peak(h: Heads) -> np.ndarray:
    """Largest gamma along training over the settled one ``(R,)``."""
    return h.gamma.max(0) / h.settled(h.gamma)


def fall(h: Heads) -> np.ndarray:
    """Largest fall of the sum of positive mu below its running maximum, over where it settles ``(R,)``; not a number without a positive head."""
    rise, end = h.positive_mu, h.settled(h.positive_mu)
    return (np.maximum.accumulate(rise) - rise).max(0) / np.where(end > 0, end, np.nan)


@by_reading("fig2.8")
def limits(by_h: ByCount) -> Records:
    """Figure 2.8: peak of gamma and fall of the sum of positive mu in the typical run of several heads, and how far apart their limits are."""
    gamma, mu = ([h.settled(getattr(h, of)) for h in by_h.values()] for of in ("gamma", "positive_mu"))
    return {
        "peak": typical(*(peak(h) for h in by_h.values())),
        "fall": typical(*(fall(h) for h in by_h.values())),
        "gamma_spread": largest_ratio(gamma) - 1,
        "mu_spread": largest_ratio(mu) - 1,
    }


@by_reading("kf4")
def finding_4(heads: tuple[ByCount, ByCount]) -> Records:
    """Key Finding 4: when the pattern of the sides is there for good, in the typical run that ends with heads of both signs; and in how many runs it is so
    within the first tenth of training, while gamma falls back from a peak and the sum of positive mu does not fall by a tenth."""
    early, keeps = [], []
    for h, side in zip(*(of.values() for of in heads), strict=True):
        positive = h.omega[-1] > 0
        both = positive.any(1) & ~positive.all(1)  # the runs that have sides
        early.append(pattern_share(side))
        keeps.append((peak(h)[both] > 1.1) & (fall(h)[both] < 0.1))
    if not sum(map(len, early)):
        return {}  # no such run
    same = (np.concatenate(early) <= 0.1) & np.concatenate(keeps)
    return {"pattern": typical(*early), "course": Estimate.share(same)}


def common_scale(several: ByCount, seed_sweep: Heads, *size: float) -> Records:
    """gamma by head count, its standard deviation over mean in the pairs of the seed sweep (Key Finding 4), and the gamma of the paper's limit of mu."""
    values: Records = {
        "fig2.8/text/gammas": [float(h.settled(h.gamma).mean()) for h in several.values()],
        "scale/printed_gamma": manifold_gamma(paper_limits()[1], *size),
    }
    gammas = seed_sweep.gamma[-1][~circuits.one_sided(seed_sweep.omega[-1], seed_sweep.mu[-1])]
    if len(gammas):  # else nothing to measure
        values["kf4/gamma_cv"] = Estimate.of(variation, gammas, jackknife)
    return values


def one_sided_form(seed_sweep: Results, ends: ByCount) -> Records:
    """Sizes of the antisymmetric part (``skew``) and of the traceless symmetric part (``symmetric``) of KQ's top block, over that of omega I: medians over the
    heads of runs of the seed sweep that end with heads of one sign. ``skew_of_pairs``: the antisymmetric part in the other runs."""
    parts: dict[str, list[float]] = {"skew": [], "symmetric": [], "skew_of_pairs": []}
    for n, h in ends.items():
        block = seed_sweep[f"h{n}/kq"][-1, ..., :-1, :-1].astype(float)  # (R, H, d, d)
        d, turned = block.shape[-1], block.swapaxes(-1, -2)
        scaled = np.trace(block, axis1=-2, axis2=-1)[..., None, None] / d * np.eye(d)  # omega I
        norm = np.linalg.norm(scaled, axis=(-2, -1))
        skew = np.linalg.norm((block - turned) / 2, axis=(-2, -1)) / norm  # (R, H)
        symmetric = np.linalg.norm((block + turned) / 2 - scaled, axis=(-2, -1)) / norm
        alone = circuits.one_sided(h.omega[-1], h.mu[-1])
        for name, of in (("skew", skew[alone]), ("symmetric", symmetric[alone]), ("skew_of_pairs", skew[~alone])):
            parts[name].extend(of.ravel())
    # no such run, as in short trainings: 0
    return {f"onesided/{k}": Estimate(float(np.median(v or [0])), median_error(v or [0])) for k, v in parts.items()}


def eight_heads(eight: Heads, four: Heads, two: Heads) -> Records:
    """Eight heads of one seed, taken to vary as runs of four do: whether their abs(omega) is homogeneous, and how it compares with a pair's gamma."""
    ends, gamma = [(h.settled(h.omega), h.settled(h.mu)) for h in (eight, four)], two.settled(two.gamma).mean()
    spreads = [circuits.weighted_spread(*of) for of in ends]  # (1,), (R,)
    spikes = [np.abs(omega).max(-1) / gamma for omega, _ in ends]
    every = {"weighted_spread": spreads, "spike": spikes}
    return {f"eight/{name}": Estimate(float(own[0]), run_sd(others)) for name, (own, others) in every.items()}


@by_reading("scale")
def scales(h: Heads) -> Records:
    """Where two heads settle, run by run, and the mean of gamma."""
    gammas = h.settled(h.gamma)
    return {"gammas": gammas, "mus": h.settled(h.positive_mu), "gamma": Estimate.runs(gammas)}


# -- drawing ------------------------------------------------------------------------------------------------------------


def legend_below(fig: Figure, *axes: Axes) -> None:
    """One legend under the panels, where it hides no data."""
    handles = {label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8)


def paper_limits() -> tuple[float, float]:
    """The limits of gamma and of the sum of positive mu, as the paper prints them."""
    says = printed("he2025")
    return says["fig2.8/gamma"], says["fig2.8/mu"]


def plot_dynamics(rows: Mapping[str, Heads]) -> Figure:
    """Figure 2.3: omega and mu of all heads against the step (log scale), a line per head and seed, a row per reading; the paper's values are dashed."""
    fig, axes = style.figure(2, len(rows), height=2.1 * len(rows) + 0.3, squeeze=False, sharex="col")
    says = paper_limits()
    for row, (name, h) in zip(axes, rows.items(), strict=True):
        alone = circuits.one_sided(h.omega[-1], h.mu[-1])  # (R,)
        for ax, values, symbol, limit in zip(row, (h.omega, h.mu), ("ω", "μ"), says, strict=True):
            for at, kind in np.ndenumerate(kinds(h)):
                look = {"color": style.COLOURS[kind], "lw": 1.1, "alpha": 0.8, "ls": ":" if alone[at[0]] else "-"}
                label = f"{kind} head, seed of one sign" if alone[at[0]] else f"{kind} head"
                ax.plot(h.steps[1:], values[1:, *at], label=label, **look)
            for sign in (1, -1):
                style.paper_line(ax, sign * limit, None)
            ax.set(xscale="log", ylabel=symbol, title=f"{symbol} of each head, {name}")
    ax.lines[-1].set_label(f"paper: {says[0]:g} and {says[1]:g}")
    legend_below(fig, *axes.ravel())
    for ax in axes[-1]:
        ax.set_xlabel("step")
    return fig


def kinds(h: Heads) -> np.ndarray:
    """``(R, H)`` what every head ends as: positive, negative or a dummy."""
    return np.where(h.active, np.where(h.omega[-1] < 0, "negative", "positive"), "dummy")


def plot_splits(by_h: ByCount) -> Figure:
    """Key Finding 2, a place for each seed: omega of its heads where they settle, and their mu stacked on each other, those of either sign on its own side."""
    fig, (left, right) = style.figure(2, height=2.7)
    start, middles = 0, []
    for h in by_h.values():
        omega, mu = h.settled(h.omega), h.settled(h.mu)  # (R, H)
        places, of = start + np.arange(len(omega)), kinds(h)
        for kind in ("positive", "negative", "dummy"):
            runs, _ = np.nonzero(of == kind)
            look = {"color": style.COLOURS[kind], "alpha": 0.75, "ms": 5, "label": None if start else f"{kind} head"}
            left.plot(places[runs], omega[of == kind], "o", **look)
        for sign, kind in ((1, "positive"), (-1, "negative")):
            parts = sign * np.sort(np.maximum(sign * mu, 0), axis=1)[:, ::-1]  # (R, H), the largest first
            for below, part in zip(parts.cumsum(1).T - parts.T, parts.T, strict=True):
                right.bar(places, part, 0.8, bottom=below, color=style.COLOURS[kind], ec=style.GROUND, lw=1.2)
        middles.append(places.mean())
        start = places[-1] + 2
    for ax, limit in zip((left, right), paper_limits(), strict=True):
        for sign in (1, -1):
            style.paper_line(ax, sign * limit, None)
        ax.set_xticks(middles, [f"H = {n}" for n in by_h])
        ax.set_xlabel("a column for each seed")
        ax.grid(axis="x", visible=False)
    left.set_ylabel("ω of each head")
    right.set_ylabel("μ of the heads, stacked")
    ax.lines[-1].set_label("paper: {:g} and {:g}".format(*paper_limits()))
    legend_below(fig, left, ax)
    return fig


def plot_trajectories(
    trajectories: Iterable[tuple[str, Heads, dict]], height: float, gamma: str = "γ", middle: Callable = np.mean
) -> tuple[Figure, np.ndarray]:
    """gamma and the sum of positive mu against the step, a panel each, with the paper's limits: the ``middle`` of the seeds."""
    fig, axes = style.figure(2, height=height)
    for name, h, look in trajectories:
        for ax, values in zip(axes, (h.gamma, h.positive_mu), strict=True):
            ax.plot(h.steps[1:], middle(values[1:], axis=1), label=name, **look)
    for ax, limit, label in zip(axes, paper_limits(), (gamma, "sum of positive μ"), strict=True):
        style.paper_line(ax, limit, None)
        ax.set(xscale="log", xlabel="step", ylabel=label)
    return fig, axes


def plot_limits(text: ByCount, code: ByCount) -> Figure:
    """Figure 2.8: gamma and the sum of positive mu against the step by head count and reading, means over seeds."""
    looks = ((text, "", {}), (code, ", as coded", {"ls": "--", "lw": 1.1}))
    trajectories = [
        (f"H = {n}{end}", of[n], {"color": style.COLOURS[n]} | look) for n in text for of, end, look in looks
    ]
    fig, axes = plot_trajectories(trajectories, 3.3, "γ (weighted mean of |ω|)")
    for n, height in zip(text, (0.49, 0.44, 0.39), strict=False):
        axes[0].text(8e3, height, f"H = {n}", color=style.COLOURS[n], fontsize=9)
    last = text[2].steps[-1]
    for ax, limit, (up, side) in zip(axes, paper_limits(), ((3, "bottom"), (-3, "top")), strict=True):
        look = {"color": style.COLOURS["paper"], "fontsize": 8, "va": side, "xycoords": ("axes fraction", "data")}
        ax.annotate(f"paper: {limit:g}", (0, limit), (3, up), textcoords="offset points", **look)
        ax.set_xlim(right=last)
        ends = (line.get_ydata()[-1] for line in ax.lines[:2])  # of two heads
        for name, end, up in zip(("as printed", "as coded"), ends, (6, -6) if ax is axes[0] else (0, 0), strict=True):
            place = {"xytext": (4, up), "textcoords": "offset points", "va": "center"}
            ax.annotate(name, (1, end), xycoords=("axes fraction", "data"), fontsize=8.5, **place)
    return fig
