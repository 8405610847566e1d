"""A study trained in parts by an executor gives the numbers of the same study trained in one piece."""

import dataclasses
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch

from iclbook import store
from iclbook.errors import UserError
from iclbook.models import Attention
from iclbook.sources import short
from iclbook.tasks import LinearRegression
from iclbook.training import Adam, Group, Run, Sgd, Study
from iclbook.training.replay import verify_study
from iclbook.training.study import train_study


def made_from(study):
    """What a checkpoint of the study says it was made from."""
    return f"{json.dumps(study.describe())} {short(study.source())} torch {torch.__version__}"


@pytest.mark.slow
def test_a_process_pool_trains_the_same_numbers(empty_root, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    groups = tuple(Group(f"h{h}", Attention, (("d", 3), ("n_heads", h)), (Run(0), Run(1))) for h in (1, 2))
    study = Study("demo", "tiny", LinearRegression(d=3, L=8), groups, steps=20, batch_size=16)
    alone = train_study(study, "smoke", "cpu", progress=False)
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        shared = train_study(study, "smoke", "cpu", fresh=True, executor=executor, parts=2)
    assert alone.arrays.keys() == shared.arrays.keys()
    for key, value in alone.arrays.items():
        np.testing.assert_allclose(shared[key], value, rtol=1e-4, atol=1e-6, err_msg=key)
    assert not list((empty_root / ".cache").rglob("*.pt")), "finished parts leave no checkpoint"


# -- what a training keeps, and what --verify derives again ------------------------------------------------------------


def twice_the_end(study, histories):
    return {f"{name}/twice": 2 * h.circuits["kq"][-1] for name, h in histories.items()}


def wrong(study, histories):
    return {key: array * (1 + 1e-4) for key, array in twice_the_end(study, histories).items()}


GROUP = Group("h2", Attention, (("d", 3), ("n_heads", 2)), (Run(0), Run(1)))
STUDY = Study("demo", "tiny", LinearRegression(d=3, L=8), (GROUP,), steps=40, batch_size=16, measure=twice_the_end)


def test_verify_takes_measures_again_and_says_what_it_derived(empty_root):
    train_study(STUDY, "smoke", "cpu", progress=False)
    found = verify_study(STUDY, "smoke")
    assert found["trajectory"] == "first 24 of 40 steps of one run of every group"
    assert found["measures"] == "taken again of the stored circuits"
    assert found["share"] <= 1
    assert store.read_provenance("demo", "smoke", "tiny")["verified"] == found


LONGER = dataclasses.replace(STUDY, steps=400, record=(10, *range(100, 401, 100)))


def steps_of(states) -> list[int]:
    return sorted({int(key.split("/")[1]) for key in states})


def test_stretches_in_the_midst_replay_and_a_change_that_acts_late_is_seen(empty_root, monkeypatch):
    """Adam whose rate falls after step 100 of today's code: the first steps agree, the stretches do not."""
    train_study(LONGER, "smoke", "cpu", progress=False)
    assert steps_of(store.load_states("demo", "smoke", "tiny")) == [76, 176, 376]
    assert verify_study(LONGER, "smoke")["trajectory"] == "first 10 of 400 steps of one run of every group, 3 segments"
    update = Adam.update

    def decayed(self, params, grads, state, rates, t):
        late = {k: torch.where(t > 100, 0.99, 1.0) * r for k, r in rates.items()}
        return update(self, params, grads, state, late, t)

    monkeypatch.setattr(Adam, "update", decayed)
    with pytest.raises(UserError, match="segment of tiny deviates"):
        verify_study(LONGER, "smoke")


def test_an_interrupted_training_keeps_the_same_states_and_is_no_part_of_another_draw(empty_root, monkeypatch):
    train_study(LONGER, "smoke", "cpu", progress=False)
    whole = store.load_states("demo", "smoke", "tiny")
    checkpoint = empty_root / ".cache" / "checkpoints" / "demo-smoke-tiny.pt"
    LONGER.trainer("cpu").train(checkpoint, progress=False, until=250, about=made_from(LONGER))
    monkeypatch.setenv("ICLBOOK_DRAW", "1")
    train_study(LONGER, "smoke", "cpu", progress=False)
    monkeypatch.delenv("ICLBOOK_DRAW")
    assert checkpoint.exists()
    train_study(LONGER, "smoke", "cpu", progress=False)
    again = store.load_states("demo", "smoke", "tiny")
    assert whole.keys() == again.keys()
    assert all(np.array_equal(again[k], v) for k, v in whole.items())


def test_verify_refuses_a_measure_that_todays_code_does_not_give(empty_root, monkeypatch):
    train_study(dataclasses.replace(STUDY, measure=wrong), "smoke", "cpu", progress=False)
    monkeypatch.setattr(twice_the_end, "__name__", "wrong")  # the configuration as it was, the code as it is
    with pytest.raises(UserError, match="measure of tiny deviates"):
        verify_study(STUDY, "smoke")
    assert "verified" not in store.read_provenance("demo", "smoke", "tiny")


def test_a_study_that_diverges_is_one_line_and_keeps_nothing_unless_it_may(empty_root):
    bad = dataclasses.replace(GROUP, runs=(Run(0), Run(5, rate=1e30)), optimiser=Sgd())
    study = dataclasses.replace(STUDY, groups=(bad,), measure=None)
    with pytest.raises(UserError, match=r"demo/tiny: .* of group h2, run 1, step .* is not finite"):
        train_study(study, "smoke", "cpu", progress=False)
    assert not (empty_root / "results").exists()
    may = dataclasses.replace(study, groups=(dataclasses.replace(bad, may_diverge=True),))
    assert may.describe() == study.describe()
    results = train_study(may, "smoke", "cpu", progress=False)
    assert not np.isfinite(results["h2/loss"][-1, 1])
    assert np.isfinite(results["h2/loss"][1:, 0]).all()
    assert verify_study(may, "smoke", every=True)["share"] <= 1, "what diverged diverges again"
