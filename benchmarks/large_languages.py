"""Language models of wang2025 at the paper's width on stories of exact likelihood: ``python -m benchmarks.large_languages STUDY --device cuda``.

No chapter shows them; results go where those of the other studies go, to ``results/wang2025/paper`` of the book named by ``ICLBOOK_ROOT``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from iclbook.errors import UserError, one_line
from iclbook.papers.wang2025.runs.real_stories import large_studies
from iclbook.training.study import train_study


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 when trained, 2 for a mistake, 130 when interrupted (the next call goes on)."""
    every = large_studies()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0].replace("``", ""))
    parser.add_argument("study", choices=every)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    chosen = parser.parse_args(arguments)
    try:
        about = train_study(every[chosen.study], "paper", chosen.device, fresh=True).provenance
    except UserError as mistake:
        print(f"error: {one_line(mistake)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(f"{chosen.study}: done in {about['seconds']:.0f} s on {about['device']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
