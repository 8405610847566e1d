"""A reduced wind tunnel: which sequence models track exact posteriors (agarwal2025, section 9.4, figures quoted from Paper I)."""

from __future__ import annotations

from typing import Any

from torch import nn

from ....models.causal_transformer import CausalTransformer
from ....models.lstm import Lstm
from ....models.prefix_mlp import PrefixMlp
from ....models.selective_ssm import SelectiveSsm
from ....profiles import check_profile
from ....tasks.bijection_elimination import BijectionElimination
from ....tasks.hmm_filtering import HmmFiltering
from ....training import Adam, Group, Run
from ....training.study import Study
from .tunnel_specs import OnProbes, Task, soft_cross_entropy


def architectures(task: Task) -> dict[str, tuple[type[nn.Module], dict[str, Any]]]:
    """The models on a task, of about equal parameter counts: name -> (class, arguments)."""
    sizes = {
        "token_width": task.token_width,
        "classes": task.classes,
        "first": task.first,
        "stride": task.stride,
    }
    return {
        "transformer": (CausalTransformer, sizes | {"width": 24, "hidden": 48}),
        "ssm": (SelectiveSsm, sizes | {"width": 24, "hidden": 48}),
        "lstm": (Lstm, sizes | {"width": 24}),
        "prefix_mlp": (PrefixMlp, sizes | {"width": 24, "hidden": 48, "length": task.tokens}),
    }


def tunnel(
    name: str,
    task: Task,
    longer: Task,
    seeds: int,
    steps: int,
    batch_size: int,
    rate: float,
    n_probes: int,
    record: tuple[int, ...],
) -> Study:
    """All architectures on one task; runs of one seed see the same sequences in every group."""
    keyed = {"symbols": task.symbols} if isinstance(task, BijectionElimination) else {}
    groups = tuple(
        Group(
            model_name,
            model,
            kwargs,
            tuple(Run(seed, rate=rate) for seed in range(seeds)),
            Adam(),
            soft_cross_entropy,
            observe=OnProbes((("train", task), ("long", longer)), n_probes, manifold="train", **keyed),
        )
        for model_name, (model, kwargs) in architectures(task).items()
    )
    return Study("agarwal2025", name, task, groups, steps, batch_size, record)


def wind_tunnel_studies(profile: str) -> list[Study]:
    """The two tasks at a profile. Steps, batch and rate are not the paper's: they are what one busy core allowed."""
    if check_profile(profile) == "paper":
        hmm, long_hmm = HmmFiltering(3, 3, 10), HmmFiltering(3, 3, 30)
        bijection, long_bijection = BijectionElimination(8, 6), BijectionElimination(8, 8)
        sizes = {"seeds": 5, "batch_size": 64, "rate": 5e-3, "n_probes": 256}
        return [
            tunnel(
                "tunnel_hmm",
                hmm,
                long_hmm,
                steps=6400,
                record=(20, 50, 100, 200, 400, 800, 1600, 3200, 4800),
                **sizes,
            ),
            tunnel(
                "tunnel_bijection",
                bijection,
                long_bijection,
                steps=2000,
                record=(20, 50, 100, 200, 500, 1000, 1500),
                **sizes,
            ),
        ]
    sizes = {"seeds": 2, "batch_size": 16, "rate": 5e-3, "n_probes": 64, "steps": 30, "record": (20,)}
    return [
        tunnel("tunnel_hmm", HmmFiltering(2, 2, 6), HmmFiltering(2, 2, 9), **sizes),
        tunnel("tunnel_bijection", BijectionElimination(4, 3), BijectionElimination(4, 4), **sizes),
    ]
