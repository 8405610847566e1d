"""A small book for the tests of claims, check and command line: one ledger, no chapter text."""

import json
from pathlib import Path

import nbformat

from iclbook.claims import Record
from iclbook.inputs import METADATA_KEY, input_digests, write_copy

LEDGER = """\
paper: demo
title: A demonstration
chapter: notebooks/demo.py
values:
  seeds: {says: number of seeds}
  seconds: {says: wall time, tolerance: none}
claims:
  - id: demo/both
    where: Figure 1
    short: two heads | *both* signs
    says: two heads | opposite *signs*
    paper: 0.13
    parts:
      - name: positive
        key: omega
        rule: "> 0"
        because: a sign
      - name: size
        key: omega
        rule: within 0.02 of 0.13
        because: 2.8 sigma of the seed spread
  - id: demo/exact
    where: Theorem 1
    short: the optimum is known
    says: the optimum is exact
    decides: smoke
    parts:
      - name: gap
        key: gap
        rule: "<= 1e-9"
        because: float64
  - id: demo/later
    where: Figure 9
    short: not tested
    says: not tested yet
"""


def make_root(folder: Path, ledger: str = LEDGER, chapters: tuple[str, ...] = ("demo",)) -> Path:
    """A book's folder with one ledger and empty chapters."""
    (folder / "src/iclbook/papers/demo").mkdir(parents=True, exist_ok=True)
    (folder / "notebooks").mkdir(exist_ok=True)
    lines = ["format: jb-book", "root: book/intro", "chapters:"]
    lines += [f"  - file: notebooks/{name}" for name in chapters]
    (folder / "_toc.yml").write_text("\n".join(lines) + "\n")
    (folder / "lock.txt").write_text("")
    (folder / "src/iclbook/papers/demo/claims.yaml").write_text(ledger)
    for name in chapters:
        (folder / "notebooks" / f"{name}.py").write_text('# %% tags=["parameters"]\nprofile = "paper"\n')
    return folder


def records_of(**values) -> dict[str, Record]:
    """Records by key; ``__`` in a name stands for a slash."""
    return {key.replace("__", "/"): Record.make(key, value) for key, value in values.items()}


def write_notebook(path: Path, **values) -> Path:
    """An executed notebook that carries these records."""
    outputs = []
    for record in records_of(**values).values():
        data, metadata = record.output()
        outputs.append({"output_type": "display_data", "data": data, "metadata": metadata})
    cell = {"cell_type": "code", "source": "", "metadata": {}, "execution_count": 1, "outputs": outputs}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    return path


def stamp(root: Path, profile: str = "paper", name: str = "demo") -> Path:
    """Mark an executed copy as made from the inputs as they are."""
    path = root / "executed" / profile / f"{name}.ipynb"
    copy = nbformat.from_dict(json.loads(path.read_text()))
    copy.metadata[METADATA_KEY] = {"inputs": input_digests(name, profile, root)}
    write_copy(path, copy)
    return path
