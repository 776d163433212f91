"""`virel-tf evaluate`: a run's policy, or an exported one, in its environment.

Actions are the mean actions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from virel_tf import machine
from virel_tf.envs.make import Environment, make_env
from virel_tf.errors import ConfigError
from virel_tf.evaluate.rollout import Evaluation, evaluate_policy
from virel_tf.evaluate.video import Recorder, VideoWriter
from virel_tf.export.load import load_policy
from virel_tf.networks.actor import Actor
from virel_tf.run_folder.policies import read_weights
from virel_tf.run_folder.restore import restore_policy
from virel_tf.run_folder.settings import read_run


def evaluate_run(
    run_dir: str, policy: str, episodes: int, seed: int, video: str = ""
) -> dict[str, Any]:
    """Plays `episodes` whole episodes with a run's best or last policy.

    Returns their returns and lengths.
    """
    config = read_run(run_dir)
    machine.configure(config.threads)
    weights = read_weights(run_dir, policy)
    environment: dict[str, Any] = {
        "env_id": config.env,
        "fallback_length": config.path_length,
    }
    env = make_env(**environment)
    act = Actor(restore_policy(config, env, weights)).mean_action
    about = dict(env=config.env, variant=config.variant, policy=policy, step=weights.step)
    return about | play(act, env, episodes, seed, video, environment)


def evaluate_export(path: str, episodes: int, seed: int, video: str = "") -> dict[str, Any]:
    """The same with the policy that was exported to `path`."""
    machine.configure(threads=1)
    try:
        policy = load_policy(path)
    except ConfigError as error:
        raise ConfigError("policy", f"{error}, or, with run_dir, one of best, last") from None
    about = policy.metadata
    environment = {
        "env_id": about["env"],
        "fallback_length": about["path_length"],
        "raw_actions": True,
    }
    about = dict(
        env=about["env"], variant=about["variant"], policy=str(policy.folder), step=about["step"]
    )
    return about | play(policy, make_env(**environment), episodes, seed, video, environment)


def play(
    act: Callable[[np.ndarray], np.ndarray],
    env: Environment,
    episodes: int,
    seed: int,
    video: str,
    environment: dict[str, Any],
) -> dict[str, Any]:
    """Plays episodes; records `video`, if set, in another `make_env(**environment)`."""
    writer = VideoWriter(video) if video else None
    recorder = Recorder(env)
    # Each episode has another seed; steps=1 plays exactly one episode.
    played = [
        evaluate_policy(act, recorder, seed + episode, steps=1) for episode in range(episodes)
    ]
    env.close()
    if writer:
        writer.write(environment, recorder.episodes)
    result = Evaluation([one.returns[0] for one in played], [one.lengths[0] for one in played])
    return dict(
        episodes=episodes,
        return_mean=result.mean,
        return_std=result.std,
        returns=result.returns,
        lengths=result.lengths,
    ) | (dict(video=video) if video else {})
