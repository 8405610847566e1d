"""Random numbers by counter: a pure function of (seed, purpose, step), the same on every processor and device.

Philox-4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3") turns a key and a counter into four random words of
32 bits. The key is the seed with the draw (:mod:`iclbook.draw`); the counter holds what the numbers are for, the step, and their place in it. There is no state to keep, and any step of a
run can be drawn by itself. Whole numbers are exact everywhere; standard normals (Box and Muller 1958) are the same up to the rounding of log, sqrt, cos
and sin. Whatever is chosen (an index, a category, an order) is therefore chosen by whole numbers. On a CPU both are drawn in C
(:mod:`iclbook.native`), where normals are the same to the bit on every processor; on a GPU and in traced programs torch draws them, and everywhere normals in
double precision.

Beside them, rounding errors put in by hand, to measure how far rounding alone carries a training (:func:`replica`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from . import native
from .draw import number, torch_rng

#: Purposes of random numbers; each has a stream of its own, so that drawing more for one never shifts another. A run has its initial parameters, its data
#: and its choices among stored prompts.
INIT, DATA, CHOICE = 0, 1, 11
#: The others, in one list: a new purpose gets a name and a number here.
PURPOSES = {
    "evaluation": 2,
    "probes": 3,
    "contexts": 7,
    "floor of a chain": 9,
    "corpus table": 23,
    "patterns": 24,
    "random directions": 26,
    "landscapes": 40,
    "held-out sequences": 50,
    "prompts": 60,
}
#: Added to a purpose: the words beside its normals.
WORDS = 1 << 16

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)  # the key's own counter: golden ratio and sqrt(3) - 1
Words = tuple[Tensor, Tensor, Tensor, Tensor]


def generator(seed: int, purpose: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of torch of its own for each seed and purpose: for what is drawn once, such as initial parameters."""
    return torch_rng([seed, purpose], device)


def philox(counter: Words, key: tuple[Tensor, Tensor], rounds: int = 10) -> Words:
    """Philox-4x32: four random words for every counter. Counter and key are words below 2**32 in int64, of shapes that broadcast; 10 rounds are published, and 7
    the fewest that pass BigCrush."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        # the product of two words wraps in int64; its bits are right nonetheless
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((second >> 32) & _WORD) ^ c1 ^ k0,
            second & _WORD,
            ((first >> 32) & _WORD) ^ c3 ^ k1,
            first & _WORD,
        )
        k0, k1 = (k0 + _STEPS[0]) & _WORD, (k1 + _STEPS[1]) & _WORD
    return c0, c1, c2, c3


def keys(seeds: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
    """Keys ``(S, 2)`` of seeds below 2**64: their low and high words, the draw in the upper half of the high one."""
    words = [(seed & _WORD, (seed >> 32) ^ (number() << 16)) for seed in seeds]
    return torch.tensor(words, dtype=torch.int64, device=device)


def _blocks(keys: Tensor, step: Tensor, purpose: int, n: int) -> Words:
    """Words for ``n`` places of every seed and step: four of ``(S, K, ceil(n / 4))``."""
    place = torch.arange((n + 3) // 4, device=keys.device)
    if keys.is_cuda:  # Triton keeps an index in 32 bits, and a multiplier has 32; it cannot know that this is 0
        place = place + (keys[0, 0] >> 32)
    zero = torch.zeros((), dtype=torch.int64, device=keys.device)
    when = step[:, None]  # (K, 1)
    key = keys[:, 0, None, None], keys[:, 1, None, None]
    return philox((place, zero + purpose, when & _WORD, (when >> 32) & _WORD), key)


def words(keys: Tensor, step: Tensor, purpose: int, shape: tuple[int, ...]) -> Tensor:
    """Random whole numbers below 2**32, int64 ``(S, K, *shape)``, of keys ``(S, 2)`` at the steps ``(K,)``, int64, for a purpose."""
    n = math.prod(shape)
    if native.can_draw(keys):
        return native.draw("words", keys, step, purpose, n).unflatten(-1, shape)
    return torch.cat(_blocks(keys, step, purpose, n), -1)[..., :n].unflatten(-1, shape)


def normals(
    keys: Tensor, step: Tensor, purpose: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> Tensor:
    """Standard normals ``(S, K, *shape)``; arguments as for :func:`words`."""
    n = math.prod(shape)
    if not n:
        return torch.empty((len(keys), len(step), *shape), device=keys.device, dtype=dtype)
    if dtype is torch.float32 and native.can_draw(keys):
        return native.draw("normals", keys, step, purpose, n).unflatten(-1, shape)
    a, b, c, d = (w.to(dtype) for w in _blocks(keys, step, purpose, n))
    return torch.cat([*box_muller(a, b), *box_muller(c, d)], -1)[..., :n].unflatten(-1, shape)


def box_muller(size: Tensor, turn: Tensor) -> tuple[Tensor, Tensor]:
    """Two standard normals from two random words, given as floating point numbers."""
    radius = exact_sqrt(-2 * torch.log((size + 0.5) * 2.0**-32))  # float32 rounds the largest to 1: radius 0
    angle = turn * (2 * math.pi * 2.0**-32)
    return radius * torch.cos(angle), radius * torch.sin(angle)


def exact_sqrt(x: Tensor) -> Tensor:
    """The correctly rounded square root of float32 numbers.

    ``torch.sqrt`` is one unit off for one number in six on a CPU, for other numbers on AMD than on Intel; a root in double precision, rounded, is right on both.
    """
    return x.double().sqrt().to(x.dtype) if x.device.type == "cpu" else x.sqrt()


def numbers(
    source: Any, keys: Tensor, step: Tensor, purpose: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """The random numbers of a source of prompts: normals ``(S, K, normals, *shape)`` and, if it needs any, words ``(S, K, words, *shape)``, int64.

    Args:
        source: may have ``normals`` and ``words``, how many of each a prompt consumes; none where it does not say.
        shape: of the prompts, such as ``(B,)``.
    """
    counts = [getattr(source, kind, 0) for kind in ("normals", "words")]
    found = (normals(keys, step, purpose, (counts[0], *shape), dtype),)
    return (*found, words(keys, step, purpose + WORDS, (counts[1], *shape))) if counts[1] else found


def drawn(
    source: Any, seed: int, purpose: int, shape: tuple[int, ...], step: int = 0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """:func:`numbers` of one seed and step, ``(normals, *shape)`` and perhaps ``(words, *shape)``: for prompts that are drawn once."""
    return tuple(x[0, 0] for x in numbers(source, keys([seed]), torch.tensor([step]), purpose, shape, dtype))


def below(n: int, random: Tensor) -> Tensor:
    """Uniform whole numbers ``0 .. n - 1`` from random words; n far below 2**32, each as likely as the others up to ``n / 2**32``."""
    return (random * n) >> 32


def order(random: Tensor, dim: int) -> Tensor:
    """Permutations of ``0 .. n - 1`` along an axis of n random words; the first k of one are a choice without replacement. Each order is as likely as the
    others up to the chance ``n**2 / 2**33`` of two equal words, which stay in place."""
    return random.argsort(dim=dim, stable=True)


def edges(p: Tensor) -> Tensor:
    """Probabilities ``(..., C, B)`` as bounds ``(..., C - 1, B)`` between the words that choose one outcome and the next; the last outcome takes what is left."""
    return (p.cumsum(-2)[..., :-1, :] * 2.0**32).long()


def category(p: Tensor, random: Tensor) -> Tensor:
    """Outcomes ``(..., B)`` of probabilities ``p (..., C, B)`` from random words ``(..., B)``, int64. Where p itself carries rounding errors, a word may
    lie between two processors' bounds: one word in about ``2**23 / C`` in single precision."""
    return (random[..., None, :] >= edges(p)).sum(-2)


def uniform(random: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random words as numbers in (0, 1); float32 rounds the largest to 1. The same on every processor."""
    return ((random.to(torch.float64) + 0.5) * 2.0**-32).to(dtype)


# -- rounding errors --------------------------------------------------------------------------------------------------

#: Units by which random numbers are moved before something is chosen by what follows from them (a category by its probabilities). A choice cannot be
#: scaled afterwards as a distance can. Four are the errors of log and cos on some processors; but a choice so near its edge is rare, so that most
#: replicas miss it, and those from :data:`SEARCHING` on look farther.
CHOOSING, FARTHER = 4.0, 64.0
SEARCHING = 4
#: Distance of neighbouring float32 numbers, as a share of them.
UNIT = 2.0**-23

_replica: list[int | None] = []


@contextmanager
def replica(which: int | None) -> Iterator[None]:
    """Whatever is built and trained in this context is a perturbed replica, another one for each number; with ``None`` it is not perturbed.

    Two processors differ in the order and width of their sums, so each number of each step may come out one rounding unit apart. A replica of a training
    imitates that at the inputs of every step (Monte Carlo arithmetic; Parker 1997): parameters and data are multiplied by ``1 + 2**-23`` or
    ``1 - 2**-23`` at random. Noise on the data makes each term of a gradient err by itself, as other orders of summation do, so that a gradient whose terms
    cancel is as uncertain as it truly is. Zeros and whole numbers (labels, one-hot tokens, parameters not yet trained) are exact on every machine and stay.
    """
    _replica.append(which)
    try:
        yield
    finally:
        _replica.pop()


def replica_number() -> int | None:
    """Which replica this is: part of the key of everything that is cached and moved; ``None`` outside of replicas."""
    return _replica[-1] if _replica else None


def replica_errors(device: torch.device | str = "cpu") -> torch.Generator | None:
    """A generator of the present replica's errors, always from its start; ``None`` outside of replicas."""
    return None if replica_number() is None else torch.Generator(device).manual_seed(replica_number())


def signs(x: Tensor, generator: torch.Generator) -> Tensor:
    """1 or -1 for every entry of ``x``."""
    return torch.randint(0, 2, x.shape, generator=generator, device=x.device).to(x) * 2 - 1


def jittered(x: Tensor, generator: torch.Generator, units: float = 1.0) -> Tensor:
    """``x`` with every entry that is not a whole number moved by so many rounding units, up or down at random."""
    if not x.is_floating_point():
        return x
    return torch.where(x == x.round(), x, x * (1 + units * UNIT * signs(x, generator)))


def choosing() -> float:
    """Rounding units by which this replica moves the numbers that decide a choice."""
    return FARTHER if (replica_number() or 0) >= SEARCHING else CHOOSING


def moved_batch(
    draw: Callable[..., Sequence[Tensor]], numbers: Sequence[Tensor], generator: torch.Generator
) -> list[Tensor]:
    """The tensors ``draw(*numbers)`` of a replica: what was chosen near an edge is chosen anew, and the rest moved by a rounding unit."""
    others = [jittered(x, generator, choosing()) for x in numbers]
    pairs = zip(draw(*numbers), draw(*others), strict=True)
    return [jittered(chosen_anew(*pair), generator) for pair in pairs]


def chosen_anew(x: Tensor, other: Tensor) -> Tensor:
    """``other`` where it differs clearly from ``x``, and ``x`` elsewhere."""
    if not x.is_floating_point() or not x.numel():
        return other
    return torch.where((other - x).abs() > 1e-3 * x.abs().amax(), other, x)
