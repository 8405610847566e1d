"""Where he2025 contradicts itself; symbols, captions and file names are transcribed by hand from the paper."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from ....models import attend
from .. import theory
from .patterns import Example

Records = dict[str, Any]
#: Solution sets that the text defines, and those that Theorem 1 names.
DEFINED, USED = {"S_gamma", "S-bar"}, {"S*", "S-bar"}
#: Numbers of the captions in order.
CAPTIONS = ("1", *(f"2.{i}" for i in range(1, 9)), *(f"3.{i}" for i in range(1, 6)), "4.1", "4.2", "4.2")
#: The image files of each figure that shares one with another figure.
FILES = {
    "2.3": {"Head_2_kq_dynamic_main", "Head_2_ov_dynamic_main"},
    "2.5": {"Lin_smax_comparison"},
    "2.8": {f"Head_{h}_{c}_dynamic{'_main' if h == 2 else ''}" for h in (2, 3, 4) for c in ("kq", "ov")},
    "4.1": {"Lin_smax_comparison"},
}
#: Sentence: the figure it names, the figure that shows it.
REFERENCES = {"the attention model quickly develops the pattern": ("2.5", "2.6")}


def formula_records(example: Example, prompts: theory.Prompts) -> Records:
    """The mask against the closed form of the prediction, Theorem 1's space and symbols, and the formula without its sum."""
    ov = example.ov[:, -1:]
    closed_form = attend(example.kq, ov, example.context, example.query)  # no query among the keys
    with_query = torch.cat([example.context, example.query_token[None]])
    masked = attend(example.kq, ov, with_query, example.query)
    printed_form = theory.debiased_gd_terms(1.0, prompts.x[:1], prompts.y[:1], prompts.x_q[:1])
    return {
        "typo/mask_difference": (masked - closed_form).abs().max().item(),
        "typo/two_heads_in_space": bool(theory.in_theorem_space([0.13, -0.13])),
        "typo/undefined_symbols": len(USED - DEFINED),
        "typo/terms_of_formula": int(printed_form[0].size),
    }


def figure_records() -> Records:
    """Numbers, image files and references of the figures."""
    uses = Counter(name for names in FILES.values() for name in names)
    return {
        "typo/repeated_numbers": len(CAPTIONS) - len(set(CAPTIONS)),
        "typo/repeated_images": sum(count > 1 for count in uses.values()),
        "typo/wrong_references": sum(named != shown for named, shown in REFERENCES.values()),
    }
