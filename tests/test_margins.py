"""No verdict of the book hangs on rounding: over all ledgers and both profiles, from the committed references alone (nothing is run)."""

from pathlib import Path

import pytest
from claims_kit import make_root

from iclbook.claims import Record, all_ledgers, judge, load_ledger, verdicts
from iclbook.claims.references import Reference, load_reference, tolerance
from iclbook.claims.verdicts import NOT_YET_TESTED, OPEN, OUT_OF_REACH, TOO_CLOSE, verdict
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


def moved(value, by):
    """A value moved either way by as much as it may be off: whole, and each element of a list alone."""
    if isinstance(value, bool):
        return [not value] if by else []
    if isinstance(value, str):
        return [value + "?"] if by else []
    if not isinstance(value, list):
        return [value - by, value + by]
    together = zip(*(moved(v, b) or [v, v] for v, b in zip(value, by, strict=True)), strict=False)
    ways = [list(way) for way in together]
    for n, item in enumerate(value):
        ways += [[*value[:n], other, *value[n + 1 :]] for other in moved(item, by[n])]
    return ways


def hanging(ledger, reference, profile):
    """Claims whose word changes when one value moves by its own tolerance, and that do not say so.

    Independent of how margins are computed: values are moved and rules checked again. A value with no spread does not move.
    """
    words = {claim_id: item.word for claim_id, item in judged(ledger, reference, profile).items()}
    found = []
    for claim in ledger.claims:
        if words[claim.id] == TOO_CLOSE:
            continue
        own = {key: reference.records[key] for part in claim.parts for key in part.keys if key in reference.records}
        before = verdict(claim, records_of(own), profile).word
        for key, value in own.items():
            spread = reference.spread.get(key, 0.0)
            if not any(spread if isinstance(spread, list) else [spread]):
                continue
            by = tolerance(value, spread)
            others = {verdict(claim, records_of(own | {key: other}), profile).word for other in moved(value, by)} - {
                before
            }
            found += (
                [f"{claim.id}: {before}, but {' or '.join(sorted(others))} if {key} = {value} moves by {by}"]
                if others
                else []
            )
    return found


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
def test_no_verdict_hangs_on_rounding_without_saying_so(paper, profile):
    ledger, reference = committed(paper, profile)
    assert reference.spread
    assert hanging(ledger, reference, profile) == []


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


@pytest.mark.parametrize("word", ["reproduced", "partly"])
def test_a_verdict_that_hangs_on_rounding_is_found_without_the_margins(tmp_path, word, monkeypatch):
    """Were the margin computed wrongly, the moved value would still show it."""
    monkeypatch.setattr(verdicts, "margin", lambda *_: 5.0)
    omega = {"reproduced": 0.149, "partly": 0.151}[word]
    close = Reference({"omega": omega, "gap": 0.0}, {"omega": 5e-4, "gap": 0.0})
    (line,) = hanging(load_ledger("demo", make_root(tmp_path / "book")), close, "paper")
    assert line.startswith(f"demo/both: {word}, but ")
