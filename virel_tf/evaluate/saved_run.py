"""A run's settings and policies, read back from its folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import keras

from virel_tf.algorithms.critics import Critics
from virel_tf.algorithms.policy import make_policy
from virel_tf.checkpoint import CheckpointStore, read_arrays
from virel_tf.config import POLICIES, Config, read_config
from virel_tf.envs.make import Environment
from virel_tf.errors import ConfigError
from virel_tf.networks.policies import Policy
from virel_tf.networks.policy_file import SavedWeights, read_policy
from virel_tf.registry import RECIPES


def read_run(run_dir: str | Path) -> Config:
    """The settings of the run in a folder.

    ConfigError where there is none that this process knows.
    """
    if not (Path(run_dir) / "config.json").is_file():
        raise ConfigError("run_dir", f"{run_dir} holds no run (no config.json there)")
    saved = read_config(Path(run_dir))
    if saved["variant"] not in RECIPES:
        raise ConfigError(
            "run_dir",
            f"{run_dir} is a run of {saved['variant']!r}, which does not ship with the"
            " package; call virel_tf.register, as its training did, and this command's function"
            " from Python",
        )
    return Config(**saved)


def policy_path(run_dir: str | Path, which: str) -> Path:
    """The file of a run's best or last policy."""
    return Path(run_dir) / "policies" / f"{which}.npz"


def read_weights(run_dir: str | Path, which: str) -> SavedWeights:
    """A run's best or last policy, or that of a step whose checkpoint it keeps.

    ConfigError where there is none.
    """
    if which.isdecimal():
        return read_checkpointed(run_dir, int(which))
    path = policy_path(run_dir, which)
    if not path.is_file():
        raise ConfigError(
            "run_dir",
            f"{run_dir} holds no {which} policy yet ({path.name} comes with the first "
            f"{'evaluation' if which == 'best' else 'checkpoint'})",
        )
    return read_policy(path)


def read_checkpointed(run_dir: str | Path, step: int) -> SavedWeights:
    """The policy in a run's checkpoint."""
    kept = CheckpointStore(Path(run_dir) / "checkpoints").kept()
    if step not in kept:
        raise ConfigError(
            "policy",
            f"{run_dir} keeps no checkpoint of step {step}; it must be one of "
            f"{', '.join([*POLICIES, *map(str, kept)])}",
        )
    return SavedWeights.of_learner(kept[step], step, read_arrays(kept[step]))


def restore_policy(config: Config, env: Environment, weights: SavedWeights) -> Policy:
    """The policy network with these weights."""
    with float32_layers():
        policy = make_policy(config, config.recipe, env.observation_size, env.action_size)
    weights.restore(policy)
    return policy


def restore_critics(config: Config, env: Environment, weights: SavedWeights) -> Critics | None:
    """The critics of the same moment, or None where the file is of a version that did not keep
    them.
    """
    with float32_layers():
        critics = Critics(config, config.recipe, env.observation_size, env.action_size)
    if not all(weights.holds(model) for model in critics.online):
        return None
    for model in critics.online:
        weights.restore(model)
    return critics


@contextlib.contextmanager
def float32_layers() -> Iterator[None]:
    """Networks made within compute in float32, as the policy does whenever it acts, whatever
    trained it.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
