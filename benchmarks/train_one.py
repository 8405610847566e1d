"""The command line of a file of studies that no chapter shows: train one of them into the book named by ``ICLBOOK_ROOT``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from iclbook.errors import UserError, one_line
from iclbook.training.study import Study, train_study


def train_one(every: Mapping[str, Study], what: str, arguments: Sequence[str] | None) -> int:
    """0 when trained, 2 for a mistake, 130 when interrupted (the next call goes on)."""
    parser = argparse.ArgumentParser(description=what.splitlines()[0].replace("``", ""))
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
