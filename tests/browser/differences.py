"""How far the answers of the models in the page lie from the library's, on random inputs."""

import numpy as np
import torch

from iclbook import theory
from iclbook.models.attention import attend
from iclbook.papers.crossing import waits_in_page as product
from iclbook.papers.he2025 import loss
from iclbook.papers.wang2025.figures_8_and_9 import over_points
from iclbook.papers.wang2025.sliders import repeated

from . import harness, models_page
from .models_page import POPULATION, TASK, Running

D, L, S2 = TASK.d, TASK.L, TASK.noise_var


def difference(found: object, wanted: object) -> float:
    """Largest deviation, relative to the largest wanted number."""
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    assert found.shape == wanted.shape
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def prompt_difference(browser: harness.Browser) -> float:
    """Worst of: one and two random heads on random prompts in all dimensions, their attention, and one gradient step."""
    model, dice, worst = Running(browser, "prompt"), np.random.default_rng(0), 0.0
    data = models_page.models()["prompt"].data
    for length in (1, 7, 40):
        tokens, query = dice.normal(size=(length, D + 1)), 2 * dice.normal(size=D)
        context, asked = torch.from_numpy(tokens)[..., None], torch.from_numpy(query)[:, None]
        for h in (1, 2):
            circuits = models_page.attention(h).circuits()
            wanted = attend(circuits["kq"], circuits["ov"], context, asked).item()
            heads = [{name: part.tolist() for name, part in head.items()} for head in data["heads"][str(h)]]
            worst = max(worst, difference(model.js("m.predict(a[0], a[1], a[2])", heads, tokens, query), wanted))
            scores = context[:, :, 0] @ circuits["kq"][-1, :, :D] @ asked[:, 0]
            seen = model.js("m.attention(a[0], a[1], a[2])", heads[-1], tokens, query)
            worst = max(worst, difference(seen, torch.softmax(scores, 0)))
        if length > 1:
            step = theory.debiased_gd(data["eta"], tokens[:, :D], tokens[:, D], query)
            worst = max(worst, difference(model.js("m.descend(a[0], a[1])", tokens, query), step))
    return worst


def reduced_difference(browser: harness.Browser) -> float:
    """Worst of: loss, its gradient and the manifold at random points."""
    model, dice, worst = Running(browser, "reduced_flow"), np.random.default_rng(1), 0.0
    for h in (1, 2, 4):
        omega, mu = 0.5 * dice.normal(size=h), dice.normal(size=h)
        state, down = (np.concatenate([omega, mu]), np.concatenate(loss.approx_gradients(omega, mu, D, L, S2)))
        worst = max(worst, difference(model.js("m.loss(a[0])", state), loss.approx_loss(omega, mu, D, L, S2)))
        worst = max(worst, difference(model.js("m.velocity(a[0])", state), -down))
    gammas = [0.02, 0.13, 0.6]
    found = model.js("a[0].map(m.manifold)", gammas)
    return max(worst, difference(found, loss.manifold_mu(gammas, D, L, S2)))


def recall_difference(browser: harness.Browser) -> float:
    """Worst of: loss, its gradient, attention and advantage at random points."""
    model, dice, worst = Running(browser, "recall_race"), np.random.default_rng(2), 0.0
    for _ in range(4):
        theta = dice.normal(size=POPULATION.size)
        wanted = {
            "loss": POPULATION.value(theta),
            "velocity": -POPULATION.gradient(theta),
            "attention": POPULATION.attention(theta),
            "advantage": POPULATION.advantage(theta),
        }
        for name, value in wanted.items():
            worst = max(worst, difference(model.js(f"m.{name}(a[0])", theta), value))
    return worst


def square_difference(browser: harness.Browser) -> float:
    """Worst over numbers of blocks and factors of the step: probabilities at random places for random labels."""
    model, dice, worst = Running(browser, "label_square"), np.random.default_rng(3), 0.0
    weights = {name: value.numpy() for name, value in models_page.descent().state_dict().items()}
    for blocks, factor, n in ((1, 1.0, 1), (1, 0.3, 20), (3, 1.0, 20), (6, 2.5, 9)):
        points = np.c_[dice.uniform(-1, 1, (n, 2)), dice.integers(20, size=n)]
        places = dice.uniform(-1, 1, (8, 2))
        wanted = over_points(repeated(weights, blocks, factor), *map(torch.from_numpy, (points, places))).numpy().T
        labelled = [{"x": x, "y": y, "label": int(c)} for x, y, c in points.tolist()]
        found = model.js("m.predict(a[0], a[1], a[2], a[3])", labelled, places, blocks, factor)
        worst = max(worst, difference(found, wanted))
    return worst


def waiting_difference(browser: harness.Browser) -> float:
    """Worst of: loss and its gradient, with chance and decay, at random factors."""
    model, dice, worst = Running(browser, "waiting_time"), np.random.default_rng(4), 0.0
    for p in product.DEGREES:
        x, c = dice.uniform(0.1, 1.2, 5), 0.1 * dice.standard_normal(3)
        worst = max(worst, difference(model.js("m.loss(a[0], a[1], a[2])", x, p, c), product.loss(x, p, c)))
        found = model.js("m.velocity(a[0], a[1], a[2], a[3])", x, p, c, 0.2)
        worst = max(worst, difference(found, -product.gradient(x, p, c, 0.2)))
    return worst


DIFFERENCES = {
    "prompt": prompt_difference,
    "reduced_flow": reduced_difference,
    "recall_race": recall_difference,
    "label_square": square_difference,
    "waiting_time": waiting_difference,
}
