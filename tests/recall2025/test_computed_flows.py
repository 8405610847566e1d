"""recall2025: flows that are made once and kept, by their members: cells of the census, variants of the lifted model, ratios of beta."""

from __future__ import annotations

import numpy as np
import pytest

from iclbook.papers.recall2025.measures import order_of_learning as order
from iclbook.papers.recall2025.measures import simplifications as lifted
from iclbook.papers.recall2025.measures import stages


def test_what_never_happens_is_kept_as_no_number_and_read_as_infinite(monkeypatch):
    times = np.array([[[1.0, np.inf, 2.0]]])
    monkeypatch.setattr(order, "cell_times", lambda grid, cells: times)
    kept = order.activated("smoke", [0])["times"]
    assert np.isnan(kept[0, 0]).tolist() == [False, True, False]
    np.testing.assert_array_equal(order.kept_times({"smoke/times": kept}, "smoke"), times)
    jumps = {"jumps": np.array([3.0, np.inf]), "active": np.array([1.0, 2.0, np.inf])}
    monkeypatch.setattr(lifted, "variant", lambda *_: jumps)
    kept = {f"large/{kind}": array for kind, array in lifted.jumping("large", range(8)).items()}
    assert np.isnan(kept["large/jumps"]).sum() == 8
    found = lifted.kept_lifted(kept, "large")
    assert list(found) == list(lifted.VARIANTS)
    np.testing.assert_array_equal(found["A0 A3"]["jumps"], jumps["jumps"])
    np.testing.assert_array_equal(found["A0 A3"]["active"], jumps["active"])


def test_plateaus_are_kept_by_the_reading_of_the_window():
    scan = stages.scanned("k", [1, 0])
    kept = {f"{window}/{name}": values for window in stages.WINDOWS for name, values in scan.items()}
    found = stages.kept_scans(kept)["k"]
    alone = stages.plateau_scan(stages.experiment(window=3), (stages.RATIOS[0],))
    assert found.keys() == alone.keys()
    for name, values in found.items():
        assert values[1] == pytest.approx(alone[name][0], rel=1e-6)
        assert values[0] != pytest.approx(values[1], rel=0.1)
    assert stages.scanned("order", [1])["loss"] < 1e-5 < found["loss"][0]
