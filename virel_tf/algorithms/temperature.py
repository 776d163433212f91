"""What scales the KL in the E-step. One word for one role:

| here | paper's theory | paper's experiments | SAC |
|---|---|---|---|
| temperature | epsilon_omega | alpha (virel), lambda epsilon-hat (beta) | alpha |

A temperature is a factor, or a factor times the residual error:

| name | factor | times epsilon | used by |
|---|---|---|---|
| zero | 0 | | ddpg |
| constant | alpha | | virel, virel1, virel2, sac_v1 |
| learned | tuned until the entropy is the target entropy (Haarnoja et al. 2018b) | | sac, crossq, redq |
| residual | 1 | yes | mpo |
| scaled_residual | lambda, by --lambda_rule | yes, up to --temperature_bound | beta |
| state_residual | tuned until the entropy is the target entropy | epsilon(s) / mean epsilon(s) | by flag |

Each update reads the temperature first, from what earlier updates left, and lets it learn last. So
nothing in an update waits for its own residual, and soft targets know their temperature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from virel_tf.config import Config
from virel_tf.networks.adam import FusedAdam
from virel_tf.objective.residual import (
    lambda_from_rewards,
    residual_error,
    running_decay,
    running_mean,
)

SLOW_UPDATES = 20_000  # the window of --lambda_rule=relative


class TemperatureReading(NamedTuple):
    """One update's temperature and what it was made of, each []."""

    temperature: tf.Tensor
    epsilon: tf.Tensor
    running_epsilon: tf.Tensor  # the cheap estimate, followed whichever one is used
    lambda_: tf.Tensor  # the factor on epsilon; 1 where the temperature does not follow it


class Factor:
    """What the temperature is, or what epsilon is multiplied by. By default it learns nothing."""

    variables: list[tf.Variable]  # all of its state

    def read(self, mean_abs_reward: tf.Tensor) -> tf.Tensor:
        """Its value now, []."""
        raise NotImplementedError

    def follow_residual(self, residual: tf.Tensor) -> None:
        """Takes in an update's residual error []."""

    def follow_entropy(self, log_prob: tf.Tensor, may_rise: tf.Tensor) -> None:
        """Takes in an E-step's log pi [B]. Unless it `may_rise` [], the factor can only fall."""

    def ready(self) -> tf.Tensor:
        """Whether it has learned enough to be used; until then the temperature is alpha."""
        return tf.constant(True)


class Temperature:
    """A factor, or a factor times epsilon-hat.

    Before N_epsilon transitions were seen, it is what the recipe's epsilon_warmup says.

    With `per_state` the temperature of a state is that times epsilon(s) / mean epsilon(s); see
    `algorithms/state_residual.py`.
    """

    def __init__(
        self, config: Config, factor: Factor, follows_residual: bool, per_state: bool = False
    ) -> None:
        self.config, self.factor, self.follows_residual = config, factor, follows_residual
        self.per_state = per_state
        self.recipe = config.recipe
        self.residual = RunningMean(running_decay(config.batch_size, config.epsilon_samples))
        self.variables = [*self.residual.variables, *factor.variables]

    @property
    def draws_afresh(self) -> bool:
        """Whether epsilon is of transitions drawn for it (the paper's estimator)."""
        return self.follows_residual and self.config.epsilon_estimator == "buffer"

    def running(self, mean_abs_reward: tf.Tensor) -> TemperatureReading:
        """The temperature by the running epsilon, without warm-up or bound."""
        factor = self.factor.read(mean_abs_reward)
        epsilon = tf.identity(self.residual.mean)
        if not self.follows_residual:
            return TemperatureReading(factor, epsilon, epsilon, tf.constant(1.0))
        return TemperatureReading(factor * epsilon, epsilon, epsilon, factor)

    def read(
        self, running: TemperatureReading, fresh_td_error: tf.Tensor | None, steps_seen: tf.Tensor
    ) -> TemperatureReading:
        """The temperature of this update, from `running`.

        If epsilon is drawn afresh, it is from T Q - Q [N].
        """
        config, recipe = self.config, self.recipe
        factor, epsilon = running.lambda_, running.epsilon
        if not self.follows_residual:
            return running
        if fresh_td_error is not None:
            epsilon = self._residual_error(fresh_td_error)
        warm = steps_seen >= config.epsilon_samples
        if recipe.epsilon_warmup == "one":
            epsilon = tf.where(warm, epsilon, 1.0)
        temperature = factor * epsilon
        if config.temperature_bound:
            temperature = tf.minimum(temperature, config.temperature_bound)
        if recipe.epsilon_warmup == "alpha":
            temperature = tf.where(warm, temperature, config.alpha)
        temperature = tf.where(self.factor.ready(), temperature, config.alpha)
        return TemperatureReading(temperature, epsilon, running.running_epsilon, factor)

    def follow_residual(self, td_error: tf.Tensor) -> None:
        """Takes in an update's T Q - Q [N]."""
        residual = self._residual_error(td_error)
        self.residual.update(residual)
        self.factor.follow_residual(residual)

    def follow_entropy(
        self, log_prob: tf.Tensor, reading: TemperatureReading, steps_seen: tf.Tensor
    ) -> None:
        """Takes in an E-step's log pi [B], at the temperature of `reading`.

        Not during warm-up, when the temperature does not depend on lambda: the entropy's error
        could not be corrected and lambda would diverge. For the same reason lambda does not rise
        while the temperature is at its bound.
        """
        log_prob = tf.stop_gradient(log_prob)
        may_rise = tf.constant(True)
        if self.follows_residual and self.config.temperature_bound:
            may_rise = reading.lambda_ * reading.epsilon < self.config.temperature_bound
        if self.follows_residual and self.recipe.epsilon_warmup == "alpha":
            tf.cond(
                steps_seen >= self.config.epsilon_samples,
                lambda: self.factor.follow_entropy(log_prob, may_rise),
                lambda: None,
            )
        else:
            self.factor.follow_entropy(log_prob, may_rise)

    def _residual_error(self, td_error: tf.Tensor) -> tf.Tensor:
        return residual_error(
            tf.stop_gradient(td_error), self.recipe.epsilon_c, self.recipe.epsilon_p
        )


class RunningMean:
    """An exponential mean that is exact from the first value on; 0 before it."""

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.mean = tf.Variable(0.0, trainable=False)
        self.weight = tf.Variable(0.0, trainable=False)
        self.variables = [self.mean, self.weight]

    def update(self, new: tf.Tensor) -> None:
        """Takes in one value, []."""
        mean, weight = running_mean(self.mean, self.weight, new, self.decay)
        self.weight.assign(weight)
        self.mean.assign(mean)


class Constant(Factor):
    """A number that does not change."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.variables = []

    def read(self, mean_abs_reward: tf.Tensor) -> tf.Tensor:
        """Its value now, []."""
        return tf.constant(self.value)


class FromRewards(Factor):
    """(1 - gamma) / r_avg: the lambda that the paper derives."""

    def __init__(self, discount: float) -> None:
        self.discount = discount
        self.variables = []

    def read(self, mean_abs_reward: tf.Tensor) -> tf.Tensor:
        """Its value now, []."""
        return lambda_from_rewards(mean_abs_reward, discount=self.discount)


class RelativeToHistory(Factor):
    """alpha / mean(epsilon): the temperature is alpha on average.

    It is higher where the residual is above its mean. So the temperature's level does not depend on
    how well a critic fits (layer normalisation, several Qs).
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.history = RunningMean(1 - 1 / SLOW_UPDATES)
        self.variables = self.history.variables

    def read(self, mean_abs_reward: tf.Tensor) -> tf.Tensor:
        """Its value now, []."""
        return self.alpha / tf.maximum(self.history.mean, 1e-6)

    def follow_residual(self, residual: tf.Tensor) -> None:
        """Takes in an update's residual error []."""
        self.history.update(residual)

    def ready(self) -> tf.Tensor:
        """After the first residual."""
        return self.history.weight > 0


class TunedToEntropy(Factor):
    """exp(x), with x descending -x E[log pi + target entropy].

    It grows while the entropy is below its target.
    """

    def __init__(self, start: float, config: Config, action_size: int) -> None:
        self.target = config.target_entropy * action_size
        self.logarithm = tf.Variable(tf.math.log(start), trainable=False)
        self.optimiser = FusedAdam(
            [self.logarithm], config.temperature_learning_rate, config.adam_beta_1
        )
        self.variables = [self.logarithm, *self.optimiser.variables]

    def read(self, mean_abs_reward: tf.Tensor) -> tf.Tensor:
        """Its value now, []."""
        return tf.exp(self.logarithm)

    def follow_entropy(self, log_prob: tf.Tensor, may_rise: tf.Tensor) -> None:
        """Takes in an E-step's log pi [B]. Unless it `may_rise` [], the factor can only fall."""
        gradient = -(tf.reduce_mean(log_prob) + self.target)
        gradient = tf.where(may_rise, gradient, tf.maximum(gradient, 0.0))
        self.optimiser.apply([gradient])


def scaled_residual(config: Config, action_size: int) -> Temperature:
    """lambda epsilon, with the lambda of --lambda_rule."""
    rules: dict[str, Callable[[], Factor]] = {
        "constant": lambda: Constant(config.lambda_beta),
        "rewards": lambda: FromRewards(config.discount),
        "relative": lambda: RelativeToHistory(config.alpha),
        "entropy": lambda: TunedToEntropy(config.lambda_beta, config, action_size),
    }
    return Temperature(config, rules[config.lambda_rule](), follows_residual=True)


TEMPERATURES: dict[str, Callable[[Config, int], Temperature]] = {
    "zero": lambda config, _: Temperature(config, Constant(0.0), follows_residual=False),
    "constant": lambda config, _: Temperature(
        config, Constant(config.alpha), follows_residual=False
    ),
    "learned": lambda config, action_size: Temperature(
        config, TunedToEntropy(max(config.alpha, 1e-6), config, action_size), follows_residual=False
    ),
    "residual": lambda config, _: Temperature(config, Constant(1.0), follows_residual=True),
    "scaled_residual": scaled_residual,
    "state_residual": lambda config, action_size: Temperature(
        config,
        TunedToEntropy(max(config.alpha, 1e-6), config, action_size),
        follows_residual=False,
        per_state=True,
    ),
}
