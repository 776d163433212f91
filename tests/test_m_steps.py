"""M-steps of training: by hand on networks of one unit.

Also as estimators of the exact gradients of finite MDPs.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tabular_problems import TanhQ, problem_and_q
from tiny_learner import Q, gradients, know_epsilon, make_learner, update

from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.objective.boltzmann import boltzmann, importance_weights
from virel_tf.objective.climb import climb
from virel_tf.objective.m_step import full_elbo, gtd2, projection_step, residual_gradient, tdc
from virel_tf.objective.residual import residual_error, residual_slope
from virel_tf.theory import gradients as exact
from virel_tf.theory.mdp import FiniteMDP, backup

# On the networks of test_learner.py: Q(s', a') = 0.5 (3 + 2 * 0.5) = 2, so beta = 1 + 0.99 * 2 -
# 1.5.
BETA = 1 + 0.99 * 2 - Q
# The gradients of Q(s, a) with respect to its action weight and its last weight, and those of Q(s',
# a').
ACTION_WEIGHT, LAST_WEIGHT = 2, 3
B, B_NEXT = {ACTION_WEIGHT: 0.25, LAST_WEIGHT: 3.0}, {ACTION_WEIGHT: 0.25, LAST_WEIGHT: 4.0}
GRAD_BETA = {weight: 0.99 * B_NEXT[weight] - B[weight] for weight in B}


def q_gradients(learner) -> dict[int, float]:
    return {weight: float(gradients(learner.q_optimiser)[weight].item()) for weight in B}


def approx(values: dict[int, float]):
    return pytest.approx(values, rel=1e-4)


def test_residual_gradient_by_hand():
    learner = make_learner(variant="virel", m_step="residual")
    assert update(learner)["q_loss"] == pytest.approx(0.5 * BETA**2, rel=1e-5)
    assert q_gradients(learner) == approx({weight: BETA * GRAD_BETA[weight] for weight in B})


@pytest.mark.parametrize("m_step", ["gtd2", "tdc"])
def test_projected_gradient_by_hand(m_step):
    learner = make_learner(variant="virel", m_step=m_step)
    learner.m_step.zeta[LAST_WEIGHT].assign([[0.1]])
    fitted = 0.1 * B[LAST_WEIGHT]
    update(learner)
    # The derivative of `fitted`, which is 0.1 relu(s + 2 a), is that of its relu.
    curved = {ACTION_WEIGHT: (BETA - fitted) * 0.1 * 0.5, LAST_WEIGHT: 0.0}
    first = {
        weight: (
            fitted * GRAD_BETA[weight]
            if m_step == "gtd2"
            else 0.99 * fitted * B_NEXT[weight] - BETA * B[weight]
        )
        for weight in B
    }
    assert q_gradients(learner) == approx({weight: first[weight] + curved[weight] for weight in B})
    zeta = gradients(learner.m_step.optimiser)
    assert {weight: float(zeta[weight].item()) for weight in B} == approx(
        {weight: -(BETA - fitted) * B[weight] for weight in B}
    )


def test_full_elbo_gradient_by_hand():
    """All actions at s' are the same, so pi_omega has no variance and no recursion.

    C = 2 makes the slope 2 beta.
    """
    learner = make_learner(variant="virel", m_step="elbo")
    know_epsilon(learner, 0.5)
    update(learner)
    assert q_gradients(learner) == approx(
        {weight: Q * 2 * BETA * GRAD_BETA[weight] - 0.5 * B[weight] for weight in B}
    )


@pytest.mark.parametrize(
    "settings",
    [dict(), dict(n_step=2), dict(epsilon_value="online"), dict(epsilon_estimator="buffer")],
    ids=str,
)
@pytest.mark.parametrize("m_step", ["residual", "gtd2", "tdc", "elbo"])
def test_epsilon_is_of_the_operator_whose_residual_the_m_step_brings_down(m_step, settings):
    learner = make_learner(variant="beta", m_step=m_step, **settings)
    fresh = update(learner)["epsilon"]
    epsilon = fresh if "epsilon_estimator" in settings else float(learner.temperature.residual.mean)
    assert epsilon == pytest.approx(BETA**2, rel=1e-4)


def test_two_critics_share_the_minimum_they_bootstrap_on():
    """beta is that of each Q.

    The gradient through the target goes to the critic that has the minimum.
    """
    learner = make_learner(variant="virel1", m_step="residual")
    # Q_2(s, a) = 1.8; the minimum at s' stays Q_1's
    learner.critics.qs[1].output_layer.kernel.assign([[0.6]])
    update(learner)
    both = gradients(learner.q_optimiser)
    second_beta = 1 + 0.99 * 2 - 1.8
    assert float(both[LAST_WEIGHT].item()) == pytest.approx(
        BETA * GRAD_BETA[LAST_WEIGHT] + second_beta * 0.99 * B_NEXT[LAST_WEIGHT], rel=1e-4
    )
    assert float(both[5 + LAST_WEIGHT].item()) == pytest.approx(
        -second_beta * B[LAST_WEIGHT], rel=1e-4
    )


def test_optimal_bootstrap_by_hand():
    """Q-bar(s', a) = 0.4 relu(3 + 2 a) is greatest at a = 1.

    Three steps of 0.2 from 0.5 reach it.
    """
    learner = make_learner(variant="virel", bootstrap="optimal_q")
    assert update(learner)["q_loss"] == pytest.approx(0.5 * (Q - 1 - 0.99 * 0.4 * 5) ** 2, rel=1e-5)


def test_climbing_finds_the_maximum_of_a_hill_and_never_goes_down():
    start = tf.constant(np.random.default_rng(0).uniform(-1, 1, [50, 2]))
    top = tf.constant([[0.3, -0.6]], tf.float64)

    def hill(action: tf.Tensor) -> tf.Tensor:
        return -tf.reduce_sum(tf.square(action - top), axis=-1)

    np.testing.assert_allclose(climb(hill, start, 60), np.repeat(top, 50, axis=0), atol=1e-3)
    for steps in (1, 2, 5):
        assert np.all(hill(climb(hill, start, steps)) >= hill(start))


def test_the_slope_is_the_derivative_of_the_residual_error():
    error = tf.constant([0.5, -2.0, 1.5], tf.float64)
    for c, p in ((2.0, 2.0), (1.0, 1.0), (0.7, 3.0)):
        with tf.GradientTape() as tape:
            tape.watch(error)
            value = residual_error(error, c, p)
        np.testing.assert_allclose(
            residual_slope(error, c, p) / 3, tape.gradient(value, error), rtol=1e-12
        )


@pytest.mark.parametrize(
    "flags, named",
    [
        (dict(variant="sac", m_step="elbo"), "m_step"),
        (dict(variant="ddpg", m_step="elbo"), "m_step"),
        (dict(variant="virel2", bootstrap="optimal_q"), "bootstrap"),
    ],
)
def test_what_an_m_step_cannot_do_is_named(flags, named):
    with pytest.raises(ConfigError, match=f"^{named}: .*variant={flags['variant']}"):
        Config(**flags)


# ---------------------------------------------------------------- estimators, on finite MDPs

GROUPS, GROUP = 400, 500
CASES = [((4, 3, 2), seed) for seed in range(3)]


class Draws:
    """Pairs h drawn uniformly, and two independent next states and actions for each.

    Every field [GROUPS, GROUP].
    """

    def __init__(self, problem: FiniteMDP, policy: np.ndarray, seed: int) -> None:
        random, shape = np.random.default_rng(seed), [GROUPS, GROUP]
        states, actions = problem.rewards.shape
        state, action = random.integers(states, size=shape), random.integers(actions, size=shape)
        next_states = [inverse(random, problem.transitions[state, action]) for _ in range(2)]
        self.state, self.action = tf.constant(state), tf.constant(action)
        self.next_states = [tf.constant(states) for states in next_states]
        self.next_actions = [tf.constant(inverse(random, policy[states])) for states in next_states]


def inverse(random: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
    """One draw from each distribution [..., K] -> [...]."""
    return (
        (random.uniform(size=probabilities.shape[:-1])[..., None] > probabilities.cumsum(-1))
        .sum(-1)
        .clip(max=probabilities.shape[-1] - 1)
    )


def estimates(q: TanhQ, draws: Draws, estimator) -> np.ndarray:
    """The gradient of `estimator(q values, group)` for each group of draws, [GROUPS, P]."""
    parameters = tf.constant(q.parameters)

    @tf.function
    def gradient(group: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            value = estimator(parameters, group)
        return tape.gradient(value, parameters)

    return np.array([gradient(tf.constant(group)) for group in range(GROUPS)])


def assert_unbiased(sampled: np.ndarray, gradient: tf.Tensor) -> None:
    """Every coordinate within four standard errors, and the estimate worth something at all."""
    error = sampled.std(axis=0, ddof=1) / np.sqrt(len(sampled))
    gradient = gradient.numpy()
    assert np.all(np.abs(sampled.mean(axis=0) - gradient) <= 4 * error + 1e-12)
    assert np.linalg.norm(error) < 0.2 * np.linalg.norm(gradient)


def pick(table: tf.Tensor, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    return tf.gather_nd(table, tf.stack([first, second], -1))


def sampled_target(problem, values, draws, which, group) -> tf.Tensor:
    reward = pick(problem.rewards, draws.state[group], draws.action[group])
    return reward + problem.discount * pick(
        values, draws.next_states[which][group], draws.next_actions[which][group]
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_residual_gradient_is_unbiased(case):
    problem, q = problem_and_q(case)
    values, jacobian = q.with_jacobian(q.parameters)
    policy = boltzmann(values, 1.0)
    draws = Draws(problem, policy.numpy(), case[1])

    def estimator(parameters, group):
        table = q(parameters)
        prediction = pick(table, draws.state[group], draws.action[group])
        return residual_gradient(
            *(
                sampled_target(problem, table, draws, which, group) - prediction
                for which in range(2)
            )
        )

    td_error = backup(problem, tf.reduce_sum(policy * values, -1)) - values
    assert_unbiased(
        estimates(q, draws, estimator),
        exact.gradient_from(td_error, exact.policy_jacobian(jacobian, problem, policy)),
    )


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("function", [gtd2, tdc])
def test_projected_gradients_are_unbiased_at_the_right_zeta(case, function):
    problem, q = problem_and_q(case)
    values, jacobian = q.with_jacobian(q.parameters)
    policy = boltzmann(values, 1.0)
    td_error = backup(problem, tf.reduce_sum(policy * values, -1)) - values
    zeta = exact.projection_weights(jacobian, td_error)
    draws = Draws(problem, policy.numpy(), case[1])

    def arguments(parameters, group):
        table, fitted = q(parameters), tf.linalg.matvec(q.jacobian_of(parameters), zeta)
        at = draws.state[group], draws.action[group]
        return pick(table, *at), sampled_target(problem, table, draws, 0, group), pick(fitted, *at)

    assert_unbiased(
        estimates(q, draws, lambda *at: function(*arguments(*at))),
        exact.projected_gradient(
            jacobian,
            td_error,
            exact.policy_jacobian(jacobian, problem, policy),
            zeta,
            q.hessian_product(q.parameters, zeta),
        ),
    )
    # There zeta stands still: its expected step is 0.
    step = estimates(q, draws, lambda *at: projection_step(*arguments(*at)))
    assert np.all(np.abs(step.mean(axis=0)) <= 4 * step.std(axis=0, ddof=1) / np.sqrt(GROUPS))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_full_elbo_gradient_is_that_of_the_elbo(case):
    """States and pi_theta uniform.

    Pi_omega by importance weights of uniformly proposed actions, all of them.
    """
    problem, q = problem_and_q(case)
    values, jacobian = q.with_jacobian(q.parameters)
    states, actions = values.shape
    policy = tf.fill(values.shape, tf.constant(1 / actions, tf.float64))
    epsilon = exact.boltzmann_residual(values, problem)
    draws = Draws(problem, policy.numpy(), case[1])

    def estimator(parameters, group):
        table = q(parameters)
        weights = importance_weights(table, tf.math.log(policy), epsilon)
        value = tf.reduce_sum(weights * table, -1)
        variance = tf.reduce_sum(weights * tf.square(table - value[:, None]), -1)
        prediction = pick(table, draws.state[group], draws.action[group])
        reward = pick(problem.rewards, draws.state[group], draws.action[group])
        first, second = (
            reward + 0.9 * tf.gather(value, draws.next_states[which][group]) - prediction
            for which in range(2)
        )
        return full_elbo(
            prediction,
            first,
            second,
            0.9 * tf.gather(variance, draws.next_states[1][group]),
            epsilon,
        )

    gradient = exact.full_m_step(
        values,
        jacobian,
        policy,
        np.full(states, 1 / states),
        epsilon,
        exact.boltzmann_gradient(values, jacobian, problem, epsilon),
    )
    assert_unbiased(estimates(q, draws, estimator), -gradient)
