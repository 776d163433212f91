"""What scales the entropy in the E-step. One word for one role:

| here | paper's theory | paper's experiments | SAC |
|---|---|---|---|
| temperature | epsilon_omega | alpha (virel), lambda epsilon-hat (beta) | alpha |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import tensorflow as tf

from virel_tf.config import Config
from virel_tf.objective.residual import lambda_from_rewards, residual_error, running_decay, running_mean


class Reading(NamedTuple):
    """One update's temperature and what it was made of, each []."""

    temperature: tf.Tensor
    epsilon: tf.Tensor
    running_epsilon: tf.Tensor  # the cheap estimate, followed whichever one is used
    lambda_: tf.Tensor


class Temperature(Protocol):
    """What the learner asks of a temperature, once per update."""

    variables: list[tf.Variable]

    def __init__(self, config: Config) -> None: ...

    def read(self, td_error: tf.Tensor, fresh_td_error: Callable[[int], tf.Tensor], seen: tf.Tensor,
             mean_abs_reward: tf.Tensor) -> Reading:
        """From this batch's T Q - Q [B], a function that gives it for n fresh transitions, the number of transitions
        ever seen, and the mean magnitude of their rewards."""


class ConstantTemperature:
    """alpha. The residual error is still followed, as a diagnostic."""

    def __init__(self, config: Config) -> None:
        self.alpha = config.alpha
        self.residual = RunningResidual(config)
        self.variables = self.residual.variables

    def read(self, td_error, fresh_td_error, seen, mean_abs_reward) -> Reading:
        """See `Temperature`."""
        del fresh_td_error, seen, mean_abs_reward
        epsilon = self.residual.update(td_error)
        return Reading(tf.constant(self.alpha), epsilon, epsilon, tf.constant(1.0))


class ResidualTemperature:
    """lambda epsilon-hat; before N_epsilon transitions were seen, what --epsilon_warmup says."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.residual = RunningResidual(config)
        self.variables = self.residual.variables

    def read(self, td_error, fresh_td_error, seen, mean_abs_reward) -> Reading:
        """See `Temperature`."""
        config = self.config
        lambda_ = tf.constant(config.lambda_beta)
        if config.lambda_from_rewards:
            lambda_ = lambda_from_rewards(mean_abs_reward, config.discount)
        running_epsilon = epsilon = self.residual.update(td_error)
        if config.epsilon_estimator == "buffer":
            fresh = tf.stop_gradient(fresh_td_error(config.epsilon_samples))
            epsilon = residual_error(fresh, config.epsilon_c, config.epsilon_p)
        temperature = lambda_ * epsilon
        warm = seen >= config.epsilon_samples
        if config.epsilon_warmup == "one":
            epsilon = tf.where(warm, epsilon, 1.0)
            temperature = lambda_ * epsilon
        elif config.epsilon_warmup == "alpha":
            temperature = tf.where(warm, temperature, config.alpha)
        return Reading(temperature, epsilon, running_epsilon, lambda_)


class RunningResidual:
    """epsilon-hat over the batches of about the last N_epsilon / batch updates."""

    def __init__(self, config: Config) -> None:
        self.c, self.p = config.epsilon_c, config.epsilon_p
        self.decay = running_decay(config.batch_size, config.epsilon_samples)
        self.mean = tf.Variable(0.0, trainable=False)
        self.weight = tf.Variable(0.0, trainable=False)
        self.variables = [self.mean, self.weight]

    def update(self, td_error: tf.Tensor) -> tf.Tensor:
        """Takes in T Q - Q [B] of a batch and returns the mean so far, []."""
        new = residual_error(tf.stop_gradient(td_error), self.c, self.p)
        mean, weight = running_mean(self.mean, self.weight, new, self.decay)
        self.weight.assign(weight)
        return self.mean.assign(mean)
