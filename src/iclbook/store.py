"""Committed results: small arrays with their provenance, refused when damaged or made from other source.

``results/<paper>/<profile>/<study>/<group>.npz`` hold the arrays, ``results/<paper>/<profile>/<study>.json`` says where they come from and carries
the checksum of every file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .errors import UserError
from .profiles import check_profile
from .project import find_root


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


def provenance(config: str, source: str, seconds: float, device: str, **extra: Any) -> dict[str, Any]:
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


def _write(files: Mapping[Path, bytes]) -> None:
    """Write all of these files or none: the parts first, since a full disk shows there; then put them in place."""
    parts = {path: path.with_name(path.name + ".part") for path in files}
    path = next(iter(files))
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            parts[path].write_bytes(content)
        for path, part in parts.items():
            os.replace(part, path)
    except OSError as error:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()
        raise UserError(
            f"cannot write {path} ({error.strerror})", "Free space there or make the folder writable."
        ) from error


def save(
    paper: str,
    profile: str,
    study: str,
    arrays: Mapping[str, np.ndarray],
    about: dict,
    root: Path | None = None,
) -> Path:
    """Write a study's arrays (keys ``"group/name"``) and provenance; each file appears whole or not at all.

    Raises:
        UserError: the folder cannot be written.
    """
    base = folder(paper, profile, root)
    groups: dict[str, dict[str, np.ndarray]] = {}
    for key, array in arrays.items():
        group, name = key.split("/", 1)
        groups.setdefault(group, {})[name] = np.asarray(array)
    sums, files = {}, {}
    for group, members in groups.items():
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **members)
        files[base / study / f"{group}.npz"] = buffer.getvalue()
        sums[group] = hashlib.sha256(buffer.getvalue()).hexdigest()
    path = base / f"{study}.json"
    _write(files | {path: (json.dumps({**about, "files": sums}, indent=1) + "\n").encode()})
    return path


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
    config: str | None = None,
    source: str | None = None,
    root: Path | None = None,
) -> Results:
    """Read a study's results.

    Args:
        paper, profile, study: which results.
        config: the configuration that the caller stands for; results of another one are refused.
        source: digest of the code as it is now; results of other code are refused.
        root: the book's root folder, found when ``None``.

    Raises:
        UserError: missing, truncated or damaged file, pickled content, another configuration, other source.
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
    arrays = {}
    for group, checksum in about["files"].items():
        path = base / study / f"{group}.npz"
        if not path.exists():
            raise UserError(
                f"the result file {path} is missing", f"Restore it from git, or: {command} --fresh"
            )
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != checksum:
            raise UserError(
                f"the result file {path} is truncated or damaged",
                f"Restore it from git, or: {command} --fresh",
            )
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as data:
                arrays.update({f"{group}/{name}": data[name] for name in data.files})
        except Exception as error:
            raise UserError(
                f"the result file {path} holds pickled or unreadable arrays",
                f"Make it anew: {command} --fresh",
            ) from error
    return Results(arrays, about)


def restamp(paper: str, profile: str, study: str, source: str, root: Path | None = None) -> None:
    """Mark a study's results as made from the code with this digest, after its replay has passed."""
    about = read_provenance(paper, profile, study, root)
    about["source"] = source
    _write({folder(paper, profile, root) / f"{study}.json": (json.dumps(about, indent=1) + "\n").encode()})
