"""Gradient descent on a prompt against the attention layers that take its steps."""

import numpy as np

from iclbook.theory import construct, layer_answers


def test_a_layer_with_curvature_takes_the_steps_of_gd_plus_plus():
    """Von Oswald et al. (2023), section 3: the covariates lose their large directions while the residuals step."""
    rng = np.random.default_rng(0)
    x, y, queries = rng.normal(size=(12, 4)), rng.normal(size=(12, 2)), rng.normal(size=(3, 4))
    eta, curvature, zero = 0.02, 0.03, np.zeros((2, 4))
    answers = layer_answers(construct(4, 2, eta, curvature=curvature), zero, x, y, queries, layers=3)
    expected, left, asked = np.zeros((3, 2)), y, queries
    for _ in range(3):
        moved = np.eye(4) - curvature * x.T @ x
        expected = expected + eta * asked @ x.T @ left
        left, x, asked = left - eta * x @ x.T @ left, x @ moved, asked @ moved
    np.testing.assert_allclose(answers, expected, rtol=1e-12)
