"""Random MDPs with a nonlinear Q, whose gradients can be worked out exactly."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from virel_tf.theory.mdp import FiniteMDP, random_mdp


class TanhQ:
    """Q(s, a) = u^T tanh(W x(s, a)) + v^T x(s, a), with W and u in omega.

    The features x are random, and v is fixed.
    """

    def __init__(self, states: int, actions: int, hidden: int, seed: int) -> None:
        random = np.random.default_rng([seed, 99])
        self.features = random.normal(size=[states, actions, 4])
        self.offset = self.features @ random.normal(size=4) + 3.0
        self.split = 4 * hidden
        self.parameters = random.normal(size=self.split + hidden) * 0.7

    def __call__(self, parameters: tf.Tensor) -> tf.Tensor:
        weights = tf.reshape(parameters[: self.split], [4, -1])
        return (
            tf.linalg.matvec(tf.tanh(self.features @ weights), parameters[self.split :])
            + self.offset
        )

    def with_jacobian(self, parameters: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
        parameters = tf.convert_to_tensor(parameters)
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            q = self(parameters)
        return q, tape.jacobian(q, parameters)

    def hessian_product(self, parameters: np.ndarray, weights: tf.Tensor) -> tf.Tensor:
        """(grad^2 Q(h)) weights for every pair, [S, K, P]."""
        parameters = tf.convert_to_tensor(parameters)
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            projected = tf.linalg.matvec(self.jacobian_of(parameters), weights)
        return tape.jacobian(projected, parameters)

    def jacobian_of(self, parameters: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            q = self(parameters)
        return tape.jacobian(q, parameters)


def problem_and_q(case) -> tuple[FiniteMDP, TanhQ]:
    (states, actions, hidden), seed = case
    return random_mdp(states, actions, 0.9, seed), TanhQ(states, actions, hidden, seed)
