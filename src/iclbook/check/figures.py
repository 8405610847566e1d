"""The numbers of every figure, slider and model in an executed chapter, and the words and colours of figures, condensed so that a reference can hold them and
name what moved."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..claims.references import DIGITS, SPREADS, spread_of
from ..files import reading
from ..numbers import number
from ..project import FIGURE, MODEL, SLIDERS

#: Series -> [how many numbers, their weighted sum, the sum of the weighted sizes] and, in a reference, the spread of the weighted sum.
Digest = Mapping[str, list[float]]


def read_figures(path: Path) -> dict[str, Digest]:
    """Name -> digest of every figure, slider and page model of an executed chapter; the name is the beginning of the alt text or the title."""
    digests: dict[str, Digest] = {}
    with reading(path, f"Run `iclbook run {path.stem}` again."):
        for name, series in _artefacts(json.loads(path.read_text(encoding="utf-8"))):
            count = sum(other == name or other.startswith(f"{name} #") for other in digests)
            name = f"{name} #{count + 1}" if count else name
            digests[name] = {label: _condensed(numbers) for label, numbers in series.items()}
    return digests


def moved(reference: Mapping[str, Digest], measured: Mapping[str, Digest]) -> Iterator[tuple[str, str, str]]:
    """Differences, as (figure, reference, measured): a figure or a series that is missing or new, another count, or numbers that moved."""
    for name in dict.fromkeys([*reference, *measured]):
        if name not in measured or name not in reference:
            yield name, *("shown" if name in side else "not shown" for side in (reference, measured))
            continue
        old, new = reference[name], measured[name]
        for label in dict.fromkeys([*old, *new]):
            if label not in old or label not in new:
                sides = ("there" if label in side else "not there" for side in (old, new))
                yield f"{name}: {label}", *sides
            elif old[label][0] != new[label][0]:
                yield f"{name}: {label}", *(f"{number(side[label][0])} numbers" for side in (old, new))
            elif not abs(new[label][1] - old[label][1]) <= _allowance(old, label):
                yield (f"{name}: {label}", *(f"weighted sum {number(side[label][1], 6)}" for side in (old, new)))


def _allowance(series: Digest, label: str) -> float:
    """How far a weighted sum may move: four spreads, or five digits of its size, or of a number as large as the largest on its panel's axis, whose digits a reader sees."""
    panel, column = label.split(" / ")[0], label.split(" / ")[-1]
    beside = [name for name in series if name.split(" / ")[0] == panel and name.split(" / ")[-1] == column]
    axis = max(series[name][2] / max(series[name][0], 1) for name in beside)
    spread = SPREADS * sum(series[label][3:])  # none where it was not measured
    return max(spread, DIGITS * max(series[label][2], axis, 1e-9))


def spread_of_figure(series: Digest, others: Sequence[Digest]) -> Digest:
    """A figure's digest with the largest deviation of each weighted sum over the ``others`` that have as many numbers there."""
    totals = {label: [o[label][1] for o in others if label in o and o[label][0] == s[0]] for label, s in series.items()}
    return {label: [*s, spread_of(s[1], totals[label])] for label, s in series.items()}


def _artefacts(notebook: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, list[float]]]]:
    for cell in notebook["cells"]:
        alt = cell.get("metadata", {}).get("mystnb", {}).get("image", {}).get("alt", "")
        for output in cell.get("outputs", []):
            data, about = output.get("data", {}), output.get("metadata", {})
            if FIGURE in data:
                yield _slug(alt or "figure"), _columns(data[FIGURE]["csv"]) | data[FIGURE].get("looks", {})
            if SLIDERS in about:
                yield _slug(f"slider {about[SLIDERS]['title']}"), _columns(about[SLIDERS]["csv"])
            if MODEL in about:
                text = "".join(data["text/html"]).split('<script type="application/json">')[1]
                body = json.loads(text.split("</script>")[0])
                series = {str(key): list(_numbers(value)) for key, value in body.items()}
                yield _slug(f"model {about[MODEL]['name']}"), series


def _slug(text: str) -> str:
    return " ".join(re.findall(r"\w+", text)[:9])


def _columns(text: str) -> dict[str, list[float]]:
    """The numbers of a figure's CSV by panel, series and column."""
    columns: dict[str, list[float]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        series = " / ".join(row.get(name) or "" for name in ("panel", "series", "kind"))
        for column, cell in row.items():
            if column in ("panel", "series", "kind", "title", "x axis", "y axis", "x name", "y name"):
                continue
            if numbers := list(_numbers(cell)):
                columns.setdefault(f"{series} / {column}", []).extend(numbers)
    return columns


def _numbers(value: Any) -> Iterator[float]:
    """Numbers in a structure, in order."""
    if isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _numbers(part)
    elif isinstance(value, bool | int | float | str):
        with suppress(ValueError):
            yield float(value)


def _condensed(numbers: list[float]) -> list[float]:
    values = np.array([number if math.isfinite(number) else 0.0 for number in numbers])
    weights = (
        0.5 + (np.random.PCG64(0).random_raw(len(values)) >> 11) * 2.0**-53
    )  # a stream that numpy promises to keep
    sums = weights @ values, weights @ np.abs(values)
    return [len(values), *(float(np.format_float_positional(s, 8, unique=False, fractional=False)) for s in sums)]
