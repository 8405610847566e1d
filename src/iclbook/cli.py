"""The console command ``iclbook``: each command with its options, its help and what it does."""

import argparse
import errno
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from .errors import UserError, one_line, say
from .files import check_kernels
from .formulas import plain
from .numbers import number
from .options import (
    DEVICE,
    DRAW,
    INTERRUPTED,
    JOBS,
    MISTAKE,
    MOVED,
    PARSER,
    at_profile,
    command,
    flag,
    option,
    positive,
    prepare,
)
from .project import PROFILES, find_root


@command(
    "run one chapter, or all, headless",
    "The executed notebook goes to executed/PROFILE/CHAPTER.ipynb once every cell has run;\n"
    "when a cell fails, the cells so far stand in CHAPTER.failed.ipynb beside it.\n\n"
    "example: iclbook run linear_regression --profile smoke",
    option("chapter", "CHAPTER", "a chapter's name or its paper's key, such as linear_regression or he2025; or: all"),
    at_profile("paper"),
    DEVICE,
    option("--probes", "FOLDER", "results of `iclbook probe`, which gradient_descent then judges", type=Path),
    DRAW,
)
def run(options: argparse.Namespace) -> int:
    if options.probes is not None:
        from .papers.nagy2026.pretrained import SWITCH, read

        read(options.probes)  # a mistake is refused before minutes of running
        os.environ[SWITCH] = str(options.probes.resolve())
    from .inputs import chosen

    root = find_root()
    names = chosen([] if options.chapter == "all" else [options.chapter], root)
    from .execution import run_notebook

    for name in names:
        path = run_notebook(name, options.profile, options.device)
        say(f"{name}: done, {path.relative_to(root) if path.is_relative_to(root) else path}")
    return 0


@command(
    "run chapters and compare every recorded value, verdict and figure with its stored reference",
    "References stand in references/PROFILE/CHAPTER.json. A value may move by what rounding can do or no reader can tell. Missing and new values and\n"
    "changed verdicts count as moved. The exit code is 1 when something moved or a chapter failed.\n\n"
    "examples:\n"
    "  iclbook check --profile smoke --json report.json\n"
    "  iclbook check linear_regression --update     accept what moved as the new reference, then look at git diff",
    option("chapters", "CHAPTER", "chapters to check, or their papers' keys (default: all)", nargs="*"),
    option("--json", "FILE", "also write what was found as JSON", type=Path),
    flag(
        "--update",
        "write the references anew instead of failing, after two more runs that measure what rounding does, and leave fresh copies",
    ),
    option("--machines", "NAMES", "with --update: the emulated machines of these runs (default: sse-1,native-2)"),
    option(
        "--machine", "NAME", "emulate a processor and its threads, such as sse-2 (default: pinned)", default="pinned"
    ),
    at_profile("smoke"),
    DEVICE,
    JOBS,
    DRAW,
)
def check(options: argparse.Namespace) -> int:
    from . import check as regression
    from .files import require_file_name
    from .machines import environment

    machines = tuple(options.machines.split(",")) if options.machines else regression.MACHINES
    for machine in (options.machine, *machines):  # an unknown one is refused before minutes of running
        environment(machine)
    if options.json is not None:
        require_file_name(options.json)
    results = regression.check(
        options.chapters,
        options.profile,
        options.device,
        options.update,
        jobs=options.jobs,
        machine=options.machine,
        machines=machines,
    )
    say(regression.table(results))
    if options.json:
        regression.write_json(options.json, results)
    return 0 if all(result.ok for result in results) else MOVED


@command(
    "build the book into _build/html, running what is missing or stale first",
    "Warnings are errors. The end prints where the book is and a line of verdict counts.\n\n"
    "example: iclbook build --profile smoke",
    at_profile("paper"),
    DEVICE,
    JOBS,
)
def build(options: argparse.Namespace) -> int:
    from .book.build import build

    build(options.profile, device=options.device, jobs=options.jobs)
    return 0


@command(
    "print the built pages as one PDF, _build/book.pdf",
    "Needs chromium and chromedriver, as the tests of the pages do. Folded sections and verdicts are printed open.\n\n"
    "example: iclbook pdf",
)
def pdf(options: argparse.Namespace) -> int:
    from .book.pdf import write

    write()
    return 0


@command(
    "train a paper's studies and store the results that its chapter shows",
    "Results go to results/KEY/PROFILE. A study that has results is left alone unless --fresh is given; an interrupted one\n"
    "resumes from its checkpoint.\n\n"
    "examples:\n"
    "  iclbook train he2025 --device cuda\n"
    "  iclbook train he2025 --scheduler tcp://10.0.0.5:8786      on a Dask cluster\n"
    "  iclbook train he2025 --verify      derive stored runs again, as far as is cheap, and compare",
    option("key", "KEY", "a paper's key, such as he2025, or its chapter"),
    option("--only", "STUDY", "train this study only; may be given several times", action="append"),
    flag("--fresh", "train again what already has results"),
    flag("--verify", "train nothing; replay stored runs and compare"),
    option(
        "--workers",
        "N",
        "processes of one thread that share a study's runs (default: one a core, and one on a GPU)",
        type=positive,
    ),
    option("--scheduler", "ADDRESS", "train on the Dask cluster with this scheduler (tcp://HOST:PORT)"),
    at_profile("paper"),
    DEVICE,
    DRAW,
)
def train(options: argparse.Namespace) -> int:
    if options.verify and options.scheduler is not None:
        raise UserError("--verify derives results again on this machine", "Leave out --scheduler.")
    if options.draw and options.scheduler is not None:
        raise UserError("a cluster's workers know nothing of another draw", "Leave out --scheduler.")
    from .claims import ledger_of
    from .workers import open_executor

    key = ledger_of(options.key, find_root()).paper
    name = f"iclbook.papers.{key}"
    train = getattr(import_module(name) if find_spec(name) else None, "train", None)
    if train is None:
        hint = "Its chapter computes all it shows when it runs: `iclbook run`."
        raise UserError(f"{key} has no studies to train", hint)
    workers = 1 if options.verify else options.workers
    with open_executor(options.scheduler, workers, options.device) as executor:
        where = {"executor": executor, "parts": executor.parts} if executor else {}
        train(options.only, options.profile, options.device, options.fresh, options.verify, **where)
    return 0


@command(
    "print the verdict of every claim, from the executed chapters",
    "A chapter that was not run at this profile leaves its claims untested; one that has changed since is refused.\n\n"
    "examples:\n"
    "  iclbook claims                     counts for every paper\n"
    "  iclbook claims he2025              every claim of one paper\n"
    "  iclbook claims he2025/fig2.8       one claim with its parts",
    option("key", "KEY", "a paper's key, its chapter or a claim's id (default: counts for every paper)", nargs="?"),
    flag("--json", "print JSON"),
    at_profile("paper"),
    DRAW,
)
def claims(options: argparse.Namespace) -> int:
    from .claims import all_ledgers, ledger_of, render, scoreboard
    from .claims.references import reference_path
    from .inputs import PROSE_ONLY, executed_path, is_stale, stale_line

    root = find_root()
    paper, _, item = (options.key or "").partition("/")
    ledgers = all_ledgers(root) if options.key is None else [ledger_of(paper, root)]
    claim_id = f"{ledgers[0].paper}/{item}" if item else ""
    if item:
        ledgers[0].claim(claim_id)  # an unknown id is refused with the nearest one
    # a chapter that was not run leaves its claims untested, and no verdict rests on a word of the text
    ran = [x.chapter_name for x in ledgers if executed_path(x.chapter_name, options.profile, root).exists()]
    stale = {name: why for name in ran if (why := is_stale(name, options.profile, root)) not in ("", PROSE_ONLY)}
    for name, why in stale.items():
        _report(one_line(stale_line(name, options.profile, why)))
    if stale:
        return MISTAKE
    names = {ledger.paper for ledger in ledgers}
    boards = [board for board in scoreboard.boards(options.profile, root) if board.ledger.paper in names]
    rows = [row for board in boards for row in board.rows if not item or row[0].id == claim_id]
    if options.json:
        found = {claim.id: {"verdict": found.word, "note": plain(found.note)} for claim, found in rows}
        print(json.dumps(found, indent=1))
    elif options.key is None:
        for board in boards:
            unread = "" if board.records else f" (not run at profile {options.profile})"
            say(f"{board.ledger.paper:<12} {render.counts_line(board.rows)}{unread}")
        say(f"{'all':<12} {render.counts_line(rows)}")
    elif item:
        claim, found = rows[0]
        say(render.verdict_text(claim, found))
        say(plain(f"    says: {claim.says}" + (f"\n    paper: {claim.paper}" if claim.paper else "")))
    else:
        say(f"{render.lines_text(rows)}\n{render.counts_line(rows)}")
    for name in [] if options.json else ran:
        if not reference_path(name, options.profile, root, draw=0).is_file():
            update = f"`iclbook check {name} --profile {options.profile} --update` measures them"
            say(f"{name}: without a reference verdicts have no margins. {update}; what is close is then undecided.")
    return 0


@command(
    "say where a figure, theorem, equation, claim or study is: file, function, study, claim, chapter",
    "The item is a paper's key or chapter and what the paper calls it, a claim's id, a study's name, or words to look for in docstrings.\n\n"
    "examples:\n"
    "  iclbook where agarwal2025 Figure 6\n"
    "  iclbook where he2025/fig2.4",
    option("item", "ITEM", "such as: agarwal2025 Figure 6", nargs="+"),
)
def where(options: argparse.Namespace) -> int:
    from .where import where

    say("\n".join(where(" ".join(options.item), find_root())))
    return 0


@command(
    "probe a language model in a local folder",
    "Probes are those of nagy2026: alignment, induction, truncation, sinks, recall, patterns. The folder is in the format of the Hugging Face hub\n"
    "(GPT-2, GPT-Neo, GPT-NeoX, Llama, OLMo 2 or Qwen2); nothing is fetched. FILE gets every prompt's numbers at every layer, and where they come from.\n"
    "--plan lists the calls that each row of the chapter still needs, given the files in the folder --out.\n\n"
    "examples:\n"
    "  hf download EleutherAI/pythia-160m --revision step4000 --local-dir pythia-160m/step4000     (where there is a network)\n"
    "  iclbook probe --model pythia-160m --revision step4000 --probe alignment --out alignment.npz\n"
    "  iclbook probe --plan --out probes",
    option("--model", "DIR", "folder with config.json and weights", type=Path),
    option("--probe", "NAME", "one of the probes below"),
    option("--name", "NAME", "the model's name in the paper, such as pythia-160m (default: from the folder)"),
    flag("--plan", "print the calls that are still needed"),
    option("--revision", "NAME", "a checkpoint: a folder within DIR, or a ref of a hub cache"),
    option(
        "--tokenizer", "PATH", "tokenizer.json or its folder (default: the model's); or: corpus, for the mixed corpus"
    ),
    option(
        "--digits", None, 'write " 3 -> 4" or "3->4" (default: spaced)', choices=("spaced", "plain"), default="spaced"
    ),
    option("--out", "FILE", "where the result goes (.npz); with --plan: the folder of results", type=Path),
)
def probe(options: argparse.Namespace) -> int:
    if options.plan:
        from .papers.nagy2026.pretrained import plan

        print("\n".join(plan(options.out)))
        return 0
    if absent := [f"--{name}" for name in ("model", "probe", "out") if getattr(options, name) is None]:
        raise UserError(f"{' and '.join(absent)} missing", "`iclbook probe --plan` lists the calls of every row.")
    from .papers.nagy2026.probe_command import probe_folder

    how = (options.revision, options.tokenizer, options.digits)
    values = probe_folder(options.model, options.probe, options.out, *how, name=options.name)
    width = max(map(len, values))
    for name, value in values.items():
        say(f"{name:<{width}}  {number(value, 4)}")
    say(f"wrote {options.out}")
    return 0


@command(
    "say what a chapter still lacks: exercises, alternative texts, values that nothing reads, errors, references, lists of chapters",
    "Nothing is run. Each line ends in what to do; the exit code is 1 when there is one.\n\nexample: iclbook doctor he2025",
    option("key", "KEY", "a paper's key or its chapter (default: all)", nargs="?"),
)
def doctor(options: argparse.Namespace) -> int:
    from .check.doctor import problems
    from .claims import all_ledgers, ledger_of

    root = find_root()
    ledgers = all_ledgers(root) if options.key is None else [ledger_of(options.key, root)]
    found = {ledger.paper: problems(ledger, root) for ledger in ledgers}
    for paper, lines in found.items():
        say("\n".join(f"{paper}: {problem}. {hint}" for problem, hint in lines) or f"{paper}: nothing is missing")
    return MOVED if any(found.values()) else 0


@command(
    "begin a paper: a package, study, ledger, chapter, references and tests that work at once",
    "Writes src/iclbook/papers/KEY, notebooks/CHAPTER.py and tests/KEY, enters the chapter in the lists of chapters, trains its small study, runs it at\n"
    "both profiles and keeps what it recorded as its references (three CPU minutes).\n\n"
    'example: iclbook new vaswani2017 --title "Attention Is All You Need" --authors "Vaswani, Ashish and others" --year 2017',
    option("key", "KEY", "the paper's short name, such as vaswani2017"),
    option("--title", None, "title of the chapter", default=""),
    option(
        "--authors",
        None,
        "as BibTeX writes them: Last, First and Last, First; lists of chapters show last names",
        default="",
    ),
    option("--year", None, "of the paper", default=""),
    option("--url", None, "address of the paper", default=""),
    option("--chapter", "NAME", "name of the notebook (default: from the title)", default=""),
    flag("--remove", "undo it: delete a paper that is not committed, and its lines in the lists"),
)
def new(options: argparse.Namespace) -> int:
    from . import check as regression
    from .book.new import new_paper, remove_paper
    from .check.doctor import problems
    from .claims import load_ledger
    from .machines import environment

    root = find_root()
    if options.remove:
        say("deleted " + ", ".join(str(path.relative_to(root)) for path in remove_paper(options.key, root)))
        return 0
    about = (options.authors, options.year, options.url)
    paths = new_paper(options.key, options.title, options.chapter, root, *about)
    say("wrote " + ", ".join(str(path.relative_to(root)) for path in paths))
    # libraries choose their code paths when they are loaded: hence a new process
    train = [sys.executable, "-m", "iclbook.cli", "train", options.key, "--workers", "1"]
    if subprocess.run(train, env=environment("training"), check=False).returncode:
        raise UserError(f"the study of {options.key} was not trained", f"Run `iclbook train {options.key}`.")
    chapter = next(path.stem for path in paths if path.parent.name == "notebooks" and path.suffix == ".py")
    for profile in PROFILES:
        say(regression.table(regression.check([chapter], profile, "cpu", update=True)))
    for problem, hint in problems(load_ledger(options.key, root), root):
        say(f"left to do: {problem}. {hint}")
    say(f"Go on with src/iclbook/papers/{options.key}/claims.yaml; CONTRIBUTING.md shows the steps.")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Whatever goes wrong is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that knows only ASCII gets escapes, not a failure
            stream.reconfigure(errors="backslashreplace")
    try:
        options = PARSER.parse_args(arguments)
        prepare(options.command)
        if getattr(options, "device", "auto") == "cuda":
            from .training.ensemble import pick_device

            pick_device("cuda")  # refused before anything is started where there is none
        check_kernels()  # of earlier processes
        code = options.function(options)
        check_kernels()
        print(end="", flush=True)  # a full disk shows here, where it can still be said
        return code
    except UserError as mistake:
        return _report(one_line(mistake))
    except KeyboardInterrupt:
        print("interrupted. Whatever was finished is kept; the same command goes on from there.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `iclbook claims | head`
        _drop_output()
        return 0
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package in ("", "iclbook"):
            return _report_unforeseen(missing)
        what = f"`iclbook {options.command}` needs {package}, which is not installed"
        return _report(f"{what}. Install the extra `book`, as in: pip install -e '.[book]'")
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno == errno.ENAMETOOLONG:
            return _report(f"{one_line(problem.filename)[:60]}... is too long for a name. Give a shorter one.")
        return _report_unforeseen(problem)


def _report(line: str) -> int:
    print(f"error: {line}", file=sys.stderr)
    return MISTAKE


def _report_unforeseen(problem: Exception) -> int:
    """The last handler: one line for an error that no part of the program foresaw."""
    if os.environ.get("ICLBOOK_TRACEBACK") == "1":
        traceback.print_exception(problem)
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):  # or Python complains of it again at exit
        _drop_output()
    text = f"{type(problem).__name__}: {one_line(problem)}".removesuffix(": ")
    hint = "This was not foreseen; set ICLBOOK_TRACEBACK=1 and repeat the command to see where."
    return _report(f"{text[:300]}. {hint}")


def _drop_output() -> None:
    """Let what is still to be printed go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # no real file behind it
        sys.stdout = None


def entry() -> int:
    """The console command. Trainings have code paths of their own, which libraries choose when they are loaded: hence a new process."""
    from .draw import SWITCH
    from .machines import SWITCHES, environment

    if sys.argv[1:2] == ["train"]:
        words = [word for argument in sys.argv for word in argument.split("=", 1)]  # --draw 2 or --draw=2
        asked = dict(pairwise(words)).get("--draw", os.environ.get(SWITCH, "0"))
        wanted = environment("training", os.environ | {SWITCH: asked})
        if any(os.environ.get(name) != wanted.get(name) for name in SWITCHES):
            os.execve(sys.executable, [sys.executable, "-m", "iclbook.cli", *sys.argv[1:]], wanted)
    return main()


if __name__ == "__main__":
    sys.exit(entry())
