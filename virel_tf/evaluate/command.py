"""`virel-tf evaluate`: a finished or running run's policy, in its environment, with the mean action."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from virel_tf import runtime
from virel_tf.algorithms.registry import RECIPES
from virel_tf.config import Config, read_config
from virel_tf.envs.make import make_env
from virel_tf.errors import ConfigError
from virel_tf.evaluate.rollout import Evaluation, evaluate_policy
from virel_tf.networks.actor import Actor
from virel_tf.networks.policies import Policy
from virel_tf.networks.policy_file import load_policy


def evaluate_run(run_dir: str, policy: str, episodes: int, seed: int) -> dict[str, Any]:
    """Plays `episodes` whole episodes with a run's best or last policy; returns their returns and lengths."""
    folder, path = Path(run_dir), Path(run_dir) / "policies" / f"{policy}.npz"
    if not (folder / "config.json").is_file():
        raise ConfigError(f"--run_dir: {run_dir} holds no run (no config.json there)")
    if not path.is_file():
        raise ConfigError(f"--run_dir: {run_dir} holds no {policy} policy yet ({path.name} comes with the first "
                          f"{'evaluation' if policy == 'best' else 'checkpoint'})")
    saved = read_config(folder)
    if saved["variant"] not in RECIPES:
        raise ConfigError(f"--run_dir: {run_dir} is a run of {saved['variant']!r}, which does not ship with the "
                          "package; call virel_tf.register, as its training did, and evaluate_run from Python")
    config = Config(**saved)
    runtime.configure(config.threads)
    env = make_env(config.env, fallback_length=config.path_length)
    network = Policy(env.observation_size, env.action_size, config.hidden, config.layers, 0, config.activation,
                     config.recipe.policy == "deterministic")
    step = load_policy(path, network)
    act = Actor(network).mean_action
    # Each episode has its own seed; asking for one step's worth of evaluation plays exactly one.
    played = [evaluate_policy(act, env, seed + episode, steps=1) for episode in range(episodes)]
    env.close()
    result = Evaluation([one.returns[0] for one in played], [one.lengths[0] for one in played])
    return dict(env=config.env, variant=config.variant, policy=policy, step=step, episodes=episodes,
                return_mean=result.mean, return_std=result.std, returns=result.returns, lengths=result.lengths)
