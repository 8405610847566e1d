"""Pictures of cells become numbered figures; the italic beginning of the text after them is the caption."""

import json
from types import SimpleNamespace

from docutils import nodes
from docutils.utils import new_document

from iclbook.book.figures import NumberedFigures
from iclbook.project import MODEL_FIGURE, SLIDERS, VIEW


def cell(*outputs: nodes.Node) -> nodes.container:
    return nodes.container("", nodes.container("", *outputs, classes=["cell_output"]), classes=["cell"])


def picture() -> nodes.image:
    return nodes.image(uri="a.png", alt="a wave")


def text(*children: nodes.Node) -> nodes.paragraph:
    return nodes.paragraph("", "", *children)


def page(*children: nodes.Node) -> nodes.document:
    document = new_document("page")
    document += nodes.section("", *children)
    NumberedFigures(document).apply()
    return document


def captions(document: nodes.document) -> list[str]:
    return [node.astext() for node in document.findall(nodes.caption)]


def test_a_caption_moves_below_its_picture_and_the_text_stays():
    verdict = nodes.raw("", "<div></div>", format="html")
    document = page(cell(picture(), verdict), text(nodes.emphasis("", "Two waves."), nodes.Text(" They meet.")))
    (figure,) = document.findall(nodes.figure)
    assert captions(document) == ["Figure 1. Two waves."]
    assert isinstance(figure.parent.children[1], nodes.raw), "the verdict stands below the caption"
    (paragraph,) = document.findall(nodes.paragraph)
    assert paragraph.astext() == "They meet."
    assert figure[0]["loading"] == "lazy"


def test_a_model_in_the_page_is_numbered_among_the_pictures():
    markup = f"{MODEL_FIGURE} data-model='race'><p>x</p><figcaption>Drag.</figcaption><script>1</script></figure>"
    document = page(
        cell(picture()),
        cell(nodes.raw("", markup, format="html")),
        cell(picture()),
        nodes.raw("", markup, format="html"),
    )
    assert captions(document) == ["Figure 1. ", "Figure 3. "]
    inside, outside = (raw.astext() for raw in document.findall(nodes.raw))
    assert inside.startswith('<figure id="figure-2" class="iclbook-model"')
    assert '<figcaption><span class="caption-number">Figure 2. </span>Drag.</figcaption><script>' in inside
    assert outside == markup, "a page that borrows a chapter's model does not count its figures"


def test_a_slider_has_its_number_its_words_and_its_files(tmp_path, monkeypatch):
    view = json.dumps({"version_major": 2, "model_id": "abc"})
    slider = nodes.raw("", f'<script type="{VIEW}">{view}</script>', format="html")
    unknown = nodes.raw("", f'<script type="{VIEW}">{view.replace("abc", "xyz")}</script>', format="html")
    kept = {
        "title": "Waves",
        "description": "Move it.",
        "csv": "a\n1\n",
        "numbers": "Numbers of all frames",
        "origin": None,
    }
    output = {"metadata": {SLIDERS: kept}, "data": {VIEW: {"model_id": "abc"}}}
    document = new_document("page")
    document += nodes.section(
        "", cell(picture()), cell(slider), cell(unknown), cell(picture()), text(nodes.emphasis("", "Last."))
    )
    turn = NumberedFigures(document)
    monkeypatch.setattr(NumberedFigures, "app", SimpleNamespace(outdir=str(tmp_path)))
    turn._executed = lambda: ("notebooks/waves", {"cells": [{"outputs": [output]}], "metadata": {}})
    turn.run()
    assert captions(document) == ["Figure 1. ", "Figure 2. Move it.", "Figure 3. Last."]
    figure = slider.parent.parent
    assert isinstance(figure[1], nodes.caption), "or the pages open a second caption in the first"
    assert figure["ids"] == ["figure-2"]
    assert (tmp_path / "_figures" / "waves-figure-2.csv").read_text() == "a\n1\n"
    (below,) = figure.findall(nodes.legend)
    assert "Numbers of all frames</a> (CSV" in below.astext()
    assert 'href="../_figures/waves-figure-2.csv"' in below.astext()
    assert unknown.parent["classes"] == ["cell_output"], "a widget that is no slider of ours stays as it is"
