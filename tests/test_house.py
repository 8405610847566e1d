"""The plan of the house: who may import whom. One room a paper; nothing climbs."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import iclbook

LIBRARY = Path(iclbook.__file__).parent
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
def imported(path: Path) -> list[tuple[str, ...]]:
    """What a module imports from this package, as parts below it."""
    here = path.relative_to(LIBRARY).with_suffix("").parts
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


def room(path: Path) -> str:
    return path.relative_to(LIBRARY).with_suffix("").parts[0]


def test_every_room_has_a_floor():
    assert {room(path) for path in LIBRARY.rglob("*.py")} - {"__init__"} == set(FLOOR)


def test_no_import_climbs():
    every = [(path, other) for path in LIBRARY.rglob("*.py") for other in imported(path) if other]
    assert len(every) > 1000
    assert [(path, to) for path, to in every if FLOOR.get(to[0], -1) > FLOOR.get(room(path), 99)] == []


def test_no_modules_import_each_other():
    """Imports for types and within functions included."""
    paths = {path.relative_to(LIBRARY).with_suffix("").parts: path for path in LIBRARY.rglob("*.py")}
    modules = {parts[:-1] if parts[-1] == "__init__" else parts: path for parts, path in paths.items()}
    graph = {}
    for module, path in modules.items():
        starts = [[to[:n] for n in range(len(to), -1, -1) if to[:n] in modules] for to in imported(path)]
        graph[module] = {found[0] for found in starts if found} - {module}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_no_paper_imports_another():
    """The crossing is about all of them, and may."""
    every = [path for path in (LIBRARY / "papers").rglob("*.py") if path.relative_to(LIBRARY).parts[1] != "crossing"]
    papers = [(path, to[1]) for path in every for to in imported(path) if to[:1] == ("papers",) and len(to) > 1]
    assert [(path, paper) for path, paper in papers if paper != path.relative_to(LIBRARY).parts[1]] == []
