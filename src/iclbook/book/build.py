"""Build the HTML book: run what is missing or stale, then Jupyter Book with warnings as errors. Where only text cells of a chapter have changed, its executed copy
takes them over, and nothing is computed."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat

from ..errors import UserError
from ..files import write_whole
from ..inputs import METADATA_KEY, PROSE_ONLY, chapters, executed_path, input_digests, is_stale, write_copy
from ..numbers import number as number_of
from ..project import SLIDERS, check_profile, find_root, ledger_paths
from . import page_models, pages


def build(
    profile: str = "paper", device: str = "auto", root: Path | None = None, run: bool = True, jobs: int | None = None
) -> Path:
    """Bring the book up to date and say where it is.

    Args:
        profile: which executed copies the book shows.
        device: for the chapters that must be run.
        root: the book's folder; default: found from the working directory.
        run: run missing and stale chapters first; otherwise they make the build fail.
        jobs: chapters to run at once; default: one for each core.

    Returns:
        Path of the first page.

    Raises:
        NotebookError: a chapter did not run to its end.
        UserError: Jupyter Book reported an error or a warning.
    """
    root = (root or find_root()).resolve()
    check_profile(profile)
    names = chapters(root)
    if run:
        _run(_to_run(names, profile, root), profile, device, root, jobs)
    if pages.is_sealed(root, profile):
        say("the pages are up to date")
    else:
        say("building the pages")
        _jupyter_book(root, profile)
        _complete_first_page(root / pages.HTML)
        _require_sound_pages(root, names, profile)
        pages.seal(root, profile)
    page = root / pages.HTML / "index.html"
    say(f"\nThe book is at {_shown(page)}")
    _say_counts(root, profile)
    return page


def _to_run(names: list[str], profile: str, root: Path) -> list[str]:
    """The chapters that must run; where only prose has changed, the executed copy takes it over instead."""
    stale = []
    for name in names:
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
    if not names:
        return
    from ..execution import run_notebooks

    failures = []
    runs = run_notebooks(names, profile, device, root, jobs)
    for number, (name, result, seconds) in enumerate(runs, start=1):
        if isinstance(result, UserError):
            failures.append(result)
            say(f"[{number}/{len(names)}] {name} failed")
        else:
            say(f"[{number}/{len(names)}] {name} ran in {number_of(seconds, form='.0f')} s")
    if failures:
        for failure in failures[1:]:
            say(f"error: {failure}")
        raise failures[0]


def _require_sound_pages(root: Path, names: list[str], profile: str) -> None:
    """Refuse what Sphinx does not look at: addresses in raw HTML, and slider figures and models that got lost."""
    html = root / pages.HTML
    executed = {f"notebooks/{name}": executed_path(name, profile, root) for name in names}
    found = [*pages.problems(html), *pages.missing_sliders(html, executed, SLIDERS)]
    found += page_models.missing(html, executed)
    if found:
        for line in found[1:]:
            say(f"error: {line}")
        raise UserError(
            f"the book was not built: {found[0]}",
            "Mend the source of that page; pages load nothing from outside and lead nowhere in vain.",
        )


def _jupyter_book(root: Path, profile: str) -> None:
    """Run Jupyter Book in its own process (it changes global state) and let its progress through."""
    rarely = "from iclbook.machines import collect_rarely; collect_rarely()"
    command = _child(f"from jupyter_book.cli.main import main; {rarely}; main()")
    arguments = ["build", str(root), "-W", "-n", "--keep-going"]
    env = os.environ | {
        "ICLBOOK_BOOK_PROFILE": profile,
        "ICLBOOK_ROOT": str(root),
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": f"{getattr(sys.stdout, 'encoding', None) or 'utf-8'}:backslashreplace",
    }
    if subprocess.run([*command, *arguments], env=env, cwd=root, check=False).returncode:
        raise UserError(
            "the book was not built: Jupyter Book warned (see above)", "Mend what it names; warnings are errors."
        )


def _complete_first_page(html: Path) -> None:
    """Jupyter Book's first page is one line that leads on: give it a language, a title, a link to click and the icon, which browsers ask for."""
    page, icon = html / "index.html", "_static/favicon.svg"
    target = re.search(r'url=([^"]+)"', page.read_text(encoding="utf-8"))
    if target is None:  # a page of its own, not one that leads on
        return
    link = f'<link rel="icon" href="{icon}">' if (html / icon).is_file() else ""
    write_whole(page, _FIRST_PAGE.format(target=target[1], icon=link).encode())


#: The page that leads to the introduction.
_FIRST_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>To the book</title>{icon}
<meta http-equiv="Refresh" content="0; url={target}"></head>
<body><main><h1>The book</h1><p><a href="{target}">Begin reading</a></p></main></body></html>
"""


def _say_counts(root: Path, profile: str) -> None:
    """One line of verdict counts, from the ledgers and the executed copies."""
    from ..claims import scoreboard

    if ledger_paths(root):
        say(scoreboard.counts_line(profile, root))


def _shown(path: Path) -> Path:
    """A path relative to the working directory when it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def say(line: str) -> None:
    """Print now, even into a pipe: builds are long and are watched."""
    print(line, flush=True)


def _child(statement: str) -> list[str]:
    """Arguments for the Python interpreter that runs us: die with this process, and run ``statement``."""
    # -P: the child's working directory must not shadow a package.
    first = f"from iclbook.workers import die_with; die_with({os.getpid()}); "
    return [sys.executable, "-P", "-c", first + statement]


# -- new words for a chapter that ran --------------------------------------------------------------------------------

GLUE = re.compile(r"\{glue(?::\w+)?\}`([^`]+)`")


def renew_prose(name: str, profile: str, root: Path) -> bool:
    """Put today's text cells into the executed copy of a chapter, around the code cells and outputs that are there.

    Returns:
        False, with nothing changed, where the code cells are not those that ran; the chapter must run then.

    Raises:
        UserError: the new prose injects a value that no cell has recorded.
    """
    from ..execution import read_source

    path = executed_path(name, profile, root)
    inputs = input_digests(name, profile, root)
    copy, source = nbformat.read(path, as_version=4), read_source(name, root)
    ran = [cell for cell in copy.cells if cell.cell_type != "markdown" and not _is_injected(cell)]
    if [cell.source for cell in ran] != [cell.source for cell in source.cells if cell.cell_type != "markdown"]:
        return False
    _require_values(name, source, recorded_keys(copy))
    injected = [cell for cell in copy.cells if _is_injected(cell)]
    copy.cells = list(_woven(source, iter(ran), injected))
    copy.metadata[METADATA_KEY]["inputs"] = inputs
    write_copy(path, copy)
    return True


def recorded_keys(copy: nbformat.NotebookNode) -> list[str]:
    """The keys of an executed copy's records, which ``{glue:text}`` injects."""
    outputs = [output for cell in copy.cells for output in cell.get("outputs", [])]
    return [o.metadata["scrapbook"]["name"] for o in outputs if "scrapbook" in o.get("metadata", {})]


def _woven(source, ran, injected):
    """Text cells of the source and code cells that ran, in the source's order; what papermill put in stays behind the parameters."""
    for cell in source.cells:
        if cell.cell_type == "markdown":
            yield cell
            continue
        done = next(ran)
        yield done
        if "parameters" in done.metadata.get("tags", []):
            yield from injected


def _is_injected(cell: nbformat.NotebookNode) -> bool:
    return "injected-parameters" in cell.metadata.get("tags", [])


def _require_values(name: str, source: nbformat.NotebookNode, keys: list[str]) -> None:
    known = set(keys)
    for cell in source.cells:
        for key in GLUE.findall(cell.source) if cell.cell_type == "markdown" else ():
            if key not in known:
                near = difflib.get_close_matches(key, keys, 1)
                mend = f"Did you mean {near[0]!r}? " if near else ""
                raise UserError(
                    f"the prose of notebooks/{name}.py injects {key!r}, which no cell of it records",
                    f"{mend}Name a recorded value, or record it in a code cell.",
                )
