"""agarwal2025, section 9: effective weights and conjectured gradients against autograd, and mutations that must turn a named claim red."""

from __future__ import annotations

import math

import pytest
import torch
from ledgers import GREEN, RED, ledger

from iclbook.claims import Record, Verdict, verdict
from iclbook.models.lstm import lstm_scan
from iclbook.models.selective_ssm import SelectiveSsm, selective_scan
from iclbook.models.sequence import rms_norm
from iclbook.papers.agarwal2025.measures import routing
from iclbook.papers.agarwal2025.theory import routing as theory

LEDGER = ledger("agarwal2025")
DRAWS = 12


@pytest.fixture(autouse=True)
def _nothing_kept():
    """A mutation must reach the gradients, and must not stay with them."""
    routing.drawn_gradients.cache_clear()
    yield
    routing.drawn_gradients.cache_clear()


def judge(claim: str, values: dict) -> Verdict:
    """The verdict of the paper profile on these values."""
    return verdict(
        LEDGER.claim(f"agarwal2025/{claim}"), {k: Record.make(k, v) for k, v in values.items()}, "paper"
    )


def failing(claim: str, values: dict) -> set[str]:
    """Keys of the parts that fail, whatever their reading."""
    return {p.key for p in judge(claim, values).parts if not p.holds}


def inexact() -> set[str]:
    """The forms of Conjecture 9.2 that are exact and yet are not within rounding of autograd's gradient."""
    every = {m: [routing.drawn_gradients(seed, m) for seed in range(DRAWS)] for m in routing.MECHANISMS}
    off = {
        "chain": [routing.relative(g["chain"], g["exact"]) for found in every.values() for g in found],
        "scores": [routing.relative(g["scores"], g["exact"]) for g in every["softmax"]],
        "softmax": [routing.off_multiple(g["advantage"], g["exact"]) for g in every["softmax"]],
        "baseline": [routing.relative(g["baseline"], g["exact"] - g["advantage"]) for g in every["ssm"]],
        "normalised": [routing.relative(g["advantage"], g["exact"]) for g in every["normalised"]],
    }
    return {name for name, errors in off.items() if not max(errors) <= 1e-10}


# -- closed forms -----------------------------------------------------------------------------------------------------


def test_ssm_weights_against_a_product_written_out():
    g = torch.Generator().manual_seed(0)
    delta = torch.rand(2, 4, generator=g, dtype=torch.float64)
    a = -torch.rand(2, 3, generator=g, dtype=torch.float64)
    b, c = (torch.randn(3, 4, generator=g, dtype=torch.float64) for _ in range(2))
    w = theory.ssm_weights(delta, a, b, c)
    for channel in range(2):
        for i in range(4):
            for j in range(4):
                want = 0.0
                if j <= i:
                    for n in range(3):
                        product = math.prod(
                            math.exp(a[channel, n] * delta[channel, k]) for k in range(j + 1, i + 1)
                        )
                        want += float(c[n, i] * product * delta[channel, j] * b[n, j])
                assert w[channel, i, j].item() == pytest.approx(want, abs=1e-14)


def test_weights_of_the_trained_model_too():
    """The layer of the wind tunnel's model, not only random parts."""
    net = SelectiveSsm(5, 3, width=6, n_layers=1).double()
    net.initialise(torch.Generator().manual_seed(1))
    x = torch.randn(6, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    parts = [p.squeeze(-1) if p.dim() == 3 else p for p in net.parts(0, rms_norm(net.gain[0], x[..., None]))]
    inner, delta, a, b, c = parts
    w = theory.ssm_weights(delta, a, b, c)
    torch.testing.assert_close(
        torch.einsum("wij,wj->wi", w, inner), selective_scan(inner, delta, a, b, c), rtol=1e-12, atol=1e-14
    )


def test_identities_hold_to_rounding():
    found = routing.identity_records(30)
    assert max(found.values()) <= 1e-12


def test_sizes_differ_between_draws():
    shapes = {(d.x.shape, d.values.shape, d.theta["ssm"]["rate"].shape) for d in map(routing.draw, range(40))}
    assert len(shapes) > 15


@pytest.mark.parametrize("mechanism", routing.MECHANISMS)
def test_gradient_of_routing_against_differences(mechanism):
    d = routing.draw(3)
    p, v = d.theta[mechanism], d.values @ d.x
    flat, exact = routing._flat(p), routing.gradients_of_routing(d, mechanism)["exact"]
    for k in range(flat.numel()):
        step = torch.zeros_like(flat)
        step[k] = 1e-6
        up, down = (
            routing.loss_of(d, routing.output(mechanism, routing._unflat(p, flat + s * step), d.x, v))
            for s in (1, -1)
        )
        assert exact[k].item() == pytest.approx(float(up - down) / 2e-6, abs=1e-8)


def test_any_baseline_does_where_rows_sum_to_one():
    """The attention-weighted mean is not needed: any number per reader leaves the gradient as it is."""
    d = routing.draw(5)
    p, v = d.theta["softmax"], d.values @ d.x
    flat = routing._flat(p)
    u = torch.func.grad(lambda o: routing.loss_of(d, o))(routing.output("softmax", p, d.x, v))
    dw = torch.func.jacrev(lambda t: routing.weights("softmax", routing._unflat(p, t), d.x))(flat)
    b = u.T @ v
    torch.testing.assert_close(theory.chain(b - torch.arange(b.shape[0])[:, None], dw), theory.chain(b, dw))


# -- the claims, and what must turn them red ----------------------------------------------------------------------------


def claims_records() -> dict:
    return (
        routing.identity_records(DRAWS)
        | routing.definition_records(DRAWS)
        | routing.conjecture_9_2_records(DRAWS)
        | routing.conjecture_9_3_records(DRAWS)
    )


def test_verdicts():
    values = claims_records() | routing.key_cosine_records()
    assert judge("q-conj9.2", values).word == "no"
    assert judge("q-ssm-routing", values).word == "no"
    assert not inexact()
    assert values["routing/lstm_identity"] <= 1e-12
    assert routing.over_draws("lstm", "outside", 20).max() == 0
    assert routing.over_draws("lstm", "row_error", 20).median() > 0.05
    assert values["routing/ssm_one/interaction"] <= 1e-10 < 1e-6
    assert routing.over_draws("lstm", "interaction", 20).median() > 1e-6
    assert judge("q-key-cosine", values).word in GREEN
    assert judge("conj9.3", values).word in GREEN
    assert failing("conj9.3", values) == {"conj93/ssm/shared"}
    assert judge("conj9.2", values).word == "not reproduced"
    assert failing("conj9.2", values) == {"conj92/softmax/printed", "conj92/ssm/printed"}
    assert judge("routing-def", values).word == "partly"
    assert failing("routing-def", values) == {
        "routing/ssm/outside",
        "routing/ssm/row_error",
        "routing/lstm/others",
    }


def test_missing_baseline_turns_red(monkeypatch):
    monkeypatch.setattr(theory, "expectation", lambda w, b: torch.zeros_like(w.sum(-1)))
    assert {"scores", "baseline"} <= inexact()


def test_wrong_decay_turns_red(monkeypatch):
    """The product taken from j instead of j + 1."""

    def shifted(delta, a, b, c):
        extra = torch.exp(a[:, :, None] * delta[:, None])  # exp(A Delta_j), (W, N, T)
        clock = delta.cumsum(1)
        elapsed = (clock[:, :, None] - clock[:, None, :]).tril()
        decay = torch.exp(a[:, :, None, None] * elapsed[:, None]) * extra[:, :, None, :]
        return torch.einsum("ni,wnij,wj,nj->wij", c, decay, delta, b) * theory.causal(delta.shape[1], delta)

    monkeypatch.setattr(theory, "ssm_weights", shifted)
    assert "routing/ssm_identity" in failing("routing-def", routing.identity_records(DRAWS) | rest())
    assert "chain" in inexact()


def rest() -> dict:
    """Records of definition 9.1 that the mutation leaves alone, so that the claim is decided."""
    return dict(routing.definition_records(4))


def test_forget_gate_one_late_turns_red(monkeypatch):
    right = theory.lstm_weights
    monkeypatch.setattr(theory, "lstm_weights", lambda i, f: right(i, f.roll(1, 1)))
    assert routing.identity_records(DRAWS)["routing/lstm_identity"] > 1e-3


def test_missing_mask_turns_red(monkeypatch):
    monkeypatch.setattr(theory, "causal", lambda n, like: torch.ones(n, n, dtype=like.dtype))
    values = routing.identity_records(DRAWS) | rest()
    assert "routing/ssm_identity" in failing("routing-def", values)


def test_upstream_of_the_wrong_position_turns_red(monkeypatch):
    right = theory.conjecture_9_3
    monkeypatch.setattr(theory, "conjecture_9_3", lambda w, u, x: right(w.transpose(-1, -2), u, x))
    values = routing.conjecture_9_3_records(DRAWS)
    assert judge("conj9.3", values).word in RED


def test_normalising_is_what_makes_the_advantage_exact(monkeypatch):
    monkeypatch.setattr(theory, "normalised", lambda w: w)
    assert "normalised" in inexact()


@pytest.mark.parametrize("dimension", [2, 3, 6, 192])
def test_mean_cosine_of_random_vectors(dimension):
    z = torch.randn(2, 40_000, dimension, generator=torch.Generator().manual_seed(dimension))
    cosine = torch.nn.functional.cosine_similarity(z[0], z[1], dim=1).abs()
    assert routing.random_cosine(dimension) == pytest.approx(
        cosine.mean().item(), abs=5 * cosine.std().item() / 200
    )


def test_lstm_gates_read_what_came_before():
    """Equations 51 and 52 feed h_{t-1} to the gates, so a gate moves with every earlier input."""
    d = routing.draw(7)
    p = d.theta["lstm"]
    slope = torch.func.jacrev(lambda x: lstm_scan(p["drive"] @ x, p["recurrent"])["f"][:, -1])(d.x)
    assert (slope[..., :-1].abs().amax((0, 1)) > 0).all()


def test_every_record_is_in_the_ledger():
    values = claims_records() | routing.key_cosine_records()
    for key in values:
        LEDGER.require_key(key)
