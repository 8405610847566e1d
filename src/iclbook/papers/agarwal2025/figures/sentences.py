"""What the paper says in words of directions, in the order of the chapter's figure."""

from __future__ import annotations

from collections.abc import Mapping

#: Recorded share: the section, and what it says.
SENTENCES = {
    "signs/scores": "3.4: scores fall where b is above its mean",
    "signs/alpha": "3.3: more weight raises the loss where b > 0",
    "signs/advantage": "3.4: A > 0: a larger score helps",
    "signs/values": "3.2: values are pushed away from errors",
    "signs/mass_total": "4.1: attention leaves what is below average",
    "signs/feedback3_own": "4.4: $v_j$ alone moves away: its advantage grows",
    "signs/feedback2": "4.4: larger score, a harder push",
    "prose/u_loss": "3.1: $-u_i$ lowers the loss",
    "prose/joint_sum": "4.2: a value's step lowers the total loss",
    "prose/u_logit": "3.1: $-u_i$ raises the correct logit",
    "signs/mass": "4.1: each position below average loses it",
    "estep/mass": "5.1: every position moves as in an E-step",
    "prose/joint_all": "4.2: ... and the loss of every single user",
    "prose/toward_contexts": "1.1: values move towards their users' contexts",
    "signs/feedback3_held": "4.4: all values move: it grows (errors held)",
    "signs/feedback3": "4.4: all values move: it grows",
    "signs/average": "1.1: the update is an average",
    "prose/toward": "1.1: values move towards their users' errors",
}


def sentences(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    """Each sentence with the share of cases in which it holds."""
    return [(text, shares[key]) for key, text in SENTENCES.items()]
