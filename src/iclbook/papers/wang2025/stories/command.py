"""``iclbook stories``: what a folder of stories holds, table 3's models trained on it, how they end stories, and what a judge says of the endings."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import UserError
from ....files import write_whole
from ....tasks.byte_pairs import BytePairs
from ....tasks.stories import NOTHING
from ....tasks.story_files import SPLITS
from ....training.study import Study
from ..runs.language import CONTINUED, READABLE
from ..runs.real_stories import first_halves, real_studies
from . import grades as judge_of_table_3
from .grades import Grades, mean

#: In place of a model: the endings that the stories have.
TRUE = "true"
#: Stories in which tokens are counted, spread over all by their hashes.
COUNTED = 10_000
#: Tokens of an ending that are kept.
ENDING = 100


def described(folder: str, profile: str, coding: str | None, words: int) -> list[str]:
    """Lines on stories, splits and tokens; arguments as for :func:`iclbook.papers.wang2025.runs.real_stories.real_studies`."""
    task = real_studies(folder, profile, coding, words)["gd"].data
    n = len(task.shelf)
    lengths = task.lengths(COUNTED)
    about = "" if len(lengths) == n else f", counted in {len(lengths):,}"
    how = "byte pairs" if isinstance(task.encoding, BytePairs) else "words"
    return [
        f"stories  {n:,} different ones",
        "splits   " + ", ".join(f"{name} {len(task.shelf.split(name)):,}" for name in reversed(SPLITS)),
        f"tokens   {lengths.mean() * n:,.0f} ({how}, {task.vocabulary:,} different{about}); "
        f"{lengths.mean():.0f} a story, {(lengths > task.context + 1).mean():.0%} of stories are cut",
    ]


def endings(
    folder: tuple[str, str, str | None, int], name: str, out: Path, steps: int | None, device: str
) -> Path:
    """The file with a model's endings, trained now unless it is there; or with the true ones.

    Args:
        folder: arguments of :func:`described`.
        steps: of training, unless those of the profile.
    """
    studies = real_studies(*folder)
    if name == TRUE:
        return true_endings(studies["gd"], out)
    if (path := out / f"{name}.jsonl").exists():
        print(f"{path} is there already (delete it to train again)")
        return path
    return train(replace(studies[name], steps=steps or studies[name].steps), out, device)


def train(study: Study, out: Path, device: str = "auto") -> Path:
    """Train one model (resuming an interrupted training) and write ``MODEL.npz``, weights and losses, and last ``MODEL.jsonl``, its endings.

    Raises:
        UserError: what the trainer refuses, or a model too bad to write.
    """
    (group,) = study.groups
    path, checkpoint = out / f"{group.name}.jsonl", out / f"{group.name}.checkpoint"
    trainer = study.trainer(device)
    history = trainer.train(checkpoint, about=study.source())[group.name]
    nll = history.circuits["nll"][:, 0].sum((1, 2))
    nll /= int((group.observe.held_out()["tokens"][1:] >= 0).sum())
    arrays = {"steps": history.steps, "loss": history.loss[:, 0], "validation": nll}
    arrays |= {f"weights/{name}": p[0] for name, p in trainer.parameters()[group.name].items()}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, about=np.array(json.dumps(study.describe())), **arrays)
    write_whole(out / f"{group.name}.npz", buffer.getvalue())
    checkpoint.unlink(missing_ok=True)  # one of fewer steps is of no use to a longer training
    print(f"{group.name}: {nll[-1]:.3f} nats a token on stories for validation", flush=True)
    said = history.circuits["ending_beam"][-1, 0]
    if (said == NOTHING).all():
        raise UserError(f"that is worse than {READABLE:g}: nothing to read", "Train longer: --steps N.")
    _write(path, _endings(study, said, ENDING))
    return path


def true_endings(study: Study, out: Path) -> Path:
    """Write the endings that the stories have, as far as they are read."""
    task, n = study.data, study.groups[0].observe.endings
    path = out / f"{TRUE}.jsonl"
    _write(path, _endings(study, task.held_out(n, CONTINUED).numpy(), task.context))
    return path


def _endings(study: Study, stories: np.ndarray, longest: int) -> list[dict[str, str]]:
    """Beginnings and at most so many tokens of the endings of whole stories ``(S + 1, n)``."""
    task, found = study.data, []
    for start, whole in zip(
        first_halves(task, study.groups[0].observe.endings).numpy().T, stories.T, strict=True
    ):
        cut = int((start >= 0).sum())
        found.append({"beginning": task.text(start), "ending": task.text(whole[cut : cut + longest])})
    return found


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def _read(path: Path, wanted: set[str]) -> list[dict[str, Any]]:
    """Rows of a file that this command wrote."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if not all(isinstance(row, dict) and wanted <= set(row) for row in rows):
            raise ValueError("other rows")
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged", "Delete it, and repeat the command.") from error
    return rows


def grade(path: Path, ask: Callable[[str, str], str], judge: str) -> Grades:
    """Ask for grades of every ending in a file and keep each reply beside it, so that none is asked for twice.

    Args:
        ask: ``ask(beginning, ending) -> reply``.
        judge: name of the model that is asked.

    Raises:
        UserError: a damaged file, what :func:`iclbook.papers.wang2025.stories.grades.ask` refuses, or a reply without grades.
    """
    stories = _read(path, {"beginning", "ending"})
    kept = path.with_name(f"{path.stem}.{re.sub(r'[^A-Za-z0-9._-]', '-', judge)}.grades.jsonl")
    rows = _read(kept, {"beginning", "ending", "reply"}) if kept.exists() else []
    known = {(row["beginning"], row["ending"]): row for row in rows}
    found = []
    for story in stories:
        row = known.get((story["beginning"], story["ending"]))
        if row is None:
            reply = ask(story["beginning"], story["ending"])
            judge_of_table_3.parsed(reply)  # what holds no grades is not kept
            row = story | {"reply": reply}
            rows.append(row)
            _write(kept, rows)
        found.append(judge_of_table_3.parsed(row["reply"]))
    return mean(found)


def judged(path: Path, url: str, model: str, key: str | None) -> list[str]:
    """A file of endings as a row of table 3, graded by a service."""
    found = grade(path, partial(judge_of_table_3.ask, url, model, key=key), model)
    return table({path.stem: found})


def table(rows: dict[str, Grades]) -> list[str]:
    """Rows of table 3."""
    names = [*Grades._fields, "overall"]
    lines = [" ".join(["model   ", *(f"{name:>11}" for name in names)])]
    for model, grades in rows.items():
        lines.append(" ".join([f"{model:<8}", *(f"{g:>11.2f}" for g in (*grades, grades.overall))]))
    return lines
