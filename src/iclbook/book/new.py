"""A new paper: a package, a ledger, a chapter, tests and a place in the book, all small and all working."""

import json
import re
from pathlib import Path

from ..errors import UserError
from ..files import write_whole
from ..project import PAPERS

#: Skeletons beside this file -> where they go below the book's root.
FILES = {
    "claims.yaml.txt": f"{PAPERS}/@KEY@/claims.yaml",
    "__init__.py.txt": f"{PAPERS}/@KEY@/__init__.py",
    "theory.py.txt": f"{PAPERS}/@KEY@/theory.py",
    "measures.py.txt": f"{PAPERS}/@KEY@/measures.py",
    "notebook.py.txt": "notebooks/@CHAPTER@.py",
    "test.py.txt": "tests/@KEY@/test_@KEY@.py",
}


def new_paper(key: str, title: str, chapter: str, root: Path) -> list[Path]:
    """Write the skeleton of a paper and enter it in the contents, the bibliography and the introduction; returns the files that were written or changed.

    The chapter's name is made from its title if it is empty. A key or name that cannot be one, and a file that is there already with another text, are a
    UserError.
    """
    chapter = chapter or re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")[:40].rstrip("_")
    for what, name in (("key", key), ("chapter's name", chapter)):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise UserError(
                f"{name!r} cannot be a {what}", "Use small letters, digits and underscores, a letter first."
            )
    if not title.strip() or "\n" in title or '"""' in title:
        raise UserError(f"{title!r} cannot be a title", "Give one line of text.")

    def filled(text: str) -> str:
        for mark, value in (("KEY", key), ("CHAPTER", chapter), ("TITLE_YAML", json.dumps(title)), ("TITLE", title)):
            text = text.replace(f"@{mark}@", value)
        return text

    written = {}
    for name, target in FILES.items():
        path = root / filled(target)
        written[path] = filled((Path(__file__).parent / "skeleton" / name).read_text(encoding="utf-8"))
        if path.exists() and path.read_bytes() != written[path].encode():  # a stopped command may be repeated
            raise UserError(f"{path.relative_to(root)} is there already", "Choose another key or --chapter.")
    toc, intro, bibliography = root / "_toc.yml", root / "book" / "intro.md", root / "book" / "references.bib"
    line = f"| [{title}](../notebooks/{chapter}.py) | {{cite:t}}`{key}` | What does it ask? |\n"
    entry = f"\n\n@misc{{{key},\n  title = {{{title}}}\n}}\n"
    written[toc] = _after_last(toc, "- file: notebooks/", f"      - file: notebooks/{chapter}\n")
    known = bibliography.read_text(encoding="utf-8")
    written[bibliography] = known if entry.strip() in known else known.rstrip("\n") + entry
    written[intro] = _after_last(intro, "](../notebooks/", line)
    for path, text in written.items():
        write_whole(path, text)
    return list(written)


def _after_last(path: Path, mark: str, line: str) -> str:
    """The text of a file with a line put in after the last that holds ``mark``."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if line.strip() in map(str.strip, lines):
        return "".join(lines)  # entered by hand
    last = max((i for i, text in enumerate(lines) if mark in text), default=None)
    if last is None:
        raise UserError(f"{path} has no line with {mark!r}", f"Enter {line.strip()!r} by hand, then run this again.")
    return "".join([*lines[: last + 1], line, *lines[last + 1 :]])
