"""The data generators: moments by Monte Carlo, structure without noise, purity."""

import math

import pytest
import torch
from torch import Tensor

from iclbook.tasks import Batch, LinearRegression, MultiTaskRegression
from iclbook.tasks.linear_regression import AffineRegression

B = 20_000  # prompts of a Monte-Carlo check
SIGMA = ((1.0, 0.5, -0.2), (0.5, 2.0, 0.3), (-0.2, 0.3, 0.7))
CODE = {"noise_var": 0.4, "target_noise_var": 0.0, "shared_beta": False, "beta_var": 1.0}


def draw(task, width: int = B, lead: tuple[int, ...] = (), seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*lead, task.normals, width, dtype=torch.float64, generator=g)


def z_scores(samples: Tensor, expected) -> Tensor:
    """(mean - expected) in standard errors; ``samples`` (..., B) independent along the last axis."""
    error = samples.std(-1) / math.sqrt(samples.shape[-1])
    return (samples.mean(-1) - torch.as_tensor(expected, dtype=samples.dtype)) / error


def outer(a: Tensor, b: Tensor) -> Tensor:
    """``(d, B)`` and ``(e, B)`` to ``(d, e, B)``."""
    return a[:, None] * b[None]


def assert_moment(samples: Tensor, expected) -> None:
    z = z_scores(samples, expected)
    assert z.abs().max() < 5, f"{samples.mean(-1)} against {expected}"


def everything(batch: Batch) -> Tensor:
    return torch.cat([part.flatten(0, -2) for part in batch])


# -- moments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", [None, SIGMA], ids=["isotropic", "covariance"])
def test_moments_of_linear_regression(covariance):
    d, s2 = 3, 0.1
    task = LinearRegression(d=d, L=4, noise_var=s2, covariance=covariance)
    context, x_q, target = task.batch(draw(task))
    sigma = torch.eye(d, dtype=torch.float64) if covariance is None else torch.tensor(SIGMA).double()
    x, y = context[:, :d], context[:, d]  # (L, d, B), (L, B)
    for one in (x[0], x[-1], x_q):
        assert_moment(one, torch.zeros(d))
        assert_moment(outer(one, one), sigma)
    assert_moment(outer(x[0], x[1]), torch.zeros(d, d))  # tokens are independent
    assert_moment(outer(x[0], x_q), torch.zeros(d, d))
    power = torch.trace(sigma).item() / d + s2  # beta ~ N(0, I/d), so E y^2 = tr(Sigma)/d + s2
    for one in (y[0], y[-1], target[0]):
        assert_moment(one**2, power)
        assert_moment(one, 0.0)
    # y x of two tokens share beta alone: E[(y x)(y' x')^T] = Sigma E[beta beta^T] Sigma; the target shares it, too
    shared = sigma @ sigma / d
    assert_moment(outer(y[0] * x[0], y[1] * x[1]), shared)
    assert_moment(outer(y[0] * x[0], target[0] * x_q), shared)
    # beta has mean zero, so a covariate and its response are uncorrelated
    assert_moment(outer(x[0], y[0][None])[:, 0], torch.zeros(d))


@pytest.mark.parametrize("setting", ["text", "code"])
def test_moments_of_multitask_regression(setting):
    task = MultiTaskRegression(L=4) if setting == "text" else MultiTaskRegression(L=4, **CODE)
    context, x_q, target = task.batch(draw(task))
    x, y = context[:, :6], context[:, 6:]  # (L, 6, B), (L, 2, B)
    assert_moment(outer(x[0], x[0]), torch.eye(6))
    assert_moment(outer(x_q, x_q), torch.eye(6))
    variance = 1 / 6 if setting == "text" else 1.0
    noise, target_noise = (0.1, 0.1) if setting == "text" else (0.4, 0.0)
    # two of the four features of a task are shared: with one beta, the responses of a token are correlated
    covariance = 2 * variance if setting == "text" else 0.0
    for responses, s2 in ((y[0], noise), (y[-1], noise), (target, target_noise)):
        own = 4 * variance + s2
        assert_moment(outer(responses, responses), [[own, covariance], [covariance, own]])
    # y_n x_j of two tokens: E = E[beta_nj^2] on the support, 0 off it
    support = torch.zeros(2, 6)
    support[0, :4] = support[1, 2:] = variance
    for n in (0, 1):
        assert_moment(y[0, n] * x[0] * y[1, n] * x[1], support[n])
        assert_moment(y[0, n] * x[0] * target[n] * x_q, support[n])
    crossed = torch.tensor([0, 0, variance, variance, 0, 0]) if setting == "text" else torch.zeros(6)
    assert_moment(y[0, 0] * x[0] * y[1, 1] * x[1], crossed)


# -- structure without noise ------------------------------------------------------------------------------------------


def solve(context: Tensor, d: int) -> Tensor:
    """beta ``(B, d, N)`` by least squares of the responses on the covariates of each prompt."""
    tokens = context.permute(2, 0, 1)  # (B, L, D)
    found = torch.linalg.lstsq(tokens[..., :d], tokens[..., d:])
    assert torch.allclose(tokens[..., :d] @ found.solution, tokens[..., d:], atol=1e-10)
    return found.solution


@pytest.mark.parametrize("covariance", [None, SIGMA], ids=["isotropic", "covariance"])
def test_without_noise_least_squares_finds_beta_and_the_target(covariance):
    task = LinearRegression(d=3, L=8, noise_var=0.0, covariance=covariance)
    context, x_q, target = task.batch(draw(task, 200))
    beta = solve(context, 3)[..., 0]  # (B, 3)
    torch.testing.assert_close((beta.T * x_q).sum(0), target[0], rtol=1e-8, atol=1e-9)
    assert_moment(torch.linalg.norm(beta, dim=-1) ** 2, 1.0)  # |beta|^2 has mean 1


@pytest.mark.parametrize("shared", [True, False])
def test_without_noise_every_task_uses_its_own_features(shared):
    task = MultiTaskRegression(L=10, noise_var=0.0, target_noise_var=0.0, shared_beta=shared)
    context, x_q, target = task.batch(draw(task, 200))
    beta = solve(context, 6)  # (B, 6, 2)
    torch.testing.assert_close(torch.einsum("bjn,jb->nb", beta, x_q), target, rtol=1e-7, atol=1e-8)  # target included
    assert beta[:, 4:, 0].abs().max() < 1e-8
    assert beta[:, :2, 1].abs().max() < 1e-8
    assert beta[:, :4, 0].abs().min() > 0
    difference = (beta[:, 2:4, 0] - beta[:, 2:4, 1]).abs()
    if shared:
        assert difference.max() < 1e-8
    else:
        assert difference.mean() > 0.1


def test_noise_is_added_to_the_responses_alone():
    for quiet, loud, s2 in (
        (LinearRegression(d=3, L=4, noise_var=0), LinearRegression(d=3, L=4, noise_var=0.3), (0.3, 0.3)),
        (
            MultiTaskRegression(L=4, noise_var=0, target_noise_var=0),
            MultiTaskRegression(L=4, noise_var=0.4, target_noise_var=0.2),
            (0.4, 0.2),
        ),
    ):
        normals = draw(quiet)
        before, after = quiet.batch(normals), loud.batch(normals)
        torch.testing.assert_close(before.query, after.query, rtol=0, atol=0)
        torch.testing.assert_close(before.context[:, : quiet.d], after.context[:, : quiet.d], rtol=0, atol=0)
        noise = (after.context - before.context)[:, quiet.d :]  # (L, N, B)
        assert_moment(noise**2, s2[0])
        assert_moment((after.target - before.target) ** 2, s2[1])
        assert_moment(noise[0] * noise[1], 0.0)


@pytest.mark.parametrize(
    "task",
    [
        LinearRegression(d=3, L=4),
        LinearRegression(d=3, L=4, covariance=SIGMA),
        AffineRegression(d=3, L=4),
        MultiTaskRegression(L=4),
    ],
)
def test_every_normal_is_used(task):
    normals = draw(task, 1)
    before = everything(task.batch(normals))
    for row in range(task.normals):
        other = normals.clone()
        other[row] += 1
        assert not torch.equal(everything(task.batch(other)), before), f"normal {row} changes nothing"
