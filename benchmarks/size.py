"""How large the book is to carry: ``make size``.

Lines and files are counted from what git lists. The files between a prompt and its badge are counted by running: the cells of *In-Context Linear Regression* up
to the badge of Figure 2.2 train and record at the smoke profile, and a file counts if any of its functions ran, drawing and sliders left out.
"""

import inspect
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "src" / "iclbook"
#: Most of each that the design allows.
REACH = {
    "Python lines of the library": 33_000,
    "the same with tables and settings that it reads": None,
    "Python files of the library": 230,
    "lines of ledgers": 6_600,
    "lines of tests": 17_500,
    "questions of our own": 80,
    "claims of the papers": None,
    "Python files from a prompt of he2025 to its badge": 30,
}


def listed(*patterns: str) -> list[Path]:
    """Files that git lists under these patterns."""
    done = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def lines(paths: list[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def files_to_a_badge() -> set[str]:
    """Files of the library whose functions run between a prompt of he2025 and the badge of its Figure 2.2."""
    import jupytext

    os.environ |= {"MPLBACKEND": "agg", "ICLBOOK_ROOT": str(ROOT), "OMP_NUM_THREADS": "1"}
    ran: set[str] = set()

    def called(frame: object, event: str, _: object) -> None:
        code = frame.f_code
        a_function = code.co_flags & inspect.CO_OPTIMIZED  # no module and no class body
        if event == "call" and a_function and code.co_filename.startswith(str(LIBRARY)):
            ran.add(code.co_filename)

    names: dict[str, object] = {}
    notebook = jupytext.read(ROOT / "notebooks" / "linear_regression.py")
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        text = cell.source.replace('profile = "paper"', 'profile = "smoke"')
        if text.startswith("show_model("):
            continue
        sys.setprofile(called)
        try:
            exec(compile(text, "cell", "exec"), names)
        finally:
            sys.setprofile(None)
        if '"fig2.2"' in text:
            break
    found = {str(Path(name).relative_to(LIBRARY)) for name in ran}
    return {name for name in found if name.split("/")[0] not in ("drawing", "sliders")}


def measured() -> dict[str, int]:
    """Every number of :data:`REACH`."""
    from iclbook.claims import all_ledgers

    library, ledgers = listed("src/*.py"), listed("src/*claims.yaml")
    tables = [path for path in listed("src/*.yaml", "src/*.mplstyle") if path not in ledgers]
    claims = [claim for ledger in all_ledgers(ROOT) for claim in ledger.claims]
    return {
        "Python lines of the library": lines(library),
        "the same with tables and settings that it reads": lines([*library, *tables]),
        "Python files of the library": len(library),
        "lines of ledgers": lines(ledgers),
        "lines of tests": lines(listed("tests/*.py")),
        "questions of our own": sum(claim.is_question for claim in claims),
        "claims of the papers": sum(not claim.is_question for claim in claims),
        "Python files from a prompt of he2025 to its badge": len(files_to_a_badge()),
    }


if __name__ == "__main__":
    for what, count in measured().items():
        reach = REACH[what]
        print(f"{what:<52} {count:>7,}" + ("" if reach is None else f"   at most {reach:,}"))
