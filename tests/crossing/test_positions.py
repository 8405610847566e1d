"""What positions explain of a Transformer's scores, on models whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from iclbook.models.transformer_language import TransformerLanguage
from iclbook.papers.crossing import studies
from iclbook.papers.crossing.measures import positions
from iclbook.papers.wang2025 import studies as at_home
from iclbook.papers.wang2025.runs.language import TASKS
from iclbook.store import Results
from iclbook.training.history import KEPT

(GROUP,) = studies("smoke")["language_positions"].groups


def results(seed: int = 0, **changed: float) -> Results:
    """A model as it would be stored, its named parameters times a factor."""
    torch.manual_seed(seed)
    model = GROUP.build()
    drawn = {name: p.detach().clone() for name, p in model.named_parameters()}
    for name in drawn:
        drawn[name] = (
            0.3 * torch.randn_like(drawn[name]) if not name.startswith("gain") else drawn[name] + 1.0
        )
        drawn[name] *= changed.get(name, 1.0)
    return Results({f"{GROUP.name}/{KEPT}{name}": p.numpy()[None, None] for name, p in drawn.items()}, {})


def test_the_study_is_the_one_at_home_with_its_weights_kept():
    ours, home = studies("paper")["language_positions"], at_home("paper")["language_tf_split"]
    (a,), (b,) = ours.groups, home.groups
    assert (a.runs, a.kwargs, a.optimiser, a.schedule) == (b.runs, b.kwargs, b.optimiser, b.schedule)
    assert (ours.steps, ours.batch_size, ours.data) == (home.steps, home.batch_size, home.data)
    assert set(a.keep) == {name for name, _ in a.build().named_parameters()}
    assert a.keep_at == (home.steps,)


def test_a_model_that_sees_places_alone_is_explained_by_them():
    values = positions.position_values(positions.read(results(embed=0.02), "smoke"), "smoke")
    assert values["positions/share"] > 0.99
    assert abs(values["positions/cost"]) < 0.1 * abs(values["positions/equal"]), (
        "equal weights are another model"
    )


def test_a_model_that_sees_words_alone_is_not():
    values = positions.position_values(positions.read(results(positions=0.0), "smoke"), "smoke")
    assert values["positions/share"] == values["positions/blind"] < 0.5
    assert abs(values["positions/lost"]) > 1e-3


def test_centred_scores_do_not_move_the_weights():
    scores = torch.randn(2, 3, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    after = torch.ones(5, 5, dtype=torch.bool).triu(1)
    weights = [
        torch.softmax(s.masked_fill(after, -torch.inf), -1) for s in (scores, positions.centred(scores))
    ]
    assert torch.allclose(*weights)
    assert torch.equal(positions.centred(scores)[..., after], torch.zeros(2, 3, 10, dtype=torch.float64))


def test_means_are_taken_over_stories_that_reach_a_place():
    scores = torch.arange(12.0).reshape(12, 1, 1, 1).expand(12, 1, 3, 3)
    there = torch.tensor([[True] * 12, [True] * 9 + [False] * 3, [True] * 2 + [False] * 10])
    table = positions.table_of(scores, there)
    assert table.shape == (1, 2, 2), "two stories are too few for the third place"
    assert table[0, :, 0].tolist() == [5.5, 4.0]
    left, every = positions.left_by(table, scores, there)
    assert left[10] == pytest.approx(2 * (10 - 5.5) ** 2), "its one place, two keys"
    assert every[10] == pytest.approx(2 * 10**2)


def test_a_ratio_has_the_error_of_stories_and_of_runs():
    rng = np.random.default_rng(0)
    below = 2 + rng.random((3, 40))
    mean, error = positions.share(0.1 * below, below)
    assert mean == pytest.approx(0.1)
    assert error == pytest.approx(0, abs=1e-9)
    apart = positions.share(np.array([[0.1], [0.2], [0.3]]) * below, below)
    assert apart[1] == pytest.approx(0.1 / np.sqrt(3), rel=0.2)


def test_a_table_replaces_scores_at_its_places():
    study = studies("smoke")["language_positions"]
    kept = results()
    weights = {
        name: torch.from_numpy(kept[f"{GROUP.name}/{KEPT}{name}"][0, 0]).double() for name in GROUP.keep
    }
    plain = positions._model(TransformerLanguage, study, weights).double()
    model = positions._model(positions.ByTable, study, weights).double()
    tokens = torch.randint(TASKS["smoke"].vocabulary, (9, 2), generator=torch.Generator().manual_seed(1))
    model.table = positions.scores_on(plain, tokens)[0]
    assert torch.allclose(model(tokens)[:, 0], plain(tokens)[:, 0]), "its own scores change nothing"
    assert not torch.allclose(model(tokens)[1:, 1], plain(tokens)[1:, 1])
    model.table = model.table[:, :4, :4]
    assert not torch.allclose(model(tokens)[1:4, 1], plain(tokens)[1:4, 1])
    assert torch.allclose(model(tokens)[4:, 1], plain(tokens)[4:, 1]), (
        "places without a mean keep their own scores"
    )
