"""Every chapter ends with exercises whose solutions run, show an answer and check it; slips of its paper stand in a section that is closed at first."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
import pytest
from exercises import CLOSED, HIDE, SHOW, exercises, problems, silent, solutions

from iclbook.inputs import chapters

ROOT = Path(__file__).resolve().parents[1]
CODE = "answer = 2  # one and one\nprint(answer)\nassert answer == 2"


@pytest.mark.parametrize("name", chapters(ROOT))
def test_a_chapter_ends_with_exercises_errata_and_its_claims(name: str) -> None:
    assert problems(jupytext.read(ROOT / "notebooks" / f"{name}.py")) == []


def solution(code: str = CODE) -> nbformat.NotebookNode:
    prompts = {"code_prompt_show": SHOW, "code_prompt_hide": HIDE}
    return nbformat.v4.new_code_cell(code, metadata={"tags": ["hide-cell", "solution"], "mystnb": prompts})


def chapter() -> nbformat.NotebookNode:
    """A chapter's end as it should be, the first question in the cell of the heading."""
    text = nbformat.v4.new_markdown_cell
    cells = [text("Before.\n\n## What to take away\n\nThis.\n\n## Exercises\n\n**1. First.** Why?"), solution()]
    cells += [text("**2. Second.**\nHow?"), solution(), text("**3. Third.** When?"), solution()]
    cells += [text("## Errata\n\nOne.", metadata={CLOSED: True}), text("## Every claim")]
    return nbformat.v4.new_notebook(cells=cells)


def test_a_chapter_in_the_right_form_has_no_problem_and_its_exercises_are_found() -> None:
    assert problems(chapter()) == []
    assert [cell.cell_type for cell in exercises(chapter())] == ["markdown", "code"] * 3
    assert exercises(chapter())[0].source.startswith("## Exercises\n\n**1.")


def _without(index: int):
    return lambda found: found.cells.pop(index)


def _with(index: int, cell: nbformat.NotebookNode):
    return lambda found: found.cells.insert(index, cell)


def _source(index: int, source: str):
    return lambda found: found.cells[index].update(source=source)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (_without(-1), "ends with the sections"),
        (_source(-1, "## All claims"), "ends with the sections"),
        (lambda found: found.cells.insert(0, found.cells.pop(6)), "ends with the sections"),
        (lambda found: found.cells[6].metadata.pop(CLOSED), "closed at first"),
        (lambda found: [found.cells.pop(4), found.cells.pop(4)], "2 exercises"),
        (_without(3), "solutions to the questions"),
        (_source(2, "**2. Second.**"), "solutions to the questions"),
        (_source(2, "**1. First again.** How?"), "solutions to the questions"),
        (_with(4, solution()), "two solutions"),
        (_with(4, nbformat.v4.new_code_cell("1")), "no solution"),
        (_with(0, solution()), "a solution elsewhere"),
        (lambda found: found.cells[1].metadata.update(tags=["solution"]), "is not hidden"),
        (lambda found: found.cells[1].metadata.pop("mystnb"), "is not announced"),
        (_source(1, "print(2)  # two"), "asserts nothing"),
        (_source(1, "assert 1 + 1 == 2  # two"), "asserts what cannot fail"),
        (_source(1, CODE + "\nrecord('a', answer)"), "records"),
        (_source(1, CODE.replace("# one and one", "")), "has no comment"),
    ],
)
def test_each_fault_is_found(fault, says: str) -> None:
    found = chapter()
    fault(found)
    assert any(says in problem for problem in problems(found)), problems(found)


def test_a_solution_that_shows_nothing_is_found() -> None:
    found = chapter()
    first, second, third = solutions(found)
    first.outputs = [nbformat.v4.new_output("stream", name="stdout", text="2\n")]
    second.outputs = [nbformat.v4.new_output("stream", name="stderr", text="warning\n")]
    third.outputs = [nbformat.v4.new_output("display_data", data={"text/plain": "2"})]
    assert silent(found) == [2]
