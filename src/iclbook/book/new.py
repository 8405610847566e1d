"""A new paper: a package with task, model, study, figure and slider, a ledger, a chapter, tests and a place in the book, all small and all working."""

import json
import re
import shutil
import subprocess
from pathlib import Path

from ..claims import ledger_of
from ..errors import UserError
from ..files import write_whole
from ..project import PAPERS, PROFILES

#: Skeletons beside this file -> where they go below the book's root.
FILES = {
    "claims.yaml.txt": f"{PAPERS}/@KEY@/claims.yaml",
    "__init__.py.txt": f"{PAPERS}/@KEY@/__init__.py",
    "model.py.txt": f"{PAPERS}/@KEY@/model.py",
    "runs.py.txt": f"{PAPERS}/@KEY@/runs.py",
    "figure_1.py.txt": f"{PAPERS}/@KEY@/figure_1.py",
    "notebook.py.txt": "notebooks/@CHAPTER@.py",
    "test.py.txt": "tests/@KEY@/test_@KEY@.py",
}
#: Lists of chapters, with the rest of each line that names one, and the line of a new one.
LISTS = {
    "_toc.yml": (r"\s*- file: notebooks/{}$", "      - file: notebooks/@CHAPTER@\n"),
    "README.md": (r"\| `{}` \|", "| `@CHAPTER@` | @WHO@, @TITLE@ |\n"),
    "notebooks/START.md": (r"\| \[{}\]", "| [@CHAPTER@](@CHAPTER@.py) | @WHO@, @TITLE@ |\n"),
    "book/intro.md": (
        r"\| \[.*\]\(../notebooks/{}\.py\)",
        "| [@TITLE@](../notebooks/@CHAPTER@.py) | {cite:t}`@KEY@` | What does it ask? |\n",
    ),
}


def chapter_of(title: str, most: int = 40) -> str:
    """A chapter's name from its title: as many whole words as fit."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    while len(words) > 1 and len("_".join(words)) > most:
        words.pop()
    return "_".join(words)


def new_paper(
    key: str, title: str, chapter: str, root: Path, authors: str = "", year: str = "", url: str = ""
) -> list[Path]:
    """Write the skeleton of a paper and enter it in the lists of chapters and the bibliography; returns the files that were written or changed.

    The chapter's name is made from its title if it is empty. A key or name that cannot be one, and a file that is there already with another text, are a
    UserError.
    """
    chapter = chapter or chapter_of(title)
    for what, name in (("key", key), ("chapter's name", chapter)):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise UserError(
                f"{name!r} cannot be a {what}", "Use small letters, digits and underscores, a letter first."
            )
    if not title.strip() or "\n" in title or '"""' in title:
        raise UserError(f"{title!r} cannot be a title", "Give one line of text.")
    marks = {"KEY": key, "CHAPTER": chapter, "TITLE_YAML": json.dumps(title), "TITLE": title}
    names = ["et al." if one == "others" else one.partition(",")[0] for one in authors.split(" and ")]
    marks["WHO"] = (", ".join(names).replace(", et al.", " et al.") or key) + (f" ({year})" if year else "")

    def filled(text: str) -> str:
        for mark, value in marks.items():
            text = text.replace(f"@{mark}@", value)
        return text

    written = {}
    for name, target in FILES.items():
        path = root / filled(target)
        written[path] = filled((Path(__file__).parent / "skeleton" / name).read_text(encoding="utf-8"))
        if path.exists() and path.read_bytes() != written[path].encode():  # a stopped command may be repeated
            raise UserError(f"{path.relative_to(root)} is there already", "Choose another key or --chapter.")
    for name, (pattern, line) in LISTS.items():
        if (path := root / name).is_file():
            written[path] = _after_last(path, pattern.format(r"\w+"), filled(line))
    bibliography = root / "book" / "references.bib"
    fields = {"author": authors, "title": title, "year": year, "url": url}
    body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
    entry, known = f"\n\n@misc{{{key},\n{body}\n}}\n", bibliography.read_text(encoding="utf-8")
    written[bibliography] = known if f"{{{key}," in known else known.rstrip("\n") + entry
    for path, text in written.items():
        write_whole(path, text)
    return list(written)


def remove_paper(key: str, root: Path) -> list[Path]:
    """Undo :func:`new_paper`: delete what belongs to a paper, and take it out of the lists; returns what was deleted. One that git keeps is a UserError."""
    ledger = ledger_of(key, root)
    key, name, package = ledger.paper, ledger.chapter_name, ledger.path.parent
    kept = subprocess.run(["git", "ls-files", package], cwd=root, capture_output=True, text=True, check=False).stdout
    if kept.strip():
        raise UserError(f"{key} is committed", "Take it out with git rm.")
    places = [package, root / "tests" / key, root / "results" / key, root / "notebooks" / f"{name}.py"]
    places += [root / "references" / profile / f"{name}.json" for profile in PROFILES]
    places += [root / "executed" / profile / f"{name}.ipynb" for profile in PROFILES]
    for place in (gone := [place for place in places if place.exists()]):
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    for page, (pattern, _) in LISTS.items():
        if (path := root / page).is_file():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            write_whole(path, "".join(line for line in lines if not re.match(pattern.format(name), line)))
    bibliography = root / "book" / "references.bib"
    text = bibliography.read_text(encoding="utf-8")
    write_whole(bibliography, re.sub(rf"\n*@\w+{{{key},.*?\n}}\n", "\n", text, flags=re.DOTALL))
    return gone


def _after_last(path: Path, pattern: str, line: str) -> str:
    """The text of a file with a line put in after the last that begins as a pattern says."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if line.strip() in map(str.strip, lines):
        return "".join(lines)  # entered by hand
    last = max((i for i, text in enumerate(lines) if re.match(pattern, text)), default=None)
    if last is None:
        raise UserError(f"{path} has no list of chapters", f"Enter {line.strip()!r} by hand, then run this again.")
    return "".join([*lines[: last + 1], line, *lines[last + 1 :]])
