import json
import subprocess
import sys
import types

import pytest
from claims_kit import make_root, write_notebook

from iclbook import cli
from iclbook.errors import UserError

COMMANDS = ("run", "check", "build", "train", "claims")


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


def test_help_names_every_command_and_has_examples(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert end.value.code == 0
    assert "examples:" in text
    for command in COMMANDS:
        assert f"iclbook {command}" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    text = capsys.readouterr().out
    assert end.value.code == 0
    assert "example" in text
    assert "--profile" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "dmo"], ["unknown chapter 'dmo'", "demo"]),
        (["check", "dmo"], ["unknown chapter 'dmo'", "demo"]),
        (["run", "demo", "--profile", "large"], ["unknown profile 'large'", "smoke, paper"]),
        (["check", "--profile", "large"], ["unknown profile", "smoke, paper"]),
        (["build", "--profile", "large"], ["unknown profile"]),
        (["claims", "--profile", "large"], ["unknown profile"]),
        (["train", "dmo"], ["unknown paper 'dmo'", "demo"]),
        (["train", "demo"], ["demo has no studies"]),
        (["claims", "dmo"], ["unknown paper 'dmo'", "demo"]),
        (["claims", "demo/boht"], ["no claim 'demo/boht'", "demo/both"]),
        (["check"], ["references/smoke/demo.json is not there", "--update"]),
    ],
)
def test_mistakes_are_one_line_and_exit_2(root, capsys, arguments, words):
    assert cli.main(arguments) == 2
    assert ends_with_one_line(capsys, *words)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["run"],
        ["run", "demo", "--fast"],
        ["train", "demo", "--workers", "0"],
        ["run", "a", "--device", "tpu"],
    ],
)
def test_a_wrong_command_line_is_one_line_and_exits_2(root, capsys, arguments):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    assert ends_with_one_line(capsys, "--help")


def test_a_gpu_that_is_not_there_is_refused_before_anything_starts(root, capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for arguments in (["run", "demo"], ["check"], ["build"], ["train", "demo"]):
        assert cli.main([*arguments, "--device", "cuda"]) == 2
        assert ends_with_one_line(capsys, "CUDA")
    assert not (root / "executed").exists()


def test_outside_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ICLBOOK_ROOT", str(tmp_path))
    assert cli.main(["claims"]) == 2
    assert ends_with_one_line(capsys, "_toc.yml")


def test_a_malformed_ledger_is_one_line_with_its_place(root, capsys):
    ledger = root / "claims" / "demo.yaml"
    ledger.write_text(ledger.read_text().replace("because: a sign", "becuse: a sign"))
    assert cli.main(["claims"]) == 2
    assert ends_with_one_line(capsys, "demo.yaml, line 16", "'becuse'", "'because'")


def test_an_interrupt_is_one_line_and_exits_130(root, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("iclbook.book.execute.run_notebook", interrupted)
    assert cli.main(["run", "demo"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_run_all_runs_every_chapter_at_the_profile(root, capsys, monkeypatch):
    ran = []

    def run(name, profile, device, **place):
        ran.append((name, profile, device))
        return root / "executed" / profile / f"{name}.ipynb"

    monkeypatch.setattr("iclbook.book.execute.run_notebook", run)
    assert cli.main(["run", "all", "--profile", "smoke", "--device", "cpu"]) == 0
    assert ran == [("demo", "smoke", "cpu")]
    assert "executed/smoke/demo.ipynb" in capsys.readouterr().out


def test_check_exits_1_when_something_moved_and_writes_its_reports(root, capsys, monkeypatch, tmp_path):
    values = {"omega": 0.13}

    def run(name, profile, device, **place):
        return write_notebook(root / "executed" / profile / f"{name}.ipynb", **values)

    monkeypatch.setattr("iclbook.book.execute.run_notebook", run)
    assert cli.main(["check", "--update"]) == 0
    assert cli.main(["check", "demo"]) == 0
    values["omega"] = 0.2
    reports = ["--json", str(tmp_path / "r.json"), "--junit", str(tmp_path / "r.xml")]
    assert cli.main(["check", *reports]) == 1
    assert "moved" in capsys.readouterr().out
    assert json.loads((tmp_path / "r.json").read_text())["ok"] is False
    assert (tmp_path / "r.xml").is_file()


def test_a_chapter_that_fails_exits_1(root, capsys, monkeypatch):
    def run(name, profile, device, **place):
        raise UserError("notebooks/demo.py stopped", "Look at it.")

    monkeypatch.setattr("iclbook.book.execute.run_notebook", run)
    (root / "references" / "smoke").mkdir(parents=True)
    (root / "references" / "smoke" / "demo.json").write_text('{"records": {}, "verdicts": {}}')
    assert cli.main(["check"]) == 1
    assert "FAILED" in capsys.readouterr().out
    assert cli.main(["run", "demo"]) == 2


def test_train_hands_its_options_to_the_paper(root, monkeypatch, capsys):
    seen = {}

    def train(only, profile, device, fresh, verify):
        seen.update(only=only, profile=profile, device=device, fresh=fresh, verify=verify)

    module = types.ModuleType("iclbook.experiments.demo")
    module.train = train
    module.__spec__ = types.SimpleNamespace(name=module.__name__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert cli.main(["train", "demo", "--only", "a", "--only", "b", "--fresh", "--profile", "smoke"]) == 0
    assert seen == {"only": ["a", "b"], "profile": "smoke", "device": "auto", "fresh": True, "verify": False}


def test_claims_shows_counts_a_paper_and_one_claim(root, capsys):
    write_notebook(root / "executed" / "paper" / "demo.ipynb", omega=0.2, gap=0.0)
    assert cli.main(["claims"]) == 0
    assert "3 claims: 1 reproduced, 1 partly, 1 not yet tested" in capsys.readouterr().out
    assert cli.main(["claims", "demo"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert cli.main(["claims", "demo/both"]) == 0
    one = capsys.readouterr().out
    assert "fails size: 0.200, rule: within 0.02 of 0.13" in one
    assert "demo/exact" not in one
    assert cli.main(["claims", "demo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["demo/exact"]["verdict"] == "reproduced"


def test_the_command_works_as_a_program_and_into_a_closed_pipe(root):
    command = f"{sys.executable} -W error -m iclbook.cli claims demo | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "demo/both" in done.stdout
    assert done.stderr == ""
