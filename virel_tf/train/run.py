"""A run: its environments, replay, learner and collector.

It is built from a Config and stepped by a generator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from virel_tf.algorithms.learner import METRICS, Learner
from virel_tf.config import Config
from virel_tf.envs.make import make_env
from virel_tf.errors import BadNumber
from virel_tf.replay.ring import ReplayRing, Rows
from virel_tf.run_folder.checkpoints import Checkpoint, CheckpointStore, Segment
from virel_tf.run_folder.policies import POLICY_ARRAYS, names_in_checkpoint
from virel_tf.train.collector import Collector, Episode


class Iteration(NamedTuple):
    """What one turn of Algorithms 1 and 2 produced."""

    step: int
    episodes: list[Episode]
    metrics: np.ndarray  # [U, len(METRICS)], empty before learning starts


class Run:
    """Everything that learns, and the counters.

    `save` and `restore` carry all of it through a checkpoint.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.envs = [make_env(config.env, config.path_length) for _ in range(config.num_envs)]
        sizes = self.envs[0].observation_size, self.envs[0].action_size
        self.replay = ReplayRing(config.replay_size, config.num_envs, *sizes)
        self.learner = Learner(config, config.recipe, self.replay, *sizes)
        self.collector = Collector(config, self.envs, self.learner, self.replay)
        self.step = 0
        self.updates = 0
        self.rows = 0  # rows ever appended to the replay
        self.unsaved: deque[Rows] = deque()  # those the newest checkpoint does not hold
        self.unsaved_rows = 0

    def iterate(self) -> Iterator[Iteration]:
        """Collects and learns, iteration by iteration, until total_steps."""
        while self.step < self.config.total_steps:
            rows, episodes = self.collector.collect(self.step, self.config.steps_per_iteration)
            self._remember(rows)
            self.step += self.config.steps_per_iteration
            yield Iteration(self.step, episodes, self.learn())

    def _remember(self, rows: Rows) -> None:
        """Keeps rows for the next checkpoint, but none that the ring has forgotten by then."""
        self.unsaved.append(rows)
        self.rows += len(rows.lane)
        self.unsaved_rows += len(rows.lane)
        while self.unsaved_rows - len(self.unsaved[0].lane) >= self.replay.rows_alive:
            self.unsaved_rows -= len(self.unsaved.popleft().lane)

    def learn(self) -> np.ndarray:
        """One call of the learner, once there is something to learn from; returns its metrics."""
        config = self.config
        updates = config.steps_per_iteration * config.updates_per_step
        if not updates or self.step <= config.random_steps or not self.replay.count.all():
            return np.zeros([0, len(METRICS)], np.float32)
        self.learner.reward_divisor.assign(self.collector.return_scale.divisor)
        metrics = self.learner.update(
            self.replay.view(),
            tf.constant(self.updates),
            tf.constant(self.collector.reward_count),
            tf.constant(self.collector.mean_abs_reward, tf.float32),
        ).numpy()
        self.learner.average_policy()
        bad = np.argwhere(~np.isfinite(metrics))
        if len(bad):
            update, metric = bad[0]
            raise BadNumber(
                f"step {self.step}: {METRICS[metric]} became {metrics[update, metric]} in update "
                f"{self.updates + update + 1}"
            )
        self.updates += updates
        return metrics

    def save(
        self, store: CheckpointStore, arrays: dict[str, np.ndarray], info: dict[str, Any]
    ) -> None:
        """Writes a checkpoint of the run, together with the caller's arrays and info."""
        state = {f"learner/{name}": value for name, value in self.learner.state().items()}
        learner = {name: variable.numpy() for name, variable in state.items()}
        for name, value in learner.items():
            if not np.isfinite(value).all():
                raise BadNumber(f"step {self.step}: {name} is not finite, so it was not saved")
        collector, blobs = self.collector.state()
        segment = None
        if self.unsaved:
            merged = Rows(*(np.concatenate(column) for column in zip(*self.unsaved, strict=True)))
            segment = Segment(self.rows - len(merged.lane), self.rows, merged._asdict())
        policy_arrays = names_in_checkpoint(
            self.learner.evaluated_policy,
            self.learner.critics.online,
            self.learner.reward_divisor,
            state,
        )
        counters = dict(updates=self.updates, rows=self.rows) | {POLICY_ARRAYS: policy_arrays}
        store.save(
            self.step,
            learner | collector | arrays,
            blobs,
            counters | info,
            segment,
            keep_from=self.rows - self.replay.rows_alive,
        )
        self.unsaved.clear()
        self.unsaved_rows = 0

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restores what `save` wrote."""
        prefix = "learner/"
        self.learner.load_state(
            {
                name[len(prefix) :]: value
                for name, value in checkpoint.arrays.items()
                if name.startswith(prefix)
            }
        )
        self.collector.load_state(checkpoint.arrays, checkpoint.blobs)
        for segment in checkpoint.segments:
            self.replay.append(Rows(**segment.arrays), self.collector.observation)
        self.step, self.updates = checkpoint.step, checkpoint.info["updates"]
        self.rows = checkpoint.info["rows"]

    def close(self) -> None:
        """Releases the environments."""
        for env in self.envs:
            env.close()
