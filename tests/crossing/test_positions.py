"""What positions explain of a Transformer's scores, on models whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from iclbook.models.language import normed
from iclbook.models.transformer_language import TransformerLanguage
from iclbook.papers.crossing import studies
from iclbook.papers.crossing.measures import positions
from iclbook.papers.wang2025 import studies as at_home
from iclbook.papers.wang2025.runs.language import TASKS, losses
from iclbook.store import Results
from iclbook.tasks.stories import NOTHING
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


def stories(lengths: list[int], seed: int = 1) -> torch.Tensor:
    """Stories of random words of these lengths, ``(S + 1, n)``."""
    tokens = torch.randint(
        TASKS["smoke"].vocabulary, (max(lengths), len(lengths)), generator=torch.Generator().manual_seed(seed)
    )
    tokens[torch.arange(len(tokens))[:, None] >= torch.tensor(lengths)] = NOTHING
    return tokens


def model(seed: int = 0) -> TransformerLanguage:
    """In double precision."""
    kept = results(seed)
    weights = {name: torch.from_numpy(kept[f"{GROUP.name}/{KEPT}{name}"][0, 0]) for name in GROUP.keep}
    return positions._model(studies("smoke")["language_positions"], weights).double()


class ByTable(TransformerLanguage):
    """Scores are read from a table ``(M, T, T)`` at its first T places."""

    table: torch.Tensor

    def scores(self, x: torch.Tensor, k: int) -> torch.Tensor:
        own, n = super().scores(x, k), min(len(x), self.table.shape[-1])
        own[..., :n, :n] = self.table[:, :n, :n]
        return own


def scores_one_by_one(plain: TransformerLanguage, tokens: torch.Tensor) -> torch.Tensor:
    """Centred scores ``(n, M, S, S)`` by the model's own function."""
    here = tokens[:-1].clamp_min(0)
    h = normed(plain.embed[here] + plain.positions[: len(here), None], plain.gain_embed)
    return positions.centred(plain.scores(normed(h, plain.gain_attention[0]), 0))


def test_means_are_taken_over_stories_that_reach_a_place():
    plain, tokens = model(), stories([5, 7, 3, 9, 9, 7, 8, 9, 9, 4, 9, 9, 9])
    table = positions.table_of(plain, tokens)
    assert table.shape[1:] == (7, 7), "seven stories are too few for the eighth place"
    scores = scores_one_by_one(plain, tokens)
    for place in range(7):
        reach = tokens[place + 1] != NOTHING
        assert torch.allclose(table[:, place], scores[reach, :, place, :7].mean(0))
    left, every = positions.left_by(plain, table, tokens)
    for number, length in enumerate((tokens != NOTHING).sum(0)):
        own = scores[number, :, : min(int(length) - 1, 7), :7]
        assert every[number] == pytest.approx(float(own.square().sum()))
        assert left[number] == pytest.approx(float((own - table[:, : own.shape[1]]).square().sum()))


def test_losses_are_those_of_the_whole_model():
    plain, tokens = model(), stories([9, 5, 7, 9, 3, 4, 8, 8, 9, 6])
    tables = {name: torch.randn(plain.n_heads, n, n).double() for name, n in (("short", 4), ("long", 12))}
    found = positions.losses_by(plain, tables, tokens)
    assert list(found) == ["own", "short", "long"]
    for name, nll in found.items():
        whole = model()
        if name in tables:
            whole.__class__, whole.table = ByTable, tables[name]
        for number, length in enumerate((tokens != NOTHING).sum(0)):
            wanted = losses(whole, tokens[:length, number : number + 1], torch.zeros(int(length), 1))
            assert nll[:, number].sum() == pytest.approx(float(wanted.sum()))
            assert (nll[length - 1 :, number] == 0).all()
    assert torch.allclose(found["own"][4:], found["short"][4:]), "places without a mean keep their own scores"
    assert not torch.allclose(found["own"][1:4], found["short"][1:4])


def test_a_ratio_has_the_error_of_stories_and_of_runs():
    rng = np.random.default_rng(0)
    below = 2 + rng.random((3, 40))
    mean, error = positions.share(0.1 * below, below)
    assert mean == pytest.approx(0.1)
    assert error == pytest.approx(0, abs=1e-9)
    apart = positions.share(np.array([[0.1], [0.2], [0.3]]) * below, below)
    assert apart[1] == pytest.approx(0.1 / np.sqrt(3), rel=0.2)
