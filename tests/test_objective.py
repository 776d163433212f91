"""The paper's functions against numbers worked out by hand and against finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from virel_tf.networks.policies import log_density, squashed_gaussian
from virel_tf.objective.e_step import (
    E_STEPS,
    LEAST_WIDTH,
    EStepInputs,
    curvature_around,
    deterministic_loss,
    expected_q,
    expected_squashed_entropy,
    regulariser,
    reparametrised_loss,
    score_function_loss,
)
from virel_tf.objective.m_step import squared_error
from virel_tf.objective.residual import (
    lambda_from_rewards,
    residual_error,
    running_decay,
    running_mean,
)
from virel_tf.objective.targets import aligning_scale, hard, minimum, soft, td_target


def test_td_target_by_hand():
    target = td_target(
        tf.constant([1.0, 1.0]), tf.constant([0.0, 1.0]), tf.constant([10.0, 10.0]), 0.9
    )
    # 1 + 0.9 * 10; nothing after termination
    np.testing.assert_allclose(target, [10.0, 1.0], rtol=1e-6)


def test_targets_pass_gradients_that_the_direct_m_step_stops():
    value, temperature = tf.Variable([2.0]), tf.constant([0.5])
    with tf.GradientTape(persistent=True) as tape:
        target = td_target(
            tf.constant([1.0]), tf.constant([0.0]), soft(value, value, temperature), 0.9
        )
        loss = squared_error(tf.constant([3.0]), target)
    np.testing.assert_allclose(tape.gradient(target, value), [0.9 * (1 - 0.5)], rtol=1e-6)
    assert tape.gradient(loss, value) is None


def test_hard_and_soft_values_by_hand():
    q, log_prob = tf.constant([3.0, 1.0]), tf.constant([0.5, -2.0])
    np.testing.assert_allclose(hard(q, log_prob, tf.constant(2.0)), [3.0, 1.0])
    np.testing.assert_allclose(soft(q, log_prob, tf.constant(2.0)), [2.0, 5.0])
    np.testing.assert_allclose(
        soft(q, log_prob, tf.constant(0.0)), hard(q, log_prob, tf.constant(0.0))
    )


def test_the_gradient_of_the_minimum_goes_to_the_critic_that_has_it():
    first, second = tf.Variable([3.0, 1.0]), tf.Variable([2.0, 5.0])
    with tf.GradientTape() as tape:
        least = minimum([first, second])
    np.testing.assert_allclose(least, [2.0, 1.0])
    np.testing.assert_allclose(tape.gradient(least, [first, second]), [[0.0, 1.0], [1.0, 0.0]])


@given(st.floats(0.5, 20), st.floats(-1, 1), st.booleans())
@settings(max_examples=30, deadline=None)
def test_aligned_rewards_and_bonus_add_up_to_the_reward(reward, share, negative):
    reward = -reward if negative else reward
    bonus = 0.8 * share * reward
    scale = float(aligning_scale(tf.constant(reward), tf.constant(bonus)))
    assert scale * reward + bonus == pytest.approx(reward, rel=1e-4)


def test_the_aligning_scale_stays_within_bounds():
    assert float(aligning_scale(tf.constant(0.0), tf.constant(-1.0))) == 10.0
    assert float(aligning_scale(tf.constant(1.0), tf.constant(5.0))) == pytest.approx(0.1)


def test_squared_error_and_its_gradient_by_hand():
    prediction, target = tf.Variable([3.0, 1.0]), tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        loss = squared_error(prediction, target)
    assert float(loss) == pytest.approx(0.5 * (4 + 1) / 2)
    to_prediction, to_target = tape.gradient(loss, [prediction, target])
    np.testing.assert_allclose(to_prediction, [1.0, -0.5])  # (prediction - target) / 2
    assert to_target is None


def test_squared_error_rejects_shapes_that_would_broadcast():
    with pytest.raises(ValueError, match="shape"):
        squared_error(tf.zeros([3]), tf.zeros([3, 1]))


@pytest.mark.parametrize(
    "c, p, expected",
    [
        (2.0, 2.0, (9 + 1) / 2),  # Algorithm 2: the mean square
        (1.0, 2.0, (9 + 1) / 4),
        (1.0, 1.0, (3 + 1) / 2),  # the reward's units
        (3.0, 3.0, (27 + 1) / 2),
    ],
)
def test_residual_error_by_hand(c, p, expected):
    assert float(residual_error(tf.constant([-3.0, 1.0]), c, p)) == pytest.approx(expected)


@given(
    st.lists(st.floats(-50, 50), min_size=1, max_size=20), st.floats(0.1, 10), st.floats(0.1, 10)
)
@settings(max_examples=30, deadline=None)
def test_residual_error_scales_with_c_and_with_the_pth_power(errors, c, scale):
    errors = np.array(errors)
    one = float(residual_error(tf.constant(errors), 1.0, 2.0))
    assert float(residual_error(tf.constant(errors * scale), c, 2.0)) == pytest.approx(
        c * scale**2 * one, rel=1e-6
    )


def test_running_mean_is_exact_from_the_start_and_forgets_geometrically():
    mean, weight = tf.constant(0.0), tf.constant(0.0)
    mean, weight = running_mean(mean, weight, tf.constant(4.0), 0.5)
    assert (float(mean), float(weight)) == (4.0, 1.0)
    mean, weight = running_mean(mean, weight, tf.constant(1.0), 0.5)
    assert float(weight) == 1.5
    assert float(mean) == pytest.approx((1 + 0.5 * 4) / 1.5)


def test_running_decay_weighs_the_samples_asked_for():
    # 1 / (1 - decay) = 32 batches = 4096 transitions
    assert running_decay(128, 4096) == pytest.approx(31 / 32)
    assert running_decay(128, 100) == 0.0


def test_lambda_from_rewards_by_hand():
    assert float(lambda_from_rewards(tf.constant(2.5), 0.99)) == pytest.approx(0.004)
    assert math.isfinite(float(lambda_from_rewards(tf.constant(0.0), 0.99)))


def test_losses_of_the_policy_by_hand():
    inputs = EStepInputs(
        q=tf.constant([5.0, 7.0]),
        log_prob=tf.constant([1.0, 2.0]),
        log_prior=tf.constant([0.0, 0.0]),
        value=tf.constant([4.0, 4.0]),
        temperature=tf.constant(0.5),
    )
    assert float(reparametrised_loss(inputs)) == pytest.approx((-4.5 - 6.0) / 2)
    # log pi (0.5 log pi - (q - v)): 1 * (0.5 - 1) and 2 * (1 - 3)
    assert float(score_function_loss(inputs)) == pytest.approx((-0.5 - 4.0) / 2)
    assert float(deterministic_loss(inputs)) == -6.0
    prior = inputs._replace(log_prior=tf.constant([1.0, 4.0]))  # log ratios of 0 and -2
    assert float(reparametrised_loss(prior)) == pytest.approx((-5.0 - 8.0) / 2)
    assert float(score_function_loss(prior)) == pytest.approx((-1.0 - 8.0) / 2)


def test_score_function_moves_nothing_but_log_prob():
    inputs = EStepInputs(*(tf.Variable([x]) for x in (5.0, 1.0, 0.2, 4.0, 0.5)))
    with tf.GradientTape() as tape:
        loss = score_function_loss(inputs)
    to_q, to_log_prob, *others = tape.gradient(loss, list(inputs))
    assert float(to_log_prob[0]) == pytest.approx(0.5 * 0.8 - 1.0)
    assert [to_q, *others] == [None] * 4


def test_reparametrised_loss_does_not_train_the_temperature():
    temperature = tf.Variable(0.5)
    with tf.GradientTape() as tape:
        loss = reparametrised_loss(
            EStepInputs(*(tf.constant([x]) for x in (5.0, 1.0, 0.0, 0.0)), temperature)
        )
    assert tape.gradient(loss, temperature) is None


def test_regulariser_by_hand():
    assert float(
        regulariser(tf.constant([[1.0, 3.0]]), tf.constant([[2.0, 0.0]]), 1e-3)
    ) == pytest.approx(7e-3)


def e_step_gradient_by_quadrature(loc, log_scale, temperature, step=1e-5):
    """d/d(loc, log_scale) of E[temperature log pi - Q] for Q(a) = a - a^2.

    In float64, by quadrature and differences.
    """
    noise = np.linspace(-9, 9, 200_001)
    weight = np.exp(-(noise**2) / 2) / math.sqrt(2 * math.pi) * (noise[1] - noise[0])

    def objective(loc, log_scale):
        action = np.tanh(loc + np.exp(log_scale) * noise)
        log_prob = -(noise**2) / 2 - log_scale - math.log(2 * math.pi) / 2 - np.log1p(-(action**2))
        return np.sum(weight * (temperature * log_prob - (action - action**2)))

    return np.array(
        [
            (objective(loc + step, log_scale) - objective(loc - step, log_scale)) / (2 * step),
            (objective(loc, log_scale + step) - objective(loc, log_scale - step)) / (2 * step),
        ]
    )


@pytest.mark.parametrize("estimator", ["reparametrised", "score"])
def test_e_steps_are_the_gradient_of_equation_6(estimator):
    """Both estimators, averaged over many samples, against the exact gradient (equation 6)."""
    samples, loc, log_scale, temperature = 400_000, 0.3, -0.7, 0.4
    parameters = tf.Variable(tf.tile([[loc, log_scale]], [samples, 1]))
    with tf.GradientTape() as tape:
        distribution = squashed_gaussian(parameters[:, :1], parameters[:, 1:])
        action, log_prob = distribution.experimental_sample_and_log_prob(seed=[1, 2])
        if estimator == "score":
            action = tf.stop_gradient(action)
            log_prob = distribution.log_prob(action)
        q = (action - action**2)[:, 0]
        loss = E_STEPS[estimator].loss(
            EStepInputs(
                q, log_prob, tf.zeros([samples]), tf.fill([samples], 0.1), tf.constant(temperature)
            )
        )
    per_sample = tape.gradient(loss, parameters).numpy().astype(np.float64) * samples
    standard_error = per_sample.std(axis=0) / math.sqrt(samples)
    exact = e_step_gradient_by_quadrature(loc, log_scale, temperature)
    assert (np.abs(per_sample.mean(axis=0) - exact) < 4 * standard_error + 1e-5).all()
    assert (standard_error < 0.02).all()


@pytest.mark.parametrize("log_scale", [-0.7, -3.0])
def test_expected_q_is_exact_for_a_quadratic(log_scale):
    """Q(x) = 2 + 3 x - 4 x^2 under N(0.3, scale^2).

    Value and gradient against quadrature and differences.
    """
    noise = np.linspace(-9, 9, 20_001)
    weight = np.exp(-(noise**2) / 2) / math.sqrt(2 * math.pi) * (noise[1] - noise[0])

    def exact(loc, log_scale):
        x = loc + np.exp(log_scale) * noise
        return np.sum(weight * (2 + 3 * x - 4 * x**2))

    loc, scale = (
        tf.Variable([[0.3]], dtype=tf.float64),
        tf.Variable([[log_scale]], dtype=tf.float64),
    )
    with tf.GradientTape() as tape:
        q = (2 + 3 * loc - 4 * loc**2)[:, 0]
        value = expected_q(q, tf.constant([[-8.0]], tf.float64), tf.exp(scale))
    to_loc, to_scale = (float(gradient[0, 0]) for gradient in tape.gradient(value, [loc, scale]))
    assert float(value[0]) == pytest.approx(exact(0.3, log_scale), rel=1e-6)
    assert to_loc == pytest.approx(
        (exact(0.3 + 1e-4, log_scale) - exact(0.3 - 1e-4, log_scale)) / 2e-4, rel=1e-6
    )
    assert to_scale == pytest.approx(
        (exact(0.3, log_scale + 1e-4) - exact(0.3, log_scale - 1e-4)) / 2e-4, rel=1e-6
    )


def test_curvature_is_exact_for_a_quadratic_and_sees_the_bend_of_relus():
    """Of -x_1^2 + 3 x_1 x_2 it is (-2, 0) anywhere.

    |x_2| is higher by w on both sides of 0 at a distance w: 2 / w.
    """
    loc = tf.constant([[0.3, 0.0], [-1.0, 0.0], [2.0, 0.0]])
    scale = tf.constant([[0.5, 0.25], [1.0, 0.5], [1e-9, 1e-9]])
    of_quadratic = curvature_around(lambda x: -(x[:, 0] ** 2) + 3 * x[:, 0] * x[:, 1], loc, scale)
    np.testing.assert_allclose(of_quadratic[:2], [[-2, 0], [-2, 0]], atol=1e-4)
    of_bend = curvature_around(
        lambda x: tf.nn.relu(x[:, 1]) + tf.nn.relu(-x[:, 1]) - 5 * x[:, 0], loc, scale
    )
    np.testing.assert_allclose(of_bend[:, 1], [2 / 0.25, 2 / 0.5, 2 / LEAST_WIDTH], rtol=1e-4)


@pytest.mark.parametrize("loc", [-4.0, 0.0, 0.6, 30.0])
def test_expected_entropy_of_a_narrow_squashed_gaussian(loc):
    """Against the average of -log pi over many draws.

    The expansion leaves out the fourth power of the scale.
    """
    distribution = squashed_gaussian(
        tf.fill([200_000, 1], tf.constant(loc, tf.float64)),
        tf.fill([200_000, 1], tf.constant(-3.0, tf.float64)),
    )
    x = distribution.distribution.sample(seed=[1, 2])
    drawn = -log_density(distribution, x).numpy()
    closed = float(
        expected_squashed_entropy(
            tf.constant([[loc]], tf.float64), tf.constant([[-3.0]], tf.float64)
        )[0]
    )
    assert closed == pytest.approx(drawn.mean(), abs=4 * drawn.std() / math.sqrt(len(drawn)) + 1e-5)


def test_printed_policy_objective_leaves_the_temperature_without_effect():
    """The appendix's J^pi as a score function.

    Its alpha term averages to nothing (docs/errata.md).
    """
    samples = 400_000
    parameters = tf.Variable(tf.tile([[0.3, -0.7]], [samples, 1]))
    with tf.GradientTape() as tape:
        distribution = squashed_gaussian(parameters[:, :1], parameters[:, 1:])
        log_prob = distribution.log_prob(tf.stop_gradient(distribution.sample(seed=[3, 4])))
        loss = tf.reduce_sum(log_prob)  # the factor of alpha
    per_sample = tape.gradient(loss, parameters).numpy().astype(np.float64)
    assert (np.abs(per_sample.mean(axis=0)) < 4 * per_sample.std(axis=0) / math.sqrt(samples)).all()
