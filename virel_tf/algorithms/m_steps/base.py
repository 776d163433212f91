"""What an M-step takes, what it gives, and what those that bootstrap on the Qs themselves share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import tensorflow as tf

from virel_tf.algorithms.critic_ensemble import Critics, Regression
from virel_tf.config import Config
from virel_tf.networks.policies import Sample
from virel_tf.objective.targets import minimum
from virel_tf.transition import Transition

Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class MStepInputs(NamedTuple):
    """What an M-step starts from."""

    batch: Transition
    next_sample: Sample | None  # `next_actions` actions of the policy at each s' [B N]
    policy_sample: Sample | None  # actions of the policy at s [B], where `wants_policy_sample`
    temperature: tf.Tensor  # [], or [B] where each state has its own
    epsilon: tf.Tensor  # []
    subset_seed: tf.Tensor  # [2], for targets from a random subset of the Qs


class MStepResult(NamedTuple):
    """What an M-step leaves."""

    regression: Regression
    loss: tf.Tensor  # E[1/2 (T Q - Q)^2] summed over the Qs, or what else the direct loss is
    gradients: list[tf.Tensor]  # for the optimiser of Q
    observation_parts: list[tf.Tensor] | None  # the first layers' share of s, for the E-step


class OnlineQs(NamedTuple):
    """What the Qs that learn say, per critic."""

    predictions: list[tf.Tensor]  # Q_i(s, a) [B]
    next_sample: Sample  # N actions at each s', [B N]
    next_qs: list[tf.Tensor]  # Q_i of those [B N]
    policy_q: tf.Tensor | None  # the least Q of the policy's actions at s [B]


class MStep:
    """An M-step is called with `MStepInputs`; `variables` are those it learns beside the Qs."""

    next_actions = 1  # how many independent actions it wants at each s'
    wants_policy_sample = False

    def __init__(
        self, config: Config, critics: Critics, parameters: list[tf.Variable], loss: Loss
    ) -> None:
        self.config = config
        self.critics = critics
        self.parameters = parameters
        self.loss = loss
        self.variables: list[tf.Variable] = []

    def __call__(self, inputs: MStepInputs) -> MStepResult:
        """One M-step; the caller applies its gradients."""
        raise NotImplementedError

    def regression(self, inputs: MStepInputs, online: bool, track: bool = True) -> Regression:
        """Q and T Q of a batch, by the operator T whose residual this M-step brings down.

        That is what epsilon is made of. `online` asks for the networks that learn in place of
        their target networks, where T bootstraps on one. `track`: running statistics of batch
        normalisation follow this batch.
        """
        del online, track
        qs = self.online_qs(inputs)
        return Regression(qs.predictions, self.online_targets(inputs, qs)[0])

    def total_loss(self, regression: Regression) -> tf.Tensor:
        """The loss, by default E[1/2 beta^2], summed over the Qs."""
        pairs = zip(regression.predictions, regression.td_targets, strict=True)
        return sum(self.loss(q, tf.stop_gradient(target)) for q, target in pairs)

    def online_qs(self, inputs: MStepInputs) -> OnlineQs:
        """What the Qs that learn say of the batch and of the actions in `inputs`.

        In one call of each Q, so that its gradient is one piece. Several would be added up in the
        order in which they come, the last bit would differ from time to time, and a resumed run
        would not be the uninterrupted one.
        """
        assert inputs.next_sample is not None  # the Qs themselves stand for the value of s'
        batch = inputs.batch
        observations = [batch.observation]
        actions = [batch.action]
        size = tf.shape(batch.action)[0]
        sizes = [size]
        if inputs.policy_sample is not None:
            observations.append(batch.observation)
            actions.append(inputs.policy_sample.action)
            sizes.append(size)
        observations.append(tf.repeat(batch.next_observation, self.next_actions, axis=0))
        actions.append(inputs.next_sample.action)
        sizes.append(size * self.next_actions)
        observation = tf.concat(observations, axis=0)
        action = tf.concat(actions, axis=0)
        pieces = [tf.split(q(observation, action), sizes) for q in self.critics.qs]
        policy_q = None
        if inputs.policy_sample is not None:
            policy_q = minimum([piece[1] for piece in pieces])
        return OnlineQs(
            predictions=[piece[0] for piece in pieces],
            next_sample=inputs.next_sample,
            next_qs=[piece[-1] for piece in pieces],
            policy_q=policy_q,
        )

    def online_targets(self, inputs: MStepInputs, qs: OnlineQs) -> list[list[tf.Tensor]]:
        """T^{pi_theta} Q per critic, once for each of the independent actions at s'."""
        values = self.critics.values(qs.next_qs, qs.next_sample, inputs.temperature)
        values = [tf.reshape(value, [-1, self.next_actions]) for value in values]
        return [
            self.critics.td_targets(inputs.batch, [value[:, i] for value in values])
            for i in range(self.next_actions)
        ]

    def result(
        self, inputs: MStepInputs, regression: Regression, gradients: list[tf.Tensor]
    ) -> MStepResult:
        """What an M-step on the Qs themselves leaves."""
        parts = self.critics.observation_parts(inputs.batch.observation)
        return MStepResult(regression, self.total_loss(regression), gradients, parts)


@contextlib.contextmanager
def watching(variables: list[tf.Variable], persistent: bool = False) -> Iterator[tf.GradientTape]:
    """A tape that follows these variables and no others."""
    with tf.GradientTape(persistent, watch_accessed_variables=False) as tape:
        tape.watch(variables)
        yield tape
