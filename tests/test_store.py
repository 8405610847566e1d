"""Files and the results store: what is written is read back, and everything else is refused in one line with nothing lost or half-written."""

import errno
import hashlib
import io
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from iclbook import files, project, store
from iclbook.errors import UserError

ARRAYS = {
    "h2/kq": np.linspace(-1, 1, 24).reshape(2, 3, 4).astype(np.float32),
    "h2/steps": np.array([0, 1, 10]),
    "rate_0.001/mu": np.array([3.5, -3.5]),
}
CONFIG = "as configured"
SOURCE = {"training.groups": "Adam 01234567, Group 89abcdef"}
OLD = {"training.groups": "Adam 01234567, Group 00000000"}


def save(root: Path, arrays=ARRAYS, study: str = "tiny", **about) -> Path:
    about = {"config": CONFIG, "source": SOURCE, **about}
    return store.save("demo", "smoke", study, arrays, about, root)


def load(root: Path, **kwargs) -> store.Results:
    return store.load("demo", "smoke", "tiny", root=root, **kwargs)


def same(results: store.Results, arrays=ARRAYS) -> bool:
    return results.arrays.keys() == arrays.keys() and all(
        np.array_equal(results[k], v) and results[k].dtype == v.dtype for k, v in arrays.items()
    )


def refused(call, match: str) -> str:
    """The error of ``call``, after checking that it is one line that says what is wrong and what to do."""
    with pytest.raises(UserError, match=match) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.hint.strip()
    assert text.startswith(caught.value.problem)
    return text


def group_file(root: Path, group: str = "h2") -> Path:
    (path,) = (store.folder("demo", "smoke", root) / "tiny").glob(f"{group}.*npz")
    return path


def about_file(root: Path) -> Path:
    return store.folder("demo", "smoke", root) / "tiny.json"


def replace_group(root: Path, content: bytes) -> None:
    """Put ``content`` in place of a group's file and make its checksum fit."""
    file = group_file(root)
    file.write_bytes(content)
    about = json.loads(about_file(root).read_text())
    about["files"]["h2"] = checksum = hashlib.sha256(content).hexdigest()
    file.rename(file.with_name(f"h2.{checksum[:8]}.npz"))
    about_file(root).write_text(json.dumps(about))


def snapshot(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


# -- reading back -----------------------------------------------------------------------------------------------------


def test_round_trip(tmp_path):
    path = save(tmp_path, seconds=1.5)
    assert path == about_file(tmp_path)
    results = load(tmp_path, config=CONFIG)
    assert same(results)
    assert results.provenance["seconds"] == 1.5
    assert set(results.group("h2")) == {"kq", "steps"}
    assert results.group("h") == {}
    assert not list(tmp_path.rglob("*.part*"))


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_missing_group_file_is_named(tmp_path):
    save(tmp_path)
    file = group_file(tmp_path)
    file.unlink()
    assert file.name in refused(lambda: load(tmp_path), "is missing")


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b + b"\0", lambda b: b[:100] + bytes([b[100] ^ 1]) + b[101:]],
    ids=["truncated", "empty", "longer", "one bit"],
)
def test_a_damaged_group_file_is_refused(tmp_path, damage):
    save(tmp_path)
    group_file(tmp_path).write_bytes(damage(group_file(tmp_path).read_bytes()))
    assert str(group_file(tmp_path)) in refused(lambda: load(tmp_path), "damaged or unreadable")


class Bomb:
    """Unpickling it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


def test_pickled_content_is_refused_and_never_run_even_with_a_fitting_checksum(tmp_path):
    save(tmp_path)
    buffer, trace = io.BytesIO(), tmp_path / "exploded"
    np.savez(buffer, kq=np.array([Bomb(trace)], dtype=object))
    replace_group(tmp_path, buffer.getvalue())
    refused(lambda: load(tmp_path), "damaged or unreadable")
    assert not trace.exists()


ABOUT = {"config": CONFIG, "source": {}, "files": {}}


def test_what_unpacks_to_far_more_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    save(tmp_path)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, kq=np.zeros(2**20))
    replace_group(tmp_path, buffer.getvalue())
    assert load(tmp_path)["h2/kq"].size == 2**20
    monkeypatch.setattr(files, "UNPACKED", 2**22)
    monkeypatch.setattr(np, "load", None)
    refused(lambda: load(tmp_path), r"ValueError: [\d,]+ bytes that unpack to 8,388,")


@pytest.mark.parametrize(
    "text",
    [
        b'{"config": "as conf',
        b"",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        *(
            json.dumps(ABOUT | damage).encode()
            for damage in (
                {"files": None},
                {"files": {"h2": "/" * 5000}},
                {"files": {"../h2": "0" * 64}},
                {"commit": "--output=x"},
                {"commit": "abc1234++"},
                {"states": 3},
                {"may_diverge": [[1]]},
                {"threads": 0},
                {"source": "0123456789abcdef"},
                {"source": {"store": 3}},
            )
        ),
    ],
    ids=lambda text: text[-40:].decode(errors="replace"),
)
def test_a_damaged_json_is_refused(tmp_path, text):
    save(tmp_path)
    about_file(tmp_path).write_bytes(text)
    assert "tiny" in refused(lambda: load(tmp_path), "damaged|missing")


def test_other_source_is_refused_if_the_caller_names_its_own(tmp_path):
    save(tmp_path, source=OLD)
    assert "--verify" in refused(lambda: load(tmp_path, source=SOURCE), "other training code")
    assert same(load(tmp_path))


# -- what cannot be written -------------------------------------------------------------------------------------------


def fill_disk(monkeypatch, after: int) -> None:
    """Every write of a file after the first ``after`` ones fails: no space left on the device."""
    sync, done = os.fsync, []

    def full(file: int) -> None:
        if len(done) >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done.append(file)
        sync(file)

    monkeypatch.setattr(files.os, "fsync", full)


@pytest.mark.parametrize("after", [0, 1, 2], ids=["first group", "second group", "provenance"])
def test_a_full_disk_leaves_nothing_that_reads_as_results(tmp_path, monkeypatch, after):
    fill_disk(monkeypatch, after)
    refused(lambda: save(tmp_path), "No space left on device")
    assert not list(tmp_path.rglob("*.part*"))
    refused(lambda: load(tmp_path), "no results at")


def test_a_new_digest_changes_the_source_and_nothing_else(tmp_path, monkeypatch):
    save(tmp_path, source=OLD, seconds=3.0)
    old = json.loads(about_file(tmp_path).read_text())
    store.update_digest("demo", "smoke", "tiny", SOURCE, root=tmp_path)
    new = json.loads(about_file(tmp_path).read_text())
    assert new == old | {"source": SOURCE}
    assert same(load(tmp_path, config=CONFIG))
    before = snapshot(tmp_path)
    fill_disk(monkeypatch, 0)
    refused(lambda: store.update_digest("demo", "smoke", "tiny", SOURCE, root=tmp_path), "No space left")
    monkeypatch.undo()
    assert snapshot(tmp_path) == before


# -- groups -----------------------------------------------------------------------------------------------------------


def described(*names: str, **more) -> dict:
    return {"groups": [{"name": name, "rate": 1} for name in names], "steps": 5, **more}


def test_results_of_more_groups_than_are_asked_for_serve_and_those_that_lack_one_name_it(tmp_path):
    save(tmp_path, config=described("h2", "rate_0.001"))
    some = load(tmp_path, config=described("h2"))
    assert set(some.arrays) == {"h2/kq", "h2/steps"}
    text = refused(lambda: load(tmp_path, config=described("h2", "h6")), "lack the groups h6")
    assert "iclbook train demo --only tiny" in text
    assert "--fresh" not in text
    other = [described("h2", steps=6), described("h6"), {**described("h2"), "groups": [{"name": "h2", "rate": 2}]}]
    for config in other:
        assert "--fresh" in refused(lambda config=config: load(tmp_path, config=config), "another configuration")


def test_groups_that_nobody_describes_any_more_go_with_the_next_stamp(tmp_path):
    save(tmp_path, config=described("h2", "rate_0.001"))
    store.update_digest("demo", "smoke", "tiny", SOURCE, described("h2"), tmp_path)
    assert set(load(tmp_path).arrays) == {"h2/kq", "h2/steps"}
    assert len(list(tmp_path.rglob("*.npz"))) == 1


# -- all or nothing ---------------------------------------------------------------------------------------------------


OTHER = {k: v + 1 for k, v in ARRAYS.items()}


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_between_two_renames_leaves_old_or_new_results_whole(tmp_path, at, when):
    """In a process of its own, which ends without any clean-up before or after its ``at``-th rename."""
    save(tmp_path)
    child = os.fork()
    if child == 0:
        replace, seen = os.replace, []

        def killing(*paths):
            seen.append(paths)
            if when == "before" and len(seen) == at + 1:
                os._exit(9)
            replace(*paths)
            if len(seen) == at + 1:
                os._exit(9)

        os.replace = killing
        save(tmp_path, OTHER)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9, "it ended before its time"
    assert same(load(tmp_path), OTHER if (when, at) == ("after", 2) else ARRAYS)
    visible = [p for p in tmp_path.rglob("*") if p.is_file() and not p.name.startswith(".")]
    assert all(p.suffix in (".npz", ".json") for p in visible), "what is unfinished is hidden"
    save(tmp_path, OTHER)
    assert same(load(tmp_path), OTHER)
    assert len(snapshot(tmp_path)) == 3, "nothing is left of the killed one, or of the results before"


# -- numbers that are none --------------------------------------------------------------------------------------------

STEPS = {"h2/steps": np.array([0, 5, 10])}


def arrays_with(bad: float, name: str = "kq") -> dict[str, np.ndarray]:
    array = np.ones((3, 2), np.float32)
    array[0] = np.nan if name == "loss" else 1.0
    array[2, 1] = bad
    return STEPS | {f"h2/{name}": array}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["kq", "loss"])
def test_numbers_that_are_not_finite_are_refused_with_their_group(tmp_path, bad, name):
    text = refused(lambda: save(tmp_path, arrays_with(bad, name)), "not finite")
    assert all(part in text for part in ("demo/tiny", name, "group h2", "run 1", "step 10"))
    assert snapshot(tmp_path) == {}
    store.save("demo", "smoke", "tiny", arrays_with(bad, name), {"config": CONFIG, "source": SOURCE}, tmp_path, ("h2",))
    assert load(tmp_path)[f"h2/{name}"].shape == (3, 2), "the results say that they may diverge"


# -- locks ------------------------------------------------------------------------------------------------------------


def test_the_second_of_two_is_told_who_holds_the_lock_and_the_system_releases_it(tmp_path):
    lock = tmp_path / "locks" / "x.lock"
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with files.file_lock(lock, "the training of demo/tiny"):
            os.write(ready[1], b"1")
            os.read(done[0], 1)
            os._exit(9)  # no clean-up
    os.read(ready[0], 1)

    def second() -> None:
        with files.file_lock(lock, "the training of demo/tiny"):
            pass

    assert f"process {child}" in refused(second, "the training of demo/tiny is under way")
    os.write(done[1], b"1")
    os.waitpid(child, 0)
    second()


def test_a_file_system_without_locks_is_named_and_used(tmp_path, monkeypatch, capsys):
    def fails(*arguments):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(files.fcntl, "flock", fails)
    with files.file_lock(tmp_path / "x.lock", "the training of demo/tiny"):
        assert "x.lock: no lock" in capsys.readouterr().err


def test_what_is_no_ordinary_file_is_written_to_and_stays_what_it_is(tmp_path):
    pipe, target, link = (tmp_path / name for name in ("pipe", "target", "link"))
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_whole(pipe, "through")
    assert os.read(reader, 99) == b"through"
    assert pipe.is_fifo()
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    files.write_whole(link, b"new")
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    assert target.read_text() == "new"
    refused(lambda: files.write_whole(Path(""), "x"), "Is a directory")


@pytest.mark.parametrize("link", ["tiny", "tiny.json"])
def test_a_link_in_results_leads_nowhere(tmp_path, link):
    """Git keeps links: one that a stranger's results hold must not reach files of whoever stores results anew."""
    save(tmp_path)
    before, outside = about_file(tmp_path).with_name(link), tmp_path / "outside" / link
    outside.parent.mkdir()
    before.rename(outside)
    before.symlink_to(outside)
    kept = snapshot(outside.parent)
    refused(lambda: save(tmp_path, {"other/x": np.ones(2)}), "symbolic link")
    if link == "tiny":
        refused(lambda: store.update_digest("demo", "smoke", "tiny", SOURCE, root=tmp_path), "symbolic link")
        (outside / ".x.1.part").touch()  # of no living process
        refused(lambda: files.remove_unfinished(before), "symbolic link")
        (outside / ".x.1.part").unlink()
    assert snapshot(outside.parent) == kept


# -- where results come from -----------------------------------------------------------------------------------------------


def test_provenance_needs_no_git(monkeypatch):
    monkeypatch.setenv("PATH", "")
    about = store.provenance({}, SOURCE, 1.26, "cpu")
    assert about["commit"] == "unknown"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", about["date"])
    assert (about["source"], about["seconds"]) == (SOURCE, 1.3)


def test_a_library_that_differs_from_its_commit_is_said(tmp_path, monkeypatch):
    library = tmp_path / "src" / "iclbook" / "project.py"
    library.parent.mkdir(parents=True)
    library.write_text("a = 1")
    monkeypatch.setattr(project, "__file__", str(library))
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for call in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *call], check=True)
    clean = project.commit()
    (tmp_path / "results.json").write_text("1")  # no code
    assert re.fullmatch("[0-9a-f]{7,}", clean)
    assert project.commit() == clean
    library.write_text("a = 2")
    assert project.commit() == clean + "+"
    assert store.COMMIT.fullmatch(clean + "+")
