import pytest

from iclbook.claims.rules import parse_rule


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("> 0", 0.1, 0.0),
        (">= 2", 2, 1.999),
        ("< -1e-3", -0.01, -0.001),
        ("<= 5", 5, 5.0001),
        ("== 4", 4, 5),
        ("== 'softmax'", "softmax", "linear"),
        ("within 0.02 of 0.13", 0.1499, 0.1501),
        ("within 10% of -2", -2.19, -2.21),
        ("in [0.5, 1]", 1.0, 1.1),
        ("true", True, False),
        ("false", False, True),
        ("> key:other", 3.1, 2.9),
        ("within 0.5 of key:other", 3.4, 3.6),
        ("within key:width of 3", 3.2, 3.3),
        ("in [key:width, key:other]", 1, 0.2),
        ("> 0", [1, 2, 3], [1, 2, 0]),
        ("> key:pair", [2.0, 3.0], [2.0, 1.5]),
        ("> key:pair", 2.5, 1.5),  # a number against a list must pass against every element
        ("true", [True, True], [True, False]),
    ],
)
def test_each_kind_of_rule_both_ways(rule, good, bad):
    records = {"other": 3.0, "width": 0.25, "pair": [1.0, 2.0]}
    assert parse_rule(rule).check(good, records) is True
    assert parse_rule(rule).check(bad, records) is False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "about 3",
        "> ",
        "> 1 and < 2",
        "within of 3",
        "within -1 of 3",
        "within 1% of 0",
        "in [2, 1]",
        "in (0, 1)",
        "> 1e999",
        "== softmax",
        "__import__('os')",
        "> key:",
    ],
)
def test_what_is_not_in_the_grammar_is_refused(text):
    with pytest.raises(ValueError, match=r"not a rule|negative|empty|finite|percentage"):
        parse_rule(text)


@pytest.mark.parametrize(
    ("rule", "value"),
    [("> 0", "a text"), ("> 0", True), ("true", 1), ("true", "yes"), ("> 0", []), ("> key:three", [1, 2])],
)
def test_a_value_of_the_wrong_kind_is_an_error_and_no_verdict(rule, value):
    with pytest.raises((TypeError, ValueError), match=r"is needed|satisfies nothing|a list of 3 against a list of 2"):
        parse_rule(rule).check(value, {"three": [1, 2, 3]})


def test_a_reference_to_an_absent_key_names_it():
    rule = parse_rule("within 0.1 of key:gd/error")
    assert rule.references() == ("gd/error",)
    with pytest.raises(KeyError, match="gd/error"):
        rule.check(1.0, {})


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("> 0", "above 0"),
        ("<= 1e-9", "at most 10⁻⁹"),
        ("within 5% of 0.13", "within 5% of 0.13"),
        ("in [1, 2]", "from 1 to 2"),
        ("true", "yes"),
        ("< key:gd", "below 0.5 (gd)"),
        ("== 'relu'", "equal to 'relu'"),
    ],
)
def test_a_rule_in_words(rule, words):
    assert parse_rule(rule).describe({"gd": 0.5}) == words
