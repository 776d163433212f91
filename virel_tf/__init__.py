"""Reinforcement learning as variational EM (VIREL) in TensorFlow."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from virel_tf.algorithms import RECIPES, Recipe, register
from virel_tf.config import Config
from virel_tf.version import __version__

if TYPE_CHECKING:
    from virel_tf.export.load import ExportedPolicy

__all__ = ["RECIPES", "Config", "Recipe", "__version__", "fit", "load_policy", "register"]


def fit(config: Config) -> Path:
    """Trains as `virel-tf train` does and returns the run's folder.

    A run that was stopped is resumed. Ctrl-C and SIGTERM save the run and then have their usual
    effect on the caller.
    """
    from virel_tf.train.loop import train  # TensorFlow comes in only now

    code = train(config)
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if code:
        raise SystemExit(code)
    return config.directory


def load_policy(path: str | Path) -> ExportedPolicy:
    """An exported policy, from observations [D] or [B, D] to actions in the environment's units.

    `path` is a version such as RUN/saved_model/best/1, or the folder of the versions, whose newest
    is used.
    """
    from virel_tf.export.load import load_policy as load

    return load(path)
