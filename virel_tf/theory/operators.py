r"""Target operators over S states and K actions, exactly: T Q = r + gamma E_{s'}[ U(s') ].

There is one U per operator.

| operator | U(s) | in the set of Definition 2? |
|---|---|---|
| T^{pi_omega} | E_{pi_omega}[Q], at temperature epsilon_omega | yes: pi_omega becomes greedy with epsilon_omega |
| T* | max_a Q; for continuous actions Q at `objective.climb` | yes, at any epsilon_omega |
| T_{omega,k} (equation 36) | E[Q] under Boltzmann at temperature epsilon_k -> 0 | yes, as k goes to infinity |
| T^{pi_theta} | E_{pi_theta}[Q] | where pi_theta follows pi_omega |
| soft (optimal) | c log sum_a exp(Q / c), c fixed | no: it exceeds max_a Q whatever epsilon_omega, by up to c log K |

The expectation over s' is `theory.mdp.backup`. The sampled versions, used in training, are in
`objective/targets.py`.
"""

from __future__ import annotations

import tensorflow as tf

from virel_tf.objective.boltzmann import Number, boltzmann, log_partition


def policy_value(q: tf.Tensor, policy: tf.Tensor) -> tf.Tensor:
    """U of T^pi: E_pi[Q]; q and policy [..., K] -> [...]."""
    return tf.reduce_sum(policy * q, axis=-1)


def boltzmann_value(q: tf.Tensor, temperature: Number) -> tf.Tensor:
    """U of T^{pi_omega} at epsilon_omega, and of T_{omega,k} at epsilon_k; q [..., K] -> [...]."""
    return policy_value(q, boltzmann(q, temperature))


def optimal_value(q: tf.Tensor) -> tf.Tensor:
    """U of T*: max_a Q; q [..., K] -> [...]."""
    return tf.reduce_max(q, axis=-1)


def soft_value(q: tf.Tensor, temperature: Number) -> tf.Tensor:
    """U of the soft optimal operator: c log sum exp(Q / c); q [..., K] -> [...]."""
    return temperature * log_partition(q, temperature)


def diminishing_temperature(step: Number, start: Number, decay: Number = 1.0) -> Number:
    """epsilon_k = start / (1 + k)^decay, a schedule for T_{omega,k}.

    Positive, with limit 0 for any decay above 0.
    """
    return start / (1.0 + step) ** decay
