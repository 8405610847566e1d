"""nagy2026: counts of parameters against modules, and Figure 1 against descent on its design."""

from __future__ import annotations

import numpy as np
import pytest
from nagy2026.kit import (
    STUDIES,
    failing,
    judge,
)
from torch import nn

from iclbook.papers.nagy2026.measures import exact, guided
from iclbook.papers.nagy2026.theory import architectures, probe

# -- parameters -------------------------------------------------------------------------------------------------------------


def torch_count(c: architectures.Choices, model: str) -> int:
    """Parameters of an architecture assembled from torch.nn's modules."""
    width, layers = architectures.STATED[model]["width"], architectures.STATED[model]["n_layers"]
    parts: list[nn.Module] = [nn.Linear(width, 1, bias=c.read_bias)]
    sizes = (5,) if c.tokens == "pair" else (4, 1)
    parts += [nn.Linear(n, width, bias=c.embed_bias) for n in sizes]
    parts += [nn.LayerNorm(width)] * c.final_norm + (
        [nn.Embedding(c.positions, width)] if c.positions else []
    )
    for _ in range(layers):
        parts += [nn.MultiheadAttention(width, 2, bias=c.attention_bias)]
        parts += [nn.LayerNorm(width) for _ in range(c.norms)]
        parts += [nn.Linear(width, c.mlp * width), nn.Linear(c.mlp * width, width)] if c.mlp else []
    extra = 0
    if model == "guided":
        sink = {
            "token": width,
            "key and value per layer": 2 * width * layers,
            "key per layer": width * layers,
        }
        extra = (
            sink.get(c.sink, 2 * layers) + layers * {"number": 1, "two numbers": 2, "vector": width}[c.scale]
        )
    return sum(p.numel() for part in parts for p in part.parameters()) + extra


def test_counts_against_modules():
    family = list(architectures.family())
    assert len(set(family)) == len(family) == architectures.search()["tried"]
    for i in np.random.default_rng(0).choice(len(family), 40, replace=False):
        for model in architectures.PRINTED:
            assert architectures.count(family[i], model) == torch_count(family[i], model), family[i]


def test_parameters_of_the_trained_models_answer_the_question_and_the_budget_is_not_equal():
    values = guided.parameter_records(STUDIES["guided"])
    assert (values["9.5/baseline_parameters"], values["9.5/guided_parameters"]) == (8801, 9989)
    assert failing("q-parameters", values) == {"q-parameters/nearest_width"}
    assert values["q-parameters/nearest_width"] == 22
    assert failing("q-parameters", values | {"q-parameters/nearest_width": 24}) == set()


@pytest.mark.parametrize("lost", ["attention biases", "layer norms", "sink", "read-out"])
def test_a_count_that_forgets_a_part_turns_q_parameters_red(monkeypatch, lost):
    right = architectures.parts

    def forgetful(*args, **kwargs):
        return {k: v for k, v in right(*args, **kwargs).items() if k != lost}

    monkeypatch.setattr(architectures, "parts", forgetful)
    values = guided.parameter_records(STUDIES["guided"])
    assert "q-parameters/both" in failing("q-parameters", values)


# -- Figure 1 ---------------------------------------------------------------------------------------------------------------


def test_the_largest_eigenvalue_is_fastest_at_its_inverse_but_not_at_eta_star(monkeypatch):
    eigenvalues = exact.spectrum()
    values = exact.figure_1(eigenvalues)
    assert judge("q-fig1b", values).word == "no"
    assert failing("q-fig1b", values) == {"fig1/largest_rank"}
    assert failing("fig1", values) == {"fig1/largest_rank"}
    assert values["fig1/largest_rank"] == values["fig1/smallest_rank"] == 5
    assert values["q-fig1b/rank_at_inverse"] == 1
    monkeypatch.setattr(probe, "balanced_step", lambda lam: 1 / max(lam))
    values = exact.figure_1(eigenvalues)
    assert failing("q-fig1b", values) == {"q-fig1b/ends_ratio"}
    assert failing("fig1", values) == set()


def test_curves_of_figure_1_against_descent_on_the_design():
    eigenvalues = np.array([0.5, 2.0, 7.0])
    x = probe.design(eigenvalues, 12, 3)
    np.testing.assert_allclose(np.linalg.eigvalsh(x.T @ x), eigenvalues, rtol=1e-12)
    np.testing.assert_allclose(
        probe.channel_errors(x, 0.1, 6), probe.factors(eigenvalues, 0.1) ** np.arange(7)[:, None], rtol=1e-9
    )
    np.testing.assert_allclose(probe.scalar_descent(0.6, 1.0, 5, 3.0), 0.16 ** np.arange(6), atol=1e-15)


def test_wrong_gradients_turn_figure_1_red(monkeypatch):
    eigenvalues, right, channels = exact.spectrum(), probe.scalar_descent, probe.channel_errors
    monkeypatch.setattr(probe, "scalar_descent", lambda a, eta, steps: right(a, 1.01 * eta, steps))
    assert "fig1/a_gap" in failing("fig1", exact.figure_1(eigenvalues))
    monkeypatch.setattr(probe, "channel_errors", lambda x, eta, steps: channels(x, 2 * eta, steps))
    assert "fig1/b_gap" in failing("fig1", exact.figure_1(eigenvalues))


def test_lists_of_one_digit_factors_against_a_count_one_by_one(monkeypatch):
    monkeypatch.setattr(probe, "ONE_DIGIT", (0.2, 0.3, 1.0, 2.0, 2.5, 3.0))
    drawn = {
        "RandomState": np.random.RandomState(42).randn(105),
        "default_rng": np.random.default_rng(42).standard_normal(105),
    }
    found = 0
    for numbers in drawn.values():
        for base in (numbers[:100], numbers[5:]):
            for left in range(6):
                factors = np.delete(probe.ONE_DIGIT, left)
                ends = np.linalg.svd(base.reshape(20, 5) * factors)[1][[0, -1]] ** 2
                found += 107.5 <= ends[0] <= 108.5 and 0.85 <= ends[1] <= 0.95
    assert probe.lists(42) == (24, found)
    monkeypatch.setitem(probe.PRINTED, "largest", float(ends[0]))
    monkeypatch.setitem(probe.PRINTED, "smallest", float(ends[1]))
    assert probe.lists(42)[1] >= 1


def test_spectra_are_those_of_the_recipes_as_they_read():
    every, eigenvalues = probe.spectra(42)
    assert len(every) == len({str(r) for r in every})
    for i, recipe in list(enumerate(every))[::97]:
        rng = np.random.RandomState(42) if recipe.generator == "RandomState" else np.random.default_rng(42)
        normal = (
            rng.randn if recipe.generator == "RandomState" else lambda *s, rng=rng: rng.standard_normal(s)
        )
        if recipe.first == "w*":
            normal(5)
        ends = (recipe.high, recipe.low) if "falling" in recipe.scaling else (recipe.low, recipe.high)
        columns = (np.linspace if "linspace" in recipe.scaling else np.geomspace)(*ends, 5)
        x = normal(20, 5) * (np.sqrt(columns) if "root" in recipe.scaling else columns)
        np.testing.assert_allclose(np.sort(np.linalg.svd(x)[1] ** 2), eigenvalues[i], rtol=1e-9)
    hits = probe.matches(np.array([[0.94, 1, 2, 3, 108.4], [0.96, 1, 2, 3, 108.0], [0.9, 1, 2, 3, 109.0]]))
    assert hits.tolist() == [True, False, False]


def test_matches_are_counted_as_if_all_eigenvalues_were_computed(monkeypatch):
    """Also where many match, and where the bounds on the ends are nearly met: diagonal designs."""
    _, scaled = probe.designs(42)
    scaled = np.concatenate([scaled, [np.diag([0.85, 1, 2, 3, 108.5]), np.diag([0.8, 1, 2, 3, 108.5])]])
    eigenvalues = np.linalg.eigvalsh(scaled)
    for i in range(0, len(scaled), 60):
        monkeypatch.setitem(probe.PRINTED, "smallest", float(eigenvalues[i, 0]))
        monkeypatch.setitem(probe.PRINTED, "largest", float(eigenvalues[i, -1]))
        assert probe.count_matches(scaled) == probe.matches(eigenvalues).sum() >= 1
