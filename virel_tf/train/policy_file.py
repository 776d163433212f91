"""A policy alone, on disk: its weights and observation statistics, the step it was taken at and its return."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np

from virel_tf.networks.policies import TanhGaussianPolicy
from virel_tf.train.checkpoint import atomic_write


class PolicyInfo(NamedTuple):
    """When a policy was saved and what it had returned in evaluation."""

    step: int
    eval_return: float


def save_policy(path: Path, policy: TanhGaussianPolicy, step: int, eval_return: float | None) -> None:
    """Writes the policy whole or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, step=step, eval_return=np.nan if eval_return is None else eval_return,
             **{variable.path: variable.value.numpy() for variable in policy.variables})
    path.parent.mkdir(exist_ok=True)
    atomic_write(path, buffer.getvalue())


def load_policy(path: Path, policy: TanhGaussianPolicy) -> PolicyInfo:
    """Gives `policy` the weights in the file."""
    with np.load(path, allow_pickle=False) as saved:
        for variable in policy.variables:
            variable.assign(saved[variable.path])
        return PolicyInfo(int(saved["step"]), float(saved["eval_return"]))
