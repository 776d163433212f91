r"""epsilon(s): how wrong the critic is in each state, learned along with it.

This is future work of the paper.

A network v(s) > 0 descends E[ log v(s) + delta^2 / v(s) ], whose minimum is v(s) = E[delta^2 | s]:
the derivative in v, 1/v - delta^2 / v^2, is 0 there. The temperature of a state is its share lambda
v(s) / mean v, so that exploration goes where the critic is wrong, and lambda sets its level.
"""

from __future__ import annotations

import tensorflow as tf

from virel_tf.config import Config
from virel_tf.networks.adam import FusedAdam
from virel_tf.networks.critics import ValueNetwork
from virel_tf.objective.residual import state_residual_loss

HIDDEN = 64
LOG_RANGE = (-20.0, 20.0)


class StateResidual:
    """The network of log v, its optimiser and the loss above."""

    def __init__(self, config: Config, observation_size: int, seed: int) -> None:
        self.network = ValueNetwork(
            observation_size, HIDDEN, 2, seed, normalisation="layer", name="state_residual"
        )
        self.parameters = [variable.value for variable in self.network.trainable_variables]
        self.optimiser = FusedAdam(
            self.parameters, config.value_learning_rate, config.adam_beta_1, config.adam_beta_2
        )

    def relative(self, observation: tf.Tensor) -> tf.Tensor:
        """v(s) / mean v over the batch [B]."""
        squared = tf.exp(self._log(observation))
        return tf.stop_gradient(squared / tf.reduce_mean(squared))

    def learn(self, observation: tf.Tensor, squared_td_error: tf.Tensor) -> None:
        """One step down the loss; observation [B, D], squared_td_error [B]."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.parameters)
            loss = state_residual_loss(self._log(observation), squared_td_error)
        self.optimiser.apply(tape.gradient(loss, self.parameters))

    def _log(self, observation: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(self.network(observation), *LOG_RANGE)
