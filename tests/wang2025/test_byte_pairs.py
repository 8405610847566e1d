"""GPT-2's byte pairs: its pieces, known merges, any text, the package tokenizers, bad files; and the most frequent words."""

from __future__ import annotations

import pytest
from byte_pairs_kit import encoding, write_encoding
from hypothesis import example, given, settings
from hypothesis import strategies as st

from iclbook.errors import UserError
from iclbook.tasks.byte_pairs import BytePairs, FrequentWords, byte_letters, pieces, read_byte_pairs
from iclbook.tasks.story_files import MARK

TRIALS = settings(derandomize=True, database=None, deadline=None)


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
