"""Runs of the command line in processes of their own, and what two of them have in common."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np

WALL_CLOCK = ("seconds", "steps_per_s")


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "virel_tf", *flags]


def virel(*flags: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run(command(*flags), capture_output=True, text=True, timeout=900)
    assert done.returncode == code, done.stderr
    return done


def metrics(folder: Path) -> list[dict]:
    with open(folder / "metrics.csv", newline="") as file:
        return [
            {name: cell for name, cell in row.items() if name not in WALL_CLOCK}
            for row in csv.DictReader(file)
        ]


def weights(folder: Path) -> dict[str, np.ndarray]:
    newest = max((folder / "checkpoints").glob("step-*"))
    with np.load(newest / "state.npz") as state:
        return {name: state[name] for name in state.files}


def assert_same_run(one: Path, other: Path) -> None:
    assert metrics(one) == metrics(other)
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)
