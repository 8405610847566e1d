"""``python -m benchmarks``: measure, store, and fill the book's page."""

import argparse
import json
import sys
import time
from pathlib import Path

from iclbook.errors import UserError
from iclbook.files import write_whole

from . import idle, page, suite


def main(argv: list[str] | None = None) -> int:
    """Parse the command line and do it; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the trainer beside a plain loop and, if installed, JAX; store the results; fill book/benchmarks.md.",
    )
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; stores nothing without --out")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--out", type=Path, help="store the results in this file instead, and leave the page alone")
    parser.add_argument("--write-page", action="store_true", help="only fill the page from the stored results")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="PART",
        choices=suite.PARTS,
        help=f"measure these parts alone and put them into the stored results: {', '.join(suite.PARTS)}",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep every answer there, and go on from there when interrupted"
    )
    chosen = parser.parse_args(argv)
    suite.KEEP, suite.COLD = chosen.keep, not chosen.quick
    try:
        if chosen.write_page:
            page.write()
        else:
            _measure(chosen)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted. No results were stored; repeat the command.", file=sys.stderr)
        return 130
    return 0


def _measure(chosen: argparse.Namespace) -> None:
    if chosen.device == "cuda":
        from iclbook.training.ensemble import pick_device

        pick_device("cuda")  # says in one line when there is none
    start = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {what}", file=sys.stderr, flush=True)

    plan = suite.QUICK if chosen.quick else suite.CUDA if chosen.device == "cuda" else suite.Plan()
    path = chosen.out or (None if chosen.quick else page.RESULTS[chosen.device])
    published = path == page.RESULTS[chosen.device]
    if published:
        hint = "Repeat this when nothing else runs, or measure without publishing: --quick, or --out FILE."
        idle.require(idle.before(), "just now", hint)
    parts = chosen.only or suite.PARTS
    before = None if chosen.only is None else page.stored()[chosen.device]
    if before and before["machine"]["gpu"] not in (None, suite.machine(chosen.device)["gpu"]):
        before = None  # of another card
    results = suite.run(plan, chosen.device, say, parts, before)
    during = results["machine"]["others"]["during"]
    if published and during > idle.ALLOWED:
        path = suite.ROOT / ".cache" / f"benchmarks-{chosen.device}.json"
        write_whole(path, (json.dumps(results, indent=1) + "\n").encode())
        idle.require(
            during, "while it measured", f"Repeat this when nothing else runs; what was measured lies in {path}."
        )
    if path is not None:
        write_whole(path, (json.dumps(results, indent=1) + "\n").encode())
    if published:
        page.write()
    both = {"cpu": None, "cuda": None} | {chosen.device: results}
    print(page.rendered(both))


if __name__ == "__main__":
    sys.exit(main())
