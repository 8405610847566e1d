"""A chapter in JupyterLab, as a reader sees it in a browser: numbers, citations, boxes, formulas and folded code; opening or saving it changes no byte, and a reload keeps outputs."""

import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jupytext
import pytest
from browser import harness
from selenium.webdriver.common.keys import Keys
from waiting import wait_until

from iclbook.book import lab
from iclbook.execution import run_notebook
from iclbook.inputs import executed_path, is_stale

ROOT = Path(__file__).resolve().parents[1]
MORE = """
# %% [markdown]
# From {cite:t}`he2025` and others {cite}`agarwal2025,recall2025`, the value {glue:text}`tiny/nowhere`.
#
# :::{admonition} A box of $k$
# :class: tip
# Inside it **bold** and {glue:text}`tiny/frames`.
# :::
#
# ````{dropdown} A folded answer
# Words in the fold.
# ````
"""
SOLUTION = """
# %% tags=["hide-cell"]
solution = 1
"""


def test_values_are_those_of_the_last_run_and_none_of_a_stale_one(minibook_that_ran: Path) -> None:
    assert lab.values("tiny", minibook_that_ran) == {"tiny/measured": "1.00", "tiny/frames": "5"}
    ledger = minibook_that_ran / "src/iclbook/papers/tiny/claims.yaml"
    ledger.write_text(ledger.read_text() + "another: ledger\n")
    assert lab.values("tiny", minibook_that_ran) == {}
    executed_path("tiny", "smoke").unlink()
    assert lab.values("tiny", minibook_that_ran) == {}


def test_citations_name_authors_year_and_address() -> None:
    found = lab.citations(ROOT)
    assert found["he2025"]["authors"] == "He et al."
    assert found["he2025"]["url"].startswith("https://arxiv.org/")
    assert found["agarwal2025"]["title"].endswith("Sculpts Bayesian Manifolds")
    assert found["recall2025"] | {"title": ""} == {"authors": "Anonymous", "year": "2025", "title": ""}


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.py")), ids=lambda path: path.stem)
def test_saving_a_chapter_changes_no_byte(path: Path) -> None:
    config = jupytext.config.load_jupytext_config(str(path))
    notebook = jupytext.read(path, config=config)
    notebook.metadata["language_info"] = {"name": "python", "version": "3.11.7"}  # JupyterLab adds it
    for option in ("notebook_metadata_filter", "cell_metadata_filter"):
        notebook.metadata["jupytext"][option] = getattr(config, option)
    assert jupytext.writes(notebook, "py:percent", config=config) == path.read_text()


def test_a_reload_keeps_outputs(minibook: Path) -> None:
    shutil.copy(ROOT / "jupytext.toml", minibook)
    chapter = minibook / "notebooks" / "tiny.py"
    before = chapter.read_bytes()
    manager = jupytext.TextFileContentsManager(root_dir=str(minibook))
    opened = manager.get("notebooks/tiny.py")
    cell = next(cell for cell in opened["content"]["cells"] if cell["cell_type"] == "code")
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "shown"}]
    manager.save(opened, "notebooks/tiny.py")
    again = jupytext.TextFileContentsManager(root_dir=str(minibook)).get("notebooks/tiny.py")
    assert [cell["outputs"][0]["text"] for cell in again["content"]["cells"] if cell.get("outputs")] == ["shown"]
    assert chapter.read_bytes() == before


@pytest.fixture
def session(minibook_that_ran: Path) -> Iterator[tuple[Path, str]]:
    """JupyterLab in a miniature book with a solution and more prose: the book's folder, and the address of its chapter."""
    root = minibook_that_ran
    chapter = root / "notebooks" / "tiny.py"
    chapter.write_text(chapter.read_text().rstrip("\n") + "\n" + SOLUTION)
    run_notebook("tiny", "smoke", "cpu", root=root)
    chapter.write_text(chapter.read_text() + MORE)
    shutil.copy(ROOT / "jupytext.toml", root)
    assert is_stale("tiny", "smoke") == "changed since: prose"
    folder = lab.prepare(root)
    stored = folder / "labextensions" / "iclbook" / "static" / "values.json"
    stored.write_text(stored.read_text().replace('"tiny/frames"', '"tiny/forgotten"'))
    with served(root, folder) as address:
        yield root, f"{address}/tiny.py?token=tiny"


@contextmanager
def served(root: Path, folder: Path) -> Iterator[str]:
    """JupyterLab in a book: the address of its folder of notebooks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    argv, env = lab.command(root, folder, ["--no-browser", f"--port={port}", "--IdentityProvider.token=tiny"])
    home = dict.fromkeys(("HOME", "JUPYTER_CONFIG_DIR"), str(root / "home")) | {
        "JUPYTER_RUNTIME_DIR": str(root / "run")
    }
    with (root / "lab.log").open("w") as said:
        server = subprocess.Popen(argv, env=env | home, cwd=root, stdout=said, stderr=said)
    try:
        wait_until(
            lambda: server.poll() is not None or answers(f"{address}/api?token=tiny"), (root / "lab.log").read_text
        )
        yield f"{address}/lab/tree/notebooks"
    finally:
        server.terminate()
        server.wait()


def answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address).close()
    except OSError:
        return False
    return True


IDLE = "document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'"


@pytest.mark.browser
def test_a_chapter_reads_well_and_is_not_changed(session: tuple[Path, str]) -> None:
    harness.require()
    root, address = session
    chapter = root / "notebooks" / "tiny.py"
    before = chapter.read_bytes()
    browser = harness.Browser()
    try:
        browser.resize(harness.WIDE)
        browser.driver.get(address)
        browser._wait("document.querySelectorAll('.iclbook-value').length >= 4")
        browser._wait("document.querySelector('.jp-InputPlaceholder')")
        text = " ".join(browser._run("return document.querySelector('.jp-Notebook').innerText").split())
        assert "We measured 1.00." in text
        assert "of (not run) frames:" in text
        assert "From He et al. (2025) and others [Agarwal et al., 2025; Anonymous, 2025], the value (not run)." in text
        assert not any(raw in text for raw in ("{glue", "{cite", ":::"))
        link = "return document.querySelector('a.iclbook-cite').href"
        assert browser._run(link) == "https://arxiv.org/abs/2503.12734"
        boxed = browser._run("return document.querySelector('div.iclbook-box').innerText")
        assert "Inside it bold and (not run)." in boxed
        assert not browser._run("return document.querySelector('details.iclbook-box').open")
        browser._wait("document.querySelector('div.iclbook-box mjx-container')")
        folded = browser._run(
            "return [...document.querySelectorAll('.jp-CodeCell')].map("
            "c => c.querySelector('.jp-InputPlaceholder') !== null)"
        )
        assert folded == [False, False, True, False, False, True], "cells tagged hide-input or hide-cell, and no others"
        browser._wait(IDLE)  # the kernel has started and written its language into the open notebook
        assert chapter.read_bytes() == before
        browser.driver.find_element("css selector", ".jp-Notebook").send_keys(Keys.CONTROL, "s")
        wait_until(lambda: "Saving file at" in (root / "lab.log").read_text())
        browser._wait("!document.querySelector('.jp-mod-dirty')")
        assert chapter.read_bytes() == before
        notebook = browser.driver.find_element("css selector", ".jp-Notebook")
        for _ in range(6):  # run the cells; what they record comes into the text
            notebook.send_keys(Keys.SHIFT, Keys.ENTER)
        browser._wait("document.querySelector('.jp-Notebook').innerText.includes('of 5 frames:')")
        assert chapter.read_bytes() == before
        browser._collect()
        strangers = [url for url in browser.requests if not harness.is_local(url) and not url.startswith("ws://127")]
        assert strangers == []
    finally:
        browser.close()
