"""The status page: when and where each chapter ran, whether it says what its reference says, and how old the stored results are."""

import json
from datetime import datetime
from pathlib import Path

from ..check import check_executed
from ..claims import Ledger, all_ledgers, render
from ..errors import UserError
from ..inputs import METADATA_KEY, PROSE_ONLY, chapters, executed_path, is_stale
from ..numbers import duration
from ..store import folder, read_provenance


def markdown(profile: str, root: Path) -> str:
    """The page's body in MyST Markdown; nothing on it is typed."""
    ledgers = {ledger.chapter_name: ledger for ledger in all_ledgers(root)}
    runs = ["| Chapter | Ran | Took | Machine | Versions | Against its reference |", "|---|---|---|---|---|---|"]
    stored = ["| Chapter | Studies | Took | Made with |", "|---|---|---|---|"]
    for name in chapters(root):
        title = render.plain_markdown(ledgers[name].title if name in ledgers else name)
        link = f"[{title}](../notebooks/{name}.py)"
        runs.append(f"| {link} | {_cells(_run(name, profile, root))} |")
        if name in ledgers:
            stored.append(f"| {link} | {_cells(_results(ledgers[name], root))} |")
    parts = [f"The pages show the chapters at profile `{profile}`.", "", "## Chapters", "", *runs, ""]
    return "\n".join([*parts, "## Stored results", "", *stored])


def _cells(texts: list[str]) -> str:
    """Cells of a row as Markdown shows them: what stored results and executed copies say is a stranger's text."""
    return " | ".join(render.plain_markdown(text) for text in texts)


def _run(name: str, profile: str, root: Path) -> list[str]:
    """When a chapter ran, how long it took, where, with what, and what the check says of it."""
    path = executed_path(name, profile, root)
    if not path.is_file():
        return ["not yet", "", "", "", ""]
    about = json.loads(path.read_text(encoding="utf-8"))["metadata"]
    timing, made = about["papermill"], about[METADATA_KEY]
    when = datetime.fromisoformat(timing["end_time"]).strftime("%Y-%m-%d %H:%M %Z")
    where = f"{made['machine']} (device {made['device']})"
    versions = ", ".join(f"{what} {version}" for what, version in made["versions"].items())
    return [when, duration(timing["duration"]), where, versions, _checked(name, profile, root)]


def _checked(name: str, profile: str, root: Path) -> str:
    stale = is_stale(name, profile, root)
    if stale not in ("", PROSE_ONLY):
        return f"stale ({stale})"
    found = check_executed(name, profile, root, figures=False)
    if found.error:
        return f"not compared: {found.error}"
    if found.ok:
        return f"all {found.compared} values agree"
    names = ", ".join(difference.name for difference in found.differences[:3])
    more = "" if len(found.differences) <= 3 else f" and {len(found.differences) - 3} more"
    return f"{len(found.differences)} of {found.compared} values differ: {names}{more}"


def _results(ledger: Ledger, root: Path) -> list[str]:
    """Line about a paper's stored studies: number, time and versions."""
    seconds, made = [], set()
    for path in sorted(folder(ledger.paper, "paper", root).glob("*.json")):
        try:
            about = read_provenance(ledger.paper, "paper", path.stem, root)
            seconds.append(float(about["seconds"]))
            made.add(f"torch {about['torch']} on {about['device']}")
        except (UserError, LookupError, TypeError, ValueError):
            return [f"{path.name} is damaged", "", ""]
    if not seconds:
        return ["none: the chapter computes all it shows", "", ""]
    return [str(len(seconds)), duration(sum(seconds)), ", ".join(sorted(made))]
