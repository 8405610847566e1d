"""Parts of a study in processes of their own: the same numbers, again when killed, one line when they cannot."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from iclbook import workers
from iclbook.errors import UserError
from iclbook.models import Attention
from iclbook.profiles import check_profile
from iclbook.tasks import LinearRegression
from iclbook.training import Run, progress
from iclbook.training.history import History, joined
from iclbook.training.study import Group, Study, shared_out, train_study

GROUPS = tuple(
    Group(f"h{h}", Attention, {"d": 3, "n_heads": h}, [Run(s) for s in range(2 * h)]) for h in (1, 2)
)
STUDY = Study("demo", "tiny", LinearRegression(d=3, L=8), GROUPS, steps=200, batch_size=16)


def same(one, other):
    assert one.arrays.keys() == other.arrays.keys()
    for key, value in one.arrays.items():
        assert value.tobytes() == other[key].tobytes(), key


def trained(executor, study=STUDY, parts=3):
    return train_study(study, "smoke", "cpu", fresh=True, progress=False, executor=executor, parts=parts)


# -- how a study is shared out -----------------------------------------------------------------------------------------


def sizes(shares):
    return [{g.name: [run.seed for run in g.runs] for g in share} for share in shares]


def groups_of(**counts):
    return [
        Group(n, Attention, {"d": 3, "n_heads": 1}, [Run(s) for s in range(k)]) for n, k in counts.items()
    ]


def test_whole_groups_stay_together_where_they_fit():
    assert sizes(shared_out(groups_of(a=1, b=3, c=2), 2)) == [{"b": [0, 1, 2]}, {"a": [0], "c": [0, 1]}]


def test_one_group_is_cut_between_its_runs():
    assert sizes(shared_out(groups_of(a=5), 2)) == [{"a": [0, 1]}, {"a": [2, 3, 4]}]
    assert sizes(shared_out(groups_of(a=2), 5)) == [{"a": [0]}, {"a": [1]}]


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7, 40])
def test_every_run_is_trained_once_and_no_part_has_much_more_than_its_share(parts):
    groups = groups_of(a=8, b=8, c=9, d=1)
    shares = shared_out(groups, parts)
    assert len(shares) == min(parts, 26)
    for group in groups:
        pieces = [g.runs for share in shares for g in share if g.name == group.name]
        assert sum(pieces, ()) == group.runs
    assert max(sum(len(g.runs) for g in share) for share in shares) <= 26 / parts * 1.25 + 1


def test_pieces_of_a_group_are_joined_along_their_runs():
    steps = np.arange(3)
    whole = History(
        steps, np.arange(15.0).reshape(3, 5), {"a": np.arange(30).reshape(3, 5, 2)}, {"p": np.ones((2, 5))}
    )
    pieces = [
        History(steps, whole.loss[:, cut], {"a": whole.circuits["a"][:, cut]}, {"p": whole.kept["p"][:, cut]})
        for cut in (slice(0, 2), slice(2, 5))
    ]
    again = joined(pieces)
    np.testing.assert_array_equal(again.loss, whole.loss)
    np.testing.assert_array_equal(again.circuits["a"], whole.circuits["a"])
    assert again.kept["p"].shape == (2, 5)


# -- processes ---------------------------------------------------------------------------------------------------------


class KillOnce(workers.Bar):
    """Kills a training process of this one once it has begun."""

    def __init__(self) -> None:
        super().__init__(show=False)
        self.killed: list[int] = []

    def tell(self, part, done, total):
        if done and not self.killed:
            children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
            numbers = [child for c in children for child in c.read_text().split()]
            # multiprocessing's tracker of resources is a child as well, and trains nothing
            trains = [
                n for n in numbers if b"resource_tracker" not in Path(f"/proc/{n}/cmdline").read_bytes()
            ]
            self.killed = [int(n) for n in trains][:1]
            os.kill(self.killed[0], signal.SIGKILL)


@pytest.mark.slow
def test_processes_give_the_same_numbers_and_one_that_is_killed_changes_nothing(empty_root):
    study = dataclasses.replace(STUDY, steps=1000, record=(0, 200))
    with workers.Local(2, progress=False) as local:
        undisturbed = trained(local, study, parts=2)
    bar = KillOnce()
    with workers.Local(2, progress=False) as local:
        local._bar = bar
        disturbed = trained(local, study, parts=2)
    assert bar.killed
    same(undisturbed, disturbed)
    about = undisturbed.provenance
    assert (about["pinned"], about["threads"], about["parts"]) == (True, 1, 2)
    assert not list((empty_root / ".cache").rglob("*.pt")), "finished parts leave no checkpoint"


@pytest.mark.slow
def test_an_interrupt_reaches_the_processes_which_keep_where_they_are(empty_root):
    endless = dataclasses.replace(STUDY, steps=10**7, record=(0,), compile_from=None)
    timer = threading.Timer(10, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), workers.Local(2, progress=False) as local:
        trained(local, endless, parts=2)
    assert time.monotonic() - start < 60
    assert len(list((empty_root / ".cache").rglob("*.pt"))) == 2


def test_a_mistake_in_a_process_is_the_mistake_here():
    with workers.Local(1, progress=False) as local:
        future = local.submit(check_profile, "huge")
        with pytest.raises(UserError, match=r"^unknown profile 'huge'"):
            future.result()


def test_a_process_that_is_killed_again_and_again_is_one_line(monkeypatch):
    calls = []
    monkeypatch.setattr(workers, "_once", lambda *_: calls.append(0) or ("killed", -9))
    kind, problem = workers.call(b"", lambda *_: None, lambda: True)
    assert kind == "failed"
    assert "killed 3 times (last exit code -9)" in str(problem)
    assert len(calls) == workers.TRIES


def test_other_versions_are_refused():
    here = {"torch": "2", "the digest of the training code": "a"}
    workers._require_same(here, dict(here))
    with pytest.raises(UserError, match=r"training code is a here and b in a worker"):
        workers._require_same(here, here | {"the digest of the training code": "b"})


def test_a_checkpoint_out_of_reach_lies_in_a_folder_of_the_worker(tmp_path):
    assert not workers._is_out_of_reach(tmp_path / "a.pt")
    far = tmp_path / "not there" / "a.pt"
    assert workers._is_out_of_reach(far)
    assert workers._own(far).name == "a.pt"
    assert workers._own(far).parent != far.parent


# -- how far it is -----------------------------------------------------------------------------------------------------


def test_trainings_tell_how_far_they_are(empty_root):
    heard = []
    with progress.told_to(lambda *at: heard.append(at)):
        STUDY.trainer("cpu").train(progress=True, until=7)
    assert heard[0] == (0, 200)
    assert heard[-1] == (7, 200)


def test_the_bar_counts_all_parts_and_what_was_resumed_is_no_speed_of_today(capsys):
    bar = workers.Bar(show=True)
    for part in (0, 1):
        bar.expect(part, fresh=part == 0)
    bar.tell(0, 50, 100)
    bar.tell(1, 0, 100)
    bar.tell(0, 80, 100)
    assert (bar._bar.n, bar._bar.total, bar._bar.initial) == (80, 200, 50)
    bar.expect(2, fresh=True)
    bar.tell(1, 90, 100)  # of the study before
    assert bar._bar is None
    bar.close()


@pytest.mark.parametrize(("asked", "expected"), [(3, 3), (None, 5)])
def test_all_cores_by_default(monkeypatch, asked, expected):
    monkeypatch.setattr(workers, "usable_cores", lambda: 5)
    assert workers.usable_workers(asked, "cpu") == expected


def test_a_machine_without_the_notebooks_tools_trains_too():
    code = "import sys; sys.modules.update(jupytext=None, papermill=None)\nfrom iclbook.workers import usable_workers\nprint(usable_workers(None, 'cpu'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1


def test_one_process_on_a_gpu(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert workers.usable_workers(None, "auto") == 1


def test_only_what_can_travel_is_sent_back():
    class Odd(Exception):
        def __reduce__(self):
            raise TypeError

    assert "Odd: x" in str(workers._portable(Odd("x")))
    assert isinstance(pickle.loads(pickle.dumps(workers._portable(UserError("a", "b.")))), UserError)
