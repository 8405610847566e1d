"""Damaged files and senseless command lines, by the hundred: one line, exit code 0, 1 or 2, and nothing written that was not asked for.

The examples are derived from the tests themselves (``derandomize``), so that every run tries the same ones.
"""

import copy
import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from claims_kit import LEDGER, make_root, stamp, write_notebook
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iclbook import cli
from iclbook.claims.record import TEXT_MIME, VALUE_MIME
from iclbook.inputs import METADATA_KEY

VALUES = {"omega": 0.2, "gap": 0.0, "seeds": 3, "curve": [1.0, 2.0, 3.0]}
REFERENCE = {
    "paper": "demo",
    "profile": "smoke",
    "records": VALUES,
    "spread": {"omega": 0.01, "curve": [0.0, 0.1, 0.0]},
    "verdicts": {"demo/both": "not yet tested", "demo/exact": "reproduced", "demo/later": "not yet tested"},
    "made": {"machines": ["sse-1"]},
}
TOC = "format: jb-book\nroot: book/intro\nchapters:\n  - file: notebooks/demo\n"
SOURCE = '# %% tags=["parameters"]\nprofile = "paper"\n\n# %% [markdown]\n# Text\n\n# %%\n1 + 1\n'

#: What breaks readers: overflows, wrong types, tags, aliases, nesting, control characters.
YAML_PIECES = (
    "1e999", "-.inf", ".nan", "9" * 400, "9" * 5000, "0x", "1:99:99.9", "2001-13-45", "!!int x", "!!float x", "!!bool maybe",
    "!!int ''", "!!timestamp x", "!!binary x", "!!set {a, b}", "!!omap [a: 1]", "!!python/object/apply:os.system [touch hacked]",
    "&a [*a]", "&a {b: *a}", "*a", "<<: *x", "<<: 3", "[" * 2000, "{a: " * 500, "? [a]\n: b", "? {a: b}\n: c", "\t", "\x00", "\x07",
    "null", "[]", "{}", "''", "true", "- ", ": ", "\n---\n", "\n...\n", "%YAML 9.9\n", "|", ">", "\u2028", "\ud7ff", "\U0001f600",
)  # fmt: skip
JSON_PIECES = (
    "NaN", "-Infinity", "1e999", "9" * 400, "9" * 5000, "null", "true", "[]", "{}", '""', '"x"', "-1", "0.5", "[" * 20_000, '{"a":' * 5000,
    '"\\ud800"', "\x00", ",", ":", "]", "}", "'x'", '"__import__(\'os\')"',
)  # fmt: skip

TRIALS = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bad")


@pytest.fixture(autouse=True)
def _no_real_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chapters are not really run, nor pages built: what is tried here is what stands before and after."""
    root = folder / "book"

    def run(name: str, profile: str, device: str, **_: object) -> Path:
        return write_notebook(root / "executed" / profile / f"{name}.ipynb", **VALUES)

    monkeypatch.setattr("iclbook.execution.run_notebook", run)
    monkeypatch.setattr("iclbook.book.build.build", lambda *_, **__: None)
    monkeypatch.setattr("iclbook.inputs.LIBRARY", folder / "elsewhere")  # reading it all costs most of the time
    monkeypatch.setenv("ICLBOOK_ROOT", str(root))
    monkeypatch.delenv("ICLBOOK_TRACEBACK", raising=False)
    (folder / "elsewhere").mkdir(exist_ok=True)
    monkeypatch.chdir(folder / "elsewhere")


def whole(folder: Path, profile: str = "paper") -> Path:
    """The book in order again: its ledger, reference, table of contents and an executed copy of today."""
    root = make_root(folder / "book", LEDGER.replace("values:\n", "values:\n  curve: {says: a curve}\n"))
    (root / "_toc.yml").write_text(TOC)
    reference = root / "references" / "smoke" / "demo.json"
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(json.dumps(REFERENCE))
    write_notebook(root / "executed" / profile / "demo.ipynb", **VALUES)
    stamp(root, profile)
    return root


def files(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def ends_well(root: Path, arguments: list[str], writes: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run a command and hold it to its promises; its exit code and what it said."""
    before = files(root)
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        try:
            code = cli.main(arguments)
        except SystemExit as end:  # argparse ends so
            code = end.code
    said = error.getvalue()
    assert code in (0, 1, 2), said
    assert (code == 2) == said.startswith("error: "), said
    assert len(said.splitlines()) <= 1, said
    assert "Traceback" not in said + out.getvalue()
    after = files(root)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert all(name.startswith(writes) for name in changed) if writes else not changed, changed
    return code, said


def damaged_text(text: str, pieces: tuple[str, ...]) -> st.SearchStrategy[str]:
    """A text cut, doubled, overwritten or with a piece put in, once or several times."""
    places = st.integers(0, len(text))

    def cut(at: int, to: int) -> Callable[[str], str]:
        return lambda t: t[: min(at, to)] + t[max(at, to) :]

    def put(at: int, piece: str) -> Callable[[str], str]:
        return lambda t: t[:at] + piece + t[at:]

    def replace_rest(at: int, piece: str) -> Callable[[str], str]:
        """In place of a value: from after the next colon or comma to the end of that line or item."""

        def change(t: str) -> str:
            begin = t.find(": ", at) + 2
            if begin < 2:
                return t[:at] + piece
            end = min(e for e in (t.find("\n", begin), t.find(",", begin), len(t)) if e >= 0)
            return t[:begin] + piece + t[end:]

        return change

    change = st.one_of(
        st.builds(cut, places, places),
        st.builds(lambda at: lambda t: t[:at], places),
        st.builds(lambda at, to: lambda t: t[:at] + t[min(at, to) :], places, places),
        st.builds(put, places, st.sampled_from(pieces)),
        st.builds(put, places, st.text(max_size=3)),
        st.builds(replace_rest, places, st.sampled_from(pieces)),
    )

    def apply(changes: list[Callable[[str], str]]) -> str:
        result = text
        for one in changes:
            result = one(result)
        return result

    return st.lists(change, min_size=1, max_size=3).map(apply)


JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from([10**400, -(10**308), float("nan"), "omega", "", "x" * 300, "'a' 'b'", "[1]"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def paths_in(tree: object, here: tuple = ()) -> list[tuple]:
    """Every place in a JSON tree."""
    found = [here]
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        found += paths_in(child, (*here, key))
    return found


def put_at(tree: object, path: tuple, value: object) -> object:
    if not path:
        return value
    result = copy.copy(tree)
    result[path[0]] = put_at(result[path[0]], path[1:], value)
    return result


def damaged_json(tree: object) -> st.SearchStrategy[str]:
    """A JSON text with a value of another kind somewhere, or damaged as text."""
    text = json.dumps(tree)
    elsewhere = st.builds(
        lambda path, value: json.dumps(put_at(tree, path, value)), st.sampled_from(paths_in(tree)), JSON_VALUES
    )
    return st.one_of(elsewhere, damaged_text(text, JSON_PIECES))


def write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


@settings(TRIALS, max_examples=300)
@given(text=damaged_text(LEDGER, YAML_PIECES))
def test_damaged_ledgers(folder: Path, text: str) -> None:
    root = whole(folder)
    write(root / "src/iclbook/papers/demo/claims.yaml", text)
    stamp(root)
    code, said = ends_well(root, ["claims"])
    assert code == 0 or "not foreseen" not in said, said


@settings(TRIALS, max_examples=200)
@given(text=damaged_json(REFERENCE))
def test_damaged_references(folder: Path, text: str) -> None:
    root = whole(folder)
    write(root / "references" / "smoke" / "demo.json", text)
    ends_well(root, ["check", "demo"], writes=("executed/smoke/",))


NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "source": "",
            "metadata": {},
            "execution_count": 1,
            "outputs": [
                {
                    "output_type": "display_data",
                    "data": {TEXT_MIME: repr(str(value)), VALUE_MIME: json.dumps({"key": key, "value": value})},
                    "metadata": {},
                }
                for key, value in VALUES.items()
            ],
        }
    ],
    "metadata": {METADATA_KEY: {"inputs": {}, "profile": "paper", "device": "auto"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@settings(TRIALS, max_examples=60)
@given(text=damaged_json(NOTEBOOK))
def test_damaged_executed_notebooks(folder: Path, text: str) -> None:
    root = whole(folder)
    copy_of = root / "executed" / "paper" / "demo.ipynb"
    write(copy_of, text)
    code, said = ends_well(root, ["claims", "demo", "--json"])
    assert code == 0 or "not foreseen" not in said, said


@settings(TRIALS, max_examples=150)
@given(text=damaged_text(TOC, YAML_PIECES))
def test_damaged_tables_of_contents(folder: Path, text: str) -> None:
    root = whole(folder)
    write(root / "_toc.yml", text)
    for arguments in (["run", "all", "--profile", "smoke"], ["claims"]):
        code, said = ends_well(root, arguments, writes=("executed/smoke/",))
        assert code == 0 or "not foreseen" not in said, said


WORDS = st.sampled_from(
    ["run", "check", "build", "train", "claims", "all", "demo", "demo/both", "/x", "/", "demo/", "..", "../demo", "--profile", "smoke",
     "paper", "--device", "cpu", "cuda", "--jobs", "--workers", "1", "0", "-1", "99999999999", "\u00b2", "--json", "r.json",
     "no/such/folder/r.json", ".", "", "\x00", "a" * 300, "--update", "--only", "--fresh", "--verify", "--machine", "sse-1", "--", "-",
     "@file", "%s", "{}", "a\nb", "\x1b[31m", "--help"]
)  # fmt: skip


@settings(TRIALS, max_examples=400)
@given(
    command=st.sampled_from(["run", "check", "build", "train", "claims"]),
    words=st.lists(st.one_of(WORDS, st.text(alphabet="ab-=\u00e9\n\x1b\ud800 ", max_size=6)), max_size=5),
    first=st.booleans(),
)
def test_senseless_command_lines(folder: Path, command: str, words: list[str], first: bool) -> None:
    root = whole(folder)
    arguments = [command, *words] if first else [*words, command]
    ends_well(root, arguments, writes=("executed/", "references/"))
