"""What scales the KL in the E-step. One word for one role:

| here | paper's theory | paper's experiments | SAC |
|---|---|---|---|
| temperature | epsilon_omega | alpha (virel), lambda epsilon-hat (beta) | alpha |

A temperature is a factor, or a factor times the residual error:

| name | factor | times epsilon | used by |
|---|---|---|---|
| zero | 0 | | ddpg |
| constant | alpha | | virel, virel1, virel2, sac_v1, sac |
| learned | tuned until the entropy is the target entropy (Haarnoja et al. 2018b) | | sac, by flag |
| residual | 1 | yes | mpo |
| scaled_residual | lambda, by --lambda_rule | yes | beta |

Each update reads the temperature first, from what earlier updates left, and lets it learn last. So nothing in an update
waits for its own residual, and soft targets know their temperature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import tensorflow as tf

from virel_tf.config import Config
from virel_tf.networks.adam import FusedAdam
from virel_tf.objective.residual import lambda_from_rewards, residual_error, running_decay, running_mean

SLOW_UPDATES = 20_000  # the window of --lambda_rule=relative


class Known(NamedTuple):
    """What an update knows before it starts."""

    # T Q - Q of that many transitions drawn for it; targets need temperature and epsilon as far as these are known
    fresh_td_error: Callable[[int, tf.Tensor, tf.Tensor], tf.Tensor]
    seen: tf.Tensor  # transitions ever seen []
    mean_abs_reward: tf.Tensor  # mean magnitude of their rewards []


class Reading(NamedTuple):
    """One update's temperature and what it was made of, each []."""

    temperature: tf.Tensor
    epsilon: tf.Tensor
    running_epsilon: tf.Tensor  # the cheap estimate, followed whichever one is used
    lambda_: tf.Tensor  # the factor on epsilon; 1 where the temperature does not follow it


class Factor(Protocol):
    """A number that may be learned from the policy's log-probabilities."""

    variables: list[tf.Variable]

    def read(self, known: Known) -> tf.Tensor:
        """Its value now, []."""

    def learn(self, residual: tf.Tensor, log_prob: tf.Tensor, in_use: tf.Tensor | bool) -> None:
        """Takes in an update's residual error [] and log pi [B], and whether the policy felt this factor []."""

    def ready(self) -> tf.Tensor | bool:
        """Whether it has learned enough to be used; until then the temperature is alpha."""


class Temperature:
    """factor, or factor * epsilon-hat; before N_epsilon transitions were seen, what --epsilon_warmup says."""

    def __init__(self, config: Config, factor: Factor, follows_residual: bool) -> None:
        self.config, self.factor, self.follows_residual = config, factor, follows_residual
        self.residual = RunningMean(running_decay(config.batch_size, config.epsilon_samples))
        self.variables = [*self.residual.variables, *factor.variables]

    def read(self, known: Known) -> Reading:
        """The temperature of the update about to happen."""
        config, factor = self.config, self.factor.read(known)
        running_epsilon = epsilon = tf.identity(self.residual.mean)
        if not self.follows_residual:
            return Reading(factor, epsilon, running_epsilon, tf.constant(1.0))
        if config.epsilon_estimator == "buffer":
            epsilon = self._residual_error(known.fresh_td_error(
                config.epsilon_samples, factor * epsilon, running_epsilon))
        warm = known.seen >= config.epsilon_samples
        if config.epsilon_warmup == "one":
            epsilon = tf.where(warm, epsilon, 1.0)
        temperature = factor * epsilon
        if config.epsilon_warmup == "alpha":
            temperature = tf.where(warm, temperature, config.alpha)
        temperature = tf.where(self.factor.ready(), temperature, config.alpha)
        return Reading(temperature, epsilon, running_epsilon, factor)

    def learn(self, td_error: tf.Tensor, log_prob: tf.Tensor, seen: tf.Tensor) -> None:
        """Takes in an update's T Q - Q [N] and log pi [B], and how many transitions were seen before it []."""
        residual = self._residual_error(td_error)
        self.residual.update(residual)
        held_at_alpha = self.follows_residual and self.config.epsilon_warmup == "alpha"
        in_use = seen >= self.config.epsilon_samples if held_at_alpha else True
        self.factor.learn(residual, tf.stop_gradient(log_prob), in_use)

    def _residual_error(self, td_error: tf.Tensor) -> tf.Tensor:
        return residual_error(tf.stop_gradient(td_error), self.config.epsilon_c, self.config.epsilon_p)


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


class Constant:
    """A number."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.variables: list[tf.Variable] = []

    def read(self, known: Known) -> tf.Tensor:
        """See `Factor`."""
        return tf.constant(self.value)

    def learn(self, residual: tf.Tensor, log_prob: tf.Tensor, in_use: tf.Tensor | bool) -> None:
        """See `Factor`."""
        del residual, log_prob, in_use

    def ready(self) -> bool:
        """See `Factor`."""
        return True


class FromRewards(Constant):
    """(1 - gamma) / r_avg: the lambda that the paper derives."""

    def read(self, known: Known) -> tf.Tensor:
        """See `Factor`."""
        return lambda_from_rewards(known.mean_abs_reward, discount=self.value)


class RelativeToHistory:
    """alpha / mean(epsilon): the temperature is alpha on average, and more where the residual is above its history.

    So the temperature's level does not depend on how well a critic fits (layer normalisation, several Qs).
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.history = RunningMean(1 - 1 / SLOW_UPDATES)
        self.variables = self.history.variables

    def read(self, known: Known) -> tf.Tensor:
        """See `Factor`."""
        return self.alpha / tf.maximum(self.history.mean, 1e-6)

    def learn(self, residual: tf.Tensor, log_prob: tf.Tensor, in_use: tf.Tensor | bool) -> None:
        """See `Factor`."""
        del log_prob, in_use
        self.history.update(residual)

    def ready(self) -> tf.Tensor:
        """See `Factor`."""
        return self.history.weight > 0


class TunedToEntropy:
    """exp(x), with x descending -x E[log pi + target entropy]: it grows while the entropy is below its target."""

    def __init__(self, start: float, config: Config, action_size: int) -> None:
        self.target = config.target_entropy * action_size
        self.logarithm = tf.Variable(tf.math.log(start), trainable=False)
        self.optimiser = FusedAdam([self.logarithm], config.temperature_learning_rate)
        self.variables = [self.logarithm, *self.optimiser.variables]

    def read(self, known: Known) -> tf.Tensor:
        """See `Factor`."""
        return tf.exp(self.logarithm)

    def learn(self, residual: tf.Tensor, log_prob: tf.Tensor, in_use: tf.Tensor | bool) -> None:
        """See `Factor`. While the policy does not feel it, it stays: an error it cannot mend would drive it away."""
        def step() -> None:
            self.optimiser.apply([-(tf.reduce_mean(log_prob) + self.target)])

        step() if in_use is True else tf.cond(in_use, step, lambda: None)

    def ready(self) -> bool:
        """See `Factor`."""
        return True


def scaled_residual(config: Config, action_size: int) -> Temperature:
    """lambda epsilon, with the lambda of --lambda_rule."""
    rules = {"constant": lambda: Constant(config.lambda_beta), "rewards": lambda: FromRewards(config.discount),
             "relative": lambda: RelativeToHistory(config.alpha),
             "entropy": lambda: TunedToEntropy(config.lambda_beta, config, action_size)}
    return Temperature(config, rules[config.lambda_rule](), follows_residual=True)


TEMPERATURES: dict[str, Callable[[Config, int], Temperature]] = {
    "zero": lambda config, _: Temperature(config, Constant(0.0), follows_residual=False),
    "constant": lambda config, _: Temperature(config, Constant(config.alpha), follows_residual=False),
    "learned": lambda config, action_size: Temperature(
        config, TunedToEntropy(max(config.alpha, 1e-6), config, action_size), follows_residual=False),
    "residual": lambda config, _: Temperature(config, Constant(1.0), follows_residual=True),
    "scaled_residual": scaled_residual,
}
