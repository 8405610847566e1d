"""Trainings of our own: do softmax heads become signed pairs (he2025) behind an embedding, with more covariates, on short contexts, and without Adam?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from ....models import Attention
from ....models.spectral_attention import SpectralAttention
from ....profiles import check_profile
from ....tasks import LinearRegression
from ....tasks.spectral_regression import SpectralRegression
from ....training import Run, Sgd
from ....training.study import Group, Study

#: Task of each study: prompts of nagy2026 with equal eigenvalues, and he2025's with twice the covariates, a quarter of the context, or as they are.
TASKS: Mapping[str, LinearRegression | SpectralRegression] = {
    "pairs_embedded": SpectralRegression((1.0,) * 4),
    "pairs_wide": LinearRegression(d=10),
    "pairs_short": LinearRegression(L=10),
    "pairs_descent": LinearRegression(),
}
#: Rate of plain stochastic gradient descent; of 0.01 to 0.3 the one that settled soonest in 4,000 steps of seeds 100 and 101.
DESCENT_RATE = 0.03


@dataclass(frozen=True)
class OnHeads:
    """Observes what each head of a :class:`SpectralAttention` compares and adds, in the coordinates of the tokens."""

    def held_out(self) -> None:
        """Nothing."""

    def __call__(self, model: nn.Module, held_out: None) -> dict[str, Tensor]:
        """``kq`` ``(H, d + 1, d)``, ``ov`` ``(H, 1, d + 1)``, and ``direct`` ``(d,)``: what reaches the answer past the attention."""
        kq, ov, direct = model.heads()
        return {"kq": kq, "ov": ov[:, None], "direct": direct}


def pair_studies(profile: str) -> dict[str, Study]:
    """The studies of signed pairs at a profile, by name; batches and steps are those of he2025's census of seeds."""
    seeds, steps = (24, 40_000) if check_profile(profile) == "paper" else (2, 40)
    runs = tuple(Run(seed) for seed in range(seeds))
    groups: dict[str, tuple[Group, ...]] = {
        "pairs_embedded": tuple(
            Group(kind, SpectralAttention, {"d": 4, "activation": kind}, runs, observe=OnHeads())
            for kind in ("softmax", "linear")
        ),
        "pairs_wide": (Group("softmax", Attention, {"d": 10, "n_heads": 2}, runs),),
        "pairs_short": (Group("softmax", Attention, {"d": 5, "n_heads": 2}, runs),),
        "pairs_descent": (
            Group(
                "softmax",
                Attention,
                {"d": 5, "n_heads": 2},
                tuple(Run(seed, rate=DESCENT_RATE) for seed in range(seeds)),
                Sgd(),
            ),
        ),
    }
    marks = (
        1,
        *range(9 * steps // 10, steps + 1, steps // 100 or 1),
    )  # settled values are means over the end
    return {
        name: Study("crossing", name, task, groups[name], steps, 64, marks) for name, task in TASKS.items()
    }
