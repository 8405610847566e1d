"""``make gpu`` asks unit after unit, goes on where it stopped, and says what is left."""

import itertools
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks/ is not part of the installed package

from benchmarks import gpu, phases  # noqa: E402
from benchmarks.gpu import DONE, FAILED, STOPPED, State, Unit, go_on, summary  # noqa: E402

#: Works until it is interrupted, as a training that keeps a checkpoint does, and ends at once when it goes on from there.
WORKS = """
import pathlib, sys, time
place = pathlib.Path({place!r})
if place.exists():
    sys.exit(print('went on from', place.read_text()))
try:
    place.with_suffix('.here').touch()
    while True: time.sleep(0.1)
except KeyboardInterrupt:
    place.write_text('a step'); sys.exit(130)
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


def test_trainings_go_on_side_by_side_and_in_the_next_call(state, tmp_path, monkeypatch):
    """The driver's time is up when both trainings have begun."""
    places, calls = [tmp_path / name for name in "ab"], itertools.count()
    begun = lambda: all(place.with_suffix(".here").exists() for place in places)  # noqa: E731
    monkeypatch.setattr(gpu, "time", SimpleNamespace(monotonic=lambda: 1000 * begun() + 0.1 * next(calls)))
    monkeypatch.setattr(gpu, "GRACE", 60.0)
    both = [unit(p.name, WORKS.format(place=str(p)), resumes=True, stage="studies") for p in places]
    assert not go_on([*both, unit("next", "", stage="studies")], state, 10, lambda line: None, at_once=2)
    later = again(state)
    assert [later.outcome(u) for u in both] == [STOPPED, STOPPED]
    assert go_on(both, later, 10, lambda line: None, at_once=2)
    assert later.found["studies: a"]["said"] == "went on from a step"
    assert later.found["studies: a"]["seconds"] > state.found["studies: a"]["seconds"], "the seconds of both calls"


def test_every_stored_training_is_replayed_and_trained_beside_its_results(monkeypatch):
    monkeypatch.setattr(gpu, "_tests", lambda file: [f"{file}::one"])
    units = gpu.units()
    assert [stage for stage in gpu.STAGES if any(u.stage == stage for u in units)] == list(gpu.STAGES)
    trains = [u for u in units if u.stage == "studies"]
    assert all(u.resumes and u.environment["ICLBOOK_ROOT"] == str(gpu.STUDIES) for u in trains)
    stored = {f"{p.parts[-3]}/{p.stem}" for p in (ROOT / "results").glob("*/paper/*.json")}
    assert {u.name for u in units if u.stage == "replays"} == stored
    assert stored > {u.name for u in trains}


def test_the_seconds_of_a_training_are_those_of_its_phases(monkeypatch, tmp_path, capfd):
    gpu.make_book(tmp_path)
    monkeypatch.setenv("ICLBOOK_ROOT", str(tmp_path))
    assert phases.main(["he2025", "--only", "reduced", "--profile", "smoke", "--workers", "1"]) == 0
    said = capfd.readouterr().out.splitlines()[-1]
    spent = json.loads(said)
    assert tuple(spent) == phases.PHASES
    assert all(seconds > 0 for seconds in spent.values())
    monkeypatch.setattr(phases, "RESULTS", tmp_path / "studies.json")
    assert "Not measured" in phases.rendered()
    monkeypatch.setattr(phases.suite, "_gpu", lambda: "a card")
    phases.store([("he2025/reduced", 8.0, said)], 1800.0, 2, 3.0)
    text = phases.rendered()
    assert "All 1 trainings took 30 min" in text
    assert "1.5 dollars at 3 an hour" in text
    assert "| he2025: reduced | 8 |" in text
