"""Parts of a study in processes of their own, here and on a cluster: the same numbers, again when killed, one line when they cannot."""

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from iclbook import workers
from iclbook.errors import UserError
from iclbook.models import Attention
from iclbook.project import check_profile
from iclbook.tasks import LinearRegression
from iclbook.training import Group, History, Run, Study
from iclbook.training.history import joined
from iclbook.training.study import shared_out, train_study

GROUPS = tuple(Group(f"h{h}", Attention, {"d": 3, "n_heads": h}, [Run(s) for s in range(2 * h)]) for h in (1, 2))
STUDY = Study("demo", "tiny", LinearRegression(d=3, L=8), GROUPS, steps=200, batch_size=16)


def same(one, other):
    assert one.arrays.keys() == other.arrays.keys()
    for key, value in one.arrays.items():
        assert value.tobytes() == other[key].tobytes(), key


def trained(executor, study=STUDY, parts=3):
    return train_study(study, "smoke", "cpu", fresh=True, progress=False, executor=executor, parts=parts)


# -- how a study is shared out -----------------------------------------------------------------------------------------


def groups_of(**counts):
    return [Group(n, Attention, {"d": 3, "n_heads": 1}, [Run(s) for s in range(k)]) for n, k in counts.items()]


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
    whole = History(steps, np.arange(15.0).reshape(3, 5), {"a": np.arange(30).reshape(3, 5, 2)}, {"p": np.ones((2, 5))})
    pieces = [
        History(steps, whole.loss[:, cut], {"a": whole.circuits["a"][:, cut]}, {"p": whole.kept["p"][:, cut]})
        for cut in (slice(0, 2), slice(2, 5))
    ]
    again = joined(pieces, axis=1)
    np.testing.assert_array_equal(again.loss, whole.loss)
    np.testing.assert_array_equal(again.circuits["a"], whole.circuits["a"])
    assert again.kept["p"].shape == (2, 5)


# -- processes ---------------------------------------------------------------------------------------------------------


def children() -> list[int]:
    """Processes that this one started, but for multiprocessing's tracker of resources."""
    numbers = [n for c in Path(f"/proc/{os.getpid()}/task").glob("*/children") for n in c.read_text().split()]
    return [int(n) for n in numbers if b"resource_tracker" not in Path(f"/proc/{n}/cmdline").read_bytes()]


@pytest.mark.full
def test_processes_give_the_same_numbers_and_one_that_is_killed_changes_nothing(empty_root, monkeypatch):
    study = dataclasses.replace(STUDY, steps=1000, record=(0, 200))
    with workers.Processes(2, progress=False) as processes:
        undisturbed = trained(processes, study, parts=2)
    killed = []

    def tell(part, start, done, total):
        if done and not killed:
            killed.append(children()[0])
            os.kill(killed[0], signal.SIGKILL)

    with workers.Processes(2, progress=False) as processes:
        monkeypatch.setattr(processes, "tell", tell)
        same(undisturbed, trained(processes, study, parts=2))
    assert killed
    about = undisturbed.provenance
    assert (about["pinned"], about["threads"], about["parts"]) == (True, 1, 2)
    assert not list((empty_root / ".cache").rglob("*.pt")), "finished parts leave no checkpoint"


@pytest.mark.full
def test_an_interrupt_reaches_the_processes_which_keep_where_they_are(empty_root):
    endless = dataclasses.replace(STUDY, steps=10**7, record=(0,), compile_from=None)
    timer = threading.Timer(15, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt), workers.Processes(2, progress=False) as processes:
        trained(processes, endless, parts=2)
    assert len(list((empty_root / ".cache").rglob("*.pt"))) == 2


def test_a_mistake_in_a_process_is_the_mistake_here():
    with workers.Processes(1, progress=False) as processes:
        future = processes.submit(check_profile, "huge")
        with pytest.raises(UserError, match=r"^unknown profile 'huge'"):
            future.result()


def test_other_versions_are_refused(monkeypatch):
    request = workers.packed(check_profile, ("paper",))
    assert workers._call(request) == "paper"
    there = workers.versions(()) | {"the digest of the training code": "b"}
    monkeypatch.setattr(workers, "versions", lambda arguments: there)
    with pytest.raises(UserError, match=r"training code is  here and b in a worker"):
        workers._call(request)


# -- how far it is -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "cores", "gpu", "expected"), [(3, 5, False, 3), (None, 5, False, 5), (None, 5, True, 1)]
)
def test_all_cores_by_default_and_one_process_on_a_gpu(monkeypatch, asked, cores, gpu, expected):
    import torch

    monkeypatch.setattr(workers, "usable_cores", lambda: cores)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    with workers.open_executor(None, asked, "auto") as executor:
        assert getattr(executor, "parts", 1) == expected


def test_a_machine_without_the_notebooks_tools_trains_too():
    lacking = ["jupytext", "papermill", "nbformat", "nbclient", "distributed", "sphinx", "ipykernel", "bs4"]
    code = f"import sys; sys.modules.update(dict.fromkeys({lacking}))\nfrom iclbook import workers\nfrom iclbook.training.study import Study"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# -- a cluster ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def dask():
    """Dask writes thread counts into this process's environment for the workers that it starts, and leaves them there."""
    before = dict(os.environ)
    yield pytest.importorskip("distributed", reason="pinned in requirements.txt, but not installed here")
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.full
@pytest.mark.filterwarnings("default")  # Dask's own
def test_a_cluster_gives_the_local_numbers_to_the_bit_and_loses_nothing_with_a_worker(empty_root, dask, monkeypatch):
    study = dataclasses.replace(STUDY, steps=1000, record=(0, 200))
    with workers.Processes(2, progress=False) as processes:
        expected = trained(processes, study, parts=2)
    heard, killed = [], []
    with (
        dask.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as two,
        workers.Cluster(two.scheduler_address, 2, progress=False) as cluster,
    ):
        victim = next(iter(cluster.client.run(os.getpid).values()))

        def hear(part, start, done, total):
            heard.append(part)
            if done and not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        monkeypatch.setattr(cluster, "tell", hear)
        same(trained(cluster, study, parts=2), expected)
    assert killed
    assert set(heard) == {0, 1}, "both parts were heard of"


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:{port}", "nonsense://x"])
def test_an_address_that_does_not_answer_is_one_line(dask, monkeypatch, address):
    monkeypatch.setattr(workers, "PATIENCE", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = address.format(port=free.getsockname()[1])
    with pytest.raises(UserError, match=r"no Dask scheduler answers at") as caught:
        workers.Cluster(address, 1)
    assert address in str(caught.value)
