"""Tables and numbers as the page writes them."""

from collections.abc import Sequence

from iclbook.numbers import number


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, first column to the left, the others to the right."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def span(s: dict[str, float]) -> str:
    """Median with least and largest, to three digits: more are not measured."""
    return "{} ({} to {})".format(*(number(float(f"{s[key]:.3g}")) for key in ("median", "min", "max")))


def exponent(fit: dict[str, float]) -> str:
    """A fitted exponent with its interval, to two decimals; what rounds to zero has no sign."""
    return "{} ({} to {})".format(*(number(fit[key], form="z.2f") for key in ("exponent", "low", "high")))
