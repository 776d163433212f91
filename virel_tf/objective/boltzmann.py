r"""The Boltzmann policy of a critic, and how far a policy is from it.

    pi_omega(a|s) = exp(Q(s, a) / epsilon) / integral exp(Q(s, a') / epsilon) da'    (3)

For K actions the integral is a sum. For continuous actions `importance_*` estimate it from N
actions of a proposal, such as the policy itself. Shapes: q and log-probabilities [..., K] or [...,
N]; temperature [] unless said otherwise.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import tensorflow as tf

Number: TypeAlias = tf.Tensor | float


def log_boltzmann(q: tf.Tensor, temperature: Number) -> tf.Tensor:
    """log pi_omega over K actions; q [..., K] -> [..., K]."""
    return tf.nn.log_softmax(q / temperature, axis=-1)


def boltzmann(q: tf.Tensor, temperature: Number) -> tf.Tensor:
    """pi_omega over K actions; q [..., K] -> [..., K]."""
    return tf.nn.softmax(q / temperature, axis=-1)


def optimality_likelihood(q: tf.Tensor, temperature: Number) -> tf.Tensor:
    """p(O = 1|h) = exp((Q(s, a) - max_a' Q(s, a')) / epsilon) (appendix B).

    [..., K] -> [..., K].
    """
    return tf.exp((q - tf.reduce_max(q, axis=-1, keepdims=True)) / temperature)


def log_partition(q: tf.Tensor, temperature: Number) -> tf.Tensor:
    """log sum_a exp(Q / epsilon); q [..., K] -> [...]."""
    return tf.reduce_logsumexp(q / temperature, axis=-1)


def kl_divergence(log_policy: tf.Tensor, log_other: tf.Tensor) -> tf.Tensor:
    """KL(policy || other) over K actions.

    Both [..., K] -> [...]. An action of probability 0 adds nothing.
    """
    return tf.reduce_sum(
        tf.math.multiply_no_nan(log_policy - log_other, tf.exp(log_policy)), axis=-1
    )


def importance_log_partition(
    q: tf.Tensor, log_proposal: tf.Tensor, temperature: Number
) -> tf.Tensor:
    """Estimates log integral exp(Q / epsilon) da from N actions of a proposal.

    Q, log_proposal [..., N] -> [...].
    """
    return tf.reduce_logsumexp(q / temperature - log_proposal, axis=-1) - math.log(q.shape[-1])


def importance_weights(q: tf.Tensor, log_proposal: tf.Tensor, temperature: Number) -> tf.Tensor:
    """Self-normalised weights of a proposal's N actions, under which they stand for pi_omega.

    [..., N] -> [..., N].
    """
    return tf.nn.softmax(q / temperature - log_proposal, axis=-1)


def importance_kl(q: tf.Tensor, log_policy: tf.Tensor, temperature: Number) -> tf.Tensor:
    """Estimates KL(pi_theta || pi_omega) from N actions of pi_theta itself.

    q, log_policy [..., N] -> [...].

    E[log pi_theta - Q / epsilon] + log integral exp(Q / epsilon) da, both from the same actions.
    """
    gap = tf.reduce_mean(log_policy - q / temperature, axis=-1)
    return gap + importance_log_partition(q, log_policy, temperature)
