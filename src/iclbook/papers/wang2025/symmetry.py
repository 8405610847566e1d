"""Which symmetry Theorem 2 needs: the mean of ``U^T R U`` over a group is ``tr(R)/d I`` for every R exactly when the group is absolutely irreducible.

The proof (appendix I.5) uses rotations only through that mean. A finite group that has it has an absolutely irreducible real
representation of dimension d, so d divides its order and ``1 + d^2`` is at most its order; hence at least ``d (d + 1)`` elements. The affine group
``x -> a x + b`` over a field of ``d + 1`` elements, acting on the simplex with ``d + 1`` corners, has exactly that many.
"""

from __future__ import annotations

import itertools

import numpy as np

from ...errors import UserError

Array = np.ndarray


def simplex_basis(d: int) -> Array:
    """Orthonormal basis ``(d, d + 1)`` of the vectors whose ``d + 1`` entries sum to zero."""
    _, _, rows = np.linalg.svd(np.ones((1, d + 1)))
    return rows[1:]


def affine_group(d: int) -> Array:
    """``x -> a x + b`` modulo the prime ``d + 1`` on the corners of a simplex in d dimensions, ``(d (d + 1), d, d)``.

    Raises:
        UserError: ``d + 1`` is not prime.
    """
    p = d + 1
    if p < 2 or any(p % q == 0 for q in range(2, int(p**0.5) + 1)):
        raise UserError(f"d + 1 = {p} is not prime", "Choose d so that d + 1 is prime, such as 2, 4, 6, 10.")
    basis = simplex_basis(d)
    elements = []
    for a in range(1, p):
        for b in range(p):
            permutation = np.zeros((p, p))
            permutation[(a * np.arange(p) + b) % p, np.arange(p)] = 1
            elements.append(basis @ permutation @ basis.T)
    return np.array(elements)


def rotations_of_polygon(n: int) -> Array:
    """The n rotations of a regular polygon in the plane, ``(n, 2, 2)``."""
    angles = 2 * np.pi * np.arange(n) / n
    return np.array([[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in angles])


def signed_permutations(d: int) -> Array:
    """All symmetries of the cube in d dimensions, ``(2^d d!, d, d)``: those of the law U(-1, 1)^d."""
    elements = []
    for permutation in itertools.permutations(range(d)):
        for signs in itertools.product((1.0, -1.0), repeat=d):
            elements.append(np.eye(d)[list(permutation)] * np.array(signs)[:, None])
    return np.array(elements)


def cyclic_signs(d: int) -> Array:
    """Diagonal signs times cyclic shifts, ``(d 2^d, d, d)``: a small group of symmetries of the cube that suffices."""
    elements = []
    for shift in range(d):
        for signs in itertools.product((1.0, -1.0), repeat=d):
            elements.append(np.roll(np.eye(d), shift, axis=0) * np.array(signs)[:, None])
    return np.array(elements)


def averaged(group: Array, r: Array) -> Array:
    """Mean of ``U^T R U`` over the group, ``(d, d)``."""
    return np.einsum("gki,kl,glj->ij", group, r, group) / len(group)


def defect(group: Array) -> float:
    """Largest distance of that mean from ``tr(R)/d I`` over all R: the norm of the difference of the two linear maps."""
    d, flat = group.shape[-1], group.reshape(len(group), -1)  # (G, d^2), entry (k, i) of each
    mean = (flat.T @ flat / len(group)).reshape(d, d, d, d)  # of U_ki U_lj, in the order k, i, l, j
    identity = np.eye(d).ravel()
    worst = mean.transpose(1, 3, 0, 2).reshape(d * d, d * d) - np.outer(identity, identity) / d
    return float(np.linalg.norm(worst, 2))


def closed(group: Array, tolerance: float = 1e-9) -> bool:
    """Whether products of elements are elements."""
    flat = group.reshape(len(group), -1)
    products = np.einsum("aij,bjk->abik", group, group).reshape(-1, flat.shape[1])
    keys = {tuple(np.round(e, 6) + 0.0) for e in flat}
    return len(keys) == len(group) and all(tuple(np.round(p, 6) + 0.0) in keys for p in products)
