"""A learner on networks of one unit, where every loss and gradient can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from tuned_recipe import tuned

from virel_tf.algorithms.learner import METRICS, Learner
from virel_tf.config import Config
from virel_tf.replay.ring import ReplayRing, Rows

# s = 2, a = 0.5, r = 1, s' = 3.  Q(s, a) = 0.5 relu(s + 2 a), V(s) = 0.3 relu(s), V-bar(s) = 0.2
# relu(s), and a policy that does tanh(loc) = 0.5 with hardly any deviation.
Q = 0.5 * (2 + 2 * 0.5)  # 1.5
TARGET = 1 + 0.99 * 0.2 * 3  # 1.594
TD = TARGET - Q  # 0.094
LOC = math.atanh(0.5)


def make_learner(terminated=0.0, recipe=None, **settings) -> Learner:
    config = Config(
        **{
            **dict(
                preset="none",
                hidden=1,
                layers=1,
                batch_size=1,
                replay_size=10,
                steps_per_iteration=1,
                epsilon_samples=1,
            ),
            **tuned(settings),
        }
    )
    replay = ReplayRing(10, 1, 1, 1)
    replay.append(
        Rows(
            np.array([0]),
            np.array([[2.0]], np.float32),
            np.array([[0.5]], np.float32),
            np.array([1.0], np.float32),
            np.array([terminated], np.float32),
            np.array([True]),
        ),
        np.array([[3.0]], np.float32),
    )
    learner = Learner(config, recipe or config.recipe, replay, 1, 1)
    critics = learner.critics
    for model, values in (
        *(
            (q, ([[1.0]], [0.0], [[2.0]], [[0.5]], [0.0])) for q in critics.qs
        ),  # observation, bias, action, output
        *((v, ([[1.0]], [0.0], [[0.3]], [0.0])) for v in critics.vs),
        *((v, ([[1.0]], [0.0], [[0.2]], [0.0])) for v in critics.target_vs),
        *((q, ([[1.0]], [0.0], [[2.0]], [[0.4]], [0.0])) for q in critics.target_qs),
    ):
        assign(model, values)
    for policy in (learner.policy, learner.target_policy, learner.old_policy):
        if policy:
            deterministic = config.recipe.policy == "deterministic"
            assign(
                policy,
                (
                    ([[1.0]], [0.0], [[0.0]], [LOC])
                    if deterministic
                    else ([[1.0]], [0.0], [[0.0, 0.0]], [LOC, -25.0])
                ),
            )
    return learner


def assign(model, values) -> None:
    for variable, value in zip(model.trainable_variables, values, strict=True):
        variable.assign(value)


def know_epsilon(learner: Learner, epsilon: float) -> None:
    """As if earlier updates had found this residual error."""
    learner.temperature.residual.mean.assign(epsilon)
    learner.temperature.residual.weight.assign(1.0)


def update(learner: Learner) -> dict[str, float]:
    metrics = learner.update(
        learner.replay.view(), tf.constant(0), tf.constant(1), tf.constant(1.0)
    ).numpy()
    return dict(zip(METRICS, metrics[0], strict=True))


def gradients(optimiser) -> list[np.ndarray]:
    """Adam's first moment after one step is a tenth of the gradient."""
    return [moment.numpy() / 0.1 for moment in optimiser.first]
