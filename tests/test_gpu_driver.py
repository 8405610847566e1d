"""``make gpu`` asks unit after unit, goes on where it stopped, and says what is left."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks/ is not part of the installed package

from benchmarks import gpu, more_seeds  # noqa: E402
from benchmarks.gpu import DONE, FAILED, STOPPED, TOO_LONG, State, Unit, ask, go_on, summary  # noqa: E402

#: Counts its calls in a file; stops with a checkpoint as a training does.
COUNTS = """
import pathlib, signal, sys, time
place = pathlib.Path({place!r})
n = int(place.read_text()) if place.exists() else 0
try:
    while n < {end}:
        time.sleep(0.1)
        n += 1
except KeyboardInterrupt:
    place.write_text(str(n)); print('kept', n); sys.exit(130)
print('counted', n)
"""


def unit(name, program, resumes=False, stage="tests"):
    return Unit(stage, name, (sys.executable, "-c", program), {}, resumes)


@pytest.fixture
def state(tmp_path):
    return State(tmp_path / "state.json", "code")


def again(state):
    """The state that the next call reads."""
    return State(state._path, "code")


@pytest.fixture(autouse=True)
def no_grace(monkeypatch):
    monkeypatch.setattr(gpu, "GRACE", 0.0)


def test_every_unit_is_asked_once_and_failures_are_said(state):
    todo = [unit("good", "print('3 passed')"), unit("bad", "raise SystemExit('no kernel')")]
    said = []
    assert go_on(todo, state, 1, said.append)
    assert [state.outcome(u) for u in todo] == [DONE, FAILED]
    assert "3 passed" in said[0]
    assert "no kernel" in said[1]
    lines = summary(todo, again(state))
    assert lines[0].startswith("tests      1 done, 1 failed")
    assert lines[1].startswith("failed: tests: bad: ")
    assert go_on(todo, again(state), 1, said.append)
    assert len(said) == 2, "nothing is asked twice"


def test_a_training_goes_on_in_the_next_call(state, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "GRACE", 5.0)
    place = tmp_path / "checkpoint"
    long = unit("long", COUNTS.format(place=str(place), end=40), resumes=True)
    assert not go_on([long, unit("next", "")], state, (5 + 2.5) / 60, lambda line: None)
    assert again(state).outcome(long) == STOPPED
    assert 0 < int(place.read_text()) < 40
    later = again(state)
    assert go_on([long], later, 1, lambda line: None)
    assert later.outcome(long) == DONE
    entry = later.found["tests: long"]
    assert entry["said"] == "counted 40"
    assert entry["seconds"] > state.found["tests: long"]["seconds"], "the seconds of both calls"


def test_what_does_not_end_in_a_whole_call_is_given_up_and_what_follows_is_asked(state):
    endless = unit(
        "endless", "import time\nwhile True:\n  try: time.sleep(60)\n  except KeyboardInterrupt: pass"
    )
    go_on([endless, unit("next", "")], state, 1 / 60, lambda line: None)
    assert state.outcome(endless) == TOO_LONG
    assert go_on([endless, unit("next", "")], again(state), 1, lambda line: None)


def test_what_is_stopped_late_in_a_call_has_a_whole_one_next(state):
    todo = [unit("first", "import time; time.sleep(1)"), unit("second", "import time; time.sleep(2)")]
    assert not go_on(todo, state, 2 / 60, lambda line: None)
    assert state.outcome(todo[0]) == DONE
    assert state.outcome(todo[1]) in (STOPPED, "")
    assert go_on(todo, again(state), 1, lambda line: None)


def test_answers_of_other_code_and_damaged_ones_are_forgotten(state):
    good = unit("good", "")
    go_on([good], state, 1, lambda line: None)
    assert again(state).outcome(good) == DONE
    assert State(state._path, "other code").outcome(good) == ""
    state._path.write_text("{")
    assert again(state).outcome(good) == ""
    state.forget([good])
    assert state.outcome(good) == ""


def test_the_digest_follows_the_code(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1")
    before = gpu.code_digest(tmp_path)
    (tmp_path / "src" / "a.py").write_text("2")
    assert gpu.code_digest(tmp_path) != before


def test_every_stage_has_its_units_and_trains_beside_the_stored_results(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "_tests", lambda file: [f"{file}::one"])
    units = gpu.units()
    assert [stage for stage in gpu.STAGES if any(u.stage == stage for u in units)] == list(gpu.STAGES)
    assert len({(u.stage, u.name) for u in units}) == len(units)
    trains = [u for u in units if u.stage == "studies"]
    assert all(u.resumes and u.environment["ICLBOOK_ROOT"] == str(gpu.STUDIES) for u in trains)
    stored = {f"{p.parts[-3]}/{p.stem}" for p in (ROOT / "results").glob("*/paper/*.json")}
    assert {u.name for u in units if u.stage == "replays"} == stored
    assert stored - {u.name for u in trains} == {
        *("agarwal2025/toy", "crossing/leads", "crossing/sgd_waits", "crossing/waits", "he2025/descent"),
        *("recall2025/census", "recall2025/lifted", "recall2025/plateaus"),
    }, "no trainings"
    assert {u.name for u in trains} > {*more_seeds.more_seeds()}
    gpu.make_book(tmp_path / "book")
    gpu.make_book(tmp_path / "book")
    assert (tmp_path / "book" / "src" / "iclbook").is_dir()
    assert not (tmp_path / "book" / "results").exists()


def test_more_seeds_begin_with_those_of_the_chapter():
    from iclbook.papers import crossing, nagy2026

    for profile in ("smoke", "paper"):
        home = crossing.studies(profile) | nagy2026.studies(profile)
        for name, study in more_seeds.more_seeds(profile).items():
            own = home[name.removesuffix("_seeds")]
            assert dataclasses.replace(study, name=own.name, groups=own.groups) == own
            for group, before in zip(study.groups, own.groups, strict=True):
                assert dataclasses.replace(group, runs=before.runs) == before
                assert len(set(group.runs)) == len(group.runs) == 4 * len(before.runs)
                assert set(group.runs) > set(before.runs)
                kinds = [{dataclasses.replace(run, seed=0) for run in g.runs} for g in (group, before)]
                assert kinds[0] == kinds[1]


def test_more_seeds_are_trained_into_the_named_book_with_their_device(monkeypatch, tmp_path, capsys):
    small = more_seeds.more_seeds("smoke")["rates_chain_seeds"]
    monkeypatch.setattr(more_seeds, "more_seeds", lambda: {small.name: small})
    gpu.make_book(tmp_path)
    monkeypatch.setenv("ICLBOOK_ROOT", str(tmp_path))
    assert more_seeds.main([small.name, "--device", "cpu"]) == 0
    assert f"{small.name}: done in " in capsys.readouterr().out
    kept = json.loads((tmp_path / "results" / "crossing" / "paper" / f"{small.name}.json").read_text())
    assert kept["device"] == "cpu"


def test_a_unit_that_ignores_the_interrupt_is_ended():
    stubborn = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    outcome, seconds, _ = ask(unit("stubborn", stubborn), 1)
    assert outcome == STOPPED
    assert seconds < 30


def test_without_a_gpu_it_is_one_line():
    import os

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 2
    assert done.stderr == "error: there is no CUDA device here. Run make gpu on a machine that has one.\n"


def test_kept_answers_are_not_asked_again(tmp_path, monkeypatch):
    from benchmarks import suite

    asked = []
    monkeypatch.setattr(suite, "_cold", lambda job, module: asked.append(job) or {"rates": [1.0]})
    monkeypatch.setattr(suite, "KEEP", tmp_path)
    assert suite.measured({"threads": 1}) == suite.measured({"threads": 1}) == {"rates": [1.0]}
    assert suite.measured({"threads": 2})
    assert asked == [{"threads": 1}, {"threads": 2}]
    assert all(json.loads(path.read_text()) for path in tmp_path.glob("*.json"))


def test_units_hear_that_they_are_to_stop_when_a_shell_started_all_in_its_background(tmp_path):
    """Such a shell has its processes ignore Ctrl-C, and they hand that on."""
    script = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from benchmarks import gpu\n"
        "gpu.units, gpu._require_cuda, gpu.make_book = list, lambda: None, lambda: None\n"
        f"gpu.FOLDER = __import__('pathlib').Path({str(tmp_path)!r})\n"
        "print(gpu.main([]))\n"
        "child = 'import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)'\n"
        "print(subprocess.run([sys.executable, '-c', child], capture_output=True, text=True).stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-2:] == ["0", "True"]


def test_asking_again_drops_the_benchmarks_kept_answers_too(tmp_path, monkeypatch):
    answer = tmp_path / "bench" / "code" / "answer.json"
    monkeypatch.setattr(gpu, "FOLDER", tmp_path)
    monkeypatch.setattr(gpu, "units", list)
    monkeypatch.setattr(gpu, "make_book", lambda: None)
    monkeypatch.setattr(gpu, "_require_cuda", lambda: None)
    for arguments, kept in ((["--stage", "tests", "--again"], True), ([], True), (["--again"], False)):
        answer.parent.mkdir(parents=True, exist_ok=True)
        answer.write_text("{}")
        assert gpu.main(arguments) == 0
        assert answer.exists() == kept
