"""What a run's folder tells to someone who is not training in it."""

from __future__ import annotations

import csv
import fcntl
import json
from pathlib import Path
from typing import NamedTuple

from virel_tf.export.versions import newest_version

TAIL = 64 * 1024  # bytes at the end of metrics.csv that surely hold its last two rows


class Latest(NamedTuple):
    """The last row of metrics.csv."""

    step: int = 0
    return_: float | None = None
    steps_per_s: float = 0.0


def finished(folder: Path, total_steps: int) -> bool:
    """Whether the run came to its end: the export of its last policy is the last thing it does."""
    version = newest_version(folder / "policy" / "last")
    if version is None:
        return False
    try:
        return json.loads((version / "metadata.json").read_text())["step"] >= total_steps
    except (OSError, ValueError, KeyError, TypeError):
        return False


def in_use(folder: Path) -> bool:
    """Whether a process is training there."""
    try:
        with open(folder / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def newest_checkpoint(folder: Path) -> str:
    """The name of the newest checkpoint, empty where there is none.

    It changes as the run gets on.
    """
    return max((path.name for path in folder.glob("checkpoints/step-*")), default="")


def latest(folder: Path) -> Latest:
    """The last whole row that the run has written."""
    try:
        with open(folder / "metrics.csv", "rb") as file:
            columns = file.readline().decode().strip().split(",")
            start = file.tell()
            file.seek(max(start, file.seek(0, 2) - TAIL))
            whole = file.read().decode().rpartition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return Latest()
    if not whole:
        return Latest()
    row = dict(zip(columns, next(csv.reader([whole.rpartition("\n")[2]])), strict=False))
    try:
        return Latest(int(row["step"]), float(row["eval_return"]), float(row["steps_per_s"]))
    except (KeyError, ValueError):  # cut short by a kill; the run writes it again
        return Latest()
