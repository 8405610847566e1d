"""What every chapter must have: the book's own have it, and each fault that is planted in a copy is named with a hint."""

import shutil
from pathlib import Path

import nbformat
import pytest

from iclbook.check.doctor import executed, problems
from iclbook.claims import all_ledgers, load_ledger
from iclbook.project import FIGURE
from iclbook.where import studies_of

ROOT = Path(__file__).resolve().parents[1]
KEY, NAME = "recall2025", "associative_recall"
CHAPTER, LEDGER = f"notebooks/{NAME}.py", f"src/iclbook/papers/{KEY}/claims.yaml"


@pytest.mark.parametrize("ledger", all_ledgers(ROOT), ids=lambda found: found.paper)
def test_nothing_is_missing_in_the_book(ledger):
    assert problems(ledger, ROOT) == []


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of a book."""
    root = tmp_path_factory.mktemp("doctor")
    lists = ["README.md", "_toc.yml", "lock.txt", "pyproject.toml"]
    lists += [f"book/{name}" for name in ("intro.md", "notation.md", "found.md", "references.bib")]
    ledgers = [path.relative_to(ROOT) for path in ROOT.glob("src/iclbook/papers/*/claims.yaml")]
    notebooks = [path.relative_to(ROOT) for path in (ROOT / "notebooks").iterdir() if path.is_file()]
    references = [f"references/{profile}/{NAME}.json" for profile in ("smoke", "paper")]
    for name in (*lists, *ledgers, *notebooks, *references):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "tests" / KEY).mkdir(parents=True)
    return root


SOLUTION = '["hide-cell", "solution"]'
#: File, what stands there, what stands in its place, and what is said of it.
FAULTS = {
    "no parameters": (CHAPTER, '"parameters"', '"hide-input"', "one cell tagged parameters"),
    "nothing to change": (CHAPTER, "# change me", "", "visible cell"),
    "picture without words": (CHAPTER, '"alt": ', '"alt_": ', "no alternative text"),
    "other ending": (CHAPTER, "## What to take away", "## Summary", "the last sections"),
    "open errata": (CHAPTER, "jp-MarkdownHeadingCollapsed=true\n# ## Errata", "\n# ## Errata", "Errata stand open"),
    "exercise without number": (CHAPTER, "**2. ", "**", "exercises are numbered"),
    "solution that is none": (CHAPTER, SOLUTION, '["hide-cell"]', "is no solution"),
    "solution in sight": (CHAPTER, SOLUTION, '["solution"]', "is not hidden"),
    "value in prose alone": (CHAPTER, "{glue:text}`", "{glue:text}`un", "which the ledger does not know"),
    "value that nobody reads": (LEDGER, "\nvalues:\n", "\nvalues:\n  idle: {says: nothing}\n", "nothing reads the value idle"),
    "late word": (LEDGER, 'because: "', 'because: "added after the run, ', "came after a run"),
    "changed rule": (LEDGER, 'rule: "<= ', 'rule: "<= 1', "not that of the reference"),
    "not in the contents": ("_toc.yml", f"notebooks/{NAME}", "notebooks/START", "_toc.yml has no"),
    "not in the table": ("README.md", f"`{NAME}`", "``", "README.md does not name"),
    "number of papers": ("README.md", "Five papers", "Four papers", "says 'Four papers'"),
    "no entry": ("book/references.bib", f"{{{KEY},", "{other,", "no title and no year and no author"),
    "no question": ("book/intro.md", "Why does learning proceed in steps?", "What does it ask?", "What does it ask?"),
    "no column": ("book/notation.md", "| Recall |", "| Memory |", "3 tables of book/notation.md have no column Recall"),
    "no finding": ("book/found.md", f"{{{{ verdict {KEY}/", "{{ verdict other/", "found.md says nothing"),
    "skeleton": (CHAPTER, "# ## Errata", "# Slips of the paper that the story does not need:\n#\n# ## Errata", "still says 'Slips"),
    "no such function": (CHAPTER, "style.name_ends", "style.name_end", "iclbook.drawing.style has no name_end"),
    "no Python": (CHAPTER, "import numpy as np", "import numpy as", "is no Python"),
    "no such import": (CHAPTER, "import Population,", "import Populations,", "cannot import name 'Populations'"),
    "typing slip in a key": (LEDGER, "key: fig2/length", "key: fig2/lenght", "rests on fig2/lenght, which is not recorded"),
    "reference of the skeleton": (f"references/smoke/{NAME}.json", '"fig2/length"', '"fig1/apart"', "smoke has fig1/apart"),
    "formatting": (CHAPTER, "import numpy as np", "import  numpy as np", f"{CHAPTER} is not formatted"),
    "no reference": (f"references/smoke/{NAME}.json", None, None, "no reference at smoke"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named_with_a_hint(name, copy):
    where, old, new, says = FAULTS[name]
    path = copy / where
    text = path.read_text()
    assert old is None or old in text
    try:
        path.unlink() if old is None else path.write_text(text.replace(old, new))
        found = problems(load_ledger(KEY, copy), copy)
    finally:
        path.write_text(text)
    assert any(says in problem and hint for problem, hint in found), found


def test_results_that_no_study_has_are_named(copy):
    folder = copy / "results" / KEY / "paper"
    folder.mkdir(parents=True)
    for name in ("gone", "census"):
        (folder / f"{name}.json").touch()
    assert "census" in studies_of(KEY)("paper")
    found = [problem for problem, _ in problems(load_ledger(KEY, copy), copy)]
    shutil.rmtree(copy / "results")
    assert found == [f"no study has the results results/{KEY}/paper/gone.json"]


def test_faults_of_an_executed_copy_are_named():
    """A solution that shows nothing, and a figure that says its own fault."""
    silent = nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["solution"]})
    drawn = nbformat.v4.new_output("display_data", {FIGURE: {"faults": ["a word is cut"]}})
    cut = nbformat.v4.new_code_cell("plot()", outputs=[drawn])
    found = [problem for problem, _ in executed(nbformat.v4.new_notebook(cells=[silent, cut]))]
    assert found == ["solution 1 shows nothing", "figure: a word is cut"]
