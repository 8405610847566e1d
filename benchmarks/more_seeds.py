"""The crossing's studies and the ladder with four times the seeds: ``python -m benchmarks.more_seeds STUDY --device cuda``.

No chapter shows them; results go where those of the other studies go, to ``results/KEY/paper`` of the book named by ``ICLBOOK_ROOT``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from iclbook.papers.crossing.measures.heads_as_steps import pair_studies
from iclbook.papers.crossing.measures.rates import rate_studies
from iclbook.papers.nagy2026.ladder_study import ladder_studies
from iclbook.training import Run
from iclbook.training.study import Study

from .train_one import train_one

#: Seeds over those of the chapter.
TIMES = 4


def more_seeds(profile: str = "paper", times: int = TIMES) -> dict[str, Study]:
    """The studies whose intervals over seeds decide, with ``times`` the seeds, the first of which are the chapter's; by the names of studies."""
    found = {}
    every = (*pair_studies(profile).values(), *rate_studies(profile).values(), *ladder_studies(profile))
    for study in every:
        groups = tuple(replace(group, runs=_more(group.runs, times)) for group in study.groups)
        name = f"{study.name}_seeds"
        found[name] = replace(study, name=name, groups=groups)
    return found


def _more(runs: tuple[Run, ...], times: int) -> tuple[Run, ...]:
    """Every kind of run on consecutive seeds from the least on, kinds slowest."""
    first, count = min(run.seed for run in runs), len({run.seed for run in runs})
    kinds = dict.fromkeys(replace(run, seed=first) for run in runs)
    return tuple(replace(kind, seed=first + k) for kind in kinds for k in range(times * count))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line, see :func:`benchmarks.train_one.train_one`."""
    return train_one(more_seeds(), __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
