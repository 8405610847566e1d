"""The Transformer with standard heads of wang2025's language models, trained once more to the same numbers, with its weights kept."""

from __future__ import annotations

from dataclasses import replace

import torch

from ....training.study import Study
from ...wang2025 import studies


def position_studies(profile: str) -> dict[str, Study]:
    """One study, ``language_positions``: settings, seeds and stories are those of wang2025's ``language_tf_split``."""
    home = studies(profile)["language_tf_split"]
    (group,) = home.groups
    with torch.device("meta"):
        names = tuple(name for name, _ in group.build().named_parameters())
    kept = replace(group, observe=replace(group.observe, ways=()), keep=names, keep_at=(home.steps,))
    study = replace(home, paper="crossing", name="language_positions", groups=(kept,), record=home.record[:1])
    return {study.name: study}
