"""A study trained in parts by an executor gives the numbers of the same study trained in one piece."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from iclbook.experiments.study import GroupSpec, Study, train_study
from iclbook.models import Attention
from iclbook.tasks import LinearRegression
from iclbook.training import Run


@pytest.mark.slow
def test_a_process_pool_trains_the_same_numbers(tmp_path, monkeypatch):
    (tmp_path / "_toc.yml").write_text("")
    (tmp_path / "claims").mkdir()
    monkeypatch.setenv("ICLBOOK_ROOT", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    groups = tuple(
        GroupSpec(f"h{h}", Attention, (("d", 3), ("n_heads", h)), (Run(0), Run(1))) for h in (1, 2)
    )
    study = Study("demo", "tiny", LinearRegression(d=3, L=8), groups, steps=20, batch_size=16)
    alone = train_study(study, "smoke", "cpu", progress=False)
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        shared = train_study(study, "smoke", "cpu", fresh=True, executor=executor)
    assert alone.arrays.keys() == shared.arrays.keys()
    for key, value in alone.arrays.items():
        np.testing.assert_allclose(shared[key], value, rtol=1e-4, atol=1e-6, err_msg=key)
    assert not list((tmp_path / ".cache").rglob("*.pt")), "finished parts leave no checkpoint"
