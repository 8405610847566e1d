"""papermill's engine without its habit of writing the whole notebook at the beginning and at the end of every cell: with frames of sliders in it, that
takes as long as some cells."""

from __future__ import annotations

from typing import Any

from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines

#: The engine's name, as ``papermill.execute_notebook`` asks for it.
ENGINE = "written-at-the-end"


class WrittenAtTheEnd(NBClientEngine):
    """Runs the cells and writes the copy once, when they have run or one of them has stopped the chapter."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, **options: Any
    ) -> Any:
        """Run all cells; papermill itself then completes the copy and writes it, whatever came."""
        write, nb_man.save = nb_man.save, lambda **_: None
        try:
            return super().execute_managed_notebook(nb_man, kernel_name, **options)
        finally:
            nb_man.save = write


papermill_engines.register(ENGINE, WrittenAtTheEnd)
