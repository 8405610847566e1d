"""The probes of language models on models whose answer is known."""

import numpy as np
import pytest
import torch
from scipy import stats

from iclbook.models.language_model import LanguageModel
from iclbook.papers.nagy2026 import probe_statistics as forecast
from iclbook.papers.nagy2026 import prompts, readout
from iclbook.papers.nagy2026 import readout as embedding
from iclbook.papers.nagy2026.probe_statistics import (
    alignment,
    causal_heads,
    contraction,
    curvature_correlation,
    late_over_early,
    noise_around_prior,
)
from iclbook.papers.nagy2026.prompts import CORPUS
from iclbook.tasks.mixed_corpus import VOCABULARY

UNIFORM_SINK = np.mean(1 / np.arange(2, 14))  # of a head that looks at all 13 tokens alike
RNG = np.random.default_rng(3)


def untrained(seed: int = 0, n_layers: int = 4, width: int = 32) -> LanguageModel:
    model = LanguageModel(VOCABULARY, width, n_layers, 4, 64)
    model.initialise(torch.Generator().manual_seed(seed))
    return model.requires_grad_(False)


# -- P1 ----------------------------------------------------------------------------------------------------------------


def linear_attention(rate: float, layers: int, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Estimates of linear attention that makes ``layers`` steps of gradient descent on one example (x, w x) of squared size ``a``, with ``eta a = rate``:
    the estimate at the example's own x after each layer."""
    x, w = RNG.uniform(0.5, 2, n), RNG.uniform(1, 4, n)
    eta = rate / x**2
    weight, found = np.zeros(n), [np.zeros(n)]
    for _ in range(layers):
        weight = weight + eta * (w * x - weight * x) * x
        found.append(weight * x)
    return np.stack(found, 1), w * x


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9])
def test_exact_linear_attention_has_its_own_rate(rate):
    estimate, target = linear_attention(rate, 8)
    found = alignment(estimate, target, clip=1e-12)
    assert found.rho_pred == pytest.approx(1 - rate, abs=1e-6)
    assert found.rho_obs == pytest.approx(1 - rate, abs=1e-6)
    assert (found.r2, found.signs, found.contracting) == pytest.approx((1, 1, 1))
    assert found.depth_rank == pytest.approx(1)


def test_an_overshooting_step_is_told_from_a_contracting_one():
    estimate, target = linear_attention(1.5, 6)
    found = alignment(estimate, target)
    assert found.rho_pred == pytest.approx(-0.5, abs=1e-9)
    assert found.rho_obs == pytest.approx(0.5, abs=1e-6)  # the magnitude alone: the sign is lost


def test_the_statistics_equal_those_of_scipy():
    estimate, target = RNG.normal(4, 2, (30, 6)), RNG.integers(0, 10, 30)
    r = target[:, None] - estimate
    line = stats.linregress(r[:, :-1].ravel(), np.diff(estimate, axis=1).ravel())
    decay = stats.linregress(np.tile(np.arange(6), 30), np.log(np.abs(r)).ravel())
    found = alignment(estimate, target, clip=1e-12)
    assert found.slope == pytest.approx(line.slope)
    assert found.r2 == pytest.approx(line.rvalue**2)
    assert found.rho_obs == pytest.approx(np.exp(decay.slope))
    assert found.reduction == pytest.approx(np.abs(r[:, 0]).mean() - np.abs(r[:, -1]).mean())


def test_untrained_weights_reduce_no_error():
    """Within three standard errors over thirty models: one model's read-out drifts with depth, towards the answers or away."""
    lines = prompts.lines(CORPUS, 120)
    reductions, depth = [], []
    for seed in range(30):
        estimate = readout.estimates(untrained(seed), lines.tokens, torch.arange(10)).numpy()
        found = alignment(estimate, lines.target.numpy())
        reductions.append(found.reduction)
        depth.append(found.depth_rank)
    for values in (reductions, depth):
        assert abs(np.mean(values)) < 3 * np.std(values, ddof=1) / np.sqrt(30)
    assert np.std(reductions) < 0.5


def test_a_shrinking_readout_that_knows_nothing_passes_the_documents_signs():
    """Delta and residual share yhat with opposite sign: noise about a mean, regressing to it, has a slope, signs above one half and an r^2."""
    target = RNG.integers(0, 10, 400).astype(float)
    scales = np.array([3.0, 2.0, 1.5, 1.0, 0.5])
    estimate = 4.5 + scales * RNG.standard_normal((400, 5))
    found = alignment(estimate, target)
    assert found.slope > 0.05
    assert found.signs > 0.55
    assert found.r2 > 0.05
    # and the null says so: fresh noise does no worse
    assert noise_around_prior(estimate, target, 60).signs.mean() == pytest.approx(found.signs, abs=0.05)


def test_curvature_shows_where_the_rate_follows_it():
    x = RNG.uniform(0.2, 1, (200, 3))
    gram = (x**2).sum(1)
    target = RNG.uniform(2, 8, 200)
    rho = 1 - 0.2 * gram
    estimate = target[:, None] * (1 - rho[:, None] ** np.arange(5))
    assert curvature_correlation(estimate, target, x) == pytest.approx(-1, abs=1e-6)


# -- prompts -----------------------------------------------------------------------------------------------------------


def test_lines_follow_their_law_and_do_not_show_the_answer():
    lines, k = prompts.lines(CORPUS, 200), 4
    tokens = lines.tokens[:, : 4 * k].reshape(200, k, 4).numpy()
    query = lines.tokens[:, 4 * k].numpy()
    x, y = tokens[:, :, 0], tokens[:, :, 2]
    assert (x == lines.x.numpy()).all()
    assert (x != query[:, None]).all()
    for i in range(200):
        points = {*zip(x[i].tolist(), y[i].tolist(), strict=True), (int(query[i]), int(lines.target[i]))}
        fits = [(a, b) for a in range(-1, 3) for b in range(-10, 15) if all(q == a * p + b for p, q in points)]
        assert fits
        assert all(0 <= q <= 9 for _, q in points)


# -- P2, P6: models made by hand ---------------------------------------------------------------------------------------

SLOTS = VOCABULARY


class Positioned(LanguageModel):
    """Learned positions in place of rotary ones."""

    def __init__(self, places: int, *sizes: int) -> None:
        super().__init__(*sizes)
        self.positions = torch.nn.Parameter(torch.zeros(places, self.width))

    def embedded(self, tokens: torch.Tensor, embed: torch.Tensor | None = None) -> torch.Tensor:
        return super().embedded(tokens, embed) + self.positions[: tokens.shape[-1]]

    def _turn(self, x: torch.Tensor) -> torch.Tensor:
        return x


def induction_model(sink: bool = False) -> LanguageModel:
    """Two layers that copy what followed the last token before: embed | previous token | answer as three one-hot slots, positions in a fourth.

    Layer 0 copies the previous token into the second slot (scores by learned positions); layer 1 looks for a previous token equal to this one and copies
    that place's token into the third slot. With ``sink``, a second head of layer 1 looks at the first token only and writes nothing.
    """
    places, heads = 64, 2
    dh = 2 * SLOTS + places
    width = heads * dh
    model = Positioned(places, VOCABULARY, width, 2, heads, 4)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        first, before, answer, place = 0, SLOTS, 2 * SLOTS, 3 * SLOTS
        assert place + places <= width
        for norm in (model.norm1, model.norm2, model.norm):
            norm.fill_(1.0)
        model.embed[:, first : first + SLOTS] = torch.eye(VOCABULARY)
        model.positions[:, place : place + places] = torch.eye(places)
        sharp = 400.0  # softmax takes the largest score
        for layer in range(2):
            q = model.qkv[layer, :width]
            k = model.qkv[layer, width : 2 * width]
            v = model.qkv[layer, 2 * width :]
            out = model.out[layer]
            if layer == 0:  # the query's position, moved one back, meets the key's position
                for i in range(1, places):
                    q[i - 1, place + i] = sharp
                k[:places, place : place + places] = torch.eye(places)
            else:  # the token here meets the previous token there
                q[:SLOTS, first : first + SLOTS] = sharp * torch.eye(SLOTS)
                k[:SLOTS, before : before + SLOTS] = torch.eye(SLOTS)
                if sink:
                    model.qkv_bias[layer, dh] = 100 * sharp
                    k[dh, place] = 1.0
            v[:SLOTS, first : first + SLOTS] = torch.eye(SLOTS)
            to = before if layer == 0 else answer
            out[to : to + SLOTS, :SLOTS] = torch.eye(SLOTS)
        model.unembed[:, answer : answer + SLOTS] = sharp * torch.eye(VOCABULARY)
    return model.requires_grad_(False)


def test_a_hand_built_induction_head_is_found():
    model = induction_model()
    tokens, target = prompts.blocks(CORPUS, 24, 12)
    surprisal = readout.surprisals(model, tokens, target)
    assert surprisal.shape == (24, 3)
    assert (readout.answers(model, tokens, target)[1] > 0).all()
    assert surprisal[:, 2].max() < 0.01 < 3 < surprisal[:, 1].min()
    chance = readout.answers(untrained(), tokens, target)[1]
    assert (chance > 0).float().mean() < 0.2


def test_ablating_the_induction_head_is_what_hurts():
    model = induction_model()
    found = prompts.patterns(CORPUS, 28)
    intact, alone = readout.pattern_losses(model, found)
    assert intact.max() < 0.01
    assert alone.min() > 1
    effect = readout.ablations(model, found, [[0], [1]]) - intact.mean()
    assert effect[1, 0] > 1
    assert effect[:, 1].abs().max() < 1e-5  # the idle heads
    assert causal_heads(readout.ablations(model, found, [[0], [1]]).numpy(), 60).tolist() == [[0, 0], [1, 0]]
    assert (readout.ablations(model, found, [[0, 1]]) > 1).all()


def test_a_sink_put_in_by_hand_is_found():
    found = prompts.patterns(CORPUS, 28)
    last, match, sink = readout.attention_shares(induction_model(sink=True), found)
    assert sink[1, 1] == pytest.approx(1, abs=1e-4)
    assert last[1, 1] == pytest.approx(1, abs=1e-4)
    # The induction head looks at the r tokens B behind an A, and at the first token, which nothing precedes and which therefore names itself.
    shares = [r / (r + 1) for r in range(prompts.FEWEST, prompts.MOST + 1)]
    assert match[1, 0] == pytest.approx(np.mean(shares), abs=1e-4)
    assert last[1, 0] == pytest.approx(1 - np.mean(shares), abs=1e-4)
    assert sink[0, 1] == pytest.approx(UNIFORM_SINK, abs=1e-5)  # an idle head looks at all alike
    plain = readout.attention_shares(induction_model(), found)[2]
    assert plain[1, 1] == pytest.approx(UNIFORM_SINK, abs=1e-5)
    assert late_over_early(sink.numpy(), 2) > late_over_early(plain.numpy(), 2)


# -- P2 statistics, P3 -------------------------------------------------------------------------------------------------


def test_a_geometric_course_has_its_rate():
    e = 3 * 0.7 ** np.arange(9)
    found = contraction(np.tile(e, (5, 1)))
    assert found == pytest.approx((0.7, 1, 1))
    assert contraction(np.full((5, 4), 2.0)) == pytest.approx((1, 0, 0))
    rising = contraction(np.tile([1.0, 2, 1, 2, 1], (3, 1)))
    assert rising.monotone == 0.5
    assert rising.r2 < 0.1


def test_truncation_finds_the_rank_that_a_model_needs():
    table = torch.zeros(30, 16)
    table[:, :4] = torch.from_numpy(RNG.standard_normal((30, 4)))
    cut = embedding.truncations(table)
    kept = embedding.kept(16)
    apart = (cut - table).abs().amax((1, 2))
    assert [bool(a < 1e-5) for a in apart] == [k >= 4 for k in kept]
    values = torch.linalg.svdvals(table).numpy()
    assert embedding.rank_tau(values, 0.01) == 4
    assert 1 < embedding.effective_rank(values) <= 4
    assert embedding.effective_rank(np.ones(7)) == pytest.approx(7)
    accuracy = np.array([float(k >= 4) for k in kept])
    assert embedding.emergence_gap(accuracy, 16, 4) == 1
    assert np.isnan(embedding.emergence_gap(accuracy, 16, 17))
    other = embedding.truncations(table, "random")
    assert (other[-1] - table).abs().max() < 1e-4
    assert (other[-2] - table).abs().max() > 0.1


def test_truncating_the_embedding_takes_a_models_answers():
    model = induction_model()
    tokens, target = prompts.blocks(CORPUS, 16, 10)
    margin = readout.truncated(model, tokens, target, embedding.truncations(model.embed))
    share = (margin > 0).float().mean(1)
    assert share[-1] == 1
    assert share[0] < 0.5
    assert len(share) == len(embedding.SHARES)


# -- P5 ----------------------------------------------------------------------------------------------------------------


def test_power_without_a_relation_is_the_level_and_choosing_inflates_it():
    none = forecast.power(7, 0.0)
    assert none.significant == pytest.approx(0.05, abs=0.015)  # exact levels are discrete
    assert none.best == pytest.approx(1 - (1 - none.significant) ** forecast.FEATURES, abs=0.03)
    assert forecast.power(7, 0.9).significant > forecast.power(7, 0.5).significant > none.significant
    assert forecast.power(9, 0.7).significant > forecast.power(7, 0.7).significant
    assert none.skill < 0
