"""Random numbers as JAX made them before version 0.5: Threefry-2x32 (Salmon, Moraes, Dror and Shaw 2011), keys that are split, normals by the inverse error
function in single precision, categories by Gumbel's numbers. For what somebody else drew with ``jax.random`` and a seed that is known; our own numbers are
those of :mod:`iclbook.random`. Keys are ``(..., 2)``: each draws by itself, as under ``jax.vmap``.

(From version 0.5 on JAX counts its numbers otherwise, ``jax_threefry_partitionable``, and gives others for the same seed.)
"""

import math

import numpy as np

Words = np.ndarray  # uint32
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
#: Coefficients of the inverse error function (Giles 2010), highest power first: of ``w - 2.5`` for ``w < 5``, of ``sqrt(w) - 3`` above, ``w = -log(1 - x^2)``.
_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAILS = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def threefry(key: Words, first: Words, second: Words, rounds: int = 20) -> tuple[Words, Words]:
    """Threefry-2x32: two random words ``(..., n)`` for every counter ``(first, second)``, each ``(n,)``; ``key (..., 2)``. 20 rounds, as published."""
    own = key[..., 0, None], key[..., 1, None]
    schedule = (*own, own[0] ^ own[1] ^ _PARITY)
    with np.errstate(over="ignore"):  # sums are modulo 2^32
        a, b = first + schedule[0], second + schedule[1]
        for done in range(rounds):
            turn = _ROTATIONS[done // 4 % 2][done % 4]
            a = a + b
            b = ((b << np.uint32(turn)) | (b >> np.uint32(32 - turn))) ^ a
            if done % 4 == 3:
                group = done // 4 + 1
                a, b = a + schedule[group % 3], b + schedule[(group + 1) % 3] + np.uint32(group)
    return a, b


def key_of(seed: int) -> Words:
    """``jax.random.PRNGKey(seed)``: the high and the low word of the seed."""
    assert 0 <= seed < 1 << 64, seed
    return np.array([seed >> 32, seed & 0xFFFFFFFF], dtype=np.uint32)


def bits(key: Words, n: int) -> Words:
    """``n`` random words ``(..., n)``: the numbers ``0 .. n - 1`` as counters, the first half beside the second, a 0 behind an odd number of them."""
    counters = np.append(np.arange(n, dtype=np.uint32), np.zeros(n % 2, dtype=np.uint32))
    return np.concatenate(threefry(key, *np.split(counters, 2)), axis=-1)[..., :n]


def split(key: Words, n: int = 2) -> Words:
    """``jax.random.split``: ``n`` keys ``(..., n, 2)``."""
    return bits(key, 2 * n).reshape(*key.shape[:-1], n, 2)


def inverse_erf(x: np.ndarray) -> np.ndarray:
    """The inverse error function of single-precision numbers in (-1, 1), by the polynomials that JAX's compiler uses, in single precision throughout."""
    x = np.asarray(x, dtype=np.float32)
    logarithm = -np.log1p((-x * x).astype(np.float64))
    w = logarithm.astype(np.float32)  # rounded once, so that it is the same on every processor
    central = w < np.float32(5)
    at = np.where(central, w - np.float32(2.5), np.sqrt(w) - np.float32(3))
    found = np.zeros_like(x)
    for near, far in zip(_CENTRAL, _TAILS, strict=True):
        found = found * at + np.where(central, np.float32(near), np.float32(far))
    return found * x


def uniform(key: Words, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """``jax.random.uniform(key, shape, minval=low, maxval=high)``, float32: 23 bits of each word."""
    low, high = np.float32(low), np.float32(high)
    mantissa = (bits(key, math.prod(shape)) >> np.uint32(9)) | np.uint32(0x3F800000)
    drawn = np.maximum(low, (mantissa.view(np.float32) - np.float32(1)) * (high - low) + low)
    return drawn.reshape((*key.shape[:-1], *shape))


def normals(key: Words, shape: tuple[int, ...]) -> np.ndarray:
    """``jax.random.normal(key, shape)``, float32: the inverse of the normal law at uniform numbers."""
    low = np.nextafter(np.float32(-1), np.float32(0))
    return np.float32(math.sqrt(2)) * inverse_erf(uniform(key, shape, low))


def permutation(key: Words, n: int) -> np.ndarray:
    """``jax.random.permutation(key, n)`` ``(..., n)`` for ``n`` below 1,600, which are sorted by random words once; the first of them are
    ``jax.random.choice(key, n, replace=False)``."""
    assert 1 <= n < 1600, n
    return np.argsort(bits(split(key)[..., 1, :], n), axis=-1, kind="stable")


def categorical(key: Words, logits: np.ndarray) -> np.ndarray:
    """``jax.random.categorical(key, logits)``, from ``(..., n, C)`` to ``(..., n)``: the largest of logits and Gumbel's numbers (in double precision, so that
    processors agree; JAX adds them in single precision, which decides otherwise once in a million)."""
    u = uniform(key, logits.shape[key.ndim - 1 :], float(np.finfo(np.float32).tiny)).astype(np.float64)
    return (logits - np.log(-np.log(u))).argmax(-1)
