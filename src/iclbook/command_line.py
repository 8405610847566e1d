"""The grammar of the command ``iclbook``: its commands, their options and their help."""

from __future__ import annotations

import argparse
from pathlib import Path

from .errors import one_line
from .profiles import PROFILES

#: Exit code of a mistake or a missing thing that the user can mend.
MISTAKE = 2

_ABOUT = """\
Executable reproductions of papers on how attention learns in context.

Each chapter is a notebook (notebooks/NAME.py) that measures what its paper says. The paper's claims and the rules that decide
them stand in src/iclbook/papers/KEY/claims.yaml; verdicts are computed from what the chapter recorded.
"""
_EXAMPLES = """\
examples:
  iclbook build                                   run what is missing or stale and build the book
  iclbook run linear_regression --profile smoke   run one chapter in a small size, in minutes
  iclbook check --profile smoke                   has any recorded value moved from its reference?
  iclbook train he2025 --only NAME                train one of the paper's studies and store the result
  iclbook claims he2025                           the verdicts of one paper

Each command has its own help: iclbook COMMAND --help
exit codes: 0 all well, 1 something moved, 2 a mistake (one line says which, and the mend), 130 interrupted
An error that nobody foresaw is one line too; with ICLBOOK_TRACEBACK=1 in the environment Python's traceback comes before it.
"""
_PROFILE = "smoke: small, trains within minutes; paper: the paper's own sizes, from stored results (default: %(default)s)"
_JOBS = "chapters to run at once (default: one for each core)"
_DEVICE = "where to compute; auto takes a GPU when there is one (default: %(default)s)"


def parser() -> argparse.ArgumentParser:
    """The command line's grammar; ``command`` of what it parses is the command's name."""
    top = _Parser(
        prog="iclbook",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for describe in (_run, _check, _build, _train, _claims, _probe, _stories, _new):
        describe(commands)
    return top


class _Parser(argparse.ArgumentParser):
    """Reports a mistake on the command line in the same one-line form as every other mistake."""

    def error(self, message: str) -> None:
        self.exit(MISTAKE, f"error: {one_line(message)}. `{self.prog} --help` shows what can be given.\n")


def _command(commands, name: str, about: str, more: str, profile: str | None) -> argparse.ArgumentParser:
    sub = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if profile is not None:
        sub.add_argument("--profile", metavar="{" + ",".join(PROFILES) + "}", default=profile, help=_PROFILE)
    return sub


def _run(commands) -> None:
    sub = _command(
        commands, "run", "run one chapter, or all, headless",
        "The executed notebook goes to executed/PROFILE/CHAPTER.ipynb once every cell has run;\n"
        "when a cell fails, the cells so far stand in CHAPTER.failed.ipynb beside it.\n\n"
        "example: iclbook run linear_regression --profile smoke",
        "paper",
    )  # fmt: skip
    _add_device(sub)
    sub.add_argument(
        "chapter", metavar="CHAPTER", help="a chapter's name, such as linear_regression, or: all"
    )


def _check(commands) -> None:
    sub = _command(
        commands, "check", "run chapters and compare every recorded value with its stored reference",
        "References stand in references/PROFILE/CHAPTER.json with the spread that rounding alone gives each value. Missing and new values and changed\n"
        "verdicts count as moved. The exit code is 1 when something moved or a chapter failed.\n\n"
        "examples:\n"
        "  iclbook check --profile smoke --junit report.xml\n"
        "  iclbook check linear_regression --update     accept what moved as the new reference, then look at git diff",
        "smoke",
    )  # fmt: skip
    _add_device(sub)
    sub.add_argument("chapters", metavar="CHAPTER", nargs="*", help="chapters to check (default: all)")
    sub.add_argument("--json", metavar="FILE", type=Path, help="also write what was found as JSON")
    sub.add_argument(
        "--junit", metavar="FILE", type=Path, help="also write a JUnit report, which CI services display"
    )
    sub.add_argument("--update", action="store_true", help="write the references anew instead of failing")
    sub.add_argument(
        "--spread", action="store_true", help="as --update, and measure how far rounding carries each value"
    )
    sub.add_argument(
        "--machine",
        metavar="NAME",
        default="pinned",
        help="emulate a processor and its threads, such as sse-2 (default: pinned code paths)",
    )
    _add_jobs(sub)


def _new(commands) -> None:
    sub = _command(
        commands, "new", "begin a paper: a room, ledger, chapter, references and tests that work at once",
        "Writes src/iclbook/papers/KEY, notebooks/CHAPTER.py and tests/KEY, enters the chapter in _toc.yml, book/intro.md and\n"
        "book/references.bib, runs it at both profiles and keeps what it recorded as its references.\n\n"
        'example: iclbook new vaswani2017 --title "Attention Is All You Need"',
        None,
    )  # fmt: skip
    sub.add_argument("key", metavar="KEY", help="the paper's short name, such as vaswani2017")
    sub.add_argument("--title", required=True, help="title of the chapter")
    sub.add_argument(
        "--chapter", metavar="NAME", default="", help="name of the notebook (default: from the title)"
    )


def _build(commands) -> None:
    sub = _command(
        commands, "build", "build the book into _build/html, running what is missing or stale first",
        "Warnings are errors. The end prints where the book is and a line of verdict counts.\n\n"
        "example: iclbook build --profile smoke",
        "paper",
    )  # fmt: skip
    _add_device(sub)
    _add_jobs(sub)


def _train(commands) -> None:
    sub = _command(
        commands, "train", "train a paper's studies and store the results that its chapter shows",
        "Results go to results/KEY/PROFILE. A study that has results is left alone unless --fresh is given; an interrupted one\n"
        "resumes from its checkpoint.\n\n"
        "examples:\n"
        "  iclbook train he2025 --device cuda\n"
        "  iclbook train he2025 --scheduler tcp://10.0.0.5:8786      on a Dask cluster\n"
        "  iclbook train he2025 --verify      derive stored runs again, as far as is cheap, and compare",
        "paper",
    )  # fmt: skip
    _add_device(sub)
    sub.add_argument("key", metavar="KEY", help="a paper's key, such as he2025 (`iclbook claims` lists them)")
    sub.add_argument(
        "--only", metavar="STUDY", action="append", help="train this study only; may be given several times"
    )
    sub.add_argument("--fresh", action="store_true", help="train again what already has results")
    sub.add_argument("--verify", action="store_true", help="train nothing; replay stored runs and compare")
    sub.add_argument(
        "--workers",
        metavar="N",
        type=_positive,
        help="processes, one thread each, that share a study's runs (default: one a core)",
    )
    sub.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="train on the Dask cluster with this scheduler (tcp://HOST:PORT)",
    )


def _claims(commands) -> None:
    sub = _command(
        commands, "claims", "print the verdict of every claim, from the executed chapters",
        "A chapter that was not run at this profile leaves its claims as not yet tested; one that has changed since is refused.\n\n"
        "examples:\n"
        "  iclbook claims                     counts for every paper\n"
        "  iclbook claims he2025              every claim of one paper\n"
        "  iclbook claims he2025/fig2.8       one claim with its parts",
        "paper",
    )  # fmt: skip
    sub.add_argument(
        "key",
        metavar="KEY",
        nargs="?",
        help="a paper's key or a claim's id (default: counts for every paper)",
    )
    sub.add_argument("--json", action="store_true", help="print JSON")


def _probe(commands) -> None:
    sub = _command(
        commands, "probe", "probe a language model in a local folder",
        "Probes are those of nagy2026: alignment, induction, truncation, sinks, recall, patterns. The folder is in the format of the Hugging Face hub (GPT-2,\n"
        "GPT-NeoX or OLMo 2); nothing is fetched. FILE gets every prompt's numbers at every layer, and where they come from.\n\n"
        "examples:\n"
        "  hf download EleutherAI/pythia-160m --revision step4000 --local-dir pythia-160m/step4000     (where there is a network)\n"
        "  iclbook probe --model pythia-160m --revision step4000 --probe alignment --out alignment.npz",
        None,
    )  # fmt: skip
    sub.add_argument(
        "--model", metavar="DIR", type=Path, required=True, help="folder with config.json and weights"
    )
    sub.add_argument("--probe", metavar="NAME", required=True, help="one of the probes above")
    sub.add_argument(
        "--revision", metavar="NAME", help="a checkpoint: a folder within DIR, or a ref of a hub cache"
    )
    sub.add_argument(
        "--tokenizer",
        metavar="PATH",
        help="tokenizer.json or its folder (default: the model's); or: corpus, for models of the mixed corpus",
    )
    sub.add_argument(
        "--digits",
        choices=("spaced", "plain"),
        default="spaced",
        help='write " 3 -> 4" or "3->4" (default: %(default)s)',
    )
    sub.add_argument(
        "--lines", metavar="K", type=_positive, default=4, help="lines of a regression prompt (default: 4)"
    )
    sub.add_argument("--out", metavar="FILE", type=Path, required=True, help="where the result goes (.npz)")


def _stories(commands) -> None:
    sub = _command(
        commands, "stories", "train the language models of wang2025 on a folder of stories, and have their endings graded",
        "The folder holds TinyStoriesV2-GPT4-*.txt, or json, jsonl or parquet files with a `text` column; GPT-2's vocab.json and merges.txt may lie there\n"
        "as well. Without --train it says what the folder holds. Nothing is fetched; stories are sent to a judge only where --judge names one, with the key\n"
        "in ICLBOOK_JUDGE_KEY. What has been trained or graded already is not done again; an interrupted training goes on.\n\n"
        "examples:\n"
        "  iclbook stories tinystories\n"
        "  iclbook stories tinystories --train gd-ff --device cuda --out endings\n"
        "  iclbook stories tinystories --train gd-ff --out endings --judge http://localhost:8000/v1 --judge-model NAME",
        "paper",
    )  # fmt: skip
    _add_device(sub)
    sub.add_argument("folder", metavar="DIR", type=Path, help="folder of stories")
    sub.add_argument(
        "--tokenizer", metavar="DIR", type=Path, help="folder of vocab.json and merges.txt (default: DIR)"
    )
    sub.add_argument(
        "--words", metavar="V", type=_positive, default=10_000,
        help="without byte pairs, tokens are the most frequent words (default: %(default)s)",
    )  # fmt: skip
    sub.add_argument(
        "--train", metavar="NAME", choices=("gd", "gd-ff", "tf", "tf-split", "true"),
        help="gd, gd-ff, tf or tf-split; or: true, for the endings that the stories have",
    )  # fmt: skip
    sub.add_argument("--steps", metavar="N", type=_positive, help="of training (default: the profile's)")
    sub.add_argument("--out", metavar="DIR", type=Path, help="where weights, endings and grades go")
    sub.add_argument("--judge", metavar="URL", help="an OpenAI-compatible service that grades the endings")
    sub.add_argument(
        "--judge-model", metavar="NAME", default="gpt-4o", help="its model (default: %(default)s)"
    )


def _add_device(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help=_DEVICE)


def _add_jobs(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--jobs", metavar="N", type=_positive, help=_JOBS)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number of at least 1")
    return int(text)
