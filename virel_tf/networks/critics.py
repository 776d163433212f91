"""Q(s, a) and V(s): multilayer perceptrons as in the experiments (ReLU, small uniform last layer)."""

from __future__ import annotations

import keras
import tensorflow as tf


def hidden_layers(units: int, count: int, seed: int) -> list[keras.layers.Dense]:
    """ReLU layers with weights uniform in +-1/sqrt(fan in) and biases of 0.1."""
    return [keras.layers.Dense(
        units, "relu", bias_initializer=constant(0.1), name=f"hidden{i}",
        kernel_initializer=keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform", seed=seed + i))
        for i in range(count)]


def output_layer(units: int, bound: float, seed: int) -> keras.layers.Dense:
    """A linear layer with weights uniform in +-bound: the network starts close to zero."""
    uniform = keras.initializers.RandomUniform(-bound, bound, seed=seed)
    return keras.layers.Dense(units, kernel_initializer=uniform, dtype="float32", name="output")


def constant(value: float) -> keras.initializers.Initializer:
    """An initializer for biases."""
    return keras.initializers.Constant(value)


class ValueNetwork(keras.Model):
    """V_phi: observation [B, D] -> value [B]."""

    def __init__(self, observation_size: int, hidden: int, layers: int, seed: int, name: str = "v") -> None:
        super().__init__(name=name)
        self.hidden_layers = hidden_layers(hidden, layers, seed)
        self.output_layer = output_layer(1, 3e-3, seed + layers)
        self(tf.zeros([1, observation_size]))

    def call(self, observation: tf.Tensor) -> tf.Tensor:
        x = observation
        for layer in self.hidden_layers:
            x = layer(x)
        return tf.squeeze(self.output_layer(x), -1)


class QNetwork(keras.Model):
    """Q_omega: observation [B, D], action [B, A] -> value [B].

    The first layer is written as W_s s + W_a a, so that one update multiplies W_s s once for both actions it asks
    about (the stored one and the policy's) and never differentiates with respect to the observation.
    """

    def __init__(self, observation_size: int, action_size: int, hidden: int, layers: int, seed: int,
                 name: str = "q") -> None:
        super().__init__(name=name)
        # Both halves see the fan-in of the whole layer, as if observation and action were concatenated.
        bound = (observation_size + action_size) ** -0.5
        first = [keras.initializers.RandomUniform(-bound, bound, seed=seed + i) for i in range(2)]
        self.observation_layer = keras.layers.Dense(hidden, kernel_initializer=first[0],
                                                    bias_initializer=constant(0.1), name="observation")
        self.action_layer = keras.layers.Dense(hidden, use_bias=False, kernel_initializer=first[1], name="action")
        self.hidden_layers = hidden_layers(hidden, layers - 1, seed + 2)
        self.output_layer = output_layer(1, 3e-3, seed + 2 + layers)
        self(tf.zeros([1, observation_size]), tf.zeros([1, action_size]))

    def call(self, observation: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        return self.of_action(self.observation_layer(observation), action)

    def of_action(self, observation_part: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Q from the observation's half of the first layer [B, H] and an action [B, A]."""
        x = tf.nn.relu(observation_part + self.action_layer(action))
        for layer in self.hidden_layers:
            x = layer(x)
        return tf.squeeze(self.output_layer(x), -1)
