r"""grad_omega epsilon_omega, exactly, for each operator (appendix E.3).

Everything is a mean over state-action pairs h, as the paper's E = E_{h ~ U(h)}. With beta = T Q - Q
[S, K] and epsilon = c/2 E[beta^2]:

    grad epsilon = c E[ beta grad beta ]    (26)

| operator | grad beta |
|---|---|
| T* | gamma E_{s'}[ grad Q(s', a*) ] - grad Q |
| T_{omega,k} | gamma E_{omega,k}[ grad Q' + Q' M[grad Q'] / epsilon_k ] - grad Q |
| T^{pi_omega} | the same at epsilon_omega, and what epsilon_omega's own change adds: `boltzmann_gradient` |

M[x] = x - E_{pi}[x] centres over actions. Several of these are printed otherwise in the appendix;
docs/errata.md has the list, and tests/test_gradients.py holds each against finite differences. A
`jacobian` is grad_omega Q(s, a) for every pair, [S, K, P].
"""

from __future__ import annotations

import tensorflow as tf

from virel_tf.objective.boltzmann import Number, boltzmann
from virel_tf.theory.mdp import FiniteMDP, backup, greedy_policy
from virel_tf.theory.operators import boltzmann_value, optimal_value


def mean_square(td_error: tf.Tensor, c: float = 1.0) -> tf.Tensor:
    """epsilon = c/2 E[beta^2]; [S, K] -> []."""
    return 0.5 * c * tf.reduce_mean(tf.square(td_error))


def optimal_td_error(q: tf.Tensor, problem: FiniteMDP) -> tf.Tensor:
    """beta of T*; q [S, K] -> [S, K]."""
    return backup(problem, optimal_value(q)) - q


def boltzmann_td_error(q: tf.Tensor, problem: FiniteMDP, temperature: Number) -> tf.Tensor:
    """beta of T^{pi_omega} or T_{omega,k} at a given temperature; q [S, K] -> [S, K]."""
    return backup(problem, boltzmann_value(q, temperature)) - q


def gradient_from(td_error: tf.Tensor, td_jacobian: tf.Tensor, c: float = 1.0) -> tf.Tensor:
    """c E[beta grad beta] (equation 26); td_error [S, K], td_jacobian [S, K, P] -> [P]."""
    tf.debugging.assert_shapes([(td_error, ("S", "K")), (td_jacobian, ("S", "K", "P"))])
    return c * tf.reduce_mean(td_error[:, :, None] * td_jacobian, axis=[0, 1])


def policy_jacobian(jacobian: tf.Tensor, problem: FiniteMDP, policy: tf.Tensor) -> tf.Tensor:
    """Gamma(h) = gamma E_{s', a' ~ policy}[ grad Q' ] - grad Q, the policy held fixed.

    -> [S, K, P].
    """
    expected = tf.einsum("sk,skp->sp", policy, jacobian)
    return problem.discount * tf.einsum("skt,tp->skp", problem.transitions, expected) - jacobian


def optimal_jacobian(q: tf.Tensor, jacobian: tf.Tensor, problem: FiniteMDP) -> tf.Tensor:
    """grad beta of T*; -> [S, K, P]. The appendix leaves out the gamma."""
    return policy_jacobian(jacobian, problem, tf.constant(greedy_policy(q.numpy()), q.dtype))


def boltzmann_jacobian(
    q: tf.Tensor, jacobian: tf.Tensor, problem: FiniteMDP, temperature: Number
) -> tf.Tensor:
    """grad beta at a temperature held fixed: that of T_{omega,k}; -> [S, K, P].

    The appendix (equation 31) leaves out gamma and the Q' that multiplies grad log p.
    """
    policy = boltzmann(q, temperature)
    through_policy = tf.einsum("sk,sk,skp->sp", policy, centred(q, policy), jacobian) / temperature
    return policy_jacobian(jacobian, problem, policy) + problem.discount * tf.einsum(
        "skt,tp->skp", problem.transitions, through_policy
    )


def boltzmann_residual(
    q: tf.Tensor, problem: FiniteMDP, c: float = 1.0, iterations: int = 200
) -> tf.Tensor:
    """epsilon_omega by its recursive definition -> [].

    epsilon = c/2 E[(T^{pi_omega} Q - Q)^2], with pi_omega at epsilon.

    The right side is positive as epsilon goes to 0, unless Q = T* Q, and bounded, so the two cross:
    found by bisection.
    """
    low = tf.zeros([], q.dtype)
    # |beta| is at most |r| + 2 max |Q|, whatever the temperature.
    high = mean_square(tf.abs(problem.rewards) + 2.0 * tf.reduce_max(tf.abs(q)), c) + 1.0
    for _ in tf.range(iterations):
        middle = 0.5 * (low + high)
        above = mean_square(boltzmann_td_error(q, problem, middle), c) > middle
        low, high = tf.where(above, middle, low), tf.where(above, high, middle)
    return 0.5 * (low + high)


def boltzmann_gradient(
    q: tf.Tensor, jacobian: tf.Tensor, problem: FiniteMDP, epsilon: tf.Tensor, c: float = 1.0
) -> tf.Tensor:
    r"""grad epsilon_omega for T^{pi_omega}, epsilon_omega defined by its fixed point; -> [P].

        grad epsilon = c ( E[beta Gamma] + gamma/epsilon E_omega[grad Q] ) / ( 1 + c gamma/epsilon^2
        E_omega[Q] )

    with the operator E_omega[x] = E[ beta E_{s', a' ~ pi_omega}[ Q' M[x'] ] ]. It follows by
    differentiating both sides of epsilon = c/2 E[beta(omega, epsilon)^2]; equation (30) has
    other signs and factors (docs/errata.md).
    """
    td_error = boltzmann_td_error(q, problem, epsilon)
    direct = gradient_from(td_error, boltzmann_jacobian(q, jacobian, problem, epsilon), c)
    policy = boltzmann(q, epsilon)
    variance = policy_variance(q, policy)  # E_pi[ Q M[Q] ]
    recursion = tf.reduce_mean(td_error * tf.linalg.matvec(problem.transitions, variance))
    return direct / (1.0 + c * problem.discount / epsilon**2 * recursion)


def centred(q: tf.Tensor, policy: tf.Tensor) -> tf.Tensor:
    """M[Q] = Q - E_pi[Q]; [S, K] -> [S, K]. Under E_pi, Q M[x] and M[Q] x are the same."""
    return q - tf.reduce_sum(policy * q, axis=-1, keepdims=True)


def policy_variance(q: tf.Tensor, policy: tf.Tensor) -> tf.Tensor:
    """Var_pi[Q]; [S, K] -> [S]."""
    return tf.reduce_sum(policy * tf.square(centred(q, policy)), axis=-1)


def full_m_step(
    q: tf.Tensor,
    jacobian: tf.Tensor,
    policy: tf.Tensor,
    states: tf.Tensor,
    epsilon: tf.Tensor,
    epsilon_gradient: tf.Tensor,
) -> tf.Tensor:
    """epsilon^2 grad_omega L = epsilon E[grad Q] - E[Q] grad epsilon (equation 7) -> [P].

    The means are under h ~ d(s) pi_theta.
    """
    weight = states[:, None] * policy
    expected_gradient = tf.einsum("sk,skp->p", weight, jacobian)
    return epsilon * expected_gradient - tf.reduce_sum(weight * q) * epsilon_gradient


def projection_weights(jacobian: tf.Tensor, td_error: tf.Tensor) -> tf.Tensor:
    """zeta = E[b b^T]^{-1} E[beta b], with b = grad Q; -> [P]."""
    pairs = tf.reshape(jacobian, [-1, jacobian.shape[-1]])
    count = tf.cast(tf.shape(pairs)[0], pairs.dtype)
    covariance = tf.matmul(pairs, pairs, transpose_a=True) / count
    correlation = tf.linalg.matvec(pairs, tf.reshape(td_error, [-1]), transpose_a=True) / count
    return tf.linalg.solve(covariance, correlation[:, None])[:, 0]


def projected_residual(jacobian: tf.Tensor, td_error: tf.Tensor) -> tf.Tensor:
    """epsilon = 1/2 E[(P beta)^2] = 1/2 E[beta b]^T zeta (equation 33); -> []."""
    weights = projection_weights(jacobian, td_error)
    return 0.5 * tf.reduce_mean(tf.square(tf.linalg.matvec(jacobian, weights)))


def projected_gradient(
    jacobian: tf.Tensor,
    td_error: tf.Tensor,
    td_jacobian: tf.Tensor,
    weights: tf.Tensor,
    hessian_product: tf.Tensor,
) -> tf.Tensor:
    """E[(b^T zeta) grad beta] + E[(beta - b^T zeta) (grad^2 Q) zeta] -> [P].

    Appendix F.1, after equation (34). hessian_product is (grad^2 Q) zeta for every pair [S, K, P],
    which one more pass through Q gives (Pearlmutter 1994).
    """
    fitted = tf.linalg.matvec(jacobian, weights)
    return tf.reduce_mean(fitted[:, :, None] * td_jacobian, axis=[0, 1]) + tf.reduce_mean(
        (td_error - fitted)[:, :, None] * hessian_product, axis=[0, 1]
    )
