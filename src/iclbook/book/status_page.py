"""The status page: when and where each chapter ran, whether it says what its reference says, and how old the stored results are."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from pathlib import Path

from ..check import check_executed
from ..claims import Ledger, all_ledgers
from ..errors import UserError
from ..numbers import number
from .inputs import METADATA_KEY, PROSE_ONLY, chapters, executed_path, is_stale

UNKNOWN = "not noted"


def markdown(profile: str, root: Path) -> str:
    """The page's body in MyST Markdown; nothing on it is typed."""
    ledgers = {ledger.chapter_name: ledger for ledger in all_ledgers(root)}
    runs = [
        "| Chapter | Ran | Took | Machine | Versions | Against its reference |",
        "|---|---|---|---|---|---|",
    ]
    stored = ["| Chapter | Studies | Training | Made with | Committed |", "|---|---|---|---|---|"]
    for name in chapters(root):
        title = ledgers[name].title if name in ledgers else name
        link = f"[{title}](../notebooks/{name}.py)"
        runs.append(f"| {link} | {' | '.join(_run(name, profile, root))} |")
        if name in ledgers:
            stored.append(f"| {link} | {' | '.join(_results(ledgers[name], root))} |")
    parts = [f"The pages show the chapters at profile `{profile}`.", "", "## Chapters", "", *runs, ""]
    return "\n".join([*parts, "## Stored trainings", "", *stored])


def _run(name: str, profile: str, root: Path) -> list[str]:
    """When a chapter ran, how long it took, where, with what, and what the check says of it."""
    path = executed_path(name, profile, root)
    if not path.is_file():
        return ["not yet", "", "", "", ""]
    about = json.loads(path.read_text(encoding="utf-8"))["metadata"]
    timing, made = about.get("papermill", {}), about.get(METADATA_KEY, {})
    ended = timing.get("end_time")
    when = datetime.fromisoformat(ended).strftime("%Y-%m-%d %H:%M %Z") if ended else UNKNOWN
    device = made.get("device", "")
    where = made.get("machine", UNKNOWN) + (f" (device {device})" if device else "")
    versions = ", ".join(f"{what} {number}" for what, number in made.get("versions", {}).items())
    return [when, duration(timing.get("duration")), where, versions or UNKNOWN, _checked(name, profile, root)]


def _checked(name: str, profile: str, root: Path) -> str:
    stale = is_stale(name, profile, root)
    if stale not in ("", PROSE_ONLY):
        return f"stale ({stale})"
    try:
        found = check_executed(name, profile, root)
    except UserError as problem:
        return f"not compared: {problem}"
    if found.error:
        return f"not compared: {found.error}"
    if found.ok:
        return f"all {found.compared} values agree"
    names = ", ".join(f"`{difference.name}`" for difference in found.differences[:3])
    more = "" if len(found.differences) <= 3 else f" and {len(found.differences) - 3} more"
    return f"{len(found.differences)} of {found.compared} values differ: {names}{more}"


def _results(ledger: Ledger, root: Path) -> list[str]:
    """How many studies of a paper are stored, how long their training took, with what, and since when they are committed."""
    folder = root / "results" / ledger.paper / "paper"
    about = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    if not about:
        return ["none: the chapter computes all it shows", "", "", ""]
    made = sorted({f"torch {one.get('torch', '?')} on {one.get('device', '?')}" for one in about})
    seconds = sum(one.get("seconds", 0) for one in about)
    return [str(len(about)), duration(seconds), ", ".join(made), _committed(folder, root)]


def _committed(folder: Path, root: Path) -> str:
    """The day of the last commit that changed a folder."""
    command = ["git", "log", "-1", "--format=%cs", "--", str(folder.relative_to(root))]
    try:
        said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        said = ""
    return said or UNKNOWN


def duration(seconds: float | None) -> str:
    """Seconds as a person says them: 45 s, 3 min, 5.2 h."""
    if seconds is None:
        return UNKNOWN
    if seconds < 120:
        return f"{number(round(seconds))} s"
    return (
        f"{number(round(seconds / 60))} min" if seconds < 7200 else f"{number(seconds / 3600, form='.1f')} h"
    )
