"""Episodes of a policy, and what they returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from virel_tf.envs.make import Step


class Playable(Protocol):
    """An `Environment`, or what stands in front of one."""

    def reset(self, seed: int | None = None) -> np.ndarray: ...
    def step(self, action: np.ndarray) -> Step: ...


class Evaluation(NamedTuple):
    """The undiscounted return and the number of steps of every episode."""

    returns: list[float]
    lengths: list[int]

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns.

        Of these episodes, not an estimate of all: one episode gives 0.
        """
        return float(np.std(self.returns))


def evaluate_policy(
    act: Callable[[np.ndarray], np.ndarray],
    env: Playable,
    seed: int,
    steps: int,
    episodes: int = 0,
) -> Evaluation:
    """Plays `episodes` whole episodes with `act` (observation [D] -> action [A] in [-1, 1]).

    Where episodes is 0, as many as fit into `steps` steps: at least one, and another one only while
    it would still fit if it were as long as the last. Only the first reset is seeded, so the result
    depends on nothing before it and episodes differ.
    """
    evaluation = Evaluation([], [])
    observation = env.reset(seed)
    while True:
        episode_return, length = _play_episode(act, env, observation)
        evaluation.returns.append(episode_return)
        evaluation.lengths.append(length)
        if episodes:
            finished = len(evaluation.returns) == episodes
        else:
            finished = sum(evaluation.lengths) + length > steps
        if finished:
            return evaluation
        observation = env.reset()


def _play_episode(
    act: Callable[[np.ndarray], np.ndarray], env: Playable, observation: np.ndarray
) -> tuple[float, int]:
    episode_return, length = 0.0, 0
    while True:
        step = env.step(act(observation))
        observation = step.observation
        episode_return += step.reward
        length += 1
        if step.terminated or step.truncated:
            return episode_return, length
