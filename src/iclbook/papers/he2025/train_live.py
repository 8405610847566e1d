"""The panel of :mod:`.train_in_page` where a kernel runs: the library trains, and the figure follows."""

import asyncio
import os
from typing import Any

import ipywidgets as w
import numpy as np
from IPython import get_ipython
from IPython.display import display
from matplotlib.figure import Figure

from ...sliders import LivePanel, PageModel, Slider, show_model
from ...sliders.panel import text
from ...tasks import LinearRegression
from ...training import History
from . import train_in_page as page

#: A picture at each of these steps; then every so many.
MARKS = tuple(sorted({*np.geomspace(20, 20_000, 35).astype(int).tolist(), *range(20_000, page.MOST + 1, 5_000)}))
#: Settings of a run, as :data:`.train_in_page.BEGIN` names them.
SLIDERS = (
    Slider("heads", "heads", [page.BEGIN["heads"]], live=(*page.LIMITS["heads"], 1)),
    Slider("rate", "learning rate", [page.BEGIN["rate"]], live=(*page.LIMITS["rate"], 0.01), log=True),
    Slider("scale", "initial scale", [page.BEGIN["scale"]], live=(*page.LIMITS["scale"], 0.01), log=True),
    Slider("batch", "prompts a step", page.BATCHES),
    Slider("seed", "seed", [page.BEGIN["seed"]], live=(0, page.SEEDS - 1, 1)),
    Slider("scores", "scores", tuple(page.SCALES), labels=("as printed", "as coded")),
    Slider("activation", "activation", tuple(page.ACTIVATIONS), labels=tuple(page.ACTIVATIONS.values())),
)


class TrainingPanel(LivePanel):
    """Sliders over a figure of the run so far: one that moves begins a new run; ``advance`` trains to the next picture."""

    def __init__(self, task: LinearRegression, title: str, description: str) -> None:
        self.task = task
        self.settings: dict[str, Any] = {}  # of the run, as :data:`.train_in_page.BEGIN`
        self._playing: asyncio.Task | None = None
        self._quiet = False
        super().__init__(self._run_so_far, SLIDERS, page.BEGIN, title, description)
        self.train_button = w.Button(description="Train", button_style="primary")
        again = w.Button(description="Start again")
        self.tries = w.ToggleButtons(options=[name for _, name, *_ in page.TRIES], description="Try:")
        self.about, self.says = (text(line, "iclbook-description") for line in (page.TRIES[0][3], ""))
        self.tries.observe(lambda change: self._try(change["new"]), names="value")
        self.train_button.on_click(lambda _: self.pause() if self._playing else self.play())
        again.on_click(lambda _: self._begin())
        title_line, controls, *figure = self.children
        buttons = w.HBox([self.train_button, again])
        self.children = [title_line, buttons, self.tries, self.about, controls, self.says, *figure]

    # -- the run ------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Train to the next mark and draw."""
        self.trainer.train(progress=False, until=next(step for step in MARKS if step > self.trainer.done))
        self._redraw(None)

    def play(self) -> None:
        """Train on until told to pause; between two pictures the kernel hears what the reader asks."""
        self.train_button.description = "Pause"
        self._playing = asyncio.get_event_loop().create_task(self._run())

    async def _run(self) -> None:
        while self.trainer.done < page.MOST:
            self.advance()
            await asyncio.sleep(0.02)
        self.pause()

    def pause(self) -> None:
        """Stop after the picture that is under way."""
        self.train_button.description = "Train"
        if self._playing:
            self._playing.cancel()
        self._playing = None

    def _begin(self) -> None:
        """A new run where the sliders stand."""
        self.settings = {}  # differs from every setting: :meth:`_run_so_far` makes a new trainer
        self._redraw(None)

    def _try(self, name: str) -> None:
        """One of the experiments: its settings, and play."""
        _, _, changed, about, *_ = next(one for one in page.TRIES if one[1] == name)
        self.about.value = about.format(one_head=page.loss_levels(self.task)[0]["loss"])
        self._quiet = True
        for slider, control in zip(self.sliders, self.controls, strict=True):
            control.value = (page.BEGIN | changed)[slider.name]
        self._quiet = False
        self._begin()
        if not self._playing:
            self.play()

    def history(self) -> History:
        """The records so far."""
        if not self.trainer.done:
            self.trainer.train(progress=False, until=0)
        return self.trainer.history()["page"]

    # -- the figure ---------------------------------------------------------------------------------------------------

    def _run_so_far(self, **settings: Any) -> Figure:
        """The figure; of a new run where a slider has moved."""
        if settings != self.settings:
            self.settings = settings
            self.trainer = page.trainer(self.task, settings, page.MOST, MARKS)
        return page.figure(self.task, self.history(), settings)

    def words(self, *_: Any) -> str:
        """Loss, gamma and the sum of positive mu so far, and both numbers of each head."""
        heads, loss = page.course_of_heads(self.task, self.history(), self.settings), self.history().loss[-1, 0]
        omega, mu = (np.round(of[-1, 0], 2).tolist() for of in (heads.omega, heads.mu))
        sums = f"γ {heads.gamma[-1, 0]:.3f}, sum of positive μ {heads.positive_mu[-1, 0]:.2f}"
        return f"Step {self.trainer.done:,}: loss {loss:.3f}, {sums}; ω {omega}, μ {mu}"

    def _redraw(self, change: object) -> None:
        if self._quiet:  # the controls of an experiment move one after the other
            return
        super()._redraw(change)
        self.says.value = self.words()


def show_training(model: PageModel, task: LinearRegression, n_heads: int = page.BEGIN["heads"]) -> None:
    """Show the panel of :func:`.train_in_page.train_in_page`: where a kernel answers the reader, the library trains, at first ``n_heads``; elsewhere the page."""
    if os.environ.get("ICLBOOK_HEADLESS") == "1" or get_ipython() is None:
        return show_model(model)
    description = "The library trains here, by iclbook.training. Every control begins a new run."
    panel = TrainingPanel(task, model.title, description)
    panel.controls[0].value = n_heads
    display(panel)
