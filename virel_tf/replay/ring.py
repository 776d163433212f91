"""The replay D: a ring in TensorFlow variables, sampled inside the graph.

Every observation is stored once.

Each environment has a lane of consecutive slots. A slot holds (s, a, r, terminated); s' is the
observation of the slot after it. So the newest observation is always written one slot ahead, and an
episode that is cut off by truncation leaves one slot more, which holds its last observation and
starts no transition. After a terminated episode nothing is bootstrapped, so its s' may be any
observation, and it needs no slot. A slot that starts no transition has NO_START in place of
`terminated`, so that sums over several steps stop there.

`starts` lists the slots that do start a transition, oldest first: drawing from it is uniform within
a lane, and lanes are equally likely.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from virel_tf.errors import ConfigError
from virel_tf.machine import memory
from virel_tf.transition import Transition

NO_START = -1.0


class Rows(NamedTuple):
    """Slots in the order they were filled, of all lanes together.

    What the ring is made of and restored from.
    """

    lane: np.ndarray  # [N] int32
    observation: np.ndarray  # [N, D] float32
    action: np.ndarray  # [N, A] float32
    reward: np.ndarray  # [N] float32
    terminated: np.ndarray  # [N] float32
    # [N] bool, false where the slot only holds a truncated episode's last observation
    starts: np.ndarray


class ReplayView(NamedTuple):
    """Which transitions the ring holds now: what `sample` draws from."""

    first: tf.Tensor  # [E] int32, the oldest position in each lane
    count: tf.Tensor  # [E] int32, how many there are


class ReplayRing:
    """Up to `capacity` transitions from `lanes` environments.

    They are drawn as [B, ...] batches with stateless seeds.
    """

    def __init__(self, capacity: int, lanes: int, observation_size: int, action_size: int) -> None:
        self.lanes = lanes
        self.lane_capacity = capacity // lanes
        # One slot in a hundred for truncated episodes' last observations, and the newest
        # observation's.
        self.lane_slots = self.lane_capacity + self.lane_capacity // 100 + 2
        slots = lanes * self.lane_slots
        size = 4 * slots * (observation_size + action_size + 3)
        if size > memory():
            raise ConfigError(
                "replay_size",
                f"{capacity} transitions of {observation_size} numbers each need "
                f"{size / 1e9:.0f} GB, and there are {memory() / 1e9:.0f} GB; it must be less",
            )
        with tf.device("CPU"):
            self.observation = tf.Variable(tf.zeros([slots, observation_size]), trainable=False)
            self.action = tf.Variable(tf.zeros([slots, action_size]), trainable=False)
            self.reward = tf.Variable(tf.zeros([slots]), trainable=False)
            self.terminated = tf.Variable(tf.zeros([slots]), trainable=False)
            self.starts = tf.Variable(tf.zeros([slots], tf.int32), trainable=False)
        self.head = [0] * lanes  # slot of each lane's newest observation
        # position of the oldest transition in the lane's part of `starts`
        self.first = np.zeros(lanes, np.int64)
        self.count = np.zeros(lanes, np.int64)  # transitions in the lane
        # host copy of `starts`, to know what is dropped
        self._slot_of = np.zeros([lanes, self.lane_slots], np.int32)
        self._write = tf.function(
            self._scatter,
            input_signature=[
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None, observation_size]),
                tf.TensorSpec([None, action_size]),
                tf.TensorSpec([None]),
                tf.TensorSpec([None]),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None], tf.int32),
            ],
        )

    def __len__(self) -> int:
        return int(self.count.sum())

    @property
    def rows_alive(self) -> int:
        """How many of the last rows appended may still be in the ring.

        A lane can fill at most twice as fast.
        """
        return self.lanes * self.lane_slots * (1 if self.lanes == 1 else 2)

    def append(self, rows: Rows, newest: np.ndarray) -> None:
        """Adds rows in their order and, one slot ahead in each lane, its newest observation.

        newest: [E, D].
        """
        chunk = self.lane_slots // 2  # so that no call writes a slot twice
        for begin in range(0, max(len(rows.lane), 1), chunk):
            self._append(Rows(*(part[begin : begin + chunk] for part in rows)), newest)

    def _append(self, rows: Rows, newest: np.ndarray) -> None:
        slots, positions, starting_slots = [], [], []
        for lane, starts in zip(rows.lane.tolist(), rows.starts.tolist(), strict=True):
            slot = self.head[lane]
            slots.append(lane * self.lane_slots + slot)
            if starts:
                positions.append(lane * self.lane_slots + self._push(lane, slot))
                starting_slots.append(slots[-1])
            self.head[lane] = (slot + 1) % self.lane_slots
            self._drop_start(lane, self.head[lane])
        heads = [lane * self.lane_slots + head for lane, head in enumerate(self.head)]
        padding = np.zeros([self.lanes, rows.action.shape[1]], np.float32)
        terminated = np.append(
            np.where(rows.starts, rows.terminated, NO_START), padding[:, 0] + NO_START
        )
        self._write(
            np.array(slots + heads, np.int32),
            np.concatenate([rows.observation, newest]),
            np.concatenate([rows.action, padding]),
            np.append(rows.reward, padding[:, 0]),
            terminated.astype(np.float32),
            np.array(positions, np.int32),
            np.array(starting_slots, np.int32),
        )

    def _push(self, lane: int, slot: int) -> int:
        """Enters a transition's slot at the end of the lane's list and returns its position there."""
        if self.count[lane] == self.lane_capacity:
            self._drop_oldest(lane)
        position = int(self.first[lane] + self.count[lane]) % self.lane_slots
        self._slot_of[lane, position] = slot
        self.count[lane] += 1
        return position

    def _drop_start(self, lane: int, slot: int) -> None:
        """Forgets the oldest transition if it starts in a slot about to be overwritten."""
        if self.count[lane] and self._slot_of[lane, self.first[lane]] == slot:
            self._drop_oldest(lane)

    def _drop_oldest(self, lane: int) -> None:
        self.first[lane] = (self.first[lane] + 1) % self.lane_slots
        self.count[lane] -= 1

    def _scatter(
        self,
        slots: tf.Tensor,
        observation: tf.Tensor,
        action: tf.Tensor,
        reward: tf.Tensor,
        terminated: tf.Tensor,
        positions: tf.Tensor,
        starting_slots: tf.Tensor,
    ) -> None:
        for variable, value in (
            (self.observation, observation),
            (self.action, action),
            (self.reward, reward),
            (self.terminated, terminated),
        ):
            tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=slots, updates=value)
        tf.raw_ops.ResourceScatterUpdate(
            resource=self.starts.handle, indices=positions, updates=starting_slots
        )

    def view(self) -> ReplayView:
        """The transitions currently stored."""
        return ReplayView(tf.constant(self.first, tf.int32), tf.constant(self.count, tf.int32))

    def sample(
        self, view: ReplayView, size: int, seed: tf.Tensor, n_step: int = 1, discount: float = 1.0
    ) -> Transition:
        """`size` transitions of the view drawn uniformly, with replacement; in the graph.

        A transition spans n_step steps, or as many as there are to the end of the episode or of
        what has been seen.
        """
        draws = tf.random.stateless_uniform(
            [2, size], seed, minval=None, maxval=None, dtype=tf.int32
        )
        # 31 random bits modulo the count: for a million transitions the bias is below one in two
        # thousand.
        draws = tf.bitwise.bitwise_and(draws, tf.int32.max)
        lane = draws[0] % self.lanes
        position = (
            tf.gather(view.first, lane) + draws[1] % tf.gather(view.count, lane)
        ) % self.lane_slots
        slot = tf.gather(self.starts, lane * self.lane_slots + position)
        begin = lane * self.lane_slots

        def ahead(steps: tf.Tensor | int) -> tf.Tensor:
            return begin + (slot - begin + steps) % self.lane_slots

        reward, terminated = tf.gather(self.reward, slot), tf.gather(self.terminated, slot)
        steps = tf.ones_like(slot)
        factor = tf.fill([size], discount)
        for step in range(1, n_step):
            ending = tf.gather(self.terminated, ahead(step))
            continues = (terminated == 0) & (steps == step) & (ending != NO_START)
            reward += tf.where(continues, factor * tf.gather(self.reward, ahead(step)), 0.0)
            terminated = tf.where(continues, ending, terminated)
            factor = tf.where(continues, factor * discount, factor)
            steps += tf.cast(continues, tf.int32)
        return Transition(
            tf.gather(self.observation, slot),
            tf.gather(self.action, slot),
            reward,
            terminated,
            tf.gather(self.observation, ahead(steps)),
            factor,
        )
