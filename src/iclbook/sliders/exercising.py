"""Move every slider through its whole range, as a test: a slider nobody moved may hide an error until a reader moves it."""

from __future__ import annotations

import hashlib

from .definition import MAX_FRAMES
from .panel import Panel
from .static import StaticPanel


def exercise(panel: Panel, ends: bool = False) -> int:
    """Move the sliders of ``panel`` through all combinations; beyond 60 of them, through those of their first, start
    and last positions, and each slider through its range while the other stands at its start. The sliders end where they began.

    Args:
        panel: of either mode.
        ends: move each slider to its first, its start and its last position only.

    Returns:
        How many different frames were seen.

    Raises:
        Exception: the first error of a callback.
        RuntimeError: a static slider shows another frame than the one drawn for its position.
    """
    began = [getattr(control, trait) for control, trait, _ in panel.moves]
    seen = set()
    try:
        ranges = [positions for _, _, positions in panel.moves]
        if ends:
            ranges = _ends(ranges, began)
        for place in _places(ranges, began):
            _move(panel, place)
            sha = hashlib.sha256(panel.visible()).hexdigest()
            if isinstance(panel, StaticPanel) and sha != panel.expected[panel.indices()]:
                raise RuntimeError(f"{panel!r} shows the wrong frame with its sliders at {panel.indices()}")
            seen.add(sha)
    finally:
        _move(panel, began)
    return len(seen)


def _move(panel: Panel, place: tuple | list) -> None:
    for (control, trait, _), position in zip(panel.moves, place, strict=True):
        setattr(control, trait, position)
    panel.follow()


def _places(ranges: list[list], began: list) -> list[tuple]:
    """Where to move, in an order in which one slider moves at a time: a live panel draws anew for each that does."""
    every = _back_and_forth(ranges)
    if len(every) <= MAX_FRAMES:
        return every
    places = _back_and_forth(_ends(ranges, began))
    for moved, positions in enumerate(ranges):
        places += _back_and_forth([positions if i == moved else [at] for i, at in enumerate(began)])
    return list(dict.fromkeys(places))


def _ends(ranges: list[list], began: list) -> list[list]:
    """First, start and last position of every slider."""
    return [list(dict.fromkeys([r[0], at, r[-1]])) for r, at in zip(ranges, began, strict=True)]


def _back_and_forth(ranges: list[list]) -> list[tuple]:
    """All combinations; of two neighbours one entry differs."""
    places: list[tuple] = [()]
    for positions in ranges:
        there, back = list(positions), list(reversed(positions))
        places = [(*place, p) for i, place in enumerate(places) for p in (back if i % 2 else there)]
    return places
