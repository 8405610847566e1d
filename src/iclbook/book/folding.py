"""Sections that stay closed until a reader opens them, such as a chapter's errata.

The mark is JupyterLab's own for a collapsed heading, in the metadata of the text cell that begins with the heading, so that the notebook opens with the same
sections closed as the page. Such a section has no headings below it, and the next one begins a cell.
"""

from __future__ import annotations

import re

import nbformat

MARK = "jp-MarkdownHeadingCollapsed"
_HEADING = re.compile(r"(#+) .+")


def with_folds(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with everything below a marked heading, up to the next heading that is no deeper, in an HTML element that opens and closes."""
    cells, level = [], 0
    for cell in notebook.cells:
        heading = _HEADING.match(cell.source) if cell.cell_type == "markdown" else None
        if level and heading and len(heading[1]) <= level:
            cells.append(nbformat.v4.new_markdown_cell("</details>"))
            level = 0
        if heading and cell.metadata.get(MARK):
            level = len(heading[1])
            rest = cell.source[heading.end() :]
            opened = (
                f'{heading[0]}\n\n<details class="iclbook-fold"><summary>Show this section</summary>\n{rest}'
            )
            cell = nbformat.from_dict(cell | {"source": opened})
        cells.append(cell)
    if level:
        cells.append(nbformat.v4.new_markdown_cell("</details>"))
    notebook.cells = cells
    return notebook
