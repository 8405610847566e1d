"""A Jupyter Book of two pages, built in seconds with the real book's own page settings and assets."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import yaml
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]

SET_UP = """
import numpy as np
from iclbook.drawing import style
from iclbook.sliders import Slider, show
style.use()
"""
ONE = """
def wave(k):
    fig, ax = style.figure(height=2.2)
    x = np.linspace(0, 1, 200)
    ax.plot(x, np.sin(2 * np.pi * k * x), color=style.COLOURS["measured"], label="wave")
    style.paper_line(ax, 0.5, "paper: 0.5")
    ax.set(xlabel="$x$", ylabel="height", ylim=(-1.1, 1.1))
    ax.legend(loc="upper right")
    return fig
show(wave, [Slider("k", "waves k", [1, 2, 3, 5, 8], live=(0.5, 8.0, 0.1))], start={"k": 2}, title="One slider", play="k",
     description="Move the slider, or press play: every frame was drawn when the page was built.")
"""
TWO = """
def circuits(heads, step):
    heads = {"one": 1, "two": 2, "four": 4}[heads]
    signs = np.array([1, -1, 1, -1])[:heads]
    kq = [s * 0.13 * min(1, step / 60) * np.eye(6) + 0.02 * np.random.default_rng(3).normal(size=(6, 6)) for s in signs]
    ov = [np.diag([0, 0, 0, 0, 0, 7.0 * s / heads * step / 100]) for s in signs]
    fig, axes = style.figure(4, 2, height=3)
    for h, both in enumerate(zip(kq, ov)):
        for ax, matrix in zip(axes[:, h], both):
            style.heatmap(ax, matrix, title=f"head {h + 1}")
    return fig
show(circuits, [Slider("heads", "heads H", ["one", "two", "four"]), Slider("step", "training step", [0, 20, 100])],
     start={"heads": "two", "step": 20}, title="Two sliders", alt=lambda heads, step: f"Circuits of {heads} heads at step {step}.")
"""
MODEL = """
from iclbook.papers.recall2025 import stage_figures as figures
from iclbook.papers.recall2025 import stages
from iclbook.sliders import show_model
show_model(figures.race(stages.experiment()), title="A model in the page", description="Three heads race.")
"""
PLAIN = """
fig, axes = style.figure(2)
for heads in (1, 2, 4):
    axes[0].plot([10, 40, 100], [1 / heads, 0.5 / heads, 0.3 / heads], color=style.COLOURS[heads], marker=style.MARKERS[heads],
                 label=f"$H={heads}$")
axes[0].legend()
axes[0].set(xlabel="context length $L$", ylabel="error")
_ = axes[1].plot([0, 1], [0, 1], color=style.COLOURS["positive"])
"""


def build(folder: Path) -> tuple[Path, Path]:
    """Run one notebook and build it into a book under ``folder``.

    Returns:
        The folders of the pages and of the executed notebook.

    Raises:
        RuntimeError: the build failed or warned; its log is in the message.
    """
    executed = folder / "notebooks"
    executed.mkdir(parents=True)
    _notebook(executed / "waves.ipynb")
    (folder / "index.md").write_text(
        "# A tiny book\n\nA formula, $\\omega_h = \\gamma$, and no figure.\n", encoding="utf-8"
    )
    (folder / "_toc.yml").write_text(
        "format: jb-book\nroot: index\nchapters:\n- file: notebooks/waves\n", encoding="utf-8"
    )
    (folder / "_config.yml").write_text(yaml.safe_dump(_config()), encoding="utf-8")
    run = "from jupyter_book.cli.main import main; main()"  # works without the venv's bin on the PATH
    command = [sys.executable, "-c", run, "build", "-W", "-n", "--keep-going", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (folder / "_build" / "html" / "index.html").is_file():
        raise RuntimeError(f"the tiny book does not build\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return folder / "_build" / "html", executed


def _notebook(path: Path) -> None:
    cells = [nbformat.v4.new_markdown_cell("# Waves\n\nSome words before the figures, with $x^2$ in them.")]
    cells += [nbformat.v4.new_code_cell(source) for source in (SET_UP, ONE, TWO, MODEL, PLAIN)]
    cells[-1].metadata["mystnb"] = {"image": {"alt": "Error against context length."}}
    notebook = nbformat.v4.new_notebook(cells=cells)
    environment = {**os.environ, "ICLBOOK_HEADLESS": "1", "ICLBOOK_ROOT": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    NotebookClient(notebook, kernel_name="python3", timeout=None).execute(env=environment)
    nbformat.write(notebook, path)


def _config() -> dict:
    """The real book's settings for pages, without what only its own chapters need."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    sphinx = config["sphinx"]["config"]
    needless = ("iclbook", "sphinxcontrib.bibtex")
    sphinx["extensions"] = [name for name in sphinx["extensions"] if not name.startswith(needless)]
    for option in [name for name in sphinx if name.startswith("bibtex_")]:
        del sphinx[option]
    sphinx.pop("nb_custom_formats", None)
    for option in ("html_static_path", "templates_path", "html_extra_path"):
        sphinx[option] = [str(ROOT / path) for path in sphinx[option]]
    config["html"]["favicon"] = str(ROOT / config["html"]["favicon"])
    config.pop("bibtex_bibfiles", None)
    config.pop("launch_buttons")  # the book's own extension decides on them
    config["exclude_patterns"] = ["_build"]
    return config
