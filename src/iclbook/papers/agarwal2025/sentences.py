"""Sentences of sections 1 to 5 of agarwal2025 about a direction, each tried on random heads and on heads in the middle of training.

What a sentence says happens is measured on the network itself, by autograd or by a small change of the quantity it speaks of.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...drawing import style
from ...statistics import Estimate
from . import closed_forms as closed
from . import toy_runs
from .closed_forms_checked import Case, autograd, losses_of, random_case

#: Size of the small changes; quantities below ``CLEAR`` times the largest of their kind are too close to zero for a sign.
SMALL, CLEAR = 1e-5, 1e-3
#: Where even the largest is below this, all are rounding of numbers of order one: a toy run whose loss has reached 0 has no gradient left to judge.
ROUNDING = 1e-12
#: Recorded share: the section, and what it says; in the order of the figure.
SENTENCES = {
    "signs/scores": "3.4: scores fall where b is above its mean",
    "signs/alpha": "3.3: more weight raises the loss where b > 0",
    "signs/advantage": "3.4: A > 0: a larger score helps",
    "signs/values": "3.2: values are pushed away from errors",
    "signs/mass_total": "4.1: attention leaves what is below average",
    "signs/feedback3_own": "4.4: $v_j$ alone moves away: its advantage grows",
    "signs/feedback2": "4.4: larger score, a harder push",
    "prose/u_loss": "3.1: $-u_i$ lowers the loss",
    "prose/joint_sum": "4.2: a value's step lowers the total loss",
    "prose/u_logit": "3.1: $-u_i$ raises the correct logit",
    "signs/mass": "4.1: each position below average loses it",
    "prose/joint_all": "4.2: ... and the loss of every single user",
    "prose/toward_contexts": "1.1: values move towards their users' contexts",
    "signs/feedback3_held": "4.4: all values move: it grows (errors held)",
    "signs/feedback3": "4.4: all values move: it grows",
    "signs/average": "1.1: the update is an average",
    "prose/toward": "1.1: values move towards their users' errors",
}


def cases(n: int) -> Iterator[Case]:
    """Random heads, and 20 toy runs after 0, 20 and 60 steps (initial scale 0.3, rate 0.3)."""
    yield from map(random_case, range(n))
    run = toy_runs.train(range(20), 0.3, 0.3)
    for step, r in product((0, 20, 60), range(20)):
        yield Case(run.x[r], run.y[r], closed.Weights(*[p[r] for p in run.weights[step]]), None)


def _clear(a: Tensor, among: Tensor | None = None, rows: bool = False) -> Tensor:
    """Where ``a`` is clearly not zero, among the entries ``among``; ``rows``: compared with the largest of its own row."""
    sizes = a.abs() if among is None else a.abs() * among
    most = sizes.amax(-1, keepdim=True) if rows else sizes.max()
    return (sizes > CLEAR * most) & (most > ROUNDING)


def signs(n: int = 200) -> dict[str, float | Estimate]:
    """Share of cases in which each sentence holds, and the rank correlation of section 8.1's ``A^adv`` with the step of free scores."""
    held: dict[str, list[Tensor]] = defaultdict(list)
    correlations = []
    for case in cases(n):
        f = closed.forward(case.x, case.w, case.mask)
        truth = autograd(case)
        u, ds = truth["g"], truth["s"]
        b = closed.compatibility(u, f.v)
        a, see = closed.advantage(f.alpha, b), f.alpha > 1e-9
        found = _routing(case, f, b, a, ds, see) | _values(case, f, u, truth["v"], a, see)
        for name, entries in found.items():
            held[name].append(entries.flatten())
        if int(see.sum()) > 3:
            ranks = [part[see].argsort().argsort() for part in (-a, -ds)]  # A^adv of section 8.1 is -A
            correlations.append(np.corrcoef(ranks)[0, 1])
    shares = {name: float(torch.cat(parts).double().mean()) for name, parts in held.items()}
    return shares | {"prose/predicts": Estimate.of(np.median, np.array(correlations))}


# Each of the following: recorded share -> whether the sentence holds, at the entries of one case where its quantities are clearly not zero.


def _routing(case: Case, f: closed.Forward, b: Tensor, a: Tensor, ds: Tensor, see: Tensor) -> dict[str, Tensor]:
    """Sentences about scores and attention: sections 3.3, 3.4 and 4.1."""
    sure = see & _clear(a, see) & _clear(ds)
    before, every = closed.losses(f.logits, case.y), torch.arange(len(case.x))
    # position j first: alpha_ij a little larger for every i, the others as they are
    more = f.logits + SMALL * (f.v @ case.w.W_O.mT)[:, None]  # (j, i, C)
    change = (closed.losses(more, case.y) - before).mT  # (i, j)
    s = f.s.repeat(len(every), 1, 1)
    s[every, :, every] += SMALL
    larger, _, raised, _ = closed.attend(s, f.v, case.w.W_O, case.w.b, case.mask)
    gained = larger[every, :, every].mT > f.alpha
    lowers = (closed.losses(raised, case.y) < before).mT
    stepped = closed.attend(f.s - SMALL * ds / ds.abs().max(), f.v, case.w.W_O, case.w.b, case.mask)[0]
    moved, worse = stepped - f.alpha, sure & (a < 0)
    together = (moved * worse).sum(-1)  # what all worse-than-average positions of a query gain
    return {
        "signs/scores": ((-ds).sign() == a.sign())[sure],
        "signs/alpha": (change.sign() == b.sign())[see & _clear(b)],
        "signs/advantage": (lowers & gained)[sure & (a > 0)],
        "signs/mass": (moved < 0)[worse & _clear(moved)],
        "signs/mass_total": (together < 0)[_clear(together)],
    }


def _values(case: Case, f: closed.Forward, u: Tensor, slope: Tensor, a: Tensor, see: Tensor) -> dict[str, Tensor]:
    """Sentences about values and contexts: sections 1.1, 3.1, 3.2, 4.2 and 4.4; ``u`` and ``slope`` = dL/dv are autograd's."""
    logits = (f.g - SMALL * u) @ case.w.W_O.mT + case.w.b  # of contexts that move along -u_i
    before, every = closed.losses(f.logits, case.y), torch.arange(len(case.x))
    fallen = closed.losses(logits, case.y) - before
    correct = (logits - f.logits).gather(-1, case.y[:, None])[:, 0]
    dv = -SMALL * slope
    along = (dv * (f.alpha.mT @ u)).sum(-1)
    usage = f.alpha.sum(0)
    toward = (dv * (f.alpha.mT @ f.g / usage[:, None] - f.v)).sum(-1)
    v = f.v.repeat(len(every), 1, 1)  # position j first: its value alone moves
    v[every, every] += dv
    change = losses_of(case, v, f.s) - before  # (j, i)
    i = f.alpha.argmax(0)  # the heaviest user, made a little heavier
    as_is, own_values = f.s.repeat(len(every), 1, 1), f.v.repeat(len(every), 1, 1)
    heavier = as_is.clone()
    heavier[every, i, every] += 1e-3
    slope_at = torch.func.grad(lambda v, s: losses_of(case, v, s).sum())
    # both by the same products, so that attention which cannot grow changes nothing at all
    before_it, after_it = (slope_at(own_values, s)[every, every] for s in (as_is, heavier))
    further = ((before_it - after_it) * u[i]).sum(-1)  # (j,) change of the step along u_i
    own = (closed.advantage(f.alpha, closed.compatibility(u, v)) - a)[every, :, every]  # errors as they were
    helped = see & (a > 0) & _clear(a, see)
    pairs = helped.mT & _clear(own, rows=True)
    moved = f.v + SMALL * dv / dv.abs().max()
    alpha, _, _, p = closed.attend(f.s, moved, case.w.W_O, case.w.b, case.mask)
    grown = closed.advantage(alpha, closed.compatibility(closed.upstream(p, case.y, case.w.W_O), moved)) - a
    held = closed.advantage(f.alpha, closed.compatibility(u, moved)) - a  # the errors as they were
    return {
        "prose/u_loss": (fallen < 0)[_clear(fallen)],
        "prose/u_logit": (correct > 0)[_clear(correct)],
        "signs/values": (along < 0)[_clear(along)],
        "prose/toward": (along > 0)[_clear(along)],
        "prose/toward_contexts": (toward > 0)[_clear(toward)],
        "signs/average": (usage - 1).abs() < 1e-6,
        "prose/joint_sum": (change.sum(-1) < 0)[_clear(along)],
        "prose/joint_all": (change < 0)[see.mT & _clear(change, rows=True)],
        "signs/feedback2": (further < 0)[see[i, every] & _clear(u.norm(dim=-1))[i]],
        "signs/own": (own > 0)[pairs],
        "signs/feedback3_own": (own > 0)[pairs & (dv @ u.mT < 0)],
        "signs/feedback3_held": (held > 0)[helped & _clear(held, see)],
        "signs/feedback3": (grown > 0)[helped & _clear(grown, see)],
    }


def plot_sentences(shares: Mapping[str, float | Estimate]) -> Figure:
    """Share of cases in which each of :data:`SENTENCES` holds."""
    rows = sorted(((text, shares[key]) for key, text in SENTENCES.items()), key=lambda row: -float(row[1]))
    fig, ax = style.figure(height=0.3 * len(rows) + 0.8)
    y = np.arange(len(rows))[::-1]
    colours = [style.INK if share == 1 else style.COLOURS["measured"] for _, share in rows]
    ax.barh(y - 0.19, [share for _, share in rows], color=colours, height=0.12)  # close below its own sentence
    for at, (_, share), colour in zip(y, rows, colours, strict=True):
        said = {0: "none", 1: "all"}.get(share, f"{share:.0%}")
        ax.text(1.2, at + 0.24, said, ha="right", va="center", fontsize=8, color=colour)
    ax.set_yticks(y + 0.24, [name for name, _ in rows], fontsize=8.5, ha="left")
    ax.tick_params(axis="y", length=0, pad=-3)
    ax.set(xlim=(0, 1.2), xlabel="share of cases in which it holds (%)")
    ax.set_xticks((0, 0.5, 1), ("0", "50", "100"))
    ax.grid(False)
    return fig
