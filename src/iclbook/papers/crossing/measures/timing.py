"""Which moves first, attention or values: the frame of agarwal2025 ("attention settles early, values later") on other models.

Attention and values are compared as functions on the same prompts, not as parameters: attention rows, and what each row averages as the answer sees it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....statistics import standard_error
from ....store import Results
from ..runs.leads import SIZES

Array = np.ndarray


@dataclass(frozen=True)
class Leads:
    """Of one model: leads ``(draws,)`` with equal rates and with quicker routing, and how many draws were passed over, from which the model came to rest
    before it had taken the way."""

    equal: Array
    quicker: Array
    passed_over: int


def leads(followed: Results) -> dict[str, Leads]:
    """Leads of each model on the draws from which it can take that way at both rates."""
    found = {}
    for name in SIZES:
        both = np.stack([followed[f"{name}/equal"], followed[f"{name}/quicker"]])
        went = np.isfinite(both).all(0)
        found[name] = Leads(*both[:, went], int((~went).sum()))
    return found


def timing_values(found: dict[str, Leads]) -> dict[str, float]:
    """Mean leads with equal rates and with quicker routing, by how much that brings attention forward, and how many draws were passed over."""
    heads, chain, known = (found[name] for name in ("heads", "chain", "known"))
    return {
        "timing/heads": float(heads.equal.mean()),
        "timing/heads_se": float(standard_error(heads.equal)),
        "timing/heads_gain": float((heads.equal - heads.quicker).mean()),
        "timing/heads_gain_se": float(standard_error(heads.equal - heads.quicker)),
        "timing/heads_quicker": float(heads.quicker.mean()),
        "timing/heads_quicker_se": float(standard_error(heads.quicker)),
        "timing/chain": float(chain.equal.mean()),
        "timing/chain_se": float(standard_error(chain.equal)),
        "timing/chain_gain": float((chain.equal - chain.quicker).mean()),
        "timing/chain_gain_se": float(standard_error(chain.equal - chain.quicker)),
        "timing/chain_quicker": float(chain.quicker.mean()),
        "timing/chain_quicker_se": float(standard_error(chain.quicker)),
        "timing/known": float(known.equal.mean()),
        "timing/known_se": float(standard_error(known.equal)),
        "timing/known_gain": float((known.equal - known.quicker).mean()),
        "timing/known_gain_se": float(standard_error(known.equal - known.quicker)),
        "timing/known_quicker": float(known.quicker.mean()),
        "timing/known_quicker_se": float(standard_error(known.quicker)),
        "timing/passed_over": heads.passed_over + chain.passed_over + known.passed_over,
    }
