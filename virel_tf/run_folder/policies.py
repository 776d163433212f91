"""A policy on disk: its weights and observation statistics, its critics' weights, and the step all
are of.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from virel_tf.errors import BadNumber, RunError
from virel_tf.files import atomic_write, ensure_writable


def save_policy(
    path: Path,
    policy: keras.Model,
    step: int,
    critics: Sequence[keras.Model] = (),
    return_deviation: float = 1.0,
) -> None:
    """Writes the policy, and the critics of the same moment, whole or not at all.

    return_deviation: what the critics' rewards were divided by.
    """
    weights = {as_policy(variable.path): variable.value.numpy() for variable in policy.variables}
    for critic in critics:
        weights |= {variable.path: variable.value.numpy() for variable in critic.variables}
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise BadNumber(f"step {step}: the policy's {name} is not finite")
    buffer = io.BytesIO()
    np.savez(buffer, step=step, return_deviation=return_deviation, **weights)
    ensure_writable(path.parent)
    atomic_write(path, buffer.getvalue())


def as_policy(path: str) -> str:
    """A variable's name in the file, whether it is of the newest policy or of the averaged one."""
    return path.replace("averaged_policy/", "policy/", 1)


class SavedWeights(NamedTuple):
    """What `save_policy` wrote."""

    path: Path
    step: int
    arrays: dict[str, np.ndarray]
    return_deviation: float

    @classmethod
    def of_learner(cls, path: Path, step: int, state: Mapping[str, np.ndarray]) -> SavedWeights:
        """What `save_policy` would have written, from `Learner.state` as the checkpoint in `path`
        holds it.
        """
        # Neither targets nor the optimisers' numbers; the averaged policy where there is one.
        kept = re.compile(r"learner/(averaged_policy|policy|[qv]\d+)/\d+/(.+)")
        matches = [match for match in map(kept.fullmatch, state) if match]
        models = {match[1] for match in matches}
        policy = "averaged_policy" if "averaged_policy" in models else "policy"
        arrays = {}
        for match in matches:
            if match[1] == policy:
                arrays[as_policy(match[2])] = state[match[0]]
            elif match[1] not in ("averaged_policy", "policy"):
                arrays[match[2]] = state[match[0]]
        return cls(path, step, arrays, float(state["learner/return_deviation"]))

    def restore(self, model: keras.Model) -> None:
        """Gives the model its weights."""
        try:
            for variable in model.variables:
                variable.assign(self.arrays[variable.path])
        except (KeyError, ValueError) as error:
            raise RunError(f"cannot read the policy {self.path}: {error}") from error

    def holds(self, model: keras.Model) -> bool:
        """Whether the model was saved; files of earlier versions hold no critics."""
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
        step, return_deviation = int(arrays.pop("step")), float(arrays.pop("return_deviation"))
        return SavedWeights(path, step, arrays, return_deviation)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise RunError(f"cannot read the policy {path}: {error}") from error
