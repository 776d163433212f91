"""The running deviation of the discounted return (--reward_scaling=return).

Rewards are divided by it.

Each environment has its discounted sum G <- gamma G + r, which starts at 0 in every
episode, whether the one before it terminated or was truncated. The deviation is that of all values
of G so far, of all environments together. With rewards in these units Q is of order 1 in every
environment. With a bound on values, rewards are divided by more than the deviation where the
largest |G| so far would otherwise be above that bound.
"""

from __future__ import annotations

import numpy as np


class ReturnScale:
    """Moments of G (Welford 1962), in float64."""

    def __init__(self, lanes: int, discount: float, bound: float = 0.0) -> None:
        """`bound`: the largest |G| divided by `divisor` is at most that; 0: no bound."""
        self.discount = discount
        self.bound = bound
        self.discounted = np.zeros(lanes)  # G of each environment
        self.count = 0
        self.mean = 0.0
        self.largest = 0.0  # |G|
        self.squares = 0.0  # sum of squared distances from the mean

    def add(self, lane: int, reward: float, episode_over: bool) -> None:
        """Takes in one step of one environment."""
        value = self.discount * self.discounted[lane] + reward
        self.largest = max(self.largest, abs(value))
        self.count += 1
        distance = value - self.mean
        self.mean += distance / self.count
        self.squares += distance * (value - self.mean)
        self.discounted[lane] = 0.0 if episode_over else value

    @property
    def deviation(self) -> float:
        """The standard deviation of G; 1 where G has never changed."""
        if self.squares <= 0:
            return 1.0
        return float(np.sqrt(self.squares / self.count))

    @property
    def divisor(self) -> float:
        """What rewards are divided by."""
        if not self.bound:
            return self.deviation
        return max(self.deviation, self.largest / self.bound)

    def state(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds."""
        return {
            "return_scale/discounted": self.discounted.copy(),
            "return_scale/moments": np.array([self.count, self.mean, self.squares, self.largest]),
        }

    def load_state(self, arrays: dict[str, np.ndarray]) -> None:
        """Restores what `state` saved."""
        self.discounted = arrays["return_scale/discounted"].copy()
        count, self.mean, self.squares, self.largest = arrays["return_scale/moments"].tolist()
        self.count = int(count)
