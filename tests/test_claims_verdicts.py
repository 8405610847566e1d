import dataclasses

import pytest
from claims_kit import records_of

from iclbook.claims.references import Tolerances
from iclbook.claims.render import verdict_html
from iclbook.claims.verdicts import verdict
from iclbook.errors import UserError

CONTROL = {
    "        rule: within 0.02 of 0.13\n": "        rule: within 0.02 of 0.13\n        negative_control: {control}\n"
}

READINGS = {
    "        because: 2.8 sigma of the seed spread\n": (
        "        because: 2.8 sigma of the seed spread\n        reading: as printed\n"
    ),
    "  - id: demo/exact\n": (
        "      - name: scaled size\n        key: scaled\n        rule: within 0.02 of 0.13\n"
        "        because: 2.8 sigma\n        reading: with the code's scale\n  - id: demo/exact\n"
    ),
}


REDUCED, ODD, FAR = (
    {"    paper: 0.13": f"    {field}"}
    for field in ("reduced: 10 of 500 seeds", "fails_as: inconsistent", "out_of_reach: needs GPT-2; run x")
)
#: The paper's own numbers count at a reduced scale.
PRINTED = REDUCED | {"within 0.02 of 0.13": "within 0.02 of 0.13\n        printed: true"}


@pytest.mark.parametrize(
    ("changes", "profile", "omega", "word", "says"),
    [
        ({}, "paper", 0.13, "reproduced", ""),
        ({}, "paper", 0.2, "partly", "holds: positive; fails: size (0.2, rule: within 0.02 of 0.13)"),
        ({}, "smoke", 0.13, "reproduced (reduced)", "paper profile decides"),
        ({}, "smoke", 0.2, "not yet tested", "fails at the smoke profile"),
        ({}, "smoke", -0.2, "not yet tested", "fails at the smoke profile"),
        (REDUCED, "paper", 0.2, "fails here, at a smaller size", "10 of 500 seeds"),
        (REDUCED, "paper", -0.2, "fails here, at a smaller size", "10 of 500 seeds"),
        (PRINTED, "paper", 0.2, "partly", ""),
        (PRINTED, "paper", 0.13, "reproduced (reduced)", ""),
        (ODD, "paper", 0.2, "inconsistent", "within 0.02 of 0.13"),
        (ODD, "paper", -0.2, "inconsistent", "within 0.02 of 0.13"),
        (FAR, "paper", None, "out of reach", "needs GPT-2; run x"),
        (FAR, "paper", 0.13, "out of reach", "stand-in: holds: positive, size"),
    ],
)
def test_the_word_of_a_claim_and_why(claim, changes, profile, omega, word, says):
    found = verdict(claim(replace=changes), {} if omega is None else records_of(omega=omega), profile)
    assert found.word == word
    assert says in found.note


@pytest.mark.parametrize(
    ("omega", "scaled", "word", "reading"),
    [
        (0.13, 0.05, "reproduced", "as printed"),
        (0.05, 0.13, "reproduced", "with the code's scale"),
        (0.05, 0.05, "partly", None),
        (-0.05, 0.05, "not reproduced", None),
        (-0.05, 0.13, "partly", None),  # the common part fails: no reading can save it
    ],
)
def test_a_claim_holds_under_any_one_reading(claim, omega, scaled, word, reading):
    found = verdict(claim(replace=READINGS), records_of(omega=omega, scaled=scaled), "paper")
    assert (found.word, found.reading) == (word, reading)
    assert (reading or "readings tried: as printed, with the code's scale") in found.note


def test_the_badge_says_in_one_reading_where_another_fails(claim):
    readings = claim(replace=READINGS)
    found = verdict(readings, records_of(omega=0.05, scaled=0.13), "paper")
    assert (found.word, found.label) == ("reproduced", "reproduced, in one reading")
    both = verdict(readings, records_of(omega=0.13, scaled=0.13), "paper")
    assert both.label == both.word == "reproduced"
    neither = verdict(readings, records_of(omega=0.05, scaled=0.05), "paper")
    assert neither.label == neither.word
    named = [verdict_html(readings, which).partition("</summary>")[0] for which in (found, both)]
    assert ["[with the code&#x27;s scale]" in line for line in named] == [True, False], "the line in sight names it"


@pytest.mark.parametrize(
    ("omega", "scaled", "word"),
    [(0.13, 0.13, "yes"), (0.05, 0.13, "it depends"), (0.05, 0.05, "no"), (-0.05, 0.05, "no")],
)
def test_a_question_that_readings_answer_differently_depends(claim, omega, scaled, word):
    question = dataclasses.replace(claim(replace=READINGS), id="demo/q-both")
    assert verdict(question, records_of(omega=omega, scaled=scaled), "paper").word == word


@pytest.mark.parametrize(
    ("control", "other", "omega", "word", "says"),
    [
        ("0.2", 0.0, 0.14, "reproduced", "control 0.2 fails it"),
        ("0.14", 0.0, 0.14, "too close to call", "control 0.14 passes as well, so it decides nothing"),
        ("key:scaled", 0.2, 0.14, "reproduced", "control 0.2 (scaled) fails it"),
        ("key:scaled", 0.12, 0.14, "too close to call", "control 0.12 (scaled) passes as well"),
        ("key:scaled", [0.2, 0.12], 0.14, "too close to call", "passes as well"),  # one of several mismatched pairs
        ("key:scaled", [0.2, 0.3], 0.14, "reproduced", "control scaled fails it"),
        ("0.14", 0.0, 0.4, "partly", "passes as well"),  # what fails a rule too wide fails it all the more
    ],
)
def test_a_rule_that_passes_its_control_decides_nothing(claim, control, other, omega, word, says):
    wanted = {old: new.format(control=control) for old, new in CONTROL.items()}
    found = verdict(claim(replace=wanted), records_of(omega=omega, scaled=other), "paper")
    assert found.word == word
    assert says in found.parts[1].margin_text


def test_a_control_is_judged_at_the_references_value(claim):
    """All machines whose values agree with the reference have one answer, however near its bound the control lies."""
    wanted = {old: new.format(control="key:scaled") for old, new in CONTROL.items()}
    records = records_of(omega=0.14, scaled=0.1499999)
    assert verdict(claim(replace=wanted), records, "paper").word == "too close to call"
    by = Tolerances({"omega": 0.0, "scaled": 1e-6}, {"scaled": 0.1500001})
    assert verdict(claim(replace=wanted), records, "paper", by).word == "reproduced"


def test_a_reading_cannot_win_by_being_the_only_one_measured(claim):
    assert verdict(claim(replace=READINGS), records_of(omega=0.13), "paper").word == "not yet tested"


def test_a_rule_that_does_not_fit_the_value_names_claim_part_and_key(claim):
    with pytest.raises(UserError, match=r"demo/both, part 'positive'.*'omega'"):
        verdict(claim(), records_of(omega="a text"), "paper")


def test_of_a_conjunction_one_certain_failure_decides(claim):
    """Also where another part is too close to call."""
    both = claim(replace={"    paper: 0.13": "    conjunction: true"})
    assert verdict(both, records_of(omega=0.2), "paper").word == "not reproduced"
    assert verdict(both, records_of(omega=0.0), "paper", Tolerances({"omega": 0.01})).word == "not reproduced"
    assert verdict(both, records_of(omega=0.145), "paper", Tolerances({"omega": 0.02})).word == "too close to call"
    assert verdict(dataclasses.replace(both, id="demo/q-both"), records_of(omega=0.2), "paper").word == "no"
