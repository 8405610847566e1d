"""A study on a Dask cluster: the local numbers to the bit, also when a worker dies; one line for what is missing."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import sys

import pytest
from test_workers import STUDY, same, trained

from iclbook import cli, cluster, workers
from iclbook.errors import UserError

needs_dask = pytest.mark.xdist_group("cluster")


@pytest.fixture(autouse=True)
def same_environment():
    """Dask writes thread counts into this process's environment for the workers that it starts, and leaves them there."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def dask():
    return pytest.importorskip("distributed", reason="pinned in requirements.txt, but not installed here")


@pytest.mark.slow
@needs_dask
@pytest.mark.filterwarnings("default")  # Dask's own
def test_a_cluster_gives_the_local_numbers_to_the_bit_and_loses_nothing_with_a_worker(
    empty_root, dask, monkeypatch
):
    study = dataclasses.replace(STUDY, steps=1000, record=(0, 200))
    with workers.Local(2, progress=False) as local:
        expected = trained(local, study, parts=2)
    heard, killed = [], []
    with cluster.Cluster("local", 2, progress=False) as two:
        assert two.parts == 2
        victim = next(iter(two.client.run(os.getpid).values()))

        def hear(part, done, total):
            heard.append(part)
            if done and not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        monkeypatch.setattr(two._bar, "tell", hear)
        same(trained(two, study, parts=2), expected)
    assert killed
    assert set(heard) == {0, 1}, "both parts were heard of"


def test_without_distributed_there_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"needs Dask's distributed.*pip install -e \.\[cluster\]"):
        cluster.Cluster("local", 1)


@needs_dask
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:{port}", "nonsense://x", "127.0.0.1"])
def test_an_address_that_does_not_answer_is_one_line(dask, monkeypatch, address):
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = address.format(port=port)
    with pytest.raises(UserError, match=r"no Dask scheduler answers at") as caught:
        cluster.Cluster(address, 1)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (ModuleNotFoundError("No module named 'iclbook'"), "lacks this code"),
        (type("KilledWorker", (Exception,), {})("t"), "lost with each of the workers"),
        (OSError("gone"), "the cluster was lost (OSError: gone)"),
    ],
)
def test_what_goes_wrong_with_a_worker_is_one_line(problem, words):
    assert words in str(cluster._said(problem))


def test_the_command_hands_the_cluster_to_the_paper(empty_root, monkeypatch):
    seen = {}

    class Two:
        parts = 7

        def __init__(self, *arguments):
            seen["cluster"] = arguments

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(cluster, "Cluster", Two)
    monkeypatch.setattr(cli, "_trainer_of", lambda key: lambda **chosen: seen.update(chosen))
    assert cli.main(["train", "demo", "--scheduler", "tcp://10.0.0.5:8786", "--workers", "7"]) == 0
    assert seen["cluster"] == ("tcp://10.0.0.5:8786", 7)
    assert seen["parts"] == 7
    assert isinstance(seen["executor"], Two)
