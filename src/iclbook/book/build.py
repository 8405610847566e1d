"""Build the HTML book: run what is missing or stale, then Jupyter Book with warnings as errors. Where only text cells of a chapter have changed, its executed copy
takes them over, and nothing is computed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

from ..claims import render
from ..claims.scoreboard import boards
from ..errors import UserError, say
from ..files import file_lock, writing
from ..inputs import METADATA_KEY, PROSE_ONLY, chapters, executed_path, input_digests, is_stale, read_source, write_copy
from ..native import webassembly
from ..numbers import number
from ..project import check_profile, find_root
from . import pages

#: Bytes below which a disk counts as full when Jupyter Book fails: a page of a chapter takes as much.
LEAST = 2**21


def build(profile: str = "paper", device: str = "auto", root: Path | None = None, jobs: int | None = None) -> None:
    """Bring the book up to date and say where it is. A chapter that did not run to its end, a warning of Jupyter Book, and a page that leads nowhere or loads
    from outside are a UserError.
    """
    root = (root or find_root()).resolve()
    check_profile(profile)
    if not webassembly.is_current():
        what = f"{webassembly.script()} was compiled from other C sources than those of {webassembly.HERE}"
        raise UserError(what, "Compile it anew: `make page-kernels`.")
    if stale := _to_run(profile, root):
        _run(stale, profile, device, root, jobs)
    with file_lock(root / ".cache" / "pages.lock", "another build of the pages", wait=True):
        if pages.is_sealed(root, profile):
            say("the pages are up to date")
        else:
            say("building the pages")
            _make_pages(root, profile)
            pages.seal(root, profile)
    say(f"\nThe book is at {os.path.relpath(root / pages.HTML / 'index.html')}")
    say(render.counts_line(row for board in boards(profile, root) for row in board.rows))


def _to_run(profile: str, root: Path) -> list[str]:
    """The chapters that must run; where only prose has changed, the executed copy takes it over instead."""
    stale = []
    for name in chapters(root):
        why = is_stale(name, profile, root)
        if not why:
            say(f"notebooks/{name}.py is up to date")
        elif why == PROSE_ONLY and renew_prose(name, profile, root):
            say(f"notebooks/{name}.py has new prose; its code ran as it stands")
        else:
            say(f"running notebooks/{name}.py at profile {profile}: {why}")
            stale.append(name)
    return stale


def _run(names: list[str], profile: str, device: str, root: Path, jobs: int | None) -> None:
    """Run these chapters and say how each ended; the first failure is raised once all have ended."""
    from ..execution import run_notebooks

    failures = []
    for place, (name, result, seconds) in enumerate(run_notebooks(names, profile, device, root, jobs), start=1):
        how = f"ran in {number(seconds, form='.0f')} s"
        if isinstance(result, UserError):
            failures.append(result)
            how = "failed"
        say(f"[{place}/{len(names)}] {name} {how}")
    for failure in failures[1:]:
        say(f"error: {failure}")
    if failures:
        raise failures[0]


def _make_pages(root: Path, profile: str) -> None:
    """Make all pages in an empty folder, and put them in the place of the old ones when they are sound: no page stays that nothing makes any more."""
    html, old, new = root / pages.HTML, root / "_build" / ".old", root / "_build" / ".new"
    made = new / pages.HTML
    for folder in (old, new):
        shutil.rmtree(folder, ignore_errors=True)
    _jupyter_book(root, profile, new)
    if found := pages.problems(made):
        hint = f"Mend the source of that page; pages load nothing from outside and lead nowhere in vain. They are in {made}."
        for problem in found:
            say(f"error: {problem}")
        raise UserError(f"the book was not built: its pages have {len(found)} such errors (see above)", hint)
    with writing(html):
        if html.exists():
            html.rename(old)
        made.rename(html)
    for folder in (old, new):
        shutil.rmtree(folder, ignore_errors=True)


def _jupyter_book(root: Path, profile: str, output: Path) -> None:
    """Run Jupyter Book in its own process (it changes global state), which dies with this one, and let its progress through."""
    start = (
        f"from iclbook.workers import die_with; die_with({os.getpid()}); from jupyter_book.cli.main import main; "
        "from iclbook.machines import collect_rarely; collect_rarely(); main()"
    )
    # -P: the child's working directory must not shadow a package.
    command = [sys.executable, "-P", "-c", start, "build", str(root), "--path-output", str(output)]
    command += ["--all", "-W", "-n", "--keep-going"]
    env = os.environ | {
        "ICLBOOK_BOOK_PROFILE": profile,
        "ICLBOOK_ROOT": str(root),
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": f"{getattr(sys.stdout, 'encoding', None) or 'utf-8'}:backslashreplace",
    }
    if subprocess.run(command, env=env, cwd=root, check=False).returncode:
        if (left := shutil.disk_usage(root).free) < LEAST:
            what = f"the book was not built: {left / 1e6:.0f} MB are left on the disk of {root}"
            raise UserError(what, "Free space there.")
        raise UserError(
            "the book was not built: Jupyter Book warned (see above)", "Mend what it names; warnings are errors."
        )


# -- new words for a chapter that ran --------------------------------------------------------------------------------


def renew_prose(name: str, profile: str, root: Path) -> bool:
    """Put today's text cells into the executed copy of a chapter, around the code cells and outputs that are there.

    Returns:
        False, with nothing changed, where the code cells are not those that ran; the chapter must run then.
    """
    path, inputs = executed_path(name, profile, root), input_digests(name, profile, root)
    copy, source = nbformat.read(path, as_version=4), read_source(name, root)
    injected = [cell for cell in copy.cells if "injected-parameters" in cell.metadata.get("tags", [])]
    ran = [cell for cell in copy.cells if cell.cell_type != "markdown" and cell not in injected]
    if [cell.source for cell in ran] != [cell.source for cell in source.cells if cell.cell_type != "markdown"]:
        return False
    copy.cells, done = [], iter(ran)
    for cell in source.cells:
        copy.cells.append(cell if cell.cell_type == "markdown" else next(done))
        if "parameters" in cell.metadata.get("tags", []):
            copy.cells += injected
    copy.metadata[METADATA_KEY]["inputs"] = inputs
    write_copy(path, copy)
    return True
