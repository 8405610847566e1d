"""What every chapter must have beside claims that are judged, each rule with its hint: ``iclbook doctor KEY``. Nothing is run."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import nbformat
import numpy as np

from ..book.chapter_head import MARK, entries
from ..claims import Ledger, all_ledgers
from ..claims.references import Reference, load_reference, reference_path
from ..errors import UserError
from ..inputs import PROSE_ONLY, executed_path, is_stale, listed_pages, read_source
from ..project import FIGURE, PROFILES
from . import rules_changed

#: What is wrong, and what to do.
Problem = tuple[str, str]
#: The sections with which every chapter ends.
ENDING = ["What to take away", "Exercises", "Errata", "Every claim"]
QUESTION = re.compile(r"^\*\*(\d+)\. [^*]+\*\*\s*(\S)", re.MULTILINE)
#: How a reason says that its rule came after a run.
LATE = re.compile(
    r"(written|added|changed|chosen|widened|restricted) (only )?(after|late)|after (a|the) (first )?(trial|runs?|review)|first trial|since the runs"
)
PROMPTS = {f"code_prompt_{word.lower()}": f"{word} the solution" for word in ("Show", "Hide")}
NUMBERS = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve"]


def problems(ledger: Ledger, root: Path) -> list[Problem]:
    """All that a chapter lacks, by its source, its references, the lists of chapters, and its executed copies where these are there."""
    notebook = read_source(ledger.chapter_name, root)
    found = [*_cells(notebook), *_ending(notebook), *_solutions(notebook), *_values(ledger, notebook)]
    found += [*_rules(ledger, root), *_lists(ledger, root)]
    for profile in PROFILES:
        if is_stale(ledger.chapter_name, profile, root) in ("", PROSE_ONLY):
            copy = nbformat.read(executed_path(ledger.chapter_name, profile, root), as_version=4)
            found += [(f"{problem} ({profile})", hint) for problem, hint in executed(copy)]
    return found


def executed(copy: nbformat.NotebookNode) -> Iterator[Problem]:
    """Faults of an executed copy: solutions that show nothing, and figures with words cut, words over words, or a legend over data."""
    shown = ("stream", "display_data", "execute_result")
    for number, cell in enumerate(solutions(copy), start=1):
        if not any(output.output_type in shown and output.get("name") != "stderr" for output in cell.outputs):
            yield f"solution {number} shows nothing", "Let it print its answer."
    for cell in copy.cells:
        name = _alt(cell)[:50] or "figure"
        for output in cell.get("outputs", []):
            for fault in output.get("data", {}).get(FIGURE, {}).get("faults", []):
                yield f"{name}: {fault}", "Shorten the words, or move them."


def solutions(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Every cell that is tagged as a solution."""
    return [cell for cell in notebook.cells if "solution" in _tags(cell)]


def _tags(cell: nbformat.NotebookNode) -> set[str]:
    return {*cell.metadata.get("tags", [])}


def _alt(cell: nbformat.NotebookNode) -> str:
    return cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")


def _cells(notebook: nbformat.NotebookNode) -> Iterator[Problem]:
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if sum("parameters" in _tags(cell) for cell in code) != 1:
        yield "there is not one cell tagged parameters", 'Tag the cell that says profile = "paper".'
    hidden = {"hide-input", "remove-input", "hide-cell"}
    if sum("# change me" in cell.source for cell in code if not hidden & _tags(cell)) != 1:
        yield "no visible cell is there to be changed", "End one line of one visible cell in # change me."
    for cell in code:
        if "style.show(" in cell.source and not _alt(cell):
            hint = 'Head the cell with: # %% mystnb={"image": {"alt": "what the picture shows"}}'
            yield f"the figure of {cell.source.splitlines()[0][:50]!r} has no alternative text", hint


def _ending(notebook: nbformat.NotebookNode) -> Iterator[Problem]:
    """Exercises, errata and the table of claims."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    if re.findall(r"^## (.+?) *$", text, re.MULTILINE)[-len(ENDING) :] != ENDING:
        yield "the last sections are others", f"End with: {', '.join(ENDING)}."
        return
    (errata,) = [i for i, cell in enumerate(notebook.cells) if re.search("^## Errata", cell.source, re.MULTILINE)]
    (first,) = [i for i, cell in enumerate(notebook.cells) if re.search("^## Exercises", cell.source, re.MULTILINE)]
    if not notebook.cells[errata].metadata.get(MARK):
        yield "Errata stand open", f"Head the cell with: # %% [markdown] {MARK}=true"
    section = notebook.cells[first:errata]
    answers = [cell for cell in section if cell.cell_type == "code"]
    if answers != solutions(notebook) or ("code", "code") in pairwise(cell.cell_type for cell in section):
        yield (
            "code of the exercises is no solution, or stands elsewhere",
            "Let one cell tagged solution follow a question.",
        )
    asked = [number for number, _ in QUESTION.findall(text[text.index("## Exercises") : text.index("## Errata")])]
    if asked != [str(n + 1) for n in range(len(answers))] or not 3 <= len(answers) <= 5:
        yield (
            f"exercises are numbered {asked}, with {len(answers)} solutions",
            "Ask three to five: **1. Name.** Question.",
        )


def _solutions(notebook: nbformat.NotebookNode) -> Iterator[Problem]:
    for number, cell in enumerate(solutions(notebook), start=1):
        nodes = list(ast.walk(ast.parse(cell.source)))
        checks = [node.test for node in nodes if isinstance(node, ast.Assert)]
        named = [any(isinstance(node, ast.Name) for node in ast.walk(check)) for check in checks]
        if "hide-cell" not in _tags(cell) or not cell.metadata.get("mystnb", {}).items() >= PROMPTS.items():
            yield f"solution {number} is not hidden", f'Head it with: tags=["hide-cell", "solution"] mystnb={PROMPTS}'
        if any(isinstance(node, ast.Name) and node.id == "record" for node in nodes):
            yield f"solution {number} records a value", "Record it in the chapter: readers may skip solutions."
        if not checks or not all(named):
            yield f"solution {number} asserts nothing, or what cannot fail", "Assert something of a value with a name."
        if not re.search(r"#.*\w", cell.source):
            yield f"solution {number} has no comment", "Say in one why the answer is right."


def _values(ledger: Ledger, notebook: nbformat.NotebookNode) -> Iterator[Problem]:
    """What decides no claim is read by prose, and what decides one is not listed a second time."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    prose = set(re.findall(r"\{glue:text\}`([^`]+)`", text))
    for key in sorted(set(ledger.values) - prose):
        yield f"nothing reads the value {key}", f"Write {{glue:text}}`{key}`, or take it out of values:."
    for key in sorted(set(ledger.values) & ledger.decisive):
        yield f"{key} decides a claim and stands under values:, too", "Take it out there."
    for key in sorted(prose - ledger.keys):
        yield f"the text quotes {key}, which the ledger does not know", "List it under values:, with what it says."


def _rules(ledger: Ledger, root: Path) -> Iterator[Problem]:
    """References at both profiles; each number with an error; rules that are later than a run, marked."""
    for profile in PROFILES:
        if not reference_path(ledger.chapter_name, profile, root).is_file():
            hint = f"Run `iclbook check {ledger.chapter_name} --profile {profile} --update`."
            yield f"there is no reference at {profile}", hint
    try:
        reference = load_reference(ledger.chapter_name, "paper", root) or Reference({})
    except UserError as problem:
        yield problem.problem, problem.hint
        return
    for claim in ledger.claims:
        for part in claim.parts:
            name, value = f"{claim.id}, {part.full_name} ({part.key})", reference.records.get(part.key)
            numeric = value is not None and np.array(value).dtype.kind not in "bU"
            if numeric and part.with_error(reference.records).error is None:
                yield f"{name} has no error", "Record an Estimate, or say error: none, and why in because:."
            if LATE.search(part.because) and not part.late:
                yield f"{name} says that it came after a run", "Mark it with late: true."
    for change in rules_changed(ledger, reference):
        yield (
            f"{change.name}: its rule is not that of the reference",
            "Mark it with late: true, and say why in because:.",
        )


def _lists(ledger: Ledger, root: Path) -> Iterator[Problem]:
    """The places that name every chapter, and those that name every paper; a chapter of our own questions has no paper."""
    name, own = ledger.chapter_name, all(claim.is_question for claim in ledger.claims)
    if f"notebooks/{name}" not in listed_pages(root):
        yield f"_toc.yml has no notebooks/{name}", "List it among the chapters."
    for page in ("README.md", "notebooks/START.md", "book/intro.md", *([] if own else ["book/notation.md"])):
        if (path := root / page).is_file() and name not in path.read_text(encoding="utf-8"):
            yield f"{page} does not name {name}", "Enter it in the list of chapters there."
    if not own:
        entry = entries(root).get(ledger.paper)
        said = {} if entry is None else {**entry.fields, **entry.persons}
        if absent := [what for what in ("title", "year", "author") if what not in said]:
            yield (
                f"book/references.bib has no {' and no '.join(absent)} of {ledger.paper}",
                "Add it: the page cites it.",
            )
    papers = sum(not all(claim.is_question for claim in each.claims) for each in all_ledgers(root))
    for page in ("README.md", "book/intro.md", "book/notation.md"):
        text = path.read_text(encoding="utf-8") if (path := root / page).is_file() else ""
        if (said := re.search(rf"\b({'|'.join(NUMBERS)}) papers\b", text)) and said[1] != NUMBERS[papers]:
            yield f"{page} says {said[0]!r}", f"There are {NUMBERS[papers].lower()}."
    if not (root / "tests" / ledger.paper).is_dir() and (root / "tests").is_dir():
        yield f"there is no tests/{ledger.paper}", "Test each equation against sampling, enumeration or autograd."
