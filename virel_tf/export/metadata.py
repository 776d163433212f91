"""metadata.json: what an exported policy is, for who finds it without the run it came from."""

from __future__ import annotations

import csv
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import virel_tf
from virel_tf.config import Config
from virel_tf.envs.make import Environment

FORMAT = 1


def describe(config: Config, env: Environment, which: str, step: int, return_: float | None,
             fingerprint: str) -> dict[str, Any]:
    """All but the signatures."""
    return dict(
        format=FORMAT, env=config.env, variant=config.variant, seed=config.seed, policy=which, step=step,
        **{"return": return_}, deterministic=config.recipe.policy == "deterministic", discount=config.discount,
        reward_scale=config.reward_scale, path_length=config.path_length,
        observation=dict(size=env.observation_size, space=str(env.observation_space),
                         layout=layout(env.observation_space)),
        action=dict(size=env.action_size, space=str(env.action_space), shape=list(env.action_space.shape),
                    dtype=str(env.action_space.dtype), low=env.action_low.tolist(), high=env.action_high.tolist()),
        fingerprint=fingerprint, git_revision=git_revision(), versions=versions())


def layout(space: gymnasium.Space, name: str = "") -> list[dict[str, Any]]:
    """Which part of the flat observation [start, stop) holds what, in the order of `gymnasium.spaces.flatten`."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return [dict(name=name, start=0, stop=spaces.flatdim(space), space=str(space))]
    parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    entries: list[dict[str, Any]] = []
    for key, part in parts:
        start = entries[-1]["stop"] if entries else 0
        for entry in layout(part, f"{name}/{key}" if name else str(key)):
            entries.append(entry | dict(start=start + entry["start"], stop=start + entry["stop"]))
    return entries


def evaluated_return(run_dir: Path, step: int) -> float | None:
    """The mean return of the run's evaluation at that step, if there was one."""
    try:
        with open(run_dir / "metrics.csv", newline="") as file:
            returns = [row["eval_return"] for row in csv.DictReader(file) if row["step"] == str(step)]
    except OSError:
        return None
    return float(returns[-1]) if returns and np.isfinite(float(returns[-1])) else None


def versions() -> dict[str, str]:
    """Of Python and the packages that made the export."""
    found = {"python": platform.python_version(), "virel_tf": virel_tf.__version__}
    for package in ("tensorflow", "keras", "gymnasium", "mujoco"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_revision() -> str | None:
    """The commit of the source tree this package runs from, with -dirty where it was changed since; None elsewhere."""
    package = Path(__file__).resolve().parents[1]
    try:
        # An installed package may lie in somebody else's repository: only a tree that tracks it tells about it.
        subprocess.run(["git", "ls-files", "--error-unmatch", "__init__.py"], cwd=package, check=True,
                       capture_output=True)
        describe = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(describe, cwd=package, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
