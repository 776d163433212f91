"""Parts of the modern variants, by hand.

Reward scaling, epsilon(s), TD3's noise and delay, REDQ's subset; limits.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from small_networks import batch_of
from small_networks import make_learner as make_small_learner
from tiny_learner import LOC, Q, gradients, know_epsilon, make_learner, update

from virel_tf.algorithms.state_residual import StateResidual
from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.objective.residual import state_residual_loss
from virel_tf.objective.targets import bounded, clipped_noise, mean, minimum_of_subset
from virel_tf.train.return_scale import ReturnScale
from virel_tf.train.run import Run

# ---------------------------------------------------------------- rewards divided by the deviation
# of the return


def test_the_deviation_is_that_of_the_discounted_sums_of_all_environments():
    scale = ReturnScale(lanes=2, discount=0.5)
    for lane, reward, over in (
        (0, 1.0, False),
        (1, 4.0, False),
        (0, 2.0, True),
        (1, 1.0, False),
        (0, 3.0, False),
    ):
        scale.add(lane, reward, over)
    # Environment 0: 1, 0.5 + 2, and 3 in a new episode. Environment 1: 4, 2 + 1.
    assert scale.deviation == pytest.approx(np.std([1.0, 4.0, 2.5, 3.0, 3.0]))


def test_the_deviation_is_one_where_nothing_ever_changed():
    scale = ReturnScale(lanes=1, discount=0.9)
    assert scale.deviation == 1.0
    for _ in range(3):
        scale.add(0, 0.0, False)
    assert scale.deviation == 1.0


@pytest.mark.parametrize("bound, divisor", [(0.0, 2.5), (4.0, 2.5), (0.5, 8.0)])
def test_rewards_are_divided_by_enough_that_returns_stay_within_the_bound(bound, divisor):
    """G is 1 and then -4 (0.5 * 0 - 4, in a new episode); a deviation of 2.5 around -1.5."""
    scale = ReturnScale(lanes=1, discount=0.5, bound=bound)
    scale.add(0, 1.0, True)
    scale.add(0, -4.0, True)
    assert scale.deviation == 2.5
    assert scale.divisor == divisor


def test_the_value_in_a_td_target_is_clipped_to_the_bound():
    """Q(s', a') = 2, so the target is 1 + 0.99 * 1.5."""
    learner = make_learner(variant="virel", bootstrap="self", value_bound=1.5)
    assert update(learner)["q_loss"] == pytest.approx(0.5 * (Q - 1 - 0.99 * 1.5) ** 2, rel=1e-5)
    np.testing.assert_allclose(bounded(tf.constant([-2.0, 0.3, 2.0]), 1.5), [-1.5, 0.3, 1.5])


def test_the_deviation_goes_on_where_it_was_saved():
    one, other = ReturnScale(1, 0.9, 0.1), ReturnScale(1, 0.9, 0.1)
    for reward in (1.0, 2.0, 4.0):
        one.add(0, reward, False)
    other.load_state(one.state())
    for scale in (one, other):
        scale.add(0, -3.0, True)
    assert one.deviation == other.deviation
    assert one.divisor == other.divisor == pytest.approx(10 * (0.81 + 1.8 + 4))
    assert one.discounted == other.discounted == 0.0


def test_scaled_rewards_reach_the_td_target():
    learner = make_learner(variant="virel", reward_scaling="return", reward_scale=3.0)
    learner.reward_divisor.assign(4.0)
    assert update(learner)["q_loss"] == pytest.approx(0.5 * (0.75 + 0.99 * 0.6 - Q) ** 2, rel=1e-5)


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_run_finds_the_deviation_of_its_own_rewards(num_envs):
    """EndlessReward gives 1 a step and is truncated after a number of steps."""
    run = Run(
        Config(
            env="virel_tf/EndlessReward-v0",
            hidden=4,
            batch_size=4,
            random_steps=0,
            replay_size=1000,
            num_envs=num_envs,
            path_length=10,
            total_steps=40,
            steps_per_iteration=20,
        )
    )
    for _ in run.iterate():
        pass
    run.close()
    within = [(1 - 0.99**t) / 0.01 for t in range(1, 11)]
    assert run.learner.reward_divisor.numpy() == pytest.approx(np.std(within), rel=1e-5)


# ---------------------------------------------------------------- epsilon(s)


def test_the_loss_of_epsilon_of_a_state_is_least_at_the_mean_square():
    squared = tf.constant([1.0, 3.0])  # of one state
    losses = {
        v: float(state_residual_loss(tf.fill([2], math.log(v)), squared))
        for v in (1.0, 1.9, 2.0, 2.1, 4.0)
    }
    assert min(losses, key=losses.get) == 2.0
    assert losses[2.0] == pytest.approx(math.log(2) + 1)


def test_epsilon_of_a_state_learns_where_the_errors_are():
    config = Config(preset="none", value_learning_rate=3e-3)
    residual = StateResidual(config, 1, seed=1)
    observation = tf.constant([[-1.0], [1.0]])
    learn = tf.function(residual.learn)
    for _ in range(1500):
        learn(observation, tf.constant([0.04, 4.0]))
    np.testing.assert_allclose(residual.relative(observation), [0.04 / 2.02, 4 / 2.02], rtol=0.1)


def test_the_temperature_of_a_state_scales_its_entropy_alone():
    """Two states whose epsilon(s) is 1:3: their temperatures are 0.5 and 1.5 times the level."""
    learner = make_small_learner(variant="virel", temperature="state_residual", alpha=0.02)
    relative = learner.state_residual.relative(batch_of(learner).observation)
    assert float(tf.reduce_mean(relative)) == pytest.approx(1.0, rel=1e-5)
    reading = learner.temperature.running(tf.constant(1.0))
    np.testing.assert_allclose(
        learner._temperature_at(reading, batch_of(learner).observation), 0.02 * relative, rtol=1e-5
    )


# ---------------------------------------------------------------- temperature with a bound


@pytest.mark.parametrize("epsilon, temperature", [(0.5, 0.05), (3.0, 0.1)])
def test_the_temperature_of_beta_stays_below_its_bound(epsilon, temperature):
    learner = make_learner(variant="beta", lambda_beta=0.1, temperature_bound=0.1)
    know_epsilon(learner, epsilon)
    assert update(learner)["temperature"] == pytest.approx(temperature)


def test_beta_with_a_constant_epsilon_is_virel():
    """lambda epsilon = 0.5 in each of three updates, with epsilon put back after each."""
    virel, beta = (
        make_learner(variant="virel", alpha=0.5),
        make_learner(variant="beta", lambda_beta=0.25),
    )
    for _ in range(3):
        know_epsilon(beta, 2.0)
        one, other = update(virel), update(beta)
        assert one["policy_loss"] == other["policy_loss"] and one["q_loss"] == other["q_loss"]
    for ours, theirs in zip(virel.policy_variables, beta.policy_variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


# ---------------------------------------------------------------- TD3


def test_the_smoothing_noise_is_clipped():
    noise = clipped_noise([10_000], 0.2, 0.3, tf.constant([1, 2])).numpy()
    assert np.abs(noise).max() == pytest.approx(0.3)
    within = noise[np.abs(noise) < 0.3]
    assert len(within) / 10_000 == pytest.approx(math.erf(1.5 / math.sqrt(2)), abs=0.01)


def test_td3_smooths_the_target_at_the_target_policys_action():
    """Noise of deviation 1e6 clipped at 0.1 is +-0.1: Q-bar(s', a') = 0.4 (3 + 2 (0.5 +- 0.1))."""
    learner = make_learner(variant="td3", target_noise_sigma=1e6, target_noise_clip=0.1)
    loss = update(learner)["q_loss"]
    expected = [0.5 * (Q - 1 - 0.99 * 0.4 * (3 + 2 * (0.5 + noise))) ** 2 for noise in (-0.1, 0.1)]
    assert min(abs(loss - value) for value in expected) < 1e-5


def test_td3_moves_policy_and_target_networks_at_every_second_update():
    learner = make_learner(variant="td3")
    watched = [
        learner.critics.target_qs[0].output_layer.kernel,
        learner.policy.output_layer.bias,
        learner.target_policy.output_layer.bias,
    ]
    moved = []
    for done in range(4):
        before = [variable.numpy() for variable in watched]
        learner.update(learner.replay.view(), tf.constant(done), tf.constant(1), tf.constant(1.0))
        moved.append(
            [bool(np.any(old != new.numpy())) for old, new in zip(before, watched, strict=True)]
        )
    assert moved == [[True] * 3, [False] * 3, [True] * 3, [False] * 3]


def test_td3_without_smoothing_delay_and_second_critic_is_ddpg():
    td3 = make_learner(variant="td3", target_noise_sigma=0.0, policy_period=1, critics=1)
    ddpg = make_learner(variant="ddpg")
    for _ in range(5):
        assert update(td3) == update(ddpg)
    for name, variable in ddpg.state().items():
        np.testing.assert_array_equal(variable.numpy(), td3.state()[name].numpy(), err_msg=name)


# ---------------------------------------------------------------- CrossQ and REDQ


def test_crossq_without_batch_norm_and_with_a_target_network_is_sac():
    crossq = make_learner(variant="crossq", bootstrap="q", policy_period=1)
    sac = make_learner(variant="sac")
    for learner in (crossq, sac):
        learner.policy.output_layer.bias.assign([LOC, -1.0])
    for _ in range(5):
        assert update(crossq) == update(sac)
    for name, variable in sac.state().items():
        np.testing.assert_array_equal(variable.numpy(), crossq.state()[name].numpy(), err_msg=name)


def test_without_a_target_network_the_critic_bootstraps_on_itself():
    """T Q = 1 + 0.99 Q(s', a') = 1 + 0.99 * 0.5 (3 + 2 * 0.5), and no gradient flows through it."""
    learner = make_learner(variant="virel", bootstrap="self")
    target = 1 + 0.99 * 2
    assert update(learner)["q_loss"] == pytest.approx(0.5 * (Q - target) ** 2, rel=1e-5)
    assert gradients(learner.q_optimiser)[-1] == pytest.approx(Q - target, rel=1e-4)
    assert not learner.critics.target_qs and not learner.critics.target_vs


def test_a_subset_is_drawn_without_replacement_and_every_pair_is_equally_likely():
    values = [tf.fill([2], float(value)) for value in range(4)]
    draws = [minimum_of_subset(values, 2, tf.constant([7, i])).numpy() for i in range(600)]
    assert all(draw[0] == draw[1] for draw in draws)  # one subset for the whole batch
    counts = np.bincount([int(draw[0]) for draw in draws], minlength=4)
    # Of the six pairs the smaller is 0 in three, 1 in two and 2 in one; never 3.
    np.testing.assert_allclose(counts / 600, [3 / 6, 2 / 6, 1 / 6, 0], atol=0.06)


def test_redq_takes_the_target_from_a_pair_and_the_policy_climbs_the_mean():
    learner = make_learner(
        variant="redq", critics=3, policy_regulariser=0.0, alpha=0.0, temperature="constant"
    )
    outputs = 0.1, 0.2, 0.6
    for target, output in zip(learner.critics.target_qs, outputs, strict=True):
        target.output_layer.kernel.assign([[output]])  # Q-bar(s', a') = 4 times that
    for q, output in zip(learner.critics.qs, outputs, strict=True):
        q.output_layer.kernel.assign([[output]])  # Q(s, a) = 3 times that
    loss = update(learner)["q_loss"]

    def loss_at(least: float) -> float:
        target = 1 + 0.99 * 4 * least
        return float(np.mean([0.5 * (3 * output - target) ** 2 for output in outputs]))

    # a pair never has 0.6 for its minimum
    assert min(abs(loss - loss_at(least)) for least in (0.1, 0.2)) < 1e-4
    to_loc, _ = gradients(learner.policy_optimiser)[3]
    assert to_loc == pytest.approx(-np.mean(outputs) * 2 * 0.75, rel=1e-4)
    np.testing.assert_allclose(mean([tf.constant([1.0]), tf.constant([4.0])]), [2.5])


def test_what_batch_normalisation_cannot_do_is_named():
    with pytest.raises(ConfigError, match="^m_step: .*batch"):
        Config(env="Hopper-v4", m_step="residual")
    with pytest.raises(ConfigError, match="^bootstrap: .*batch"):
        Config(env="Hopper-v4", bootstrap="optimal_q")
