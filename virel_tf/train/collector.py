"""Environment steps: the policy acts and the replay stores the transitions.

The collector resets environments itself, so no transition crosses an episode.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from virel_tf.algorithms.learner import Learner
from virel_tf.config import Config
from virel_tf.envs.make import Environment
from virel_tf.errors import BadNumber
from virel_tf.networks.actor import Actor
from virel_tf.replay.ring import ReplayRing, Rows
from virel_tf.train.exploration import EXPLORATIONS
from virel_tf.train.return_scale import ReturnScale

# The columns of `Rows`, for one step.
RowOfStep: TypeAlias = tuple[int, np.ndarray, np.ndarray, float, bool, bool]


class Episode(NamedTuple):
    """One finished training episode."""

    return_: float
    length: int


class Collector:
    """Steps E environments side by side and appends what happened to the replay."""

    def __init__(
        self, config: Config, envs: list[Environment], learner: Learner, replay: ReplayRing
    ) -> None:
        self.config, self.envs, self.learner, self.replay = config, envs, learner, replay
        self.actor = Actor(learner.policy)
        self.exploration = EXPLORATIONS[config.recipe.exploration](
            config, self.actor, envs[0].action_size
        )
        self.observation = np.stack(
            [env.reset(seed=config.seed * 1000 + lane) for lane, env in enumerate(envs)]
        )
        check_finite(self.observation, "environment's observation", 0)
        self.returns = np.zeros(len(envs))
        self.lengths = np.zeros(len(envs), np.int64)
        self.return_scale = ReturnScale(len(envs), config.discount, config.value_bound)
        self.abs_reward_sum = 0.0
        self.reward_count = 0

    @property
    def mean_abs_reward(self) -> float:
        """Mean magnitude of the scaled rewards seen: the r_avg of lambda."""
        mean = self.config.reward_scale * self.abs_reward_sum / max(self.reward_count, 1)
        return mean / self.return_scale.divisor if self.config.reward_scaling == "return" else mean

    def collect(self, step: int, steps: int) -> tuple[Rows, list[Episode]]:
        """Takes `steps` environment steps after the first `step`.

        Appends them to the replay and returns them.
        """
        lanes = len(self.envs)
        rows: list[RowOfStep] = []
        episodes: list[Episode] = []
        self.actor.refresh()
        # seeded anew in each call, so there is no state to save
        random = np.random.default_rng([self.config.seed, step])
        for now in range(step, step + steps, lanes):
            actions = self._actions(now, random)
            check_finite(actions, "policy's action", now)
            for lane, env in enumerate(self.envs):
                rows += self._step_one(lane, env, actions[lane], now + lane, episodes)
        stacked = Rows(
            *(
                np.array(column, dtype)
                for column, dtype in zip(
                    zip(*rows, strict=True), (np.int32, *4 * (np.float32,), bool), strict=True
                )
            )
        )
        if self.config.normalise_observations:
            self.learner.update_statistics(stacked.observation)
        self.replay.append(stacked, self.observation)
        return stacked, episodes

    def _actions(self, step: int, random: np.random.Generator) -> np.ndarray:
        shape = len(self.envs), self.envs[0].action_size
        if step < self.config.random_steps:
            return random.uniform(-1, 1, shape).astype(np.float32)
        return self.exploration.act(self.observation, random)

    def _step_one(
        self, lane: int, env: Environment, action: np.ndarray, step: int, episodes: list[Episode]
    ) -> list[RowOfStep]:
        """One step of one environment.

        Its row, and one more for the last observation of a truncated episode.
        """
        before = self.observation[lane].copy()
        after = env.step(action)
        check_finite(after.observation, "environment's observation", step)
        check_finite(after.reward, "environment's reward", step)
        rows = [(lane, before, action, after.reward, after.terminated, True)]
        self.observation[lane] = after.observation
        self.returns[lane] += after.reward
        self.lengths[lane] += 1
        self.return_scale.add(lane, after.reward, after.terminated or after.truncated)
        self.abs_reward_sum += abs(after.reward)
        self.reward_count += 1
        if after.terminated or after.truncated:
            if not after.terminated:
                rows.append((lane, after.observation, np.zeros_like(action), 0.0, False, False))
            episodes.append(Episode(float(self.returns[lane]), int(self.lengths[lane])))
            self.returns[lane], self.lengths[lane] = 0.0, 0
            self.exploration.forget(lane)
            self.observation[lane] = env.reset()
            check_finite(self.observation[lane], "environment's observation", step)
        return rows

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, bytes]]:
        """(arrays, blobs) from which `load_state` resumes exactly."""
        arrays = {
            "collector/observation": self.observation,
            "collector/returns": self.returns,
            "collector/lengths": self.lengths,
            "collector/exploration": self.exploration.state,
            "collector/rewards": np.array([self.abs_reward_sum, self.reward_count], np.float64),
        }
        arrays |= self.return_scale.state()
        return arrays, {f"env{lane}": env.get_state() for lane, env in enumerate(self.envs)}

    def load_state(self, arrays: dict[str, np.ndarray], blobs: dict[str, bytes]) -> None:
        """Restores what `state` returned."""
        self.observation = arrays["collector/observation"].copy()
        self.returns = arrays["collector/returns"].copy()
        self.lengths = arrays["collector/lengths"].copy()
        self.exploration.state = arrays["collector/exploration"].copy()
        self.return_scale.load_state(arrays)
        self.abs_reward_sum, self.reward_count = (
            float(arrays["collector/rewards"][0]),
            int(arrays["collector/rewards"][1]),
        )
        for lane, env in enumerate(self.envs):
            env.set_state(blobs[f"env{lane}"])


def check_finite(value: np.ndarray | float, name: str, step: int) -> None:
    """Stops the run where a number from the environment or to it is NaN or infinite."""
    if not np.isfinite(value).all():
        raise BadNumber(f"step {step}: the {name} is not finite: {value}")
