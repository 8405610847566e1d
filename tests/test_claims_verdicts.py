import dataclasses

import pytest
from claims_kit import LEDGER, make_root, records_of

from iclbook.claims import load_ledger, verdict
from iclbook.claims.margins import Yardstick
from iclbook.errors import UserError
from iclbook.numbers import number


@pytest.fixture
def claim(tmp_path):
    def make(claim_id="demo/both", **changes):
        text = LEDGER
        for old, new in changes.pop("replace", {}).items():
            assert old in text
            text = text.replace(old, new, 1)
        return load_ledger("demo", make_root(tmp_path / "book", text)).claim(claim_id)

    return make


CONTROL = {"        rule: within 0.02 of 0.13\n": "        rule: within 0.02 of 0.13\n        refuses: {control}\n"}

READINGS = {
    "        because: 2.8 sigma of the seed spread\n": (
        "        because: 2.8 sigma of the seed spread\n        reading: as printed\n"
    ),
    "  - id: demo/exact\n": (
        "      - name: scaled size\n        key: scaled\n        rule: within 0.02 of 0.13\n"
        "        because: 2.8 sigma\n        reading: with the code's scale\n  - id: demo/exact\n"
    ),
}


def test_all_parts_hold(claim):
    found = verdict(claim(), records_of(omega=0.13), "paper")
    assert found.word == "reproduced"
    assert [part.holds for part in found.parts] == [True, True]
    assert found.note == ""


def test_a_smaller_profile_gives_the_reduced_verdict(claim):
    found = verdict(claim(), records_of(omega=0.13), "smoke")
    assert found.word == "reproduced (reduced)"
    assert "paper profile decides" in found.note


def test_some_parts_fail(claim):
    found = verdict(claim(), records_of(omega=0.2), "paper")
    assert found.word == "partly"
    assert found.note == "holds: positive; fails: size (0.2, rule: within 0.02 of 0.13)"


def test_a_failure_at_a_reduced_scale_decides_nothing_against_the_document(claim):
    reduced = claim(replace={"    paper: 0.13": "    reduced: 10 of 500 seeds"})
    found = verdict(reduced, records_of(omega=-0.2), "paper")
    assert found.word == "not yet tested"
    assert "10 of 500 seeds" in found.note
    assert "does not decide" in found.note
    assert verdict(reduced, records_of(omega=0.2), "paper").word == "not yet tested"  # whatever else holds


def test_the_papers_own_numbers_count_at_a_reduced_scale(claim):
    changes = {"    paper: 0.13": "    reduced: 10 of 500 seeds"}
    printed = changes | {"within 0.02 of 0.13": "within 0.02 of 0.13\n        printed: true"}
    assert verdict(claim(replace=printed), records_of(omega=0.2), "paper").word == "partly"
    assert verdict(claim(replace=printed), records_of(omega=0.13), "paper").word == "reproduced (reduced)"


@pytest.mark.parametrize("omega", [0.2, -0.2])
def test_a_failure_below_the_deciding_profile_decides_nothing(claim, omega):
    found = verdict(claim(), records_of(omega=omega), "smoke")
    assert found.word == "not yet tested"
    assert "fails at the smoke profile" in found.note


@pytest.mark.parametrize("omega", [0.2, -0.2])
def test_a_document_at_odds_with_itself(claim, omega):
    odd = claim(replace={"    paper: 0.13": "    fails_as: inconsistent"})
    found = verdict(odd, records_of(omega=omega), "paper")
    assert found.word == "inconsistent"
    assert "within 0.02 of 0.13" in found.note  # both sides: the bound and the measured value
    assert number(omega) in found.note


def test_out_of_reach_shows_the_stand_in(claim):
    far = claim(replace={"    paper: 0.13": "    out_of_reach: needs GPT-2; run x"})
    assert verdict(far, {}, "paper").note == "needs GPT-2; run x"
    found = verdict(far, records_of(omega=0.13), "paper")
    assert found.word == "out of reach"
    assert "stand-in: holds: positive, size" in found.note


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
    by = Yardstick({"omega": 0.0, "scaled": 1e-6}, {"scaled": 0.1500001})
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
    assert verdict(both, records_of(omega=0.0), "paper", Yardstick({"omega": 0.01})).word == "not reproduced"
    assert verdict(both, records_of(omega=0.145), "paper", Yardstick({"omega": 0.02})).word == "too close to call"
    assert verdict(dataclasses.replace(both, id="demo/q-both"), records_of(omega=0.2), "paper").word == "no"
