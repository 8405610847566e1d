"""The plan of the house: who may import whom. One room a paper; nothing climbs."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import iclbook
from iclbook.claims import all_ledgers
from iclbook.project import ledger_paths

LIBRARY = Path(iclbook.__file__).parent
ROOT = LIBRARY.parents[1]
#: A room imports from its own floor and from those above it in this list.
FLOORS = (
    {
        "draw",
        "definitions",
        "errors",
        "files",
        "formulas",
        "machines",
        "native",
        "numbers",
        "project",
        "random",
        "sources",
        "statistics",
        "theory",
        "threefry",
    },
    {"claims", "models", "store", "tasks"},
    {"drawing", "measuring", "sliders", "training", "workers"},
    {"papers"},
    {"inputs", "replication"},
    {"execution"},
    {"book", "check", "options", "cli", "where"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


@cache
def imported(path: Path, library: Path = LIBRARY) -> list[tuple[str, ...]]:
    """What a module imports from this package, as parts below it."""
    here = path.relative_to(library).with_suffix("").parts
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            parts = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                found += [(*here[: len(here) - node.level], *parts, alias.name) for alias in node.names]
            elif parts[:1] == ("iclbook",):
                found += [(*parts[1:], alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [tuple(a.name.split(".")[1:]) for a in node.names if a.name.startswith("iclbook.")]
    return found


def climbing(library: Path = LIBRARY) -> list[str]:
    """Imports from a later floor."""
    return [
        f"{path.relative_to(library)} imports {'.'.join(other)}"
        for path in sorted(library.rglob("*.py"))
        for other in imported(path, library)
        if other and FLOOR.get(other[0], -1) > FLOOR.get(path.relative_to(library).with_suffix("").parts[0], 99)
    ]


def circles(library: Path = LIBRARY) -> list[str]:
    """Import cycles between modules, imports for types and within functions included."""
    paths = {path.relative_to(library).with_suffix("").parts: path for path in library.rglob("*.py")}
    modules = {parts[:-1] if parts[-1] == "__init__" else parts: path for parts, path in paths.items()}
    graph = {}
    for module, path in modules.items():
        starts = [
            [other[:n] for n in range(len(other), -1, -1) if other[:n] in modules] for other in imported(path, library)
        ]
        graph[module] = {found[0] for found in starts if found} - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as problem:
        return [" -> ".join(".".join(module) for module in problem.args[1])]
    return []


def crossing(library: Path = LIBRARY) -> list[str]:
    """Imports of one paper's room from another's; the crossing is about all of them, and may."""
    return [
        f"{path.relative_to(library)} imports {'.'.join(other)}"
        for path in sorted((library / "papers").rglob("*.py"))
        for other in imported(path, library)
        if other[:1] == ("papers",)
        and len(other) > 1
        and other[1] != path.relative_to(library).parts[1]
        and path.relative_to(library).parts[1] != "crossing"
    ]


def test_every_room_has_a_floor():
    rooms = {path.relative_to(LIBRARY).with_suffix("").parts[0] for path in LIBRARY.rglob("*.py")}
    assert rooms - {"__init__"} == set(FLOOR)


def test_no_import_climbs():
    assert not climbing()


def test_no_modules_import_each_other():
    assert not circles()


def test_no_paper_imports_another():
    assert not crossing()


def test_every_paper_has_a_ledger_and_every_ledger_a_chapter():
    rooms = {path.name for path in (LIBRARY / "papers").iterdir() if (path / "__init__.py").is_file()}
    assert {path.parent.name for path in ledger_paths(ROOT)} == rooms
    assert all((ROOT / ledger.chapter).is_file() for ledger in all_ledgers(ROOT))


@pytest.mark.parametrize(
    ("where", "text", "finder"),
    [
        ("training/x.py", "from ..papers.a import runs", climbing),
        ("claims/x.py", "def f():\n    from iclbook.book import build", climbing),
        ("errors.py", "import iclbook.cli", climbing),
        ("papers/a/x.py", "from ..b.theory import loss", crossing),
        ("papers/a/measures/x.py", "from iclbook.papers import b", crossing),
    ],
)
def test_each_kind_of_wrong_import_is_found(tmp_path, where, text, finder):
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "papers").mkdir(exist_ok=True)
    path.write_text(text)
    assert len(finder(tmp_path)) == 1


@pytest.mark.parametrize(
    "text", ["from .a import x", "if TYPE_CHECKING:\n    from . import a", "def f():\n    from .c import x"]
)
def test_each_kind_of_import_cycle_is_found(tmp_path, text):
    for name, content in {"a": "from .b import x", "b": text, "c": "from .a import x"}.items():
        (tmp_path / f"{name}.py").write_text(content)
    assert len(circles(tmp_path)) == 1


# -- tests without clocks -------------------------------------------------------------------------------------------------

#: Functions that read a clock or end a wait by it, as calls are written.
CLOCK = re.compile(
    r"(time\.)?(time|monotonic|perf_counter|process_time|thread_time)(_ns)?|.*\.(getrusage|getloadavg|mark\.timeout)"
)
#: The same in a script of a page; a delay of 0 only lets others go first.
IN_A_PAGE = re.compile(r"performance\.now|Date\.now|startTime|setTimeout\(.*, *[1-9]")


def clocks(text: str) -> list[str]:
    """What in a module of tests depends on a clock: a look at one, a sleep that asks for no condition, a limit of its own. Tests marked full may."""
    found = []

    def look(node: ast.AST, asks: bool = False) -> None:
        marks = getattr(node, "decorator_list", [])
        if isinstance(node, ast.Module):
            marks = [n for n in node.body if ast.unparse(n).startswith("pytestmark")]
        if any(re.search(r"(?<!marks=)pytest\.mark\.full", ast.unparse(mark)) for mark in marks):
            return
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            limits = [k for k in node.keywords if k.arg in ("timeout", "deadline") and ast.unparse(k.value) != "None"]
            if CLOCK.fullmatch(name) or limits or (name.endswith("sleep") and not asks):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and IN_A_PAGE.search(node.value):
            found.append(node.value)
        for child in ast.iter_child_nodes(node):
            look(child, asks or isinstance(node, ast.While))

    look(ast.parse(text))
    return found


#: The one limit of all waits; the tool that plants faults, which is no test.
MAY = {"waiting.py", "mutants.py"}


def test_no_test_depends_on_a_clock():
    """Another machine, or a busy one, is slower: what a test measures is counted (calls, bytes, pictures), and what it waits for is a condition."""
    tests = {path for path in (ROOT / "tests").rglob("*.py") if path.name not in MAY and "fixtures" not in path.parts}
    assert {path.name: found for path in tests - {Path(__file__)} if (found := clocks(path.read_text()))} == {}


#: Lines with a clock, and lines without.
PLANTED = """end = monotonic() + 5
assert time.perf_counter() < 1
time.sleep(1)
process.wait(timeout=60)
run('const t = performance.now()')
run('setTimeout(done, 50)')""".splitlines()
ALLOWED = """run(cell, timeout=None)
run('setTimeout(() => go(), 0)')
pytestmark = [pytest.mark.slow, pytest.mark.full]; time.sleep(1)
while not there(): time.sleep(1)""".splitlines()
MARKED = "@pytest.mark.{}\ndef test_a():\n    time.sleep(1)"


def test_clocks_are_found():
    marks = ("slow", "parametrize('a', [pytest.param(1, marks=pytest.mark.full)])", "timeout(20)")
    assert [text for text in (*PLANTED, *map(MARKED.format, marks)) if not clocks(text)] == []
    assert [text for text in (*ALLOWED, MARKED.format("full")) if clocks(text)] == []
