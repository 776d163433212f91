"""M-step: move the critics towards their targets, by the direct method (sec:approx_gradients).

The direct method holds the target T_omega Q_omega fixed, so that minimising epsilon_omega is a regression.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def squared_error(prediction: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """J^Q and J^V: E_D[ 1/2 (prediction - target)^2 ]; prediction [B], target [B], held fixed -> []."""
    tf.debugging.assert_shapes([(prediction, ("B",)), (target, ("B",))])
    return 0.5 * tf.reduce_mean(tf.square(prediction - tf.stop_gradient(target)))


M_STEPS: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {"squared_error": squared_error}
