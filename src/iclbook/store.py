"""Committed results: small arrays with their provenance, refused when damaged or made from other source; and descriptions of studies as plain values:
equal descriptions mean equal numbers.

``results/<paper>/<profile>/<study>/<group>.<start of its checksum>.npz`` hold the arrays, ``results/<paper>/<profile>/<study>.json`` says where they
come from and carries the checksum of every file. Names follow content, so new arrays never overwrite old ones: replacing the json is the one moment
at which results change, and then files that it does not name are removed.
"""

import dataclasses
import functools
import hashlib
import io
import json
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .draw import number as draw_number
from .draw import outputs
from .errors import UserError
from .files import open_npz, reading, refuse_links, remove_unfinished, write_whole
from .project import check_profile, commit, find_root
from .sources import changed

#: In place of a group's name, of the file with states kept for verification.
STATES = "states-for-verification"
#: What the provenance says of each group that was added to results that were there.
ADDED = ("seconds", "device", "torch", "commit")
#: What a provenance may name, since git and the file system read it: a commit, and the SHA-256 of a file.
COMMIT, CHECKSUM = re.compile("[0-9a-f]{4,40}[+]?|unknown"), re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Results:
    """Arrays of one study, ``"group/name" -> array``, and their provenance."""

    arrays: Mapping[str, np.ndarray]
    provenance: dict[str, Any]

    def __getitem__(self, key: str) -> np.ndarray:
        return self.arrays[key]

    def __repr__(self) -> str:
        return f"Results of the groups {', '.join(sorted({key.split('/')[0] for key in self.arrays}))}"

    def group(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of one group, by their short names."""
        return {k.split("/", 1)[1]: v for k, v in self.arrays.items() if k.startswith(name + "/")}

    def by(self, label: str, **others: Any) -> dict[Any, dict[str, np.ndarray]]:
        """The arrays of the groups that have a label, by its value, in ascending order: of those whose other labels are ``others``."""
        labels = {name: dict(g.get("labels", ())) for name, g in _groups(self.provenance["config"]).items()}
        found = [(of[label], name) for name, of in labels.items() if of == {**others, label: of.get(label)}]
        assert len(found) == len({value for value, _ in found}), f"{label} does not tell groups apart"
        return {value: self.group(name) for value, name in sorted(found)}


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it.

    A dataclass is a mapping from the names of its fields that are not at their default, and under ``is`` the name of its class; a class or function is its
    name (which code it is, the digest of its source tells); an array is the digest of its content. Fields with ``compare=False`` decide no
    number and are left out.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        description = {"is": type(value).__name__}
        for each in filter(lambda each: each.compare, dataclasses.fields(value)):
            own, make = getattr(value, each.name), each.default_factory
            default = each.default if make is dataclasses.MISSING else make()
            if default is dataclasses.MISSING or plain(own) != plain(default):
                description[each.name] = plain(own)
        return description
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, functools.partial):
        return [plain(value.func), plain(value.args), plain(value.keywords)]
    if hasattr(value, "dtype") and not isinstance(value, type):  # an array, or a tensor on any device
        array = np.ascontiguousarray(value.cpu() if hasattr(value, "cpu") else value)
        return f"{array.dtype}{list(array.shape)} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"
    assert hasattr(value, "__qualname__"), f"a {type(value).__name__} cannot be described"
    return value.__name__


def folder(paper: str, profile: str, root: Path | None = None) -> Path:
    """Where the results of a paper at a profile lie."""
    return outputs(find_root() if root is None else root) / "results" / paper / check_profile(profile)


def provenance(config: Any, source: Mapping[str, str], seconds: float, device: str, **extra: Any) -> dict[str, Any]:
    """Provenance that a result file must carry; ``source`` holds digests of the code that made it (:mod:`iclbook.sources`). They, the day and the cost need no git:
    a history may be rewritten, or not at hand."""
    return {
        "config": config,
        "seconds": round(seconds, 1),
        "device": device,
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": np.__version__,
        "commit": commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "draw": draw_number(),
        "source": source,
        **extra,
    }


def save(
    paper: str,
    profile: str,
    study: str,
    arrays: Mapping[str, np.ndarray],
    about: dict,
    root: Path | None = None,
    may_diverge: Iterable[str] = (),
    states: Mapping[str, np.ndarray] | None = None,
    beside: Mapping[str, str] | None = None,
) -> Path:
    """Write a study's arrays (keys ``"group/name"``) and provenance; a kill at any point leaves the old results or the new ones, whole.
    A folder that cannot be written, or a number that is not finite, is a UserError.

    Args:
        states: from which segments can be trained again (:mod:`iclbook.training.history`); they lie in a file of their own.
        beside: stored groups that stay as they are, with the checksums of their files.
    """
    about = about | ({"may_diverge": sorted(may_diverge)} if may_diverge else {})
    check_finite(f"{paper}/{study}", arrays, about.get("may_diverge", ()))
    base = folder(paper, profile, root)
    groups: dict[str, dict[str, np.ndarray]] = {}
    for key, array in arrays.items():
        group, name = key.split("/", 1)
        groups.setdefault(group, {})[name] = np.asarray(array)
    if states:
        groups[STATES] = dict(states)
    sums = dict(beside or {})
    for group, members in groups.items():
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **members)
        sums[group] = hashlib.sha256(buffer.getvalue()).hexdigest()
        write_whole(base / study / _name(group, sums[group]), buffer.getvalue())
    return _name_files(base, study, about, sums)


def update_digest(
    paper: str,
    profile: str,
    study: str,
    source: Mapping[str, str],
    config: Any = None,
    root: Path | None = None,
    **verified: Any,
) -> None:
    """Mark a study's results as those of the code with these digests, after its replay has passed; ``verified`` says what was derived again. Groups that
    ``config`` does not name are removed."""
    about = read_provenance(paper, profile, study, root)
    sums = _described(about, config) | ({STATES: about["states"]} if "states" in about else {})
    about |= {"source": source} | ({} if config is None else {"config": config})
    about |= {"verified": verified} if verified else {}
    _name_files(folder(paper, profile, root), study, about, sums)


def _name_files(base: Path, study: str, about: Mapping[str, Any], sums: Mapping[str, str]) -> Path:
    """Write a study's json, which names its files, and remove all others."""
    files = {group: checksum for group, checksum in sums.items() if group != STATES}
    states = {"states": sums[STATES]} if STATES in sums else {}
    text = json.dumps({**about, **states, "files": files, "config": None}, indent=1)
    line = f'"config": {json.dumps(about.get("config"))}'  # one line, however long
    path = base / f"{study}.json"
    write_whole(path, text.replace('"config": null', line, 1) + "\n")
    kept = {_name(group, checksum) for group, checksum in sums.items()}
    remove_unfinished(base / study)
    for file in (base / study).glob("*.npz"):
        if file.name not in kept:
            with suppress(OSError):
                file.unlink()
    return path


def _name(group: str, checksum: str) -> str:
    return f"{group}.{checksum[:8]}.npz"


def check_finite(study: str, arrays: Mapping[str, np.ndarray], may_diverge: Iterable[str] = ()) -> None:
    """Refuse numbers that are not finite, naming study, group, array, and run and step of the first where there are steps; no loss is there before the first step."""
    for key, array in arrays.items():
        group, name = key.split("/", 1)
        later = array[1:] if name == "loss" and arrays.get(f"{group}/steps", [1])[0] == 0 else array
        if group not in may_diverge and np.issubdtype(array.dtype, np.floating) and not np.isfinite(later).all():
            hint = "Lower the rate of that run, or say may_diverge of that group if diverging is a result."
            first, at = np.argwhere(~np.isfinite(later))[0], ""
            steps = arrays.get(f"{group}/steps", ())
            if array.ndim > 1 and len(array) == len(steps):
                at = f", run {first[1]}, step {steps[first[0] - len(later)]}"
            raise UserError(f"{study}: {name} of group {group}{at} is not finite", hint)


def read_provenance(paper: str, profile: str, study: str, root: Path | None = None) -> dict[str, Any]:
    """Provenance of a study."""
    path = folder(paper, profile, root) / f"{study}.json"
    command = _command(paper, profile, study)
    refuse_links(path.with_suffix(""))
    if not path.exists():
        raise UserError(f"no results at {path}", f"Make them with: {command}")
    with reading(path, f"Restore it from git, or: {command} --fresh"):
        about = json.loads(path.read_text(encoding="utf-8"))
        sums = [*about["files"].values(), about.get("states", "")]
        texts = [*sums, *about.get("may_diverge", ()), *about["source"].values(), about.get("device", "")]
        texts += [about.get("date", ""), about.get("clock", "")]
        threads = about.get("threads", 1)
        if not all(isinstance(text, str) for text in texts) or type(threads) is not int or threads < 1:
            raise ValueError("an entry of another kind")
        named = all(map(CHECKSUM.fullmatch, filter(None, sums)))
        named &= not any("/" in group or len(group) > 200 for group in about["files"])
        if not (named and COMMIT.fullmatch(about.get("commit", "unknown"))):
            raise ValueError("a commit, or the name or the checksum of a file, that is none")
        if lost := sorted(_groups(about["config"]).keys() - about["files"].keys()):
            raise ValueError(f"no file of group {lost[0]}")
        if about.get("draw", 0) != draw_number():
            raise ValueError(f"of draw {about.get('draw', 0)}, not of draw {draw_number()}")
        return about | {"config": about["config"]}


def load(
    paper: str,
    profile: str,
    study: str,
    config: Any = None,
    source: Mapping[str, str] | None = None,
    root: Path | None = None,
) -> Results:
    """Read a study's results. A damaged file, another configuration or other source is a UserError.

    Args:
        config: the configuration that the caller stands for; results of another one are refused, but they may hold more groups.
        source: digests of the code as it is now; results of other code are refused.
    """
    command = _command(paper, profile, study)
    if config is not None and (missing := missing_groups(paper, profile, study, config, root)):
        raise UserError(f"the results of {study} lack the groups {', '.join(missing)}", f"Train these alone: {command}")
    about = read_provenance(paper, profile, study, root)
    if source is not None and (moved := changed(about["source"], source)):
        what = f"{moved[0]} changed" + (f", and {len(moved) - 1} more" if moved[1:] else "")
        hint = f"Replay their first steps and stamp them anew with: {command} --verify; or train again with --fresh."
        raise UserError(f"results/{paper}/{profile}/{study}: made from other training code ({what})", hint)
    base = folder(paper, profile, root) / study
    try:
        arrays = _arrays(base, _described(about, config), f"{command} --fresh")
        with reading(base.with_name(f"{study}.json"), f"Restore it from git, or: {command} --fresh"):
            try:
                check_finite(f"{paper}/{study}", arrays, about.get("may_diverge", ()))
            except UserError as forged:
                raise ValueError(forged.problem) from None
    except UserError:
        if read_provenance(paper, profile, study, root) == about:
            raise
        return load(paper, profile, study, config, source, root)  # it was replaced in the meantime
    return Results(arrays, about if config is None else about | {"config": config})


def load_states(paper: str, profile: str, study: str, root: Path | None = None) -> dict[str, np.ndarray]:
    """The states that were kept with a study's results; none of results that were made before states were kept. A damaged file is a UserError."""
    about = read_provenance(paper, profile, study, root)
    if "states" not in about:
        return {}
    base, command = folder(paper, profile, root) / study, f"{_command(paper, profile, study)} --fresh"
    arrays = _arrays(base, {STATES: about["states"]}, command)
    return {key.removeprefix(f"{STATES}/"): array for key, array in arrays.items()}


def missing_groups(paper: str, profile: str, study: str, config: Any, root: Path | None = None) -> tuple[str, ...]:
    """Groups that ``config`` describes and that a study's results lack, all else equal."""
    stored = read_provenance(paper, profile, study, root)["config"]
    ours, theirs = _groups(config), _groups(stored)
    same = [name for name in ours if name in theirs]
    differs = any(_unlabelled(ours[name]) != _unlabelled(theirs[name]) for name in same)
    differs |= not (same or stored == config)
    if differs or _rest(stored) != _rest(config):
        hint = f"Train again: {_command(paper, profile, study)} --fresh"
        raise UserError(f"the results of {study} were made from another configuration", hint)
    return tuple(name for name in ours if name not in theirs)


def _groups(config: Any) -> dict[str, Any]:
    """A configuration's groups by name; those of a computation are names."""
    listed = config.get("groups") if isinstance(config, dict) else None
    return {g["name"] if isinstance(g, dict) else str(g): g for g in listed or ()}


def _unlabelled(group: Any) -> Any:
    """A described group without its labels, which decide no number."""
    return {k: v for k, v in group.items() if k != "labels"} if isinstance(group, dict) else group


def _rest(config: Any) -> Any:
    return {k: v for k, v in config.items() if k != "groups"} if isinstance(config, dict) else config


def _described(about: Mapping[str, Any], config: Any) -> dict[str, str]:
    """Checksums of the stored files, without those of groups that ``config`` no longer has."""
    gone = set() if config is None else _groups(about["config"]).keys() - _groups(config).keys()
    return {group: checksum for group, checksum in about["files"].items() if group not in gone}


def _arrays(base: Path, sums: Mapping[str, str], command: str) -> dict[str, np.ndarray]:
    """The arrays of every group, ``"group/name" -> array``, after comparing the files with their checksums."""
    arrays, hint = {}, f"Restore it from git, or: {command}"
    for group, checksum in sums.items():
        path = base / _name(group, checksum)
        if not path.exists():
            raise UserError(f"the result file {path} is missing", hint)
        with reading(path, hint):
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != checksum:
                raise ValueError("its checksum differs")
            with open_npz(content) as data:
                loaded = {f"{group}/{name}": data[name] for name in data.files}
            if not all(isinstance(array, np.ndarray) for array in loaded.values()):
                raise ValueError("it holds what is no array")
            arrays |= loaded
    return arrays


def _command(paper: str, profile: str, study: str) -> str:
    return f"iclbook train {paper} --only {study} --profile {profile}"


def others(study: Any, profile: str, missing: Sequence[str]) -> Results | None:
    """The stored results of the groups of a study or computation that are not ``missing``; ``None`` where none is missing."""
    if not missing:
        return None
    there = study.of_groups([name for name in study.group_names if name not in missing])
    return load(study.paper, profile, study.name, there.describe(), there.source())


def keep(
    study: Any,
    profile: str,
    arrays: dict[str, np.ndarray],
    about: dict[str, Any],
    beside: Results | None = None,
    states: dict[str, np.ndarray] | None = None,
) -> Results:
    """Store the arrays of a study or computation, or of some of its groups beside those that are there."""
    where = study.paper, profile, study.name
    every, sums = arrays, {}
    if beside is not None:
        every = {**beside.arrays, **arrays}
        states = load_states(*where) | (states or {})
        sums = {group: beside.provenance["files"][group] for group in {k.split("/")[0] for k in beside.arrays}}
        new = {name: {k: about[k] for k in ADDED} for name in sorted({key.split("/")[0] for key in arrays})}
        added = beside.provenance.get("added", {}) | new
        about = beside.provenance | {k: about[k] for k in ("config", "source")} | {"added": added}
    save(*where, arrays, about, may_diverge=study.may_diverge, states=states, beside=sums)
    return Results(every, about)
