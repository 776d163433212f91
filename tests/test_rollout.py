"""Evaluation: how many episodes, and that the same seed gives the same ones."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from virel_tf.envs import Environment, make_env
from virel_tf.evaluate.rollout import Evaluation, evaluate_policy


class GivenLengths(gymnasium.Env):
    """Episodes of given lengths; the reward is the number of the step within the episode."""

    observation_space = action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, lengths):
        self.lengths = iter(lengths)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length, self.count = next(self.lengths), 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.zeros(1, np.float32), self.count, self.count == self.length, False, {}


def still(observation):
    return np.zeros(1, np.float32)


@pytest.mark.parametrize(
    "lengths, steps, played",
    [
        ([30, 1], 10, [30]),  # one whole episode, however long
        ([5, 1], 9, [5]),  # another of 5 would not fit
        ([5, 5, 1], 10, [5, 5]),  # it fits exactly
        ([2, 2, 7, 1], 12, [2, 2, 7]),  # judged by the last one, so 11 + 7 is too much
        ([2, 20, 1], 4, [2, 20]),  # an episode begun is played to its end
        ([1, 1, 1, 1], 3, [1, 1, 1]),
    ],
)
def test_number_of_episodes(lengths, steps, played):
    evaluation = evaluate_policy(still, Environment(GivenLengths(lengths)), seed=0, steps=steps)
    assert evaluation.lengths == played
    assert evaluation.returns == [length * (length + 1) / 2 for length in played]


def test_truncation_ends_an_episode():
    evaluation = evaluate_policy(still, make_env("virel_tf/EndlessReward-v0"), seed=0, steps=25)
    assert evaluation == Evaluation([10.0, 10.0], [10, 10])


def test_mean_and_deviation():
    evaluation = Evaluation([1.0, 5.0], [3, 3])
    assert (evaluation.mean, evaluation.std) == (3.0, 2.0)


def test_result_depends_on_the_seed_alone():
    env = make_env("Hopper-v4")

    def lean(observation):
        return -np.tanh(observation[:3])

    first = evaluate_policy(lean, env, seed=11, steps=200)
    assert len(set(first.returns)) == len(first.returns) > 1
    assert evaluate_policy(lean, env, seed=12, steps=200) != first
    assert evaluate_policy(lean, env, seed=11, steps=200) == first
    assert evaluate_policy(lean, make_env("Hopper-v4"), seed=11, steps=200) == first


def test_actions_answer_the_observation_before():
    env = make_env("Pendulum-v1", path_length=4)
    seen = []

    def act(observation):
        seen.append(observation)
        return np.full(1, 0.5, np.float32)

    evaluate_policy(act, env, seed=3, steps=4)
    expected = [env.reset(3)] + [env.step(np.full(1, 0.5)).observation for _ in range(3)]
    np.testing.assert_array_equal(seen, expected)
