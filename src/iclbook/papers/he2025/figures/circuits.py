"""Heat maps of key-query and output-value circuits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from ....drawing import style
from ....drawing.tables import Table
from ..measures.circuits import Heads, MultiHeads
from ..measures.extensions import Preconditioners

Group = Mapping[str, np.ndarray]


def _matrices(
    group: Group, record: int, run: int, scale: float = 1.0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Effective parts of all heads at one record: KQ's first d columns ``(D, d)`` and the read-out row of OV ``(1, D)``."""
    kq, ov = scale * group["kq"][record, run], group["ov"][record, run]
    d = kq.shape[-1] - ov.shape[-2]
    return [m[:, :d] for m in kq], list(ov)


def circuits(group: Group, run: int, record: int = -1, columns: int | None = None) -> Figure:
    """All heads of one run: KQ above, OV below, one colour scale a row."""
    kq, ov = _matrices(group, record, run)
    titles = [f"head {h + 1}" for h in range(len(kq))]
    return style.heatmap_grid({"KQ": kq, "OV": ov}, titles, columns=columns or len(kq))[0]


def circuits_at(group: Group, step: int, columns: int) -> Figure:
    """All heads of the first run at the record nearest to ``step``, on frames of equal size."""
    record = int(np.argmin(np.abs(group["steps"] - step)))
    return circuits(group, 0, record, columns)


def circuit_rows(groups: Mapping[str, Group], run: int, scales: Mapping[str, float]) -> Figure:
    """One-head circuits of several readings side by side: KQ (score scale included) and OV of each."""
    fig, axes = style.figure(4, width=style.WIDTH, height=2.3, squeeze=False, width_ratios=[1, 1, 1, 1])
    for i, (name, group) in enumerate(groups.items()):
        kq, ov = _matrices(group, -1, run, scales.get(name, 1.0))
        for ax, matrix, circuit in zip(axes[0, 2 * i : 2 * i + 2], (kq[0], ov[0]), ("KQ", "OV"), strict=True):
            style.heatmap(ax, matrix, title=f"{circuit}, {name}", bar=True)
    return fig


def activations(groups: Mapping[str, Group], run: int, scale: float) -> Figure:
    """Two-head circuits of several activations, a pair of columns each on one colour scale; titles carry omega and mu."""
    fig, axes = style.figure(2 * len(groups), 2, height=2.9, squeeze=False, height_ratios=[3, 1])
    for i, (name, group) in enumerate(groups.items()):
        kq, ov = _matrices(group, -1, run, scale)
        for row, matrices in enumerate((kq, ov)):
            limit = max(np.abs(m).max() for m in matrices)
            for h, matrix in enumerate(matrices):
                d = kq[h].shape[1]
                value = f"ω = {np.trace(kq[h][:d]) / d:.2f}" if row == 0 else f"μ = {ov[h][0, -1]:.2f}"
                title = f"{name}\nhead {h + 1}: {value}" if row == 0 else value
                style.heatmap(axes[row, 2 * i + h], matrix, limit, title=title)
    axes[0, 0].set_ylabel("KQ", rotation=0, ha="right", va="center")
    axes[1, 0].set_ylabel("OV", rotation=0, ha="right", va="center")
    for ax in axes.ravel():
        ax.title.set_fontsize(8.5)
    return fig


def preconditioners(found: Preconditioners) -> Figure:
    """The KQ blocks of the first run that splits, the inverse covariance, the linear preconditioner at its best and as trained (first run); each on its own scale."""
    titles = ["head 1", "head 2", r"$\Sigma^{-1}$", "optimal\nlinear KQ", "trained\nlinear KQ"]
    blocks = found.blocks[int(np.argmax(found.split))]
    fig, axes = style.figure(5, height=2.0, squeeze=False)
    shown = [*blocks, found.inverse, found.optimum, found.linear[0]]
    for ax, matrix, title in zip(axes[0], shown, titles, strict=True):
        style.heatmap(ax, matrix, title=title, bar=True)
    return fig


def multitask(settings: Mapping[str, Mapping[int, MultiHeads]], run: int) -> Figure:
    """Each head's omega by feature and mu by task, for every head count (columns) and setting (pairs of rows)."""
    counts = list(next(iter(settings.values())))
    fig, axes = style.figure(
        len(counts),
        2 * len(settings),
        height=1.75 * 2 * len(settings) * 0.75,
        squeeze=False,
        width_ratios=[max(h, 1.3) for h in counts],
    )
    for i, (setting, by_h) in enumerate(settings.items()):
        for j, h in enumerate(counts):
            heads = by_h[h]
            omega, mu = heads.omega[run].T, heads.mu[run].T  # (d, H), (N, H)
            style.heatmap(axes[2 * i, j], omega, title=f"H = {h}", annotate=".2f")
            style.heatmap(axes[2 * i + 1, j], mu, col_labels=[str(k + 1) for k in range(h)], annotate=".1f")
            axes[2 * i, j].set_aspect("auto")
            axes[2 * i + 1, j].set_aspect("auto")
        axes[2 * i, 0].set_ylabel(f"{setting}\n\nω by feature")
        axes[2 * i + 1, 0].set_ylabel("μ by task")
        axes[2 * i, 0].set_yticks(range(len(omega)), [str(k + 1) for k in range(len(omega))])
        axes[2 * i + 1, 0].set_yticks(range(len(mu)), [str(k + 1) for k in range(len(mu))])
    for ax in axes[-1]:
        ax.set_xlabel("head")
    return fig


def settled(heads: Heads, run: int = 0) -> Table:
    """omega and mu of every head where training leaves them, a column a head."""
    values = {"ω": heads.settled(heads.omega)[run], "μ": heads.settled(heads.mu)[run]}
    rows = [{"": name, **{str(h): f"{v:z.2f}" for h, v in enumerate(of, 1)}} for name, of in values.items()]
    columns = {key: f"head {key}" if key else "quantity" for key in rows[0]}
    return Table(rows, columns, f"Where each of {len(values['ω'])} heads settles")
