"""Networks, optimiser and observation statistics, each against its definition."""

from __future__ import annotations

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from virel_tf.config import Config
from virel_tf.networks.actor import Actor
from virel_tf.networks.adam import FusedAdam
from virel_tf.networks.critics import QNetwork, ValueNetwork
from virel_tf.networks.layers import INITIAL_WEIGHTS
from virel_tf.networks.policies import Policy, sample, squashed_gaussian
from virel_tf.run_folder.policies import read_policy, save_policy


def make_policy(seed: int = 1, statistics: bool = False, **settings) -> Policy:
    policy = Policy(5, 3, hidden=16, layers=2, seed=seed, **settings)
    policy.output_layer.kernel.assign(
        np.random.default_rng(seed).normal(size=policy.output_layer.kernel.shape)
    )
    if statistics:
        policy.normaliser.update(
            tf.constant(np.random.default_rng(0).normal(2, 3, [50, 5]), tf.float32)
        )
    return policy


def test_log_prob_of_the_squashed_gaussian_by_hand():
    loc, log_scale, action = 0.2, -0.5, 0.4
    noise = (math.atanh(action) - loc) / math.exp(log_scale)
    expected = -(noise**2) / 2 - log_scale - math.log(2 * math.pi) / 2 - math.log(1 - action**2)
    got = squashed_gaussian(
        tf.constant([[loc, loc]]), tf.constant([[log_scale, log_scale]])
    ).log_prob([[action, action]])
    assert float(got[0]) == pytest.approx(2 * expected, rel=1e-5)


@pytest.mark.parametrize("statistics", [False, True])
def test_the_actor_acts_as_the_policy_does(statistics):
    policy = make_policy(statistics=statistics)
    actor = Actor(policy)
    observation = np.random.default_rng(3).normal(1, 2, [40, 5]).astype(np.float32)
    np.testing.assert_allclose(
        actor.mean_action(observation), policy.mean_action(observation), atol=1e-6
    )
    noise = np.random.default_rng(4).normal(size=[40, 3]).astype(np.float32)
    loc, log_scale = policy(policy.normaliser(observation))
    np.testing.assert_allclose(
        actor.sample_action(observation, noise), tf.tanh(loc + tf.exp(log_scale) * noise), atol=1e-6
    )


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "silu"])
def test_the_actor_knows_every_activation(activation):
    policy = make_policy(activation=activation)
    observation = np.random.default_rng(3).normal(0, 3, [40, 5]).astype(np.float32)
    np.testing.assert_allclose(
        Actor(policy).mean_action(observation), policy.mean_action(observation), atol=1e-5
    )


def test_a_deterministic_policy_acts_its_mean_whatever_the_noise():
    policy = make_policy(deterministic=True)
    observation = np.random.default_rng(3).normal(size=[4, 5]).astype(np.float32)
    drawn = sample(policy, tf.constant(observation), tf.constant([1, 2]))
    np.testing.assert_allclose(drawn.action, policy.mean_action(observation))
    np.testing.assert_allclose(
        Actor(policy).sample_action(observation, np.ones([4, 3])), drawn.action, atol=1e-6
    )
    assert drawn.log_scale is None and not drawn.log_prob.numpy().any()


def test_layer_normalisation_makes_q_blind_to_the_scale_of_its_first_layer():
    plain, normed = (
        QNetwork(4, 2, hidden=32, layers=2, seed=1, normalisation=kind)
        for kind in ("none", "layer")
    )
    observation, action = tf.ones([1, 4]), tf.ones([1, 2])
    values = []
    for q in (plain, normed):
        before = q(observation, action).numpy()
        for variable in (*q.observation_layer.weights, *q.action_layer.weights):
            variable.assign(100 * variable)
        values.append((before, q(observation, action).numpy()))
    assert abs(values[0][1] - values[0][0]) > 10 * abs(values[0][0])
    np.testing.assert_allclose(*values[1], rtol=0.02)  # up to the epsilon inside the normalisation


def test_the_actor_follows_the_policy_only_when_refreshed():
    policy, observation = make_policy(), np.ones([5], np.float32)
    actor = Actor(policy)
    before = actor.mean_action(observation)
    policy.output_layer.bias.assign(np.ones(6))
    np.testing.assert_array_equal(actor.mean_action(observation), before)
    actor.refresh()
    np.testing.assert_allclose(
        actor.mean_action(observation), policy.mean_action(observation[None])[0], atol=1e-6
    )


def test_a_saved_policy_brings_its_statistics_along(tmp_path):
    policy, other = make_policy(seed=1, statistics=True), make_policy(seed=2)
    q, other_q = (QNetwork(5, 3, hidden=8, layers=2, seed=seed, name="q0") for seed in (1, 2))
    save_policy(tmp_path / "policies" / "best.npz", policy, 7, [q])
    saved = read_policy(tmp_path / "policies" / "best.npz")
    saved.restore(other)
    saved.restore(other_q)
    assert saved.step == 7
    observation = np.ones([1, 5], np.float32)
    np.testing.assert_array_equal(policy.mean_action(observation), other.mean_action(observation))
    np.testing.assert_array_equal(
        q(observation, np.ones([1, 3])), other_q(observation, np.ones([1, 3]))
    )


def test_a_fingerprint_is_of_the_weights_alone(tmp_path):
    policy = make_policy(seed=1)
    save_policy(tmp_path / "one.npz", policy, step=7)
    save_policy(tmp_path / "two.npz", policy, step=8)
    policy.output_layer.bias.assign(np.full(6, 0.5))
    save_policy(tmp_path / "three.npz", policy, step=8)
    one, two, three = (
        read_policy(tmp_path / f"{name}.npz").fingerprint for name in ("one", "two", "three")
    )
    assert one == two != three


def test_normaliser_has_the_moments_of_all_it_saw():
    normaliser = make_policy().normaliser
    data = np.random.default_rng(0).normal(5, 3, [90, 5]).astype(np.float32)
    # the identity until it has seen something
    np.testing.assert_array_equal(normaliser(data), data)
    for part in np.split(data, [10, 11, 50]):
        normaliser.update(tf.constant(part))
    np.testing.assert_allclose(normaliser.mean.numpy(), data.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(normaliser.variance.numpy(), data.var(axis=0), rtol=1e-4)
    np.testing.assert_allclose(
        normaliser(data), (data - data.mean(axis=0)) / data.std(axis=0), atol=1e-4
    )


def test_fused_adam_is_keras_adam():
    start = np.random.default_rng(0).normal(size=[4]).astype(np.float32)
    ours, theirs = tf.Variable(start), keras.Variable(start)
    fused, reference = FusedAdam([ours], 0.01), keras.optimizers.Adam(0.01, epsilon=1e-8)
    reference.build([theirs])
    for step in range(20):
        gradient = tf.constant(np.random.default_rng(step + 1).normal(size=[4]).astype(np.float32))
        fused.apply([gradient])
        reference.apply([gradient], [theirs])
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)


@pytest.mark.parametrize("initial_weights, gain", [("glorot", 64), ("he_uniform", 32)])
def test_uniform_weights_fill_their_bounds_also_where_a_layer_has_two_parts(initial_weights, gain):
    """sqrt(6 / (inputs + units)) or sqrt(6 / inputs); with 32 inputs and units, sqrt(6 / gain)."""
    one, same, other = (
        QNetwork(30, 2, hidden=32, layers=2, seed=seed, initial_weights=initial_weights)
        for seed in (1, 1, 2)
    )
    for layer in (one.observation_layer, one.action_layer, one.hidden.dense[0]):
        assert 0.9 < np.abs(layer.kernel).max() / math.sqrt(6 / gain) <= 1
    assert np.abs(one.output_layer.kernel).max() <= math.sqrt(6 / 33)
    for name in ("observation_layer", "action_layer", "output_layer"):
        kernel, equal, different = (getattr(q, name).kernel.numpy() for q in (one, same, other))
        assert np.array_equal(kernel, equal) and not np.array_equal(kernel, different)
    assert not any(variable.numpy().any() for variable in one.weights if variable.name == "bias")


def test_orthogonal_weights_are_sqrt_2_times_orthonormal_also_where_a_layer_has_two_parts():
    q = QNetwork(5, 3, hidden=16, layers=2, seed=1, initial_weights="orthogonal")
    first = np.concatenate([q.observation_layer.kernel, q.action_layer.kernel])
    np.testing.assert_allclose(first @ first.T, 2 * np.eye(8), atol=1e-5)
    second, output = q.hidden.dense[0].kernel.numpy(), q.output_layer.kernel.numpy()
    np.testing.assert_allclose(second @ second.T, 2 * np.eye(16), atol=1e-5)
    np.testing.assert_allclose(output.T @ output, [[2.0]], rtol=1e-5)
    for network in (
        ValueNetwork(5, hidden=16, layers=2, seed=1, initial_weights="orthogonal"),
        Policy(5, 3, hidden=16, layers=2, seed=1, initial_weights="orthogonal"),
    ):
        first = network.hidden.dense[0].kernel.numpy()
        np.testing.assert_allclose(first @ first.T, 2 * np.eye(5), atol=1e-5)


def test_the_flag_offers_the_initial_weights_there_are():
    assert Config.__dataclass_fields__["initial_weights"].metadata["choices"] == tuple(
        INITIAL_WEIGHTS
    )
