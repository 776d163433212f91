"""Batch normalisation in critics and policy.

Statistics, gradients and modes, by hand and by the plain formulas.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from small_networks import NETWORKS, batch_of, inputs_of, make_learner, shaken, update

from virel_tf.networks.actor import Actor
from virel_tf.networks.critics import QNetwork
from virel_tf.networks.folding import without_batch_norm
from virel_tf.networks.layers import MOMENTUM, VARIANCE_EPSILON, BatchNorm
from virel_tf.networks.policies import sample


def normalised(x: np.ndarray) -> np.ndarray:
    """By the mean and the (biased) variance of the rows."""
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + VARIANCE_EPSILON)


@pytest.mark.parametrize("affine", [True, False])
def test_training_mode_is_by_the_batch_and_the_running_statistics_follow(affine):
    layer = BatchNorm("norm", affine)
    x = np.array([[1.0, 0.0], [3.0, 0.0], [8.0, 6.0]], np.float32)
    np.testing.assert_allclose(layer(x), normalised(x), rtol=1e-5)
    # One step of 0.01 from mean 0 and variance 1, with the unbiased variance: 13 of (1, 3, 8), 12
    # of (0, 0, 6).
    np.testing.assert_allclose(layer.mean.numpy(), [0.01 * 4, 0.01 * 2], rtol=1e-5)
    np.testing.assert_allclose(layer.variance.numpy(), [1 + 0.01 * 12, 1 + 0.01 * 11], rtol=1e-5)
    assert pytest.approx(0.99) == MOMENTUM
    layer(x, track=False)
    np.testing.assert_allclose(layer.mean.numpy(), [0.04, 0.02], rtol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_folded_network_gives_the_same_answers_with_a_plain_graph(name):
    network = shaken(NETWORKS[name]("batch"))
    folded = without_batch_norm(network)
    answers = tf.nest.flatten([network(*inputs_of(name))])
    for one, other in zip(answers, tf.nest.flatten([folded(*inputs_of(name))]), strict=True):
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    plain = NETWORKS[name]("none")
    assert [v.shape for v in folded.variables] == [v.shape for v in plain.variables]
    assert without_batch_norm(plain) is plain


@pytest.mark.parametrize("name", ["gaussian", "deterministic"])
def test_the_numpy_actor_is_the_policy_in_inference_mode(name):
    policy = shaken(NETWORKS[name]("batch"))
    observation = inputs_of(name)[0]
    np.testing.assert_allclose(
        Actor(policy).mean_action(observation), policy.mean_action(observation), atol=1e-6
    )


def test_inference_mode_is_by_the_running_statistics():
    """Q of one unit, worked out step by step: normalised input, dense, ReLU, normalised, dense."""
    q = shaken(QNetwork(1, 1, hidden=1, layers=1, seed=1, normalisation="batch"))
    norm = q.hidden.batch_norms[0]

    def by_hand(layer: BatchNorm, x: float) -> float:
        mean, variance = float(layer.mean[0]), float(layer.variance[0])
        scale, offset = (
            (float(layer.scale[0]), float(layer.offset[0])) if layer.affine else (1.0, 0.0)
        )
        return scale * (x - mean) / np.sqrt(variance + VARIANCE_EPSILON) + offset

    observation, action = 0.7, -0.4
    first = (
        by_hand(q.observation_norm, observation) * float(q.observation_layer.kernel[0, 0])
        + float(q.observation_layer.bias[0])
        + by_hand(q.action_norm, action) * float(q.action_layer.kernel[0, 0])
    )
    expected = by_hand(norm, max(first, 0)) * float(q.output_layer.kernel[0, 0]) + float(
        q.output_layer.bias[0]
    )
    assert float(
        q(np.array([[observation]], np.float32), np.array([[action]], np.float32))[0]
    ) == pytest.approx(expected, rel=1e-4)


def reference_q(q: QNetwork, observation: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Q in training mode, in the plain formulas."""

    def norm(layer: BatchNorm, x: tf.Tensor) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, [0])
        offset, scale = (layer.offset.value, layer.scale.value) if layer.affine else (None, None)
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, VARIANCE_EPSILON)

    x = q.observation_layer(norm(q.observation_norm, observation)) + q.action_layer(
        norm(q.action_norm, action)
    )
    x = norm(q.hidden.batch_norms[0], tf.nn.relu(x))
    x = norm(q.hidden.batch_norms[1], tf.nn.relu(q.hidden.dense[0](x)))
    return q.output_layer(x)[:, 0]


def test_the_critics_see_both_halves_as_one_batch_and_no_gradient_flows_through_the_second():
    learner = make_learner(variant="virel")
    batch, inputs = (
        batch_of(learner),
        learner._m_step_inputs(
            batch_of(learner), learner.temperature.running(tf.constant(1.0)), tf.constant(0)
        ),
    )
    observation = tf.concat([batch.observation, batch.next_observation], 0)
    action = tf.concat([batch.action, inputs.next_sample.action], 0)
    q_variables = [variable for q in learner.critics.qs for variable in q.trainable_variables]
    with tf.GradientTape() as tape:
        halves = [tf.split(reference_q(q, observation, action), 2) for q in learner.critics.qs]
        next_q = tf.stop_gradient(tf.minimum(halves[0][1], halves[1][1]))
        target = batch.reward + 0.99 * next_q
        loss = sum(0.5 * tf.reduce_mean(tf.square(here - target)) for here, _ in halves)
    expected = tape.gradient(loss, [variable.value for variable in q_variables])
    result = learner.m_step(inputs)
    assert float(result.loss) == pytest.approx(float(loss), rel=1e-4)
    for got, wanted in zip(result.gradients, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-5)


def test_each_critic_has_statistics_of_its_own_and_the_update_moves_them_once():
    learner = make_learner(variant="virel")
    batch = batch_of(learner)
    update(learner)
    both = np.concatenate([batch.observation, batch.next_observation])
    for q in learner.critics.qs:
        np.testing.assert_allclose(
            q.observation_norm.mean.numpy(), 0.01 * both.mean(axis=0), rtol=1e-4
        )
    first, second = (q.hidden.batch_norms[0].mean.numpy() for q in learner.critics.qs)
    assert np.abs(first - second).max() > 1e-4


def test_the_e_step_sees_the_critics_in_inference_mode_and_moves_the_policys_statistics():
    """-Q is the loss where the temperature is 0.

    Q by the running statistics that the M-step left.
    """
    learner = make_learner(variant="virel", alpha=0.0)
    batch = batch_of(learner)
    copy = make_learner(variant="virel", alpha=0.0)
    metrics = update(learner)
    inputs = copy._m_step_inputs(batch, copy.temperature.running(tf.constant(1.0)), tf.constant(0))
    copy.m_step(inputs)  # moves the statistics of the critics, and no weight
    seed = tf.constant([4 * copy.config.seed + 1, 0])
    drawn = sample(copy.policy, batch.observation, seed, training=True)
    q = tf.minimum(*(q(batch.observation, drawn.action) for q in copy.critics.qs))
    assert metrics["policy_loss"] == pytest.approx(-float(tf.reduce_mean(q)), rel=1e-4)
    np.testing.assert_allclose(
        learner.policy.hidden.input_norm.mean.numpy(),
        0.01 * batch.observation.numpy().mean(axis=0),
        rtol=1e-4,
    )


def test_next_actions_come_from_the_policy_in_inference_mode():
    learner = make_learner(variant="td3", target_noise_sigma=0.0)
    shaken(learner.policy)
    batch = batch_of(learner)
    inputs = learner._m_step_inputs(
        batch, learner.temperature.running(tf.constant(1.0)), tf.constant(0)
    )
    np.testing.assert_allclose(
        inputs.next_sample.action, learner.policy.mean_action(batch.next_observation), atol=1e-6
    )


def test_the_policy_moves_at_every_third_update_alone():
    learner = make_learner(variant="virel")
    assert learner.recipe.policy_period == 3
    moved = []
    for done in range(6):
        before = [variable.numpy() for variable in learner.policy_variables]
        metrics = update(learner, done)
        moved.append(
            any(
                (old != new.numpy()).any()
                for old, new in zip(before, learner.policy_variables, strict=True)
            )
        )
        if moved[-1]:
            newest = metrics["policy_loss"], metrics["entropy"]
        assert (metrics["policy_loss"], metrics["entropy"]) == newest  # of the newest E-step
    assert moved == [True, False, False, True, False, False]


def test_statistics_are_in_the_state_of_the_learner():
    learner = make_learner(variant="virel")
    update(learner)
    saved = {name: variable.numpy() for name, variable in learner.state().items()}
    update(learner, 1)
    other = make_learner(variant="virel", seed=2)
    other.load_state(saved)
    object.__setattr__(other.config, "seed", 1)
    # and the observations' own
    assert sum("norm" in name and "variance" in name for name in saved) == 4 * 2 + 3 + 1
    update(other, 1)
    for name, variable in learner.state().items():
        np.testing.assert_array_equal(variable.numpy(), other.state()[name].numpy(), err_msg=name)
