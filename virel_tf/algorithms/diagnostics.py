r"""The ELBO per state and what it is made of, on states of the replay (`--diagnostics`).

    L(s) = E_{a ~ pi_theta}[ Q / epsilon ] + H(pi_theta)                 (4)
         = log integral exp(Q / epsilon) da - KL(pi_theta || pi_omega)   (5)

with the temperature in use for epsilon. The integral is estimated from N actions of the policy, so
it, and the KL with it, is off where the two policies have little in common.
"""

from __future__ import annotations

import tensorflow as tf

from virel_tf.algorithms.learner import ACTION, BATCH, Learner, stream_seed
from virel_tf.networks.policies import sample
from virel_tf.objective.boltzmann import importance_kl, importance_log_partition
from virel_tf.objective.targets import minimum
from virel_tf.replay.ring import ReplayView

DIAGNOSTICS = ("elbo", "scaled_elbo", "log_partition", "boltzmann_kl")
STATES, ACTIONS = 256, 64


class Diagnostics:
    """Reads the objective of a learner as it is now."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        lane = tf.TensorSpec([learner.replay.lanes], tf.int32)
        number = tf.TensorSpec([], tf.int32)
        signature = [ReplayView(lane, lane), number, tf.TensorSpec([])]
        self._compiled = tf.function(self._read, input_signature=signature)

    def read(self, updates: int, temperature: float | None) -> dict[str, float | None]:
        """Means over states by name.

        None before anything was learned, and without a temperature to divide by.
        """
        if not temperature:
            return dict.fromkeys(DIAGNOSTICS)
        values = self._compiled(
            self.learner.replay.view(), tf.constant(updates), tf.constant(temperature, tf.float32)
        )
        return dict(zip(DIAGNOSTICS, values.numpy().tolist(), strict=True))

    def _read(self, view: ReplayView, updates: tf.Tensor, temperature: tf.Tensor) -> tf.Tensor:
        learner, seed = self.learner, self.learner.config.seed
        batch = learner.prepare(
            learner.replay.sample(view, STATES, stream_seed(seed, BATCH, updates))
        )
        observations = tf.repeat(batch.observation, ACTIONS, axis=0)
        drawn = sample(learner.policy, observations, stream_seed(seed, ACTION, updates))
        critics = learner.critics
        q = minimum(critics.of_action(critics.observation_parts(observations), drawn.action))
        q, log_prob = (tf.reshape(values, [STATES, ACTIONS]) for values in (q, drawn.log_prob))
        scaled = q - temperature * log_prob
        return tf.stack(
            [
                tf.reduce_mean(values)
                for values in (
                    scaled / temperature,
                    scaled,
                    importance_log_partition(q, log_prob, temperature),
                    importance_kl(q, log_prob, temperature),
                )
            ]
        )
