"""The gradient of the ELBO itself, with the Boltzmann policy's values at s'."""

from __future__ import annotations

import tensorflow as tf

from virel_tf.algorithms.critic_ensemble import Critics, Regression
from virel_tf.algorithms.m_steps.base import (
    Loss,
    MStep,
    MStepInputs,
    MStepResult,
    OnlineQs,
    watching,
)
from virel_tf.config import Config
from virel_tf.objective.boltzmann import importance_weights
from virel_tf.objective.m_step import full_elbo
from virel_tf.objective.targets import minimum

LEAST_EPSILON = 1e-3  # before the first residuals are known


class FullElbo(MStep):
    """Ascends epsilon^2 grad L."""

    wants_policy_sample = True

    def __init__(
        self, config: Config, critics: Critics, parameters: list[tf.Variable], loss: Loss
    ) -> None:
        super().__init__(config, critics, parameters, loss)
        self.next_actions = 2 * critics.recipe.boltzmann_actions

    def __call__(self, inputs: MStepInputs) -> MStepResult:
        """One M-step."""
        with watching(self.parameters) as tape:
            qs = self.online_qs(inputs)
            (targets, _), (independent, variance) = self.boltzmann_targets(inputs, qs)
            predictions = tf.concat(qs.predictions, 0)
            step = full_elbo(
                qs.policy_q,
                tf.concat(targets, 0) - predictions,
                tf.concat(independent, 0) - predictions,
                tf.tile(variance, [len(targets)]),
                at_least(inputs.epsilon),
                self.critics.recipe.epsilon_c,
                self.critics.recipe.epsilon_p,
            )
        gradients = tape.gradient(step, self.parameters)
        return self.result(inputs, Regression(qs.predictions, targets), gradients)

    def regression(self, inputs: MStepInputs, online: bool, track: bool = True) -> Regression:
        """See `MStep`."""
        del online, track
        qs = self.online_qs(inputs._replace(policy_sample=None))
        return Regression(qs.predictions, self.boltzmann_targets(inputs, qs)[0][0])

    def boltzmann_targets(
        self, inputs: MStepInputs, qs: OnlineQs
    ) -> list[tuple[list[tf.Tensor], tf.Tensor]]:
        """Twice, independently: T^{pi_omega} Q per critic, and gamma Var_{pi_omega}[Q(s', .)] [B].

        Each from half of the actions at s'.
        """
        batch = inputs.batch
        shape = [-1, 2, self.critics.recipe.boltzmann_actions]
        q = tf.reshape(minimum(qs.next_qs), shape)
        log_prob = tf.reshape(qs.next_sample.log_prob, shape)
        weights = importance_weights(q, log_prob, at_least(inputs.epsilon))
        value = tf.reduce_sum(weights * q, axis=-1)  # [B, 2]
        variance = tf.reduce_sum(weights * tf.square(q - value[:, :, None]), axis=-1)
        bootstrapped = batch.discount * (1.0 - batch.terminated)
        kinds = len(self.critics.distinct)
        return [
            (
                self.critics.td_targets(batch, [value[:, i]] * kinds),
                bootstrapped * variance[:, i],
            )
            for i in range(2)
        ]


def at_least(epsilon: tf.Tensor) -> tf.Tensor:
    """epsilon, or LEAST_EPSILON where that is more."""
    return tf.maximum(epsilon, LEAST_EPSILON)
