"""Kernels of headless runs: of the interpreter that runs us, in an environment of their own, started as programs or forked from a nursery."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from ..machines import MEMORY
from . import orphans
from .nursery import Forked, Nursery


def kernel_environment(root: Path, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """All variables of a headless run.

    Args:
        root: the book's folder.
        environment: the variables around it, such as those of an emulated machine; default: this process's, and one thread.
    """
    # Kernels run beside others on few cores, and the thread count changes the last digits.
    alone = dict(os.environ) | MEMORY | {"OMP_NUM_THREADS": "1"}
    return (alone if environment is None else dict(environment)) | {
        "ICLBOOK_HEADLESS": "1",
        "ICLBOOK_ROOT": str(root),
        # Progress bars write to stderr, which the book build counts as a warning.
        "TQDM_DISABLE": "1",
        # No start-up files of the user, no history in the home folder.
        "IPYTHONDIR": str(root / ".cache" / "ipython"),
        # Figures go into the notebook; a window would hang.
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


def headless_kernel(
    around: Mapping[str, str], sockets: Path, nursery: Nursery | None = None
) -> type[AsyncKernelManager]:
    """A kernel of the interpreter that runs us, in the environment of a headless run.

    The specification is made here rather than looked up: a user's own ``python3`` kernel may belong to another environment.

    Args:
        around: its environment variables.
        sockets: a short-lived folder for the connection; local sockets need no port and are nobody else's to read.
        nursery: what to fork it from; default: it is started as a program.
    """
    # A kernel whose runner is killed would compute on for nobody.
    start = (
        "from iclbook.machines import collect_rarely; collect_rarely(); "
        "import runpy; runpy.run_module('ipykernel_launcher', run_name='__main__', alter_sys=True)"
    )
    argv = [*(orphans.call(start) if nursery is None else ["ipykernel_launcher"]), "-f", "{connection_file}"]

    class HeadlessKernel(AsyncKernelManager):
        def __init__(self, **kwargs: object) -> None:
            super().__init__(**kwargs)
            self.transport = "ipc"
            self.connection_file = str(sockets / "kernel.json")
            if nursery is not None:
                self.provisioner = Forked(kernel_id="", kernel_spec=self.kernel_spec, parent=self)
                self.provisioner.nursery = nursery

        def start_kernel(self, **kwargs: object) -> Awaitable[None]:
            return super().start_kernel(**{**kwargs, "env": dict(around)})

        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(argv=argv, display_name="Python 3", language="python")

    return HeadlessKernel


@contextmanager
def sockets_folder() -> Iterator[Path]:
    """A folder for a kernel's sockets."""
    with tempfile.TemporaryDirectory(prefix="iclbook-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
