"""Damaged inputs, the same ones at every run: each works or ends in one line; nothing hangs, is unforeseen, is written elsewhere, or passes for what it is not.

``python tests/fuzz.py 500`` tries five hundred of every kind, ``python tests/fuzz.py 500 ledger`` of one.
"""

import copy
import io
import json
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from claims_kit import LEDGER, make_root, stamp, write_notebook

from iclbook import cli, replication, store
from iclbook.book import replication_page
from iclbook.claims.references import Reference, read_reference, reference_path, write_reference
from iclbook.errors import UserError, one_line
from iclbook.models.pretrained import read_pretrained
from iclbook.training.history import load_checkpoint, save_checkpoint

#: Seconds after which an input counts as one that hangs.
PATIENCE = 60
VALUES = {"omega": 0.2, "gap": 0.0, "seeds": 3, "curve": [1.0, 2.0, 3.0]}
SPREAD = {"omega": 0.01, "curve": [0.0, 0.1, 0.0]}
VERDICTS = {"demo/both": "not yet tested", "demo/exact": "reproduced", "demo/later": "not yet tested"}
TOC = "format: jb-book\nroot: book/intro\nchapters:\n  - file: notebooks/demo\n"
CHAPTER = '# %% tags=["parameters"]\nprofile = "paper"\n\n# %% [markdown]\n# Text\n\n# %%\n1 + 1\n'
#: What breaks readers: overflows, wrong types, tags, aliases, nesting, control characters.
PIECES = (
    "1e999", "-.inf", ".nan", "9" * 400, "9" * 5000, "0x", "1:99:99.9", "2001-13-45", "!!int x", "!!float x", "!!bool maybe", "!!int ''",
    "!!timestamp x", "!!binary x", "!!set {a, b}", "!!omap [a: 1]", "!!python/object/apply:os.system [touch hacked]", "&a [*a]", "&a {b: *a}",
    "*a", "<<: *x", "<<: 3", "[" * 2000, "{a: " * 500, "? [a]\n: b", "? {a: b}\n: c", "\t", "\x00", "\x07", "null", "[]", "{}", "''", "true",
    "- ", ": ", "\n---\n", "\n...\n", "%YAML 9.9\n", "|", ">", "\u2028", "\ud7ff", "\U0001f600", "NaN", "-Infinity", '""', '"x"', "-1", "0.5",
    "[" * 20_000, '{"a":' * 5000, '"\\ud800"', ",", "]", "}", "'x'", '"__import__(\'os\')"', "\x1b[2J", "\n<<<<<<< HEAD\n", "--output=hacked",
)  # fmt: skip
OBJECTS = (
    None, True, False, 0, -1, 10**400, -(10**308), 1e300, float("nan"), float("inf"), "", "x", "x" * 300, "'a' 'b'", "[1]", "../../x", "/x",
    "--output=hacked", "\x1b[2J", [], [1], [[1]], [None], {}, {"": 1}, {"omega": "x"},
)  # fmt: skip
WORDS = (
    "run", "check", "build", "train", "claims", "where", "new", "probe", "all", "demo", "demo/both", "/x", "/", "demo/", "..", "../demo", "--profile",
    "smoke", "paper", "--device", "cpu", "cuda", "--jobs", "--workers", "1", "0", "-1", "99999999999", "\u00b2", "--json", "r.json", "--draw",
    "no/such/folder/r.json", ".", "", "\x00", "a" * 300, "--update", "--only", "--fresh", "--verify", "--machine", "sse-1", "--", "-", "--title",
    "--scheduler", "@file", "%s", "{}", "a\nb", "\x1b[31m", "--help", "--model", "--out", "--plan", "\ud800", "\u00e9=",
)  # fmt: skip

Random = random.Random


def damaged(rng: Random, content: bytes, tree: Any = None) -> bytes:
    """``content`` changed in one to three places: as bytes, as text, or as the ``tree`` that its JSON holds."""
    if tree is not None and rng.random() < 0.5:
        for _ in range(rng.randint(1, 2)):
            tree = put(tree, rng.choice([*paths(tree)]), copy.deepcopy(rng.choice(OBJECTS)))
        return json.dumps(tree).encode("utf-8", "surrogatepass")
    for _ in range(rng.randint(1, 3)):
        at, to = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        piece = rng.choice(PIECES).encode("utf-8", "surrogatepass")
        value = content.find(b": ", at) + 2  # an entry of YAML or JSON, in whose place something else stands
        end = min(e for e in (content.find(b"\n", value), content.find(b",", value), len(content)) if e >= 0)
        flipped = bytes([content[at] ^ 1 << rng.randrange(8)]) if at < len(content) else b""
        content = rng.choice(
            (
                content[:at] + content[to:],
                content[:at],
                content[:to] + content[at:],
                content[:at] + piece + content[at:],
                content[:value] + piece + content[end:] if value > 1 else piece,
                content[:at] + flipped + content[at + 1 :],
                content[:at] + rng.randbytes(rng.randint(1, 3)) + content[at:],
            )
        )
    return content


def paths(tree: Any, here: tuple = ()) -> Iterator[tuple]:
    """Every place in a JSON tree."""
    yield here
    for key, child in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from paths(child, (*here, key))


def put(tree: Any, path: tuple, value: Any) -> Any:
    """A copy of the tree with a value at that place."""
    if not path:
        return value
    result = copy.copy(tree)
    result[path[0]] = put(result[path[0]], path[1:], value)
    return result


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# -- what is damaged, and what reads it --------------------------------------------------------------------------------


class Book:
    """A small book in a folder of its own, sound before each damage."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "book"
        self.written: tuple[str, ...] = ()  # what the command may write

    def sound(self) -> None:
        root = make_root(self.root, LEDGER.replace("values:\n", "values:\n  curve: {says: a curve}\n"))
        (root / "_toc.yml").write_text(TOC)
        (root / "notebooks/demo.py").write_text(CHAPTER)
        reference = Reference(VALUES, SPREAD, VERDICTS)
        write_reference(reference_path("demo", "smoke", root, draw=0), "demo", reference)
        write_reference(reference_path("demo", "paper", root, draw=0), "demo", reference)
        write_notebook(root / "executed/paper/demo.ipynb", **VALUES)
        stamp(root)
        self.written = ()

    def command(self, *arguments: str) -> tuple[int, str]:
        """Exit code and output of a command, held to its promises."""
        out, error = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(error):
            try:
                code = cli.main(arguments)
            except SystemExit as end:  # argparse ends so
                code = end.code
        said = error.getvalue()
        assert code in (0, 1, 2), (code, said)
        assert (code == 2) == said.startswith("error: "), said
        assert len(said.splitlines()) <= 1, said
        assert "not foreseen" not in said, said
        assert "Traceback" not in said + out.getvalue()
        assert one_line(said) == said.strip(), "what steers a terminal"
        return code, out.getvalue()

    def replace(self, path: Path, rng: Random, tree: bool = False) -> bool:
        """Damage a file; whether it is another one now."""
        before = path.read_bytes()
        path.write_bytes(damaged(rng, before, json.loads(before) if tree else None))
        self.written += (path.relative_to(self.root).as_posix(),)
        return path.read_bytes() != before


def ledger(book: Book, rng: Random) -> None:
    book.replace(book.root / "src/iclbook/papers/demo/claims.yaml", rng)
    book.written += (stamp(book.root).relative_to(book.root).as_posix(),)
    book.command("claims", *rng.choice(((), ("demo",), ("demo/both",))))


def contents(book: Book, rng: Random) -> None:
    book.replace(book.root / "_toc.yml", rng)
    book.written += ("executed/smoke/",)
    book.command(*rng.choice((("run", "all", "--profile", "smoke"), ("claims",))))


def chapter(book: Book, rng: Random) -> None:
    book.replace(book.root / "notebooks/demo.py", rng)
    book.command("claims")


def reference(book: Book, rng: Random) -> None:
    book.replace(book.root / "references/smoke/demo.json", rng, tree=True)
    book.written += ("executed/smoke/",)
    book.command("check", "demo")


def executed(book: Book, rng: Random) -> None:
    sound = book.command("claims", "demo", "--json")
    changed = book.replace(book.root / "executed/paper/demo.ipynb", rng, tree=True)
    assert book.command("claims", "demo", "--json") == sound or changed
    assert not changed or book.command("claims", "demo", "--json")[0] == 2, "silent"


def words(book: Book, rng: Random) -> None:
    book.written = ("executed/", "references/")
    book.command(*(rng.choice(WORDS) for _ in range(rng.randint(0, 6))))


def result(book: Book, rng: Random) -> None:
    arrays = {"a/x": np.arange(6.0).reshape(2, 3), "a/steps": np.arange(3), "b/loss": np.ones((3, 1))}
    config = {"groups": [{"name": "a"}, {"name": "b"}]}
    about = store.provenance(config, {"training": "f 0123"}, 1.0, "cpu")
    path = store.save("demo", "paper", "tiny", arrays, about, book.root)
    damages = [path, *sorted(path.with_suffix("").iterdir())]
    which = rng.choice(damages)
    book.replace(which, rng, tree=which == path)
    try:
        found = store.load("demo", "paper", "tiny", config, {"training": "f 0123"}, root=book.root)
        assert found.arrays.keys() == arrays.keys(), "silent"
        assert all(np.array_equal(found[name], arrays[name]) for name in arrays), "silent"
        found.by("none")
    finally:
        for each in (path, *path.with_suffix("").iterdir()):
            each.unlink()


def draw(book: Book, rng: Random) -> None:
    path = reference_path("demo", "paper", book.root, draw=1)
    rules = {claim.id: claim.rules_digest for each in replication.all_ledgers(book.root) for claim in each.claims}
    write_reference(path, "demo", Reference(VALUES | {"omega": 0.3}, SPREAD, VERDICTS, rules=rules))
    kept = book.root / "references/replication/1/provenance/paper/demo.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"tiny": {"device": "cpu", "seconds": 1.0, "files": {}, "code": "0123"}}))
    book.replace(rng.choice((path, path, kept)), rng, tree=True)
    try:
        if b'"checksum": "' in path.read_bytes():
            assert read_reference(path, book.root).records == VALUES | {"omega": 0.3}, "silent"
        replication_page.markdown("paper", book.root)
        replication.fold_lines(book.root)
    finally:
        path.unlink()
        kept.unlink()


def checkpoint(book: Book, rng: Random) -> None:
    path = book.root / ".cache/checkpoints/demo.pt"
    save_checkpoint(path, {"config": "demo", "step": 3, "x": torch.arange(4.0)})
    changed = book.replace(path, rng)
    try:
        found = load_checkpoint(path, "demo")
        assert not changed or torch.equal(found["x"], torch.arange(4.0)), "silent"
    finally:
        path.unlink()


def model(book: Book, rng: Random) -> None:
    folder = book.root / "model"
    if not folder.is_dir():
        from transformers import GPT2Config, GPT2LMHeadModel

        GPT2LMHeadModel(GPT2Config(vocab_size=11, n_positions=8, n_embd=4, n_layer=1, n_head=1)).save_pretrained(folder)
    path = rng.choice([folder / "config.json", folder / "config.json", folder / "model.safetensors"])
    before = path.read_bytes()
    book.replace(path, rng, tree=path.suffix == ".json")
    try:
        read_pretrained(folder)
    finally:
        path.write_bytes(before)


KINDS: dict[str, Callable[[Book, Random], None]] = {
    each.__name__: each
    for each in (ledger, contents, chapter, reference, executed, words, result, draw, checkpoint, model)
}


# -- trying them -------------------------------------------------------------------------------------------------------


@contextmanager
def quiet(root: Path) -> Iterator[None]:
    """Chapters are not really run, nor pages built: what is tried is what stands before and after. Nothing takes longer than a minute."""

    def run(name: str, profile: str, device: str, **_: object) -> Path:
        return write_notebook(root / "executed" / profile / f"{name}.ipynb", **VALUES)

    def hangs(*_: object) -> None:
        raise TimeoutError("it hangs")

    empty = root.parent / "elsewhere"
    empty.mkdir(parents=True, exist_ok=True)
    old = signal.signal(signal.SIGALRM, hangs)
    with (
        mock.patch("iclbook.execution.run_notebook", run),
        mock.patch("iclbook.book.build.build", return_value=None),
        mock.patch("iclbook.inputs.LIBRARY", empty),  # reading it all costs most of the time
        mock.patch.dict("os.environ", {"ICLBOOK_ROOT": str(root), "ICLBOOK_DRAW": "0", "ICLBOOK_TRACEBACK": "0"}),
    ):
        try:
            yield
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, old)


def complaints(kind: str, numbers: range, folder: Path) -> list[str]:
    """What is wrong with how damaged inputs of a kind end."""
    book, found = Book(folder), []
    with quiet(book.root):
        for number in numbers:
            book.sound()
            before, rng = files(folder), Random(f"{kind} {number}")
            signal.alarm(PATIENCE)
            try:
                with mock.patch.dict("os.environ"):  # --draw sets one
                    KINDS[kind](book, rng)
            except UserError as problem:
                if not problem.hint.strip() or "\n" in one_line(problem):
                    found.append(f"{kind} {number}: {problem!r}")
            except Exception as problem:
                where = traceback.extract_tb(problem.__traceback__)[-1]
                found.append(f"{kind} {number}: {type(problem).__name__} {str(problem)[:300]} ({where.name})")
            signal.alarm(0)
            allowed = tuple(f"book/{name}" for name in (*book.written, "model/", "results/", ".cache/"))
            after = files(folder)
            touched = {n for n in before | after if before.get(n) != after.get(n) and not n.startswith(allowed)}
            found += [f"{kind} {number}: wrote {sorted(touched)}"] if touched else []
    return found


if __name__ == "__main__":
    count, kinds = int(sys.argv[1]), sys.argv[2:] or KINDS
    for name in kinds:
        with tempfile.TemporaryDirectory() as place:
            wrong = complaints(name, range(count), Path(place))
        print(f"{name}: {len(wrong)} of {count}", *wrong, sep="\n  ", flush=True)
