"""Where the numbers of a figure come from: the stored trainings and computations that it draws, as its ``style.show(of=...)`` names them."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol


class Stored(Protocol):
    """What can be named as an origin: anything with the provenance that :mod:`iclbook.store` keeps, such as ``store.Results``."""

    provenance: Mapping[str, Any]


def summary(of: Iterable[Stored]) -> dict[str, Any] | None:
    """What a page says below a figure drawn from stored results: papers, studies, seeds, dates and versions; ``None`` of no results.

    A study that is named twice, or of which a copy is named, stands once.
    """
    studies = {_key(each.provenance): each.provenance for each in of}
    if not studies:
        return None
    return {
        "studies": [_study(*key, studies[key]) for key in sorted(studies)],
        "versions": {
            "Python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "matplotlib")},
        },
    }


def _key(about: Mapping[str, Any]) -> tuple[str, str]:
    return about["config"]["paper"], about["config"]["name"]


def _study(paper: str, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """What a page says of a stored training or computation."""
    config = about["config"]
    runs = _runs(config)
    kept = ("seconds", "device", "python", "torch", "numpy", "commit", "source")
    return {
        "paper": paper,
        "study": name,
        "runs": len(runs),
        "seeds": ranges({seed for seed in runs if seed is not None}),
        "steps": config.get("steps"),
        "date": _date(about.get("commit", "")),
        **{key: about[key] for key in kept if key in about},
    }


def _runs(config: Mapping[str, Any]) -> list[int | None]:
    """The seed of every run of a training, or of every member of every group of a computation."""
    groups = config.get("groups", [])
    if "count" in config:
        return [config["first"] + k for _ in groups for k in range(config["count"])]
    return [run.get("seed") for group in groups for run in group.get("runs", [])]


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers in few words: ``0-4, 7``."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)


@cache
def _date(commit: str) -> str:
    """The day of a commit; the empty string where its history is not at hand."""
    if not commit.isalnum():
        return ""
    try:
        return subprocess.run(
            ["git", "show", "-s", "--format=%cs", commit],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
