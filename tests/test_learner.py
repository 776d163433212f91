"""One update of the learner on networks of one unit.

Every loss and gradient can be worked out by hand there.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from tiny_learner import LOC, TARGET, TD, Q, gradients, know_epsilon, make_learner, update

from virel_tf.algorithms.learner import ACTION, METRICS, stream_seed
from virel_tf.networks.policies import squashed_gaussian
from virel_tf.replay.ring import Rows


@pytest.mark.parametrize("xla", [False, True])
def test_losses_by_hand(xla):
    metrics = update(make_learner(variant="virel", xla=xla))
    assert metrics["q_loss"] == pytest.approx(0.5 * TD**2, rel=1e-4)
    assert metrics["v_loss"] == pytest.approx(0.5 * (0.6 - Q) ** 2, rel=1e-5)
    assert (metrics["q"], metrics["v"]) == (pytest.approx(Q), pytest.approx(0.6))
    assert metrics["temperature"] == 1.0
    regulariser = 1e-3 * (LOC**2 + 20.0**2)
    assert metrics["policy_loss"] == pytest.approx(-metrics["entropy"] - Q + regulariser, rel=1e-5)


def test_gradient_of_q_by_hand():
    learner = make_learner(variant="virel")
    update(learner)
    to_observation, to_bias, to_action, to_output, to_output_bias = gradients(learner.q_optimiser)
    # dJ/dQ = Q - target, and nothing from J^pi or J^V
    np.testing.assert_allclose(to_output_bias, [-TD], rtol=1e-4)
    np.testing.assert_allclose(to_output, [[-TD * 3]], rtol=1e-4)
    np.testing.assert_allclose(to_bias, [-TD * 0.5], rtol=1e-4)
    np.testing.assert_allclose(to_observation, [[-TD * 0.5 * 2]], rtol=1e-4)
    np.testing.assert_allclose(to_action, [[-TD * 0.5 * 0.5]], rtol=1e-4)


def test_gradient_of_v_by_hand():
    learner = make_learner(variant="virel")
    update(learner)
    to_kernel, to_bias, to_output, to_output_bias = gradients(learner.v_optimiser)
    error = 0.6 - Q
    np.testing.assert_allclose(to_output_bias, [error], rtol=1e-5)
    np.testing.assert_allclose(to_output, [[error * 2]], rtol=1e-5)
    np.testing.assert_allclose(to_bias, [error * 0.3], rtol=1e-5)
    np.testing.assert_allclose(to_kernel, [[error * 0.3 * 2]], rtol=1e-5)


@pytest.mark.parametrize("variant, temperature", [("virel", 1.0), ("beta", 4e-3 * TD**2)])
def test_gradient_of_the_policy_by_hand(variant, temperature):
    learner = make_learner(variant=variant)
    know_epsilon(learner, TD**2)
    assert update(learner)["temperature"] == pytest.approx(temperature, rel=1e-4)
    to_loc, to_log_scale = gradients(learner.policy_optimiser)[3]
    # d log pi / d loc = 2 tanh(loc) = 1; dQ/da = 0.5 * 2, da/dloc = 1 - 0.5^2; and the regulariser.
    assert to_loc == pytest.approx(temperature * 1.0 - 0.75 + 2e-3 * LOC, rel=1e-4)
    assert to_log_scale == 0.0  # clipped at -20


def test_termination_ends_the_bootstrap():
    assert update(make_learner(variant="virel", terminated=1.0))["q_loss"] == pytest.approx(
        0.5 * (1 - Q) ** 2
    )


def test_reward_scale_multiplies_the_reward_alone():
    metrics = update(make_learner(variant="virel", reward_scale=5.0))
    assert metrics["q_loss"] == pytest.approx(0.5 * (5 + 0.99 * 0.6 - Q) ** 2, rel=1e-5)


def test_adam_and_polyak_move_by_hand():
    learner = make_learner(variant="virel", tau=0.1)
    update(learner)
    # Adam's first step is learning_rate * sign(gradient).
    v, target_v = learner.critics.vs[0], learner.critics.target_vs[0]
    np.testing.assert_allclose(v.trainable_variables[2].numpy(), [[0.3 + 3e-4]], rtol=1e-5)
    np.testing.assert_allclose(
        target_v.trainable_variables[2].numpy(), [[0.2 + 0.1 * (0.3 + 3e-4 - 0.2)]], rtol=1e-5
    )


def test_an_update_leaves_its_residual_for_the_next_one():
    learner = make_learner(variant="beta")
    assert update(learner)["epsilon"] == 0.0
    assert float(learner.temperature.residual.mean) == pytest.approx(TD**2, rel=1e-4)
    assert update(learner)["temperature"] == pytest.approx(4e-3 * TD**2, rel=1e-4)


def test_the_papers_epsilon_is_that_of_the_parameters_before_the_update():
    assert update(make_learner(variant="beta", epsilon_estimator="buffer"))[
        "epsilon"
    ] == pytest.approx(TD**2, rel=1e-4)


@pytest.mark.parametrize("estimator", ["running", "buffer"])
def test_epsilon_may_use_the_online_v(estimator):
    learner = make_learner(variant="beta", epsilon_value="online", epsilon_estimator=estimator)
    first = update(learner)["epsilon"]
    found = first if estimator == "buffer" else float(learner.temperature.residual.mean)
    assert found == pytest.approx((1 + 0.99 * 0.9 - Q) ** 2, rel=1e-5)


@pytest.mark.parametrize(
    "warmup, temperature", [("alpha", 0.7), ("one", 4e-3), ("none", 4e-3 * 0.5)]
)
def test_warmup_before_the_samples_are_there(warmup, temperature):
    for samples, expected in ((1, 4e-3 * 0.5), (2, temperature)):  # one transition was seen
        learner = make_learner(
            variant="beta", epsilon_warmup=warmup, alpha=0.7, epsilon_samples=samples
        )
        know_epsilon(learner, 0.5)
        assert update(learner)["temperature"] == pytest.approx(expected, rel=1e-4)


def test_lambda_from_rewards_replaces_the_constant():
    learner = make_learner(variant="beta", lambda_rule="rewards")
    know_epsilon(learner, TD**2)
    metrics = update(learner)
    assert metrics["lambda"] == pytest.approx(0.01)  # (1 - 0.99) / 1
    assert metrics["temperature"] == pytest.approx(0.01 * TD**2, rel=1e-4)


def test_relative_lambda_holds_the_temperature_at_alpha():
    learner = make_learner(variant="beta", lambda_rule="relative", alpha=0.7)
    know_epsilon(learner, 3.0)
    # epsilon is half of what it used to be
    learner.temperature.factor.history.update(tf.constant(6.0))
    metrics = update(learner)
    assert metrics["lambda"] == pytest.approx(0.7 / 6.0)
    assert metrics["temperature"] == pytest.approx(0.35)


@pytest.mark.parametrize(
    "flags", [dict(), dict(epsilon_warmup="one"), dict(epsilon_estimator="buffer")]
)
def test_relative_lambda_starts_at_alpha(flags):
    learner = make_learner(variant="beta", lambda_rule="relative", alpha=0.7, **flags)
    assert update(learner)["temperature"] == pytest.approx(0.7)


@pytest.mark.parametrize(
    "flags, start",
    [
        (dict(variant="sac", temperature="learned", alpha=0.5), 0.5),
        (dict(variant="beta", lambda_rule="entropy"), 4e-3),
    ],
)
def test_a_learned_factor_moves_against_the_distance_to_the_target_entropy(flags, start):
    learner = make_learner(**flags, target_entropy=-2.0, temperature_learning_rate=0.01)
    metrics = update(learner)  # with a deviation of exp(-20) the entropy is far below -2
    factor = learner.temperature.factor
    assert float(tf.exp(factor.logarithm)) == pytest.approx(start * math.exp(0.01), rel=1e-4)
    assert gradients(factor.optimiser)[0] == pytest.approx(metrics["entropy"] + 2.0, rel=1e-4)


@pytest.mark.parametrize("samples, step", [(1, 3e-4), (2, 0.0)])  # one transition was seen
def test_a_learned_lambda_waits_while_the_temperature_is_alpha(samples, step):
    learner = make_learner(variant="beta", lambda_rule="entropy", epsilon_samples=samples)
    update(learner)
    assert float(learner.temperature.factor.logarithm) == pytest.approx(
        math.log(4e-3) + step, abs=1e-6
    )


def test_two_hard_critics_enter_epsilon_each_or_by_their_minimum():
    for how, expected in (
        ("each", (TD**2 + (TARGET - 1.2) ** 2) / 2),
        ("minimum", (TARGET - 1.2) ** 2),
    ):
        learner = make_learner(variant="virel1", temperature="scaled_residual", epsilon_critics=how)
        learner.critics.qs[1].output_layer.kernel.assign([[0.4]])  # Q_2 = 1.2
        update(learner)
        assert float(learner.temperature.residual.mean) == pytest.approx(expected, rel=1e-4)


def test_n_step_target_by_hand_and_epsilon_of_the_one_step_operator():
    learner = make_learner(variant="virel", n_step=2)
    # A second step from s' = 3 with reward 4 to s'' = 5; the first transition spans both.
    learner.replay.append(
        Rows(
            np.array([0]),
            np.array([[3.0]], np.float32),
            np.array([[0.5]], np.float32),
            np.array([4.0], np.float32),
            np.array([0.0], np.float32),
            np.array([True]),
        ),
        np.array([[5.0]], np.float32),
    )
    older = learner.replay.view()._replace(count=tf.constant([1]))  # draw the older one alone
    learner.update(older, tf.constant(0), tf.constant(1), tf.constant(1.0))
    target = 1 + 0.99 * 4 + 0.99**2 * 0.2 * 5
    assert gradients(learner.q_optimiser)[-1] == pytest.approx(Q - target, rel=1e-4)
    # of the one-step operator
    assert float(learner.temperature.residual.mean) == pytest.approx(TD**2, rel=1e-4)


def test_score_function_gradient_by_hand():
    """(temperature log pi - (Q - V-bar)) d log pi / d loc.

    The action is the one this seed draws, held fixed.
    """
    learner = make_learner(variant="virel", e_step="score", policy_regulariser=0.0)
    learner.policy.output_layer.bias.assign([LOC, -1.0])
    seed = stream_seed(1, ACTION, tf.constant(0))
    action = float(
        squashed_gaussian(tf.constant([[LOC]]), tf.constant([[-1.0]])).sample(seed=seed)[0, 0]
    )
    scale, before_tanh = math.exp(-1.0), math.atanh(action)
    noise = (before_tanh - LOC) / scale
    log_prob = -(noise**2) / 2 + 1.0 - math.log(2 * math.pi) / 2 - math.log(1 - action**2)
    weight = log_prob - (0.5 * max(2 + 2 * action, 0) - 0.2 * 2)
    update(learner)
    to_loc, to_log_scale = gradients(learner.policy_optimiser)[3]
    assert to_loc == pytest.approx(weight * noise / scale, rel=1e-3)
    assert to_log_scale == pytest.approx(weight * (noise**2 - 1), rel=1e-3)


def test_expected_policy_gradient_by_hand():
    """Q(s, tanh x) = 0.5 (2 + 2 tanh x).

    Slope 1 - t^2 at t = tanh(loc) = 0.5, curvature from both sides of it.
    """
    learner = make_learner(variant="virel", e_step="expected", policy_regulariser=0.0, alpha=0.3)
    learner.policy.output_layer.bias.assign([LOC, -1.0])
    update(learner)
    to_loc, to_log_scale = gradients(learner.policy_optimiser)[3]
    scale, slope = math.exp(-1.0), 0.75
    curvature = (math.tanh(LOC + scale) + math.tanh(LOC - scale) - 2 * 0.5) / scale**2
    # H = log scale + log(1 - t^2) - scale^2 (1 - t^2), up to a constant.
    assert to_loc == pytest.approx(-slope - 0.3 * (-2 * 0.5 + 2 * 0.5 * slope * scale**2), rel=1e-4)
    assert to_log_scale == pytest.approx(
        -curvature * scale**2 - 0.3 * (1 - 2 * slope * scale**2), rel=1e-4
    )


def test_fused_updates_are_single_updates():
    fused, single = (make_learner(variant="beta", steps_per_iteration=20) for _ in range(2))
    metrics = fused.update(
        fused.replay.view(), tf.constant(0), tf.constant(1), tf.constant(1.0)
    ).numpy()
    for done in range(20):
        one = single.update_once(
            single.replay.view(), tf.constant(done), tf.constant(1), tf.constant(1.0)
        )
        np.testing.assert_allclose(
            metrics[done], [one[name] for name in METRICS], rtol=1e-4, atol=1e-6
        )
    for name, variable in fused.state().items():
        np.testing.assert_allclose(
            variable.numpy(), single.state()[name].numpy(), rtol=1e-5, atol=1e-6, err_msg=name
        )


def test_state_round_trip_is_bitwise():
    learner = make_learner(variant="beta")
    update(learner)
    saved = {name: variable.numpy() for name, variable in learner.state().items()}
    update(learner)
    other = make_learner(variant="beta")
    other.load_state(saved)
    update(other)
    for name, variable in learner.state().items():
        np.testing.assert_array_equal(variable.numpy(), other.state()[name].numpy(), err_msg=name)


def test_observation_statistics_are_part_of_the_state_and_reach_the_networks():
    learner = make_learner(variant="virel", normalise_observations=True)
    learner.update_statistics(np.array([[1.0], [3.0]], np.float32))  # mean 2, deviation 1
    assert sum("normaliser" in name for name in learner.state()) == 3
    # s = 2 becomes 0, s' = 3 becomes 1: Q = 0.5 relu(2 * 0.5), target 1 + 0.99 * 0.2 * 1.
    assert update(learner)["q_loss"] == pytest.approx(0.5 * (1.198 - 0.5) ** 2, rel=1e-4)
