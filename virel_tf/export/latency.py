"""`virel-tf latency`: how fast an exported policy answers.

Beside it stand the same matrix products in NumPy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from virel_tf import machine
from virel_tf.envs.make import make_env
from virel_tf.export.command import export_run
from virel_tf.networks.actor import Actor
from virel_tf.run_folder.policies import read_weights
from virel_tf.run_folder.restore import restore_policy
from virel_tf.run_folder.settings import read_run
from virel_tf.timing import measure

BATCHES = (1, 4, 16, 64, 256, 1024, 4096)


def measure_latency(run_dir: str, policy: str, seconds: float) -> dict[str, Any]:
    """Exports the run's policy, loads that and measures for about `seconds`.

    All in this process, without a network.
    """
    config = read_run(run_dir)
    machine.configure(config.threads)  # before anything else uses TensorFlow
    env = make_env(config.env)
    actor = Actor(restore_policy(config, env, read_weights(run_dir, policy)))
    with tempfile.TemporaryDirectory() as folder:
        export = export_run(run_dir, policy, Path(folder) / policy)
        model = tf.saved_model.load(export["path"])
    act = model.signatures["serving_default"]
    observations = (
        np.random.default_rng(0)
        .normal(size=[max(BATCHES), env.observation_size])
        .astype(np.float32)
    )

    def served(rows: int) -> Callable[[], object]:
        return lambda: act(observation=tf.constant(observations[:rows]))["action"].numpy()

    work = {f"served{rows}": (served(rows), rows) for rows in BATCHES}
    rates = measure(seconds, work | {"numpy": (lambda: actor.mean_action(observations[0]), 1)})
    return dict(
        env=config.env,
        variant=config.variant,
        policy=policy,
        hidden=config.hidden,
        layers=config.layers,
        served_us=round(1e6 / rates["served1"], 1),
        numpy_us=round(1e6 / rates["numpy"], 1),
        observations_per_s={str(rows): round(rates[f"served{rows}"]) for rows in BATCHES},
    )
