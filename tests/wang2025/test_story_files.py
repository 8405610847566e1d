"""Real stories: files of both collections, splits by hash, and batches for the trainer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from byte_pairs_kit import write_encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from iclbook import random
from iclbook.errors import UserError
from iclbook.tasks.stories import NOTHING
from iclbook.tasks.story_files import MARK, ONE_IN, SPLITS, Shelf
from iclbook.tasks.story_folder import StoryFolder

TRIALS = settings(derandomize=True, database=None, deadline=None)
N = 60
STORIES = [
    f'Once upon a time, Tom{i} had {i} red kites.\n\nHe said, "It\'s \u201cmine\u201d!"\nThe end.'
    for i in range(N)
]


def marked(path, stories=STORIES):
    path.write_bytes(f"\n{MARK}\n".join([*stories, ""]).encode())
    return path


def rows(path, stories=STORIES, lines=False):
    objects = [json.dumps({"prompt": 'a {"} b', "text": s, "more": {"n": [1]}}) for s in stories]
    path.write_text("\n".join(objects) if lines else "[\n" + ",\n".join(objects) + "\n]\n")
    return path


# -- files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["marked", "list", "lines"])
def test_each_kind_of_file_gives_the_same_stories(kind, tmp_path):
    if kind == "marked":
        marked(tmp_path / "TinyStoriesV2-GPT4-train.txt")
    else:
        rows(tmp_path / "children.json", lines=kind == "lines")
    found = Shelf(tmp_path)
    assert sorted(found[i] for i in range(len(found))) == sorted(STORIES)
    marked_alone = tmp_path / "other"
    marked_alone.mkdir()
    marked(marked_alone / "a.txt")
    assert found.digest() == Shelf(marked_alone).digest()


def test_windows_lines_and_a_last_story_without_its_mark(tmp_path):
    (tmp_path / "a.txt").write_bytes(f"one\r\ntwo{MARK}\r\n{MARK} \nthree".encode())
    found = Shelf(tmp_path)
    assert {found[i] for i in range(len(found))} == {"one\ntwo", "three"}


def test_a_split_is_a_storys_own(tmp_path):
    """Neither order, names and kinds of files nor other stories move one; equal stories count once."""
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
    marked(tmp_path / "a" / "x.txt")
    marked(tmp_path / "b" / "z.txt", STORIES[:20:-1] + STORIES[25:30])
    rows(tmp_path / "b" / "a.json", [*STORIES[:30], "Another story."])
    of = []
    for part in ("a", "b"):
        found = Shelf(tmp_path / part)
        of.append({found[row]: name for name in SPLITS for row in found.split(name)})
    assert len(of[0]) == N
    assert of[1].pop("Another story.") in SPLITS
    assert of[0] == of[1]


def test_shares_of_the_splits(tmp_path):
    found = Shelf(marked(tmp_path / "a.txt", [f"story {i}" for i in range(4000)]).parent)
    sizes = {name: len(found.split(name)) for name in SPLITS}
    assert sum(sizes.values()) == 4000
    for name in ("validation", "test"):
        assert sizes[name] == pytest.approx(4000 / ONE_IN, abs=5 * np.sqrt(4000 / ONE_IN))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"", "is empty"),
        ("a.txt", b"some story", "holds no <|endoftext|>"),
        ("a.txt", b"one<|endoftext|>\xff\xfe<|endoftext|>", "damaged at byte 16"),
        ("a.txt", b" <|endoftext|> <|endoftext|>", "holds no stories"),
        ("a.json", b"", "is empty"),
        ("a.json", b"[]", "holds no stories"),
        ("a.json", b'[{"text": "one"}, {"te', "is damaged"),
        ("a.json", b'[{"text": "one"}', "is damaged"),
        ("a.json", b'[{"text": "one"}]]', "is damaged"),
        ("a.json", b'[{"text": "one}]', "is damaged"),
        ("a.json", b'[{"text": }]', "is damaged at byte 1"),
        ("a.json", b'["one", "two"]', "is damaged"),
        ("a.json", b'null {"text": "one"}', "is damaged"),
        ("a.json", b"}", "is damaged"),
        ("a.json", b'[{"story": "one"}]', "without text in its column"),
        ("a.jsonl", b'{"text": 3}', "without text in its column"),
        ("a.jsonl", b'{"a":' * 40_000 + b"1" + b"}" * 40_000, "is damaged"),
        ("a.md", b"one", "holds no stories"),
    ],
)
def test_a_bad_file_is_one_line_with_a_mend(name, content, says, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as refused:
        Shelf(tmp_path)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 400
    assert refused.value.mend


#: What breaks readers of JSON.
PIECES = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\x00",
    b"\xff",
    b"9" * 5000,
    b"null",
    b'"\\ud800"',
    b'{"text": "x"}',
    b"\n",
]


@settings(TRIALS, max_examples=400)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 9), st.sampled_from(PIECES)), max_size=3))
def test_a_damaged_file_gives_stories_or_one_line(damages):
    with TemporaryDirectory() as name:
        for made, file in ((rows, "a.json"), (marked, "a.txt")):
            path = made(Path(name) / file, STORIES[:3])
            data = path.read_bytes()
            for place, length, piece in damages:
                place %= len(data) + 1
                data = data[:place] + piece + data[place + length :]
            path.write_bytes(data)
            try:
                found = Shelf(path.parent)
                said = [found[i] for i in range(len(found))]
            except UserError as mistake:
                said = str(mistake).splitlines()
                found = said[:1]
            assert len(said) == len(found) > 0
            path.unlink()


def test_no_folder(tmp_path):
    with pytest.raises(UserError, match="there is no folder"):
        Shelf(tmp_path / "none")


def test_half_a_surrogate_pair_is_no_failure(tmp_path):
    (tmp_path / "a.json").write_text('{"text": "a \\ud800 b"}')
    assert Shelf(tmp_path)[0] == "a ? b"


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"text": STORIES, "n": list(range(N))}), tmp_path / "a.parquet")
    found = Shelf(tmp_path)
    assert sorted(found[i] for i in range(len(found))) == sorted(STORIES)
    parquet.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(UserError):
        Shelf(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="cannot be read"):
        Shelf(tmp_path)


def test_parquet_without_pyarrow_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="can only be read with pyarrow"):
        Shelf(tmp_path)


# -- a folder as data -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    rows(tmp_path / "a.json")
    write_encoding(tmp_path)
    return tmp_path


def test_batches_are_training_stories_and_what_follows(folder):
    task = StoryFolder(str(folder), 30)
    keys, steps = random.keys([3, 4]), torch.tensor([1, 2])
    (tokens,) = task.draw(keys, steps, 50, torch.float32)
    assert tokens.shape == (2, 2, 31, 50)
    (later,) = task.draw(keys[1:], steps[1:], 50, torch.float32)
    assert torch.equal(tokens[1, 1], later[0, 0]), "a step is a function of seed and step"
    assert not torch.equal(tokens[0, 0], tokens[0, 1])
    batch = task.batch((tokens[:, 0],), ())
    assert torch.equal(batch.context[:, 1:], batch.target[:, :-1])
    said = {task.text(column) for column in tokens.flatten(0, 1).movedim(1, 2).reshape(-1, 31)}
    own = {task.text(column) for column in task.tokens(task.split("train")).T}
    assert said <= own
    assert len(said) > 0.9 * len(own)


def test_a_whole_story_ends_with_token_0_and_nothing(folder):
    task = StoryFolder(str(folder), 200)
    column = task.held_out(1)[:, 0]
    length = int((column >= 0).sum())
    assert column[length - 1] == 0
    assert (column[: length - 1] > 0).all()
    assert (column[length:] == NOTHING).all()
    assert task.text(column) == task.shelf[task.split("validation")[0]]
    assert task.vocabulary == 260
    assert length in task.lengths(N)


def test_the_token_that_was_0_is_a_token(folder):
    """Byte pairs have "!" at 0, which is the end of a story here."""
    task = StoryFolder(str(folder), 200)
    text = task.text(task.held_out(1)[:, 0])
    assert "!" in text
    assert task.encoding.encode("!") == [0]


def test_held_out_stories_are_not_trained(folder):
    task = StoryFolder(str(folder), 200)
    sets = [{task.text(c) for c in task.held_out(N, seed).T} for seed in (0, 1)]
    sets.append({task.text(c) for c in task.tokens(task.split("train")).T})
    assert all(sets)
    assert sum(map(len, sets)) == len(set.union(*sets)) == N


def test_words_where_there_are_no_byte_pairs(tmp_path):
    marked(tmp_path / "a.txt")
    task = StoryFolder(str(tmp_path), 30, words=12)
    assert task.vocabulary == 12
    assert task.held_out(1).max() < 12
    assert "<unk>" in task.text(task.held_out(1)[:, 0])
    assert StoryFolder(str(tmp_path), 30, words=13).content != task.content


def test_what_a_folder_refuses(tmp_path):
    marked(tmp_path / "a.txt", ["one story"])
    with pytest.raises(UserError, match="none of the 1 stories"):
        StoryFolder(str(tmp_path)).held_out(1)
    for wrong in ({"context": 1}, {"words": 2}, {"context": "x"}):
        with pytest.raises(UserError):
            StoryFolder(str(tmp_path), **wrong)
