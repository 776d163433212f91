"""pi_theta(a|s): a Gaussian squashed by tanh into [-1, 1]^A, as a TFP distribution, and what it needs to act."""

from __future__ import annotations

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from virel_tf.networks.critics import hidden_layers, output_layer
from virel_tf.networks.normaliser import Normaliser

LOG_SCALE_RANGE = (-20.0, 2.0)


class TanhGaussianPolicy(keras.Model):
    """observation [B, D] -> (loc [B, A], log_scale [B, A]) of the Gaussian before the tanh.

    The observation statistics live here, so that wherever the policy goes they go along.
    """

    def __init__(self, observation_size: int, action_size: int, hidden: int, layers: int, seed: int,
                 name: str = "policy") -> None:
        super().__init__(name=name)
        self.normaliser = Normaliser(observation_size)
        self.hidden_layers = hidden_layers(hidden, layers, seed)
        self.output_layer = output_layer(2 * action_size, 1e-3, seed + layers)
        self(tf.zeros([1, observation_size]))

    def call(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """From an observation that is normalised already."""
        x = observation
        for layer in self.hidden_layers:
            x = layer(x)
        loc, log_scale = tf.split(self.output_layer(x), 2, axis=-1)
        return loc, tf.clip_by_value(log_scale, *LOG_SCALE_RANGE)

    def mean_action(self, observation: tf.Tensor) -> tf.Tensor:
        """tanh(loc) from a raw observation: the policy without its noise."""
        loc, _ = self(self.normaliser(observation))
        return tf.tanh(loc)


def squashed_gaussian(loc: tf.Tensor, log_scale: tf.Tensor) -> tfp.distributions.Distribution:
    """The distribution of tanh(loc + exp(log_scale) noise), batch [B], event [A]."""
    gaussian = tfp.distributions.MultivariateNormalDiag(loc, tf.exp(log_scale))
    return tfp.distributions.TransformedDistribution(gaussian, tfp.bijectors.Tanh())
