"""Q(s, a) and V(s): multilayer perceptrons as in the experiments."""

from __future__ import annotations

import keras
import tensorflow as tf

from virel_tf.networks.layers import (
    BatchNorm,
    Hidden,
    apply_dense,
    dense,
    fold,
    output_layer,
)


class ValueNetwork(keras.Model):
    """V_phi: observation [B, D] -> value [B]."""

    def __init__(
        self,
        observation_size: int,
        hidden: int,
        layers: int,
        seed: int,
        activation: str = "relu",
        normalisation: str = "none",
        initial_weights: str = "glorot",
        name: str = "v",
    ) -> None:
        super().__init__(name=name)
        self.hidden = Hidden(
            observation_size, hidden, layers, activation, normalisation, seed, initial_weights
        )
        self.output_layer = output_layer(1, hidden, seed + layers, initial_weights)
        self(tf.zeros([1, observation_size]), training=True, track=False)

    def build(self, observation_shape: tuple[int | None, ...]) -> None:
        """Makes the weights that `call` reads without calling their layers."""
        self.hidden.build(observation_shape)
        self.output_layer.build((None, self.hidden.dense[-1].units))

    def call(self, observation: tf.Tensor, training: bool = False, track: bool = True) -> tf.Tensor:
        """`training` and `track` matter to batch normalisation only; see `networks/layers.py`."""
        x = self.hidden(observation, training=training, track=track)
        return tf.squeeze(self.hidden.output(self.output_layer, x, training, track), -1)


class QNetwork(keras.Model):
    """Q_omega: observation [B, D], action [B, A] -> value [B].

    The first layer is written as W_s s + W_a a, so that one update multiplies W_s s once for both
    actions it asks about (the stored one and the policy's) and never differentiates with respect to
    the observation.
    """

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        hidden: int,
        layers: int,
        seed: int,
        activation: str = "relu",
        normalisation: str = "none",
        initial_weights: str = "glorot",
        name: str = "q",
        input_norm_of: QNetwork | None = None,
    ) -> None:
        """Makes the layers and their weights.

        `input_norm_of`: another Q of the same batches, whose normalisation of (s, a) this one uses.
        """
        super().__init__(name=name)
        fan_in = observation_size + action_size
        self.observation_norm: BatchNorm | None = None
        self.action_norm: BatchNorm | None = None
        if normalisation == "batch" and input_norm_of is not None:
            self.observation_norm = input_norm_of.observation_norm
            self.action_norm = input_norm_of.action_norm
        elif normalisation == "batch":
            self.observation_norm = BatchNorm(name="observation_norm", affine=False)
            self.action_norm = BatchNorm(name="action_norm", affine=False)
        self.observation_layer = dense(hidden, fan_in, seed, initial_weights, name="observation")
        self.action_layer = dense(
            hidden,
            fan_in,
            seed,
            initial_weights,
            first_row=observation_size,
            use_bias=False,
            name="action",
        )
        self.hidden = Hidden(
            fan_in,
            hidden,
            layers,
            activation,
            normalisation,
            seed + 1,
            initial_weights,
            first_is_outside=True,
        )
        self.output_layer = output_layer(1, hidden, seed + 2 + layers, initial_weights)
        self(
            tf.zeros([1, observation_size]), tf.zeros([1, action_size]), training=True, track=False
        )

    def build(
        self, observation_shape: tuple[int | None, ...], action_shape: tuple[int | None, ...]
    ) -> None:
        """Makes the weights that `call` reads without calling their layers."""
        self.observation_layer.build(observation_shape)
        self.action_layer.build(action_shape)
        self.output_layer.build((None, self.observation_layer.units))

    def call(
        self,
        observation: tf.Tensor,
        action: tf.Tensor,
        training: bool = False,
        track: bool = True,
    ) -> tf.Tensor:
        """`training` and `track` matter to batch normalisation only; see `networks/layers.py`."""
        if self.observation_norm is None or not training:
            return self.of_action(self.observation_part(observation), action)
        return self.of_normalised(self.normalised(observation, action, track), track)

    def normalised(
        self, observation: tf.Tensor, action: tf.Tensor, track: bool = True
    ) -> tf.Tensor:
        """(s, a) [B, D + A] by the mean and deviation of this batch, for `of_normalised`."""
        assert self.observation_norm is not None and self.action_norm is not None
        observation = self.observation_norm(observation, track=track)
        action = self.action_norm(action, track=track)
        return tf.concat([observation, action], axis=1)

    def of_normalised(self, inputs: tf.Tensor, track: bool = True) -> tf.Tensor:
        """Q [B] in training mode, from what `normalised` gave for this Q or one that shares it."""
        kernels = [self.observation_layer.kernel.value, self.action_layer.kernel.value]
        bias = self.observation_layer.bias.value
        compute = self.observation_layer.compute_dtype
        first = apply_dense(inputs, tf.concat(kernels, axis=0), bias, compute)
        return self._of_first_layer(first, training=True, track=track)

    def observation_part(self, observation: tf.Tensor) -> tf.Tensor:
        """The first layer's share of the observation [B, H], for `of_action`; inference mode."""
        if self.observation_norm is None or self.action_norm is None:
            return self.observation_layer(observation)
        kernel, bias = fold(self.observation_norm, self.observation_layer)
        _, action_bias = fold(self.action_norm, self.action_layer)
        return apply_dense(
            observation, kernel, bias + action_bias, self.observation_layer.compute_dtype
        )

    def of_action(self, observation_part: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Q [B] from the observation's part of the first layer [B, H] and an action [B, A].

        With batch normalisation in inference mode.
        """
        if self.action_norm is None:
            action_part = self.action_layer(action)
        else:
            kernel, _ = fold(self.action_norm, self.action_layer)
            compute = self.action_layer.compute_dtype
            action_part = tf.matmul(tf.cast(action, compute), tf.cast(kernel, compute))
        return self._of_first_layer(observation_part + action_part, training=False, track=False)

    def _of_first_layer(self, x: tf.Tensor, training: bool, track: bool) -> tf.Tensor:
        x = self.hidden(x, training=training, track=track)
        return tf.squeeze(self.hidden.output(self.output_layer, x, training, track), -1)
