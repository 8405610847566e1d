import json

import pytest
from claims_kit import make_root, write_notebook

from iclbook import check as regression
from iclbook import draw, replication
from iclbook.check.figures import moved, read_figures, spread_of_figure
from iclbook.errors import UserError
from iclbook.project import FIGURE, SLIDERS

VALUES = {"omega": 0.13, "gap": 0.0, "seeds": 8, "seconds": 1.5}


class Book:
    """A book whose chapter records what a test says, with a reference made from ``VALUES``."""

    def __init__(self, root):
        self.root = root
        self.values = dict(VALUES)
        self.runs = []

    def run(self, names, profile, device, root, jobs, machine):
        for name in names:
            self.runs.append((name, profile, device))
            yield name, self.ran(root / "executed" / profile / f"{name}.ipynb"), 0.0

    def ran(self, path):
        return write_notebook(path, **self.values)

    def check(self, *names, **options):
        return regression.check(names, root=self.root, **options)


@pytest.fixture
def book(tmp_path, monkeypatch):
    book = Book(make_root(tmp_path / "book"))
    monkeypatch.setattr(regression, "run_chapters", book.run)
    book.check(update=True)
    path = book.root / "references" / "smoke" / "demo.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps(body | {"spread": {"omega": 1e-3, "gap": 0.0, "seeds": 0}}))
    book.runs.clear()
    return book


def kinds(result):
    return {(item.kind, item.name) for item in result.differences}


def test_the_same_values_agree(book):
    (result,) = book.check(device="cpu")
    assert result.ok
    assert result.compared == 4
    assert book.runs == [("demo", "smoke", "cpu")]
    assert "ok, 4 values agree" in regression.table([result])


def test_a_reference_is_made_per_profile(book):
    assert (book.root / "references" / "smoke" / "demo.json").is_file()
    with pytest.raises(UserError, match=r"references/paper/demo\.json is not there.*--update"):
        book.check(profile="paper")
    assert not book.runs, "said before minutes of running"


@pytest.mark.parametrize(
    ("key", "value", "moved"),
    [
        ("omega", 0.13 + 3.9e-3, False),  # four times its spread
        ("omega", 0.13 + 4.1e-3, True),
        ("gap", 1e-15, False),  # a residual may be a few units of numbers of order one
        ("gap", 1e-14, True),
        ("seeds", 9, True),
        ("seconds", 99.0, False),  # none
    ],
)
def test_a_value_that_moved(book, key, value, moved):
    book.values[key] = value
    (result,) = book.check()
    assert (("moved", key) in kinds(result)) is moved
    assert result.ok is not moved
    assert (key in regression.table([result])) is moved


def machines_that_record(book, monkeypatch, **by_machine):
    """Let the chapter record other values on emulated machines, each in a copy of the book."""
    folders = []

    def run_chapters(names, profile, device, root, jobs, machine):
        folders.extend([root] if machine != "pinned" else [])
        for name in names:
            values = VALUES | by_machine.get(machine.split("-")[0], {})
            yield name, write_notebook(root / "executed" / profile / f"{name}.ipynb", **values), 0.0

    monkeypatch.setattr(regression, "run_chapters", run_chapters)
    return folders


def test_another_draw_is_kept_though_the_book_recorded_more(book, monkeypatch):
    path = book.root / "references" / "smoke" / "demo.json"
    body = json.loads(path.read_text())
    path.write_text(
        json.dumps(body | {"records": body["records"] | {"gone": 1.0}, "spread": body["spread"] | {"gone": 0.1}})
    )
    replication.freeze(book.root)
    monkeypatch.setenv(draw.SWITCH, "1")
    (result,) = book.check(update=True)
    assert not result.error
    kept = json.loads((book.root / "references" / "replication" / "1" / "smoke" / "demo.json").read_text())
    assert kept["spread"] == body["spread"]


def test_an_update_measures_spreads_on_other_machines(book, monkeypatch):
    folders = machines_that_record(book, monkeypatch, sse={"omega": 0.1302}, native={"omega": 0.1299, "gap": 1e-17})
    (result,) = book.check(update=True)
    assert result.updated
    body = json.loads((book.root / "references" / "smoke" / "demo.json").read_text())
    assert body["spread"] == pytest.approx({"omega": 2e-4, "gap": 1e-17, "seeds": 0, "seconds": 0}, rel=1e-2)
    assert body["made"]["machines"] == ["sse-1", "native-2"]
    assert body["made"]["versions"]["torch"]
    assert all(folder != book.root and not folder.exists() for folder in folders), "copies, gone afterwards"


def test_a_first_reference_says_which_verdicts_its_margins_change(book, monkeypatch):
    """A value that is as far from its bound as machines differ holds without margins, and is too close to call with them."""
    (book.root / "references" / "smoke" / "demo.json").unlink()
    machines_that_record(book, monkeypatch, sse={"gap": 1e-9})
    (result,) = book.check(update=True)
    assert kinds(result) == {("verdict", "demo/exact")}
    assert "first reference written, 4 values: verdicts have margins now, which changed 1" in regression.table([result])
    (result,) = book.check(update=True)
    assert not result.differences
    assert not result.first


def test_an_update_takes_machines_of_choice_and_leaves_a_copy_of_its_own_reference(book, monkeypatch):
    machines_that_record(book, monkeypatch)
    made = []
    run_chapters = regression.run_chapters
    monkeypatch.setattr(regression, "run_chapters", lambda *how: made.append(how[-1]) or run_chapters(*how))
    book.check(update=True, machines=("native-1",))
    body = json.loads((book.root / "references" / "smoke" / "demo.json").read_text())
    assert body["made"]["machines"] == ["native-1"]
    assert made == ["pinned", "native-1", "pinned"], "the last one shows the margins of the new reference"


@pytest.mark.parametrize("other", [{"omega": [1.0, 2.0]}, UserError("notebooks/demo.py stopped: boom", "Repair it.")])
def test_no_value_is_kept_without_its_spread(book, monkeypatch, other):
    """A chapter that stops on another machine, or records another shape there, keeps its reference."""
    path = book.root / "references" / "smoke" / "demo.json"
    before = path.read_text()
    ran = book.ran
    book.values["omega"] = 0.5
    book.machine = lambda path: other if isinstance(other, UserError) else write_notebook(path, **VALUES | other)
    book.ran = lambda path: ran(path) if book.root in path.parents else book.machine(path)
    (result,) = book.check(update=True)
    assert result.error
    assert not result.updated
    assert path.read_text() == before


def test_an_emulated_machine_is_compared_and_leaves_nothing(book, monkeypatch):
    machines_that_record(book, monkeypatch, sse={"omega": 0.2})
    (result,) = book.check(machine="sse-2")
    assert ("moved", "omega") in kinds(result)
    assert book.check(machine="native-1")[0].ok
    assert not (book.root / "executed").exists() or book.values == VALUES


@pytest.mark.parametrize(("rule", "moved"), [("< 0", {("verdict", "demo/exact")}), ("<= 1", set())])
def test_a_rule_that_changed_is_seen_unless_it_says_that_it_is_late(book, rule, moved):
    ledger = book.root / "src/iclbook/papers/demo/claims.yaml"
    text = ledger.read_text().replace('"<= 1e-9"', f'"{rule}"')
    ledger.write_text(text)
    (name,) = {name for kind, name in kinds(book.check()[0]) if kind == "rule"}
    assert name.startswith("demo/exact, ")
    assert kinds(book.check()[0]) == moved | {("rule", name)}
    assert "late: true" in book.check(update=True)[0].error, "nor is it taken over silently"
    ledger.write_text(text.replace(f'rule: "{rule}"', f'late: true\n        rule: "{rule}"'))
    assert kinds(book.check()[0]) == moved
    assert book.check(update=True)[0].ok


def test_a_chapter_that_fails_is_reported_and_keeps_its_reference(book):
    before = (book.root / "references" / "smoke" / "demo.json").read_text()

    book.ran = lambda path: UserError("notebooks/demo.py stopped: boom", "Mend it.")
    for update in (False, True):
        (result,) = book.check(update=update)
        assert not result.ok
        assert "FAILED. notebooks/demo.py stopped: boom" in regression.table([result])
    assert (book.root / "references" / "smoke" / "demo.json").read_text() == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"records": 1, "verdicts": {}}', '{"records": {}}'])
def test_a_damaged_reference_is_an_error(book, text):
    (book.root / "references" / "smoke" / "demo.json").write_text(text)
    with pytest.raises(UserError, match=r"demo\.json is damaged.*--update"):
        book.check()
    assert not book.runs
    assert book.check(update=True)[0].ok, "the hint of the message works"
    assert book.check()[0].ok


def test_a_fault_that_only_a_figure_shows_is_seen_and_named(tmp_path):
    """A curve that is drawn and not recorded: one point of fifty off by 0.1 %, a line that is gone, a slider's frame, another word of one panel of six."""

    def copy(scale=1.0, lines=("ridge", "heads"), frame=2.0, words=4000000000):
        rows = [f"1,{line},line,{x},{1 / (1 + x) * (scale if x == 7 else 1)}" for line in lines for x in range(50)]
        csv = "\n".join(["panel,series,kind,x,y", *rows])
        looks = {"words": [*[4000000000] * 5, words], "colours": [1]}
        figure = {"data": {FIGURE: {"csv": csv, "looks": looks}}, "metadata": {}}
        slider = {"data": {}, "metadata": {SLIDERS: {"title": "Heads", "csv": f"slider: H,panel,x,y\n1,1,0,{frame}\n"}}}
        cell = {"metadata": {"mystnb": {"image": {"alt": "Error against length."}}}, "outputs": [figure, slider]}
        path = tmp_path / "copy.ipynb"
        path.write_text(json.dumps({"cells": [cell]}))
        return read_figures(path)

    kept = copy()
    assert list(moved(kept, copy(1 + 1e-9))) == []
    assert {name for name, *_ in moved(kept, copy(1.001))} == {
        f"Error against length: 1 / {line} / line / y" for line in ("heads", "ridge")
    }
    assert {old for _, old, _ in moved(kept, copy(lines=("ridge",)))} == {"there"}
    assert [name for name, *_ in moved(kept, copy(words=3990000000))] == ["Error against length: words"]
    assert [name for name, *_ in moved(kept, copy(frame=2.001))] == ["slider Heads: 1 /  /  / y"]


def test_a_series_may_move_by_four_spreads():
    pinned, others = {"y": [3, 2.0, 2.0]}, [{"y": [3, 2.001, 2.001]}, {"y": [2, 9.0, 9.0]}]
    kept = {"Loss": spread_of_figure(pinned, others)}
    assert kept["Loss"]["y"][3] == pytest.approx(0.001), (
        "where another machine draws another number of points, nothing is known"
    )
    for total, there in ((2.0039, 0), (2.0041, 1)):
        assert len(list(moved(kept, {"Loss": {"y": [3, total, total]}}))) == there
