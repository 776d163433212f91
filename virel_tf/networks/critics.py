"""Q(s, a) and V(s): multilayer perceptrons as in the experiments (small uniform last layer)."""

from __future__ import annotations

import keras
import tensorflow as tf


def dense(units: int, seed: int, fan_in: int | None = None, **settings) -> keras.layers.Dense:
    """A hidden layer before its activation: weights uniform in +-1/sqrt(fan in), biases of 0.1."""
    kernel = keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform", seed=seed)
    if fan_in:  # a part of a wider layer sees the fan-in of the whole
        kernel = keras.initializers.RandomUniform(-fan_in**-0.5, fan_in**-0.5, seed=seed)
    return keras.layers.Dense(units, kernel_initializer=kernel, bias_initializer=keras.initializers.Constant(0.1),
                              **settings)


def output_layer(units: int, bound: float, seed: int) -> keras.layers.Dense:
    """A linear layer with weights uniform in +-bound: the network starts close to zero."""
    uniform = keras.initializers.RandomUniform(-bound, bound, seed=seed)
    return keras.layers.Dense(units, kernel_initializer=uniform, dtype="float32", name="output")


class Hidden(keras.layers.Layer):
    """Hidden layers: dense, layer normalisation where asked for, activation; each but, on wish, the first dense one."""

    def __init__(self, hidden: int, layers: int, activation: str, layer_norm: bool, seed: int,
                 first_is_outside: bool = False) -> None:
        super().__init__(name="hidden")
        self.dense = [dense(hidden, seed + i, name=f"dense{i}") for i in range(first_is_outside, layers)]
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
                 layer_norm: bool = False, name: str = "v") -> None:
        super().__init__(name=name)
        self.hidden = Hidden(hidden, layers, activation, layer_norm, seed)
        self.output_layer = output_layer(1, 3e-3, seed + layers)
        self(tf.zeros([1, observation_size]))

    def call(self, observation: tf.Tensor) -> tf.Tensor:
        return tf.squeeze(self.output_layer(self.hidden(observation)), -1)


class QNetwork(keras.Model):
    """Q_omega: observation [B, D], action [B, A] -> value [B].

    The first layer is written as W_s s + W_a a, so that one update multiplies W_s s once for both actions it asks
    about (the stored one and the policy's) and never differentiates with respect to the observation.
    """

    def __init__(self, observation_size: int, action_size: int, hidden: int, layers: int, seed: int,
                 activation: str = "relu", layer_norm: bool = False, name: str = "q") -> None:
        super().__init__(name=name)
        fan_in = observation_size + action_size
        self.observation_layer = dense(hidden, seed, fan_in, name="observation")
        self.action_layer = dense(hidden, seed + 1, fan_in, use_bias=False, name="action")
        self.hidden = Hidden(hidden, layers, activation, layer_norm, seed + 1, first_is_outside=True)
        self.output_layer = output_layer(1, 3e-3, seed + 2 + layers)
        self(tf.zeros([1, observation_size]), tf.zeros([1, action_size]))

    def call(self, observation: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        return self.of_action(self.observation_layer(observation), action)

    def of_action(self, observation_part: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Q from the observation's half of the first layer [B, H] and an action [B, A]."""
        return tf.squeeze(self.output_layer(self.hidden(observation_part + self.action_layer(action))), -1)
