"""A policy alone, on disk: its weights and observation statistics, and the step it was taken at."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from virel_tf.errors import BadNumber, RunError
from virel_tf.files import atomic_write, ensure_writable
from virel_tf.networks.policies import Policy


def save_policy(path: Path, policy: Policy, step: int) -> None:
    """Writes the policy whole or not at all."""
    weights = {variable.path: variable.value.numpy() for variable in policy.variables}
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise BadNumber(f"step {step}: the policy's {name} is not finite")
    buffer = io.BytesIO()
    np.savez(buffer, step=step, **weights)
    ensure_writable(path.parent)
    atomic_write(path, buffer.getvalue())


def load_policy(path: Path, policy: Policy) -> int:
    """Gives `policy` the weights in the file; returns the step they were saved at."""
    try:
        with np.load(path, allow_pickle=False) as saved:
            for variable in policy.variables:
                variable.assign(saved[variable.path])
            return int(saved["step"])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise RunError(f"cannot read the policy {path}: {error}") from error
