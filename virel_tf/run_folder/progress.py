"""Progress of a run, read from its folder by another process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from virel_tf.files import atomic_write
from virel_tf.run_folder.metrics import last_row
from virel_tf.run_folder.paths import CHECKPOINTS, FINISHED


class Latest(NamedTuple):
    """The newest evaluation."""

    step: int = 0
    return_: float | None = None
    steps_per_s: float = 0.0


def mark_finished(folder: Path, step: int) -> None:
    """Records that the run has finished at that step, with all its files written."""
    atomic_write(folder / FINISHED, (json.dumps({"step": step}) + "\n").encode())


def finished(folder: Path, total_steps: int) -> bool:
    """Whether the run has finished, at `total_steps` or later."""
    try:
        return json.loads((folder / FINISHED).read_text())["step"] >= total_steps
    except (OSError, ValueError, KeyError, TypeError):
        return False


def newest_checkpoint(folder: Path) -> str:
    """The name of the newest checkpoint, empty where there is none.

    It changes as the run makes progress.
    """
    return max((path.name for path in folder.glob(f"{CHECKPOINTS}/step-*")), default="")


def latest(folder: Path) -> Latest:
    """The last complete row that the run has written."""
    row = last_row(folder)
    try:
        return Latest(int(row["step"]), float(row["eval_return"]), float(row["steps_per_s"]))
    except (KeyError, ValueError):  # truncated by a kill; the run writes it again
        return Latest()
