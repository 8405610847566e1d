"""Figure 1 (section 8.1): the synthetic probe. Descent curves, contraction of each channel, compounded layers."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ...draw import numpy_rng
from ...drawing import style
from ...sliders import Slider, show
from .common import cross

#: What the paper prints of the probe; and section 6: layers -> what a single-step rate of 0.9 compounds to.
EXAMPLES, STEPS, CURVATURES = 20, 20, (0.3, 0.6, 1.0, 1.5)
PRINTED_COMPOUNDED = {2: 0.81, 5: 0.59, 10: 0.35}


def design(eigenvalues: Sequence[float], n: int) -> np.ndarray:
    """A random ``(n, d)`` design whose Gram matrix ``X^T X`` has exactly these eigenvalues."""
    rng = numpy_rng(0)
    d = len(eigenvalues)
    left = np.linalg.qr(rng.standard_normal((n, d)))[0]
    right = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return left * np.sqrt(eigenvalues) @ right.T


def balanced_step(eigenvalues: Sequence[float]) -> float:
    """``eta* = 2 / (lambda_min + lambda_max)`` (Theorem D2)."""
    return 2 / (min(eigenvalues) + max(eigenvalues))


def contraction_factors(eigenvalues: Sequence[float], eta: float) -> np.ndarray:
    """``(1 - eta lambda_i)^2``, what each channel's squared error is multiplied by in a step."""
    return (1 - eta * np.asarray(eigenvalues)) ** 2


def scalar_descent(a: float) -> np.ndarray:
    """Loss ``L(w_k) / L(w_0)``, ``(STEPS + 1,)``, of descent at step size 1 on ``L = a w^2 - 2 b w + c`` from ``w_0 = 0``, realisable (``a = b = c``)."""
    w, losses = 0.0, []
    for _ in range(STEPS + 1):
        losses.append(a * w * w - 2 * a * w + a)
        w = w - (a * w - a)
    return np.array(losses) / losses[0]


def channel_errors(x: np.ndarray, eta: float) -> np.ndarray:
    """Squared error of each eigenchannel over its start, ``(STEPS + 1, d)``, of descent from 0 on ``|X w - y|^2 / 2``; channels by eigenvalue."""
    w_star = numpy_rng(0).standard_normal(x.shape[1])
    gram, cross = x.T @ x, x.T @ (x @ w_star)
    vectors = np.linalg.eigh(gram)[1]
    w, rows = np.zeros_like(w_star), []
    for _ in range(STEPS + 1):
        rows.append(((w - w_star) @ vectors) ** 2)
        w = w - eta * (gram @ w - cross)
    return np.array(rows) / rows[0]


def spectrum() -> np.ndarray:
    """Eigenvalues of a design with the printed ends, rising: columns of 20 normal numbers (NumPy's RandomState, seed 42) times a
    geometric sequence from 0.3 to 2.

    The paper prints the ends, 0.9 and 108, and not how they were drawn; the three between them are ours.
    """
    x = np.random.RandomState(42).randn(20, 5) * np.geomspace(0.3, 2, 5)
    return np.linalg.eigvalsh(x.T @ x)


def records(eigenvalues: np.ndarray) -> dict:
    """Records that decide fig1 and q-fig1b, at ``eta* = 2 / (lambda_1 + lambda_5)`` and over as many steps as the paper."""
    powers = np.arange(STEPS + 1)
    scalar = max(np.abs(scalar_descent(a) - (1 - a) ** (2 * powers)).max() for a in CURVATURES)
    eta = balanced_step(eigenvalues)
    factors = contraction_factors(eigenvalues, eta)
    errors = channel_errors(design(eigenvalues, EXAMPLES), eta)
    small = contraction_factors(eigenvalues, 1 / eigenvalues[-1])
    return {
        "fig1/a_gap": float(scalar),
        "fig1/b_gap": float(np.abs(errors - factors ** powers[:, None]).max()),
        "fig1/largest_rank": _rank(factors, -1),
        "fig1/smallest_rank": _rank(factors, 0),
        "fig1/compounded_gap": max(abs(0.9**k - printed) for k, printed in PRINTED_COMPOUNDED.items()),
        "q-fig1b/ends_ratio": float(factors[-1] / factors[0]),
        "q-fig1b/rank_at_inverse": _rank(small, -1),
    }


def _rank(factors: np.ndarray, channel: int) -> int:
    """1 for the channel that contracts fastest; equal factors (to rounding) share the later rank."""
    return int((factors <= factors[channel] * (1 + 1e-9)).sum())


def figure(eigenvalues: np.ndarray) -> Figure:
    """Figure 1: (a) scalar descent, (b) contraction of each eigenvalue ``(5,)`` at eta*, (c) compounding. Markers: run; dotted: closed form."""
    fig, (a, b, c) = style.figure(3, height=3.1)
    k = np.arange(STEPS + 1)
    for curvature, colour in zip(CURVATURES, style.PALETTE, strict=False):
        run, closed = scalar_descent(curvature), (1 - curvature) ** (2.0 * k)
        # below 1e-16 it is rounding
        a.semilogy(k, np.maximum(run, 1e-16), "o", ms=3, color=colour, label=f"a = {curvature:g}")
        style.theory_line(a, k, np.maximum(closed, 1e-16), None)
    a.set(xlabel="step k", title="(a) loss / first loss", ylim=(1e-17, 1e7))
    a.legend(a.lines[:2], ["descent", "closed form"], fontsize=8, loc="upper right")
    style.name_ends(a)

    eta = balanced_step(eigenvalues)
    errors, factors = channel_errors(design(eigenvalues, EXAMPLES), eta), contraction_factors(eigenvalues, eta)
    names = [f"λ = {value:.3g}" for value in eigenvalues]
    hues = (0, 4, 2, 1, 3)  # from the smallest eigenvalue to the largest
    for i, (name, hue) in enumerate(zip(names, hues, strict=True)):
        look = {"ms": 6, "mfc": "none"} if i == 0 else {"ms": 3.2}
        look |= {"color": style.PALETTE[hue], "zorder": 3 if i == len(names) - 1 else 2}
        b.semilogy(k, np.maximum(errors[:, i], 1e-13), "o^sDv"[i], label=name, **look)
        style.theory_line(b, k, np.maximum(factors[i] ** k, 1e-13), None)
    b.set(xlabel="step k", title="(b) error of a channel", ylim=(1e-4, 9))
    steep = b.lines[2 * 3]  # leaves the panel, so that its name stands inside
    steep.set_label("_")
    style.name_ends(b)
    steep.set_label(names[3])
    b.text(5.8, 1.2e-3, names[3], color=steep.get_color(), fontsize=8.5)

    rate = np.linspace(0, 0.95, 191)  # at 1 all lines would meet, and have one place for five names
    for layers, colour in zip((1, 2, 3, 5, 10), style.PALETTE, strict=False):
        c.plot(rate, rate**layers, color=colour, label=f"k = {layers}")
    c.set(xlim=(0, 0.95), ylim=(-0.04, 1.05), xticks=(0, 0.3, 0.6, 0.9))
    style.name_ends(c)
    cross(c, [0.9] * 3, [*PRINTED_COMPOUNDED.values()], "printed", ms=6, mew=1.6, zorder=2)
    c.set(xlabel="share ρ² left by one", title="(c) share left by k layers")
    c.legend(handles=c.lines[-1:], fontsize=8)
    return fig


def spectrum_frame(condition: float, step: float) -> Figure:
    """Contraction of five channels with eigenvalues from 1 to ``condition``, at ``step`` times eta*. Right: error along ten layers."""
    d, eigenvalues = 5, np.geomspace(1.0, condition, 5)
    eta = step * balanced_step(eigenvalues)
    factors = contraction_factors(eigenvalues, eta)
    fig, (left, right) = style.figure(2, height=2.8)
    left.bar(range(d), np.minimum(factors, 2.0), color=style.PALETTE[:d])
    left.axhline(1, color=style.INK, lw=0.9)
    for i in np.flatnonzero(factors > 2):
        left.annotate(f"{factors[i]:.1f} ↑", (i, 1.98), ha="center", va="top", fontsize=8, color="white")
    left.set_xticks(range(d), [f"{v:.3g}" for v in eigenvalues])
    left.set(xlabel="eigenvalue λ", ylim=(0, 2), title=f"η = {step:.3g} η*")
    left.set_ylabel(r"$(1-\eta\lambda)^2$, diverges above 1")
    k = np.arange(11)
    for i, factor in enumerate(factors):
        look = {"ls": "--" if i == d - 1 else "-", "lw": 2.6 if i == 0 else 1.7, "color": style.PALETTE[i]}
        right.semilogy(k, np.clip(factor**k, 1e-8, 1e3), label=f"λ = {eigenvalues[i]:.3g}", **look)
    right.set(xlabel="layers", ylabel="squared error over its start", ylim=(1e-6, 1e2))
    right.set_title("each channel, coloured as its bar")
    return fig


def show_spectrum(few: bool) -> None:
    """Five channels at some condition numbers and steps; ``few`` of all, for a short run."""
    steps = [0.9, 1.0] if few else [0.25, 0.5, 0.9, 1.0, 1.05, 1.3]
    conditions = [2.0, 20.0] if few else [2.0, 20.0, 120.0]
    show(
        spectrum_frame,
        [
            Slider("condition", "condition number κ", conditions, live=(1.1, 500.0, 0.1), log=True),
            Slider("step", "step / η*", steps, live=(0.05, 1.6, 0.05)),
        ],
        start={"condition": 20.0, "step": 1.0},
        title="Contraction of five eigenchannels in one step, and along ten layers",
        description="A channel shrinks fastest where ηλ is near 1. Try: step 1.3 η*: the error with the largest λ grows.",
        alt=lambda condition, step: (
            f"Contraction of five channels at condition number {condition:g} and {step:g} times the balanced step."
        ),
    )
