"""agarwal2025, the wind tunnel: its records and figures, and mutations of the exact posteriors that turn a claim red."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from iclbook.papers.agarwal2025.runs.tunnel_specs import probe_numbers
from ledgers import ledger

from iclbook import random, store
from iclbook.claims import Record, verdict
from iclbook.errors import UserError
from iclbook.models.lstm import Lstm
from iclbook.papers.agarwal2025.figures import wind_tunnel as draw
from iclbook.papers.agarwal2025.measures import tunnel_records as records
from iclbook.papers.agarwal2025.runs import wind_tunnel as tunnel
from iclbook.tasks.bijection_elimination import BijectionElimination
from iclbook.tasks.hmm_filtering import HmmFiltering, entropy_bits, posteriors
from iclbook.training.study import pack

pytestmark = pytest.mark.xdist_group("wind tunnel")  # the smoke runs are trained once

LEDGER = ledger("agarwal2025")
HMM = HmmFiltering(3, 2, 4)


def numbers(task, n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return random.drawn(task, seed, 5, (n,), dtype=torch.float64)


# -- records, claims, mutations -----------------------------------------------------------------------------------------

#: Values with which every part of the claim holds.
HOLDS = {
    "tunnel/hmm/turned_ratio": 0.9,
    "tunnel/hmm/transformer_ratio": 0.3,
    "tunnel/hmm/ssm_ratio": 0.2,
    "tunnel/hmm/lstm_ratio": 2.5,
    "tunnel/bijection/lstm_ratio": 0.1,
    "tunnel/bijection/prefix_mlp_ratio": 1.0,
    "tunnel/bijection/transformer_ratio": 0.1,
    "tunnel/keys/ratio": [0.7, 0.7],
    **{f"tunnel/{part}/pc1": [0.87, 0.87] for part in ("value", "output")},
    **{f"tunnel/{part}/r": [0.95, 0.95] for part in ("value", "output")},
    **{p.error: 0.0 for p in LEDGER.claim("agarwal2025/wind-tunnel").parts if p.error},
}


def failing(claim: str, values: dict) -> set[str]:
    result = verdict(
        LEDGER.claim(f"agarwal2025/{claim}"), {k: Record.make(k, v) for k, v in values.items()}, "paper"
    )
    assert "not recorded" not in result.note, result.note
    return {p.key for p in result.parts if not p.holds}


class Oracle(Lstm):
    """Answers with given distributions."""

    answer: torch.Tensor

    def forward(self, tokens):
        return torch.log(self.answer.clamp(min=1e-300))


def oracle_error(task, answer: torch.Tensor, exact: torch.Tensor) -> float:
    """Error of the entropy of a model that gives ``answer`` where ``exact`` is held to be right."""
    net = Oracle(task.token_width, task.classes).double()
    net.answer = answer
    tokens = torch.zeros(task.tokens, task.token_width, answer.shape[-1])
    return net.measured_on({"train": (tokens, exact)})["mae_train"].mean().item()


def test_right_filter_keeps_the_claims_green():
    assert failing("wind-tunnel", HOLDS) == set()
    found = records.lstm_baseline_records(8000)
    assert failing("q-lstm-baseline", found) == {"lstm_baseline/uniform"}  # the printed error is no better
    assert failing("q-lstm-baseline", found | {"lstm_baseline/uniform": [0.5, 0.5]}) == set()
    assert max(found["lstm_baseline/memoryless"]) < 0.208
    more = records.lstm_baseline_records(16_000)["lstm_baseline/uniform_se"]
    assert np.array(found["lstm_baseline/uniform_se"]) / more == pytest.approx([2**0.5] * 2, rel=0.03)


@pytest.mark.parametrize("wrong", ["transposed", "without transport"])
def test_wrong_transition_turns_red(monkeypatch, wrong):
    def broken(transition, emission, seen):
        eye = torch.eye(transition.shape[0], dtype=transition.dtype)[..., None]
        return posteriors(
            transition.transpose(0, 1) if wrong == "transposed" else eye.expand_as(transition), emission, seen
        )

    task = HmmFiltering(3, 3, 10)
    z = probe_numbers(task, 1000)
    error = oracle_error(task, posteriors(*task.draw(*z)), broken(*task.draw(*z)))
    answers = {name: part.mean() for name, part in records.hmm_baselines(task, 1000).items()}
    own = {"ssm": error / answers["memoryless"], "turned": answers["turned"] / answers["memoryless"]}
    values = HOLDS | {f"tunnel/hmm/{name}_ratio": round(float(ratio), 9) for name, ratio in own.items()}
    assert failing("wind-tunnel", values) == {"tunnel/hmm/ssm_ratio"}
    found = records.hmm_baselines(HmmFiltering(5, 5, 20), 2000)["memoryless"]
    monkeypatch.setattr(records, "posteriors", broken)
    assert abs(records.hmm_baselines(HmmFiltering(5, 5, 20), 2000)["memoryless"] - found).mean() > 0.01


def test_missing_elimination_turns_red():
    task = BijectionElimination(8, 6)
    exact = task.exact(*numbers(task, 100, 9))
    error = oracle_error(task, exact, torch.full_like(exact, 1 / 8))
    assert error == pytest.approx(records.prior_error(task).mean(), abs=1e-9)
    ratio = error / records.prior_error(task).mean()
    assert ratio == pytest.approx(1, abs=1e-7)
    assert failing("wind-tunnel", HOLDS | {"tunnel/bijection/lstm_ratio": 1.0}) == {
        "tunnel/bijection/lstm_ratio"
    }


def test_constant_answer_is_the_best_constant():
    found = records.hmm_baselines(HMM, 2000)
    entropy = entropy_bits(HMM.exact(*probe_numbers(HMM, 2000)))
    best = min((entropy - c).abs().mean().item() for c in np.linspace(0, math.log2(3), 400))
    assert found["constant"].mean() == pytest.approx(best, abs=1e-3)
    assert found["memoryless"][0] < 1e-12


@pytest.fixture(scope="module")
def smoke() -> tuple[dict, dict]:
    """Both studies of the smoke profile, trained now: results and studies."""
    every = {study.name: study for study in tunnel.wind_tunnel_studies("smoke")}
    found = {}
    for name, study in every.items():
        histories = study.trainer("cpu", compile=False).train(progress=False)
        found[name] = store.Results(pack(histories), {"config": study.describe(), "seconds": 1.0})
    return found, every


def test_smoke_runs_give_every_record(smoke):
    results, studies = smoke
    values = records.tunnel_records(results["tunnel_hmm"], results["tunnel_bijection"], studies)
    failing("wind-tunnel", values)
    for key in values:
        LEDGER.require_key(key)
    assert values["tunnel/seeds"] == 2
    own = records.error(results["tunnel_hmm"], "ssm")
    below = values["tunnel/hmm/memoryless"]
    assert values["tunnel/hmm/ssm_ratio"] == pytest.approx(own.mean() / below)
    sd = abs(own[0] - own[1]) / 2**0.5
    assert values["tunnel/hmm/ssm_ratio_se"] == pytest.approx(12.7062 * sd / 2**0.5 / 2 / below, rel=1e-4)
    keys = records.key_cosines(results["tunnel_bijection"], "y")
    assert values["tunnel/keys/ratio"][1] == pytest.approx(keys[-1].mean() / keys[0].mean())
    for model in records.MODELS:  # sixty steps are enough to beat an answer that ignores the input
        assert values[f"tunnel/bijection/{model}"] < values["tunnel/bijection/prior"]
    width = studies["tunnel_hmm"].groups[0].model(**dict(studies["tunnel_hmm"].groups[0].kwargs)).width
    assert records.transformer_width(results["tunnel_hmm"]) == width


def test_figures_of_smoke_runs(smoke):
    results, studies = smoke
    assert len(draw.errors_by_place(results, studies).axes) == 2
    assert len(draw.errors_by_step(results).axes) == 2
    assert len(draw.geometry(results, studies).axes) == 4
    plt.close("all")


def test_studies_of_both_profiles():
    for profile in ("smoke", "paper"):
        for study in tunnel.wind_tunnel_studies(profile):
            assert {g.name for g in study.groups} == set(records.MODELS)
            assert len({tuple(g.runs) for g in study.groups}) == 1
            assert {g.observe.n for g in study.groups} == {4 * study.batch_size}, "measured on four batches"
    with pytest.raises(UserError):
        tunnel.wind_tunnel_studies("huge")
