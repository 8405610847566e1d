"""Odd machines, files and file systems: the right outcome, or one line that names the mend."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from claims_kit import LEDGER, make_root, stamp, write_notebook

from iclbook import cli, files, inputs, machines, store
from iclbook.book import build, pages
from iclbook.claims import load_ledger
from iclbook.claims.references import Reference, read_reference, reference_path, write_reference
from iclbook.drawing.figure_data import text
from iclbook.errors import UserError
from iclbook.models.pretrained import read_pretrained
from iclbook.workers import Processes


@pytest.fixture
def root(tmp_path, monkeypatch):
    root = make_root(tmp_path / "book")
    monkeypatch.setenv("ICLBOOK_ROOT", str(root))
    write_notebook(root / "executed/paper/demo.ipynb", omega=0.2, gap=0.0, seeds=3)
    stamp(root)
    return root


@pytest.mark.parametrize(
    ("arguments", "code", "begins"),
    [
        (["claims"], 0, "warning: the book is"),
        (["run", "demo"], 2, "error: the book is"),
        (["train", "demo"], 2, "error: the book is"),
    ],
)
def test_two_checkouts_are_not_mixed_in_silence(root, capsys, arguments, code, begins):
    library = Path(files.__file__).parent
    shutil.copy(library / "project.py", root / "src/iclbook/project.py")
    assert cli.main(arguments) == code
    said = capsys.readouterr().err
    assert said.startswith(begins)
    assert f"PYTHONPATH={root / 'src'}" in said
    (root / "src/iclbook/project.py").unlink()
    (root / "src/iclbook/project.py").symlink_to(library / "project.py")
    assert cli.main(["claims"]) == 0
    assert capsys.readouterr().err == "", "the library of the book itself"


def test_a_system_without_file_locks_is_refused(monkeypatch, capsys):
    monkeypatch.delattr(files, "fcntl")
    assert cli.main(["claims"]) == 2
    assert "Linux or macOS. On Windows install WSL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("group", "written", "cores"),
    [
        ("0::/a/b", {"a/cpu.max": "250000 100000", "a/b/cpu.max": "max 100000"}, [2.5]),
        ("0::/", {"cpu.max": "50000 100000"}, [0.5]),
        ("4:cpu,cpuacct:/x", {"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"}, [1.5]),
        ("4:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, []),
        ("0::/", {"cpu.max": "1 0"}, []),
        ("nonsense", {}, []),
    ],
)
def test_a_containers_quota_counts(tmp_path, monkeypatch, group, written, cores):
    for name, content in {"proc/self/cgroup": group, **{f"sys/fs/cgroup/{k}": v for k, v in written.items()}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    assert machines._quotas(tmp_path) == cores
    monkeypatch.setattr(machines, "_quotas", lambda _: [0.5, 2.0])
    assert machines.usable_cores() == 1


def test_a_full_disk_is_named_when_pages_fail(root, monkeypatch):
    monkeypatch.setattr(build.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1))
    monkeypatch.setattr(build.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match="0 MB are left on the disk of"):
        build._jupyter_book(root, "paper", root / "new")


@pytest.mark.slow
@pytest.mark.book
def test_pages_that_no_source_makes_any_more_go(minibook_that_ran):
    html = minibook_that_ran / pages.HTML
    html.mkdir(parents=True)
    (html / "left_over.html").write_text('<a href="nowhere.html">x</a>')
    build.build("smoke", root=minibook_that_ran)
    assert (html / "notebooks/tiny.html").is_file()
    assert not (html / "left_over.html").exists()
    assert sorted(path.name for path in html.parent.iterdir()) == ["html"]


# -- files of others ---------------------------------------------------------------------------------------------------


def test_comments_and_strays_make_nothing_stale(root):
    ledger, pins = root / "src/iclbook/papers/demo/claims.yaml", root / "lock.txt"
    arrays, about = {"a/x": np.ones(2)}, store.provenance({}, {}, 1.0, "cpu")
    study = store.save("demo", "paper", "tiny", arrays, about, root)
    pins.write_text("")
    before = inputs.input_digests("demo", "paper", root)
    ledger.write_text(f"# ours\n{LEDGER}\n# the end\n")
    pins.write_text("# ours\n\n")
    for name in ("notes.json", "tiny (1).json", "tiny/a (1).npz", "x.npz"):
        (study.parent / name).write_text("{}")
    assert inputs.input_digests("demo", "paper", root) == before
    ledger.write_text(LEDGER.replace("> 0", "> 0.1"))
    pins.write_text("numpy==1\n")
    store.save("demo", "paper", "tiny", {"a/x": np.zeros(2)}, about, root)
    now = inputs.input_digests("demo", "paper", root)
    assert {name for name in now if now[name] != before[name]} == {"ledger", "pins", "results"}


def test_a_wrong_printed_number_is_reported_at_its_own_line(root):
    text = LEDGER.replace("claims:\n", "printed:\n  share: 5 %\nclaims:\n").replace('"> 0"', '"> printed:share"')
    (root / "src/iclbook/papers/demo/claims.yaml").write_text(text)
    line = text.splitlines().index("  share: 5 %") + 1
    with pytest.raises(UserError, match=rf"line {line}: share is '5 %'"):
        load_ledger("demo", root)


@pytest.mark.parametrize(
    ("label", "written"), [("=1+1", "'=1+1"), ("@x", "'@x"), ("-x", "'-x"), ("-1", "-1"), ("a", "a")]
)
def test_no_word_of_a_csv_is_a_formula(label, written):
    assert text([{"word": label, "x": -1.0}], ["word"]).splitlines()[1] == f"{written},-1"


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ({"a.gguf": ""}, "but a.gguf, of a format that is not read.*--local-dir .*-fetched"),
        ({"config.json": '{"model_type": "gpt2"}', "flax_model.msgpack": ""}, "no model.safetensors.* but flax_model.msgpack"),
        ({"config.json": '{"model_type": "bert"}'}, "has model_type 'bert'"),
        (
            {"config.json": '{"model_type": "gpt2", "quantization_config": {"quant_method": "gptq"}}', "a.safetensors": ""},
            "weights of that model that are not quantised",
        ),
        ({"config.json": '{"model_type": "gpt2"}', "model.safetensors": "x"}, "Files are damaged"),
    ],
)  # fmt: skip
def test_a_model_folder_that_is_not_read_says_why_and_its_advice_destroys_nothing(tmp_path, there, says):
    for name, content in there.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=says):
        read_pretrained(tmp_path)
    with pytest.raises(UserError, match=rf"is a file\. Give the folder .*{tmp_path}"):
        read_pretrained(tmp_path / next(iter(there)))


# -- what is forged, and what changes while it is read -----------------------------------------------------------------


def test_a_forged_number_that_is_not_finite_is_refused(root, monkeypatch):
    about = store.provenance({}, {}, 1.0, "cpu")
    with monkeypatch.context() as patch:
        patch.setattr(store, "check_finite", lambda *_: None)
        store.save("demo", "paper", "tiny", {"a/x": np.array([1.0, np.nan])}, about, root)
    with pytest.raises(UserError, match=r"tiny.json is damaged.*x of group a is not finite.*Restore it from git"):
        store.load("demo", "paper", "tiny", root=root)


@pytest.mark.parametrize("spread", [1e300, 20.0])
def test_a_spread_that_lets_everything_pass_is_refused(root, spread):
    path = reference_path("demo", "paper", root)
    write_reference(path, "demo", Reference({"omega": 1.0}, {"omega": spread}))
    with pytest.raises(UserError, match="omega has a spread that no rounding makes"):
        read_reference(path, root)


def test_results_that_are_replaced_while_they_are_read_are_read_again(root, monkeypatch):
    about = store.provenance({}, {}, 1.0, "cpu")
    store.save("demo", "paper", "tiny", {"a/x": np.ones(2)}, about, root)
    read, calls = store._arrays, []

    def replaced_meanwhile(*where):
        calls.append(where)
        if len(calls) == 1:
            store.save("demo", "paper", "tiny", {"a/x": np.zeros(2)}, about, root)
        return read(*where)

    monkeypatch.setattr(store, "_arrays", replaced_meanwhile)
    assert store.load("demo", "paper", "tiny", root=root)["a/x"].tolist() == [0, 0]
    assert len(calls) == 2


def test_the_bar_of_a_training_never_runs_backwards(monkeypatch):
    with Processes(2, progress=False) as pool:
        monkeypatch.setattr(pool, "_begin", lambda *_: None)
        monkeypatch.setattr(pool._bar, "update", lambda n: setattr(pool._bar, "n", pool._bar.n + n))
        seen = []
        for study in range(2):
            for _ in range(2):
                pool.submit(print)
            for part, start, done, total in (
                (0, 0, 10, 20),
                (1, 0, 5, 100),
                (0, 0, 5, 20),
                (0, 0, 20, 20),
                (1, 0, 100, 100),
            ):
                pool.tell(2 * study + part, start, done, total)
                seen.append((pool._bar.total, pool._bar.n))
    assert seen == [(None, 10), (120, 15), (120, 15), (120, 25), (120, 120)] * 2
