"""recall2025: flows that are made once and kept, by their members: cells of the sweep over starts, variants of the lifted model, ratios of beta."""

import numpy as np
import pytest

from iclbook.papers.recall2025 import simplifications as lifted
from iclbook.papers.recall2025 import stages


def test_what_never_happens_is_kept_as_no_number_and_comes_last(monkeypatch):
    monkeypatch.setattr(stages, "activations", lambda *_, **__: np.array([[1.0, np.inf, 2.0]]))
    grid = stages.Grid((0.1,), (0.0,), 1)
    monkeypatch.setitem(stages.GRIDS, "smoke", grid)
    times = stages.activated("smoke", [0])["times"]
    assert np.isnan(times).sum() == 1
    found = stages.shares(grid, times)
    assert found["decided"].item() == 3
    assert found["finished"].item() == 0
    found = stages.shares(grid, np.array([[[1.0, np.nan, np.nan]]]))
    assert found["larger"].item() == found["decided"].item() == 2, "two silent heads are no pair"
    jumps = {"jumps": np.array([3.0, np.inf]), "active": np.array([1.0, 2.0, np.inf])}
    monkeypatch.setattr(lifted, "variant", lambda *_: jumps)
    kept = {f"large/{kind}": array for kind, array in lifted.jumping("large", range(8)).items()}
    assert np.isnan(kept["large/jumps"]).sum() == 8
    found = lifted.kept_lifted(kept, "large")
    assert list(found) == list(lifted.VARIANTS)
    assert np.isnan(found["A0 A3"]["active"]).tolist() == [False, False, True]
    assert lifted.kept_apart(found, "/large") == {"full/single/large": [0, 3], "full/joint/large": [0, 4]}


def test_plateaus_are_kept_by_the_reading_of_the_window():
    scan = stages.scanned("k", [1, 0])
    alone = stages.plateau_scan(stages.experiment(window=3), (stages.RATIOS[0],))
    assert scan.keys() == alone.keys()
    for name, values in scan.items():
        assert values[1] == pytest.approx(alone[name][0], rel=1e-6)
        assert values[0] != pytest.approx(values[1], rel=0.1)
    assert stages.scanned("order", [1])["loss"] < 1e-5 < scan["loss"][0]
