"""From trained circuits to numbers per head, and the errors measured on them."""

import numpy as np
import pytest
from he2025.circuits_kit import still, synthetic
from ledgers import GREEN, RED, failing, judge

from iclbook import theory
from iclbook.models import Attention
from iclbook.papers.he2025 import loss, trained_circuits, true_loss
from iclbook.papers.he2025.circuits import Heads, code_scale, read_heads, settled
from iclbook.papers.he2025.figures_3_2_to_3_5 import UNUSED, USED, read_multi_heads
from iclbook.papers.he2025.runs import squared_errors
from iclbook.tasks import LinearRegression, MultiTaskRegression
from iclbook.training import Group, History, Run, Study

# -- circuits to heads ------------------------------------------------------------------------------------------------


OMEGA = np.array([[[0.2, -0.1], [0.3, 0.0]], [[0.13, -0.13], [0.4, 0.001]]])  # (T, R, H)
MU = np.array([[[1.0, -2.0], [0.5, 0.1]], [[3.5, -3.5], [2.0, 0.01]]])


@pytest.mark.parametrize("scale", [1.0, code_scale(5)])
def test_read_heads_finds_what_was_put_in(scale):
    heads = read_heads(synthetic(OMEGA, MU, kq_noise=0.07, ov_noise=0.03, scale=scale), scale)
    np.testing.assert_allclose(heads.omega, OMEGA, atol=1e-14)
    np.testing.assert_allclose(heads.mu, MU, atol=1e-14)
    seen = OMEGA != 0
    np.testing.assert_allclose(heads.kq_deviation[seen], 0.07, rtol=1e-10)
    np.testing.assert_allclose(heads.ov_deviation, 0.03, rtol=1e-10)


def test_read_heads_of_a_reduced_model():
    heads = read_heads({"steps": np.arange(2), "omega": OMEGA.astype(np.float32), "mu": MU.astype(np.float32)})
    np.testing.assert_allclose(heads.omega, OMEGA, rtol=1e-6)
    np.testing.assert_allclose(heads.mu, MU, rtol=1e-6)
    assert not heads.kq_deviation.any()
    assert heads.omega.dtype == np.float64


@pytest.mark.parametrize("flipped", ["omega", "mu", "both"])
def test_a_head_of_the_wrong_sign_fails_figure_2_2(flipped):
    signs, alike = np.array([[1.0, -1.0]]), np.ones((1, 2))
    values, red = {}, {}
    for reading in ("text", "code"):
        omega, mu = (0.13 * (alike if flipped != "mu" else signs), 3.5 * (alike if flipped != "omega" else signs))
        for found, heads in ((values, still(0.13 * signs, 3.5 * signs)), (red, still(omega, mu))):
            found |= trained_circuits.two_heads({reading: heads})
    assert judge("he2025/fig2.2", values).word in GREEN
    result = judge("he2025/fig2.2", red)
    assert result.word in RED
    part = "omega_product" if flipped == "both" else "omega_mu"
    assert {f"fig2.2/text/{part}", f"fig2.2/code/{part}"} <= failing(result)


def test_what_heads_say_of_themselves():
    heads = read_heads(synthetic(OMEGA, MU, kq_noise=0.05, ov_noise=0.15))
    # abs(omega) weighted by abs(mu); a dummy hardly counts
    np.testing.assert_allclose(heads.gamma[0, 0], (0.2 * 1 + 0.1 * 2) / 3)
    np.testing.assert_allclose(heads.gamma[1], [0.13, (0.4 * 2 + 0.001 * 0.01) / 2.01])
    np.testing.assert_allclose(heads.positive_mu[1], [3.5, 2.01])
    # a head is active or a dummy by where it ends, and then for the whole run
    assert heads.active.tolist() == [[True, True], [True, False]]
    assert heads.patterned(0.16).all()
    assert not heads.patterned(0.14).any()
    lame = OMEGA.copy()
    lame[:, 0, 1] = 0.0
    assert not read_heads(synthetic(lame, MU)).patterned(0.16)[:, 0].any(), "a mu without an omega is no pattern"


def test_settled_is_the_mean_over_the_last_tenth():
    steps = np.arange(0, 101, 5)
    np.testing.assert_allclose(settled(steps, steps.astype(float)), (90 + 95 + 100) / 3)
    np.testing.assert_allclose(settled(steps, np.stack([steps, -steps], 1)), [95, -95])
    assert settled(np.array([0, 1, 2]), np.array([5.0, 6.0, 7.0])) == 7.0
    heads = Heads(steps, *(np.ones((21, 1, 1)) * v for v in (0.1, 1.0, 0.0, 0.0)))
    np.testing.assert_allclose(heads.settled(steps[:, None] * heads.omega[:, 0]), [9.5])


def multi(omega, mu, scale: float = 1.0) -> dict:
    """Two-task group: omega ``(R, H, 6)``, mu ``(R, H, 2)``, constant over the last tenth and rubbish before."""
    omega, mu = np.asarray(omega, dtype=float), np.asarray(mu, dtype=float)
    rng = np.random.default_rng(1)
    steps = np.arange(0, 101, 10)
    kq = rng.normal(size=(len(steps), *omega.shape[:2], 8, 8))
    ov = rng.normal(size=(len(steps), *mu.shape[:2], 2, 8))
    late = steps >= 90
    for j in range(6):
        kq[late, ..., j, j] = omega[..., j] / scale
    for n in range(2):
        ov[late, ..., n, 6 + n] = mu[..., n]
    return {"steps": steps, "kq": kq, "ov": ov}


@pytest.mark.parametrize("scale", [1.0, code_scale(6, 2)])
def test_read_multi_heads_and_transfer(scale):
    omega = np.array([[[0.3, 0.1, 0.4, 0.6, 0, 0], [0, 0, -0.2, -0.4, -0.1, -0.5]]])
    mu = np.array([[[2.0, 0.1], [-0.3, -3.0]]])
    heads = read_multi_heads(multi(omega, mu, scale), scale)
    np.testing.assert_allclose(heads.omega, omega, atol=1e-14)
    np.testing.assert_allclose(heads.mu, mu, atol=1e-14)
    np.testing.assert_allclose(heads.by_group, [[[0.2, 0.5, 0.0], [0.0, -0.3, -0.3]]], atol=1e-14)
    # transfer[n, S] = sum over heads of mu_n omega_S
    expected = [[2.0 * 0.2, 2.0 * 0.5 + 0.3 * 0.3, 0.3 * 0.3], [0.1 * 0.2, 0.1 * 0.5 + 3.0 * 0.3, 3.0 * 0.3]]
    np.testing.assert_allclose(heads.transfer, [expected], atol=1e-14)


def test_feature_groups_are_those_of_the_tasks_supports():
    """A head whose omega is 1 on a task's features has mean 1 in the groups that this task uses, and 0 in the other."""
    supports = MultiTaskRegression().supports
    omega = np.array([[[float(j in support) for j in range(6)] for support in supports]])
    heads = read_multi_heads(multi(omega, np.ones((1, 2, 2))), 1.0)
    for n, groups in enumerate(heads.by_group[0]):
        assert np.flatnonzero(groups).tolist() == list(USED[n])
        assert groups[UNUSED[n]] == 0
        assert groups[list(USED[n])] == pytest.approx(1)


# -- measurements -----------------------------------------------------------------------------------------------------


def test_squared_errors_are_those_of_the_closed_forms():
    """Softmax pairs as printed and as coded on the solution manifold, linear attention as one GD step."""
    d, L, s2, gamma, eta = 5, 40, 0.1, 0.2, 0.8
    mu = float(loss.manifold_mu(gamma, d, L, s2))
    pair = {"omega": [[[gamma, -gamma]]], "mu": [[[mu, -mu]]]}
    kwargs = (("d", d), ("n_heads", 2))
    run = (Run(0),)
    specs = {
        "printed": Group("printed", Attention, kwargs, run),
        "coded": Group("coded", Attention, (*kwargs, ("score_scale", "code")), run),
        "linear": Group("linear", Attention, (("d", d), ("n_heads", 1), ("activation", "linear")), run),
    }
    study = Study("he2025", "measured", LinearRegression(), tuple(specs.values()), 40)
    groups = {
        "printed": synthetic(pair["omega"], pair["mu"]),
        "coded": synthetic(pair["omega"], pair["mu"], scale=code_scale(d)),
        "linear": synthetic([[[eta]]], [[[1.0]]]),
    }
    histories = {
        name: History(
            np.arange(1),
            np.zeros((1, 1)),
            {k: v.astype(np.float32) for k, v in group.items() if k not in ("steps", "loss")},
        )
        for name, group in groups.items()
    }
    for length in (10, 40):
        errors = squared_errors(study, histories, length, 6)
        exact = true_loss.exact_loss([gamma, -gamma], [mu, -mu], d, length, s2)
        for name in ("printed", "coded"):
            assert abs(errors[name][0][0] - exact) < 5 * errors[name][1][0]
            np.testing.assert_allclose(errors[name][0], errors["printed"][0], rtol=1e-4)  # common prompts
        linear = float(theory.vanilla_gd_error(eta, d, length, s2))
        assert abs(errors["linear"][0][0] - linear) < 5 * errors["linear"][1][0]
        assert errors["linear"][1][0] < 0.05 * linear
