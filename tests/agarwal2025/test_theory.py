"""agarwal2025: closed forms against autograd and first-order updates."""

import numpy as np
import pytest
import torch
from ledgers import holds

from iclbook.models.single_head import SingleHead
from iclbook.papers.agarwal2025 import closed_forms, closed_forms_checked, figures_1_to_5, toy_runs
from iclbook.papers.agarwal2025.closed_forms_checked import Case, random_case, relative
from iclbook.statistics import clustered_share_error


def test_every_closed_form_against_autograd_on_240_random_sizes():
    """Full attention and causal in turn; the bound is the issue's, one part in 10^12."""
    sizes = {tuple(part.shape for part in (*random_case(i).w, random_case(i).x)) for i in range(240)}
    assert len(sizes) >= 200
    assert max(closed_forms_checked.gradient_error(i) for i in range(240)) < 1e-12


@pytest.mark.parametrize("causal_", [False, True])
def test_forward_is_the_plain_model(causal_):
    case = random_case(3)
    model = SingleHead(*case.w.W_Q.T.shape, len(case.w.W_V), len(case.w.b), causal=causal_, bias=True).double()
    with torch.no_grad():
        for name, value in case.w._asdict().items():
            getattr(model, name).copy_(value)
    mask = closed_forms.causal_mask(len(case.x)) if causal_ else None
    f = closed_forms.forward(case.x, case.w, mask)
    torch.testing.assert_close(model(case.x), f.logits)
    torch.testing.assert_close(model.attention(case.x), f.alpha)


@pytest.mark.parametrize("T", [1, 2, 127, 128, 129, 300])
def test_blocked_step_against_autograd(T):
    assert closed_forms_checked.blocked_error(T, 0.3) < 1e-12


def test_blocked_step_survives_scores_beyond_the_safe_bound():
    """Large weights take the other path; a hidden key's huge score must not push the visible ones to zero."""
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(200, 20, generator=gen, dtype=torch.float64)
    w = [10 * torch.randn(s, generator=gen, dtype=torch.float64) for s in ((10, 20), (10, 20), (15, 20), (8, 15))]
    target = torch.nn.functional.one_hot(torch.arange(200) % 8, 8).double()
    f = closed_forms.forward(x, closed_forms.Weights(*w, torch.zeros(8).double()), closed_forms.causal_mask(200))
    expected = -(f.logits.log_softmax(-1) * target).sum(-1).mean()
    torch.testing.assert_close(closed_forms.causal_step(x, target, *w)[0], expected)


def test_predictions_and_spread():
    gen = torch.Generator().manual_seed(1)
    x = torch.randn(150, 20, generator=gen, dtype=torch.float64)
    model = SingleHead().double()
    model.initialise(gen, 0.3)
    with torch.no_grad():
        seen = closed_forms.causal_predict(x, model.W_Q, model.W_K, model.W_V, model.W_O)
        alpha = model.attention(x)
        torch.testing.assert_close(seen.logits, model(x))
        entropy = -torch.xlogy(alpha, alpha).sum(1)[1:] / torch.arange(2, 151).double().log()
    torch.testing.assert_close(seen.spread[1:], entropy)


def test_first_order_claims():
    values = closed_forms_checked.first_order(20)
    plain = {key: np.asarray(getattr(value, "value", value)).tolist() for key, value in values.items()}
    assert all(holds("agarwal2025/eq33-43", key, value) for key, value in plain.items())


def test_pairs_with_a_lead_are_counted_by_head():
    """Of four pairs with a lead of ten two are within a fifth, of two with a hundred one; a pair without a lead counts nowhere."""
    found = {"lead": [5.0, 12, 20, 300, 150], "error": [9.0, 0.3, 0.1, 0.01, 0.4], "head": [0.0, 0, 2, 2, 3]}
    values = closed_forms_checked.dominant_values({name: np.array(of) for name, of in found.items()})
    assert values["dominant/printed"] == 0.4
    assert (values["dominant/ten"].value, values["dominant/hundred"].value) == (0.5, 0.5)
    assert values["dominant/ten"].error == clustered_share_error(np.array([0, 2, 0]), np.array([1, 2, 1]))


def test_readings_of_the_updates():
    values = closed_forms_checked.readings_of_updates(20)
    assert holds("agarwal2025/q-eq33-36", "updates/free", values["updates/free"])
    assert not holds("agarwal2025/q-eq33-36", "updates/follow", values["updates/follow"])
    assert not holds("agarwal2025/q-eq33-36", "updates/weights", values["updates/weights"])


def test_orthonormal_inputs_remove_the_mixing():
    """With ``X X^T = I`` a step on ``W_V`` moves each value by the printed step."""
    for index in range(20):
        case, gen = random_case(index), torch.Generator().manual_seed(index)
        q, _ = torch.linalg.qr(torch.randn(12, len(case.x), generator=gen, dtype=torch.float64))
        wide = [torch.randn(len(m), 12, generator=gen, dtype=torch.float64) for m in case.w[:3]]
        own = Case(q.mT, case.y, closed_forms.Weights(*wide, *case.w[3:]), case.mask)
        f = closed_forms.forward(own.x, own.w, own.mask)
        printed = closed_forms.value_step(f.alpha, closed_forms.upstream(f.p, own.y, own.w.W_O), 1.0)
        assert relative(own.x @ -closed_forms_checked.autograd(own)["W_V"].mT, printed) < 1e-9


@pytest.mark.parametrize("bias", [False, True])
def test_toy_step_is_plain_gradient_descent(bias):
    """On the four matrices, and on the bias of equation 7 only where it is trained; alone and at each run's own rate."""
    run = toy_runs.train([0], 0.5, 0.1, bias)
    w = closed_forms.Weights(*[p[0].clone().requires_grad_() for p in run.weights[0]])
    loss = torch.nn.functional.cross_entropy(closed_forms.forward(run.x[0], w).logits, run.y[0], reduction="sum")
    grads = torch.autograd.grad(loss, w)
    for name, g in zip(w._fields, grads, strict=True):
        step = 0.1 * g if bias or name != "b" else 0 * g
        assert relative(getattr(run.weights[1], name)[0], getattr(w, name).detach() - step) < 1e-12
    many = toy_runs.train([0, 1, 0, 1], 0.5, torch.tensor([0.03, 0.03, 0.1, 0.1], dtype=torch.float64), bias)
    np.testing.assert_allclose(many.loss[:2, 2], run.loss[:2, 0], rtol=1e-12)


def test_alignment_is_ranked_against_random_directions():
    """Values that move together are above all random motions; values that move anyhow are at one half, and so is the control."""
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.normal(size=(200, 5, 3)))

    def moving(W):
        w = closed_forms.Weights(*[torch.zeros(200, 2, 3).double()] * 2, W, *[torch.zeros(200, 3, 2).double()] * 2)
        return toy_runs.Ensemble(x, None, [w._replace(W_V=0 * W), w], np.empty(0), np.empty(0))

    line = torch.zeros(200, 2, 3).double()
    line[:, :, 0] = torch.tensor([1.0, 0.5])
    together, mixed = figures_1_to_5.ranks(moving(line), 400)
    assert together.min() == 1
    assert figures_1_to_5.first_shares(figures_1_to_5.displacements(moving(line))) == pytest.approx(np.ones(200))
    angles = torch.from_numpy(rng.uniform(0, 2 * np.pi, 200))
    turned = torch.zeros(200, 2, 3).double()
    turned[:, :, 0] = torch.stack([angles.cos(), angles.sin()], -1)  # one line each, another one for each run
    together, mixed = figures_1_to_5.ranks(moving(turned), 400)
    assert together.min() == 1
    assert abs(mixed.mean() - 0.5) < 0.07


def test_chosen_setting_starts_near_uniform():
    """The setting with most runs of both kinds is passed over where it does not start near uniform."""
    shape = (len(toy_runs.SCALES), len(toy_runs.RATES))
    found = {"start": np.full(shape, 5.0), "both": np.zeros(shape)}
    found["both"][1, 2], found["both"][-1, -1] = 0.2, 0.9
    assert figures_1_to_5.chosen_setting(found) == (toy_runs.SCALES[-1], toy_runs.RATES[-1])
    found["start"][-1] = 0.8 * toy_runs.TASK.T
    assert figures_1_to_5.chosen_setting(found) == (toy_runs.SCALES[1], toy_runs.RATES[2])
