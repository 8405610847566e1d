"""Index from a paper's items to the book: file, function, study, claim and chapter of a figure, theorem or equation.

Nothing is kept by hand: claims name their items in the ledger's ``where``, modules and functions in their docstrings, and a chapter's cells name claims,
functions and studies.
"""

import ast
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from .claims import Ledger, all_ledgers
from .claims.ledger import nearest
from .errors import UserError
from .formulas import plain
from .project import PAPERS

_KINDS = (
    "figure|theorem|equation|table|section|lemma|appendix|conjecture|proposition|definition|corollary|finding|algorithm"
)
_NUMBER = r"(?:[A-Z]\.)?\d+(?:\.\d+)*|[A-Z](?:\.\d+)+"
_ITEMS = re.compile(
    rf"\b({_KINDS}|appendice|finding)(?:s|es)?\b\s+((?:{_NUMBER})(?:(?:,? and |, | to |-|–)(?:{_NUMBER}))*)",
    re.IGNORECASE,
)


class Definition(NamedTuple):
    """A module (``name`` is empty) or one of its functions and classes, with its docstring."""

    path: Path
    line: int
    name: str
    doc: str


class Cell(NamedTuple):
    """Code of a chapter up to the claims that it shows: its line, the heading above, all names in it, and names of the stored results that it uses."""

    line: int
    heading: str
    names: frozenset[str]
    stored: frozenset[str]


def items(text: str) -> set[str]:
    """Items that a text names: ``Figures 1, 2.1-2.3`` gives ``figure 1``, ``figure 2.1``, ``figure 2.2`` and ``figure 2.3``."""
    found = set()
    for kind, numbers in _ITEMS.findall(text):
        kind = "appendix" if kind.lower() == "appendice" else kind.lower()
        first = ""
        for before, number in re.findall(rf"(\D*?)({_NUMBER})", numbers):
            head, _, last = number.rpartition(".")
            from_head, _, from_last = first.rpartition(".")
            if before.strip() in ("to", "-", "–") and head == from_head and last.isdigit() and from_last.isdigit():
                found |= {f"{kind} {head}{'.' if head else ''}{k}".lower() for k in range(int(from_last), int(last))}
            found.add(f"{kind} {number}".lower())
            first = number
    return found


@lru_cache
def definitions(folder: Path) -> tuple[Definition, ...]:
    """Modules below a folder with their public functions and classes."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found.append(Definition(path, 1, "", ast.get_docstring(tree) or ""))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found.append(Definition(path, node.lineno, node.name, ast.get_docstring(node) or ""))
    return tuple(found)


def cells(chapter: Path) -> dict[str, Cell]:
    """Claim, without its paper's key -> the code that leads to its verdict, from the verdicts before it on."""
    heading, names, stored, begin, line, found = "", set(), set(), 0, 1, {}
    made_of: dict[str, set[str]] = {}  # variable -> results that it was made from
    for text in re.split(r"^(?=# %%)", chapter.read_text(encoding="utf-8"), flags=re.MULTILINE):
        if text.startswith("# %% [markdown]"):
            heading = (re.findall(r"^# #+ (.+)", text, re.MULTILINE) or [heading])[-1]
        elif text.startswith("# %%"):
            tree = ast.parse(text)
            begin = begin or line
            for statement in tree.body:
                used = _names(statement)
                results = _results(statement).union(*(made_of.get(name, ()) for name in used))
                names, stored = names | used, stored | results
                if isinstance(statement, ast.Assign):
                    made_of |= {name: results for target in statement.targets for name in _names(target)}
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            calls = [call for call in calls if getattr(call.func, "attr", "") in ("verdict", "verdicts")]
            for shown in (arg.value for call in calls for arg in call.args if isinstance(arg, ast.Constant)):
                found[shown.rpartition("/")[2]] = Cell(begin, heading, frozenset(names), frozenset(stored))
            if calls:
                names, stored, begin = set(), set(), 0
        line += text.count("\n")
    return found


def _names(tree: ast.AST) -> set[str]:
    """Names and attributes of a piece of code."""
    return {getattr(node, "attr", "") or getattr(node, "id", "") for node in ast.walk(tree)}


def _results(tree: ast.AST) -> set[str]:
    """Texts by which a piece of code takes results, as ``results("NAME", ...)`` or ``stored["NAME"]``, with ``*`` for what an f-string inserts."""
    taken = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("results", "get", "map"):
            taken += node.args
        elif isinstance(node, ast.Subscript):
            taken.append(node.slice)
    texts = set()
    for node in (node for arg in taken for node in ast.walk(arg)):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node] if isinstance(node, ast.Constant) else []
        texts.add("".join(str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "*" for part in parts))
    return texts


def where(query: str, root: Path) -> list[str]:
    """Lines that say where an item of a paper is in the book.

    Args:
        query: a figure, theorem, equation or the like, of one paper where its key or chapter stands beside it (``agarwal2025 Figure 6``); a claim's id, a study's
            name, or words, which are looked for in docstrings. Upper and lower case are alike.
    """
    ledgers = all_ledgers(root)
    words = query.lower().replace("/", " ").split()
    chosen = [ledger for ledger in ledgers if {ledger.paper, ledger.chapter_name} & {*words}] or ledgers
    asked = " ".join(
        word for word in words if word not in {name for x in ledgers for name in (x.paper, x.chapter_name)}
    )
    wanted = items(asked)
    lines = [line for ledger in chosen for line in _in_paper(ledger, asked, wanted, root)]
    if not lines and not wanted:
        known = definitions(root / PAPERS.parent)
        found = [d for d in known if all(word in f"{d.path} {d.name} {d.doc}".lower() for word in asked.split())]
        lines = [
            _line("function" if d.name else "file", d, root) for d in sorted(found, key=lambda d: d.name != "")[:12]
        ]
    if not lines or not asked:
        known = {f"{x.paper} {item}" for x in chosen for c in x.claims for item in items(c.where)}
        known |= {claim.id for ledger in chosen for claim in ledger.claims}
        hint = nearest(" ".join(words), known) or "Name it like this: iclbook where agarwal2025 Figure 6."
        raise UserError(f"nothing in the book is called {query!r}", hint)
    return lines


def studies_of(paper: str) -> Callable[[str], dict[str, Any]] | None:
    """The studies of a paper by profile; None where it has none, and for the ledger of another book."""
    package = f"iclbook.papers.{paper}"
    return getattr(import_module(package) if find_spec(package) else None, "studies", None)


def _in_paper(ledger: Ledger, asked: str, wanted: set[str], root: Path) -> Iterator[str]:
    """Lines about one paper; none where it has no such item, claim or study."""
    chapter = root / ledger.chapter
    studies = studies_of(ledger.paper)
    names = [*studies("paper")] if studies else []
    shown = cells(chapter)
    tails = {claim.id.partition("/")[2]: claim for claim in ledger.claims}
    claims = {tail: claim for tail, claim in tails.items() if items(claim.where) & wanted or asked == tail.lower()}
    claims |= {tail: tails[tail] for tail, cell in shown.items() if asked in names and _takes(cell, asked)}
    wanted = wanted | {item for tail, claim in claims.items() if asked == tail.lower() for item in items(claim.where)}
    own = definitions(root / PAPERS / ledger.paper)
    used = frozenset().union(*(shown[tail].names for tail in claims if tail in shown))
    here = [d for d in own if items(d.doc) & wanted or (d.name in used and d.path.stem in used)]
    files = {d.path for d in here}
    yield from (_line("file", d, root) for d in own if not d.name and d.path in files)
    yield from (_line("function", d, root) for d in here if d.name)
    stored = [n for n in names if n == asked or any(_takes(shown[tail], n) for tail in claims if tail in shown)]
    yield from (f"study     {name}: {studies.__module__}" for name in stored)
    yield from (f"claim     {claim.id}: {plain(claim.where)}" for claim in claims.values())
    places = dict.fromkeys(shown[tail] for tail in claims if tail in shown)
    yield from (f"chapter   {ledger.chapter}:{cell.line}: {cell.heading}" for cell in places)


def _takes(cell: Cell, study: str) -> bool:
    return any(fnmatchcase(study, pattern) for pattern in cell.stored)


def _line(kind: str, found: Definition, root: Path) -> str:
    about = plain(" ".join(found.doc.split("\n\n")[0].split()))
    place = f"{found.path.relative_to(root)}{f':{found.line} {found.name}' if found.name else ''}"
    return f"{kind:<10}{place}: {about if len(about) <= 90 else about[:87] + '...'}"
