"""How likely another draw of everything random, judged alone, gives the same verdict: computed from the margins and errors of its parts before it is made."""

from dataclasses import replace

import numpy as np

from .ledger import Claim
from .verdicts import ERRORS, PartResult, Verdict, of_parts

#: Draws that are imagined for each verdict.
TRIALS = 400
#: Margins, in the uncertainty of one draw, beyond which a part is not imagined anew: eight times what may move it.
FAR = 6.0


def same_word(claim: Claim, verdict: Verdict, profile: str, draws: int = 1, seed: int = 0) -> np.ndarray:
    """Whether each of :data:`TRIALS` imagined draws gives a verdict's word, ``(TRIALS,)``.

    A part with an error lies a margin ``m`` from its bound, in units of twice the error of the mean over ``draws``. Another draw lies at ``m / sqrt(draws)`` of its own
    uncertainty, moved by its own error and by that of the mean, together ``sqrt(1 + 1 / draws) / 2``. Parts move by themselves and with normal errors; parts without an
    error stay. Margins hold what rounding does as well, so that a part whose error is below its rounding is imagined to move too far.
    """
    moving = [i for i, part in enumerate(verdict.parts) if _moves(part, draws)]
    if not moving:
        return np.ones(TRIALS, bool)
    signed = np.array([verdict.parts[i].margin * (1 if verdict.parts[i].holds else -1) for i in moving])
    errors = np.random.default_rng(seed).normal(size=(TRIALS, len(moving)))
    imagined = signed / np.sqrt(draws) + np.sqrt(1 + 1 / draws) / ERRORS * errors
    found = []
    for trial in imagined:
        parts = list(verdict.parts)
        for i, at in zip(moving, trial, strict=True):
            parts[i] = replace(parts[i], holds=bool(at > 0), margin=abs(float(at)))
        found.append(of_parts(claim, tuple(parts), profile).word == verdict.word)
    return np.array(found)


def _moves(part: PartResult, draws: int) -> bool:
    return part.sampled and part.margin is not None and part.margin / np.sqrt(draws) < FAR
