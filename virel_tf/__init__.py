"""Reinforcement learning as variational EM (VIREL) in TensorFlow."""

from pathlib import Path

from virel_tf.algorithms import RECIPES, Recipe, register
from virel_tf.config import Config

__version__ = "0.1.0"
__all__ = ["RECIPES", "Config", "Recipe", "fit", "register"]


def fit(config: Config) -> Path:
    """Trains as `virel-tf train` does, going on where the run stopped, and returns the run's directory.

    Settings are those of `config` alone: presets are the command line's (`virel_tf.cli.parse_config` reads them).
    """
    from virel_tf.train.loop import train  # TensorFlow comes in only now
    train(config)
    return config.directory
