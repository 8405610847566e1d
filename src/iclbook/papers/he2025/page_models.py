"""Models of He et al. (2025) that run in the page: a prompt that trained heads answer, and the flow of the approximate loss."""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import softmax

from ... import theory
from ...draw import numpy_rng
from ...drawing import style
from ...models import attend
from ...sliders import PageModel
from ...store import Results
from ...tasks import LinearRegression
from . import dynamics, loss

#: Where the query of the first picture stands, and how many pairs of a prompt are shown at first.
QUERY, SHOWN = 2.5, 20
Head = dict[str, np.ndarray]
#: Where the flow starts at first, its time, and the ranges of the sliders.
START = {"heads": 2, "scale": 0.03, "gamma": 0.13, "draw": 0, "from": "random"}
TIMES, SCALES, GAMMAS = (0.01, 1e4), (0.001, 0.6), (0.02, 0.6)
DRAWS, MOST_HEADS = 8, 4


def trained_heads(results: Results, group: str) -> list[Head]:
    """The heads of a group's first run that ends with heads of both signs, at its last record; of its first run where there is none."""
    kq, ov = (results[f"{group}/{name}"][-1].astype(float) for name in ("kq", "ov"))  # (R, H, D, D), (R, H, 1, D)
    mu = ov[..., 0, -1]
    run = int(((mu.max(-1) > 0) & (mu.min(-1) < 0)).argmax())
    return effective(kq[run], ov[run])


def effective(kq: np.ndarray, ov: np.ndarray) -> list[Head]:
    """Parts that can matter of circuits ``(H, D, D)`` and ``(H, 1, D)``, by head: ``kq`` ``(D, d)``, the columns that meet a query, and ``ov`` ``(D,)``."""
    return [{"kq": columns[:, :-1], "ov": row} for columns, (row,) in zip(kq, ov, strict=True)]


def answers(heads: list[Head], tokens: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Predictions ``(B,)`` of heads for tokens ``(L, D)`` and queries ``(d, B)``, by the library's own :func:`iclbook.models.attention.attend`."""
    kq, ov = (torch.from_numpy(np.stack([h[name] for h in heads]).astype(float)) for name in ("kq", "ov"))
    context = torch.from_numpy(np.repeat(tokens[..., None], query.shape[1], axis=-1))
    return attend(kq, ov[:, None], context, torch.from_numpy(query))[0].numpy()


def on_line(x: np.ndarray, d: int) -> np.ndarray:
    """Covariates ``(..., d)`` whose first entry is ``x`` and whose others are zero."""
    return np.concatenate([np.asarray(x)[..., None], np.zeros((*np.shape(x), d - 1))], axis=-1)


def pairs_on_line(task: LinearRegression, n: int) -> np.ndarray:
    """A prompt whose covariates lie on one line through the origin: pairs ``(x, y)`` with normal x and y = x + noise, ``(n, 2)``."""
    x, noise = numpy_rng(4).normal(size=(2, n))
    return np.stack([x, x + np.sqrt(task.noise_var) * noise], -1).round(3)


def plot_answers(ax: Axes, task: LinearRegression, pairs: np.ndarray, heads: list[Head]) -> None:
    """The answers of heads to all queries on the line, one gradient step with its best rate, the pairs, and on each a disc: the weight with which its
    response enters the answer at the query."""
    grid, d = np.linspace(-4, 4, 161), task.d
    tokens, queries = np.concatenate([on_line(pairs[:, 0], d), pairs[:, 1:]], axis=-1), on_line(grid, d)
    ax.plot(grid, answers(heads, tokens, queries.T), color=style.INK, label="answer")
    eta = loss.eta_star(d, task.L, task.noise_var)
    step = theory.debiased_gd(eta, tokens[:, :d], pairs[:, 1], queries[:, None])
    ax.plot(grid, np.ravel(step), color=style.COLOURS["gd"], ls="--", lw=1.3, label="one gradient step")
    ax.plot(*pairs.T, ".", color=style.INK, ms=4)
    looks = softmax([tokens @ h["kq"] @ on_line(QUERY, d) for h in heads], -1)  # (H, L)
    weights = [h["ov"][d] for h in heads] @ looks
    colours = [style.COLOURS["positive" if w > 0 else "negative"] for w in weights]
    ax.scatter(*pairs.T, s=60 * np.abs(weights) * len(pairs), c=colours, alpha=0.45, lw=0)
    ax.axvline(QUERY, color=style.COLOURS["dummy"], lw=1, ls=":")
    ax.set(xlim=(-4, 4), ylim=(-3.2, 3.2), xlabel="x")


def prompt(results: Results, task: LinearRegression) -> PageModel:
    """One and two trained heads on a prompt along a line, with as many pairs as in training."""
    heads = {str(h): trained_heads(results, f"h{h}") for h in (1, 2)}
    eta = loss.eta_star(task.d, task.L, task.noise_var)
    data = {"d": task.d, "eta": eta, "noise": task.noise_var, "heads": heads}
    data |= {"pairs": pairs_on_line(task, task.L), "shown": min(SHOWN, task.L), "query": QUERY}

    def still() -> Figure:
        pairs = data["pairs"][: data["shown"]]
        fig, axes = style.figure(2, height=2.9, sharey=True)
        for ax, name, model in zip(axes, ("one head", "two heads"), heads.values(), strict=True):
            plot_answers(ax, task, pairs, model)
            ax.set_title(name)
        axes[0].set_ylabel("y")
        axes[0].legend(fontsize=8, loc="upper left")
        return fig

    alt, title = "The same pairs twice, with the answers to every query", "One head and two, after a short training"
    if results["h1/steps"][-1] >= 100_000:
        alt += ": those of one trained head bend, those of two heads run straight along one step of gradient descent."
        title = "One trained head bends, two run straight"
    description = (
        "One head weighs the pairs most like the query, so its answer flattens at the ends; the second head subtracts the pairs most unlike it. "
        "Disc: weight of a pair's response, orange added, blue subtracted. Try: drag a pair, or the open circle, the query (keys: arrows, page up and down)."
    )
    return PageModel("prompt", data, still, alt, title, description)


def reduced_flow(d: int, L: int, noise_var: float) -> PageModel:
    """Gradient flow of the approximate loss from small random numbers or from a pair, with the solution manifold at gamma."""
    draws = [np.stack(dynamics.sample_initial(1, MOST_HEADS, 1.0, seed=seed))[:, 0] for seed in range(DRAWS)]
    data = {"d": d, "coupling": loss.coupling(d, L, noise_var), "noise": noise_var, "times": TIMES}
    data |= {"scales": SCALES, "gammas": GAMMAS, "draws": draws, "start": START}

    def still() -> Figure:
        times = np.concatenate([[0.0], np.geomspace(*TIMES, 140)])
        omega0, mu0 = START["scale"] * draws[START["draw"]][:, : START["heads"]]
        path = dynamics.flow(omega0, mu0, times, d, L, noise_var)
        gamma, mu = START["gamma"], float(loss.manifold_mu(START["gamma"], d, L, noise_var))
        fig, axes = style.figure(3, height=2.8)
        lowest = float(loss.manifold_loss(gamma, d, L, noise_var))
        panels = ("ω", path.omega, (gamma, -gamma)), ("μ", path.mu, (mu, -mu)), ("loss", path.loss, (lowest,))
        for ax, (name, values, levels) in zip(axes, panels, strict=True):
            for of_head in values[1:, 0].reshape(len(times) - 1, -1).T:
                kind = "theory" if name == "loss" else "positive" if of_head[-1] > 0 else "negative"
                ax.plot(times[1:], of_head, color=style.COLOURS[kind], label=f"{kind} head")
            for level in levels:
                ax.axhline(level, color=style.INK, ls=":", lw=1.2)
            ax.set(xscale="log", xlabel="time (rate × steps)", ylabel=name)
        axes[0].lines[-1].set_label(f"pair at γ = {gamma:g}, best μ")
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
        return fig

    alt = "omega, mu and loss of two heads against time: from a small start they part into a pair of opposite signs, whose omega then falls slowly."
    title = "Gradient flow of the approximate loss from a start of your choice"
    description = (
        "From a small start two heads part into a pair, whose γ then falls ever more slowly while the loss hardly changes. "
        "Dotted: the pair at the chosen γ with its best μ, and its loss; where the flow crosses these lines it has come to that γ. "
        f"Try: start from the pair at γ = {GAMMAS[1]:g}; then at {GAMMAS[0]:g}, where nothing moves in this time."
    )
    return PageModel("reduced_flow", data, still, alt, title, description)
