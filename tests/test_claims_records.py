import json
import math

import numpy as np
import pytest
from claims_kit import make_root, write_notebook

from iclbook.claims import Record, Recorder, read_records
from iclbook.claims.record import PREFIX
from iclbook.errors import UserError


@pytest.fixture
def book(tmp_path, monkeypatch):
    root = make_root(tmp_path / "book")
    monkeypatch.setenv("ICLBOOK_ROOT", str(root))
    return root


@pytest.fixture
def record(book):
    return Recorder("demo", "paper")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (True, True),
        (np.bool_(True), True),
        (3, 3),
        (np.int64(3), 3),
        (0.1, 0.1),
        (np.float32(0.5), 0.5),
        (np.array(0.25), 0.25),
        ("softmax", "softmax"),
        ([1, 2.5], [1, 2.5]),
        ((1, 2), [1, 2]),
        (np.arange(3.0), [0.0, 1.0, 2.0]),
        ([np.float64(1.5)], [1.5]),
    ],
)
def test_what_can_be_recorded(record, value, stored):
    record("omega", value)
    assert record.records["omega"].value == stored
    assert type(record.records["omega"].value) is type(stored)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan"), [1.0, math.nan]])
def test_a_non_finite_number_is_an_error(record, value):
    with pytest.raises(UserError, match="not a finite number"):
        record("omega", value)


def test_the_verdict_follows_from_what_was_recorded(record):
    assert record.verdict("demo/both").word == "not yet tested"
    record("omega", 0.13)
    assert record.verdict("demo/both").word == "reproduced"
    with pytest.raises(UserError, match="no claim"):
        record.verdict("demo/none")


def test_records_come_back_exactly(tmp_path):
    values = {"a": 0.1 + 0.2, "b": [1, 2.5e-300], "c": True, "d": "text \u03c9", "e": 10**20}
    found = read_records(write_notebook(tmp_path / "x.ipynb", **values))
    assert {key: item.value for key, item in found.items()} == values
    assert found["b"].text == "1, 2.5 × 10⁻³⁰⁰"


@pytest.mark.parametrize(
    ("value", "fmt", "shown"),
    [(500_000, ",", "500,000"), ([0.1304, 0.141], None, "0.13, 0.141"), ("it's", None, "it's")],
)
def test_prose_shows_a_record_as_it_was_formatted(value, fmt, shown):
    """MyST-NB evaluates the text: a bare "500,000" would be shown as the tuple (500, 0)."""
    from myst_nb.core.variables import format_plain_text

    data, _ = Record.make("k", value, fmt).output()
    assert format_plain_text(data["application/papermill.record/text/plain"], "") == shown


def output_of(copy, source):
    """What the cell with this source shows in an executed copy."""
    (cell,) = [c for c in json.loads(copy.read_text())["cells"] if source in "".join(c["source"])]
    return [o for o in cell["outputs"] if o["output_type"] == "display_data" and "text/html" in o["data"]]


def test_a_chapter_shows_badges_and_ends_with_the_claims_that_no_badge_showed(executed_minibook):
    copy = executed_minibook / "executed" / "smoke" / "tiny.ipynb"
    ((badge,), (table,)) = (output_of(copy, f"record.{name}") for name in ("verdict", "table"))
    html = "".join(badge["data"]["text/html"])
    assert "iclbook-badge-reproduced" in html
    assert "<style>" not in html, "a headless copy is shown in the book, which links the sheet"
    assert PREFIX not in json.dumps(badge)
    html = "".join(table["data"]["text/html"])
    assert "2 claims: holds 1, untested 1" in html
    assert [html.count(f'id="claim-tiny-{name}"') for name in ("one", "two")] == [0, 1], "the badge of one stands above"
    assert "".join(badge["data"]["text/plain"]) == "holds      one  one is one"
    assert "".join(table["data"]["text/plain"]).startswith("untested   two  nobody has looked\n2 claims")


def test_a_badge_that_was_shown_too_early_ends_the_chapter(book):
    record = Recorder("demo", "paper")
    record.verdict("demo/both")
    record("omega", 0.13)
    with pytest.raises(UserError, match="demo/both was shown as 'not yet tested' and is 'reproduced'"):
        record.table()
