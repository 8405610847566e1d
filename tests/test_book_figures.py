"""Pictures of cells become numbered figures; the italic beginning of the text after them is the caption."""

import json
from pathlib import Path
from typing import Any

import pytest
from docutils import nodes
from docutils.utils import new_document

from iclbook.book import figures
from iclbook.book.figures import NumberedFigures
from iclbook.project import MODEL, MODEL_FIGURE, SLIDERS, VIEW

ROOT = Path(__file__).parents[1]

#: A picture as an executed copy keeps it, under the name of the file that is made of it.
PICTURE = {"csv": "a\n1\n", "origin": None}


def cell(*outputs: nodes.Node) -> nodes.container:
    return nodes.container("", nodes.container("", *outputs, classes=["cell_output"]), classes=["cell"])


def picture(name: str = "a") -> nodes.image:
    return nodes.image(uri=f"{name}.png", alt="a wave")


def text(*children: nodes.Node) -> nodes.paragraph:
    return nodes.paragraph("", "", *children)


def page(
    folder: Path, kept: dict[str, Any], *children: nodes.Node, frames: dict[str, Any] | None = None
) -> nodes.document:
    """The numbered page of a chapter whose executed copy keeps these figures."""
    document = new_document("page")
    document += nodes.section("", *children)
    turn = NumberedFigures(document)
    turn.number(kept, frames or {}, "notebooks/waves", folder)
    return document


def captions(document: nodes.document) -> list[str]:
    return [node.astext() for node in document.findall(nodes.caption)]


def test_a_caption_moves_below_its_picture_and_the_text_stays(tmp_path):
    verdict = nodes.raw("", "<div></div>", format="html")
    after = text(nodes.emphasis("", "Two waves."), nodes.Text(" They meet."))
    document = page(tmp_path, {"a": PICTURE}, cell(picture(), verdict), after)
    (figure,) = document.findall(nodes.figure)
    assert captions(document) == ["Figure 1. Two waves."]
    assert isinstance(figure.parent.children[1], nodes.raw), "the verdict stands below the caption"
    (paragraph,) = document.findall(nodes.paragraph)
    assert paragraph.astext() == "They meet."
    assert figure[0]["loading"] == "lazy"


def test_a_model_in_the_page_is_numbered_among_the_pictures(tmp_path):
    markup = f"{MODEL_FIGURE} data-model='race'><p>x</p><figcaption>Drag.</figcaption><script>1</script></figure>"
    kept = {"a": PICTURE, "race": {"origin": None}, "b": PICTURE}
    model = nodes.raw("", markup, format="html")
    document = page(tmp_path, kept, cell(picture()), cell(model), cell(picture("b")))
    assert captions(document) == ["Figure 1. ", "Figure 3. "]
    inside = next(raw.astext() for raw in document.findall(nodes.raw) if "race" in raw.astext())
    assert inside.startswith('<figure id="figure-2" class="iclbook-model"')
    assert '<figcaption><span class="caption-number">Figure 2. </span>Drag.</figcaption><script>' in inside


def test_a_slider_has_its_number_its_words_and_its_files(tmp_path):
    view = json.dumps({"version_major": 2, "model_id": "abc"})
    slider = nodes.raw("", f'<script type="{VIEW}">{view}</script>', format="html")
    unknown = nodes.raw("", f'<script type="{VIEW}">{view.replace("abc", "xyz")}</script>', format="html")
    about = {
        "title": "Waves",
        "description": "Move it.",
        "csv": "a\n1\n",
        "numbers": "Numbers of all frames",
        "origin": None,
        "start": [1],
        "frames": {"1": "sha"},
    }
    kept, frames = {"a": PICTURE, "abc": about, "b": PICTURE}, {"sha": (b"PNG", "two waves", 700, 300)}
    last = (cell(picture("b")), text(nodes.emphasis("", "Last.")))
    document = page(tmp_path, kept, cell(picture()), cell(slider), cell(unknown), *last, frames=frames)
    assert captions(document) == ["Figure 1. ", "Figure 2. Move it.", "Figure 3. Last."]
    figure = slider.parent.parent
    assert isinstance(figure[1], nodes.caption), "or the pages open a second caption in the first"
    assert figure["ids"] == ["figure-2"]
    assert (tmp_path / "_figures" / "waves-figure-2.csv").read_text() == "a\n1\n"
    below = figure[2].astext()
    assert "Numbers of all frames</a> (CSV" in below
    assert 'href="../_figures/waves-figure-2.csv"' in below
    assert 'alt="two waves" src="../_figures/waves-frame-sha.png"' in figure.astext()
    assert unknown.parent["classes"] == ["cell_output"], "a widget that is no slider of ours stays as it is"


def test_a_figure_that_a_page_lacks_is_warned_of(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(figures.logger, "warning", lambda *words, **where: said.append(words[1]))
    kept = {
        "race": {"name": "race", "title": "A race"},
        "a": PICTURE,
        "abc": {"title": "Waves"},
        "b": {"alt": "a wave"},
    }
    page(tmp_path, kept, cell(picture()))
    assert said == ["race", "Waves", "a wave"], "by what readers call them, in the page's order"


def test_an_executed_copy_keeps_figures_by_the_names_that_pages_have_for_them():
    outputs = [
        {"data": {VIEW: {"model_id": "abc"}}, "metadata": {SLIDERS: {"title": "Waves"}}},
        {"data": {"text/html": "x"}, "metadata": {MODEL: {"name": "race"}}},
    ]
    race = {"name": "race", "html": "x"}
    assert figures.kept({"cells": [{"outputs": outputs}]}) == {"abc": {"title": "Waves"}, "race": race}


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.py")), ids=lambda path: path.stem)
def test_no_line_of_a_chapters_text_begins_as_a_comment(path):
    """MyST drops a line that begins with a per cent sign, and ends the caption there."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("# %") and not line.startswith("# %%")] == []
