r"""E-step: move the policy towards the Boltzmann policy of the critic, by ascending (eq:e_step)

    epsilon grad_theta L = E_{s ~ D}[ grad_theta ( E_{a ~ pi_theta}[ Q(s, a) ] + temperature * H(pi_theta(.|s)) ) ]

| estimator | action | gradient flows through | algorithm |
|---|---|---|---|
| reparametrised | a = f_theta(s, noise) | the action, into Q | SVG0, SAC, the paper's experiments |
| score | a ~ pi_theta, held fixed | log pi_theta only | REINFORCE with the baseline V |

`temperature` is the one word for the factor on the entropy: epsilon_omega in the paper's theory, lambda epsilon-hat in
beta, alpha in virel and in SAC.

The appendix prints J^pi = E[log pi (alpha - (Q - V))]. Differentiated as a score function that is not (eq:e_step):
E[alpha grad log pi] = 0, so the temperature would do nothing. The factor that belongs there is alpha log pi, which is
the estimator below; see docs/errata.md.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def reparametrised_loss(log_prob: tf.Tensor, q: tf.Tensor, value: tf.Tensor, temperature: tf.Tensor) -> tf.Tensor:
    """E[ temperature log pi(a|s) - Q(s, a) ] with a = f_theta(s, noise); all [B] -> []. The baseline V drops out."""
    del value
    return tf.reduce_mean(tf.stop_gradient(temperature) * log_prob - q)


def score_function_loss(log_prob: tf.Tensor, q: tf.Tensor, value: tf.Tensor, temperature: tf.Tensor) -> tf.Tensor:
    """E[ log pi(a|s) sg( temperature log pi(a|s) - (Q(s, a) - V(s)) ) ] with a held fixed; all [B] -> []."""
    weight = tf.stop_gradient(temperature * log_prob - (q - value))
    return tf.reduce_mean(log_prob * weight)


def regulariser(loc: tf.Tensor, log_scale: tf.Tensor, weight: float) -> tf.Tensor:
    """weight (mean(loc^2) + mean(log_scale^2)), from the authors' code; loc and log_scale [B, A] -> []."""
    return weight * (tf.reduce_mean(tf.square(loc)) + tf.reduce_mean(tf.square(log_scale)))


E_STEPS: dict[str, Callable[..., tf.Tensor]] = {
    "reparametrised": reparametrised_loss,
    "score": score_function_loss,
}
