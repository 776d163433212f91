"""The names of the files and folders of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CONFIG = "config.json"
METRICS = "metrics.csv"
VERSIONS = "versions.json"
LOCK = ".lock"
CHECKPOINTS = "checkpoints"
FINISHED = "finished.json"

EXPORT_FOLDERS = {"saved_model": "saved_model", "litert": "litert", "onnx": "onnx"}  # by format


def checkpoints_folder(folder: str | Path) -> Path:
    """Where a run's checkpoints are."""
    return Path(folder) / CHECKPOINTS


def policy_path(folder: str | Path, which: str) -> Path:
    """The file of a run's best or last policy."""
    return Path(folder) / "policies" / f"{which}.npz"


def exports_folder(folder: str | Path, format: str) -> Path:
    """Where the policies of a run are exported to in a format: a folder for each policy."""
    return Path(folder) / EXPORT_FOLDERS[format]


def learning_curve_path(folder: str | Path) -> Path:
    """The picture of the returns."""
    return Path(folder) / "learning_curve.png"


def tensorboard_folder(folder: str | Path) -> Path:
    """Where the TensorBoard events are."""
    return Path(folder) / "tensorboard"


def output_path(folder: str | Path) -> Path:
    """What a run that an experiment started has printed."""
    return Path(folder) / "output.log"


def find_settings(folder: Path, depth: int | None = None) -> Iterator[Path]:
    """The folders in or below `folder` that hold settings of a run, in alphabetical order.

    With a depth, those at most so many levels below it.
    """
    if depth is None:
        found = folder.rglob(CONFIG)
    else:
        patterns = ["/".join(["*"] * level + [CONFIG]) for level in range(depth + 1)]
        found = (path for pattern in patterns for path in folder.glob(pattern))
    for path in sorted(found):
        yield path.parent


def find_runs(folder: Path) -> list[Path]:
    """The folders in or below `folder` that hold a run with metrics, in alphabetical order."""
    return [run for run in find_settings(folder) if (run / METRICS).is_file()]
