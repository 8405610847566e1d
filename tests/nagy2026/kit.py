"""For the tests of nagy2026: verdicts of its ledger, and results that were never trained, whose every number is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ledgers import GREEN, RED, ledger

from iclbook.claims import Record, Verdict, verdict
from iclbook.papers.nagy2026.measures import ablation, diversity, guided, masks
from iclbook.papers.nagy2026.runs.studies import CONFIGURATIONS, studies
from iclbook.store import Results
from iclbook.training import Run
from iclbook.training.study import Study

STUDIES = studies("paper")
LEDGER = ledger("nagy2026")


def judge(claim: str, values: dict) -> Verdict:
    """The verdict of the paper profile on these values."""
    return verdict(
        LEDGER.claim(f"nagy2026/{claim}"), {k: Record.make(k, v) for k, v in values.items()}, "paper"
    )


def failing(claim: str, values: dict) -> set[str]:
    """Keys of the parts that fail; empty if and only if the claim is reproduced."""
    result = judge(claim, values)
    failed = {p.key for p in result.parts if not p.holds}
    assert result.word in (RED if failed else GREEN), result.note
    return failed


def failing_of(section: str, values: dict) -> set[str]:
    """The same of all rows on a section: those whose id goes on after it."""
    rows = [c.id.partition("/")[2] for c in LEDGER.claims if c.id.startswith(f"nagy2026/{section}-")]
    assert rows, section
    return set().union(*(failing(row, values) for row in rows))


def standard(seed: int, n: int) -> np.ndarray:
    """``n`` numbers of mean 0 and standard deviation 1 (``ddof=1``) exactly, so that the printed mean and spread can be met exactly."""
    z = np.random.default_rng(seed).standard_normal(n)
    return (z - z.mean()) / z.std(ddof=1)


def synthetic(study: Study, arrays: dict[str, Callable[[str, int, Run, int], np.ndarray | float]]) -> Results:
    """Results of a study whose array ``name`` holds ``arrays[name](group, index of the run, run, step)``."""
    found: dict[str, np.ndarray] = {}
    steps = sorted({0, study.steps, *study.record})
    for spec in study.groups:
        found[f"{spec.name}/steps"] = np.array(steps)
        for name, value in arrays.items():
            found[f"{spec.name}/{name}"] = np.array(
                [[value(spec.name, i, run, step) for i, run in enumerate(spec.runs)] for step in steps],
                dtype=np.float32,
            )
    return Results(found, {})


# -- the paper's tables, exactly as printed or with one thing changed ---------------------------------------------------------


def error_curve(error: float, start: float = 22.22) -> np.ndarray:
    """A geometric course from ``start`` to ``error`` over 16 examples."""
    return start * (error / start) ** (np.arange(1, 17) / 16)


def mask_results(ratios: dict[str, float], spread: float = 0.4) -> masks.MaskRuns:
    """Section 9.1 as printed: baseline 5.77, every mask's mean change exactly what ``ratios`` says, over 20 seeds."""
    base = 5.77 + 0.1 * standard(0, 20)

    def curve(group, i, run, step):
        mask = group.split("-")[0]
        noise = 0 if mask == "none" else spread * standard(len(mask), 20)[run.seed]
        return error_curve(base[run.seed] * (1 + (ratios[mask] + noise) / 100) if step == 3000 else 20.0)

    return masks.mask_runs(STUDIES["masks"], synthetic(STUDIES["masks"], {"curve_n16": curve}))


PRINTED_CHANGE = {"none": 0.0} | {
    mask: 100 * (error / 5.77 - 1) for mask, error in masks.MASK_ERRORS.items() if mask != "none"
}


def deep_results(
    scales: tuple[float, ...], improvement: float = 1.0, losses: tuple[float, float] = (0.157, 0.041)
) -> dict:
    """Section 9.5 as printed under every reading, with these layer scales, training losses and this share of the printed improvement."""
    found = {}
    for name in ("guided", "guided_fresh", "guided_v295"):

        def error(n):
            def value(group, i, run, step):
                base, best = (
                    guided.PRINTED_ERRORS[m][guided.CONTEXTS.index(n)] for m in ("baseline", "guided")
                )
                mean = base if group == "baseline" else base + improvement * (best - base)
                model = 1.0 if group == "baseline" else 1.3  # or paired differences would not vary
                return mean * (1 + 0.05 * model * np.sin(3.0 * run.seed)) if step == 4000 else 1.0

            return value

        def loss(group, i, run, step):
            return losses[group == "guided"] * (1 + 0.1 * np.sin(5.0 * run.seed)) if step == 4000 else 0.5

        layers = {"sink": lambda *_: guided.PRINTED_SINKS, "scale": lambda *_: scales, "loss": loss}
        found[name] = synthetic(STUDIES[name], {f"error_n{n}": error(n) for n in guided.CONTEXTS} | layers)
    values = guided.parameter_records(STUDIES["guided"])
    for reading, measured in guided.guided_readings(STUDIES, found).items():
        assert measured.errors["guided"].shape == (
            3,
            {"set1e-3": 20, "set3e-3": 10, "fresh": 10, "v295": 10}[reading],
        )
        values |= guided.guided_records(reading, measured)
    return values


def ablation_results(
    swap: tuple[str, str] = ("full", "full"), n: int = 20
) -> tuple[dict, dict, ablation.DepthGrid]:
    """Section 9.5.1 exactly as printed, mean and spread, from 500 steps on, with two variants exchanged; its records and those of q-depth."""
    exchange = dict(zip(swap, swap[::-1], strict=True))
    found = {}
    for i, d in enumerate(ablation.DIMENSIONS):

        def error(group, index, run, step, i=i):
            variant = group.split("-")[0]
            mean, spread = ablation.PRINTED_ABLATION[exchange.get(variant, variant)][i]
            seeds = n if group in ablation.PRINTED_ABLATION else 6
            # seeds are shared by all variants; orthogonality, alone, has noise of its own, as large as its printed gain
            own = 0.04 * standard(7, seeds)[run.seed] if exchange.get(variant, variant) == "ortho" else 0
            return mean + spread * standard(0, seeds)[run.seed] + own if step >= 500 else 9.0

        found[d] = synthetic(STUDIES[f"ablation_d{d}"], {"error_n12": error})
    runs = ablation.ablation_runs(found)
    values: dict = {}
    for reading, share in ablation.LENGTHS.items():
        values |= ablation.ablation_records(reading, runs.at(share))
    grid = ablation.depth_grid({d: STUDIES[f"ablation_d{d}"] for d in ablation.DIMENSIONS}, found)
    return values | ablation.depth_records(grid), found, grid


def diversity_results(lift: float = 0.0) -> tuple[diversity.DiversityRuns, dict]:
    """Section 9.6: base errors as printed; the regulariser changes seeds by 3 % at random and all by ``lift`` per cent."""

    shared = {"base_w16_h4": 3.20, "base_w32_h4": 2.70, "base_w64_h4": 0.81, "base_w32_h8": 2.47}

    def curve(wide):
        def value(group, i, run, step):
            width, n_heads, _ = CONFIGURATIONS.get(group, (32, 4, None))
            base = 5.36 if wide else shared[f"base_w{width}_h{n_heads}" if group not in shared else group]
            base = (base + step / 10_000) * (1 + 0.02 * standard(4, 20)[run.seed])
            gain = 0 if group in shared else 3 * standard(1, 20)[run.seed] + lift
            return error_curve(base * (1 - gain / 100))

        return value

    tables = [
        (STUDIES[n], {"curve_n16": curve(n == "diversity_wide")}) for n in ("diversity", "diversity_wide")
    ]
    runs = diversity.diversity_runs(*(x for study, table in tables for x in (study, synthetic(study, table))))

    def balanced(index):
        def value(group, i, run, step):
            ratio = diversity.ROUND_3[group][0] / 3.81 + (
                lift / 100 if group == "oracle" else -lift / 100 if group == "diverse" else 0
            )
            noise = 0 if group == "baseline" else 0.01 * standard(2, 20)[run.seed]
            return error_curve(
                diversity.ROUND_3["baseline"][index]
                * (1 + 0.02 * standard(3, 20)[run.seed])
                * (ratio + noise)
            )

        return value

    study = STUDIES["balanced"]
    rounds = diversity.balanced_runs(
        study, synthetic(study, {"curve_n16": balanced(0), "curve_low": balanced(1)})
    )
    return runs, rounds
