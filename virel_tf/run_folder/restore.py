"""Networks with the weights of a run's policies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras

from virel_tf.algorithms.critic_ensemble import Critics
from virel_tf.algorithms.policy import make_policy
from virel_tf.config import Config
from virel_tf.envs.make import Environment
from virel_tf.networks.policies import Policy
from virel_tf.run_folder.policies import SavedWeights


def restore_policy(config: Config, env: Environment, weights: SavedWeights) -> Policy:
    """The policy network with these weights."""
    with float32_layers():
        policy = make_policy(config, config.recipe, env.observation_size, env.action_size)
    weights.restore(policy)
    return policy


def restore_critics(config: Config, env: Environment, weights: SavedWeights) -> Critics | None:
    """The critics of the same moment, or None where only the policy was saved."""
    with float32_layers():
        critics = Critics(config, config.recipe, env.observation_size, env.action_size)
    if not all(weights.holds(model) for model in critics.online):
        return None
    for model in critics.online:
        weights.restore(model)
    return critics


@contextlib.contextmanager
def float32_layers() -> Iterator[None]:
    """Has networks made within compute in float32, whatever trained them.

    The policy does so whenever it acts.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
