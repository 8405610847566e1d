"""How time and memory grow with steps, runs, heads, L and d: each point in a process of its own, exponents fitted, and why where cost does not grow as
the work; and what several processes give beside several threads.
"""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from scipy import stats

from iclbook.numbers import number

from .format import exponent, span, table
from .work import LABELS, Case, missing

#: What grows, from its smallest to its largest value; the rest stays at he2025's size, with 8 runs of 2 heads.
AXES: dict[str, tuple[int, ...]] = {
    "steps": (50, 200, 800, 3200),
    "runs": (1, 4, 16, 64, 256),
    "heads": (1, 2, 4, 8, 16),
    "L": (10, 20, 40, 80, 160),
    "d": (2, 5, 10, 20, 40),
}
RUNS, HEADS = 8, 2
FIELD = {"runs": "runs", "heads": "n_heads", "L": "L", "d": "d"}
#: Share of the time at the smallest size from which a fixed cost explains a slow growth.
FIXED = 0.1
#: Distance of the exponent of time from that of the work that needs no reason if the interval holds both.
NEAR = 0.1

Measured = Callable[..., dict]


def case_at(axis: str, value: int, contender: str, device: str) -> Case:
    """The case in which ``axis`` has this value."""
    case = Case(contender, HEADS, RUNS, 1, device)
    return case if axis == "steps" else replace(case, **{FIELD[axis]: value})


def work_at(axis: str, value: int) -> float:
    """Counted operations of what is timed at a point."""
    return case_at(axis, value, "eager", "cpu").work * (value if axis == "steps" else 1)


def slope(x: Sequence[float], y: Sequence[float]) -> dict[str, float]:
    """Exponent of ``y`` in ``x`` by least squares on logarithms, with its 95 % interval."""
    fit = stats.linregress(np.log(x), np.log(y))
    # Of values that do not change, the fit's own error is not a number.
    error = fit.stderr if np.ptp(y) > 0 else 0.0
    half = stats.t.ppf(0.975, len(x) - 2) * error if len(x) > 2 else math.inf
    low, high = fit.slope - half, fit.slope + half
    return {"exponent": round(fit.slope, 3), "low": round(low, 3), "high": round(high, 3)}


def fixed_share(work: Sequence[float], seconds: Sequence[float]) -> float:
    """Share of the time at the smallest size that no work explains: the constant of the line through the two smallest sizes."""
    rise = (seconds[1] - seconds[0]) / (work[1] - work[0])
    return min(1.0, max(0.0, 1 - rise * work[0] / seconds[0]))


def cache_mb() -> float | None:
    """The core's own (second) cache."""
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text().strip()
        return int(text.rstrip("KM")) / (1024 if text.endswith("K") else 1)
    except (OSError, ValueError):
        return None


def measure(
    measured: Measured,
    contenders: Sequence[str],
    device: str,
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
    axes: Mapping[str, tuple[int, ...]],
) -> dict:
    """Time and peak memory of every contender at every point; exponents are fitted when the page is written."""
    rows = []
    for axis, values in axes.items():
        for name in contenders:
            if missing(name, device):
                continue
            for value in values:
                say(f"growth: {axis} = {value}, {name}")
                case = case_at(axis, value, name, device)
                runs = (
                    1 if name.startswith("plain") else case.runs
                )  # one after another: more of them is more of the same
                job = {"cases": [asdict(replace(case, runs=runs))], "threads": 1, "rounds": rounds}
                steps = {"steps": value} if axis == "steps" else {}
                answer = measured({**job, "seconds": seconds, **steps})
                taken = value if axis == "steps" else 1
                times = [case.runs * taken / rate for rate in answer["cases"][0]["rates"]]
                memory = {k: round(answer[k], 1) for k in ("peak_mb", "peak_gpu_mb") if k in answer}
                rows.append({"axis": axis, "value": value, "contender": name, "seconds": _spread(times), **memory})
    return {"runs": RUNS, "heads": HEADS, "cache_mb": cache_mb(), "rows": rows}


def _spread(values: Sequence[float]) -> dict[str, float]:
    found = {"median": np.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


# -- several processes beside several threads --------------------------------------------------------------------------


def cores(
    measured: Measured,
    contenders: Sequence[str],
    heads: Sequence[int],
    ways: Sequence[tuple[int, int]],
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
) -> list[dict]:
    """Run-steps a second of :data:`RUNS` runs in all, by so many processes of so many threads each; ``ways`` begins with one of one."""
    rows = []
    for n_heads in heads:
        for name in ("eager", "compiled"):
            if name not in contenders or missing(name, "cpu"):
                continue
            for processes, threads in ways:
                say(f"cores: H={n_heads}, {name}, {processes} x {threads}")
                case = asdict(Case(name, n_heads, RUNS // processes, threads))
                job = {"cases": [case], "threads": threads, "rounds": rounds, "seconds": seconds}
                with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
                    jobs = [job | {"beside": i, "meet": [folder, processes]} for i in range(processes)]
                    answers = list(pool.map(measured, jobs))
                rates = [sum(r) for r in zip(*(a["cases"][0]["rates"] for a in answers), strict=True)]
                row = {"n_heads": n_heads, "contender": name, "processes": processes, "threads": threads}
                rows.append({**row, "rate": _spread(rates), "peak_mb": round(sum(a["peak_mb"] for a in answers))})
    return rows


def cores_text(rows: list[dict]) -> str:
    """One line for every way to use the cores."""
    lines = []
    for r in rows:
        alone = next(
            s["rate"]["median"]
            for s in rows
            if (s["n_heads"], s["contender"], s["processes"], s["threads"]) == (r["n_heads"], r["contender"], 1, 1)
        )
        gain = number(r["rate"]["median"] / alone)
        what = f"H = {r['n_heads']}, {LABELS[r['contender']]}"
        lines.append([what, str(r["processes"]), str(r["threads"]), span(r["rate"]), gain, f"{r['peak_mb']:,}"])
    header = [f"{RUNS} runs in all", "processes", "threads each", "run-steps/s", "times one thread", "peak MB in all"]
    return table(header, lines)


# -- the page ----------------------------------------------------------------------------------------------------------


def text(growth: dict, imports_mb: dict[str, float]) -> str:
    """Exponents of time and memory along every axis, and why where time does not grow as the work does."""
    rows, lines, why = growth["rows"], [], []
    for axis in dict.fromkeys(r["axis"] for r in rows):
        for name in dict.fromkeys(r["contender"] for r in rows if r["axis"] == axis):
            points = [r for r in rows if (r["axis"], r["contender"]) == (axis, name)]
            x = [p["value"] for p in points]
            if len(x) < 3:
                continue
            took, asked = [p["seconds"]["median"] for p in points], [work_at(axis, v) for v in x]
            time, work = slope(x, took), slope(x, asked)
            base = imports_mb["jax" if name.startswith("jax") else "torch"]
            memory = slope(x, [max(p["peak_mb"] - base, 1) for p in points])
            lines.append([
                f"{axis} {x[0]} to {x[-1]}, {LABELS[name]}",
                exponent(time),
                number(work["exponent"], form="z.2f"),
                exponent(memory),
                f"{number(1e3 * took[0])} to {number(1e3 * took[-1])}",
                f"{number(points[0]['peak_mb'])} to {number(points[-1]['peak_mb'])}",
            ])  # fmt: skip
            largest = case_at(axis, x[-1], name, "cpu").arrays_mb
            if reason := _why(time, work["exponent"], asked, took, largest, growth["cache_mb"]):
                why.append(f"- {axis}, {LABELS[name]}: {reason}")
    head = ["what grows", "exponent of time", "of the work", "of memory beyond imports", "ms", "peak MB"]
    about = (
        f"Time of one step of {growth['runs']} runs with {growth['heads']} heads (or of as many steps as the row says), least squares on logarithms with 95 % "
        "intervals. The work is counted: operations of the step, a random number as twenty. Every point is a process of its own."
    )
    said = "\n".join(why) or "Nowhere."
    return f"{about}\n\n{table(head, lines)}\n\nWhere time does not grow as the work does:\n\n{said}"


def _why(time: dict, work: float, asked: list[float], took: list[float], arrays: float, cache: float | None) -> str:
    """Why the exponent of time is not that of the work, as far as what was measured tells; empty if it may be."""
    if time["low"] <= work <= time["high"] and abs(time["exponent"] - work) <= NEAR:  # bent lines have wide intervals
        return ""
    share = fixed_share(asked, took)
    if time["exponent"] < work and share >= FIXED:
        return f"slower; {number(100 * share)} % of the time at the smallest size is there whatever the size (Python, launches, the optimiser)."
    if time["exponent"] > work and cache and arrays > cache:
        return (
            f"faster; a step's arrays at the largest size take {number(arrays)} MB, a core's own cache {number(cache)}."
        )
    direction = "slower" if time["exponent"] < work else "faster"
    return f"{direction}; neither a fixed cost nor the cache explains it."
