"""nagy2026: tables and records of made-up errors, worked out by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from nagy2026.kit import STUDIES

from iclbook.papers.nagy2026.figures import frames
from iclbook.papers.nagy2026.measures import diversity, exact, guided, ladder_tables, masks, shared

TWO = np.array(
    [[1.0, 3.0], [4.0, 4.2]]
)  # settings x seeds: means 2 and 4.1, standard deviations sqrt(2) and 0.1 sqrt(2)


def test_distance_of_a_printed_number_in_standard_deviations():
    assert shared.z_of(5.0, TWO) == pytest.approx([3 / math.sqrt(2), 9 / math.sqrt(2)])
    both = [3 / math.hypot(math.sqrt(2), 1.0), 0.9 / math.hypot(0.1 * math.sqrt(2), 2.05)]
    assert shared.z_of(5.0, TWO, 0.5) == pytest.approx(both), "errors that all share grow with the mean"
    assert shared.nearest_z(5.0, TWO, 0.5) == pytest.approx(min(both))


def test_distance_of_a_printed_mean_in_half_widths():
    ours = np.array([1.0, 2.0, 3.0])
    half = 4.302653 * 1.0 * math.sqrt(1 / 3 + 1)  # Student's t, two degrees of freedom
    assert shared.apart(5.0, ours) == pytest.approx(3 / half, rel=1e-6)
    assert shared.apart(-1.0, ours) == pytest.approx(3 / half, rel=1e-6)
    many = 4.302653 * math.sqrt(1 / 3 + 1 / 4)
    assert shared.apart(5.0, ours, of=4) == pytest.approx(3 / many, rel=1e-6)
    assert shared.apart(5.0, ours, common=0.5) == pytest.approx(3 / math.hypot(half, 1.96), rel=1e-6)


def runs(base: np.ndarray, diverse: np.ndarray) -> diversity.DiversityRuns:
    names = list(diversity.ROUND_1)
    every = dict.fromkeys(names, base), dict.fromkeys(names, diverse)
    return diversity.DiversityRuns([0.1, 0.2], *every, (base, diverse), dict.fromkeys(names, 0.0))


def test_a_row_of_round_1_holds_mean_spread_and_t():
    """Improvements of 50 and 30 per cent, then of 25 and 50: means 40 and 37.5, errors 10 and 12.5."""
    row = diversity.diversity_rows(runs(TWO, np.array([[0.5, 2.1], [3.0, 2.1]])))[0]
    assert row["ours"] == "2.00 ± 1.41, 4.10 ± 0.14"
    assert row["our change"] == "+40.0 (t = 4.0), +37.5 (t = 3.0)"
    first = diversity._NAMES[0]
    before, after = diversity.ROUND_1[first]
    assert (row["configuration"], row["printed"]) == (first, f"{before:.2f}")
    assert row["printed change"] == f"{100 * (before - after) / before:+.1f}"


def test_records_of_rounds_1_and_2():
    better = np.array([[0.5, 2.1], [3.0, 2.1]])
    found = diversity.diversity_records(runs(TWO, better))
    assert found["9.6/round2_gain"] == pytest.approx([40, 37.5])
    assert found["9.6/round2_gain_se"] == pytest.approx([10, 12.5])
    assert found["9.6/round1_gain"] == pytest.approx([40, 37.5] * len(diversity.CONFIGURATIONS))
    assert found["9.6/wide/gain"] == found["9.6/same/gain"] == pytest.approx([40, 37.5])
    assert found["9.6/seeds"] == 2
    strong, medium = diversity.ROUND_1["small_strong"][0], diversity.ROUND_1["small_medium"][0]
    widest = math.sqrt(2) / 2  # of the two rates, the standard deviation over the mean
    assert found["q-unstated/same_baseline"] == pytest.approx(abs(strong - medium) / strong / widest)


def test_records_of_round_3():
    """The regulariser lowers the error by a quarter and a half, the oracle raises it by a tenth and by 30 per cent."""
    base = np.array([[4.0, 4.0], [2.0, 2.0]])
    part = {"baseline": base, "diverse": base * [[0.75], [0.5]], "oracle": base * [[1.1], [1.3]]}
    found = diversity.balanced_records({name: {"all": e, "low": e} for name, e in part.items()})
    assert found["9.6/round3_gain"] == pytest.approx([25, 50])
    assert found["9.6/oracle_change"] == pytest.approx([10, 30])
    assert found["9.6/oracle_over_diverse"] == pytest.approx([35, 80])
    assert found["9.6/oracle_does"] == "raises"
    for changes, word in (
        ([-1.0, -2.0], "lowers"),
        ([-1.0, 2.0], "lowers at one rate and raises at another"),
    ):
        assert diversity._word(np.array(changes)) == word


def test_masks_by_hand():
    """Two settings; a mask's change is of the same seed, and its spread that of two seeds."""
    base = np.array([[2.0, 4.0], [1.0, 1.2]])
    by = {"spectral": base * [[1.1, 1.3], [1.0, 1.2]], "random": base * [[0.9, 0.7], [0.9, 0.5]]}
    by = {"none": base, "redundant": base * [[1.2, 1.4], [1.2, 1.0]]} | by
    found = masks.mask_records(masks.MaskRuns(["a", "b"], by, 0.0))
    assert found["9.1/spectral_change"] == pytest.approx([20, 10])
    assert found["9.1/spectral_change_se"] == pytest.approx([10, 10])
    assert found["9.1/random_change"] == pytest.approx([-20, -30])
    assert found["9.1/redundant_change"] == pytest.approx([30, 10])
    assert (found["9.1/settings"], found["9.1/seeds"]) == (2, 2)
    spreads = {"spectral": 10, "random": 15, "redundant": 10}  # medians, over the square root of 2
    one = [masks.PRINTED_CHANGE[mask] / (spreads[mask] * math.sqrt(2)) for mask in masks.MASKED]
    assert found["q-unstated/one_seed"] == pytest.approx(one)
    near = int(found["9.1/nearest"] == "b")
    assert found["9.1/spread"] == pytest.approx(10 * math.sqrt(2))
    assert found["9.1/baseline"] == pytest.approx([3, 1.1][near])


def test_the_share_of_settings_in_which_spectral_masks_are_worst():
    """Errors of the masks by seed; it is their means over seeds that are compared."""
    order = list(masks.MASK_ERRORS)
    errors = np.ones((2, len(order), 3))  # seeds, masks, settings
    spectral, other = order.index("spectral"), order.index("random")
    errors[:, spectral, 0] = 2
    errors[0, spectral, 1], errors[:, other, 1] = 5, 4  # 3 against 4
    errors[:, spectral, 2], errors[1, other, 2] = 3, 4  # 3 against 2.5
    assert masks._spectral_worst(errors) == pytest.approx(2 / 3)


def test_guided_models_are_compared_by_mean_errors_at_each_length():
    errors = {"baseline": np.array([[1.0, 3.0], [2.0, 2.0]]), "guided": np.array([[1.0, 1.0], [2.0, 3.0]])}
    made = guided.Guided(errors, {}, np.zeros((1, 2)), np.zeros((1, 2)))
    assert made.improvement == pytest.approx([0.5, -0.25])
    assert made.improvement_terms.shape == (2, 2)


def test_the_excess_of_parameters_is_that_over_the_baseline():
    found = guided.parameter_records(STUDIES["guided"])
    more = found["9.5/guided_parameters"] - found["9.5/baseline_parameters"]
    assert found["q-parameters/excess"] == pytest.approx(more / found["9.5/baseline_parameters"])


def test_depths_and_dimensions_rise_and_printed_rates_follow():
    """Section 6 prints three depths; the construction is tried at every size once."""
    assert sorted(set(exact.DIMENSIONS)) == exact.DIMENSIONS
    assert exact.DIMENSIONS[0] == 1
    assert list(exact.PRINTED_COMPOUNDED) == [2, 5, 10]
    assert {k: round(0.9**k, 2) for k in (2, 5, 10)} == exact.PRINTED_COMPOUNDED


def test_ranks_share_the_later_place():
    assert [exact._rank(np.array([0.1, 0.3, 0.3, 0.9]), k) for k in range(4)] == [1, 3, 3, 4]


def test_sliders_start_where_the_page_shows_them(monkeypatch):
    """Defined whole, without a frame being drawn: a live range that leaves a shown value out is refused by the slider itself."""
    seen = []
    monkeypatch.setattr(frames, "show", lambda frame, sliders, **kwargs: seen.append((sliders, kwargs)))
    for few in (False, True):
        for draw in (frames.show_spectrum, frames.show_layers, frames.show_temperature, frames.show_gains):
            draw(few)
    assert len(seen) == 8
    for sliders, kwargs in seen:
        assert all(kwargs["start"][s.name] in s.values for s in sliders if s.name in kwargs.get("start", {}))


def test_what_never_rose_has_no_decay(monkeypatch):
    """Of two runs one peaks at 0.4 and loses a quarter of it, the other never leaves 0: the decay is that of the first alone."""
    risen = SimpleNamespace(peak=0.4, peak_step=100, final=0.3, decay=0.25)
    flat = SimpleNamespace(peak=0.0, peak_step=0, final=-0.1, decay=9.0)
    courses = iter([risen, flat])
    run = SimpleNamespace(
        steps=np.arange(2), reductions=lambda: np.zeros(2), aligned=lambda *at: SimpleNamespace(signs=0.5)
    )
    monkeypatch.setattr(ladder_tables, "course", lambda steps, reductions: next(courses))
    monkeypatch.setattr(ladder_tables, "mixed", lambda get: [run, run])
    monkeypatch.setattr(ladder_tables, "by_size", lambda models: {"tiny": models})
    monkeypatch.setattr(ladder_tables, "_rows", lambda by, row: [row(runs) for runs in by.values()])
    row = ladder_tables.life_rows(None)[-1]
    assert row["decay"] == "25 %"
    assert (row["peak"], row["final"], row["signs"]) == ("+0.20", "+0.10", "+0 %")
