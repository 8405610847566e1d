"""Every chapter ends with exercises whose solutions run, show an answer and check it; slips of its paper stand in a section that is closed at first."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import jupytext
import nbformat
import pytest

from iclbook.book.chapter_head import MARK
from iclbook.inputs import chapters

ROOT = Path(__file__).resolve().parents[1]
#: The sections with which every chapter ends.
ENDING = ["What to take away", "Exercises", "Errata", "Every claim"]
QUESTION = re.compile(r"^\*\*(\d+)\. [^*]+\*\*\s*(\S)", re.MULTILINE)


def solutions(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Every cell of the chapter that is tagged as a solution."""
    return [cell for cell in notebook.cells if "solution" in cell.metadata.get("tags", [])]


def silent(executed: nbformat.NotebookNode) -> list[int]:
    """Numbers of the solutions that show nothing where they ran."""
    shown = ("stream", "display_data", "execute_result")
    return [
        number
        for number, cell in enumerate(solutions(executed), start=1)
        if not any(output.output_type in shown and output.get("name") != "stderr" for output in cell.outputs)
    ]


@pytest.fixture(scope="module", params=chapters(ROOT))
def chapter(request: pytest.FixtureRequest) -> nbformat.NotebookNode:
    return jupytext.read(ROOT / "notebooks" / f"{request.param}.py")


def test_a_chapter_ends_with_exercises_errata_and_its_claims(chapter: nbformat.NotebookNode) -> None:
    text = "\n".join(cell.source for cell in chapter.cells if cell.cell_type == "markdown")
    assert re.findall(r"^## (.+?) *$", text, re.MULTILINE)[-len(ENDING) :] == ENDING
    (errata,) = [i for i, cell in enumerate(chapter.cells) if cell.source.startswith("## Errata")]
    assert chapter.cells[errata].metadata.get(MARK), "closed at first"
    (first,) = [i for i, cell in enumerate(chapter.cells) if re.search("^## Exercises", cell.source, re.MULTILINE)]
    section = chapter.cells[first:errata]
    answers = [cell for cell in section if cell.cell_type == "code"]
    assert answers == solutions(chapter), "code among the exercises that is no solution, or a solution elsewhere"
    assert 3 <= len(answers) <= 5
    asked = QUESTION.findall(text[text.index("## Exercises") : text.index("## Errata")])
    assert [number for number, _ in asked] == [str(n + 1) for n in range(len(answers))]
    assert ("code", "code") not in pairwise(cell.cell_type for cell in section), "a question has two solutions"


def test_solutions_are_hidden_explained_and_checked(chapter: nbformat.NotebookNode) -> None:
    for cell in solutions(chapter):
        assert "hide-cell" in cell.metadata["tags"]
        prompts = {f"code_prompt_{word.lower()}": f"{word} the solution" for word in ("Show", "Hide")}
        assert cell.metadata["mystnb"].items() >= prompts.items()
        nodes = list(ast.walk(ast.parse(cell.source)))
        assert not any(isinstance(node, ast.Name) and node.id == "record" for node in nodes)
        checks = [node.test for node in nodes if isinstance(node, ast.Assert)]
        assert checks, "asserts nothing"
        named = [any(isinstance(node, ast.Name) for node in ast.walk(check)) for check in checks]
        assert all(named), "asserts what cannot fail"
        assert re.search(r"#.*\w", cell.source), "has no comment"
