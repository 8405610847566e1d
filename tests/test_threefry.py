"""Numbers as JAX drew them: Random123's known answers, and what its documentation and tutorials print."""

import numpy as np
import pytest

from iclbook import threefry

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)


@pytest.mark.parametrize(
    ("counter", "key", "rounds", "known"),
    [
        ((0, 0), (0, 0), 20, "6b200159 99ba4efe"),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2, 20, "1cb996fc bb002be7"),
        (PI[:2], PI[2:], 20, "c4923a9c 483df7a0"),
        ((0, 0), (0, 0), 13, "9d1c5ec6 8bd50731"),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2, 13, "fd36d048 2d17272c"),
        (PI[:2], PI[2:], 13, "ba3e4725 f27d669e"),
    ],
)
def test_threefry_gives_the_known_answers_of_random123(counter, key, rounds, known):
    first, second = (np.array([word], dtype=np.uint32) for word in counter)
    a, b = threefry.threefry(np.array(key, dtype=np.uint32), first, second, rounds)
    assert f"{a[0]:08x} {b[0]:08x}" == known


def test_normals_are_those_printed_in_tutorials_of_jax():
    ten = [-0.3721109, 0.26423115, -0.18252768, -0.7368197, -0.44030377]
    ten += [-0.1521442, -0.67135346, -0.5908641, 0.73168886, 0.5673026]
    np.testing.assert_allclose(threefry.normals(threefry.key_of(0), (10,)), ten, rtol=5e-7)
    nine = [*ten[:4], 0.44973662, *ten[5:9]]  # an odd number: the middle one stands beside a 0
    np.testing.assert_allclose(threefry.normals(threefry.key_of(0), (3, 3)).ravel(), nine, rtol=5e-7)
    key = threefry.key_of(12)
    for printed in (0.735927939414978, 1.810187578201294, 0.11553369462490082):
        key, used = threefry.split(key)
        np.testing.assert_allclose(threefry.normals(used, ()), printed, rtol=2e-7)
