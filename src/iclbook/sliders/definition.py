"""What a slider is, before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..numbers import number


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
    """

    name: str
    label: str
    values: Sequence[Any]
    labels: Sequence[str] | None = None
    live: tuple[float, float, float] | None = None
    log: bool = False

    def __post_init__(self) -> None:
        # Arrays are welcome, but their elements must not be: numpy scalars neither compare nor print as numbers do.
        values = tuple(v.item() if hasattr(v, "item") else v for v in self.values)
        labels = tuple(map(_text, values)) if self.labels is None else tuple(self.labels)
        where = f"slider {self.name!r}"
        assert values, f"{where} has no values"
        assert len(set(values)) == len(values), f"{where} has the same value twice: {values}"
        assert len(labels) == len(set(labels)) == len(values), (
            f"{where} needs a label of its own for each value: {labels}"
        )
        if self.live is not None:
            low, high, _ = self.live
            assert low < high, f"{where} has the live range {self.live}"
            # whoever has a kernel must find what the page shows
            assert all(low <= value <= high for value in values), f"{where} leaves a value out of {self.live}"
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "labels", labels)

    def index(self, start: dict[str, Any] | None) -> int:
        """Where the static slider begins: the index of its start value, or 0."""
        value = (start or {}).get(self.name, self.values[0])
        assert value in self.values, f"slider {self.name!r} cannot start at {value!r}, only at {self.values}"
        return self.values.index(value)


def _text(value: Any) -> str:
    return number(value) if isinstance(value, int | float) else str(value)
