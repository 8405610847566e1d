"""What language models need of the trainer: AdamW with clipping, the cosine, the loss; and decoding."""

from __future__ import annotations

import itertools

import pytest
import torch

from iclbook.errors import UserError
from iclbook.models.decoding import beam, cut, sampled
from iclbook.models.gd_language import GDLanguage
from iclbook.models.transformer_language import TransformerLanguage
from iclbook.tasks import Batch
from iclbook.training.groups import next_token
from iclbook.training.optimisers import AdamW, clipped
from iclbook.training.optimisers import Cosine


def test_adamw_is_torchs():
    g = torch.Generator().manual_seed(0)
    start = {k: torch.randn(2, *s, generator=g, dtype=torch.float64) for k, s in (("a", (3, 2)), ("b", (4,)))}
    mine, ours = AdamW(decay=0.3, clip=0.5), {k: v.clone() for k, v in start.items()}
    state, rates = (
        mine.init(ours),
        {k: torch.full((2, *[1] * (v.dim() - 1)), 0.1, dtype=v.dtype) for k, v in ours.items()},
    )
    theirs = [{k: torch.nn.Parameter(v[r].clone()) for k, v in start.items()} for r in range(2)]
    each = [torch.optim.AdamW(p.values(), lr=0.1, weight_decay=0.3) for p in theirs]
    for t in range(1, 6):
        grads = {
            k: torch.randn(v.shape, generator=g, dtype=torch.float64) * (t % 3) for k, v in start.items()
        }
        ours, state = mine.update(ours, grads, state, rates, torch.tensor(t, dtype=torch.float64))
        for r, (p, optimiser) in enumerate(zip(theirs, each, strict=True)):
            for k in p:
                p[k].grad = grads[k][r].clone()
            torch.nn.utils.clip_grad_norm_(p.values(), 0.5)
            optimiser.step()
    for r, p in enumerate(theirs):
        for k in p:
            torch.testing.assert_close(ours[k][r], p[k].data, rtol=1e-9, atol=1e-12)


def test_small_gradients_are_not_clipped():
    grads = {"a": torch.tensor([[3.0, 0.0], [30.0, 0.0]]), "b": torch.tensor([[4.0], [40.0]])}
    found = clipped(grads, 10.0)
    assert torch.equal(found["a"][0], grads["a"][0])
    assert torch.sqrt((found["a"][1] ** 2).sum() + (found["b"][1] ** 2).sum()) == pytest.approx(10.0)


def test_cosine():
    factor = [float(Cosine(0.1).factor(torch.tensor(float(t)), 101)) for t in (1, 51, 101)]
    assert factor == pytest.approx([1.0, 0.55, 0.1])
    with pytest.raises(UserError, match="between 0 and 1"):
        Cosine(2.0)


class Table(torch.nn.Module):
    """Logits of the next token for each place and token, whatever came before."""

    def __init__(self, logits, context):
        super().__init__()
        self.embed, self.context = logits, context

    def forward(self, tokens):
        return self.embed[torch.arange(len(tokens))[:, None], tokens]

    def start(self, rows):
        return {"x": torch.zeros(rows, 1, self.context, 1)}

    def advance(self, state, token, t):
        state["x"][:, 0, t, 0] = token.to(state["x"])
        return self.embed[t, token]


def table(seed=0, V=5, context=5):
    return Table(
        2 * torch.randn(context, V, V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64),
        context,
    )


def test_the_loss_leaves_out_what_is_behind_the_end():
    model = table()
    story = torch.tensor([[1, 2], [3, 4], [4, 0], [0, -1], [-1, -1]])
    log_p = torch.log_softmax(model.embed, -1)
    pairs = [(0, 1, 3), (1, 3, 4), (2, 4, 0), (0, 2, 4), (1, 4, 0)]
    own = next_token(model, Batch(story[:-1].clamp_min(0), story[:0], story[1:]))
    assert float(own) == pytest.approx(-sum(float(log_p[place]) for place in pairs) / len(pairs))


def best(model, beginning, coded=False):
    """The best of all continuations, and its score, by enumeration."""
    gains = model.embed if coded else torch.log_softmax(model.embed, -1)
    V, first = gains.shape[-1], len(beginning) - 1
    free = model.context - first
    found = []
    for rest in itertools.product(range(V), repeat=free):
        if not coded and 0 in rest[:-1]:
            rest = (*rest[: rest.index(0) + 1],)
        whole = [*beginning, *rest]
        pairs = list(enumerate(itertools.pairwise(whole)))[first:]
        found.append((sum(float(gains[t, a, b]) for t, (a, b) in pairs), whole))
    return max(found)[1]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("coded", [False, True])
def test_many_beams_find_the_best_continuation(seed, coded):
    model = table(seed)
    beginnings = torch.tensor([[1, 2], [3, -1]])
    found = beam(model, beginnings, beams=120, coded=coded)
    for column, beginning in enumerate(([1, 3], [2])):
        expected = best(model, beginning, coded)
        expected = expected[: expected.index(0) + 1] if 0 in expected else expected
        assert found[:, column].tolist() == expected + [-1] * (6 - len(expected))


def test_one_beam_is_greedy_and_beams_are_apart():
    model = GDLanguage(9, 8, 8, n_heads=2).double().requires_grad_(False)
    model.initialise(torch.Generator().manual_seed(2), scale=20.0)
    beginnings = torch.randint(1, 9, (3, 4), generator=torch.Generator().manual_seed(1))
    found = beam(model, beginnings, beams=1)
    for column in found.T:
        for t in range(3, 9):
            if column[t] < 0:
                break
            assert model(column[:t, None])[-1, 0].argmax() == column[t]
    # stories do not see one another
    alone = torch.cat([beam(model, beginnings[:, [i]], beams=3) for i in range(4)], 1)
    assert torch.equal(beam(model, beginnings, beams=3), alone)


@pytest.mark.parametrize("kind", [GDLanguage, TransformerLanguage])
def test_a_beams_score_is_its_likelihood(kind):
    """With more beams the log-likelihood of the chosen continuation, taken by the whole model, does not fall."""
    model = kind(7, 6, 8, n_heads=2, n_blocks=2).double().requires_grad_(False)
    model.initialise(torch.Generator().manual_seed(3), scale=20.0)
    beginnings = torch.tensor([[1, 2, 3], [4, 5, 6]])

    def scores(found):
        log_p = torch.log_softmax(model(found[:-1].clamp_min(0)), -1)
        taken = log_p.gather(-1, found[1:, :, None].clamp_min(0))[..., 0] * (found[1:] >= 0)
        return taken[1:].sum(0)

    every = scores(beam(model, beginnings, beams=2000))
    assert (every >= scores(beam(model, beginnings, beams=1)) - 1e-12).all()
    assert (every > scores(sampled(model, beginnings)) - 1e-12).all()


def test_sampling_has_the_models_frequencies():
    model = table(context=2)
    n = 20_000
    found = sampled(model, torch.full((1, n), 2), seed=3)
    assert (found[0] == 2).all()
    p = torch.softmax(model.embed[0, 2], -1)
    share = torch.bincount(found[1], minlength=5) / n
    assert (share - p).abs().max() < 4 * float((p * (1 - p) / n).sqrt().max())
    assert not torch.equal(found, sampled(model, torch.full((1, n), 2), seed=4))
    assert (found[2][found[1] == 0] == -1).all()


def test_cut():
    assert cut(torch.tensor([[1, 0], [0, 2], [3, 0]])).tolist() == [[1, 0], [0, -1], [-1, -1]]
