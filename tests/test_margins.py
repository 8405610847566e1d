"""No verdict of the book hangs on rounding: over all ledgers and both profiles, from the committed references alone (nothing is run)."""

from dataclasses import replace
from pathlib import Path

import pytest
from claims_kit import LEDGER, make_root

from iclbook.claims import Record, all_ledgers, judge, load_ledger, verdict
from iclbook.claims.verdicts import NOT_YET_TESTED, OPEN, OUT_OF_REACH, TOO_CLOSE
from iclbook.profiles import PROFILES, at_least
from iclbook.references import Reference, read_reference, reference_path, tolerance

REPOSITORY = Path(__file__).parents[1]
LEDGERS = {ledger.paper: ledger for ledger in all_ledgers(REPOSITORY)}
BOOK = [pytest.param(paper, profile, id=f"{paper}-{profile}") for paper in LEDGERS for profile in PROFILES]
#: A rule below such a bound says that a residual is rounding.
RESIDUAL = 1e-6


def committed(paper, profile):
    ledger = LEDGERS[paper]
    return ledger, read_reference(reference_path(ledger.chapter_name, profile, REPOSITORY), REPOSITORY)


def records_of(values):
    return {key: Record.make(key, value) for key, value in values.items()}


def judged(ledger, reference, profile):
    return judge(ledger, records_of(reference.records), profile, reference)


def without_spread(ledger, reference, profile):
    """Recorded keys whose spread was never measured."""
    missing = [key for key in reference.records if ledger.compares(key) and key not in reference.spread]
    mend = f"`iclbook check {ledger.chapter_name} --profile {profile} --spread` measures them"
    return (
        [f"{len(missing)} of {len(reference.records)} values have no spread, {missing[0]} first: {mend}"]
        if missing
        else []
    )


def without_margin(ledger, reference, profile):
    """Parts whose margin cannot be computed; a profile need not measure what another one decides, nor anybody what is not trained yet."""
    results = judged(ledger, reference, profile)
    waits = {
        claim.id
        for claim in ledger.claims
        if reference.verdicts.get(claim.id) in (NOT_YET_TESTED, OPEN, OUT_OF_REACH)
        and not any(key in reference.records for part in claim.parts for key in part.keys)
    }
    known = {
        (claim_id, part.name, part.reading)
        for claim_id, item in results.items()
        for part in item.parts
        if part.margin is not None
    }
    return [
        f"{claim.id}, {part.name} ({part.key}): no margin"
        for claim in ledger.claims
        for part in claim.parts
        if (claim.id, part.name, part.reading) not in known
        and claim.id not in waits
        and (at_least(profile, claim.decides) or all(key in reference.records for key in part.keys))
    ]


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


def looser_than_the_rule(ledger, reference):
    """Exact statements whose residual may, by its tolerance, be as large as the rule's bound."""
    found = []
    for claim in ledger.claims:
        for part in claim.parts:
            bound = part.rule.terms[0].number if part.rule.word in ("<", "<=") else None
            if bound is None or not 0 < bound <= RESIDUAL or part.key not in reference.spread:
                continue
            value = reference.records[part.key]
            if not part.rule.check(value, reference.records):
                continue  # no residual but a discrepancy, which is as large as it is
            sizes = tolerance(value, reference.spread[part.key])
            if max(sizes if isinstance(sizes, list) else [sizes]) >= bound:
                found.append(f"{claim.id}, {part.key}: tolerance {sizes} beside the rule {part.rule.text}")
    return found


def changed(ledger, reference, profile):
    """Claims whose word, judged from the stored records, is not the stored one."""
    words = {claim_id: item.word for claim_id, item in judged(ledger, reference, profile).items()}
    both = dict.fromkeys([*words, *reference.verdicts])
    return [
        f"{claim_id}: stored {reference.verdicts.get(claim_id)}, judged {words.get(claim_id)}"
        for claim_id in both
        if reference.verdicts.get(claim_id) != words.get(claim_id)
    ]


def none_of(findings):
    if findings:
        pytest.fail("\n".join(findings), pytrace=False)


@pytest.mark.parametrize(("paper", "profile"), BOOK)
def test_every_recorded_value_has_a_spread(paper, profile):
    none_of(without_spread(*committed(paper, profile), profile))


@pytest.mark.parametrize(("paper", "profile"), BOOK)
def test_every_part_has_a_margin(paper, profile):
    none_of(without_margin(*committed(paper, profile), profile))


@pytest.mark.parametrize(("paper", "profile"), BOOK)
def test_no_verdict_hangs_on_rounding_without_saying_so(paper, profile):
    ledger, reference = committed(paper, profile)
    none_of([] if reference.spread else without_spread(ledger, reference, profile))
    none_of(hanging(ledger, reference, profile))


@pytest.mark.parametrize(("paper", "profile"), BOOK)
def test_no_exact_statement_has_a_tolerance_as_loose_as_its_rule(paper, profile):
    ledger, reference = committed(paper, profile)
    none_of([] if reference.spread else without_spread(ledger, reference, profile))
    none_of(looser_than_the_rule(ledger, reference))


@pytest.mark.parametrize(("paper", "profile"), BOOK)
def test_the_stored_verdicts_follow_from_the_stored_records(paper, profile):
    none_of(changed(*committed(paper, profile), profile))


# ---------------------------------------------------------------- the findings themselves, on a ledger of three claims


@pytest.fixture
def demo(tmp_path):
    return load_ledger("demo", make_root(tmp_path / "book", LEDGER))


SOUND = Reference(
    {"omega": 0.14, "gap": 1e-12},
    {"omega": 1e-4, "gap": 1e-13},
    {"demo/both": "reproduced", "demo/exact": "reproduced", "demo/later": "not yet tested"},
)


def test_a_sound_reference_has_no_findings(demo):
    assert not without_spread(demo, SOUND, "paper")
    assert not without_margin(demo, SOUND, "paper")
    assert not hanging(demo, SOUND, "paper")
    assert not looser_than_the_rule(demo, SOUND)
    assert not changed(demo, SOUND, "paper")


def test_each_fault_is_found(demo):
    bare = replace(SOUND, spread={"gap": 0.0})
    assert "1 of 2 values have no spread, omega first" in without_spread(demo, bare, "paper")[0]
    assert len(without_margin(demo, bare, "paper")) == 2
    assert len(without_margin(demo, replace(SOUND, records={"omega": 0.14}), "paper")) == 1
    loose = replace(SOUND, spread={"omega": 1e-4, "gap": 1e-9})
    assert "demo/exact, gap: tolerance 4" in looser_than_the_rule(demo, loose)[0]
    close = replace(SOUND, spread={"omega": 0.01, "gap": 1e-13})
    assert changed(demo, close, "paper") == ["demo/both: stored reproduced, judged too close to call"]
    assert not hanging(demo, close, "paper"), "it says so"


@pytest.mark.parametrize("word", ["reproduced", "partly"])
def test_a_verdict_that_hangs_on_rounding_is_found_without_the_margins(demo, word, monkeypatch):
    """Were the margin computed wrongly, the moved value would still show it."""
    from iclbook.claims import verdicts

    monkeypatch.setattr(verdicts, "margin", lambda *_: 5.0)
    omega = {"reproduced": 0.149, "partly": 0.151}[word]
    close = replace(SOUND, records={"omega": omega, "gap": 0.0}, spread={"omega": 5e-4, "gap": 0.0})
    (line,) = hanging(demo, close, "paper")
    assert line.startswith(f"demo/both: {word}, but ")
