"""agarwal2025, section 9: effective weights and conjectured gradients against autograd."""

import math

import pytest
import torch

from iclbook.models.sequence import SelectiveSsm, rms_norm, selective_scan
from iclbook.papers.agarwal2025 import section_9, wind_tunnel


def test_ssm_weights_against_a_product_written_out():
    g = torch.Generator().manual_seed(0)
    delta = torch.rand(2, 4, generator=g, dtype=torch.float64)
    a = -torch.rand(2, 3, generator=g, dtype=torch.float64)
    b, c = (torch.randn(3, 4, generator=g, dtype=torch.float64) for _ in range(2))
    w = section_9.ssm_weights(delta, a, b, c)
    for channel in range(2):
        for i in range(4):
            for j in range(4):
                want = 0.0
                if j <= i:
                    for n in range(3):
                        product = math.prod(math.exp(a[channel, n] * delta[channel, k]) for k in range(j + 1, i + 1))
                        want += float(c[n, i] * product * delta[channel, j] * b[n, j])
                assert w[channel, i, j].item() == pytest.approx(want, abs=1e-14)


def test_weights_of_the_trained_model_too():
    """The layer of the wind tunnel's model, not only random parts."""
    net = SelectiveSsm(5, 3, width=6, n_layers=1).double()
    net.initialise(torch.Generator().manual_seed(1))
    x = torch.randn(6, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    parts = [p.squeeze(-1) if p.dim() == 3 else p for p in net.parts(0, rms_norm(net.gain[0], x[..., None]))]
    inner, delta, a, b, c = parts
    w = section_9.ssm_weights(delta, a, b, c)
    torch.testing.assert_close(
        torch.einsum("wij,wj->wi", w, inner), selective_scan(inner, delta, a, b, c), rtol=1e-12, atol=1e-14
    )


def test_identities_hold_to_rounding():
    found = section_9.identity_records(30)
    assert max(found.values()) <= 1e-12


@pytest.mark.parametrize("dimension", [2, 3, 6, 192])
def test_mean_cosine_of_random_vectors(dimension):
    z = torch.randn(2, 40_000, dimension, generator=torch.Generator().manual_seed(dimension))
    cosine = torch.nn.functional.cosine_similarity(z[0], z[1], dim=1).abs()
    error = cosine.std().item() / 200
    assert wind_tunnel.random_cosine(dimension) == pytest.approx(cosine.mean().item(), abs=5 * error)
