r"""M-step: move the critics so that the residual error epsilon_omega falls.

Equation (7) and appendix F.3. With beta = T Q - Q and b = grad_omega Q, an M-step descends an
estimate of grad epsilon = E[ beta grad beta ], up to the factor c:

| M-step | descends | unbiased | its like |
|---|---|---|---|
| `squared_error` (direct) | -E[ beta b ], the target held fixed | no | TD, DQN, SAC |
| `residual_gradient` | E[ beta_1 grad beta_2 ], two independent samples of what follows | yes | Baird 1995 |
| `gtd2` | E[ (b^T zeta) grad beta ] + curvature (appendix F.1) | yes, of the projected error | Maei 2009 |
| `tdc` | -E[ beta b ] + gamma E[ (b^T zeta) b' ] + curvature | the same, at the right zeta | Maei 2009 |
| `full_elbo` | E[Q] grad epsilon - epsilon E[grad Q]: epsilon^2 grad L itself (equation 7) | with exact epsilon | |

where curvature = E[ (beta - b^T zeta) (grad^2 Q) zeta ] and zeta is learned along equation
(34). b^T zeta, the derivative of Q in the direction zeta, is called `fitted`; its gradient is
(grad^2 Q) zeta (Pearlmutter 1994).

Each function returns a number whose gradient in omega is the one above. But for the direct method,
the number itself says nothing. All inputs are [B]. tests/test_m_steps.py holds each against the
exact ones of `theory/gradients.py`.
"""

from __future__ import annotations

import tensorflow as tf

from virel_tf.objective.residual import residual_slope

LEAST_RECURSION = (
    0.1  # keeps `full_elbo` from dividing by an estimate that noise has brought to 0 or below
)


def squared_error(prediction: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """J^Q and J^V: E_D[ 1/2 (prediction - target)^2 ].

    Prediction [B], target [B], held fixed -> [].
    """
    tf.debugging.assert_shapes([(prediction, ("B",)), (target, ("B",))])
    return 0.5 * tf.reduce_mean(tf.square(prediction - tf.stop_gradient(target)))


def residual_gradient(td_error: tf.Tensor, independent: tf.Tensor) -> tf.Tensor:
    """E[ beta_1 grad beta_2 ] from two independent estimates of beta.

    Their next states and actions were drawn independently.
    """
    return tf.reduce_mean(tf.stop_gradient(td_error) * independent)


def gtd2(q: tf.Tensor, target: tf.Tensor, fitted: tf.Tensor) -> tf.Tensor:
    """E[ (b^T zeta) grad beta ] + curvature (appendix F.1, after equation 34)."""
    td_error = target - q
    return tf.reduce_mean(tf.stop_gradient(fitted) * td_error) + curvature(td_error, fitted)


def tdc(q: tf.Tensor, target: tf.Tensor, fitted: tf.Tensor) -> tf.Tensor:
    """-E[ beta b ] + gamma E[ (b^T zeta) b' ] + curvature.

    `gtd2` with E[ (b^T zeta) b ] = E[ beta b ] put in.
    """
    td_error = target - q
    return tf.reduce_mean(
        tf.stop_gradient(fitted) * target - tf.stop_gradient(td_error) * q
    ) + curvature(td_error, fitted)


def curvature(td_error: tf.Tensor, fitted: tf.Tensor) -> tf.Tensor:
    """E[ (beta - b^T zeta) (grad^2 Q) zeta ]."""
    return tf.reduce_mean(tf.stop_gradient(td_error - fitted) * fitted)


def projection_step(q: tf.Tensor, target: tf.Tensor, fitted: tf.Tensor) -> tf.Tensor:
    """-E[ (beta - b^T zeta) b ], the gradient of E[ 1/2 (beta - b^T zeta)^2 ]; equation (34)."""
    return -tf.reduce_mean(tf.stop_gradient(target - q - fitted) * q)


def full_elbo(
    q_of_policy: tf.Tensor,
    td_error: tf.Tensor,
    independent: tf.Tensor,
    next_variance: tf.Tensor,
    epsilon: tf.Tensor,
    c: float = 1.0,
    p: float = 2.0,
) -> tf.Tensor:
    """-epsilon^2 grad L (equation 7), with the recursion of T^{pi_omega}'s epsilon.

    The recursion is that of `theory.gradients.boltzmann_gradient`.

    q_of_policy: Q(s, a) at actions of pi_theta. td_error, independent: beta under pi_omega at
    temperature epsilon, with its gradient. next_variance: gamma Var_{pi_omega}[Q(s', .)], of the
    same draw as `independent`.

    It needs E[Q] > 0, as the paper's Assumption 1 (rewards made positive) sees to: otherwise L
    grows with epsilon.
    """
    epsilon, slope = tf.stop_gradient(epsilon), tf.stop_gradient(residual_slope(td_error, c, p))
    recursion = tf.stop_gradient(1.0 + tf.reduce_mean(slope * next_variance) / epsilon**2)
    epsilon_gradient = tf.reduce_mean(slope * independent) / tf.maximum(recursion, LEAST_RECURSION)
    return tf.stop_gradient(
        tf.reduce_mean(q_of_policy)
    ) * epsilon_gradient - epsilon * tf.reduce_mean(q_of_policy)
