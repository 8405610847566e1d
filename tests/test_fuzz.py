"""Damaged inputs, the same ones at every run: each works or ends in one line; none is unforeseen, runs what it holds, or passes for what it is not."""

import copy
import json
import random
from contextlib import suppress

import numpy as np
import pytest
from claims_kit import LEDGER, make_root, stamp, write_notebook

from iclbook import cli, store
from iclbook.claims.references import Reference, reference_path, write_reference
from iclbook.errors import UserError, one_line
from iclbook.models.pretrained import read_pretrained

VALUES = {"omega": 0.2, "gap": 0.0, "seeds": 3, "curve": [1.0, 2.0, 3.0]}
SPREAD = {"omega": 0.01, "curve": [0.0, 0.1, 0.0]}
VERDICTS = {"demo/both": "not yet tested", "demo/exact": "reproduced", "demo/later": "not yet tested"}
#: What breaks readers: overflows, wrong types, tags, aliases, nesting, control characters.
PIECES = """1e999|-.inf|.nan|0x|1:99:99.9|2001-13-45|!!int x|!!bool maybe|!!timestamp x|!!binary x|!!omap [a: 1]|&a [*a]|*a|<<: 3|? [a]\n: b|\t|\x00
!!python/object/apply:os.system [touch hacked]|null|[]|{}|''|true|- |: |\n---\n|%YAML 9.9\n|>|\u2028|\ud7ff|NaN|"x"|-1|,|]|}|\x1b[2J|\n<<<<<<< HEAD\n"""
PIECES = [*PIECES.split("|"), "9" * 5000, "[" * 20_000, '{"a":' * 5000]
OBJECTS = (
    None,
    True,
    -1,
    10**400,
    1e300,
    float("nan"),
    "",
    "x" * 300,
    "../../x",
    "\x1b[2J",
    [],
    [[1]],
    [None],
    {"": 1},
)
WORDS = "run check build train claims where new probe all demo demo/both / .. --profile paper --device --jobs -1 ² --json --draw \x00 -- - @file %s a\nb"


def damaged(rng: random.Random, content: bytes, is_json: bool) -> bytes:
    """``content`` changed in one to three places, as bytes or in the tree that it holds."""
    if is_json and rng.random() < 0.5:
        tree = json.loads(content)
        parent, key = rng.choice([*places(tree)])
        parent[key] = copy.deepcopy(rng.choice(OBJECTS))
        return json.dumps(tree).encode()
    for _ in range(rng.randint(1, 3)):
        at, to = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        piece = rng.choice(PIECES).encode("utf-8", "surrogatepass")
        value = content.find(b": ", at) + 2  # an entry of YAML or JSON, in whose place something else stands
        end = min(e for e in (content.find(b"\n", value), content.find(b",", value), len(content)) if e >= 0)
        entry = content[:value] + piece + content[end:] if value > 1 else piece
        inserted = [content[:at] + new + content[at:] for new in (piece, rng.randbytes(2))]
        content = rng.choice([content[:at], content[:at] + content[to:], content[:to] + content[at:], entry, *inserted])
    return content


def places(tree):
    """Every entry in a JSON tree, as a list or dictionary and its index."""
    for key, child in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        yield from places(child) if isinstance(child, dict | list) else ()


def damage(path, rng) -> bool:
    """Whether the file is another one now."""
    before = path.read_bytes()
    path.write_bytes(damaged(rng, before, path.suffix in (".json", ".ipynb")))
    return path.read_bytes() != before


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Make a small sound book. Chapters are not really run, nor pages built: what is tried stands before and after."""
    root = tmp_path / "book"

    def run(name, profile, device, **_):
        return write_notebook(root / "executed" / profile / f"{name}.ipynb", **VALUES)

    def make():
        make_root(root, LEDGER.replace("values:\n", "values:\n  curve: {says: a curve}\n"))
        for profile in ("smoke", "paper"):
            reference = Reference(VALUES, SPREAD, VERDICTS)
            write_reference(reference_path("demo", profile, root, draw=0), "demo", reference)
        write_notebook(root / "executed/paper/demo.ipynb", **VALUES)
        stamp(root)
        return root

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("iclbook.execution.run_notebook", run)
    monkeypatch.setattr("iclbook.book.build.build", lambda *_, **__: None)
    monkeypatch.setattr("iclbook.inputs.LIBRARY", tmp_path / "elsewhere")  # reading it all costs most of the time
    for name, value in {"ROOT": str(root), "DRAW": "0", "TRACEBACK": "0"}.items():
        monkeypatch.setenv(f"ICLBOOK_{name}", value)
    monkeypatch.chdir(tmp_path)
    return make


def ends_well(capsys, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command, held to its promises."""
    try:
        code = cli.main(arguments)
    except SystemExit as end:  # argparse ends so
        code = end.code
    out, said = capsys.readouterr()
    assert code in (0, 1, 2), (code, said)
    assert (code == 2) == said.startswith("error: "), said
    assert len(said.splitlines()) <= 1, said
    assert "not foreseen" not in said, said
    assert one_line(said) == said.strip(), "what steers a terminal"
    return code, out


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("src/iclbook/papers/demo/claims.yaml", ("claims", "claims demo", "claims demo/both")),
        ("_toc.yml", ("claims", "run all --profile smoke")),
        ("references/smoke/demo.json", ("check demo",)),
        ("executed/paper/demo.ipynb", ("claims demo --json",)),
    ],
)
def test_a_damaged_file_of_a_book_is_read_or_refused(book, capsys, tmp_path, name, commands):
    for number in range(40):
        root, rng = book(), random.Random(f"{name} {number}")
        changed = damage(root / name, rng)
        if name.endswith(".yaml"):
            stamp(root)
        code, _ = ends_well(capsys, *rng.choice(commands).split())
        assert not (name.startswith("executed") and changed) or code == 2, f"{number}: silent"
    assert [*tmp_path.rglob("*hacked*")] == []


def test_odd_words_on_the_command_line_end_well(book, capsys, monkeypatch):
    for number in range(40):
        book()
        rng = random.Random(number)
        with monkeypatch.context() as restored:
            restored.setenv("ICLBOOK_DRAW", "0")  # --draw sets one
            ends_well(capsys, *(rng.choice(WORDS.split(" ")) for _ in range(rng.randint(0, 6))))


def test_a_damaged_result_is_itself_or_refused(book):
    arrays = {"a/x": np.arange(6.0).reshape(2, 3), "a/steps": np.arange(3), "b/loss": np.ones((3, 1))}
    config, code = {"groups": [{"name": "a"}, {"name": "b"}]}, {"training": "f 0123"}
    for number in range(40):
        root, rng = book(), random.Random(number)
        path = store.save("demo", "paper", "tiny", arrays, store.provenance(config, code, 1.0, "cpu"), root)
        damage(rng.choice([path, *sorted(path.with_suffix("").iterdir())]), rng)
        with suppress(UserError):
            found = store.load("demo", "paper", "tiny", config, code, root=root).arrays
            assert found.keys() == arrays.keys()
            assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_a_damaged_model_is_read_or_refused(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    GPT2LMHeadModel(GPT2Config(vocab_size=11, n_positions=8, n_embd=4, n_layer=1, n_head=1)).save_pretrained(tmp_path)
    for number in range(12):
        rng = random.Random(number)
        path = tmp_path / rng.choice(["config.json", "config.json", "model.safetensors"])
        before = path.read_bytes()
        damage(path, rng)
        with suppress(UserError):
            read_pretrained(tmp_path)
        path.write_bytes(before)
