"""The panel of :mod:`.train_in_page` where a kernel runs: the library trains, and the figure follows."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import ipywidgets as w
import numpy as np
from IPython.display import display

from ...sliders import PageModel, show_model
from ...sliders.panel import Frame, draw, lay_out, picture, picture_html, png_of, text
from ...tasks import LinearRegression
from ...training import History
from . import train_in_page as page
from .circuits import effective_pair

#: A picture at each of these steps; then every so many.
MARKS = tuple(sorted({*np.geomspace(20, 20_000, 35).astype(int).tolist(), *range(20_000, page.MOST + 1, 5_000)}))


class TrainingPanel(w.VBox):
    """Controls over a figure of the run so far; ``advance`` trains to the next picture.

    Attributes:
        settings: of the run, as :data:`.train_in_page.BEGIN`.
        trainer: the library's.
    """

    def __init__(self, task: LinearRegression, title: str, description: str) -> None:
        super().__init__()
        self.task, self.title = task, title
        self.settings: dict[str, Any] = dict(page.BEGIN)
        self._playing: asyncio.Task | None = None
        self._quiet = False
        self.train_button = w.Button(description="Train", button_style="primary")
        self.again = w.Button(description="Start again")
        self.says = text("", "iclbook-description")
        self.controls = _controls(self.settings)
        self.tries = w.ToggleButtons(options=[name for _, name, *_ in page.TRIES], description="Try:")
        self.about = text(page.TRIES[0][3], "iclbook-description")
        self.trainer = page.trainer(task, self.settings, page.MOST, MARKS)
        self.picture = picture(*self._drawn())
        for name, control in self.controls.items():
            control.observe(lambda change, name=name: self._set({name: change["new"]}), names="value")
        self.tries.observe(lambda change: self._try(change["new"]), names="value")
        self.train_button.on_click(lambda _: self.pause() if self._playing else self.play())
        self.again.on_click(lambda _: self._set({}))
        controls = [w.HBox([self.train_button, self.again]), self.tries, self.about, *self.controls.values()]
        self.children = lay_out(controls, [self.says, self.picture], title, description)
        self.add_class("iclbook-sliders")

    # -- the run ------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Train to the next mark and draw."""
        mark = next((step for step in MARKS if step > self.trainer.done), None)
        if mark is None:
            return self.pause()
        self.trainer.train(progress=False, until=mark)
        self._redraw()

    def play(self) -> None:
        """Train on until told to pause; between two pictures the kernel hears what the reader asks."""
        self.train_button.description = "Pause"
        self._playing = asyncio.get_event_loop().create_task(self._run())

    async def _run(self) -> None:
        while self.trainer.done < page.MOST:
            self.advance()
            await asyncio.sleep(0.02)

    def pause(self) -> None:
        """Stop after the picture that is under way."""
        self.train_button.description = "Train"
        if self._playing:
            self._playing.cancel()
        self._playing = None

    def _set(self, settings: dict[str, Any]) -> None:
        """A new run."""
        if self._quiet:  # the controls of an experiment move one after the other
            return
        self.settings |= settings
        self.trainer = page.trainer(self.task, self.settings, page.MOST, MARKS)
        self._redraw()

    def _try(self, name: str) -> None:
        """One of the experiments: its settings, and play."""
        _, _, settings, about, *_ = next(one for one in page.TRIES if one[1] == name)
        self.about.value = about
        with_all = page.BEGIN | settings
        self._quiet = True
        for key, control in self.controls.items():
            control.value = with_all[key]
        self._quiet = False
        self._set(with_all)
        if not self._playing:
            self.play()

    # -- the figure ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"[slider figure: {self.title}]"

    def visible(self) -> bytes:
        return png_of(self.picture)

    def history(self) -> History:
        """The records so far."""
        if not self.trainer.done:
            self.trainer.train(progress=False, until=0)
        return self.trainer.history()["page"]

    def _course(self) -> tuple[np.ndarray, np.ndarray]:
        """omega and mu of the run so far."""
        return page.omega_mu(self.history(), page.score_scale(self.task, self.settings))

    def _drawn(self) -> tuple[Frame, str]:
        """The figure and what it shows, in words."""
        omega, mu = (np.round(of[-1], 2).tolist() for of in self._course())
        values = {"task": self.task, "history": self.history(), "settings": self.settings}
        return draw(page.figure, values, small=False), f"Step {self.trainer.done:,}: omega {omega}, mu {mu}."

    def _redraw(self) -> None:
        self.picture.value = picture_html(*self._drawn())
        omega, mu = (of[-1] for of in self._course())
        gamma, loss, positive = effective_pair(omega, mu)[0], self.history().loss[-1, 0], np.maximum(mu, 0).sum()
        self.says.value = (
            f"Step {self.trainer.done:,}: loss {loss:.3f}, γ {gamma:.3f}, sum of positive μ {positive:.2f}"
        )


def _controls(settings: dict[str, Any]) -> dict[str, w.Widget]:
    plain = {"style": {"description_width": "8rem"}, "layout": w.Layout(width="100%", max_width="700px")}
    look = {**plain, "continuous_update": False}

    def log(name: str, label: str) -> w.FloatLogSlider:
        low, high = np.log10(page.LIMITS[name])
        ends = {"base": 10, "min": low, "max": high, "step": 0.01, "readout_format": ".2g"}
        return w.FloatLogSlider(settings[name], description=label, **ends, **look)

    def choice(name: str, options: dict[str, str]) -> w.Dropdown:
        return w.Dropdown(options=options, value=settings[name], description=name, **plain)

    return {
        "heads": w.IntSlider(settings["heads"], *page.LIMITS["heads"], description="heads", **look),
        "rate": log("rate", "learning rate"),
        "scale": log("scale", "initial scale"),
        "batch": w.SelectionSlider(options=page.BATCHES, value=settings["batch"], description="prompts a step", **look),
        "seed": w.IntSlider(settings["seed"], 0, page.SEEDS - 1, description="seed", **look),
        "scores": choice("scores", {"as printed": "printed", "as coded": "coded"}),
        "activation": choice("activation", {text: name for name, text in page.ACTIVATIONS.items()}),
    }


def show_training(model: PageModel, task: LinearRegression) -> None:
    """Show the panel of :func:`.train_in_page.train_in_page`: where a kernel answers the reader, the library trains; in a page, the page itself."""
    if os.environ.get("ICLBOOK_HEADLESS") == "1":
        return show_model(model)
    description = "The library trains here, by iclbook.training. Every control begins a new run."
    display(TrainingPanel(task, model.title, description))
