"""Run one chapter headless: jupytext source -> papermill -> executed copy, or a clear failure and no copy at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import jupytext
import nbformat
import papermill
import yaml
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from ..errors import UserError
from ..machines import this_machine, versions
from ..profiles import check_profile
from ..project import find_root
from . import orphans
from .engine import ENGINE
from .inputs import METADATA_KEY, chapters, executed_path, input_digests, is_stale, source_path
from .kernels import headless_kernel, kernel_environment, sockets_folder
from .nursery import Nursery

__all__ = ["NotebookError", "chapters", "executed_path", "is_stale", "run_notebook"]

#: Seconds that one cell may take unless the caller or ICLBOOK_CELL_TIMEOUT says otherwise.
CELL_TIMEOUT = 1800


class NotebookError(UserError):
    """A chapter did not run to its end.

    Attributes:
        notebook: chapter name.
        cell: first line of the cell that stopped, or the empty string.
        cause: what stopped it, in one line.
    """

    def __init__(self, notebook: str, cell: str, cause: str, mend: str) -> None:
        self.notebook, self.cell, self.cause = notebook, cell, cause
        where = f" at the cell starting {cell!r}" if cell else ""
        super().__init__(f"notebooks/{notebook}.py stopped{where}: {cause}", mend)


def run_notebook(
    name: str,
    profile: str = "paper",
    device: str = "auto",
    timeout_s: float | None = None,
    root: Path | None = None,
    environment: Mapping[str, str] | None = None,
    nursery: Nursery | None = None,
) -> Path:
    """Run ``notebooks/NAME.py`` and write ``executed/PROFILE/NAME.ipynb``.

    The copy appears only when every cell has run; on a failure the cells so far stand in ``NAME.failed.ipynb`` and an
    older good copy is left as it was. An interrupt leaves neither.

    Args:
        name: chapter name, without folder and suffix.
        profile: ``smoke`` or ``paper``.
        device: ``auto``, ``cpu`` or ``cuda``; handed to the notebook.
        timeout_s: seconds that one cell may take; default ICLBOOK_CELL_TIMEOUT or 1800.
        root: the book's folder; default: found from the working directory.
        environment: the kernel's environment variables, such as :func:`iclbook.machines.environment` gives; default: this process's, and one thread.
        nursery: what to fork the kernel from, made under the same :func:`kernel_environment`; default: it is started as a program.

    Returns:
        Path of the executed copy.

    Raises:
        NotebookError: a cell failed or timed out, or the kernel died.
        UserError: unknown chapter or profile, no `parameters` cell, folder not writable.
    """
    root = (root or find_root()).resolve()
    check_profile(profile)
    inputs = input_digests(name, profile, root)  # before the run: what changes meanwhile makes the copy stale
    notebook = _to_run(name, root)
    limit = _timeout(timeout_s)
    target = executed_path(name, profile, root)
    partial = _prepare(name, target, root)
    current = {"cell": ""}
    with _replacing(target, partial, root, limit, current), sockets_folder() as sockets:
        kernel = headless_kernel(kernel_environment(root, environment), sockets, nursery)
        executed = _execute(
            notebook, partial, root, {"profile": profile, "device": device}, kernel, limit, current
        )
        _raise_for_silent_errors(executed, name)
        _finish(executed, inputs, profile, device)
        nbformat.write(executed, partial)
    return target


@contextmanager
def _replacing(
    target: Path, partial: Path, root: Path, limit: int, current: dict[str, str]
) -> Iterator[None]:
    """Puts the partial copy in the place of the good one when the block ends, and in that of the failed one when the run stops in it.

    Raises:
        NotebookError: a cell failed or timed out, or the kernel died.
        UserError: the copy cannot be written.
    """
    failed = target.with_name(f"{target.stem}.failed.ipynb")
    try:
        yield
        os.replace(partial, target)
        failed.unlink(missing_ok=True)
    except (
        papermill.PapermillExecutionError,
        CellTimeoutError,
        DeadKernelError,
        RuntimeError,
        NotebookError,
    ) as error:
        shown = failed.relative_to(root)
        with suppress(OSError):
            os.replace(partial, failed)
        raise _explain(
            error, target.stem, current["cell"], f"The cells that ran are in {shown}.", limit
        ) from error
    except OSError as error:
        raise UserError(
            f"cannot write {target.name} ({error.strerror})", "Free space or change its rights."
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def read_source(name: str, root: Path) -> nbformat.NotebookNode:
    """The chapter as a notebook.

    Raises:
        UserError: no such chapter, not a notebook.
    """
    try:
        notebook = jupytext.read(source_path(name, root))
    except (OSError, ValueError, RecursionError, nbformat.ValidationError, yaml.YAMLError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"notebooks/{name}.py is no notebook ({why})", "Copy the head of another chapter."
        ) from error
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def _to_run(name: str, root: Path) -> nbformat.NotebookNode:
    """The chapter with a last cell that tells whether everything before it ran.

    Raises:
        UserError: no such chapter, not a notebook, no `parameters` cell.
    """
    notebook = read_source(name, root)
    if not any("parameters" in cell.metadata.get("tags", []) for cell in notebook.cells):
        raise UserError(
            f"notebooks/{name}.py has no cell tagged `parameters`", "Add one that sets profile and device."
        )
    notebook.cells.append(nbformat.v4.new_code_cell(_LAST_CELL))
    return notebook


#: exit() and quit() only ask the kernel to stop once it is idle, and the cells after them may run or not.
_LAST_CELL = """\
if get_ipython().exit_now:
    raise SystemExit("exit() or quit() was called")"""


def _prepare(name: str, target: Path, root: Path) -> Path:
    """Make the folders, remove what killed runs of this chapter left, and return the file to write to.

    Raises:
        UserError: a folder cannot be written.
    """
    partial = target.with_name(f".{name}.{os.getpid()}.ipynb")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        (root / ".cache" / "ipython").mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f".{name}.*.ipynb"):
            number = left.name.split(".")[-2]
            if number.isdecimal() and not orphans.lives(int(number)):
                left.unlink(missing_ok=True)
        partial.touch()
    except OSError as error:
        raise UserError(
            f"cannot write to {target.parent} ({error.strerror})", "Free space or change its rights."
        ) from error
    return partial


def _execute(
    notebook: nbformat.NotebookNode,
    partial: Path,
    root: Path,
    parameters: dict[str, str],
    kernel: type[AsyncKernelManager],
    limit: int,
    current: dict[str, str],
) -> nbformat.NotebookNode:
    """Run every cell in a kernel of its own; ``current`` names the cell that runs.

    Raises:
        NotebookError: the notebook ended before its last cell.
        Exception: whatever stops papermill.
    """
    name = partial.name.split(".")[1]
    title = f"{name} ({parameters['profile']})"
    executed = papermill.execute_notebook(
        notebook,
        str(partial),
        engine_name=ENGINE,
        parameters=parameters,
        kernel_name="python3",
        kernel_manager_class=kernel,
        on_cell_start=lambda cell, cell_index: current.update(cell=first_line(cell.source)),
        cwd=str(root / "notebooks"),
        execution_timeout=limit,
        progress_bar={"desc": title, "mininterval": 0.1 if sys.stderr.isatty() else 5},
    )
    last = executed.cells.pop()
    # papermill takes `raise SystemExit` for a success and leaves the other cells out
    if last.execution_count is None or last.outputs:
        cell = "" if last.outputs else current["cell"]
        cause = "it ended early: SystemExit, exit() or quit() leaves the rest undone"
        raise NotebookError(name, cell, cause, "")
    return executed


def first_line(source: str) -> str:
    """The first line of a cell that says something."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    code = [line for line in lines if not line.startswith("#")]
    return (code or lines or [""])[0]


def _timeout(timeout_s: float | None) -> int:
    """Whole seconds, at least one."""
    if timeout_s is None:
        text = os.environ.get("ICLBOOK_CELL_TIMEOUT", str(CELL_TIMEOUT))
        try:
            timeout_s = float(text)
        except ValueError as error:
            raise UserError(
                f"ICLBOOK_CELL_TIMEOUT={text} is not a number of seconds", "Set it to one, or unset it."
            ) from error
    return max(1, round(timeout_s))


def _raise_for_silent_errors(notebook: nbformat.NotebookNode, name: str) -> None:
    """An exception inside a widget's callback is shown in an Output widget and stops nothing; find it there."""
    widgets = (
        notebook.metadata.get("widgets", {})
        .get("application/vnd.jupyter.widget-state+json", {})
        .get("state", {})
    )
    for widget in widgets.values():
        for output in widget.get("state", {}).get("outputs", []):
            if output.get("output_type") == "error":
                cause = f"{output.get('ename')}: {output.get('evalue')} (inside a widget)"
                raise NotebookError(name, "", cause, "")


def _finish(notebook: nbformat.NotebookNode, inputs: dict[str, str], profile: str, device: str) -> None:
    """Mark what the copy was made from and hide the cell that papermill put in."""
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if "injected-parameters" in tags:
            cell.metadata["tags"] = [*tags, "remove-cell"]
    made_on = {"versions": versions(), "machine": this_machine()}
    notebook.metadata[METADATA_KEY] = {"inputs": inputs, "profile": profile, "device": device} | made_on
    # Paths of this machine are of no use to a reader.
    for key in ("input_path", "output_path"):
        notebook.metadata.get("papermill", {}).pop(key, None)


def _explain(error: Exception, name: str, cell: str, mend: str, timeout: int) -> NotebookError:
    """One line for each way in which a notebook can stop."""
    if isinstance(error, NotebookError):
        return NotebookError(name, error.cell, error.cause, mend)
    if isinstance(error, papermill.PapermillExecutionError):
        value = error.evalue.splitlines()[0] if error.evalue else ""
        return NotebookError(name, first_line(error.source), f"{error.ename}: {value}".rstrip(": "), mend)
    if isinstance(error, CellTimeoutError):
        return NotebookError(
            name, cell, f"timed out after {timeout} s", f"{mend} ICLBOOK_CELL_TIMEOUT sets the limit."
        )
    if isinstance(error, DeadKernelError):
        return NotebookError(name, cell, "the kernel died (killed, or out of memory)", mend)
    why = (str(error).splitlines() or [type(error).__name__])[0]
    return NotebookError(name, cell, f"the kernel did not start or answer ({why})", mend)
