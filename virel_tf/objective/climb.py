"""The greedy action of T* for continuous actions, found locally by gradient ascent on Q."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def climb(
    q: Callable[[tf.Tensor], tf.Tensor], start: tf.Tensor, steps: int, length: float = 0.2
) -> tf.Tensor:
    """Actions [B, A] in [-1, 1] with a Q at least that of `start`.

    T*'s argmax for continuous actions, locally.

    Goes `length` along the gradient of Q, clipped to the box; where that does not raise Q it stays,
    and halves the length. q: actions [B, A] -> [B].
    """
    action, lengths = start, tf.fill([tf.shape(start)[0], 1], tf.cast(length, start.dtype))
    for _ in range(steps):
        with tf.GradientTape() as tape:
            tape.watch(action)
            value = q(action)
        slope = tape.gradient(value, action)
        direction = tf.math.divide_no_nan(slope, tf.norm(slope, axis=-1, keepdims=True))
        candidate = tf.clip_by_value(action + lengths * direction, -1.0, 1.0)
        better = (q(candidate) > value)[:, None]
        action = tf.where(better, candidate, action)
        lengths = tf.where(better, lengths, lengths / 2)
    return tf.stop_gradient(action)
