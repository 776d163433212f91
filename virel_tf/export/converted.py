"""Policies for runtimes other than TensorFlow.

Files that are checked against it before they are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from virel_tf.errors import RunError
from virel_tf.export.metadata import METADATA
from virel_tf.export.signatures import ServedPolicy

ROWS = 256


class Converted(NamedTuple):
    """A file's content, and how to run it."""

    content: bytes
    act: Callable[[bytes, np.ndarray], np.ndarray]  # content, observations [B, D] -> actions [B, A]
    tolerance: float | None  # of an action's half width; None: reported, not checked


def write_converted(
    folder: Path, served: ServedPolicy, metadata: dict[str, Any], files: Mapping[str, Converted]
) -> None:
    """Writes the files and, into metadata.json, how far they are from TensorFlow.

    RunError where that is too far.
    """
    observation = (
        np.random.default_rng(0).normal(size=[ROWS, served.observation_size]).astype(np.float32)
    )
    expected = served.act(observation)["action"].numpy()
    scale = np.where(served.half_width > 0, served.half_width, 1)
    differences = {}
    for name, file in files.items():
        differences[name] = float(
            np.max(np.abs(file.act(file.content, observation) - expected) / scale)
        )
        if file.tolerance is not None and not differences[name] <= file.tolerance:
            raise RunError(
                f"{name}: its actions differ from TensorFlow's by {differences[name]:.2g} of their"
                f" half width, more than {file.tolerance}; nothing was written"
            )
        (folder / name).write_bytes(file.content)
    about = metadata | dict(largest_difference=differences)
    (folder / METADATA).write_text(json.dumps(about, indent=2) + "\n")
