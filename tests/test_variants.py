"""Each variant's losses and gradients, on the one-unit networks of test_learner.py.

s = 2, a = 0.5, r = 1, s' = 3. Q = 0.5 relu(s + 2 a) = 1.5, V = 0.3 relu(s), V-bar = 0.2 relu(s),
Q-bar = 0.4 relu(s + 2 a), and a policy that does tanh(loc) = 0.5 with hardly any deviation, so log
pi is large and known.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from tiny_learner import LOC, TARGET, TD, Q, gradients, know_epsilon, make_learner, update

from virel_tf.algorithms.learner import ACTION, NEXT_ACTION, stream_seed
from virel_tf.algorithms.m_steps import M_STEPS
from virel_tf.algorithms.temperature import TEMPERATURES
from virel_tf.config import Config
from virel_tf.networks.policies import log_prob_of, sample, squashed_gaussian
from virel_tf.objective.e_step import E_STEPS
from virel_tf.objective.targets import VALUES
from virel_tf.recipe import NAMES
from virel_tf.registry import RECIPES
from virel_tf.train.exploration import EXPLORATIONS

V, SLOW_Q = 0.6, 0.4 * (3 + 2 * 0.5)  # V(s) and Q-bar(s', 0.5) = 1.6


def gradient_of_q(learner, critic: int = 0) -> float:
    """dJ^Q/dQ of one critic: the gradient of its last bias."""
    per_critic = len(learner.q_variables) // len(learner.critics.qs)
    return float(gradients(learner.q_optimiser)[per_critic * (critic + 1) - 1][0])


def gradient_of_v(learner, v: int = 0) -> float:
    per_v = len(learner.v_variables) // len(learner.critics.vs)
    return float(gradients(learner.v_optimiser)[per_v * (v + 1) - 1][0])


def log_prob_drawn(metrics) -> float:
    return -float(metrics["entropy"])


def test_sac_v1_by_hand():
    learner = make_learner(variant="sac_v1", alpha=0.1)
    metrics = update(learner)
    soft_value = Q - 0.1 * log_prob_drawn(metrics)
    assert gradient_of_q(learner) == pytest.approx(-TD, rel=1e-4)  # the soft part is in V
    assert gradient_of_v(learner) == pytest.approx(V - soft_value, rel=1e-4)
    assert metrics["v_loss"] == pytest.approx(0.5 * (V - soft_value) ** 2, rel=1e-4)


def test_sac_by_hand():
    learner = make_learner(variant="sac", alpha=0.1, policy_regulariser=0.0)
    # the minimum at s' is this one's 1.2
    learner.critics.target_qs[1].output_layer.kernel.assign([[0.3]])
    learner.critics.qs[1].output_layer.kernel.assign([[0.4]])  # and at s this one's 1.2
    metrics = update(learner)
    noise = draw_noise(NEXT_ACTION)
    # at s', where the action is 0.5 too
    log_prob = 20 - noise**2 / 2 - math.log(2 * math.pi) / 2 - math.log(1 - 0.25)
    target = 1 + 0.99 * (1.2 - 0.1 * log_prob)
    assert metrics["q_loss"] == pytest.approx(
        ((Q - target) ** 2 + (1.2 - target) ** 2) / 4, rel=1e-4
    )
    assert gradient_of_q(learner, 0) == pytest.approx(Q - target, rel=1e-4)
    assert gradient_of_q(learner, 1) == pytest.approx(1.2 - target, rel=1e-4)
    to_loc, _ = gradients(learner.policy_optimiser)[3]
    # through the smaller Q alone
    assert to_loc == pytest.approx(0.1 * 1.0 - 0.4 * 2 * 0.75, rel=1e-4)


@pytest.mark.parametrize("action_size", [1, 6])
def test_a_learned_temperature_is_tuned_to_an_entropy_for_every_action_number(action_size):
    for off, step in (
        (0.01, 3e-4),
        (-0.01, -3e-4),
    ):  # grows while the entropy is below its target, and falls above it
        temperature = TEMPERATURES["learned"](
            Config(preset="none", variant="sac", target_entropy=-0.5), action_size
        )
        temperature.follow_entropy(
            tf.fill([2], 0.5 * action_size + off),
            temperature.running(tf.constant(1.0)),
            tf.constant(0),
        )
        # Adam's first, from log 1
        assert float(temperature.factor.logarithm) == pytest.approx(step, rel=1e-3)


def test_ddpg_by_hand():
    learner = make_learner(variant="ddpg", policy_regulariser=0.0, tau=0.1)
    metrics = update(learner)
    assert metrics["q_loss"] == pytest.approx(0.5 * (Q - 1 - 0.99 * SLOW_Q) ** 2, rel=1e-5)
    assert metrics["policy_loss"] == pytest.approx(-Q)
    assert (metrics["temperature"], metrics["entropy"]) == (0.0, 0.0)
    (to_loc,) = gradients(learner.policy_optimiser)[3]
    assert to_loc == pytest.approx(-0.75, rel=1e-5)  # -dQ/da (1 - tanh^2) = -1 * 0.75
    # Adam moves the policy's bias by its learning rate; the slow copies follow by tau.
    assert float(learner.target_policy.output_layer.bias[0]) == pytest.approx(
        LOC + 0.1 * 3e-4, rel=1e-6
    )
    assert float(learner.critics.target_qs[0].output_layer.kernel[0, 0]) == pytest.approx(
        0.4 + 0.1 * 0.1, rel=1e-3
    )


def test_virel1_takes_the_smaller_q_and_trains_both():
    learner = make_learner(variant="virel1", policy_regulariser=0.0)
    learner.critics.qs[1].output_layer.kernel.assign([[0.4]])  # Q_2 = 1.2
    metrics = update(learner)
    assert gradient_of_q(learner, 0) == pytest.approx(1.5 - TARGET, rel=1e-4)
    assert gradient_of_q(learner, 1) == pytest.approx(1.2 - TARGET, rel=1e-4)
    assert gradient_of_v(learner) == pytest.approx(V - 1.2, rel=1e-4)
    to_loc, _ = gradients(learner.policy_optimiser)[3]
    assert to_loc == pytest.approx(1.0 - 0.4 * 2 * 0.75, rel=1e-4)  # through Q_2 alone
    assert metrics["q_gap"] == pytest.approx(0.3, rel=1e-4)


def test_virel2_bootstraps_each_critic_on_its_own_value():
    learner = make_learner(variant="virel2", alpha=0.1, soft_reward_scale=0.5)
    learner.critics.target_vs[1].output_layer.kernel.assign([[0.25]])  # the soft V-bar(s') = 0.75
    learner.critics.qs[1].output_layer.kernel.assign([[0.4]])  # the soft Q = 1.2, and the minimum
    metrics = update(learner)
    assert gradient_of_q(learner, 0) == pytest.approx(1.5 - TARGET, rel=1e-4)
    assert gradient_of_q(learner, 1) == pytest.approx(1.2 - (0.5 + 0.99 * 0.75), rel=1e-4)
    assert gradient_of_v(learner, 0) == pytest.approx(V - 1.2, rel=1e-4)
    assert gradient_of_v(learner, 1) == pytest.approx(
        V - (1.2 - 0.1 * log_prob_drawn(metrics)), rel=1e-4
    )
    # The residual is the hard critic's alone: soft targets are not in the paper's set.
    assert float(learner.temperature.residual.mean) == pytest.approx(TD**2, rel=1e-4)


def test_virel2_scales_the_soft_rewards_by_what_was_seen():
    learner = make_learner(variant="virel2", alpha=0.01)
    metrics = update(learner)
    bonus = -0.01 * log_prob_drawn(metrics) * 0.99  # that of s'
    assert float(learner.critics.soft_reward_scale()) == pytest.approx(1 - bonus / 1.0, rel=1e-4)


def test_virel2_trains_its_soft_critic_on_the_rewards_it_scaled():
    learner = make_learner(variant="virel2", alpha=0.1)
    for mean, value in ((learner.critics.mean_reward, 1.0), (learner.critics.mean_bonus, 0.25)):
        mean.mean.assign(value)
        mean.weight.assign(1.0)
    assert update(learner)["soft_reward_scale"] == pytest.approx(0.75)
    assert gradient_of_q(learner, 0) == pytest.approx(Q - TARGET, rel=1e-4)
    assert gradient_of_q(learner, 1) == pytest.approx(Q - (0.75 * 1 + 0.99 * 0.6), rel=1e-4)


def test_mpo_by_hand():
    learner = make_learner(variant="mpo", policy_regulariser=0.0)
    for policy, loc, log_scale in ((learner.policy, LOC, -3.0), (learner.old_policy, 0.0, 0.0)):
        policy.output_layer.bias.assign([loc, log_scale])
    know_epsilon(learner, 0.5)
    metrics = update(learner)
    assert metrics["temperature"] == 0.5  # epsilon itself
    to_loc, to_log_scale = gradients(learner.policy_optimiser)[3]
    # d/d(loc, log_scale) of KL(N(loc, scale) || N(0, 1)) by the same draw: the tanh is in both
    # densities and drops out.
    pre_tanh_noise = draw_noise(ACTION)
    scale = math.exp(-3.0)
    x = LOC + scale * pre_tanh_noise
    d_q = 0.5 * 2 * (1 - math.tanh(x) ** 2)
    dx = scale * pre_tanh_noise  # d x / d log_scale
    assert to_loc == pytest.approx(0.5 * x - d_q, rel=1e-3)
    assert to_log_scale == pytest.approx(0.5 * (x * dx - 1) - d_q * dx, rel=1e-3)


def draw_noise(stream: int) -> float:
    """The standard normal number behind the first update's action."""
    gaussian = squashed_gaussian(tf.zeros([1, 1]), tf.zeros([1, 1])).distribution
    return float(gaussian.sample(seed=stream_seed(1, stream, tf.constant(0)))[0, 0])


def test_mpo_remembers_the_policy_of_the_last_period():
    learner = make_learner(variant="mpo", prior_period=2)
    new, old = learner.policy.output_layer.bias, learner.old_policy.output_layer.bias
    start, view = new.numpy(), learner.replay.view()
    for done in range(2):
        np.testing.assert_array_equal(old.numpy(), start)
        learner.update(view, tf.constant(done), tf.constant(1), tf.constant(1.0))
    np.testing.assert_array_equal(old.numpy(), new.numpy())
    assert new.numpy()[0] != start[0]


@pytest.mark.parametrize("loc", [0.0, 5.0, 12.0])
def test_mpo_has_no_divergence_from_itself_however_saturated(loc):
    policy = make_learner(variant="mpo").policy
    policy.output_layer.bias.assign([loc, -1.0])
    observation = tf.constant([[2.0]])
    with tf.GradientTape() as tape:
        drawn = sample(policy, observation, tf.constant([1, 2]))
        divergence = drawn.log_prob - tf.stop_gradient(
            log_prob_of(policy, observation, drawn.before_tanh)
        )
    assert float(divergence[0]) == pytest.approx(0.0, abs=1e-5)
    assert np.isfinite(tape.gradient(divergence, policy.output_layer.bias.value).numpy()).all()


def test_densities_of_moderate_actions_are_tfps():
    policy = make_learner(variant="mpo").policy
    policy.output_layer.bias.assign([0.2, -0.5])
    drawn = sample(policy, tf.constant([[2.0]]), tf.constant([1, 2]))
    expected = squashed_gaussian(tf.constant([[0.2]]), tf.constant([[-0.5]])).log_prob(drawn.action)
    np.testing.assert_allclose(drawn.log_prob, expected, rtol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        *(dict(variant=name) for name in RECIPES),
        dict(variant="sac", temperature="learned"),
        *(dict(variant="virel", m_step=name) for name in NAMES["m_step"]),
        dict(variant="beta", lambda_rule="relative"),
        dict(variant="beta", lambda_rule="entropy"),
        dict(variant="virel", e_step="expected"),
        dict(variant="sac", precision="mixed_bfloat16"),
    ],
    ids=str,
)
def test_every_variant_learns_from_its_state_as_if_nothing_had_happened(settings):
    learner = make_learner(**settings)
    update(learner)
    saved = {name: variable.numpy() for name, variable in learner.state().items()}
    other = make_learner(**settings)
    other.load_state(saved)
    assert update(learner) == update(other)
    for name, variable in learner.state().items():
        np.testing.assert_array_equal(variable.numpy(), other.state()[name].numpy(), err_msg=name)


def test_the_names_of_parts_are_those_of_the_functions():
    for field, table in (
        ("critics", VALUES),
        ("e_step", E_STEPS),
        ("temperature", TEMPERATURES),
        ("m_step", M_STEPS),
        ("exploration", EXPLORATIONS),
    ):
        assert NAMES[field] == tuple(table)
