"""What folds out below a figure: its numbers as a file, and where they come from. All of it was kept while the notebook ran (``drawing/shown.py``)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from ..numbers import duration, number
from ..project import FIGURE, MODEL, SLIDERS
from .lazy import FILES, VIEW, up


def of_pictures(notebook: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of an executed copy: name that MyST-NB gives a picture (its sha256) -> what was kept of the figure."""
    found = {}
    for output in (o for cell in notebook["cells"] for o in cell.get("outputs", [])):
        data = output.get("data", {})
        if FIGURE in data and "image/png" in data:
            found[hashlib.sha256(base64.b64decode("".join(data["image/png"]))).hexdigest()] = data[FIGURE]
    return found


def of_sliders(notebook: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of an executed copy: model id of every static slider -> what was kept of its frames."""
    return {
        output["data"][VIEW]["model_id"]: output["metadata"][SLIDERS]
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if SLIDERS in output.get("metadata", {})
    }


def of_models(notebook: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of an executed copy: name of every model in the page -> what was kept of it."""
    return {
        output["metadata"][MODEL]["name"]: output["metadata"][MODEL]
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if MODEL in output.get("metadata", {})
    }


def without(notebook: Any) -> Any:
    """An executed copy as MyST-NB may read it: it warns of outputs that it does not know. Changed in place."""
    for output in (o for cell in notebook["cells"] for o in cell.get("outputs", [])):
        output.get("data", {}).pop(FIGURE, None)
    return notebook


def write(about: Mapping[str, Any], html: Path, page: str, number: int) -> dict[str, str]:
    """Put a figure's numbers and its picture for phones beside the pages; what was written (``csv``, ``narrow``) -> its address from the page."""
    name = f"{FILES}/{page.rpartition('/')[2]}-figure-{number}"
    files = {}
    if about["csv"]:
        write_bytes(html / f"{name}.csv", about["csv"].encode())
        files["csv"] = f"{up(page)}{name}.csv"
    if "narrow" in about:
        write_bytes(html / f"{name}-narrow.png", base64.b64decode(about["narrow"]))
        files["narrow"] = f"{up(page)}{name}-narrow.png"
    return files


def write_bytes(path: Path, content: bytes) -> None:
    """A file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def folded(about: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """The folded line below a caption."""
    parts = []
    if "csv" in files:
        name, text = Path(files["csv"]).name, about["csv"]
        size = max(1, round(len(text) / 1000))
        parts.append(
            f'<p><a href="{files["csv"]}" download="{name}">{escape(about.get("numbers", "Numbers of this figure"))}</a> (CSV, {size} kB)</p>'
        )
    if about["origin"]:
        parts.append(_origin(about["origin"]))
    return f'<details class="iclbook-origin"><summary>Data and origin</summary>{"".join(parts)}</details>'


def _origin(origin: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{escape(k)} {escape(v)}" for k, v in origin["versions"].items())
    rows = "".join(f"<li>{_study(study)}</li>" for study in origin["studies"])
    return f"<p>From these stored runs:</p><ul>{rows}</ul><p>Drawn with {versions}.</p>"


def _study(study: Mapping[str, Any]) -> str:
    """One line on a training."""
    seeds = escape(study["seeds"].replace("-", "\u2013"))
    runs = f"{number(study['runs'])} run{'s' if study['runs'] != 1 else ''}"
    parts = [runs + (f" (seeds {seeds})" if "\u2013" in seeds or "," in seeds else f" (seed {seeds})" if seeds else "")]
    if study.get("steps"):
        parts.append(f"{number(study['steps'])} steps")
    parts.append(duration(study["seconds"]))
    parts[-1] += f" on {escape(study['device'])}" if study.get("device") else ""
    if study.get("date"):
        parts.append(escape(study["date"]))
    parts += [f"{name} {escape(study[key])}" for key, name in _VERSIONS.items() if key in study]
    name = f"<code>{escape(study['paper'])}/{escape(study['study'])}</code>"
    return f"{name}: {', '.join(parts)}; digest of the code <code>{escape(study['source'])}</code>"


_VERSIONS = {"torch": "torch", "numpy": "numpy", "python": "Python"}
