"""How actions are chosen while learning."""

from __future__ import annotations

import numpy as np
from tuned_recipe import tuned

from virel_tf.config import Config
from virel_tf.train.exploration import OrnsteinUhlenbeck, PolicyDraws
from virel_tf.train.run import Run


def noisy(**numbers: float) -> Config:
    """A run of DDPG with this noise."""
    return Config(**tuned(dict(variant="ddpg", **numbers)))


class StillActor:
    """Always 0.9 on average, and what the noise says when it samples."""

    def mean_action(self, observation):
        return np.full([len(observation), 2], 0.9, np.float32)

    def sample_action(self, observation, noise):
        return noise


def test_ornstein_uhlenbeck_follows_its_recursion_and_stays_in_bounds():
    noise = OrnsteinUhlenbeck(noisy(ou_theta=0.25, ou_sigma=0.5), StillActor(), 2)
    draws = np.random.default_rng(1).standard_normal([3, 1, 2], np.float32)
    random, x = np.random.default_rng(1), np.zeros([1, 2], np.float32)
    for draw in draws:
        x = 0.75 * x + 0.5 * draw
        np.testing.assert_allclose(
            noise.act(np.zeros([1, 3]), random), np.clip(0.9 + x, -1, 1), rtol=1e-6
        )


def test_ornstein_uhlenbeck_is_correlated_in_time_and_settles():
    noise = OrnsteinUhlenbeck(noisy(ou_theta=0.15, ou_sigma=0.2), StillActor(), 2)
    random, states = np.random.default_rng(0), []
    for _ in range(20_000):
        noise.act(np.zeros([1, 3]), random)
        states.append(noise.state[0, 0])
    states = np.array(states)
    assert abs(states.std() / (0.2 / np.sqrt(1 - 0.85**2)) - 1) < 0.05
    assert abs(np.corrcoef(states[1:], states[:-1])[0, 1] - 0.85) < 0.02


def test_an_episodes_end_stills_the_noise_of_its_lane_alone():
    noise = OrnsteinUhlenbeck(Config(num_envs=2), StillActor(), 2)
    noise.act(np.zeros([2, 3]), np.random.default_rng(0))
    kept = noise.state[1].copy()
    noise.forget(0)
    assert not noise.state[0].any() and kept.all()
    np.testing.assert_array_equal(noise.state[1], kept)


def test_a_stochastic_policy_brings_its_own_noise():
    drawn = PolicyDraws(Config(num_envs=2), StillActor(), 2).act(
        np.zeros([2, 3]), np.random.default_rng(5)
    )
    np.testing.assert_array_equal(
        drawn, np.random.default_rng(5).standard_normal([2, 2], np.float32)
    )


def test_the_collector_stills_the_noise_when_an_episode_ends():
    run = Run(
        Config(
            env="InvertedPendulum-v4",
            variant="ddpg",
            hidden=4,
            batch_size=4,
            random_steps=0,
            path_length=3,
            replay_size=100,
        )
    )
    collector = run.collector
    collector.collect(0, 2)
    assert collector.exploration.state.all()
    assert len(collector.collect(2, 1)[1]) == 1 and not collector.exploration.state.any()
    run.close()
