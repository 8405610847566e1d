"""An optional peer: the same training in JAX. Imported only where jax is installed (see README.md).

It is given the same advantages as the trainer: K^T Q folded into the query, O V applied after averaging, all steps inside one
``lax.scan``. Of the forms that were tried (batch first or last, matrix products or sums term by term, threefry or rbg numbers) this is
the fastest on a CPU core.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .work import BATCH, CONTEXT, D_COVARIATE, NOISE_VAR, RATE, Case

Params = dict[str, Any]


def prompts(
    key: jax.Array, batch: int = BATCH, d: int = D_COVARIATE, length: int = CONTEXT
) -> tuple[jax.Array, jax.Array]:
    """Covariates ``(B, L+1, d)``, the query last, and responses ``(B, L+1)``."""
    n_x = (length + 1) * d
    z = jax.random.normal(key, (batch, n_x + d + length + 1))
    x = z[:, :n_x].reshape(batch, length + 1, d)
    beta = z[:, n_x : n_x + d] / math.sqrt(d)
    noise = z[:, n_x + d :] * math.sqrt(NOISE_VAR)
    return x, jnp.einsum("bld,bd->bl", x, beta) + noise


def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error of one run; parameters ``(H, D, D)``, prompts as :func:`prompts` makes them."""
    d = x.shape[-1]
    kq = jnp.einsum("hki,hkj->hij", params["key"], params["query"]) / math.sqrt(d + 1)
    ov = jnp.einsum("hk,hkj->hj", params["output"][:, -1], params["value"])
    tokens = jnp.concatenate([x[:, :-1], y[:, :-1, None]], axis=-1)  # (B, L, D)
    folded = jnp.einsum("hij,bj->bhi", kq[:, :, :d], x[:, -1])  # (B, H, D)
    weights = jax.nn.softmax(jnp.einsum("bhi,bli->bhl", folded, tokens), axis=-1)  # (B, H, L)
    means = jnp.einsum("bhl,bli->bhi", weights, tokens)  # (B, H, D)
    return ((y[:, -1] - jnp.einsum("bhi,hi->b", means, ov)) ** 2).mean()


def adam(params: Params, grads: Params, first: Params, second: Params, t: jax.Array) -> tuple[Params, ...]:
    """One Adam step of one run, defaults of the paper; ``t`` counts from 1."""
    over = jax.tree_util.tree_map
    first = over(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = over(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)

    def move(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return p - RATE * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)

    return over(move, params, first, second), first, second


def _step(case: Case, carry: tuple, _: None) -> tuple[tuple, jax.Array]:
    params, first, second, key, t = carry
    key, now = jax.random.split(key)
    value, grads = jax.value_and_grad(loss)(params, *prompts(now, BATCH, case.d, case.L))
    params, first, second = adam(params, grads, first, second, t + 1)
    return (params, first, second, key, t + 1), value


def build(case: Case) -> tuple[Callable[[int], None], int]:
    """``steps(n)``, blocking, and the unit that ``n`` must be a multiple of (the length of one scan)."""
    unit = 50 if case.device == "cuda" else max(1, 200 // case.runs)
    over_runs = jax.vmap if case.contender == "jax vmap" else lambda f: partial(jax.lax.map, f)

    @partial(jax.jit, donate_argnums=0)
    def chunk(carry: tuple) -> tuple[tuple, jax.Array]:
        return over_runs(lambda c: jax.lax.scan(partial(_step, case), c, None, length=unit))(carry)

    draw = np.random.default_rng(0)
    width = case.d + 1
    shape = (case.runs, case.n_heads, width, width)
    bounds = {"query": width, "key": width, "value": width, "output": case.n_heads * width}
    params = {
        name: jnp.asarray(draw.uniform(-1, 1, shape) / math.sqrt(fan_in), dtype=jnp.float32)
        for name, fan_in in bounds.items()
    }
    zeros = [jax.tree_util.tree_map(jnp.zeros_like, params) for _ in range(2)]
    keys = jax.random.split(jax.random.key(0), case.runs)
    carry = (params, *zeros, keys, jnp.zeros(case.runs))

    def steps(n: int) -> None:
        nonlocal carry
        for _ in range(n // unit):
            carry, losses = chunk(carry)
        losses.block_until_ready()

    return steps, unit
