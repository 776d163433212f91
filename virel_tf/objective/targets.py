r"""Target operators: what a value is regressed on.

    J^Q:  r_t + gamma (1 - terminated_t) V(s_{t+1})          (app:pseudocode)
    J^V:  E_{a ~ pi_theta} [ Q_omega(s_t, a) ]

| V in the first line | operator | algorithm |
|---|---|---|
| hard V, trained on E[Q] | T^{pi_theta}, an approximation of T^{pi_omega} (def:target_set) | virel, beta |

The paper writes the target without the `terminated` factor. An episode that terminated has no s_{t+1}, so nothing is
bootstrapped there; one that was merely truncated goes on beyond what was seen, so it is.
"""

from __future__ import annotations

import tensorflow as tf


def td_target(reward: tf.Tensor, terminated: tf.Tensor, next_value: tf.Tensor, discount: float) -> tf.Tensor:
    """r + gamma (1 - terminated) V(s'), all [B]; constant for every gradient."""
    return tf.stop_gradient(reward + discount * (1.0 - terminated) * next_value)


def expected_q_target(q_of_policy: tf.Tensor) -> tf.Tensor:
    """One-sample estimate of E_{a ~ pi}[Q(s, a)] from Q(s, a_pi) [B]; constant for every gradient."""
    return tf.stop_gradient(q_of_policy)
