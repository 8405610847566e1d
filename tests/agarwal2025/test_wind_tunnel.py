"""agarwal2025, the wind tunnel: exact posteriors against enumeration, the models against plain loops, and a run alone against the ensemble."""

import itertools
import math

import numpy as np
import pytest
import torch

from iclbook import random
from iclbook.models.sequence import CausalTransformer, Lstm, lstm_scan, selective_scan
from iclbook.papers.agarwal2025 import runs
from iclbook.papers.agarwal2025.runs import probe, soft_cross_entropy
from iclbook.tasks.wind_tunnel import BijectionElimination, HmmFiltering, entropy_bits, memoryless, posteriors

HMM, BIJECTION = HmmFiltering(3, 2, 4), BijectionElimination(4, 4)


def numbers(task, n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    return random.drawn(task, seed, 5, (n,), dtype=torch.float64)


def enumerated(transition, emission, seen) -> np.ndarray:
    """``p(s_t | o_1..o_t)`` of one sequence by summing over every path of hidden states: ``(K, S)``."""
    states, length = transition.shape[0], seen.shape[0]
    symbol = seen.argmax(1)
    found = np.zeros((length, states))
    for t in range(length):
        for path in itertools.product(range(states), repeat=t + 1):
            p = 1 / states
            for k in range(t + 1):
                p *= emission[path[k], symbol[k]] * (transition[path[k - 1], path[k]] if k else 1)
            found[t, path[t]] += p
    return found / found.sum(1, keepdims=True)


def test_filter_against_enumeration_of_all_paths():
    transition, emission, seen = HMM.draw(*numbers(HMM, 6))
    exact = posteriors(transition, emission, seen)
    for b in range(6):
        want = enumerated(*(part[..., b].numpy() for part in (transition, emission, seen)))
        np.testing.assert_allclose(exact[..., b].numpy(), want, atol=1e-14)
    np.testing.assert_allclose(memoryless(emission, seen)[0], exact[0], atol=1e-14)  # one observation: no memory needed


@pytest.mark.parametrize("distinct", [True, False])
def test_bijection_posterior_against_enumeration(distinct):
    task = BijectionElimination(4, 4, distinct)
    z = numbers(task, 20, 3)
    keys, images = task.draw(z[1])
    exact = task.exact(*z)
    for b in range(20):
        for k in range(4):
            want = np.zeros(4)
            for pi in itertools.permutations(range(4)):
                if all(pi[keys[j, b]] == images[j, b] for j in range(k)):
                    want[pi[keys[k, b]]] += 1
            np.testing.assert_allclose(exact[k, :, b].numpy(), want / want.sum(), atol=1e-14)


def build(name: str, task):
    model, kwargs = runs.architectures(task)[name]
    net = model(**kwargs).double()
    net.initialise(torch.Generator().manual_seed(0), 1.0)
    return net


@pytest.mark.parametrize("task", [HMM, BIJECTION])
@pytest.mark.parametrize("name", ["transformer", "ssm", "lstm", "prefix_mlp"])
def test_models_do_not_see_the_future(name, task):
    net = build(name, task)
    tokens = task.batch(*numbers(task, 3, 6)).context
    logits = net(tokens)
    assert logits.shape == (task.length, task.classes, 3)
    changed = tokens.clone()
    changed[-1] += 1
    after = net(changed)
    torch.testing.assert_close(after[:-1], logits[:-1])
    assert not torch.allclose(after[-1], logits[-1])
    changed = tokens.clone()
    changed[0] += 1
    assert not torch.allclose(net(changed)[-1], logits[-1])


def test_lstm_against_torch():
    torch.manual_seed(0)
    theirs = torch.nn.LSTM(4, 3).double()
    x = torch.randn(6, 2, 4, dtype=torch.float64)  # (T, B, D)
    want, _ = theirs(x)
    drive = torch.einsum("gd,tbd->gtb", theirs.weight_ih_l0, x) + (theirs.bias_ih_l0 + theirs.bias_hh_l0)[:, None, None]
    got = lstm_scan(drive, theirs.weight_hh_l0)["h"]
    torch.testing.assert_close(got.permute(1, 2, 0), want)


def test_scan_against_a_plain_loop():
    g = torch.Generator().manual_seed(1)
    x, delta = (torch.rand(3, 5, 2, generator=g, dtype=torch.float64) for _ in range(2))
    a = -torch.rand(3, 4, generator=g, dtype=torch.float64)
    b, c = (torch.randn(4, 5, 2, generator=g, dtype=torch.float64) for _ in range(2))
    got = selective_scan(x, delta, a, b, c)
    for w, s in itertools.product(range(3), range(2)):
        h = np.zeros(4)
        for t in range(5):
            step = delta[w, t, s].item()
            h = np.exp(a[w].numpy() * step) * h + step * b[:, t, s].numpy() * x[w, t, s].item()
            assert got[w, t, s].item() == pytest.approx(float(c[:, t, s].numpy() @ h), abs=1e-14)


class Oracle(Lstm):
    """Answers with given distributions."""

    answer: torch.Tensor

    def forward(self, tokens):
        return torch.log(self.answer.clamp(min=1e-300))


def test_measures_of_a_model_that_is_exact():
    """A model whose logits are the exact log probabilities has no error; the uniform one has the error that entropy leaves."""
    tokens, exact = probe(HMM, 40)

    net = Oracle(HMM.token_width, 3).double()
    net.answer = exact
    found = net.measured_on({"train": (tokens, exact)})
    assert max(found["mae_train"].max(), found["kl_train"].abs().max()) < 1e-12
    flat = build("lstm", HMM)
    with torch.no_grad():
        flat.read.zero_()
    want = (math.log2(3) - entropy_bits(exact)).mean(-1)
    torch.testing.assert_close(flat.measured_on({"train": (tokens, exact)})["mae_train"], want)


def test_geometry_of_keys_and_values():
    net = build("transformer", BIJECTION)
    symbols = torch.eye(8, dtype=torch.float64)[:4]
    got = net.key_cosine(symbols)
    x = net.embed[:, :4]
    x = x / torch.sqrt((x**2).mean(0) + 1e-6)
    keys = (net.key[0] @ x).reshape(net.n_heads, -1, 4).detach().numpy()
    for h, k in enumerate(keys):
        k = k / np.linalg.norm(k, axis=0)
        off = np.abs(k.T @ k)[~np.eye(4, dtype=bool)]
        assert got[h].item() == pytest.approx(off.mean(), abs=1e-12)
    tokens, exact = probe(BIJECTION, 30)
    found = net.manifold(tokens, exact)
    x = net.stream(tokens)[1]
    x = x / torch.sqrt((x**2).mean(0) + 1e-6)
    points = torch.einsum("vw,wtb->vtb", net.value[1], x)[:, ::2].reshape(net.width, -1).T.detach().numpy()
    s = np.linalg.svd(points - points.mean(0), compute_uv=True)
    assert found["pc1_value"].item() == pytest.approx(s[1][0] ** 2 / (s[1] ** 2).sum(), abs=1e-10)
    entropy = entropy_bits(exact).flatten().numpy()
    r = abs(np.corrcoef(s[0][:, 0], entropy)[0, 1])
    assert found["r_value"].item() == pytest.approx(r, abs=1e-8)


def test_loss_is_smallest_at_the_posterior():
    batch = HMM.batch(*numbers(HMM, 200, 7))

    def loss(p):
        return soft_cross_entropy(lambda context: torch.log(p), batch).item()

    exact = HMM.exact(*numbers(HMM, 200, 7))
    assert loss(exact) < loss(0.9 * exact + 0.1 / 3)
    assert loss(exact) == pytest.approx(entropy_bits(exact).mean().item() * math.log(2))


def test_uniform_attention_is_spread_wholly_and_sketches_are_linear():
    """Without queries and slopes attention is uniform; twice the values have twice the sketch."""
    observe = runs.OnMaps(HMM, n=8, few=4, width=6)
    model = CausalTransformer(HMM.token_width, HMM.classes, first=HMM.first).double()
    model.initialise(random.generator(0, 0))
    held_out = tuple(part.double() for part in observe.held_out())
    with torch.no_grad():
        model.query.zero_()
        model.slope.zero_()
        once = observe(model, held_out)
        model.value[-1] *= 2
        twice = observe(model, held_out)
    assert float(once["spread"]) == pytest.approx(1)
    torch.testing.assert_close(twice["values"], 2 * once["values"])
    torch.testing.assert_close(twice["maps"], once["maps"])
