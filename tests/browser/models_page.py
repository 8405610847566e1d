"""A page with the models of the book, from weights drawn at random, on the book's own scripts: what answers there can be compared with the library."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from iclbook.models import Attention
from iclbook.models.functional_gd import FunctionalGD
from iclbook.papers.crossing.waits_in_page import train_waits, waiting_time
from iclbook.papers.he2025 import page_models as he2025
from iclbook.papers.he2025.train_in_page import BEGIN, train_in_page
from iclbook.papers.recall2025 import stage_figures as recall2025
from iclbook.papers.recall2025 import stages
from iclbook.papers.wang2025 import sliders as wang2025
from iclbook.sliders import PageModel
from iclbook.sliders.page_model import markup
from iclbook.store import Results
from iclbook.tasks import LinearRegression
from iclbook.training.one_run import train

from .harness import Browser

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "book" / "assets"
TASK = LinearRegression()
POPULATION = stages.experiment()
TITLES = {
    "prompt": "Heads",
    "reduced_flow": "Flow",
    "recall_race": "Race",
    "label_square": "Square",
    "waiting_time": "Wait",
    "train": "Train",
    "train_waits": "Waits of training",
}


@cache
def attention(n_heads: int) -> Attention:
    """A model with random weights, float64."""
    model = Attention(TASK.d, n_heads)
    model.initialise(torch.Generator().manual_seed(n_heads), 2.0)
    return model.double().requires_grad_(False)


@cache
def descent() -> FunctionalGD:
    """One block with random embeddings, steps and precision, float64."""
    model = FunctionalGD(20, 5, 1, "softmax", vector_rate=True)
    model.initialise(torch.Generator().manual_seed(5))
    with torch.no_grad():
        model.rate.uniform_(0.4, 1.2, generator=torch.Generator().manual_seed(6))
        model.log_gamma.fill_(1.3)
    return model.double().requires_grad_(False)


def regression_results() -> Results:
    """Circuits of one run a group, as training would leave them."""
    arrays = {"h1/steps": np.zeros(1)}
    for h in (1, 2):
        for name, circuit in attention(h).circuits().items():
            arrays[f"h{h}/{name}"] = circuit.numpy()[None, None]
    return Results(arrays, {})


def categorical_results() -> Results:
    """Parameters and scores of one run."""
    found = {f"gd/{name}": value.numpy()[None, None] for name, value in descent().state_dict().items()}
    scores = ("nll_validation", "nll_test", "accuracy_test")
    return Results(found | {f"gd/{name}": np.ones((1, 1)) for name in scores} | {"gd/steps": np.ones(1)}, {})


@cache
def models() -> dict[str, PageModel]:
    """The models by name."""
    made = (
        he2025.prompt(regression_results(), TASK),
        he2025.reduced_flow(TASK.d, TASK.L, TASK.noise_var),
        recall2025.race(POPULATION),
        wang2025.label_square(categorical_results()),
        waiting_time(),
        train_in_page(TASK, train(Attention, TASK, 100, BEGIN["seed"], BEGIN["rate"], record=range(101), n_heads=2)),
        train_waits(TASK),
    )
    return {model.name: model for model in made}


def write(folder: Path, change: tuple[str, str, str] | None = None) -> Path:
    """The page, its scripts beside it; ``change`` = (script, text, other text) breaks a script on purpose.

    Raises:
        ValueError: the text to change does not stand there exactly once.
    """
    shutil.copytree(ASSETS / "models", folder / "models")
    shutil.copy(ASSETS / "models.css", folder)
    if change is not None:
        script, old, new = change
        path = folder / "models" / script
        text = path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(f"{script} holds {old!r} {text.count(old)} times")
        path.write_text(text.replace(old, new), encoding="utf-8")
    figures = "".join(markup(model, TITLES[name], "Words under it. </script>") for name, model in models().items())
    page = folder / "index.html"
    page.write_text(
        '<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8"><title>Models</title>'
        '<link rel="stylesheet" href="models.css"><script src="models/numbers.js"></script><script src="models/kit.js"></script></head>'
        f"<body><main>{figures}</main></body></html>",
        encoding="utf-8",
    )
    return page


@dataclass(frozen=True)
class Running:
    """A model on an open page."""

    browser: Browser
    name: str

    def js(self, expression: str, *arguments):
        """The value of an expression in which ``m`` is the model and ``a`` the arguments."""
        script = (
            f"const m = document.querySelector('figure[data-model={self.name}]').iclbook;"
            f"const a = [...arguments].map((text) => JSON.parse(text)); return {expression};"
        )
        return self.browser.driver.execute_script(script, *(json.dumps(_lists(a)) for a in arguments))

    def find(self, selector: str) -> Sequence:
        """Elements of its figure."""
        return self.browser.driver.find_elements("css selector", f"figure[data-model={self.name}] {selector}")

    def picture(self) -> str:
        """Everything that is drawn now; waits for the next picture."""
        return self.browser.driver.execute_async_script(
            "const [name, done] = arguments; const figure = document.querySelector(`figure[data-model=${name}]`);"
            "requestAnimationFrame(() => requestAnimationFrame(() => done([...figure.querySelectorAll('.iclbook-live svg')]"
            ".map((s) => s.outerHTML).join('') + [...figure.querySelectorAll('canvas')].map((c) => c.toDataURL()).join(''))));",
            self.name,
        )


def _lists(value):
    return value.tolist() if isinstance(value, np.ndarray) else value
