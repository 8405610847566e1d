"""Another draw: everything random changes by one number, the rules may not, and a verdict that turns is undecided."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from claims_kit import make_root, records_of, stamp, write_notebook

from iclbook import draw, inputs, random, replication, store
from iclbook.book import replication_page
from iclbook.check import compare, words
from iclbook.claims import load_ledger
from iclbook.claims.record import Record
from iclbook.claims.references import (
    Reference,
    Tolerances,
    load_reference,
    pooled,
    read_reference,
    reference_path,
    tolerances_of,
    write_reference,
)
from iclbook.claims.repeats import imagined
from iclbook.claims.verdicts import REPRODUCED, TOO_CLOSE, verdict
from iclbook.errors import UserError

LEDGER = """\
paper: demo
title: Demo
chapter: notebooks/demo.py
claims:
- id: demo/slope
  where: Figure 1
  short: a positive slope
  says: the slope is positive
  parts:
  - {name: slope, key: slope, rule: "> 0", because: the figure, late: true}
"""


def drawn() -> list:
    return [
        draw.numpy_rng((3, 4)).standard_normal(5).tolist(),
        torch.randn(5, generator=draw.torch_rng(7)).tolist(),
        torch.randn(5, generator=random.generator(7, random.INIT)).tolist(),
        random.normals(random.keys([5, 2**40]), torch.tensor([1]), random.DATA, (5,)).tolist(),
    ]


def test_one_number_changes_every_source_and_0_changes_none(monkeypatch):
    book = drawn()
    assert book[0] == np.random.default_rng((3, 4)).standard_normal(5).tolist()
    assert book[1] == torch.randn(5, generator=torch.Generator().manual_seed(7)).tolist()
    found = [book]
    for number in "12":
        monkeypatch.setenv(draw.SWITCH, number)
        found.append(drawn())
        assert found[-1] == drawn()
    for sources in zip(*found, strict=True):
        assert len({str(source) for source in sources}) == 3


@pytest.mark.parametrize("text", ["-1", "one", "65536", ""])
def test_what_is_no_draw_is_refused(text, monkeypatch):
    monkeypatch.setenv(draw.SWITCH, text)
    with pytest.raises(UserError, match="is no draw"):
        draw.number()


def test_results_and_copies_of_a_draw_have_folders_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setenv(draw.SWITCH, "3")
    assert draw.outputs(tmp_path) == tmp_path / "draws" / "3"
    assert reference_path("demo", "paper", tmp_path).parts[-4:] == ("replication", "3", "paper", "demo.json")


@pytest.fixture
def root(tmp_path, monkeypatch):
    root = make_root(tmp_path, LEDGER)
    monkeypatch.setenv("ICLBOOK_ROOT", str(root))
    replication.freeze(root)
    return root


def keep(root, number, slope, word):
    values = {"slope": slope, "slope_se": 0.1}
    rules = {"demo/slope": load_ledger("demo", root).claims[0].rules_digest} if number else {}
    reference = Reference(values, {"slope": 0.0, "slope_se": 0.0}, {"demo/slope": word}, rules=rules)
    write_reference(reference_path("demo", "paper", root, draw=number), "demo", reference)


def judge_draw(root):
    """Draw 1 as the check judges it: predicted from the draw before, then compared."""
    replication.predict(1, root)
    replication.keep_verdicts(1, load_ledger("demo", root), root)


def counted(text):
    """The page's row on draw 1."""
    _, _, row = ([cell.strip() for cell in line.split("|")[1:-1]] for line in text.split("\n")[:3])
    return dict(zip(replication_page.HEADS, row, strict=True))


def judged_now(root):
    records = records_of(slope=1.0, slope_se=0.1)
    by = tolerances_of({key: record.value for key, record in records.items()}, load_reference("demo", "paper", root))
    return verdict(load_ledger("demo", root).claims[0], records, "paper", by)


def test_a_rule_that_is_not_the_frozen_one_is_refused_and_a_sentence_may_change(root):
    replication.require_frozen([load_ledger("demo", root)], root)
    path = load_ledger("demo", root).path
    path.write_text(LEDGER.replace("is positive", "rises"))
    replication.require_frozen([load_ledger("demo", root)], root)
    path.write_text(LEDGER.replace("> 0", "> 0.1"))
    with pytest.raises(UserError, match=r"demo/slope are not the frozen ones"):
        replication.require_frozen([load_ledger("demo", root)], root)
    with pytest.raises(UserError, match=r"demo/slope are not the frozen ones"):
        replication.predict(1, root)


@pytest.mark.parametrize(
    ("second", "word", "text"),
    [
        (0.9, REPRODUCED, "0.95 (draws: 1, 0.9)"),
        (0.3, REPRODUCED, "0.65 (draws: 1, 0.3)"),
        (-0.9, TOO_CLOSE, "0.05 (draws: 1, \u22120.9)"),
    ],
)
def test_draws_are_pooled_and_an_undecided_one_unmakes_nothing(root, second, word, text):
    """Draws that differ by 5 or 13 joint errors show that the error is too small, which widens it; two of like values halve its square."""
    keep(root, 0, 1.0, REPRODUCED)
    keep(root, 1, second, "not read")
    found = judged_now(root)
    assert (found.word, found.parts[0].text) == (word, text)


def test_the_pooled_error_is_that_of_both_draws_or_what_their_difference_shows():
    def error(second):
        records, other = {"a": [1.0, 2.0], "a_se": [0.1, 0.0]}, {"a": [second, 3.0], "a_se": [0.1, 0.0]}
        values = pooled(Reference(records, {"a": [0.0, 0.0]}, draws=(other,)))
        assert values["a"] == pytest.approx([(1 + second) / 2, 2.0]), "without an error nothing is pooled"
        return values["a_se"][0]

    assert error(1.1) == pytest.approx(0.1 / np.sqrt(2))
    assert error(1.8) == pytest.approx(0.1 / np.sqrt(2) * 0.8 / 0.1 / np.sqrt(2) / 2)


def test_a_draw_keeps_its_verdicts_when_rules_change_after_it(root):
    keep(root, 0, 1.0, REPRODUCED)
    keep(root, 1, -0.9, "not reproduced")
    judge_draw(root)
    path = load_ledger("demo", root).path
    path.write_text(LEDGER.replace("> 0", "> -1"))
    replication.freeze(root)
    judge_draw(root)
    text = replication_page.markdown("paper", root)
    assert counted(text)["Contradicted"].startswith("**1**")
    assert "The rule of one claim has changed since" in text
    assert "And 1 by rules that have changed since" in text
    keep(root, 1, -0.9, "reproduced")  # updated under the new rule
    assert "And 1 by rules that have changed since" in replication_page.markdown("paper", root)


def test_a_bound_that_moved_is_found_at_the_books_draw_alone(root, monkeypatch):
    path = load_ledger("demo", root).path
    path.write_text(LEDGER.replace(", late: true", ""))
    ledger = load_ledger("demo", root)
    records, reference = records_of(slope=1.0), Reference({"slope": 1.0}, rules={"demo/slope": "of another rule"})
    reference = replace(reference, verdicts=words(ledger, records, "paper", reference))
    assert [found.kind for found in compare(ledger, records, reference, "paper", {})] == ["rule"]
    monkeypatch.setenv(draw.SWITCH, "1")
    assert compare(ledger, records, reference, "paper", {}) == []


def test_predictions_stay_once_a_draw_is_judged_and_follow_the_rules_before(root):
    keep(root, 0, 1.0, REPRODUCED)
    replication.predict(1, root)
    first = replication.entries(1, root)
    assert set(first["demo/slope"]) == {"before", "contradicted", "undecided"}
    replication.freeze(root)
    assert replication.entries(1, root) == {}
    keep(root, 1, 0.9, REPRODUCED)
    judge_draw(root)
    judged = replication.entries(1, root)
    assert judged["demo/slope"] == first["demo/slope"] | {"alone": REPRODUCED, "moved": True}
    replication.freeze(root)
    replication.predict(1, root)
    assert replication.entries(1, root) == judged


def test_a_value_that_did_not_move_counts_for_nothing(root):
    keep(root, 0, 1.0, REPRODUCED)
    keep(root, 1, 1.0, REPRODUCED)
    judge_draw(root)
    row = counted(replication_page.markdown("paper", root))
    assert (row["Verdicts"], row["Rest on values that moved"], row["Contradicted"][:5]) == ("1", "0", "**0**")
    assert replication.fold_lines(root) == {}


def test_the_page_counts_what_turned_and_measures_deviations_in_joint_errors(root):
    keep(root, 0, 1.0, REPRODUCED)
    keep(root, 1, -0.9, "not reproduced")
    judge_draw(root)
    (replica,) = replication.replicas(1, root)
    assert replica.deviations() == {"slope": pytest.approx(-1.9 / np.hypot(0.1, 0.1))}
    text = replication_page.markdown("paper", root)
    row = counted(text)
    assert (row["Verdicts"], row["Rest on values that moved"]) == ("1", "1")
    assert (row["Contradicted"], row["Undecided by it alone"]) == ("**1** (0; 0 to 0)", "**0** (0; 0 to 0)")
    differing = text.split("## Verdicts that differ")[1]
    assert "by draw 1 alone" in differing
    assert "change none of these 1" in differing
    keep(root, 0, 1.0, TOO_CLOSE)
    differing = replication_page.markdown("paper", root).split("## Verdicts that differ")[1]
    assert "change 1 of these 1" in differing
    assert "All draws together: " in differing
    assert "do not follow" not in text
    line = replication.fold_lines(root)["demo/slope"]
    assert "<em>not reproduced</em>; 0 of 1 late rules" in line


def test_a_third_draw_is_compared_with_the_mean_of_two(root):
    keep(root, 0, 0.2, REPRODUCED)
    keep(root, 1, 0.25, REPRODUCED)
    keep(root, 2, 0.3, REPRODUCED)
    (replica,) = replication.replicas(2, root)
    assert replica.deviations()["slope"] == pytest.approx(0.075 / np.hypot(0.1, 0.1 / np.sqrt(2)))
    assert replica.pairs()[0].first.parts[0].draws == 2


def test_a_stored_verdict_that_does_not_follow_from_its_values_is_named(root):
    keep(root, 0, 1.0, REPRODUCED)
    keep(root, 1, -0.9, REPRODUCED)
    assert "values stored beside them: demo/slope." in replication_page.markdown("paper", root)
    path = reference_path("demo", "paper", root, draw=1)
    text = path.read_text()
    path.write_text(text.replace("-0.9", "-0.8"))
    with pytest.raises(UserError, match="its checksum differs"):
        replication.replicas(1, root)
    path.write_text(text)
    write_reference(path, "demo", replace(read_reference(path, root), verdicts={"demo/slope": "x"}, rules={}))
    assert replication.replicas(1, root)[0].unfounded() == ["demo/slope"], "without its rule no pair is counted"


def test_results_and_copies_of_a_draw_are_refused_at_another(monkeypatch, tmp_path):
    for number in ("0", "3"):
        monkeypatch.setenv(draw.SWITCH, number)
        made = store.provenance("", {}, 1.0, "cpu")
        store.save("demo", "smoke", "tiny", {"a/x": np.ones(1)}, made, tmp_path)
    shutil.copytree(tmp_path / "draws/3/results", tmp_path / "results", dirs_exist_ok=True)
    assert store.load("demo", "smoke", "tiny", root=tmp_path)["a/x"] == 1
    monkeypatch.delenv(draw.SWITCH)
    with pytest.raises(UserError, match=r"tiny.json .*of draw 3, not of draw 0.*--fresh"):
        store.load("demo", "smoke", "tiny", root=tmp_path)


def test_an_executed_copy_of_a_draw_is_stale_at_another(root, monkeypatch):
    write_notebook(root / "executed/paper/demo.ipynb", slope=1.0)
    stamp(root)
    assert inputs.is_stale("demo", "paper", root) == ""
    monkeypatch.setenv(draw.SWITCH, "3")
    shutil.copytree(root / "executed", root / "draws/3/executed")
    assert inputs.is_stale("demo", "paper", root) == "changed since: draw"


@pytest.mark.parametrize("text", ["", "null", "[]", '{"a": {}}', '{"a": null}'])
def test_a_damaged_provenance_or_freeze_is_one_line(root, text):
    keep(root, 0, 1.0, REPRODUCED)
    keep(root, 1, -0.9, "not reproduced")
    path = root / "references/replication/1/provenance/paper/demo.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(UserError, match=r"provenance/paper/demo.json is damaged"):
        replication_page.markdown("paper", root)
    (root / replication.RULES).write_text(text)
    with pytest.raises(UserError, match=r"rules.json is damaged|not the frozen ones"):
        replication.require_frozen([load_ledger("demo", root)], root)


@pytest.mark.parametrize("draws", [1, 3])
def test_predicted_probabilities_come_true(root, draws):
    """Values with a known law: the mean of some draws, then one more. Of the verdicts that the first decide, as many are contradicted, and as many left undecided, as was expected, within one and two and a half errors."""
    (claim,) = load_ledger("demo", root).claims
    rng, expected, found = np.random.default_rng(0), np.zeros(2), np.zeros(2)

    def word(value: float, of: int):
        records = {k: Record.make(k, v) for k, v in {"slope": value, "slope_se": 0.1 / np.sqrt(of)}.items()}
        judged = verdict(claim, records, "paper", Tolerances({"slope": 0.0, "slope_se": 0.0}))
        return replace(judged, parts=tuple(replace(part, draws=of) for part in judged.parts))

    for seed, true in enumerate(rng.uniform(-1, 1, 1000)):
        first = word(float(rng.normal(true, 0.1 / np.sqrt(draws))), draws)
        second = word(float(rng.normal(true, 0.1)), 1)
        if first.word != TOO_CLOSE:
            expected += imagined(claim, first, "paper", seed)
            found += (second.word not in (first.word, TOO_CLOSE), second.word == TOO_CLOSE)
    assert 20 < found[1] < 200
    assert (np.abs(found - expected) <= 1 + 2.5 * np.sqrt(expected)).all()
    assert imagined(claim, word(50.0, draws), "paper") == (0, 0)
