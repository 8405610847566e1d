"""Where the nodes of a graph without circles stand when it is drawn in layers: what carries on the left, what rests on it further right."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

Node = Hashable
Edge = tuple[Node, Node]
SWEEPS = 12


@dataclass(frozen=True)
class Drawing:
    """One connected part of a graph.

    Attributes:
        places: node -> (column, row), both counted from 0; rows may be halves.
        paths: for each edge the places that it passes, from the node that carries to the node that rests on it.
        columns, rows: how many.
    """

    places: dict[Node, tuple[int, float]]
    paths: dict[Edge, list[tuple[int, float]]]
    columns: int
    rows: int


def drawings(edges: Sequence[Edge]) -> list[Drawing]:
    """The connected parts of a graph, the largest first, each laid out in columns.

    A node stands one column right of the furthest node that carries it. An edge over several columns keeps a row of its own in those between, so
    that it crosses no name. Within a column nodes are ordered by the means of their neighbours' rows (Sugiyama's method), which leaves few crossings.

    Args:
        edges: (what carries, what rests on it); no circles.
    """
    found = [_drawing(part) for part in _parts(edges)]
    return sorted(found, key=lambda d: -len(d.places))


def _parts(edges: Sequence[Edge]) -> list[list[Edge]]:
    """The edges of each connected part, in their order."""
    part_of: dict[Node, set[Node]] = {}
    for a, b in edges:
        joined = part_of.get(a, {a}) | part_of.get(b, {b})
        for node in joined:
            part_of[node] = joined
    parts: dict[int, list[Edge]] = {}
    for edge in edges:
        parts.setdefault(id(part_of[edge[0]]), []).append(edge)
    return list(parts.values())


def _columns(edges: Sequence[Edge]) -> dict[Node, int]:
    """Longest path from a node that rests on nothing; such a node itself stands just left of the first that it carries."""
    column = dict.fromkeys([node for edge in edges for node in edge], 0)
    for _ in column:
        for a, b in edges:
            column[b] = max(column[b], column[a] + 1)
    for node in set(column) - {b for _, b in edges}:
        column[node] = min(column[b] for a, b in edges if a == node) - 1
    return column


def _drawing(edges: Sequence[Edge]) -> Drawing:
    column = _columns(edges)
    stops = {(a, b): [a, *(((a, b), c) for c in range(column[a] + 1, column[b])), b] for a, b in edges}
    column |= {stop: stop[1] for path in stops.values() for stop in path[1:-1]}
    links = [pair for path in stops.values() for pair in itertools.pairwise(path)]
    layers = [[node for node in column if column[node] == c] for c in range(max(column.values()) + 1)]
    _untangle(layers, links)
    rows = max(map(len, layers))
    row = {node: (rows - len(layer)) / 2 + i for layer in layers for i, node in enumerate(layer)}
    at = {node: (column[node], row[node]) for node in column}
    nodes = {node for edge in edges for node in edge}
    paths = {edge: [at[stop] for stop in path] for edge, path in stops.items()}
    return Drawing({n: at[n] for n in at if n in nodes}, paths, len(layers), rows)


def _untangle(layers: list[list[Node]], links: list[Edge]) -> None:
    """Order each layer by the means of its neighbours in the layer before, then after, and so on; the best order met stays."""
    before: dict[Node, list[Node]] = {}
    after: dict[Node, list[Node]] = {}
    for a, b in links:
        before.setdefault(b, []).append(a)
        after.setdefault(a, []).append(b)
    best, least = [list(layer) for layer in layers], crossings(layers, links)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        neighbours = before if forward else after
        for layer in layers if forward else reversed(layers):
            row = _rows(layers)
            layer.sort(key=lambda node: _mean([row[n] for n in neighbours.get(node, [node])]))
        count = crossings(layers, links)
        if count < least:
            best, least = [list(layer) for layer in layers], count
    layers[:] = best


def _rows(layers: list[list[Node]]) -> dict[Node, float]:
    return {node: i - len(layer) / 2 for layer in layers for i, node in enumerate(layer)}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def crossings(layers: list[list[Node]], links: Sequence[Edge]) -> int:
    """How many pairs of links between the same two columns cross."""
    row = {node: (c, i) for c, layer in enumerate(layers) for i, node in enumerate(layer)}
    ends = [(row[a][0], row[a][1], row[b][1]) for a, b in links]
    pairs = ((p, q) for i, p in enumerate(ends) for q in ends[:i] if p[0] == q[0])
    return sum((p[1] - q[1]) * (p[2] - q[2]) < 0 for p, q in pairs)
