"""An environment that does what a test says."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

UNIT_BOX = spaces.Box(-1.0, 1.0, (1,), np.float32)


class Scripted(gymnasium.Env):
    """Returns given observations, and `ends` = (terminated, truncated) per step.

    Keeps the last action.
    """

    def __init__(self, observations, observation_space=UNIT_BOX, action_space=UNIT_BOX, ends=()):
        self.observations, self.ends = observations, ends
        self.observation_space, self.action_space = observation_space, action_space
        self.action = None
        self.count = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observations[0], {}

    def step(self, action):
        self.action = action
        self.count += 1
        ends = self.ends[self.count - 1] if self.ends else (False, False)
        return self.observations[self.count % len(self.observations)], 1, *ends, {}
