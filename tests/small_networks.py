"""Small networks with random weights, and a learner with a few transitions."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tuned_recipe import tuned

from virel_tf.algorithms.learner import METRICS, Learner
from virel_tf.config import Config
from virel_tf.networks.critics import QNetwork, ValueNetwork
from virel_tf.networks.policies import Policy
from virel_tf.replay.ring import ReplayRing, Rows

BATCH = 4


def shaken(network, seed: int = 0):
    """The network with random weights and statistics."""
    random = np.random.default_rng(seed)
    for variable in network.variables:
        value = random.normal(size=variable.shape) / np.sqrt(
            variable.shape[0] if len(variable.shape) > 1 else 1
        )
        if "normaliser" not in variable.path:
            variable.assign(np.abs(value) + 0.5 if "variance" in variable.path else value)
    return network


NETWORKS = {
    "q": lambda kind: QNetwork(3, 2, hidden=8, layers=2, seed=1, normalisation=kind),
    "v": lambda kind: ValueNetwork(3, hidden=8, layers=2, seed=1, normalisation=kind),
    "gaussian": lambda kind: Policy(3, 2, 8, 2, 1, normalisation=kind),
    "deterministic": lambda kind: Policy(3, 2, 8, 2, 1, deterministic=True, normalisation=kind),
}


def inputs_of(name: str, rows: int = 50) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    sizes = (3, 2) if name == "q" else (3,)
    return [random.normal(size=[rows, size]).astype(np.float32) for size in sizes]


def make_learner(rows: int = BATCH, **settings) -> Learner:
    """A learner on a replay of a few random transitions; modern settings at a small size."""
    config = Config(
        env="Hopper-v4",
        **{
            **dict(
                hidden=8,
                batch_size=BATCH,
                replay_size=100,
                steps_per_iteration=1,
                reward_scaling="none",
                policy_averaging=0,
            ),
            **tuned(settings),
        },
    )
    random = np.random.default_rng(3)
    replay = ReplayRing(100, 1, 3, 2)
    replay.append(
        Rows(
            np.zeros(rows, np.int32),
            random.normal(size=[rows, 3]).astype(np.float32),
            random.uniform(-1, 1, [rows, 2]).astype(np.float32),
            random.normal(size=rows).astype(np.float32),
            np.zeros(rows, np.float32),
            np.ones(rows, bool),
        ),
        random.normal(size=[1, 3]).astype(np.float32),
    )
    return Learner(config, config.recipe, replay, 3, 2)


def update(learner: Learner, done: int = 0) -> dict[str, float]:
    metrics = learner.update(
        learner.replay.view(), tf.constant(done), tf.constant(10_000), tf.constant(1.0)
    ).numpy()
    return dict(zip(METRICS, metrics[0], strict=True))


def batch_of(learner: Learner, done: int = 0):
    return learner._draw(learner.replay.view(), 0, tf.constant(done), BATCH)
