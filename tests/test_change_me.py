"""The visible cell of each chapter that a reader changes: another number gives another picture, a wrong one a line that says what to give; and chapters as scripts."""

import os
import subprocess
import sys
from pathlib import Path

import jupytext
import matplotlib.pyplot as plt
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

from iclbook.drawing import style
from iclbook.drawing.figure_output import pixels
from iclbook.errors import UserError
from iclbook.models import Attention
from iclbook.sliders import PageModel, show_model
from iclbook.tasks import LinearRegression
from iclbook.training.one_run import train

ROOT = Path(__file__).resolve().parents[1]
#: Of each chapter what a reader changes: as it is, another choice, and one that cannot be.
CHANGES = {
    "linear_regression": ("n_heads = 2", "n_heads = 3", "n_heads = 0"),
    "attention_gradients": ("faster = 10", "faster = 3", None),
    "associative_recall": ("n_heads = 3", "n_heads = 1", "n_heads = 0"),
    "categorical_data": ("blocks = (1, 4)", "blocks = (2,)", "blocks = (0,)"),
    "gradient_descent": ("n_heads = 1", "n_heads = 3", "n_heads = 0"),
    "crossing": ("factors, sizes = (2, 3, 4)", "factors, sizes = (2, 5)", "factors, sizes = (0, 2)"),
}


def visible_cells(chapter: str) -> list[str]:
    """The chapter's imports, and its visible code up to the cell that says "change me"."""
    cells = [cell for cell in jupytext.read(ROOT / f"notebooks/{chapter}.py").cells if cell.cell_type == "code"]
    hidden = {"hide-input", "remove-input", "hide-cell"}
    shown = [cell.source for cell in cells[2:] if not hidden & {*cell.metadata.get("tags", ())}]
    (last,) = (i for i, source in enumerate(shown) if "# change me" in source)
    imports = cells[1].source.partition("\nruns = ")[0]  # without trainings
    return [cells[0].source.replace("paper", "smoke"), imports, *shown[: last + 1]]


def run(sources: list[str], monkeypatch) -> list[np.ndarray]:
    """The pictures that these cells show."""
    pictures = []
    plt.close("all")

    def show(*_, **__):
        pictures.extend(pixels(plt.figure(number), 50) for number in plt.get_fignums())
        plt.close("all")

    monkeypatch.setattr(style, "show", show)
    names = {"__name__": "__main__"}
    for source in sources:
        exec(compile(source, "<cell>", "exec"), names)
    return pictures


@pytest.mark.parametrize("chapter", CHANGES)
def test_another_number_gives_another_picture_and_a_wrong_one_a_line(chapter, monkeypatch):
    before, after, wrong = CHANGES[chapter]
    *first, last = visible_cells(chapter)
    assert last.count(before) == 1
    found = [run([*first, last.replace(before, change)], monkeypatch) for change in (before, after)]
    assert len(found[0]) == len(found[1]) > 0
    assert not np.array_equal(found[0][-1], found[1][-1])
    if wrong:
        with pytest.raises((UserError, AssertionError), match=r"[Gg]ive ") as caught:
            run([*first, last.replace(before, wrong)], monkeypatch)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"n_heads": 0}, "n_heads is 0. Give at least 1."),
        ({"n_heads": 2, "steps": 0}, "steps is 0. Give at least 1."),
        ({"n_heads": 2, "d": 7}, "Attention has d = 7, and the task has 5. Leave out d, or change the task."),
        ({"heads": 2}, "Attention has no 'heads'. Did you mean 'n_heads'?"),
    ],
)
def test_a_wrong_size_is_one_line_in_a_notebook(sizes, says):
    with pytest.raises(UserError) as caught:
        train(Attention, LinearRegression(), **{"steps": 5} | sizes)
    assert str(caught.value) == says
    shell = InteractiveShell()
    shell._showtraceback = lambda kind, value, lines: shown.extend(lines)
    shown: list[str] = []
    shell.showtraceback((UserError, caught.value, caught.tb))
    assert shown == [f"error: {says}"]


def test_one_run_is_that_of_the_trainer_and_tells_of_itself_in_a_line():
    task = LinearRegression()
    history = train(Attention, task, n_heads=2, steps=30, seed=3)
    assert repr(history).startswith("Attention: loss ")
    assert "\n" not in repr(history)
    assert np.isnan(history.loss[0, 0])
    KQ, OV = history.model.circuits().values()
    assert np.allclose(KQ, history.circuits["kq"][-1, 0])
    assert np.allclose(OV, history.circuits["ov"][-1, 0])


def test_a_chapter_run_as_a_program_prints_its_verdicts(tmp_path):
    root = ROOT / "tests/fixtures/minibook"
    env = {**os.environ, "ICLBOOK_ROOT": str(root), "PYTHONPATH": str(ROOT / "src")}
    program = (root / "notebooks/tiny.py").read_text().replace("paper", "smoke")
    (tmp_path / "tiny.py").write_text(program)
    ran = subprocess.run([sys.executable, tmp_path / "tiny.py"], env=env, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "holds      one  one is one" in ran.stdout
    assert "untested   two  nobody has looked" in ran.stdout
    assert "<" not in ran.stdout
    assert "Warning" not in ran.stderr


def test_a_model_of_the_page_is_one_line_of_a_program(capsys):
    show_model(PageModel("train", {}, lambda: None, ""), "Train it")
    assert capsys.readouterr().out == "[model in the page: Train it]\n"
