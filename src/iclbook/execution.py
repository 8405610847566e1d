"""Run chapters headless: jupytext source -> papermill -> executed copy, or a clear failure and no copy at all."""

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat
import papermill
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from .errors import UserError, one_line
from .files import write_whole
from .inputs import METADATA_KEY, executed_path, input_digests, read_source, write_copy
from .machines import MEMORY, this_machine, usable_cores, versions
from .project import STATE, find_root
from .workers import die_with

#: Open files that a kernel and what runs it need.
FILES = 64


class _Stopped(RuntimeError):
    """A notebook that ended or failed without papermill's notice: the cell, if known, and the cause."""


# -- one chapter ------------------------------------------------------------------------------------------------------------


def run_notebook(
    name: str,
    profile: str = "paper",
    device: str = "auto",
    root: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Path:
    """Run ``notebooks/NAME.py`` and write ``executed/PROFILE/NAME.ipynb``.

    The copy appears only when every cell has run; where a cell fails the cells so far stand in ``NAME.failed.ipynb`` and an
    older good copy is left as it was. An interrupt leaves neither. A chapter that is
    not there or a cell that fails is a UserError. A cell may take ICLBOOK_CELL_TIMEOUT seconds (default: 1800).

    Args:
        environment: the kernel's environment variables, such as :func:`iclbook.machines.environment` gives; default: this process's, and one thread.
    """
    root = (root or find_root()).resolve()
    inputs = input_digests(name, profile, root)  # before the run: what changes meanwhile makes the copy stale
    notebook, limit = read_source(name, root), _timeout()
    if not any("parameters" in cell.metadata.get("tags", []) for cell in notebook.cells):
        raise UserError(f"notebooks/{name}.py has no cell tagged `parameters`", "Add one that sets profile and device.")
    target = executed_path(name, profile, root)
    failed = target.with_name(f"{name}.failed.ipynb")
    current: dict[str, Any] = {"cell": ""}
    write_whole(failed, b"")  # a folder that cannot be written is refused before minutes of running
    failed.unlink()
    try:
        executed = _execute(name, notebook, root, {"profile": profile, "device": device}, limit, current, environment)
        for cell in executed.cells:
            if "injected-parameters" in cell.metadata.get("tags", []):  # papermill put it in
                cell.metadata["tags"].append("remove-cell")
        made_on = {"versions": versions(), "machine": this_machine()}
        _forget_source(executed)
        executed.metadata[METADATA_KEY] = {"inputs": inputs, "profile": profile, "device": device} | made_on
        write_copy(target, executed)
    except (papermill.PapermillExecutionError, CellTimeoutError, DeadKernelError, RuntimeError) as error:
        hint = "Run it again."
        if ran := current.get("notebook"):
            ran.cells = [cell for cell in ran.cells if cell.source != _LAST_CELL]
            _forget_source(ran)
            write_whole(failed, nbformat.writes(ran))
            hint = f"The cells that ran are in {failed.relative_to(root)}."
        cell, why = _explained(error, current["cell"], limit)
        where = f" at the cell starting {cell!r}" if cell else ""
        raise UserError(f"notebooks/{name}.py stopped{where}: {why}", hint) from error
    except OSError as error:
        what = f"cannot write to {target.parent} ({error.strerror})"
        raise UserError(what, "Free space or change its rights.") from error
    failed.unlink(missing_ok=True)
    return target


def _forget_source(notebook: nbformat.NotebookNode) -> None:
    """Take out what papermill keeps of its input: the whole notebook once more."""
    for key in ("input_path", "output_path"):
        notebook.metadata.get("papermill", {}).pop(key, None)


#: exit() and quit() only ask the kernel to stop once it is idle, and the cells after them may run or not.
_LAST_CELL = """\
if get_ipython().exit_now:
    raise SystemExit("exit() or quit() was called")"""


def _execute(
    name: str,
    notebook: nbformat.NotebookNode,
    root: Path,
    parameters: dict[str, str],
    limit: int,
    current: dict[str, Any],
    environment: Mapping[str, str] | None,
) -> nbformat.NotebookNode:
    """Run every cell in a kernel of its own; ``current`` names the cell that runs, and holds the notebook as far as it has run."""
    notebook.cells.append(nbformat.v4.new_code_cell(_LAST_CELL))
    # the system wants names of sockets of up to 108 characters
    short = "/tmp" if len(tempfile.gettempdir()) > 60 and os.access("/tmp", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="iclbook-", dir=short, ignore_cleanup_errors=True) as sockets:
        executed = papermill.execute_notebook(
            notebook,
            None,
            parameters=parameters,
            kernel_name="python3",
            kernel_manager_class=_headless_kernel(kernel_environment(root, environment), sockets),
            resources={"metadata": {"path": str(root / "notebooks")}},
            on_notebook_start=lambda notebook: current.update(notebook=notebook),
            on_cell_start=lambda cell, cell_index: current.update(cell=first_line(cell.source)),
            execution_timeout=limit,
            progress_bar={
                "desc": f"{name} ({parameters['profile']})",
                "mininterval": 0.1 if sys.stderr.isatty() else 5,
            },
        )
    last = executed.cells.pop()
    # papermill takes `raise SystemExit` for a success and leaves the other cells out
    if last.execution_count is None or last.outputs:
        cell = "" if last.outputs else current["cell"]
        raise _Stopped(cell, "it ended early: SystemExit, exit() or quit() leaves the rest undone")
    # an exception inside a widget's callback is shown in an Output widget and stops nothing
    for widget in executed.metadata.get("widgets", {}).get(STATE, {}).get("state", {}).values():
        for output in widget.get("state", {}).get("outputs", []):
            if output.get("output_type") == "error":
                raise _Stopped("", f"{output.get('ename')}: {output.get('evalue')} (inside a widget)")
    return executed


def first_line(source: str) -> str:
    """The first line of a cell that says something."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    code = [line for line in lines if not line.startswith("#")]
    return (code or lines or [""])[0]


def _timeout() -> int:
    """Seconds that a cell may take."""
    text = os.environ.get("ICLBOOK_CELL_TIMEOUT", "1800")
    if not text.isdecimal():
        raise UserError(f"ICLBOOK_CELL_TIMEOUT={text} is no whole number of seconds", "Set it to one, or unset it.")
    return max(1, int(text))


def _explained(error: Exception, cell: str, timeout: int) -> tuple[str, str]:
    """Where a notebook stopped, and why, in one line."""
    if isinstance(error, _Stopped):
        return error.args
    if isinstance(error, papermill.PapermillExecutionError):
        value = error.evalue.splitlines()[0] if error.evalue else ""
        what = "a magic command failed" if error.ename == "CellExecutionError" else error.ename
        return first_line(error.source), f"{what}: {value}".rstrip(": ")
    if isinstance(error, CellTimeoutError):
        return cell, f"timed out after {timeout} s, the limit that ICLBOOK_CELL_TIMEOUT sets"
    if isinstance(error, DeadKernelError):
        return cell, "the kernel died (killed, or out of memory)"
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    few = f"; only {files} files may be open here: ulimit -n 1024" if files < FILES else ""
    return cell, f"the kernel did not start or answer ({one_line(error) or type(error).__name__}{few})"


# -- kernels ----------------------------------------------------------------------------------------------------------------


def kernel_environment(root: Path, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment of a headless run; the variables around it are ``environment``, or this process's and one thread."""
    # Kernels run beside others on few cores, and the thread count changes the last digits.
    alone = dict(os.environ) | MEMORY | {"OMP_NUM_THREADS": "1"}
    around = alone if environment is None else dict(environment)
    if not os.access(os.path.expanduser("~"), os.W_OK):  # matplotlib complains, and makes its list of fonts anew
        around.setdefault("MPLCONFIGDIR", str(root / ".cache" / "matplotlib"))
    around.pop("PYTHONWARNINGS", None)  # "error" ends the kernel at a library's first deprecation
    ipython = root / ".cache" / "ipython"
    ipython.mkdir(parents=True, exist_ok=True)  # IPython warns where it must make more than the last folder
    return around | {
        "ICLBOOK_HEADLESS": "1",
        "ICLBOOK_ROOT": str(root),
        # Progress bars write to stderr, which the status page names.
        "TQDM_DISABLE": "1",
        # No start-up files of the user, no history in the home folder.
        "IPYTHONDIR": str(ipython),
        # Figures go into the notebook; a window would hang.
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


class _ShellChannel(AsyncZMQSocketChannel):
    """Looks for a message each second. nbclient answers widgets on the socket on which it waits for the reply of a cell, and sending can swallow
    the notice that the reply has come; it would then be found when the cell's whole time is over."""

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:
        end = float("inf") if timeout is None else time.monotonic() + timeout
        while (left := end - time.monotonic()) > 1:
            try:
                return await super().get_msg(1)
            except Empty:
                pass
        return await super().get_msg(max(0, left))


class _Client(AsyncKernelClient):
    shell_channel_class = _ShellChannel


def _headless_kernel(around: Mapping[str, str], sockets: str) -> type[AsyncKernelManager]:
    """A kernel of the interpreter that runs us, with these environment variables and its sockets in this folder.

    The specification is made here rather than looked up: a user's own ``python3`` kernel may belong to another environment.
    It ends when this process does, however that ends (ipykernel watches its parent).
    """
    start = (
        "from iclbook.machines import collect_rarely; collect_rarely(); "
        "import runpy; runpy.run_module('ipykernel_launcher', run_name='__main__', alter_sys=True)"
    )
    # -P: the working directory must not shadow a package.
    argv = [sys.executable, "-P", "-c", start, "-f", "{connection_file}"]

    class HeadlessKernel(AsyncKernelManager):
        client_factory = _Client

        def __init__(self, **kwargs: object) -> None:
            super().__init__(**kwargs)
            # Local sockets need no port and are nobody else's to read.
            self.transport, self.connection_file = "ipc", f"{sockets}/kernel.json"

        async def start_kernel(self, **kwargs: object) -> None:
            await super().start_kernel(**{**kwargs, "env": dict(around)})

        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(argv=argv, display_name="Python 3", language="python")

    return HeadlessKernel


# -- several chapters -------------------------------------------------------------------------------------------------------


def run_notebooks(
    names: Sequence[str],
    profile: str,
    device: str,
    root: Path,
    jobs: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, Path | UserError, float]]:
    """Run chapters, each in a kernel of its own, ``jobs`` at once (default: one for each core), and hand on name, executed copy or what went wrong, and
    processor seconds of each as it finishes.

    A chapter that fails does not stop the others. An interrupt ends every running kernel, whose chapter then leaves nothing behind.
    """
    several = min(jobs or usable_cores(), len(names))
    run = partial(_timed, profile=profile, device=device, root=root, environment=environment)
    if several < 2:
        yield from map(run, names)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(several, spawn, initializer=die_with, initargs=(os.getpid(),)) as pool:
        futures = {pool.submit(run, name): name for name in names}
        try:
            for future in as_completed(futures):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    name = futures[future]
                    yield name, UserError(f"notebooks/{name}.py stopped: its process was killed", "Run it again."), 0.0
        except BaseException:  # an interrupt, or a reader who stops early: the chapters must not go on alone
            for process in multiprocessing.active_children():
                process.kill()
            for name in names:  # a kernel ends with the process that asked for it
                executed_path(name, profile, root).with_name(f"{name}.failed.ipynb").unlink(missing_ok=True)
            raise


def _timed(name: str, **how: Any) -> tuple[str, Path | UserError, float]:
    """One chapter, and its processor seconds: those of the kernels that ended meanwhile."""
    began = _of_kernels()
    try:
        return name, run_notebook(name, **how), _of_kernels() - began
    except UserError as problem:
        return name, problem, _of_kernels() - began


def _of_kernels() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
