"""``python -m benchmarks``: measure, store, and fill the book's page."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from iclbook.errors import UserError

from . import page, suite


def main(argv: list[str] | None = None) -> int:
    """Parse the command line and do it; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the trainer beside a plain loop and, if installed, JAX; store the results; fill book/benchmarks.md.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="seconds instead of minutes; stores nothing without --out"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument(
        "--out", type=Path, help="store the results in this file instead, and leave the page alone"
    )
    parser.add_argument(
        "--write-page", action="store_true", help="only fill the page from the stored results"
    )
    parser.add_argument(
        "--only",
        choices=("categorical",),
        help="measure this comparison alone and put it into the stored results of the CPU",
    )
    chosen = parser.parse_args(argv)
    try:
        if chosen.write_page:
            page.write()
        else:
            _measure(chosen)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted. Nothing was stored; repeat the command.", file=sys.stderr)
        return 130
    return 0


def _measure(chosen: argparse.Namespace) -> None:
    if chosen.device == "cuda":
        from iclbook.training import pick_device

        pick_device("cuda")  # says in one line when there is none
    start = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {what}", file=sys.stderr, flush=True)

    plan = suite.QUICK if chosen.quick else suite.Plan()
    if chosen.only:
        results = page.stored()["cpu"]
        if results is None or chosen.device != "cpu":
            raise UserError(
                "--only adds to stored results of the CPU, and there are none",
                "Measure everything first: python -m benchmarks",
            )
        results["categorical"] = suite.categorical(plan, say)
    else:
        results = suite.run(plan, chosen.device, say)
    if (results["machine"]["load_before"] or 0) > 0.5:
        print("warning: the machine was busy before the start; repeat this when it is idle.", file=sys.stderr)
    path = chosen.out or (None if chosen.quick else page.RESULTS[chosen.device])
    if path is not None:
        part = path.with_name(path.name + ".part")
        try:
            part.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            os.replace(part, path)
        except OSError as error:
            raise UserError(
                f"cannot write {path} ({error.strerror})", "Name another file with --out."
            ) from error
    if path == page.RESULTS[chosen.device]:
        page.write()
    both = {"cpu": None, "cuda": None} | {chosen.device: results}
    print(page.rendered(both))


if __name__ == "__main__":
    sys.exit(main())
