"""Nagy 2026: every printed percentage, ratio, t and p value beside what follows from the numbers printed next to it."""

from __future__ import annotations

from functools import lru_cache

from . import arithmetic_guided, arithmetic_probes, arithmetic_trained
from .arithmetic_probes import ALPHA_ERROR, NULL_ERROR
from .printed import Item, Recomputed, recompute
from .rates import (
    FIGURE_1,
    SPECTRUM,
    balanced_rate,
    best_loss_rate,
    best_mean_rate,
    matches,
    others_tried,
    rates_tried,
)
from .statistics import p_of_r, spearman_exact_p


def items() -> tuple[Item, ...]:
    """Every printed number that is recomputed, in the order of the sections."""
    return (*arithmetic_probes.ITEMS, *arithmetic_trained.ITEMS, *arithmetic_guided.ITEMS)


@lru_cache(maxsize=1)
def recompute_all() -> tuple[Recomputed, ...]:
    """Recompute every item."""
    return tuple(recompute(item) for item in items())


def _shown(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{x:.4g}" for x in numbers)


def table(results: tuple[Recomputed, ...] | None = None) -> list[dict[str, str | bool]]:
    """A table: what is printed, what it is recomputed from, the number and the interval that rounding allows, whether it follows."""
    return [
        {
            "section": r.item.section,
            "printed": r.item.words,
            "should be": str(r.item.expects),
            "recomputed as": r.item.formula,
            "from": ", ".join(map(str, r.item.inputs)),
            "gives": _shown(r.values),
            "at least": _shown(r.low),
            "at most": _shown(r.high),
            "follows": r.follows,
            "kind": r.item.kind,
        }
        for r in (recompute_all() if results is None else results)
    ]


def key(item_id: str) -> str:
    """The key under which an item's number is recorded."""
    return f"arithmetic/{item_id}"


def by_section(results: tuple[Recomputed, ...] | None = None) -> dict[str, list[Recomputed]]:
    """The items by section."""
    groups: dict[str, list[Recomputed]] = {}
    for r in recompute_all() if results is None else results:
        groups.setdefault(r.item.section, []).append(r)
    return groups


def records(results: tuple[Recomputed, ...] | None = None) -> dict[str, object]:
    """Key to value for the ledger.

    Per section how many printed numbers and sentences do not follow; the recomputed numbers of every item that the ledger asks about; the
    numbers of the questions on rho, on Spearman's p and on "theory 0.450".
    """
    results = recompute_all() if results is None else results
    values: dict[str, object] = {}
    printed = tuple(r for r in results if r.item.kind != "test")
    for section, group in by_section(printed).items():
        values[f"arithmetic/{section}/failing"] = sum(not r.follows for r in group)
    values["arithmetic/items"] = len(printed)
    values["arithmetic/numbers_failing"] = sum(not r.follows for r in printed if r.item.kind == "number")
    values["arithmetic/failing"] = sum(not r.follows for r in printed)
    for r in results:
        if r.item.asked:
            exact = all(isinstance(x, int) for x in r.item.inputs)
            numbers = [int(x) if exact and x == int(x) else x for x in r.values]
            values[key(r.item.id)] = numbers if len(numbers) > 1 else numbers[0]
    by_id = {r.item.id: r for r in results}
    values["arithmetic/9.5.1/penalty/printed"] = [
        float(x) for x in by_id["9.5.1/penalty"].item.expects.printed
    ]
    values[key("9.5.1/reduction")] = list(by_id["9.5.1/reduction"].values)
    values[key("9.5/losses")] = by_id["9.5/losses"].values[0]
    values["rho/error_of_rho"] = list(by_id["8.4/rho-error"].values)
    values["rho/error_of_alpha"] = list(recompute(ALPHA_ERROR).values)
    values["rho/error_of_no_contraction"] = list(recompute(NULL_ERROR).values)
    values["spearman/approximate_p"] = p_of_r(0.89, 7)
    values["spearman/exact_p"] = spearman_exact_p(0.89, 7)
    values["spearman/printed_p"] = [0.16, 0.29]
    values["spearman/pearson_p"] = list(by_id["8.5/pearson"].values)
    values["theory0450/balanced_rate"] = float(balanced_rate(min(SPECTRUM), max(SPECTRUM)))
    values["theory0450/best_mean_rate"] = float(best_mean_rate())
    values["theory0450/best_loss_rate"] = float(best_loss_rate())
    values["theory0450/largest_share"] = float(max(SPECTRUM) / sum(SPECTRUM))
    values["theory0450/rates"] = len(rates_tried())
    values["theory0450/others"] = len(others_tried())
    values["theory0450/matching_rates"] = len(matches(tried=rates_tried()))
    values["theory0450/matching_others"] = "; ".join(matches(tried=others_tried())) or "none"
    values["fig1b/balanced_rate"] = float(balanced_rate(*FIGURE_1))
    return values
