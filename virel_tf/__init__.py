"""Reinforcement learning as variational EM (VIREL) in TensorFlow."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from virel_tf.algorithms import RECIPES, Recipe, register
from virel_tf.config import Config

if TYPE_CHECKING:
    from virel_tf.export.load import ExportedPolicy

__version__ = "0.2.0"
__all__ = ["RECIPES", "Config", "Recipe", "fit", "load_policy", "register"]


def fit(config: Config) -> Path:
    """Trains as `virel-tf train` does, going on where the run stopped, and returns the run's
    directory.

    Ctrl-C and SIGTERM save the run, and then do to the caller what they do elsewhere.
    """
    from virel_tf.train.loop import train  # TensorFlow comes in only now

    code = train(config)
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if code:
        raise SystemExit(code)
    return config.directory


def load_policy(path: str | Path) -> ExportedPolicy:
    """An exported policy as a function: observations [D] or [B, D] to actions in the environment's
    own units.

    `path` is a version such as RUN/policy/best/1, or the folder of the versions, whose newest is
    taken.
    """
    from virel_tf.export.load import load_policy as load

    return load(path)
