"""Environments: scaling, flattening, ends of episodes, and complaints.

Their state resumes bit for bit.
"""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from scripted_env import UNIT_BOX, Scripted

from virel_tf.envs import Environment, make_env
from virel_tf.errors import ConfigError


@pytest.fixture
def register():
    """Registers environments for the length of a test."""
    ids = []

    def add(env_id, entry_point):
        gymnasium.register(env_id, entry_point)
        ids.append(env_id)
        return env_id

    yield add
    for env_id in ids:
        del gymnasium.registry[env_id]


def one_step(action_space, action):
    inner = Scripted([np.zeros(1)], action_space=action_space)
    env = Environment(inner)
    env.reset()
    env.step(np.asarray(action, np.float32))
    return inner.action


# Actions


def test_humanoid_actions_are_scaled_to_its_bounds():
    env = make_env("Humanoid-v4")
    np.testing.assert_array_equal(env.action_low, np.full(17, -0.4, np.float32))
    np.testing.assert_array_equal(env.action_high, np.full(17, 0.4, np.float32))
    env.reset(seed=0)
    action = np.array([-1.0, 1.0, 0.0, 0.5, 3.0, -3.0] + [0.25] * 11, np.float32)
    env.step(action)
    control = env._env.unwrapped.data.ctrl
    np.testing.assert_allclose(
        control, [-0.4, 0.4, 0.0, 0.2, 0.4, -0.4] + [0.1] * 11, rtol=1e-6, atol=0
    )


def test_lopsided_box_of_two_dimensions():
    box = spaces.Box(np.array([[0.0, -2.0]]), np.array([[10.0, -1.0]]), dtype=np.float64)
    sent = one_step(box, [0.5, -1.0])
    assert sent.shape == (1, 2) and sent.dtype == np.float64
    np.testing.assert_array_equal(sent, [[7.5, -2.0]])


def test_bounds_are_reached_exactly_and_never_left():
    box = spaces.Box(np.float32(-0.1), np.float32(0.7), (2,), np.float32)
    assert np.array_equal(one_step(box, [-1.0, 1.0]), [box.low[0], box.high[0]])
    assert np.array_equal(one_step(box, [-1.5, 1e6]), [box.low[0], box.high[0]])


def test_box_as_wide_as_its_type():
    largest = np.finfo(np.float32).max
    box = spaces.Box(-largest, largest, (1,), np.float32)
    assert one_step(box, [0.0]) == 0 and one_step(box, [1.0]) == largest


def test_whole_number_actions_are_rounded():
    sent = one_step(spaces.Box(0, 10, (3,), np.int64), [0.99, -1.0, -0.25])
    assert sent.dtype == np.int64
    np.testing.assert_array_equal(sent, [10, 0, 4])


# Observations


def test_dict_observation_becomes_one_vector(register):
    space = spaces.Dict(
        {
            "a": spaces.Box(-9.0, 9.0, (2, 2)),
            "b": spaces.Discrete(3),
            "c": spaces.Tuple((spaces.Box(-9.0, 9.0, (1,)), spaces.Box(-9.0, 9.0, ()))),
        }
    )
    observation = {
        "a": np.array([[1, 2], [3, 4]], np.float32),
        "b": 1,
        "c": (np.array([5], np.float32), np.float32(6)),
    }
    env = make_env(register("Nested-v0", lambda: Scripted([observation], space)))
    assert env.observation_size == 9
    for vector in (env.reset(), env.step(np.zeros(1)).observation):
        assert vector.dtype == np.float32
        np.testing.assert_array_equal(vector, [1, 2, 3, 4, 0, 1, 0, 5, 6])


def test_image_is_flattened():
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    env = Environment(Scripted([image], spaces.Box(0, 255, (2, 4, 3), np.uint8)))
    assert env.observation_size == 24
    np.testing.assert_array_equal(env.reset(), np.arange(24, dtype=np.float32))


def test_observation_does_not_change_afterwards():
    inside = np.zeros(1, np.float32)
    env = Environment(Scripted([inside]))
    observation = env.reset()
    inside[0] = 1.0
    assert observation[0] == 0.0


# Ends of episodes


@pytest.mark.parametrize(
    "path_length, ends, expected",
    [
        (None, [(False, False), (False, False)], [(False, False), (False, False)]),
        (None, [(False, True)], [(False, True)]),
        (None, [(True, True)], [(True, True)]),
        (2, [(False, False), (False, False)], [(False, False), (False, True)]),
        (2, [(False, False), (True, False)], [(False, False), (True, False)]),
        (2, [(False, False), (True, True)], [(False, False), (True, True)]),
        (3, [(True, False)], [(True, False)]),
    ],
)
def test_terminated_and_truncated_are_kept_apart(path_length, ends, expected):
    env = Environment(Scripted([np.zeros(1)], ends=ends), path_length)
    env.reset()
    steps = [env.step(np.zeros(1)) for _ in ends]
    assert [(step.terminated, step.truncated) for step in steps] == expected
    assert all(type(step.reward) is float and type(step.terminated) is bool for step in steps)


@pytest.mark.parametrize("path_length, length", [(None, 10), (7, 7), (999, 10)])
def test_own_time_limit_holds_beside_path_length(path_length, length):
    env = make_env("virel_tf/EndlessReward-v0", path_length)
    for _ in range(2):
        assert env.reset(seed=0) == [1.0]
        steps = [env.step(np.zeros(1)) for _ in range(length)]
        assert [step.truncated for step in steps] == [False] * (length - 1) + [True]
        assert {(step.observation[0], step.reward, step.terminated) for step in steps} == {
            (1.0, 1.0, False)
        }


@pytest.mark.parametrize(
    "env_id, observation_good, reward_good",
    [("virel_tf/NaN-v0", False, True), ("virel_tf/NaNReward-v0", True, False)],
)
def test_nan_environments_go_bad_at_the_fiftieth_step_of_all(env_id, observation_good, reward_good):
    env = make_env(env_id, path_length=20)
    for count in range(1, 51):
        if count % 20 == 1:
            assert np.isfinite(env.reset()).all()
        step = env.step(np.zeros(1))
        early = count < 50
        assert np.isfinite(step.observation).all() == (early or observation_good)
        assert np.isfinite(step.reward) == (early or reward_good)


# Complaints


@pytest.mark.parametrize(
    "env_id, message",
    [
        (
            "CartPole-v1",
            "env: CartPole-v1 has a Discrete action space; a Box (continuous) one is needed",
        ),
        (
            "HalfCheeta-v4",
            "env: 'HalfCheeta-v4' is not registered in gymnasium (did you mean HalfCheetah-v4?)",
        ),
        (
            "humanoid-v2",
            "env: 'humanoid-v2' is not registered in gymnasium (did you mean Humanoid-v5?)",
        ),
        (
            "Pendulum-v7",
            "env: 'Pendulum-v7' is not registered in gymnasium (did you mean Pendulum-v1?)",
        ),
        ("qqqqqqqq/zzzz-v0", "env: 'qqqqqqqq/zzzz-v0' is not registered in gymnasium"),
        ("not an id", "env: 'not an id' is not registered in gymnasium"),
        ("", "env: '' is not an id such as Hopper-v4 or module:Name-v0"),
        ("a:b:c", "env: 'a:b:c' is not an id such as Hopper-v4 or module:Name-v0"),
        (
            "Humanoid-v2",
            "env: Humanoid-v2 is no longer part of gymnasium; use Humanoid-v4 or Humanoid-v5",
        ),
        (
            "Hopper-v3",
            "env: Hopper-v3 is no longer part of gymnasium; use Hopper-v4 or Hopper-v5",
        ),
    ],
)
def test_ids_that_cannot_be_used(env_id, message):
    with pytest.raises(ConfigError) as caught:
        make_env(env_id)
    assert str(caught.value) == message


def test_module_that_does_not_exist():
    with pytest.raises(
        ConfigError, match="^env: no_such_module:Some-v0 cannot be imported: No module"
    ):
        make_env("no_such_module:Some-v0")


def raising(error):
    def entry_point():
        raise error

    return entry_point


@pytest.mark.parametrize(
    "entry_point, message",
    [
        (
            lambda: Scripted([], action_space=spaces.Box(-np.inf, np.inf, (2,))),
            (
                "env: Odd-v0 has an action space without bounds; a Box with finite low and high"
                " is needed"
            ),
        ),
        (
            lambda: Scripted(
                [],
                action_space=spaces.Box(
                    np.array([0, 0], np.float32), np.array([1, np.inf], np.float32)
                ),
            ),
            (
                "env: Odd-v0 has an action space without bounds; a Box with finite low and high"
                " is needed"
            ),
        ),
        (
            lambda: Scripted([], spaces.Sequence(UNIT_BOX)),
            (
                "env: Odd-v0 has observations (Sequence) that cannot be made a vector of fixed"
                " length"
            ),
        ),
        (
            raising(gymnasium.error.DependencyNotInstalled("install\nwheels")),
            "env: Odd-v0 needs a package that is missing: install wheels",
        ),
        (raising(gymnasium.error.Error("no wheels")), "env: Odd-v0 cannot be made: no wheels"),
    ],
)
def test_environments_that_cannot_be_used(register, entry_point, message):
    register("Odd-v0", entry_point)
    with pytest.raises(ConfigError) as caught:
        make_env("Odd-v0")
    assert str(caught.value) == message


def test_old_versions_are_made_without_a_word(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make_env("HalfCheetah-v4")
    assert not caught
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "env_id, follows", [("HalfCheetah-v4", True), ("InvertedPendulum-v4", False)]
)
def test_pictures_follow_a_robot_whose_model_has_a_camera_for_it(env_id, follows):
    env = make_env(env_id, render_mode="rgb_array")
    assert (env._env.unwrapped.mujoco_renderer.camera_id >= 0) == follows
    env.close()
