"""Links to the repository, descriptions and previews; and the status page."""

import json
import re
from pathlib import Path

import nbformat
import pytest

from iclbook.book import status_page
from iclbook.book.build import build
from iclbook.claims.references import Reference, reference_path, write_reference
from iclbook.inputs import executed_path, input_digests, write_copy
from iclbook.numbers import duration


@pytest.mark.full
@pytest.mark.slow
def test_addresses_appear_once_they_are_set(minibook_that_ran: Path) -> None:
    config = minibook_that_ran / "_config.yml"
    text = config.read_text()
    for old, new in (
        ('url: ""\n  branch', "url: https://github.com/someone/book\n  branch"),
        ('colab_url: "" ', "colab_url: https://colab.research.google.com "),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    config.write_text(text)
    build("smoke", root=minibook_that_ran)
    html = minibook_that_ran / "_build" / "html"
    page = (html / "notebooks" / "tiny.html").read_text()
    links = set(re.findall(r'href="(https://[^"]+)"', page))
    assert "https://github.com/someone/book" in links
    assert "https://github.com/someone/book/edit/main/notebooks/tiny.py" in links
    assert "https://mybinder.org/v2/gh/someone/book/main?urlpath=lab/tree/notebooks/tiny.py" in links
    assert any(
        link.startswith("https://colab.research.google.com/github/someone/book/blob/main/notebooks/tiny")
        for link in links
    )
    assert "https://github.com/someone/book/blob/main/notebooks/tiny.py" in links or any(
        "plain=1" in link for link in links
    )
    assert any(link.startswith("https://github.com/someone/book/issues/new?") for link in links)
    (preview,) = re.findall(r'property="og:image" content="https://someone.github.io/book/([^"]*)"', page)
    assert (html / preview).is_file()
    assert 'property="og:url" content="https://someone.github.io/book/notebooks/tiny.html"' in page


def status_line(root: Path) -> list[str]:
    line = next(li for li in status_page.markdown("smoke", root).splitlines() if "notebooks/tiny.py" in li)
    return [cell.strip() for cell in line.strip("|").split("|")]


def judged_by(reference: Reference, root: Path) -> list[str]:
    """The line of the status page when the executed copy was made beside this reference."""
    write_reference(reference_path("tiny", "smoke", root), "tiny", reference)
    copy = executed_path("tiny", "smoke", root)
    notebook = nbformat.read(copy, as_version=4)
    notebook.metadata["iclbook"]["inputs"] = input_digests("tiny", "smoke", root)
    write_copy(copy, notebook)
    return status_line(root)


def test_the_status_says_when_where_and_whether(minibook_that_ran: Path) -> None:
    root = minibook_that_ran
    assert status_line(root)[-1].startswith("not compared: references")
    verdicts = {"tiny/one": "reproduced", "tiny/two": "not yet tested"}
    good = Reference({"tiny/measured": 1.004, "tiny/frames": 5}, {}, verdicts)
    chapter, ran, took, where, versions, checked = judged_by(good, root)
    assert chapter == "[A tiny document](../notebooks/tiny.py)"
    timing = json.loads(executed_path("tiny", "smoke").read_text())["metadata"]["papermill"]
    assert ran.startswith(timing["end_time"][:10])
    assert took == duration(timing["duration"])
    assert "cores" in where
    assert "torch 2." in versions
    assert checked == "all 2 values agree"
    moved = Reference({"tiny/measured": 1.003, "tiny/frames": 5}, {}, verdicts)
    assert judged_by(moved, root)[-1] == "1 of 2 values differ: tiny/measured"
    write_reference(reference_path("tiny", "smoke", root), "tiny", good)
    assert status_line(root)[-1] == "stale (changed since: reference)"
    executed_path("tiny", "smoke").unlink()
    assert status_line(root)[1:] == ["not yet", "", "", "", ""]
