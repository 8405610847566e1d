"""A chapter's head: its figure, then a line that says where the paper and its code are, how long the chapter takes to read, and what came out."""

import re
from pathlib import Path

import nbformat
from pybtex.database import Entry, parse_file

from ..claims import all_ledgers, render
from ..claims.scoreboard import Board, board
from ..project import MODEL, SLIDERS
from . import cite

#: Words that a reader takes in within a minute; a figure takes as long as :data:`FIGURE` words, a displayed formula as :data:`FORMULA`.
WORDS_A_MINUTE, FIGURE, FORMULA = 220, 60, 30


def with_summary(notebook: nbformat.NotebookNode, chapter: str, profile: str, root: Path) -> nbformat.NotebookNode:
    """The notebook with the line after its first cell, and how it is cited at its end; unchanged if the chapter has no ledger."""
    for ledger in all_ledgers(root):
        if ledger.chapter_name == chapter and notebook.cells:
            papers = {key: entry for key, entry in entries(root).items() if key == ledger.paper}
            text = markdown(board(ledger, profile, root), minutes(notebook), papers.get(ledger.paper))
            title = re.match(r"# (.+)", notebook.cells[0].source)
            end = cite.markdown(title[1] if title else chapter, chapter, root, papers)
            notebook.cells.insert(1, nbformat.v4.new_markdown_cell(text))
            notebook.cells += [nbformat.v4.new_markdown_cell(end)] if end else []
    return notebook


def with_hero(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with the figure of the cell tagged ``hero``, and its caption, after the first cell; the code stays in its place, after a link to the figure."""
    at = next((i for i, cell in enumerate(notebook.cells) if "hero" in cell.metadata.get("tags", [])), None)
    if at is None:
        return notebook
    cell, text = notebook.cells[at : at + 2]
    (shown,) = (o for o in cell.outputs if MODEL in o.metadata or "image/png" in o.get("data", {}))
    cell.outputs.remove(shown)
    metadata = {"tags": ["remove-input"], "mystnb": cell.metadata.pop("mystnb", {})}
    moved = [nbformat.v4.new_code_cell("...", metadata=metadata, outputs=[shown])]  # MyST-NB leaves out empty cells
    if caption := re.match(r"\*[^*]+\*(?=\s|$)", text.source):
        text.source = text.source[caption.end() :].lstrip()
        moved.append(nbformat.v4.new_markdown_cell(caption[0]))
    if at > 1 and notebook.cells[at - 1].cell_type == "markdown":
        notebook.cells[at - 1].source += ' (<a href="#figure-1">Figure 1</a>)'
    notebook.cells[1:1] = moved
    return notebook


def entries(root: Path) -> dict[str, Entry]:
    """The bibliography."""
    path = root / "book" / "references.bib"
    return dict(parse_file(str(path)).entries) if path.is_file() else {}


def authors(entry: Entry) -> str:
    """``He et al.``, ``Elhage and Nanda``; the empty string where none is known."""
    names = [" ".join(person.last_names).strip("{}") for person in entry.persons.get("author", ())]
    return f"{names[0]} et al." if len(names) > 2 else " and ".join(names)


def fields_of(entry: Entry) -> dict[str, str]:
    """Fields of an entry, with the address that a DOI stands for."""
    fields = dict(entry.fields)
    return ({"url": f"https://doi.org/{fields['doi']}"} if "doi" in fields else {}) | fields


def minutes(notebook: nbformat.NotebookNode) -> int:
    """Reading time of the text in minutes, code and folded parts left out; at least 1."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    text = re.sub(r"<details.*?</details>", " ", text, flags=re.DOTALL)
    formulas = len(re.findall(r"\$\$.*?\$\$", text, re.DOTALL))
    words = len(re.sub(r"\$\$.*?\$\$", " ", text, flags=re.DOTALL).split())
    pictures = sum("image" in cell.metadata.get("mystnb", {}) for cell in notebook.cells)
    return max(1, round((words + FORMULA * formulas + FIGURE * pictures) / WORDS_A_MINUTE))


def markdown(found: Board, minutes: int, entry: Entry | None) -> str:
    """The line in MyST Markdown."""
    fields = fields_of(entry) if entry is not None else {}
    items = [f"{minutes} minutes"]
    for name, text in (("url", "The paper"), ("code", "its code")):
        if name in fields:
            items.append(f"[{text}]({fields[name]})")
    for questions, what in ((False, "Claims"), (True, "Our questions")):
        if marks := render.marks(found.rows, questions):
            items.append(f"{what}: {marks}")
    return "{.iclbook-summary}\n" + " · ".join(items)


# -- sections that stay closed until a reader opens them, such as a chapter's errata -----------------------------------------

#: JupyterLab's own mark for a collapsed heading, in the metadata of the text cell that begins with it: the notebook opens with the same sections closed
#: as the page. Such a section has no headings below it, and the next one begins a cell.
MARK = "jp-MarkdownHeadingCollapsed"


def with_folds(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with everything below a marked heading, up to the next heading that is no deeper, in an HTML element that opens and closes; a first
    paragraph stays in sight."""
    cells, level = [], 0
    for at, cell in enumerate(notebook.cells):
        heading = re.match("(#+) .+", cell.source) if cell.cell_type == "markdown" else None
        if level and heading and len(heading[1]) <= level:
            cells.append(nbformat.v4.new_markdown_cell("</details>"))
            level = 0
        if heading and cell.metadata.get(MARK):
            level = len(heading[1])
            lead, _, rest = cell.source[heading.end() :].lstrip("\n").partition("\n\n")
            if not re.match("[A-Z]", lead):
                lead, rest = "", f"{lead}\n\n{rest}"
            summary = _inside(notebook.cells[at:], level)
            opened = f'{heading[0]}\n\n{lead}\n\n<details class="iclbook-fold"><summary>{summary}</summary>\n\n{rest}'
            cell = nbformat.from_dict(cell | {"source": opened})
        cells.append(cell)
    if level:
        cells.append(nbformat.v4.new_markdown_cell("</details>"))
    notebook.cells = cells
    return notebook


def _inside(cells: list[nbformat.NotebookNode], level: int) -> str:
    """What a section that begins with these cells holds: figures, claims, minutes."""
    ends = (
        i for i, c in enumerate(cells) if i and c.cell_type == "markdown" and re.match(f"#{{1,{level}}} ", c.source)
    )
    inner = cells[: next(ends, len(cells))]
    shown = [output for cell in inner for output in cell.get("outputs", [])]
    text = "".join("".join(output.get("data", {}).get("text/html", "")) for output in shown)
    figures = sum(
        "image/png" in o.get("data", {}) or bool({MODEL, SLIDERS} & set(o.get("metadata", {}))) for o in shown
    )
    counted = [
        (figures, "figure"),
        (text.count('class="iclbook-verdict"'), "claim"),
        (minutes(nbformat.v4.new_notebook(cells=inner)), "minute"),
    ]
    return "Read on: " + ", ".join(f"{count} {what}{'s' * (count > 1)}" for count, what in counted if count)
