"""How a chapter's exercises are read: the sections at its end, its questions, and what is wrong with them."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

import nbformat

#: The sections with which every chapter ends.
ENDING = ["What to take away", "Exercises", "Errata", "Every claim"]
SHOW, HIDE = "Show the solution", "Hide the solution"
#: JupyterLab's mark for a heading that is closed at first; the page follows it.
CLOSED = "jp-MarkdownHeadingCollapsed"
_QUESTION = re.compile(r"^\*\*(\d+)\. [^*]+\*\*\s*(\S)?", re.MULTILINE)


def sections(notebook: nbformat.NotebookNode) -> list[str]:
    """The chapter's headings of second rank, in order."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return re.findall(r"^## (.+?) *$", "\n".join(texts), re.MULTILINE)


def exercises(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The cells of the section, from the one with its heading, whose earlier text is cut off, to the last before the errata."""
    found: list[nbformat.NotebookNode] = []
    for cell in notebook.cells:
        heading = re.search(r"^## (.+?) *$", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else None
        if heading and found:
            break
        place = cell.source.find("## Exercises") if cell.cell_type == "markdown" else -1
        if found or place >= 0:
            found.append(nbformat.from_dict(cell | {"source": cell.source[max(place, 0) :]}))
    return found


def solutions(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Every cell of the chapter that is tagged as a solution."""
    return [cell for cell in notebook.cells if "solution" in cell.metadata.get("tags", [])]


def problems(notebook: nbformat.NotebookNode) -> list[str]:
    """What is wrong with the form of a chapter's end; empty if nothing is."""
    found = []
    if sections(notebook)[-len(ENDING) :] != ENDING:
        found.append(f"ends with the sections {sections(notebook)[-len(ENDING) :]}")
    errata = [cell for cell in notebook.cells if cell.source.startswith("## Errata")]
    if [bool(cell.metadata.get(CLOSED)) for cell in errata] != [True]:
        found.append("the errata are not one section that is closed at first")
    cells = exercises(notebook)
    kinds = [cell.cell_type for cell in cells]
    numbers = [number for cell in cells if cell.cell_type == "markdown" for number, _ in _asked(cell.source)]
    count = kinds.count("code")
    if not 3 <= count <= 5:
        found.append(f"{count} exercises, not three to five")
    if numbers != [str(n) for n in range(1, count + 1)]:
        found.append(f"{count} solutions to the questions {numbers}")
    if any(pair == ("code", "code") for pair in pairwise(kinds)):
        found.append("a question has two solutions")
    if cells and [cell.source for cell in cells if cell.cell_type == "code"] != [
        cell.source for cell in solutions(notebook)
    ]:
        found.append("code among the exercises that is no solution, or a solution elsewhere")
    for number, cell in enumerate(solutions(notebook), start=1):
        found += [f"solution {number}: {what}" for what in solution_problems(cell)]
    return found


def _asked(source: str) -> list[tuple[str, str]]:
    """Numbers of the questions in a cell, and the letter with which each one's text begins."""
    return [(number, letter) for number, letter in _QUESTION.findall(source) if letter]


def solution_problems(cell: nbformat.NotebookNode) -> list[str]:
    """What is wrong with a solution's cell."""
    found = []
    prompts = cell.metadata.get("mystnb", {})
    if "hide-cell" not in cell.metadata.get("tags", []):
        found.append("is not hidden")
    if (prompts.get("code_prompt_show"), prompts.get("code_prompt_hide")) != (SHOW, HIDE):
        found.append("is not announced as a solution")
    nodes = list(ast.walk(ast.parse(cell.source)))
    if any(isinstance(node, ast.Name) and node.id == "record" for node in nodes):
        found.append("records")
    checks = [node.test for node in nodes if isinstance(node, ast.Assert)]
    if not checks:
        found.append("asserts nothing")
    if not all(any(isinstance(node, ast.Name) for node in ast.walk(check)) for check in checks):
        found.append("asserts what cannot fail")
    if not re.search(r"#.*\w", cell.source):
        found.append("has no comment")
    return found


def silent(executed: nbformat.NotebookNode) -> list[int]:
    """Numbers of the solutions that show nothing where they ran."""
    shown = ("stream", "display_data", "execute_result")
    return [
        number
        for number, cell in enumerate(solutions(executed), start=1)
        if not any(output.output_type in shown and output.get("name") != "stderr" for output in cell.outputs)
    ]
