"""The studies of he2025; training, keeping, replaying and stamping results."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest

from iclbook import store
from iclbook.errors import UserError
from iclbook.models import Attention, ReducedAttention
from iclbook.papers import he2025
from iclbook.tasks import LinearRegression, MultiTaskRegression
from iclbook.training import Adam, Momentum, Run, catalogue
from iclbook.training.catalogue import Catalogue
from iclbook.training.computation import Computation
from iclbook.training.study import (
    REPLAY_STEPS,
    Group,
    Study,
    _made_from,
    replay,
    train_study,
)
from iclbook.training.verify import verify_study

# -- studies ----------------------------------------------------------------------------------------------------------


def test_both_profiles_have_the_same_studies():
    smoke, paper = he2025.studies("smoke"), he2025.studies("paper")
    assert list(smoke) == list(paper)
    for name in smoke:
        assert smoke[name].name == paper[name].name == name
        if isinstance(smoke[name], Computation):
            continue
        assert smoke[name].data == paper[name].data
        assert smoke[name].measure == paper[name].measure
        assert {g.name for g in smoke[name].groups} <= {g.name for g in paper[name].groups}
        assert smoke[name].steps < paper[name].steps


def test_the_paper_profile_is_the_documents_size():
    paper = he2025.studies("paper")
    for name in ("isotropic", "nonisotropic", "multitask_text", "multitask_code"):
        assert (paper[name].steps, paper[name].batch_size) == (500_000, 256)
        for group in paper[name].groups:
            assert group.optimiser == Adam()
            assert {run.rate for run in group.runs} == {1e-3}
            assert len(group.runs) >= (1 if group.name == "h8" else 2)
    assert {f"h{h}" for h in (1, 2, 3, 4)} <= {g.name for g in paper["isotropic"].groups}
    assert {len(g.runs) for g in paper["seeds"].groups} == {200}


def test_names_of_groups_say_what_they_are():
    for study in he2025.studies("paper").values():
        if isinstance(study, Computation):
            continue
        names = [g.name for g in study.groups]
        assert len(set(names)) == len(names)
        for group in study.groups:
            kwargs = dict(group.kwargs)
            if group.name.startswith(("h", "code_h", "reduced_h")):
                assert kwargs["n_heads"] == int(group.name.rsplit("h", 1)[1])
            if group.name.startswith("rate_"):
                assert {run.rate for run in group.runs} == {float(group.name[5:])}
            if group.model is Attention and not group.name.startswith("code"):
                expected = "code" if study.name.endswith(("code", "coded")) else "none"
                if "_c" in group.name:
                    expected = float(group.name.rsplit("_c", 1)[1])
                assert kwargs.get("score_scale", "none") == expected


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
    TINY,
    groups=(Group("reduced_h1", ReducedAttention, (("n_heads", 1),), (Run(2, init_scale=0.1),)),),
)


BOOKED = Catalogue("he2025", lambda profile: {"tiny": TINY})


def with_group(**changes) -> Study:
    return dataclasses.replace(TINY, groups=(dataclasses.replace(TINY.groups[0], **changes), TINY.groups[1]))


def test_equal_studies_have_equal_descriptions():
    again = dataclasses.replace(TINY, groups=tuple(dataclasses.replace(g) for g in TINY.groups))
    assert again.describe() == TINY.describe()
    for profile in ("smoke", "paper"):
        first, second = he2025.studies(profile), he2025.studies(profile)
        assert [s.describe() for s in first.values()] == [s.describe() for s in second.values()]
        assert len({json.dumps(s.describe()) for s in first.values()}) == len(first)
    assert "0x" not in json.dumps(he2025.studies("paper")["isotropic"].describe()), (
        "an address would change every time"
    )


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


def test_unknown_studies_and_profiles_are_one_line():
    for call in (
        lambda: he2025.results("isotropics", "paper"),
        lambda: he2025.train(["isotropics"], "smoke"),
        lambda: he2025.train(["isotropics"], verify=True),
    ):
        with pytest.raises(UserError, match="unknown study 'isotropics'") as caught:
            call()
        assert "isotropic" in caught.value.mend
        assert "\n" not in str(caught.value)
    for call in (lambda: he2025.results("isotropic", "big"), lambda: he2025.train(profile="big")):
        with pytest.raises(UserError, match="unknown profile 'big'"):
            call()


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


def stamp(root: Path, source: str) -> None:
    (root / "results/he2025/paper/tiny.json").write_text(json.dumps(about(root) | {"source": source}))


def files(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        p.relative_to(root).as_posix(): (p.stat().st_mtime_ns, p.read_bytes())
        for p in (root / "results").rglob("*")
        if p.is_file()
    }


def test_training_writes_results_with_their_provenance(root):
    results = tiny_results()
    loaded = store.load("he2025", "paper", "tiny", TINY.describe())
    assert loaded.arrays.keys() == results.arrays.keys()
    assert all(np.array_equal(loaded[k], v, equal_nan=True) for k, v in results.arrays.items())
    n = len(loaded["h2/steps"])
    assert loaded["h2/steps"][0] == 0
    assert loaded["h2/steps"][-1] == 40
    assert loaded["h2/kq"].shape == (n, 2, 2, 3, 3)
    assert loaded["h2/ov"].shape == (n, 2, 2, 1, 3)
    assert loaded["h2/loss"].shape == (n, 2)
    assert loaded["linear/kq"].shape == (n, 1, 1, 3, 3)
    assert loaded.provenance["device"] == "cpu"
    assert loaded.provenance["source"] == TINY.source()
    assert loaded.provenance["config"] == TINY.describe()
    assert {
        "seconds",
        "torch",
        "numpy",
        "python",
        "commit",
        "threads",
        "compiled",
    } <= loaded.provenance.keys()
    assert not list(root.rglob("*.part"))
    assert not list(root.rglob("*.pt")), "a finished training needs no checkpoint"


def test_measured_arrays_are_kept_with_the_runs(root):
    def measure(study, histories):
        return {f"{name}/final": h.loss[-1] for name, h in histories.items()}

    study = dataclasses.replace(TINY, measure=measure)
    results = train_study(study, "smoke", "cpu", progress=False)
    np.testing.assert_allclose(results["h2/final"], results["h2/loss"][-1])
    assert store.load("he2025", "smoke", "tiny", study.describe())["linear/final"].shape == (1,)


def test_training_twice_skips_and_fresh_repeats_the_same_numbers(root, capsys):
    BOOKED.train(["tiny"], device="cpu")
    assert "tiny: done" in capsys.readouterr().out
    before = files(root)
    BOOKED.train(device="cpu")
    assert "results are there already" in capsys.readouterr().out
    assert files(root) == before
    BOOKED.train(device="cpu", fresh=True)
    assert "tiny: done" in capsys.readouterr().out
    after = files(root)
    assert after["results/he2025/paper/tiny.json"][0] != before["results/he2025/paper/tiny.json"][0]
    for name in before:
        if name.endswith(".npz"):
            assert _arrays(after[name][1]) == _arrays(before[name][1])


def _arrays(content: bytes) -> dict[str, bytes]:
    with np.load(io.BytesIO(content)) as data:
        return {k: data[k].tobytes() for k in data.files}


def test_an_interrupted_training_goes_on_from_its_checkpoint(root):
    whole = tiny_results()
    checkpoint = root / ".cache" / "checkpoints" / "he2025-paper-tiny.pt"
    TINY.trainer("cpu").train(checkpoint, progress=False, until=17, about=_made_from(TINY))
    assert checkpoint.exists()
    resumed = tiny_results()
    assert not checkpoint.exists()
    for key, value in whole.arrays.items():
        np.testing.assert_allclose(resumed[key], value, rtol=1e-5, atol=1e-7, err_msg=key)


def test_fresh_forgets_the_checkpoint(root):
    checkpoint = root / ".cache" / "checkpoints" / "he2025-paper-tiny.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"damaged")
    with pytest.raises(UserError, match="damaged"):
        tiny_results()
    tiny_results(fresh=True)
    assert not checkpoint.exists()


def test_a_checkpoint_of_another_model_is_refused(root):
    other = with_group(kwargs=(("d", 2), ("n_heads", 2), ("score_scale", "code")))
    checkpoint = root / ".cache" / "checkpoints" / "he2025-paper-tiny.pt"
    other.trainer("cpu").train(checkpoint, progress=False, until=17, about=_made_from(TINY))
    with pytest.raises(UserError, match="another configuration"):
        tiny_results()


def test_results_at_the_paper_profile_are_loaded_and_never_trained(root, monkeypatch):
    with pytest.raises(UserError, match="iclbook train he2025 --only tiny --profile paper"):
        BOOKED.results("tiny", "paper")
    tiny_results()
    monkeypatch.setattr(catalogue, "train_study", lambda *_, **__: pytest.fail("trained"))
    assert "h2/kq" in BOOKED.results("tiny", "paper").arrays
    other = dataclasses.replace(TINY, steps=41)
    with pytest.raises(UserError, match="another configuration"):
        Catalogue("he2025", lambda profile: {"tiny": other}).results("tiny", "paper")


def test_results_at_the_smoke_profile_are_trained_now(root):
    first = BOOKED.results("tiny", "smoke", "cpu")
    stamp_of = (root / "results/he2025/smoke/tiny.json").stat().st_mtime_ns
    second = BOOKED.results("tiny", "smoke", "cpu")
    assert (root / "results/he2025/smoke/tiny.json").stat().st_mtime_ns != stamp_of
    assert np.array_equal(first["h2/kq"], second["h2/kq"])


def test_a_replay_agrees_with_its_own_results(root):
    assert replay(TINY, tiny_results()) < 1
    assert replay(TINY, store.load("he2025", "paper", "tiny")) < 1


def test_recorded_circuits_of_a_reduced_model_are_those_of_their_step(root):
    """Its circuits are the parameters themselves, which the next step overwrites."""
    short, long = (
        dataclasses.replace(REDUCED, steps=n, record=(0, 5, 10)).trainer("cpu").train(progress=False)
        for n in (10, 20)
    )
    for name in ("omega", "mu"):
        before, after = short["reduced_h1"].circuits[name], long["reduced_h1"].circuits[name]
        assert not np.array_equal(after[0], after[1])
        np.testing.assert_array_equal(after[:3], before)


def test_a_replay_of_a_reduced_model_agrees(root):
    assert replay(REDUCED, train_study(REDUCED, "paper", "cpu", progress=False)) < 1


@pytest.mark.parametrize("key", ["h2/kq", "h2/ov", "linear/kq", "linear/ov"])
@pytest.mark.parametrize("row", [0, 5])
def test_a_replay_sees_a_tampered_trajectory(root, key, row):
    results = tiny_results()
    assert results[f"{key.split('/')[0]}/steps"][row] <= REPLAY_STEPS
    index = (row, *[0] * (results[key].ndim - 1))
    assert replay(TINY, tampered(results, key, index, lambda x: x + 0.01 + 0.01 * abs(x))) > 1


def test_a_replay_sees_a_trajectory_that_is_not_a_number(root):
    results = tiny_results()
    assert not replay(TINY, tampered(results, "h2/kq", (0, 0, 0, 0, 0), lambda x: np.nan)) <= 1


def test_a_replay_sees_a_run_in_anothers_place(root):
    results = tiny_results()
    swapped = {k: v[:, ::-1] if k.startswith("h2/") and v.ndim > 1 else v for k, v in results.arrays.items()}
    assert replay(TINY, store.Results(swapped, results.provenance)) > 1


def test_a_replay_sees_changed_code(root, monkeypatch):
    results = tiny_results()
    plain = LinearRegression.batch

    def louder(self, normals):
        batch = plain(self, normals)
        return batch._replace(target=1.2 * batch.target)

    monkeypatch.setattr(LinearRegression, "batch", louder)
    assert replay(TINY, results) > 1


def test_of_another_devices_results_only_the_start_is_replayed(root):
    results = tiny_results()
    elsewhere = store.Results(results.arrays, results.provenance | {"device": "cuda"})
    assert replay(TINY, elsewhere) < 1
    assert replay(TINY, tampered(elsewhere, "h2/kq", (5, 0, 0, 0, 0), lambda x: x + 1)) < 1
    assert replay(TINY, tampered(elsewhere, "h2/kq", (0, 0, 0, 0, 0), lambda x: x + 1)) > 1


def test_verify_stamps_results_of_other_source_that_replay(root, capsys):
    tiny_results()
    kept = about(root)
    stamp(root, "0" * 16)
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
    store.save("he2025", "paper", "tiny", false.arrays, results.provenance | {"source": "0" * 16})
    before = files(root)
    with pytest.raises(UserError, match="replay of tiny deviates") as caught:
        verify_study(TINY, "paper")
    assert "\n" not in str(caught.value)
    assert "--fresh" in caught.value.mend
    assert files(root) == before, "what does not replay keeps its stamp"


def test_an_unwritable_results_folder_is_one_line(root):
    (root / "results").write_text("in the way")
    with pytest.raises(UserError, match="cannot write"):
        tiny_results()
    assert (root / "results").read_text() == "in the way"
