"""Adam as TensorFlow's one fused operation per variable.

It reads and writes each of its arrays once.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

EPSILON = 1e-8


class FusedAdam:
    """Adam (Kingma and Ba, 2015) on a fixed list of variables; all its state is in `variables`."""

    def __init__(
        self,
        parameters: Sequence[tf.Variable],
        learning_rate: float,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
    ) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.first = [tf.Variable(tf.zeros_like(p), trainable=False) for p in self.parameters]
        self.second = [tf.Variable(tf.zeros_like(p), trainable=False) for p in self.parameters]
        self.beta_powers = tf.Variable([1.0, 1.0], trainable=False)

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything a checkpoint has to hold."""
        return [*self.first, *self.second, self.beta_powers]

    def apply(self, gradients: Sequence[tf.Tensor]) -> None:
        """One step down the gradients, given in the order of the parameters."""
        powers = self.beta_powers.assign(self.beta_powers * [self.beta_1, self.beta_2])
        for parameter, first, second, gradient in zip(
            self.parameters, self.first, self.second, gradients, strict=True
        ):
            tf.raw_ops.ResourceApplyAdam(
                var=parameter.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=powers[0],
                beta2_power=powers[1],
                lr=self.learning_rate,
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=EPSILON,
                grad=gradient,
            )
