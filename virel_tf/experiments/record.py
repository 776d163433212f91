"""experiment.json: what `virel-tf experiment` planned and what became of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from virel_tf.errors import ConfigError
from virel_tf.experiments.command_line import all_settings, told_settings
from virel_tf.files import atomic_write
from virel_tf.run_folder.progress import finished
from virel_tf.version import __version__

if TYPE_CHECKING:
    from virel_tf.experiments.grid import Cell

RECORD = "experiment.json"


class Planned(NamedTuple):
    """A cell that was not done when an experiment last wrote of it."""

    folder: Path
    settings: dict[str, Any]
    state: str  # waiting, running, or why it failed

    def done_since(self, steps: int) -> bool:
        """Whether someone has finished it, where its run has been evaluated up to so many steps."""
        total = self.settings["total_steps"]
        return steps >= total or finished(self.folder, total)


def write_record(
    out: Path, cells: list[Cell], state: dict[str, str], reason: dict[str, str]
) -> None:
    """Writes how the cells stand; those of earlier experiments in the same folder stay."""
    entries = {entry["name"]: entry for entry in read_entries(out / RECORD)}
    for cell in cells:
        settings = told_settings(dataclasses.asdict(cell.config))
        entries[cell.name] = dict(
            name=cell.name,
            settings=settings,
            state=state[cell.name],
            reason=reason.get(cell.name, ""),
        )
    text = json.dumps(dict(virel_tf=__version__, cells=list(entries.values())), indent=2)
    atomic_write(out / RECORD, (text + "\n").encode())


def planned_cells(folders: list[Path]) -> list[Planned]:
    """What is not done of the grids recorded in, above or below the folders.

    Only what lies below the folders counts.
    """
    within = [folder.resolve() for folder in folders]
    records = {
        record
        for folder in within
        for record in (*folder.rglob(RECORD), *(parent / RECORD for parent in folder.parents))
    }
    cells = [
        Planned(
            record.parent / entry["name"],
            all_settings(entry["settings"]),
            ": ".join(filter(None, [entry["state"], entry["reason"]])),
        )
        for record in sorted(records)
        for entry in read_entries(record)
        if entry["state"] != "done"
    ]
    return [cell for cell in cells if any(cell.folder.is_relative_to(folder) for folder in within)]


def read_entries(path: Path) -> list[dict[str, Any]]:
    """The cells of a record; none where it is of another version or damaged."""
    try:
        entries = json.loads(path.read_text())["cells"]
        for entry in entries:
            all_settings(entry["settings"])
            if not all(isinstance(entry[name], str) for name in ("name", "state", "reason")):
                return []
        return entries
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ConfigError):
        return []
