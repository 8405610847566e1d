"""Committed results: small arrays with their provenance, refused when damaged or made from other source.

``results/<paper>/<profile>/<study>/<group>.<start of its checksum>.npz`` hold the arrays, ``results/<paper>/<profile>/<study>.json`` says where they
come from and carries the checksum of every file. Names follow content, so new arrays never overwrite old ones: replacing the json is the one moment
at which results change, and then files that it does not name are removed.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .errors import UserError
from .files import PART, write_whole
from .profiles import check_profile
from .project import find_root

#: In place of a group's name, of the file with states kept for verification.
STATES = "states-for-verification"


@dataclass(frozen=True)
class Results:
    """Arrays of one study, ``"group/name" -> array``, and their provenance."""

    arrays: Mapping[str, np.ndarray]
    provenance: dict[str, Any]

    def __getitem__(self, key: str) -> np.ndarray:
        try:
            return self.arrays[key]
        except KeyError:
            raise UserError(
                f"the results hold no array {key!r}", f"They hold: {', '.join(sorted(self.arrays))}."
            ) from None

    def group(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of one group, by their short names."""
        return {k.split("/", 1)[1]: v for k, v in self.arrays.items() if k.startswith(name + "/")}


def folder(paper: str, profile: str, root: Path | None = None) -> Path:
    """Where the results of a paper at a profile lie."""
    return (find_root() if root is None else root) / "results" / paper / check_profile(profile)


def provenance(config: Any, source: str, seconds: float, device: str, **extra: Any) -> dict[str, Any]:
    """What a result file must say of itself; ``source`` is the digest of the code that made it."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    return {
        "config": config,
        "seconds": round(seconds, 1),
        "device": device,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "commit": commit,
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
) -> Path:
    """Write a study's arrays (keys ``"group/name"``) and provenance; a kill at any point leaves the old results or the new ones, whole. ``states``,
    from which stretches can be trained again (:mod:`iclbook.training.stretches`), lie in a file of their own.

    Raises:
        UserError: the folder cannot be written, or a number is not finite in a group that is not in ``may_diverge``.
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
    path, sums, new = base / f"{study}.json", {}, []
    try:
        for group, members in groups.items():
            buffer = io.BytesIO()
            np.savez_compressed(buffer, allow_pickle=False, **members)
            sums[group] = hashlib.sha256(buffer.getvalue()).hexdigest()
            file = base / study / _name(group, sums[group])
            if not file.exists():
                new.append(file)
            write_whole(file, buffer.getvalue())
        kept = {"states": sums[STATES]} if states else {}
        named = {group: checksum for group, checksum in sums.items() if group != STATES}
        write_whole(path, _text({**about, **kept, "files": named}))
    except UserError:
        for file in new:
            with suppress(OSError):
                file.unlink()
        raise
    _tidy(base, study, {_name(group, checksum) for group, checksum in sums.items()})
    return path


def load_states(paper: str, profile: str, study: str, root: Path | None = None) -> dict[str, np.ndarray]:
    """The states that were kept with a study's results; none of results that were made before states were kept.

    Raises:
        UserError: as :func:`load`.
    """
    about = read_provenance(paper, profile, study, root)
    if "states" not in about:
        return {}
    command = f"iclbook train {paper} --only {study} --profile {profile} --fresh"
    found = _arrays(folder(paper, profile, root) / study, {STATES: about["states"]}, command)
    return {key.removeprefix(f"{STATES}/"): array for key, array in found.items()}


def _name(group: str, checksum: str) -> str:
    return f"{group}.{checksum[:8]}.npz"


def _text(about: Mapping[str, Any]) -> bytes:
    """Provenance as JSON: a line for each entry, the configuration on one."""
    text = json.dumps({**about, "config": None}, indent=1)
    return (text.replace('"config": null', f'"config": {json.dumps(about.get("config"))}', 1) + "\n").encode()


def _tidy(base: Path, study: str, kept: set[str]) -> None:
    """Remove the arrays of earlier results, and what a killed process left unfinished."""
    unfinished = [*base.glob(f".{study}.json.*{PART}"), *(base / study).glob(f".*{PART}")]
    for file in [*unfinished, *(base / study).glob("*.npz")]:
        if file.name not in kept:
            with suppress(OSError):
                file.unlink()


def check_finite(study: str, arrays: Mapping[str, np.ndarray], may_diverge: Iterable[str] = ()) -> None:
    """Refuse numbers that are not finite; the loss before the first step is none and does not count.

    Raises:
        UserError: naming study, group and array, and (of arrays over steps) run and step.
    """
    for key, array in arrays.items():
        group, name = key.split("/", 1)
        if group in may_diverge or not np.issubdtype(array.dtype, np.floating):
            continue
        bad = ~np.isfinite(array)
        steps = arrays.get(f"{group}/steps")
        if name == "loss" and steps is not None and len(steps) == len(bad) and steps[0] == 0:
            bad[0] = False
        if bad.any():
            first = np.argwhere(bad)[0]
            at = ""
            if steps is not None and array.ndim > 1 and len(steps) == len(array):
                at = f", run {first[1]}, step {steps[first[0]]}"
            raise UserError(
                f"{study}: {name} of group {group}{at} is not finite",
                "Lower the rate, or say may_diverge of that group if diverging is a result.",
            )


def read_provenance(paper: str, profile: str, study: str, root: Path | None = None) -> dict[str, Any]:
    """Provenance of a study.

    Raises:
        UserError: missing or unreadable.
    """
    path = folder(paper, profile, root) / f"{study}.json"
    command = f"iclbook train {paper} --only {study} --profile {profile}"
    if not path.exists():
        raise UserError(f"no results at {path}", f"Make them with: {command}")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        about["files"].items(), about["config"], about["source"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged", f"Restore it from git, or: {command} --fresh") from error
    return about


def load(
    paper: str,
    profile: str,
    study: str,
    config: Any = None,
    source: str | None = None,
    root: Path | None = None,
    may_diverge: Iterable[str] | None = None,
) -> Results:
    """Read a study's results.

    Args:
        paper, profile, study: which results.
        config: the configuration that the caller stands for; results of another one are refused.
        source: digest of the code as it is now; results of other code are refused.
        root: the book's root folder, found when ``None``.
        may_diverge: groups whose numbers need not be finite; ``None`` for what the results say of themselves.

    Raises:
        UserError: a number that is not finite, a missing, truncated or damaged file, pickled content, another configuration, other source.
    """
    about = read_provenance(paper, profile, study, root)
    base = folder(paper, profile, root)
    command = f"iclbook train {paper} --only {study} --profile {profile}"
    if config is not None and about["config"] != config:
        raise UserError(
            f"the results of {study} were made from another configuration", f"Train again: {command} --fresh"
        )
    if source is not None and about["source"] != source:
        raise UserError(
            f"the results of {study} were made from other training code",
            f"Replay their first steps and stamp them anew with: {command} --verify; or train again with --fresh.",
        )
    arrays = _arrays(base / study, about["files"], f"{command} --fresh")
    if may_diverge is not None or "may_diverge" in about:
        check_finite(f"{paper}/{study}", arrays, {*(may_diverge or ()), *about.get("may_diverge", ())})
    return Results(arrays, about)


def _arrays(base: Path, sums: Mapping[str, str], command: str) -> dict[str, np.ndarray]:
    """The arrays of every group, ``"group/name" -> array``, after comparing the files with their checksums."""
    arrays = {}
    for group, checksum in sums.items():
        path = base / _name(group, checksum)
        if not path.exists():
            raise UserError(f"the result file {path} is missing", f"Restore it from git, or: {command}")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != checksum:
            raise UserError(
                f"the result file {path} is truncated or damaged", f"Restore it from git, or: {command}"
            )
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as data:
                arrays.update({f"{group}/{name}": data[name] for name in data.files})
        except Exception as error:
            raise UserError(
                f"the result file {path} holds pickled or unreadable arrays", f"Make it anew: {command}"
            ) from error
    return arrays


def restamp(
    paper: str, profile: str, study: str, source: str, root: Path | None = None, **verified: Any
) -> None:
    """Mark a study's results as those of the code with this digest, after its replay has passed; ``verified`` says what was derived again."""
    about = read_provenance(paper, profile, study, root) | {"source": source}
    if verified:
        about["verified"] = verified
    write_whole(folder(paper, profile, root) / f"{study}.json", _text(about))
