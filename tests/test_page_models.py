"""Models for the page: their HTML, what they take from results, and where pages show them."""

import json
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from browser import models_page
from matplotlib.figure import Figure

from iclbook import theory
from iclbook.book import borrowed
from iclbook.book.pages import HTML, problems
from iclbook.errors import UserError
from iclbook.papers.he2025 import loss
from iclbook.papers.he2025.page_models import answers, on_line, trained_heads
from iclbook.project import FIGURE, MODEL
from iclbook.sliders import PageModel
from iclbook.sliders.page_model import SHARED, markup
from iclbook.store import Results


def empty() -> Figure:
    from iclbook.drawing import style

    return style.figure()[0]


def model(data: dict, name: str = "prompt") -> PageModel:
    return PageModel(name, data, empty, "An empty picture.")


def test_numbers_arrive_as_they_are_and_nothing_ends_their_script():
    data = {"word": "</script><b>", "third": 1 / 3, "table": np.arange(4.0).reshape(2, 2), "count": np.int64(3)}
    text = markup(model(data), 'a "title" <i>', "under it & more")
    found = re.search(r'<script type="application/json">(.*?)</script>', text)[1]
    assert json.loads(found) == {"word": "</script><b>", "third": 1 / 3, "table": [[0, 1], [2, 3]], "count": 3}
    assert text.count("</script>") == 1
    assert 'aria-label="a &quot;title&quot; &lt;i&gt;"' in text
    assert 'alt="An empty picture."' in text
    assert "under it &amp; more" in text


def test_every_script_has_its_model_and_every_model_its_script():
    scripts = {path.stem for path in (models_page.ASSETS / "models").glob("*.js")} - set(SHARED)
    assert scripts == set(models_page.models())
    for name in scripts:
        assert f'iclbook.model("{name}",' in (models_page.ASSETS / "models" / f"{name}.js").read_text()


# ---- what the models take from results ---------------------------------------------------------------------------------


def circuits(mu: list[list[float]]) -> Results:
    """Two records of runs whose heads have these mu ``(R, H)``; the first record is zero."""
    mu = np.array(mu)
    runs, heads = mu.shape
    kq, ov = np.zeros((2, runs, heads, 3, 3)), np.zeros((2, runs, heads, 1, 3))
    kq[1] = np.arange(9.0).reshape(3, 3) + 10 * np.arange(runs)[:, None, None, None]
    ov[1, ..., 0, -1] = mu
    return Results({"h2/kq": kq, "h2/ov": ov}, {})


def test_the_last_record_of_the_first_run_with_heads_of_both_signs_is_shown():
    heads = trained_heads(circuits([[1.0, 2.0], [-1.0, 3.0], [4.0, -4.0]]), "h2")
    assert [head["ov"][-1] for head in heads] == [-1.0, 3.0]
    assert heads[0]["kq"].tolist() == [[10.0, 11.0], [13.0, 14.0], [16.0, 17.0]]
    one_sided = trained_heads(circuits([[1.0, 2.0], [2.0, 3.0]]), "h2")
    assert [head["ov"][-1] for head in one_sided] == [1.0, 2.0]


def test_a_matched_pair_on_a_line_answers_with_the_gradient_step():
    """A pair of heads at a small gamma on the solution manifold; the claim that the picture makes, without training."""
    d, length, noise = 5, 40, 0.1
    gamma = 0.02
    mu = float(loss.manifold_mu(gamma, d, length, noise))
    heads = [{"kq": sign * gamma * np.eye(d + 1, d), "ov": np.append(np.zeros(d), sign * mu)} for sign in (1, -1)]
    dice = np.random.default_rng(0)
    x, y = dice.normal(size=(2, length))
    queries = on_line(np.linspace(-4, 4, 9), d)
    tokens = np.concatenate([on_line(x, d), y[:, None]], axis=-1)
    eta = loss.eta_star(d, length, noise)
    steps = np.array([theory.debiased_gd(eta, tokens[:, :d], y, query) for query in queries])
    found = answers(heads, tokens, queries.T)
    assert np.abs(found - steps).max() < 0.02 * np.abs(steps).max()
    assert np.abs(answers(heads[:1], tokens, queries.T) - steps).max() > np.abs(steps).max()


# ---- where pages show them ---------------------------------------------------------------------------------------------


def executed(path: Path, name: str) -> Path:
    output = nbformat.v4.new_output(
        "display_data", {"text/html": f'<figure data-model="{name}">x</figure>'}, metadata={MODEL: {"name": name}}
    )
    cells = [nbformat.v4.new_code_cell("1", outputs=[output]), nbformat.v4.new_markdown_cell("words")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def copy_in(root: Path) -> Path:
    """Where the executed copy of a chapter ``waves`` belongs."""
    (root / "executed" / "paper").mkdir(parents=True)
    return root / "executed" / "paper" / "waves.ipynb"


def test_a_page_shows_a_chapters_model_where_it_says_so(tmp_path):
    executed(copy_in(tmp_path), "prompt")
    text = borrowed.filled(
        "before\n\n<!-- model prompt of waves -->\n\nafter", "book/a", "paper", tmp_path, tmp_path / HTML
    )
    assert text == 'before\n\n```{raw} html\n<figure data-model="prompt">x</figure>\n```\n\nafter'
    inside = "in a `<!-- model a of b -->` line"
    assert borrowed.filled(inside, "book/a", "paper", tmp_path, tmp_path / HTML) == inside


CARD = '''
from iclbook.drawing import style


def rising(numbers):
    """A line that "rises"."""
    fig, ax = style.figure(width=3.2, height=1.8)
    ax.plot([float(row["x"]) for row in numbers("waves", "a line")])
    return fig
'''


def test_a_card_is_drawn_for_both_themes_from_the_numbers_of_a_figure(tmp_path):
    data = {"image/png": "UE5H", FIGURE: {"csv": "x\n1\n2\n"}}
    cell = nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("display_data", data)])
    cell.metadata["mystnb"] = {"image": {"alt": "There is a line."}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), copy_in(tmp_path))
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "cards.py").write_text(CARD)
    text = borrowed.filled("<!-- card rising -->", "book/a", "paper", tmp_path, tmp_path / HTML)
    light, dark = sorted((tmp_path / HTML / "_figures").iterdir(), key=lambda path: len(path.name))
    assert light.read_bytes() != dark.read_bytes()
    assert re.findall(r'src="([^"]*)"', text) == [f"../_figures/{light.name}", f"../_figures/{dark.name}"]
    assert 'alt="A line that &quot;rises&quot;." width="320" height="180"' in text
    (tmp_path / "book" / "cards.py").write_text(CARD.replace("a line", "two lines"))
    with pytest.raises(UserError, match="shows no figures 'two lines'"):
        borrowed.filled("<!-- card rising -->", "book/a", "paper", tmp_path, tmp_path / HTML)


def test_a_lost_script_is_found(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "waves.html").write_text('<figure data-model="prompt">')
    assert problems(tmp_path) == [
        "book/waves.html: <script> leads to a file that is not there (../_static/models/prompt.js)"
    ]
    script = tmp_path / "_static" / "models" / "prompt.js"
    script.parent.mkdir(parents=True)
    script.write_text("")
    assert problems(tmp_path) == []
