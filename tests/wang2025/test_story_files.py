"""Real stories: files of both collections, splits by hash, GPT-2's byte pairs, words, and batches for the trainer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from iclbook import random
from iclbook.errors import UserError
from iclbook.tasks.byte_pairs import BytePairs, FrequentWords, byte_letters, pieces, read_byte_pairs
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


def encoding():
    """Bytes and three merges; the end of a story is not the first number."""
    letters = list(byte_letters().values())
    tokens = [*letters, "th", "the", "\u0120the", MARK]
    merges = [("t", "h"), ("th", "e"), ("\u0120", "the")]
    return {token: i for i, token in enumerate(tokens)}, merges


def write_encoding(folder):
    numbers, merges = encoding()
    (folder / "vocab.json").write_text(json.dumps(numbers))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines))


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


# -- byte pairs -----------------------------------------------------------------------------------------------------------


def test_pieces_as_gpt2_cuts_them():
    assert pieces("He said,  \"It's 12!\"\n\n I'd  ") == [
        "He", " said", ",", " ", ' "', "It", "'s", " 12", '!"', "\n\n", " I", "'d", "  "
    ]  # fmt: skip
    assert pieces("na\u00efve\u00a0\u4e2d\u4e8c \u0664\u00bd\u2014x \U0001f600_") == [
        "na\u00efve", "\u00a0", "\u4e2d\u4e8c", " \u0664\u00bd", "\u2014", "x", " \U0001f600_"
    ]  # fmt: skip


def test_known_merges():
    numbers, merges = encoding()
    found = BytePairs(numbers, merges)
    t, h, e, space = (numbers[c] for c in ("t", "h", "e", "\u0120"))
    th, the, spaced = (numbers[c] for c in ("th", "the", "\u0120the"))
    assert found.encode("the the") == [the, spaced]
    assert found.encode(" thth hte") == [space, th, th, space, h, t, e]
    assert found.encode("\u00e9") == [numbers[byte_letters()[b]] for b in "\u00e9".encode()]
    assert found.size == len(numbers)
    assert found.end == numbers[MARK]


def test_the_first_merge_goes_first():
    """Of ``aab`` with merges (a b), (a a): a, ab. With the other order: aa, b."""
    letters = {letter: i for i, letter in enumerate(byte_letters().values())}
    numbers = letters | {"ab": 256, "aa": 257}
    both = [("a", "b"), ("a", "a")]
    assert BytePairs(numbers, both).encode("aab") == [letters["a"], 256]
    assert BytePairs(numbers, both[::-1]).encode("aab") == [257, letters["b"]]
    assert BytePairs(numbers, both[::-1]).encode("aaa") == [257, letters["a"]]
    assert BytePairs(numbers, both).end == 258, "the mark gets a number of its own"


@TRIALS
@given(st.text())
@example("\u0120 \x00\t\x1c \x85 \u3000")
@example(MARK)
def test_any_text_comes_back(text):
    found = BytePairs(*encoding())
    numbers = found.encode(text)
    assert found.decode(numbers) == text
    assert found.end not in numbers
    assert "".join(pieces(text)) == text


@TRIALS
@given(st.text() | st.text("the '\u00e9\u00bd\u00a0\u0664!1\n"))
def test_as_the_package_tokenizers(text):
    tokenizers = pytest.importorskip("tokenizers")
    numbers, merges = encoding()
    known = tokenizers.Tokenizer(tokenizers.models.BPE(numbers, merges))
    known.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert BytePairs(numbers, merges).encode(text) == known.encode(text).ids


def test_files_of_byte_pairs(tmp_path):
    write_encoding(tmp_path)
    found = read_byte_pairs(tmp_path)
    assert found.digest() == BytePairs(*encoding()).digest()
    assert found.digest() != BytePairs(encoding()[0], encoding()[1][::-1]).digest()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("vocab.json", "[1]", "is damaged"),
        ("vocab.json", "{", "is damaged"),
        ("vocab.json", '{"a": "b"}', "is damaged"),
        ("vocab.json", '{"a": 0}', "has no token"),
        ("merges.txt", "t h e\n", "is damaged"),
        ("merges.txt", "a b\n", "has no token 'ab'"),
        ("vocab.json", None, "cannot be read"),
        ("merges.txt", None, "cannot be read"),
    ],
)
def test_bad_files_of_byte_pairs_are_one_line(name, content, says, tmp_path):
    write_encoding(tmp_path)
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=says):
        read_byte_pairs(tmp_path)


def test_gaps_between_numbers_are_refused():
    numbers, merges = encoding()
    with pytest.raises(UserError, match="numbers with gaps"):
        BytePairs(numbers | {"more": 999}, merges)


def test_frequent_words():
    found = FrequentWords.of(["b a b. It's", "c a b."], 5)
    assert found.size == 5
    assert found.decode(found.encode("a b.")) == "a b."
    assert found.encode("b . a") == [2, 3, 4] or found.encode("b . a") == [2, 4, 3]
    assert found.decode(found.encode("It's a z.")) == "<unk> a <unk>."


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
