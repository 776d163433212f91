"""Cells of an experiment whose processes a test ends as it likes."""

from __future__ import annotations

import json
from pathlib import Path

from virel_tf.experiments.grid import make_cells
from virel_tf.experiments.options import ExperimentOptions
from virel_tf.run_folder.paths import output_path
from virel_tf.run_folder.progress import mark_finished


def cells_of(out: Path, training: dict | None = None, **options):
    return make_cells(ExperimentOptions(out=str(out), **options), training or {})


def finish(folder: Path, step: int) -> None:
    """Leaves the folder of a run behind that came to its end at that step."""
    folder.mkdir(parents=True, exist_ok=True)
    mark_finished(folder, step)


class ScriptedPool:
    """Ends each cell at once, with the next exit code of its script.

    0 leaves a finished run behind.
    """

    def __init__(self, codes: dict[str, list[int | str]]) -> None:
        self.codes, self.running, self.started = codes, [], []

    def slots(self) -> int:
        return 1

    def start(self, cell) -> None:
        assert not self.running
        self.started.append(cell.name)
        self.running.append(cell)

    def ended(self) -> list:
        over = [(cell, self.codes[cell.name].pop(0)) for cell in self.running]
        self.running = []
        for cell, code in over:
            cell.folder.mkdir(parents=True, exist_ok=True)
            output_path(cell.folder).write_text("virel-tf: something is wrong\n")
            if code == 0:
                finish(cell.folder, cell.config.total_steps)
        return over

    def stop(self) -> list[str]:
        return []


def recorded(out: Path) -> dict[str, tuple[str, str]]:
    """Name -> state and reason of the cells in experiment.json."""
    cells = json.loads((out / "experiment.json").read_text())["cells"]
    return {cell["name"]: (cell["state"], cell["reason"]) for cell in cells}
