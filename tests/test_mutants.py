"""The runner of planted faults, on a toy paper: a fault that a test sees is caught, one that no test can see is listed as a survivor."""

from __future__ import annotations

import ast
from pathlib import Path

import mutants
import pytest
from mutants import run, summary
from mutations import Fault, faults_in
from planted import PLANTED

MODULE = """\
def largest(values: list[int]) -> int:
    found = values[0]
    for value in values[1:]:
        if value > found:
            found = value
    return found
"""
TEST = """\
from toy.papers.key import big


def test_largest():
    assert big.largest([1, 3, 2]) == 3
"""


@pytest.mark.full
def test_a_fault_is_caught_an_equivalent_one_survives_and_a_line_that_is_gone_is_said(tmp_path: Path):
    files = {
        "src/toy/papers/key/big.py": MODULE,
        "tests/key/test_big.py": TEST,
        "pytest.ini": "[pytest]\nmarkers =\n    slow: s\n    chapter: c\n    browser: b\n    cuda: u\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    pairs = [("value > found", "value < found"), ("value > found", "value >= found"), ("no such line", "")]
    faults = [Fault("key", "src/toy/papers/key/big.py", "planted", old, old, new) for old, new in pairs]
    found = run(faults, tmp_path, workers=1)
    assert [outcome.word for outcome in found] == ["caught", "survived", "gone"]
    assert {name: (tmp_path / name).read_text() for name in files} == files, "faults are planted in a copy"
    text, enough = summary(found)
    assert "key: 1 of 2 caught (50%)" in text
    assert not enough


@pytest.mark.parametrize(
    ("code", "kind", "planted"),
    [
        ("a < b", "boundary", "(a <= b)"),
        ("a < b", "comparison", "(a > b)"),
        ("a + b", "sign", "(a - b)"),
        ("-a", "sign", "(a)"),
        ("a - b", "order", "(b - a)"),
        ("a / b", "quotient", "(b / a)"),
        ("2.5 * a", "factor", "(5.0) * a"),
        ("a[..., -1]", "index", "a[..., (-2)]"),
        ("a[1:]", "index", "a[(2):]"),
        ("a.mean(0)", "axis", "(a.mean(1))"),
        ("np.sum(a, axis=-1)", "axis", "(np.sum(a, axis=0))"),
        ("a.min()", "twin", "(a.max())"),
        ("np.maximum(a, b)", "twin", "(np.minimum(a, b))"),
        ("a.std(ddof=1)", "ddof", "(a.std(ddof=0))"),
        ("draw(seed=7)", "seed", "(draw(seed=0))"),
        ("{'p': a, 'q': b}", "neighbour", "{'p': (b), 'q': b}"),
    ],
)
def test_each_kind_of_fault(code, kind, planted):
    found = [fault for fault in faults_in(f"x = {code}\n", "papers/key/m.py") if fault.kind == kind]
    assert f"x = {planted}\n" in [fault.planted(f"x = {code}\n") for fault in found]


def test_every_fault_of_a_paper_is_a_program():
    for paper in ("he2025", "recall2025"):
        for fault in mutants.faults_of(paper, 60):
            text = (mutants.ROOT / fault.path).read_text()
            changed = fault.planted(text)
            assert changed is not None, f"{fault.where}: no longer there"
            assert changed != text
            ast.parse(changed)


def test_every_planted_line_still_stands():
    gone = [f.where for f in PLANTED if f.planted((mutants.ROOT / f.path).read_text()) is None]
    assert gone == []
