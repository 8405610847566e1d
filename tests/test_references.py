"""Spreads and the tolerances that follow from them."""

import pytest
from claims_kit import make_root, records_of

from iclbook.check import compare
from iclbook.claims import load_ledger
from iclbook.claims.references import (
    Reference,
    agrees,
    read_reference,
    reference_path,
    spread_of,
    tolerance,
    write_reference,
)


def test_the_tolerance_is_four_spreads_and_the_last_digits():
    assert tolerance(8.0, 0.5) == 2.0 + 8 * 2.0**-40
    assert tolerance([1.0, -2.0], [0.0, 0.1]) == [2.0**-40, 0.4 + 2 * 2.0**-40]
    assert tolerance("proved", 0.0) == 0
    assert tolerance(True, 1.0) == 1


@pytest.mark.parametrize(
    ("measured", "reference", "spread", "good"),
    [
        (1.4, 1.0, 0.1, True),
        (1.5, 1.0, 0.1, False),
        (1.0 + 1e-13, 1.0, 0.0, True),
        (1.0 + 1e-11, 1.0, 0.0, False),
        (float("nan"), 1.0, 0.1, False),
        (float("inf"), 1.0, 1e300, False),
        (2.2e-16, 4.4e-16, 0.0, True),
        (2.2e-15, 4.4e-16, 0.0, False),
        (9, 8, 0.0, False),
        (9, 8, 1.0, True),
        (True, 1, 0.0, False),
        (True, False, 0.0, False),
        (True, False, 1.0, True),
        ("a", "b", 0.0, False),
        ([1.0, 2.0], [1.0, 2.3], [0.0, 0.1], True),
        ([1.0, 2.0], [1.0, 2.5], [0.0, 0.1], False),
        ([1.0], [1.0, 2.0], [0.0, 0.0], False),
        (1.0, [1.0], [0.0], False),
    ],
)
def test_agreement(measured, reference, spread, good):
    assert agrees(measured, reference, spread) is good


def test_the_spread_is_the_largest_deviation_element_by_element():
    assert spread_of(1.0, [1.5, 0.75, 1.0]) == 0.5
    assert spread_of([1, 2], [[1, 4], [2, 2]]) == [1.0, 2.0]
    assert spread_of("proved", ["proved", "refuted"]) == 1.0
    assert spread_of(True, [True, True]) == 0.0
    assert spread_of(1, [True]) == 1.0, "a truth value is no number"
    with pytest.raises(ValueError, match="length"):
        spread_of([1.0], [[1.0, 2.0]])


def test_a_reference_returns_as_it_was_written(tmp_path):
    path = reference_path("demo", "smoke", tmp_path)
    written = Reference({"a": 0.1 + 0.2, "b": [1, 2]}, {"a": 1e-17, "b": [0, 0.5]}, {"demo/x": "partly"}, ("sse-1",))
    write_reference(path, "demo", written)
    assert read_reference(path, tmp_path) == written


@pytest.mark.parametrize("wrong", [0.0, -0.0, 1e-9, "x", True])
def test_one_wrong_entry_switches_no_comparison_off(tmp_path, wrong):
    """A reference smaller than its own spread is compared all the same: the measured value must be as small."""
    ledger = load_ledger("demo", make_root(tmp_path / "book"))
    measured = records_of(omega=10.04, gap=0.0, seeds=8, seconds=1.0)
    right = {key: record.value for key, record in measured.items()}
    spread = {"omega": 8e-8}
    same = compare(ledger, measured, Reference(right, spread), "paper", {})
    assert [item.kind for item in same if item.kind == "moved"] == []
    found = compare(ledger, measured, Reference(right | {"omega": wrong}, spread), "paper", {})
    assert [item.name for item in found if item.kind == "moved"] == ["omega"]
