"""Margins on values whose answer is known, and verdicts that turn *too close to call* exactly where they should."""

import itertools
import math

import numpy as np
import pytest
from claims_kit import LEDGER, make_root, records_of

from iclbook.claims import references
from iclbook.claims.ledger import Part
from iclbook.claims.references import ROUNDING, Tolerances, tolerances_of
from iclbook.claims.rules import parse_rule
from iclbook.claims.verdicts import TOO_CLOSE, margin, verdict
from iclbook.errors import UserError


def part_of(rule, error=None):
    return Part("v", "v", parse_rule(rule), "x", error=error)


def margin_of(rule, value, tolerance, error=None, records=None, known=None):
    values = {"v": value} | (records or {}) | ({} if error is None else {"se": error})
    return margin(part_of(rule, None if error is None else "se"), values, Tolerances({"v": tolerance} | (known or {})))


def test_a_bound_that_is_measured_adds_its_own_tolerance():
    assert margin_of("< key:b", 1.0, 0.25, records={"b": 2.0}, known={"b": 0.25}) == 2.0
    assert (
        margin_of("within key:w of key:b", 1.0, 0.5, records={"b": 1.0, "w": 2.0}, known={"b": 0.25, "w": 0.25}) == 2.0
    )
    assert margin_of("in [0, key:b]", 1.5, 0.25, records={"b": 2.0}, known={"b": 0.25}) == 1.0
    # A percentage of a measured number: its width moves with it. 10 % of 10 +- 1 is 1 +- 0.1, about a centre that is off by 1 too.
    assert margin_of("within 10% of key:b", 10.0, 0.0, records={"b": 10.0}, known={"b": 1.0}) == pytest.approx(1 / 1.1)


def test_two_standard_errors_beside_the_tolerance():
    assert margin_of("> 0", 1.0, 0.5, error=0.25) == 1.0
    assert margin_of("> 0", [1.0, 1.0], [0.0, 0.0], error=[0.25, 0.125]) == 2.0
    assert margin_of("> 0", [1.0, 2.0], [0.0, 0.0], error=0.25) == 2.0


@pytest.mark.parametrize(
    ("rule", "value", "uncertainty", "exact"),
    [
        ("== 4", 4, ROUNDING * 4, True),
        ("== 1", 1.0, ROUNDING, True),
        ("== 1", 1.0, 1e-3, False),
        ("== 1", 1 - 1e-16, ROUNDING, False),
        (">= 1", 1.0, ROUNDING, True),
        (
            "<= 0.3",
            0.1 + 0.2,
            ROUNDING * (0.1 + 0.2),
            False,
        ),  # at its bound but for a digit that another machine may round away
        ("<= 0", 0.0, 0.0, True),
        ("< 0", 0, 0.0, True),
        ("true", True, 0.0, True),
        ("true", False, 1.0, False),
        ("== 'a'", "a", 0.0, True),
        ("== 'a'", "b", 1.0, False),
    ],
)
def test_exact_is_what_nothing_can_change(rule, value, uncertainty, exact):
    found = margin_of(rule, value, uncertainty)
    assert math.isinf(found) is exact
    assert exact or found <= 1


@pytest.mark.parametrize("distance", [0.5, 0.9, 1.0, 1.1, 1.9, 2.1])
@pytest.mark.parametrize("rule", ["> 1", "< 1", "within 0.5 of 0.5", "in [1, 3]", "< key:b"])
def test_all_runs_that_agree_with_the_reference_have_its_verdict(claim, rule, distance):
    """Also where the margin is near 1: measured at a run's own value it would be above 1 here and below it there."""
    judged = claim("demo/exact", replace={'"<= 1e-9"': f'"{rule}"'})
    spread = 0.01
    reference = references.Reference({"gap": 1 + distance * 4 * spread, "b": 1.0}, {"gap": spread, "b": 0.0})

    def word(gap):
        records = records_of(gap=gap, b=1.0)
        return verdict(
            judged, records, "paper", tolerances_of({key: record.value for key, record in records.items()}, reference)
        ).word

    tolerance = references.tolerance(reference.records["gap"], spread)
    steps = [reference.records["gap"] + k / 10.001 * tolerance for k in range(-10, 11)]
    assert len({word(gap) for gap in steps}) == 1
    assert (word(steps[10]) == TOO_CLOSE) is (distance <= 1)
    far = reference.records["gap"] + 40 * spread
    assert word(far) != TOO_CLOSE, "a value that does not agree is judged where it lies"


# ------------------------------------------------------------------------------------------------ verdicts


RULES = {
    "> 0.3": 0.3,
    ">= 0.3": 0.3,
    "< 0.3": 0.3,
    "<= 0.3": 0.3,
    "within 0.1 of 0.2": 0.3,
    "within 50% of 0.2": 0.1,
    "in [0.1, 0.3]": 0.3,
    "in [0.3, 0.9]": 0.3,
    "< key:floor": 0.3,
    "within key:floor of 0.5": 0.2,
}


@pytest.mark.parametrize("tolerance", [1e-9, 1e-3, 0.02])
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("rule", RULES)
def test_a_value_within_its_tolerance_of_the_bound_is_too_close_to_call(claim, rule, side, tolerance):
    """On either side of each rule's bound: too close within the tolerance, decided beyond it."""
    exact = claim("demo/exact", replace={'"<= 1e-9"': f'"{rule}"'})
    known = Tolerances({"gap": tolerance, "floor": 0.0})

    def word(steps):
        return verdict(exact, records_of(gap=RULES[rule] + steps * side * tolerance, floor=0.3), "paper", known).word

    assert [word(steps) for steps in (0, 0.5, 0.99)] == [TOO_CLOSE] * 3
    assert word(1.01) in ("reproduced", "not reproduced")
    assert {word(1.01), word(-1.01)} == {"reproduced", "not reproduced"}


def test_a_close_part_that_does_not_decide_leaves_the_word(claim):
    odd = claim(replace={"    paper: 0.13": "    fails_as: inconsistent"})
    records = records_of(omega=-0.001)
    found = verdict(odd, records, "paper", Tolerances({"omega": 0.01}))
    assert found.parts[0].close
    assert found.word == "inconsistent", "the size fails by far, whatever the sign"
    assert verdict(claim(), records, "paper", Tolerances({"omega": 0.01})).word == TOO_CLOSE, "partly or not reproduced"


def test_readings_that_are_close_decide_nothing_while_another_holds(claim):
    readings = {
        "        because: 2.8 sigma of the seed spread\n": "        because: x\n        reading: as printed\n",
        "  - id: demo/exact\n": "      - name: scaled size\n        key: scaled\n        rule: within 0.02 of 0.13\n"
        "        because: x\n        reading: with the code's scale\n  - id: demo/exact\n",
    }
    both = claim(replace=readings)
    known = {"omega": 0.01, "scaled": 0.001}
    assert verdict(both, records_of(omega=0.149, scaled=0.13), "paper", Tolerances(known)).word == "reproduced"
    assert verdict(both, records_of(omega=0.149, scaled=0.3), "paper", Tolerances(known)).word == TOO_CLOSE


def test_standard_errors_count(claim):
    sampled = claim(replace={"        because: a sign\n": "        because: a sign\n        error: omega/se\n"})
    known = {"omega": 0.0, "omega/se": 0.0}
    found = [verdict(sampled, records_of(omega=0.13, omega__se=se), "paper", Tolerances(known)) for se in (0.06, 0.07)]
    assert [item.word for item in found] == ["reproduced", TOO_CLOSE]
    assert "1.1 times its uncertainty" in found[0].parts[0].margin_text
    assert verdict(sampled, records_of(omega=0.13), "paper", Tolerances(known)).note == "not recorded: omega/se"
    with pytest.raises(UserError, match=r"demo/both, part 'positive'.*'omega/se'.*not a standard error"):
        verdict(sampled, records_of(omega=0.13, omega__se=-1.0), "paper", Tolerances(known))
    with pytest.raises(UserError, match="omega/se"):
        verdict(sampled, records_of(omega=[0.1, 0.1], omega__se=[0.1, 0.1, 0.1]), "paper", Tolerances(known))


@pytest.mark.parametrize("setting", ["", "    fails_as: inconsistent\n", "    reduced: few seeds\n"])
@pytest.mark.parametrize("profile", ["smoke", "paper"])
def test_too_close_means_that_some_outcome_of_the_close_parts_changes_the_word(claim, setting, profile):
    """Against all assignments, for claims with common parts and two readings: trying both ends finds every change."""
    part = "      - name: p{0}\n        key: p{0}\n        rule: '> 0'\n        because: x\n{1}"
    readings = ["", "", "        reading: a\n", "        reading: a\n", "        reading: b\n", "        reading: b\n"]
    parts = "".join(part.format(n, reading) for n, reading in enumerate(readings))
    head, tail = LEDGER.split("    parts:\n")[0], LEDGER[LEDGER.index("  - id: demo/exact") :]
    judged = claim(replace={LEDGER: f"{head}{setting}    parts:\n{parts}{tail}"})
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(150):
        values = {f"p{n}": v for n, v in enumerate(rng.choice([-1.0, -0.1, 0.1, 1.0], len(readings)))}
        close = [key for key, value in values.items() if abs(value) < 0.5]
        words = {
            verdict(judged, records_of(**(values | dict(zip(close, way, strict=True)))), profile).word
            for way in itertools.product((-0.1, 0.1), repeat=len(close))
        }
        found = verdict(judged, records_of(**values), profile, Tolerances(dict.fromkeys(values, 0.5))).word
        assert found == (words.pop() if len(words) == 1 else TOO_CLOSE)
        seen.add(found)
    assert len(seen) > 1


def test_the_recorder_and_the_scoreboard_judge_by_the_committed_spread(tmp_path, monkeypatch):
    import json

    from claims_kit import write_notebook

    from iclbook.claims import Recorder, scoreboard

    root = make_root(tmp_path / "book")
    monkeypatch.setenv("ICLBOOK_ROOT", str(root))
    values = {"omega": 0.145, "gap": 0.0}
    write_notebook(root / "executed" / "paper" / "demo.ipynb", **values)

    def word():
        record = Recorder("demo", "paper")
        record.all(values)
        return {record.verdict("demo/both").word, scoreboard.boards("paper", root)[0].rows[0][1].word}

    assert word() == {"reproduced"}
    path = references.reference_path("demo", "paper", root)
    path.parent.mkdir(parents=True)
    body = {"records": values, "verdicts": {}, "spread": {"omega": 0.01, "gap": 0.0}}
    path.write_text(json.dumps(body))
    assert word() == {TOO_CLOSE}
