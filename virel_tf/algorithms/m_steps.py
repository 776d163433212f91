"""M-steps in training: which targets the Qs of a recipe see, and the gradient that follows (`objective/m_step.py`).

| --m_step | bootstraps on | gradient flows through the target |
|---|---|---|
| direct | the recipe's slow networks | no |
| residual | the Qs themselves, at two independent actions of the policy | yes |
| gtd2, tdc | the Qs themselves, at an action of the policy | yes, weighted by b^T zeta |
| elbo | the Qs themselves, at N actions of the policy with the weights that make them pi_omega's | yes |

The stored s' stands for both samples that `residual` and `elbo` want of what follows (s, a). That is exact where
the environment's step is deterministic, as MuJoCo's is; where it is not, they take the variance of s' for error (Baird
1995), and gtd2 or tdc, which need one sample only, are to be preferred.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import tensorflow as tf

from virel_tf.algorithms.critics import Critics, Evidence
from virel_tf.config import Config
from virel_tf.networks.adam import FusedAdam
from virel_tf.networks.policies import Sample
from virel_tf.objective.boltzmann import importance_weights
from virel_tf.objective.m_step import full_elbo, gtd2, projection_step, residual_gradient, squared_error, tdc
from virel_tf.objective.targets import minimum
from virel_tf.types import Transition

LEAST_EPSILON = 1e-3  # of `elbo`, before the first residuals are known

Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class Given(NamedTuple):
    """What an M-step starts from."""

    batch: Transition
    temperature: tf.Tensor  # []
    epsilon: tf.Tensor  # []
    draw_here: Callable[[], Sample]  # actions of the policy at s [B]
    draw_next: Callable[[int], Sample]  # N -> as many independent actions of the policy at each s' [B N]


class Outcome(NamedTuple):
    """What an M-step leaves: gradients for the optimiser of Q, and what the rest of the update needs."""

    parts: list[tf.Tensor]  # the first layers' share of s, for the E-step
    evidence: Evidence
    loss: tf.Tensor  # E[1/2 (T Q - Q)^2] summed over the Qs, or what else the direct loss is
    gradients: list[tf.Tensor]


class Asked(NamedTuple):
    """What the Qs that learn say, per critic."""

    predictions: list[tf.Tensor]  # Q_i(s, a) [B]
    drawn: Sample  # N actions at each s', [B N]
    next_qs: list[tf.Tensor]  # Q_i of those [B N]
    here: tf.Tensor | None  # the least Q of other actions at s [B]


class MStep:
    """What M-steps share. Each is called with `Given` and returns an `Outcome`; `variables` are those it learns."""

    def __init__(self, config: Config, critics: Critics, parameters: list[tf.Variable], loss: Loss) -> None:
        self.config, self.critics, self.parameters, self.loss = config, critics, parameters, loss
        self.variables: list[tf.Variable] = []

    def total_loss(self, evidence: Evidence) -> tf.Tensor:
        """The loss, by default E[1/2 beta^2], summed over the Qs."""
        return sum(self.loss(q, tf.stop_gradient(target)) for q, target in zip(*evidence, strict=True))

    def ask(self, given: Given, count: int, here: tf.Tensor | None = None) -> Asked:
        """What the Qs that learn say of the batch, of `count` actions at each s' and, if given, of actions at s.

        In one call of each Q, so that its gradient is one piece. Several would be added up in the order in which they
        come, the last bit would differ from time to time, and a resumed run would not be the uninterrupted one.
        """
        batch, drawn = given.batch, given.draw_next(count)
        more = [] if here is None else [here]
        observation = tf.concat([batch.observation, *[batch.observation for _ in more],
                                 tf.repeat(batch.next_observation, count, axis=0)], axis=0)
        action = tf.concat([batch.action, *more, drawn.action], axis=0)
        size = tf.shape(batch.action)[0]
        pieces = [tf.split(q(observation, action), [size] * (1 + len(more)) + [size * count]) for q in self.critics.qs]
        return Asked([piece[0] for piece in pieces], drawn, [piece[-1] for piece in pieces],
                     minimum([piece[1] for piece in pieces]) if more else None)

    def targets(self, given: Given, online: bool) -> list[tf.Tensor]:
        """T Q_i (s, a) [B] per critic, by the operator T whose residual this M-step brings down: what epsilon is of.

        `online` asks for the V that learns in place of its slow copy, where T bootstraps on one.
        """
        del online
        return self.online_targets(given, self.ask(given, 1), 1)[0]

    def online_targets(self, given: Given, asked: Asked, count: int) -> list[list[tf.Tensor]]:
        """T^{pi_theta} Q per critic by the Qs that learn, `count` times, each at an action of its own."""
        values = self.critics.values(asked.next_qs, asked.drawn, given.temperature)
        values = [tf.reshape(value, [-1, count]) for value in values]
        return [self.critics.targets(given.batch, [value[:, i] for value in values]) for i in range(count)]

    def outcome(self, given: Given, evidence: Evidence, gradients: list[tf.Tensor]) -> Outcome:
        """What an M-step on the Qs themselves leaves."""
        return Outcome(self.critics.observation_parts(given.batch.observation), evidence, self.total_loss(evidence),
                       gradients)


class Direct(MStep):
    """Regression on targets that are held fixed."""

    def __call__(self, given: Given) -> Outcome:
        """One M-step."""
        critics, batch = self.critics, given.batch
        with watching(self.parameters) as tape:
            parts = critics.observation_parts(batch.observation)
            evidence = Evidence(critics.of_action(parts, batch.action), self.targets(given, online=False))
            loss = self.total_loss(evidence)
        return Outcome(parts, evidence, loss, tape.gradient(loss, self.parameters))

    def targets(self, given: Given, online: bool) -> list[tf.Tensor]:
        """See `MStep`."""
        return self.critics.targets(given.batch, self.critics.next_values(
            given.batch.next_observation, lambda: given.draw_next(1), given.temperature, online))


class Residual(MStep):
    """Baird's residual gradient."""

    def __call__(self, given: Given) -> Outcome:
        """One M-step."""
        with watching(self.parameters) as tape:
            asked = self.ask(given, 2)
            targets, independent = self.online_targets(given, asked, 2)
            evidence = Evidence(asked.predictions, targets)
            step = sum(residual_gradient(target - q, other - q) for q, target, other in zip(
                *evidence, independent, strict=True))
        return self.outcome(given, evidence, tape.gradient(step, self.parameters))


class Projected(MStep):
    """GTD2 or TDC for a nonlinear Q, with zeta learned by its own optimiser."""

    def __init__(self, config: Config, critics: Critics, parameters: list[tf.Variable], loss: Loss,
                 step: Callable[..., tf.Tensor]) -> None:
        super().__init__(config, critics, parameters, loss)
        self.step = step
        self.zeta = [tf.Variable(tf.zeros_like(parameter), trainable=False) for parameter in parameters]
        self.optimiser = FusedAdam(self.zeta, config.zeta_learning_rate)
        self.variables = [*self.zeta, *self.optimiser.variables]

    def __call__(self, given: Given) -> Outcome:
        """One M-step."""
        with watching(self.parameters, persistent=True) as tape:
            directions = [tf.identity(zeta) for zeta in self.zeta]
            with tf.autodiff.ForwardAccumulator(self.parameters, directions) as forward:
                asked = self.ask(given, 1)
                fitted = [forward.jvp(q) for q in asked.predictions]  # b^T zeta
            evidence = Evidence(asked.predictions, self.online_targets(given, asked, 1)[0])
            step, zeta_step = (sum(function(q, target, fit) for q, target, fit in zip(*evidence, fitted, strict=True))
                               for function in (self.step, projection_step))
        gradients = tape.gradient(step, self.parameters)
        self.optimiser.apply(tape.gradient(zeta_step, self.parameters))
        return self.outcome(given, evidence, gradients)


class FullElbo(MStep):
    """The gradient of the ELBO itself."""

    def __call__(self, given: Given) -> Outcome:
        """One M-step."""
        epsilon = least(given.epsilon)
        with watching(self.parameters) as tape:
            asked = self.ask(given, 2 * self.config.boltzmann_actions, here=given.draw_here().action)
            (targets, _), (independent, variance) = self.boltzmann_targets(given, asked)
            evidence, qs = Evidence(asked.predictions, targets), tf.concat(asked.predictions, 0)
            step = full_elbo(asked.here, tf.concat(targets, 0) - qs, tf.concat(independent, 0) - qs,
                             tf.tile(variance, [len(targets)]), epsilon, self.config.epsilon_c, self.config.epsilon_p)
        return self.outcome(given, evidence, tape.gradient(step, self.parameters))

    def targets(self, given: Given, online: bool) -> list[tf.Tensor]:
        """See `MStep`."""
        del online
        return self.boltzmann_targets(given, self.ask(given, 2 * self.config.boltzmann_actions))[0][0]

    def boltzmann_targets(self, given: Given, asked: Asked) -> list[tuple[list[tf.Tensor], tf.Tensor]]:
        """Twice, independently: T^{pi_omega} Q per critic, and gamma Var_{pi_omega}[Q(s', .)] [B].

        Each from half of the actions at s'.
        """
        batch, epsilon, shape = given.batch, least(given.epsilon), [-1, 2, self.config.boltzmann_actions]
        q = tf.reshape(minimum(asked.next_qs), shape)
        weights = importance_weights(q, tf.reshape(asked.drawn.log_prob, shape), epsilon)
        value = tf.reduce_sum(weights * q, axis=-1)  # [B, 2]
        variance = tf.reduce_sum(weights * tf.square(q - value[:, :, None]), axis=-1)
        bootstrapped = batch.discount * (1.0 - batch.terminated)
        return [(self.critics.targets(batch, [value[:, i]] * len(self.critics.distinct)),
                 bootstrapped * variance[:, i]) for i in range(2)]


def least(epsilon: tf.Tensor) -> tf.Tensor:
    """epsilon, or LEAST_EPSILON where that is more."""
    return tf.maximum(epsilon, LEAST_EPSILON)


M_STEPS: dict[str, Callable[..., MStep]] = {
    "direct": Direct,
    "residual": Residual,
    "gtd2": lambda *arguments: Projected(*arguments, step=gtd2),
    "tdc": lambda *arguments: Projected(*arguments, step=tdc),
    "elbo": FullElbo,
}


def make_m_step(part: str | Loss, config: Config, critics: Critics, parameters: list[tf.Variable]) -> MStep:
    """The M-step of that name, or the direct one with the user's own loss of (prediction, target)."""
    if callable(part):
        return Direct(config, critics, parameters, part)
    return M_STEPS[part](config, critics, parameters, squared_error)


@contextlib.contextmanager
def watching(variables: list[tf.Variable], persistent: bool = False) -> Iterator[tf.GradientTape]:
    """A tape that follows these variables and no others."""
    with tf.GradientTape(persistent, watch_accessed_variables=False) as tape:
        tape.watch(variables)
        yield tape
