"""Verifying stored results: what is derived again, compared, and then stamped as made from today's code."""

from __future__ import annotations

import dataclasses
from typing import Any

from .. import store
from ..errors import UserError
from .replay import last_step, measured_again, replay, replay_stretches
from .study import Study


def thinned(study: Study, results: store.Results) -> tuple[Study, store.Results]:
    """One run of every group, another in each, and its part of the results. A run depends on its own seed only, so it replays alone."""
    groups, arrays = [], {}
    for i, spec in enumerate(study.groups):
        run = 7 * i % len(spec.runs)
        groups.append(dataclasses.replace(spec, runs=(spec.runs[run],)))
        for name, array in results.group(spec.name).items():
            by_run = array.ndim > 1 and array.shape[1] == len(spec.runs)
            arrays[f"{spec.name}/{name}"] = array[:, [run]] if by_run else array
    return dataclasses.replace(study, groups=tuple(groups)), store.Results(arrays, results.provenance)


def verify_study(study: Study, profile: str, device: str = "cpu", every: bool = False) -> dict[str, Any]:
    """Derive again what is cheap of a stored study and, if it agrees, stamp it as made from today's source.

    Args:
        every: replay every run; otherwise one of each group.

    Returns:
        What was derived again, as kept in the provenance under ``verified``: ``trajectory``, ``measures`` and ``share``, the largest deviation as a
        share of what rounding explains.

    Raises:
        UserError: something deviates, or the results come from another kind of device, whose random numbers cannot be drawn here.
    """
    results = store.load(study.paper, profile, study.name, study.describe(), may_diverge=study.may_diverge)
    made_on = results.provenance["device"]
    if made_on != device:
        raise UserError(
            f"the results of {study.name} were made on {made_on}",
            f"Verify them there, with --device {made_on}.",
        )
    chosen = (study, results) if every else thinned(study, results)
    shares = {"replay": replay(*chosen, device)}
    kept = store.load_states(study.paper, profile, study.name)
    stretches, shares["stretches"] = replay_stretches(study, results, kept, device)
    again = measured_again(study, results)
    if again is not None:
        shares["measures"] = again
    for what, share in shares.items():
        if not share <= 1:
            verb = "deviates" if what == "replay" else "deviate"
            raise UserError(
                f"the {what} of {study.name} {verb} by {share:.2g} times what rounding explains",
                "The training code has changed: train with --fresh.",
            )
    last = max(last_step(results[f"{g.name}/steps"]) for g in study.groups)
    verified = {
        "trajectory": f"first {last} of {study.steps} steps of {'every run' if every else 'one run of every group'}"
        + (f", {stretches} stretches" if stretches else ""),
        "measures": "there are none" if again is None else "taken again of the stored circuits",
        "share": float(f"{max(shares.values()):.2g}"),
    }
    store.restamp(study.paper, profile, study.name, study.source(), **verified)
    return verified
