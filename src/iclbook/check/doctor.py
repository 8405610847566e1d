"""What every chapter must have beside claims that are judged, each rule with its hint: ``iclbook doctor KEY``. No cell is run."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import nbformat
import numpy as np

from ..book.chapter_head import MARK, entries
from ..claims import Ledger, all_ledgers
from ..claims.references import PROBED, Reference, load_reference, reference_path
from ..errors import UserError, nearest, one_line
from ..inputs import PROSE_ONLY, executed_path, is_stale, listed_pages, read_source
from ..project import FIGURE, PROFILES
from ..where import studies_of
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
    found = [*_names(notebook), *_cells(notebook), *_ending(notebook), *_solutions(notebook)]
    found += [*_values(ledger, notebook), *_rules(ledger, root), *_lists(ledger, root)]
    found += [*_left_over(ledger, root), *_format(ledger, root)]
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


def _names(notebook: nbformat.NotebookNode) -> Iterator[Problem]:
    """Names that the chapter takes from the library and that no module has. Modules are imported, as readers import them."""
    nodes: list[ast.AST] = []
    for cell in notebook.cells:
        try:
            nodes += ast.walk(ast.parse(cell.source)) if cell.cell_type == "code" else ()
        except SyntaxError as problem:
            yield f"the cell {cell.source[:50]!r} is no Python ({problem.msg})", "Correct it."
    taken: dict[str, object] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "iclbook":
            try:
                exec(compile(ast.Module([node], []), "chapter", "exec"), taken)
            except Exception as problem:
                what = f"{ast.unparse(node)[:80]!r} fails: {one_line(problem)[:200].rstrip('.')}"
                yield what, "Correct the name here, or in its module."
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    used = {
        (node.value.id, node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in stored
    }
    for name, attribute in sorted(used):
        module = taken.get(name)
        if isinstance(module, ModuleType) and not hasattr(module, attribute):
            hint = nearest(attribute, dir(module)) or "Correct the name, or write it there."
            yield f"{module.__name__} has no {attribute}", hint


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
        try:
            nodes = list(ast.walk(ast.parse(cell.source)))
        except SyntaxError:
            continue
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
    """References of today's keys at both profiles; each number with an error; rules that are later than a run, marked."""
    reference = Reference({})
    ids = {claim.id for claim in ledger.claims}
    for profile in PROFILES:
        hint = f"Run `iclbook check {ledger.chapter_name} --profile {profile} --update`."
        if not reference_path(ledger.chapter_name, profile, root).is_file():
            yield f"there is no reference at {profile}", hint
            continue
        try:
            reference = load_reference(ledger.chapter_name, profile, root) or reference
        except UserError as problem:
            yield problem.problem, problem.hint
            return
        if unknown := sorted({*reference.records} - ledger.keys) + sorted({*reference.verdicts} - ids):
            yield f"the reference at {profile} has {unknown[0]}, which the ledger does not know", hint
    for claim in ledger.claims:
        absent = {key for part in claim.parts for key in part.keys if key not in reference.records}
        for key in sorted(absent) if reference.records and claim.out_of_reach is None else []:
            if not key.startswith(PROBED):
                hint = f"{nearest(key, reference.records)} Correct the key, or record it.".lstrip()
                yield f"{claim.id} rests on {key}, which is not recorded", hint
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
        column = re.sub(r"\d+\w*$", "", ledger.paper).capitalize()
        text = path.read_text(encoding="utf-8") if (path := root / "book/notation.md").is_file() else ""
        tables = re.findall(r"\{\.notation\}\n(.+)", text)
        if lacking := sum(f"| {column} |" not in header for header in tables):
            yield f"{lacking} tables of book/notation.md have no column {column}", "Say there what each letter is."
        entry = entries(root).get(ledger.paper)
        said = {} if entry is None else {**entry.fields, **entry.persons}
        if absent := [what for what in ("title", "year", "author") if what not in said]:
            yield (
                f"book/references.bib has no {' and no '.join(absent)} of {ledger.paper}",
                "Add it: the page cites it.",
            )
    found = root / "book" / "found.md"
    if found.is_file() and f"{{{{ verdict {ledger.paper}/" not in found.read_text(encoding="utf-8"):
        hint = f"Write what was found, with its verdict: {{{{ verdict {ledger.paper}/...: ... }}}}."
        yield f"book/found.md says nothing of {ledger.paper}", hint
    papers = sum(not all(claim.is_question for claim in each.claims) for each in all_ledgers(root))
    for page in ("README.md", "book/intro.md", "book/notation.md"):
        text = path.read_text(encoding="utf-8") if (path := root / page).is_file() else ""
        if (said := re.search(rf"\b({'|'.join(NUMBERS)}) papers\b", text)) and said[1] != NUMBERS[papers]:
            yield f"{page} says {said[0]!r}", f"There are {NUMBERS[papers].lower()}."
    if not (root / "tests" / ledger.paper).is_dir() and (root / "tests").is_dir():
        yield f"there is no tests/{ledger.paper}", "Test each equation against sampling, enumeration or autograd."


#: What `iclbook new` leaves to be written.
SKELETON = (
    "What does it ask?",
    "Say first what happens, then why.",
    "Say in one paragraph what follows, and what is open.",
    "Slips of the paper that the story does not need:",
    "An example that holds: replace it",
    "What is left open?",
)


def _left_over(ledger: Ledger, root: Path) -> Iterator[Problem]:
    """Sentences of the skeleton, and stored results that no study has any more."""
    for path in (root / ledger.chapter, ledger.path, root / "book" / "intro.md"):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if path.name == "intro.md":
            text = "\n".join(line for line in text.splitlines() if ledger.chapter in line)
        for sentence in SKELETON:
            if sentence in text:
                yield f"{path.relative_to(root)} still says {sentence!r}", "Write it for this paper."
    stored = [path for profile in PROFILES for path in (root / "results" / ledger.paper / profile).glob("*.json")]
    studies = studies_of(ledger.paper) if stored else None
    for path in sorted(stored):
        if studies is None or path.stem not in studies(path.parent.name):
            yield f"no study has the results {path.relative_to(root)}", "Delete the file and the folder of this name."


def _format(ledger: Ledger, root: Path) -> Iterator[Problem]:
    """Places that `ruff format` would change, where ruff is installed."""
    places = [root / ledger.chapter, ledger.path.parent, root / "tests" / ledger.paper]
    for place in filter(Path.exists, places) if find_spec("ruff") else ():
        command = [sys.executable, "-m", "ruff", "format", "--check", "--quiet", place]
        if subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 1:
            yield f"{place.relative_to(root)} is not formatted", "Run `ruff format .`."
