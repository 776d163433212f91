"""`virel_tf.load_policy`: an exported policy as a Python function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from virel_tf.errors import ConfigError
from virel_tf.export.metadata import METADATA
from virel_tf.export.versions import newest_version


class ExportedPolicy:
    """Observations [D] or [B, D] -> actions [A] or [B, A] in the environment's own units.

    `metadata` says which.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metadata: dict[str, Any] = json.loads((folder / METADATA).read_text())
        self.model = tf.saved_model.load(str(folder))  # keeps the variables alive
        self._act = self.model.signatures["serving_default"]

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        observation = np.asarray(observation, np.float32)
        one = observation.ndim == 1
        action = self._act(observation=tf.constant(observation[None] if one else observation))[
            "action"
        ].numpy()
        return action[0] if one else action


def load_policy(path: str | Path) -> ExportedPolicy:
    """The policy of an exported version, or of the newest version in a folder of them.

    ConfigError elsewhere.
    """
    path = Path(path)
    folder = path if (path / "saved_model.pb").is_file() else newest_version(path)
    if folder is None or not all(
        (folder / name).is_file() for name in ("saved_model.pb", METADATA)
    ):
        raise ConfigError(
            None,
            f"{path} holds no exported policy; it must be a folder such as RUN/saved_model/best or "
            "RUN/saved_model/best/1",
        )
    return ExportedPolicy(folder)
