"""A policy on disk: its weights and observation statistics, and its critics' weights.

With the step all are of.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from virel_tf.config import POLICIES
from virel_tf.errors import BadNumber, ConfigError, RunError
from virel_tf.files import atomic_write, ensure_writable
from virel_tf.run_folder.checkpoints import CheckpointStore, read_arrays, read_info
from virel_tf.run_folder.paths import checkpoints_folder, policy_path

STEP, REWARD_DIVISOR = "step", "reward_divisor"  # what a file holds beside weights
POLICY_ARRAYS = "policy_arrays"  # in a checkpoint's info: its arrays that are the policy's


def save_policy(
    path: Path,
    policy: keras.Model,
    step: int,
    critics: Sequence[keras.Model] = (),
    reward_divisor: float = 1.0,
) -> None:
    """Writes the policy, and the critics of the same moment, whole or not at all.

    reward_divisor: what the critics' rewards were divided by.
    """
    weights = {as_policy(variable.path): variable.value.numpy() for variable in policy.variables}
    for critic in critics:
        weights |= {variable.path: variable.value.numpy() for variable in critic.variables}
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise BadNumber(f"step {step}: the policy's {name} is not finite")
    buffer = io.BytesIO()
    contents = {STEP: np.array(step), REWARD_DIVISOR: np.array(reward_divisor)} | weights
    np.savez(buffer, **contents)
    ensure_writable(path.parent)
    atomic_write(path, buffer.getvalue())


def as_policy(path: str) -> str:
    """A variable's name in the file, whether it is of the newest policy or of the averaged one."""
    return path.replace("averaged_policy/", "policy/", 1)


def names_in_checkpoint(
    policy: keras.Model,
    critics: Sequence[keras.Model],
    reward_divisor: tf.Variable,
    state: Mapping[str, tf.Variable],
) -> dict[str, str]:
    """Which variable of a checkpointed state each array of a policy's file is.

    Name in the file -> name in the state.
    """
    names = {id(variable): name for name, variable in state.items()}
    saved = {as_policy(variable.path): variable.value for variable in policy.variables}
    for critic in critics:
        saved |= {variable.path: variable.value for variable in critic.variables}
    saved[REWARD_DIVISOR] = reward_divisor
    return {name: names[id(variable)] for name, variable in saved.items()}


class SavedWeights(NamedTuple):
    """What `save_policy` wrote."""

    path: Path
    step: int
    arrays: dict[str, np.ndarray]
    reward_divisor: float

    @classmethod
    def of_checkpoint(
        cls, path: Path, step: int, arrays: Mapping[str, np.ndarray], names: Mapping[str, str]
    ) -> SavedWeights:
        """What `save_policy` would have written, from the arrays of the checkpoint in `path`.

        names: of each array of a policy's file, its name in the checkpoint (`names_in_checkpoint`).
        """
        weights = {name: arrays[there] for name, there in names.items()}
        reward_divisor = float(weights.pop(REWARD_DIVISOR))
        return cls(path, step, weights, reward_divisor)

    def restore(self, model: keras.Model) -> None:
        """Gives the model its weights."""
        try:
            for variable in model.variables:
                variable.assign(self.arrays[variable.path])
        except (KeyError, ValueError) as error:
            raise RunError(f"cannot read the policy {self.path}: {error}") from error

    def holds(self, model: keras.Model) -> bool:
        """Whether the model was saved."""
        return all(variable.path in self.arrays for variable in model.variables)

    @property
    def fingerprint(self) -> str:
        """The same for the same weights, whenever and wherever they were written."""
        digest = hashlib.sha256()
        for name in sorted(self.arrays):
            digest.update(name.encode() + self.arrays[name].tobytes())
        return digest.hexdigest()


def read_policy(path: Path) -> SavedWeights:
    """Reads a file of `save_policy`; RunError where that is not what it is."""
    try:
        with np.load(path, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        step, reward_divisor = int(arrays.pop(STEP)), float(arrays.pop(REWARD_DIVISOR))
        return SavedWeights(path, step, arrays, reward_divisor)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise RunError(f"cannot read the policy {path}: {error}") from error


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
    kept = CheckpointStore(checkpoints_folder(run_dir)).kept()
    if step not in kept:
        raise ConfigError(
            "policy",
            f"{run_dir} keeps no checkpoint of step {step}; it must be one of "
            f"{', '.join([*POLICIES, *map(str, kept)])}",
        )
    names = read_info(kept[step])[POLICY_ARRAYS]
    return SavedWeights.of_checkpoint(kept[step], step, read_arrays(kept[step]), names)
