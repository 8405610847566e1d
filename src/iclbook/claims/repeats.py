"""How likely another draw of everything random, judged alone, contradicts a verdict or leaves it undecided: computed from the margins and errors of its parts
before it is made.
"""

from dataclasses import replace

import numpy as np

from .ledger import Claim
from .verdicts import ERRORS, TOO_CLOSE, PartResult, Verdict, of_parts

#: Draws that are imagined for each verdict.
TRIALS = 1000
#: Margins, in the uncertainty of one draw, beyond which a part is not imagined anew: eight times what may move it.
FAR = 6.0


def imagined(claim: Claim, verdict: Verdict, profile: str, seed: int = 0) -> tuple[float, float]:
    """Probabilities that another draw alone contradicts a verdict by another decided one, and that it leaves it undecided.

    A part with an error lies a margin ``m`` from its bound, in units of twice the error of the mean over its ``n`` draws. Another draw lies at ``m / sqrt(n)`` of its own
    uncertainty, moved by its own error and by that of the mean, together ``sqrt(1 + 1 / n) / 2``. Parts move by themselves and with normal errors, since how many
    runs an error comes from is not recorded; a list moves as one number, and parts without an error stay. Margins hold what rounding does as well, so that a part whose
    error is below its rounding is imagined to move too far.
    """
    moving = [i for i, part in enumerate(verdict.parts) if _moves(part)]
    if not moving:
        return 0.0, 0.0
    signed, draws = np.array([_place(verdict.parts[i]) for i in moving]).T
    errors = np.random.default_rng(seed).normal(size=(TRIALS, len(moving)))
    others = []
    for trial in signed / np.sqrt(draws) + np.sqrt(1 + 1 / draws) / ERRORS * errors:
        parts = list(verdict.parts)
        for i, at in zip(moving, trial, strict=True):
            parts[i] = replace(parts[i], holds=bool(at > 0), margin=abs(float(at)))
        if (word := of_parts(claim, tuple(parts), profile).word) != verdict.word:
            others.append(word)
    undecided = others.count(TOO_CLOSE)
    return (len(others) - undecided) / TRIALS, undecided / TRIALS


def _place(part: PartResult) -> tuple[float, int]:
    return part.margin * (1 if part.holds else -1), part.draws


def _moves(part: PartResult) -> bool:
    return part.sampled and part.margin is not None and part.margin / np.sqrt(part.draws) < FAR
