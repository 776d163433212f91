"""Environments small enough to know the right answer for, under ids that start with virel_tf/."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

ENDLESS_STEPS = 10
NAN_STEPS = 20


class EndlessReward(gymnasium.Env):
    """Reward 1 at every step, for ever: only the time limit cuts it.

    The value is 1 / (1 - discount), and only a learner that bootstraps where an episode is
    truncated finds it.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.ones(1, np.float32), 1.0, False, False, {}


class Echo(gymnasium.Env):
    """One step, in which the action should repeat the observation.

    The reward is -10 times the squared miss.
    """

    observation_space = gymnasium.spaces.Box(-0.8, 0.8, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.wanted = self.np_random.uniform(-0.8, 0.8, 1).astype(np.float32)
        return self.wanted, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.wanted, -10.0 * float((action[0] - self.wanted[0]) ** 2), True, False, {}


class NaN(gymnasium.Env):
    """Observation or reward turn into NaN from step `bad_step` on, counted over all episodes."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, bad_step: int = 50, where: str = "observation") -> None:
        if where not in ("observation", "reward"):
            raise ValueError(f"where: {where!r} is neither 'observation' nor 'reward'")
        self.bad_step = bad_step
        self.where = where
        self.total_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.total_steps += 1
        bad = self.total_steps >= self.bad_step
        observation = np.nan if bad and self.where == "observation" else 0.5
        reward = np.nan if bad and self.where == "reward" else 1.0
        return np.full(1, observation, np.float32), reward, False, False, {}


def register() -> None:
    """Makes the toys known to gymnasium."""
    gymnasium.register(
        "virel_tf/EndlessReward-v0", f"{__name__}:EndlessReward", max_episode_steps=ENDLESS_STEPS
    )
    gymnasium.register("virel_tf/Echo-v0", f"{__name__}:Echo")
    gymnasium.register("virel_tf/NaN-v0", f"{__name__}:NaN", max_episode_steps=NAN_STEPS)
    gymnasium.register(
        "virel_tf/NaNReward-v0",
        f"{__name__}:NaN",
        max_episode_steps=NAN_STEPS,
        kwargs={"where": "reward"},
    )
