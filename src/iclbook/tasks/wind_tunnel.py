"""The tasks of the wind tunnel (agarwal2025, section 9.4), with exact posteriors: filtering in hidden Markov models that change with every sequence ("HMM
tracking"), and elimination of hypotheses about a bijection (after Paper I).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from .. import random
from .batch import Batch


def entropy_bits(p: Tensor, axis: int = -2) -> Tensor:
    """Entropy in bits of the distributions along ``axis``; ``0 log 0 = 0``."""
    return -torch.special.xlogy(p, p).sum(axis) / math.log(2)


def posteriors(transition: Tensor, emission: Tensor, seen: Tensor) -> Tensor:
    """Bayes filter ``p(s_t | o_1..o_t)`` ``(..., K, S, B)`` from a uniform start.

    Args:
        transition: ``(..., S, S, B)``, rows ``p(s_{t+1} | s_t)``.
        emission: ``(..., S, O, B)``, rows ``p(o_t | s_t)``.
        seen: ``(..., K, O, B)`` observations, one-hot.
    """
    prior = torch.full_like(emission[..., 0, :], 1 / emission.shape[-3])  # (..., S, B)
    found = []
    for t in range(seen.shape[-3]):
        likelihood = (emission * seen[..., t, None, :, :]).sum(-2)  # (..., S, B)
        joint = prior * likelihood
        belief = joint / joint.sum(-2, keepdim=True)
        found.append(belief)
        prior = (transition * belief[..., :, None, :]).sum(-3)  # sum over s_t: (..., S, B)
    return torch.stack(found, -3)


def memoryless(emission: Tensor, seen: Tensor) -> Tensor:
    """Posterior without memory, ``p(s_t | o_t)`` from a uniform prior: shapes as in :func:`posteriors`."""
    likelihood = (emission[..., None, :, :, :] * seen[..., :, None, :, :]).sum(-2)  # (..., K, S, B)
    return likelihood / likelihood.sum(-2, keepdim=True)


@dataclass(frozen=True)
class HmmFiltering:
    """Each sequence has its own transition matrix T and emission matrix E; both stand in front of the observations.

    The first S tokens are the rows of T, the next S the rows of E, then come K observations. A token carries a row's probabilities
    (``max(S, O)`` numbers), which row it is (2S indicators) and an observation (O indicators). The target at observation t is the exact
    posterior over the hidden state, as in the published code of Paper I; the cross-entropy against it has the same expected gradient as that
    against the sampled state. Rows are Dirichlet(1), cut off below at ``floor`` and normalised again, as in that code (which also rounds
    them to hundredths).

    Args:
        states: S, hidden states.
        symbols: O, observation symbols.
        length: K, observations.
        floor: smallest probability before the last normalisation.
    """

    states: int = 3
    symbols: int = 3
    length: int = 12
    floor: float = 0.05

    @property
    def first(self) -> int:
        """Place of the first token at which a prediction is asked for."""
        return 2 * self.states

    stride = 1

    @property
    def tokens(self) -> int:
        """T, tokens of a sequence."""
        return 2 * self.states + self.length

    @property
    def token_width(self) -> int:
        """D, entries of a token."""
        return max(self.states, self.symbols) + 2 * self.states + self.symbols

    @property
    def classes(self) -> int:
        """Among which a prediction chooses: the S hidden states."""
        return self.states

    @property
    def normals(self) -> int:
        """Standard normals for one sequence: two for each probability."""
        return 2 * self.states * (self.states + self.symbols)

    @property
    def words(self) -> int:
        """Random words for one sequence: one for each state and each observation."""
        return 2 * self.length

    def draw(self, normals: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Matrices ``(..., S, S, B)`` and ``(..., S, O, B)`` and one-hot observations ``(..., K, O, B)`` from normals and words; pure."""
        s, o = self.states, self.symbols
        pairs = normals.unflatten(-2, (s, s + o, 2))
        exponential = (pairs**2).sum(-2) / 2  # the half sum of two squared normals is Exponential(1)
        transition, emission = self._rows(exponential[..., :s, :]), self._rows(exponential[..., s:, :])
        chance = torch.full_like(emission[..., 0, :], 1 / s)  # (..., S, B)
        seen = []
        for t in range(self.length):
            state = _choose(chance, words[..., t, :])  # (..., S, B)
            seen.append(_choose((emission * state[..., :, None, :]).sum(-3), words[..., self.length + t, :]))
            chance = (transition * state[..., :, None, :]).sum(-3)
        return transition, emission, torch.stack(seen, -3)

    def _rows(self, exponential: Tensor) -> Tensor:
        cut = (exponential / exponential.sum(-2, keepdim=True)).clamp(min=self.floor)
        return cut / cut.sum(-2, keepdim=True)

    def encode(self, transition: Tensor, emission: Tensor, seen: Tensor) -> Tensor:
        """Tokens ``(..., T, D, B)``."""
        s, o, wide = self.states, self.symbols, max(self.states, self.symbols)
        lead, width = seen.shape[:-3], seen.shape[-1]
        header = seen.new_zeros(*lead, 2 * s, self.token_width, width)
        header[..., :s, :s, :] = transition
        header[..., s:, :o, :] = emission
        header[..., :, wide : wide + 2 * s, :] = torch.eye(2 * s, dtype=seen.dtype, device=seen.device)[..., None]
        body = seen.new_zeros(*lead, self.length, self.token_width, width)
        body[..., wide + 2 * s :, :] = seen
        return torch.cat([header, body], -3)

    def batch(self, normals: Tensor, words: Tensor) -> Batch:
        """Tokens ``(..., T, D, B)``, nothing as the query, and the posteriors ``(..., K, S, B)`` as the target."""
        transition, emission, seen = self.draw(normals, words)
        target = posteriors(transition, emission, seen)
        return Batch(self.encode(transition, emission, seen), target[..., 0, :0, :], target)

    def exact(self, normals: Tensor, words: Tensor) -> Tensor:
        """The exact predictive distribution at every place where one is asked for, ``(..., K, S, B)``."""
        return posteriors(*self.draw(normals, words))


def _choose(p: Tensor, words: Tensor) -> Tensor:
    """A one-hot draw ``(..., n, B)`` from distributions ``(..., n, B)`` and random words ``(..., B)``."""
    return one_hot(random.category(p, words), p.shape[-2]).movedim(-1, -2).to(p)


@dataclass(frozen=True)
class BijectionElimination:
    """A random bijection of V symbols is shown pair by pair, ``x_1 y_1 x_2 y_2 ...``; at each ``x_k`` its image is asked for.

    With ``distinct`` keys each ``x_k`` is new, and all that can be known is which images are left: ``1 / (V - k + 1)`` each. Otherwise keys are
    drawn with replacement; the image of one that was seen is certain, which takes looking it up ("random-access binding").

    A token carries V indicators for a key and V for an image.

    Args:
        symbols: V.
        length: K, pairs; at most V if they are distinct.
        distinct: keys without replacement.
    """

    symbols: int = 8
    length: int = 8
    distinct: bool = True

    first = 0
    stride = 2

    @property
    def tokens(self) -> int:
        """T, tokens of a sequence; the last key has no image after it."""
        return 2 * self.length - 1

    @property
    def token_width(self) -> int:
        """D, entries of a token."""
        return 2 * self.symbols

    @property
    def classes(self) -> int:
        """Among which a prediction chooses: the V symbols."""
        return self.symbols

    @property
    def words(self) -> int:
        """Random words for one sequence: their order is the bijection, and those of the keys their order or their values."""
        return self.symbols + (self.symbols if self.distinct else self.length)

    def draw(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and their images as indices, each ``(..., K, B)``; pure."""
        bijection = random.order(words[..., : self.symbols, :], -2)  # (..., V, B)
        rest = words[..., self.symbols :, :]
        if self.distinct:
            keys = random.order(rest, -2)[..., : self.length, :]
        else:
            keys = random.below(self.symbols, rest)
        return keys, bijection.gather(-2, keys)

    def encode(self, keys: Tensor, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Tokens ``(..., T, D, B)``."""
        x = one_hot(keys, 2 * self.symbols)  # (..., K, B, D)
        y = one_hot(images + self.symbols, 2 * self.symbols)
        both = torch.stack([x, y], -3).flatten(-4, -3)  # x_1 y_1 x_2 ..., (..., 2K, B, D)
        return both[..., :-1, :, :].transpose(-1, -2).to(dtype)

    def batch(self, normals: Tensor, words: Tensor) -> Batch:
        """From words, in the dtype of ``normals`` (which are empty): tokens ``(..., T, D, B)``, nothing as the query, and the images ``(..., K, V, B)``, one-hot, as the target."""
        keys, images = self.draw(words)
        target = one_hot(images, self.symbols).transpose(-1, -2).to(normals.dtype)
        return Batch(self.encode(keys, images, normals.dtype), target[..., 0, :0, :], target)

    def exact(self, normals: Tensor, words: Tensor) -> Tensor:
        """The exact predictive distribution at every key, ``(..., K, V, B)``."""
        return predictive(*self.draw(words), self.symbols, normals.dtype)


def predictive(keys: Tensor, images: Tensor, symbols: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """``p(pi(x_k) = y | x_1 y_1 .. x_k)`` ``(..., K, V, B)`` under a uniform bijection of V symbols, from indices ``(..., K, B)`` of keys and images: certain
    for a key that was seen, else uniform over the images not seen."""
    x = one_hot(keys, symbols).transpose(-1, -2).to(dtype)  # (..., K, V, B)
    y = one_hot(images, symbols).transpose(-1, -2).to(dtype)
    seen = ((y.cumsum(-3) - y) > 0).to(dtype)  # images before the k-th, (..., K, V, B)
    left = (1 - seen) / (1 - seen).sum(-2, keepdim=True).clamp(min=1)
    known = (((x.cumsum(-3) - x) * x).sum(-2, keepdim=True) > 0).to(dtype)  # (..., K, 1, B)
    return known * y + (1 - known) * left
