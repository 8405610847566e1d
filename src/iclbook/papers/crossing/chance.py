"""Two heads on prompts whose symmetries hold only on average: N prompts drawn once and for all, and fresh batches.

On N prompts answers correlate with the context's mean, ``c = E[y_q zbar]``, and outputs times values, two factors, fit that at the rate ``2 |c|``. Over draws of
regression with beta ~ N(0, I / d) and L examples ``E|c|^2 = E[|beta|^2 (d + |beta|^2)] / (L N) = (d + 1 + 2 / d) / (L N)``.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ...draw import numpy_rng
from ...statistics import Estimate
from ...store import Results
from ...tasks import Batch
from ...training.landscape import Landscape
from .models import FIRST, REGRESSION, Array, heads_and_slope, heads_of, prompts, softmax_heads
from .waits import FALLEN, leave

# -- N prompts, drawn once ----------------------------------------------------------------------------------------------------

#: Numbers of prompts at a profile, and sizes of the start.
COUNTS = {"paper": (32, 128, 512, 2048, 8192, 32768), "smoke": (32, 128)}
CHANCE_SIZES = 0.05 / 2.0 ** np.arange(6)


def rate_of_chance(count: float) -> float:
    """Root mean square of ``2 |c|`` over draws of ``count`` prompts."""
    d, L = REGRESSION.d, REGRESSION.L
    return float(2 * np.sqrt((d + 1 + 2 / d) / (L * count)))


def plain_heads(draw: int, count: int) -> tuple[Landscape, float]:
    """Two heads on ``count`` prompts as they are drawn, and the rate ``2 |c|`` of these prompts."""
    batch = prompts(REGRESSION, draw, count)
    arrays = Batch(*(np.ascontiguousarray(part) for part in batch))
    correlation = (arrays.target[0] * arrays.context.mean(0)).mean(-1)
    landscape = replace(heads_of(2)(batch), evaluate=partial(heads_and_slope, arrays))
    return landscape, float(2 * np.linalg.norm(correlation))


def chance_waits(group: str, draws: Sequence[int]) -> dict[str, Array]:
    """``rate (D,)``, ``times (D, S)`` of leaving on so many prompts, and ``symmetric (D, S)`` on symmetric ones from the same starts."""
    rates, times, symmetric = [], [], []
    for draw in draws:
        landscape, rate = plain_heads(draw, int(group))
        start, even = landscape.start(draw), softmax_heads(2, draw)
        rates.append(rate)
        times.append([leave(landscape, size * start).first() for size in CHANCE_SIZES])
        symmetric.append(leave(even, CHANCE_SIZES[-1] * start).first() * (CHANCE_SIZES[-1] / CHANCE_SIZES) ** 2)
    return {"rate": np.array(rates), "times": np.array(times), "symmetric": np.array(symmetric)}


def correlations(sets: int, count: int = 128) -> Array:
    """``4 |c|^2 N`` ``(sets,)`` of that many sets of ``count`` prompts."""
    batch = prompts(REGRESSION, FIRST, sets * count)
    products = (batch.target[0] * batch.context.mean(0)).numpy()
    return 4 * count * (products.reshape(len(products), sets, count).mean(-1) ** 2).sum(0)


def second_rate(draw: int, count: int) -> float:
    """Rate of queries and keys once ``OV = E[zbar zbar^T]^-1 c``: of the largest head's share of ``E[2 (y_q - OV zbar) mean_l OV (z_l - zbar) z_l x_q^T]``, its norm."""
    context, asked, target = (part.numpy() for part in prompts(REGRESSION, draw, count))
    mean = context.mean(0)
    correlation = mean @ target[0] / count
    ov = np.linalg.solve(mean @ mean.T / count, correlation)
    values = np.einsum("d,ldb->lb", ov, context)
    pull = 2 / count * (target[0] - ov @ mean) * (values - values.mean(0)) / len(values)
    rate = np.linalg.norm(np.einsum("lb,ldb,eb->de", pull, context, asked), 2)
    start = heads_of(2)(prompts(REGRESSION, draw)).start(draw).reshape(4, 2, len(ov), -1)
    grown = (start[3, :, -1] + start[2] @ correlation / np.linalg.norm(correlation)) ** 2
    return float(rate * grown.sum(1).max() / grown.sum())


def chance_values(results: Results, counts: Sequence[int], sets: int = 4000) -> dict[str, object]:
    """``rate``: root mean square of ``2 |c| sqrt(N)``. Growth of the wait in the last halving over ``log 2 / 2 |c|`` (``steps``, of the fewest prompts; ``one_stage``, of the
    most) and over ``log 2 (1 / 2 |c| + 1 /`` :func:`second_rate` ``)``. ``taken``: the longest wait over that on symmetric prompts."""
    few, square = counts[:2], Estimate.mean(correlations(sets))
    of = {n: results.group(str(n)) for n in counts}
    added = {n: np.diff(group["times"])[:, -1] / np.log(2) for n, group in of.items()}
    power = [np.diff(of[n]["symmetric"])[:, -1] / np.log(2) * of[n]["rate"] for n in few]
    taken = [np.log(group["times"][:, -1] / group["symmetric"][:, -1]) for group in of.values()]
    many = counts[-3:]
    second = {n: np.array([second_rate(FIRST + i, n) for i in range(len(of[n]["rate"]))]) for n in many}
    return {
        "chance/two_stages": Estimate.mean(np.array([added[n] / (1 / of[n]["rate"] + 1 / second[n]) for n in many])),
        "chance/one_stage": np.mean([added[n] * of[n]["rate"] for n in many], 1),
        "chance/rate": Estimate(square.value**0.5, square.error / (2 * square.value**0.5)),
        "chance/predicted": rate_of_chance(1),
        "chance/steps": Estimate.mean(np.array([added[n] * of[n]["rate"] for n in few])),
        "chance/power_steps": np.mean(power, 1),
        "chance/taken": np.exp(np.mean(taken, 1)),
    }


# -- fresh prompts in every step ----------------------------------------------------------------------------------------------

#: Plain SGD's sizes of the start, rate, batch, and most steps, and which of the sizes are tried at a profile.
SGD_SIZES, RATE, BATCH, MOST_STEPS = (0.1, 0.05, 0.025, 0.0125), 0.05, 64, 400_000
SGD_GROUPS = {"paper": "heads", "smoke": "large sizes"}
#: Steps between two looks at the loss, relative to those taken.
LOOK = 0.01
#: Batches and rates between which ``B / eta^2`` varies by 32.
NOISY = {"8 at .2": (8, 0.2), "8 at .1": (8, 0.1), "32 at .2": (32, 0.2), "16 at .1": (16, 0.1), "64 at .1": (64, 0.1)}
#: Waits that the power law predicts, in diffusion times; the longest that is awaited, in the same unit.
AHEAD, LONGEST = 2.0 ** np.arange(-3, 6, 2), 100
#: First of them whose start is small at every batch and rate.
SMALL = 2


def diffusion_steps(batch: int, rate: float) -> float:
    """Steps in which the logarithm of the weights' size diffuses by about one, the diffusion time: ``1 / (eta 2 |c|)^2`` with the ``|c|`` of one batch."""
    return 1 / (rate * rate_of_chance(batch)) ** 2


def sgd_wait(start: Array, judge: Landscape, draw: int, batch: int, rate: float, most: int) -> float:
    """Steps of plain SGD on fresh batches from ``start`` until the loss of ``judge`` has fallen as :func:`leave` asks, up to a hundredth of them; NaN for never."""
    theta, step, look = start, 0, 1
    goal = (1 - FALLEN) * judge.value(0 * theta)
    rng = numpy_rng((draw, 7))
    while step < most:
        if step >= look:
            if judge.value(theta) <= goal:
                return float(step)
            look = step + max(1, int(LOOK * step))
        x = rng.standard_normal((REGRESSION.L + 1, REGRESSION.d, batch))
        y = (x * rng.standard_normal((REGRESSION.d, batch)) / np.sqrt(REGRESSION.d)).sum(1, keepdims=True)
        made = Batch(np.concatenate([x[:-1], y[:-1]], 1), x[-1], y[-1])
        theta = theta - rate * heads_and_slope(made, theta)[1]
        step += 1
    return float("nan")


def sgd_waits(group: str, draws: Sequence[int]) -> dict[str, Array]:
    """Waits ``(D, 4)`` in steps at :data:`SGD_SIZES`, judged on 2,048 other prompts."""
    sizes, found = SGD_SIZES if group == "heads" else SGD_SIZES[:2], []
    for draw in draws:
        judge = softmax_heads(2, draw, 512)
        found.append([sgd_wait(size * judge.start(draw), judge, draw, BATCH, RATE, MOST_STEPS) for size in sizes])
    return {"steps": np.array(found)}


def sgd_values(results: Results, profile: str) -> dict[str, object]:
    """Degree that the waits ``(D, S)`` under SGD show at each halving of the size, 2 plus the logarithm of the wait's growth to the base 2, and over all of them."""
    steps = results[f"{SGD_GROUPS[profile]}/steps"]
    each = 2 + np.log2(steps[:, 1:] / steps[:, :-1])
    return {"stages/sgd/degree": Estimate.mean(each.mean(1)), "stages/sgd/degrees": Estimate.mean(each.T)}


def noisy_waits(group: str, draws: Sequence[int]) -> dict[str, Array]:
    """Waits ``times (D, A)`` in diffusion times, of SGD at a batch and a rate from starts of which gradient flow would wait :data:`AHEAD` such times."""
    batch, rate = NOISY[group]
    unit, found = diffusion_steps(batch, rate), []
    for draw in draws:
        judge = softmax_heads(2, draw)
        small = CHANCE_SIZES[-1] * judge.start(draw)
        wait = leave(judge, small).first() / rate  # in steps; grows as size^-2
        starts = [small * np.sqrt(wait / (ahead * unit)) for ahead in AHEAD]
        found.append([sgd_wait(start, judge, draw, batch, rate, int(LONGEST * unit)) / unit for start in starts])
    return {"times": np.array(found)}


def noisy_values(results: Results) -> dict[str, object]:
    """Ranges over batches and rates of the waits' mean logarithms in diffusion times and in time, over those in steps; the last power of the wait (1: gradient flow).
    A wait that outlasts :data:`LONGEST` counts as that, a lower bound."""
    kept = [group for group in NOISY if f"{group}/times" in results.arrays]
    logs = np.log([np.nan_to_num(results[f"{group}/times"][:, SMALL:], nan=LONGEST) for group in kept])  # (G, D, A)
    units, rates = np.log([(diffusion_steps(*NOISY[group]), NOISY[group][1]) for group in kept]).T[..., None]
    means = Estimate.mean(logs.swapaxes(1, 2))
    ends = [means.value.argmax(0), means.value.argmin(0)]
    error = np.hypot(*(np.take_along_axis(means.error, end[None], 0)[0] for end in ends))
    steps = np.ptp(means.value + units, 0)
    return {
        "noise/apart": Estimate(np.ptp(means.value, 0) / steps, error / steps),
        "noise/apart_in_time": np.ptp(means.value + units + rates, 0) / steps,
        "noise/last": Estimate.mean(np.diff(logs.mean(0))[:, -1] / np.log(AHEAD[1] / AHEAD[0])),
    }
