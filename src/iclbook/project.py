"""The book's checkout, the folder that holds ``_toc.yml``, and the two sizes at which every chapter runs."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import UserError, one_line

#: From small to large. ``smoke`` trains for real in seconds; ``paper`` is the paper's own size, steps and seeds.
PROFILES = ("smoke", "paper")


def check_profile(name: str) -> str:
    """Return ``name`` if it is a profile."""
    if name not in PROFILES:
        raise UserError(f"unknown profile {name!r}", f"Choose one of: {', '.join(PROFILES)}.")
    return name


def at_least(profile: str, needed: str) -> bool:
    """Whether ``profile`` is as large as ``needed``."""
    return PROFILES.index(check_profile(profile)) >= PROFILES.index(check_profile(needed))


def find_root() -> Path:
    """The book's root folder.

    Looked for in this order: the environment variable ``ICLBOOK_ROOT``; the working directory and its parents (JupyterLab
    starts a notebook in ``notebooks/``); the checkout that this package was installed from in editable mode.
    """
    if named := os.environ.get("ICLBOOK_ROOT"):
        if not Path(named, "_toc.yml").is_file():
            hint = "Point it at a checkout of the book, or unset it."
            raise UserError(f"ICLBOOK_ROOT={named} holds no _toc.yml", hint)
        return Path(named).resolve()
    hint = "Change into the checkout, or set ICLBOOK_ROOT to it."
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise UserError("the working directory was deleted", hint) from None
    for folder in (here, *here.parents, *Path(__file__).resolve().parents):
        if (folder / "_toc.yml").is_file() and (folder / "notebooks").is_dir():
            return folder
    raise UserError(f"{here} is not inside a checkout of the book", hint)


def mixed_checkouts() -> UserError | None:
    """What is wrong where the book's root has a library of its own and this process runs another one: numbers of the second would go under the sources of the first."""
    try:
        root, ours = find_root(), Path(__file__).resolve()
    except UserError:
        return None
    theirs = root / "src" / "iclbook" / ours.name
    if not theirs.is_file() or theirs.samefile(ours):
        return None
    hint = f"Set PYTHONPATH={root / 'src'} to take its own; or run `make setup` there, and use {root}/.venv."
    return UserError(f"the book is {root}, but the library that runs is {ours.parent}", hint)


@contextmanager
def ends_in_one_line() -> Iterator[None]:
    """For modules that are run as programs and write into the book: a :class:`UserError` ends the process with one line and exit code 2."""
    try:
        if mixed := mixed_checkouts():
            raise mixed
        yield
    except UserError as problem:
        print(f"error: {one_line(problem)}", file=sys.stderr)
        sys.exit(2)


def git(*arguments: str) -> str:
    """Output of git in the checkout of this library, also one of another owner, as containers mount them; empty where it fails."""
    checkout = str(Path(__file__).resolve().parents[2])
    call = ["git", "-c", f"safe.directory={checkout}", "-C", checkout, *arguments]
    try:
        return subprocess.run(call, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit() -> str:
    """The short name of the checkout's commit, with ``+`` where the library differs from it (``abc1234+``); ``unknown`` for files that no repository holds, or only
    another project's, which has them in a folder."""
    top, name, *_ = [*git("rev-parse", "--show-toplevel", "--short", "HEAD").split("\n"), "", ""]
    if not top or Path(top).resolve() != Path(__file__).resolve().parents[2]:
        return "unknown"
    return name + "+" * bool(git("status", "--porcelain", "--", "src"))


#: Below the book's root: one folder a paper.
PAPERS = Path("src") / "iclbook" / "papers"


def ledger_paths(root: Path) -> list[Path]:
    """Paths of the ledgers, ``src/iclbook/papers/<key>/claims.yaml``, sorted by the paper's key."""
    return sorted((root / PAPERS).glob("*/claims.yaml"))


def display_name(path: Path) -> str:
    """A file's name in a message; ledgers are all called alike, so theirs is said with the paper."""
    return f"{path.parent.name}/{path.name}" if path.name == "claims.yaml" else path.name


# -- names under which an executed copy carries what the pages need beside pictures and text ------------------------------

#: Type of the output that carries a figure's numbers, its origin and its picture for phones.
FIGURE = "application/vnd.iclbook.figure+json"
#: Types under which ipywidgets keeps what is shown, and the state of all widgets.
VIEW, STATE = "application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json"
#: In the metadata of the output that shows a panel of precomputed frames.
SLIDERS = "iclbook_slider"
#: In the metadata of the output that shows a model of the page, and how the markup of that begins.
MODEL = "iclbook_model"
MODEL_FIGURE = '<figure class="iclbook-model"'


def cell_outputs(notebook: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Outputs of a notebook's cells, in order."""
    return (output for cell in notebook["cells"] for output in cell.get("outputs", []))
