"""Nagy 2026, sections 7 and 9.2: contraction rates of the spectrum of section 9.1, and the search for "theory 0.450"."""

from __future__ import annotations

from fractions import Fraction

from .printed import box

#: The spectrum of section 9.1, four clusters of two.
SPECTRUM = tuple(Fraction(x) for x in ("10", "10", "1", "1", "1/10", "1/10", "1/100", "1/100"))


def balanced_rate(smallest: Fraction, largest: Fraction) -> Fraction:
    """D2's factor ((a2 - a1)/(a2 + a1))^2: what the best single step size leaves of the worst channel's squared error."""
    return ((largest - smallest) / (largest + smallest)) ** 2


def residuals(step: Fraction, spectrum: tuple[Fraction, ...] = SPECTRUM) -> tuple[Fraction, ...]:
    """(1 - eta lambda)^2 of every channel."""
    return tuple((1 - step * x) ** 2 for x in spectrum)


def best_mean_rate(spectrum: tuple[Fraction, ...] = SPECTRUM) -> Fraction:
    """The least mean over channels of (1 - eta lambda)^2 that one step size reaches: 1 - (sum)^2 / (n sum of squares)."""
    return 1 - sum(spectrum) ** 2 / (len(spectrum) * sum(x * x for x in spectrum))


def best_loss_rate(spectrum: tuple[Fraction, ...] = SPECTRUM) -> Fraction:
    """The least factor by which one step size multiplies the expected loss of an isotropic error: channels weighted by lambda."""
    first, second, third = (sum(x**k for x in spectrum) for k in (1, 2, 3))
    return 1 - second**2 / (first * third)


def rates_tried() -> dict[str, Fraction]:
    """Contraction rates of the spectrum that a "theory" value of rho_2 could mean."""
    s = SPECTRUM
    low, high, total, n = min(s), max(s), sum(s), len(s)
    mean = total / n
    rates = {
        "balanced rate of D2, whole spectrum": balanced_rate(low, high),
        "its square root": (high - low) / (high + low),
        "balanced rate of D2 within one cluster": balanced_rate(high, high),
        "balanced rate of D2, neighbouring clusters": balanced_rate(Fraction(1), Fraction(10)),
        "its square root, neighbouring clusters": Fraction(9, 11),
        "balanced rate of D2, clusters 100 apart": balanced_rate(Fraction(1, 10), Fraction(10)),
        "mean over channels at the best step": best_mean_rate(),
        "loss of an isotropic error at the best step": best_loss_rate(),
    }
    for name, step in (
        ("η = 1/λ_max", 1 / high),
        ("η = 1/mean λ", 1 / mean),
        ("η = 1/Σλ", 1 / total),
        ("η = 2/(λ_min + λ_max)", 2 / (low + high)),
    ):
        left = residuals(step)
        rates[f"mean over channels at {name}"] = sum(left) / n
        rates[f"loss at {name}"] = sum(x * r for x, r in zip(s, left, strict=True)) / total
        rates[f"worst channel at {name}"] = max(left)
        rates[f"best channel at {name}"] = min(left)
    return rates


def others_tried() -> dict[str, Fraction]:
    """Quantities of the spectrum that are no rates."""
    s = SPECTRUM
    high, total, n = max(s), sum(s), len(s)
    squares, mean = sum(x * x for x in s), total / n
    return {
        "share of the largest eigenvalue, λ_max/Σλ": high / total,
        "share of the top cluster": 2 * high / total,
        "participation ratio over n": total**2 / (squares * n),
        "one less participation ratio over n": 1 - total**2 / (squares * n),
        "largest share of Σλ²": high**2 / squares,
        "one less the share of the top cluster": 1 - 2 * high / total,
        "mean over largest": mean / high,
        "second cluster's share": 2 * Fraction(1) / total,
    }


def matches(printed: str, tried: dict[str, Fraction]) -> list[str]:
    """Those that round to the printed number."""
    low, high = box(printed)
    return [name for name, x in tried.items() if low <= x <= high]
