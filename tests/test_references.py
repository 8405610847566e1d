"""Spreads and the tolerances that follow from them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from claims_kit import make_root, records_of

from iclbook.check import compare
from iclbook.check.figures import moved
from iclbook.claims import load_ledger
from iclbook.claims.references import (
    Reference,
    agrees,
    figure_of,
    read_reference,
    reference_path,
    spread_of,
    tolerance,
    write_reference,
)
from iclbook.errors import UserError


def test_the_tolerance_is_four_spreads_and_the_last_digits():
    assert tolerance(8.0, 0.5) == 2.0 + 8 * 2.0**-40
    assert tolerance([1.0, -2.0], [0.0, 0.1]) == [2.0**-40, 0.4 + 2 * 2.0**-40]
    assert tolerance("proved", 0.0) == 0
    assert tolerance(True, 1.0) == 1


@pytest.mark.parametrize(
    ("measured", "reference", "allowance", "good"),
    [
        (1.4, 1.0, 0.4, True),
        (1.5, 1.0, 0.4, False),
        (float("nan"), 1.0, 0.1, False),
        (float("inf"), 1.0, 1e300, False),
        (5e-15, 4.4e-16, 0.0, True),  # the residual of an identity: as small
        (8e-15, 4.4e-16, 0.0, False),
        (1e-11, 1e-12, 0.0, False),
        (9, 8, 0.0, False),
        (9, 8, 1.0, True),
        (True, 1, 0.0, False),
        (True, False, 0.0, False),
        (True, False, 1.0, True),
        ("a", "b", 0.0, False),
        ([1.0, 2.0], [1.0, 2.3], [0.0, 0.4], True),
        ([1.0, 2.0], [1.0, 2.5], [0.0, 0.4], False),
        ([1.0], [1.0, 2.0], [0.0, 0.0], False),
        (1.0, [1.0], [0.0], False),
    ],
)
def test_agreement(measured, reference, allowance, good):
    assert agrees(measured, reference, allowance) is good


def test_a_value_may_move_by_what_rounding_does_or_no_reader_sees():
    records = {
        "fig1/a": 2.0,
        "fig1/b": [0.5, 1.0],
        "fig1/b_se": [0.0, 0.3],
        "fig1/own_se": 0.3,
        "thm1/c": 2.0,
        "n/on": True,
    }
    reference = Reference(records, {"fig1/a": 0.1, "n/on": 0.0})
    assert reference.inexact == {"fig1"}, "rounding moves a value of the figure, so it may move all"
    assert reference.allowance("fig1/a") == 0.4, "four spreads"
    assert reference.allowance("fig1/b") == [0.5e-5, 0.003], "five digits, or a hundredth of the error"
    assert reference.allowance("fig1/own_se") == 0.003, "an error, to a hundredth of itself"
    median = Reference({"fig1/m": 1.0, "fig1/m_se": 0.01}, {"fig1/m": 4e-4, "fig1/m_se": 1e-5})
    assert median.allowance("fig1/m_se") == 1.6e-3, "or as far as its value"
    one = replace(median, spread={"fig1/m": [0.0, 4e-4], "fig1/m_se": 0.0})
    assert one.allowance("fig1/m_se") == 1.6e-3, "one error of several values"
    assert reference.allowance("thm1/c") == 2 * 2.0**-40, "no machine moves a value of it"
    assert reference.allowance("n/on") == 0


def test_two_makers_of_processors_agree():
    """Chapters recorded and drew the same on an AMD and on an Intel processor, both ways round; a value that is off by a tenth is seen nearly everywhere."""
    pairs = json.loads((Path(__file__).parent / "data" / "two_makers.json").read_text())
    values, series = pairs["values"], pairs["series"]
    assert min(len(values), len(series)) > 100
    seen = {True: 0, False: 0}
    for key, amd, intel, spread, error, inexact in values:
        moves = f"{figure_of(key)}/moves"  # whether rounding moves any value of the figure
        for one, other in ((amd, intel), (intel, amd)):
            records = {key: one, f"{key}_se": error, moves: 1.0}
            reference = Reference(records, {key: spread, moves: float(inexact)})
            assert reference.agrees(key, other), key
            seen[reference.agrees(key, (1.1 * np.asarray(one)).tolist())] += not key.endswith("_se")
    assert seen[False] > 10 * seen[True]
    for name, amd, intel, axis in series:
        label = name.split(": ", 1)[1]
        beside = f"{label.split(' / ')[0]} / beside / {label.split(' / ')[-1]}"  # the largest number on the same axis
        for one, other in ((amd, intel), (intel, amd)):
            old = {name: {label: [*one[:3], amd[3]], beside: [1, axis, axis]}}
            assert list(moved(old, {name: old[name] | {label: other[:3]}})) == []


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
    spread, made = {"a": 1e-17, "b": [0, 0.5]}, {"date": "2026-01-31", "machines": ["sse-1"]}
    written = Reference({"a": 0.1 + 0.2, "b": [1, 2]}, spread, {"demo/x": "partly"}, made)
    write_reference(path, "demo", written)
    assert read_reference(path, tmp_path) == written


@pytest.mark.parametrize("part", ["records", "spread", "made", "figures"])
@pytest.mark.parametrize("wrong", ["Infinity", "-Infinity", "NaN", "1e999", "1" + "0" * 400])
def test_a_number_that_is_not_finite_is_refused(tmp_path, part, wrong):
    path = reference_path("demo", "smoke", tmp_path)
    figures = {"a": {"x": [-7.0]}}
    write_reference(path, "demo", Reference({"a": -7.0}, {"a": 7.0}, {}, {"a": 7.0}, figures))
    head, _, tail = path.read_text().partition(f'"{part}"')
    path.write_text(f'{head}"{part}"{re.sub("-?7.0", wrong, tail, count=1)}')
    with pytest.raises(UserError, match=r"demo.json is damaged .*(not a finite number|too large).*--update"):
        read_reference(path, tmp_path)


@pytest.mark.parametrize("wrong", [None, {}, [], [[1]], [None]])
def test_an_entry_that_is_no_value_is_refused(tmp_path, wrong):
    path = reference_path("demo", "smoke", tmp_path)
    write_reference(path, "demo", Reference({"a": wrong}))
    with pytest.raises(UserError, match="no value"):
        read_reference(path, tmp_path)


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
