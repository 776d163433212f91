"""The policy network that a configuration asks for."""

from __future__ import annotations

from virel_tf.config import Config
from virel_tf.networks.policies import Policy
from virel_tf.recipe import Recipe


def make_policy(
    config: Config,
    recipe: Recipe,
    observation_size: int,
    action_size: int,
    seed: int = 0,
    name: str = "policy",
) -> Policy:
    """A policy with initial weights by `seed`."""
    return Policy(
        observation_size,
        action_size,
        config.hidden,
        config.layers,
        seed,
        config.activation,
        recipe.policy == "deterministic",
        name,
        config.initial_weights,
        config.normalisation,
    )
