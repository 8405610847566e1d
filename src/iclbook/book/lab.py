"""JupyterLab for readers of the chapters: injected numbers and citations are shown, code is folded, and no notebook changes by being opened.

``python -m iclbook.book.lab`` starts it. Its settings (chapters open as notebooks and the start page as it reads, widgets keep their state, no news is fetched)
and its small extension stand in ``book/lab`` and are copied to ``.cache/lab``, not to the user's home.
"""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ..claims import read_records
from ..files import write_whole, writing
from ..inputs import PROSE_ONLY, chapters, executed_path, is_stale
from ..machines import MEMORY
from ..project import ends_in_one_line, find_root
from .chapter_head import authors, entries, fields_of


def prepare(root: Path) -> Path:
    """Copy the settings and the extension, and write what that fills into the text; returns their folder."""
    folder = root / ".cache" / "lab"
    with writing(folder):
        shutil.copytree(root / "book" / "lab", folder, dirs_exist_ok=True)
    stored = {"values": {name: values(name, root) for name in chapters(root)}, "citations": citations(root)}
    write_whole(folder / "labextensions" / "iclbook" / "static" / "values.json", json.dumps(stored))
    return folder


def values(chapter: str, root: Path) -> dict[str, str]:
    """Recorded values of a chapter's last headless run as prose shows them, key -> text; of the paper profile, else of smoke.

    A copy that is stale is not shown: a reader who wants the numbers runs the notebook.
    """
    for profile in ("paper", "smoke"):
        if is_stale(chapter, profile, root) in ("", PROSE_ONLY):
            found = read_records(executed_path(chapter, profile, root))
            return {key: record.text for key, record in found.items()}
    return {}


def citations(root: Path) -> dict[str, dict[str, str]]:
    """Papers of the bibliography: key -> authors, year, title and address."""
    found = {}
    for key, entry in entries(root).items():
        fields = {name: text.replace("{", "").replace("}", "") for name, text in fields_of(entry).items()}
        found[key] = {"authors": authors(entry)} | {n: fields[n] for n in ("year", "title", "url") if n in fields}
    return found


def command(root: Path, folder: Path, more: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment that start JupyterLab in the book."""
    argv = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}"]
    argv += [f"--LabApp.app_settings_dir={folder / 'settings'}", "--LabApp.default_url=/lab/tree/notebooks/START.md"]
    if os.geteuid() == 0:  # in a container there is often no other user
        argv.append("--allow-root")
    paths = [str(folder), *filter(None, [os.environ.get("JUPYTER_PATH")])]
    return [*argv, *more], os.environ | MEMORY | {"JUPYTER_PATH": os.pathsep.join(paths)}


if __name__ == "__main__":
    with ends_in_one_line():
        book = find_root()
        argv, env = command(book, prepare(book), sys.argv[1:])
    os.chdir(book)
    os.execve(argv[0], argv, env)  # in place of this process
