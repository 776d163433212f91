"""Parts of Q, V and the policy: initial weights, dense layers, normalisation, hidden layers.

With `normalisation="batch"` a network is

    BN(input) -> (dense -> activation -> BN) x layers -> dense

and has two modes. In training mode the statistics are those of the batch, and the running ones
follow them. In inference mode the statistics are the running ones. In both modes a normalisation
is computed as part of the dense layer after it:

    (k x + c) W + b  =  x (k W) + (c W + b)        k = scale / deviation, c = offset - k mean

`fold` computes the two factors of the right-hand side: W is smaller than a batch of x. The NumPy
actor and the exports hold them as their weights. Only a network's input is normalised by itself
in training mode, once for all critics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

NORMALISATIONS = ("none", "layer", "batch")
MOMENTUM = 0.99  # of the running statistics, per update
VARIANCE_EPSILON = 1e-3


def glorot(
    fan_in: int, units: int, seed: int, first_row: int = 0
) -> keras.initializers.Initializer:
    """Uniform weights as Glorot and Bengio (2010) have them: Keras' default."""
    bound = (6 / (fan_in + units)) ** 0.5
    return keras.initializers.RandomUniform(-bound, bound, seed=seed + (first_row > 0))


def he_uniform(
    fan_in: int, units: int, seed: int, first_row: int = 0
) -> keras.initializers.Initializer:
    """Uniform weights as He et al. (2015) have them: ReLUs keep the mean square of their inputs."""
    bound = (6 / fan_in) ** 0.5
    return keras.initializers.RandomUniform(-bound, bound, seed=seed + (first_row > 0))


def orthogonal(fan_in: int, units: int, seed: int, first_row: int = 0) -> Callable[..., tf.Tensor]:
    """sqrt(2) times an orthogonal matrix (Saxe et al. 2014).

    A part of a layer is rows of the whole layer's matrix.
    """

    def rows(shape: tuple[int, int], dtype: str | None = None) -> tf.Tensor:
        whole = keras.initializers.Orthogonal(2**0.5, seed=seed)((fan_in, units), dtype)
        return whole[first_row : first_row + shape[0]]

    return rows


INITIAL_WEIGHTS = {"glorot": glorot, "he_uniform": he_uniform, "orthogonal": orthogonal}


def dense(
    units: int, fan_in: int, seed: int, initial_weights: str, first_row: int = 0, **settings: Any
) -> keras.layers.Dense:
    """A layer before its activation; docs/differences.md compares the initial weights.

    Where this is a part of a layer, fan_in is that of the whole, and first_row is the part's first
    row.
    """
    kernel = INITIAL_WEIGHTS[initial_weights](fan_in, units, seed, first_row)
    return keras.layers.Dense(units, kernel_initializer=kernel, **settings)


def output_layer(units: int, fan_in: int, seed: int, initial_weights: str) -> keras.layers.Dense:
    """A linear layer, in float32 whatever precision the hidden ones have.

    He's rule is for layers before a ReLU, so with it the output layer keeps Glorot's.
    """
    initial = "glorot" if initial_weights == "he_uniform" else initial_weights
    return dense(units, fan_in, seed, initial, dtype="float32", name="output")


@tf.custom_gradient
def batch_moments(
    x: tf.Tensor,
) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[[tf.Tensor, tf.Tensor], tf.Tensor]]:
    """Mean and variance [C] over the rows of x [B, C].

    The sums are products with a row of 1 / B, and the gradient is written out: on a CPU both are
    several times as fast as TensorFlow's moments and what it makes of their gradient.
    """
    rows = tf.shape(x)[0]
    weight = 1.0 / tf.cast(rows, tf.float32)
    average = tf.fill([1, rows], weight)
    mean = tf.matmul(average, x)[0]
    variance = tf.matmul(average, tf.math.squared_difference(x, mean))[0]

    def gradient(mean_gradient: tf.Tensor, variance_gradient: tf.Tensor) -> tf.Tensor:
        slope = 2.0 * weight * variance_gradient
        return x * slope + (weight * mean_gradient - slope * mean)

    return (mean, variance), gradient


class BatchNorm(keras.layers.Layer):
    """Batch normalisation of [B, C] (Ioffe and Szegedy 2015).

    `affine`: it learns a scale and an offset. A network's input is normalised without them, since
    the dense layer that follows can do as much.
    """

    def __init__(self, name: str, affine: bool = True) -> None:
        super().__init__(name=name, dtype="float32")
        self.affine = affine

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Makes scale, offset and the running statistics."""
        shape = (input_shape[-1],)
        if self.affine:
            self.scale = self.add_weight(shape=shape, initializer="ones", name="scale")
            self.offset = self.add_weight(shape=shape, initializer="zeros", name="offset")
        self.mean = self.add_weight(shape=shape, initializer="zeros", trainable=False, name="mean")
        self.variance = self.add_weight(
            shape=shape, initializer="ones", trainable=False, name="variance"
        )

    def call(self, x: tf.Tensor, track: bool = True) -> tf.Tensor:
        """Training mode: by the batch's own mean and variance. `track`: the running ones follow."""
        x = tf.cast(x, tf.float32)
        mean, variance = self.moments(x, track)
        normalised = (x - mean) * tf.math.rsqrt(variance + VARIANCE_EPSILON)
        if not self.affine:
            return normalised
        return normalised * self.scale.value + self.offset.value

    def moments(self, x: tf.Tensor, track: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of the batch.

        `track`: the running ones follow, by its unbiased variance.
        """
        mean, variance = batch_moments(tf.cast(x, tf.float32))
        if track:
            rows = tf.cast(tf.shape(x)[0], tf.float32)
            unbiased = variance * rows / tf.maximum(rows - 1.0, 1.0)
            self.mean.value.assign_add((1 - MOMENTUM) * (mean - self.mean.value))
            self.variance.value.assign_add((1 - MOMENTUM) * (unbiased - self.variance.value))
        return mean, variance

    def set_to_identity(self) -> None:
        """Makes inference mode the identity, for dense layers that hold folded weights."""
        if self.affine:
            self.scale.assign(tf.ones_like(self.scale))
            self.offset.assign(tf.zeros_like(self.offset))
        self.mean.assign(tf.zeros_like(self.mean))
        self.variance.assign(tf.fill(self.variance.shape, 1.0 - VARIANCE_EPSILON))

    def factor_and_offset(
        self, moments: tuple[tf.Tensor, tf.Tensor] | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """(k [C], c [C]) with which normalisation is k x + c.

        By the running statistics if none are given.
        """
        mean, variance = moments or (self.mean.value, self.variance.value)
        factor = tf.math.rsqrt(variance + VARIANCE_EPSILON)
        if not self.affine:
            return factor, -factor * mean
        factor *= self.scale.value
        return factor, self.offset.value - factor * mean


def fold(
    norm: BatchNorm,
    layer: keras.layers.Dense,
    moments: tuple[tf.Tensor, tf.Tensor] | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """(kernel, bias) of the dense layer that equals `norm` and then `layer`."""
    factor, offset = norm.factor_and_offset(moments)
    bias = tf.linalg.matvec(layer.kernel.value, offset, transpose_a=True)
    if layer.use_bias:
        bias += layer.bias.value
    return factor[:, None] * layer.kernel.value, bias


def apply_dense(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, dtype: str) -> tf.Tensor:
    """x kernel + bias, in the arithmetic of `dtype`."""
    product = tf.matmul(tf.cast(x, dtype), tf.cast(kernel, dtype))
    return tf.nn.bias_add(product, tf.cast(bias, dtype))


class Hidden(keras.layers.Layer):
    """Hidden layers: dense, normalisation where asked for, activation.

    Layer normalisation stands before each activation. Batch normalisation stands before the first
    dense layer and after each activation. With `first_is_outside` the caller has the first dense
    layer and the normalisation of the input.
    """

    def __init__(
        self,
        input_size: int,
        hidden: int,
        layers: int,
        activation: str,
        normalisation: str,
        seed: int,
        initial_weights: str,
        first_is_outside: bool = False,
    ) -> None:
        super().__init__(name="hidden")
        self.dense = [
            dense(hidden, hidden if i else input_size, seed + i, initial_weights, name=f"dense{i}")
            for i in range(first_is_outside, layers)
        ]
        self.layer_norms = []
        self.input_norm = None
        self.batch_norms = []
        if normalisation == "layer":
            self.layer_norms = [
                keras.layers.LayerNormalization(name=f"norm{i}") for i in range(layers)
            ]
        if normalisation == "batch":
            self.batch_norms = [BatchNorm(name=f"norm{i}") for i in range(layers)]
            if not first_is_outside:
                self.input_norm = BatchNorm(name="input_norm", affine=False)
        self.activation = activation
        self.activate = getattr(tf.nn, activation)
        self.first_is_outside = first_is_outside

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Makes every weight; `fold` reads them without calling the layers."""
        size = x_shape
        for layer in self.dense:
            layer.build(size)
            size = (None, layer.units)
        for norm in [*self.layer_norms, *self.batch_norms]:
            norm.build(size)
        if self.input_norm is not None:
            self.input_norm.build(x_shape)

    @property
    def all_batch_norms(self) -> list[BatchNorm]:
        """In the order in which they come; none without batch normalisation."""
        if self.input_norm is None:
            return self.batch_norms
        return [self.input_norm, *self.batch_norms]

    def call(self, x: tf.Tensor, training: bool = False, track: bool = True) -> tf.Tensor:
        """From the input [B, D], or from the first dense layer's output [B, H] if that is outside.

        With batch normalisation the last normalisation is left to `output`.
        """
        if self.input_norm is not None and training:
            x = self.input_norm(x, track=track)
        for i in range(self.first_is_outside + len(self.dense)):
            if not (i == 0 and self.first_is_outside):
                x = self._apply(self.dense[i - self.first_is_outside], i, x, training, track)
            if self.layer_norms:
                x = self.layer_norms[i](x)
            x = self.activate(x)
        return x

    def output(
        self, layer: keras.layers.Dense, x: tf.Tensor, training: bool, track: bool = True
    ) -> tf.Tensor:
        """The output layer, after the hidden ones gave x."""
        return self._apply(layer, self.first_is_outside + len(self.dense), x, training, track)

    def folded(self, last: keras.layers.Dense) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """(kernel, bias) of each dense layer here and of `last`, with batch norms folded in."""
        pairs = []
        for i, layer in enumerate([*self.dense, last], start=int(self.first_is_outside)):
            if self.batch_norms:
                pairs.append(fold(self._norm_before(i), layer))
            else:
                pairs.append((layer.kernel.value, layer.bias.value))
        return pairs

    def _apply(
        self, layer: keras.layers.Dense, i: int, x: tf.Tensor, training: bool, track: bool
    ) -> tf.Tensor:
        """The i-th dense layer with the batch normalisation before it, if there is one."""
        if not self.batch_norms or (i == 0 and training):  # the input is normalised already
            return layer(x)
        norm = self._norm_before(i)
        moments = norm.moments(x, track) if training else None
        return apply_dense(x, *fold(norm, layer, moments), layer.compute_dtype)

    def _norm_before(self, i: int) -> BatchNorm:
        norm = self.input_norm if i == 0 else self.batch_norms[i - 1]
        assert norm is not None  # it is there wherever batch_norms are, and the input is ours
        return norm
