"""The one formatter: what it writes for known numbers, and that no room writes numbers for readers by another way."""

import math
import re

import numpy as np
import pytest

from iclbook.numbers import number

KNOWN = [
    (0.13, "0.13"), (0.001, "0.001"), (0.035, "0.035"), (0.0350001, "0.035"), (3.4567, "3.46"), (12345.6, "12,300"), (99.96, "100"),
    (0.00012, "1.2 × 10⁻⁴"), (1e-6, "10⁻⁶"), (1.0004e-6, "1.00 × 10⁻⁶"), (2.5e7, "25 million"), (4e6, "4 million"), (1e6, "1 million"),
    (1_234_567.0, "1.23 million"), (999_999.5, "1.00 million"), (999_600.3, "1.00 million"), (12_345_678.0, "12.3 million"), (-2.5e9, "−2.5 billion"),
    (1.39e49, "1.39 × 10⁴⁹"), (1e12, "10¹²"), (0.0, "0"), (-0.0, "0"), (-0.04, "−0.04"), (5.0, "5"), (1000.0, "1,000"), (123456.0, "123,456"),
    (0.99984, "1.00"), (1.0004, "1.00"), (2.9996, "3.00"), (1 / 3, "0.333"), (999.6, "1,000"), (0.0009996, "0.001"), (0.00099949, "9.99 × 10⁻⁴"),
    (7, "7"), (-7, "−7"), (1000, "1,000"), (4_000_000, "4,000,000"), (True, "yes"), (False, "no"),
    (math.inf, "∞"), (-math.inf, "−∞"), (math.nan, "undefined"), (5e-324, "4.94 × 10⁻³²⁴"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), KNOWN)
def test_known_answers(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.256, ".0%", "26%"),
        (-0.256, ".1%", "−25.6%"),
        (0.1, ".2f", "0.10"),
        (-0.001, ".2f", "0.00"),
        (0.5, "+.2f", "+0.50"),
        (-0.5, "+.2f", "−0.50"),
        (12345.6, ".0f", "12,346"),
        (40000, ",", "40,000"),
        (1.39e49, ".2g", "1.4 × 10⁴⁹"),
        (2e-7, ".1e", "2.0 × 10⁻⁷"),
    ],
)
def test_a_format_of_the_ledger_says_how_many_decimals(value, form, text):
    assert number(value, form=form) == text


def read_back(text: str) -> float:
    """The number that a reader understands."""
    text = text.replace("−", "-").replace(",", "")
    for word, power in (("million", 6), ("billion", 9)):
        text = re.sub(rf"\s*{word}", f"e{power}", text)
    plain = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    found = re.fullmatch(r"(?:(-?[\d.]+) × |(-?))10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    return float(f"{found[1] or found[2] + '1'}e{found[3].translate(plain)}" if found else text)


def test_rounding_does_not_lose_the_number():
    rng = np.random.default_rng(0)
    for value in 10 ** rng.uniform(-15, 15, 3000) * rng.choice([-1, 1], 3000):
        text = number(value)
        assert read_back(text) == pytest.approx(value, rel=5.01e-3), text
        assert not re.search(r"\de[+-]?\d|-|\d{4}", text.partition(".")[0]), text
