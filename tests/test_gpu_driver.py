"""``make gpu`` asks unit after unit, goes on where it stopped, and says what is left."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks/ is not part of the installed package

from benchmarks import gpu  # noqa: E402
from benchmarks.gpu import DONE, FAILED, STOPPED, State, Unit, go_on, summary  # noqa: E402

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


def test_trainings_go_on_side_by_side_and_in_the_next_call(state, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "GRACE", 5.0)
    places = [tmp_path / name for name in "ab"]
    both = [unit(p.name, COUNTS.format(place=str(p), end=40), resumes=True, stage="studies") for p in places]
    assert not go_on([*both, unit("next", "", stage="studies")], state, (5 + 2.5) / 60, lambda line: None, at_once=2)
    later = again(state)
    assert [later.outcome(u) for u in both] == [STOPPED, STOPPED]
    assert all(0 < int(place.read_text()) < 40 for place in places)
    assert go_on(both, later, 1, lambda line: None, at_once=2)
    assert later.found["studies: a"]["said"] == "counted 40"
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
