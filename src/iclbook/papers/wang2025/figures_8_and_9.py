"""Figures 8 and 9, the quadrants of appendix F: GD against Trained TF with five kernels, and their maps over the square."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from ...claims import printed
from ...drawing import style
from ...models.functional_gd import FunctionalGD
from ...models.kernels import KERNELS
from ...models.trained_tf import TrainedStep
from ...statistics import Estimate, jackknife
from ...tasks.categorical import Quadrants
from .bounds import quadrant_bound
from .contexts import FIRST, TEST, UnitContexts, numbers, sample_contexts, stopped, stopped_parameters
from .figure_9_data import PublishedQuadrants, figure_9_context
from .figures_3_to_5 import Get
from .studies import SIZES

#: Points along each side of the maps.
GRID = 41
NAMES = {"rbf": "RBF", "softmax": "softmax", "laplacian": "Laplacian", "exponential": "exponential", "linear": "linear"}
CURVED = tuple(k for k in KERNELS if k != "linear")
#: Starts "overlap" where their accuracies lie within this.
OVERLAP = 0.031
#: Kinds of model, which are groups of each study.
KINDS = ("gd", "tf")


def ending(study: str, kernel: str) -> str:
    """What follows ``gd`` or ``tf`` in the name of a kernel's group: nothing where a study has one kernel."""
    return "" if study.startswith(("square_", "published_map")) else f"-{kernel}"


def trained(get: Get, study: str, kernel: str, kind: str) -> list[FunctionalGD | TrainedStep]:
    """The trained model of each start at its best validation record."""
    stored = stopped_parameters(get(study), kind + ending(study, kernel))
    return [model_of_run(kernel, dict(zip(stored, run, strict=True))) for run in zip(*stored.values(), strict=True)]


#: Of each kind of model and kernel: answers ``(R, C, n)``, or scores ``(R, n)``.
ByModel = dict[tuple[str, str], np.ndarray]


@torch.no_grad()
def answers(get: Get, contexts: UnitContexts, n: int, study: str = "square_{}") -> tuple[ByModel, np.ndarray]:
    """Probabilities for the queries of ``n`` test contexts by the models of a study, or of one for each kernel; the categories ``(n,)`` drawn."""
    batch = sample_contexts(contexts.task, n, contexts.seed + TEST)
    context, query = batch.context.double(), batch.query.double()
    models = {(kind, k): trained(get, study.format(k), k, kind) for k in KERNELS for kind in KINDS}
    found = {
        which: np.stack([torch.softmax(model(context, query), 0).numpy() for model in each])
        for which, each in models.items()
    }
    return found, batch.target[0].long().numpy()


def near(get: Get, group: str = "tf") -> np.ndarray:
    """``(R,)``: which starts of Trained TF with linear attention end within :data:`OVERLAP` of GD's mean accuracy; the others stay on a plateau."""
    gd, tf = (stopped(get("square_linear").group(each), "accuracy_test") for each in ("gd", group))
    return np.abs(tf - gd.mean()) <= OVERLAP


def softmax_wider(get: Get) -> Estimate:
    """Logarithm of the spread of Trained TF's starts with softmax over that with the other kernels ``(3,)``, with jackknife errors over starts."""
    curves = {k: get(f"square_{k}").group("tf")["accuracy_test"].T.astype(float) for k in CURVED}  # (R, T)

    def logs(starts: np.ndarray) -> np.ndarray:
        spread = {k: each[starts].std(0, ddof=1).mean() for k, each in curves.items()}
        return np.log([spread["softmax"] / spread[k] for k in CURVED if k != "softmax"])

    every = np.arange(len(curves["softmax"]))
    return Estimate(logs(every), np.array([jackknife(lambda s, i=i: logs(s)[i], every) for i in range(3)]))


def scores(found: ByModel, target: np.ndarray) -> dict[str, ByModel]:
    """Hits, and NLLs in nats, of :func:`answers`."""
    return {
        "": {key: (p.argmax(1) == target).astype(float) for key, p in found.items()},
        "nll_": {key: -np.log(p[:, target, np.arange(len(target))]) for key, p in found.items()},
    }


def gaps_of(found: ByModel, target: np.ndarray) -> dict[str, list[Estimate]]:
    """GD less Trained TF in accuracy and in NLL for each of :data:`CURVED`, over starts and contexts, which are paired."""
    both = scores(found, target).items()
    return {name: [Estimate.crossed(score["gd", k] - score["tf", k]) for k in CURVED] for name, score in both}


def over_draws(get: Get, profile: str, n: int) -> dict[str, Any]:
    """Figure 8 in shorter trainings on the authors' W_e and on draws of everything (errors of the draws' means); the kernels' answers on all of them."""
    N, units = SIZES[profile].quad_N, range(SIZES[profile].units)
    theirs = answers(get, UnitContexts(PublishedQuadrants(N=N, source="training")), n, "published_quadrants")
    ours = [answers(get, UnitContexts(Quadrants(N=N, embed_seed=FIRST + u), unit=u), n, f"quadrants{u}") for u in units]
    values: dict[str, Any] = own_kernel([each for each, _ in (theirs, *ours)])
    gaps = [gaps_of(*each) for each in ours]
    for name, each in gaps_of(*theirs).items():
        values[f"fig8/authors_{name}gaps"] = abs(Estimate.stack(each))
        drawn = np.array([Estimate.stack(one[name]).value for one in gaps]).T  # (kernels, draws)
        values[f"fig8/draws_{name}gaps"] = abs(Estimate.stack(map(Estimate.runs, drawn)))
    return values


def figure_8(get: Get, found: ByModel, target: np.ndarray) -> dict[str, Any]:
    """What decides figure 8, from :func:`answers`. Control: Trained TF with softmax attention beside GD with linear attention. Trained TF with linear attention ends
    in two ways: the share of starts near GD, and how far the NLLs of those starts and of the others are from GD's."""
    hits, nll = scores(found, target).values()
    runs = {key: each.mean(1) for key, each in hits.items()}
    least = min(("rbf", "softmax", "laplacian"), key=lambda k: runs["gd", k].mean())
    exponential, linear = hits["gd", "exponential"], hits["gd", "linear"]
    left, every = near(get), np.concatenate([near(get), near(get, "more")])
    compared = left if left.sum() > 1 else np.ones_like(left)  # all starts where too few end near GD
    gd, tf = nll["gd", "linear"], nll["tf", "linear"]
    values: dict[str, Any] = {
        "fig8/gd": [float(runs["gd", k].mean()) for k in CURVED],
        "fig8/tf": [float(runs["tf", k].mean()) for k in CURVED],
        "fig8/linear": float(linear.mean()),
        "fig8/linear_tf": float(runs["tf", "linear"].mean()),
        "fig8/overlap": int(sum(np.ptp(runs[kind, k]) <= OVERLAP for k in CURVED for kind in KINDS)),
        "fig8/softmax_wider": softmax_wider(get),
        "fig8/exponential_behind": Estimate.crossed(hits["gd", least] - exponential),
        "fig8/linear_behind": Estimate.crossed(exponential - linear),
        "fig8/linear_share": Estimate.share(int(every.sum()), len(every)),
        "fig8/linear_starts": len(every),
        "fig8/linear_nll_gap": abs(Estimate.crossed(gd[compared] - tf[compared])),
        "fig8/stuck_nll_gap": 0.0 if left.all() else abs(float((gd - tf)[~left].mean())),
        "fig8/authors_bounds": [
            quadrant_bound(PublishedQuadrants(source=each).embedding) for each in ("training", "map")
        ],
        "fig8/bound": quadrant_bound(Quadrants().embedding),
        "fig8/seeds": len(linear),
    }
    for (name, gaps), score in zip(gaps_of(found, target).items(), (hits, nll), strict=True):
        values[f"fig8/{name}gaps"] = abs(Estimate.stack(gaps))
        values[f"fig8/control_{name}gap"] = abs(Estimate.crossed(score["gd", "linear"] - score["tf", "softmax"])).value
    return values


def grid() -> Tensor:
    """Points of the square ``(GRID^2, 2)``, the first covariate runs faster. The middle is 0 exactly, which ``linspace`` misses on some processors."""
    half = GRID // 2
    side = torch.arange(-half, half + 1, dtype=torch.float64) / half
    return torch.cartesian_prod(side, side).flip(-1)  # the first covariate runs faster


def model_of_run(kernel: str, parameters: Mapping[str, np.ndarray]) -> FunctionalGD | TrainedStep:
    """The model of one run, float64, with its stored parameters: Trained TF where a ``W_Q`` is among them."""
    width, n_classes = parameters["embed"].shape
    if "W_Q" in parameters:
        model = TrainedStep(len(parameters["W_Q"]) - 2 * width, n_classes, width, kernel).double()
    else:
        model = FunctionalGD(n_classes, width, len(parameters["rate"]), kernel, vector_rate=True).double()
    model.load_state_dict({name: torch.from_numpy(np.asarray(value)) for name, value in parameters.items()})
    return model


def over_points(model: FunctionalGD | TrainedStep, tokens: Tensor, points: Tensor) -> Tensor:
    """Probabilities ``(C, P)`` for queries ``points (P, d)`` that share the context ``tokens (N, d + 1)``."""
    with torch.no_grad():
        return torch.softmax(model(tokens[..., None].expand(-1, -1, len(points)), points.T), dim=0)


class Maps(NamedTuple):
    """Probabilities over the square for one context."""

    gd: np.ndarray  # run by run, (R, C, GRID, GRID)
    tf: np.ndarray
    truth: np.ndarray  # by the data's law, (C, GRID, GRID)
    tokens: np.ndarray  # the context, (N, 3)
    shown: list[int]  # three categories, the most probable ones of the quadrants


def maps_of(
    models: Sequence[list[FunctionalGD | TrainedStep]], task: Quadrants, tokens: Tensor, chosen: Tensor
) -> Maps:
    """Maps of GD's and Trained TF's models for one context, tokens ``(N, d + 1)``, whose quadrants have categories ``chosen (4,)``."""
    w, points = task.embedding.double(), grid()
    tops = (w.T @ w)[chosen].argmax(-1)  # which category is most probable where f = w_c
    runs = (torch.stack([over_points(model, tokens, points) for model in each]) for each in models)
    f = task.latent(points[..., None], points, chosen[:, None])[..., 0].double()  # (P, d')
    truth = torch.softmax(w.T @ f.T, dim=0)
    gd, tf, truth = (p.unflatten(-1, (GRID, GRID)).numpy() for p in (*runs, truth))
    return Maps(gd, tf, truth, tokens.numpy(), list(dict.fromkeys(tops.tolist()))[:3])


def maps(get: Get, profile: str, kernel: str, contexts: int) -> list[Maps]:
    """Figure 9 for the first contexts of ours whose quadrants have three different most probable categories or more."""
    task = Quadrants(N=SIZES[profile].quad_N)
    w, drawn = task.embedding.double(), sample_contexts(task, 64, 21).context.double()
    chosen = task.chosen(numbers(task, 0, 21)[1])[:, :64]  # categories of the quadrants (4, 64)
    tops = (w.T @ w)[chosen].argmax(-1)  # (4, 64)
    models = [trained(get, f"square_{kernel}", kernel, kind) for kind in KINDS]
    several = [b for b in range(64) if len(tops[:, b].unique()) >= 3][:contexts]
    return [maps_of(models, task, drawn[..., b], chosen[:, b]) for b in several]


def figure_9(get: Get, profile: str, contexts: int) -> tuple[Maps, dict[str, Any]]:
    """Figure 9: the maps of GD and Trained TF with RBF attention on the authors' own context, and how far they are apart. On contexts of ours: their mean
    absolute difference as a share of the control's, and their correlation, means over contexts of means over runs; control: GD with linear attention in GD's
    place. Values: the difference itself, that of GD's next start, and the share of the square where the most probable category is the right one."""
    authors = maps_of(
        [trained(get, "published_map", "rbf", kind) for kind in KINDS], PublishedQuadrants(), *figure_9_context()
    )
    apart, alike = compared(authors.gd, authors.tf, authors.shown)  # (R,) each
    found, flat = (maps(get, profile, kernel, contexts) for kernel in ("rbf", "linear"))
    own = np.array([compared(m.gd, m.tf, m.shown) for m in found]).mean(-1)  # (contexts, 2)
    control = np.array([compared(o.gd, m.tf, m.shown) for m, o in zip(found, flat, strict=True)]).mean(-1)
    seeds = np.array([compared(m.gd, np.roll(m.gd, 1, axis=0), m.shown) for m in found]).mean(-1)
    values: dict[str, Any] = {
        "fig9/authors_context": authors.shown == printed("wang2025")["fig9/categories"],
        "fig9/authors_difference": Estimate.runs(apart),
        "fig9/authors_correlation": Estimate.runs(alike),
        "fig9/contexts": len(found),
        "fig9/share": Estimate.ratio(own[:, 0], control[:, 0]),
        "fig9/difference": Estimate.runs(own[:, 0]),
        "fig9/control_difference": float(control[:, 0].mean()),
        "fig9/seeds_difference": float(seeds[:, 0].mean()),
        "fig9/correlation": Estimate.runs(own[:, 1]),
        "fig9/control_correlation": float(control[:, 1].mean()),
    }
    for kind in KINDS:
        right = [float((getattr(m, kind).argmax(1) == m.truth.argmax(0)).mean()) for m in found]
        values[f"fig9/right_{kind}"] = float(np.mean(right))
    return authors, values


def compared(a: np.ndarray, b: np.ndarray, shown: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Mean absolute difference and correlation of two maps of the categories shown, run by run: ``(R,)`` each, from ``(R, C, GRID, GRID)``."""
    a, b = (runs[:, shown].reshape(len(runs), -1) for runs in (a, b))
    return np.abs(a - b).mean(1), np.array([np.corrcoef(*pair)[0, 1] for pair in zip(a, b, strict=True)])


def own_kernel(units: Sequence[ByModel]) -> dict[str, Any]:
    """Total variation distance of Trained TF's answers from GD's with the same kernel and with the nearest other, means over draws of W_e."""

    def far(k: str, j: str) -> np.ndarray:  # (draws,)
        return np.array([np.abs(one["tf", k] - one["gd", j]).sum(1).mean() / 2 for one in units])

    apart = {(k, j): far(k, j) for k in KERNELS for j in KERNELS}
    nearest = {k: min((apart[k, j] for j in KERNELS if j != k), key=np.mean) for k in KERNELS}
    return {
        "q-own-kernel/draws_own": [float(apart[k, k].mean()) for k in KERNELS],
        "q-own-kernel/draws_own_se": [Estimate.runs(apart[k, k] - nearest[k]).error for k in KERNELS],
        "q-own-kernel/draws_nearest": [float(nearest[k].mean()) for k in KERNELS],
    }


def plot_training(get: Get, bound: float) -> Figure:
    """Figure 8 (and linear attention): test accuracy against learning steps, every start and their mean; shaded: above the printed bound."""
    fig, axes = style.figure(3, 2, height=4.1, sharey=True)
    axes[1, 2].remove()
    for ax, kernel in zip(axes.flat, KERNELS, strict=False):
        looks = zip(KINDS, style.PALETTE, ("GD", "Trained TF"), (0.16, 0.05), strict=False)
        for group, colour, label, height in looks:
            arrays = get(f"square_{kernel}").group(group)
            steps, accuracy = arrays["steps"], arrays["accuracy_test"]
            split = kernel == "linear" and group == "tf"  # whose starts end in two ways
            ax.plot(steps, accuracy, color=colour, **({"lw": 1.1, "zorder": 3} if split else {"lw": 0.6, "alpha": 0.5}))
            ax.plot(steps, accuracy.mean(1), color=colour, lw=2, label=label)
            end, look = f"end: {accuracy[-1].mean():.2f}", {"color": colour, "ha": "right", "fontsize": 8}
            ax.annotate(end, (0.97, height), xycoords="axes fraction", **look)
        if kernel == "linear":
            there = near(get)
            ax.annotate(f"reach GD: {there.sum()} of {len(there)}", (0.97, 0.27), xycoords="axes fraction", **look)
        ax.axhline(bound, color=style.COLOURS["theory"], ls=":", lw=1.3, label="best possible")
        says, top = printed("wang2025")["section6/bound"], 0.68
        ax.axhspan(says, top, color=style.COLOURS["paper"], alpha=0.15, lw=0, label="above the paper's bound")
        ax.set(title=NAMES[kernel], ylim=(0, top), xlabel="learning steps")
        ax.set_xticks([0, steps[-1] // 2, steps[-1]], ["0", f"{steps[-1] // 2:,}", f"{steps[-1]:,}"])
    for row in axes:
        row[0].set_ylabel("test accuracy")
    handles = {label: h for h, label in zip(*axes[0, 0].get_legend_handles_labels(), strict=True)}
    fig.legend(handles.values(), handles, loc="outside upper center", ncols=4, fontsize=8)
    return fig


def over_square(ax: Axes, p: np.ndarray, ticks: Sequence[float] = ()) -> AxesImage:
    """Probabilities ``(GRID, GRID)`` over the square, and the borders of its quadrants."""
    image = ax.imshow(p, origin="lower", extent=(-1, 1, -1, 1), cmap=style.SEQUENTIAL, vmin=0, vmax=1)
    ax.axhline(0, color="white", lw=0.5)
    ax.axvline(0, color="white", lw=0.5)
    ax.set(xticks=ticks, yticks=ticks)
    ax.grid(False)
    return image


def plot_maps(m: Maps) -> Figure:
    """Figure 9: rows the data's law, GD and Trained TF; columns three categories; dots: the examples of the column's category."""
    rows = {"truth": m.truth, "GD": m.gd.mean(0), "Trained TF": m.tf.mean(0)}
    fig, axes = style.figure(3, 3, width=6.2, height=5.4)
    for row, (name, p) in zip(axes, rows.items(), strict=True):
        for ax, category in zip(row, m.shown, strict=True):
            image = over_square(ax, p[category])
            own = m.tokens[:, 2] == category
            ax.plot(*m.tokens[own, :2].T, "o", ms=2, color="white", mec=style.INK, mew=0.4)
            axes[0, m.shown.index(category)].set_title(f"c = {category}")
        row[0].set_ylabel(name)
        row[-1].yaxis.set_label_position("right")
        row[-1].set_ylabel("$x_2$", rotation=0, va="center", labelpad=7)
    for ax in axes[-1]:
        ax.set_xlabel("$x_1$")
    fig.colorbar(image, ax=axes, shrink=0.7, ticks=(0, 0.5, 1), label="p(Y = c | x)")
    return fig
