import re
from pathlib import Path

import pytest
from claims_kit import LEDGER, make_root

from iclbook.claims.ledger import all_ledgers, load_ledger, read_ledger
from iclbook.errors import UserError

REPOSITORY = Path(__file__).parents[1]
PART = '      - name: positive\n        key: omega\n        rule: "> 0"\n        because: a sign\n'


def line_of(text: str, needle: str) -> int:
    return text[: text.index(needle)].count("\n") + 1


def changed(old: str, new: str) -> str:
    assert LEDGER.count(old) >= 1
    return LEDGER.replace(old, new, 1)


MALFORMED = {
    "unknown field of a claim": (changed("    paper: 0.13", "    papr: 0.13"), "papr:", "unknown field 'papr'"),
    "unknown top field": (LEDGER + "extra: 1\n", "extra:", "unknown field 'extra'"),
    "values key with a colon": (changed("  seconds:", '  "a:b":'), '"a:b":', "a:b is 'a:b'"),
    "no short form": (changed("    short: not tested\n", ""), "- id: demo/later", "missing field 'short'"),
    "a long short form": (changed("short: not", f"short: {'x' * 57} not"), "short: xx", "68 letters as it is read, 60 at most"),
    "no because": (changed(PART, PART.replace("        because: a sign\n", "")), "- name: positive", "'because'"),
    "empty because": (changed("because: a sign", "because: ''"), "because: ''", "because is ''"),
    "bad rule": (changed('rule: "> 0"', 'rule: "more than 0"'), 'rule: "more', "not a rule"),
    "unquoted rule": (changed('rule: "> 0"', "rule: > 0"), "rule: > 0", "not valid YAML"),
    "duplicate id": (changed("id: demo/exact", "id: demo/both # again"), "id: demo/both # again", "listed twice"),
    "duplicate field": (changed("    says: two", "    where: twice\n    says: two"), "where: twice", "written twice"),
    "duplicate part name": (changed("name: size", "name: positive # 2"), "name: positive # 2", "two parts named"),
    "wrong paper": (changed("paper: demo", "paper: other"), "paper: other", "paper is 'other'"),
    "wrong prefix": (changed("id: demo/exact", "id: other/exact"), "id: other", "does not belong here"),
    "id without item": (changed("id: demo/exact", "id: demo"), "id: demo\n    where: Theorem", "does not belong here"),
    "parts no list": (changed("    parts:\n      - name: gap", "    parts:\n        name: gap"), "parts:\n        name", "a list, each entry behind a dash"),
    "claims no list": (LEDGER.split("claims:")[0] + "claims: 3\n", "claims:", "a list, each entry behind a dash"),
    "claim no mapping": (LEDGER + "  - demo/text\n", "claims:", "a dictionary"),
    "unknown decides": (changed("decides: smoke", "decides: large"), "decides:", "decides is 'large'"),
    "unknown fails_as": (changed("decides: smoke", "fails_as: wrong"), "fails_as:", "fails_as is 'wrong'"),
    "typed tolerance": (changed("number of seeds}", "number of seeds, tolerance: exact}"), "seeds: {says", "tolerance is 'exact'"),
    "decides and is not compared": (changed("  seconds:", "  omega:"), "omega: {says", "'omega' decides a claim"),
    "printed no number": (changed("values:", "printed: {a: small}\nvalues:"), "a: small", "a is 'small'"),
    "rule with an unknown printed number": (changed('rule: "> 0"', 'rule: "> printed:a"'), 'rule: "> printed', "no single number 'a'"),
    "rule with a printed list": (
        changed('rule: "> 0"', 'rule: "> printed:a"').replace("values:", "printed: {a: [1, 2]}\nvalues:"),
        'rule: "> printed', "no single number 'a'"),
    "values entry": (changed("{says: wall time, tolerance: none}", "wall time"), "seconds:", "a dictionary"),
    "key with a colon": (changed("key: gap", 'key: "a:b"'), 'key: "a:b"', "match pattern"),
    "readings as a text": (changed(PART, PART + "        readings: as printed\n"), "readings:", "readings is no mapping"),
    "control that is no number": (changed(PART, PART + "        negative_control: other\n"), "negative_control", "is key:other"),
    "broken yaml": (changed("claims:\n", "claims: [\n"), None, "not valid YAML"),
    "tab": (changed("    where: Figure 9", "\twhere: Figure 9"), "\twhere", "not valid YAML"),
    "python tag": (changed("says: the", "says: !!python/object/apply:os.getcwd [] # the"), "says: !!python", "says is []"),
    "alias": (changed("where: Figure 9", "where: &a [x]\n    printed: *a"), "where: &a", "alias (*) repeats"),
    "rule of many digits": (changed("> 0", f"> {'1' * 900}"), 'rule: "> 1', "more than 300 letters"),
    "text without an end": (changed("says: the", f"says: {'x' * 1000} the"), "says: xx", "more than 1,000 letters"),
    "empty file": ("", None, "empty"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_ledger_names_file_line_and_hint(name, tmp_path):
    text, needle, words = MALFORMED[name]
    path = tmp_path / "demo" / "claims.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with pytest.raises(UserError) as error:
        read_ledger(path)
    message = str(error.value)
    found = re.match(r"demo/claims\.yaml, line (\d+): ", message)
    assert found, message
    assert words in message
    assert "\n" not in message
    assert error.value.hint
    if needle is not None:
        assert int(found[1]) == line_of(text, needle), message


HINTS = {
    "a field that only values have": (changed(PART, PART + "        tolerances: none\n"), "Delete it."),
    "a field of a part": (changed(PART, PART + "        negative: 1\n"), "Did you mean 'negative_control'?"),
    "values key with a colon": (changed("  seconds:", '  "a:b":'), "CONTRIBUTING.md"),
}


@pytest.mark.parametrize("name", HINTS)
def test_a_hint_can_be_followed(name, tmp_path):
    text, hint = HINTS[name]
    with pytest.raises(UserError) as error:
        load_ledger("demo", make_root(tmp_path / "book", text))
    assert hint in error.value.hint


def test_the_ledger_as_written(tmp_path):
    ledger = load_ledger("demo", make_root(tmp_path / "book"))
    assert [claim.id for claim in ledger.claims] == ["demo/both", "demo/exact", "demo/later"]
    both = ledger.claim("demo/both")
    assert (both.paper, both.decides, both.fails_as) == ("0.13", "paper", "not reproduced")
    named = {"omega", "gap", "seeds", "seconds"}
    assert ledger.keys == named | {f"{key}_se" for key in named}
    assert ledger.uncompared == {"seconds"}
    assert ledger.chapter_name == "demo"


# ---------------------------------------------------------------------------------- the book's own ledgers


def test_every_item_of_the_inventory_is_in_a_ledger():
    listed = (Path(__file__).parent / "data" / "inventory_ids.txt").read_text().split()
    assert len(listed) == len(set(listed)) > 90
    known = set()
    for ledger in all_ledgers(REPOSITORY):
        for claim in ledger.claims:
            known.add(claim.id)
            known |= {item.strip() for item in (claim.inventory or "").split(",")}
    # The first token of a compact row such as "A1-A7, B1-B7" stands in `inventory` of each claim that covers it.
    assert [item for item in listed if item not in known] == []


def test_rules_name_printed_numbers(tmp_path):
    root = make_root(
        tmp_path,
        changed('rule: "> 0"', 'rule: "within 2% of printed:fig/a"').replace(
            "values:", "printed: {fig/a: 0.13, b: [1, 2]}\nvalues:"
        ),
    )
    ledger = load_ledger("demo", root)
    assert ledger.printed == {"fig/a": 0.13, "b": [1, 2]}
    rule = ledger.claim("demo/both").parts[0].rule
    assert rule.check(0.131, {})
    assert not rule.check(0.14, {})


def test_a_part_with_readings_stands_for_one_a_reading(tmp_path):
    text = changed(
        PART, PART.replace("key: omega", "key: omega/{}") + "        readings: {as printed: text, as coded: 2}\n"
    )
    parts = load_ledger("demo", make_root(tmp_path / "book", text)).claim("demo/both").parts
    assert [(part.reading, part.key) for part in parts[:2]] == [("as printed", "omega/text"), ("as coded", "omega/2")]


def test_a_standard_error_that_is_recorded_is_the_error_unless_the_ledger_says_none(tmp_path):
    part = load_ledger("demo", make_root(tmp_path / "a")).claim("demo/both").parts[0]
    assert part.with_error({"omega", "omega_se"}).error == "omega_se"
    assert part.with_error({"omega"}).error is None
    text = changed(PART, PART + "        error: none\n")
    part = load_ledger("demo", make_root(tmp_path / "b", text)).claim("demo/both").parts[0]
    assert not part.with_error({"omega_se"}).error
