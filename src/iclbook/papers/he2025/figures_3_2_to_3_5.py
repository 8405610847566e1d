"""Two tasks at once: Figures 3.2 to 3.5 of He et al. (2025), "Extensions"."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...drawing import style
from ...drawing.figure_data import Table
from ...numbers import number
from ...statistics import Estimate, run_sd
from ...store import Results
from ...tasks import MultiTaskRegression
from .circuit_maps import SMALL_GAP, draw_cards
from .circuits import Records, active_heads, code_scale, settled, zero_sum
from .figure_3_1 import unlike_step
from .loss import Array
from .runs import PAPER_HEADS

#: Feature groups (own to task 1, shared, own to task 2) that each task uses, and the one it must not use.
USED, UNUSED = ((0, 1), (1, 2)), (2, 0)
#: A head serves a task when its mu there is above this share of the run's largest.
SERVES = 0.1


class MultiHeads(NamedTuple):
    """Two-task circuits at the end of training; ``scale`` is the factor on the scores, which ``top`` and ``omega`` include."""

    kq: Array  # (R, H, D, d) effective columns
    ov: Array  # (R, H, N, D) read-out rows
    scale: float
    top: Array  # (R, H, d, d) of KQ, and its diagonal
    omega: Array
    response: Array  # (R, H, N, N) block of OV, and its diagonal
    mu: Array
    by_group: Array  # (R, H, 3) mean omega of each feature group: own to task 1, shared, own to task 2
    transfer: Array  # (R, N, 3) sum over the heads of mu_n omega_S: the step with which task n uses feature group S


#: Heads of two tasks by number of heads, and these by setting.
ByCount = Mapping[int, MultiHeads]
Settings = Mapping[str, ByCount]


def read_multi_heads(group: Mapping[str, Array], scale: float) -> MultiHeads:
    """Settled heads of a two-task group with ``kq`` ``(T, R, H, D, D)`` and ``ov`` ``(T, R, H, N, D)``."""
    kq, ov = (settled(group["steps"], group[name]) for name in ("kq", "ov"))
    d = kq.shape[-1] - ov.shape[-2]
    top, response = scale * kq[..., :d, :d], ov[..., d:]
    omega, mu = (np.diagonal(block, axis1=-2, axis2=-1) for block in (top, response))
    by_group = omega.reshape(*omega.shape[:2], 3, -1).mean(-1)
    transfer = np.einsum("rhn,rhs->rns", mu, by_group)
    return MultiHeads(kq[..., :d], ov, scale, top, omega, response, mu, by_group, transfer)


def best_steps(task: MultiTaskRegression, separate: bool = False) -> tuple[Array, Array]:
    """The best predictor of task n by features f_mj = (1/L) sum_l y_lm xbar_lj, with coefficients ``(N, N, d)`` of f_mj x_qj, and its errors ``(N,)``.

    The features j of x_q do not interact: each asks for A_j c = b_j with A_j = E[f_j f_j^T] and b_j = E[f_j beta_j], from the moments of the centred
    scatter S = Xbar^T Xbar / L, a Wishart matrix with n = L - 1 degrees: E S_jj = n/L, E S_jj^2 = n (n + 2)/L^2, E S_jk^2 = n/L^2. With one beta for all
    tasks their responses share beta_S for the common features S, and A_j is not diagonal: another task's responses help. ``separate``: its own responses
    only, which are N separate steps of debiased gradient descent.
    """
    n, v, L, supports = task.L - 1, task.beta_var, task.L, [set(s) for s in task.supports]
    N = len(supports)
    steps, errors = np.zeros((N, N, task.d)), np.array([v * len(s) + task.target_noise_var for s in supports])
    for j, q in np.ndindex(task.d, N):
        used = [q] if separate or not task.shared_beta else list(range(N))
        common = [[supports[m] & supports[k] for k in used] for m in used]
        second = np.array([[(j in s) * n * (n + 2) + len(s - {j}) * n for s in row] for row in common])
        A = v * second / L**2 + task.noise_var * n / L**2 * np.eye(len(used))
        b = np.array([v * n / L * (j in supports[m] & supports[q]) for m in used])
        steps[q, used, j] = np.linalg.solve(A, b)
        errors[q] -= b @ steps[q, used, j]
    return steps, errors


def off_steps(heads: MultiHeads, steps: Array) -> Array:
    """``(R,)`` root mean square distance from ``steps`` ``(N, N, d)``, over their size, of the sums over the heads of OV_nm omega_j."""
    apart = np.einsum("rhnm,rhj->rnmj", heads.response, heads.omega) - steps
    return np.linalg.norm(apart.reshape(len(apart), -1), axis=1) / np.linalg.norm(steps)


def read_settings(runs: Mapping[str, Results], tasks: Mapping[str, MultiTaskRegression]) -> Settings:
    """Heads by setting and number."""
    for t in tasks.values():
        third = t.d // 3
        thirds = [list(range(2 * third)), list(range(third, t.d))]
        assert [list(support) for support in t.supports] == thirds, "feature groups are thirds of the features"
    scales = {setting: 1.0 if setting == "text" else code_scale(t.d, t.n_tasks) for setting, t in tasks.items()}
    groups = {setting: {h: of.group(f"h{h}") for h in PAPER_HEADS} for setting, of in runs.items()}
    return {s: {h: read_multi_heads(group, scales[s]) for h, group in by_h.items()} for s, by_h in groups.items()}


def pattern(by_h: ByCount) -> Records:
    """Global pattern: everything beside the diagonals over the diagonals, the worst active head and run of each head count."""
    worst: dict[str, list[Array]] = {"kq_deviation": [], "ov_deviation": []}
    for h in by_h.values():
        whole = h.scale * np.linalg.norm(h.kq, axis=(-2, -1)), np.linalg.norm(h.ov, axis=(-2, -1))
        sizes = [np.linalg.norm(diagonal, axis=-1) for diagonal in (h.omega, h.mu)]
        active = active_heads(*sizes)  # (R, H)
        for name, all_of_it, size in zip(worst, whole, sizes, strict=True):
            beside = np.sqrt(np.maximum(all_of_it**2 - size**2, 0))
            worst[name].append(np.where(active, beside / size, 0.0).max(-1))  # (R,)
    return {name: Estimate.stack(Estimate(float(of.max()), run_sd(of)) for of in runs) for name, runs in worst.items()}


def one_head(heads: MultiHeads) -> Records:
    """Figure 3.2: shared features weigh more than own ones, both tasks alike; a value per run."""
    omega, mu = heads.by_group[:, 0], heads.mu[:, 0]  # (R, 3), (R, 2)
    own = omega[:, [0, 2]].mean(-1)
    return {
        "shared_over_own": Estimate.each(omega[:, 1] / own),
        # omega and mu of one head may both be negative: same predictor
        "omega_own": Estimate.each(own * np.sign(mu[:, 0])),
        "mu_difference": Estimate.each(np.abs(mu[:, 0] - mu[:, 1]) / np.abs(mu).mean(-1)),
    }


def two_heads(heads: MultiHeads, single: MultiHeads) -> Records:
    """Figure 3.3: opposite heads, shared features above own ones, both small against one head; a value per run."""
    omega = heads.by_group  # (R, 2, 3)
    positive = np.take_along_axis(omega, omega.mean(-1).argmax(1)[:, None, None], 1)[:, 0]  # (R, 3)
    own = positive[:, [0, 2]].mean(-1)
    return {
        "asymmetry": Estimate.each(np.abs(omega.sum(1)).mean(-1) / np.abs(omega).mean((1, 2))),
        "shared_over_own": Estimate.each(positive[:, 1] / own),
        "omega_own": Estimate.each(own),
        "over_single": Estimate.each(positive[:, 1] / np.abs(single.by_group[:, 0, 1])),
    }


def opposite_heads(heads: MultiHeads) -> Array:
    """``(R,)`` whether a head serves both tasks with opposite signs."""
    size = np.abs(heads.mu)  # (R, H, 2)
    serves = size.min(-1) > SERVES * size.max((1, 2))[:, None]
    return (serves & (heads.mu.prod(-1) < 0)).any(-1)


def exclusive(heads: MultiHeads) -> Array:
    """``(R,)`` whether each task has one positive and one negative head, and every head's other mu is below half of its own: runs are far below or near 1."""
    size, task = np.abs(heads.mu), np.abs(heads.mu).argmax(-1)  # (R, 4, 2), (R, 4)
    sign = np.sign(np.take_along_axis(heads.mu, task[..., None], -1)[..., 0])
    alone = (size.min(-1) < 0.5 * size.max(-1)).all(-1)
    return alone & np.all([((task == n) & (sign == s)).sum(-1) == 1 for n in (0, 1) for s in (1, -1)], 0)


def three_heads(three: MultiHeads, four: MultiHeads, errors: Mapping[str, Array]) -> Records:
    """Figure 3.5: how many heads serve both tasks with opposite signs, the sums of mu omega, and errors over those of four heads on common prompts."""
    sums = three.transfer  # (R, 2, 3)
    return {
        "superposed": Estimate.share(opposite_heads(three)),
        "superposed_of_four": float(opposite_heads(four).mean()),
        "zero_sum": Estimate.each(zero_sum(three.mu.swapaxes(1, 2))),
        "sum_on": Estimate.each(*(sums[:, n, USED[n]] for n in (0, 1))),
        "sum_off": Estimate.each(*(sums[:, n, UNUSED[n]] for n in (0, 1))),
        "error_ratio": Estimate.each(errors["h3/error"] / errors["h4/error"]),
        "two_over_four": errors["h2/error"] / errors["h4/error"],
    }


def four_heads(heads: MultiHeads, starts: MultiHeads) -> Records:
    """Figure 3.4: the share of ``starts`` that end as a pair for each task, and the sums of mu omega on and off a task's features; a value per run."""
    sums = heads.transfer
    return {
        "sum_off": Estimate.each(*(sums[:, n, UNUSED[n]] for n in (0, 1))),
        "exclusive": Estimate.share(exclusive(starts)),
        "mu_omega": Estimate.each(*(sums[:, n, USED[n]].mean(-1) for n in (0, 1))),
    }


def cross_task_records(by_h: ByCount, errors: Mapping[str, Array], task: MultiTaskRegression) -> Records:
    """One beta for both tasks: error of the best cross-task steps over that of separate ones, and how far from both are runs of four heads that beat three."""
    (cross, low), (separate, high) = best_steps(task), best_steps(task, separate=True)
    better = errors["h4/error"] < errors["h3/error"]
    if not better.any():  # as in short trainings: all count
        better = ~better
    return {
        "crosstask/risk_ratio": float(low.sum() / high.sum()),
        "crosstask/runs": int(better.sum()),
        "crosstask/to_cross": Estimate.each(off_steps(by_h[4], cross)[better]),
        "crosstask/to_separate": off_steps(by_h[4], separate)[better],
    }


def weighted_step(heads: MultiHeads, results: Results, task: MultiTaskRegression) -> Records:
    """Figure 3.3: what one step of debiased gradient descent leaves of the answers of two heads, weighted by their diagonals and with equal weights."""
    weights = np.einsum("rhn,rhj->rnj", heads.mu, heads.omega)[..., None] * np.eye(task.d)
    equal = np.broadcast_to(np.eye(task.d), weights.shape)
    every = {"unexplained": weights, "unexplained_by_equal": equal}
    return {name: Estimate.each(unlike_step(results, "h2", of, task, heads.scale)) for name, of in every.items()}


def multitask_records(
    settings: Settings, results: Mapping[str, Results], tasks: Mapping[str, MultiTaskRegression], starts: Results
) -> Records:
    """Global pattern and Figures 3.2 to 3.5 in both settings; ``results`` hold circuits and ``h<H>/error``, ``starts`` four heads from many starts, in the
    code's setting."""
    many = settings | {"code": {4: read_multi_heads(starts.group("h4"), settings["code"][4].scale)}}
    values = cross_task_records(settings["text"], results["text"], tasks["text"])
    for setting, by_h in settings.items():
        task, own = tasks[setting], results[setting]
        separate = best_steps(task, separate=True)[0]
        to_separate = {h: {"to_separate": Estimate.each(off_steps(by_h[h], separate))} for h in (3, 4)}
        for figure, found in {
            "multitask": pattern(by_h),
            "fig3.2": one_head(by_h[1]),
            "fig3.3": two_heads(by_h[2], by_h[1]) | weighted_step(by_h[2], own, task),
            "fig3.4": four_heads(by_h[4], many[setting][4]) | to_separate[4],
            "fig3.5": three_heads(by_h[3], by_h[4], own) | to_separate[3],
        }.items():
            values |= {f"{figure}/{setting}/{name}": value for name, value in found.items()}
    return values


def table_of_steps(by_h: ByCount, run: int) -> Table:
    """The step that each task makes with its own, the common and the other task's features, summed over the heads of one run of two, three and four heads."""
    columns = {"heads": "heads", "task": "task", "own": "own features", "shared": "shared", "other": "other task's"}
    rows = []
    for h, heads in by_h.items():
        for n in (0, 1) if h > 1 else ():
            own, shared, other = (number(heads.transfer[run, n, s], form=".2f") for s in (USED[n][n], 1, UNUSED[n]))
            rows.append({"heads": str(h), "task": str(n + 1), "own": own, "shared": shared, "other": other})
    return Table(rows, columns, "Steps of two tasks by features, first run, setting of the text")


def plot_multitask(settings: Settings, run: int) -> Figure:
    """Figures 3.2 to 3.5: KQ's top block above OV's response block of each head, a row for each head count, a panel for each setting; every head on its own
    colour scale. Framed: responses that go to the other task, a tenth of the head's largest or more."""
    counts, cell = list(next(iter(settings.values()))), 1.6
    fig, axes = style.figure(len(settings), height=5.4)
    for ax, (setting, by_h) in zip(axes, settings.items(), strict=True):
        heads = [zip(h.top[run], h.response[run], strict=True) for h in by_h.values()]
        rows = [[tuple(block / abs(block).max() for block in card) for card in cards] for cards in heads]
        wide, tall = draw_cards(ax, rows, (1, 1), [f"head {h}" for h in counts], cell)
        high = len(rows[0][0][0])
        for i, cards in enumerate(rows):
            for j, (_, response) in enumerate(cards):
                for n, m in np.argwhere(np.abs(response) > 0.1):
                    if n != m:
                        corner = j * wide + m * cell, i * tall + high + SMALL_GAP + n * cell
                        ax.add_patch(Rectangle(corner, cell, cell, fill=False, ec=style.INK, lw=1.8))
        if ax is axes[0]:
            style.write(ax, 1.2 * wide, high / 2, "framed: responses that\ngo to the other task", fontsize=8)
        places = [i * tall + at for i in range(len(rows)) for at in (high / 2, high + SMALL_GAP + cell)]
        ax.set_yticks(places, [name for h in counts for name in (f"H = {h}   KQ", "OV")])
        ax.set_title(f"setting of the {setting}")
    return fig
