"""What trained circuits look like: Figures 1, 2.1-2.3, 2.6 and 2.8, and Key Findings 1, 2 and 4 of He et al. (2025)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ...claims import printed
from ...draw import torch_rng
from ...drawing import style
from ...drawing.figure_data import Table
from ...models import Attention
from ...sliders import Slider, show
from ...statistics import Estimate, jackknife, prediction
from ...store import Results
from ...training.study import Study
from . import circuits
from .circuits import Heads, Records, each_run, largest_ratio, median_error, spread
from .loss import manifold_gamma
from .runs import PAPER_HEADS

#: Heads by number of heads.
ByCount = Mapping[int, Heads]


def run_records(results: Results, study: Study, text: ByCount, code: ByCount) -> Records:
    """What the isotropic runs are, and how many of several heads end with heads of both signs, by reading."""
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


@dataclass(frozen=True)
class Example:
    """An untrained two-head model on random prompts.

    Attributes:
        kq, ov: ``(H, D, D)`` circuits, all rows of OV among them.
        context: ``(L, D, B)`` tokens.
        query: ``(d, B)``.
    """

    kq: Tensor
    ov: Tensor
    context: Tensor
    query: Tensor

    @property
    def query_token(self) -> Tensor:
        """``(D, B)``, its response 0."""
        return torch.cat([self.query, torch.zeros_like(self.query[:1])])

    def predict(self, kq: Tensor, ov: Tensor) -> Tensor:
        """The paper's matrix form with all of KQ and OV ``(B,)``: every output of the query's column, of which the last is read."""
        weights = torch.softmax(torch.einsum("ldb,hde,eb->hlb", self.context, kq, self.query_token), 1)
        return torch.einsum("hde,leb,hlb->db", ov, self.context, weights)[-1]

    def change(self, kq_columns: slice, ov_rows: slice, rng: torch.Generator) -> float:
        """Largest change of a prediction when these columns of KQ and rows of OV are drawn anew."""
        kq, ov = self.kq.clone(), self.ov.clone()
        for circuit, at in ((kq, (slice(None), slice(None), kq_columns)), (ov, (slice(None), ov_rows))):
            circuit[at] = torch.randn(circuit[at].shape, generator=rng, dtype=circuit.dtype)
        return (self.predict(kq, ov) - self.predict(self.kq, self.ov)).abs().max().item()


def example(d: int, L: int, rng: torch.Generator, prompts: int = 256) -> Example:
    """Two heads as PyTorch initialises them."""
    model = Attention(d, n_heads=2)
    model.initialise(torch_rng(0))
    context = torch.randn(L, d + 1, prompts, generator=rng).double()
    query = torch.randn(d, prompts, generator=rng).double()
    ov = (model.output @ model.value).detach().double()
    return Example(model.circuits()["kq"].detach().double(), ov, context, query)


def effective_entries(example: Example, rng: torch.Generator) -> Records:
    """Figure 1: change of the prediction when the starred entries are drawn anew, and when the others are."""
    d = len(example.query)
    return {
        "fig1/ineffective_change": example.change(slice(d, None), slice(0, d), rng),
        "fig1/effective_change": example.change(slice(0, d), slice(d, None), rng),
    }


# -- one and two heads: Figures 2.1, 2.2, 2.3, 2.6 ----------------------------------------------------------------------


def _by_reading(figure: str, readings: Mapping[str, Heads], of) -> Records:
    """``figure/READING/NAME`` of every reading of the score scale, from ``of(heads) -> {NAME: value}``."""
    found = {reading: of(heads) for reading, heads in readings.items()}
    return {f"{figure}/{reading}/{name}": v for reading, own in found.items() for name, v in own.items()}


def one_head(readings: Mapping[str, Heads]) -> Records:
    """Figure 2.1, a value per run."""

    def values(h: Heads) -> Records:
        names = {"kq_deviation": h.kq_deviation, "ov_deviation": h.ov_deviation, "omega_mu": h.omega * h.mu}
        return {name: each_run(h.settled(value)[:, 0]) for name, value in names.items()}

    return _by_reading("fig2.1", readings, values)


def two_heads(readings: Mapping[str, Heads]) -> Records:
    """Figure 2.2, a value per run (and head)."""

    def values(h: Heads) -> Records:
        omega, mu = h.settled(h.omega), h.settled(h.mu)
        return {
            "omega_product": each_run(omega.prod(-1)),
            "omega_mu": each_run(omega * mu),
            "omega_spread": each_run(spread(np.abs(omega))),
            "mu_spread": each_run(spread(np.abs(mu))),
        }

    return _by_reading("fig2.2", readings, values)


def asymmetry(h: Heads, values: np.ndarray) -> np.ndarray:
    """Largest ``|sum| / mean | |`` of the heads' values ``(T, R, H)`` after the first tenth of training, ``(R,)``."""
    late = h.steps >= 0.1 * h.steps[-1]
    return (np.abs(values.sum(-1)) / np.abs(values).mean(-1))[late].max(0)


def mirror(readings: Mapping[str, Heads]) -> Records:
    """Figure 2.3: how far the two heads are from mirror images along training."""
    return _by_reading(
        "fig2.3",
        readings,
        lambda h: {f"{name}_asymmetry": each_run(asymmetry(h, getattr(h, name))) for name in ("omega", "mu")},
    )


def pattern_share(h: Heads) -> np.ndarray:
    """Share of training after which both patterns are kept to the end ``(R,)``; 1 where they never are."""
    first = circuits.first_kept(h.steps, h.patterned(0.2))  # (R,), twice the final bound: single iterates
    return np.nan_to_num(first, nan=h.steps[-1]) / h.steps[-1]


def early(readings: Mapping[str, Heads]) -> Records:
    """Figure 2.6: when the patterns are there for good."""
    return _by_reading("fig2.6", readings, lambda h: {"pattern_share": pattern_share(h)})


# -- Key Findings 1, 2 and 4, Figure 2.8 -------------------------------------------------------------------------------


def finding_1(readings: Mapping[str, tuple[ByCount, ByCount]]) -> Records:
    """Key Finding 1, every run that ends with heads of both signs: deviations of the circuits summed over the heads of a side, and whether all heads that
    are no dummies at the last record match in sign. By reading: the heads, and those of each side merged."""
    values: Records = {}
    for reading, (by_h, sides) in readings.items():
        for name in ("kq_deviation", "ov_deviation"):
            worst = each_run(*(h.settled(getattr(h, name)).max(-1) for h in sides.values()))
            values |= {f"kf1/{reading}/{name}": worst} if np.size(worst.value) else {}  # else no such run
        matched = [circuits.sign_matched(h.omega[-1], h.mu[-1]) for h in by_h.values()]
        values[f"kf1/{reading}/sign_share"] = float(np.concatenate(matched).mean())
    return values


def finding_2(readings: Mapping[str, ByCount]) -> Records:
    """Key Finding 2, every run that ends with heads of both signs: spread of abs(omega) over the heads that are no dummies at the last record, and
    abs(sum mu) over sum abs(mu) where the run settles."""
    values: Records = {}
    for reading, by_h in readings.items():
        spreads = [circuits.scale_spread(h.omega[-1], h.mu[-1]) for h in by_h.values()]  # each (R,)
        values[f"kf2/{reading}/omega_spread"] = each_run(*spreads)
        sums = [circuits.zero_sum(h.settled(h.mu)) for h in by_h.values()]
        values[f"kf2/{reading}/zero_sum"] = each_run(*sums)
    return values


def peak(h: Heads) -> np.ndarray:
    """Largest gamma along training over the settled one ``(R,)``."""
    return h.gamma.max(0) / h.settled(h.gamma)


def fall(h: Heads) -> np.ndarray:
    """Largest fall of the sum of positive mu below its running maximum, over where it settles.

    Of the runs that end with a positive head; another has no sum that could fall.
    """
    rise, end = h.positive_mu, h.settled(h.positive_mu)
    some = end > 0
    return (np.maximum.accumulate(rise) - rise).max(0)[some] / end[some]


def limits(readings: Mapping[str, ByCount], *size: float) -> Records:
    """Figure 2.8: peak of gamma and fall of the sum of positive mu of every run of several heads, and how far apart their limits are; the gamma whose
    mu_gamma is the paper's limit of mu, for d, L and the noise variance."""
    values: Records = {}
    for reading, by_h in readings.items():
        gamma, mu = ([h.settled(getattr(h, of)) for h in by_h.values()] for of in ("gamma", "positive_mu"))
        own = {
            "peak_over_final": each_run(*(peak(h) for h in by_h.values())),
            "mu_fall": each_run(*(fall(h) for h in by_h.values())),
            "gamma_spread": largest_ratio(gamma) - 1,
            "mu_spread": largest_ratio(mu) - 1,
        }
        values |= {f"fig2.8/{reading}/{name}": value for name, value in own.items()}
    values["scale/printed_gamma"] = manifold_gamma(paper_limits()[1], *size)
    values["fig2.8/text/gammas"] = [float(h.settled(h.gamma).mean()) for h in readings["text"].values()]
    return values


def finding_4(readings: Mapping[str, ByCount], census: Heads) -> Records:
    """Key Finding 4: when the pattern of the sides is there for good, every run that ends with heads of both signs, and how far gamma differs between such
    runs of two heads in the census."""
    values: Records = {}
    for reading, sides in readings.items():
        shares = each_run(*(pattern_share(h) for h in sides.values()))
        values |= {f"kf4/{reading}/pattern_share": shares} if np.size(shares.value) else {}
    gammas = census.gamma[-1][~circuits.one_sided(census.omega[-1], census.mu[-1])]
    if len(gammas):  # else nothing to measure
        values["kf4/gamma_cv"] = Estimate(
            float(gammas.std() / gammas.mean()), jackknife(lambda g: float(g.std() / g.mean()), gammas)
        )
    return values


def one_sided_form(census: Results, ends: ByCount) -> Records:
    """Runs of the census that end with heads of one sign: the norms of the antisymmetric part of KQ's top block and of the symmetric part that is traceless,
    over that of omega I, medians over the heads; beside the antisymmetric part in the other runs."""
    parts: dict[str, list[np.ndarray]] = {"skew": [], "symmetric": [], "skew_of_pairs": []}
    for n, h in ends.items():
        block = census[f"h{n}/kq"][-1].astype(float)  # (R, H, D, D)
        d = block.shape[-1] - 1
        block, turned = block[..., :d, :d], block[..., :d, :d].swapaxes(-1, -2)
        omega = np.trace(block, axis1=-2, axis2=-1)[..., None, None] / d
        norm = np.abs(omega[..., 0, 0]) * np.sqrt(d)
        skew = np.linalg.norm((block - turned) / 2, axis=(-2, -1)) / norm  # (R, H)
        symmetric = np.linalg.norm((block + turned) / 2 - omega * np.eye(d), axis=(-2, -1)) / norm
        alone = circuits.one_sided(h.omega[-1], h.mu[-1])
        for name, of, runs in (("skew", skew, alone), ("symmetric", symmetric, alone), ("skew_of_pairs", skew, ~alone)):
            parts[name].append(of[runs].ravel())
    # no such run, as in short trainings: 0
    joined = {name: np.concatenate(of) if any(map(len, of)) else np.zeros(1) for name, of in parts.items()}
    return {f"onesided/{name}": Estimate(float(np.median(v)), median_error(v)) for name, v in joined.items()}


def settled_table(h: Heads) -> Table:
    """omega and mu of every head where training leaves them, a column a head; first run."""
    values = {"ω": h.settled(h.omega)[0], "μ": h.settled(h.mu)[0]}
    rows = [{"": name, **{str(k): f"{v:z.2f}" for k, v in enumerate(of, 1)}} for name, of in values.items()]
    columns = {key: f"head {key}" if key else "quantity" for key in rows[0]}
    return Table(rows, columns, f"Where each of {len(values['ω'])} heads settles")


def eight_heads(eight: Heads, two: Heads) -> Records:
    """Eight heads of one seed: whether their abs(omega) is homogeneous, and how it compares with a pair's gamma."""
    omega, mu = eight.settled(eight.omega)[0], eight.settled(eight.mu)[0]  # (8,)
    return {
        "eight/omega_spread": float(circuits.scale_spread(omega, mu)),
        "eight/spike": float(np.abs(omega).max() / two.settled(two.gamma).mean()),
    }


def scales(readings: Mapping[str, Heads]) -> Records:
    """Where two heads settle under either reading of the scores, a value per run; their mean, and how far from it one printed run is expected."""

    def half(runs: np.ndarray, rounding: float) -> float:
        """Half of the prediction interval of one more run, and half a unit of the last printed digit."""
        return (prediction(runs, of=1).high - float(runs.mean()) if len(runs) > 1 else 0.0) + rounding

    def values(h: Heads) -> Records:
        found: Records = {}
        for name, runs, rounding in (("gamma", h.settled(h.gamma), 0.005), ("mu", h.settled(h.positive_mu), 0.05)):
            found |= {f"{name}s": runs, name: float(runs.mean()), f"{name}_half": half(runs, rounding)}
        return found

    return _by_reading("scale", readings, values)


# -- drawing ------------------------------------------------------------------------------------------------------------

Group = Mapping[str, np.ndarray]


def matrices(group: Group, record: int, run: int, scale: float = 1.0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Effective parts of all heads at one record: KQ's first d columns ``(D, d)`` and the read-out rows of OV ``(N, D)``."""
    kq, ov = scale * group["kq"][record, run], group["ov"][record, run]
    d = kq.shape[-1] - ov.shape[-2]
    return [m[:, :d] for m in kq], list(ov)


def plot_circuits(group: Group, run: int, record: int = -1, columns: int | None = None) -> Figure:
    """All heads of one run: KQ above, OV below, one colour scale a row."""
    kq, ov = matrices(group, record, run)
    titles = [f"head {h + 1}" for h in range(len(kq))]
    return style.heatmap_grid({"KQ": kq, "OV": ov}, titles, columns=columns or len(kq))[0]


def plot_one_head(readings: Mapping[str, tuple[Group, float]]) -> Figure:
    """Figure 2.1: KQ (score scale included) and OV of the first run of each reading, a group and the factor on its scores; titles say the mean diagonal entry of KQ
    and the last of OV, which carry the colour."""
    fig, axes = style.figure(4, width=style.WIDTH, height=2.3, squeeze=False, width_ratios=[1, 1, 1, 1])
    for i, (name, (group, scale)) in enumerate(readings.items()):
        kq, ov = matrices(group, -1, 0, scale)
        says = (
            rf"KQ, {name}" + "\n" + rf"$\omega$ = {kq[0].diagonal().mean():.2f}",
            "OV\n" + rf"$\mu$ = {ov[0][-1, -1]:.2f}",
        )
        for ax, matrix, title in zip(axes[0, 2 * i : 2 * i + 2], (kq[0], ov[0]), says, strict=True):
            style.heatmap(ax, matrix, title=title)
    return fig


def show_circuits(results: Results, few: bool) -> None:
    """Slider: heat maps by number of heads, at the records nearest to some shares of the training; ``few`` of all, for a short run."""
    counts = [2, 4] if few else list(PAPER_HEADS)
    shares = (0, 1.0) if few else (0, 0.0005, 0.004, 0.03, 0.2, 1.0)
    steps = results["h2/steps"]
    shown = sorted({int(steps[np.argmin(np.abs(steps - share * steps[-1]))]) for share in shares})

    def frame(n_heads: int, step: int) -> Figure:
        group = results.group(f"h{n_heads}")
        return plot_circuits(group, 0, int(np.argmin(np.abs(group["steps"] - step))), columns=max(PAPER_HEADS))

    show(
        frame,
        [Slider("n_heads", "heads H", counts), Slider("step", "step", shown, labels=[f"{s:,}" for s in shown])],
        start={"n_heads": max(counts), "step": shown[len(shown) // 2]},
        title="KQ (first d columns) and OV (last row) along training, scores as printed, first seed",
        description="Try: two heads, and the step from its beginning: a positive and a negative diagonal grow out of noise. With four heads one or two may fade.",
        alt=lambda n_heads, step: f"Heat maps of KQ and OV of {n_heads} heads at training step {step}.",
        of=[results],
    )


def legend_below(fig: Figure, *axes: Axes, ncols: int = 4) -> None:
    """One legend under the panels, where it hides no data."""
    handles = {label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=ncols, fontsize=8)


def paper_limits() -> tuple[float, float]:
    """The limits of gamma and of the sum of positive mu, as the paper prints them."""
    says = printed("he2025")
    return says["fig2.8/gamma"], says["fig2.8/mu"]


def plot_dynamics(rows: Mapping[str, Heads]) -> Figure:
    """omega and mu of all heads against the step (log scale), a line per head and seed, a row per reading; the paper's values are dashed."""
    fig, axes = style.figure(2, len(rows), height=2.35 * len(rows) + 0.3, squeeze=False, sharex="col")
    says = paper_limits()
    for row, (name, h) in zip(axes, rows.items(), strict=True):
        kinds = np.where(h.active, np.where(h.omega[-1] < 0, "negative", "positive"), "dummy")  # (R, H)
        alone = circuits.one_sided(h.omega[-1], h.mu[-1])  # (R,)
        for ax, values, symbol, limit in zip(row, (h.omega, h.mu), ("ω", "μ"), says, strict=True):
            for at, kind in np.ndenumerate(kinds):
                look = {"color": style.COLOURS[kind], "lw": 1.1, "alpha": 0.8, "ls": ":" if alone[at[0]] else "-"}
                label = f"{kind} head, seed of one sign" if alone[at[0]] else f"{kind} head"
                ax.plot(h.steps[1:], values[1:, *at], label=label, **look)
            for sign in (1, -1):
                style.paper_line(ax, sign * limit, None)
            ax.set(xscale="log", ylabel=symbol, title=f"{symbol} of each head, {name}")
    name = f"paper: {says[0]:g} and {says[1]:g}"
    axes[0, 1].plot([], [], color=style.COLOURS["paper"], ls=(0, (5, 3)), lw=1.2, label=name)
    legend_below(fig, *axes.ravel())
    for ax in axes[-1]:
        ax.set_xlabel("step")
    return fig


def plot_limits(text: ByCount, code: ByCount) -> Figure:
    """Figure 2.8: gamma and the sum of positive mu against the step by head count, scores as printed and as coded; mean over seeds, seeds as thin lines."""
    fig, (left, right) = style.figure(2, height=3.3)
    for n in text:
        for h, line, reading in ((text[n], "-", ""), (code[n], "--", ", as coded")):
            for ax, values in ((left, h.gamma), (right, h.positive_mu)):
                ax.plot(h.steps[1:], values[1:], color=style.COLOURS[n], lw=0.6, alpha=0.5, ls=line)
                mean, label = values[1:].mean(1), f"H = {n}{reading}"
                ax.plot(h.steps[1:], mean, color=style.COLOURS[n], label=label, ls=line)
    gamma, mu = paper_limits()
    style.paper_line(left, gamma, f"paper: {gamma:g} and {mu:g}")
    style.paper_line(right, mu, None)
    for ax, label in ((left, "γ (weighted mean of |ω|)"), (right, "sum of positive μ")):
        ax.set(xscale="log", xlabel="step", ylabel=label)
    legend_below(fig, left)
    return fig
