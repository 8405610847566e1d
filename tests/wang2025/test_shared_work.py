"""wang2025: what many draws, queries or contexts share is computed once; the results are those of each alone."""

from __future__ import annotations

import pytest
import torch

from iclbook.models.functional_gd import FunctionalGD
from iclbook.models.kernels import KERNELS
from iclbook.models.trained_tf import TrainedStep
from iclbook.papers.wang2025 import bounds, erasure, figures_8_9
from iclbook.tasks.categorical import Anchors, Quadrants


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("inputs", ["uniform", "normal"])
def test_draws_of_embeddings_on_shared_contexts_are_the_tasks_own(inputs, squared):
    found = bounds.over_embeddings(bounds.BareAnchors(inputs=inputs, squared=squared), 2, 1100)
    for seed in range(2):
        task = Anchors(inputs=inputs, squared=squared, embed_seed=seed)
        assert found[seed] == pytest.approx(bounds.oracle(task, 1100), rel=1e-6)
    found = bounds.over_embeddings(bounds.BareQuadrants(N=1), 2, 64)
    assert found[1] == pytest.approx(bounds.oracle(Quadrants(N=1, embed_seed=1), 64), rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_queries_that_share_a_context_are_answered_as_if_each_had_its_own(kernel):
    source = torch.Generator().manual_seed(0)
    context = torch.cat(
        [torch.rand(6, 2, generator=source), torch.randint(0, 20, (6, 1), generator=source)], 1
    ).double()
    queries = torch.rand(5, 2, generator=source, dtype=torch.float64)
    for model in (FunctionalGD(20, 5, 1, kernel, vector_rate=True), TrainedStep(2, 20, 5, kernel)):
        model.initialise(source, 100.0 if isinstance(model, TrainedStep) else 1.0)
        model = model.double()
        with torch.no_grad():
            found = figures_8_9.logits_over(model, context, queries)
            expected = model(context[..., None].expand(-1, -1, 5), queries.T)
        assert found.std() > 1e-3
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


def test_erasure_a_few_contexts_at_a_time_is_that_of_all(monkeypatch):
    x = torch.rand(5, 6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for kind in ("softmax", "rbf"):
        monkeypatch.setattr(erasure, "CONTEXTS", 5)
        whole = erasure.head_quality(x, kind, 2.0)
        monkeypatch.setattr(erasure, "CONTEXTS", 2)
        assert erasure.head_quality(x, kind, 2.0) == pytest.approx(whole, rel=1e-12)
        assert 0 < whole[1] < 3
