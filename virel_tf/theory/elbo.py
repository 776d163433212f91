r"""The objective of VIREL, over S states and K actions.

    L(omega, theta) = E_{s ~ d}[ E_{a ~ pi_theta}[ Q(s, a) / epsilon ] + H(pi_theta(.|s)) ]    (4)
                    = l(omega) - KL(q_theta(h) || p_omega(h)) - H(d)    (5)

with q_theta(h) = d(s) pi_theta(a|s), l(omega) = log sum_h exp(Q / epsilon), p_omega(h) = exp(Q /
epsilon - l(omega)). Shapes: q and log_policy [S, K], states (the sampling distribution d) [S],
temperature [].
"""

from __future__ import annotations

import tensorflow as tf

from virel_tf.objective.boltzmann import Number, kl_divergence


def elbo(q: tf.Tensor, log_policy: tf.Tensor, states: tf.Tensor, temperature: Number) -> tf.Tensor:
    """L(omega, theta) -> []."""
    return scaled_elbo(q, log_policy, states, temperature) / temperature


def scaled_elbo(
    q: tf.Tensor, log_policy: tf.Tensor, states: tf.Tensor, temperature: Number
) -> tf.Tensor:
    """epsilon L(omega, theta) = E[Q] + epsilon E[H], which stays finite as epsilon goes to 0 -> []."""
    tf.debugging.assert_shapes([(q, ("S", "K")), (log_policy, ("S", "K")), (states, ("S",))])
    expected_q = tf.reduce_sum(tf.exp(log_policy) * q, axis=-1)
    return tf.reduce_sum(states * (expected_q + temperature * entropy(log_policy)))


def entropy(log_probabilities: tf.Tensor) -> tf.Tensor:
    """-sum p log p; [..., K] -> [...]. A probability of 0 adds nothing."""
    return -tf.reduce_sum(
        tf.math.multiply_no_nan(log_probabilities, tf.exp(log_probabilities)), axis=-1
    )


def log_likelihood(q: tf.Tensor, temperature: Number) -> tf.Tensor:
    """l(omega) = log sum_h exp(Q / epsilon) -> []."""
    return tf.reduce_logsumexp(q / temperature)


def joint_kl(
    q: tf.Tensor, log_policy: tf.Tensor, states: tf.Tensor, temperature: Number
) -> tf.Tensor:
    """KL(q_theta(h) || p_omega(h)), over state-action pairs -> []."""
    log_variational = tf.math.log(states)[:, None] + log_policy
    log_target = q / temperature - log_likelihood(q, temperature)
    return kl_divergence(tf.reshape(log_variational, [-1]), tf.reshape(log_target, [-1]))
