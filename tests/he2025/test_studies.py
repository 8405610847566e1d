"""The studies of he2025; training, keeping, replaying and stamping results."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from iclbook import store
from iclbook.errors import UserError
from iclbook.models import Attention, ReducedAttention
from iclbook.papers import he2025
from iclbook.papers.he2025 import runs as s
from iclbook.tasks import LinearRegression, MultiTaskRegression
from iclbook.training import Adam, Catalogue, Group, Momentum, Run, Study
from iclbook.training.replay import REPLAY_STEPS, replay, verify_study
from iclbook.training.study import train_study

PROFILES = ("smoke", "paper")

# -- studies ----------------------------------------------------------------------------------------------------------


TINY = Study(
    "he2025",
    "tiny",
    LinearRegression(d=2, L=4),
    (
        Group("h2", Attention, (("d", 2), ("n_heads", 2)), (Run(0), Run(1, stream=0))),
        Group("linear", Attention, (("activation", "linear"), ("d", 2), ("n_heads", 1)), (Run(2),)),
    ),
    steps=40,
    batch_size=8,
)
REDUCED = dataclasses.replace(
    TINY, groups=(Group("reduced_h1", ReducedAttention, (("n_heads", 1),), (Run(2, init_scale=0.1),)),)
)


BOOKED = Catalogue("he2025", lambda profile: {"tiny": TINY})


def with_group(**changes) -> Study:
    return dataclasses.replace(TINY, groups=(dataclasses.replace(TINY.groups[0], **changes), TINY.groups[1]))


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(TINY, steps=41),
        dataclasses.replace(TINY, batch_size=16),
        dataclasses.replace(TINY, record=(0, 40)),
        dataclasses.replace(TINY, data=LinearRegression(d=2, L=5)),
        dataclasses.replace(TINY, data=LinearRegression(d=2, L=4, noise_var=0.2)),
        dataclasses.replace(TINY, data=MultiTaskRegression(d=2, L=4, supports=((0, 1),))),
        dataclasses.replace(TINY, measure=lambda study, histories: {}),
        dataclasses.replace(TINY, groups=TINY.groups[:1]),
        with_group(runs=(Run(0),)),
        with_group(runs=(Run(0), Run(3, stream=0))),
        with_group(runs=(Run(0), Run(1))),
        with_group(runs=(Run(0), Run(1, rate=2e-3, stream=0))),
        with_group(runs=(Run(0), Run(1, init_scale=0.5, stream=0))),
        with_group(kwargs=(("d", 2), ("n_heads", 3))),
        with_group(kwargs=(("d", 2), ("n_heads", 2), ("score_scale", "code"))),
        with_group(optimiser=Momentum()),
        with_group(optimiser=Adam(beta2=0.99)),
        with_group(name="h"),
    ],
)
def test_whatever_changes_numbers_changes_the_description(other):
    assert other.describe() != TINY.describe()


# -- training, keeping, replaying, stamping ---------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """An empty book whose only study is TINY."""
    (tmp_path / "_toc.yml").touch()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setenv("ICLBOOK_ROOT", str(tmp_path))
    return tmp_path


def tiny_results(**kwargs) -> store.Results:
    return train_study(TINY, "paper", "cpu", progress=False, **kwargs)


def tampered(results: store.Results, key: str, index, change) -> store.Results:
    array = results[key].copy()
    array[index] = change(array[index])
    return store.Results({**results.arrays, key: array}, results.provenance)


def about(root: Path) -> dict:
    return json.loads((root / "results/he2025/paper/tiny.json").read_text())


def stamp(root: Path, source: dict) -> None:
    (root / "results/he2025/paper/tiny.json").write_text(json.dumps(about(root) | {"source": source}))


def files(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        p.relative_to(root).as_posix(): (p.stat().st_mtime_ns, p.read_bytes())
        for p in (root / "results").rglob("*")
        if p.is_file()
    }


def test_recorded_circuits_of_a_reduced_model_are_those_of_their_step(root):
    """Its circuits are the parameters themselves, which the next step overwrites."""
    short, long = (
        dataclasses.replace(REDUCED, steps=n, record=(0, 5, 10)).trainer("cpu").train(progress=False) for n in (10, 20)
    )
    for name in ("omega", "mu"):
        before, after = short["reduced_h1"].circuits[name], long["reduced_h1"].circuits[name]
        assert not np.array_equal(after[0], after[1])
        np.testing.assert_array_equal(after[:3], before)


@pytest.mark.parametrize("key", ["h2/kq", "h2/ov", "linear/kq", "linear/ov"])
@pytest.mark.parametrize("row", [0, 5])
def test_a_replay_sees_a_tampered_trajectory(root, key, row):
    results = tiny_results()
    assert results[f"{key.split('/')[0]}/steps"][row] <= REPLAY_STEPS
    index = (row, *[0] * (results[key].ndim - 1))
    assert replay(TINY, tampered(results, key, index, lambda x: x + 0.01 + 0.01 * abs(x))) > 1


def test_verify_stamps_results_of_other_source_that_replay(root, capsys):
    tiny_results()
    kept = about(root)
    stamp(root, {"a": "f 00000000"})
    with pytest.raises(UserError, match="other training code"):
        BOOKED.results("tiny", "paper")
    BOOKED.train(["tiny"], verify=True)
    assert "replay agrees" in capsys.readouterr().out
    verified = about(root).pop("verified")
    assert about(root) == kept | {"verified": verified}
    assert verified["trajectory"] == "first 24 of 40 steps of one run of every group"
    assert "h2/kq" in BOOKED.results("tiny", "paper").arrays


def test_verify_refuses_results_that_do_not_replay(root):
    results = tiny_results()
    false = tampered(results, "h2/kq", (3, 0, 0, 0, 0), lambda x: x + 0.1)
    store.save("he2025", "paper", "tiny", false.arrays, results.provenance | {"source": {"a": "f 00000000"}})
    before = files(root)
    with pytest.raises(UserError, match="replay of tiny deviates") as caught:
        verify_study(TINY, "paper")
    assert "\n" not in str(caught.value)
    assert "--fresh" in caught.value.hint
    assert files(root) == before, "what does not replay keeps its stamp"


# -- sizes ------------------------------------------------------------------------------------------------------------


def test_one_more_number_in_the_head_counts_trains_one_more_group(monkeypatch):
    """Six heads in Figure 2.4, at both profiles."""
    before = {profile: {g.name for g in he2025.studies(profile)["isotropic"].groups} for profile in PROFILES}
    monkeypatch.setattr(s, "HEADS", (1, 2, 3, 4, 6, 8))
    for profile in PROFILES:
        after = {g.name for g in he2025.studies(profile)["isotropic"].groups}
        assert after - before[profile] == {"h6"}
