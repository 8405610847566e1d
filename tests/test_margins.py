"""The committed references of all ledgers at both profiles: every value has a spread, every part a margin, and the stored verdicts follow from them."""

from pathlib import Path

import pytest

from iclbook.claims import Record, all_ledgers, judge
from iclbook.claims.references import load_reference, tolerance
from iclbook.claims.verdicts import NOT_YET_TESTED, OPEN, OUT_OF_REACH
from iclbook.project import PROFILES, at_least

REPOSITORY = Path(__file__).parents[1]
LEDGERS = {ledger.paper: ledger for ledger in all_ledgers(REPOSITORY)}
BOOK = [pytest.param(paper, profile, id=f"{paper}-{profile}") for paper in LEDGERS for profile in PROFILES]
#: A rule below such a bound says that a residual is rounding.
RESIDUAL = 1e-6


def committed(paper, profile):
    ledger = LEDGERS[paper]
    return ledger, load_reference(ledger.chapter_name, profile, REPOSITORY)


def records_of(values):
    return {key: Record.make(key, value) for key, value in values.items()}


def judged(ledger, reference, profile):
    return judge(ledger, records_of(reference.records), profile, reference)


@pytest.mark.parametrize(("paper", "profile"), BOOK)
def test_every_recorded_value_has_a_spread(paper, profile):
    """`iclbook check CHAPTER --profile PROFILE --update` measures them."""
    ledger, reference = committed(paper, profile)
    assert [key for key in reference.records if key not in ledger.uncompared | reference.spread.keys()] == []


@pytest.mark.parametrize(("paper", "profile"), BOOK)
def test_every_part_has_a_margin(paper, profile):
    """But what another profile decides, and what is not trained yet."""
    ledger, reference = committed(paper, profile)
    known = {
        (claim_id, part.name, part.reading)
        for claim_id, item in judged(ledger, reference, profile).items()
        for part in item.parts
        if part.margin is not None
    }
    lacking = []
    for claim in ledger.claims:
        untrained = reference.verdicts.get(claim.id) in (NOT_YET_TESTED, OPEN, OUT_OF_REACH)
        if untrained and not any(key in reference.records for part in claim.parts for key in part.keys):
            continue
        for part in claim.parts:
            wanted = at_least(profile, claim.decides) or all(key in reference.records for key in part.keys)
            if wanted and (claim.id, part.name, part.reading) not in known:
                lacking.append(f"{claim.id}, {part.name} ({part.key})")
    assert lacking == []


@pytest.mark.parametrize(("paper", "profile"), BOOK)
def test_no_exact_statement_has_a_tolerance_as_loose_as_its_rule(paper, profile):
    """A residual that may, by its tolerance, be as large as the rule's bound; where the rule fails it is a discrepancy, as large as it is."""
    ledger, reference = committed(paper, profile)
    for claim in ledger.claims:
        for part in claim.parts:
            bound = part.rule.terms[0].number if part.rule.word in ("<", "<=") else None
            if bound is None or not 0 < bound <= RESIDUAL or part.key not in reference.spread:
                continue
            value = reference.records[part.key]
            sizes = tolerance(value, reference.spread[part.key])
            largest = max(sizes if isinstance(sizes, list) else [sizes])
            assert largest < bound or not part.rule.check(value, reference.records), (claim.id, part.key)


@pytest.mark.parametrize(("paper", "profile"), BOOK)
def test_the_stored_verdicts_follow_from_the_stored_records(paper, profile):
    ledger, reference = committed(paper, profile)
    assert {claim_id: item.word for claim_id, item in judged(ledger, reference, profile).items()} == reference.verdicts
