"""wang2025: what many queries share is computed once; the results are those of each alone."""

from __future__ import annotations

import pytest
import torch

from iclbook.models.functional_gd import FunctionalGD
from iclbook.models.kernels import KERNELS
from iclbook.models.trained_tf import TrainedStep
from iclbook.papers.wang2025 import figures_8_9


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
