import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from claims_kit import LEDGER, make_root, stamp, write_notebook

from iclbook import cli
from iclbook.draw import SWITCH
from iclbook.machines import MEMORY, SWITCHES, TRAINING

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def root(tmp_path, monkeypatch):
    root = make_root(tmp_path / "book")
    monkeypatch.setenv("ICLBOOK_ROOT", str(root))
    return root


def ends_with_one_line(capsys, *words):
    """The error output is exactly one line and holds these words."""
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    for word in words:
        assert word in error
    return True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "dmo"], ["no paper or chapter is called 'dmo'", "demo (demo)"]),
        (["run", "demo", "--profile", "large"], ["unknown profile 'large'", "smoke, paper"]),
        (["claims", "--profile", "large"], ["unknown profile"]),
        (["train", "dmo"], ["no paper or chapter is called 'dmo'", "demo (demo)"]),
        (["train", "demo"], ["demo has no studies"]),
        (["train", "/x"], ["no paper or chapter is called '/x'"]),
        (["train", "demo", "--verify", "--scheduler", "local"], ["Leave out --scheduler"]),
        (["claims", "/"], ["no paper or chapter is called ''", "demo"]),
        (["claims", "demo/boht"], ["no claim 'demo/boht'", "demo/both"]),
        (["check"], ["references/smoke/demo.json is not there", "--update"]),
    ],
)
def test_mistakes_are_one_line_and_exit_2(root, capsys, arguments, words):
    assert cli.main(arguments) == 2
    assert ends_with_one_line(capsys, *words)


def test_commands_take_a_papers_key_or_its_chapter(tmp_path, capsys, monkeypatch):
    root = make_root(tmp_path / "book", LEDGER.replace("notebooks/demo", "notebooks/story"), ("story",))
    monkeypatch.setenv("ICLBOOK_ROOT", str(root))
    ran = []

    def run(name, profile, device, **place):
        ran.append(name)
        return write_notebook(root / "executed" / profile / f"{name}.ipynb", omega=0.13)

    monkeypatch.setattr("iclbook.execution.run_notebook", run)
    for name in ("demo", "story"):
        assert cli.main(["run", name]) == 0
        assert cli.main(["check", name, "story", "--machines", "native-1", "--update"]) == 0
        assert cli.main(["train", name]) == 2
        assert "demo has no studies" in capsys.readouterr().err
        stamp(root, "paper", "story")
        assert cli.main(["claims", f"{name}/both"]) == 0
        assert "demo/both (Figure 1)" in capsys.readouterr().out
    assert {*ran} == {"story"}


def test_an_interrupt_is_one_line_and_exits_130(root, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("iclbook.execution.run_notebook", interrupted)
    assert cli.main(["run", "demo"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_check_exits_1_when_something_moved_and_writes_its_reports(root, capsys, monkeypatch, tmp_path):
    values = {"omega": 0.13}

    def run(name, profile, device, **place):
        return write_notebook(root / "executed" / profile / f"{name}.ipynb", **values)

    monkeypatch.setattr("iclbook.execution.run_notebook", run)
    assert cli.main(["check", "--update"]) == 0
    assert cli.main(["check", "demo"]) == 0
    values["omega"] = 0.2
    reports = ["--json", str(tmp_path / "r.json")]
    assert cli.main(["check", *reports]) == 1
    assert "moved" in capsys.readouterr().out
    assert json.loads((tmp_path / "r.json").read_text())["ok"] is False


def test_train_hands_its_options_to_the_paper(root, monkeypatch, capsys):
    seen = {}

    def train(only, profile, device, fresh, verify, executor=None, parts=1):
        seen.update(only=only, profile=profile, device=device, fresh=fresh, verify=verify, parts=parts)

    module = types.ModuleType("iclbook.papers.demo")
    module.train = train
    module.__spec__ = types.SimpleNamespace(name=module.__name__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    call = ["train", "demo", "--only", "a", "--only", "b", "--fresh", "--profile", "smoke", "--workers", "1"]
    assert cli.main(call) == 0
    assert seen == {
        "only": ["a", "b"],
        "profile": "smoke",
        "device": "auto",
        "fresh": True,
        "verify": False,
        "parts": 1,
    }


@pytest.mark.parametrize("another", [["--draw", "2"], ["--draw=2"]])
def test_the_command_trains_on_pinned_code_paths_and_another_draw_on_this_processors_own(another, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "execve", lambda *call: calls.append(call))
    monkeypatch.setattr(cli, "main", lambda: 0)
    monkeypatch.delenv(SWITCH, raising=False)
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["iclbook", "train", "demo", "--fresh"])
    cli.entry()
    monkeypatch.setattr(sys, "argv", ["iclbook", "train", "demo", *another])
    cli.entry()
    (_, arguments, book), (_, _, drawn) = calls
    assert arguments[1:] == ["-m", "iclbook.cli", "train", "demo", "--fresh"]
    assert book.items() >= TRAINING.items()
    assert drawn.items() >= MEMORY.items() | {(SWITCH, "2"), ("OMP_NUM_THREADS", "1")}
    assert "ATEN_CPU_CAPABILITY" not in drawn
    assert "MKL_CBWR" not in drawn
    for name, value in TRAINING.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["iclbook", "train", "demo"])
    cli.entry()
    monkeypatch.setattr(sys, "argv", ["iclbook", "claims"])
    cli.entry()
    assert len(calls) == 2, "once is enough, and only for trainings"


def ran_today(root, profile="paper", **values):
    """An executed copy with these records, made from the inputs as they are now."""
    write_notebook(root / "executed" / profile / "demo.ipynb", **values)
    return stamp(root, profile)


def test_claims_shows_counts_a_paper_and_one_claim(root, capsys):
    ran_today(root, omega=0.2, gap=0.0)
    assert cli.main(["claims"]) == 0
    assert "3 claims: holds 1, partly 1, untested 1" in capsys.readouterr().out
    assert cli.main(["claims", "demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[1] == "holds      exact  the optimum is known"
    assert lines[4].startswith(
        "demo: without a reference verdicts have no margins. `iclbook check demo --profile paper"
    )
    assert cli.main(["claims", "demo/both"]) == 0
    one = capsys.readouterr().out
    assert "fails size: 0.2, rule: within 0.02 of 0.13" in one
    assert "demo/exact" not in one
    assert cli.main(["claims", "demo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["demo/exact"]["verdict"] == "reproduced"


def test_a_text_steers_no_terminal(root, capsys):
    ledger = root / "src/iclbook/papers/demo/claims.yaml"
    ledger.write_text(ledger.read_text().replace("where: Figure 1", r'where: "\e[2J\u202EFigure\a 1"'))
    assert cli.main(["claims", "demo/both"]) == 0
    output = capsys.readouterr().out
    assert r"\x1b[2J\u202eFigure" in output
    assert not {*"\x1b\x07\u202e"} & {*output}


def test_claims_refuses_what_is_stale(root, capsys):
    ran_today(root, omega=0.2, gap=0.0)
    (root / "lock.txt").write_text("numpy\n")
    for arguments in (["claims"], ["claims", "demo"], ["claims", "demo/both"], ["claims", "--json"]):
        assert cli.main(arguments) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.count("\n") == 1
        assert "stale (changed since: pins). Run `iclbook run demo --profile paper`" in output.err


def test_claims_judges_by_the_reference_of_today(root, capsys):
    reference = root / "references" / "paper" / "demo.json"
    reference.parent.mkdir(parents=True)
    reference.write_text('{"records": {"omega": 0.2}, "verdicts": {}, "spread": {"omega": 0.01}}')
    ran_today(root, omega=0.2, gap=0.0)
    reference.write_text('{"records": {"omega": 0.2}, "verdicts": {"demo/both": "x"}, "spread": {"omega": 0.010}}')
    assert cli.main(["claims"]) == 0, "verdicts and layout of a reference change no page"
    assert "margins" not in capsys.readouterr().out, "they are known"
    for records, spread in (("0.2", "0.02"), ("0.21", "0.01")):  # margins are measured with both
        reference.write_text(
            f'{{"records": {{"omega": {records}}}, "verdicts": {{}}, "spread": {{"omega": {spread}}}}}'
        )
        assert cli.main(["claims"]) == 2
        assert ends_with_one_line(capsys, "stale (changed since: reference)")


def test_an_unforeseen_error_is_one_line_and_its_traceback_can_be_seen(root, capsys, monkeypatch):
    def broken(*_):
        raise RuntimeError("two\nlines \x1b[31m")

    monkeypatch.setattr("iclbook.claims.scoreboard.boards", broken)
    assert cli.main(["claims"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("error: RuntimeError: two lines \\x1b[31m.")
    assert "ICLBOOK_TRACEBACK=1" in error
    monkeypatch.setenv("ICLBOOK_TRACEBACK", "1")
    assert cli.main(["claims"]) == 2
    error = capsys.readouterr().err
    assert "Traceback (most recent call last)" in error
    assert "in broken" in error


#: Says in one line what is missing where only what the library itself needs is installed.
WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from iclbook.cli import main
sys.exit(main(sys.argv[2:]))
"""
BOOK = "papermill,nbclient,IPython,ipykernel,ipywidgets,bs4,jupyter_book,myst_nb,sphinx,docutils,z3,pybtex,jupyterlab"


@pytest.mark.parametrize(
    ("arguments", "works"),
    [
        (("claims",), True),
        (("probe", "--plan", "--out", "probes"), True),
        (("train", "he2025", "--only", "seeds_d10"), True),
        (("run", "linear_regression", "--profile", "smoke"), False),
        (("check", "linear_regression"), False),
        (("build",), False),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
def test_a_command_works_without_the_extra_book_or_names_it(arguments, works, monkeypatch):
    monkeypatch.setenv("ICLBOOK_ROOT", str(ROOT))
    call = [sys.executable, "-c", WITHOUT, BOOK, *arguments]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if works:
        assert "not installed" not in done.stderr
        assert "not foreseen" not in done.stderr
    else:
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith(f"error: `iclbook {arguments[0]}` needs ")
        assert ".[book]" in done.stderr
