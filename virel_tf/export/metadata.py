"""metadata.json: describes an exported policy without the run it came from."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces

from virel_tf.config import Config
from virel_tf.envs.make import Environment
from virel_tf.run_folder.provenance import git_revision, versions

METADATA = "metadata.json"  # the name of the file
FORMAT = 1  # of the file itself


def describe(
    config: Config,
    env: Environment,
    which: str,
    file_format: str,
    step: int,
    return_: float | None,
    fingerprint: str,
) -> dict[str, Any]:
    """All but the signatures."""
    return dict(
        format=FORMAT,
        file_format=file_format,
        env=config.env,
        variant=config.variant,
        seed=config.seed,
        policy=which,
        step=step,
        **{"return": return_},
        deterministic=config.recipe.policy == "deterministic",
        discount=config.discount,
        reward_scale=config.reward_scale,
        path_length=config.path_length,
        observation=dict(
            size=env.observation_size,
            space=str(env.observation_space),
            layout=layout(env.observation_space),
        ),
        action=dict(
            size=env.action_size,
            space=str(env.action_space),
            shape=list(env.action_space.shape),
            dtype=str(env.action_space.dtype),
            low=env.action_low.tolist(),
            high=env.action_high.tolist(),
        ),
        fingerprint=fingerprint,
        git_revision=git_revision(),
        versions=versions(),
    )


def layout(space: gymnasium.Space[Any], name: str = "") -> list[dict[str, Any]]:
    """Which part of the flat observation [start, stop) holds what.

    In the order of `gymnasium.spaces.flatten`.
    """
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return [dict(name=name, start=0, stop=spaces.flatdim(space), space=str(space))]
    parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    entries: list[dict[str, Any]] = []
    for key, part in parts:
        start = entries[-1]["stop"] if entries else 0
        for entry in layout(part, f"{name}/{key}" if name else str(key)):
            entries.append(entry | dict(start=start + entry["start"], stop=start + entry["stop"]))
    return entries
