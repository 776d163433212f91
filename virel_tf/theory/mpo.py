r"""MPO as VIREL with a prior (appendix G).

With the prior p_phi(h) = U(s) pi_phi(a|s) in place of the uniform one the ELBO is

    L(omega, theta, phi) = E_d[ E_{pi_theta}[ Q / epsilon ] - KL(pi_theta || pi_phi) ]    (42)

E-step: its maximum over all policies is the action-posterior, `exact_e_step`; parametric policies
climb it by the losses of `objective/e_step.py` with log prior = log pi_phi. M-step: phi is set to
theta, so pi_phi is the old policy, and omega takes the same M-step as everywhere.
"""

from __future__ import annotations

import tensorflow as tf


def exact_e_step(q: tf.Tensor, log_prior: tf.Tensor, temperature: tf.Tensor | float) -> tf.Tensor:
    """log p(a|s, O) = log pi_phi + Q/epsilon - log normaliser, over N actions.

    Q and log_prior [B, N] -> [B, N].
    """
    tf.debugging.assert_shapes([(q, ("B", "N")), (log_prior, ("B", "N"))])
    return tf.nn.log_softmax(log_prior + q / temperature, axis=-1)


def elbo(
    log_policy: tf.Tensor, q: tf.Tensor, log_prior: tf.Tensor, temperature: tf.Tensor | float
) -> tf.Tensor:
    """epsilon L of equation (42) for policies over N actions.

    Log_policy, q, log_prior [B, N] -> [].
    """
    tf.debugging.assert_shapes([(log_policy, ("B", "N")), (q, ("B", "N")), (log_prior, ("B", "N"))])
    gain = q - temperature * (log_policy - log_prior)
    return tf.reduce_mean(tf.reduce_sum(tf.exp(log_policy) * gain, axis=-1))
