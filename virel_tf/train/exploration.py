"""Exploration in training: samples of the policy, or its mean plus noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from virel_tf.config import Config
from virel_tf.networks.actor import Actor


class Exploration(Protocol):
    """Observations [E, D] -> actions [E, A] in [-1, 1]."""

    state: np.ndarray  # saved in checkpoints

    def act(self, observation: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """The next actions."""

    def forget(self, lane: int) -> None:
        """An episode of one environment is over."""


class PolicyDraws:
    """a ~ pi_theta(.|s)."""

    def __init__(self, config: Config, actor: Actor, action_size: int) -> None:
        self.actor, self.action_size = actor, action_size
        self.state = np.zeros([config.num_envs, 0], np.float32)

    def act(self, observation: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """See `Exploration`."""
        noise = random.standard_normal([len(observation), self.action_size], np.float32)
        return self.actor.sample_action(observation, noise)

    def forget(self, lane: int) -> None:
        """See `Exploration`."""


class OrnsteinUhlenbeck:
    """mu_theta(s) + x, with x <- (1 - theta) x + sigma noise (Lillicrap et al. 2016).

    x starts from 0 in each episode.
    """

    def __init__(self, config: Config, actor: Actor, action_size: int) -> None:
        recipe = config.recipe
        self.actor, self.theta, self.sigma = actor, recipe.ou_theta, recipe.ou_sigma
        self.state = np.zeros([config.num_envs, action_size], np.float32)

    def act(self, observation: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """See `Exploration`."""
        noise = random.standard_normal(self.state.shape, np.float32)
        self.state = (1 - self.theta) * self.state + self.sigma * noise
        return np.clip(self.actor.mean_action(observation) + self.state, -1, 1)

    def forget(self, lane: int) -> None:
        """See `Exploration`."""
        self.state[lane] = 0


class GaussianNoise:
    """mu_theta(s) + sigma noise, independent from step to step (Fujimoto et al. 2018)."""

    def __init__(self, config: Config, actor: Actor, action_size: int) -> None:
        self.actor, self.action_size = actor, action_size
        self.sigma = config.recipe.exploration_sigma
        self.state = np.zeros([config.num_envs, 0], np.float32)

    def act(self, observation: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """See `Exploration`."""
        noise = random.standard_normal([len(observation), self.action_size], np.float32)
        return np.clip(self.actor.mean_action(observation) + self.sigma * noise, -1, 1)

    def forget(self, lane: int) -> None:
        """See `Exploration`."""


EXPLORATIONS: dict[str, Callable[[Config, Actor, int], Exploration]] = {
    "sample": PolicyDraws,
    "ornstein_uhlenbeck": OrnsteinUhlenbeck,
    "gaussian": GaussianNoise,
}
