"""Q(s, a) and V(s): multilayer perceptrons as in the experiments."""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf


def glorot(fan_in: int, units: int, seed: int, first_row: int = 0) -> keras.initializers.Initializer:
    """Uniform weights as Glorot and Bengio (2010) have them: Keras' default. Parts of a layer draw their own."""
    bound = (6 / (fan_in + units)) ** 0.5
    return keras.initializers.RandomUniform(-bound, bound, seed=seed + (first_row > 0))


def orthogonal(fan_in: int, units: int, seed: int, first_row: int = 0) -> Callable[..., tf.Tensor]:
    """sqrt(2) times an orthogonal matrix (Saxe et al. 2014): ReLUs halve a mean square, and this restores it.

    A part of a layer is rows of the whole layer's matrix.
    """
    def rows(shape: tuple[int, int], dtype: str | None = None) -> tf.Tensor:
        whole = keras.initializers.Orthogonal(2**0.5, seed=seed)((fan_in, units), dtype)
        return whole[first_row:first_row + shape[0]]

    return rows


INITIAL_WEIGHTS = {"glorot": glorot, "orthogonal": orthogonal}


def dense(units: int, fan_in: int, seed: int, initial_weights: str, first_row: int = 0,
          **settings) -> keras.layers.Dense:
    """A layer before its activation; docs/algorithms.md says what its initial weights are worth.

    Where this is a part of a layer, fan_in is that of the whole, and first_row the first of the rows that are its own.
    """
    kernel = INITIAL_WEIGHTS[initial_weights](fan_in, units, seed, first_row)
    return keras.layers.Dense(units, kernel_initializer=kernel, **settings)


def output_layer(units: int, fan_in: int, seed: int, initial_weights: str) -> keras.layers.Dense:
    """A linear layer, in float32 whatever precision the hidden ones have."""
    return dense(units, fan_in, seed, initial_weights, dtype="float32", name="output")


class Hidden(keras.layers.Layer):
    """Hidden layers: dense, layer normalisation where asked for, activation; each but, on wish, the first dense one."""

    def __init__(self, input_size: int, hidden: int, layers: int, activation: str, layer_norm: bool, seed: int,
                 initial_weights: str, first_is_outside: bool = False) -> None:
        super().__init__(name="hidden")
        self.dense = [dense(hidden, hidden if i else input_size, seed + i, initial_weights, name=f"dense{i}")
                      for i in range(first_is_outside, layers)]
        self.norms = [keras.layers.LayerNormalization(name=f"norm{i}") for i in range(layers if layer_norm else 0)]
        self.activate = getattr(tf.nn, activation)
        self.first_is_outside = first_is_outside

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """From the input [B, D], or from the first dense layer's output [B, H] where that is outside."""
        for i in range(self.first_is_outside + len(self.dense)):
            if not (i == 0 and self.first_is_outside):
                x = self.dense[i - self.first_is_outside](x)
            if self.norms:
                x = self.norms[i](x)
            x = self.activate(x)
        return x


class ValueNetwork(keras.Model):
    """V_phi: observation [B, D] -> value [B]."""

    def __init__(self, observation_size: int, hidden: int, layers: int, seed: int, activation: str = "relu",
                 layer_norm: bool = False, initial_weights: str = "glorot", name: str = "v") -> None:
        super().__init__(name=name)
        self.hidden = Hidden(observation_size, hidden, layers, activation, layer_norm, seed, initial_weights)
        self.output_layer = output_layer(1, hidden, seed + layers, initial_weights)
        self(tf.zeros([1, observation_size]))

    def call(self, observation: tf.Tensor) -> tf.Tensor:
        return tf.squeeze(self.output_layer(self.hidden(observation)), -1)


class QNetwork(keras.Model):
    """Q_omega: observation [B, D], action [B, A] -> value [B].

    The first layer is written as W_s s + W_a a, so that one update multiplies W_s s once for both actions it asks
    about (the stored one and the policy's) and never differentiates with respect to the observation.
    """

    def __init__(self, observation_size: int, action_size: int, hidden: int, layers: int, seed: int,
                 activation: str = "relu", layer_norm: bool = False, initial_weights: str = "glorot",
                 name: str = "q") -> None:
        super().__init__(name=name)
        fan_in = observation_size + action_size
        self.observation_layer = dense(hidden, fan_in, seed, initial_weights, name="observation")
        self.action_layer = dense(hidden, fan_in, seed, initial_weights, first_row=observation_size, use_bias=False,
                                  name="action")
        self.hidden = Hidden(fan_in, hidden, layers, activation, layer_norm, seed + 1, initial_weights,
                             first_is_outside=True)
        self.output_layer = output_layer(1, hidden, seed + 2 + layers, initial_weights)
        self(tf.zeros([1, observation_size]), tf.zeros([1, action_size]))

    def call(self, observation: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        return self.of_action(self.observation_layer(observation), action)

    def of_action(self, observation_part: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Q from the observation's half of the first layer [B, H] and an action [B, A]."""
        return tf.squeeze(self.output_layer(self.hidden(observation_part + self.action_layer(action))), -1)
