"""experiment.json: what `virel-tf experiment` planned and what became of it, for who looks at the runs afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from virel_tf.experiments.runs import Group

RECORD = "experiment.json"
NEEDED = {"name", "env", "seed", "state"}
Cell = tuple[str, str, int]  # environment, label, seed


def unfinished_cells(folders: list[Path], groups: list[Group]) -> dict[Cell, str]:
    """The cells of recorded grids that are not done, and how they stand: waiting, running, or why they failed."""
    labels = {run.folder.resolve().parent: group.label for group in groups for run in group.runs}
    found: dict[Cell, str] = {}
    for path in sorted({path.resolve() for folder in folders for path in folder.rglob(RECORD)}):
        for cell in read_cells(path):
            if cell["state"] == "done":
                continue
            beside = (path.parent / cell["name"]).parent  # other seeds of the same settings
            _, *settings, _ = cell["name"].split("/")  # ENV/VARIANT/seedSEED, or ENV/VARIANT/SWEPT/seedSEED
            label = labels.get(beside, ", ".join(",".join(settings).split(",")))
            reason = f": {cell['reason']}" if cell.get("reason") else ""
            found[cell["env"], label, cell["seed"]] = f"{cell['state']}{reason}"
    return found


def read_cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a record; none where it is of another version or damaged."""
    try:
        cells = json.loads(path.read_text())["cells"]
        return [cell for cell in cells if NEEDED <= cell.keys() and cell["name"].count("/") > 1]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return []
