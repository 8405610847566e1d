"""Language models of wang2025 at the paper's width on stories of exact likelihood: ``python -m benchmarks.large_languages STUDY --device cuda``.

No chapter shows them; results go where those of the other studies go, to ``results/wang2025/paper`` of the book named by ``ICLBOOK_ROOT``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from iclbook.papers.wang2025.runs.real_stories import large_studies

from .train_one import train_one


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line, see :func:`benchmarks.train_one.train_one`."""
    return train_one(large_studies(), __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
