"""Tables and sentences of ``book/benchmarks.md``, made from the stored results alone: no number on that page is typed."""

import json
from pathlib import Path

from iclbook.errors import UserError
from iclbook.numbers import duration, number

from . import categorical as gd
from . import floors, growth, in_page, phases
from .format import span, table
from .suite import ROOT
from .work import LABELS, OURS

PAGE = ROOT / "book" / "benchmarks.md"
#: Headings of the parts.
TITLES = {
    "floor": "The floor",
    "paired": "Side by side, one core",
    "page": "In the page",
    "first": "The first step",
    "kernel": "Many steps in one launch",
    "ladder": "Ensembles and threads",
    "cores": "Processes and threads",
    "growth": "How cost grows",
    "categorical": "In-context learning of categories",
}
RESULTS = {"cpu": ROOT / "benchmarks" / "results.json", "cuda": ROOT / "benchmarks" / "results-cuda.json"}
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
#: Lengths of training in the table of waiting times.
LENGTHS = (100, 1_000, 10_000, 100_000, 500_000)


def described(results: dict) -> str:
    """Where and when, in one paragraph."""
    m = results["machine"]
    parts = [m["gpu"]] if m["gpu"] else []
    parts += [f"{m['cpu']}, {m['cores']} cores", m["system"], f"Python {m['python']}", f"torch {m['torch']}"]
    parts += [f"JAX {m['jax']}"] if m["jax"] else []
    text = (
        f"Measured on {m['date']} in {number(results['minutes'])} minutes on: {'; '.join(parts)}. The work is d = {results['work']['d']}, "
        f"L = {results['work']['L']}, {results['work']['batch']} prompts a step."
    )
    if "others" in m:
        text += f" Other programs used {number(m['others']['during'])} cores meanwhile ({number(m['others']['before'])} before)."
    elif (m["load_before"] or 0) > 0.5:
        text += f" **The machine was busy** (load {m['load_before']} before the start): read these numbers with care."
    if results.get("earlier"):
        titles = [TITLES[part] for part in results["earlier"]]
        text += f" Measured before that, with the trainer as it then was: {'; '.join(titles)}."
    return text


def paired(results: dict) -> str:
    """The comparison in one process: rates, and ratios to the plain loop of the same round."""
    blocks = results["paired"]
    header = ["contender"]
    for b in blocks:
        header += [f"H = {b['n_heads']}: run-steps/s", "times the plain loop"]
    rows = []
    for name in LABELS:
        if not any(name in b["rows"] for b in blocks):
            continue
        row = [LABELS[name]]
        for b in blocks:
            r = b["rows"][name]
            row += [span(r["rate"]), "1" if name == "plain" else span(r["ratio"])]
        rows.append(row)
    text = table(header, rows)
    ours = LABELS[OURS[results["device"]]]
    for b in blocks:
        for name, r in b["rows"].items():
            if "ours_over_it" in r:
                text += f"\n\nH = {b['n_heads']}: {ours} over {LABELS[name]}: {span(r['ours_over_it'])}."
    return text


def floor(results: dict) -> str:
    """What the random numbers alone allow on a CPU core, and how near the best rung comes."""
    f = results["floor"]
    torchs, limit = (1 / (f[key] * f["normals_per_step"]) for key in ("seconds_per_normal", "seconds_by_counter"))
    text = (
        f"One step of one run consumes {f['normals_per_step']:,} standard normals. On one core torch's generator takes "
        f"{number(1e9 * f['seconds_per_normal'])} ns for each, and the trainer's numbers by counter, in C, take "
        f"{number(1e9 * f['seconds_by_counter'])} ns. Drawing the data alone therefore allows {number(torchs)} run-steps a second "
        f"with the one and {number(limit)} with the other, when every run has a stream of its own."
    )
    for b in results["paired"]:
        rate = b["rows"].get(OURS["cpu"], {}).get("rate")
        if rate:
            text += (
                f" At H = {b['n_heads']} the trainer reaches {number(100 * rate['median'] / limit)} % of the latter."
            )
    return text


def first(results: dict) -> str:
    """Seconds to the end of the first step, cold and from the cache."""
    header = ["contender", "heads", "nothing compiled yet, s", "compiled by another process, s"]
    rows = [
        [LABELS[r["contender"]], str(r["n_heads"]), number(r["cold_s"]), number(r["again_s"])] for r in results["first"]
    ]
    return table(header, rows)


def _row(results: dict, name: str, n_heads: int, runs: int, threads: int = 1) -> dict | None:
    wanted = {"contender": name, "n_heads": n_heads, "runs": runs, "threads": threads}
    return next((r for r in results["ladder"] if all(r[k] == v for k, v in wanted.items())), None)


def ladder(results: dict) -> str:
    """Rates, memory and first-step times over ensemble sizes and threads, one table per head count."""
    threads = sorted({r["threads"] for r in results["ladder"]})
    gpu = any("peak_gpu_mb" in r for r in results["ladder"])
    text = []
    for n_heads in sorted({r["n_heads"] for r in results["ladder"]}):
        header = ["contender", "runs"]
        header += [f"run-steps/s, {t} thread{'s' * (t > 1)}" if len(threads) > 1 else "run-steps/s" for t in threads]
        each = f" ({' / '.join(map(str, threads))} threads)" if len(threads) > 1 else ""
        header += [f"first step, s{each}", f"peak MB{each}"] + ["GPU MB"] * gpu
        keys = dict.fromkeys((r["contender"], r["runs"]) for r in results["ladder"] if r["n_heads"] == n_heads)
        lines = []
        for name, runs in keys:
            found = [r for t in threads if (r := _row(results, name, n_heads, runs, t))]
            line = [LABELS[name], str(runs), *(span(r["rate"]) for r in found)]
            line.append(" / ".join(number(r["first_s"]) for r in found))
            line.append(" / ".join(f"{r['peak_mb']:,}" for r in found))
            if gpu:
                line.append(" / ".join(number(r["peak_gpu_mb"]) for r in found))
            lines.append(line)
        text.append(f"**H = {n_heads}**\n\n{table(header, lines)}")
    imports = ", ".join(f"{name} {mb:,}" for name, mb in results["imports_mb"].items())
    text.append(f"Of the peak memory, the imports alone take (MB): {imports}.")
    return "\n\n".join(text)


def waiting(results: dict) -> str:
    """Seconds from a cold start to the end of a training of one run: where compiling does not pay."""
    names = ("plain", "eager", "compiled", "graph", "graph compiled")
    text = []
    for n_heads in sorted({r["n_heads"] for r in results["ladder"]}):
        found = {n: r for n in names if (r := _row(results, n, n_heads, 1))}
        if len(found) < 2:
            continue
        rows = []
        for steps in LENGTHS:
            took = {n: r["first_s"] + steps / r["rate"]["median"] for n, r in found.items()}
            best = min(took, key=took.__getitem__)
            cells = [f"**{duration(s)}**" if n == best else duration(s) for n, s in took.items()]
            rows.append([f"{steps:,}", *cells])
        text.append(table([f"steps of one run, H = {n_heads}", *(LABELS[n] for n in found)], rows))
    return "\n\n".join(t for t in text if t)


def losses(results: dict) -> str:
    """Configurations in which our trainer is slower than a simpler choice; found, not typed."""
    found = []
    ours = [r for r in results["ladder"] if r["contender"] in ("eager", "compiled", "graph", "graph compiled")]
    for r in ours:
        where = f"H = {r['n_heads']}, {r['runs']} run{'s' * (r['runs'] > 1)}, {r['threads']} thread{'s' * (r['threads'] > 1)}"
        what, rate = f"{LABELS[r['contender']]} ({where})", r["rate"]["median"]
        plain = _row(results, "plain", r["n_heads"], 1, r["threads"])
        if plain and rate < plain["rate"]["median"]:
            found.append(f"{what} runs at {number(rate / plain['rate']['median'])} times the rate of the plain loop.")
        single = _row(results, r["contender"], r["n_heads"], r["runs"], 1)
        if r["threads"] > 1 and single and rate < 1.1 * single["rate"]["median"]:
            found.append(f"{what} runs at {number(rate / single['rate']['median'])} times the rate of one thread.")
        sizes = [s for s in ours if all(s[k] == r[k] for k in ("contender", "n_heads", "threads"))]
        best = max(sizes, key=lambda s: s["rate"]["median"])
        if r["runs"] > best["runs"] and rate < 0.9 * best["rate"]["median"]:
            share = number(rate / best["rate"]["median"])
            found.append(f"{what} runs at {share} times the rate of an ensemble of {best['runs']}.")
        other = _row(results, "jax vmap", r["n_heads"], r["runs"], r["threads"])
        if other and r["contender"] == "compiled" and rate < other["rate"]["median"]:
            found.append(f"{what} runs at {number(rate / other['rate']['median'])} times the rate of JAX.")
    for b in results["paired"]:
        for name, r in b["rows"].items():
            if "ours_over_it" in r and r["ours_over_it"]["median"] < 1:
                found.append(
                    f"Side by side at H = {b['n_heads']}, {LABELS[name]} is faster than {LABELS[OURS[results['device']]]}."
                )
    return "\n".join(f"- {line}" for line in found) or "No steady rate of ours is below a simpler choice here."


def categorical(results: dict) -> str:
    """wang2025's GD model: run-steps a second, literal and fast."""
    block = results["categorical"]
    sizes = list(block["rows"])
    header = ["one block of GD"]
    for n in sizes:
        header += [f"N = {n}: run-steps/s", "times the literal one"]
    rows = []
    for name, label in gd.LABELS.items():
        if any(name not in block["rows"][n] for n in sizes):
            continue
        row = [label]
        for n in sizes:
            r = block["rows"][n][name]
            row += [span(r["rate"]), "1" if name == "literal" else span(r["ratio"])]
        rows.append(row)
    text = f"{block['batch']} contexts a step, one core, one process, contenders in turn; an ensemble counts each run's step."
    if (block.get("machine", {}).get("load_before") or 0) > 0.5:  # of results from before others were watched
        text += f" **The machine was busy** (load {block['machine']['load_before']})."
    return f"{text}\n\n{table(header, rows)}"


def page(results: dict) -> str:
    """Steps a second of one run in a headless Chromium, beside the plain loop and the steps in C of the same round."""
    rows = results["page"]["rows"]
    header = ["one run"]
    for n_heads in rows:
        header += [f"H = {n_heads}: steps/s", "times the plain loop"]
    lines = []
    for name, label in in_page.LABELS.items():
        found = [rows[n_heads].get(name) for n_heads in rows]
        if None not in found:
            lines.append(
                [label, *(x for r in found for x in (span(r["rate"]), "1" if name == "plain" else span(r["ratio"])))]
            )
    about = "The panel in which a reader trains takes the same steps, from the same C, in WebAssembly: vectors of four floats, without fused multiply-adds."
    return f"{about} One core, contenders in turn.\n\n{table(header, lines)}"


def kernel(results: dict) -> str:
    """The steps in C on a GPU beside the captured and compiled trainer, and how far they are from those on a CPU."""
    if "kernel" not in results:
        return "Not measured: `make gpu STAGE=kernel` compares them with the steps in C, measures them, and fills this part."
    rows = results["kernel"]["rows"]
    names = [name for name in LABELS if all(name in r["rates"] for r in rows)]
    header = ["H = 2", *(f"{LABELS[name]}: run-steps/s" for name in names), "launched over captured"]
    header += ["losses apart", "parameters apart"]
    lines = [
        [
            f"{r['runs']} runs",
            *(span(r["rates"][name]) for name in names),
            span(r["ratio"]),
            *(f"{v:.1g}" for v in r["apart"].values()),
        ]
        for r in rows
    ]
    about = "Apart: the largest distance from the steps in C on a CPU after a hundred steps, as a share of the largest number."
    return f"{table(header, lines)}\n\n{about}"


def _sections(results: dict) -> list[str]:
    """What was measured on one device, part by part."""
    text = [described(results)]
    if "paired" in results:
        text += ["## " + TITLES["paired"], paired(results)]
    if results["device"] == "cuda":
        text += ["## " + TITLES["kernel"], kernel(results)]
    if results.get("page"):
        text += ["## " + TITLES["page"], page(results)]
    if results["device"] == "cpu" and "floor" in results:
        text += ["## " + TITLES["floor"], floor(results)]
    if "first" in results:
        text += ["## " + TITLES["first"], first(results)]
    if "ladder" in results:
        text += ["## " + TITLES["ladder"], ladder(results), "## Where we lose", waiting(results), losses(results)]
    if "cores" in results:
        text += ["## " + TITLES["cores"], growth.cores_text(results["cores"])]
    if "growth" in results:
        text += ["## " + TITLES["growth"], growth.text(results["growth"], results["imports_mb"])]
    if "categorical" in results:
        text += ["## " + TITLES["categorical"], categorical(results)]
    measured = {name for block in results.get("paired", ()) for name in block["rows"]}
    measured |= {name for row in results.get("kernel", {}).get("rows", ()) for name in row["rates"]}
    absent = [f"- {LABELS[n]}: not measured: {why}." for n, why in results["missing"].items() if n not in measured]
    absent += [f"- {LABELS[n]}: not measured yet." for n in LABELS if n not in measured | results["missing"].keys()]
    absent += [f"- {t} threads: not measured: too few cores." for t in results["threads_missing"]]
    if results["device"] == "cpu":  # a GPU is not asked for them
        absent += [f"- {title}: not measured yet." for part, title in NEW.items() if part not in results]
    return [*text, "## Not measured in this run", "\n".join(absent) or "Nothing is missing."]


#: Parts that results from before them lack.
NEW = {
    "page": "steps in the page, beside the plain loop",
    "first": "the first step, cold and from the cache",
    "cores": "processes beside threads",
    "growth": "how cost grows with steps, runs, heads, L and d",
}


def rendered(results: dict[str, dict | None]) -> str:
    """Everything between the markers."""
    cpu, cuda = results["cpu"], results["cuda"]
    if cpu is None:
        text = ["No results are stored yet. `make bench` measures them and writes them here."]
    else:
        text = _sections(cpu)
    text += [floors.rendered(), "## On a GPU"]
    if cuda is None:
        text.append(
            "Not measured: no GPU. `python -m benchmarks --device cuda` measures the same ladder there and fills this part."
        )
    else:
        text += [part.replace("## ", "### ") if part.startswith("## ") else part for part in _sections(cuda)]
    text.append(phases.rendered())
    return "\n\n".join(part for part in text if part)


def stored() -> dict[str, dict | None]:
    """The committed results by device; ``None`` where there are none."""
    return {device: json.loads(p.read_text()) if p.exists() else None for device, p in RESULTS.items()}


def split(text: str) -> tuple[str, str, str]:
    """The page before, between and after the markers.

    Raises:
        UserError: a marker is missing.
    """
    if BEGIN not in text or END not in text:
        raise UserError("book/benchmarks.md has lost its markers", f"Put back the lines {BEGIN} and {END}.")
    head, rest = text.split(BEGIN, 1)
    body, tail = rest.split(END, 1)
    return head, body.strip(), tail


def write(path: Path = PAGE) -> None:
    """Fill the page from the stored results."""
    head, _, tail = split(path.read_text(encoding="utf-8"))
    path.write_text(f"{head}{BEGIN}\n\n{rendered(stored())}\n\n{END}{tail}", encoding="utf-8")
