"""Running mean and deviation of the observations, as a Keras layer.

Its statistics are saved with its model.
"""

from __future__ import annotations

import keras
import tensorflow as tf

CLIP = 10.0
EPSILON = 1e-8  # keeps a constant observation finite


class Normaliser(keras.layers.Layer):
    """(x - mean) / deviation, clipped to +-10; the identity until `update` has been called."""

    def __init__(self, size: int) -> None:
        super().__init__(name="normaliser", dtype="float32")
        self.mean = self.add_weight(
            shape=(size,), initializer="zeros", trainable=False, name="mean"
        )
        self.variance = self.add_weight(
            shape=(size,), initializer="ones", trainable=False, name="variance"
        )
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False, name="count")
        self.built = True

    def call(self, observation: tf.Tensor) -> tf.Tensor:
        scaled = (observation - self.mean.value) * tf.math.rsqrt(self.variance.value + EPSILON)
        return tf.where(self.count.value > 0, tf.clip_by_value(scaled, -CLIP, CLIP), observation)

    def update(self, observation: tf.Tensor) -> None:
        """Takes in a batch [N, D], merging its moments with those so far.

        By Chan, Golub and LeVeque's pairwise rule.
        """
        new_count = tf.cast(tf.shape(observation)[0], tf.float32)
        count = self.count.value + new_count
        new_mean, new_variance = tf.nn.moments(observation, axes=[0])
        shift = new_mean - self.mean.value
        spread = (
            self.variance.value * self.count.value
            + new_variance * new_count
            + tf.square(shift) * self.count.value * new_count / count
        )
        self.mean.assign(self.mean.value + shift * new_count / count)
        self.variance.assign(spread / count)
        self.count.assign(count)
