"""The trainer's steps in a page, in WebAssembly in a headless Chromium, beside the plain loop and the steps in C, in turn on one core.

Run by :mod:`benchmarks.suite` as ``python -m benchmarks.in_page '{"threads": 1, ...}'``.
"""

import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .idle import tree_seconds
from .work import BATCH, RATE, Case
from .work import missing as missing_contender

LABELS = {"plain": "plain loop", "page": "in the page, WebAssembly", "compiled": "trainer, steps in C"}
#: Steps before anything is timed: the browser compiles twice, first quickly and then well.
WARM = 300


def missing(contender: str) -> str | None:
    """Why a contender cannot be measured here; ``None`` when it can."""
    if contender != "page":
        return missing_contender(contender, "cpu")
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    lacking += ["selenium"] * (importlib.util.find_spec("selenium") is None)
    return f"not installed: {', '.join(lacking)}" if lacking else None


@contextmanager
def opened() -> Iterator[Callable[[int, int], float]]:
    """A page with the model that trains: a function of heads and steps that gives their steps a second."""
    from selenium import webdriver

    from iclbook.models import Attention
    from iclbook.papers.he2025.train_in_page import train_in_page
    from iclbook.sliders.page_model import inline, markup
    from iclbook.tasks import LinearRegression
    from iclbook.training.one_run import train

    task = LinearRegression()
    model = train_in_page(task, train(Attention, task, steps=2, record=range(3), n_heads=2))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        figure = markup(model, model.title, model.description) + inline(model.name)
        page.write_text(f"<!doctype html><meta charset=utf-8><body>{figure}", encoding="utf-8")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={folder}/profile",
        ):
            options.add_argument(flag)
        driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        driver.set_script_timeout(120)
        try:
            driver.get(page.as_uri())

            def speed(heads: int, steps: int) -> float:
                took = driver.execute_async_script(
                    "const [settings, record, done] = arguments; document.querySelector('figure').iclbook.course(settings, record).then((all) => done(all[1].took));",
                    {"heads": heads, "batch": BATCH, "rate": RATE, "scores": "coded"},
                    [WARM, WARM + steps],
                )
                return 1000 * steps / took

            yield speed
        finally:
            driver.quit()


def interleaved(
    heads: int, rounds: int, seconds: float, page: Callable[[int, int], float] | None
) -> dict[str, list[float]]:
    """Steps a second of one run in every round, the contenders in turn."""
    from .contenders import build
    from .measure import suitable

    names = [name for name in LABELS if name != "page" and missing(name) is None]
    steps = {name: build(Case(name, heads, 1))[0] for name in names}
    sizes = {name: suitable(steps[name], 1, seconds) for name in names}
    if page is not None:
        sizes["page"] = max(1, round(page(heads, 100) * seconds))
    rates: dict[str, list[float]] = {name: [] for name in sizes}
    for r in range(rounds):
        for name in sizes if r % 2 == 0 else list(sizes)[::-1]:
            if name == "page":
                rates[name].append(page(heads, sizes[name]))
                continue
            start = time.perf_counter()
            steps[name](sizes[name])
            rates[name].append(sizes[name] / (time.perf_counter() - start))
    return rates


def main(text: str) -> None:
    """Do one job and print its rates as JSON."""
    job = json.loads(text)
    from .measure import pin

    pinned = pin(job["threads"])
    import torch

    torch.set_num_threads(job["threads"])
    with opened() as page:
        rates = {str(h): interleaved(h, job["rounds"], job["seconds"], page) for h in job["heads"]}
        browser_s = tree_seconds(os.getpid())
    print(json.dumps({"pinned": pinned, "rates": rates, "browser_s": browser_s}))


if __name__ == "__main__":
    main(sys.argv[1])
