"""Models on a folder of stories: sizes as published, one kind of loss, endings, and the command that trains and has them graded."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from iclbook.cli import main
from iclbook.errors import UserError
from iclbook.papers.wang2025.runs import language, real_stories
from iclbook.papers.wang2025.runs.real_stories import (
    BEGINNING,
    MODELS,
    Sizes,
    first_halves,
    large_studies,
    real_studies,
)
from iclbook.papers.wang2025.stories import command, grades
from iclbook.papers.wang2025.stories.command import grade, table, train, true_endings
from iclbook.papers.wang2025.stories.grades import Grades
from iclbook.tasks import Batch
from iclbook.tasks.stories import NOTHING, Stories
from iclbook.tasks.story_files import MARK
from iclbook.tasks.story_folder import StoryFolder
from iclbook.training.groups import next_token
from iclbook.training.trainer import Trainer

STORIES = [f"Once there was a {'very ' * (i % 7)}small cat. It had {i} kites. The end." for i in range(80)]
TINY = Sizes(16, 2, 5, 4, 1, 4, 2, (3,), 0.01)
REPLY = "".join(f"<{name.upper()}_GRADE> {{}} </{name.upper()}_GRADE>" for name in Grades._fields)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "stories"
    path.mkdir()
    (path / "TinyStoriesV2-GPT4-valid.txt").write_text(f"\n{MARK}\n".join([*STORIES, ""]))
    return str(path)


@pytest.fixture
def tiny(monkeypatch, folder):
    """Studies of a few steps, stories cut at 20 tokens."""
    monkeypatch.setitem(real_stories.CONTEXT, "smoke", 20)
    monkeypatch.setitem(real_stories.SIZES, "smoke", TINY)
    return real_studies(folder, "smoke")


@pytest.fixture
def readable(monkeypatch):
    monkeypatch.setattr(language, "READABLE", 100.0)


def loss(study, weights):
    """Of a model on the stories for validation, nats a token."""
    tokens = study.groups[0].observe.held_out()["tokens"]
    model = study.groups[0].build()
    model.load_state_dict(weights)
    with torch.no_grad():
        return float(next_token(model, Batch(tokens[:-1].clamp_min(0), tokens[:0], tokens[1:])))


#: Beside the tokens' embeddings, at width 512, 8 heads and 256 tokens: totals of the published models less 50,257 * 512.
COUNTS = {"gd": 2_234_368, "gd-ff": 4_332_032, "tf": 10_618_880, "tf-split": 3_278_848}


@pytest.mark.parametrize("name", MODELS)
def test_sizes_are_the_papers(name, folder):
    study = real_studies(folder)[name]
    with torch.device("meta"):
        model = study.groups[0].build()
    assert model.count() - study.data.vocabulary * 512 == COUNTS[name]
    assert (study.batch_size, study.groups[0].runs[0].rate, study.groups[0].schedule) == (64, 1e-3, None)
    assert study.groups[0].optimiser.clip == 1.0


def test_the_large_size_is_the_papers_on_stories_of_exact_likelihood():
    every = large_studies()
    assert len(every) == 8
    for name, study in every.items():
        assert study.name == name
        assert isinstance(study.data, Stories)
        assert (study.steps, study.batch_size, len(study.groups[0].runs)) == (20_000, 64, 3)
        assert dict(study.groups[0].kwargs)["width"] == 512
        assert {run.data_seed for run in study.groups[0].runs} == {0}
    assert dict(every["large_gd_ff_4"].groups[0].kwargs)["n_blocks"] == 4


def test_a_description_names_no_place(tiny, tmp_path):
    """The same stories elsewhere make the same study, other ones another."""
    study = tiny["gd"]
    said = json.dumps(study.describe())
    assert str(tmp_path) not in said
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "a.json").write_text(json.dumps([{"text": text} for text in STORIES]))
    assert real_studies(str(other), "smoke")["gd"].describe() == study.describe()
    (other / "b.json").write_text(json.dumps([{"text": "one more"}]))
    again = tmp_path / "again"
    other.rename(again)
    assert real_studies(str(again), "smoke")["gd"].describe() != study.describe()


@pytest.mark.parametrize("name", MODELS)
def test_the_observed_loss_is_the_loss(name, tiny):
    study = tiny[name]
    history = study.trainer("cpu").train(progress=False)[name]
    held_out = study.groups[0].observe.held_out()["tokens"]
    assert history.circuits["nll"].shape == (3, 1, held_out.shape[1], 1)
    start = {k: torch.from_numpy(v[0]) for k, v in study.trainer("cpu").parameters()[name].items()}
    count = int((held_out[1:] >= 0).sum())
    assert history.circuits["nll"][0].sum() / count == pytest.approx(loss(study, start), rel=1e-5)


def test_a_model_learns_and_goes_on_where_it_was(tiny, tmp_path):
    study = replace(tiny["gd"], steps=60, record=(30,))
    whole = study.trainer("cpu").train(progress=False)["gd"]
    assert whole.loss[-1, 0] < whole.loss[1, 0] - 0.5
    study.trainer("cpu").train(tmp_path / "c", progress=False, until=40)
    again = study.trainer("cpu").train(tmp_path / "c", progress=False)["gd"]
    assert np.array_equal(again.loss[1:], whole.loss[1:])


def test_first_halves(folder):
    task = StoryFolder(folder, 300)
    whole, start = task.held_out(2, 1), first_halves(task, 2)
    lengths = (whole >= 0).sum(0)
    assert torch.equal((start >= 0).sum(0), lengths // 2)
    assert torch.equal(start[start >= 0], whole[start >= 0])


def test_a_long_beginning_is_cut(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": f"{i} a" * 400}) for i in range(60)))
    start = first_halves(StoryFolder(str(tmp_path), 300), 2)
    assert set((start >= 0).sum(0).tolist()) == {BEGINNING}


def test_endings_go_on_from_their_beginnings(tiny, tmp_path, readable, capsys):
    study = tiny["gd-ff"]
    path = train(study, tmp_path / "out", "cpu")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    true = [json.loads(line) for line in true_endings(study, tmp_path / "out").read_text().splitlines()]
    assert [row["beginning"] for row in rows] == [row["beginning"] for row in true]
    assert all(row["ending"] for row in rows)
    for row, whole in zip(true, study.data.held_out(2, 1).T, strict=True):
        text = study.data.text(whole)
        assert text.split() == f"{row['beginning']} {row['ending']}".replace(" .", ".").split()
    with np.load(tmp_path / "out" / "gd-ff.npz", allow_pickle=False) as kept:
        assert kept["weights/embed"].shape == (study.data.vocabulary, 16)
        said = f"{kept['validation'][-1]:.3f} nats a token"
        weights = {k.removeprefix("weights/"): torch.from_numpy(kept[k]) for k in kept if "/" in k}
        assert kept["validation"][-1] == pytest.approx(loss(study, weights), rel=1e-5)
    assert said in capsys.readouterr().out
    assert not list((tmp_path / "out").glob("*.checkpoint"))


def test_a_model_that_cannot_write_says_so(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(language, "READABLE", 0.0)
    with pytest.raises(UserError, match="nothing to read"):
        train(tiny["gd"], tmp_path, "cpu")
    assert (tmp_path / "gd.npz").exists()


def test_no_ending_is_graded_twice(tmp_path):
    path = tmp_path / "gd.jsonl"
    rows = [{"beginning": f"b{i}", "ending": f"e{i}"} for i in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = []

    def ask(beginning, ending):
        asked.append((beginning, ending))
        return REPLY.format(4, 3, 2, len(asked)) if len(asked) != 2 else "I would rather not."

    with pytest.raises(UserError, match="no one grade"):
        grade(path, ask, "some/model")
    found = grade(path, ask, "some/model")
    assert asked == [("b0", "e0"), ("b1", "e1"), ("b1", "e1"), ("b2", "e2")]
    assert found == Grades(4, 3, 2, (1 + 3 + 4) / 3)
    assert grade(path, None, "some/model") == found
    assert [p.name for p in tmp_path.glob("*grades*")] == ["gd.some-model.grades.jsonl"]
    assert "2.92" in table({"gd": found})[1]
    path.write_text("[]")
    with pytest.raises(UserError, match="is damaged"):
        grade(path, ask, "some/model")


def test_the_command(folder, tiny, tmp_path, readable, monkeypatch, capsys):
    monkeypatch.setattr(
        Trainer,
        "train",
        lambda self, *a, plain=Trainer.train, **k: plain(self, *a, **k | {"progress": False}),
    )
    assert main(["stories", folder, "--profile", "smoke"]) == 0
    said = capsys.readouterr().out
    assert "stories  80 different ones" in said
    assert "cut" in said
    out = str(tmp_path / "out")
    both = ["stories", folder, "--profile", "smoke", "--train", "tf", "--out", out]
    assert main([*both, "--steps", "3"]) == 0
    assert f"endings: {out}/tf.jsonl" in capsys.readouterr().out
    with np.load(tmp_path / "out" / "tf.npz", allow_pickle=False) as kept:
        assert kept["steps"].tolist() == [0, 3]
    keys = []

    def ask(url, model, beginning, ending, key):
        keys.append((url, model, key))
        return REPLY.format(1, 2, 3, 4)

    monkeypatch.setattr(grades, "ask", ask)
    monkeypatch.setenv("ICLBOOK_JUDGE_KEY", "secret")
    assert main([*both, "--judge", "http://localhost/v1", "--judge-model", "m"]) == 0
    said = capsys.readouterr().out
    assert "is there already" in said
    assert said.splitlines()[-1].split() == ["tf", "1.00", "2.00", "3.00", "4.00", "2.50"]
    assert set(keys) == {("http://localhost/v1", "m", "secret")}
    assert not any("secret" in p.read_text() for p in (tmp_path / "out").glob("*.jsonl"))
    assert main(["stories", folder, "--profile", "smoke", "--train", "true", "--out", out]) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--train", "gd"], "belong together"),
        (["--out", "x"], "belong together"),
        (["--judge", "http://x"], "belong together"),
        (["--train", "gpt", "--out", "x"], "invalid choice"),
        (["--tokenizer", "nowhere"], "cannot be read"),
        (["--words", "1"], "Take 2 and 3 or more"),
        (["--words", "0"], "not a whole number"),
    ],
)
def test_mistakes_are_one_line(arguments, says, folder, capsys):
    try:
        code = main(["stories", folder, *arguments])
    except SystemExit as stop:
        code = stop.code
    said = capsys.readouterr().err
    assert code == 2
    assert says in said
    assert said.count("\n") == 1


def test_the_models_of_the_command_are_those_that_can_be_trained(folder, capsys):
    with pytest.raises(SystemExit):
        main(["stories", folder, "--train", "x", "--out", "y"])
    said = capsys.readouterr().err
    assert all(f"'{name}'" in said for name in (*MODELS, command.TRUE))


def test_nothing_is_behind_a_short_story(folder):
    tokens = StoryFolder(folder, 300).held_out(1)[:, 0]
    assert tokens[-1] == NOTHING
