"""pi_theta(a|s): a Gaussian squashed by tanh into [-1, 1]^A, or its mean alone.

The Gaussian is a TFP distribution.
"""

from __future__ import annotations

from typing import NamedTuple

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from virel_tf.networks.layers import Hidden, output_layer
from virel_tf.networks.normaliser import Normaliser

LOG_SCALE_RANGE = (-20.0, 2.0)


class Policy(keras.Model):
    """observation [B, D] -> (loc [B, A], log_scale [B, A]) of the Gaussian before the tanh.

    A deterministic policy acts tanh(loc) and has None for its log_scale. The observation statistics
    live here, so that wherever the policy goes they go along.
    """

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        hidden: int,
        layers: int,
        seed: int,
        activation: str = "relu",
        deterministic: bool = False,
        name: str = "policy",
        initial_weights: str = "glorot",
        normalisation: str = "none",
    ) -> None:
        super().__init__(name=name)
        self.deterministic, self.activation = deterministic, activation
        self.normaliser = Normaliser(observation_size)
        if normalisation == "layer":  # which is for the critics alone
            normalisation = "none"
        self.hidden = Hidden(
            observation_size, hidden, layers, activation, normalisation, seed, initial_weights
        )
        self.output_layer = output_layer(
            action_size if deterministic else 2 * action_size,
            hidden,
            seed + layers,
            initial_weights,
        )
        self(tf.zeros([1, observation_size]), training=True, track=False)

    def build(self, observation_shape: tuple[int | None, ...]) -> None:
        """Makes the weights that `call` reads without calling their layers."""
        self.hidden.build(observation_shape)
        self.output_layer.build((None, self.hidden.dense[-1].units))

    def call(
        self, observation: tf.Tensor, training: bool = False, track: bool = True
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """From an observation that the normaliser has seen.

        `training` and `track` matter to batch normalisation only; see `networks/layers.py`.
        """
        x = self.hidden(observation, training=training, track=track)
        outputs = self.hidden.output(self.output_layer, x, training, track)
        if self.deterministic:
            return outputs, None
        loc, log_scale = tf.split(outputs, 2, axis=-1)
        return loc, tf.clip_by_value(log_scale, *LOG_SCALE_RANGE)

    def folded(self) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """(kernel, bias) of each dense layer, with batch normalisation folded in."""
        return self.hidden.folded(self.output_layer)

    def mean_action(self, observation: tf.Tensor) -> tf.Tensor:
        """tanh(loc) from a raw observation: the policy without its noise."""
        loc, _ = self(self.normaliser(observation))
        return tf.tanh(loc)


def squashed_gaussian(loc: tf.Tensor, log_scale: tf.Tensor) -> tfp.distributions.Distribution:
    """The distribution of tanh(loc + exp(log_scale) noise), batch [B], event [A]."""
    gaussian = tfp.distributions.MultivariateNormalDiag(loc, tf.exp(log_scale))
    return tfp.distributions.TransformedDistribution(gaussian, tfp.bijectors.Tanh())


class Sample(NamedTuple):
    """Actions of a policy and their densities."""

    action: tf.Tensor  # [B, A]
    before_tanh: tf.Tensor  # [B, A]
    log_prob: tf.Tensor  # [B]; 0 for a deterministic policy, which has no density
    loc: tf.Tensor  # [B, A]
    log_scale: tf.Tensor | None  # [B, A]


def sample(
    policy: Policy,
    observation: tf.Tensor,
    seed: tf.Tensor,
    held: bool = False,
    training: bool = False,
) -> Sample:
    """a ~ pi_theta(.|s) and log pi_theta(a|s).

    Where `held`, no gradient flows through the action.
    """
    loc, log_scale = policy(observation, training=training)
    if log_scale is None:
        return Sample(tf.tanh(loc), loc, tf.zeros_like(loc[:, 0]), loc, None)
    distribution = squashed_gaussian(loc, log_scale)
    before_tanh = distribution.distribution.sample(seed=seed)
    if held:
        before_tanh = tf.stop_gradient(before_tanh)
    return Sample(
        tf.tanh(before_tanh), before_tanh, log_density(distribution, before_tanh), loc, log_scale
    )


def log_prob_of(policy: Policy, observation: tf.Tensor, before_tanh: tf.Tensor) -> tf.Tensor:
    """log pi(a|s) [B] of an action that another policy drew."""
    return log_density(squashed_gaussian(*policy(observation)), before_tanh)


def log_density(distribution: tfp.distributions.Distribution, before_tanh: tf.Tensor) -> tf.Tensor:
    """log pi(tanh(x)) from x [B, A] -> [B].

    From tanh(x) itself, near +-1, float32 could not find the way back to x.
    """
    squashing = distribution.bijector.forward_log_det_jacobian(before_tanh, event_ndims=1)
    return distribution.distribution.log_prob(before_tanh) - squashing
