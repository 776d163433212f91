r"""The residual error epsilon_omega = c/p || T_omega Q - Q ||_p^p (section 3.1).

Its estimates, and its scale lambda.

| estimator | transitions behind it | cost per update |
|---|---|---|
| buffer (the paper) | N_epsilon, drawn afresh before every update | N_epsilon / batch more forward passes |
| running (default) | the batches of about the last N_epsilon / batch updates | a handful of scalar operations |

Algorithm 2 prints E[(T Q - Q)^2], which is c = 2 and p = 2.
"""

from __future__ import annotations

import tensorflow as tf


def residual_error(td_error: tf.Tensor, c: float, p: float) -> tf.Tensor:
    """c/p mean(|T Q - Q|^p) over td_error [N] -> [].

    The mean is the norm's integral under the sampling of D.
    """
    magnitude = tf.abs(td_error)
    power = tf.square(magnitude) if p == 2 else tf.pow(magnitude, p)
    return (c / p) * tf.reduce_mean(power)


def residual_slope(td_error: tf.Tensor, c: float, p: float) -> tf.Tensor:
    """c |beta|^(p-1) sign(beta): what E[slope grad beta] = grad epsilon is made of; [N] -> [N]."""
    return c * td_error if p == 2 else c * tf.sign(td_error) * tf.pow(tf.abs(td_error), p - 1)


def running_decay(batch_size: int, samples: int) -> float:
    """The decay whose exponential mean weighs as much as `samples` transitions.

    1 - batch / samples, at least 0.
    """
    return max(0.0, 1.0 - batch_size / samples)


def running_mean(
    mean: tf.Tensor, weight: tf.Tensor, new: tf.Tensor, decay: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """One step of an exponential mean: (mean, weight, new) -> (mean, weight).

    It is exact from the first value on.

    weight = 1 + decay + decay^2 + ... counts what has been seen, so no bias is left over from the
    start at zero.
    """
    weight = decay * weight + 1.0
    return mean + (new - mean) / weight, weight


def lambda_from_rewards(
    mean_abs_reward: tf.Tensor, discount: float, floor: float = 1e-6
) -> tf.Tensor:
    """lambda = (1 - gamma) / r_avg, so that 1/lambda has the magnitude of Q.

    The paper's r_avg is the average reward. Where rewards are negative that would turn the entropy
    bonus into a penalty, so the average is taken of their magnitudes.
    """
    return (1.0 - discount) / tf.maximum(mean_abs_reward, floor)


def state_residual_loss(log_v: tf.Tensor, squared_td_error: tf.Tensor) -> tf.Tensor:
    """E[ log v(s) + delta^2 / v(s) ], least at v(s) = E[delta^2 | s].

    Log_v and squared_td_error [B] -> [].
    """
    tf.debugging.assert_shapes([(log_v, ("B",)), (squared_td_error, ("B",))])
    return tf.reduce_mean(log_v + tf.stop_gradient(squared_td_error) * tf.exp(-log_v))
