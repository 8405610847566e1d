"""What a slider is, before anything is drawn, and what a page may hold."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from ..errors import UserError
from ..numbers import number

MAX_FRAMES = 60  # precomputed frames a page
MAX_BYTES = 3_000_000  # their size in the page, where they stand in base64
MAX_STEPS = 10_000  # of a live slider; a hand cannot place it more finely
MODES = ("auto", "static", "live")


@dataclass(frozen=True)
class Slider:
    """One slider, for both modes.

    Args:
        name: the keyword by which the frame function takes this slider's value.
        label: what stands beside the slider: plain text, with Greek letters typed as such.
        values: what the static slider steps through, in order; the live one too, unless ``live`` is given. Names become a choice of buttons.
        labels: how each value is shown; by default the number to three digits.
        live: (smallest, largest, step): with a kernel, any value in this range, not only those in ``values``.
            Three integers give whole numbers.
        log: space the live slider by powers of ten; ``step`` is then in powers of ten (0.1: ten steps a decade).

    Raises:
        UserError: no values, too many, repeated or not finite; a label too many or too few; a live range that is empty, endless, too fine or leaves a value out.
    """

    name: str
    label: str
    values: Sequence[Any]
    labels: Sequence[str] | None = None
    live: tuple[float, float, float] | None = None
    log: bool = False

    def __post_init__(self) -> None:
        where = f"slider {self.name!r}"
        if not self.name.isidentifier():
            raise UserError(f"{where} is not a keyword", "Name it like the frame function's argument.")
        # Counted before they are looked at: a range or an array may be of any length.
        values = tuple(islice(iter(self.values), MAX_FRAMES + 1))
        if len(values) > MAX_FRAMES:
            raise UserError(
                f"{where} has more than {MAX_FRAMES} values, which is all that a page may hold",
                "Give it fewer values, and live=(smallest, largest, step) for those between.",
            )
        # Arrays are welcome, but their elements must not be: numpy scalars neither compare nor print as numbers do.
        values = tuple(v.item() if hasattr(v, "item") else v for v in values)
        object.__setattr__(self, "values", values)
        if not values:
            raise UserError(f"{where} has no values", "Give it at least one value.")
        for value in values:
            if isinstance(value, float) and not math.isfinite(value):
                raise UserError(f"{where} has a position at {value}", "Give it finite values.")
        if any(a == b for i, a in enumerate(values) for b in values[:i]):
            raise UserError(f"{where} has the same value twice", "Give each value once.")
        object.__setattr__(self, "labels", self._labels(where))
        if self.live is not None and not _can_move(self.live, self.log):
            raise UserError(
                f"{where} has the live range {self.live}",
                f"Give finite numbers (smallest, largest, step) with at most {MAX_STEPS} steps, positive if log.",
            )
        numbers = [v for v in values if isinstance(v, (int, float))] if self.live is not None else []
        if outside := [v for v in numbers if not self.live[0] <= v <= self.live[1]]:
            raise UserError(
                f"{where} shows {outside[0]} and has the live range {self.live[:2]}, which leaves it out",
                "Widen the range: whoever has a kernel must find what the page shows.",
            )

    def _labels(self, where: str) -> tuple[str, ...]:
        labels = tuple(self.labels) if self.labels is not None else tuple(map(_text, self.values))
        if len(labels) != len(self.values):
            raise UserError(
                f"{where} has {len(self.values)} values but {len(labels)} labels", "Give one label for each value."
            )
        if len(set(labels)) != len(labels):
            raise UserError(f"{where} shows two values by the same label", "Give labels= that tell the values apart.")
        return labels


def _can_move(live: Sequence[float], log: bool) -> bool:
    """Whether a live range has an end on each side and a number of steps that a slider can show."""
    try:
        low, high, step = map(float, live)
    except (TypeError, ValueError, OverflowError):
        return False
    if not (all(map(math.isfinite, (low, high, step))) and low < high and step > 0) or (log and low <= 0):
        return False
    width = math.log10(high) - math.log10(low) if log else high - low
    return width / step <= MAX_STEPS


def check(frame: Callable, sliders: Sequence[Slider], start: dict[str, Any] | None, mode: str) -> None:
    """Check a whole definition before anything is drawn.

    Raises:
        UserError: unknown mode, no or too many sliders, one name twice, a frame function that does not take them, an unknown start,
            or more frames than a page may hold.
    """
    if mode not in MODES:
        raise UserError(f"unknown slider mode {mode!r}", f"Choose one of: {', '.join(MODES)}.")
    names = [slider.name for slider in sliders]
    if not 1 <= len(sliders) <= 2:
        raise UserError(f"{len(sliders)} sliders for one figure", "Use one or two.")
    if len(set(names)) != len(names):
        raise UserError(f"two sliders named {names[0]!r}", "Give each its own name.")
    try:
        inspect.signature(frame).bind(**dict.fromkeys(names))
    except TypeError as error:
        raise UserError(
            f"the frame function cannot be called with {', '.join(f'{n}=' for n in names)}: {error}",
            "Name its arguments like the sliders.",
        ) from None
    unknown = sorted(set(start or {}) - set(names))
    if unknown:
        raise UserError(f"start names no slider: {', '.join(unknown)}", f"The sliders are: {', '.join(names)}.")


def start_indices(sliders: Sequence[Slider], start: dict[str, Any] | None) -> tuple[int, ...]:
    """Where each static slider begins: the index of its start value, or 0.

    Raises:
        UserError: a start value that is not among the slider's values.
    """
    found = []
    for slider in sliders:
        value = (start or {}).get(slider.name, slider.values[0])
        if value not in slider.values:
            raise UserError(
                f"slider {slider.name!r} cannot start at {value!r}", f"Choose one of: {', '.join(slider.labels)}."
            )
        found.append(slider.values.index(value))
    return tuple(found)


def combinations(sliders: Sequence[Slider]) -> list[tuple[int, ...]]:
    """All index tuples of the sliders, the last slider moving fastest."""
    return list(product(*(range(len(slider.values)) for slider in sliders)))


def values_at(sliders: Sequence[Slider], indices: Sequence[int]) -> dict[str, Any]:
    """The frame function's arguments at these slider positions."""
    return {slider.name: slider.values[index] for slider, index in zip(sliders, indices, strict=True)}


def _text(value: Any) -> str:
    return number(value) if isinstance(value, int | float) else str(value)
