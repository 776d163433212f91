"""grad epsilon and the M-step against central finite differences.

Float64, random MDPs, a nonlinear Q.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from tabular_problems import problem_and_q

from virel_tf.objective.boltzmann import boltzmann
from virel_tf.theory import gradients as exact
from virel_tf.theory.elbo import elbo
from virel_tf.theory.operators import diminishing_temperature, soft_value

SIZES = [(2, 2, 3), (4, 3, 5), (6, 2, 7)]  # states, actions, hidden units
CASES = [(size, seed) for size in SIZES for seed in range(8)]


def finite_differences(
    function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-5
) -> np.ndarray:
    """Central differences, of fourth order."""
    function = tf.function(function, input_signature=[tf.TensorSpec(at.shape, tf.float64)])
    result = np.zeros_like(at)
    for i in range(len(at)):
        shift = np.zeros_like(at)
        shift[i] = step
        near = float(function(at + shift)) - float(function(at - shift))
        far = float(function(at + 2 * shift)) - float(function(at - 2 * shift))
        result[i] = (8 * near - far) / (12 * step)
    return result


def assert_agree(gradient: tf.Tensor, differences: np.ndarray, tolerance: float = 1e-6) -> None:
    assert np.linalg.norm(gradient - differences) <= tolerance * np.linalg.norm(differences)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_optimal_operator(case):
    problem, q = problem_and_q(case)
    values, jacobian = q.with_jacobian(q.parameters)
    gradient = exact.gradient_from(
        exact.optimal_td_error(values, problem), exact.optimal_jacobian(values, jacobian, problem)
    )
    assert_agree(
        gradient,
        finite_differences(
            lambda x: exact.mean_square(exact.optimal_td_error(q(x), problem)), q.parameters
        ),
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_diminishing_temperature_operator(case):
    problem, q = problem_and_q(case)
    values, jacobian = q.with_jacobian(q.parameters)
    gradient = exact.gradient_from(
        exact.boltzmann_td_error(values, problem, 0.7),
        exact.boltzmann_jacobian(values, jacobian, problem, 0.7),
    )
    assert_agree(
        gradient,
        finite_differences(
            lambda x: exact.mean_square(exact.boltzmann_td_error(q(x), problem, 0.7)), q.parameters
        ),
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_boltzmann_operator_at_its_own_residual(case):
    c = 1.0 if case[1] % 2 else 0.3
    problem, q = problem_and_q(case)
    values, jacobian = q.with_jacobian(q.parameters)
    epsilon = exact.boltzmann_residual(values, problem, c)
    assert float(epsilon) == pytest.approx(
        float(exact.mean_square(exact.boltzmann_td_error(values, problem, epsilon), c)), rel=1e-12
    )
    gradient = exact.boltzmann_gradient(values, jacobian, problem, epsilon, c)
    assert_agree(
        gradient,
        finite_differences(lambda x: exact.boltzmann_residual(q(x), problem, c, 60), q.parameters),
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_projected_residual(case):
    """Fewer parameters than pairs, as the projection wants.

    The target is that of a policy held fixed.
    """
    (states, actions, _), seed = case
    problem, q = problem_and_q(((max(states, 4), max(actions, 3), 2), seed))
    policy = boltzmann(q(tf.constant(q.parameters)), 1.0)

    def parts(parameters: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
        values, jacobian = q.with_jacobian(parameters)
        return jacobian, (
            problem.rewards
            + problem.discount
            * tf.linalg.matvec(problem.transitions, tf.reduce_sum(policy * values, axis=-1))
            - values
        )

    jacobian, td_error = parts(q.parameters)
    weights = exact.projection_weights(jacobian, td_error)
    gradient = exact.projected_gradient(
        jacobian,
        td_error,
        exact.policy_jacobian(jacobian, problem, policy),
        weights,
        q.hessian_product(q.parameters, weights),
    )
    assert_agree(
        gradient,
        finite_differences(lambda x: exact.projected_residual(*parts(x)), q.parameters, 1e-4),
    )


@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_full_m_step(case):
    """epsilon^2 grad L, with epsilon the recursive one (equation 7)."""
    problem, q = problem_and_q(case)
    values, jacobian = q.with_jacobian(q.parameters)
    states = np.random.default_rng(case[1]).dirichlet(np.ones(values.shape[0]))
    policy = boltzmann(values, 2.0)
    epsilon = exact.boltzmann_residual(values, problem)
    gradient = exact.full_m_step(
        values,
        jacobian,
        policy,
        states,
        epsilon,
        exact.boltzmann_gradient(values, jacobian, problem, epsilon),
    )

    def objective(parameters: np.ndarray) -> tf.Tensor:
        moved = q(parameters)
        return elbo(
            moved, tf.math.log(policy), states, exact.boltzmann_residual(moved, problem, 1.0, 60)
        )

    assert_agree(gradient, float(epsilon) ** 2 * finite_differences(objective, q.parameters))


def test_what_the_appendix_prints_fails_the_same_check():
    """The numbers of docs/errata.md: relative errors of the printed gradients, first case."""
    problem, q = problem_and_q(CASES[8])
    values, jacobian = q.with_jacobian(q.parameters)
    td_error = exact.optimal_td_error(values, problem)
    right = exact.gradient_from(td_error, exact.optimal_jacobian(values, jacobian, problem))
    without_gamma = exact.gradient_from(
        td_error, exact.optimal_jacobian(values, jacobian, problem._replace(discount=1.0))
    )
    assert relative_error(without_gamma, right) == pytest.approx(0.04, abs=0.005)

    td_error = exact.boltzmann_td_error(values, problem, 0.7)
    right = exact.gradient_from(td_error, exact.boltzmann_jacobian(values, jacobian, problem, 0.7))
    # Equation (31): E[grad log p] is 0 without the Q' that multiplies it, so only Gamma is left,
    # with gamma missing.
    printed = exact.gradient_from(
        td_error,
        exact.policy_jacobian(jacobian, problem._replace(discount=1.0), boltzmann(values, 0.7)),
    )
    assert relative_error(printed, right) == pytest.approx(0.04, abs=0.005)

    epsilon = exact.boltzmann_residual(values, problem)
    right = exact.boltzmann_gradient(values, jacobian, problem, epsilon)
    printed = printed_boltzmann_gradient(values, jacobian, problem, epsilon)
    assert relative_error(printed, right) == pytest.approx(0.27, abs=0.005)


def printed_boltzmann_gradient(q, jacobian, problem, epsilon) -> tf.Tensor:
    """Equation (30), as it stands."""
    td_error, policy = exact.boltzmann_td_error(q, problem, epsilon), boltzmann(q, epsilon)
    gamma_term = exact.gradient_from(td_error, exact.policy_jacobian(jacobian, problem, policy))
    variance = exact.policy_variance(q, policy)
    of_q = tf.reduce_mean(td_error * tf.linalg.matvec(problem.transitions, variance))
    through = tf.einsum("sk,sk,skp->sp", policy, exact.centred(q, policy), jacobian)
    of_gradient = exact.gradient_from(
        td_error, tf.einsum("skt,tp->skp", problem.transitions, through)
    )
    expected = tf.reduce_mean(
        td_error * tf.linalg.matvec(problem.transitions, tf.reduce_sum(policy * q, axis=-1))
    )
    return (epsilon * gamma_term * of_q + of_gradient) / (
        epsilon**2 * (1 + problem.discount * expected)
    ) + gamma_term


def relative_error(one: tf.Tensor, other: tf.Tensor) -> float:
    return float(tf.norm(one - other) / tf.norm(other))


def test_operators_in_the_set_reach_the_optimal_one_and_the_soft_one_does_not():
    problem, q = problem_and_q(CASES[8])
    values = q(tf.constant(q.parameters))
    optimal = exact.optimal_td_error(values, problem)
    distances = [
        float(tf.reduce_max(tf.abs(exact.boltzmann_td_error(values, problem, epsilon) - optimal)))
        for epsilon in (1.0, 0.1, 0.01, 0.001)
    ]
    assert distances == sorted(distances, reverse=True) and distances[-1] < 1e-9
    assert [diminishing_temperature(k, 2.0) for k in (0, 1, 3)] == [2.0, 1.0, 0.5]
    excess = soft_value(values, 1.0) - tf.reduce_max(values, axis=-1)
    assert (excess.numpy() > 0).all() and (excess.numpy() <= np.log(3) + 1e-12).all()
