"""Runs with policies in them that nobody had to train, for the tests of exports."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from virel_tf.algorithms.critic_ensemble import Critics
from virel_tf.algorithms.policy import make_policy
from virel_tf.config import Config
from virel_tf.envs import Environment, make_env
from virel_tf.networks.policies import Policy
from virel_tf.run_folder.paths import exports_folder, policy_path
from virel_tf.run_folder.policies import save_policy
from virel_tf.run_folder.settings import write_settings


class UntrainedRun(NamedTuple):
    """A run's folder, and the networks that were saved there as its best policy."""

    folder: Path
    config: Config
    env: Environment
    policy: Policy
    critics: Critics
    reward_divisor: float  # what rewards were divided by, where reward_scaling is return

    @property
    def export(self) -> Path:
        """The first version of its best policy."""
        return exports_folder(self.folder, "saved_model") / "best" / "1"

    def action(self, observation: np.ndarray) -> np.ndarray:
        """What the training policy does, scaled as the environment scales it."""
        action = self.policy.mean_action(tf.constant(observation)).numpy()
        return self.env.action_middle + self.env.action_half_width * action

    def observations(self, rows: int, seed: int = 0) -> np.ndarray:
        """Random ones, of very different sizes."""
        rng = np.random.default_rng(seed)
        return rng.normal(
            1, np.exp(rng.normal(size=[rows, 1])), [rows, self.env.observation_size]
        ).astype(np.float32)


def make_run(folder: Path, reward_divisor: float = 1.0, **settings) -> UntrainedRun:
    """A run of which there is a configuration, a row of metrics and a best policy.

    All weights are random, and so are the running statistics of batch normalisation.
    """
    config = Config(**{"hidden": 16, "eval_steps": 1, **settings})
    env = make_env(config.env)
    sizes = env.observation_size, env.action_size
    policy = make_policy(config, config.recipe, *sizes)
    critics = Critics(config, config.recipe, *sizes)
    rng = np.random.default_rng(config.seed)
    for variable in [
        variable for model in (policy, *critics.online) for variable in model.trainable_variables
    ]:
        variable.assign(rng.normal(size=variable.shape) / np.sqrt(variable.shape[0]))
    for model in (policy, *critics.online):
        shake_batch_norms(model, rng)
    if config.normalise_observations:
        policy.normaliser.update(tf.constant(rng.normal(1, 2, [100, sizes[0]]), tf.float32))
    folder.mkdir(parents=True, exist_ok=True)
    write_settings(folder, config)
    with open(folder / "metrics.csv", "w", newline="") as file:
        csv.writer(file).writerows([("step", "eval_return"), (1000, 12.5)])
    save_policy(policy_path(folder, "best"), policy, 1000, critics.online, reward_divisor)
    return UntrainedRun(folder, config, env, policy, critics, reward_divisor)


def shake_batch_norms(model: keras.Model, rng: np.random.Generator) -> None:
    """Gives every batch normalisation of the model what training could have left there."""
    draws = {
        "scale": lambda size: rng.uniform(0.5, 1.5, size),
        "offset": lambda size: rng.normal(0, 0.5, size),
        "mean": lambda size: rng.normal(0, 1, size),
        "variance": lambda size: rng.uniform(1, 9, size),
    }
    for variable in model.variables:
        *_, layer, name = variable.path.split("/")
        if "norm" in layer and "normaliser" not in layer and name in draws:
            variable.assign(draws[name](variable.shape))
