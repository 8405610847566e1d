"""The GD language model of section 6.3: figure 7 from its tensors, equation 3 with positions as covariates; and where models of English end."""

from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...claims import printed
from ...draw import torch_rng
from ...drawing import style
from ...models import kernels
from ...models.language import KERNELS, GDLanguage, TransformerLanguage, normed
from ...statistics import Estimate
from . import descent
from .construction import off
from .figures_3_to_5 import Get
from .language import MODELS

#: Of the checks: tokens, places, width, heads.
V, S, WIDTH, HEADS = 13, 9, 8, 3
#: Weights of the checks: large enough for attention to be far from uniform.
SCALE = 20.0
#: Rows of figure 14; the first four are those of table 3.
FIGURE_14 = ("true", "gd", "gd-ff", "tf", "linear", "rbf", "linear-ff", "rbf-ff")


def one_block(kernel: str = "") -> Any:
    """One block of GD with this kernel, or of the Transformer, in float64."""
    sizes = {"vocabulary": V, "context": S, "width": WIDTH, "n_heads": HEADS}
    model = GDLanguage(**sizes, kernel=kernel) if kernel else TransformerLanguage(**sizes, split=False)
    model = model.double().requires_grad_(False)
    model.initialise(torch_rng(0), SCALE)
    return model


def story(seed: int = 1) -> Tensor:
    """Tokens ``(S, 1)``."""
    return torch.randint(V, (S, 1), generator=torch_rng(seed))


def function(model: Any, tokens: Tensor) -> Tensor:
    """Output of one block's attention at the last position ``(d',)``, before anything nonlinear: of a GD model, f."""
    if isinstance(model, TransformerLanguage):
        h = normed(model.embed[tokens] + model.positions[: len(tokens), None], model.gain_embed)
        return model._attended(normed(h, model.gain_attention[0]), 0)[-1, 0]
    e = normed(model.embed, model.gain_embed)[tokens] - model._expected(model.embed, True)
    return model._step((model.attention() @ e.flatten(1)).unflatten(-1, e.shape[1:]), 0)[-1, 0]


def by_equation_3(model: GDLanguage, tokens: Tensor) -> Tensor:
    """One step of equation 3 with M heads (appendix H), kernels of ``Lambda_m p`` and ``P_m``, from the mean embedding, at the last position ``(d',)``."""
    points = model.lam[:, None] * normed(model.positions, model.gain_positions) / WIDTH**0.25  # (M, S + 1, d')
    relation = kernels.relate(kernels.KERNELS[model.kernel], points, points[:, :-1])  # (M, S + 1, S)
    gamma = model.gain_gamma[:, None, None] if model.kernel == "rbf" else 1.0
    kappas, w = kernels.kernel_values(model.kernel, relation, gamma).mT, normed(model.embed, model.gain_embed).T
    start = model.embed.mean(0)
    return descent.functional_descent(
        kappas, tokens[:, 0], w, (1.0,), mixes=model.mix[0].mT, expect=lambda w, f: start
    )[0][-1]


def records() -> dict[str, Any]:
    """``language/formula``, ``language/additive`` (softmax, linear, RBF) and ``language/additive_tf``."""
    models, tokens = [one_block(kernel) for kernel in (*KERNELS, "")], story()
    *additive, tf = (descent.interaction(partial(function, model), tokens, (2, 5), V) for model in models)
    formula = [off(by_equation_3(model, tokens), function(model, tokens)) for model in models[:-1]]
    return {"language/formula": formula, "language/additive": additive, "language/additive_tf": tf}


def printed_scores() -> dict[str, Any]:
    """Table 3 and figure 14 by their own numbers: leads in Overall, and how far Overall is from the mean of the four grades."""
    rows = [printed("wang2025")[f"fig14/{name}"] for name in FIGURE_14]
    true, gd, gd_ff, tf = (says[-1] for says in rows[:4])
    return {
        "fig14/true_lead": true - tf - (tf - gd),
        "fig14/ff_left": tf - gd_ff,
        "fig14/mean_off": [abs(sum(says[:4]) / 4 - says[-1]) for says in rows],
    }


def plot_tensors() -> Figure:
    """Figure 7: the weight of each position under the query, for each head and each of two stories; and f for both."""
    model = one_block("softmax")
    fig, (weights, functions) = style.figure(2, height=3.0)
    for number, marker in ((1, "o"), (2, "x")):
        for m, row in enumerate(model.attention()[:, S - 1] * S):  # which takes no story
            look = {
                "ls": "-" if number == 1 else "",
                "marker": marker,
                "mfc": "none",
                "color": style.PALETTE[m],
                "mew": 1.4,
            }
            weights.plot(range(1, S + 1), row, ms=8, lw=1, **look, label=f"head {m + 1}" if number == 1 else None)
        f = function(model, story(number))
        functions.plot(f, marker, ms=9, mew=1.6, color=style.INK, mfc="none", label=f"story {number}")
    weights.set(xlabel="position", ylabel="weight", title="both stories: one set of weights")
    low, high = weights.get_ylim()
    weights.set_ylim(low, high + 0.3 * (high - low))  # room for the key
    heads, names = weights.get_legend_handles_labels()
    stories, which = functions.get_legend_handles_labels()
    weights.legend([*heads, *stories], [*names, *which], fontsize=8, loc="upper left", ncols=2)
    functions.axhline(0, color=style.INK, lw=0.7)
    functions.set(xlabel="coordinate of $f$", ylabel="value of $f$", title="each story: its own $f$")
    functions.legend(fontsize=8)
    return fig


# -- models of :mod:`.language`, in nats a token of held-out text --------------------------------------------------------

#: Held-out windows that follow one another are alike: errors are taken over blocks of so many.
BLOCK = 16
LABELS = ("GD", "GD + FF", "GD, no $P_m$", "Transformer", "Transformer, no FF")


def losses(get: Get) -> dict[str, np.ndarray]:
    """Model -> nats a token of each record, run and block of held-out windows, ``(T, R, n)``."""
    every = {name: get(f"language_{name.replace('-', '_')}").group(name)["nll"].astype(float) for name in MODELS}
    return {name: nll.reshape(*nll.shape[:2], -1, BLOCK).mean(-1) for name, nll in every.items()}


def text_records(get: Get) -> dict[str, object]:
    """``text/...``: how far GD is behind the Transformer, without and with feed-forward, and what else separates the two."""
    ends = {name: nll[-1] for name, nll in losses(get).items()}
    return {
        "text/seeds": len(ends["gd"]),
        "text/gd_behind": Estimate.crossed(ends["gd"] - ends["tf"]),
        "text/ff_behind": Estimate.crossed(ends["gd-ff"] - ends["tf"]),
        "text/ff_off_middle": Estimate.crossed(ends["gd-ff"] - (ends["gd"] + ends["tf"]) / 2),
        "text/without_ff": Estimate.crossed(ends["tf-no-ff"] - ends["gd"]),
        "text/p_is_worth": Estimate.crossed(ends["gd-no-p"] - ends["gd"]),
    }


def plot_text(get: Get) -> Figure:
    """Loss on held-out text along training, mean of the runs, and of every run (dots)."""
    fig, ax = style.figure(height=3.2)
    steps = get("language_gd").group("gd")["steps"]
    late = max(1, len(steps) - 4)  # before, a model says more of its start than of text
    for (name, each), label, colour in zip(losses(get).items(), LABELS, style.PALETTE, strict=False):
        nll = each.mean(-1)[late:]  # (T, R)
        ax.plot(steps[late:], nll, "o", ms=3, color=colour, label="_")
        ax.plot(steps[late:], nll.mean(1), color=colour, ls="-" if name.startswith("gd") else "--", label=label)
    ax.set(xlabel="step", ylabel="nats a token, held out")
    ax.set_ylim(ax.get_ylim())
    style.name_ends(ax)
    return fig
