"""The ring against a plain list of transitions.

For any mixture of terminations, truncations and lanes.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from virel_tf.errors import ConfigError
from virel_tf.replay.ring import ReplayRing, Rows

GO_ON, TERMINATE, TRUNCATE = 0, 1, 2


class Script:
    """Made-up environments, and the transitions a ring should hold.

    Observations are 1, 2, 3, ...
    """

    def __init__(self, lanes: int) -> None:
        self.clock = 0
        self.now = [self.tick() for _ in range(lanes)]
        self.transitions: list[list[tuple]] = [[] for _ in range(lanes)]

    def tick(self) -> float:
        self.clock += 1
        return float(self.clock)

    def step(self, lane: int, ending: int) -> list[tuple]:
        before, after = self.now[lane], self.tick()
        rows = [(lane, [before], [before / 2], before / 4, ending == TERMINATE, True)]
        # After a termination s' is of no account: only s, a, r and the end itself must be right.
        following = None if ending == TERMINATE else after
        self.transitions[lane].append(
            (before, before / 2, before / 4, float(ending == TERMINATE), following)
        )
        if ending == TRUNCATE:
            rows.append((lane, [after], [0.0], 0.0, False, False))
        self.now[lane] = after if ending == GO_ON else self.tick()
        return rows

    def newest(self) -> np.ndarray:
        return np.array(self.now, np.float32)[:, None]


def to_rows(rows: list[tuple]) -> Rows:
    dtypes = (np.int32, np.float32, np.float32, np.float32, np.float32, bool)
    return Rows(
        *(
            np.array(column, dtype)
            for column, dtype in zip(zip(*rows, strict=True), dtypes, strict=True)
        )
    )


def contents(ring: ReplayRing, n_step: int = 1) -> list[tuple]:
    """The transitions, oldest first, read through `sample` by drawing until each has been seen."""
    seen = {}
    batch = ring.sample(ring.view(), 64 * 200, tf.constant([1, 2]), n_step, discount=0.5)
    for s, a, r, end, following, discount in zip(*(part.numpy() for part in batch), strict=True):
        seen[float(s[0])] = (
            float(s[0]),
            float(a[0]),
            float(r),
            float(end),
            None if end else float(following[0]),
            float(discount),
        )
    return [seen[key] for key in sorted(seen)]


def spanning(transitions: list[tuple], n_step: int) -> list[tuple]:
    """What n-step sampling should make of a lane's consecutive transitions.

    The discount is a half.
    """
    result = []
    for i, (s, a, reward, end, following) in enumerate(transitions):
        steps = 1
        for later in transitions[i + 1 : i + n_step]:
            if end or later[0] != following:  # the episode ended, for good or not
                break
            reward += 0.5**steps * later[2]
            end, following = later[3:]
            steps += 1
        result.append((s, a, reward, end, following, 0.5**steps))
    return result


ENDINGS = st.sampled_from([GO_ON, GO_ON, TERMINATE, TRUNCATE])


BATCHES = st.lists(st.lists(ENDINGS, min_size=1, max_size=4), min_size=1, max_size=8)


@given(st.integers(1, 3), st.integers(1, 4), BATCHES)
@settings(max_examples=25, deadline=None)
def test_ring_holds_the_newest_transitions_whatever_the_episodes(lanes, n_step, batches):
    ring, script, log = ReplayRing(8 * lanes, lanes, 1, 1), Script(lanes), []
    for endings in batches:
        rows = [
            row for ending in endings for lane in range(lanes) for row in script.step(lane, ending)
        ]
        log += rows
        ring.append(to_rows(rows), script.newest())
    expected = []
    for lane in range(lanes):
        # As many as start among the slots there are, less the newest observation's, and never more
        # than 8.
        starts = [starts for row_lane, *_, starts in log if row_lane == lane][
            -(ring.lane_slots - 1) :
        ]
        assert ring.count[lane] == min(8, sum(starts))
        expected += spanning(script.transitions[lane][-int(ring.count[lane]) :], n_step)
    assert contents(ring, n_step) == sorted(expected)


def test_capacity_is_reached_where_episodes_are_long():
    ring, script = ReplayRing(200, 1, 1, 1), Script(1)
    for i in range(500):
        ring.append(to_rows(script.step(0, TRUNCATE if i % 200 == 199 else GO_ON)), script.newest())
    assert len(ring) == 200


def test_one_append_may_be_longer_than_the_ring():
    ring, script = ReplayRing(10, 1, 1, 1), Script(1)
    ring.append(to_rows([row for _ in range(37) for row in script.step(0, GO_ON)]), script.newest())
    assert contents(ring) == spanning(script.transitions[0][-10:], 1)


@pytest.mark.parametrize("lanes", [1, 2])
def test_ring_rebuilt_from_its_last_rows_draws_the_same(lanes):
    ring, script, log = ReplayRing(20 * lanes, lanes, 1, 1), Script(lanes), []
    for i in range(70):
        # The second lane is truncated at every step, so it fills twice as fast.
        rows = [
            row
            for lane in range(lanes)
            for row in script.step(lane, TRUNCATE if lane or i % 6 == 5 else GO_ON)
        ]
        log += rows
        ring.append(to_rows(rows), script.newest())
    again = ReplayRing(20 * lanes, lanes, 1, 1)
    again.append(to_rows(log[-ring.rows_alive :]), script.newest())
    for seed in range(20):
        for one, other in zip(
            *(r.sample(r.view(), 32, tf.constant([seed, 1])) for r in (ring, again)), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_sampling_is_uniform():
    ring, script = ReplayRing(7, 1, 1, 1), Script(1)
    for _ in range(12):
        ring.append(to_rows(script.step(0, GO_ON)), script.newest())
    draws = ring.sample(ring.view(), 70_000, tf.constant([1, 2])).observation.numpy()
    counts = np.unique(draws, return_counts=True)[1]
    assert len(counts) == 7
    assert (np.abs(counts - 10_000) < 4 * np.sqrt(70_000 * (1 / 7) * (6 / 7))).all()


def test_each_observation_is_stored_once():
    ring = ReplayRing(10_000, 1, 376, 17)
    stored = sum(
        int(tf.size(variable))
        for variable in (ring.observation, ring.action, ring.reward, ring.terminated, ring.starts)
    )
    assert 1 <= stored / (10_000 * (376 + 17 + 3)) < 1.02  # with a hundredth for truncations


def test_more_than_the_machine_s_memory_is_refused(monkeypatch):
    monkeypatch.setattr("virel_tf.replay.ring.memory", lambda: 24_000_000_000)
    with pytest.raises(
        ConfigError,
        match=(
            "replay_size: 1000000 transitions of 27648 numbers each need 112 GB, and "
            "there are 24 GB; it must be less"
        ),
    ):
        ReplayRing(1_000_000, 1, 96 * 96 * 3, 3)
