"""The studies of he2025; training, keeping, replaying and stamping results."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from iclbook import store
from iclbook.errors import UserError
from iclbook.models import Attention, ReducedAttention
from iclbook.tasks import LinearRegression
from iclbook.training import Catalogue, Group, Momentum, Run, Study
from iclbook.training.replay import verify_study
from iclbook.training.study import train_study

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
        dataclasses.replace(TINY, data=LinearRegression(d=2, L=5)),
        dataclasses.replace(TINY, measure=lambda study, histories: {}),
        with_group(runs=(Run(0), Run(1))),
        with_group(kwargs=(("d", 2), ("n_heads", 2), ("score_scale", "code"))),
        with_group(optimiser=Momentum()),
    ],
)
def test_whatever_changes_numbers_changes_the_description(other):
    assert other.describe() != TINY.describe()


def tiny_results(**kwargs) -> store.Results:
    return train_study(TINY, "paper", "cpu", progress=False, **kwargs)


def about(root: Path) -> dict:
    return json.loads((root / "results/he2025/paper/tiny.json").read_text())


def files(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        p.relative_to(root).as_posix(): (p.stat().st_mtime_ns, p.read_bytes())
        for p in (root / "results").rglob("*")
        if p.is_file()
    }


def test_recorded_circuits_of_a_reduced_model_are_those_of_their_step(empty_root):
    """Its circuits are the parameters themselves, which the next step overwrites."""
    short, long = (
        dataclasses.replace(REDUCED, steps=n, record=(0, 5, 10)).trainer("cpu").train(progress=False) for n in (10, 20)
    )
    for name in ("omega", "mu"):
        before, after = short["reduced_h1"].circuits[name], long["reduced_h1"].circuits[name]
        assert not np.array_equal(after[0], after[1])
        np.testing.assert_array_equal(after[:3], before)


def test_verify_stamps_results_of_other_source_that_replay(empty_root, capsys):
    tiny_results()
    kept = about(empty_root)
    path = empty_root / "results/he2025/paper/tiny.json"
    path.write_text(json.dumps(kept | {"source": {"a": "f 00000000"}}))
    with pytest.raises(UserError, match="other training code"):
        BOOKED.results("tiny", "paper")
    BOOKED.train(["tiny"], verify=True)
    assert "replay agrees" in capsys.readouterr().out
    verified = about(empty_root).pop("verified")
    assert about(empty_root) == kept | {"verified": verified}
    assert verified["trajectory"] == "first 24 of 40 steps of one run of every group"
    assert "h2/kq" in BOOKED.results("tiny", "paper").arrays


def test_verify_refuses_results_that_do_not_replay(empty_root):
    results = tiny_results()
    arrays = results.arrays | {"h2/kq": results["h2/kq"] + 0.1}
    store.save("he2025", "paper", "tiny", arrays, results.provenance | {"source": {"a": "f 00000000"}})
    before = files(empty_root)
    with pytest.raises(UserError, match="replay of tiny deviates") as caught:
        verify_study(TINY, "paper")
    assert "\n" not in str(caught.value)
    assert "--fresh" in caught.value.hint
    assert files(empty_root) == before, "what does not replay keeps its stamp"
